"""A group of ops as one XLA program: a pure function of inputs and state versions, traced from the ops' kernels.

Values are either known while tracing (NumPy arrays: constants, shapes, whatever follows from them) or traced. An op
whose inputs are all known is computed on the host then and there, so shape arithmetic costs nothing at run time. An
op that must know an input at compile time and meets a traced one raises :class:`CutNeeded`; the plan then computes
that input in an earlier program and calls this one with its value as part of the key.

Order inside a program that owns its variables' buffers (*donates*): compute, then all checks, then writes. A write to
a donated variable is held back by the conjunction ``ok`` of the checks: element-wise updates by a select, row updates
by turning the row indices out of range. Where a check itself depends on what a write made, the write goes first
(*tentative*) and is taken back at the end if ``ok`` is false: by a select, or, for row writes, from a pre-image of
the touched rows. A failed program thus returns the old contents. A variable that is not donated needs none of this:
its new value is simply not published.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors, inference, kernels, opdef
from anabranch.core.operation import Operation, Tensor
from anabranch.core.state_key import StateKey, ValueKey
from anabranch.xla import engine, single, tracing

MAX_EMBEDDED_CONSTANT = 1024
"""Constants with more elements are passed as arguments: XLA copies and folds large literals slowly."""

_emits_checks: set[str] = set()
"""Op types whose kernels were seen to call ``ctx.check``; learnt while tracing."""


class CutNeeded(Exception):
    """``tensor`` must be known before ``op`` can be compiled."""

    def __init__(self, tensor: Tensor, op: Operation):
        super().__init__(tensor, op)
        self.tensor = tensor
        self.op = op


class _MoreChecks(Exception):
    """A kernel called ``ctx.check`` that was not known to; the order of writes must be chosen anew."""


class ProgramOps(NamedTuple):
    """What a program is made of: ops in order, what each reads and writes, and their places in the step."""

    ops: tuple[Operation, ...]
    sources: dict[Operation, tuple[ValueKey | None, ...]]
    """Per op, where each input comes from; None for a resource whose old value the op does not read."""
    writes: dict[Operation, tuple[StateKey, ...]]
    ranks: dict[Operation, int]
    fed: frozenset[Tensor] = frozenset()
    """Outputs whose values come from the caller, whatever their ops compute."""


class Executable(NamedTuple):
    """A traced and jitted variant of a program for certain shapes and known values."""

    function: Any
    facts: _Facts


class _Facts:
    """What tracing found out besides the program itself."""

    def __init__(self) -> None:
        self.records: list[tracing.CheckRecord] = []
        self.known_outputs: dict[int, np.ndarray] = {}
        self.consumed: list[int] = []
        self.traced_outputs: list[int] = []
        self.tentative: list[int] = []


class _SharedExecutables:
    """Executables of the whole process by structure; the least recently used go first."""

    def __init__(self, capacity: int = 1024):
        self._capacity = capacity
        self._found: collections.OrderedDict[Any, Executable] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> Executable | None:
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: Any, executable: Executable) -> None:
        with self._lock:
            self._found[key] = executable
            while len(self._found) > self._capacity:
                self._found.popitem(last=False)


_shared = _SharedExecutables()


class Program:
    """One group of ops. ``outputs`` are values that others need; ``donated`` maps base versions to their successors."""

    def __init__(
        self,
        group: ProgramOps,
        outputs: Sequence[ValueKey],
        donated: dict[StateKey, StateKey],
        platform: str,
        device: Any = None,
        precision: Any = None,
    ):
        self.group = group
        self.outputs = tuple(outputs)
        self.donated = dict(donated)
        self.platform = platform
        self.device = device
        self.precision = precision
        produced: set[ValueKey] = set()
        needed: dict[ValueKey, None] = {}
        self.random_ops: list[Operation] = []
        self.constants: dict[Tensor, np.ndarray] = {}
        for op in group.ops:
            for key in group.sources[op]:
                if key is not None and key not in produced:
                    needed[key] = None
            if op.definition.effect.kind == "random":
                self.random_ops.append(op)
            if (
                op.type == "Const"
                and op._attrs["value"].size > MAX_EMBEDDED_CONSTANT
                and op._attrs["value"].dtype != object
            ):
                self.constants[op._outputs[0]] = op._attrs["value"]
            produced.update(output for output in op._outputs if output not in group.fed)
            produced.update(group.writes.get(op, ()))
        self.donated_keys = tuple(self.donated)
        self.inputs: tuple[ValueKey, ...] = tuple(key for key in needed if key not in self.donated)
        self._variants: dict[Any, Executable] = {}
        self._lock = threading.Lock()
        self._device_constants: tuple[Any, ...] | None = None
        self._structure_key: Any = None

    # -- compilation ------------------------------------------------------------------------------------------------
    def executable(
        self,
        donated: Sequence[Any],
        inputs: Sequence[Any],
        static: dict[int, np.ndarray],
        rng: np.ndarray,
        limit: int | None = None,
    ) -> Executable | None:
        """The compiled variant for these arguments; ``static`` are positions of ``inputs`` whose values are in it.

        None if it would be one more than ``limit``.
        """
        key = (
            tuple([(value.shape, value.dtype) for value in donated]),
            tuple([None if i in static else (value.shape, value.dtype) for i, value in enumerate(inputs)]),
            tuple([(i, opdef.attr_key(value)) for i, value in static.items()]) if static else (),
        )
        found = self._variants.get(key)
        if found is None:
            with self._lock:
                found = self._variants.get(key)
                if found is None:
                    if limit is not None and len(self._variants) >= limit:
                        return None
                    structure = (self._structure(), key)
                    found = _shared.get(structure)
                    if found is None:
                        found = self._compile(donated, inputs, static, rng)
                        _shared.put(structure, found)
                    self._variants[key] = found
        return found

    def tentative_writes(self) -> list[str]:
        """Names of the writes that go before a check which reads what they write."""
        return sorted({self.group.ops[i].name for found in self._variants.values() for i in found.facts.tentative})

    def failure(self, executable: Executable, failed: int, payload: np.ndarray) -> errors.OpError:
        """The exception of the check that failed."""
        record = executable.facts.records[failed]
        return record._replace(op=self.group.ops[record.op]).failure(payload)

    def device_constants(self) -> tuple[Any, ...]:
        """Large constants, on the device, as trailing arguments."""
        if self._device_constants is None:
            if not self.constants:
                self._device_constants = ()
            else:
                with engine.x64():
                    self._device_constants = tuple(
                        engine.jax().device_put(value, engine.jax_device(self.device))
                        for value in self.constants.values()
                    )
        return self._device_constants

    def _structure(self) -> Any:
        """A key that equal computations share whatever their ops' names: types, attributes and wiring by position."""
        if self._structure_key is None:
            numbers: dict[ValueKey | None, int] = {None: -1}
            arguments: tuple[ValueKey, ...] = (*self.donated_keys, *self.inputs)
            for key in arguments:
                numbers.setdefault(key, len(numbers))
            rows = []
            for op in self.group.ops:
                ignored = ("seed", "seed2") if op.definition.effect.kind == "random" else ()
                large = op._outputs and op._outputs[0] in self.constants
                attrs = tuple(
                    (name, (value.shape, value.dtype) if large and name == "value" else opdef.attr_key(value))
                    for name, value in sorted(op._attrs.items())
                    if name[:1] != "_" and name not in ignored
                )
                fed = tuple([i for i, output in enumerate(op._outputs) if output in self.group.fed])
                wiring = tuple([numbers[key] for key in self.group.sources[op]])
                rows.append((op.type, op.definition.version, attrs, wiring, fed))
                made: tuple[ValueKey, ...] = (*op._outputs, *self.group.writes.get(op, ()))
                for key in made:
                    numbers.setdefault(key, len(numbers))
            ranks = sorted(range(len(self.group.ops)), key=lambda i: self.group.ranks[self.group.ops[i]])
            self._structure_key = (
                tuple(rows),
                tuple([numbers[key] for key in self.outputs]),
                tuple([(numbers[base], numbers[final]) for base, final in self.donated.items()]),
                tuple(ranks),
                (self.platform, self.device, self.precision),
            )
        return self._structure_key

    def _compile(
        self, donated: Sequence[Any], inputs: Sequence[Any], static: dict[int, np.ndarray], rng: np.ndarray
    ) -> Executable:
        facts = _Facts()

        def function(donated: Any, inputs: Any, constants: Any, rng: Any) -> Any:
            for _ in range(len(_emits_checks) + len(self.group.ops) + 1):
                with contextlib.suppress(_MoreChecks):
                    return self._trace(donated, inputs, constants, rng, static, facts)
            raise errors.InternalError(None, None, "tracing a program did not settle")

        function.__name__ = "anabranch_program"
        jitted = engine.jax().jit(function, **({"donate_argnums": (0,)} if self.donated_keys else {}))
        dynamic = tuple(value for i, value in enumerate(inputs) if i not in static)
        # Compiled ahead of time: the executable keeps neither the graph nor this program alive.
        jax = engine.jax()
        place = (
            jax.default_device(engine.jax_device(self.device)) if self.device is not None else contextlib.nullcontext()
        )
        with engine.x64(), place, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            lowered = jitted.lower(tuple(donated), dynamic, self.device_constants(), rng)
            return Executable(lowered.compile(), facts)

    # -- tracing ------------------------------------------------------------------------------------------------------
    def _trace(
        self, donated: Any, inputs: Any, constants: Any, rng: Any, static: dict[int, np.ndarray], facts: _Facts
    ) -> Any:
        jnp = engine.jax().numpy
        env: dict[ValueKey, Any] = dict(zip(self.donated_keys, donated, strict=True))
        rest = iter(inputs)
        for i, key in enumerate(self.inputs):
            env[key] = static[i] if i in static else next(rest)
        env.update(zip(self.constants, constants, strict=True))
        state_inputs = {id(value) for key, value in env.items() if isinstance(key, StateKey)}
        checks: list[tracing.Check] = []
        context = tracing.TraceContext(checks, self.platform, self.precision)
        facts.consumed = [0] * len(self.random_ops)
        facts.tentative = []
        late, tentative = self._schedule()

        run = _Run(self, env, context, rng, facts)
        for op in self.group.ops:
            if op in late:
                run.only_checks(op)
            else:
                run.everything(op, None)
        checks.sort(key=lambda check: check.rank)
        flags = tracing.pack_checks(checks) if checks else None
        places = {op: i for i, op in enumerate(self.group.ops)}
        facts.records = [record._replace(op=places[record.op]) for record in tracing.record_checks(checks)]
        ok = None if flags is None else flags[0] < 0
        emitted = len(checks)
        for op in self.group.ops:
            if op in late:
                run.everything(op, ok, skip_checks=True)
        if len(checks) != emitted:
            raise _MoreChecks

        finals = []
        for base, final in self.donated.items():
            value = env[final]
            undone = [op for op in tentative if any(key.maker is base.maker for key in self.group.writes[op])]
            if undone and ok is not None:
                facts.tentative += [places[op] for op in undone]
                value = self._take_back(env, base, value, undone, ok)
            finals.append(value)
        results = []
        facts.known_outputs = {}
        facts.traced_outputs = []
        for i, key in enumerate(self.outputs):
            value = env[key]
            if isinstance(value, np.ndarray):
                facts.known_outputs[i] = value
                continue
            facts.traced_outputs.append(i)
            # A state input handed out as it came would share its buffer with the variable, which a later step may own.
            results.append(jnp.copy(value) if id(value) in state_inputs else value)
        return tuple(results), tuple(finals), flags

    def _writes_donated(self, op: Operation) -> bool:
        makers = {base.maker for base in self.donated}
        return any(key.maker in makers for key in self.group.writes.get(op, ()))

    def _schedule(self) -> tuple[set[Operation], list[Operation]]:
        """Ops that must wait for the checks, and writes that must go before some check."""
        writers = [op for op in self.group.ops if self._writes_donated(op)]
        if not writers:
            return set(), []
        index = {op: i for i, op in enumerate(writers)}
        origin: dict[ValueKey, int] = {}
        taint: dict[Operation, int] = {}
        before_checks = 0
        for op in self.group.ops:
            mask = 0
            for key in self.group.sources[op]:
                mask |= origin.get(key, 0) if key is not None else 0
            taint[op] = mask
            if op.definition.checks is not None or op.type in _emits_checks:
                before_checks |= mask
                if op in index and op.type in _emits_checks:
                    before_checks |= 1 << index[op]
            made = mask | (1 << index[op] if op in index else 0)
            for output in op._outputs:
                origin[output] = made
            for key in self.group.writes.get(op, ()):
                origin[key] = made
        tentative = [op for op in writers if before_checks >> index[op] & 1]
        held = sum(1 << i for op, i in index.items() if not before_checks >> i & 1)
        late = {op for op in self.group.ops if taint[op] & held or (op in index and held >> index[op] & 1)}
        return late, tentative

    def _take_back(self, env: dict[ValueKey, Any], base: StateKey, final: Any, undone: list[Operation], ok: Any) -> Any:
        jnp = engine.jax().numpy
        old = env[base]
        writers = [op for op in self.group.ops if any(key.maker is base.maker for key in self.group.writes.get(op, ()))]
        if all(op.definition.predication is not None and op.definition.predication.kind == "rows" for op in writers):
            for op in undone:
                assert op.definition.predication is not None
                at = op.definition.input_range(op.definition.predication.indices, op._attrs).start
                indices = jnp.asarray(env[self.group.sources[op][at]])
                row = _row_index(op, indices)
                before = old[row]
                final = final.at[_masked_row_index(op, indices, ok)].set(before, mode="drop")
            return final
        return jnp.where(ok, final, old)


