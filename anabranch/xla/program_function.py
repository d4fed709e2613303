"""A group of ops as the function that JAX traces: pure, of inputs and state versions, made of the ops' kernels.

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

A write of a whole variable compares shapes, which tracing knows: it counts as a check only where that fails. Else a
write of slots that a variable is computed from would be tentative, and XLA would compute the variable from what the
slots were, which it then copies first.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.xla import capacities, engine, kernel_context, lowering
from anabranch.xla import row_updates as rows
from anabranch.xla.executables import Facts
from anabranch.xla.loops import repeated_blocks, rolled_blocks
from anabranch.xla.loops.units import Unit
from anabranch.xla.lowering import MAX_EMBEDDED_CONSTANT


class ProgramOps(NamedTuple):
    """What a program is made of: ops in order, what each reads and writes, and their places in the step."""

    ops: tuple[Operation, ...]
    sources: dict[Operation, tuple[ValueKey | None, ...]]
    """Per op, where each input comes from; None for a resource whose old value the op does not read."""
    writes: dict[Operation, tuple[StateKey, ...]]
    ranks: dict[Operation, int]
    fed: frozenset[Tensor] = frozenset()
    """Outputs whose values come from the caller, whatever their ops compute."""
    view: Callable[[Body, tuple[Tensor, ...]], Any] | None = None
    """What runs of a nested body for some of its outputs; see ``rewrite.state.BodyView``."""
    random_ops: tuple[Operation, ...] = ()
    """Ops that draw random numbers, those in bodies included."""
    awaited: frozenset[Tensor] = frozenset()
    """Outputs of ops with bodies that are computed for the effects that they bring."""
    checked: tuple[Operation, ...] = ()
    """Ops that run on the host after the program, which makes their checks for them."""


class ProgramFunction:
    """One group of ops. ``outputs`` are values that others need; ``donated`` maps base versions to their successors."""

    def __init__(
        self,
        group: ProgramOps,
        outputs: Sequence[ValueKey],
        donated: dict[StateKey, StateKey],
        platform: str,
        device: Any = None,
        precision: Any = None,
        sizes_change: bool = False,
    ):
        self.sizes_change = sizes_change
        """Whether sizes change from run to run, so that one program for all is better than one for each."""
        self._repeated: tuple[frozenset[Operation], list[Unit]] | None = None
        """The ops that wait for the checks, and what repeats of the others, as they were last traced."""
        self.group = group
        self.outputs = tuple(outputs)
        self.donated = dict(donated)
        self.platform = platform
        self.device = device
        self.precision = precision
        produced: set[ValueKey] = set()
        needed: dict[ValueKey, None] = {}
        self.random_ops = group.random_ops
        self.flat_ops = (*self._flattened(group.ops), *group.checked)
        self.constants: dict[Tensor, np.ndarray] = {}
        for op in group.ops:
            for key in group.sources[op]:
                if key is not None and key not in produced:
                    needed[key] = None
            if (
                op.role is Role.CONSTANT
                and op._attrs["value"].size > MAX_EMBEDDED_CONSTANT
                and op._attrs["value"].dtype != object
            ):
                self.constants[op._outputs[0]] = op._attrs["value"]
            produced.update(output for output in op._outputs if output not in group.fed)
            produced.update(group.writes.get(op, ()))
        for op in group.checked:
            needed.update(dict.fromkeys(key for key in group.sources[op] if key is not None and key not in produced))
        self.limits_loops = platform == "cpu" and device is None and any(op.role is Role.LOOP for op in self.flat_ops)
        """Whether its last large constant is what limits its loops."""
        self.donated_keys = tuple(self.donated)
        self.inputs: tuple[ValueKey, ...] = tuple(key for key in needed if key not in self.donated)
        self.guesses: dict[Operation, int] = {}
        """How often loops run that were found to run more often than had been guessed."""
        self.capacities = capacities.Capacities()

    def _flattened(self, ops: Sequence[Operation]) -> Iterator[Operation]:
        """Ops and those in their bodies: failed checks are told by place, as programs are shared by structure."""
        for op in ops:
            yield op
            for use in bodies_of(op):
                assert self.group.view is not None
                yield from self._flattened(self.group.view(use.body, tuple(use.body.outputs)).ops)

    def settled(
        self,
        facts: Facts,
        donated: Any,
        inputs: Any,
        constants: Any,
        rng: Any,
        static: dict[int, np.ndarray],
        bounds: dict[int, int],
        before: Any = None,
    ) -> Any:
        """Trace, anew as long as kernels make checks that were not known of."""
        for _ in range(len(lowering.emits_checks) + len(self.flat_ops) + 1):
            with contextlib.suppress(lowering.MoreChecks):
                return self._trace(donated, inputs, constants, rng, static, facts, bounds, before)
        raise errors.InternalError(None, None, "tracing a program did not settle")

    def _compute(self, run: lowering.Scope, op: Operation, ok: Any = None, skip_checks: bool = False) -> None:
        """Trace an op; one that waits for the checks is given whether they hold."""
        run.everything(op, ok, skip_checks)

    def _trace(
        self,
        donated: Any,
        inputs: Any,
        constants: Any,
        rng: Any,
        static: dict[int, np.ndarray],
        facts: Facts,
        bounds: dict[int, int],
        before: Any = None,
    ) -> Any:
        jnp = engine.jax().numpy
        env = rolled_blocks.Values(zip(self.donated_keys, donated, strict=True))
        rest = iter(inputs)
        for i, key in enumerate(self.inputs):
            env[key] = static[i] if i in static else next(rest)
        limit = constants[-1] if self.limits_loops else None
        env.update(zip(self.constants, constants, strict=not self.limits_loops))
        state_inputs = {id(value) for key, value in env.items() if isinstance(key, StateKey)}
        checks: list[kernel_context.Check] = []
        context = kernel_context.TraceContext(checks, self.platform, self.precision, facts.recorder)
        facts.tentative = []
        late, tentative = self._schedule()

        run = lowering.Scope(
            lowering.Wiring(self.group.sources, self.group.writes, self.group.fed, frozenset(self.constants)),
            env,
            context,
            lowering.Streams(self.random_ops, rng, limit=limit),
            {base.maker: base for base in self.donated},
            self.group.view,
            self._used,
            self.group.ranks,
        )
        run.upper = {self.inputs[i]: bound for i, bound in bounds.items()}
        run.room = capacities.Room(self.guesses, self.capacities.tight, self.sizes_change)
        places = {op: i for i, op in enumerate(self.flat_ops)}
        context.places = places if facts.names_ops else None

        def named(op: Operation) -> Any:
            return engine.jax().named_scope(f"op{places[op]}") if facts.recorder else contextlib.nullcontext()

        def each(op: Operation) -> None:
            with named(op):
                self._compute(run, op)

        rolled_blocks.compute(run, env, self._units(late), each)
        for op in self.group.ops:
            if op in late and lowering.expects_checks(op):
                with named(op):
                    run.only_checks(op)
        for op in self.group.checked:
            run.only_checks(op)
        if self.donated and self._schedule() != (late, tentative):
            raise lowering.MoreChecks
        checks.sort(key=lambda check: check.rank)
        flags = kernel_context.pack_checks(checks) if checks or before is not None else None
        if flags is not None and before is not None:
            flags = kernel_context.behind(before, flags)
        facts.records = [record.placed(places) for record in kernel_context.record_checks(checks)]
        ok = None if flags is None else flags[0] == kernel_context.PASSED
        emitted = len(checks)
        for op in self.group.ops:
            if op in late:
                self._compute(run, op, ok, skip_checks=lowering.expects_checks(op))
                if len(checks) != emitted:
                    lowering.emits_checks.add(op.type)
                    raise lowering.MoreChecks

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
        array = engine.jax().Array
        facts.specs = [(value.shape, np.dtype(value.dtype)) if isinstance(value, array) else None for value in results]
        facts.consumed = []
        facts.dynamic = []
        facts.guessed = bool(run.room.used)
        facts.budget = run.limits.budget if run.limits.used else None
        facts.loops = env.loops
        counts = [run.streams.taken.get(op, 0) for op in self.random_ops]
        for i, count in enumerate(counts):
            facts.consumed.append(count if isinstance(count, int) else 0)
            if not isinstance(count, int):
                facts.dynamic.append(i)
        if facts.dynamic:
            results.append(jnp.stack([jnp.asarray(counts[i], jnp.int64) for i in facts.dynamic]))
        return tuple(results), tuple(finals), flags

    def _units(self, late: set[Operation]) -> list[Unit]:
        """The ops that do not wait for the checks, and what repeats of them."""
        key = frozenset(late)
        if self._repeated is None or self._repeated[0] != key:
            ops = [op for op in self.group.ops if op not in late]
            outside = (*self.group.checked, *late)
            looked_at = [source for op in outside for source in self.group.sources[op] if source is not None]
            kept = frozenset((*self.outputs, *looked_at))
            units = repeated_blocks.find(ops, self.group.sources, self.group.writes, kept, self.group.fed)
            self._repeated = key, units
        return self._repeated[1]

    @functools.cached_property
    def _used(self) -> frozenset[ValueKey]:
        """Values that ops of the program or its callers use."""
        ops = (*self.group.ops, *self.group.checked)
        used: set[ValueKey] = {key for op in ops for key in self.group.sources[op] if key is not None}
        return frozenset(used.union(self.outputs, self.donated.values(), self.group.awaited))

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
            if lowering.expects_checks(op):
                before_checks |= mask
                if op in index and (op.type in lowering.emits_checks or bodies_of(op)):
                    before_checks |= 1 << index[op]
            origins = mask | (1 << index[op] if op in index else 0)
            for output in op._outputs:
                origin[output] = origins
            for key in self.group.writes.get(op, ()):
                origin[key] = origins
        for op in self.group.checked:
            for key in self.group.sources[op]:
                before_checks |= origin.get(key, 0) if key is not None else 0
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
                indices = env[self.group.sources[op][at]]
                if isinstance(indices, capacities.Padded):
                    indices = capacities.filled(jnp, indices, np.iinfo(indices.dtype).max)
                indices = jnp.asarray(indices)
                row = rows.row_index(op, indices)
                before = old[row]
                final = final.at[rows.masked_row_index(op, indices, ok)].set(before, mode="drop")
            return final
        return jnp.where(ok, final, old)
