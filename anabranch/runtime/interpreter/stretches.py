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

An optimizer for each of ten networks, or a draw in each layer, would cut a step into stretches of some ops each. So
what only computes, reads or draws goes *before* what it does not depend on: values are named by the versions that they
were computed from, so that no result changes, and it never goes behind a write that would take what it reads. So do
updates that run together (:mod:`joint_updates`); draws that do follow each other (:mod:`joint_draws`). Other writes and
bodies stay in their order; so do all ops of a segment that calls Python. If a step fails in this order, it is run again
in that of its effects, which says what fails first, and the plan keeps to it.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from anabranch.core.contract import faults
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.ops.shared import host_blas, unchecked
from anabranch.runtime import host_ops
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.interpreter import joint_draws, joint_updates, open_stretches
from anabranch.runtime.interpreter.straight_builder import RUN_ANEW, Builder, Code, only_computes, only_draws
from anabranch.runtime.interpreter.straight_line import MOST_FORMS, MOST_MISSES
from anabranch.runtime.plans import shape_families
from anabranch.runtime.plans.items import HostItem, Segment
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.borrowing import may_borrow
from anabranch.runtime.values import to_host
from anabranch.xla import known_values

AFTER_RUNS = 3
"""So often a plan is run op by op: making the code takes as long as some runs."""
LEAST_OPS = 8
"""Ops of a stretch."""


class Stretch:
    """Consecutive items of a segment that only compute."""

    wave: ClassVar[int] = -1
    short: ClassVar[None] = None

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
        self._products = any(item.op.definition.flops is not None for item in items)
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
        for code in self._codes:
            try:
                with np.errstate(all="ignore"), self._threads():
                    return code.function(*values)
            except RUN_ANEW:
                continue
            except faults.BUGS as problem:
                bugs.append(code.bug(problem))
        with np.errstate(all="ignore"):
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

    @contextlib.contextmanager
    def _threads(self) -> Iterator[None]:
        """BLAS on one thread, but for large products: entered once, as each product would for itself."""
        if not self._products:
            yield
            return
        host_blas.enter()
        try:
            yield
        finally:
            host_blas.leave()


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
    if plan.nested or plan.runs <= AFTER_RUNS or attempt.step.stats is not None:
        return items
    if attempt.runner.bodies.watcher is not None or plan.looks_anew:
        return items
    if plan.tier != "interpreted" and (segment.calls_python or not plan.varying.open):
        segment.stretches = None
        return items
    if plan.tier == "interpreted" and plan.varying.open and plan.varying.runs < shape_families.MOST_RUNS:
        return items
    known, opened = segment.stretches, bool(plan.varying.open)
    if known is None or known[0] is not items or known[2] is not opened:
        cut = _cut_open if opened else _cut
        known = segment.stretches = items, list(cut(plan, segment, items)), opened
    found: list[Any] = known[1]
    return found


def _cut(plan: Plan, segment: Segment, items: Sequence[Any]) -> Iterator[Any]:
    computing = _computing(plan, items)
    return _in_pieces(plan, segment, items, computing, _joined)


def _cut_open(plan: Plan, segment: Segment, items: Sequence[Any]) -> Iterator[Any]:
    """The same where sizes change; a compiled plan keeps its order."""
    computing = {id(item) for item in items if open_stretches.belongs(plan, item)}
    return _in_pieces(plan, segment, items, computing, _joined_open)


def _in_pieces(
    plan: Plan, segment: Segment, items: Sequence[Any], computing: set[int], joined: Callable[..., list[Any]]
) -> Iterator[Any]:
    """The items, consecutive ones that compute as ``joined`` has them, and updates of a kind together."""
    interpreted = plan.tier == "interpreted"
    updates = {id(item) for item in items if interpreted and joint_updates.may_join(plan, item)}
    draws = {id(item) for item in items if interpreted and joint_draws.may_join(plan, item)}
    in_turn = segment.in_turn or segment.calls_python or not interpreted
    order = items if in_turn else _gathered(plan, items, computing, updates)

    def kind(item: Any) -> Any:
        if id(item) in computing:
            return joined
        if id(item) in draws:
            return joint_draws.joined
        return joint_updates.joined if id(item) in updates else None

    for together, alike in [(key, list(group)) for key, group in itertools.groupby(order, kind)]:
        yield from alike if together is None else together(plan, alike)


def _computing(plan: Plan, items: Sequence[HostItem]) -> set[int]:
    """The items that may be part of a stretch, by their ids."""
    changing: set[ValueKey] = set(plan.varying.open)
    """What has another shape from step to step, or is a variable that is looked at without a copy."""
    computing: set[int] = set()
    for item in items:
        op = item.op
        if _belongs(plan, item, changing):
            computing.add(id(item))
        elif op in plan.lent_reads or _data_decide(plan, item) or not changing.isdisjoint(item.sources):
            changing.update(op._outputs)
    return computing


