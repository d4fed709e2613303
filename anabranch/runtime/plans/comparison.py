"""Whether the compiled form of a plan is slower than the interpreter, by the clock.

Compiling nearly always pays; that it will is a guess of the price model's. XLA's form of an op may be slow, a program
may wait for threads, or copy what the interpreter takes as it is. So a plan of which the clock decides
(:mod:`anabranch.runtime.plans.policy`) remembers how long its last interpreted runs took, and compares the first
compiled ones with them. If these are slower, by their quickest run and by their median, the plan goes back to the
interpreter, which has to show within `TRIED` runs that it is quicker now, too: the machine may have been busy, or
the data have grown. If it is not, the plan is compiled for good. Either way nothing is compared any more.

Where no interpreted run was seen, since the programs were on disk, what the price model says takes its place, if the
compiled runs take `UNSEEN` times as long. A plan is never interpreted for longer than a few compiled runs take to find
out. While programs of any plan are traced in this process steps are slower: up to `PASSED_OVER` such runs count for
neither form. Loops whose bodies were interpreted before run so again, also where the compiled form has had the bodies
compiled on their own (:mod:`anabranch.runtime.interpreter.nested`). Seeded plans never go back: the clock is not to
change what they run.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import Any

from anabranch.xla import background

COMPARED = 16
"""Runs of either form that are compared."""
LEAST = 4
"""Interpreted runs that must have been seen."""
SETTLING = 3
"""Runs at the beginning of either form that do not count: what they find out is kept for later ones."""
SLOWER = 1.25
"""By how much a compiled run must be slower for the plan to go back, which costs the runs that look at it once more."""
UNSEEN = 2.5
"""The same where what the price model says stands for the interpreted runs; it is wrong by two at times."""
PASSED_OVER = 32
"""Runs that do not count since programs were compiled beside them; with more, they are how the plan runs."""
TRIED = 12
"""Runs that the interpreter has to show that it is quicker."""
MOST_TRIED = 40.0
MOST_SECONDS = 0.5
"""It must have been shown in the time of so many compiled runs and so many seconds: making straight code takes some."""


class Comparison:
    """How long the runs of a plan took, until it is decided which form is quicker."""

    def __init__(self) -> None:
        self.went_back = ""
        """Why the plan is interpreted again; empty if it is not."""
        self._interpreted: deque[float] = deque(maxlen=COMPARED)
        self._compiled: list[float] = []
        self._again: list[float] = []
        self._passed_over = 0

    def note(self, plan: Any) -> None:
        """Take the time of a run that has ended into account."""
        busy = background.is_busy()
        if busy and (plan.tier == "compiled" or self.went_back) and self._passed_over < PASSED_OVER:
            self._passed_over += 1
        elif plan.tier == "compiled":
            self._compiled.append(plan.took)
            if len(self._compiled) == SETTLING + COMPARED:
                self._judge(plan)
        elif self.went_back:
            self._again.append(plan.took)
            self._judge_again(plan)
        elif not busy or len(self._interpreted) < COMPARED:
            self._interpreted.append(plan.took)

    def _judge(self, plan: Any) -> None:
        compiled, interpreted = self._compiled[SETTLING:], list(self._interpreted)
        median = statistics.median(compiled)
        if len(interpreted) >= LEAST:
            was = statistics.median(interpreted)
            slower = median > SLOWER * was and min(compiled) > SLOWER * min(interpreted)
        else:
            was = (plan.cost.run + plan.cost.bodies) * 1e-6
            slower = min(compiled) > UNSEEN * was
        if not slower:
            plan.comparison = None
            return
        self.went_back = f"compiled, a run took {median * 1e3:.3g} ms, and interpreted {was * 1e3:.3g} ms"
        plan.why = self.went_back
        plan.arrange("interpreted")

    def _judge_again(self, plan: Any) -> None:
        compiled = self._compiled[SETTLING:]
        enough = len(self._again) == TRIED
        too_long = sum(self._again) > MOST_TRIED * statistics.median(compiled) + MOST_SECONDS
        if not (enough or too_long):
            return
        again = self._again[SETTLING:]
        quicker = enough and statistics.median(again) < statistics.median(compiled) and min(again) < min(compiled)
        if quicker:
            plan.kept_interpreted = self.went_back
        plan.comparison = None
        if not quicker:
            plan.why = "interpreted runs were not quicker"
            plan.arrange("compiled")
