"""What small inputs may expand to: a budget of memory for each image, compressed string, record, line or constant.

A few bytes can stand for many: a compressed record of a thousand times its size, an image of one colour, a constant
that repeats its last value, keys that share all but their ends. What is read from such bytes is counted before it is
made, or while it grows, and refused beyond the budget. What takes as much memory as it takes bytes has none.

The budget is `MOST`, for one input at a time, and the environment variable `VARIABLE` says another number of bytes.
For images it covers the pixels that a decoder holds and those that it returns; what is inflated may for a moment be
there twice.
"""

from __future__ import annotations

import os
from typing import Any, Final

from anabranch.core import errors
from anabranch.core.values import sizes

MOST: Final = 1 << 30
"""Bytes, unless the environment says otherwise: twice as many as TensorFlow allows the pixels of an image."""
UNBOUNDED: Final = 1 << 64
"""More than a length in a file can say."""
VARIABLE: Final = "ANABRANCH_MOST_EXPANDED"


def most() -> int:
    """Bytes that an input may expand to.

    Raises:
        ValueError: the environment variable holds no number.
    """
    text = os.environ.get(VARIABLE)
    if text is None:
        return MOST
    if not (text.isascii() and text.isdigit()):
        raise ValueError(errors.message(f"{VARIABLE}={text!r}", "a number of bytes", f"{VARIABLE}={MOST}"))
    return int(text)


def of_stream(compression: str) -> int:
    """Bytes that one record, or line, of a file may have: as many as the file has, if it is not compressed."""
    return most() if compression else UNBOUNDED


def require(size: int, given: str, op: Any = None) -> None:
    """Refuse what expands to more than the budget.

    Args:
        size: bytes.
        given: what it is.
        op: the operation that reads it.

    Raises:
        ResourceExhaustedError: it does.
    """
    limit = most()
    if size > limit:
        raise exceeded(size, limit, given, op)


def exceeded(size: int, limit: int, given: str, op: Any = None) -> errors.ResourceExhaustedError:
    """The error for an input that expands to ``size`` bytes at least."""
    enough = 1 << max(size - 1, 1).bit_length()
    return errors.ResourceExhaustedError(
        None,
        op,
        errors.message(
            f"{given}, which takes {sizes.in_units(size)} of memory or more",
            f"at most {sizes.in_units(limit)}, the budget for what one input expands to",
            f"{VARIABLE}={enough} in the environment, if you trust where it comes from",
        ),
    )