class _Kind(enum.Enum):
    """Of an item: when it may run."""

    COMPUTES = "in a stretch, as soon as what it needs is there"
    FREE = "by itself, as soon as what it needs is there"
    UPDATES = "with others, as soon as what it needs is there"
    FIXED = "after those of its kind that are before it"


def _kind(item: Any, computing: set[int], updates: set[int]) -> _Kind:
    if id(item) in computing:
        return _Kind.COMPUTES
    if id(item) in updates:
        return _Kind.UPDATES
    free = not item.writes and (only_draws(item.op) or only_computes(item.op))
    return _Kind.FREE if free else _Kind.FIXED


def _looked_at(plan: Plan, items: Sequence[HostItem]) -> dict[int, list[ValueKey]]:
    """The versions of variables that items look at, also through reads that copy nothing, by the items' ids."""
    lent: dict[ValueKey, ValueKey] = {}
    found: dict[int, list[ValueKey]] = {}
    for item in items:
        versions = [lent.get(key, key) for key in item.sources if key is not None]
        versions = [key for key in versions if not isinstance(key, Tensor)]
        if item.op in plan.lent_reads and versions:
            lent[item.op._outputs[0]] = versions[0]
        if versions:
            found[id(item)] = versions
    return found


def _gathered(plan: Plan, items: Sequence[HostItem], computing: set[int], updates: set[int]) -> list[HostItem]:
    """The items in an order in which what runs together is in few pieces; see the head of the module."""
    looked_at = _looked_at(plan, items)
    missing = {key for item in items for key in (*item.op._outputs, *item.writes)}
    """What is not there yet."""
    waiting = [(item, _kind(item, computing, updates)) for item in items]
    order: list[HostItem] = []

    def take(kind: _Kind) -> bool:
        """Take the items of a kind that have all that they need; whether there were any."""
        nonlocal waiting
        left = []
        stopped = False
        needed: set[ValueKey] = set()
        """Versions that what was before an item has yet to look at."""
        for entry in waiting:
            item = entry[0]
            if entry[1] is kind and not stopped:
                # Rows of a variable may be written where they are; updates make other arrays.
                in_place = item.writes and kind is not _Kind.UPDATES
                if missing.isdisjoint(item.sources) and not (in_place and needed.intersection(item.sources)):
                    order.append(item)
                    missing.difference_update(item.op._outputs, item.writes)
                    continue
                stopped = kind is _Kind.FIXED
            needed.update(looked_at.get(id(item), ()))
            left.append(entry)
        taken = len(left) < len(waiting)
        waiting = left
        return taken

    taken = True
    while taken:
        while take(_Kind.FREE) or take(_Kind.COMPUTES):
            pass
        taken = any([take(_Kind.UPDATES), take(_Kind.FIXED)])  # both, as what computes would be in pieces between them
    return order


def reorders(segment: Segment) -> bool:
    """Whether interpreted ops of a segment may have run in another order than that of their effects."""
    return segment.stretches is not None and not segment.in_turn and not segment.calls_python


RUN_TOGETHER = (Stretch, open_stretches.OpenStretch, joint_updates.JointUpdates, joint_draws.JointDraws)
"""What stands in the place of several items."""


def _joined(plan: Plan, items: list[HostItem]) -> list[Any]:
    return [Stretch(plan, items)] if len(items) >= LEAST_OPS else items


def _joined_open(plan: Plan, items: list[HostItem]) -> list[Any]:
    return [open_stretches.OpenStretch(plan, items)] if len(items) >= open_stretches.LEAST_OPS else items


def _data_decide(plan: Plan, item: HostItem) -> bool:
    """Whether data decide the shapes that an op gives: not if these follow from shapes, like the axes of a sum."""
    if not item.op.definition.data_dependent_shape:
        return False
    return not (known_values.folds(item.op) and known_values.follow_from_shapes(item.sources, plan.fed))


def _belongs(plan: Plan, item: HostItem, changing: set[ValueKey]) -> bool:
    op = item.op
    if item.writes or op in plan.lent_reads or not only_computes(op) or _data_decide(plan, item):
        return False
    if not changing.isdisjoint(item.sources) or not plan.fed.isdisjoint(op._outputs):
        return False
    if any(key is None or key in plan.handles for key in item.sources):
        return False
    return not (may_borrow(op.definition) and any(not isinstance(key, Tensor) for key in item.sources))
