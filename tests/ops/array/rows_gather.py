"""Rows of gathers, scatters, one-hot vectors, sets, partitions and searches."""

from __future__ import annotations

import bisect

import numpy as np

from anabranch.testing.op_cases import ANY, case, real, row, whole

STRINGS = ANY + " string"
MOVED = "float double bfloat16 int8 uint64 bool complex128 string"
"""For ops that move elements and never look at them: one dtype of each kind."""
ROWS_OF = {"Tindices": "int32", "Taxis": "int32"}
REPEATED = [[0, 1], [2, 0], [0, 1]]


def gathered(params, indices, axis=0, batch_dims=0, **_):
    axis = int(axis) % params.ndim
    if not batch_dims:
        found = [np.take(params, int(i), axis=axis) for i in indices.ravel()]
        shape = (*params.shape[:axis], *indices.shape, *params.shape[axis + 1 :])
        return np.stack(found, axis).reshape(shape) if found else np.zeros(shape, params.dtype)
    return np.stack([gathered(p, i, axis - 1, batch_dims - 1) for p, i in zip(params, indices, strict=True)])


def gathered_nd(params, indices, **_):
    depth = indices.shape[-1]
    found = []
    for place in indices.reshape(int(np.prod(indices.shape[:-1])), depth):
        inside = all(0 <= i < size for i, size in zip(place, params.shape, strict=False))
        found.append(params[tuple(place)] if inside else np.zeros(params.shape[depth:], params.dtype))
    shape = (*indices.shape[:-1], *params.shape[depth:])
    flat = np.empty((len(found), *params.shape[depth:]), params.dtype)
    for i, item in enumerate(found):
        flat[i] = item
    return flat.reshape(shape)


def scattered(how):
    def run(target, indices, updates, **_):
        found = np.array(target)
        rows = indices.reshape(-1, indices.shape[-1])
        for place, update in zip(rows, updates.reshape(len(rows), *target.shape[indices.shape[-1] :]), strict=True):
            if all(0 <= i < size for i, size in zip(place, target.shape, strict=False)):
                found[tuple(place)] = how(found[tuple(place)], update)
        return found

    return run


def plus(a, b):
    return a | b if np.asarray(a).dtype == bool else a + b


def scattered_nd(indices, updates, shape, **_):
    return scattered(plus)(np.zeros(shape, updates.dtype), indices, updates)


def scatter_cases(repeated=True):
    """`repeated`: whether the gradient is right where a slice is named twice (TensorFlow's rule for updates is not)."""
    return [
        case(real(3, 2), REPEATED, real(3), types={"Tindices": "int32"}, grad=repeated),
        case(real(4, 3), [[[3], [1]]], real(1, 2, 3), types={"Tindices": "int64"}),
        case(real(4, 3), np.zeros((0, 1), np.int32), real(0, 3), types={"Tindices": "int32"}),
        case(real(2, 3), [[1, -1], [5, 2], [0, 0]], real(3), types={"Tindices": "int32"}, bad_indices_policy="IGNORE"),
    ]


def unique(x, axis=None, out_idx="int32", counts=False):
    axis = int(axis[0]) if axis is not None and len(axis) else 0
    kept, idx = [], []
    for item in np.moveaxis(x, axis, 0):
        for number, other in enumerate(kept):
            if np.array_equal(item, other):
                idx.append(number)
                break
        else:
            idx.append(len(kept))
            kept.append(item)
    y = np.moveaxis(np.array(kept, x.dtype).reshape(len(kept), *np.moveaxis(x, axis, 0).shape[1:]), 0, axis)
    found = [y, np.array(idx, out_idx)]
    return [*found, np.array([idx.count(i) for i in range(len(kept))], out_idx)] if counts else found


def difference(x, y, out_idx="int32"):
    idx = [i for i, item in enumerate(x) if all(item != other for other in y)]
    return [x[idx], np.array(idx, out_idx)]


def partitioned(data, partitions, num_partitions):
    found = []
    for number in range(num_partitions):
        rows = [data[place] for place in np.ndindex(*partitions.shape) if partitions[place] == number]
        rest = data.shape[partitions.ndim :]
        part = np.empty((len(rows), *rest), data.dtype)
        for i, item in enumerate(rows):
            part[i] = item
        found.append(part)
    return found


