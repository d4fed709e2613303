"""Winograd's convolution for windows of 3x3 at stride 1, as batched matrix products, and its filter gradient.

An output tile of ``m x m`` entries needs ``(m + 2)**2`` products per pair of channels in place of ``9 * m**2``: 4
times fewer for ``m = 4``, 2.25 times for ``m = 2`` (Lavin and Gray, Fast Algorithms for Convolutional Neural
Networks, 2015): ``Y = A^T [(G g G^T) * (B^T d B)] A`` for the filter ``g`` and an input tile ``d``. The filter
gradient is the adjoint in ``g``: ``G^T [(B^T d B) * (A dY A^T)] G``; the input gradient is a forward pass with the
reversed filter.

Policy. The two sides of a tile are transformed one after the other, each as one stacked array: six sums of shifted
slices compile to a small loop, while all 36 at once take seconds to compile. The filter's transform is one matrix
product. Rounding grows with the constants: about 1e-5 of the largest output for ``m = 4`` in float32, 1e-6 for
``m = 2``; a step that asks for a precision does not come here. ``docs/notes/0003-convolutions.md`` says where it pays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.ops.nn.windows.geometry import Axis


class _Matrices(NamedTuple):
    """The transforms of one tile size, as rows of coefficients."""

    tile: int
    data: np.ndarray
    """``B^T``: ``[tile + 2, tile + 2]``."""
    taps: np.ndarray
    """``G``: ``[tile + 2, 3]``."""
    output: np.ndarray
    """``A^T``: ``[tile, tile + 2]``."""


_TWO = _Matrices(
    2,
    np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]),
    np.array([[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]]),
    np.array([[1, 1, 1, 0], [0, 1, -1, -1]]),
)
_FOUR = _Matrices(
    4,
    np.array(
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ]
    ),
    np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    ),
    np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]),
)

_MIN_CHANNELS = 20
"""Least ``in * out / (in + out)``: products saved grow with ``in * out``, transforms with ``in + out``."""
_MIN_CHANNELS_OF_TWO = 64
"""The same for tiles of 2, which have more to add per product saved."""
_MIN_TILES = 32
"""Fewer tiles do not pay for the transform of the filter."""
_KEEP_BYTES = 1 << 26
"""A transformed input above this is computed again for the filter gradient, not kept from the forward pass."""


def choose(ctx: Any, batch: int, axes: Sequence[Axis], channels: int, features: int, dtype: Any) -> _Matrices | None:
    """The transforms to use, or None where direct convolution is faster, other than 3x3, or asked to be precise."""
    if len(axes) != 2 or dtype.name not in ("float32", "float16", "bfloat16") or ctx.precision is not None:
        return None
    if any((a.window, a.stride, a.dilation) != (3, 1, 1) or not 0 <= a.before <= 2 for a in axes):
        return None
    if channels * features < _MIN_CHANNELS * (channels + features):
        return None
    rows, columns = axes[0].out, axes[1].out
    products = {}
    for matrices in (_TWO, _FOUR):
        tiles = -(-rows // matrices.tile) * -(-columns // matrices.tile)
        if batch * tiles >= _MIN_TILES:
            products[matrices.tile] = tiles * (matrices.tile + 2) ** 2 / (9 * rows * columns)
    if products.get(4, 1) <= 0.45:
        return _FOUR
    wide = channels * features >= _MIN_CHANNELS_OF_TWO * (channels + features)
    return _TWO if wide and products.get(2, 1) <= 0.55 else None


_MIN_FLOPS_BESIDE_A_LIBRARY = 1e9
"""A library's direct convolution is preferred below: what its products save there, compiling them costs for long."""


def beats_library(ctx: Any, batch: int, axes: Sequence[Axis], channels: int, features: int, dtype: Any) -> bool:
    """Whether these products are enough faster than a library's direct convolution to be worth their compilation."""
    flops = 18.0 * batch * channels * features * math.prod(a.out for a in axes)
    if ctx.platform != "cpu" or flops < _MIN_FLOPS_BESIDE_A_LIBRARY:
        return False
    return choose(ctx, batch, axes, channels, features, dtype) is _FOUR


