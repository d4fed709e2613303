"""Stretches of an interpreted step that only compute, each as one Python function of NumPy calls.

Run op by op, a small op costs the interpreter ten times what NumPy takes for it, and a network that is unrolled in
Python has thousands, for as long as its program is being compiled. So a step that is interpreted for the fourth time
has consecutive ops that only compute in *stretches*, which become straight code as the bodies of loops do
(:mod:`straight_line`): code for operands of the shapes and types that were seen, whose values are the interpreter's,
bit for bit. If operands are different, or anything fails, the stretch is run op by op: nothing has happened, as its
ops have no effects, and the error is the op's.

Left out, and run as before: ops with effects, random ones, those with bodies; what is computed from an array whose
size the data decide, as its shapes change from step to step; ops that look at a variable's memory without copying it;
ops whose outputs are fed. Large matrix products take several threads, as in their kernels. Nothing is straight while
somebody watches the ops of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from anabranch.core.contract import faults
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.ops.shared import unchecked
from anabranch.runtime import host_ops
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.interpreter.straight_line import MOST_FORMS, MOST_MISSES, RUN_ANEW, Builder, Code, only_computes
from anabranch.runtime.plans.items import HostItem
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.borrowing import may_borrow
from anabranch.runtime.values import to_host

AFTER_RUNS = 3
"""So often a plan is run op by op: making the code takes as long as some runs."""
LEAST_OPS = 8
"""Ops of a stretch."""


class Stretch:
    """Consecutive items of a segment that only compute."""

    wave: ClassVar[int] = -1

    def __init__(self, plan: Plan, items: Sequence[HostItem]) -> None:
        self.items = items
        ops = {item.op for item in items}
        made = [output for item in items for output in item.op._outputs]
        inside = {*made, *plan.constants}
        needed = dict.fromkeys(key for item in items for key in item.sources if key is not None)
        fetched = frozenset(plan.fetch_keys)
        self.inputs: tuple[ValueKey, ...] = tuple([key for key in needed if key not in inside])
        self.outputs: tuple[ValueKey, ...] = tuple(
            [key for key in made if key in fetched or not ops.issuperset(plan.consumers.get(key, ()))]
        )
        self._plan = plan
        self._codes: list[Code] = []
        self._misses = 0

    def run(self, attempt: Attempt) -> None:
        """Compute what others take of it."""
        attempt.step.token.at = self.items[0].op
        bugs: list[faults.KernelBug] = []
        results = self._results(attempt, bugs)
        if results is not None:
            attempt.env.update(zip(self.outputs, results, strict=True))
            return
        for item in self.items:
            attempt.step.token.raise_if_cancelled()
            host_ops.run(attempt, item)
        for bug in bugs:  # the interpreter has succeeded where the code has not
            faults.warn(bug, "straight")

    def _results(self, attempt: Attempt, bugs: list[faults.KernelBug]) -> list[Any] | None:
        try:
            values = [_operand(attempt.env[key]) for key in self.inputs]
        except KeyError:  # a variable that has no value yet
            return None
        with np.errstate(all="ignore"):
            for code in self._codes:
                try:
                    return code.function(*values)
                except RUN_ANEW:
                    continue
                except faults.BUGS as problem:
                    bugs.append(code.bug(problem))
            self._misses += 1
            if len(self._codes) == MOST_FORMS or self._misses > MOST_MISSES:
                return None
            try:
                ops = [item.op for item in self.items]
                results, code = _Builder(self._plan).build_from(ops, self.inputs, values, self.outputs)
            except RUN_ANEW:
                return None
            except faults.KernelBug as bug:
                bugs.append(bug)
                return None
        self._codes.append(code)
        return results


class _Builder(Builder):
    """Straight code in which large matrix products take several threads."""

    def maker(self, definition: OpDefinition) -> Any:
        make = definition.straight
        return unchecked.matmul_on_threads if make is unchecked.matmul else make


def _operand(value: Any) -> Any:
    found = to_host(value)
    return np.asarray(found) if isinstance(found, np.ndarray) else found


def of(attempt: Attempt, items: list[Any]) -> list[Any]:
    """The items of a segment with stretches in the place of what only computes, if the plan has run often enough."""
    plan, segment = attempt.runner.plan, attempt.segment
    if plan.tier != "interpreted":
        segment.stretches = None
        return items
    if plan.nested or plan.runs <= AFTER_RUNS or attempt.step.stats is not None:
        return items
    if attempt.runner.bodies.watcher is not None:
        return items
    known = segment.stretches
    if known is None or known[0] is not items:
        known = segment.stretches = items, list(_cut(plan, items))
    found: list[Any] = known[1]
    return found


def _cut(plan: Plan, items: Iterable[Any]) -> Iterator[Any]:
    changing: set[ValueKey] = set(plan.varying.open)
    """What has another shape from step to step, or is a variable that is looked at without a copy."""
    stretch: list[HostItem] = []
    for item in items:
        if isinstance(item, HostItem) and _belongs(plan, item, changing):
            stretch.append(item)
            continue
        yield from _joined(plan, stretch)
        stretch = []
        yield item
        if isinstance(item, HostItem):
            op = item.op
            if op in plan.lent_reads or op.definition.data_dependent_shape or not changing.isdisjoint(item.sources):
                changing.update(op._outputs)
    yield from _joined(plan, stretch)


def _joined(plan: Plan, items: list[HostItem]) -> list[Any]:
    return [Stretch(plan, items)] if len(items) >= LEAST_OPS else items


def _belongs(plan: Plan, item: HostItem, changing: set[ValueKey]) -> bool:
    op = item.op
    if item.writes or op in plan.lent_reads or not only_computes(op) or op.definition.data_dependent_shape:
        return False
    if not changing.isdisjoint(item.sources) or not plan.fed.isdisjoint(op._outputs):
        return False
    if any(key is None or key in plan.handles for key in item.sources):
        return False
    return not (may_borrow(op.definition) and any(not isinstance(key, Tensor) for key in item.sources))
