"""Positions of extrema: `ArgMax` and `ArgMin`.

Policy. The first of equal elements wins, and NaN never does: a slice of NaNs, like one of infinities of the losing
sign, gives position 0, as TensorFlow's comparison against the lowest finite number has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, NotDifferentiable, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes
from anabranch.ops.math.reduce import ORDERED
from anabranch.ops.shared import open_places
from anabranch.ops.shared.array_rules import axis_in, require


def _shape(c: Any) -> Any:
    if c.shapes[1] is not None and c.shapes[1] != ():
        c.with_rank(1, 0)
    shape = c.with_rank_at_least(0, 1)
    if shape is None:
        return None
    axis = c.scalar(1)
    if axis is None:
        return (None,) * (len(shape) - 1)
    rank = len(shape)
    lead = f"Dimension ({axis}) must be in the range [{-rank}, {rank})"
    axis = axis_in(c, int(axis), rank, "dimension", f"{lead}, where {rank} is the number of dimensions in the input")
    return shape[:axis] + shape[axis + 1 :]


def _comparable(xp: Any, x: Any, lowest: bool) -> Any:
    """``x`` as numbers whose first maximum (minimum) is the answer."""
    if x.dtype == np.bool_:
        return x.astype(np.uint8)
    if x.dtype.kind in "iu":
        return x
    if x.dtype.itemsize == 2:
        x = x.astype(np.float32)
    limits = np.finfo(x.dtype)
    if lowest:
        return xp.where(x > limits.min, x, limits.min)
    return xp.where(x < limits.max, x, limits.max)


def _by_two_reductions(ctx: Any, x: Any, axis: int, maximum: bool) -> Any:
    """The positions on CPUs, where XLA's reduction of pairs is not vectorised: two plain ones take a fifth of its time.

    Positions are float32 as far as these are exact, which XLA reduces faster than integers. What is worst of all is
    looked for among the results, not among the entries: where the best is the lowest finite number, no entry is above
    it, and the answer is 0.
    """
    xp, size = ctx.xp, x.shape[axis]
    worst: Any = None
    if x.dtype == np.bool_:
        x = x.astype(np.uint8)
    elif x.dtype.kind not in "iu":
        x = x.astype(np.float32) if x.dtype.itemsize == 2 else x
        worst = np.finfo(x.dtype).min if maximum else np.finfo(x.dtype).max
    numbers = x if worst is None else xp.where(x == x, x, worst)
    best = (xp.max if maximum else xp.min)(numbers, axis=axis, keepdims=True)
    kind = np.float32 if size < 1 << 24 else np.int64
    positions = xp.reshape(xp.arange(size, dtype=kind), (size,) + (1,) * (x.ndim - axis - 1))
    first = xp.min(xp.where(x == best, positions, kind(size)), axis=axis)
    if worst is None:
        return first
    best = xp.squeeze(best, axis)
    return xp.where(best > worst if maximum else best < worst, first, kind(0))


def _kernel(maximum: bool) -> Any:
    def kernel(ctx, inputs, attrs):
        x, dimension = inputs
        xp = ctx.xp
        axis = int(np.asarray(dimension).reshape(()))
        rank = x.ndim
        require(ctx, -rank <= axis < rank, "Expected dimension in the range [{0}, {1}), but got {2}", -rank, rank, axis)
        axis %= rank
        out = attrs["output_type"].np
        size = x.shape[axis]
        other_dims = x.shape[:axis] + x.shape[axis + 1 :]
        if size == 0 or 0 in other_dims:
            if 0 not in other_dims:
                dims = ",".join(str(item) for item in x.shape)
                ctx.check(False, errors.InvalidArgumentError, f"Reduction axis {axis} is empty in shape [{dims}]")
            return xp.zeros(other_dims, out)
        if ctx.host or ctx.platform != "cpu":
            values = _comparable(xp, x, maximum)
            indices = (xp.argmax if maximum else xp.argmin)(values, axis=axis)
            return xp.asarray(indices, out) if ctx.host else indices.astype(out)
        return _by_two_reductions(ctx, x, axis, maximum).astype(out)

    return kernel


_TYPES = ORDERED + " bool"
for _name, _word, _index, _output, _maximum in (
    ("ArgMax", "largest", "int16 int32 int64", "int16 uint16 int32 int64", True),
    ("ArgMin", "smallest", "int32 int64", "int32 int64", False),
):
    define(
        _name,
        f"Position of the {_word} element of `input` along `dimension`, which is dropped; the first one among equals.",
        signature="input: T, dimension: Tidx -> output: output_type",
        attrs={"T": Type(_TYPES), "Tidx": Type(_index, "int32"), "output_type": Type(_output, "int64")},
        effect=PURE,
        shape=_shape,
        compile_time=("dimension",),
        kernel=_kernel(_maximum),
        any_size=open_places.place_of(
            *((np.ndarray.argmax, np.maximum) if _maximum else (np.ndarray.argmin, np.minimum))
        ),
        gradient=NotDifferentiable("a position is an integer"),
    )


# -------------------------------------------------------------------------------------------------------------- public
def _pick_axis(axis: Any, dimension: Any) -> Any:
    if dimension is not None:
        if axis is not None:
            raise ValueError("Cannot specify both 'axis' and 'dimension'")
        return dimension
    return 0 if axis is None else axis


@public("argmax", "math.argmax")
def argmax(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Any:
    """Position of the largest element along ``axis`` (0 if not given), which is dropped; the first among equals."""
    return build("ArgMax", input, _pick_axis(axis, dimension), output_type=output_type, name=name)


@public("argmin", "math.argmin")
def argmin(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Any:
    """Position of the smallest element along ``axis`` (0 if not given), which is dropped; the first among equals."""
    return build("ArgMin", input, _pick_axis(axis, dimension), output_type=output_type, name=name)


@public("arg_max")
def arg_max(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Any:
    """Old form of :func:`argmax`."""
    return build("ArgMax", input, dimension, output_type=output_type, name=name)


@public("arg_min")
def arg_min(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Any:
    """Old form of :func:`argmin`."""
    return build("ArgMin", input, dimension, output_type=output_type, name=name)
