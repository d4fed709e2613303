"""``tf.io.gfile``: files under TensorFlow's later names. What they do stands in :mod:`anabranch.platform.files`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.platform import files

api.publish_as("io.gfile.GFile", files.GFile)


@public("io.gfile.exists")
def exists(path: Any) -> bool:
    """Whether a path exists."""
    return files.exists(path)


@public("io.gfile.remove")
def remove(path: Any) -> None:
    """Delete a file."""
    files.remove(path)


@public("io.gfile.glob")
def glob(pattern: Any) -> list[str]:
    """Paths that match a pattern, or one of several, sorted."""
    return files.matching(pattern)


@public("io.gfile.mkdir")
def mkdir(path: Any) -> None:
    """Make one folder."""
    files.make_folder(path)


@public("io.gfile.makedirs")
def makedirs(path: Any) -> None:
    """Make a folder and those above it."""
    files.make_folders(path)


@public("io.gfile.copy")
def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file."""
    files.copy(src, dst, overwrite)


@public("io.gfile.rename")
def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Move a file."""
    files.rename(src, dst, overwrite)


@public("io.gfile.rmtree")
def rmtree(path: Any) -> None:
    """Delete a folder with all that is in it."""
    files.remove_tree(path)


@public("io.gfile.isdir")
def isdir(path: Any) -> bool:
    """Whether a path is a folder."""
    return files.is_folder(path)


@public("io.gfile.listdir")
def listdir(path: Any) -> list[str]:
    """Names in a folder, sorted."""
    return files.listing(path)


@public("io.gfile.walk")
def walk(
    top: Any, topdown: bool = True, onerror: Callable[[Exception], Any] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Folders under ``top``, each with its subfolders and files; ``onerror`` gets the error if there is no ``top``."""
    if not files.is_folder(top):
        try:
            files.listing(top)
        except Exception as problem:
            if onerror is not None:
                onerror(problem)
        return
    yield from files.walk(top, topdown)


@public("io.gfile.join")
def join(path: Any, *paths: Any) -> Any:
    """Parts of a path as one path; parts before an absolute one are left out."""
    parts = [os.fspath(part) for part in (path, *paths)]
    if "://" not in parts[0]:
        return os.path.join(*parts)
    for i in range(len(parts) - 1, 0, -1):  # a later part may name a file system, too
        if "://" in parts[i]:
            parts = parts[i:]
            break
    return "/".join([part.rstrip("/") if i < len(parts) - 1 else part for i, part in enumerate(parts)])


@public("io.gfile.stat")
def stat(path: Any) -> files.FileStatistics:
    """Size, time of change and kind of a file."""
    return files.stat(path)


__getattr__, __dir__ = api.module_attributes("io.gfile")
