"""Graphs and messages as files: `tf.train.write_graph`, and the writing and reading that exported MetaGraphs share.

Policy. A file is written beside its place and renamed, so that who reads it sees the old one or the new one, whole. A
message that is read may be binary or text; what tells them apart is which one parses.
"""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import message, text_format

from anabranch.core import errors, file_errors
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph
from anabranch.formats import staging


def write_atomically(path: str, data: bytes) -> None:
    """Write a file so that at any moment either the old or the new content is there; make its folder.

    Raises:
        OpError: of the class that fits what the file system says, `tf.errors.ResourceExhaustedError` for a full disk.
    """
    path = file_errors.local(path)
    with file_errors.translated(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with staging.Staged() as stage:
        with stage.open(path) as stream:
            stream.write(data)
        stage.commit()
    staging.remove_leftovers(path)


def write_message(path: str, proto: Any, as_text: bool = False) -> None:
    """Write a message, as text if asked."""
    # Not `str`, a tenth of the time: before protobuf 7 it leaves quotes within a value as they are.
    write_atomically(path, text_format.MessageToString(proto).encode() if as_text else proto.SerializeToString())


def read_message(path: str, kind: Any, what: str) -> Any:
    """Read a message of class ``kind``, binary or text; ``what`` names it in errors.

    Raises:
        OSError: there is no such file, or it is neither.
    """
    path = file_errors.local(path)
    if not os.path.isfile(path):
        raise OSError(
            f"File {path} does not exist.\n" + errors.message(f"{path!r}", f"a file with a {what}", "check the path")
        )
    with open(path, "rb") as stream:
        data = stream.read()
    proto = kind()
    try:
        proto.ParseFromString(data)
        return proto
    except message.DecodeError as problem:
        binary = str(problem)
    try:
        known = text_format.Parse(data, kind(), allow_unknown_field=True)
        if not known.ListFields():  # a message of another kind, or the unknown fields would not be all that it has
            text_format.Parse(data, kind())
        return known
    except (text_format.ParseError, UnicodeDecodeError, ValueError) as problem:
        raise OSError(
            f"Cannot parse file {path}: {problem}.\n"
            + errors.message(
                f"{path!r} of {len(data)} bytes, which is neither a binary {what} ({binary}) nor text",
                f"a {what}, binary or text",
                "check that the file is whole and holds what its name says",
            )
        ) from None


@public("train.write_graph", "io.write_graph")
def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Write a graph (a `Graph` or a GraphDef) to the file ``name`` in the folder ``logdir``, which is made if needed.

    Args:
        graph_or_graph_def: the graph; other messages, such as a MetaGraphDef or a SaverDef, are written as they are.
        logdir: folder.
        name: name of the file.
        as_text: as text, else binary.

    Returns:
        The file's path.
    """
    if isinstance(graph_or_graph_def, Graph):
        proto = graph_or_graph_def.as_graph_def()
    else:
        proto = graph_or_graph_def
        if not isinstance(proto, message.Message):
            raise TypeError(
                errors.message(f"a {type(proto).__name__}", "a tf.Graph or a GraphDef", "pass session.graph")
            )
    path = os.path.join(logdir, name)
    write_message(path, proto, as_text)
    return path


__all__ = ["read_message", "write_atomically", "write_graph", "write_message"]
