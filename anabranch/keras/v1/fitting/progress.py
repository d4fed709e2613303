"""A bar of progress on standard output."""

from __future__ import annotations

import sys
import time
from typing import Any


class Progbar:
    """A bar of progress on standard output.

    Args:
        target: number of steps; None if it is not known.
        width: width of the bar.
        verbose: 1 for a bar, 2 for a line at the end.
        interval: seconds between two prints.
        stateful_metrics: names of values that are shown as they are, not as means.
        unit_name: what a step is called.
    """

    def __init__(
        self,
        target: int | None,
        width: int = 30,
        verbose: int = 1,
        interval: float = 0.05,
        stateful_metrics: Any = None,
        unit_name: str = "step",
    ) -> None:
        self.target, self.width, self.verbose, self.interval = target, width, verbose, interval
        self.stateful_metrics, self.unit_name = set(stateful_metrics or []), unit_name
        self._values: dict[str, list[float]] = {}
        self._start = time.time()
        self._printed = 0.0
        self._seen = 0
        self._width = 0

    def update(self, current: int, values: Any = None) -> None:
        """Show the progress: ``current`` steps, with ``[(name, value), ...]``."""
        for name, value in values or []:
            share = current - self._seen
            if name in self.stateful_metrics:
                self._values[name] = [float(value), 1.0]
            else:
                total = self._values.setdefault(name, [0.0, 0.0])
                total[0] += float(value) * share
                total[1] += share
        self._seen = current
        now = time.time()
        finished = self.target is not None and current >= self.target
        if self.verbose == 1:
            if now - self._printed < self.interval and not finished:
                return
            line = self._line(current, now)
            sys.stdout.write("\r" + line.ljust(self._width) + ("\n" if finished else ""))
            self._width, self._printed = len(line), now
        elif self.verbose == 2 and finished:
            sys.stdout.write(f"{current}/{self.target} - {now - self._start:.0f}s{self._shown()}\n")
        sys.stdout.flush()

    def _line(self, current: int, now: float) -> str:
        passed = now - self._start
        each = passed / max(current, 1)
        speed = f" {_duration(each)}/{self.unit_name}"
        if self.target is None:
            return f"{current:7d}/Unknown - {passed:.0f}s{speed}{self._shown()}"
        done = int(self.width * current / max(self.target, 1))
        bar = (
            "=" * done if done >= self.width else "=" * max(done - 1, 0) + ">" * bool(done) + "." * (self.width - done)
        )
        count = f"{current:{len(str(self.target))}d}/{self.target}"
        if current < self.target:
            return f"{count} [{bar}] - ETA: {_clock(each * (self.target - current))}{self._shown()}"
        return f"{count} [{bar}] - {passed:.0f}s{speed}{self._shown()}"

    def _shown(self) -> str:
        means = [(name, total / max(weight, 1.0)) for name, (total, weight) in self._values.items()]
        return "".join(
            f" - {name}: {value:.4f}" if abs(value) > 1e-3 else f" - {name}: {value:.4e}" for name, value in means
        )

    def add(self, n: int, values: Any = None) -> None:
        """Show ``n`` steps more."""
        self.update(self._seen + n, values)


def _duration(seconds: float) -> str:
    """Seconds in the unit that fits, such as ``12ms``."""
    if seconds >= 1:
        return f"{seconds:.0f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us"


def _clock(seconds: float) -> str:
    """The time that is left: ``1:02:03``, ``2:03`` or ``3s``."""
    whole = int(seconds)
    if seconds > 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}" if seconds > 60 else f"{whole}s"
