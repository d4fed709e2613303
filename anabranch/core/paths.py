"""Paths that programs give: local ones, and those of other file systems (``gs://``, ``s3://``, ``hdfs://``).

``file://`` is local. Sources of data (records, lines, names by a pattern) read other file systems through fsspec where
that is installed. Everything else refuses them, and so does everything without it.
"""

from __future__ import annotations

import glob
import importlib
import importlib.util
import os
from typing import Any

from anabranch.core.file_errors import SCHEME, check_local, error_of, local, translated


def _remote(path: str) -> Any:
    """fsspec if a path is of another file system and it is installed; None for a local path.

    Raises:
        UnimplementedError: another file system without fsspec.
    """
    match = SCHEME.match(path)
    if match is None or match[1] == "file":
        return None
    if importlib.util.find_spec("fsspec") is None:
        local(path)
    return importlib.import_module("fsspec")


def open_bytes(path: str) -> Any:
    """A file that is open for reading bytes, without a buffer of ours."""
    library = _remote(path)
    if library is not None:
        try:
            return library.open(path, "rb").open()
        except OSError as problem:
            raise error_of(problem, path) from problem
    with translated(local(path)):
        return open(local(path), "rb", buffering=0)


def size_of(path: str) -> int | None:
    """The size of a local file in bytes; None for another file system."""
    if _remote(path) is not None:
        return None
    with translated(local(path)):
        return os.path.getsize(local(path))


def matching(pattern: str) -> list[str]:
    """The names of files that match a pattern, sorted."""
    library = _remote(pattern)
    if library is None:
        return sorted(glob.glob(local(pattern), include_hidden=True))
    system, inner = library.core.url_to_fs(pattern)
    return sorted(str(system.unstrip_protocol(name)) for name in system.glob(inner))


__all__ = ["check_local", "local", "matching", "open_bytes", "size_of"]
