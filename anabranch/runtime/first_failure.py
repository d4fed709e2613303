"""Which failure of a segment is the first in the order of effects, where its items run in another order.

The error of a step is that of the op that fails first in the order of effects, in each tier. One program sorts its
checks, and so does a wave. But items follow each other as their values allow: a check of a later one may come before
that which failed. Then the ops that such checks need, and that have not run, are run on the host one by one, and the
first error among them is the step's. Nothing of that is seen but the error; steps that do not fail cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.operation import Operation
from anabranch.runtime.plans.items import HostItem, ProgramItem
from anabranch.xla import lowering


def _may_fail(item: Any) -> Iterable[Operation]:
    """The ops of an item that may fail, but for Python functions."""
    if isinstance(item, ProgramItem):
        return [op for op in item.program.group.ops if lowering.expects_checks(op)]
    return [item.op] if item.op.definition.effect.kind in ("pure", "read", "write") else []


def of(
    attempt: Any, left: Sequence[Any], problem: errors.OpError, run: Callable[[Any, HostItem], None]
) -> errors.OpError:
    """The error of an attempt at a segment of which an item has failed with ``problem``.

    Args:
        attempt: the attempt.
        left: the items behind the one that failed.
        problem: its error.
        run: runs an op on the host for the attempt.
    """
    plan = attempt.runner.plan
    rank = plan.rank(problem)
    position = plan.analysis.position
    if problem._op is None or not left or isinstance(problem, (errors.CancelledError, errors.DeadlineExceededError)):
        return problem
    needed = {op for item in left for op in _may_fail(item) if position[op] < rank}
    if not needed:
        return problem
    inside = set(attempt.segment.ops)
    stack = list(needed)
    while stack:
        op = stack.pop()
        for key in plan.sources(op):
            maker = plan.producer(key)
            if maker is not None and maker in inside and maker not in needed and key not in attempt.env:
                needed.add(maker)
                stack.append(maker)
    if any(plan.calls_python(op) for op in needed):
        return problem  # it is not called for an error's sake
    for op in attempt.segment.ops:
        if op in needed and position[op] < rank:
            try:
                run(attempt, HostItem(op, plan.sources(op), plan.analysis.state_of(op).writes))
            except errors.OpError as earlier:
                return earlier if plan.rank(earlier) < rank else problem
    return problem


def in_order(plan: Any, items: Sequence[Any]) -> bool:
    """Whether no op that may fail stands in a later item, or wave, than one behind it in the order of effects."""
    position = plan.analysis.position
    latest = before = -1
    wave = -1
    for item in items:
        if item.wave < 0 or item.wave != wave:
            before, wave = latest, item.wave
        for op in _may_fail(item):
            if position[op] < before:
                return False
            latest = max(latest, position[op])
    return True
