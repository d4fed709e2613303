"""What the sparse families share: shape rules, checks of coordinates, order, sums by group.

Policy. Coordinates are `[n, rank]` int64, in row-major order where an op says so. Nothing is clamped: a coordinate
outside the dense shape is an error. Kernels that give as many values as they get run in both tiers, with the dense
shape known when XLA compiles; those whose number of values depends on data live on the host.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import RawShape
from anabranch.core.values import shapes
from anabranch.ops.shared import row_sums
from anabranch.ops.shared.array_rules import require

REAL = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
SPARSE_INPUT = "input_indices: int64, input_values: T, input_shape: int64"


def sparse_operand(c: Any, indices: int, values: int, shape: int) -> tuple[Any, Any]:
    """Shape rule's part for one sparse operand: its number of values and its rank, which must agree in all three."""
    given = c.with_rank(indices, 2)
    count = shapes.merge_dim(given[0], c.with_rank(values, 1)[0])
    rank = shapes.merge_dim(given[1], c.with_rank(shape, 1)[0])
    return count, rank


def dense_shape(c: Any, operand: int | str) -> RawShape:
    """The dense shape that an operand holds, as far as it is known."""
    known = c.vector(operand)
    return None if known is None else tuple([None if item is None or item < 0 else int(item) for item in known])


def unbounded(c: Any) -> None:
    """No bound of the shape is known."""
    return None


# ------------------------------------------------------------------------------------------------------------- kernels
def check_parts(ctx: Any, indices: Any, values: Any, shape: Any, what: str = "input") -> None:
    """Check that indices are a matrix, values and shape vectors, of matching sizes."""
    require(
        ctx, indices.ndim == 2, f"{what}_indices should be a matrix but received shape {shapes.show(indices.shape)}"
    )
    require(ctx, values.ndim == 1, f"{what}_values should be a vector but received shape {shapes.show(values.shape)}")
    require(ctx, np.ndim(shape) == 1, f"{what}_shape should be a vector but received shape {list(np.shape(shape))}")
    require(
        ctx,
        indices.shape[0] == values.shape[0],
        f"{what}: {indices.shape[0]} rows of indices for {values.shape[0]} values",
    )
    require(
        ctx,
        indices.shape[1] == np.shape(shape)[0],
        f"{what}: {indices.shape[1]} columns of indices for a shape of {np.shape(shape)[0]} dimensions",
    )


def check_bounds(ctx: Any, indices: Any, sizes: Any, lead: str = "") -> None:
    """Check that all coordinates lie in the dense shape; ``lead`` is what an error says after which of them is not."""
    if 0 in indices.shape:
        return
    xp = ctx.xp
    if ctx.host and len(sizes) == indices.shape[1]:
        bounds = np.asarray(sizes).tolist()
        if all(limit > 0 and row_sums.is_within(indices[:, i], limit) for i, limit in enumerate(bounds)):
            return  # the usual case
    limits = np.asarray(sizes) if ctx.host else xp.asarray(sizes)
    bad = xp.any((indices < 0) | (indices >= limits.astype(indices.dtype)), axis=1)
    at = xp.argmax(bad)
    row = indices[at]
    width = indices.shape[1]
    index_text = ",".join(f"{{{i + 1}}}" for i in range(width))
    need = ",".join(f"{{{i + 1 + width}}}" for i in range(width))
    ctx.check(
        ~xp.any(bad),
        errors.InvalidArgumentError,
        f"indices[{{0}}] = [{index_text}] is out of bounds: need 0 <= index < [{need}]" + lead,
        at,
        *[row[i] for i in range(width)],
        *[limits[i] for i in range(width)],
    )


