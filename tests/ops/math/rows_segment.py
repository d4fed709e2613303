"""Rows of reductions over segments."""

from __future__ import annotations

import numpy as np

from anabranch.core.values import dtypes
from anabranch.testing.op_cases import case, real, row, whole

REAL = "half bfloat16 float double int8 int16 int32 int64 uint8 uint16 uint32 uint64"
ALL = REAL + " complex64 complex128"
DATA = "the number of rows is data"


def rows_of(data, ids, count):
    """The rows of each segment."""
    flat = data.reshape(ids.size, *data.shape[ids.ndim :])
    return [[flat[i] for i, item in enumerate(ids.ravel()) if item == segment] for segment in range(count)]


def wrap(total, dtype):
    return np.asarray(total).astype(dtype)


def reduced(groups, data, one, empty, inner):
    out = np.empty((len(groups), *inner), data.dtype)
    with np.errstate(all="ignore"):
        for i, group in enumerate(groups):
            out[i] = one(group) if group else empty
    return out


def fold(function):
    def one(group):
        total = group[0]
        for item in group[1:]:
            total = function(total, item).astype(total.dtype)
        return total

    return one


def mean_of(group):
    total = fold(np.add)(group)
    return np.trunc(total / len(group)) if total.dtype.kind in "iu" else total / len(group)


def sorted_(one, empty=0):
    def reference(data, ids):
        count = int(ids[-1]) + 1 if ids.size else 0
        return reduced(rows_of(data, ids, count), data, one, empty, data.shape[1:])

    return reference


def unsorted(one, empty):
    def reference(data, ids, count):
        # The lowest number of the type that was given, which the reference gets widened.
        start = empty if not callable(empty) else empty(data)
        return reduced(rows_of(data, ids, int(count)), data, one, start, data.shape[ids.ndim :])

    return reference


def sorted_cases():
    return [
        case(real(5, 2), [0, 0, 1, 3, 3], types={"Tindices": "int32"}),
        case(real(4, margin=0.5), [1, 1, 1, 2], types={"Tindices": "int64"}),
        case(real(0, 2), np.zeros(0), types={"Tindices": "int32"}),
        case(real(2, 2, 0), [0, 1], types={"Tindices": "int32"}),
        case([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]], [0, 0, 0], types={"Tindices": "int32"}, grad=False),
    ]


def unsorted_cases(filled=False, index="int64"):
    """``filled``: no segment is empty in the first case, which runs for all dtypes."""
    first = [0, 2, 0, 1, 2] if filled else [0, -1, 0, 2, 2]
    return [
        case(real(5, 2), first, 3, types={"Tindices": "int32"}),
        case(real(2, 3, margin=0.5), [[1, 0, 1], [2, 1, 0]], 3, types={"Tindices": "int64", "Tnumsegments": "int64"}),
        case(real(4, 2), [1, 0, -1, 0], 2, types={"Tindices": index}, grad=False),
        case(real(3), 0 if filled else 1, 1 if filled else 2, types={"Tindices": "int32"}),
        case(real(0, 2), np.zeros(0), 0, types={"Tindices": "int32"}, grad=False),
        case(real(2, 0), [0, 1], 2, types={"Tindices": "int32"}, grad=False),
        case([-7, 2, 5], [0, 0, 3], 4, dtype="int32", types={"Tindices": "int32"}),
    ]


def lowest(data):
    return dtypes.as_dtype(data.dtype).min


def highest(data):
    return dtypes.as_dtype(data.dtype).max


# -------------------------------------------------------------------------------------------------------------- sparse
def divisor(mode, count):
    return {"Sum": 1, "Mean": max(count, 1), "SqrtN": max(count, 1) ** 0.5}[mode]


def sparse(mode):
    def reference(data, indices, ids, count=None, sparse_gradient=False):
        count = (int(ids[-1]) + 1 if ids.size else 0) if count is None else int(count)
        out = np.zeros((count, *data.shape[1:]), data.dtype)
        for row_, segment in zip(indices, ids, strict=True):
            out[segment] += data[row_]
        for segment in range(count):
            if mode != "Sum":
                out[segment] /= divisor(mode, int(np.sum(ids == segment)))
        return out

    return reference


def sparse_gradient(mode):
    def reference(grad, indices, ids, rows):
        out = np.zeros((int(rows), *grad.shape[1:]), grad.dtype)
        for row_, segment in zip(indices, ids, strict=True):
            out[row_] += grad[segment] / divisor(mode, int(np.sum(ids == segment)))
        return out

    return reference


def sparse_cases(*count):
    data = whole if not count else real
    return [
        case(data(4, 2), [0, 2, 2, 1], [0, 0, 0, 2], *count),
        case(real(4), [3, 3], [0, 1], *count, types={"Tidx": "int64", "Tsegmentids": "int64"}),
        case(real(3, 2), [1, 0], [1, 1], *count, sparse_gradient=True),
        case(real(3, 2), np.zeros(0), np.zeros(0), *count, grad=False),
    ]


def gradient_cases():
    return [
        case(real(3, 2), [0, 2, 2, 1], [0, 0, 2, 2], 4),
        case(real(2), [3, 3], [0, 1], 4, types={"Tidx": "int64", "Tsegmentids": "int64"}),
        case(real(3, 2), np.zeros(0), np.zeros(0), 2, grad=False),
    ]


ROWS = [
    row("SegmentSum", sorted_(fold(np.add)), sorted_cases(), ALL, open_shape=DATA),
    row("SegmentMean", sorted_(mean_of), sorted_cases(), REAL + " complex64", open_shape=DATA),
    row("SegmentProd", sorted_(fold(np.multiply), 1), sorted_cases(), ALL, open_shape=DATA),
    row("SegmentMax", sorted_(fold(np.maximum)), sorted_cases(), REAL, open_shape=DATA),
    row("SegmentMin", sorted_(fold(np.minimum)), sorted_cases(), REAL, open_shape=DATA),
    row("UnsortedSegmentSum", unsorted(fold(np.add), 0), unsorted_cases(index="int16"), ALL),
    row("UnsortedSegmentProd", unsorted(fold(np.multiply), 1), unsorted_cases(), ALL),
    row("UnsortedSegmentMax", unsorted(fold(np.maximum), lowest), unsorted_cases(True), REAL),
    row("UnsortedSegmentMin", unsorted(fold(np.minimum), highest), unsorted_cases(True), REAL),
]
for _mode in ("Sum", "Mean", "SqrtN"):
    ROWS += [
        row(f"SparseSegment{_mode}", sparse(_mode), sparse_cases(), REAL if _mode == "Sum" else None, open_shape=DATA),
        row(f"SparseSegment{_mode}WithNumSegments", sparse(_mode), sparse_cases(4), REAL if _mode == "Sum" else None),
        row(f"SparseSegment{_mode}Grad", sparse_gradient(_mode), gradient_cases()),
    ]
