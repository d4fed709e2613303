"""Rows of reductions, positions of extrema, counts and running sums."""

from __future__ import annotations

import functools

import numpy as np

from anabranch.testing.op_cases import case, real, row, whole

NAN, INF = np.nan, np.inf
REAL = "half bfloat16 float double int8 int16 int32 int64 uint8 uint16 uint32 uint64"
ALL = REAL + " complex64 complex128"


def axes_of(axes, x):
    return tuple(int(axis) % x.ndim for axis in np.ravel(axes))


def loop(function, x, axes, keep_dims, wide=None):
    """Applies a function of a flat list of elements to each slice: no NumPy reduction takes part."""
    axes = axes_of(axes, x)
    rest = [i for i in range(x.ndim) if i not in axes]
    size = int(np.prod([x.shape[i] for i in axes], dtype=int))
    moved = np.transpose(x, [*rest, *axes]).reshape([x.shape[i] for i in rest] + [size])
    out = np.empty(moved.shape[:-1], wide or x.dtype)
    for index in np.ndindex(*out.shape):
        out[index] = function(list(moved[index]))
    return out.reshape([1 if i in axes else x.shape[i] for i in range(x.ndim)]) if keep_dims else out


def wrapped(total, dtype):
    if dtype.kind not in "iu":
        return total
    bits = 8 * dtype.itemsize
    total = int(total) % (1 << bits)
    return total - (1 << bits) if dtype.kind == "i" and total >> (bits - 1) else total


def exact(items):
    return [int(item) if np.asarray(item).dtype.kind in "iu" else item for item in items]


def add(x, axes, keep_dims=False):
    return loop(
        lambda items: wrapped(functools.reduce(lambda a, b: a + b, exact(items), 0), x.dtype), x, axes, keep_dims
    )


def multiply(x, axes, keep_dims=False):
    return loop(
        lambda items: wrapped(functools.reduce(lambda a, b: a * b, exact(items), 1), x.dtype), x, axes, keep_dims
    )


def mean(x, axes, keep_dims=False):
    def one(items):
        if x.dtype.kind not in "iu":
            return sum(items) / len(items) if items else NAN
        total = sum(exact(items))
        return 0 if not items else abs(total) // len(items) * (1 if total >= 0 else -1)

    return loop(one, x, axes, keep_dims)


def extremum(sign):
    def reference(x, axes, keep_dims=False):
        ends = (-INF, INF) if x.dtype.kind == "f" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)

        def one(items):
            best = ends[0 if sign > 0 else 1]
            for item in items:
                if item != item or best != best:
                    best = NAN
                elif (item > best) == (sign > 0) and item != best:
                    best = item
            return best

        return loop(one, x, axes, keep_dims)

    return reference


def euclidean(x, axes, keep_dims=False):
    def one(items):
        total = wrapped(sum(item * np.conj(item) for item in exact(items)), x.dtype)
        return int(max(total, 0) ** 0.5) if x.dtype.kind in "iu" else np.sqrt(total)

    return loop(one, x, axes, keep_dims)


def logic(end):
    def reference(x, axes, keep_dims=False):
        return loop(lambda items: end(bool(item) for item in items), x, axes, keep_dims, bool)

    return reference


def reductions(*more):
    return [
        case(real(2, 3, 2), [1]),
        case(real(2, 3, 2), [0, -1], keep_dims=True),
        case(real(2, 3), np.int32(1)),
        case(real(3, 2), [0, 1]),
        case(real(2, 3), np.zeros(0, np.int32)),
        case(real(), np.zeros(0, np.int32), keep_dims=True),
        case(real(2, 0, 3), [2], grad=False),
        case(real(2, 3), [1], types={"Tidx": "int64"}),
        case(real(600, low=0.5, high=1.5), [0], dtype="bfloat16", grad=False),
        *more,
    ]


EMPTY = case(real(2, 0), [1], grad=False)
BYTES = case(np.full(200, 100, np.int8), [0], dtype="int8")
TIES = case([[1.0, 3.0, 3.0], [-2.0, -2.0, -2.0]], [1], grad=False)
SPECIAL = [
    case([[1.0, NAN, 2.0], [-INF, -INF, -INF], [INF, 1.0, -INF]], [1], grad=False),
    case(np.array([np.iinfo(np.int64).min, 5, np.iinfo(np.int64).max]), [0], dtype="int64"),
]


def position(sign):
    def reference(x, axis, output_type=None):
        moved = np.moveaxis(x, int(axis), -1)
        out = np.zeros(moved.shape[:-1], output_type.np if output_type is not None else np.int64)
        for index in np.ndindex(*out.shape):
            best = None
            items = moved[index].tolist()
            for i, item in enumerate(items):
                bad = item != item or item == -sign * INF
                if not bad and (best is None or sign * item > sign * items[best]):
                    best = i
            out[index] = best or 0
        return out

    return reference


