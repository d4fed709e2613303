"""What a failure of the file system is for a program: the one table from error numbers to error classes.

Whatever touches files raises by this table: records, events, checkpoints, SavedModels, ops and `tf.gfile`. The end of a
disk, of a quota or of what a file may hold is `ResourceExhaustedError`, never the end of an input (`OutOfRangeError`),
which training loops take for a good end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

from anabranch.core import errors

_CLASSES: dict[Any, tuple[int, ...]] = {
    errors.NotFoundError: (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ESRCH),
    errors.AlreadyExistsError: (errno.EEXIST,),
    errors.PermissionDeniedError: (errno.EPERM, errno.EACCES, errno.EROFS),
    errors.FailedPreconditionError: (
        errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EBADF, errno.EBUSY, errno.ETXTBSY,
    ),
    errors.InvalidArgumentError: (errno.EINVAL, errno.ENAMETOOLONG, errno.ESPIPE, errno.EILSEQ, errno.ELOOP),
    errors.ResourceExhaustedError: (
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EMLINK, errno.ENOMEM,
        errno.EOVERFLOW,
    ),
    errors.UnimplementedError: (errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV),
    errors.UnavailableError: (errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENETDOWN),
}  # fmt: skip
_NUMBERS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    TimeoutError: errno.ETIMEDOUT,
}
"""The number of an exception that has none, as libraries for other file systems raise it."""
_BY_NUMBER = {number: kind for kind, numbers in _CLASSES.items() for number in numbers}


def error_of(problem: OSError | ValueError, path: str, op: Any = None) -> errors.OpError:
    """The error for what the operating system, or Python before it, has said about a path.

    Args:
        problem: the exception. Of `ValueError`, only 'embedded null byte' is about the path.
        path: the path as the program gave it.
        op: the operation that met it, if any.
    """
    if isinstance(problem, OSError):
        number = problem.errno or next((number for kind, number in _NUMBERS.items() if isinstance(problem, kind)), 0)
        text = problem.strerror or (os.strerror(number) if number and not problem.errno else str(problem))
        return _BY_NUMBER.get(number, errors.UnknownError)(None, op, f"{path}; {text}")
    return errors.InvalidArgumentError(
        None,
        op,
        errors.message(f"the path {path!r}: {problem}", "a path without a NUL byte", "check where the path comes from"),
    )


def open_to_read(path: str) -> BinaryIO:
    """Open a file, and nothing else: a FIFO or a device has no end that one could wait for.

    Raises:
        FailedPreconditionError: it is not a file. OSError: it cannot be opened.
    """
    check_local(path)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            text = errors.message(f"{path!r}, a FIFO, a socket or a device", "a file", "copy what it gives into a file")
            raise errors.FailedPreconditionError(None, None, text)
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
"""What a path of another file system begins with."""


def local(path: Any, op: Any = None) -> str:
    """A path as text without ``file://``; UnimplementedError for another file system."""
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    match = SCHEME.match(text)
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


def check_local(path: Any, op: Any = None) -> None:
    """Refuse a path of another file system, of which the operating system would make a folder called ``gs:``."""
    text = local(path, op)
    if text != (os.fsdecode(path) if isinstance(path, bytes) else os.fspath(path)):
        raise errors.UnimplementedError(
            None, op, errors.message(f"the path {os.fspath(path)!r}", "a local path without a scheme", repr(text))
        )


@contextlib.contextmanager
def translated(path: str, op: Any = None) -> Iterator[None]:
    """Turn what is raised about a local path inside the block into the error that fits.

    Raises:
        UnimplementedError: the path is one of another file system.
    """
    check_local(path, op)
    try:
        yield
    except OSError as problem:
        raise error_of(problem, path, op) from problem
    except ValueError as problem:
        if "null" not in str(problem):
            raise
        raise error_of(problem, path, op) from None
