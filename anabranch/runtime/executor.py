"""Running a plan: segments as transactions, host ops and programs inside them, channel ops between them.

A segment that writes claims its variables, reads their committed versions, runs its items, reads the check flags of
each program before anything that follows, and publishes all new versions together. Its last program may be given the
buffers of the variables that it replaces; such a program holds its own writes back when a check fails, so what it
returns can be published in either case. Nothing is claimed or pinned while a channel op runs. A segment that calls
Python functions claims nothing while they run: it validates at its end, and runs again if somebody changed what it
had read; a Python function whose inputs are the same is not called a second time.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import shapes
from anabranch.core.values.list_values import TracedList
from anabranch.runtime.interpreter import nested
from anabranch.runtime.interpreter.python_results import Recorded, same
from anabranch.runtime.interrupts import Interrupts
from anabranch.runtime.plans import binding, direct, policy, shape_families
from anabranch.runtime.plans.binding import SegmentState
from anabranch.runtime.plans.plan import HostItem, Plan, ProgramItem, Segment
from anabranch.runtime.state import spare_buffers
from anabranch.runtime.state.borrowing import lent, may_borrow
from anabranch.runtime.state.resources import Claim, RandomCounter, ResourceHandle, ResourceManager, Slot, Version
from anabranch.runtime.values import NO_RNG, Published, carried, device_value, own, to_host
from anabranch.xla import capacities, engine, lowering, single_op
from anabranch.xla import program as programs

MAX_STATIC_VARIANTS = 16
"""After this many distinct values of what a program must know at compile time, further ones are interpreted."""
MAX_SHAPES_OF_A_BODY = 3
"""After this many forms of a body's program for other shapes, what depends on them is interpreted."""
MAX_ATTEMPTS = 100
MAX_EARLY_COPY = 1 << 20
"""Bytes of a result under which its copy to the host begins before anybody asks for it."""


class _Conflict(Exception):
    """A variable that a segment read was changed before the segment committed."""


class _OtherLayout(Exception):
    """Variables of the plan appeared, vanished or changed their shapes before the segment began to read."""


class _CutAnew(Exception):
    """The plan was cut before a value that must be known at compile time."""


class ItemTime(NamedTuple):
    """What ran as one piece, a host op or a program of several ops, and when (seconds since the epoch)."""

    ops: tuple[Operation, ...]
    is_program: bool
    start: float
    end: float


@dataclasses.dataclass
class Step:
    """What one ``run`` brings along."""

    manager: ResourceManager
    token: CancellationToken
    read_committed: bool = False
    interrupts: Interrupts = dataclasses.field(default_factory=Interrupts)
    stats: list[ItemTime] | None = None
    """Where to note what ran and when, if somebody asked for it."""
    nested_cost: list[float] = dataclasses.field(default_factory=lambda: [0.0])
    """Modelled microseconds of the interpreted runs of nested bodies, shared by the steps inside this one."""


