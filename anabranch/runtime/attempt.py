"""One attempt at a segment: the values that are there so far, and what is to happen if it succeeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.graph.state_key import ValueKey
from anabranch.runtime.interpreter.python_results import Recorded
from anabranch.runtime.plans.binding import SegmentState
from anabranch.runtime.plans.items import Segment
from anabranch.runtime.state.slots import RandomCounter
from anabranch.runtime.step import Step, Transaction

if TYPE_CHECKING:
    from anabranch.runtime.runner import Runner


class Attempt:
    """What items need to know of the segment that they run in.

    Each attempt has an environment of its own: what an attempt that failed has computed is not seen by the next.
    """

    __slots__ = (
        "advances",
        "before",
        "behind",
        "env",
        "memo",
        "reserved",
        "runner",
        "segment",
        "state",
        "step",
        "transaction",
        "used",
    )

    def __init__(
        self,
        runner: Runner,
        segment: Segment,
        state: SegmentState,
        env: dict[ValueKey, Any],
        step: Step,
        memo: Recorded,
    ) -> None:
        self.runner = runner
        self.segment = segment
        self.state = state
        self.before = env
        """What was there before the segment."""
        self.behind = 0
        """Of a stretch that has failed: its items behind the one that did."""
        self.env = dict(env)
        self.step = step
        self.memo = memo
        """What Python functions gave in earlier attempts."""
        self.transaction = Transaction(runner.manager, step.token)
        self.advances: list[tuple[RandomCounter, int]] = []
        """How far random streams move if it succeeds."""
        self.used: dict[Any, tuple[Any, dict[int, np.ndarray]]] = {}
        """By item the executable that served, and which inputs it was compiled for the values of."""
        self.reserved: list[np.ndarray | None] | None = None
        """Memory for large fetches."""
