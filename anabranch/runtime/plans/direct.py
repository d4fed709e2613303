"""The short way: a step that is one program, of which everything that does not change is decided once.

Most steps are one segment with one program whose inputs are feeds and variables. After such a step has run the long
way once, its arguments, the variables that it owns and the places of its results are known as positions; what is left
per run is to bind, claim, call, read the flags, publish and copy out. Whenever one of the variables
that the step binds has appeared, vanished or changed its shape since, the step goes the long way again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.state_key import StateKey
from anabranch.runtime.interrupts import Interrupts
from anabranch.runtime.plans.plan import ProgramItem
from anabranch.runtime.state import spare_buffers
from anabranch.runtime.state.resources import Claim, Slot, Version
from anabranch.runtime.values import NO_RNG, own
from anabranch.xla import engine

if TYPE_CHECKING:
    from anabranch.runtime.executor import Executor, Step
    from anabranch.runtime.plans.binding import Binding
    from anabranch.runtime.plans.plan import Plan

MAX_EARLY_COPY = 1 << 20
"""Bytes of a result under which its copy to the host begins before anybody asks for it."""
_NOTHING: frozenset[Any] = frozenset()


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
        self.shows = (
            bool(program.donated_keys) and not item.writes and (len(self.segment.written) == len(program.donated_keys))
        )
        """Whether all that it writes are variables that it owns: these are current once the call returns."""
        self.far = program.platform != "cpu"
        self.wide = engine.is_wide(executable.function)
        self.constants = program.device_constants()
        self.fetches: list[tuple[str, Any]] = []
        for fetch in runner.plan.fetches:
            self.fetches.append(self._place(fetch, feeds, traced, known, finals))
        self.waits = bool(self.donated_slots) or all(kind != "result" for kind, _ in self.fetches)
        """Whether the program is waited for before its results are: those of one program are there together."""

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
        return self.take(feeds, step.token, step.read_committed)

    def take(self, feeds: Sequence[Any], token: CancellationToken, read_committed: bool) -> list[Any] | None:
        """The same, of what a step consists of."""
        manager, slots = self.manager, self.donated_slots
        loose: Sequence[Version] = ()
        current: Sequence[Version] = ()
        interrupts = Interrupts()
        claim: Claim | None = None
        try:
            if self.writes:
                claim = Claim(_NOTHING if read_committed else self.state.claim_reads, self.state.claim_writes)
                manager.begin(claim, token)
            if not self.layout.holds:
                return None
            if self.read_slots:
                if read_committed or not self.writes:
                    current = loose = manager.pin(self.read_slots)
                else:
                    current = [slot.current() for slot in self.read_slots]
                if not self.layout.holds:
                    return None
            arguments = tuple([feeds[i] if i >= 0 else current[~i].value for i in self.sources])
            if engine.other_devices_used():
                arguments = tuple(engine.moved(arguments, self.program.device))
            rng = NO_RNG
            if self.counters:
                rng = np.empty((len(self.counters), 6), np.uint32)
                for row, counter in enumerate(self.counters):
                    rng[row, :2], rng[row, 2:] = counter.words()
            results, finals, flags = self._call(arguments, rng, interrupts)
            if flags is not None:
                self.runner.raise_failed(self.program, self.executable, flags, slots, finals, self.shows)
            if not self.shows and self.segment.written:
                updates = list(zip(slots, finals, strict=True))
                updates += [(slot, results[at] if traced else at) for at, traced, slot in self.kept]
                manager.publish(updates)
            if self.counters:
                for counter, amount in zip(self.counters, self.executable.facts.amounts(results), strict=True):
                    counter.position += amount
            return [
                None if kind == "nothing" else own(self.place_of(kind, place, feeds, results, finals, current))
                for kind, place in self.fetches
            ]
        except BaseException as problem:
            manager.settle(slots)
            told = device_failure(problem, len(self.program.group.ops))
            if told is not None:
                raise told from problem
            raise
        finally:
            if loose:
                manager.unpin(loose)
            if claim is not None:
                manager.end(claim)
                interrupts.release()

    def _call(self, arguments: tuple[Any, ...], rng: np.ndarray, interrupts: Interrupts) -> tuple[Any, Any, Any]:
        """Calls the program and waits for it; gives it the buffers of variables that nobody has pinned."""
        executable, slots = self.executable, self.donated_slots
        if executable.draft is not None:
            executable.draft.count(executable)
        shown = False
        if slots:
            interrupts.hold()
        try:
            function = executable.function
            donated: tuple[Any, ...] = ()
            if slots:
                versions: list[Any] = [slot.version for slot in slots]
                if spare_buffers.unexpected() and not engine.other_devices_used() and self.manager.take_all(versions):
                    donated = tuple([version.value for version in versions])
                else:
                    function, donated = self._handed(versions, arguments, rng)
            if self.wide:
                with engine.x64():
                    results, finals, flags = function(donated, arguments, self.constants, rng)
            else:
                engine.refuse_after_fork()
                results, finals, flags = function(donated, arguments, self.constants, rng)
            if self.shows:
                # What the program returns for donated variables is right whether or not its checks hold: show it now.
                self.manager.replace(slots, finals)
                shown = True
            if self.far:  # all small copies to the host at once: one wait instead of one for each
                copy_early((*(flags[:1] if flags is not None else ()), *results))
            if flags is not None:
                return results, finals, (np.asarray(flags[0]), flags[1])
            if self.waits:
                for done in (finals or results)[:1]:
                    engine.wait_for(done)
        except Exception as problem:
            told = device_failure(problem, len(self.program.group.ops))
            if told is None:
                raise
            if shown:
                self.manager.lose(slots)
            raise told from problem
        return results, finals, None

    def _handed(self, versions: list[Any], arguments: tuple[Any, ...], rng: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
        old = engine.moved([version.value for version in versions], self.program.device)
        with engine.x64():
            return spare_buffers.handed(self.manager, self.program, self.executable, versions, old, arguments, rng)

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


class Hot:
    """How the steps of a fetch structure went last, if they went the short way: what a next one of its kind needs."""

    __slots__ = ("_kinds", "changes", "direct", "plan", "runner")

    def __init__(
        self, changes: int, names: Sequence[Tensor], values: Sequence[np.ndarray], plan: Plan, runner: Executor
    ):
        self.changes = changes
        """How many the graph had seen."""
        self._kinds = [(name, value.shape, value.dtype) for name, value in zip(names, values, strict=True)]
        self.plan = plan
        self.runner = runner
        self.direct = runner.short_form

    def values(self, feed_dict: Any) -> list[Any] | None:
        """The feeds in order, if they are arrays of the same kinds for the same tensors; else None."""
        if not feed_dict:
            return None if self._kinds else []
        if type(feed_dict) is not dict:
            return None
        values = list(feed_dict.values())
        return values if self.fits(feed_dict, values) else None

    def fits(self, names: Collection[Any], values: Sequence[Any]) -> bool:
        """Whether these are arrays of the same kinds for the same tensors."""
        kinds = self._kinds
        if len(values) != len(kinds):
            return False
        for key, value, (name, shape, dtype) in zip(names, values, kinds, strict=True):
            if key is not name or type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                return False
        return True


def hot(changes: int, names: Sequence[Tensor], values: Sequence[Any], plan: Plan, runner: Any) -> Hot | None:
    """What a step leaves for the next one of its kind; None if it, or its feeds, are not plain."""
    if getattr(runner, "short_form", None) is None:
        return None
    if any([type(value) is not np.ndarray or value.dtype.kind == "O" for value in values]):
        return None
    return Hot(changes, names, values, plan, runner)


def copy_early(values: Sequence[Any]) -> None:
    """Begins to copy what is small to the host."""
    for value in values:
        if getattr(value, "nbytes", MAX_EARLY_COPY) < MAX_EARLY_COPY:
            value.copy_to_host_async()


def device_failure(problem: BaseException, ops: int) -> errors.OpError | None:
    """The error for one of XLA's; None if it is none."""
    if type(problem).__name__ not in ("XlaRuntimeError", "JaxRuntimeError"):
        return None
    kind = errors.ResourceExhaustedError if "RESOURCE_EXHAUSTED" in str(problem) else errors.InternalError
    found = kind(None, None, f"a program of {ops} ops failed in the device: {problem}")
    found.__cause__ = problem
    return found


def prepare(runner: Executor, bound: Binding) -> DirectStep | None:
    """The short form of a plan that has just run the long way, or None if it has none."""
    plan = runner.plan
    if len(plan.segments) != 1 or len(plan.segments[0].items) != 1 or not bound.layout.holds:
        return None
    item = plan.segments[0].items[0]
    if not isinstance(item, ProgramItem) or item.cached is None or item.cached[0] is not bound.layout:
        return None
    if item.program.device is not None or plan.segments[0].calls_python or not plan.shapes_certain(plan.segments[0]):
        return None
    return DirectStep(runner, bound, item, item.cached[1])