class Executor:
    """Runs one plan in one resource manager."""

    def __init__(self, plan: Plan, manager: ResourceManager, bodies: nested.BodyPlans | None = None):
        self.plan = plan
        self.bodies = bodies if bodies is not None else nested.BodyPlans(plan)
        self.manager = manager
        self._direct: direct.DirectStep | None = None
        self._binding = binding.unbound()
        fetched = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in plan.fetches if fetch not in plan.fed]
        self._queues = [op for op in fetched if op.definition.makes == "queue"]
        """Makers that are fetched: each must agree with the queue that is there."""

    def prepare(self, tier: str) -> None:
        """Chooses the tier of the coming run and arranges the plan if it changed."""
        prepare(self.plan, tier)

    @property
    def short_form(self) -> direct.DirectStep | None:
        """The step in the short form, if it has one."""
        return self._direct

    @functools.cached_property
    def _lent_reads(self) -> frozenset[Operation]:
        """Reads of variables for nothing but ops that borrow, in their segment: these see the pinned version itself."""
        plan = self.plan
        where = plan.analysis.segment
        users: dict[Tensor, list[Operation]] = {}
        for op in plan.analysis.order:
            for tensor in op._inputs:
                users.setdefault(tensor, []).append(op)
        return frozenset(
            op
            for op in plan.analysis.order
            if op.definition.effect.kind == "read"
            and op.definition.passes is not None
            and op._outputs[0] not in plan.fetches
            and op._outputs[0] not in plan.fed
            and all(
                getattr(user.definition.host_kernel, "borrows", False) and where[user] == where[op]
                for user in users.get(op._outputs[0], ())
            )
        )

    # ------------------------------------------------------------------------------------------------------- resources
    def _bound(self) -> binding.Binding:
        found = self._binding
        if not found.layout.holds:
            found = self._binding = binding.bind(self.plan, self.manager)
        return found

    def _slot(self, maker: Operation) -> Slot:
        return binding.slot_of(self.plan, self.manager, maker)

    def _resource(self, handle: Any) -> Any:
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
        """Runs the plan and returns a value per fetch: NumPy arrays, None for operations."""
        if self._direct is not None and step.stats is None:
            found = self._direct.run(feeds, step)
            if found is not None:
                return found
        plan = self.plan
        for op in self._queues:
            self._resource(plan.handle_of(op)).check_maker(op.type, op._attrs, op)
        env = plan.start(feeds)
        results: list[Any] = []
        for segment in plan.segments:
            channel_done = False
            step.token.raise_if_cancelled()
            try:
                results = self._run_segment(segment, env, step)
                channel_done = segment.channel is not None
                if segment.channel is not None:
                    started = time.time() if step.stats is not None else 0.0
                    self._run_channel(segment, env, step)
                    if step.stats is not None:
                        step.stats.append(ItemTime((segment.channel,), False, started, time.time()))
            except errors.OpError as problem:
                done = self._done_before(segment, channel_done)
                if done:
                    problem._message = f"{problem._message}\nDone before the failure and kept: {'; '.join(done)}"
                raise
        if plan.tier == "compiled":
            self._direct = direct.prepare(self, self._binding)
        return results

    def _done_before(self, failed: Segment, committed: bool) -> list[str]:
        """What stands although the step failed: earlier segments and their channel ops."""
        done = []
        for segment in self.plan.segments[: failed.index + 1]:
            if segment.written and (segment is not failed or committed):
                done.append("writes of " + ", ".join(repr(maker.name) for maker in list(segment.written)[:5]))
            if segment.channel is not None and segment is not failed:
                done.append(f"{segment.channel.type} {segment.channel.name!r}")
        return done

    def _fetch(self, segment: Segment, env: dict[ValueKey, Any]) -> list[Any]:
        """The values of the fetches, copied while the last segment still holds what it has read and written.

        What later segments see of this one's variables is copied, too.
        """
        plan = self.plan
        for key in segment.carried:
            if key in env:
                env[key] = carried(env[key])
        if segment is not plan.segments[-1]:
            return []
        results: list[Any] = []
        for fetch in plan.fetches:
            if not isinstance(fetch, Tensor):
                results.append(None)
            elif fetch in plan.final_reads:
                maker = plan.final_reads[fetch]
                results.append(own(env[segment.written.get(maker) or StateKey(maker, segment.index, 0)]))
            else:
                results.append(env[fetch] if plan.nested else own(env[fetch]))
        return results

    def _run_channel(self, segment: Segment, env: dict[ValueKey, Any], step: Step) -> None:
        op = segment.channel
        assert op is not None
        if op.definition.effect.kind == "body":
            nested.run_channel(self, op, env, step)
            return
        carried_keys = self.plan.analysis.carried
        operands = [
            env[key] if isinstance(key, Tensor) or key in carried_keys else None for key in self.plan.sources(op)
        ]
        # Variables that the segment itself has written are read once it has committed.
        reads = {at: key for at, key in self.plan.analysis.state_of(op).reads.items() if key not in carried_keys}
        if reads:
            slots = [self._slot(key.maker) for key in reads.values()]
            versions = self.manager.pin(slots, op)
            try:
                for position, version in zip(reads, versions, strict=True):
                    operands[position] = version.host()
            finally:
                self.manager.unpin(versions)
        values = self._call_host(op, [to_host(value) for value in operands], step, None)
        for output, value in zip(op._outputs, values, strict=True):
            if output not in self.plan.fed:
                env[output] = value

    # --------------------------------------------------------------------------------------------------------- segments
    def _run_segment(self, segment: Segment, env: dict[ValueKey, Any], step: Step) -> list[Any]:
        memo = Recorded()
        overtaken = 0
        while overtaken < MAX_ATTEMPTS:
            state = self._bound().states[segment.index]
            attempt = dict(env) if segment.calls_python else env
            try:
                if segment.calls_python:
                    results = self._run_optimistic(segment, state, attempt, step, memo)
                elif segment.written or segment.random_ops:
                    results = self._run_writer(segment, state, attempt, step, memo)
                else:
                    results = self._run_reader(segment, state, attempt, step, memo)
            except _Conflict:
                overtaken += 1
                continue
            except nested.Hot:
                with self.plan._arranging:
                    if self.plan.tier == "interpreted":
                        self.plan.why = "a loop in it ran as long as compiling takes"
                        self.plan.arrange("compiled")
                continue
            except (_OtherLayout, _CutAnew):
                step.token.raise_if_cancelled()
                continue
            if attempt is not env:
                env.update(attempt)
            return results
        raise errors.AbortedError(
            None,
            None,
            errors.message(
                f"a step that was overtaken {MAX_ATTEMPTS} times by others that changed the variables it had read",
                "a commit",
                "run fewer writers at once, or SessionOptions(isolation='read_committed')",
            ),
        )

    def _run_reader(
        self, segment: Segment, state: SegmentState, env: dict[ValueKey, Any], step: Step, memo: Recorded
    ) -> list[Any]:
        versions = self._snapshot(state, state.base)
        try:
            self._place(state, state.base, versions, env)
            self._run_items(segment, state, env, step, memo)
            return self._fetch(segment, env)
        finally:
            self.manager.unpin(versions)

    def _snapshot(self, state: SegmentState, rows: Sequence[tuple[StateKey, Slot, Operation]]) -> list[Version]:
        """Pins the current versions of ``rows``."""
        if not rows:
            return []
        for _, slot, reader in rows:
            if slot.version is None:
                self._still(state)
                slot.current(reader)
        return self.manager.pin([row[1] for row in rows])

    def _place(
        self,
        state: SegmentState,
        rows: Sequence[tuple[StateKey, Slot, Operation]],
        versions: Sequence[Version],
        env: dict[ValueKey, Any],
    ) -> None:
        self._still(state)
        for (key, _, _), version in zip(rows, versions, strict=True):
            env[key] = version

    def _still(self, state: SegmentState) -> None:
        """Asked once the versions that a segment reads can no longer change: what is known of shapes must hold."""
        if not state.layout.holds:
            raise _OtherLayout

    def _run_writer(
        self, segment: Segment, state: SegmentState, env: dict[ValueKey, Any], step: Step, memo: Recorded
    ) -> list[Any]:
        manager = self.manager
        claim = Claim(frozenset() if step.read_committed else state.claim_reads, state.claim_writes)
        loose: list[Version] = []
        try:
            manager.begin(claim, step.token)
            held = state.base
            if step.read_committed:  # others may replace, and give away, what this segment only reads
                free = [row for row in state.base if row[1] not in state.claim_writes]
                held = [row for row in state.base if row[1] in state.claim_writes]
                loose = self._snapshot(state, free)
                self._place(state, free, loose, env)
            self._still(state)
            for key, slot, reader in held:
                env[key] = slot.version or slot.current(reader)
            advances = self._run_items(segment, state, env, step, memo)
            self._commit(segment, state, env, advances)
            return self._fetch(segment, env)
        except BaseException:
            manager.settle(slot for _, slot in state.written)
            raise
        finally:
            manager.unpin(loose)
            manager.end(claim)
            step.interrupts.release()

    def _run_optimistic(
        self, segment: Segment, state: SegmentState, env: dict[ValueKey, Any], step: Step, memo: Recorded
    ) -> list[Any]:
        versions = self._snapshot(state, state.base)
        positions = {op: counter.position for op, counter in state.counters.items()}
        try:
            self._place(state, state.base, versions, env)
            with self.manager.watched() as touched:
                advances = self._run_items(segment, state, env, step, memo)
            if not segment.written and not segment.random_ops:
                return self._fetch(segment, env)
            claim = Claim(state.claim_reads, state.claim_writes)
            try:
                self.manager.begin(claim, step.token)
                pairs = zip(state.base, versions, strict=True)
                stale = [slot for (_, slot, _), version in pairs if slot.version is not version]
                moved = [op for op, counter in state.counters.items() if counter.position != positions[op]]
                memo.changed = [slot.name for slot in stale if slot in touched]
                memo.changed += [op.name for op in moved if state.counters[op] in touched]
                if (stale and not step.read_committed) or moved or not state.layout.holds:
                    raise _Conflict
                self._commit(segment, state, env, advances)
                return self._fetch(segment, env)
            finally:
                self.manager.end(claim)
        finally:
            self.manager.unpin(versions)

    def _commit(
        self,
        segment: Segment,
        state: SegmentState,
        env: dict[ValueKey, Any],
        advances: list[tuple[RandomCounter, int]],
    ) -> None:
        updates = []
        for key, slot in state.written:
            value = env.get(key)
            if value is None or isinstance(value, Published):  # None: a branch not taken would have written it
                continue
            self._check_shape(key, slot, value)
            updates.append((slot, value))
        if updates:
            self.manager.publish(updates)
        for counter, amount in advances:
            counter.position += amount

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
                errors.message(
                    f"a value of shape {shapes.show(tuple(value.shape))} for variable {slot.name!r}",
                    f"shape {shapes.show(slot.shape)}",
                    "reshape the value, or make the variable with validate_shape=False",
                ),
            )

    # ------------------------------------------------------------------------------------------------------------ items
    def _run_items(
        self,
        segment: Segment,
        state: SegmentState,
        env: dict[ValueKey, Any],
        step: Step,
        memo: Recorded,
    ) -> list[tuple[RandomCounter, int]]:
        advances: list[tuple[RandomCounter, int]] = []
        items = segment.items
        try:
            for item in items:
                started = time.time() if step.stats is not None else 0.0
                if isinstance(item, ProgramItem):
                    self._run_program(item, segment, state, env, advances, step)
                else:
                    self._run_host(item, state, env, advances, step, memo)
                if step.stats is not None:
                    ops = item.program.group.ops if isinstance(item, ProgramItem) else (item.op,)
                    step.stats.append(ItemTime(tuple(ops), isinstance(item, ProgramItem), started, time.time()))
        except (
            lowering.CutNeeded,
            lowering.BoundNeeded,
            lowering.HostNeeded,
            capacities.TooRoomy,
            capacities.Exceeded,
        ) as cut:
            self.plan.require(cut, segment, items)
            raise _CutAnew from None
        if self.plan.tier == "interpreted" and not self.plan.nested:
            shape_families.observe(self.plan, env)
        return advances

    def _run_host(
        self,
        item: HostItem,
        state: SegmentState,
        env: dict[ValueKey, Any],
        advances: list[tuple[RandomCounter, int]],
        step: Step,
        memo: Recorded,
    ) -> None:
        op = item.op
        definition = op.definition
        if definition.effect.kind == "body":
            nested.run_item(self, item, env, advances, step, memo)
            return
        if op in self._lent_reads:
            env[op._outputs[0]] = env[item.sources[0]]  # type: ignore[index]
            return
        take = lent if may_borrow(definition) else to_host
        operands: list[Any] = []
        for key in item.sources:
            if definition.effect.presence and isinstance(key, StateKey):
                operands.append(np.bool_(key.index > 0 or self._slot(key.maker).version is not None))
            else:
                # A version that is not there is one that the op allows to be absent; see _resolve.
                absent = isinstance(key, StateKey) and definition.allows_uninitialized and key not in env
                operands.append(None if key is None or absent else take(env[key]))
        remembered = memo.get(op)
        if remembered is not None and same(remembered[0], operands):
            values = remembered[1]
        else:
            if remembered is not None:
                memo.check(op)
            counter = state.counters.get(op)
            philox = None
            if counter is not None:
                philox = counter.words()
                assert definition.consumes is not None
                advances.append((counter, int(definition.consumes(lowering.TraceShapes(op, operands)))))
            values = self._call_host(op, operands, step, philox)
            if definition.effect.kind == "io":
                memo[op] = (operands, values)
        writes = item.writes
        for key, value in zip(writes, values, strict=False):
            # An assignment hands on its operand, which may be the caller's own feed; an update makes a new array.
            keep = definition.effect.reads or isinstance(value, kernels.HandedOver)
            env[key] = np.asarray(value) if keep else np.array(value)
        rest = iter(values[len(writes) :])
        for output in op._outputs:
            if not (output.dtype.is_ref and writes):
                value = next(rest)
                if output not in self.plan.fed:
                    env[output] = value

    def _call_host(self, op: Operation, operands: list[Any], step: Step, philox: Any) -> list[Any]:
        definition = op.definition
        try:
            if kernels.needs_lax(definition):
                return list(
                    single_op.run_compiled(definition, operands, op._attrs, op, philox, self.plan.options.precision)
                )
            context = _StepContext(op, self)
            context.cancellation = step.token
            context.philox = philox
            context.precision = self.plan.options.precision
            return kernels.run_on_host(definition, operands, op._attrs, context)
        except errors.OpError as problem:
            if problem._op is None:
                problem._op = op
            raise
        except (ValueError, TypeError, IndexError, ArithmeticError) as problem:
            if definition.effect.kind == "io" or (definition.host_only and definition.effect.kind != "channel"):
                raise
            told = ", ".join(
                f"{np.asarray(value).dtype} {shapes.show(np.shape(value))}" for value in operands if value is not None
            )
            raise errors.InvalidArgumentError(
                None, op, f"{op.type} {op.name!r} cannot run on inputs of {told or 'none'}: {problem}"
            ) from problem

    def _run_program(
        self,
        item: ProgramItem,
        segment: Segment,
        state: SegmentState,
        env: dict[ValueKey, Any],
        advances: list[tuple[RandomCounter, int]],
        step: Step,
    ) -> None:
        program = item.program
        if any(key not in env for key in (*program.inputs, *program.donated_keys)):
            self._interpret(item, state, env, advances, step)  # a variable without value that the step may do without
            return
        engine.refuse_after_fork()
        try:
            inputs = engine.moved([device_value(env[key]) for key in program.inputs], program.device)
        except kernels.NotCompilable:  # a list whose elements do not fit into one array
            self._interpret(item, state, env, advances, step)
            return
        program.ready(inputs, item.static)
        told = [i for i, key in enumerate(program.inputs) if key in self.plan.told] if self.plan.told else ()
        static = {
            i: to_host(env[program.inputs[i]]) for i in (*item.static, *told) if not isinstance(inputs[i], TracedList)
        }
        rng = NO_RNG
        if program.random_ops:
            rng = np.empty((len(program.random_ops), 6), np.uint32)
            for row, op in enumerate(program.random_ops):
                rng[row, :2], rng[row, 2:] = state.counters[op].words()
        versions: list[Version] = [env[key] for key in program.donated_keys]
        try:
            old = engine.moved([version.value for version in versions], program.device)
            cached = item.cached
            if cached is not None and cached[0] is state.layout:
                executable = cached[1]
            else:
                forms = program.variants
                bounds = {i: program.capacities.of(~i, int(to_host(env[program.inputs[i]]))) for i in item.bounds}
                executable = program.executable(
                    old, inputs, static, rng, MAX_STATIC_VARIANTS if item.static or bounds else None, bounds
                )
                if item.settled and executable is not None and not executable.facts.guessed:
                    item.cached = (state.layout, executable)
                if self.plan.nested and program.variants > MAX_SHAPES_OF_A_BODY:
                    self.plan.keep_dynamic_on_host()
                elif executable is None:
                    shape_families.open_values(self.plan, program, item.static)
                elif program.variants > forms and not self.plan.nested:
                    shape_families.note(self.plan, program, env, static)
        except (
            lowering.CutNeeded,
            lowering.BoundNeeded,
            lowering.HostNeeded,
            capacities.TooRoomy,
            errors.InternalError,
        ):
            raise
        except programs.UNTRACEABLE as problem:
            # Tracing met what can only fail at run time: the interpreter says which op fails first in effect order.
            executable = None
            item.refused = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        except Exception as problem:
            if type(problem).__name__ not in ("XlaRuntimeError", "JaxRuntimeError") or "UNIMPLEMENTED" not in str(
                problem
            ):
                raise
            executable = None  # the device has no code for one of the ops (integer convolutions on a GPU)
            item.refused = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        if executable is None:
            self._interpret(item, state, env, advances, step)
            return
        arguments = tuple([value for i, value in enumerate(inputs) if i not in static]) if static else tuple(inputs)
        slots = [state.slots[key] for key in program.donated_keys]
        results, finals, flags, shown = self.call(item, segment, executable, versions, old, slots, arguments, rng, step)
        facts = executable.facts
        if flags is not None:
            self.raise_failed(program, executable, flags, slots, finals, shown)
        for final, value in zip(program.donated.values(), finals, strict=True):
            env[final] = Published(value) if shown else value
        for position, value in zip(facts.traced_outputs, results, strict=not facts.dynamic):
            env[program.outputs[position]] = value
        for position, value in facts.known_outputs.items():
            env[program.outputs[position]] = value
            self.plan.tell(program.outputs[position], value)
        for op, amount in zip(program.random_ops, facts.amounts(results), strict=True):
            advances.append((state.counters[op], amount))

    def raise_failed(
        self, program: Any, executable: programs.Executable, flags: Any, slots: list[Slot], finals: Any, shown: bool
    ) -> None:
        """Raises the error of the first check that failed, if any; what the program owned is current again."""
        failed = int(flags[0])
        if failed >= 0:
            if slots and not shown:
                self.manager.publish(list(zip(slots, finals, strict=True)))
            raise program.failure(executable, failed, np.asarray(flags[1]))

    def call(
        self,
        item: ProgramItem,
        segment: Segment,
        executable: programs.Executable,
        versions: list[Version],
        old: list[Any],
        slots: list[Slot],
        arguments: tuple[Any, ...],
        rng: np.ndarray,
        step: Step,
    ) -> tuple[Any, Any, Any, bool]:
        """Calls a program and waits for it; gives it the buffers of ``versions`` that nobody has pinned."""
        program = item.program
        donated: tuple[Any, ...] = ()
        if executable.draft is not None:
            executable.draft.count(executable)
        function = executable.function
        shown = False
        if versions:
            step.interrupts.hold()
        try:
            with engine.x64():
                if versions:
                    known = bool(item.static or item.bounds)
                    function, donated = spare_buffers.handed(
                        self.manager, program, executable, versions, old, arguments, rng, not known
                    )
                results, finals, flags = function(donated, arguments, program.device_constants(), rng)
            if versions and not item.writes and len(segment.written) == len(versions):
                # What the program returns for donated variables is right whether or not its checks hold: show it now.
                self.manager.replace(slots, finals)
                shown = True
            if program.platform != "cpu":  # all small copies to the host at once: one wait instead of one for each
                for value in (*(flags[:1] if flags is not None else ()), *results):
                    if getattr(value, "nbytes", MAX_EARLY_COPY) < MAX_EARLY_COPY:
                        value.copy_to_host_async()
            if flags is not None:
                flags = (np.asarray(flags[0]), flags[1])
            else:
                for done in (finals or results)[:1]:
                    engine.wait_for(done)
        except BaseException as problem:
            if type(problem).__name__ not in ("XlaRuntimeError", "JaxRuntimeError"):
                raise
            if shown:
                self.manager.lose(slots)
            kind = errors.ResourceExhaustedError if "RESOURCE_EXHAUSTED" in str(problem) else errors.InternalError
            raise kind(
                None, None, f"a program of {len(program.group.ops)} ops failed in the device: {problem}"
            ) from problem
        return results, finals, flags, shown

    def _interpret(
        self,
        item: ProgramItem,
        state: SegmentState,
        env: dict[ValueKey, Any],
        advances: list[tuple[RandomCounter, int]],
        step: Step,
    ) -> None:
        """Runs a program's ops one by one on the host."""
        for op in item.program.group.ops:
            if op.role is not Role.CONSTANT and op.definition.makes is None:
                step.token.raise_if_cancelled()
                self._run_host(
                    HostItem(op, self.plan.sources(op), self.plan.analysis.state_of(op).writes),
                    state,
                    env,
                    advances,
                    step,
                    Recorded(),
                )


class _StepContext(kernels.HostContext):
    """Host context of a step: resolves handles in its resource manager."""

    def __init__(self, op: Operation, runner: Executor):
        super().__init__(op, runner._resource)
        self._manager = runner.manager

    def release(self, handle: Any, ignore_missing: bool) -> None:
        if not self._manager.remove(handle) and not ignore_missing:
            raise errors.NotFoundError(
                None, self.op, f"Resource {handle.container}/{handle.name}/{handle.kind} does not exist."
            )


def prepare(plan: Plan, tier: str) -> None:
    """Chooses the tier of the coming run and arranges the plan if it changed."""
    if plan.tier == "compiled":
        return
    chosen, why = policy.choose(plan, tier)
    plan.why = why
    if chosen != plan.tier:
        plan.arrange(chosen)
