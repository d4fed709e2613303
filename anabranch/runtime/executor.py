"""Running a plan: its segments as transactions, and the channel ops between them.

An attempt at a segment goes through the stages that :mod:`anabranch.runtime.step` describes. One that writes claims its
variables, reads their committed versions, runs its items and publishes all new versions together; its last program may
be given the buffers of the variables that it replaces. One that only reads pins what it reads. One that calls Python
functions claims nothing while they run: it validates at its end, and runs again if somebody changed what it had read; a
Python function whose inputs are the same is not called a second time. Nothing is claimed or pinned while a channel op
runs.

Whatever an attempt has computed goes when it fails. It is repeated if it was overtaken, if what was known of shapes no
longer held, or if the plan was arranged anew for what a program turned out to need.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import shapes
from anabranch.runtime import (
    channel_ops,
    computed_segments,
    first_failure,
    host_ops,
    out_of_turn,
    program_items,
    results,
)
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.fast_path import fast_step
from anabranch.runtime.interpreter import body_plans, nested, stretches
from anabranch.runtime.interpreter.open_stretches import OpenStretch
from anabranch.runtime.interpreter.python_results import Recorded
from anabranch.runtime.plans import ahead, binding, policy, replicas, shape_families
from anabranch.runtime.plans.items import HostItem, ProgramItem, Segment
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import ResourceHandle, Slot, Version
from anabranch.runtime.step import ItemTime, OtherLayout, Step
from anabranch.runtime.values import Published, carried
from anabranch.xla import capacities, lowering
from anabranch.xla.executables import NotStored
from anabranch.xla.padding import batches

MAX_ATTEMPTS = 100
_NOTHING: frozenset[Slot] = frozenset()


class _Overtaken(Exception):
    """A variable that a segment read was changed before the segment committed."""


class _CutAnew(Exception):
    """The plan was arranged anew for what a program of it needs."""


class Executor:
    """Run one plan in one resource manager."""

    def __init__(self, plan: Plan, manager: ResourceManager, bodies: body_plans.BodyPlans | None = None):
        self.plan = plan
        self.bodies = bodies if bodies is not None else body_plans.BodyPlans(plan)
        self.manager = manager
        self._fast: fast_step.FastStep | None = None
        self._considered = -1
        """The arrangement of the plan of which it was last asked whether it has a fast path."""
        self._stateless: tuple[int, list[HostItem] | None, dict[ValueKey, Any]] = -1, None, {}
        """An arrangement of the plan, its items if they touch nothing that a transaction is for, and its constants."""
        self._binding = binding.unbound()
        fetched = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in plan.fetches if fetch not in plan.fed]
        self.shared = [op for op in fetched if op.definition.makes in ("queue", "barrier", "accumulator")]
        """Makers that are fetched: each must agree with the object that is there."""
        self._may_wait: tuple[Operation, ...] | None = None
        """Ops that may run out of their turn while another waits; None before a run has asked."""

    def for_plan(self, plan: Plan, manager: ResourceManager) -> Executor:
        """What runs another plan, in another manager."""
        return type(self)(plan, manager, self.bodies)

    def prepare(self, tier: str) -> None:
        """Choose the tier of the coming run and arranges the plan if it changed."""
        prepare(self.plan, tier)

    @property
    def fast(self) -> fast_step.FastStep | None:
        """The plan on the fast path, if it goes there."""
        form = self._fast
        return form if form is not None and form.arrangement == self.plan.arrangements else None

    # ------------------------------------------------------------------------------------------------------- resources
    def _bound(self) -> binding.Binding:
        if not self._binding.layout.holds:
            self._binding = binding.bind(self.plan, self.manager)
        return self._binding

    def slot(self, maker: Operation) -> Slot:
        """The variable that ``maker`` names."""
        return binding.slot_of(self.plan, self.manager, maker)

    def resource(self, handle: Any) -> Any:
        """The queue, table or the like of a handle, made if the step has what makes it."""
        if not isinstance(handle, ResourceHandle):
            raise errors.InvalidArgumentError(
                None,
                None,
                errors.message(f"{handle!r} as a resource handle", "the handle of a queue or table", "pass its op"),
            )
        return self.manager.object(handle, lambda: self._create(handle))

    def _create(self, handle: ResourceHandle) -> Any:
        op = self.plan.makers.get(handle)
        if op is not None and op.definition.create is not None:
            return op.definition.create(op._attrs, op.name)
        raise errors.NotFoundError(
            None, None, f"Resource {handle.container}/{handle.name}/{handle.kind} does not exist."
        )

    # ------------------------------------------------------------------------------------------------------------- runs
    def run(self, feeds: Sequence[Any], step: Step) -> list[Any]:
        """Run the plan and returns a value per fetch: NumPy arrays, None for operations."""
        if self._may_wait is None:
            self._may_wait = out_of_turn.candidates(self.plan)
        if not self._may_wait:
            return self._run(feeds, step)
        beside = step.token.beside = out_of_turn.OutOfTurn(self, self._may_wait, feeds, step.token)
        try:
            return self._run(feeds, step)
        except errors.OpError as problem:
            first = beside.problem or problem
            beside.tell_what_stands(first)
            if first is problem:
                raise
            raise first from None
        finally:
            step.token.beside = None
            beside.close()

    def _run(self, feeds: Sequence[Any], step: Step) -> list[Any]:
        if self.plan.awaits_ahead:
            self.plan.ahead.wait(step.token)
            take_over(self.plan)
        fast = self.fast if step.stats is None else None
        if fast is not None:
            results = fast.run(feeds, step.token, step.read_committed)
            if results is not None:
                return results
        for op in self.shared:
            self.resource(self.plan.handle_of(op)).check_maker(op.type, op._attrs, op)
        return self.run_from(0, self.plan.start(feeds), step)

    def run_from(self, first: int, env: dict[ValueKey, Any], step: Step) -> list[Any]:
        """Run the plan from a segment on, with the values that are there by then."""
        plan = self.plan
        fetched: list[Any] = []
        attempts: list[Attempt] = []
        settled = _settled(plan)
        for segment in plan.segments[first:]:
            channel_done = False
            if not plan.nested:
                step.token.reached = segment, False
            step.token.raise_if_cancelled()
            try:
                attempt, fetched = self._run_segment(segment, env, step)
                if settled or segment is plan.segments[-1]:  # else nobody looks at what the others have held
                    attempts.append(attempt)
                env = attempt.env
                channel_done = segment.channel is not None
                if segment.channel is not None:
                    if not plan.nested:
                        step.token.reached = segment, True
                    step.token.raise_if_cancelled()
                    started = time.time() if step.stats is not None else 0.0
                    channel_ops.run(self, segment.channel, env, step)
                    if step.stats is not None:
                        step.stats.append(ItemTime((segment.channel,), False, started, time.time()))
            except errors.OpError as problem:
                self.tell_what_stands(problem, segment, channel_done)
                raise
        settled = settled and _settled(plan)  # that its programs are not on disk may have turned out by now
        with contextlib.suppress(MemoryError):  # the step is done: the next one has another chance to learn of it
            if settled:
                plan.only_stored = False
                self._learn(attempts)
            elif plan.observed is None and not plan.nested and policy.may_compile(plan):
                plan.observed = ahead.observed(attempts[-1].env)
        return fetched

    def run_stateless(self, feeds: Sequence[Any], token: CancellationToken) -> list[Any] | None:
        """What a nested plan gives whose few ops run on the host and touch no state: a function that calls Python.

        Nothing is claimed, read or committed, and nothing can be overtaken, so that there is no attempt. None, and
        nothing has happened, if the plan does more.
        """
        plan = self.plan
        arrangement, items, constants = self._stateless
        if arrangement != plan.arrangements:
            items, constants = _stateless_items(plan), {}
            constants.update(plan.constants.items())
            constants.update(plan.handles.items())
            self._stateless = plan.arrangements, items, constants
        if items is None or self.bodies.watcher is not None:
            return None
        env = constants.copy()
        env.update(zip(plan.feeds, feeds, strict=True))
        for item in items:
            token.raise_if_cancelled()
            host_ops.run_stateless(self, item, env, token)
        return [None if key is None else env[key] for key in plan.fetch_keys]

    def _learn(self, attempts: Sequence[Attempt]) -> None:
        """Let later runs of the plan go the fast path, if it can."""
        if self._considered != self.plan.arrangements:
            self._considered = self.plan.arrangements
            self._fast = fast_step.of(self)
        if self.fast is not None:
            self.fast.learn(attempts)

    def tell_what_stands(self, problem: errors.OpError, failed: Segment, committed: bool) -> None:
        """Add to an error what stands although the step failed: earlier segments and their channel ops."""
        done = []
        for segment in self.plan.segments[: failed.index + 1]:
            if segment.written and (segment is not failed or committed):
                done.append("writes of " + ", ".join(repr(maker.name) for maker in list(segment.written)[:5]))
            if segment.channel is not None and segment is not failed:
                done.append(f"{segment.channel.type} {segment.channel.name!r}")
        if done:
            problem._message = f"{problem._message}\nDone before the failure and kept: {'; '.join(done)}"

    # --------------------------------------------------------------------------------------------------------- segments
    def _run_segment(self, segment: Segment, env: dict[ValueKey, Any], step: Step) -> tuple[Attempt, list[Any]]:
        """Attempts a segment until it commits; the attempt that did, and what is fetched if the segment is the last."""
        memo = Recorded()
        overtaken = 0
        while overtaken < MAX_ATTEMPTS:
            attempt = Attempt(self, segment, self._bound().states[segment.index], env, step, memo)
            try:
                return attempt, self._run_attempt(attempt)
            except _Overtaken:
                overtaken += 1
            except nested.Hot:
                with self.plan._arranging:
                    if self.plan.tier == "interpreted":
                        self.plan.why = "a loop in it ran as long as compiling takes"
                        self.plan.arrange("compiled")
            except (OtherLayout, _CutAnew):
                step.token.raise_if_cancelled()
        raise errors.AbortedError(
            None,
            None,
            errors.message(
                f"a step that was overtaken {MAX_ATTEMPTS} times by others that changed the variables it had read",
                "a commit",
                "run fewer writers at once, or SessionOptions(isolation='read_committed')",
            ),
        )

    def _run_attempt(self, attempt: Attempt) -> list[Any]:
        segment, state, step, transaction = attempt.segment, attempt.state, attempt.step, attempt.transaction
        writes = bool(segment.written or segment.random_ops)
        try:
            if writes and not segment.calls_python:
                transaction.claim(_NOTHING if step.read_committed else state.claim_reads, state.claim_writes)
                # Others may replace, and give away, what a step that reads what is committed does not write.
                free = [row for row in state.base if row[1] not in state.claim_writes] if step.read_committed else []
                if transaction.may_be_left:  # the claim may end before the step does
                    free = state.base
            else:
                free = state.base
            versions = self._read(attempt, free)
            if len(free) < len(state.base):
                for key, slot, reader in state.base:
                    if key not in attempt.env:  # it is held
                        attempt.env[key] = slot.version or slot.current(reader)
            if writes and segment.calls_python:
                return self._run_unclaimed(attempt, versions)
            self._run_items(attempt)
            updates = self._updates(attempt)
            fetched = self._fetched(attempt)
            transaction.commit(updates, attempt.advances)
            return fetched
        except BaseException:
            transaction.fail()
            raise
        finally:
            transaction.end()

    def _read(self, attempt: Attempt, rows: Sequence[tuple[StateKey, Slot, Operation]]) -> list[Version]:
        """Read what is not claimed; asks whether the shapes of all that is read are what was decided upon."""
        state, transaction = attempt.state, attempt.transaction
        for _, slot, reader in rows:
            if slot.version is None:
                transaction.require(state.layout)
                slot.current(reader)
        versions = transaction.read([slot for _, slot, _ in rows])
        transaction.require(state.layout)
        for (key, _, _), version in zip(rows, versions, strict=True):
            attempt.env[key] = version
        return versions

    def _run_unclaimed(self, attempt: Attempt, versions: list[Version]) -> list[Any]:
        """The rest of a segment that calls Python and writes: nothing is claimed until it has run."""
        state, step, transaction = attempt.state, attempt.step, attempt.transaction
        positions = {op: counter.position for op, counter in state.counters.items()}
        with self.manager.watched() as touched:
            self._run_items(attempt)
        fetched = self._fetched(attempt)
        transaction.claim(state.claim_reads, state.claim_writes)
        pairs = zip(state.base, versions, strict=True)
        stale = [slot for (_, slot, _), version in pairs if slot.version is not version]
        moved = [op for op, counter in state.counters.items() if counter.position != positions[op]]
        attempt.memo.changed = [slot.name for slot in stale if slot in touched]
        attempt.memo.changed += [op.name for op in moved if state.counters[op] in touched]
        if (stale and not step.read_committed) or moved or not state.layout.holds:
            raise _Overtaken
        transaction.commit(self._updates(attempt), attempt.advances)
        return fetched

    def _run_items(self, attempt: Attempt) -> None:
        segment, stats = attempt.segment, attempt.step.stats
        items = segment.items
        reached = 0
        env, token = attempt.env, attempt.step.token
        watched = stats is not None or self.bodies.watcher is not None
        try:
            for wave in _waves_of(segment, stretches.of(attempt, items)):
                reached += len(wave) if not isinstance(wave[0], OpenStretch) else len(wave[0].items)
                token.raise_if_cancelled()
                short = wave[0].short
                if short and not watched:  # most ops on the host are small: nothing is between them
                    token.at = wave[0].op
                    if short(env):
                        continue
                started = time.time() if stats is not None else 0.0
                if len(wave) > 1:
                    program_items.run_wave(attempt, wave)
                elif isinstance(wave[0], ProgramItem):
                    program_items.run(attempt, wave[0])
                elif isinstance(wave[0], stretches.RUN_TOGETHER):
                    wave[0].run(attempt)
                else:
                    host_ops.run(attempt, wave[0], in_turn=True)
                if stats is not None:
                    ended = time.time()
                    for item in wave:
                        if isinstance(item, ProgramItem):
                            ops = item.program.group.ops
                            stats.append(ItemTime(ops, True, started, ended, str(self.plan.device[ops[-1]])))
                        else:
                            stats.append(ItemTime((item.op,), False, started, ended))
        except NotStored:
            with self.plan._arranging:
                if self.plan.only_stored:
                    self.plan.only_stored = False
                    self.plan.why = "no compiled form is there"
                    self.plan.arrange("interpreted")
            raise _CutAnew from None
        except program_items.UnknownChecks:
            self.plan.expect_checks(segment, items)
            raise _CutAnew from None
        except (
            lowering.CutNeeded,
            lowering.BoundNeeded,
            lowering.HostNeeded,
            capacities.TooRoomy,
            capacities.Exceeded,
            batches.NotPadded,
            replicas.KeptApart,
        ) as cut:
            self.plan.require(cut, segment, items)
            raise _CutAnew from None
        except errors.OpError as problem:
            if self.plan.tier == "interpreted":
                stopped = isinstance(problem, (errors.CancelledError, errors.DeadlineExceededError))
                if stretches.reorders(segment) and not stopped:
                    segment.in_turn, segment.stretches = True, None
                    raise _CutAnew from None
                raise
            raise first_failure.of(
                attempt, items[reached - attempt.behind :], problem, host_ops.run
            ) from problem.__cause__
        if self.plan.nested:
            return
        if self.plan.tier == "interpreted":
            shape_families.observe(self.plan, attempt.env)
        elif self.plan.varying.looks_again:
            shape_families.look_again(self.plan, attempt.env)

    def _updates(self, attempt: Attempt) -> list[tuple[Slot, Any]]:
        """What the segment's variables become."""
        updates = []
        for key, slot in attempt.state.written:
            value = attempt.env.get(key)
            if value is not None and not isinstance(value, Published):  # None: of a branch that was not taken
                self._check_shape(key, slot, value)
                updates.append((slot, value))
        return updates

    def _check_shape(self, key: StateKey, slot: Slot, value: Any) -> None:
        if slot.shape is not None and not shapes.is_compatible(slot.shape, tuple(value.shape)):
            writer = self.plan.producer(key)
            if (
                writer is not None
                and not writer._attrs.get("validate_shape", True)
                and writer.definition.inputs[0].is_ref
            ):
                return
            raise errors.InvalidArgumentError(
                None,
                writer,
                "Assign requires shapes of both tensors to match. "
                f"lhs shape= {shapes.show(slot.shape)} rhs shape= {shapes.show(tuple(value.shape))}\n"
                + errors.message(
                    f"a value of shape {shapes.show(tuple(value.shape))} for variable {slot.name!r}",
                    f"shape {shapes.show(slot.shape)}",
                    "reshape the value, or make the variable with validate_shape=False",
                ),
            )

    def _fetched(self, attempt: Attempt) -> list[Any]:
        """The values of the fetches, copied while the last segment still holds what it has read and written.

        What later segments see of this one's variables is copied, too.
        """
        plan, env = self.plan, attempt.env
        for key in attempt.segment.carried:
            if key in env:
                env[key] = carried(env[key])
        if attempt.segment is not plan.segments[-1]:
            return []
        values = [None if key is None else env[key] for key in plan.fetch_keys]
        if not plan.nested:
            # An attempt's environment is a copy: what was there before the segment is held by both.
            holders = [
                1 + (key is not None and attempt.before.get(key) is value)
                for key, value in zip(plan.fetch_keys, values, strict=True)
            ]
            alone = results.handed_out(values, holders)
            return results.owned(values, attempt.reserved, attempt.transaction.too_late, alone)
        return [
            results.owned([value])[0] if isinstance(key, StateKey) else value
            for key, value in zip(plan.fetch_keys, values, strict=True)
        ]


