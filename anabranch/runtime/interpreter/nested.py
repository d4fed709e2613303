"""Calls, conditionals and loops whose bodies run as plans of their own, one execution at a time.

This is how the interpreter runs them, and how a compiled step runs what cannot be part of a program: bodies that call
Python, hold strings, act on channels, or whose shapes change from one iteration to the next. A body's plan has its own
tier, so the body of a long loop is soon one compiled program.

State. Inside a segment the bodies see and change an :class:`Overlay`: the versions that the segment has made so far,
and the counters of its random ops. What they leave there becomes versions of the segment, so the segment stays one
transaction. An op whose bodies act on channels is itself a channel op; its bodies commit their own segments.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.contract import faults
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import dtypes, list_values
from anabranch.core.values.dtypes import DType
from anabranch.rewrite import effects, reach
from anabranch.runtime.interpreter import lent_variables, straight_builder, turns
from anabranch.runtime.interpreter.body_plans import BODIES_FOR_A_SEGMENT
from anabranch.runtime.interpreter.inner_code import live_outputs
from anabranch.runtime.plans import policy
from anabranch.runtime.plans.binding import counter_of
from anabranch.runtime.plans.items import HostItem
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Layout, RandomCounter, ResourceHandle, Slot, Version
from anabranch.runtime.values import Published, device_value, to_host
from anabranch.xla import control

if TYPE_CHECKING:
    from anabranch.runtime.attempt import Attempt
    from anabranch.runtime.runner import Runner
    from anabranch.runtime.step import Step


class Hot(Exception):
    """An interpreted loop runs so often that the segment is better compiled and run from its beginning."""


class Overlay(ResourceManager):
    """What a segment sees of its variables and random streams, as a manager of its own."""

    def __init__(self, below: ResourceManager) -> None:
        super().__init__(0)
        self._below = below
        self._started: dict[str, tuple[RandomCounter, int]] = {}

    @property
    def shared(self) -> ResourceManager:
        return self._below.shared

    def put(self, slot: Slot, value: Any) -> None:
        """Show ``value`` (None: no value) as the variable of ``slot``."""
        mine = Slot(slot.handle, slot.dtype, slot.shape)
        if value is not None:
            mine.version = Version(value)
            mine.version.pins = 1  # others see this buffer, too
        self._slots[slot.handle] = mine

    def object(self, handle: ResourceHandle, create: Callable[[], Any]) -> Any:
        """Channels are not transactional: those below are the ones."""
        return self._below.object(handle, create)

    def slot(
        self,
        handle: ResourceHandle,
        dtype: DType,
        shape: tuple[int | None, ...] | None,
        initial: Callable[[], Any] | None = None,
        layout: Layout | None = None,
    ) -> Slot:
        """A variable that was put; another one is of the manager below."""
        slot = self._slots.get(handle)
        if slot is None:
            return self._below.slot(handle, dtype, shape, initial, layout)
        slot.join(layout)
        return slot

    def counter(self, name: str, seed: int, seed2: int, layout: Layout | None = None) -> RandomCounter:
        """A stream that begins where the one below stands."""
        counter = self._counters.get(name)
        if counter is None:
            below = self._below.counter(name, seed, seed2)
            counter = self._counters[name] = RandomCounter(below.key, below.position)
            self._started[name] = (below, below.position)
        counter.join(layout)
        return counter

    def advances(self) -> list[tuple[RandomCounter, int]]:
        """How far each stream of the manager below must move."""
        return [(below, self._counters[name].position - start) for name, (below, start) in self._started.items()]


class CarriedVariables:
    """A resource manager in which some variables keep the values that a step has seen of them."""

    def __init__(self, below: ResourceManager, values: dict[Slot, Any]) -> None:
        self._below = below
        self._slots: dict[ResourceHandle, Slot] = {}
        for slot, value in values.items():
            mine = self._slots[slot.handle] = Slot(slot.handle, slot.dtype, slot.shape)
            mine.version = Version(value)

    def slot(
        self,
        handle: ResourceHandle,
        dtype: DType,
        shape: tuple[int | None, ...] | None,
        initial: Callable[[], Any] | None = None,
        layout: Layout | None = None,
    ) -> Slot:
        """A carried variable, which never changes, or the one of the manager below."""
        return self._slots.get(handle) or self._below.slot(handle, dtype, shape, initial, layout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


def run_item(attempt: Attempt, item: HostItem) -> None:
    """Run an op with bodies inside a segment.

    Raises:
        Hot: a loop has taken as long as compiling the segment would take: it is to be begun anew, compiled.
    """
    op, runner, env = item.op, attempt.runner, attempt.env
    within = effects.summary(op)
    assert within is not None
    operands = _operands(runner, op, item.sources, env)
    entry = item.sources[len(op._inputs) :]
    remembered = attempt.memo.get(op)
    if item.lends is None:
        item.lends = tuple([isinstance(key, StateKey) and lent_variables.only_looks(op, key.maker) for key in entry])
    current = [_value(env.get(key), lends) for key, lends in zip(entry, item.lends, strict=True) if key is not None]
    if remembered is not None and all(
        list_values.equal(to_host(a), to_host(b)) for a, b in zip(remembered[0], (*operands, *current), strict=True)
    ):
        outputs, finals = remembered[1]
    else:
        if remembered is not None:
            attempt.memo.check(op)
        manager = runner.manager
        overlay: Overlay | None = None
        slots: list[Slot] = []
        if entry or within.random_ops:
            manager = overlay = Overlay(runner.manager)
            for key, value in zip(entry, current, strict=True):
                assert isinstance(key, StateKey)
                slot = runner.slot(key.maker)
                overlay.put(slot, value)
                slots.append(overlay._slots[slot.handle])
        plan = runner.plan
        restart = plan.tier == "interpreted" and plan.options.tier == "auto"
        restart &= not any(segment.calls_python for segment in plan.segments)
        outputs = _execute(runner, op, operands, manager, attempt.step, restart, live_outputs(runner.plan, op))
        finals = [slot.version.value if slot.version is not None else None for slot in slots[: len(item.writes)]]
        if overlay is not None:
            attempt.advances += overlay.advances()
        if within.io and not within.random_ops:
            attempt.memo[op] = ((*operands, *current), (outputs, finals))
    for written, value in zip(item.writes, finals, strict=True):
        if value is not None:
            env[written] = value
    _store(runner, op, outputs, env)


def _value(value: Any, lends: bool) -> Any:
    """A variable's value for bodies; without a trace of it where these only look at an array of the host."""
    if lends and isinstance(value, Version) and isinstance(value.unexposed, np.ndarray):
        return value.unexposed
    return device_value(value)