def stitched(indices, data):
    size = max((int(i.max()) + 1 for i in indices if i.size), default=0)
    rest = data[0].shape[indices[0].ndim :]
    found = np.full((size, *rest), b"", object) if data[0].dtype == object else np.zeros((size, *rest), data[0].dtype)
    for i, d in zip(indices, data, strict=True):
        for place in np.ndindex(*i.shape):
            found[i[place]] = d[place]
    return found


def searched(find):
    def run(rows, values, out_type="int32"):
        return np.array(
            [[find(list(row), v) for v in wanted] for row, wanted in zip(rows, values, strict=True)], out_type
        ).reshape(values.shape)

    return run


def one_hot(indices, depth, on, off, axis=-1):
    found = np.full((*indices.shape, int(depth)), off, np.asarray(on).dtype)
    for place in np.ndindex(*indices.shape):
        if 0 <= indices[place] < depth:
            found[(*place, int(indices[place]))] = on
    return np.moveaxis(found, -1, axis)


SORTED = [[1, 3, 3, 5], [0, 2, 4, 6]]
WANTED = [[3, 0, 9], [2, 5, 0]]
TWICE = [3, 1, 3, 0, 1, 1]
STITCH = ([[0, 2], [[4, 1]]], [real(2, 3), real(1, 2, 3)])
DATA = "the number of true elements is data"

