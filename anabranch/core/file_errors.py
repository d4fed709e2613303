"""What a failure of the file system is for a program: the one table from error numbers to error classes.

Whatever touches files raises by this table: records, events, checkpoints, SavedModels, ops and `tf.gfile`. The end of a
disk, of a quota or of what a file may hold is `ResourceExhaustedError`, never the end of an input (`OutOfRangeError`),
which training loops take for a good end.
"""

from __future__ import annotations

import contextlib
import errno
import os
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
_BY_NUMBER = {number: kind for kind, numbers in _CLASSES.items() for number in numbers}


def error_of(problem: OSError | ValueError, path: str, op: Any = None) -> errors.OpError:
    """The error for what the operating system, or Python before it, has said about a path.

    Args:
        problem: the exception. Of `ValueError`, only 'embedded null byte' is about the path.
        path: the path as the program gave it.
        op: the operation that met it, if any.
    """
    if isinstance(problem, OSError):
        kind = _BY_NUMBER.get(problem.errno or 0, errors.UnknownError)
        return kind(None, op, f"{path}; {problem.strerror or problem}")
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


@contextlib.contextmanager
def translated(path: str, op: Any = None) -> Iterator[None]:
    """Turn what is raised about a path inside the block into the error that fits."""
    try:
        yield
    except OSError as problem:
        raise error_of(problem, path, op) from problem
    except ValueError as problem:
        if "null" not in str(problem):
            raise
        raise error_of(problem, path, op) from None
