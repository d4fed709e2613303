"""Rows of shapes, fills, joins and orders of arrays."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import ANY, case, real, row, whole

STRINGS = ANY + " string"
MOVED = "float double bfloat16 int8 uint64 bool complex128 string"
"""For ops that move elements and never look at them: one dtype of each kind."""
IDS = {"Tidx": "int64"}


def positions_from(shapes, dim):
    """Where each shape begins in a concatenation, by adding up one by one."""
    found, start = [], 0
    for shape in shapes:
        offset = [0] * len(shape)
        offset[dim] = start
        start += shape[dim]
        found.append(np.array(offset, np.asarray(shapes[0]).dtype))
    return found


def tiled(x, multiples):
    for dim, times in enumerate(multiples):
        x = np.concatenate([x] * times, axis=dim) if times else np.take(x, [], axis=dim)
    return x


def unpacked(x, num, axis=0):
    return [np.take(x, i, axis=axis) for i in range(num)]


def reversed_sequence(x, lengths, seq_dim, batch_dim=0):
    found = np.array(x)
    for index in np.ndindex(*x.shape):
        length = lengths[index[batch_dim]]
        source = list(index)
        if index[seq_dim] < length:
            source[seq_dim] = length - 1 - index[seq_dim]
        found[index] = x[tuple(source)]
    return found


def split_sizes(x, sizes, dim, num_split=None):
    left = x.shape[dim] - sum(size for size in sizes if size >= 0)
    ends = np.cumsum([left if size < 0 else size for size in sizes])
    return [
        np.take(x, range(end - (left if size < 0 else size), end), axis=dim)
        for end, size in zip(ends, sizes, strict=True)
    ]


def shape_of(x, out_type="int32"):
    return np.array(x.shape, out_type)


ROWS = [
    row("Shape", shape_of, [case(real(2, 0, 3)), case(real()), case(real(2), out_type="int64")], MOVED),
    row("ShapeN", lambda xs: [shape_of(x) for x in xs], [case([real(2, 3), real(), real(0)])], MOVED),
    row("Size", lambda x: np.int32(x.size), [case(real(2, 3)), case(real()), case(real(0, 3))], MOVED),
    row("Rank", lambda x: np.int32(x.ndim), [case(real(2, 3)), case(real()), case(real(0))], MOVED),
    row(
        "Reshape",
        np.reshape,
        [
            case(real(2, 6), [3, 4]),
            case(real(2, 6), [-1, 2, 3], types={"Tshape": "int64"}),
            case(real(1), []),
            case(real(), [1, -1]),
            case(real(0, 3), [3, 0]),
            case(real(0, 3), [-1, 3]),
        ],
        STRINGS,
    ),
    row(
        "ExpandDims",
        lambda x, dim: np.expand_dims(x, int(np.ravel(dim)[0])),
        [case(real(2, 3), 1), case(real(2, 3), -1), case(real(), 0, types={"Tdim": "int64"}), case(real(2), [-2])],
        MOVED,
    ),
    row(
        "Squeeze",
        lambda x, squeeze_dims=(): np.squeeze(x, tuple(squeeze_dims) or None),
        [
            case(real(1, 2, 1)),
            case(real(1, 2, 1), squeeze_dims=[2]),
            case(real(1, 2, 1), squeeze_dims=[-3, 2]),
            case(real(1, 1)),
            case(real(2, 3)),
        ],
        MOVED,
    ),
    row("EnsureShape", lambda x, shape: x, [case(real(2, 3), shape=(None, 3)), case(real(), shape=None)], MOVED),
    row("GuaranteeConst", lambda x: x, [case(real(2, 3)), case(real())], MOVED),
    row("DeepCopy", lambda x: x, [case(real(2, 3)), case(real())], MOVED),
    # ------------------------------------------------------------------------------------------------------------ fills
    row(
        "Fill",
        np.full,
        [case([2, 3], real()), case([], real()), case([2, 0], real(), types={"index_type": "int64"})],
        MOVED,
    ),
    row(
        "Empty",
        lambda shape, init=False: np.zeros(shape),
        [case([2, 3]), case([]), case([2, 0], init=True)],
        "float double int32 bool",
        vary="dtype",
    ),
    row(
        "Range",
        np.arange,
        [
            case(1, 10, 3),
            case(np.float32(0), np.float32(1), np.float32(0.25), dtype="float"),
            case(np.float64(3), np.float64(-2), np.float64(-0.5), dtype="double"),
            case(5, 5, 1, dtype="int64"),
            case(5, 0, -2, dtype="int16"),
            case(0, 7, 7, dtype="uint64"),
        ],
    ),
    row(
        "LinSpace",
        lambda start, stop, num: np.linspace(start, stop, int(num)),
        [case(-1.0, 2.0, 7), case(3.0, 1.0, 2), case(0.5, 4.0, 1, types={"Tidx": "int64"}), case(2.0, 2.0, 3)],
    ),
    row(
        "Tile",
        tiled,
        [
            case(real(2, 3), [2, 1]),
            case(real(2, 3), [1, 3], types={"Tmultiples": "int64"}),
            case(real(), np.zeros(0, np.int32)),
            case(real(2), [0]),
            case(real(2, 1, 3), [2, 4, 2]),
        ],
        MOVED,
    ),
    row(
        "BroadcastTo",
        np.broadcast_to,
        [
            case(real(2, 1), [3, 2, 4]),
            case(real(), [2, 2], types=IDS),
            case(real(3), [3]),
            case(real(1, 1), [2, 1]),
            case(real(1), [0]),
        ],
        MOVED,
    ),
    row(
        "BroadcastArgs",
        lambda a, b: np.array(np.broadcast_shapes(tuple(a), tuple(b)), a.dtype),
        [case([2, 1], [3, 2, 5]), case([], [4, 1]), case([1], [0])],
        open_shape="",
    ),
    # ------------------------------------------------------------------------------------------------------------ joins
    row(
        "Pack",
        lambda xs, axis=0: np.stack(xs, axis),
        [case([real(2, 3), real(2, 3)]), case([real(2, 3)] * 3, axis=-1), case([real()] * 2), case([real(2)], axis=1)],
        STRINGS,
    ),
    row(
        "Unpack",
        unpacked,
        [
            case(real(3, 2), num=3),
            case(real(2, 3), num=3, axis=-1),
            case(real(2), num=2),
            case(real(2, 1, 3), num=1, axis=1),
        ],
        MOVED,
    ),
    row(
        "ConcatV2",
        lambda xs, axis: np.concatenate(xs, int(axis)),
        [
            case([real(2, 3), real(1, 3)], 0),
            case([real(2, 3), real(2, 0), real(2, 1)], -1, types=IDS),
            case([real(1)] * 17, 0),
        ],
        STRINGS,
    ),
    row(
        "Concat",
        lambda axis, xs: np.concatenate(xs, int(axis)),
        [case(0, [real(2, 3), real(1, 3)]), case(1, [real(2, 3), real(2, 1)])],
        MOVED,
    ),
    row(
        "ConcatOffset",
        lambda dim, shapes: positions_from(shapes, int(dim)),
        [case(1, [[2, 3], [2, 5], [2, 1]]), case(-2, [[4, 1], [3, 1]])],
    ),
    row(
        "Split",
        lambda dim, x, num_split: np.split(x, num_split, int(dim)),
        [case(1, real(2, 6), num_split=3), case(-2, real(4, 1), num_split=2), case(0, real(2), num_split=1)],
        MOVED,
    ),
    row(
        "SplitV",
        split_sizes,
        [
            case(real(2, 6), [1, -1, 3], 1, num_split=3, types={"Tlen": "int32"}),
            case(real(4), [0, 4], 0, num_split=2),
            case(real(4, 1), [4], -2, num_split=1, types={"Tlen": "int8"}),
        ],
        MOVED,
    ),
    row(
        "ParallelConcat",
        lambda xs, shape: np.concatenate(xs),
        [case([real(1, 3), real(1, 3)], shape=(2, 3)), case([real(1)], shape=(1,))],
        MOVED,
    ),
    # ----------------------------------------------------------------------------------------------------------- orders
    row(
        "Transpose",
        np.transpose,
        [
            case(real(2, 3, 4), [2, 0, 1]),
            case(real(2, 3), [-1, 0], types={"Tperm": "int64"}),
            case(real(), np.zeros(0, int), types={"Tperm": "int64"}),
        ],
        MOVED,
    ),
    row(
        "ConjugateTranspose",
        lambda x, perm: np.transpose(np.conj(x) if x.dtype.kind == "c" else x, perm),
        [case(real(2, 3, 4), [2, 0, 1]), case(real(2, 3), [0, 1])],
    ),
    row("InvertPermutation", np.argsort, [case([2, 0, 3, 1]), case([0]), case(np.zeros(0, np.int32))]),
    row(
        "Reverse",
        lambda x, dims: np.flip(x, tuple(np.flatnonzero(dims))),
        [case(real(2, 3), [False, True]), case(real(2, 3), [True, True]), case(real(), np.zeros(0, bool))],
    ),
    row(
        "ReverseV2",
        lambda x, axis: np.flip(x, tuple(axis)),
        [case(real(2, 3), [-1]), case(real(2, 3), [0, 1], types=IDS), case(real(2, 3), np.zeros(0, np.int32))],
    ),
    row(
        "ReverseSequence",
        reversed_sequence,
        [
            case(real(3, 4), [0, 2, 4], seq_dim=1, types={"Tlen": "int32"}),
            case(real(2, 4, 3), [4, 1, 3], seq_dim=1, batch_dim=2),
            case(real(4, 2), [3, 0], seq_dim=0, batch_dim=1),
        ],
        MOVED,
    ),
    row(
        "Roll",
        lambda x, shift, axis: np.roll(x, tuple(np.ravel(shift)), tuple(np.ravel(axis))),
        [
            case(real(3, 4), [1, -2], [0, 1], types={"Tshift": "int32", "Taxis": "int32"}),
            case(real(5), 7, 0, types={"Tshift": "int64", "Taxis": "int64"}),
            case(real(5), [-1, 3], [0, 0], types={"Tshift": "int32", "Taxis": "int64"}),
            case(whole(0, 2), [1], [0], types={"Tshift": "int32", "Taxis": "int32"}),
        ],
        MOVED,
        vary="T",
    ),
]
