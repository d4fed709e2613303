"""A group of ops as XLA programs: what :mod:`program_function` traces, compiled for the arguments that come, and kept.

Executables are shared by structure in the process and kept on disk; what an op must know at compile time is part of
the key of a form, and sizes that change from run to run are padded to capacities.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import Cache, Listed
from anabranch.core.contract import faults, opdef
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values.list_values import TracedList
from anabranch.xla import (
    background,
    capacities,
    engine,
    kernel_context,
    lapack_threads,
    lists,
    lowering,
    memory,
    stored_programs,
)
from anabranch.xla import row_updates as rows
from anabranch.xla.executables import Executable, Facts, Means, NotStored
from anabranch.xla.loops import loop_limits
from anabranch.xla.onednn import convolutions
from anabranch.xla.padding import batches, sizes
from anabranch.xla.program_function import ProgramFunction, ProgramOps

UNTRACEABLE = (errors.OpError, NotImplementedError, faults.KernelBug)
"""What tracing raises when it meets what can only fail, what XLA does not have, or a bug: interpreting says which."""
MAX_VARIANTS = 256
MAX_REFUSED = 64
MAX_LOWERED = 16

_shared: Cache[Any, Executable] = Cache("executables", 1024)
"""Executables of the whole process by structure."""
_awaited: Cache[Any, tuple[Facts, Any]] = Cache("programs to be compiled", MAX_LOWERED)
"""By structure what has been lowered, until it is compiled."""


def caches() -> list[Listed]:
    """The caches that the process owns."""
    return [_shared, _awaited]


class Program(ProgramFunction):
    """A group of ops in the forms in which it was compiled."""

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
        super().__init__(group, outputs, donated, platform, device, precision, sizes_change)
        self.open_axes: dict[int, tuple[int, ...]] = {}
        """Dimensions of inputs that have a size of their own in each run."""
        self.batch_axes: dict[int, dict[int, tuple[sizes.Terms, ...]]] = {}
        """Dimensions of inputs that follow the sizes of the step's batch, if the program is to serve many; and what
        they may be."""
        self._lengths: dict[tuple[int, int], sizes.Terms] = {}
        """What each of them is."""
        self.open_axes.update(rows.open_inputs(group, self.inputs))
        self._variants: Cache[Any, Executable] = Cache("variants of programs", MAX_VARIANTS)
        self._refused: Cache[Any, Exception] = Cache("arguments refused by tracing", MAX_REFUSED)
        """Why arguments cannot be traced."""
        self._lock = threading.Lock()
        self._device_constants: tuple[Any, ...] | None = None
        self._structure_key: Any = None
        self.devices_of_inputs: list[Any] | None = None
        """Where each input is taken, if that is not the program's device for all; None for wherever it is."""

    def ready(self, inputs: list[Any], static: Sequence[int]) -> None:
        """Give inputs that have sizes of their own the capacities that the program is compiled for."""
        for i, value in enumerate(inputs):
            if isinstance(value, TracedList):
                known = i in static or not self.sizes_change
                inputs[i] = lists.as_input(value, None if known else self.capacities, i)
            elif i in self.open_axes and i not in static:
                inputs[i] = capacities.padded(value, self.open_axes[i], self.capacities, i)

    def pad(self, inputs: list[Any], size: sizes.Size) -> sizes.Size:
        """Pads the batch of all inputs, and adds its sizes to them; returns the capacity.

        Raises:
            NotPadded: an input has another size.
        """
        capacity = sizes.capacity(size)
        for i, axes in self.batch_axes.items():
            array = np.asarray(inputs[i])
            form = list(array.shape)
            for axis, choice in axes.items():
                form[axis] = sizes.total(self._length(i, axis, array.shape[axis], choice, size), capacity)
            if tuple(form) != array.shape:
                whole = np.zeros(form, array.dtype)
                whole[tuple([slice(length) for length in array.shape])] = array
                array = whole
            inputs[i] = array
        inputs += map(np.int32, size)
        return capacity

    def _length(self, i: int, axis: int, length: int, choice: Sequence[sizes.Terms], size: sizes.Size) -> sizes.Terms:
        """What a dimension of an input is, as it was before, or may be."""
        known = self._lengths.get((i, axis))
        if known is not None and sizes.total(known, size) == length:
            return known
        for terms in choice:
            times, powers = terms[0]
            if not times:
                terms = ((length // sizes.product(powers, size), powers),)
            if sizes.total(terms, size) == length and (known is None or known[0][1] != terms[0][1]):
                self._lengths[i, axis] = terms
                return terms
        key = self.inputs[i]
        assert isinstance(key, Tensor)
        raise batches.NotPadded(key.op, "its result is not as large as the batch")

    # -- compilation ------------------------------------------------------------------------------------------------
    def executable(
        self,
        donated: Sequence[Any],
        inputs: Sequence[Any],
        static: dict[int, np.ndarray],
        rng: np.ndarray,
        limit: int | None = None,
        bounds: dict[int, int] | None = None,
        gated: bool = False,
        batch: sizes.Size = (),
        means: Means = Means.HERE,
    ) -> Executable | None:
        """The compiled variant for these arguments; ``static`` are positions of ``inputs`` whose values are in it, and
        ``bounds`` upper bounds of others. A ``gated`` one takes one argument more, the first flag of the program before
        it: unless that one passed, nothing is written. ``batch`` is the capacity of inputs that were padded; empty if
        none were.

        None if it would be one more than ``limit``. What tracing raised for such arguments once, it raises again at
        once.

        Raises:
            NotStored: there is none, and ``means`` are not to make it.
        """
        key = (
            tuple([(value.shape, value.dtype) for value in donated]),
            tuple([None if i in static else lists.signature(value) for i, value in enumerate(inputs)]),
            tuple([(i, opdef.attr_key(value)) for i, value in static.items()]) if static else (),
            tuple(bounds.items()) if bounds else (),
            tuple([(self.flat_ops.index(op), most) for op, most in self.guesses.items()]) if self.guesses else (),
            self.capacities.tight,
            gated,
            (batch, *self._lengths.items()) if batch else (),
        )
        executable = self._variants.get(key)
        if executable is None:
            with self._making(means):
                executable = self._variants.peek(key)
                if executable is None:
                    if limit is not None and len(self._variants) >= limit:
                        return None
                    refusal = self._refused.get(key)
                    if refusal is not None:
                        raise refusal.with_traceback(None)
                    structure = (self._structure(), key)
                    executable = _shared.get((self.device, structure))
                    if executable is None:
                        stored = stored_programs.key(
                            structure, stored_programs.definitions(self.flat_ops), self.platform
                        )
                        asked = (donated, inputs, static, rng, bounds or {}, gated)
                        try:
                            if not batch:  # else its facts are functions, which no disk keeps
                                executable = self._load(*asked, stored)
                            if executable is None and means is Means.STORED:
                                raise NotStored
                            if executable is None:
                                lowered = _awaited.get((self.device, structure))
                                if lowered is None:
                                    lowered = self._lowered(*asked, False, batch)
                                if means is Means.LOWERED:
                                    _awaited.put((self.device, structure), lowered)
                                    return Executable(lowered[1], lowered[0])
                                _awaited.discard((self.device, structure))
                                named = functools.partial(self._traced, *asked, False, batch, names_ops=True)
                                name = None if batch else stored
                                executable = self._compile(lowered[0], lowered[1], named, name, means)
                        except capacities.TooRoomy:
                            self.capacities.tight = True
                            raise
                        except lowering.CutNeeded as cut:
                            self._keep_cut(cut, None if batch else stored)
                            raise
                        except UNTRACEABLE as problem:
                            self._refused.put(key, problem)
                            raise
                        except faults.FAULTS as problem:
                            bug = faults.KernelBug(None, problem)
                            self._refused.put(key, bug)
                            raise bug from problem
                        _shared.put((self.device, structure), executable)
                    self._variants.put(key, executable)
        return executable

    @contextlib.contextmanager
    def _making(self, means: Means) -> Iterator[None]:
        """Hold the lock of what makes executables; who is not to make one does not wait while another is made."""
        if not self._lock.acquire(blocking=means is not Means.STORED):
            raise NotStored
        try:
            yield
        finally:
            self._lock.release()

    def keeping(self, donated: Sequence[Any], inputs: Sequence[Any], rng: np.ndarray, gated: bool) -> Executable:
        """A form that leaves the variables' old values alone: it takes buffers for the new ones as one argument more,
        before the others, or an empty tuple. Arguments are what they are for ``executable``; nothing is known of them.
        """
        with self._lock:
            asked: tuple[Any, ...] = (donated, inputs, {}, rng, {}, gated, True)
            named = functools.partial(self._traced, *asked, names_ops=True)
            facts, lowered = self._lowered(*asked)
            return self._compile(facts, lowered, named, None, Means.BESIDE)

    @property
    def caches(self) -> list[Listed]:
        """The caches that it owns."""
        return [self._variants, self._refused]

    @property
    def variants(self) -> int:
        """How many forms it has been compiled in."""
        return len(self._variants)

    def explain_forms(self) -> list[str]:
        """What is to be told of the forms that it runs in."""
        loops = {loop: None for executable in self._variants.values() for loop in executable.facts.loops}
        lines = [f"{blocks} blocks of {ops} ops each are one loop" for blocks, ops in loops]
        calls = max((executable.facts.library_calls for executable in self._variants.values()), default=0)
        if calls:
            lines.append(f"{calls} convolution{'s' if calls > 1 else ''} by {convolutions.library_described()}")
        return lines

    def tentative_writes(self) -> list[str]:
        """Names of the writes that go before a check which reads what they write."""
        return sorted({self.flat_ops[i].name for form in self._variants.values() for i in form.facts.tentative})

    def failure(self, executable: Executable, failed: int, payload: np.ndarray, size: sizes.Size = ()) -> Exception:
        """The exception of the check that failed; ``size`` are those of a batch that was padded."""
        record = executable.facts.records[failed]
        if size:
            assert executable.facts.batch is not None
            record = record.cut(batches.at(executable.facts.batch.payloads[failed], size))
        failure = record.at(self.flat_ops).failure(payload)
        if isinstance(failure, capacities.Exceeded):
            with self._lock:  # from now on the loop gets more room
                self.guesses[failure.op] = max(self.guesses.get(failure.op, 0), capacities.power(failure.needed))
        return failure

    def device_constants(self) -> tuple[Any, ...]:
        """Large constants, on the device, as trailing arguments; then the limit of loops, if there is one."""
        if self._device_constants is None:
            with engine.x64() if self.constants else contextlib.nullcontext():
                constants = [
                    engine.jax().device_put(value, engine.jax_device(self.device)) for value in self.constants.values()
                ]
            limit = (loop_limits.fixed(loop_limits.ANY),) if self.limits_loops else ()
            self._device_constants = (*constants, *limit)
        return self._device_constants

    def _structure(self) -> Any:
        """A key that equal computations share whatever their ops' names: types, attributes and wiring by position."""
        if self._structure_key is None:
            numbers: dict[ValueKey | None, int] = {None: -1}
            arguments: tuple[ValueKey, ...] = (*self.donated_keys, *self.inputs)
            for key in arguments:
                numbers.setdefault(key, len(numbers))
            ops = (*self.group.ops, *self.group.checked)
            rows = self._rows(ops, self.group.sources, self.group.writes, numbers)
            ranks = sorted(range(len(ops)), key=lambda i: self.group.ranks[ops[i]])
            self._structure_key = (
                tuple(rows),
                tuple([numbers[key] for key in self.outputs]),
                tuple([(numbers[base], numbers[final]) for base, final in self.donated.items()]),
                (tuple(ranks), len(self.group.checked)),
                tuple(sorted([numbers[tensor] for tensor in self.group.awaited])),
                tuple([numbers[key] for key in self.inputs if isinstance(key, Tensor) and self._holds_distinct(key)]),
                (self.platform, self.precision, self.sizes_change),
            )
        return self._structure_key

    def _holds_distinct(self, key: Tensor) -> bool:
        return key not in self.group.fed and lowering.holds_distinct(key)

    def _rows(
        self,
        ops: Sequence[Operation],
        sources: dict[Operation, tuple[ValueKey | None, ...]],
        writes: dict[Operation, tuple[StateKey, ...]],
        numbers: dict[ValueKey | None, int],
    ) -> list[Any]:
        """One row for each op, bodies inside: type, attributes and wiring by ``numbers``, which grow on the way."""
        rows: list[Any] = []
        for op in ops:
            ignored = ("seed", "seed2") if op.definition.effect.kind == "random" else ()
            large = op._outputs and op._outputs[0] in self.constants
            uses = bodies_of(op)
            held = {use.attr for use in uses}
            attrs = tuple(
                (name, (value.shape, value.dtype) if large and name == "value" else opdef.attr_key(value))
                for name, value in sorted(op._attrs.items())
                if name[:1] != "_" and name not in ignored and name not in held
            )
            fed = tuple([i for i, output in enumerate(op._outputs) if output in self.group.fed])
            wiring = tuple([numbers[key] for key in sources[op]])
            inner = [self._body_row(use.body, sources[op][len(op._inputs) :]) for use in uses]
            rows.append((op.type, op.definition.version, attrs, wiring, fed, *inner))
            keys: tuple[ValueKey, ...] = (*op._outputs, *writes.get(op, ()))
            for key in keys:
                numbers.setdefault(key, len(numbers))
        return rows

    def _body_row(self, body: Body, state: Sequence[Any]) -> Any:
        assert self.group.view is not None
        view = self.group.view(body, tuple(body.outputs))
        numbers: dict[ValueKey | None, int] = {None: -1}
        for key in (*body.args, *view.entry):
            numbers.setdefault(key, len(numbers))
        rows = self._rows(view.ops, view.sources, view.writes, numbers)
        outputs = tuple(numbers[view.output_key(i)] for i in range(len(body.outputs)))
        # Which of the owner's versions each one is that the body begins with, by place.
        places = {key.maker: i for i, key in enumerate(state)}
        entry = tuple(places.get(key.maker, -1) for key in view.entry)
        final = tuple((numbers[StateKey(maker, 0, 0)], numbers[key]) for maker, key in view.final.items())
        # Of a body only what is needed runs, and control edges say what is.
        order = {op: i for i, op in enumerate(view.ops)}
        waits = [tuple([order[control] for control in op._control_inputs if control in order]) for op in view.ops]
        waits.append(tuple([order[control] for control in body.control_outputs if control in order]))
        return (tuple(rows), outputs, entry, final, tuple(waits), tuple(body.exposed_outputs))

    def _compile(
        self, facts: Facts, lowered: Any, named: Callable[[], Any], stored: str | None, means: Means
    ) -> Executable:
        """Compiles, and keeps what can be kept on disk under the name ``stored``.

        ``named`` traces once more and names the ops, for who is told that there is not the memory.
        """
        compiled, code = None, None
        options = engine.compiler_options(self.platform)
        with self._around():
            if means is Means.BESIDE:
                with contextlib.suppress(background.NotPossible):  # a GPU belongs to this process
                    compiled, code = background.compiled_elsewhere(lowered, options, stored)
                background.raise_if_ended()
            if compiled is None:
                compiled, code = engine.compiled(lowered, options)
        memory.require_memory(compiled, engine.jax_device(self.device), self.flat_ops, lambda: named()[1].jaxpr)
        if stored is not None:
            with contextlib.suppress(stored_programs.NotStorable):
                stored_programs.save(stored, facts.plain(), compiled, code)
        return Executable(lapack_threads.limited(compiled, facts.factorisation, self.platform), facts)

    def _load(
        self,
        donated: Sequence[Any],
        inputs: Sequence[Any],
        static: dict[int, np.ndarray],
        rng: np.ndarray,
        bounds: dict[int, int],
        gated: bool,
        stored: str | None,
    ) -> Executable | None:
        """What an earlier process has kept on disk under the name ``stored``; None if there is nothing."""
        if not stored_programs.has(stored):
            return None
        arguments = self._arguments(donated, inputs, static, rng, gated)
        with self._around():
            loaded = stored_programs.load(stored, arguments, engine.jax_device(self.device))
        if loaded is None:
            return None
        facts, function = loaded
        if function is None:
            op = self.flat_ops[facts[0]]
            raise lowering.CutNeeded(op._inputs[facts[1]], op)
        read = Facts.read(facts)
        return Executable(lapack_threads.limited(function, read.factorisation, self.platform), read)

    def _keep_cut(self, cut: lowering.CutNeeded, stored: str | None) -> None:
        """Keep on disk that these arguments need a value to be known: the next start need not trace to find it."""
        if cut.op in self.flat_ops and cut.tensor in cut.op._inputs and not stored_programs.has(stored):
            stored_programs.save_cut(stored, self.flat_ops.index(cut.op), cut.op._inputs.index(cut.tensor))

    def _arguments(
        self, donated: Sequence[Any], inputs: Sequence[Any], static: dict[int, np.ndarray], rng: Any, gated: bool
    ) -> tuple[Any, ...]:
        """A tree like that of the program's arguments."""
        dynamic = tuple(value for i, value in enumerate(inputs) if i not in static)
        like = engine.jax().tree.map(lambda _: 0, (tuple(donated), dynamic, self.device_constants(), rng))
        return (*like, *((0,) if gated else ()))

    @contextlib.contextmanager
    def _around(self) -> Iterator[None]:
        """What holds while the program is traced, compiled and loaded."""
        on_device = engine.jax().default_device(engine.jax_device(self.device)) if self.device is not None else None
        with engine.x64(), on_device or contextlib.nullcontext():
            yield

    def _lowered(self, *asked: Any) -> tuple[Facts, Any]:
        """What :meth:`_traced` gives, and what it is lowered to; a value that cannot exist is refused."""
        facts, traced = self._traced(*asked)
        if memory.impossible(traced.jaxpr) is not None:
            named = self._traced(*asked, names_ops=True)[1]
            memory.refuse(named.jaxpr, self.flat_ops, self._may_fail_before)
        with self._around(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            return facts, traced.lower()

    def _traced(
        self,
        donated: Sequence[Any],
        inputs: Sequence[Any],
        static: dict[int, np.ndarray],
        rng: np.ndarray,
        bounds: dict[int, int],
        gated: bool,
        keeps: bool = False,
        batch: sizes.Size = (),
        *,
        names_ops: bool = False,
    ) -> tuple[Facts, Any]:
        facts = Facts()
        facts.names_ops = names_ops
        at_sizes: list[Any] = []

        def trace(facts: Facts, donated: Any, inputs: Any, constants: Any, rng: Any, before: Any = None) -> Any:
            return self.settled(facts, donated, inputs, constants, rng, static, bounds, before)

        dynamic = tuple(value for i, value in enumerate(inputs) if i not in static)

        def traced(sums: bool) -> Any:
            def anabranch_program(donated: Any, inputs: Any, *rest: Any) -> Any:
                if batch:
                    at = sizes.Sizes(batch, sums)
                    return self._padded(trace, facts, at, at_sizes, static, inputs, (donated, *rest))
                return trace(facts, donated, inputs, *rest)

            jit = engine.jax().jit
            jitted = jit(anabranch_program, **({"donate_argnums": (0,)} if self.donated_keys else {}))
            if keeps:
                jitted = jit(lambda _, *rest: anabranch_program(*rest), donate_argnums=(0,), keep_unused=True)
            # Compiled ahead of time: the executable keeps neither the graph nor this program alive.
            with self._around():
                gate = (kernel_context.OPEN,) if gated else ()
                buffers = ((tuple(donated) if self.platform == "cpu" else ()),) if keeps else ()
                return jitted.trace(*buffers, tuple(donated), dynamic, self.device_constants(), rng, *gate)

        try:
            whole = traced(False)
        except sizes.Uneven:
            whole = traced(True)
        facts.library_calls = convolutions.count(whole.jaxpr)
        facts.factorisation = lapack_threads.largest(whole.jaxpr)
        return facts, whole

    def _may_fail_before(self, op: Operation | None) -> bool:
        end = self.group.ranks.get(op) if op is not None else None
        ahead = [other for other in self.group.ops if end is None or self.group.ranks[other] < end]
        return any(map(lowering.may_check, ahead))

    def _padded(
        self, trace: Any, facts: Facts, at: sizes.Sizes, at_sizes: list[Any], static: Any, inputs: Any, rest: Any
    ) -> Any:
        """Traces the program for any batch up to a capacity."""
        inputs, size = inputs[: -len(at.capacity)], inputs[-len(at.capacity) :]
        places = [i for i in range(len(self.inputs)) if i not in static]

        def resized(rows: sizes.Size) -> tuple[Any, ...]:
            given = []
            for i, value in zip(places, inputs, strict=True):
                if i in self.batch_axes:
                    shape = list(value.shape)
                    for axis in self.batch_axes[i]:
                        shape[axis] = sizes.total(self._lengths[i, axis], rows)
                    value = engine.jax().ShapeDtypeStruct(tuple(shape), value.dtype)
                given.append(value)
            return tuple(given)

        return batches.padded(trace, facts, at, at_sizes, self.flat_ops, resized, tuple(inputs), size, rest)