def run_channel(runner: Runner, op: Operation, env: dict[ValueKey, Any], step: Step) -> None:
    """Run an op whose bodies act on channels: between two segments, in segments of its own."""
    sources = runner.plan.sources(op)
    carried = runner.plan.analysis.carried
    # Variables that the segment itself has written are read once it has committed.
    reads = [key for key in sources[: len(op._inputs)] if isinstance(key, StateKey) and key not in carried]
    versions = runner.manager.pin([runner.slot(key.maker) for key in reads], op, None, step.token)
    try:
        seen: dict[ValueKey, Any] = {**env, **{k: version.host() for k, version in zip(reads, versions, strict=True)}}
        operands = _operands(runner, op, sources, seen)
    finally:
        runner.manager.unpin(versions)
    live = live_outputs(runner.plan, op)
    inner = {runner.slot(key.maker): env[key] for key in sources[len(op._inputs) :] if key in carried and key in env}
    manager: Any = CarriedVariables(runner.manager, inner) if inner else runner.manager
    _store(runner, op, _execute(runner, op, operands, manager, step, live=live), env)


def _operands(runner: Runner, op: Operation, sources: Sequence[ValueKey | None], env: dict[ValueKey, Any]) -> list[Any]:
    """A value for each input: arrays, handles, None for the ref of a variable."""
    operands: list[Any] = []
    for tensor, key in zip(op._inputs, sources, strict=False):
        if key is not None:
            value = env[key]
            operands.append(value.value if isinstance(value, (Version, Published)) else value)
        elif tensor in env:
            operands.append(env[tensor])
        elif tensor.dtype.base is dtypes.resource:
            operands.append(runner.plan.handle_of(reach.maker_of(tensor)))
        else:
            operands.append(None)
    return operands


def _store(runner: Runner, op: Operation, outputs: Sequence[Any], env: dict[ValueKey, Any]) -> None:
    for output, value in zip(op._outputs, outputs, strict=True):
        if output not in runner.plan.fed:
            env[output] = value


