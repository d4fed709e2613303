"""The short way: a step that is one program, of which everything that does not change is decided once.

Most steps are one segment with one program whose inputs are feeds and variables. After such a step has run the long
way once, its arguments, the variables that it owns and the places of its results are known as positions; what is left
per run is to bind, claim, call, read the flags, publish and copy out. Whenever the resource manager's layout has
changed since, the step goes the long way again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.operation import Tensor
from anabranch.core.state_key import StateKey
from anabranch.runtime.plan import ProgramItem
from anabranch.runtime.resources import Claim, Slot, Version
from anabranch.runtime.values import NO_RNG, own
from anabranch.xla import engine

if TYPE_CHECKING:
    from anabranch.runtime.binding import Binding
    from anabranch.runtime.executor import Executor, Step


class DirectStep:
    """One step in the short form; :func:`prepare` makes it."""

    def __init__(self, runner: Executor, bound: Binding, item: ProgramItem, executable: Any):
        self.runner = runner
        self.bound = bound
        self.manager = runner.manager
        self.layout = bound.layout
        self.state = state = bound.states[0]
        self.item = item
        self.segment = runner.plan.segments[0]
        self.executable = executable
        program = item.program
        self.program = program
        feeds = {tensor: i for i, tensor in enumerate(runner.plan.feeds)}
        self.read_slots: list[Slot] = []
        self.sources: list[int] = []
        """Per argument: a feed's position, or ``~i`` for the version of ``read_slots[i]`` that the step sees."""
        for key in program.inputs:
            if isinstance(key, StateKey):  # of a variable that the step is fed a value for: the feed
                key = runner.plan.analysis.instead.get(key, key)
            if isinstance(key, StateKey):
                self.sources.append(~len(self.read_slots))
                self.read_slots.append(state.slots[key])
            else:
                self.sources.append(feeds[key])
        self.donated_slots = [state.slots[key] for key in program.donated_keys]
        self.counters = [state.counters[op] for op in program.random_ops]
        self.writes = bool(self.segment.written or self.counters)
        facts = executable.facts
        traced = {program.outputs[place]: i for i, place in enumerate(facts.traced_outputs)}
        known = {program.outputs[place]: value for place, value in facts.known_outputs.items()}
        finals = {key.maker: i for i, key in enumerate(program.donated.values())}
        self.kept = [(traced.get(key, known.get(key)), key in traced, state.written_slot(key)) for key in item.writes]
        self.fetches: list[tuple[str, Any]] = []
        for fetch in runner.plan.fetches:
            self.fetches.append(self._place(fetch, feeds, traced, known, finals))

    def variant(self, executable: Any) -> DirectStep:
        """The same step by another variant of its program."""
        return DirectStep(self.runner, self.bound, self.item, executable)

    def _place(self, fetch: Any, feeds: Any, traced: Any, known: Any, finals: Any) -> tuple[str, Any]:
        if not isinstance(fetch, Tensor):
            return "nothing", None
        plan = self.runner.plan
        if fetch in plan.final_reads:
            maker = plan.final_reads[fetch]
            if maker in finals:
                return "final", finals[maker]
            key = self.segment.written.get(maker)
            if key is not None:
                return ("result", traced[key]) if key in traced else ("value", known[key])
            self.read_slots.append(self.state.slots[StateKey(maker, 0, 0)])
            return "read", len(self.read_slots) - 1
        if fetch in feeds:
            return "feed", feeds[fetch]
        if fetch in traced:
            return "result", traced[fetch]
        if fetch in known:
            return "value", known[fetch]
        return "value", plan.constants[fetch] if fetch in plan.constants else plan.handles[fetch]

    def run(self, feeds: Sequence[Any], step: Step) -> list[Any] | None:
        """The step's results; None if it must go the long way."""
        manager = self.manager
        loose: list[Version] = []
        claim = Claim(frozenset() if step.read_committed else self.state.claim_reads, self.state.claim_writes)
        try:
            if self.writes:
                manager.begin(claim, step.token)
            if manager.layout != self.layout:
                return None
            if self.read_slots and (step.read_committed or not self.writes):
                current = loose = manager.pin(self.read_slots)
            else:
                current = [slot.current() for slot in self.read_slots]
            if manager.layout != self.layout:
                return None
            device = self.program.device
            arguments = engine.moved([feeds[i] if i >= 0 else current[~i].value for i in self.sources], device)
            versions = [slot.version for slot in self.donated_slots]
            donated = engine.moved([version.value for version in versions], device)  # type: ignore[union-attr]
            rng = NO_RNG
            if self.counters:
                rng = np.empty((len(self.counters), 6), np.uint32)
                for row, counter in enumerate(self.counters):
                    rng[row, :2], rng[row, 2:] = counter.words()
            results, finals, flags, shown = self.runner.call(
                self.item,
                self.segment,
                self.executable,
                versions,  # type: ignore[arg-type]
                donated,
                self.donated_slots,
                tuple(arguments),
                rng,
                step,
            )
            if flags is not None:
                self.runner.raise_failed(self.program, self.executable, flags, self.donated_slots, finals, shown)
            if not shown and self.segment.written:
                updates = list(zip(self.donated_slots, finals, strict=True))
                updates += [(slot, results[at] if traced else at) for at, traced, slot in self.kept]
                manager.publish(updates)
            if self.counters:
                for counter, amount in zip(self.counters, self.executable.facts.amounts(results), strict=True):
                    counter.position += amount
            return [own(self.place_of(kind, place, feeds, results, finals, current)) for kind, place in self.fetches]
        except BaseException:
            manager.settle(self.donated_slots)
            raise
        finally:
            if loose:
                manager.unpin(loose)
            if self.writes:
                manager.end(claim)
                step.interrupts.release()

    @staticmethod
    def place_of(kind: str, place: Any, feeds: Sequence[Any], results: Any, finals: Any, current: Any) -> Any:
        """The value at a fetch's place, which the caller does not own yet."""
        if kind == "result":
            return results[place]
        if kind == "nothing":
            return None
        if kind == "final":
            return finals[place]
        if kind == "feed":
            return feeds[place]
        return current[place].value if kind == "read" else place


def prepare(runner: Executor, bound: Binding) -> DirectStep | None:
    """The short form of a plan that has just run the long way, or None if it has none."""
    plan = runner.plan
    if len(plan.segments) != 1 or len(plan.segments[0].items) != 1 or bound.layout != runner.manager.layout:
        return None
    item = plan.segments[0].items[0]
    if not isinstance(item, ProgramItem) or item.cached is None or item.cached[0] != bound.layout:
        return None
    if item.program.device is not None or plan.segments[0].calls_python or not plan.shapes_certain(plan.segments[0]):
        return None
    return DirectStep(runner, bound, item, item.cached[1])