def _stateless_items(plan: Plan) -> list[HostItem] | None:
    """The items of an interpreted plan if they are few, touch no state, and are neither bodies nor of a channel."""
    (segment, *others) = plan.segments
    if plan.tier != "interpreted" or others or segment.channel is not None or len(segment.items) >= stretches.LEAST_OPS:
        return None
    if segment.base_reads or segment.written or segment.random_ops or segment.carried or plan.final_reads:
        return None
    if plan.analysis.instead:
        return None
    touches_nothing = all(
        isinstance(item, HostItem)
        and item.op.definition.effect.kind in ("pure", "io")
        and not item.writes
        and not any(isinstance(key, StateKey) for key in item.sources)
        and item.op not in plan.lent_reads
        for item in segment.items
    )
    return list(segment.items) if touches_nothing else None


def _settled(plan: Plan) -> bool:
    """Whether later runs go like this one: the plan is compiled, or has nothing that could be, or be straight code, or
    its segments have forms of straight code.
    """
    return (
        plan.tier == "compiled"
        or computed_segments.serve(plan)
        or not (
            plan.nested
            or plan.cost.compilable
            or any(len(segment.items) >= stretches.LEAST_OPS for segment in plan.segments)
        )
    )


def _waves_of(segment: Segment, items: list[Any]) -> list[list[Any]]:
    """The same, kept as long as the items are these."""
    known = segment.waves
    if known is None or known[0] is not items:
        known = segment.waves = items, list(_waves(items))
    waves: list[list[Any]] = known[1]
    return waves


