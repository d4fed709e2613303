"""Convolution, input gradient and filter gradient as JAX primitives that oneDNN runs; each is linear in both operands.

Policy. An op's kernel asks :func:`convolve`, by way of its context, and computes with ``jax.lax`` where that gives
None: there is no library, oneDNN has no good kernel for the dtype or the sizes, or XLA is as fast (``choice``). The
three primitives are each other's transposes, so that derivatives of any order and forward mode come out of them. A
primitive's parameters do not hold the size of the batch: :mod:`anabranch.xla.padding.masking` reads the same
computation at several sizes. Mapped by ``jax.vmap`` they run one after another.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.xla import engine, memory
from anabranch.xla.onednn import choice, frames, handler, library, primitives
from anabranch.xla.onednn.primitives import FILTER, FORWARD, INPUT, Work

NAMES = {
    FORWARD: "anabranch_convolution",
    INPUT: "anabranch_convolution_input_gradient",
    FILTER: "anabranch_convolution_filter_gradient",
}
"""The names of the primitives in a jaxpr."""
KINDS = {name: kind for kind, name in NAMES.items()}
_log = logging.getLogger("anabranch")


class Geometry(NamedTuple):
    """What all three have in common: the windows (``ops.nn.windows.geometry.Axis``), groups, and where channels are."""

    axes: tuple[Any, ...]
    groups: int
    channels_first: bool

    @property
    def channels_at(self) -> int:
        """The dimension of images that counts channels."""
        return 1 if self.channels_first else 1 + len(self.axes)

    def images(self, batch: int, sizes: Sequence[int], channels: int) -> tuple[int, ...]:
        """A shape of images."""
        return (batch, channels, *sizes) if self.channels_first else (batch, *sizes, channels)

    def result(self, kind: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result for operands of two shapes."""
        if kind == FORWARD:
            return self.images(a[0], [axis.out for axis in self.axes], b[-1])
        if kind == INPUT:
            return self.images(a[0], [axis.size for axis in self.axes], b[-2] * self.groups)
        inputs = a[self.channels_at] // self.groups
        return (*(axis.window for axis in self.axes), inputs, b[self.channels_at])

    def whole(self, kind: str, a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> Work:
        """What is to be done for operands of two shapes."""
        at = self.channels_at
        channels = a[at] if kind != INPUT else b[-2] * self.groups
        features = {FORWARD: b[-1], INPUT: b[-1], FILTER: b[at] if kind == FILTER else 0}[kind]
        each = {name: tuple(getattr(axis, name) for axis in self.axes) for name in self.axes[0]._fields}
        return Work(
            kind,
            dtype,
            a[0],
            each["size"],
            channels,
            each["window"],
            each["out"],
            features,
            each["stride"],
            each["dilation"],
            each["before"],
            self.groups,
            self.channels_first,
        )

    def work(self, kind: str, a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> Work:
        """The same, and how it is shared by the handler of this process."""
        whole = self.whole(kind, a, b, dtype)
        if handler.takes_pieces() and whole.batch > 1:
            return whole._replace(pieces=choice.pieces(whole))
        return whole._replace(threads=choice.threads(whole, _threads()))


def flops(equation: Any) -> float:
    """Floating-point operations of an equation of a jaxpr that is one of the three."""
    a, b = (variable.aval.shape for variable in equation.invars)
    return equation.params["geometry"].whole(KINDS[equation.primitive.name], a, b, "float32").flops


def count(jaxpr: Any) -> int:
    """How many equations of a jaxpr, inner ones included, are one of the three and have a result that is used."""
    used = {id(atom) for equation in jaxpr.eqns for atom in equation.invars} | {id(atom) for atom in jaxpr.outvars}
    own = sum(call.primitive.name in KINDS and id(call.outvars[0]) in used for call in jaxpr.eqns)
    return own + sum(count(inner) for equation in jaxpr.eqns for inner in memory.inner_jaxprs(equation.params))


def library_described() -> str:
    """The library in a few words."""
    return handler.of_process.here().described


def _threads() -> int:
    onednn = library.found()
    return 1 if isinstance(onednn, str) else onednn.threads


def convolve(kind: str, a: Any, b: Any, axes: Sequence[Any], groups: int, channels_first: bool) -> Any:
    """The convolution, or a gradient, of traced operands by oneDNN; None where ``jax.lax`` is to compute it.

    ``a`` and ``b`` are images and filter (``FORWARD``), output gradient and filter (``INPUT``), or images and output
    gradient (``FILTER``); filters are ``[*window, in / groups, out]``.
    """
    if a.dtype != b.dtype or str(a.dtype) not in ("float32", "bfloat16", "float16"):
        return None
    if isinstance(library.found(), str):
        return None
    geometry = Geometry(tuple(axes), groups, channels_first)
    work = geometry.work(kind, tuple(a.shape), tuple(b.shape), str(a.dtype))
    if not choice.pays(work, handler.of_process.here().native is not None):
        return None
    program = primitives.described(work)
    if isinstance(program, str):
        _log.debug("XLA computes a convolution (%s): %s", work, program)
        return None
    return primitive(kind).bind(a, b, geometry=geometry)


def primitive(kind: str) -> Any:
    """The JAX primitive: ``bind(a, b, geometry=...)`` as in :func:`convolve`."""
    return _primitives()[kind]


@functools.cache
def _primitives() -> dict[str, Any]:
    """The three, made when JAX is there."""
    jax = engine.jax()
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    by_kind = {}
    for kind, name in NAMES.items():
        primitive = by_kind[kind] = Primitive(name)

        def shaped(a: Any, b: Any, *, geometry: Geometry, kind: str = kind) -> Any:
            return jax.core.ShapedArray(geometry.result(kind, a.shape, b.shape), a.dtype)

        def called(a: Any, b: Any, *, geometry: Geometry, kind: str = kind) -> Any:
            return call(kind, a, b, geometry)

        def at_once(a: Any, b: Any, *, primitive: Any = primitive, **params: Any) -> Any:
            return jax.jit(functools.partial(primitive.bind, **params))(a, b)

        def mapped(operands: Any, dims: Any, *, primitive: Any = primitive, **params: Any) -> Any:
            moved = [
                operand if dim is None else jax.numpy.moveaxis(operand, dim, 0)
                for operand, dim in zip(operands, dims, strict=True)
            ]
            some = [operand for operand, dim in zip(moved, dims, strict=True) if dim is not None]

            def one(given: Any) -> Any:
                rest = iter(given)
                each = [operand if dim is None else next(rest) for operand, dim in zip(moved, dims, strict=True)]
                return primitive.bind(*each, **params)

            return jax.lax.map(one, tuple(some)), 0

        primitive.def_abstract_eval(shaped)
        primitive.def_impl(at_once)
        mlir.register_lowering(primitive, mlir.lower_fun(called, multiple_results=False), platform="cpu")
        batching.primitive_batchers[primitive] = mapped
    forward, of_input, of_filter = by_kind[FORWARD], by_kind[INPUT], by_kind[FILTER]
    ad.defbilinear(
        forward,
        lambda g, x, f, **params: of_input.bind(g, f, **params),
        lambda g, x, f, **params: of_filter.bind(x, g, **params),
    )
    ad.defbilinear(
        of_input,
        lambda x, g, f, **params: forward.bind(x, f, **params),
        lambda x, g, f, **params: of_filter.bind(x, g, **params),
    )
    ad.defbilinear(
        of_filter,
        lambda f, x, g, **params: of_input.bind(g, f, **params),
        lambda f, x, g, **params: forward.bind(x, f, **params),
    )
    return by_kind


def call(kind: str, a: Any, b: Any, geometry: Geometry) -> Any:
    """The call of the handler in XLA's program."""
    handler.of_process.here()
    jax = engine.jax()
    work = geometry.work(kind, tuple(a.shape), tuple(b.shape), str(a.dtype))
    described = primitives.described(work)
    if isinstance(described, str):  # a derivative of what oneDNN has; it must then be computed otherwise
        return by_lax(kind, a, b, geometry)
    text = work.text()
    results = [
        jax.ShapeDtypeStruct(geometry.result(kind, a.shape, b.shape), a.dtype),
        jax.ShapeDtypeStruct((described.scratch,), np.uint8),
    ]
    return jax.ffi.ffi_call(frames.TARGET, results)(
        a, b, number=np.int64(handler.number_of(text)), scratch=np.int64(described.scratch), work=text
    )[0]


def by_lax(kind: str, a: Any, b: Any, geometry: Geometry) -> Any:
    """What the primitives mean, by ``jax.lax``."""
    jax = engine.jax()
    letters = "DHW"[-len(geometry.axes) :]
    images = "NC" + letters if geometry.channels_first else f"N{letters}C"

    def forward(x: Any, f: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            f,
            [axis.stride for axis in geometry.axes],
            [(axis.before, axis.after) for axis in geometry.axes],
            rhs_dilation=[axis.dilation for axis in geometry.axes],
            dimension_numbers=(images, letters + "IO", images),
            feature_group_count=geometry.groups,
        )

    if kind == FORWARD:
        return forward(a, b)
    like = jax.ShapeDtypeStruct(geometry.result(kind, a.shape, b.shape), a.dtype)
    if kind == INPUT:
        return jax.linear_transpose(lambda x: forward(x, b), like)(a)[0]
    return jax.linear_transpose(lambda f: forward(a, f), like)(b)[0]
