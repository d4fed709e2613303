"""Paths that programs give: local ones, and those of other file systems (``gs://``, ``s3://``, ``hdfs://``).

``file://`` is local. Sources of data (records, lines, names by a pattern) read other file systems through fsspec where
that is installed. Everything else refuses them, and so does everything without it.
"""

from __future__ import annotations

import glob
import importlib
import importlib.util
import os
import re
from typing import Any

from anabranch.core import errors
from anabranch.core.file_errors import translated

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def local(path: Any, op: Any = None) -> str:
    """A path as text without ``file://``; UnimplementedError for another file system."""
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = text.decode()
    match = _SCHEME.match(text)
    if match is None:
        return text
    if match[1] == "file":
        return text[match.end() :]
    raise errors.UnimplementedError(
        None,
        op,
        errors.message(
            f"the path {text!r} on the file system {match[1]!r}",
            "a local path",
            f"fsspec.filesystem({match[1]!r}).get(remote, local) before, and .put(local, remote) after",
        ),
    )


def _remote(path: str) -> Any:
    """fsspec if a path is of another file system and it is installed; None for a local path.

    Raises:
        UnimplementedError: another file system without fsspec.
    """
    match = _SCHEME.match(path)
    if match is None or match[1] == "file":
        return None
    if importlib.util.find_spec("fsspec") is None:
        local(path)
    return importlib.import_module("fsspec")


def open_bytes(path: str) -> Any:
    """A file that is open for reading bytes, without a buffer of ours."""
    library = _remote(path)
    with translated(path):
        return open(local(path), "rb", buffering=0) if library is None else library.open(path, "rb").open()


def size_of(path: str) -> int | None:
    """The size of a local file in bytes; None for another file system."""
    if _remote(path) is not None:
        return None
    with translated(path):
        return os.path.getsize(local(path))


def matching(pattern: str) -> list[str]:
    """The names of files that match a pattern, sorted."""
    library = _remote(pattern)
    if library is None:
        return sorted(glob.glob(local(pattern), include_hidden=True))
    system, inner = library.core.url_to_fs(pattern)
    return sorted(str(system.unstrip_protocol(name)) for name in system.glob(inner))
