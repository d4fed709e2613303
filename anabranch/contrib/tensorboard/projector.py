"""``tf.contrib.tensorboard.plugins.projector``: which embeddings TensorBoard shows, written beside the summaries."""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import text_format

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.protos import projector_pb2
from anabranch.platform import gfile

_HOME = "contrib.tensorboard.plugins.projector."
for _name in ("EmbeddingInfo", "ProjectorConfig", "SpriteMetadata"):
    public(_HOME + _name)(getattr(projector_pb2, _name))
FILE_NAME = "projector_config.pbtxt"


@public(_HOME + "visualize_embeddings")
def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Write a ``ProjectorConfig`` where TensorBoard looks for it: into the folder of a summary writer (or a folder).

    Args:
        summary_writer: a ``tf.summary.FileWriter``, or a path.
        config: which variables to show, with names of files of labels and pictures.

    Raises:
        ValueError: the writer has no folder.
    """
    folder = summary_writer.get_logdir() if hasattr(summary_writer, "get_logdir") else os.fspath(summary_writer)
    if not folder:
        raise ValueError(
            "Summary writer must have a logdir\n"
            + errors.message("a writer without folder", "a folder", "FileWriter(folder)")
        )
    gfile.MakeDirs(folder)
    with gfile.GFile(os.path.join(folder, FILE_NAME), "w") as file:
        file.write(text_format.MessageToString(config))
