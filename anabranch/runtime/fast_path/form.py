"""How a segment of a fast step runs: its items, bound for values of certain shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import spare_arrays
from anabranch.runtime import first_failure, results
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.fast_path.items import (
    BoundProgram,
    HostOp,
    OtherShapes,
    PaddedArgument,
    PaddedProgram,
    Wave,
    sources_of,
    stored_outputs,
)
from anabranch.runtime.plans.items import HostItem, ProgramItem
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.slots import RandomCounter, Slot, Version
from anabranch.runtime.step import Call, OtherLayout, Transaction
from anabranch.runtime.values import own
from anabranch.xla import engine

NOTHING: frozenset[Any] = frozenset()


class Unfit(Exception):
    """A segment went in a way that has no form."""


class Form:
    """How a segment runs for values of certain shapes."""

    def __init__(self, places: dict[ValueKey, int], attempt: Attempt) -> None:
        """``places`` are those of all values of the step."""
        runner, segment, state = attempt.runner, attempt.segment, attempt.state
        plan = runner.plan
        self.segment = segment
        self.state = state
        self.layout = state.layout
        self.manager = runner.manager
        self.writes = bool(segment.written or segment.random_ops)
        self._in_order = first_failure.in_order(plan, segment.items)
        self.items: list[Any] = []
        self.read_slots: list[Slot] = []
        self._read: dict[ValueKey, int] = {}
        is_last = segment is plan.segments[-1]
        local = set[int]()
        known: set[ValueKey] = {*plan.constants, *plan.handles}
        self.padded: list[PaddedProgram] = []
        """Those that pad the sizes of the step."""
        self.last: BoundProgram | None = None
        """The program that owns the buffers of variables, or else the last one."""
        wave: list[tuple[bool, BoundProgram]] = []
        for number, item in enumerate(segment.items):
            if isinstance(item, HostItem):
                sources = self._sources_of(places, item.sources)
                self.items.append(HostOp(runner, item.op, sources))
                local.update(places[output] for output in stored_outputs(plan, item.op))
                continue
            program = item.program
            executable, static = attempt.used[item]
            pads = bool(program.batch_axes)
            if executable.facts.guessed or not all(program.inputs[i] in known for i in static):
                raise Unfit
            if pads and (static or item.wave >= 0):
                raise Unfit
            slots = [state.slots[key] for key in program.donated_keys]
            owns_all = not item.writes and len(segment.written) == len(slots)
            facts = executable.facts
            ends = is_last and (number == len(segment.items) - 1 or 0 <= item.wave == segment.items[-1].wave)
            traced = {program.outputs[place] for place in facts.traced_outputs}
            waits = bool(slots) or not ends or traced.isdisjoint(plan.fetch_keys)
            at_inputs = [i for i in range(len(program.inputs)) if i not in static]
            arguments = [program.inputs[i] for i in at_inputs]
            sources = self._sources_of(places, arguments)
            pairs = zip(arguments, sources, strict=True)
            padded = {
                program.inputs[i]: PaddedArgument(program, at_inputs.index(i), i, attempt.env[program.inputs[i]])
                for i in program.open_axes
                if i not in static
            }
            checks = [(place, attempt.env[key].shape) for key, place in pairs if place in local and key not in padded]
            if pads:
                following = {places[program.inputs[i]] for i in program.batch_axes}
                checks = [(place, shape) for place, shape in checks if place not in following]
            call = Call(program, executable, slots, owns_all, not pads, waits, engine.is_wide(executable.function))
            where = program.devices_of_inputs
            if where is not None:
                where = [device for i, device in enumerate(where) if i not in static]
            counters = [state.counters[op] for op in program.random_ops]
            self.last = BoundProgram(call, sources, checks, counters, where, list(padded.values()))
            if pads:
                giving = [(places[tensor], axis) for tensor, axis in plan.gives_sizes]
                size = plan.batch_size(attempt.env)
                self.last = PaddedProgram(giving, self.last, size, [attempt.env[key] for key in padded])
                self.padded.append(self.last)
            wave.append((item.goes_last, self.last))
            if item.wave < 0 or number == len(segment.items) - 1 or segment.items[number + 1].wave != item.wave:
                self.items.append(self.last if len(wave) == 1 else Wave(wave, plan.rank))
                wave = []
            known.update(program.outputs[place] for place in facts.known_outputs)
        ending: list[BoundProgram] = []
        """The programs that may own the buffers of variables."""
        if self.last is not None:
            item = next(item for item in reversed(self.items) if not isinstance(item, HostOp))
            ending = item.programs if isinstance(item, Wave) else [item]
        self.shows = any(program.call.shows for program in ending)
        self.held = [slot for _, slot, _ in state.base]
        """Variables of whose versions the segment sees something, or whose buffers it is given."""
        self.writes_at = [(slot, places[key]) for key, slot in state.written]
        self.updates: list[tuple[Slot, int]] = []
        if not self.shows:
            self.updates = self.writes_at
        self.fetches: list[int | None] = self._sources_of(places, plan.fetch_keys) if is_last else []
        programs = [item.program for item in segment.items if isinstance(item, ProgramItem)]
        computed = {places[key] for program in programs for key in program.outputs}
        replaced = {places[key] for program in programs for key in program.donated.values()}
        self._same_shapes = not any(attempt.used[item][0].facts.dynamic for item in attempt.used) and (
            replaced if self.padded else computed | replaced
        ).issuperset([at for _, at in self.writes_at])
        """Whether all that is written comes from programs: in the shapes that it had, as the layout held after it."""
        computed.difference_update([at for _, at in self.writes_at])  # what becomes a version may be given away
        computed.update(range(len(plan.feeds)))
        self._stays = [not self.padded and at in computed for at in self.fetches]
        """Of each fetch, whether it is a feed, or the result of a program that nobody will change."""
        self._specs = None
        self._reserves_before = None
        if is_last and not self.padded and any(program.call.slots for program in ending):
            self._specs = self._large_fetches(plan, ending)
            self._reserves_before = item if self._specs is not None else None
        self._may_share = any(self._stays)
        if self._specs is not None and not all(
            [stays or at is None for stays, at in zip(self._stays, self.fetches, strict=True)]
        ):
            self._may_share = False  # what is copied needs its memory beforehand

    def _sources_of(self, places: dict[ValueKey, int], keys: Sequence[ValueKey | None]) -> list[Any]:
        for key in keys:
            if isinstance(key, StateKey) and key not in places and key not in self._read:
                slot = self.state.slots.get(key)
                if slot is None or slot.version is None:
                    raise Unfit
                self._read[key] = len(self.read_slots)
                self.read_slots.append(slot)
        return sources_of(places, keys, self._read)

    def _large_fetches(self, plan: Plan, programs: Sequence[BoundProgram]) -> list[Any] | None:
        """Per fetch its spec if it is large, True if that is seen when it is there; None if none can be large."""
        specs: dict[ValueKey | None, Any] = {None: None}
        for each in programs:
            program, facts = each.call.program, each.facts
            specs.update(dict.fromkeys(program.outputs))
            specs.update(
                (program.outputs[at], spec) for at, spec in zip(facts.traced_outputs, facts.specs, strict=False)
            )
            specs.update((program.outputs[at], (value.shape, value.dtype)) for at, value in facts.known_outputs.items())
            for key, slot in zip(program.donated.values(), each.call.slots, strict=True):
                value = slot.version.value if slot.version is not None else None
                specs[key] = None if value is None else (value.shape, value.dtype)
        large = [results.large(specs[key]) if key in specs else True for key in plan.fetch_keys]
        return large if any(large) else None

    @property
    def budgets(self) -> list[int]:
        """For each program with loops that may last, how often these may run in a caller's thread: of those that run
        beside others not at all, as one that stops must not leave the others alone.
        """
        alone = [item.call for item in self.items if isinstance(item, BoundProgram)]
        beside = [program.call for item in self.items if type(item) is Wave for program in item.programs]
        budgets = [call.executable.facts.budget for call in alone if call.limited]
        return [*budgets, *(0 for call in beside if call.limited)]

    def adopt(self, other: Form) -> None:
        """Take the calls of padded programs for capacities that an earlier form has served."""
        if other.layout is self.layout and len(other.padded) == len(self.padded):
            for program, known in zip(self.padded, other.padded, strict=True):
                program.calls = {**known.calls, **program.calls}

    def with_executable(self, executable: Any) -> BoundProgram:
        """The one program of the form in another variant, which waits for nothing."""
        assert self.last is not None
        call = self.last.call
        gated = Call(call.program, executable, call.slots, True, wide=True, gated=True)
        return BoundProgram(gated, self.last._sources, [], self.last.counters, padded=self.last._padded)

    # ------------------------------------------------------------------------------------------------------------- runs
    def begin(self, transaction: Transaction, read_committed: bool, by: Any = None) -> Sequence[Version]:
        """Claims what the segment writes; the versions of ``read_slots`` that it sees."""
        if self.writes:
            reads = NOTHING if read_committed else self.state.claim_reads
            transaction.claim(reads, self.state.claim_writes, by)
            if transaction.may_be_left:  # the claim may end before the step does
                transaction.read(self.held, None, by)
        transaction.require(self.layout)
        if not self.read_slots:
            return ()
        if self.writes and not read_committed:
            return [slot.current() for slot in self.read_slots]
        current = transaction.read(self.read_slots, None, by)
        transaction.require(self.layout)
        return current

    def run(
        self, values: list[Any], token: CancellationToken, read_committed: bool, shared: bool = False
    ) -> list[Any] | None:
        """Run the segment, and returns the fetches if it is the last; None if it must go by the executor."""
        transaction = Transaction(self.manager, token)
        begun = len(values)
        shared = shared and self._may_share
        try:
            current = self.begin(transaction, read_committed)
            advances: list[tuple[RandomCounter, int]] = []
            reserved = None
            for item in self.items:
                if item is self._reserves_before and not shared:
                    reserved = self._reserve(values, current)
                if isinstance(item, BoundProgram):
                    amounts = item.run(values, current, transaction)
                    if item.counters:
                        advances += zip(item.counters, amounts, strict=True)
                elif type(item) is Wave:
                    advances += item.run(values, current, transaction)
                else:
                    item.run(values, current, token)
            if shared:
                fetched = self._results(values, current)
            else:
                fetched = self.collect(values, current, reserved, transaction.too_late)
            updates = self.writes_at if transaction.may_be_left else self.updates
            if updates or advances:
                transaction.commit([(slot, values[at]) for slot, at in updates], advances, self._same_shapes)
            elif transaction.may_be_left:
                token.raise_if_cancelled()
            return fetched
        except (OtherLayout, OtherShapes):
            del values[begun:]
            return None
        except errors.OpError as problem:
            transaction.fail()
            if self._in_order or problem._op is None:
                raise
            del values[begun:]  # the executor finds out which failure comes first
            return None
        except BaseException:
            transaction.fail()
            raise
        finally:
            transaction.end()

    def collect(
        self, values: Sequence[Any], current: Sequence[Version], reserved: Any = None, too_late: bool = False
    ) -> list[Any]:
        """The fetches as the caller's own."""
        if reserved is not None:
            return results.owned(self.raw(values, current), reserved, too_late)
        try:
            return [
                None
                if at is None
                else own(current[~at].value)
                if at < 0
                else values[at]
                if type(values[at]) is np.ndarray and spare_arrays.held_by(values[at], 1)
                else own(values[at])
                for at in self.fetches
            ]
        except MemoryError:  # what there is no memory for is told, or, if it is too late for that, handed out as it is
            return results.owned(self.raw(values, current), None, too_late)

    def _results(self, values: Sequence[Any], current: Sequence[Version]) -> list[Any]:
        """The fetches, once they are there, where they are, or, of what may change, as copies."""
        fetched: list[Any] = []
        for at, stays in zip(self.fetches, self._stays, strict=True):
            if stays:
                value = values[at]  # type: ignore[index]
                if hasattr(value, "block_until_ready"):
                    value.block_until_ready()
                fetched.append(value)
            else:
                fetched.append(None if at is None else own(values[at] if at >= 0 else current[~at].value))
        return fetched

    def raw(self, values: Sequence[Any], current: Sequence[Version]) -> list[Any]:
        """The fetches as they are."""
        return [None if at is None else values[at] if at >= 0 else current[~at].value for at in self.fetches]

    def _reserve(self, values: Sequence[Any], current: Sequence[Version]) -> Any:
        assert self._specs is not None
        there = len(values)
        specs = []
        for spec, at in zip(self._specs, self.fetches, strict=True):
            if spec is True and at is not None and at < there:
                spec = results.spec_of(values[at] if at >= 0 else current[~at].value)
            specs.append(None if spec is True else spec)
        return results.reserve(specs)
