"""What the stages of a pipeline do, and what that costs: the table of ``Dataset.explain()``.

The iterators of one pass are wrapped: each call is timed, without what the stages before it take of that time. A stage
before a prefetch runs on a thread of its own; the time of the prefetch itself is what it was waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from anabranch.core.cancellation import CancellationToken
from anabranch.ops.data.pipeline import Iterator

_CALLS = ("next", "take", "gather", "rows")
"""Ways of asking an iterator for elements."""


class _Stage:
    """An iterator, and what was measured of it."""

    def __init__(
        self, iterator: Iterator, depth: int, clock: threading.local, tell: Callable[[str, float], None] | None = None
    ) -> None:
        self.iterator = iterator
        self._tell = tell
        self.depth = depth
        self.elements = 0
        self.seconds = 0.0
        self._clock = clock
        self._inside = 0
        for name in _CALLS:
            if hasattr(iterator, name):
                setattr(iterator, name, self._timed(getattr(iterator, name), name))

    def _timed(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            if self._inside:  # of its own: one way of asking uses another
                return call(*arguments)
            clock = self._clock
            outer, clock.others = getattr(clock, "others", 0.0), 0.0
            self._inside += 1
            started = time.perf_counter()
            try:
                result = call(*arguments)
            finally:
                took = time.perf_counter() - started
                self._inside -= 1
                own = took - clock.others
                self.seconds += own
                clock.others = outer + took
            if result is not None:
                count = 1 if name == "next" else len(result[0]) if name == "take" else len(result)
                self.elements += count
                if self._tell is not None and count:
                    self._tell(self.iterator.dataset.op.name, own / count)
            return result

        return timed

    @property
    def row(self) -> list[str]:
        """The row of the table."""
        each = f"{self.seconds / self.elements * 1e6:.2f}" if self.elements else "-"
        name = "  " * self.depth + type(self.iterator.dataset).__name__
        return [name, str(self.elements), each, f"{self.seconds * 1e3:.1f}", self.iterator.form()]


def _stages(iterator: Iterator, depth: int, clock: threading.local) -> list[_Stage]:
    inputs = [stage for item in iterator.inputs for stage in _stages(item, depth + 1, clock)]
    return [_Stage(iterator, depth, clock), *inputs]


def observe(iterator: Iterator, tell: Callable[[str, float], None]) -> None:
    """Let the stages of a pass tell the seconds that an element takes each, without what the stages before it take.

    ``tell`` is called with the name of the stage's operation. Of a stage behind a thread these are what it waits.
    """
    clock = threading.local()

    def wrap(stage: Iterator) -> None:
        _Stage(stage, 0, clock, tell)
        for item in stage.inputs:
            wrap(item)

    wrap(iterator)


def report(iterator: Iterator, elements: int, seconds: float, token: CancellationToken) -> str:
    """A table with a line for each stage, the last one first; the one that took most of the time is marked."""
    stages = _stages(iterator, 0, threading.local())
    started = time.perf_counter()
    given = 0
    while given < elements and time.perf_counter() - started < seconds:
        token.raise_if_cancelled()
        if iterator.next() is None:
            break
        given += 1
    took = time.perf_counter() - started
    slowest = max(stages, key=lambda stage: stage.seconds)
    rows = [["stage", "elements", "us each", "ms in all", "how"], *[stage.row for stage in stages]]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = [f"{given} elements in {took * 1e3:.1f} ms"]
    for row, stage in zip(rows, [None, *stages], strict=True):
        numbers = [row[i].rjust(widths[i]) for i in (1, 2, 3)]
        mark = "*" if stage is slowest else " "
        lines.append(" ".join([mark, row[0].ljust(widths[0]), *numbers, "", row[4]]).rstrip())
    return "\n".join([*lines, "* takes most of the time"])
