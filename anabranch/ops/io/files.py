"""Whole files as strings: reading, writing, names that match a pattern. On the host, when the op runs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from anabranch.core import errors, paths
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import IO, PURE, NotDifferentiable, Op
from anabranch.core.file_errors import translated
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import shapes

_NO_GRADIENT = NotDifferentiable("a file has no gradient")


def _path(value: Any) -> str:
    return os.fsdecode(np.asarray(value, object).item())


def _whole_file(path: str, op: Any) -> bytes:
    """The bytes of a file, with as few calls as there can be: pipelines read a small one for each element."""
    if ":" not in path:
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError):
            handle = -1  # said below, as for all files
        if handle >= 0:
            try:
                size = os.fstat(handle).st_size
                contents = os.read(handle, size + 1)  # one more byte than it has: that it ends there is seen, too
                if size and len(contents) == size:
                    return contents
            except OSError:
                pass
            finally:
                os.close(handle)
    with translated(path, op), open(path, "rb", buffering=0) as file:
        return file.readall()


class ReadFile(Op):
    """The bytes of a file."""

    signature = "filename: string -> contents: string"
    effect = PURE
    deterministic = False  # the file may be another one by the next run
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("filename", 0)
        return ()

    def host_kernel(ctx, inputs, attrs):
        made = np.empty((), object)
        made[()] = _whole_file(_path(inputs[0]), ctx.op)
        return made


class WriteFile(Op):
    """Write bytes to a file; folders above it are made."""

    signature = "filename: string, contents: string -> "
    effect = IO
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("filename", 0)
        c.with_rank("contents", 0)
        return []

    def host_kernel(ctx, inputs, attrs):
        path = _path(inputs[0])
        with translated(path, ctx.op):
            if os.path.dirname(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(np.asarray(inputs[1], object).item())
        return ()


class MatchingFiles(Op):
    """Names of files that match one of some patterns, sorted."""

    signature = "pattern: string -> filenames: string"
    effect = PURE
    deterministic = False
    gradient = _NO_GRADIENT

    def shape(c):
        given = c.shapes[0]
        if given is not None and len(given) > 1:
            raise ValueError(
                errors.message(f"patterns of shape {shapes.show(given)}", "a string or a vector", "tf.reshape(x, [-1])")
            )
        return (None,)

    def host_kernel(ctx, inputs, attrs):
        names: list[bytes] = []
        for pattern in np.asarray(inputs[0], object).ravel().tolist():
            names += [os.fsencode(name) for name in paths.matching(os.fsdecode(pattern))]
        array = np.empty(len(names), object)
        array[:] = sorted(names)
        return array


@public("read_file", "io.read_file")
def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The bytes of a file, a string scalar."""
    return build("ReadFile", filename, name=name)


@public("write_file", "io.write_file")
def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """An op that writes a string to a file."""
    return build("WriteFile", filename, contents, name=name)


@public("matching_files", "io.matching_files")
def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """Names of files that match a pattern or one of several, sorted."""
    return build("MatchingFiles", pattern, name=name)