def strides(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours along each dimension are, row-major."""
    steps = [1] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        steps[i] = steps[i + 1] * int(sizes[i + 1])
    return steps


def flat_positions(xp: Any, indices: Any, sizes: Sequence[int]) -> Any:
    """The position of each coordinate in the flattened dense tensor, int64."""
    if not len(sizes):
        return xp.zeros(indices.shape[0], np.int64)
    positions = indices[:, 0].astype(np.int64)  # column by column: a sum over short rows takes ten times as long
    for i, size in enumerate(sizes[1:], 1):
        positions = positions * np.int64(size) + indices[:, i].astype(np.int64)
    return positions


def row_major(indices: np.ndarray, sizes: Sequence[int] | None = None) -> np.ndarray:
    """Positions that sort coordinates in row-major order; equal ones stay in order."""
    if sizes is not None and _fits(sizes):
        return np.argsort(flat_positions(np, indices, sizes), kind="stable")
    if not indices.shape[1]:
        return np.arange(indices.shape[0])
    return np.lexsort(indices.T[::-1])


def in_order(indices: np.ndarray) -> bool:
    """Whether coordinates are in row-major order."""
    open_ = np.ones(max(len(indices) - 1, 0), bool)  # rows that are equal to the next one so far
    for i in range(indices.shape[1]):
        before, after = indices[:-1, i], indices[1:, i]
        if (open_ & (after < before)).any():
            return False
        open_ &= after == before
    return True


def outside(indices: np.ndarray, sizes: np.ndarray) -> bool:
    """Whether a coordinate lies outside the dense shape."""
    if not len(indices):
        return False
    columns = zip(indices.T, np.asarray(sizes).tolist(), strict=True)
    return any(bool(column.min() < 0 or column.max() >= size) for column, size in columns)


def _fits(sizes: Sequence[int]) -> bool:
    total = 1
    for size in sizes:
        total *= max(int(size), 1)
    return total < 2**63


def keys(*parts: np.ndarray) -> list[np.ndarray]:
    """One integer for each coordinate of several arrays, in row-major order: equal where the coordinates are."""
    rank = parts[0].shape[1] if parts else 0
    if not rank:
        return [np.zeros(len(part), np.int64) for part in parts]
    # Python's integers: the distance between two coordinates may need more than 64 bits.
    low = min([int(part.min(initial=0)) for part in parts])
    lows = [low and min([int(part[:, i].min(initial=0)) for part in parts]) for i in range(rank)]
    sizes = [max([int(part[:, i].max(initial=0)) for part in parts]) - lows[i] + 1 for i in range(rank)]
    if _fits(sizes):
        return [flat_positions(np, part - np.array(lows) if low else part, sizes) for part in parts]
    joined = np.concatenate(parts)
    order = np.lexsort(joined.T[::-1])
    steps = np.any(joined[order][1:] != joined[order][:-1], axis=1)
    numbers = np.empty(len(joined), np.int64)
    numbers[order] = np.concatenate([[0], np.cumsum(steps)]) if len(joined) else []
    bounds = np.cumsum([0, *[len(part) for part in parts]])
    return [numbers[start:stop] for start, stop in itertools.pairwise(bounds)]


def keys_in_order(*parts: np.ndarray) -> tuple[list[np.ndarray], list[int]] | None:
    """The keys of arrays of coordinates in row-major order without equal ones, and the sizes that they refer to.

    None if one array is not in order, or the keys need more than 64 bits.
    """
    if not all(part.shape[1] and len(part) for part in parts):
        return None
    columns = range(parts[0].shape[1])  # a negative one is larger than any size
    sizes = [max([int(part[:, i].view(np.uint64).max()) for part in parts]) + 1 for i in columns]
    if not _fits(sizes):
        return None
    found = [flat_positions(np, part, sizes) for part in parts]
    return (found, sizes) if all((key[1:] > key[:-1]).all() for key in found) else None


def unflattened(positions: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """The coordinates of positions: what :func:`flat_positions` takes them from."""
    result = np.empty((len(positions), len(sizes)), np.int64)
    rest = positions.astype(np.uint32) if math.prod(sizes) < 1 << 32 else positions  # divided in half the time
    for i in range(len(sizes) - 1, 0, -1):
        size = rest.dtype.type(sizes[i])
        left = rest // size
        result[:, i] = rest - left * size
        rest = left
    result[:, 0] = rest
    return result


def ranked(*parts: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """For arrays of keys, each key's place among all that there are, in order; and where each is found first.

    Keys that come in order, as those of sparse tensors do, are merged rather than sorted.
    """
    joined = np.concatenate(parts)
    order = np.argsort(joined, kind="stable")
    in_turn = joined.take(order)
    new = np.ones(len(in_turn), bool)
    np.not_equal(in_turn[1:], in_turn[:-1], out=new[1:])
    places = np.empty(len(joined), np.int64)
    places[order] = np.cumsum(new) - 1
    bounds = np.cumsum([0, *[len(part) for part in parts]])
    return [places[start:stop] for start, stop in itertools.pairwise(bounds)], order[new]


def grouped(ctx: Any, mode: str, values: Any, groups: Any, count: int, start: Any) -> Any:
    """``values`` combined by group (``add`` or ``max``) into ``count`` rows that begin as ``start``."""
    out = ctx.xp.full((count, *values.shape[1:]), start, values.dtype)
    if ctx.host:
        if mode == "add":
            row_sums.add_to_rows(out, groups, values)
        else:
            np.maximum.at(out, groups, values)
        return out
    return getattr(out.at[groups], mode)(values, mode="drop")
