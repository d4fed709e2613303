"""One op as its own compiled program: how the interpreter runs an op without a host kernel, and tests compare tiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.cache import Cache
from anabranch.core.contract import kernels, opdef
from anabranch.xla import engine, kernel_context, lapack_threads, memory, stored_programs

_programs: Cache[Any, Any] = Cache("programs of single ops", 512)


def caches() -> list[Cache[Any, Any]]:
    """The caches that the process owns."""
    return [_programs]


def compile_time_positions(definition: opdef.OpDefinition, attrs: dict[str, Any]) -> frozenset[int]:
    """Flat positions of the inputs that must be known when the op is compiled."""
    positions_known: set[int] = set()
    for name in definition.compile_time:
        positions = definition.input_range(name, attrs)
        positions_known.update(range(positions.start, positions.stop))
    return frozenset(positions_known)


Program = tuple[Any, list[kernel_context.CheckRecord]]
"""A compiled function, and how to raise the checks that it makes."""


def run_compiled(
    definition: opdef.OpDefinition,
    inputs: Sequence[Any],
    attrs: dict[str, Any],
    op: Any = None,
    philox: Any = None,
    precision: Any = None,
) -> list[np.ndarray]:
    """Run one op's kernel through XLA on the default device; raises its checks; returns NumPy arrays (or copies).

    ``inputs`` are arrays; a resource operand is given as the variable's value.
    """
    static = compile_time_positions(definition, attrs)
    arrays = [np.asarray(value) for value in inputs]
    dynamic = [value for i, value in enumerate(arrays) if i not in static]
    compiled = program(definition, arrays, attrs, op, philox, precision)
    return [np.array(value) for value in call(compiled, dynamic, op, philox)]


def program(
    definition: opdef.OpDefinition,
    arrays: Sequence[Any],
    attrs: dict[str, Any],
    op: Any = None,
    philox: Any = None,
    precision: Any = None,
) -> Program:
    """One op's kernel compiled for operands of such shapes, and for the values of those that must be known."""
    jax = engine.jax()
    static = compile_time_positions(definition, attrs)
    dynamic = [value for i, value in enumerate(arrays) if i not in static]
    key = (
        definition,
        tuple((k, opdef.attr_key(v)) for k, v in sorted(attrs.items()) if k[:1] != "_"),
        tuple((value.shape, value.dtype) for value in dynamic),
        tuple(opdef.attr_key(arrays[i]) for i in sorted(static)),
        philox is not None,
        precision,
    )
    compiled = _programs.get(key)
    if compiled is None:
        records: list[kernel_context.CheckRecord] = []

        def traced_kernel(*values: Any) -> Any:
            rest = iter(values)
            checks: list[kernel_context.Check] = []
            context = kernel_context.TraceContext(checks, engine.default_platform(), precision)
            context.op = op
            if philox is not None:
                context.philox = (next(rest), next(rest))
            operands = [arrays[i] if i in static else next(rest) for i in range(len(arrays))]
            if definition.checks is not None:
                definition.checks(context, operands, attrs)
            assert definition.kernel is not None
            results = kernels.outputs_of(definition, attrs, definition.kernel(context, operands, attrs))
            records[:] = [record._replace(op=None) for record in kernel_context.record_checks(checks)]
            return results, kernel_context.pack_checks(checks) if checks else None

        name = stored_programs.key(
            ("one op", definition.type_name, definition.version, key[1:], philox is not None),
            [definition] if op is None else stored_programs.definitions([op]),
            engine.default_platform(),
        )
        # Compiled ahead of time: what is kept holds neither the op, hence its graph, nor these inputs.
        with engine.x64():
            arguments = (*(philox or ()), *dynamic)
            stored = stored_programs.load(name, arguments, engine.jax_device(None))
            if stored is not None:
                work, records = stored[0]["factorisation"], list(map(stored_programs.read_record, stored[0]["records"]))
                function = stored[1]
            else:
                traced = jax.jit(traced_kernel).trace(*arguments)
                memory.refuse(traced.jaxpr, [op] if op is not None else ())
                options = engine.compiler_options(engine.default_platform())
                function, code = engine.compiled(traced.lower(), options)
                memory.require_memory(function, engine.jax_device(None), [op] if op is not None else ())
                work = lapack_threads.largest(traced.jaxpr)
                stored_programs.save_op(name, function, records, work, code)
        compiled = (lapack_threads.limited(function, work, engine.default_platform()), records)
        _programs.put(key, compiled)
    return compiled


def call(compiled: Program, dynamic: Sequence[Any], op: Any = None, philox: Any = None) -> list[Any]:
    """What a compiled op gives for the operands that need not be known: arrays on its device; raises its checks."""
    function, records = compiled
    with engine.x64():
        results, flags = function(*(philox or ()), *dynamic)
    if flags is not None:
        failed = int(flags[0])
        if failed >= 0:
            raise records[failed]._replace(op=op).failure(np.asarray(flags[1]))
    return list(results)
