"""How convolutions are handed to XLA, channels last: one plain form for accelerators, several for CPUs.

Policy. ``forward``, ``input_gradient`` and ``filter_gradient`` take the same arguments on each platform. Accelerators
get one ``conv_general_dilated`` with dimension numbers from which their libraries recognise the gradient. XLA's CPU
backend is fast for one form only, NHWC by HWIO at stride 1, and inside loops everything else becomes a naive nest;
hence the gradients are brought to that form by transposes, reversed filters and sub-pixel phases, and what is a
matrix product is written as one. An input gradient of few channels, or of a window with few places, is the product of
the output gradient with all of the filter, whose entries are added where the window read them: of the other form every
entry of the input would read a whole window of all features. ``docs/notes/0003-convolutions.md`` has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.ops.nn.windows import xla_winograd
from anabranch.ops.nn.windows.geometry import (
    Axis,
    as_channels,
    covered_axis,
    fold_filter,
    from_channels,
    pad_spatial,
    tap,
    without_axis,
)
from anabranch.ops.shared.widening import is_half, widen

_LETTERS = "DHW"


def _dimension_numbers(n: int, lhs: str = "N*C", rhs: str = "*IO", out: str = "N*C") -> tuple[str, str, str]:
    letters = _LETTERS[-n:]
    return lhs.replace("*", letters), rhs.replace("*", letters), out.replace("*", letters)


def _convolve(
    ctx: Any,
    x: Any,
    f: Any,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    numbers: tuple[str, str, str] | None = None,
    groups: int = 1,
    batch_groups: int = 1,
) -> Any:
    """``conv_general_dilated`` with two-byte floats accumulated in float32 on CPUs."""
    given_dtype = x.dtype
    if ctx.platform == "cpu" and is_half(given_dtype):
        x, f = x.astype(np.float32), f.astype(np.float32)
    result = ctx.lax.conv_general_dilated(
        x,
        f,
        tuple(strides),
        [tuple(pair) for pair in padding],
        None if lhs_dilation is None else tuple(lhs_dilation),
        None if rhs_dilation is None else tuple(rhs_dilation),
        numbers or _dimension_numbers(x.ndim - 2),
        groups,
        batch_groups,
        precision=ctx.precision,
    )
    return result.astype(given_dtype)


def _empty(*arrays: Any) -> bool:
    return any(0 in array.shape for array in arrays)


def _by_groups(groups: int, xp: Any, function: Any, *arrays: Any) -> Any:
    """Run ``function`` on each group's share of the last dimension and join the results."""
    parts = [xp.split(array, groups, axis=-1) for array in arrays]
    return xp.concatenate([function(*share) for share in zip(*parts, strict=True)], axis=-1)


def _is_pointwise(axes: Sequence[Axis]) -> bool:
    return all(a.window == 1 and a.before == 0 and a.after <= 0 for a in axes)


# ---------------------------------------------------------------------------------------------------------- three doors
def forward(ctx: Any, x: Any, f: Any, axes: Sequence[Axis]) -> Any:
    """``[batch, *size, in]`` and ``[*window, in / groups, out]`` -> ``[batch, *out, out]``."""
    shape = (x.shape[0], *(a.out for a in axes), f.shape[-1])
    if 0 in shape or _empty(x, f):
        return ctx.xp.zeros(shape, x.dtype)
    groups = x.shape[-1] // f.shape[-2]
    if ctx.platform == "cpu":
        if groups > 1:
            if f.shape[-2] == 1:
                return depthwise_forward(ctx, x, f.reshape(f.shape[:-2] + (groups, -1)), axes)
            return _by_groups(groups, ctx.xp, lambda a, b: _cpu_forward(ctx, a, b, axes), x, f)
        return _cpu_forward(ctx, x, f, axes)
    return _convolve(
        ctx,
        x,
        f,
        [a.stride for a in axes],
        [(a.before, a.after) for a in axes],
        rhs_dilation=[a.dilation for a in axes],
        groups=groups,
    )


