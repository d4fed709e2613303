"""Paths that programs give: local ones, and those of other file systems (``gs://``, ``s3://``, ``hdfs://``).

``file://`` is local. Sources of data (records, lines, names by a pattern) read other file systems through fsspec where
that is installed. Everything else refuses them, and so does everything without it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import importlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

from anabranch.core import errors
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


@contextlib.contextmanager
def _asked(path: str) -> Iterator[None]:
    """Around what fsspec is asked of a path: its exceptions, which are those of many libraries, become ours."""
    try:
        yield
    except OSError as problem:
        raise error_of(problem, path) from problem
    except (ImportError, ValueError) as problem:  # a file system that nobody knows, or whose library is not there
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"the path {path!r}: {problem}",
                f"a file system that fsspec can open: {SCHEME.match(path)[1]!r} and its library",  # type: ignore[index]
                "pip install what the first line names, or a local copy of the files",
            ),
        ) from problem
    except errors.OpError:
        raise
    except Exception as problem:
        raise errors.UnknownError(None, None, f"{path}; {type(problem).__name__}: {problem}") from problem


def open_bytes(path: str) -> Any:
    """A file that is open for reading bytes, without a buffer of ours."""
    library = _remote(path)
    if library is not None:
        with _asked(path):
            return library.open(path, "rb").open()
    with translated(local(path)):
        return open(local(path), "rb", buffering=0)


def size_of(path: str) -> int | None:
    """The size of a local file in bytes; None for another file system."""
    if _remote(path) is not None:
        return None
    with translated(local(path)):
        return os.path.getsize(local(path))


def matching_here(pattern: str, hidden: bool = True) -> list[str]:
    """The local paths that match a pattern, sorted; ``*`` does not cross folders.

    A folder that is not there, or that must not be looked into, holds nothing. Whatever else keeps from looking is
    raised: `glob` finds no files then, and a program would begin anew, or train on half of its input.

    Args:
        pattern: the pattern.
        hidden: whether ``*`` stands for names that begin with a dot, too, as in TensorFlow.
    """
    return sorted(_matching_here(pattern, hidden))


def _matching_here(pattern: str, hidden: bool) -> list[str]:
    if not glob.has_magic(pattern):
        return [pattern] if os.path.lexists(pattern) else []
    head, tail = os.path.split(pattern)
    found: list[str] = []
    for folder in _matching_here(head, hidden) if glob.has_magic(head) else [head]:
        if not glob.has_magic(tail):
            path = os.path.join(folder, tail)
            found += [path] if os.path.lexists(path) and (tail or os.path.isdir(folder)) else []
            continue
        try:
            with os.scandir(folder or os.curdir) as entries:
                names = [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (OSError, ValueError) as problem:
            raise error_of(problem, folder or os.curdir) from None
        found += [os.path.join(folder, name) for name in fnmatch.filter(names, tail) if hidden or name[0] != "."]
    return found


def walk_here(top: str, top_first: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """What `os.walk` gives, raising what keeps from looking as :func:`matching_here` does."""

    def refuse(problem: OSError) -> None:
        if not isinstance(problem, (FileNotFoundError, NotADirectoryError, PermissionError)):
            raise error_of(problem, str(problem.filename or top)) from None

    yield from os.walk(top, topdown=top_first, onerror=refuse)


def matching(pattern: str) -> list[str]:
    """The names of files that match a pattern, sorted."""
    library = _remote(pattern)
    if library is None:
        return matching_here(local(pattern))
    with _asked(pattern):
        system, inner = library.core.url_to_fs(pattern)
        return sorted(str(system.unstrip_protocol(name)) for name in system.glob(inner))


__all__ = ["check_local", "local", "matching", "matching_here", "open_bytes", "size_of", "walk_here"]
