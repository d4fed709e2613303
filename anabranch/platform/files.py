"""Files as ``tf.gfile`` and ``tf.io.gfile`` see them: local paths, TensorFlow's exceptions instead of ``OSError``.

Paths with a scheme (``gs://``, ``hdfs://``) are refused with an UnimplementedError that names fsspec; ``file://`` is
local.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

from anabranch.core import errors, paths
from anabranch.core.file_errors import translated
from anabranch.core.paths import local


class FileStatistics(NamedTuple):
    """What :func:`stat` says about a file: its size in bytes, when it changed, whether it is a folder."""

    length: int
    mtime_nsec: int
    is_directory: bool


def exists(path: Any) -> bool:
    """Whether a path exists."""
    return os.path.exists(local(path))


def remove(path: Any) -> None:
    """Delete a file; NotFoundError if there is none."""
    path = local(path)
    with translated(path):
        os.remove(path)


def matching(pattern: Any) -> list[str]:
    """Paths that match a pattern (or one of several) in sorted order; ``*`` does not cross folders."""
    if isinstance(pattern, list | tuple):
        return [path for item in pattern for path in matching(item)]
    return paths.matching_here(local(pattern))


def make_folder(path: Any) -> None:
    """Make one folder whose parent is there."""
    path = local(path)
    with translated(path):
        os.mkdir(path)


def make_folders(path: Any) -> None:
    """Make a folder and those above it; nothing if it is there."""
    path = local(path)
    with translated(path):
        if path:
            os.makedirs(path, exist_ok=True)


def _free(new: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(new):
        raise errors.AlreadyExistsError(
            None, None, errors.message(f"the file {new}, which exists", "a new path", "overwrite=True")
        )


def copy(old: Any, new: Any, overwrite: bool = False) -> None:
    """Copy the contents of a file; AlreadyExistsError if the target exists and ``overwrite`` is false."""
    old, new = local(old), local(new)
    _free(new, overwrite)
    with translated(old):
        shutil.copyfile(old, new)


def rename(old: Any, new: Any, overwrite: bool = False) -> None:
    """Move a file or folder; AlreadyExistsError if the target exists and ``overwrite`` is false."""
    old, new = local(old), local(new)
    _free(new, overwrite)
    with translated(old):
        os.replace(old, new)


def remove_tree(path: Any) -> None:
    """Delete a folder with all that is in it, or a file."""
    path = local(path)
    with translated(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def is_folder(path: Any) -> bool:
    """Whether a path is a folder."""
    return os.path.isdir(local(path))


def listing(path: Any) -> list[str]:
    """Names in a folder, sorted; NotFoundError if there is no such folder."""
    path = local(path)
    if not os.path.isdir(path):
        raise errors.NotFoundError(
            None, None, errors.message(f"Could not find directory {path}", "a folder that exists", "os.listdir('.')")
        )
    with translated(path):
        return sorted(os.listdir(path))


def walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Folders under ``top`` with their subfolders and files; ``in_order`` gives a folder before what is in it."""
    for folder, folders, files in paths.walk_here(local(top), in_order):
        folders.sort()
        yield folder, list(folders), sorted(files)


def stat(path: Any) -> FileStatistics:
    """Size, time of change and kind of a file; NotFoundError if there is none."""
    path = local(path)
    with translated(path):
        status = os.stat(path)
    return FileStatistics(status.st_size, status.st_mtime_ns, os.path.isdir(path))


