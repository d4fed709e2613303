"""Whether code builds ops for one replica of a distribution strategy, for all together, or for the copy of a variable
on one device.

Policy. A stack for each thread. Its top says which strategy is in force; the number of the replica whose function is
being run, with its context; or the number of the device whose copies of variables are being updated. Variables with a
copy for each replica (:mod:`anabranch.distribute.variables`) stand for the copy of that number, for the first where
there is none. Strategies fill the stack; optimizers and variables ask it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from anabranch.variables.scope_state import VariableAggregation, VariableSynchronization


class Frame(NamedTuple):
    """What is in force: of a strategy ``replica``, the context of one replica; ``updates``, the number of a device; or
    neither, which is called the cross-replica context.
    """

    strategy: Any
    replica: Any = None
    updates: int | None = None


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[Frame] = []


_frames = _Frames()


def top() -> Frame | None:
    """The frame in force; None where no strategy is."""
    return _frames.stack[-1] if _frames.stack else None


@contextlib.contextmanager
def within(frame: Frame) -> Iterator[None]:
    """Put a frame on the stack."""
    _frames.stack.append(frame)
    try:
        yield
    finally:
        _frames.stack.pop()


def copies() -> int:
    """The number of the copy that variables with a copy for each replica stand for."""
    frame = top()
    if frame is None:
        return 0
    if frame.updates is not None:
        return frame.updates
    return 0 if frame.replica is None else frame.replica.replica_id_in_sync_group


def statistics(aggregation: VariableAggregation = VariableAggregation.MEAN) -> dict[str, Any]:
    """Arguments for a variable that each replica writes by itself, and that is read as their aggregate."""
    if top() is None:
        return {}
    return {"synchronization": VariableSynchronization.ON_READ, "aggregation": aggregation}