ROWS = [
    row(
        "Gather",
        gathered,
        [
            case(real(4, 3), [[0, 3], [1, 1]], types={"Tindices": "int32"}),
            case(real(4), 2, types={"Tindices": "int64"}),
            case(real(4, 2), [1, 0], types={"Tindices": "int32"}, validate_indices=False),
        ],
        MOVED,
    ),
    row(
        "GatherV2",
        gathered,
        [
            case(real(4, 3), [[0, 3], [1, 1]], 0, types=ROWS_OF),
            case(real(4, 3), 2, -1, types={"Tindices": "int64", "Taxis": "int64"}),
            case(real(2, 3, 4), [[2, 0], [1, 1]], 1, types=ROWS_OF),
            case(real(2, 4, 3), [[0, 3, 3], [1, 1, 2]], 1, batch_dims=1, types=ROWS_OF),
            case(real(2, 3, 4, 2), [[0, 3, 3], [1, 1, 2]], 2, batch_dims=1, types=ROWS_OF),
            case(
                real(2, 3, 4),
                [[[0], [1], [3]], [[2], [2], [1]]],
                2,
                batch_dims=2,
                types={"Tindices": "int16", "Taxis": "int32"},
            ),
            case(real(0, 3), np.zeros(0, np.int32), 0, types=ROWS_OF),
            case(real(4, 3), np.zeros((0, 2), np.int32), 0, types=ROWS_OF),
        ],
        STRINGS,
    ),
    row(
        "GatherNd",
        gathered_nd,
        [
            case(real(3, 2), REPEATED, types={"Tindices": "int32"}),
            case(real(4, 3), [[3], [1], [3]], types={"Tindices": "int64"}),
            case(real(2, 2), [1, 0], types={"Tindices": "int32"}),
            case(real(2, 2), np.zeros((3, 0), np.int32), types={"Tindices": "int32"}, grad=False),
            case(real(2, 2), [[[1], [0]]], types={"Tindices": "int16"}),
            case(real(2, 2), [[0, 1], [2, 0], [1, -1]], types={"Tindices": "int32"}, bad_indices_policy="IGNORE"),
        ],
        MOVED,
    ),
    row(
        "ScatterNd",
        scattered_nd,
        [
            case(REPEATED, real(3), [3, 2], types={"Tindices": "int32"}),
            case([[[3], [1]]], real(1, 2, 3), [4, 3], types={"Tindices": "int64"}),
            case(np.zeros((0, 1), np.int32), real(0, 3), [2, 3], types={"Tindices": "int32"}),
        ],
        "float double bfloat16 int8 uint64 bool complex128",
    ),
    row("ScatterNdNonAliasingAdd", scattered(plus), scatter_cases(), MOVED.replace(" string", "")),
    row("TensorScatterUpdate", scattered(lambda a, b: b), scatter_cases(False), MOVED),
    row("TensorScatterAdd", scattered(plus), scatter_cases(), MOVED.replace(" string", "")),
    row("TensorScatterSub", scattered(lambda a, b: a - b), scatter_cases(), ANY.replace(" bool", "")),
    row("TensorScatterMin", scattered(np.minimum), scatter_cases(), "half float double int32 int64 uint8"),
    row("TensorScatterMax", scattered(np.maximum), scatter_cases(), "half float double int32 int64 uint8"),
    row(
        "OneHot",
        one_hot,
        [
            case([[0, 2], [-1, 3]], 3, real(), real(), types={"TI": "int32"}),
            case([1, 0, 2], 3, real(), real(), axis=0, types={"TI": "int64"}),
            case(np.array([1, 255], np.uint8), 300, real(), real(), types={"TI": "uint8"}),
            case(np.array(1, np.int8), 2, real(), real(), types={"TI": "int8"}),
            case([1], 0, real(), real(), types={"TI": "int32"}),
        ],
        MOVED,
        vary="T",
    ),
    # ------------------------------------------------------------------------------------------------------------- sets
    row(
        "Where",
        lambda x: np.stack(np.nonzero(x), axis=1).astype(np.int64) if x.ndim else np.zeros((int(x != 0), 0), np.int64),
        [
            case(whole(3, 4, low=0, high=1)),
            case(True, dtype="bool"),
            case(whole(0, 2)),
            case([np.nan, 0.0, -0.0, 1.0], dtype="float"),
        ],
        open_shape=DATA,
    ),
    row(
        "Unique",
        unique,
        [
            case(TWICE),
            case(np.zeros(0, np.int32)),
            case([5, 10**9, 5, -(10**9)]),
            case(np.array([250, 3, 250, 255], np.uint8), dtype="uint8"),
            case(np.array([127, -128] * 40, np.int8), dtype="int8"),
            case([1.5, -1.5, 1.5], dtype="double", out_idx="int64"),
            case([b"b", b"a", b"b"], dtype="string"),
            case([np.nan, 1.0, np.nan], dtype="float"),
            case([1, 0, 1], dtype="bfloat16"),
        ],
        "int32 int64 float double uint8",
        open_shape=DATA,
    ),
    row(
        "UniqueV2",
        unique,
        [
            case(TWICE, [0], types={"Taxis": "int64"}),
            case([[1, 2, 1], [1, 0, 1]], [1], types={"Taxis": "int32"}),
            case([[1, 2], [0, 1], [1, 2]], [-2], types={"Taxis": "int64"}),
            case(TWICE, np.zeros(0, np.int64), types={"Taxis": "int64"}),
        ],
        "int32 int64 float double uint8",
        open_shape=DATA,
    ),
    row(
        "UniqueWithCounts",
        lambda x: unique(x, counts=True),
        [case(TWICE)],
        "int32 int64 float double uint8",
        open_shape=DATA,
    ),
    row(
        "UniqueWithCountsV2",
        lambda x, axis: unique(x, axis, counts=True),
        [case(TWICE, [0], types={"Taxis": "int64"}), case([[1, 2, 1], [1, 0, 1]], [1], types={"Taxis": "int32"})],
        "int32 int64 float double uint8",
        open_shape=DATA,
    ),
    row(
        "ListDiff",
        difference,
        [
            case(TWICE, [1, 7]),
            case([b"a", b"b", b"a"], [b"b"], dtype="string", out_idx="int64"),
            case([np.nan, 1.0], [np.nan], dtype="float"),
        ],
        "int32 int64 float double uint8",
        open_shape=DATA,
    ),
    row(
        "DynamicPartition",
        partitioned,
        [
            case(real(5, 2), [1, 0, 1, 2, 0], num_partitions=4),
            case(real(2, 2, 3), [[1, 0], [0, 0]], num_partitions=2),
            case(real(2), 1, num_partitions=2),
            case(real(12), [9, 0, 5, 0, 3, 9, 9, 1, 2, 0, 7, 3], num_partitions=10),
        ],
        MOVED,
        open_shape=DATA,
    ),
    row(
        "DynamicStitch",
        stitched,
        [case(*STITCH), case([[0, 1], [1, 2]], [real(2), real(2)], grad=False), case([1], [real()])],
        MOVED,
        open_shape=DATA,
    ),
    row("ParallelDynamicStitch", stitched, [case(*STITCH)], MOVED, open_shape=DATA),
    row(
        "LowerBound",
        searched(bisect.bisect_left),
        [case(SORTED, WANTED), case([[]] * 2, WANTED, dtype="float", out_type="int64")],
        "half float double int32 int64 uint8 bfloat16",
    ),
    row(
        "UpperBound",
        searched(bisect.bisect_right),
        [case(SORTED, WANTED), case(SORTED, [[], []], dtype="float", out_type="int64")],
        "half float double int32 int64 uint8 bfloat16",
    ),
]
