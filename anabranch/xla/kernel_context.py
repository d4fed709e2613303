"""The compiled tier's kernel context: kernels are traced with jax.numpy, checks become flags of the program."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import kernels
from anabranch.xla import elementwise_chains, engine
from anabranch.xla.onednn import convolutions

PASSED, NOT_TRIED = -1, -2
"""What a program's first flag says if no check failed, and if a program before it did; else it is a check's number."""
DISPLAY = "anabranch-display"
"""The name scope of equations that only prepare what a failed check shows."""
OPEN = np.int32(PASSED)
"""The gate of a program that nothing is before."""
MOST_ONCE = 1024
"""Functions whose traces are kept for the next call that is alike."""


class Check(NamedTuple):
    """A flag of a traced program: it failed unless ``ok`` holds. ``rank`` orders failures by effect order."""

    rank: int
    ok: Any
    error: Callable[..., Exception]
    text: str
    payload: tuple[Any, ...]
    summarize: int
    op: Any
    inner: tuple[CheckRecord, ...] = ()
    """The checks inside a body of ``op``: the payload is the number of the one that failed, and their payloads."""


@functools.lru_cache(MOST_ONCE)
def _traced_once(function: Callable[..., Any], fixed: tuple[Any, ...]) -> Any:
    """``function(jax.numpy, *fixed, *arrays)`` as a function of arrays, of which JAX traces and lowers the first of all
    calls that are alike: the others are a call in the program, which XLA inlines. Each operator of tracers takes some
    0.1 ms.
    """
    jax = engine.jax()
    return jax.jit(functools.partial(function, jax.numpy, *fixed))


class TraceContext(kernels.KernelContext):
    """Context under which a kernel is traced. ``checks`` collects the flags of all ops of one program."""

    host = False

    def __init__(self, checks: list[Check], platform: str, precision: Any = None, recorder: Any = None) -> None:
        jax = engine.jax()
        self.recorder = recorder
        """What notes all that is derived from shapes, if somebody asks; see :mod:`anabranch.xla.padding.batches`."""
        self.places: Any = None
        """Numbers of ops by which each equation is to say which op it belongs to, if somebody asks."""
        self.xp = jax.numpy
        self.lax = jax.lax
        self.platform = platform
        self.precision = precision
        self.checks = checks
        self.rank = 0
        self.shapes: Any = None
        """What is known of the inputs of the op being traced (a ShapeContext), for ops with compile-time inputs."""
        self.ok: Any = None
        """What must hold for the op being traced to write, if its writes are selected whole."""
        self.selected: list[Any] = []
        """What :meth:`stored` gave to it, for which that has been seen to."""

    def known(self, position: int) -> Any:
        return None if self.shapes is None else self.shapes.partial(position)

    def check(self, ok: Any, error: type[errors.OpError], text: str, *payload: Any, summarize: int = 1) -> None:
        if isinstance(ok, (bool, np.bool_)) and ok:
            return
        self.checks.append(Check(self.rank, ok, error, text, payload, summarize, self.op))

    def stored(self, new: Any, old: Any) -> Any:
        if self.ok is None:
            return new
        self.selected.append(self.xp.where(self.ok, new, old))
        return self.selected[-1]

    def once(self, function: Callable[..., Any], fixed: tuple[Any, ...], *arrays: Any) -> Any:
        return _traced_once(function, fixed)(*arrays)

    def apart(self, value: Any) -> Any:
        return elementwise_chains.apart(value) if self.platform == "cpu" else self.lax.optimization_barrier(value)

    def resource(self, handle: Any) -> Any:
        raise errors.InternalError(None, self.op, "a resource object was asked for inside a compiled program")

    def convolve(self, kind: str, a: Any, b: Any, axes: Any, groups: int, channels_first: bool) -> Any:
        if self.platform != "cpu" or 0 in a.shape or 0 in b.shape or any(0 in (axis.size, axis.out) for axis in axes):
            return None
        return convolutions.convolve(kind, a, b, axes, groups, channels_first)

    def vjp(self, function: Callable[..., tuple[Any, ...]], *operands: Any) -> tuple[tuple[Any, ...], Any]:
        """Outputs of ``function(ctx, *operands)`` and their pullback; its checks become checks of this context."""
        inner = copy.copy(self)
        inner.checks = []

        def run(*values: Any) -> Any:
            inner.checks.clear()
            outputs = function(inner, *values)
            flags = [(c.ok, [value for value in c.payload if is_numeric(value)]) for c in inner.checks]
            return outputs, flags

        # Flags leave the function as auxiliary values: what stands in `inner` are tracers of a trace that is over.
        outputs, pullback, flags = engine.jax().vjp(run, *operands, has_aux=True)
        for check, (ok, values) in zip(inner.checks, flags, strict=True):
            rest = iter(values)
            payload = tuple(next(rest) if is_numeric(value) else value for value in check.payload)
            self.checks.append(check._replace(ok=ok, payload=payload))
        return outputs, pullback


def pack_checks(checks: list[Check]) -> tuple[Any, Any]:
    """Two small outputs for any number of checks: the position of the first that failed (or -1), and all payloads.

    Payload elements travel as int64: integers and bools as they are, floats as the bits of their float64,
    complex numbers as two floats.
    """
    jnp = engine.jax().numpy
    if not checks:
        return jnp.int32(PASSED), jnp.zeros((0,), jnp.int64)
    ordered = [check.ok for check in checks]
    flags = jnp.stack([jnp.reshape(jnp.asarray(flag, bool), ()) for flag in ordered])
    failed = jnp.where(jnp.all(flags), jnp.int32(PASSED), jnp.argmin(flags).astype(jnp.int32))
    with engine.jax().named_scope(DISPLAY):
        parts = [
            _as_bits(jnp, jnp.reshape(value, (-1,))[: payload_limit(check, value)])
            for check in checks
            for value in check.payload
            if is_numeric(value)
        ]
        payload = jnp.concatenate(parts) if parts else jnp.zeros((0,), jnp.int64)
    return failed, payload


def behind(before: Any, flags: tuple[Any, Any]) -> tuple[Any, Any]:
    """The flags of a program that counts only if the one before it passed, whose first flag is ``before``."""
    jnp = engine.jax().numpy
    return jnp.where(before == PASSED, flags[0], jnp.int32(NOT_TRIED)), flags[1]


def is_numeric(value: Any) -> bool:
    """Whether a payload value travels through the program (strings are host constants and stay in the plan)."""
    return getattr(getattr(value, "dtype", None), "kind", "") != "O" and not isinstance(value, (str, bytes))


def payload_limit(check: Check, value: Any) -> int:
    """How many elements of a payload value are kept."""
    size = int(np.prod(np.shape(value), dtype=np.int64))
    return size if check.summarize < 0 or np.ndim(value) == 0 else min(size, check.summarize)


def _as_bits(jnp: Any, flat: Any) -> Any:
    if jnp.issubdtype(flat.dtype, jnp.complexfloating):
        flat = jnp.concatenate([flat.real, flat.imag])
    if jnp.issubdtype(flat.dtype, jnp.floating):
        return engine.jax().lax.bitcast_convert_type(flat.astype(jnp.float64), jnp.int64)
    return flat.astype(jnp.int64)


class CheckRecord(NamedTuple):
    """What is kept of a check after tracing: how to raise it from the two packed outputs."""

    error: Callable[..., Exception]
    text: str
    payload: tuple[Any, ...]
    """Per placeholder: ``(dtype kind, count, shape, start)`` in the packed payload, or a host value."""
    summarize: int
    op: Any
    inner: tuple[CheckRecord, ...] = ()

    def placed(self, places: dict[Any, int]) -> CheckRecord:
        """The record with numbers instead of ops."""
        return self._replace(op=places[self.op], inner=tuple(record.placed(places) for record in self.inner))

    def at(self, ops: Sequence[Any]) -> CheckRecord:
        """The record with the ops that the numbers stand for."""
        return self._replace(op=ops[self.op], inner=tuple(record.at(ops) for record in self.inner))

    def cut(self, shapes: Sequence[Any]) -> CheckRecord:
        """The record for a batch that was padded: ``shapes`` are what the values shown had without."""
        own = iter(shapes)
        cut = [item.cut(next(own)) if isinstance(item, PackedValue) else item for item in self.payload]
        payload = self.payload if self.inner else tuple(cut)  # what is inside is packed as it was traced
        return self._replace(payload=payload, inner=tuple([record.cut(next(own)) for record in self.inner]))

    def failure(self, packed: np.ndarray) -> Exception:
        """The exception that the failed check stands for."""
        values = []
        for item in self.payload:
            if not isinstance(item, PackedValue):
                values.append(item)
                continue
            full = np.zeros(item.size, item.dtype)
            full[: item.length] = item.unpack(packed)[: item.size]
            values.append(full.reshape(item.shape))
        if self.inner:
            return self.inner[int(values[0])].failure(values[1])
        return self.error(None, self.op, kernels.check_text(self.text, values, self.summarize, self.op.name))


class PackedValue(NamedTuple):
    """Where a payload value stands in the packed vector."""

    dtype: np.dtype
    start: int
    length: int
    size: int
    shape: tuple[int, ...]

    @property
    def words(self) -> int:
        """How many int64 it takes: complex numbers travel as all real parts, then all imaginary parts."""
        return self.length * 2 if self.dtype.kind == "c" else self.length

    def cut(self, shape: Sequence[int]) -> PackedValue:
        """The value with another shape, of which the vector begins with the elements."""
        return self._replace(size=int(np.prod(shape, dtype=np.int64)), shape=tuple(shape))

    def unpack(self, packed: np.ndarray) -> np.ndarray:
        """The elements that were kept."""
        flat = packed[self.start : self.start + self.words]
        if self.dtype.kind in "biu":
            return flat.astype(self.dtype)
        reals = flat.view(np.float64)
        if self.dtype.kind == "c":
            return (reals[: self.length] + 1j * reals[self.length :]).astype(self.dtype)
        return reals.astype(self.dtype)


def payload_shapes(record: CheckRecord) -> tuple[Any, ...]:
    """The shapes of what a check, and those inside it, show; what :meth:`CheckRecord.cut` takes."""
    own = [item.shape for item in record.payload if isinstance(item, PackedValue)]
    return (*own, *(payload_shapes(inner) for inner in record.inner))


def record_checks(checks: list[Check]) -> list[CheckRecord]:
    """Records for :func:`pack_checks`, in the same order."""
    records = []
    start = 0
    for check in checks:
        layout: list[Any] = []
        for value in check.payload:
            if not is_numeric(value):
                layout.append(value)
                continue
            dtype = np.dtype(value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype)
            size = int(np.prod(np.shape(value), dtype=np.int64))
            place = PackedValue(dtype, start, payload_limit(check, value), size, tuple(np.shape(value)))
            layout.append(place)
            start += place.words
        records.append(CheckRecord(check.error, check.text, tuple(layout), check.summarize, check.op, check.inner))
    return records
