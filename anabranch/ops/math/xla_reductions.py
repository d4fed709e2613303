"""Sums and extrema on CPUs under XLA, in the forms that are quick there.

Policy. XLA's CPU backend hands reductions of large float32 arrays to a library (YNNPACK), which is the best there is
where many entries become few results, 0.1 to 0.4 ns an entry. It is slow in five classes, which get other forms here:

*Few entries in a result.* Written as additions of slices, in pairs, the reduction becomes one loop with what is around
it. The predictions of a routing by agreement, ``[16, 288, 160, 8, 1]`` over the 8, took 26 CPU-ms and take 0.8. Squared
differences of 400,000 entries, CPU-ms of the library and of slices:

=======  =============  =============  =============  =============
entries  last           4 behind       16 behind      64 behind
=======  =============  =============  =============  =============
2        1.61, 0.18     0.78, 0.09     0.20, 0.20     0.31, 0.22
4        0.70, 0.17     0.51, 0.18     0.19, 0.12     0.19, 0.10
8        0.43, 0.15     1.17, 0.29     0.41, 0.11     0.51, 0.21
12       0.25, 0.20     0.78, 0.31     0.33, 0.11     0.18, 0.13
16       0.24, 0.20     0.81, 0.42     0.30, 0.34     0.15, 0.19
24       0.17, 0.29     0.51, 0.25     0.51, 0.27     0.14, 0.19
=======  =============  =============  =============  =============

*Much behind what is reduced*, as when gradients of a large variable are added over a batch: 8.4 ns an entry with 65,536
behind, 4.5 with 20,000, 1.1 with 4,096; by slices 0.1 to 0.8, up to 64 of them. More of them, where they come first,
are added up as the product of a vector of ones and a matrix: 1,000 of 20,000 139 CPU-ms in the library and 5.5, 200 of
65,536 141 and 2.8.

*A few columns behind many rows*, as the channels of images: what is reduced is seen as fewer, wider rows first. Means
of 50,176 pixels of 3 channels in 8 images took 1.13 CPU-ms and take 0.30, the variances of 32,768 pixels 0.28 and 0.15;
of 4,096 pixels in 16 images they take the same, and from 8 columns on there is nothing to gain.

*A last dimension of 1 under a product that broadcasts*, which the library takes into its own loop: 3.9 to 7 ns an
entry. A choice that changes nothing, and that the library does not know, keeps the product outside: 0.3 to 0.6.

*Gathered entries*, as those of resized images, which it takes into its own loop too. The ops that make these put the
same choice behind them (:func:`outside`).

*Sums of rows that are looked up* are not a reduction to XLA: it writes all rows that were looked up down, and adds
them in a loop. A loop that looks up, multiplies and adds row by row (:func:`add_picked_rows`) takes a half to a third.
Products of sparse matrices, values and columns of the dense one, CPU-ms: 1,299 and 2,080 1.72 and 0.67, 1,591 and 50
0.096 and 0.027, 14,748 and 64 0.65 and 0.20, 14,679 and 16 0.28 and 0.23.

A reduction over the first dimension in a program for batches of several sizes (``xla/padding/batches.py``) is not
written as slices, whose number would depend on the size.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from anabranch.ops.shared import host_reductions

SMALLEST = 1 << 15
"""Entries from which on XLA asks its library."""
FEW = 12
"""Entries of one result that are combined as slices."""
FEW_BEFORE_SMALL = 24
"""The same where between 2 and :data:`SMALL` entries lie behind the reduced dimensions."""
SMALL = 16
FEW_BEFORE_LARGE = 64
"""The same where :data:`LARGE` entries or more lie behind them."""
LARGE = 1 << 14
FEW_COLUMNS = 4
"""Columns, at least two, whose rows are reduced as wider ones."""
WIDE = 256
"""Entries of a wider row at most."""


_UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def by_slices(ctx: Any, x: Any, axes: tuple[int, ...]) -> bool:
    """Whether a reduction of ``x``, which the library would get, is better written as ops on slices."""
    if 0 in axes and ctx.recorder is not None:
        return False
    behind = math.prod(x.shape[axes[-1] + 1 :])
    few = FEW_BEFORE_SMALL if 1 < behind <= SMALL else FEW_BEFORE_LARGE if behind >= LARGE else FEW
    return 1 < math.prod([x.shape[axis] for axis in axes]) <= few


def _sliced(ctx: Any, combine: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    slices = []
    for place in itertools.product(*[range(x.shape[axis]) for axis in axes]):
        start = [0] * x.ndim
        for axis, index in zip(axes, place, strict=True):
            start[axis] = index
        slices.append(ctx.lax.slice(x, start, [begin + size for begin, size in zip(start, shape, strict=True)]))
    while len(slices) > 1:
        pairs = [combine(*pair) for pair in zip(slices[::2], slices[1::2], strict=False)]
        slices = pairs + slices[2 * len(pairs) :]
    return slices[0] if keep else ctx.lax.squeeze(slices[0], axes)


def _product_with_ones(ctx: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """The sum over the first dimensions."""
    behind = x.shape[len(axes) :]
    rows = ctx.xp.reshape(x, (-1, math.prod(behind)))
    return ctx.xp.reshape(ctx.xp.ones(rows.shape[0], x.dtype) @ rows, (1,) * len(axes) * keep + behind)


def outside(ctx: Any, x: Any) -> Any:
    """Floats ``x`` by a choice that changes nothing, and that keeps what computes them out of the library's loops."""
    return ctx.xp.where(x == x, x, x.dtype.type(np.nan)) if ctx.platform == "cpu" and not ctx.host else x


