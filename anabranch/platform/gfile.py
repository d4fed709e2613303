"""``tf.gfile``: files under TensorFlow 1.x's names. What they do stands in :mod:`anabranch.platform.files`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.platform import files

for _name in ("GFile", "Open", "FastGFile"):
    api.publish_as(f"gfile.{_name}", files.GFile)


@public("gfile.Exists")
def Exists(filename: Any) -> bool:
    """Whether a path exists."""
    return files.exists(filename)


@public("gfile.Remove")
def Remove(filename: Any) -> None:
    """Delete a file."""
    files.remove(filename)


@public("gfile.Glob")
def Glob(filename: Any) -> list[str]:
    """Paths that match a pattern, or one of several, sorted."""
    return files.matching(filename)


@public("gfile.MkDir")
def MkDir(dirname: Any) -> None:
    """Make one folder."""
    files.make_folder(dirname)


@public("gfile.MakeDirs")
def MakeDirs(dirname: Any) -> None:
    """Make a folder and those above it."""
    files.make_folders(dirname)


@public("gfile.Copy")
def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file."""
    files.copy(oldpath, newpath, overwrite)


@public("gfile.Rename")
def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Move a file."""
    files.rename(oldname, newname, overwrite)


@public("gfile.DeleteRecursively")
def DeleteRecursively(dirname: Any) -> None:
    """Delete a folder with all that is in it."""
    files.remove_tree(dirname)


@public("gfile.IsDirectory")
def IsDirectory(dirname: Any) -> bool:
    """Whether a path is a folder."""
    return files.is_folder(dirname)


@public("gfile.ListDirectory")
def ListDirectory(dirname: Any) -> list[str]:
    """Names in a folder, sorted."""
    return files.listing(dirname)


@public("gfile.Walk")
def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Folders under ``top``, each with its subfolders and files."""
    return files.walk(top, in_order)


@public("gfile.Stat")
def Stat(filename: Any) -> files.FileStatistics:
    """Size, time of change and kind of a file."""
    return files.stat(filename)


__getattr__, __dir__ = api.module_attributes("gfile")
