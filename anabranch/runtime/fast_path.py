"""The fast path: steps of which everything that does not change from run to run is decided once.

A plan that is compiled, or has nothing that could be, and has run leaves for each of its segments a *form*: the
programs with the executables that served, where each argument, each result and each fetch is, which variables are
read, owned, written. A later run of the plan keeps its values in one list, in which each has a fixed place, and goes
through the stages of :mod:`anabranch.runtime.step` for each segment, and through the channel ops between them (a
dequeue is one kernel call, whose outputs are bound like feeds). Host ops that only compute (summaries at the end of a
step) are kernel calls, too.

What may still differ is asked for: whether the layout of the variables holds; whether what other segments or host ops
give has the shapes that the executables are for. There are forms for several such shapes; where none fits the step goes
on by the executor, from the segment that it has come to, and leaves a form. Nothing else does: a plan with a Python
function, with ops with bodies on the host, or with values that must be known when a program is compiled runs by the
executor alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import Cache
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import dtypes, spare_arrays
from anabranch.runtime import computed_segments, first_failure, results
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.fast_items import (
    BoundProgram,
    Empty,
    HostOp,
    OtherShapes,
    PaddedArgument,
    Wave,
    stored_outputs,
)
from anabranch.runtime.plans import program_groups
from anabranch.runtime.plans.items import HostItem, ProgramItem, Segment
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.runner import Runner
from anabranch.runtime.state.slots import RandomCounter, ResourceHandle, Slot, Version
from anabranch.runtime.step import Call, OtherLayout, Step, Transaction
from anabranch.runtime.values import own
from anabranch.xla import engine

MAX_FORMS = 8
"""Forms of a segment that are kept, for values of different shapes."""
MAX_FORMS_MADE = 64
"""After this many a segment makes no more: its shapes hardly come back."""
MOST_OVERRUNS = 3
"""After a step ran so often twice, since its loops took long, it runs on a thread of its own."""
JUDGED_EVERY = 16
"""Runs after which it is asked whether the forms of segments that only compute are worth it."""
MAX_REFUSALS = 4
"""After a segment went so often in a way that has no form, it is taken to go on like that."""
_NOTHING: frozenset[Any] = frozenset()


class FastStep:
    """A plan on the fast path; :func:`of` makes it."""

    def __init__(self, runner: Runner) -> None:
        plan = runner.plan
        self.runner = runner
        self.arrangement = plan.arrangements
        needed: set[ValueKey | None] = set(plan.fetch_keys)
        for segment in plan.segments:
            for item in segment.items:
                needed.update(item.program.inputs if isinstance(item, ProgramItem) else item.sources)
            if segment.channel is not None:
                needed.update(plan.sources(segment.channel))
        self.places: dict[ValueKey, int] = {}
        self.given: list[Any] = []
        """Constants and handles."""
        for tensor in plan.feeds:
            self.places[tensor] = len(self.places)
        for key, value in (*plan.constants.items(), *plan.handles.items()):
            if key in needed and key not in self.places:
                self.places[key] = len(self.places)
                self.given.append(value)
        self._count = len(self.places)
        self.stages: list[_Stage] = []
        self.limited = False
        """Whether programs of it have loops that may last, see :mod:`anabranch.xla.loops.loop_limits`."""
        self.apart = plan.acts_outside
        """Whether it is to run on a thread of its own in any case."""
        self._overran = 0
        self.computed: list[computed_segments.ComputedSegment] = []
        """The forms of the segments, if they only compute and draw between channel ops."""
        self._unjudged = 0
        """Runs before these are next asked whether they are worth it."""
        computes = computed_segments.serve(plan)
        for segment in plan.segments:
            inputs = [
                key
                for item in segment.items
                if isinstance(item, ProgramItem)
                for key in item.program.inputs
                if isinstance(key, Tensor) and key in self.places and self.places[key] >= self._given_until
            ]
            form = None
            if computes:
                form = computed_segments.ComputedSegment(runner, segment, self.places)
                form.places = [self.places[key] for key in form.inputs]
                self._give_places(form.outputs)
                self.computed.append(form)
            for item in segment.items if form is None else ():
                self._give_places(
                    (*item.program.outputs, *item.program.donated.values())
                    if isinstance(item, ProgramItem)
                    else stored_outputs(plan, item.op)
                )
            channel = None
            if segment.channel is not None:
                channel = HostOp(runner, segment.channel, self._sources(plan.sources(segment.channel), {}))
                self._give_places(stored_outputs(plan, segment.channel))
            self.stages.append(_Stage(segment, [self.places[key] for key in dict.fromkeys(inputs)], channel, form))
        if self.computed:
            self.computed[-1].fetches = [None if key is None else self.places[key] for key in plan.fetch_keys]
        for version, feed in plan.analysis.instead.items():
            self.places[version] = self.places[feed]

    @property
    def _given_until(self) -> int:
        return len(self.runner.plan.feeds) + len(self.given)

    def _give_places(self, keys: Sequence[ValueKey]) -> None:
        for key in keys:
            self.places[key] = self._count
            self._count += 1

    def _sources(self, keys: Sequence[ValueKey | None], read: dict[ValueKey, int]) -> list[int | None]:
        """Per key its place, or ``~i`` for the i-th version that the segment reads."""
        return [None if key is None else ~read[key] if key in read else self.places[key] for key in keys]

    # ------------------------------------------------------------------------------------------------------------- runs
    def run(
        self, feeds: Sequence[Any], token: CancellationToken, read_committed: bool, shared: bool = False
    ) -> list[Any] | None:
        """The step's results; None if it must go by the executor.

        Args:
            feeds: a value per feed.
            token: the step's.
            read_committed: whether what is only read is not claimed.
            shared: whether results may stay on their device: the caller writes to none of them.
        """
        values = [*feeds, *self.given]
        stages = self.stages
        if len(stages) == 1:
            form = stages[0].form(values)
            return None if form is None else form.run(values, token, read_committed, shared)
        fetched: list[Any] | None = None
        for stage in stages:
            channel_done = False
            token.reached = stage.segment, False
            try:
                if stage.index:
                    token.raise_if_cancelled()
                form = stage.form(values)
                fetched = form.run(values, token, read_committed, shared) if form is not None else None
                if fetched is None:
                    break
                if stage.channel is not None:
                    channel_done = True
                    token.reached = stage.segment, True
                    token.raise_if_cancelled()
                    stage.channel.run(values, (), token)
            except errors.OpError as problem:
                self.runner.tell_what_stands(problem, stage.segment, channel_done)
                raise
        if self.computed:
            self._unjudged -= 1
            if fetched is None or self._unjudged < 0:
                self._judge()
        if fetched is not None or not stage.index:
            return fetched
        env = self.runner.plan.start(feeds)
        for key, place in self.places.items():
            if isinstance(key, Tensor) and place < len(values):
                env[key] = values[place]
        return self.runner.run_from(stage.index, env, Step(self.runner.manager, token, read_committed))

    def _judge(self) -> None:
        """Leave the choice of a tier to the policy again if what its segments compute is not worth their forms."""
        self._unjudged = JUDGED_EVERY
        if not all(form.is_worth_it for form in self.computed):
            self.runner.plan.only_feeds_channels, self.arrangement = False, -1

    @property
    def in_one(self) -> Form | None:
        """The form of a step that is one program, whatever comes."""
        if len(self.stages) > 1 or self.stages[0].guards:
            return None
        form = self.stages[0].form(())
        return form if form is not None and len(form.items) == 1 and form.items[0] is form.last else None

    @property
    def caches(self) -> list[Cache[Any, Form]]:
        """The caches that it owns."""
        return [stage.forms for stage in self.stages if stage.guards]

    @property
    def has_forms(self) -> bool:
        """Whether a step that goes this way comes beyond its first segment."""
        return self.stages[0].fixed or self.stages[0].forms_made > 0

    def learn(self, attempts: Sequence[Attempt]) -> None:
        """Make the forms that are missing from how segments went by the executor."""
        for attempt in attempts:
            stage = self.stages[attempt.segment.index]
            if not stage.learns or not attempt.state.layout.holds:
                continue
            signature = stage.signature_of([attempt.env.get(key) for key in self._keys(stage.guards)])
            if signature is None or any(
                isinstance(item, ProgramItem) and item not in attempt.used for item in attempt.segment.items
            ):
                continue
            try:
                form = Form(self, attempt)
            except _Unfit:
                stage.refused += 1
                continue
            stage.keep(signature, form)
            for budget in form.budgets:
                self.limited = True
                self.apart |= (
                    not budget or len(self.stages) > 1
                )  # a step in its caller's thread may have to be repeated

    def overran(self) -> None:
        """Notes that loops had not enough with what they may take in the thread of a caller."""
        self._overran += 1
        self.apart |= self._overran >= MOST_OVERRUNS

    def _keys(self, places: Sequence[int]) -> list[ValueKey]:
        wanted = set(places)
        by_place = {place: key for key, place in self.places.items() if place in wanted and isinstance(key, Tensor)}
        return [by_place[place] for place in places]


class _Unfit(Exception):
    """A segment went in a way that has no form."""


class _Stage:
    """A segment and the channel op behind it."""

    def __init__(self, segment: Segment, guards: list[int], channel: HostOp | None, form: Any = None) -> None:
        self.segment = segment
        self.index = segment.index
        self.guards = guards
        """Places of values from other stages that programs of this one take."""
        self.channel = channel
        if form is None and not segment.items and not segment.written and channel is not None:
            form = Empty()
        self.fixed = form is not None
        """Whether its form is there from the beginning."""
        self.forms_made = 0
        self.refused = 0
        """How often it went in a way that has no form."""
        self._only: Any = form
        self.forms: Cache[Any, Form] = Cache("forms of segments", MAX_FORMS)
        """Where there are guards, the form for each signature."""

    @property
    def learns(self) -> bool:
        """Whether a form more may be worth its making."""
        return not self.fixed and self.refused < MAX_REFUSALS and (not self.guards or self.forms_made < MAX_FORMS_MADE)

    def form(self, values: Sequence[Any]) -> Any:
        """The form for the values that there are; None if there is none."""
        if not self.guards:
            return self._only
        return self.forms.get(self.signature_of([values[place] for place in self.guards]))

    @staticmethod
    def signature_of(values: Sequence[Any]) -> Any:
        """What forms are told apart by; None if they are not for such values."""
        try:
            return tuple([value.shape for value in values])
        except AttributeError:
            return None

    def keep(self, signature: Any, form: Form) -> None:
        """Keep a form for values like those that it was made from."""
        self.forms_made += 1
        if not self.guards:
            self._only = form
            return
        self.forms.put(signature, form)


class Form:
    """How a segment runs for values of certain shapes."""

    def __init__(self, step: FastStep, attempt: Attempt) -> None:
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
        places, local = step.places, set[int]()
        known: set[ValueKey] = {*plan.constants, *plan.handles}
        self.last: BoundProgram | None = None
        """The program that owns the buffers of variables, or else the last one."""
        wave: list[tuple[bool, BoundProgram]] = []
        for number, item in enumerate(segment.items):
            if isinstance(item, HostItem):
                sources = self._sources_of(step, item.sources)
                self.items.append(HostOp(runner, item.op, sources))
                local.update(places[output] for output in stored_outputs(plan, item.op))
                continue
            program = item.program
            executable, static = attempt.used[item]
            if executable.facts.guessed or not all(program.inputs[i] in known for i in static):
                raise _Unfit
            slots = [state.slots[key] for key in program.donated_keys]
            owns_all = not item.writes and len(segment.written) == len(slots)
            facts = executable.facts
            ends = is_last and (number == len(segment.items) - 1 or 0 <= item.wave == segment.items[-1].wave)
            traced = {program.outputs[place] for place in facts.traced_outputs}
            waits = bool(slots) or not ends or traced.isdisjoint(plan.fetch_keys)
            at_inputs = [i for i in range(len(program.inputs)) if i not in static]
            arguments = [program.inputs[i] for i in at_inputs]
            sources = self._sources_of(step, arguments)
            pairs = zip(arguments, sources, strict=True)
            padded = {
                program.inputs[i]: PaddedArgument(program, at_inputs.index(i), i, attempt.env[program.inputs[i]])
                for i in program.open_axes
                if i not in static
            }
            checks = [(place, attempt.env[key].shape) for key, place in pairs if place in local and key not in padded]
            call = Call(program, executable, slots, owns_all, True, waits, engine.is_wide(executable.function))
            where = program.devices_of_inputs
            if where is not None:
                where = [device for i, device in enumerate(where) if i not in static]
            counters = [state.counters[op] for op in program.random_ops]
            self.last = BoundProgram(call, sources, checks, counters, where, list(padded.values()))
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
        self.fetches: list[int | None] = self._sources_of(step, plan.fetch_keys) if is_last else []
        programs = [item.program for item in segment.items if isinstance(item, ProgramItem)]
        computed = {places[key] for program in programs for key in program.outputs}
        replaced = {places[key] for program in programs for key in program.donated.values()}
        self._same_shapes = not any(attempt.used[item][0].facts.dynamic for item in attempt.used) and (
            computed | replaced
        ).issuperset([at for _, at in self.writes_at])
        """Whether all that is written comes from programs: in the shapes that it had, as the layout held after it."""
        computed.difference_update([at for _, at in self.writes_at])  # what becomes a version may be given away
        self._may_share = computed.issuperset([at for at in self.fetches if at is not None])
        """Whether all fetches are results of programs that nobody will change."""
        self._specs = None
        self._reserves_before = None
        if is_last and any(program.call.slots for program in ending):
            self._specs = self._large_fetches(plan, ending)
            self._reserves_before = item if self._specs is not None else None

    def _sources_of(self, step: FastStep, keys: Sequence[ValueKey | None]) -> list[Any]:
        for key in keys:
            if isinstance(key, StateKey) and key not in step.places and key not in self._read:
                slot = self.state.slots.get(key)
                if slot is None or slot.version is None:
                    raise _Unfit
                self._read[key] = len(self.read_slots)
                self.read_slots.append(slot)
        return step._sources(keys, self._read)

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
        alone = [item.call for item in self.items if type(item) is BoundProgram]
        beside = [program.call for item in self.items if type(item) is Wave for program in item.programs]
        budgets = [call.executable.facts.budget for call in alone if call.limited]
        return [*budgets, *(0 for call in beside if call.limited)]

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
            reads = _NOTHING if read_committed else self.state.claim_reads
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
                if type(item) is BoundProgram:
                    amounts = item.run(values, current, transaction)
                    if item.counters:
                        advances += zip(item.counters, amounts, strict=True)
                elif type(item) is Wave:
                    advances += item.run(values, current, transaction)
                else:
                    item.run(values, current, token)
            if shared:
                fetched = self._results(values)
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

    def _results(self, values: Sequence[Any]) -> list[Any]:
        """The fetches, once they are there, where the programs left them."""
        fetched = [None if at is None else values[at] for at in self.fetches]
        for value in fetched:
            if value is not None and hasattr(value, "block_until_ready"):
                value.block_until_ready()
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


def of(runner: Runner) -> FastStep | None:
    """The plan of ``runner`` on the fast path, or None if it has something that does not go there."""
    plan = runner.plan
    computes = computed_segments.serve(plan)
    if plan.nested or plan.dynamic_on_host or plan.analysis.carried or runner.shared:
        return None
    if plan.varying.open and not computes:
        return None
    for segment in plan.segments:
        if segment.calls_python or not program_groups.shapes_certain(plan, segment):
            return None
        channel = segment.channel
        if channel is not None and (
            channel.definition.effect.kind == "body"
            or plan.analysis.state_of(channel).reads
            or any(key is not None and not isinstance(key, Tensor) for key in plan.sources(channel))
        ):
            return None
        for item in segment.items if not computes else ():
            fits = _host_op_fits(item) if isinstance(item, HostItem) else _program_fits(item)
            if not fits:
                return None
    return FastStep(runner)


def _host_op_fits(item: HostItem) -> bool:
    definition = item.op.definition
    return (
        definition.effect.kind in ("pure", "read")
        and not definition.effect.presence
        and not definition.allows_uninitialized
        and not item.writes
    )


def _program_fits(item: ProgramItem) -> bool:
    program = item.program
    return not item.bounds and not any(
        isinstance(key, Tensor) and key.dtype.base is dtypes.variant for key in program.inputs
    )


class FastRunner(Runner, Protocol):
    """A runner that may go the fast path."""

    @property
    def fast(self) -> FastStep | None:
        """The plan on the fast path, if it goes there."""


class Repetition:
    """How the step of a fetch structure went last, if it went fast: what a next one of its kind needs."""

    __slots__ = ("_kinds", "changes", "fast", "plan", "runner")

    def __init__(
        self, changes: int, names: Sequence[Tensor], values: Sequence[np.ndarray], plan: Plan, runner: FastRunner
    ):
        self.changes = changes
        """How many the graph had seen."""
        self._kinds = [
            (name, None, None) if isinstance(value, ResourceHandle) else (name, value.shape, value.dtype)
            for name, value in zip(names, values, strict=True)
        ]
        """Shape and dtype of each feed; None of a handle, of which any other of the process may take the place."""
        self.plan = plan
        self.runner = runner
        self.fast = runner.fast

    def values(self, feed_dict: Any) -> list[Any] | None:
        """The feeds in order, if they are arrays of the same kinds for the same tensors; else None."""
        if not feed_dict:
            return None if self._kinds else []
        if type(feed_dict) is not dict:
            return None
        values = list(feed_dict.values())
        return values if self.fits(feed_dict, values) else None

    def fits(self, names: Collection[Any], values: Sequence[Any]) -> bool:
        """Whether these are arrays of the same kinds, and handles, for the same tensors."""
        kinds = self._kinds
        if len(values) != len(kinds):
            return False
        for key, value, (name, shape, dtype) in zip(names, values, kinds, strict=True):
            if key is not name:
                return False
            if type(value) is not np.ndarray:
                if dtype is not None or type(value) is not ResourceHandle:
                    return False
            elif value.shape != shape or value.dtype != dtype:
                return False
        return True

    def fits_arrays(self, values: Sequence[Any]) -> bool:
        """Whether values for all the feeds, in order, are such arrays of the host or of a device, and handles."""
        for value, (_, shape, dtype) in zip(values, self._kinds, strict=True):
            if dtype is None:
                if type(value) is not ResourceHandle:
                    return False
            elif type(value) is ResourceHandle or value.shape != shape or value.dtype != dtype:
                return False
        return True


def repetition(
    changes: int, names: Sequence[Tensor], values: Sequence[Any], plan: Plan, runner: Any
) -> Repetition | None:
    """What a step leaves for the next one of its kind; None if it, or its feeds, are not plain."""
    fast = getattr(runner, "fast", None)
    if fast is None or not fast.has_forms:
        return None
    for value in values:
        if type(value) is not ResourceHandle and (type(value) is not np.ndarray or value.dtype.kind == "O"):
            return None
    return Repetition(changes, names, values, plan, runner)