def positions():
    from anabranch.core.values import dtypes

    return [
        case(whole(3, 5, low=0, high=3), 1),
        case(whole(2, 3, 2), -2, output_type=dtypes.int32, types={"Tidx": "int64"}),
        case([[NAN, 2.0, NAN, 2.0], [NAN, NAN, NAN, NAN], [-INF, -INF, -INF, -INF], [INF, INF, INF, INF]], 1),
        case([[INF, -0.0, 0.0, -0.0]], np.int32(-1)),
        case(np.array([True, False, True]), 0, dtype="bool"),
        case(np.array([False, False]), 0, dtype="bool"),
        case(real(2, 0), 0),
        case(real(0, 2), 1),
    ]


def running(start, combine):
    def reference(x, axis, exclusive=False, reverse=False):
        moved = np.moveaxis(x, int(axis), 0)
        out = np.empty_like(moved)
        order = range(len(moved) - 1, -1, -1) if reverse else range(len(moved))
        with np.errstate(all="ignore"):
            total = np.full(moved.shape[1:], start, x.dtype)
            for i in order:
                following = combine(total, moved[i]).astype(x.dtype)
                out[i] = total if exclusive else following
                total = following
        return np.moveaxis(out, 0, int(axis))

    return reference


def log_add(a, b):
    with np.errstate(all="ignore"):
        return np.logaddexp(a, b)


def scans(large, exclusive=True):
    """``exclusive``: whether nothing has the same sum in all dtypes."""
    return [
        case(real(2, 3, 2, margin=0.3), 1),
        case(real(3, 9, margin=0.3), 0, exclusive=exclusive),
        case(real(9, 3, margin=0.3), -1, reverse=True),
        case(real(4, margin=0.3), 0, exclusive=exclusive, reverse=True, types={"Tidx": "int64"}),
        case(real(1, margin=0.3), 0),
        case(real(2, 0), 1),
        case(real(0, 2), 0, exclusive=True),
        case([[1.0, INF, 2.0, -INF, 1.0], [1.0, NAN, 2.0, 0.0, 1.0]], 1, grad=False),
        *large,
    ]


LONG = [
    case(whole(5000, low=-3, high=3), 0, exclusive=True, reverse=True, grad=False, dtype="int32"),
    case(whole(4097, low=0, high=3), 0, grad=False),
    case(np.where(np.arange(4500) == 4000, INF, 1.0), 0, exclusive=True, grad=False),
]


def bincount(values, size, weights):
    out = np.zeros(int(size), weights.dtype)
    for i, value in enumerate(values.ravel()):
        if value < size:
            out[value] += weights.ravel()[i] if weights.size else 1
    return out


def histogram(values, limits, bins, dtype=None):
    out = np.zeros(int(bins), np.int32 if dtype is None else dtype.np)
    width = (limits[1] - limits[0]) / float(bins)
    for value in values.ravel().tolist():
        at = (max(value, limits[0]) - limits[0]) / width
        out[int(min(at, bins - 1))] += 1
    return out


ROWS = [
    row("Sum", add, reductions(EMPTY, BYTES), ALL),
    row("Mean", mean, reductions(EMPTY, BYTES, case([-7, 2], [0], dtype="int32")), ALL),
    row(
        "Prod",
        multiply,
        reductions(EMPTY, case([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]], [1], grad=False), case(real(2, 3, 2), [2, 0])),
        ALL,
    ),
    row("Max", extremum(1), reductions(EMPTY, TIES, *SPECIAL), REAL),
    row("Min", extremum(-1), reductions(EMPTY, TIES, *SPECIAL), REAL),
    row("EuclideanNorm", euclidean, reductions(case([3, 4, 1], [0], dtype="int32")), ALL),
    row(
        "All",
        logic(all),
        [case(whole(3, 2), [1]), case(whole(2, 0), [1]), case(whole(2, 2), [0, 1], keep_dims=True)],
        None,
    ),
    row(
        "Any",
        logic(any),
        [case(whole(3, 2), [1]), case(whole(2, 0), [1]), case(whole(2, 2), [0, 1], keep_dims=True)],
        None,
    ),
    row("ArgMax", position(1), positions(), REAL),
    row("ArgMin", position(-1), positions(), REAL),
    row("Cumsum", running(0, np.add), scans(LONG), ALL),
    row("Cumprod", running(1, np.multiply), scans([]), ALL),
    row("CumulativeLogsumexp", running(-INF, log_add), scans([], exclusive=False), order=1),
    row(
        "Bincount",
        bincount,
        [
            case([[0, 3], [3, 9]], 5, [[1.0, 2.0], [4.0, 3.0]]),
            case([0, 3, 3, 9], 5, np.zeros(0)),
            case(np.zeros(0, np.int32), 3, np.zeros(0)),
        ],
    ),
    row(
        "HistogramFixedWidth",
        histogram,
        [
            case(whole(3, 5, low=0, high=9), [1, 8], 4),
            case([0.1, 0.7, 1.0, 0.3, 0.5, 0.9999999, 0.2, -5.0, 7.0, INF, -INF], [0.0, 1.0], 10),
            case(real(0), [0.0, 1.0], 3),
        ],
    ),
]
