"""Rows of ops on sparse tensors, and where those on coordinates are tested."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, elsewhere, real, row, whole

FILE = "tests/ops/parsing/test_sparse_parsing_golden.py"
SHAPE = np.array([3, 4])
PLACES = [[0, 1], [0, 3], [2, 0], [2, 2]]
CUBE = np.array([2, 3, 2])
CUBE_PLACES = [[0, 0, 1], [0, 2, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]]
NUMBERS = "half bfloat16 float double int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128"
REAL = "half bfloat16 float double int8 int16 int32 int64 uint8 uint16 uint32 uint64"


def dense_of(places, values, shape, default=0):
    found = np.full([int(size) for size in shape], default, np.asarray(values).dtype)
    for place, value in zip(np.reshape(places, (-1, len(shape))), np.broadcast_to(values, len(places)), strict=True):
        found[tuple(int(i) for i in place)] += value
    return found


def matmul(places, values, shape, b, adjoint_a=False, adjoint_b=False):
    a = dense_of(places, values, shape)
    return (np.conj(a.T) if adjoint_a else a) @ (np.conj(b.T) if adjoint_b else b)


def to_dense(places, shape, values, default, validate_indices=True):
    places = np.reshape(places, (-1, len(shape)))
    found = np.full([int(size) for size in shape], default)
    for place, value in zip(places, np.broadcast_to(values, len(places)), strict=True):
        found[tuple(int(i) for i in place)] = value
    return found


def cwise(function):
    def reference(places, values, shape, dense):
        wide = np.broadcast_to(dense, [int(size) for size in shape])
        return function(values, np.array([wide[tuple(int(i) for i in place)] for place in places], wide.dtype))

    return reference


def reduced(function):
    def reference(places, values, shape, axes, keep_dims=False):
        gone = tuple({int(axis) % len(shape) for axis in np.ravel(axes)})
        sizes = [1 if i in gone else int(size) for i, size in enumerate(shape)]
        groups = {}
        for place, value in zip(places, values, strict=True):
            key = tuple(0 if i in gone else int(at) for i, at in enumerate(place))
            groups[key] = function(groups[key], value) if key in groups else value
        found = np.zeros(sizes, values.dtype)
        for key, value in groups.items():
            found[key] = value
        return found if keep_dims else np.squeeze(found, gone)

    return reference


def softmax(places, values, shape):
    found = np.zeros_like(values)
    for i, place in enumerate(places):
        row_ = [j for j, other in enumerate(places) if (other[:-1] == place[:-1]).all()]
        found[i] = np.exp(values[i]) / sum(np.exp(values[j]) for j in row_)
    return found


def quotient(x, y):
    return np.trunc(x / y) if x.dtype.kind in "iu" else x / y


MATMUL_CASES = [
    case(PLACES, whole(4), SHAPE, whole(4, 2)),
    case([[2, 2], [0, 1], [0, 1]], real(3), SHAPE, real(4, 3), types={"Tindices": "int32"}),
    case(PLACES, real(4), SHAPE, real(3, 2), adjoint_a=True),
    case(PLACES, real(4), SHAPE, real(2, 4), adjoint_b=True),
    case(PLACES, real(4), SHAPE, real(2, 3), dtype="complex64", adjoint_a=True, adjoint_b=True),
    case(np.zeros((0, 2)), real(0), SHAPE, real(4, 2)),
    case(PLACES, real(4), SHAPE, real(4, 0)),
]

CWISE_SHAPES = [(3, 4), (4,), (3, 1), (), (1, 1)]


def cwise_cases(margin=0.0):
    return [case(PLACES, whole(4), SHAPE, whole(3, 4, low=1, high=5))] + [
        case(PLACES, real(4), SHAPE, real(*shape, margin=margin)) for shape in CWISE_SHAPES
    ]


def reduce_cases():
    return [
        case(CUBE_PLACES, whole(5), CUBE, [1]),
        case(CUBE_PLACES, real(5, distinct=True), CUBE, [0, -1], keep_dims=True),
        case(CUBE_PLACES, real(5, distinct=True), CUBE, [2, 1, 0]),
        case(CUBE_PLACES, real(5, distinct=True), CUBE, np.zeros(0)),
        case(CUBE_PLACES, real(5, distinct=True), CUBE, 0),
        case(np.zeros((0, 3)), real(0), CUBE, [1]),
    ]


ROWS = [
    row("SparseTensorDenseMatMul", matmul, MATMUL_CASES, NUMBERS, vary="T"),
    row(
        "SparseToDense",
        to_dense,
        [
            case(PLACES, SHAPE, real(4), real(), types={"Tindices": "int64"}),
            case([[2, 0], [0, 1]], SHAPE, real(2), real(), types={"Tindices": "int32"}, validate_indices=False),
            case([1, 3], [5], real(2), real(), types={"Tindices": "int32"}),
            case(2, [4], real(), real(), types={"Tindices": "int32"}),
            case(PLACES, SHAPE, real(), real(), types={"Tindices": "int64"}),
            case(np.zeros((0, 2)), SHAPE, real(0), real(), types={"Tindices": "int64"}),
        ],
        NUMBERS + " bool string",
        vary="T",
    ),
    row(
        "SparseTensorDenseAdd",
        lambda places, values, shape, b: dense_of(places, values, shape) + b,
        [
            case(PLACES, whole(4), SHAPE, whole(3, 4), types={"Tindices": "int64"}),
            case([[2, 2], [0, 1], [0, 1]], real(3), SHAPE, real(3, 4), types={"Tindices": "int32"}),
            case(np.zeros((0, 2)), real(0), SHAPE, real(3, 4), types={"Tindices": "int64"}),
        ],
        NUMBERS,
        vary="T",
    ),
    row("SparseDenseCwiseAdd", cwise(np.add), cwise_cases(), NUMBERS),
    row("SparseDenseCwiseMul", cwise(np.multiply), cwise_cases(), NUMBERS),
    row("SparseDenseCwiseDiv", cwise(quotient), cwise_cases(0.5), NUMBERS, tolerance=4),
    row("SparseReduceSum", reduced(lambda x, y: x + y), reduce_cases(), NUMBERS),
    row("SparseReduceMax", reduced(max), reduce_cases(), REAL),
    row(
        "SparseSoftmax",
        softmax,
        [
            case(CUBE_PLACES, real(5), CUBE),
            case(PLACES, real(4, low=-50, high=50), SHAPE, grad=False),
            case(np.zeros((0, 2)), real(0), SHAPE),
        ],
        "half float double",
    ),
    elsewhere("SparseCross", "tests/ops/sparse/test_sparse.py", "sparse.cross"),
    *[
        elsewhere(name, FILE)
        for name in [
            "SparseReorder",
            "SparseReshape",
            "SparseConcat",
            "SparseSplit",
            "SparseSlice",
            "SparseSliceGrad",
            "SparseAdd",
            "SparseAddGrad",
            "SparseReduceSumSparse",
            "SparseReduceMaxSparse",
            "SparseSparseMaximum",
            "SparseSparseMinimum",
            "SparseFillEmptyRows",
            "SparseFillEmptyRowsGrad",
            "SerializeSparse",
            "SerializeManySparse",
            "DeserializeSparse",
            "DeserializeManySparse",
        ]
    ],
]
