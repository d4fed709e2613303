"""Discrete Fourier transforms of one to three dimensions, of complex and of real signals.

Policy. NumPy's transforms on the host, XLA's under it, over the last dimensions. A transform of a real signal keeps the
half of the last dimension that is not the conjugate of the other. Gradients are the adjoints, built from transforms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Cost, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import shapes

_NAMES = {1: "", 2: "2D", 3: "3D"}


def _axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _count(x: Any, rank: int) -> Any:
    """How many elements the last dimensions have, as a tensor of the dtype of the real parts of ``x``."""
    raw = x._shape
    real = x.dtype.base.real_dtype
    if raw is not None and None not in raw[-rank:]:
        return np.array(max(math.prod(raw[-rank:]), 1), real.np)  # of nothing the scale is never used
    return build("Cast", build("Prod", build("Shape", x)[-rank:], [0]), DstT=real)


def _scaled(x: Any, factor: Any) -> Any:
    """``x`` times a real factor."""
    if x.dtype.is_complex:
        factor = (
            factor.astype(x.dtype.base.np)
            if isinstance(factor, np.ndarray)
            else build("Cast", factor, DstT=x.dtype.base)
        )
    return build("Mul", x, factor)


def _reciprocal(count: Any) -> Any:
    return np.reciprocal(count) if isinstance(count, np.ndarray) else build("Reciprocal", count)


# ------------------------------------------------------------------------------------------------------------- complex
def _complex(rank: int, inverse: bool) -> None:
    name = ("IFFT" if inverse else "FFT") + _NAMES[rank]

    def shape(c: Any) -> Any:
        return c.with_rank_at_least(0, rank)

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x = inputs[0]
        if x.size == 0:
            return x
        transform = ctx.xp.fft.ifftn if inverse else ctx.xp.fft.fftn
        return transform(x, axes=_axes(rank)).astype(x.dtype)

    def gradient(op: Any, grad: Any) -> Any:
        count = _count(grad, rank)
        if inverse:
            return [_scaled(build("FFT" + _NAMES[rank], grad), _reciprocal(count))]
        return [_scaled(build("IFFT" + _NAMES[rank], grad), count)]

    where = f"over the last {rank} dimensions" if rank > 1 else "over the last dimension"
    what = f"The {'inverse ' if inverse else ''}discrete Fourier transform {where}."
    fields: dict[str, Any] = {
        "effect": PURE,
        "cost": Cost.HEAVY,
        "shape": shape,
        "kernel": kernel,
        "gradient": gradient,
    }
    define(
        name,
        what,
        signature="input: Tcomplex -> output: Tcomplex",
        attrs={"Tcomplex": Type("complex64 complex128", "complex64")},
        **fields,
    )
    define(
        "Batch" + name,
        f"{what} The form of GraphDefs before version 11.",
        signature="input: complex64 -> output: complex64",
        **fields,
    )


for _rank in (1, 2, 3):
    _complex(_rank, False)
    _complex(_rank, True)


# ---------------------------------------------------------------------------------------------------------------- real
def _lengths(c: Any, rank: int) -> list[int | None]:
    known = c.with_rank("fft_length", 1)
    if known[0] not in (None, rank):
        raise ValueError(
            f"Dimension must be {rank} but is {known[0]}\n"
            + errors.message(
                f"fft_length of {known[0]} elements",
                f"{rank} elements, one for each dimension",
                f"fft_length={[8] * rank}",
            )
        )
    return c.vector("fft_length") or [None] * rank


def _checked(ctx: Any, x: Any, length: Any, rank: int, halved: bool) -> tuple[int, ...]:
    sizes = tuple(int(item) for item in np.asarray(length).ravel())
    ctx.check(
        len(sizes) == rank and all(size >= 0 for size in sizes),
        errors.InvalidArgumentError,
        f"fft_length must have {rank} elements >= 0, got {list(sizes)}",
    )
    needed = (*sizes[:-1], sizes[-1] // 2 + 1 if halved and sizes[-1] else sizes[-1])
    for axis, (size, least) in enumerate(zip(x.shape[-rank:], needed, strict=True)):
        ctx.check(
            size == 0 or size >= least,
            errors.InvalidArgumentError,
            f"Input dimension {x.ndim - rank + axis} must have length of at least {least} but got: {size}\n"
            + errors.message(
                f"{shapes.show(x.shape)} and fft_length {list(sizes)}", "a signal as long", "tf.pad the signal"
            ),
        )
    return sizes


def _cut(x: Any, sizes: tuple[int, ...]) -> Any:
    return x[(..., *(slice(0, size) for size in sizes))]


def _resized(x: Any, target: Any, rank: int) -> Any:
    """``x`` with zeros behind the last dimensions up to the sizes ``target`` (a tensor of ``rank`` elements)."""
    own = build("Shape", x)
    missing = build("Sub", target, own[-rank:])
    lead = build("ZerosLike", own[:-rank])
    behind = build("ConcatV2", [lead, missing], 0)
    return build("Pad", x, build("Pack", [build("ZerosLike", behind), behind], axis=1))


def _half(length: Any) -> Any:
    """The sizes of a real signal's transform."""
    last = build("AddV2", build("FloorDiv", length[-1:], 2), 1)
    return build("ConcatV2", [length[:-1], last], 0)