class _Run:
    """One pass over the ops of a program while it is traced."""

    def __init__(
        self, program: Program, env: dict[ValueKey, Any], context: tracing.TraceContext, rng: Any, facts: _Facts
    ):
        self.program = program
        self.env = env
        self.context = context
        self.rng = rng
        self.facts = facts
        self.donated_makers = {base.maker for base in program.donated}
        self.partial: dict[Tensor, tuple[Any, ...]] = {}

    def _operands(self, op: Operation) -> list[Any]:
        return [None if key is None else self.env[key] for key in self.program.group.sources[op]]

    def only_checks(self, op: Operation) -> None:
        """The checks of a write whose kernel comes later."""
        if op.definition.checks is not None:
            self._enter(op)
            op.definition.checks(self.context, self._operands(op), op._attrs)

    def _enter(self, op: Operation) -> None:
        self.context.op = op
        self.context.rank = self.program.group.ranks[op]

    def everything(self, op: Operation, ok: Any, skip_checks: bool = False) -> None:
        """Runs an op's checks and kernel. ``ok`` holds back writes to donated variables."""
        definition = op.definition
        if definition.makes is not None:
            return
        if op.type == "Const" and op._outputs[0] in self.program.constants:
            return
        operands = self._operands(op)
        known = all(isinstance(value, np.ndarray) for value in operands)
        if definition.shape_only:
            operands = [np.broadcast_to(np.zeros((), np.int8), value.shape) for value in operands]
            known = True
        writes = self.program.group.writes.get(op, ())
        if known and not writes and self._fold(op, operands):
            return
        shape_context: _TraceShapes | None = None
        if definition.compile_time:
            shape_context = _TraceShapes(op, operands, self.partial)
            free: set[int] = set()
            if definition.traced is not None:
                for name in definition.traced(shape_context):
                    found = definition.input_range(name, op._attrs)
                    free.update(range(found.start, found.stop))
            for position in single.compile_time_positions(definition, op._attrs):
                if position not in free and not isinstance(operands[position], np.ndarray):
                    raise CutNeeded(op._inputs[position], op)
        self.context.shapes = shape_context
        self._enter(op)
        if definition.checks is not None and not skip_checks:
            definition.checks(self.context, operands, op._attrs)
        own = len(self.context.checks)
        if definition.effect.kind == "random":
            index = self.program.random_ops.index(op)
            self.context.philox = (self.rng[index, :2], self.rng[index, 2:])
            assert definition.consumes is not None
            self.facts.consumed[index] = int(definition.consumes(_TraceShapes(op, operands, self.partial)))
        held = bool(writes) and ok is not None and any(key.maker in self.donated_makers for key in writes)
        if held and definition.predication is not None and definition.predication.kind == "rows":
            at = definition.input_range(definition.predication.indices, op._attrs).start
            xp = self.context.xp
            indices = xp.asarray(operands[at])
            operands[at] = xp.where(ok, indices, np.iinfo(indices.dtype).max)
        assert definition.kernel is not None
        values = kernels.outputs_of(definition, op._attrs, definition.kernel(self.context, operands, op._attrs))
        if len(self.context.checks) > own and op.type not in _emits_checks:
            _emits_checks.add(op.type)
            raise _MoreChecks
        self._store(op, values, writes, operands, ok if held else None)

    def _store(
        self, op: Operation, values: list[Any], writes: tuple[StateKey, ...], operands: list[Any], ok: Any
    ) -> None:
        definition = op.definition
        xp = self.context.xp
        for i, key in enumerate(writes):
            value = values[i]
            if ok is not None and definition.predication is opdef.SELECT:
                position = definition.resource_positions(op._attrs)[i]
                value = xp.where(ok, value, operands[position])
            self.env[key] = value
        plain = [output for output in op._outputs if not (output.dtype.is_ref and writes)]
        made = values[len(writes) :]
        if len(made) != len(plain):
            raise errors.InternalError(
                None, op, f"the kernel of {op.type!r} returned {len(made)} values for {len(plain)} outputs"
            )
        for output, value in zip(plain, made, strict=True):
            expected = output.dtype.base.np
            if value.dtype != expected:
                raise errors.InternalError(
                    None, op, f"the kernel of {op.type!r} returned {value.dtype} for an output of dtype {expected}"
                )
            if output not in self.program.group.fed:
                self.env[output] = value
        if definition.value is not None and not writes and plain and plain[0] not in self.program.group.fed:
            self._learn(op, plain[0], operands)

    def _learn(self, op: Operation, output: Tensor, operands: list[Any]) -> None:
        """Keeps what a value rule knows about a traced result: all of it, or some elements of a vector."""
        assert op.definition.value is not None
        found = op.definition.value(_TraceShapes(op, operands, self.partial))
        if isinstance(found, list):
            found = found[0]
        if isinstance(found, tuple) and None not in found:
            found = np.array(found, output.dtype.base.np)
        if isinstance(found, np.ndarray):
            self.env[output] = found
        elif found is not None:
            self.partial[output] = found

    def _fold(self, op: Operation, operands: Sequence[np.ndarray]) -> bool:
        definition = op.definition
        if definition.is_stateful or not definition.deterministic or kernels.needs_lax(definition):
            return False
        if op.type != "Const":
            shapes_ = inference.infer(definition, _TraceShapes(op, operands, self.partial), len(op._outputs))
            for shape in shapes_:
                if shape is None or None in shape or int(np.prod(shape, dtype=np.int64)) > MAX_EMBEDDED_CONSTANT:  # type: ignore[arg-type]
                    return False
        results = kernels.run_on_host(definition, operands, op._attrs, kernels.HostContext(op))
        for output, value in zip(op._outputs, results, strict=True):
            if output not in self.program.group.fed:
                self.env[output] = np.asarray(value)
        return True


class _TraceShapes(inference.ShapeContext):
    """Shape context over values that have concrete shapes."""

    __slots__ = ("_operands_", "_partial_")

    def __init__(self, op: Operation, operands: Sequence[Any], partial: dict[Tensor, tuple[Any, ...]] | None = None):
        super().__init__(
            op.definition, op._attrs, op._inputs, [None if value is None else tuple(value.shape) for value in operands]
        )
        self._operands_ = operands
        self._partial_ = partial or {}

    def _partial(self, position: int) -> Any:
        value = self._operands_[position]
        if isinstance(value, np.ndarray):
            return value
        return self._partial_.get(self._tensors[position])


def _row_index(op: Operation, indices: Any) -> Any:
    """Index of the rows that a row write touches: rows of dimension 0, or tuples of coordinates for ``ScatterNd``."""
    if "ScatterNd" in op.type:
        return tuple(indices[..., i] for i in range(indices.shape[-1]))
    return indices


def _masked_row_index(op: Operation, indices: Any, ok: Any) -> Any:
    jnp = engine.jax().numpy
    return _row_index(op, jnp.where(ok, np.iinfo(indices.dtype).max, indices))