def input_gradient(ctx: Any, g: Any, f: Any, axes: Sequence[Axis], channels: int) -> Any:
    """The gradient of the input ``[batch, *size, channels]`` from that of the output."""
    shape = (g.shape[0], *(a.size for a in axes), channels)
    if 0 in shape or _empty(g, f):
        return ctx.xp.zeros(shape, g.dtype)
    xp = ctx.xp
    groups = channels // f.shape[-2]
    if ctx.platform == "cpu":
        if groups > 1:
            if f.shape[-2] == 1:
                return depthwise_input_gradient(ctx, g, f.reshape(f.shape[:-2] + (groups, -1)), axes)
            return _by_groups(groups, xp, lambda a, b: _cpu_input_gradient(ctx, a, b, axes), g, f)
        return _cpu_input_gradient(ctx, g, f, axes)
    n = len(axes)
    kernel = f.reshape(f.shape[:n] + (f.shape[-2], groups, f.shape[-1] // groups))
    kernel = xp.flip(xp.moveaxis(kernel, -1, n), tuple(range(n)))  # [*window, out / groups, in / groups, groups]
    kernel = xp.swapaxes(kernel, -1, -2).reshape(f.shape[:n] + (f.shape[-1] // groups, channels))
    return _spread(ctx, g, kernel, axes, groups)


def filter_gradient(ctx: Any, x: Any, g: Any, axes: Sequence[Axis], per_group: int) -> Any:
    """The gradient of the filter ``[*window, per_group, out]`` from that of the output."""
    shape = (*(a.window for a in axes), per_group, g.shape[-1])
    if 0 in shape or _empty(x, g):
        return ctx.xp.zeros(shape, x.dtype)
    groups = x.shape[-1] // per_group
    if ctx.platform == "cpu":
        if groups > 1:
            if per_group == 1:
                return depthwise_filter_gradient(ctx, x, g, axes, g.shape[-1] // groups).reshape(shape)
            return _by_groups(groups, ctx.xp, lambda a, b: _cpu_filter_gradient(ctx, a, b, axes), x, g)
        return _cpu_filter_gradient(ctx, x, g, axes)
    return _convolve(
        ctx,
        x,
        g,
        [a.dilation for a in axes],
        [(a.before, (a.window - 1) * a.dilation + (a.out - 1) * a.stride + 1 - a.size - a.before) for a in axes],
        rhs_dilation=[a.stride for a in axes],
        numbers=_dimension_numbers(len(axes), "C*N", "I*O", "*NC"),
        batch_groups=groups,
    )


def _spread(ctx: Any, g: Any, reversed_filter: Any, axes: Sequence[Axis], groups: int = 1) -> Any:
    """The input gradient as one convolution of the output gradient with zeros between its entries."""
    padding = []
    for a in axes:
        low = a.extent - 1 - a.before
        padding.append((low, a.size + a.extent - 1 - ((a.out - 1) * a.stride + 1) - low))
    return _convolve(
        ctx,
        g,
        reversed_filter,
        [1] * len(axes),
        padding,
        lhs_dilation=[a.stride for a in axes],
        rhs_dilation=[a.dilation for a in axes],
        groups=groups,
    )


# ------------------------------------------------------------------------------------------------------------------ CPU
def _cpu_forward(ctx: Any, x: Any, f: Any, axes: Sequence[Axis]) -> Any:
    covered = covered_axis(axes)
    if covered is not None:
        x, f = as_channels(ctx.xp, x, covered + 1), fold_filter(ctx.xp, f, covered)
        return _cpu_forward(ctx, x, f, without_axis(axes, covered))
    if _is_pointwise(axes):
        return _dot(ctx, tap(x, axes, (0,) * len(axes)), f.reshape(f.shape[-2:]))
    if len(axes) == 3:
        return _cpu_forward(ctx, *_fold_depth(ctx, x, f, axes), axes[1:]).reshape(
            (x.shape[0],) + tuple(a.out for a in axes) + (f.shape[-1],)
        )
    matrices = xla_winograd.choose(ctx, x.shape[0], axes, x.shape[-1], f.shape[-1], x.dtype)
    if matrices is not None:
        return xla_winograd.forward(ctx, widen(x), widen(f), axes, matrices).astype(x.dtype)
    return _convolve(
        ctx,
        x,
        f,
        [a.stride for a in axes],
        [(a.before, a.after) for a in axes],
        rhs_dilation=[a.dilation for a in axes],
    )


def _cpu_input_gradient(ctx: Any, g: Any, f: Any, axes: Sequence[Axis]) -> Any:
    xp = ctx.xp
    n = len(axes)
    covered = covered_axis(axes)
    if covered is not None:
        slope = _cpu_input_gradient(ctx, g, fold_filter(xp, f, covered), without_axis(axes, covered))
        return from_channels(xp, slope, covered + 1, axes[covered].size)
    if _is_pointwise(axes):
        product = _dot(ctx, g, f.reshape(f.shape[-2:]).T)
        zero = g.dtype.type(0)
        pads = [(0, a.size - (a.out - 1) * a.stride - 1, a.stride - 1) for a in axes]
        return ctx.lax.pad(product, zero, [(0, 0, 0), *pads, (0, 0, 0)]) if any(map(any, pads)) else product
    if planes_beat_library(ctx, g.shape[0], axes, f.shape[-2], f.shape[-1], g.dtype):
        return add_planes(ctx, g, f, axes)
    if n == 3:
        return _unfold_depth(ctx, g, f, axes)
    add_shares = adding_form(axes, channels=f.shape[-2], features=f.shape[-1])
    if add_shares is not None:
        return add_shares(ctx, widen(g), widen(f), axes).astype(g.dtype)
    kernel = xp.swapaxes(f, -1, -2)
    if all(a.stride == 1 for a in axes) or any(a.dilation > 1 for a in axes):
        kernel = xp.flip(kernel, tuple(range(n)))
        if all(a.stride == 1 for a in axes):
            mirrored = [Axis(a.out, a.window, 1, a.dilation, a.size, a.extent - 1 - a.before) for a in axes]
            return _cpu_forward(ctx, g, kernel, mirrored)
        return _spread(ctx, g, kernel, axes)
    return _by_phases(ctx, g, kernel, axes)


COPY, ADD, MULTIPLY = 0.5, 1.0, 1 / 30
"""Nanoseconds of an entry that XLA copies to a window, of one that is added to the input, of a product."""
FEW_CHANNELS, MOST_TAPS = 4, 64
"""Up to how many channels, and entries of a window, an input gradient is added plane by plane."""
LONG_WINDOW, MOST_ROWS = 7, 32
"""From which width on a window is added in runs, if it has at most this many rows."""


def adding_form(axes: Sequence[Axis], channels: int, features: int) -> Any:
    """The function that adds each place's share of the input gradient, if it costs clearly less than a convolution."""
    window = math.prod(a.window for a in axes)
    convolved = math.prod(a.size / a.stride for a in axes) * features * (COPY + channels * MULTIPLY)
    added = math.prod(a.out for a in axes) * channels * (ADD + features * MULTIPLY)
    if 1.5 * added > convolved:
        return None
    longest = max(a.window for a in axes)
    if longest >= LONG_WINDOW and window // longest <= MOST_ROWS and all(a.dilation == 1 for a in axes):
        return add_runs
    return add_planes if channels <= FEW_CHANNELS and window <= MOST_TAPS else None


LEAST_FLOPS_OF_PLANES, MOST_PLANES, MOST_ELEMENTS_OF_PLANES = 1e6, 81, 1 << 21
"""From which work on planes of few channels beat a library, if there are at most this many, and elements of them."""


def planes_beat_library(ctx: Any, batch: int, axes: Sequence[Axis], channels: int, features: int, dtype: Any) -> bool:
    """Whether an input gradient of few channels is quicker plane by plane than in a library, which has vectors of them.

    CPU ms of oneDNN and so (batch, size, window / step, channels and features):

    =====================================  ==========
    256, 28x28, 3x3, 1 and 8               9.0,  3.0
    64, 28x28, 5x5, 1 and 32               4.4,  2.7
    64, 32x32, 3x3, 3 and 16               3.3,  2.6
    32, 64x64, 3x3 / 2, 3 and 32           2.4,  1.7
    64, 20x20, 3x3, 2 and 128              6.6,  4.6
    32, 28x28, 9x9, 1 and 16               5.1,  2.1
    4, 16x16x16, 3x3x3, 2 and 8            1.8,  0.9
    32, 400, 9, 1 and 16                   0.6,  0.4
    16, 40x40, 7x7, 2 and 4                3.7,  4.0
    1, 28x28, 3x3, 1 and 8                 0.06, 0.12
    32, 64x64, 3x3, 3 and 32               13.5, 14.5
    =====================================  ==========
    """
    window = math.prod(a.window for a in axes)
    places = batch * math.prod(a.out for a in axes)
    planes = window * channels
    return (
        ctx.platform == "cpu"
        and not ctx.host
        and dtype == np.float32
        and channels <= FEW_CHANNELS
        and window > 1
        and planes <= MOST_PLANES
        and planes * places <= MOST_ELEMENTS_OF_PLANES
        and 2.0 * planes * places * features >= LEAST_FLOPS_OF_PLANES
        and covered_axis(axes) is None
    )


def add_planes(ctx: Any, g: Any, f: Any, axes: Sequence[Axis]) -> Any:
    """The input gradient of few channels: an image for each entry of the window and channel, added shifted.

    With the places last, all of the additions are of long runs; with few channels last, none would be.
    """
    *window, channels, features = f.shape
    products = ctx.lax.dot_general(
        f.reshape(-1, features), g.reshape(-1, features), (((1,), (1,)), ((), ())), precision=ctx.precision
    )
    planes = products.reshape(*window, channels, *g.shape[:-1])

    def added(planes: Any, at: int) -> Any:
        """``[channels, batch, *size]`` of what is still to be added up along the dimensions from this one on."""
        return scatter_taps(ctx, [added(row, at + 1) for row in planes], axes[at], 2 + at) if at < len(axes) else planes

    return ctx.xp.moveaxis(added(planes, 0), 0, -1)


def add_runs(ctx: Any, g: Any, f: Any, axes: Sequence[Axis]) -> Any:
    """The input gradient of a wide window: place by place along its longer dimension, what it gives to a run of entries
    with all their channels is computed as one product and added.
    """
    xp, lax = ctx.xp, ctx.lax
    if axes[0].window > axes[1].window:
        turned = add_runs(ctx, xp.swapaxes(g, 1, 2), xp.swapaxes(f, 0, 1), axes[::-1])
        return xp.swapaxes(turned, 1, 2)
    tall, wide = axes
    batch, rows, _, features = g.shape
    channels = f.shape[-2]
    length = max((wide.out - 1) * wide.stride + wide.window, wide.before + wide.size)
    filters = f.reshape(-1, features).T
    shape = (batch, rows, tall.window, wide.window * channels)

    def add(place: Any, total: Any) -> Any:
        column = lax.dynamic_index_in_dim(g, place, 2, False).reshape(-1, features)
        share = _dot(ctx, column, filters).reshape(shape)
        start = place * np.int32(wide.stride * channels)
        before = lax.dynamic_slice_in_dim(total, start, shape[3], 3)
        return lax.dynamic_update_slice_in_dim(total, before + share, start, 3)

    nothing = xp.zeros((*shape[:3], length * channels), g.dtype)
    total = lax.fori_loop(np.int32(0), np.int32(wide.out), add, nothing)
    total = total.reshape(*shape[:3], length, channels)[:, :, :, wide.before : wide.before + wide.size]
    return scatter_taps(ctx, [total[:, :, i] for i in range(tall.window)], tall, 1)


def _by_phases(ctx: Any, g: Any, kernel: Any, axes: Sequence[Axis]) -> Any:
    """The input gradient at stride s > 1, dilation 1: entries ``q * s + phase`` see only every s-th tap of the filter.

    Each of the ``s * s`` phases is a small convolution at stride 1; the results are interleaved.
    """
    xp = ctx.xp
    tall, wide = axes
    rows = []
    for phase_y in range(tall.stride):
        row: list[Any] = []
        for phase_x in range(wide.stride):
            taps, padding = [], []
            for a, phase in ((tall, phase_y), (wide, phase_x)):
                first = (phase + a.before) % a.stride
                count = len(range(first, a.window, a.stride))
                low = count - 1 - (phase + a.before - first) // a.stride
                taps.append(slice(first, None, a.stride))
                padding.append((low, -(-a.size // a.stride) + count - 1 - a.out - low))
            part = kernel[tuple(taps)]
            if 0 in part.shape:
                row.append(None)
                continue
            row.append(_convolve(ctx, g, xp.flip(part, (0, 1)), (1, 1), padding))
        rows.append(row)
    some = next(part for row in rows for part in row if part is not None)
    rows = [[xp.zeros_like(some) if part is None else part for part in row] for row in rows]
    joined = xp.stack([xp.stack(row, axis=3) for row in rows], axis=2)  # [n, y, phase_y, x, phase_x, c]
    n, y, _, x, _, c = joined.shape
    return joined.reshape(n, y * tall.stride, x * wide.stride, c)[:, : tall.size, : wide.size]


def _cpu_filter_gradient(ctx: Any, x: Any, g: Any, axes: Sequence[Axis]) -> Any:
    xp = ctx.xp
    n = len(axes)
    covered = covered_axis(axes)
    if covered is not None:
        slope = _cpu_filter_gradient(ctx, as_channels(xp, x, covered + 1), g, without_axis(axes, covered))
        features_first = from_channels(xp, xp.moveaxis(slope, -1, 0), covered + 1, axes[covered].size)
        return xp.moveaxis(features_first, 0, -1)
    if _is_pointwise(axes):
        rows = tap(x, axes, (0,) * n).reshape(-1, x.shape[-1])
        return _dot(ctx, rows.T, g.reshape(-1, g.shape[-1])).reshape((1,) * n + (x.shape[-1], g.shape[-1]))
    if n == 3:
        depth = axes[0]
        layers, _ = _fold_depth(ctx, x, None, axes)
        flat = g.reshape((-1, *g.shape[2:]))
        slope = _cpu_filter_gradient(ctx, layers, flat, axes[1:])
        folded = slope.reshape(slope.shape[:2] + (depth.window, x.shape[-1], g.shape[-1]))
        return xp.moveaxis(folded, 2, 0)
    matrices = xla_winograd.choose(ctx, x.shape[0], axes, x.shape[-1], g.shape[-1], x.dtype)
    if matrices is not None:
        return xla_winograd.filter_gradient(ctx, widen(x), widen(g), axes, matrices).astype(x.dtype)
    batch_last = xp.transpose(x, (3, 1, 2, 0))
    as_filter = xp.transpose(g, (1, 2, 0, 3))
    padding = [(a.before, (a.window - 1) * a.dilation + (a.out - 1) * a.stride + 1 - a.size - a.before) for a in axes]
    slope = _convolve(
        ctx,
        batch_last,
        as_filter,
        [a.dilation for a in axes],
        padding,
        rhs_dilation=[a.stride for a in axes],
    )
    return xp.transpose(slope, (1, 2, 0, 3))


def _dot(ctx: Any, a: Any, b: Any) -> Any:
    """``a @ b`` over the last dimension of ``a``, two-byte floats accumulated in float32."""
    given_dtype = a.dtype
    numbers = (((a.ndim - 1,), (0,)), ((), ()))
    wanted = np.float32 if is_half(given_dtype) else None
    return ctx.lax.dot_general(a, b, numbers, precision=ctx.precision, preferred_element_type=wanted).astype(
        given_dtype
    )


# ------------------------------------------------------------------------------------------------ three dimensions, CPU
def _fold_depth(ctx: Any, x: Any, f: Any, axes: Sequence[Axis]) -> tuple[Any, Any]:
    """A volume as images: each output layer's input layers side by side in the channels; the filter likewise."""
    xp = ctx.xp
    depth = axes[0]
    flat = [Axis(a.size, 1, 1, 1, a.size, 0) for a in axes[1:]]
    padded = pad_spatial(xp, x, [depth, *flat])
    layers = xp.concatenate([tap(padded, [depth, *flat], (t, 0, 0)) for t in range(depth.window)], axis=-1)
    layers = layers.reshape((-1, *layers.shape[2:]))
    if f is None:
        return layers, None
    return layers, xp.moveaxis(f, 0, 2).reshape(f.shape[1:3] + (depth.window * f.shape[3], f.shape[4]))


def _unfold_depth(ctx: Any, g: Any, f: Any, axes: Sequence[Axis]) -> Any:
    """The input gradient of a volume from that of its images."""
    xp = ctx.xp
    depth = axes[0]
    channels = f.shape[3]
    kernel = xp.moveaxis(f, 0, 2).reshape(f.shape[1:3] + (depth.window * channels, f.shape[4]))
    images = _cpu_input_gradient(ctx, g.reshape((-1, *g.shape[2:])), kernel, axes[1:])
    images = images.reshape((g.shape[0], depth.out) + images.shape[1:3] + (depth.window, channels))
    return scatter_taps(ctx, [images[..., t, :] for t in range(depth.window)], depth, 1)


class Spread(NamedTuple):
    """How entries per window position are added back to the input along one dimension, phase by phase of the stride.

    Entry ``q * stride + phase`` of the input gets, for each ``(tap, start)`` of the phase, entry ``start + q`` of the
    positions padded by ``low`` and ``high``; ``length`` entries per phase.
    """

    length: int
    low: int
    high: int
    phases: tuple[tuple[tuple[int, int], ...], ...]


def spread_of(a: Axis) -> Spread:
    """The plan of adding back along ``a``."""
    length = -(-a.size // a.stride)
    shifts = []
    for phase in range(a.stride):
        starts = [(t, t * a.dilation - a.before - phase) for t in range(a.window)]
        shifts.append([(t, start // a.stride) for t, start in starts if start % a.stride == 0])
    every = [shift for phase in shifts for _, shift in phase]
    low = max(0, *every)
    high = max(0, *(length - shift - a.out for shift in every))
    return Spread(length, low, high, tuple(tuple((t, low - shift) for t, shift in phase) for phase in shifts))


def pad_along(ctx: Any, x: Any, dimension: int, low: int, high: int, value: Any = 0) -> Any:
    """``x`` with ``value`` before and behind one dimension; negative counts cut."""
    pads = [(0, 0, 0)] * x.ndim
    pads[dimension] = (low, high, 0)
    return ctx.lax.pad(x, x.dtype.type(value), pads)


def interleave(ctx: Any, phases: Sequence[Any], a: Axis, dimension: int) -> Any:
    """The phases side by side, cut to the size of the input; None stands for zeros."""
    xp = ctx.xp
    some = next(phase for phase in phases if phase is not None)
    if len(phases) == 1:
        return some
    joined = xp.stack([xp.zeros_like(some) if phase is None else phase for phase in phases], axis=dimension + 1)
    shape = joined.shape[:dimension] + (-1,) + joined.shape[dimension + 2 :]
    return ctx.lax.slice_in_dim(joined.reshape(shape), 0, a.size, axis=dimension)


class Source(NamedTuple):
    """Entries side by side of one phase, ``first`` to before ``end``, with what is added up to each of them.

    Entry ``q`` of the phase gets, for each ``(tap, shift)``, what window ``q + shift`` gives to its entry ``tap``.
    """

    first: int
    end: int
    taps: tuple[tuple[int, int], ...]


def sources_of(a: Axis) -> list[list[Source]]:
    """For each phase of the stride, the entries of the input, cut where the windows that hold them begin and end."""
    phases = []
    for phase in range(a.stride):
        places = [(t, phase + a.before - t * a.dilation) for t in range(a.window)]
        shifts = [(t, place // a.stride) for t, place in places if place % a.stride == 0]
        sources: list[Source] = []
        for q in range(-(-a.size // a.stride)):
            taps = tuple((t, shift) for t, shift in shifts if 0 <= q + shift < a.out)
            if sources and sources[-1].taps == taps:
                sources[-1] = sources[-1]._replace(end=q + 1)
            else:
                sources.append(Source(q, q + 1, taps))
        phases.append(sources)
    return phases


def add_along(ctx: Any, sources: Sequence[Source], part: Any, dimension: int, shape: Any, dtype: Any) -> Any:
    """One phase of the input: ``part(tap, cut)`` added up, where ``cut`` are the windows along the dimension.

    ``shape`` is the result's but for the dimension. Nothing is padded (see ``_by_runs`` of the poolings).
    """
    if not any(source.taps for source in sources):
        return None
    pieces = []
    for first, end, taps in sources:
        total = None
        for t, shift in taps:
            cut = (slice(None),) * dimension + (slice(first + shift, end + shift),)
            total = part(t, cut) if total is None else total + part(t, cut)
        if total is None:
            total = ctx.xp.zeros(tuple(shape[:dimension]) + (end - first,) + tuple(shape[dimension + 1 :]), dtype)
        pieces.append(total)
    return pieces[0] if len(pieces) == 1 else ctx.lax.concatenate(pieces, dimension)


def scatter_taps(ctx: Any, parts: Sequence[Any], a: Axis, dimension: int) -> Any:
    """Add each tap's part ``[..., out, ...]`` back to the entries of ``[..., size, ...]`` it was read from."""
    shape, dtype = parts[0].shape, parts[0].dtype
    phases = [
        add_along(ctx, sources, lambda t, cut: parts[t][cut], dimension, shape, dtype) for sources in sources_of(a)
    ]
    return interleave(ctx, phases, a, dimension)


# ------------------------------------------------------------------------------------------------------------ depthwise
_MIN_SUM_BY_ROWS = 1 << 16
"""A depthwise filter gradient of fewer output entries is summed tap by tap."""


def depthwise_forward(ctx: Any, x: Any, f: Any, axes: Sequence[Axis]) -> Any:
    """``[batch, y, x, in]`` and ``[*window, in, multiplier]`` to ``[batch, *out, in * multiplier]`` by slices."""
    xp = ctx.xp
    multiplier = f.shape[-1]
    given_dtype = x.dtype
    if is_half(given_dtype):
        x, f = x.astype(np.float32), f.astype(np.float32)
    padded = pad_spatial(xp, x, axes)
    total: Any = None
    for offsets in np.ndindex(*(a.window for a in axes)):
        entry = tap(padded, axes, offsets)
        product = entry * f[offsets][:, 0] if multiplier == 1 else entry[..., None] * f[offsets]
        total = product if total is None else total + product
    return total.reshape(total.shape[: 1 + len(axes)] + (-1,)).astype(given_dtype)


def depthwise_input_gradient(ctx: Any, g: Any, f: Any, axes: Sequence[Axis]) -> Any:
    """The gradient of ``[batch, y, x, in]``."""
    given_dtype = g.dtype
    if is_half(given_dtype):
        g, f = g.astype(np.float32), f.astype(np.float32)
    if max(a.window for a in axes) <= 3:
        return _depthwise_small(ctx, g, f, axes).astype(given_dtype)
    channels, multiplier = f.shape[-2:]
    plans = [spread_of(a) for a in axes]
    for dimension, plan in enumerate(plans, 1):
        g = pad_along(ctx, g, dimension, plan.low, plan.high)
    if multiplier > 1:
        g = g.reshape(g.shape[:-1] + (channels, multiplier))
    (down, across), rows = plans, []
    for taps_y in down.phases:
        row = []
        for taps_x in across.phases:
            total = None
            for i, y in taps_y:
                for j, x in taps_x:
                    entry = g[:, y : y + down.length, x : x + across.length]
                    term = _over_filters(ctx, entry, f[i, j])
                    total = term if total is None else total + term
            row.append(total)
        rows.append(None if not taps_y else interleave(ctx, row, axes[1], 2))
    return interleave(ctx, rows, axes[0], 1).astype(given_dtype)


_MOST_ADDED = 16
"""Filters of a channel up to which their products are added one by one: a sum over so few is slow, and a loop apart."""


def _over_filters(ctx: Any, g: Any, f: Any) -> Any:
    """``[..., channels(, multiplier)]`` times ``[channels, multiplier]``, summed over the filters of each channel."""
    multiplier = f.shape[-1]
    if multiplier == 1:
        return g * f[:, 0]
    if multiplier > _MOST_ADDED:
        return ctx.xp.sum(g * f, axis=-1)
    total = g[..., 0] * f[:, 0]
    for k in range(1, multiplier):
        total = total + g[..., k] * f[:, k]
    return total


def _depthwise_small(ctx: Any, g: Any, f: Any, axes: Sequence[Axis]) -> Any:
    """The same for windows of at most 3: each tap's product, added back where it was read, dimension by dimension."""
    channels, multiplier = f.shape[-2:]
    if multiplier > 1:
        g = g.reshape(g.shape[:-1] + (channels, multiplier))
    rows = []
    for i in range(axes[0].window):
        columns = []
        for j in range(axes[1].window):
            columns.append(_over_filters(ctx, g, f[i, j]))
        rows.append(scatter_taps(ctx, columns, axes[1], 2))
    return scatter_taps(ctx, rows, axes[0], 1)


def depthwise_filter_gradient(ctx: Any, x: Any, g: Any, axes: Sequence[Axis], multiplier: int) -> Any:
    """The gradient of ``[*window, in, multiplier]``: for each tap, the sum of input times output gradient."""
    xp = ctx.xp
    channels = x.shape[-1]
    given_dtype = x.dtype
    if is_half(given_dtype):
        x, g = x.astype(np.float32), g.astype(np.float32)
    padded = pad_spatial(xp, x, axes)
    g = g.reshape(g.shape[:-1] + (channels, multiplier)) if multiplier > 1 else g
    shape = tuple(a.window for a in axes) + (channels, multiplier)
    if math.prod(g.shape) >= _MIN_SUM_BY_ROWS and max(a.stride for a in axes) == 1:
        return _depthwise_filter_by_rows(ctx, padded, g, axes).reshape(shape).astype(given_dtype)
    slopes = []
    for offsets in np.ndindex(*(a.window for a in axes)):
        entry = tap(padded, axes, offsets)
        product = entry * g if multiplier == 1 else entry[..., None] * g
        slopes.append(xp.sum(product, axis=tuple(range(1 + len(axes)))))
    return xp.stack(slopes).reshape(shape).astype(given_dtype)


def _depthwise_filter_by_rows(ctx: Any, padded: Any, g: Any, axes: Sequence[Axis]) -> Any:
    """``[taps, channels(, multiplier)]``: row by row of the output, the products of all taps are added up.

    XLA sums over all but the channels with a loop for each channel, at four times the time (25 ms against 6 for 3x3,
    batch 16, 32x32x64); here what is summed at last is one row.
    """
    xp, lax = ctx.xp, ctx.lax
    tall, wide = axes
    offsets = list(np.ndindex(tall.window, wide.window))

    def add(row: Any, total: Any) -> Any:
        slope = lax.dynamic_index_in_dim(g, row, 1, False)
        lines = lax.dynamic_slice_in_dim(padded, row * np.int32(tall.stride), tall.extent, 1)
        products = []
        for i, j in offsets:
            start = j * wide.dilation
            entry = lines[:, i * tall.dilation, start : start + (wide.out - 1) * wide.stride + 1 : wide.stride]
            products.append(entry * slope if slope.ndim == entry.ndim else entry[..., None] * slope)
        return total + xp.stack(products)

    nothing = xp.zeros((len(offsets), g.shape[0], *g.shape[2:]), g.dtype)
    return xp.sum(lax.fori_loop(np.int32(0), np.int32(tall.out), add, nothing), axis=(1, 2))


def cost(axes: Sequence[Axis], batch: int, channels: int, features: int) -> float:
    """Floating-point operations of one of the three products."""
    return 2.0 * batch * math.prod(a.out * a.window for a in axes) * channels * features