def _combine(coefficients: np.ndarray, parts: Sequence[Any]) -> list[Any]:
    """One weighted sum of ``parts`` per row of coefficients."""
    combined = []
    for row in coefficients:
        total = None
        for weight, part in zip(row, parts, strict=True):
            if weight == 0:
                continue
            term = part if weight == 1 else -part if weight == -1 else part * np.float32(weight)
            total = term if total is None else total + term
        combined.append(total)
    return combined


def _kron(matrix: np.ndarray) -> np.ndarray:
    """The matrix that applies ``matrix`` to both sides of a flattened square."""
    size, taps = matrix.shape
    return np.einsum("ij,kl->ikjl", matrix, matrix).reshape(size * size, taps * taps).astype(np.float32)


def _transform_data(ctx: Any, x: Any, axes: Sequence[Axis], matrices: _Matrices) -> Any:
    """``B^T d B`` of all tiles: ``[side * side, tiles, channels]``."""
    xp = ctx.xp
    m, side = matrices.tile, matrices.tile + 2
    counts = [-(-a.out // m) for a in axes]
    pads = [(a.before, m * count + 2 - a.size - a.before, 0) for a, count in zip(axes, counts, strict=True)]
    padded = ctx.lax.pad(x, np.float32(0), [(0, 0, 0), *pads, (0, 0, 0)])
    down, across = ((m * (count - 1) + 1) for count in counts)
    rows = xp.stack(_combine(matrices.data, [padded[:, r : r + down : m] for r in range(side)]))
    both = xp.stack(_combine(matrices.data, [rows[:, :, :, r : r + across : m] for r in range(side)]), axis=1)
    return both.reshape(side * side, -1, x.shape[-1])


def _transform_gradient(ctx: Any, g: Any, axes: Sequence[Axis], matrices: _Matrices) -> Any:
    """``A dY A^T`` of all tiles: ``[side * side, tiles, features]``."""
    xp = ctx.xp
    m, side = matrices.tile, matrices.tile + 2
    pads = [(0, 0), *((0, -a.out % m) for a in axes), (0, 0)]
    padded = xp.pad(g, pads) if any(map(any, pads)) else g
    spread = matrices.output.T
    rows = xp.stack(_combine(spread, [padded[:, r::m] for r in range(m)]))
    both = xp.stack(_combine(spread, [rows[:, :, :, r::m] for r in range(m)]), axis=1)
    return both.reshape(side * side, -1, g.shape[-1])


def forward(ctx: Any, x: Any, f: Any, axes: Sequence[Axis], matrices: _Matrices) -> Any:
    """The convolution; operands and result are float32."""
    xp = ctx.xp
    m, side = matrices.tile, matrices.tile + 2
    batch, features = x.shape[0], f.shape[-1]
    taps = xp.matmul(_kron(matrices.taps), f.reshape(9, -1)).reshape(side * side, *f.shape[2:])
    products = ctx.lax.dot_general(_transform_data(ctx, x, axes, matrices), taps, (((2,), (1,)), ((0,), (0,))))
    tall, wide = (-(-a.out // m) for a in axes)
    tiles = products.reshape(side, side, batch, tall, wide, features)
    rows = xp.stack(_combine(matrices.output, [tiles[i] for i in range(side)]), axis=3)
    both = xp.stack(_combine(matrices.output, [rows[j] for j in range(side)]), axis=4)
    return both.reshape(batch, tall * m, wide * m, features)[:, : axes[0].out, : axes[1].out]


def filter_gradient(ctx: Any, x: Any, g: Any, axes: Sequence[Axis], matrices: _Matrices) -> Any:
    """The gradient of the filter; operands and result are float32."""
    side = matrices.tile + 2
    tiles = g.shape[0] * -(-axes[0].out // matrices.tile) * -(-axes[1].out // matrices.tile)
    if 4 * side * side * tiles * x.shape[-1] > _KEEP_BYTES:
        x = ctx.lax.optimization_barrier(x)
    data = _transform_data(ctx, x, axes, matrices)
    spread = _transform_gradient(ctx, g, axes, matrices)
    products = ctx.lax.dot_general(data, spread, (((1,), (1,)), ((0,), (0,))))
    slope = ctx.xp.matmul(_kron(matrices.taps).T, products.reshape(side * side, -1))
    return slope.reshape(3, 3, x.shape[-1], g.shape[-1])