class GFile:
    """A file that opens when it is first used.

    Its mode is ``r``, ``w`` or ``a``, with ``b`` for bytes and ``+`` for both reading
    and writing. Text is UTF-8 and lines end as they do in the file.

    What reads and what writes are two, as in TensorFlow: reading begins at the start of the file however much has been
    written, and sees what has been flushed. Writing begins with an empty file, but for mode ``a``; so it does with
    ``r+``, which makes the file if there is none.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        if mode.replace("b", "").replace("+", "") not in ("r", "w", "a"):
            raise errors.InvalidArgumentError(
                None, None, errors.message(f"mode {mode!r}", "r, w or a, with b for bytes, with + for both", "'r'")
            )
        self._name, self._mode = name, mode
        self._path = local(name)
        self._reader: Any = None
        self._writer: Any = None
        self._begun = False

    @property
    def name(self) -> Any:
        """The path as it was given."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode as it was given."""
        return self._mode

    def _may(self, purpose: str) -> bool:
        return "+" in self._mode or ("r" in self._mode) == (purpose == "read")

    def _open(self, purpose: str) -> Any:
        """What reads the file, or what writes it."""
        if not self._may(purpose):
            raise errors.PermissionDeniedError(
                None,
                None,
                errors.message(
                    f"{self._path} opened with mode {self._mode!r}",
                    f"a mode in which one may {purpose}",
                    "mode 'r'" if purpose == "read" else "mode 'w' or 'a'",
                ),
            )
        kept = self._reader if purpose == "read" else self._writer
        if kept is not None:
            return kept
        mode = "r" if purpose == "read" else "a" if "a" in self._mode else "w"
        with translated(self._path):
            if os.path.isdir(self._path):
                raise IsADirectoryError(errno.EISDIR, "Is a directory")
            if "b" in self._mode or purpose == "write":
                opened: Any = open(self._path, mode + "b")  # noqa: SIM115
            else:
                opened = open(self._path, encoding="utf-8", newline="")  # noqa: SIM115
        if purpose == "read":
            self._reader = opened
        else:
            self._writer, self._begun = opened, True
        return opened

    def read(self, n: int = -1) -> Any:
        """The next ``n`` bytes or characters, or all that is left."""
        with translated(self._path):
            return self._open("read").read(n)

    def readline(self) -> Any:
        """The next line with its end; empty at the end of the file."""
        with translated(self._path):
            return self._open("read").readline()

    def readlines(self) -> list[Any]:
        """The lines that are left."""
        with translated(self._path):
            return self._open("read").readlines()

    def write(self, file_content: Any) -> None:
        """Write text, as UTF-8, or bytes, in any mode."""
        file = self._open("write")
        content = file_content.encode() if isinstance(file_content, str) else file_content
        with translated(self._path):
            file.write(content)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Move to a byte counted from the start (0), from here (1) or from the end (2), also called ``position``.

        Raises:
            TypeError: no offset, or two. InvalidArgumentError: it lies before the start, or ``whence`` is wrong.
        """
        if (offset is None) == (position is None):
            raise TypeError(
                "seek(): offset or position argument is missing or given twice\n"
                + errors.message(f"offset={offset}, position={position}", "one of the two arguments", "file.seek(0)")
            )
        at = offset if offset is not None else position
        file = self._open("read" if self._may("read") else "write")
        if whence in (1, 2):
            at += self.size() if whence == 2 else file.tell()  # type: ignore[operator]
        if whence not in (0, 1, 2) or at < 0:  # type: ignore[operator]
            raise errors.InvalidArgumentError(
                None,
                None,
                errors.message(f"offset {at}, whence {whence}", "a byte of the file, whence 0, 1 or 2", "file.seek(0)"),
            )
        with translated(self._path):
            file.seek(at)

    def tell(self) -> int:
        """Where in the file the next byte is read, or written in modes that cannot read."""
        return self._open("read" if self._may("read") else "write").tell()

    def size(self) -> int:
        """The size of the file in bytes."""
        self.flush()
        return stat(self._path).length

    def flush(self) -> None:
        """Write out what is held back."""
        if self._writer is not None:
            with translated(self._path):
                self._writer.flush()

    def close(self) -> None:
        """Close the file; it opens again when it is used again."""
        if not self._begun and "w" in self._mode:
            self._open("write")
        opened, self._reader, self._writer = (self._writer, self._reader), None, None
        with translated(self._path):
            for file in opened:
                if file is not None:
                    file.close()

    Flush, Close, Size, Tell, Seek, Read, Write, ReadLine = flush, close, size, tell, seek, read, write, readline

    def seekable(self) -> bool:
        """True: local files can seek."""
        return True

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __iter__(self) -> GFile:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def __repr__(self) -> str:
        return f"<GFile {self._path!r} mode={self._mode!r}>"
