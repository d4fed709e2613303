"""Running a graph with control flow of version 1 as it stands: op by op, by tokens.

This is how a graph runs that has no functional view: a ``Merge`` of unrelated switches, frames that are no loops,
handles that are chosen while the step runs. It is slow and complete.

*Tokens.* What comes out of an op is a value, or *dead*. An op runs once all its inputs and control inputs have come,
and is dead itself if one of them is; a ``Merge`` runs with the first live input, a ``ControlTrigger`` always. An op in
a frame runs once per iteration; a frame is one for each set of connected ops, for each iteration of the frame around.
A dead ``NextIteration`` ends a loop. When nothing runs in a frame any more, the exits that gave nothing are dead.

*Order.* Of the ops that can run, the one that was created first does; a frame stands where its first ``Enter`` does,
and finishes an iteration before it begins the next.

*State.* As in plans: a read sees the writes that reached it through tokens, or that were made in earlier iterations of
its frames, and no other of the step. All writes commit together at the end. An op on a channel divides the step: what
was written before it is committed before it runs. A step that calls Python or acts on a channel holds no variables
meanwhile; if somebody else changed them it fails with AbortedError, and has changed nothing since its last channel op.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import ENTERS, EXITS, MERGES, NEXTS, SWITCHES
from anabranch.core.values import shapes
from anabranch.ops.v1 import array_objects, tensor_arrays
from anabranch.rewrite import effects
from anabranch.runtime import executor, host_ops, results
from anabranch.runtime.interpreter import nested
from anabranch.runtime.interpreter.shape_refusals import refused_by_shape
from anabranch.runtime.plans import binding
from anabranch.runtime.state.slots import RandomCounter, ResourceHandle
from anabranch.runtime.step import Step, Transaction
from anabranch.runtime.v1.frames import (
    NOTHING_WRITTEN,
    Frame,
    Iteration,
    Reach,
    Ref,
    Token,
    VariableInFrame,
    WaitingOp,
    merged_reach,
)
from anabranch.runtime.v1.token_plan import PASS, STATE, TokenPlan
from anabranch.runtime.values import to_host
from anabranch.xla import lowering


class _Base(executor.Executor):
    """Run kernels; knows the objects that live as long as the step."""

    def resource(self, handle: Any) -> Any:
        """The object of a handle; those that live as long as the step are their own handles."""
        if isinstance(handle, (array_objects.Stack, array_objects.TensorArray)):
            return handle
        return super().resource(handle)


class TokenRunner:
    """Run one :class:`TokenPlan` in one resource manager."""

    def __init__(self, plan: TokenPlan, manager: Any, bodies: Any = None) -> None:
        self.plan = plan
        self.manager = manager
        self.base = _Base(plan, manager, bodies)  # type: ignore[arg-type]

    def run(self, feeds: Sequence[Any], step: Step) -> list[Any]:
        """Run the plan and returns a value per fetch: NumPy arrays, None for operations."""
        return _Run(self, feeds, step).run()


class _Run:
    """One step."""

    def __init__(self, runner: TokenRunner, feeds: Sequence[Any], step: Step) -> None:
        self.plan = runner.plan
        self.base = runner.base
        self.manager = runner.manager
        self.step = step
        self.feeds = dict(zip(self.plan.feeds, feeds, strict=True))
        self.queue: list[Any] = []
        self.serial = itertools.count()
        self.results: dict[Tensor, Token] = {}
        self.ran: set[Operation] = set()
        self.fetched = {fetch for fetch in self.plan.fetches if isinstance(fetch, Tensor)}
        self.root = Frame(None, None, ())
        self.variables: dict[Operation, VariableInFrame] = {}
        self.counters: dict[Operation, RandomCounter] = {}
        self.starts: dict[str, tuple[RandomCounter, int]] = {}

    # ------------------------------------------------------------------------------------------------------ transaction
    def run(self) -> list[Any]:
        plan = self.plan
        slots = {
            maker: binding.slot_of(plan, self.manager, maker)
            for maker in plan.variables.values()
            if maker.definition.makes in STATE
        }
        for op in plan.random_ops:
            counter = binding.counter_of(plan, self.manager, op)
            self.starts[op.name] = (counter, counter.position)
            self.counters[op] = RandomCounter(counter.key, counter.position)
        streams = frozenset(counter for counter, _ in self.starts.values())
        held = frozenset(slots.values())
        self.reads = frozenset[Any]() if plan.writes else held
        self.writes = streams | (held if plan.writes else frozenset())
        holds = (plan.writes or bool(streams)) and not plan.leaves
        transaction = Transaction(self.manager, self.step.token)
        try:
            if holds:
                transaction.claim(self.reads, self.writes)
            else:
                transaction.read([slot for slot in slots.values() if slot.version is not None])
            self.variables = {maker: VariableInFrame(slot) for maker, slot in slots.items()}
            self._execute()
            fetched = results.owned([self._result(fetch, i) for i, fetch in enumerate(plan.fetches)])
            self._commit(transaction if holds else None)
            return fetched
        except BaseException:
            transaction.fail()
            raise
        finally:
            transaction.end()

    def _commit(self, holding: Transaction | None = None) -> None:
        """Make what was written current; ``holding`` is the transaction that has claimed it, if one has."""
        changed = {item for item in self.variables.values() if len(item.values) > 1}
        moved = [
            (counter, start, self.counters[op].position)
            for op in self.plan.random_ops
            for counter, start in [self.starts[op.name]]
        ]
        if not changed and all(start == now for _, start, now in moved):
            return
        transaction = holding if holding is not None else Transaction(self.manager, self.step.token)
        try:
            if holding is None:
                transaction.claim(self.reads, self.writes)
            if holding is None and (
                any(
                    item.slot.version is not item.values[0]
                    for item in self.variables.values()
                    if item.read or item in changed
                )
                or any(counter.position != start for counter, start, _ in moved)
            ):
                raise errors.AbortedError(
                    None,
                    None,
                    errors.message(
                        "a step, run by tokens, whose variables others changed while it called Python or waited",
                        "variables that stay as they are meanwhile",
                        "run it again, or run fewer writers at once",
                    ),
                )
            updates = [(item.slot, to_host(item.values[-1])) for item in changed]
            transaction.commit(updates, [(counter, now - start) for counter, start, now in moved])
        except BaseException:
            transaction.fail()
            raise
        finally:
            if holding is None:
                transaction.end()
        for item in set(self.variables.values()):
            item.first += len(item.values) - 1
            item.values = [item.slot.version]
            item.read = False
        for op in self.plan.random_ops:
            counter = self.starts[op.name][0]
            self.starts[op.name] = (counter, counter.position)

    # -------------------------------------------------------------------------------------------------------- variables
    def _read(self, maker: Operation, op: Operation, iteration: Iteration, reach: Reach) -> Any:
        """The version that an op sees; None if there is none and the op does without."""
        item = self.variables[maker]
        item.read = True
        count = max(reach.get(maker, 0), iteration.before.get(maker, 0)) - item.first
        value = item.values[min(max(count, 0), len(item.values) - 1)]
        if value is None:
            if op.definition.effect.presence or op.definition.allows_uninitialized:
                return None
            value = item.slot.current(op)
        return to_host(value)

    def _owner(self, op: Operation, value: Any) -> Operation:
        """The maker of the variable or table that an op is given."""
        wanted = op.definition.effect.of
        maker = value.maker if isinstance(value, Ref) else None
        if maker is None and isinstance(value, ResourceHandle):
            maker = self.plan.variables.get(value)
        if maker is None or maker not in self.variables or maker.definition.makes != wanted:
            raise errors.InvalidArgumentError(
                None,
                op,
                errors.message(
                    f"what is no {wanted} as the {wanted} of {op.name!r} ({op.type})", f"a {wanted}", f"pass a {wanted}"
                ),
            )
        return maker

    def _last(self, maker: Operation, op: Operation) -> Any:
        item = self.variables[maker]
        item.read = True
        value = item.values[-1]
        if value is None and not op.definition.allows_uninitialized:
            value = item.slot.current(op)
        return to_host(value)

    def _put(self, maker: Operation, value: Any, op: Operation, frame: Frame) -> Reach:
        """Make a version; returns what has seen it."""
        item = self.variables[maker]
        value = np.array(value)
        declared = item.slot.shape
        if not shapes.is_compatible(declared, value.shape) and op._attrs.get("validate_shape", True):
            raise errors.InvalidArgumentError(
                None,
                op,
                "Assign requires shapes of both tensors to match. "
                f"lhs shape= {shapes.show(declared)} rhs shape= {shapes.show(value.shape)}\n"
                + errors.message(
                    f"a value of shape {shapes.show(value.shape)} for variable {item.slot.name!r}",
                    f"shape {shapes.show(declared)}",
                    "reshape the value, or make the variable with validate_shape=False",
                ),
            )
        item.values.append(value)
        writes = {maker: item.first + len(item.values) - 1}
        inner: Frame | None = frame
        while inner is not None:
            inner.wrote = merged_reach(inner.wrote, writes)
            inner = inner.parent[0] if inner.parent is not None else None
        return writes

    # ------------------------------------------------------------------------------------------------------- scheduling
    def _execute(self) -> None:
        plan = self.plan
        root = self.root
        first = root.iterations[0]
        for op in plan.ops:
            if op in plan.static:
                for output in op._outputs:
                    if output not in plan.fed and output in self.fetched:
                        self.results[output] = Token(self._static(output), False, NOTHING_WRITTEN)
                self.ran.add(op)
            elif not plan.pending[op] and op.type not in MERGES:
                self._push(op, root, first)
            elif not plan.pending[op]:
                self._ready_merge(op, self._slot(op, first), root, first)
        while self.queue:
            self.step.token.raise_if_cancelled()
            _, _, op, frame, iteration = heapq.heappop(self.queue)
            slot = self._slot(op, iteration)
            slot.done = True
            self._fire(op, slot, frame, iteration)
            slot.operands = []
            frame.busy -= 1
            self._end(frame)

    def _static(self, tensor: Tensor) -> Any:
        op = tensor.op
        if op.type == "Const":
            return op._attrs["value"]
        handle = self.plan.handle_of(op)
        if op.definition.makes == "variable" and tensor.dtype.is_ref:
            return Ref(self.plan.makers[handle])
        return handle

    def _slot(self, op: Operation, iteration: Iteration) -> WaitingOp:
        slot = iteration.slots.get(op)
        if slot is None:
            plan = self.plan
            slot = iteration.slots[op] = WaitingOp(len(op._inputs), plan.pending[op])
            for i, tensor in plan.given.get(op, ()):
                slot.operands[i] = self.feeds[tensor] if tensor in plan.fed else self._static(tensor)
                slot.live = i
            if op.type in MERGES:  # of its data, one input is waited for
                slot.pending = sum(control not in plan.static for control in op._control_inputs)
                back = sum(tensor.op.type in NEXTS for tensor in op._inputs)
                slot.missing = back if back and iteration.index else len(op._inputs) - back
                if plan.given.get(op) is None:
                    slot.live = -1
        return slot

    def _push(self, op: Operation, frame: Frame, iteration: Iteration) -> None:
        frame.busy += 1
        heapq.heappush(self.queue, ((*frame.key, iteration.index, op._id), next(self.serial), op, frame, iteration))

    def _ready_merge(self, op: Operation, slot: WaitingOp, frame: Frame, iteration: Iteration) -> None:
        if not slot.queued and not slot.pending and (slot.live >= 0 or slot.missing <= 0):
            slot.queued = True
            self._push(op, frame, iteration)

    def _deliver(self, op: Operation, position: int, token: Token, frame: Frame, iteration: Iteration) -> None:
        """Hand a token to an input (-1: a control input)."""
        slot = self._slot(op, iteration)
        if op.type in MERGES:
            if position < 0:
                slot.pending -= 1
                slot.dead |= token.dead
                slot.reach = merged_reach(slot.reach, token.reach)
            elif token.dead:
                slot.missing -= 1
            elif not slot.queued and slot.live < 0:
                slot.operands[position], slot.live = token.value, position
                slot.reach = merged_reach(slot.reach, token.reach)
            self._ready_merge(op, slot, frame, iteration)
            return
        slot.pending -= 1
        slot.dead |= token.dead
        slot.reach = merged_reach(slot.reach, token.reach)
        if position >= 0:
            slot.operands[position] = token.value
        if not slot.pending:
            self._push(op, frame, iteration)

    def _send(self, op: Operation, tokens: Sequence[Token], frame: Frame, iteration: Iteration) -> None:
        """Hand the outputs of an op, and that it has run, to those who wait in one iteration."""
        plan = self.plan
        for output, token in zip(op._outputs, tokens, strict=True):
            if output in plan.fed:
                continue
            if frame is self.root and output in self.fetched:
                self.results[output] = token
            for user, position in plan.takers.get(output, ()):
                self._deliver(user, position, token, frame, iteration)
        waiters = plan.waiters.get(op)
        if waiters:
            reach = NOTHING_WRITTEN
            for token in tokens:
                reach = merged_reach(reach, token.reach)
            done = Token(None, bool(tokens) and all(token.dead for token in tokens), reach)
            self._signal(waiters, done, frame, iteration)

    def _signal(self, waiters: list[Operation], token: Token, frame: Frame, iteration: Iteration) -> None:
        for user in waiters:
            self._deliver(user, -1, token, frame, iteration)

    # ----------------------------------------------------------------------------------------------------------- frames
    def _end(self, frame: Frame) -> None:
        """Notes that something in a frame is over; when nothing is left, its silent exits are dead."""
        while frame.parent is not None and not frame.busy and frame.entered == self.plan.enters[frame.part]:
            outer, iteration = frame.parent
            for op in self.plan.exits.get(frame.part, ()):
                if op not in frame.left:
                    self._send(op, [Token(None, True, frame.wrote)], outer, iteration)
            del iteration.children[frame.part]
            outer.busy -= 1
            frame = outer

    def _enter(self, op: Operation, token: Token, outer: Frame, iteration: Iteration) -> None:
        part = self.plan.frame_of[op]
        frame = iteration.children.get(part)
        if frame is None:
            key = (*outer.key, iteration.index, op._id)
            frame = iteration.children[part] = Frame(part, (outer, iteration), key)
            frame.iterations[0].before = iteration.before
            outer.busy += 1
        frame.entered += 1
        frame.busy += 1  # it is not done while this goes on
        if op._attrs["is_constant"]:
            frame.constants.append((op, token))
            for inner in list(frame.iterations.values()):
                self._send(op, [token], frame, inner)
        else:
            self._send(op, [token], frame, frame.iterations[0])
        frame.busy -= 1
        self._end(frame)

    def _next(self, op: Operation, token: Token, frame: Frame, iteration: Iteration) -> None:
        index = iteration.index + 1
        following = frame.iterations.get(index)
        if following is None:
            following = frame.iterations[index] = Iteration(index)
            following.before = merged_reach(iteration.before, frame.wrote)
            self._forget(frame)
            for constant, value in frame.constants:
                self._send(constant, [value], frame, following)
        self._send(op, [token], frame, following)

    def _forget(self, frame: Frame) -> None:
        """Drop iterations in which nothing can happen any more."""
        if frame.entered < self.plan.enters[frame.part]:
            return
        while len(frame.iterations) > 2:
            oldest = next(iter(frame.iterations.values()))  # they are made in order
            if oldest.children or not all(slot.done for slot in oldest.slots.values()):
                return
            del frame.iterations[oldest.index]

    # ---------------------------------------------------------------------------------------------------------- kernels
    def _fire(self, op: Operation, slot: WaitingOp, frame: Frame, iteration: Iteration) -> None:
        kind = op.type
        dead = slot.dead and kind != "ControlTrigger"
        if kind in MERGES:
            dead = dead or slot.live < 0
        reach = slot.reach
        if not dead and frame is self.root:
            self.ran.add(op)
        if kind in NEXTS:
            if frame.parent is None:
                raise errors.InvalidArgumentError(
                    None,
                    op,
                    errors.message(
                        f"{op.name!r} ({kind}) outside of a loop", "a frame that Enter makes", "tf.while_loop"
                    ),
                )
            if not dead:
                self._next(op, Token(slot.operands[0], False, reach), frame, iteration)
            return
        if kind in ENTERS:
            self._enter(op, Token(None if dead else slot.operands[0], dead, reach), frame, iteration)
            return
        if kind in EXITS:
            if not dead and op not in frame.left and frame.parent is not None:
                frame.left.add(op)
                outer, place = frame.parent
                self._send(op, [Token(slot.operands[0], False, reach)], outer, place)
            return
        if dead:
            tokens = [Token(None, True, reach)] * len(op._outputs)
            if not tokens:
                self._signal(self.plan.waiters.get(op, []), Token(None, True, reach), frame, iteration)
        elif kind in MERGES:
            chosen = Token(slot.operands[slot.live], False, reach)
            tokens = [chosen, Token(np.int32(slot.live), False, reach)]
        elif kind in SWITCHES:
            count = len(op._outputs)
            operand = self._operand(op, 1, slot, iteration)
            if np.ndim(operand) != 0:
                raise errors.InvalidArgumentError(
                    None, op, f"The second input must be a scalar, but it has shape {list(np.shape(operand))}"
                )
            index = int(operand)
            index = index if 0 <= index < count else count - 1
            tokens = [Token(slot.operands[0] if i == index else None, i != index, reach) for i in range(count)]
        else:
            tokens = self._run_op(op, slot, frame, iteration)
            if not tokens:
                self._signal(self.plan.waiters.get(op, []), Token(None, False, self._after), frame, iteration)
        if tokens:
            self._send(op, tokens, frame, iteration)

    _after: Reach = NOTHING_WRITTEN
    """What has been seen after the op without outputs that ran last."""

    def _operand(self, op: Operation, position: int, slot: WaitingOp, iteration: Iteration) -> Any:
        value = slot.operands[position]
        if isinstance(value, Ref):
            return self._read(value.maker, op, iteration, slot.reach)
        takes = op.type in tensor_arrays.TYPES or op.definition.only_passes
        if isinstance(value, (array_objects.Stack, array_objects.TensorArray)) and not takes:
            maker = op._inputs[position].op
            given = f"the handle of {maker.name!r} ({maker.type}) for {op.name!r} ({op.type})"
            if op.definition.effect.kind == "body":
                text = errors.message(given, "a value that bodies can hold", "tf.TensorArray(dtype, size)")
                raise errors.UnimplementedError(None, op, text)
            raise errors.InvalidArgumentError(None, op, errors.message(given, "a value", "read what is in it"))
        return to_host(value)

    def _run_op(self, op: Operation, slot: WaitingOp, frame: Frame, iteration: Iteration) -> list[Token]:
        definition = op.definition
        effect = definition.effect
        reach = slot.reach
        kind = op.type
        if kind in tensor_arrays.MAKERS:
            given = [to_host(item) for item in slot.operands]
            make = tensor_arrays.MAKERS[kind]
            (resource,) = host_ops.framed(self.base, op, given, lambda: [make(given, op._attrs, op.name)])
            values = [resource, np.float32(0.0)][: len(op._outputs)]
            return [Token(value, False, reach) for value in values]
        if kind in PASS or (kind == "Identity" and not op._control_inputs and isinstance(slot.operands[0], Ref)):
            return [Token(slot.operands[0], False, reach)]
        if definition.makes is not None:  # one that waits for something
            return [Token(self._static(output), False, reach) for output in op._outputs]
        if effect.kind == "body":
            return self._run_bodies(op, slot, frame, iteration)
        if (effect.kind == "channel" and kind not in tensor_arrays.TYPES) or definition.may_block:
            self._commit()
        owned = definition.resource_positions(op._attrs) if effect.kind in ("read", "write") else ()
        operands: list[Any] = []
        makers: list[Operation] = []
        for position, value in enumerate(slot.operands):
            if position not in owned:
                operands.append(self._operand(op, position, slot, iteration))
                continue
            maker = self._owner(op, value)
            makers.append(maker)
            if effect.kind == "read":
                current = self._read(maker, op, iteration, reach)
                operands.append(np.bool_(current is not None) if effect.presence else current)
            else:
                operands.append(self._last(maker, op) if effect.reads else None)
        philox = None
        counter = self.counters.get(op)
        if counter is not None:
            refused = refused_by_shape(self.plan, op, operands)
            if refused is not None:
                raise refused
            philox = counter.words()
            assert definition.consumes is not None
            consumed = int(definition.consumes(lowering.TraceShapes(op, operands)))
            host_ops.require_room(op, operands, consumed)
        values = [to_host(value) for value in host_ops.call(self.base, op, operands, self.step.token, philox)]
        if counter is not None:
            counter.position += consumed
        written = 0
        if effect.kind == "write":
            for maker, value in zip(makers, values, strict=False):
                reach = merged_reach(reach, self._put(maker, value, op, frame))
            written = len(makers)
        self._after = reach
        rest = iter(values[written:])
        return [
            Token(slot.operands[owned[0]] if output.dtype.is_ref and written else next(rest), False, reach)
            for output in op._outputs
        ]

    def _run_bodies(self, op: Operation, slot: WaitingOp, frame: Frame, iteration: Iteration) -> list[Token]:
        """A conditional, loop or call of the kind that holds bodies."""
        within = effects.summary(op)
        assert within is not None
        reach = slot.reach
        if within.channel:
            self._commit()
        overlay = nested.Overlay(self.manager)
        known = self.plan.variables
        handles = {maker: self.plan.handle_of(maker) for maker in (*within.reads, *within.writes)}
        for maker, handle in handles.items():
            item = self.variables[known[handle]]
            if maker in within.writes:
                item.read = True
                value = item.values[-1]
            else:
                value = None if item.values[-1] is None else self._read(known[handle], op, iteration, reach)
            overlay.put(item.slot, to_host(value))
        for inner in within.random_ops:
            overlay._counters[inner.name] = self.counters[inner]
        operands = [
            None if isinstance(value, Ref) and effects.is_handle(op, i)
            else self._operand(op, i, slot, iteration)
            for i, value in enumerate(slot.operands)
        ]  # fmt: skip
        manager = self.manager if within.channel else overlay
        outputs = nested._execute(self.base, op, operands, manager, self.step)
        if not within.channel:
            for maker in within.writes:
                handle = handles[maker]
                version = overlay._slots[handle].version
                if version is not None:
                    reach = merged_reach(reach, self._put(known[handle], to_host(version), op, frame))
        self._after = reach
        return [Token(to_host(value), False, reach) for value in outputs]

    # ---------------------------------------------------------------------------------------------------------- results
    def _result(self, fetch: Any, index: int) -> Any:
        plan = self.plan
        if not isinstance(fetch, Tensor):
            return None
        if fetch in plan.fed:
            return self.feeds[fetch]
        token = self.results.get(fetch)
        if token is None or token.dead:
            raise errors.InvalidArgumentError(
                None,
                fetch.op,
                f"Retval[{index}] does not have value\n"
                + errors.message(
                    f"the fetch {fetch.name!r}, which is dead: it is in a branch that was not taken, or in a loop",
                    "a tensor outside conditionals and loops",
                    "fetch what the conditional or loop returns",
                ),
            )
        value = token.value
        if isinstance(value, Ref):
            root = self.root.iterations[0]
            value = (
                self._last(value.maker, fetch.op)
                if fetch.dtype.is_ref
                else self._read(value.maker, fetch.op, root, token.reach)
            )
        return value
