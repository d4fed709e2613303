"""Greedy matching of rows to columns by their distances, nearest pairs first. On the host.

Pairs of equal distance come off a binary heap in the order in which TensorFlow's kernel takes them: they are pushed row
by row, and the hole that a popped pair leaves sinks to the last level before the last entry rises from it. A heap that
is right in another way (``heapq``) takes other pairs.
"""

from __future__ import annotations

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Int, NotDifferentiable, Op

_Pair = tuple[float, int]


def _rise(heap: list[_Pair], hole: int, pair: _Pair) -> None:
    while hole and heap[(hole - 1) // 2][0] > pair[0]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = pair


def _push(heap: list[_Pair], pair: _Pair) -> None:
    heap.append(pair)
    _rise(heap, len(heap) - 1, pair)


def _pop(heap: list[_Pair]) -> _Pair:
    nearest, last, hole = heap[0], heap.pop(), 0
    size = len(heap)
    if not size:
        return nearest
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and not heap[child + 1][0] > heap[child][0]:
            child += 1
        heap[hole] = heap[child]
        hole = child
    _rise(heap, hole, last)
    return nearest


def _matching(distances: np.ndarray, rows: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """For each row its column and for each column its row, -1 where it has none."""
    columns = distances.shape[1]
    to_column, to_row = (np.full(size, -1, np.int32) for size in distances.shape)
    heap: list[_Pair] = []
    for pair in zip(distances[:rows].ravel().tolist(), range(rows * columns), strict=True):
        _push(heap, pair)
    left = limit
    while heap and left:
        row, column = divmod(_pop(heap)[1], columns)
        if to_column[row] < 0 and to_row[column] < 0:
            to_column[row], to_row[column] = column, row
            left -= 1
    return to_column, to_row


class BipartiteMatch(Op):
    """Pairs of rows and columns of ``distance_mat`` ``[rows, columns]``, nearest first, each in one pair at most.

    Only the first ``num_valid_rows`` rows take part, all if that is negative. There are at most ``top_k`` pairs, unless
    that is 0 or less. The results, ``[rows]`` and ``[columns]``, hold -1 for what is in no pair.
    """

    signature = (
        "distance_mat: float, num_valid_rows: float -> row_to_col_match_indices: int32, col_to_row_match_indices: int32"
    )
    attrs = {"top_k": Int(-1)}
    effect = PURE
    gradient = NotDifferentiable("which pairs match is a choice")

    def shape(c):
        distances = c.with_rank("distance_mat", 2)
        return [(distances[0],), (distances[1],)]

    def host_kernel(ctx, inputs, attrs):
        distances, valid = inputs
        ctx.check(
            distances.ndim == 2,
            errors.InvalidArgumentError,
            f"distance_mat should be 2-dimensional, but got {list(distances.shape)}",
        )
        ctx.check(
            valid.size == 1,
            errors.InvalidArgumentError,
            f"num_valid_rows argument should be a scalar or have one element, but got {list(valid.shape)}",
        )
        valid = valid.reshape(())
        count = int(valid) if valid >= 0 else len(distances)
        ctx.check(
            count <= len(distances),
            errors.InvalidArgumentError,
            f"There should be at least {count} rows in distance_mat, but only got {len(distances)} rows.\n"
            + errors.message(f"num_valid_rows={count}", f"at most {len(distances)}", "num_valid_rows=-1 for all rows"),
        )
        return _matching(distances, count, attrs["top_k"] if attrs["top_k"] > 0 else count)
