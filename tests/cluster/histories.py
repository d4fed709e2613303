"""Histories of steps, and whether there is an order of the steps that explains what each has seen."""

from __future__ import annotations

import math
from typing import NamedTuple


class Seen(NamedTuple):
    """A step as its client saw it: when it began and ended, what each variable was before it, what it added to each.

    ``before`` is None where the client does not know: it was killed. Such a step may have happened at any time after
    its beginning, or not at all.
    """

    client: int
    began: float
    ended: float
    before: dict | None
    added: dict


def unknown(client, began, added):
    """A step whose client was killed."""
    return Seen(client, began, math.inf, None, added)


def find_order(steps, start):
    """An order of steps, one behind the other, that explains what each saw and in which none comes before a step that
    had ended when it began; None if there is none.
    """
    steps = sorted(steps, key=lambda step: step.began)
    failed = set()

    def explain(left, state):
        rest = [steps[i] for i in left]
        if all(step.before is None for step in rest):
            return []
        key = left, tuple(sorted(state.items()))
        if key in failed:
            return None
        first_end = min(step.ended for step in rest)
        for i in left:
            step = steps[i]
            if step.began > first_end:
                break
            if step.before is None or all(state[name] == value for name, value in step.before.items()):
                after = {name: value + step.added.get(name, 0) for name, value in state.items()}
                tail = explain(tuple(j for j in left if j != i), after)
                if tail is not None:
                    return [step, *tail]
        failed.add(key)
        return None

    return explain(tuple(range(len(steps))), dict(start))


def staleness(steps):
    """How far behind its own number a step's view of another worker was at most: steps of worker ``i`` add 1 to
    variable ``i``, and see all of them.
    """
    worst = 0
    for step in steps:
        own = step.before[step.client]
        worst = max([worst, *(own - value for value in step.before.values())])
    return worst