class _Body:
    """A body ready to run any number of times in one manager."""

    def __init__(
        self, runner: Runner, body: Body, live: Sequence[int], manager: ResourceManager, step: Step, waits: bool
    ):
        self.plan = runner.bodies.of(body, tuple(live))
        self.runner = runner.for_plan(self.plan, manager)
        self.step = dataclasses.replace(step, manager=manager)
        self.live = live
        self.count = len(body.outputs)
        self.values = [i for i, arg in enumerate(body.args) if not arg.dtype.is_ref]
        self.tier = "interpreted" if waits else runner.plan.options.tier
        self.waits = waits
        """Whether it is to be interpreted, also where another plan has had it compiled: this one may be found to be
        quicker without."""
        self.straight = runner.bodies.straight(self.plan) if step.stats is None else None
        self.slots: list[Slot] = []
        """The variables that straight code reads. It writes none, but what the loop runs besides may."""
        if self.straight is not None and self.straight.random_ops and not isinstance(manager, Overlay):
            self.straight = None
        self.inner_cost = 0.0
        """What the bodies inside this one have cost in straight code."""
        self.turn = turns.Turn(self._stream, step.token) if self.straight is not None else None
        if self.straight is not None and self.straight.reads:
            self.slots = [self.runner.slot(key.maker) for key in self.straight.reads]
            if not isinstance(manager, Overlay) or any(slot.version is None for slot in self.slots):
                self.straight = None

    def _stream(self, op: Operation) -> RandomCounter:
        """The stream of an op that draws, which moves with the segment's."""
        return counter_of(self.plan, self.runner.manager, op)

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        """What surrounds one run, or all runs of a loop."""
        return straight_builder.quiet() if self.straight is not None else contextlib.nullcontext()

    def taken(self, operands: list[Any]) -> list[Any]:
        """The operands as the body takes them: straight code is for arrays of the host, not for what programs give."""
        if not self._runs_straight():
            return operands
        return [None if value is None else to_host(value) for value in operands]

    def run_quietly(self, operands: Sequence[Any]) -> list[Any]:
        """Run the body once."""
        with self.quiet():
            results = self.run(operands)
        self.end()
        return results

    def end(self) -> None:
        """Note what it has cost, when it has run as often as it is to."""
        if self.inner_cost:
            self.runner.bodies.spend(self.plan, self.inner_cost)

    def _runs_straight(self) -> bool:
        return self.straight is not None and (self.waits or self.plan.tier == "interpreted")

    def _is_best_straight(self) -> bool:
        """Whether a program would be no better than the code that there is."""
        return self.straight is not None and self.tier == "auto" and self.straight.is_best

    def run(self, operands: Sequence[Any]) -> list[Any]:
        """Run the body, within :meth:`quiet`."""
        if self.plan.tier not in ("compiled", self.tier):
            if not self._is_best_straight():
                self.runner.prepare(self.tier)
            elif not self.plan.tier:  # the code may be another one's, and not for these values
                self.runner.prepare("interpreted")
        self.plan.runs += 1
        values = [operands[i] for i in self.values]
        outcome = None
        if self.straight is not None and self._runs_straight():
            read = [slot.version.host() for slot in self.slots if slot.version is not None]
            turn = self.turn
            assert turn is not None
            with contextlib.suppress(turns.TooLong):
                outcome = self.straight.run(values + read, turn)
            turn.keep()
            if turn.inner_cost:
                self.step.nested_cost[0] += turn.inner_cost
                self.inner_cost += turn.inner_cost
                turn.inner_cost = 0.0
        if outcome is not None:
            results, cost = outcome
        else:
            cost = self.plan.cost.run if self.plan.tier == "interpreted" else policy.PROGRAM_RUN
            results = self.runner.run(values, self.step)
            if self.waits and self.plan.tier == "compiled":
                results = [to_host(value) for value in results]
        if self.straight is not None and self.straight.bug is not None:
            faults.warn(self.straight.bug, "straight")
        self.step.nested_cost[0] += cost
        if len(self.live) == self.count:
            return results[: self.count]
        filled: list[Any] = [None] * self.count
        for i, value in zip(self.live, results, strict=False):
            filled[i] = value
        return filled


def _execute(
    runner: Runner,
    op: Operation,
    operands: list[Any],
    manager: ResourceManager,
    step: Step,
    restart: bool = False,
    live: tuple[int, ...] | None = None,
) -> list[Any]:
    """Run an op with bodies. Of its outputs only those in ``live`` are looked at (None: all)."""
    role = op.role
    uses = bodies_of(op)
    live = tuple(range(len(op._outputs))) if live is None else live
    chosen = uses[control.branch_of(op, to_host(operands[0]), len(uses))] if role is Role.CONDITIONAL else uses[-1]
    waits = runner.plan.compiles_further
    if restart:
        alone = policy.compiling_body(runner.bodies.of(chosen.body, live).cost)
        waits = runner.plan.cost.compile <= BODIES_FOR_A_SEGMENT * alone
    if role is Role.CONDITIONAL:
        branch = _Body(runner, chosen.body, live, manager, step, waits)
        results = branch.run_quietly(branch.taken(operands[1:]))
    elif role is Role.LOOP:
        condition = _Body(runner, uses[0].body, (0,), manager, step, waits)
        inner = _Body(runner, chosen.body, live, manager, step, waits)
        changing = inner.live if len(inner.live) < inner.count else None
        results = inner.taken(operands)
        hot = restart and not policy.was_slower(runner.plan)
        most = step.nested_cost[0] + runner.plan.cost.compile if hot else float("inf")
        with inner.quiet():
            while control.truth(to_host(condition.run(results)[0])):
                step.token.raise_if_cancelled()
                outputs = inner.run(results)
                if changing is None:
                    results = outputs
                else:  # what does not change, and what nobody uses, stays what it was
                    results = list(results)
                    for i in changing:
                        results[i] = outputs[i]
                if step.nested_cost[0] > most:
                    raise Hot
        inner.end()
    else:
        assert role is Role.CALL
        called = _Body(runner, chosen.body, live, manager, step, waits)
        results = called.run_quietly(called.taken(operands))
    return list(results)
