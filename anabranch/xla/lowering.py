"""One pass over the ops of a program, or of a nested body, while it is traced.

Values are either known (NumPy arrays) or traced. An op whose inputs are all known is computed then and there. What an
op needs and the trace cannot give is told by an exception: :class:`CutNeeded`, :class:`BoundNeeded`,
:class:`HostNeeded`; the plan arranges the step anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import faults, inference, kernels
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph import shared_bodies
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import dtypes
from anabranch.xla import capacities, elementwise_chains, engine, kernel_context, single_op
from anabranch.xla.loops import loop_limits

MAX_EMBEDDED_CONSTANT = 1024
"""Constants with more elements are passed as arguments: XLA copies and folds large literals slowly."""

emits_checks: set[str] = set()
"""Op types whose kernels were seen to call ``ctx.check``; learnt while tracing."""

checked_loops: weakref.WeakSet[Operation] = weakref.WeakSet()
"""Loops that were seen to have checks besides those of their ops: of their limits."""

lowerings: dict[Role, Callable[[Scope, Operation, Any], None]] = {}
"""How ops with bodies, and optionals, are traced: filled by :mod:`anabranch.xla.control`."""

specials: dict[Role, list[Callable[[Scope, Operation], bool]]] = {}
"""How ops of a role are traced that are given what has a size of its own (lists, padded arrays): the first that does
not answer False; where all do, like any other op."""

specials_of_kinds: list[tuple[Callable[[OpDefinition], bool], Callable[[Scope, Operation], bool]]] = []
"""The same for ops of a kind that their definition tells."""


def _specials_of(definition: OpDefinition) -> tuple[Callable[[Scope, Operation], bool], ...]:
    of_role = specials.get(definition.role, ()) if definition.role is not None else ()
    return (*of_role, *(special for is_kind, special in specials_of_kinds if is_kind(definition)))


row_operands: list[Callable[[Scope, Operation, Sequence[Any]], tuple[list[Any], list[Any]] | None]] = []
"""What a write of padded rows makes of its operands, for its checks and its kernel: filled by :mod:`.rows`."""


class CutNeeded(Exception):
    """``tensor`` must be known before ``op`` can be compiled."""

    def __init__(self, tensor: Tensor, op: Operation):
        super().__init__(tensor, op)
        self.tensor = tensor
        self.op = op


class BoundNeeded(Exception):
    """``tensor`` must be there, and bounded, before a loop whose lists grow with it can be compiled."""

    def __init__(self, tensor: Tensor):
        super().__init__(tensor)
        self.tensor = tensor


class HostNeeded(Exception):
    """``op`` cannot be part of a program."""

    def __init__(self, op: Operation, reason: str = ""):
        super().__init__(op, reason)
        self.op = op


class MoreChecks(Exception):
    """A kernel called ``ctx.check`` that was not known to; the order of writes must be chosen anew."""


def _and_inside(op: Operation) -> Iterator[Operation]:
    """``op`` and all ops in its bodies, at any depth."""
    yield op
    if bodies_of(op):
        for body in shared_bodies.times_inside(op):
            yield from body.operations


def may_check(op: Operation) -> bool:
    """Whether running ``op`` may fail a check, as far as is known."""
    return any(
        part.definition.checks is not None or part.type in emits_checks or part in checked_loops
        for part in _and_inside(op)
    )


def expects_checks(op: Operation) -> bool:
    """Whether running ``op`` is likely to make a check of values.

    A write of whole variables compares shapes, which are known when it is traced, as a rule.
    """
    return any(
        part.type in emits_checks or (part.definition.checks is not None and not _writes_whole(part.definition))
        for part in _and_inside(op)
    )


def _writes_whole(definition: OpDefinition) -> bool:
    return definition.effect.kind == "write" and (
        definition.predication is None or definition.predication.kind != "rows"
    )


def holds_distinct(tensor: Tensor) -> bool:
    """Whether the elements of a tensor differ from each other, if nobody feeds it."""
    return tensor.op.role is Role.DISTINCT and tensor is tensor.op._outputs[0]


def writes_distinct_rows(
    op: Operation, sources_of: Callable[[Operation], Sequence[ValueKey | None] | None], fed: Container[Tensor]
) -> bool:
    """Whether ``op`` writes rows that are all different, as an op made them so."""
    definition = op.definition
    if definition.predication is None or definition.predication.kind != "rows":
        return False
    sources = sources_of(op)
    assert sources is not None
    key = sources[definition.input_range(definition.predication.indices, op._attrs).start]
    while isinstance(key, Tensor) and key not in fed:
        maker = key.op
        if holds_distinct(key):
            return True
        sources = sources_of(maker) if maker.definition.only_passes else None
        if sources is None:
            return False
        key = sources[maker.definition.passed_position(key.value_index, maker._attrs)]
    return False


class Wiring(NamedTuple):
    """Where the inputs of ops come from and which versions they make."""

    sources: Mapping[Operation, tuple[ValueKey | None, ...]]
    writes: Mapping[Operation, tuple[StateKey, ...]]
    fed: frozenset[Tensor] = frozenset()
    """Outputs whose values come from the caller, whatever their ops compute."""
    constants: frozenset[Tensor] = frozenset()
    """Constants that are arguments of the program."""


@dataclasses.dataclass
class Streams:
    """The random streams of a program: a row of ``words`` (key and counter) for each op, and how much each took."""

    ops: Sequence[Operation]
    words: Any
    taken: dict[Operation, Any] = dataclasses.field(default_factory=dict)
    limit: Any = None
    """What limits the program's loops (:mod:`anabranch.xla.loops.loop_limits`), if something does."""

    @property
    def shared(self) -> tuple[Any, ...]:
        """What bodies take of them, whatever else they are given: the words, and the limit if there is one."""
        return (self.words,) if self.limit is None else (self.words, self.limit)

    def block(self, op: Operation, xp: Any) -> tuple[Any, Any]:
        """Key and counter of the next block of ``op``."""
        row = list(self.ops).index(op)
        counter = self.words[row, 2:]
        taken = self.taken.get(op, 0)
        if isinstance(taken, int) and taken == 0:
            return self.words[row, :2], counter
        wide = counter.astype(xp.uint64)
        low = wide[0] | (wide[1] << xp.uint64(32))
        moved = low + xp.asarray(taken).astype(xp.uint64)
        high = (wide[2] | (wide[3] << xp.uint64(32))) + (moved < low).astype(xp.uint64)
        mask = xp.uint64(0xFFFFFFFF)
        words = [moved & mask, moved >> xp.uint64(32), high & mask, high >> xp.uint64(32)]
        return self.words[row, :2], xp.stack(words).astype(xp.uint32)

    def take(self, op: Operation, blocks: int) -> None:
        """Move the stream of ``op`` on."""
        self.taken[op] = self.taken.get(op, 0) + blocks