def _waves(items: Sequence[Any]) -> Iterator[list[Any]]:
    """The items of a segment, those together that are one wave."""
    start = 0
    while start < len(items):
        wave, stop = items[start].wave, start + 1
        while wave >= 0 and stop < len(items) and items[stop].wave == wave:
            stop += 1
        yield list(items[start:stop])
        start = stop


def prepare(plan: Plan, tier: str) -> None:
    """Choose the tier of the coming run and arranges the plan if it changed."""
    if plan.tier == "compiled":
        return
    with plan._arranging:
        chosen, plan.why = policy.choose(plan, tier)
        if chosen == "stored":
            plan.looked, plan.only_stored = plan.sizes_settled, True
            plan.arrange("compiled")
        elif chosen == "compiled" and plan.ahead is not None:
            if plan.ahead.done:
                take_over(plan)
            else:
                plan.awaits_ahead = True
        elif chosen != plan.tier:
            plan.arrange(chosen)


def take_over(plan: Plan) -> None:
    """Run what was compiled beside the plan's runs; what could not be is compiled when it is needed.

    If the runs have shown meanwhile that other shapes change than was known when it began, it begins anew.
    """
    with plan._arranging:
        beside, plan.ahead, plan.awaits_ahead = plan.ahead, None, False
        if plan.tier == "compiled":
            return
        if beside is not None and beside.fits:
            ahead.adopt(plan, beside.result)
        elif beside is not None and beside.result is not None and not policy.is_scheduled(plan) and plan.misfits < 2:
            plan.misfits += 1
            plan.observed = None
        else:
            plan.arrange("compiled")


def ran_interpreted(plan: Plan, seconds: float) -> None:
    """Note what an interpreted run has taken; begin to compile the plan if it is time to."""
    with plan._arranging:
        plan.paid += seconds
        if plan.ahead is not None or plan.observed is None or plan.tier != "interpreted":
            return
        if policy.is_due(plan) and plan.sizes_settled:
            plan.ahead, plan.observed = ahead.Ahead(plan, plan.observed), None
            plan.ahead.start()
