"""Rows of sets."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, row

COMBINE = {
    "a-b": np.setdiff1d,
    "b-a": lambda a, b: np.setdiff1d(b, a),
    "intersection": np.intersect1d,
    "union": np.union1d,
}


def results(pairs, lead, operation, dtype):
    found = [(place, COMBINE[operation](a, b)) for place, a, b in pairs]
    indices = [[*place, i] for place, items in found for i in range(len(items))]
    largest = max((len(items) for _, items in found), default=0)
    values = np.concatenate([np.zeros(0, dtype), *(items for _, items in found)]).astype(dtype)
    return np.array(indices, np.int64).reshape(-1, len(lead) + 1), values, np.array([*lead, largest], np.int64)


def rows_of(indices, values, shape):
    dense = {place: [] for place in np.ndindex(*shape[:-1])}
    for place, value in zip(indices, values, strict=True):
        dense[tuple(int(i) for i in place[:-1])].append(value)
    return dense


def dense(a, b, set_operation):
    return results([(p, a[p], b[p]) for p in np.ndindex(*a.shape[:-1])], a.shape[:-1], set_operation, a.dtype)


def mixed(a, indices, values, shape, set_operation):
    b = rows_of(indices, values, shape)
    return results([(p, a[p], b[p]) for p in b], a.shape[:-1], set_operation, a.dtype)


def sparse(i1, v1, s1, i2, v2, s2, set_operation):
    a, b = rows_of(i1, v1, s1), rows_of(i2, v2, s2)
    return results([(p, a[p], b[p]) for p in a], s1[:-1], set_operation, v1.dtype)


def size(indices, values, shape):
    found = rows_of(indices, values, shape)
    return np.array([len(set(items)) for items in found.values()], np.int32).reshape(shape[:-1])


A, B = [[[1, 2, 2], [9, 9, 3]], [[4, 5, 6], [0, 1, 0]]], [[[2, 7], [3, 3]], [[6, 4], [5, 8]]]
FIRST = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 2], [1, 0, 3]], [2, 1, 3, 6, 6], [2, 2, 4]
SECOND = [[0, 0, 0], [1, 1, 0]], [1, 7], [2, 2, 2]
OPEN = "how large the sets are depends on the values"
KINDS = "int64 int32 uint8 int16"

ROWS = [
    row("DenseToDenseSetOperation", dense, [case(A, B, set_operation=name) for name in COMBINE], KINDS,
        open_shape=OPEN),
    row("DenseToSparseSetOperation", mixed, [case(A, *FIRST, set_operation=name) for name in COMBINE], KINDS,
        open_shape=OPEN),
    row("SparseToSparseSetOperation", sparse, [case(*FIRST, *SECOND, set_operation=name) for name in COMBINE], KINDS,
        open_shape=OPEN),
    row("SetSize", size, [case(*FIRST), case(*SECOND), case(np.zeros((0, 2)), [], [3, 1])], KINDS),
]  # fmt: skip
