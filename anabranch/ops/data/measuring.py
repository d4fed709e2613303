"""What the stages of a pipeline do, and what that costs: the table of ``Dataset.explain()``, a watch of a live pass.

The iterators of one pass are wrapped: each call is timed, without what the stages before it take of that time. A stage
before a prefetch runs on a thread of its own; the time of the prefetch itself is what it was waited for.

A :class:`Watch` looks at a pipeline that a program goes through: during one step, for its RunMetadata, or from its
first summary on. Iterators that the pipeline begins meanwhile (the next pass of a repeat, a file of an interleave) join
it, and those of one stage count together.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator as Iterator_
from typing import Any

from anabranch.core.cancellation import CancellationToken
from anabranch.ops.data.pipeline import Iterator, Pipeline

_CALLS = ("next", "take", "gather", "rows")
"""Ways of asking an iterator for elements."""
Tell = Callable[[Iterator, float, float, int], None]
"""Told of each call: the iterator, when it began (seconds since the epoch), its own seconds, how many elements."""


class _Stage:
    """An iterator, and what was measured of it."""

    def __init__(self, iterator: Iterator, depth: int, clock: threading.local, tell: Tell | None = None) -> None:
        self.iterator = iterator
        self._tell = tell
        self.depth = depth
        self.elements = 0
        self.seconds = 0.0
        self._clock = clock
        self._inside = 0
        self._before = {name: vars(iterator).get(name) for name in _CALLS if hasattr(iterator, name)}
        for name in self._before:
            setattr(iterator, name, self._timed(getattr(iterator, name), name))

    def end(self) -> None:
        """Ask the iterator as before."""
        for name, before in self._before.items():
            if before is None:
                delattr(self.iterator, name)
            else:
                setattr(self.iterator, name, before)

    def _timed(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            if self._inside:  # of its own: one way of asking uses another
                return call(*arguments)
            clock = self._clock
            outer, clock.others = getattr(clock, "others", 0.0), 0.0
            self._inside += 1
            began, started = time.time(), time.perf_counter()
            own, count = 0.0, 0
            try:
                result = call(*arguments)
                if result is not None:
                    count = 1 if name == "next" else len(result[0]) if name == "take" else len(result)
            finally:
                took = time.perf_counter() - started
                self._inside -= 1
                own = took - clock.others
                self.seconds += own
                self.elements += count
                clock.others = outer + took
                if self._tell is not None:
                    self._tell(self.iterator, began, own, count)
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

    def tell_each(stage: Iterator, began: float, own: float, count: int) -> None:
        if count:
            tell(stage.dataset.op.name, own / count)

    _wrapped(iterator, threading.local(), tell_each)


def _wrapped(iterator: Iterator, clock: threading.local, tell: Tell) -> list[_Stage]:
    inputs = [stage for item in iterator.inputs for stage in _wrapped(item, clock, tell)]
    return [_Stage(iterator, 0, clock, tell), *inputs]


class Counts:
    """What a stage has done while it was watched."""

    def __init__(self, iterator: Iterator, began: float) -> None:
        self.iterator = iterator
        """The one of the stage that gave elements last."""
        self.began = began
        self.elements = 0
        self.seconds = 0.0

    def note(self) -> str:
        """What it did, for a person."""
        form = self.iterator.form()
        return f"{self.elements} elements, {self.seconds * 1e6:.1f} us" + (f", {form}" if form else "")


class Watch:
    """The times and elements of the stages of a pipeline that is under way, by the operations that made them."""

    def __init__(self, pipeline: Pipeline, iterator: Iterator, lasting: bool = True) -> None:
        self._pipeline = pipeline
        self._lasting = lasting
        """Whether it goes on as long as the pipeline does, and need not remember which iterators have joined it."""
        self._clock = threading.local()
        self._lock = threading.Lock()
        self._counts: dict[Any, Counts] = {}
        pipeline.watches = (*pipeline.watches, self)
        self._stages = _wrapped(iterator, self._clock, self._tell)

    def add(self, iterator: Iterator) -> None:
        """Watch an iterator that the pipeline begins."""
        stage = _Stage(iterator, 0, self._clock, self._tell)
        if not self._lasting:
            self._stages.append(stage)

    def _tell(self, iterator: Iterator, began: float, own: float, count: int) -> None:
        with self._lock:
            counts = self._counts.setdefault(iterator.dataset.op, Counts(iterator, began))
            counts.iterator = iterator
            counts.elements += count
            counts.seconds += own

    def taken(self) -> dict[Any, Counts]:
        """What the stages have done since this was asked last, by their operations."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts

    def end(self) -> None:
        """Watch no more; no other watch has begun since."""
        self._pipeline.watches = tuple([watch for watch in self._pipeline.watches if watch is not self])
        for stage in reversed(self._stages):
            stage.end()


@contextlib.contextmanager
def watched(pipeline: Pipeline, iterator: Iterator) -> Iterator_[Watch]:
    """A watch of what is done inside."""
    watch = Watch(pipeline, iterator, lasting=False)
    try:
        yield watch
    finally:
        watch.end()


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