class Scope:
    """The values of one body (or of a program) while its ops are traced in order."""

    def __init__(
        self,
        wiring: Wiring,
        env: dict[ValueKey, Any],
        context: kernel_context.TraceContext,
        streams: Streams,
        donated: Mapping[Operation, StateKey] = MappingProxyType({}),
        view: Callable[[Body, tuple[Tensor, ...]], Any] | None = None,
        used: frozenset[ValueKey] = frozenset(),
        rank_of: Mapping[Operation, int] | None = None,
    ):
        self.wiring = wiring
        self.env = env
        self.context = context
        self.streams = streams
        self.chains = elementwise_chains.Chains(context.platform)
        self.donated = donated
        """By maker, the versions whose buffers the program owns: what the variables are if a check fails."""
        self.view = view
        self.used = used
        """Values that somebody uses; an op with bodies computes no other outputs."""
        self.rank_of = rank_of or {}
        self.partial: dict[Tensor, tuple[Any, ...]] = {}
        self.upper: dict[ValueKey, int] = {}
        """Upper bounds of integers that are not known."""
        self.most: dict[Tensor, tuple[int, ...]] = {}
        """Upper bounds of the elements of vectors, such as the shape of a padded array."""
        self.room = capacities.Room({}, False)
        self.limits = loop_limits.Limits()
        self.in_loop = False
        """Whether it is the body of a loop, or inside of one."""
        self.can_ask: Callable[[Tensor], bool] = lambda tensor: True
        """Whether a bound of a tensor can be had by :class:`BoundNeeded`."""

    def operands(self, op: Operation) -> list[Any]:
        return [None if key is None else self.env[key] for key in self.wiring.sources[op]]

    def only_checks(self, op: Operation) -> None:
        """The checks of a write whose kernel comes later."""
        if op.definition.checks is not None:
            with self._telling(op):
                checked = self._taken(op)[0]
                self._refuse(op, checked)
                self._check(op, checked)

    def _taken(self, op: Operation) -> tuple[list[Any], list[Any]]:
        """The operands of ``op`` as its checks are to see them, and as its kernel is."""
        operands = self.operands(op)
        if not any(isinstance(value, capacities.Padded) for value in operands):
            return operands, operands
        for row_operands_of in row_operands:
            operands_by_row = row_operands_of(self, op, operands)
            if operands_by_row is not None:
                return operands_by_row
        raise HostNeeded(op, "a size that a program does not know")

    def _enter(self, op: Operation) -> None:
        self.context.op = op
        self.context.rank = self.rank_of.get(op, 0)

    def everything(self, op: Operation, ok: Any, skip_checks: bool = False) -> None:
        """Run an op's checks and kernel. ``ok`` holds back writes to donated variables."""
        number = None if self.context.places is None else self.context.places.get(op)
        with self._telling(op), contextlib.nullcontext() if number is None else engine.jax().named_scope(f"op{number}"):
            self._everything(op, ok, skip_checks)

    @contextlib.contextmanager
    def _telling(self, op: Operation) -> Iterator[None]:
        """Around the tracing of an op: what it raises is told as the program's fault, the machine's, or ours."""
        own = len(self.context.checks)
        try:
            yield
        except faults.FAULTS as problem:
            raise self._fault(op, problem, self.context.checks[own:]) from problem

    def _fault(self, op: Operation, problem: Exception, checks: Sequence[kernel_context.Check]) -> Exception:
        operands = [self.env.get(key) for key in self.wiring.sources[op] if key is not None]
        if isinstance(problem, MemoryError):
            return faults.host_error(op, operands, problem)
        if any(isinstance(check.ok, (bool, np.bool_)) and not check.ok for check in checks):
            return errors.InvalidArgumentError(None, op, str(problem))  # it fails a check, as the step will say
        return self._refusal(op) or faults.KernelBug(op, problem)

    def _refuse(self, op: Operation, operands: Sequence[Any]) -> None:
        if not faults.as_built(op, operands):
            refused = self._refusal(op)
            if refused is not None:
                raise refused

    def _refusal(self, op: Operation) -> errors.OpError | None:
        operands = [None if key is None else self.env.get(key) for key in self.wiring.sources[op]]
        return faults.refusal(op, TraceShapes(op, operands, self.partial))

    def _everything(self, op: Operation, ok: Any, skip_checks: bool) -> None:
        definition = op.definition
        if definition.makes is not None:
            return
        if definition.role is Role.CONSTANT and op._outputs[0] in self.wiring.constants:
            return
        lower = lowerings.get(definition.role) if definition.role is not None else None
        if lower is not None:
            self._enter(op)
            try:
                lower(self, op, ok)
            except kernels.NotCompilable as reason:
                raise HostNeeded(op, str(reason)) from None
            return
        if any(special(self, op) for special in _specials_of(definition)):
            return
        checked, operands = self._taken(op)
        known = all(isinstance(value, np.ndarray) for value in operands)
        if definition.shape_only and not any(hasattr(value, "plus") for value in operands):  # lists, optionals
            operands = [np.broadcast_to(np.zeros((), np.int8), value.shape) for value in operands]
            known = True
        writes = self.wiring.writes.get(op, ())
        if known and not writes and self._fold(op, operands):
            return
        if definition.kernel is None or definition.data_dependent_shape:
            raise HostNeeded(op, "what it takes is not known when the program is compiled")
        self._refuse(op, operands)
        shape_context: TraceShapes | None = None
        if definition.compile_time:
            shape_context = TraceShapes(op, operands, self.partial)
            free: set[int] = set()
            if definition.traced is not None:
                for name in definition.traced(shape_context):
                    positions = definition.input_range(name, op._attrs)
                    free.update(range(positions.start, positions.stop))
            for position in single_op.compile_time_positions(definition, op._attrs):
                if position not in free and not isinstance(operands[position], np.ndarray):
                    raise CutNeeded(op._inputs[position], op)
        self.context.shapes = shape_context
        self._enter(op)
        self.context.distinct_rows = writes_distinct_rows(op, self.wiring.sources.get, self.wiring.fed)
        if not skip_checks:
            self._check(op, checked)
        own = len(self.context.checks)
        if definition.effect.kind == "random":
            self.context.philox = self.streams.block(op, self.context.xp)
            assert definition.consumes is not None
            blocks = int(definition.consumes(TraceShapes(op, operands, self.partial)))
            if self.context.recorder is not None:
                self.context.recorder.note(op, "consumes", operands, self.partial, (blocks,))
            self.streams.take(op, blocks)
        held = bool(writes) and ok is not None and any(key.maker in self.donated for key in writes)
        if held and definition.predication is not None and definition.predication.kind == "rows":
            at = definition.input_range(definition.predication.indices, op._attrs).start
            xp = self.context.xp
            indices = xp.asarray(operands[at])
            operands[at] = xp.where(ok, indices, np.iinfo(indices.dtype).max)
        self.context.ok = ok if held and definition.selects else None
        self.context.selected.clear()
        try:
            values = self._computed(op, operands)
        except kernels.NotCompilable as reason:
            raise HostNeeded(op, str(reason)) from None
        finally:
            self.context.ok = None
        if len(self.context.checks) > own and op.type not in emits_checks:
            emits_checks.add(op.type)  # the program looks at the end whether this changes the order of its writes
        self._store(op, values, writes, operands, ok if held else None)

    def _computed(self, op: Operation, operands: list[Any]) -> list[Any]:
        definition = op.definition
        kernel = definition.kernel
        assert kernel is not None
        return self._given(
            op,
            operands,
            lambda given: kernels.outputs_of(definition, op._attrs, kernel(self.context, given, op._attrs)),
        )

    def _check(self, op: Operation, operands: list[Any]) -> None:
        checks = op.definition.checks
        if checks is not None:
            self._enter(op)
            self._given(op, operands, lambda given: checks(self.context, given, op._attrs))

    def _given(self, op: Operation, operands: list[Any], run: Callable[[list[Any]], Any]) -> Any:
        """``run`` of operands, of which those that are known are arrays of NumPy if it can do with them."""
        own = len(self.context.checks)
        try:
            return run(operands)
        except (engine.jax().errors.TracerArrayConversionError, AttributeError):
            # NumPy's arrays cannot be indexed by what is traced, and have no `at`.
            del self.context.checks[own:]
            kept = single_op.compile_time_positions(op.definition, op._attrs)
            return run(
                [
                    self.context.xp.asarray(value) if isinstance(value, np.ndarray) and i not in kept else value
                    for i, value in enumerate(operands)
                ]
            )

    def _store(
        self, op: Operation, values: list[Any], writes: tuple[StateKey, ...], operands: list[Any], ok: Any
    ) -> None:
        definition = op.definition
        xp = self.context.xp
        for i, key in enumerate(writes):
            value = values[i]
            selected = any(value is other for other in self.context.selected)
            if ok is not None and definition.selects and not selected:
                old = operands[definition.resource_positions(op._attrs)[i]]
                if old is None:  # an op that does not look at it
                    old = self.env[self.donated[key.maker]]
                value = xp.where(ok, value, old)
            self.env[key] = value
        plain = [output for output in op._outputs if not (output.dtype.is_ref and writes)]
        outputs = values[len(writes) :]
        if len(outputs) != len(plain):
            raise errors.InternalError(
                None, op, f"the kernel of {op.type!r} returned {len(outputs)} values for {len(plain)} outputs"
            )
        if not writes or definition.effect.kind == "random":  # the write is that of a stream
            outputs = list(self.chains.settled(op, outputs))
        for output, value in zip(plain, outputs, strict=True):
            expected = output.dtype.base.np
            if expected is not None and value.dtype != expected:
                raise errors.InternalError(
                    None, op, f"the kernel of {op.type!r} returned {value.dtype} for an output of dtype {expected}"
                )
            if output not in self.wiring.fed:
                self.env[output] = value
        if definition.value is not None and not writes and plain and plain[0] not in self.wiring.fed:
            self._learn(op, plain[0], operands)

    def _learn(self, op: Operation, output: Tensor, operands: list[Any]) -> None:
        """Keep what a value rule knows about a traced result: all of it, or some elements of a vector."""
        value = inference.known_value(op.definition, TraceShapes(op, operands, self.partial))
        if self.context.recorder is not None:
            self.context.recorder.note(op, "value", operands, self.partial, (value,))
        if isinstance(value, list):
            value = value[0]
        if isinstance(value, tuple) and None not in value:
            value = np.array(value, output.dtype.base.np)
        if isinstance(value, np.ndarray):
            self.env[output] = value
        elif value is not None:
            self.partial[output] = value

    def _fold(self, op: Operation, operands: Sequence[np.ndarray]) -> bool:
        definition = op.definition
        if definition.is_stateful or not definition.deterministic or kernels.needs_lax(definition):
            return False
        if any(output.dtype.base is dtypes.variant for output in op._outputs):
            return False
        recorder = self.context.recorder
        if recorder is not None and not recorder.may_fold(op, self.wiring.sources[op]):
            return False
        if definition.kernel is None or definition.data_dependent_shape:
            if any(value.size > MAX_EMBEDDED_CONSTANT for value in operands):
                return False
        elif definition.role is not Role.CONSTANT:
            shapes_ = inference.infer(definition, TraceShapes(op, operands, self.partial), len(op._outputs))
            for shape in shapes_:
                if shape is None or None in shape or math.prod(shape) > MAX_EMBEDDED_CONSTANT:  # type: ignore[arg-type]
                    return False
        try:
            results = kernels.run_on_host(definition, operands, op._attrs, kernels.HostContext(op))
        except faults.FAULTS as problem:
            raise faults.host_error(op, operands, problem) from problem
        if recorder is not None and op.role is not Role.CONSTANT:
            recorder.note(op, "fold", operands, self.partial, results)
        for output, value in zip(op._outputs, results, strict=True):
            if output not in self.wiring.fed:
                self.env[output] = np.asarray(value)
        return True


class TraceShapes(inference.ShapeContext):
    """Shape context over values that have concrete shapes."""

    __slots__ = ("_operands_", "_partial_")

    of_values = runs = True

    def __init__(self, op: Operation, operands: Sequence[Any], partial: dict[Tensor, tuple[Any, ...]] | None = None):
        super().__init__(op.definition, op._attrs, op._inputs, [getattr(value, "shape", None) for value in operands])
        self._operands_ = operands
        self._partial_ = partial or {}

    def _partial(self, position: int) -> Any:
        value = self._operands_[position]
        if isinstance(value, np.ndarray):
            return value
        return self._partial_.get(self._tensors[position])
