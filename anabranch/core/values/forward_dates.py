"""The date up to which graphs that are built must be understood: which of two operations stands for one expression.

TensorFlow 1.x went on to a new operation in two steps: first it could run it, weeks later it built it, so that programs
of the last weeks could read its graphs. Here all operations can be run and the new ones are built. A program that needs
the old ones, because it knows operations by their types or writes graphs for an older TensorFlow, says a date:
``tf.compat.forward_compatibility_horizon(year, month, day)`` for a block, or the environment variable
TF_FORWARD_COMPATIBILITY_DELTA_DAYS, days from version 1.15's own date, for a process. Both are TensorFlow's.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator

from anabranch.core import errors
from anabranch.core.contract.api import public

_DAYS = "TF_FORWARD_COMPATIBILITY_DELTA_DAYS"
_DATE_OF_1_15 = datetime.date(2019, 8, 21)


def _date_of_the_process() -> datetime.date:
    days = os.environ.get(_DAYS)
    if not days:
        return datetime.date.max
    try:
        return _DATE_OF_1_15 + datetime.timedelta(days=int(days))
    except (ValueError, OverflowError):
        raise ValueError(errors.message(f"{_DAYS}={days!r}", "a whole number of days", f"{_DAYS}=-365")) from None


_horizon = _date_of_the_process()


@public("compat.forward_compatible")
def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether what came with that date is built: it is, unless the program has said an earlier one."""
    return datetime.date(year, month, day) < _horizon


@public("compat.forward_compatibility_horizon")
@contextlib.contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Build operations as on that date in the block; the date of the process holds again after it.

    Example::

        with tf.compat.forward_compatibility_horizon(2019, 6, 1):
            y = x + 1  # an "Add", which all versions know, and not the "AddV2" of later that month
    """
    global _horizon
    _horizon = datetime.date(year, month, day)
    try:
        yield
    finally:
        _horizon = _date_of_the_process()