def _real(rank: int) -> None:
    name = "RFFT" + _NAMES[rank]

    def shape(c: Any) -> Any:
        raw = c.with_rank_at_least(0, rank)
        lengths = _lengths(c, rank)
        if raw is None:
            return None
        last = lengths[-1]
        return (*raw[:-rank], *lengths[:-1], None if last is None else last // 2 + 1 if last else 0)

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x, length = inputs
        sizes = _checked(ctx, x, length, rank, False)
        kind = attrs["Tcomplex"].np
        cut = _cut(x, sizes)
        if cut.size == 0:
            last = sizes[-1] // 2 + 1 if sizes[-1] else 0
            return ctx.xp.zeros((*x.shape[:-rank], *sizes[:-1], last), kind)
        wide = np.float64 if kind == np.complex128 else np.float32
        return ctx.xp.fft.rfftn(cut.astype(wide), axes=_axes(rank)).astype(kind)

    def gradient(op: Any, grad: Any) -> Any:
        x, length = op.inputs
        # Output k holds sum_n x_n exp(-2 pi i k n / N): its adjoint is N times the inverse transform of what came in.
        whole = _resized(grad, length, rank)
        count = build("Cast", build("Prod", length, [0]), DstT=x.dtype.base)
        back = build("Real", build("IFFT" + _NAMES[rank], whole), Tout=x.dtype.base)
        slope = _resized(build("Mul", back, count), build("Shape", x)[-rank:], rank)
        if x._shape is not None:
            slope.set_shape(x._shape)
        return [slope, None]

    define(
        name,
        f"The discrete Fourier transform of a real signal over the last {rank} dimensions, cut to ``fft_length``.",
        signature="input: Treal, fft_length: int32 -> output: Tcomplex",
        attrs={"Treal": Type("float double", "float"), "Tcomplex": Type("complex64 complex128", "complex64")},
        effect=PURE,
        cost=Cost.HEAVY,
        compile_time=("fft_length",),
        shape=shape,
        kernel=kernel,
        gradient=gradient,
    )


def _inverse_real(rank: int) -> None:
    name = "IRFFT" + _NAMES[rank]

    def shape(c: Any) -> Any:
        raw = c.with_rank_at_least(0, rank)
        lengths = _lengths(c, rank)
        return None if raw is None else (*raw[:-rank], *lengths)

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        x, length = inputs
        sizes = _checked(ctx, x, length, rank, True)
        kind = attrs["Treal"].np
        cut = _cut(x, (*sizes[:-1], sizes[-1] // 2 + 1))
        if cut.size == 0 or 0 in sizes:
            return ctx.xp.zeros((*x.shape[:-rank], *sizes), kind)
        wide = np.complex128 if kind == np.float64 else np.complex64
        return ctx.xp.fft.irfftn(cut.astype(wide), s=sizes, axes=_axes(rank)).astype(kind)

    def gradient(op: Any, grad: Any) -> Any:
        x, length = op.inputs
        kind = x.dtype.base
        forward = build("RFFT" + _NAMES[rank], grad, length, Tcomplex=kind)
        # Each element but the first, and the last of an even length, stands for its conjugate, too.
        even = build("Sub", 1, build("FloorMod", length[-1:], 2))
        inner = build("Sub", build("Sub", build("FloorDiv", length[-1:], 2), even), 0)
        ones = [build("Fill", [1], 1.0), build("Fill", inner, 2.0), build("Fill", even, 1.0)]
        mask = build("Cast", build("ConcatV2", ones, 0), DstT=kind)
        count = build("Cast", build("Prod", length, [0]), DstT=kind)
        slope = build("Mul", forward, build("RealDiv", mask, count))
        slope = _resized(slope, build("Shape", x)[-rank:], rank)
        if x._shape is not None:
            slope.set_shape(x._shape)
        return [slope, None]

    define(
        name,
        f"The real signal of size ``fft_length`` whose transform over the last {rank} dimensions is given.",
        signature="input: Tcomplex, fft_length: int32 -> output: Treal",
        attrs={"Treal": Type("float double", "float"), "Tcomplex": Type("complex64 complex128", "complex64")},
        effect=PURE,
        cost=Cost.HEAVY,
        compile_time=("fft_length",),
        shape=shape,
        kernel=kernel,
        gradient=gradient,
    )


for _rank in (1, 2, 3):
    _real(_rank)
    _inverse_real(_rank)
