"""Stretches of ops on the host whose sizes change from step to step, each as code for any size.

Sparse features, ragged rows, batches of ever new sizes: what their sizes reach runs on the host
(:mod:`~anabranch.runtime.plans.shape_families`), and most of what a small op costs there is the way to its kernel. Such
ops become one Python function (:mod:`open_code`). In a plan that is compiled, ops between two programs are a stretch,
in their order; in one that is interpreted what only computes goes before what has effects, see :mod:`stretches`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anabranch.core.contract import faults
from anabranch.core.graph.state_key import ValueKey
from anabranch.runtime import host_ops
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.interpreter import open_code
from anabranch.runtime.plans.items import HostItem
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.borrowing import lent, may_borrow
from anabranch.runtime.values import to_host

LEAST_OPS = 3
"""Ops of a stretch."""


def belongs(plan: Plan, item: Any) -> bool:
    """Whether an item may be part of such a stretch."""
    if not isinstance(item, HostItem) or item.writes:
        return False
    op = item.op
    if op in plan.lent_reads:
        return plan.fed.isdisjoint(op._outputs)
    return open_code.takes(plan, op)


class OpenStretch:
    """Consecutive items of a segment that only compute, or read for such as do."""

    wave: ClassVar[int] = -1
    short: ClassVar[None] = None

    def __init__(self, plan: Plan, items: Sequence[HostItem]) -> None:
        self.items = items
        self.op = items[0].op
        reads = [item for item in items if item.op in plan.lent_reads]
        self._reads = [(item.op._outputs[0], item.sources[0]) for item in reads]
        self._computing = [item for item in items if item.op not in plan.lent_reads]
        ops = {item.op for item in self._computing}
        made = [output for item in self._computing for output in item.op._outputs]
        inside = {*made, *plan.constants}
        needed = dict.fromkeys(key for item in self._computing for key in item.sources if key is not None)
        fetched = {*plan.fetch_keys, *(tensor for tensor in plan.varying.watched(plan))}
        self.inputs: tuple[ValueKey, ...] = tuple([key for key in needed if key not in inside])
        self.outputs: tuple[ValueKey, ...] = tuple(
            [key for key in made if key in fetched or not ops.issuperset(plan.consumers.get(key, ()))]
        )
        copied = {
            key
            for item in self._computing
            if not may_borrow(item.op.definition)
            for key in item.sources
            if key in needed
        }
        self._take = [to_host if key in copied else lent for key in self.inputs]
        self._code = open_code.OpenCode(plan, [item.op for item in self._computing], self.inputs, self.outputs)

    def run(self, attempt: Attempt) -> None:
        """Compute what others take of it."""
        env = attempt.env
        attempt.step.token.at = self.op
        for output, source in self._reads:
            env[output] = env[source]  # type: ignore[index]
        bugs: list[faults.KernelBug] = []
        results = self._results(env, bugs)
        if results is not None:
            env.update(zip(self.outputs, results, strict=True))
            return
        attempt.behind = len(self._computing)
        for item in self._computing:
            attempt.step.token.raise_if_cancelled()
            attempt.behind -= 1
            host_ops.run(attempt, item)
        for bug in bugs:  # the interpreter has succeeded where the code has not
            faults.warn(bug, "straight")

    def _results(self, env: dict[ValueKey, Any], bugs: list[faults.KernelBug]) -> Sequence[Any] | None:
        try:
            values = [
                value if type(value) is np.ndarray else take(value)
                for value, take in zip([env[key] for key in self.inputs], self._take, strict=True)
            ]
        except (KeyError, AttributeError):  # a variable that has no value yet
            return None
        return self._code.results(values, bugs)


__all__ = ["LEAST_OPS", "OpenStretch", "belongs"]
