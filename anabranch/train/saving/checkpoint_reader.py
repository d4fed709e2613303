"""Looking into checkpoints without a graph: names, shapes, dtypes, values."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values import dtypes
from anabranch.formats import checkpoints
from anabranch.train.saving import checkpoint_state


@public("train.CheckpointReader")
class CheckpointReader:
    """A checkpoint that is open for reading.

    Args:
        filepattern: its path, without ``.index``; for the format V1 also a pattern for several files.

    Raises:
        NotFoundError: there is none. DataLossError: it is damaged.
    """

    def __init__(self, filepattern: Any) -> None:
        self._reader = checkpoints.open_checkpoint(checkpoint_state.as_path(filepattern))

    def has_tensor(self, tensor_str: Any) -> bool:
        """Whether there is a tensor of that name."""
        return os.fsdecode(tensor_str) in self._reader.tensors

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Names to shapes, as lists."""
        return {name: list(facts.shape) for name, facts in self._reader.tensors.items()}

    def get_variable_to_dtype_map(self) -> dict[str, dtypes.DType]:
        """Names to dtypes."""
        return {name: facts.dtype for name, facts in self._reader.tensors.items()}

    def get_tensor(self, tensor_str: Any) -> Any:
        """The value of a tensor, put together if it was saved in slices: an array, or a scalar for rank 0.

        Raises:
            NotFoundError: there is no such tensor. DataLossError: its bytes are damaged.
        """
        name = os.fsdecode(tensor_str)
        if name not in self._reader.tensors:
            raise errors.NotFoundError(None, None, f"Key {name} not found in checkpoint {self._reader.prefix}")
        value = self._reader.read(name)
        return value[()] if value.ndim == 0 else value

    def debug_string(self) -> bytes:
        """All tensors with their dtypes and shapes, one a line."""
        lines = [
            f"{name} (DT_{dtypes.proto_name(facts.dtype).upper()}) [{','.join(map(str, facts.shape))}]"
            for name, facts in sorted(self._reader.tensors.items())
        ]
        return "\n".join(lines).encode("utf-8", "surrogateescape")


@public("train.NewCheckpointReader", "pywrap_tensorflow.NewCheckpointReader")
def NewCheckpointReader(filepattern: Any) -> CheckpointReader:
    """A reader for the checkpoint at a path; see :class:`CheckpointReader`.

    Example:
        >>> import anabranch as tf, tempfile
        >>> v = tf.Variable([[1.0, 2.0]], name="v")
        >>> with tf.Session() as session:
        ...     session.run(v.initializer)
        ...     path = tf.train.Saver().save(session, tempfile.mkdtemp() + "/model")
        >>> reader = tf.train.NewCheckpointReader(path)
        >>> reader.get_variable_to_shape_map(), reader.get_tensor("v").tolist()
        ({'v': [1, 2]}, [[1.0, 2.0]])
    """
    return CheckpointReader(filepattern)


def checkpoint_path(ckpt_dir_or_file: Any) -> str:
    """The path of a checkpoint; for a folder, that of its newest.

    Raises:
        ValueError: the folder has none.
    """
    path = checkpoint_state.as_path(ckpt_dir_or_file)
    if not os.path.isdir(path):
        return path
    newest = checkpoint_state.latest_checkpoint(path)
    if newest is None and checkpoint_state.checkpoint_exists(path):  # a checkpoint beside a folder of its name
        return path
    if newest is None:
        raise ValueError(
            f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}\n"
            + errors.message(f"the folder {path!r}", "one with a checkpoint", "the path that saver.save returned")
        )
    return newest


@public("train.load_checkpoint")
def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """A reader for a checkpoint, or for the newest one of a folder."""
    return CheckpointReader(checkpoint_path(ckpt_dir_or_file))


@public("train.list_variables")
def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """Names and shapes of the tensors of a checkpoint (or of the newest of a folder), sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


@public("train.load_variable")
def load_variable(ckpt_dir_or_file: Any, name: str) -> np.ndarray:
    """The value of one tensor of a checkpoint (or of the newest of a folder)."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


__all__ = [
    "CheckpointReader",
    "NewCheckpointReader",
    "checkpoint_path",
    "list_variables",
    "load_checkpoint",
    "load_variable",
]