def _joined_rows(x: Any, axes: tuple[int, ...]) -> int:
    """How many rows to see as one, where dimensions that stand together are reduced before a few columns; or 1."""
    columns = math.prod(x.shape[axes[-1] + 1 :])
    if not 2 <= columns <= FEW_COLUMNS or axes != tuple(range(axes[0], axes[-1] + 1)):
        return 1
    rows = math.prod([x.shape[axis] for axis in axes])
    return max(count for count in range(1, WIDE // columns + 1) if rows % count == 0)


def reduce(ctx: Any, name: str, x: Any, axes: tuple[int, ...], keep: bool, **settings: Any) -> Any:
    """Reduce ``x`` over the sorted ``axes`` like ``ctx.xp``'s ``sum``, ``max`` or ``min``, which ``name`` says.

    ``settings`` are those of the plain reduction, to which they make no difference unless there is nothing to reduce.
    """
    if ctx.host:
        if x.size and axes:
            return host_reductions.of(_UFUNCS[name])(x, axes, settings.get("dtype"), None, keep)
    elif ctx.platform == "cpu" and x.dtype == np.float32 and x.size >= SMALLEST and axes:
        if by_slices(ctx, x, axes):
            return _sliced(ctx, ctx.lax.add if name == "sum" else getattr(ctx.lax, name), x, axes, keep)
        if name == "sum" and axes == tuple(range(len(axes))) and math.prod(x.shape[len(axes) :]) >= LARGE:
            return _product_with_ones(ctx, x, axes, keep)
        if x.shape[-1] == 1:
            x = outside(ctx, x)
        if not (0 in axes and ctx.recorder is not None) and (joined := _joined_rows(x, axes)) >= FEW_COLUMNS:
            before, behind = x.shape[: axes[0]], x.shape[axes[-1] + 1 :]
            shape = before + (1,) * len(axes) * keep + behind
            columns, combine = math.prod(behind), getattr(ctx.xp, name)
            wide = combine(ctx.xp.reshape(x, (*before, -1, joined * columns)), axis=-2, **settings)
            narrow = combine(ctx.xp.reshape(wide, (*before, joined, columns)), axis=-2, **settings)
            return ctx.xp.reshape(narrow, shape)
    return getattr(ctx.xp, name)(x, axis=axes, keepdims=keep, **settings)


def add_picked_rows(ctx: Any, total: Any, places: Any, table: Any, picked: Any, factors: Any = None) -> Any:
    """Row ``picked[i]`` of ``table``, times ``factors[i]``, added to row ``places[i]`` of ``total``, in their order.

    What has a place outside is left out; a row outside the table is another one of its rows. Under XLA only.
    """
    xp, lax = ctx.xp, ctx.lax
    if ctx.platform != "cpu" or ctx.recorder is not None or 0 in table.shape or 0 in total.shape:
        rows = xp.take(table, picked, axis=0, mode="clip")
        if factors is not None:
            rows = xp.reshape(factors, (-1,) + (1,) * (rows.ndim - 1)) * rows
        return total.at[places].add(rows, mode="drop")
    shape, behind = (1, *table.shape[1:]), [places.dtype.type(0)] * (table.ndim - 1)
    picked = picked.astype(places.dtype)

    def add(i: Any, total: Any) -> Any:
        where = (places[i], *behind)
        row = lax.dynamic_slice(table, (picked[i], *behind), shape)
        row = row if factors is None else factors[i] * row
        inside = (places[i] >= 0) & (places[i] < total.shape[0])
        row = lax.dynamic_slice(total, where, shape) + xp.where(inside, row, row.dtype.type(0))
        return lax.dynamic_update_slice(total, row, where)

    return lax.fori_loop(0, places.shape[0], add, total)
