"""Rows of slices, paddings and blocks."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import ANY, case, real, row

STRINGS = ANY + " string"
MOVED = "float double bfloat16 int8 uint64 bool complex128 string"
"""For ops that move elements and never look at them: one dtype of each kind."""
INT32 = {"Index": "int32"}
MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def key(begin, end, strides, **masks):
    """The NumPy index that a strided slice stands for, written out from the masks."""
    found = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides, strict=True)):
        on = {name: masks.get(name, 0) >> i & 1 for name in MASKS}
        if on["ellipsis_mask"]:
            found.append(Ellipsis)
        elif on["new_axis_mask"]:
            found.append(None)
        elif on["shrink_axis_mask"]:
            found.append(int(b))
        else:
            found.append(slice(None if on["begin_mask"] else int(b), None if on["end_mask"] else int(e), int(s)))
    return (*found, Ellipsis) if Ellipsis not in found else tuple(found)


def put(x, begin, end, strides, value, **masks):
    x = np.array(x)
    x[key(begin, end, strides, **masks)] = value
    return x


def put_inside(x, update, starts):
    x = np.array(x)
    moved = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, x.shape, update.shape, strict=True)]
    x[tuple(slice(s, s + m) for s, m in zip(moved, update.shape, strict=True))] = update
    return x


SLICES = [  # shape, begin, end, strides, masks, shape of the result
    ((4, 5), [1, 0], [3, 5], [1, 2], {}, (2, 3)),
    ((4, 5), [-1, 4], [0, -6], [-2, -1], {}, (2, 5)),
    ((4, 5), [2], [3], [1], {"shrink_axis_mask": 1}, (5,)),
    ((4, 5), [-1, 0, 1], [0, 0, 4], [1, 1, 1], {"shrink_axis_mask": 1, "new_axis_mask": 2}, (1, 3)),
    ((2, 3, 4), [0, 1], [0, 2], [1, 1], {"ellipsis_mask": 1, "shrink_axis_mask": 2}, (2, 3)),
    ((2, 3, 4), [0, 0, 3], [0, 0, 1], [1, 1, -1], {"begin_mask": 1, "end_mask": 1, "ellipsis_mask": 2}, (2, 3, 2)),
    (
        (2, 3, 4),
        [0, 0, 0],
        [0, 9, 0],
        [1, 1, 1],
        {"new_axis_mask": 5, "begin_mask": 2, "ellipsis_mask": 0},
        (1, 2, 1, 3, 4),
    ),
    ((4,), [9], [-9], [-3], {}, (2,)),
    ((4,), [3], [1], [1], {}, (0,)),
    ((3,), [0], [0], [-1], {"begin_mask": 1, "end_mask": 1}, (3,)),
]
EMPTY = np.zeros(0, np.int32)


def at(x, begin, end, strides, **masks):
    return x[key(begin, end, strides, **masks)]


def laid_back(shape, begin, end, strides, dy, **masks):
    return put(
        np.full(shape, b"", object) if dy.dtype == object else np.zeros(shape, dy.dtype),
        begin,
        end,
        strides,
        dy,
        **masks,
    )


def cut(x, begin, size):
    return x[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size, strict=True))]


def padded(x, paddings, value=None):
    if value is None:
        value = b"" if x.dtype == object else 0
    shape = [size + int(sum(pair)) for size, pair in zip(x.shape, paddings, strict=True)]
    found = np.full(shape, value, x.dtype)
    found[tuple(slice(b, b + size) for (b, _), size in zip(paddings, x.shape, strict=True))] = x
    return found


def mirrored_places(size, before, after, mode):
    whole = list(range(size))
    inner = whole[1:-1] if mode == "REFLECT" else whole[::-1]
    period = whole + inner[::-1] if mode == "REFLECT" else whole + inner
    return [period[i % len(period)] for i in range(-before, size + after)]


def mirrored(x, paddings, mode):
    for dim, (before, after) in enumerate(paddings):
        x = np.take(x, mirrored_places(x.shape[dim], int(before), int(after), mode), axis=dim)
    return x


def folded(x, paddings, mode):
    for dim, (before, after) in enumerate(paddings):
        size = x.shape[dim] - int(before) - int(after)
        found = np.zeros((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype)
        for i, place in enumerate(mirrored_places(size, int(before), int(after), mode)):
            lead = (slice(None),) * dim
            found[(*lead, place)] += x[(*lead, i)]
        x = found
    return x


def deeper(x, block_size, data_format="NHWC"):
    if data_format == "NCHW":
        return np.moveaxis(deeper(np.moveaxis(x, 1, -1), block_size), -1, 1)
    n, h, w, d = x.shape
    found = np.empty((n, h // block_size, w // block_size, block_size * block_size * d), x.dtype)
    for i, j, k in np.ndindex(block_size, block_size, d):
        found[..., (i * block_size + j) * d + k] = x[:, i::block_size, j::block_size, k]
    return found


def flatter(x, block_size, data_format="NHWC"):
    if data_format == "NCHW":
        return np.moveaxis(flatter(np.moveaxis(x, 1, -1), block_size), -1, 1)
    n, h, w, d = x.shape
    d //= block_size * block_size
    found = np.empty((n, h * block_size, w * block_size, d), x.dtype)
    for i, j, k in np.ndindex(block_size, block_size, d):
        found[:, i::block_size, j::block_size, k] = x[..., (i * block_size + j) * d + k]
    return found


def lanes_last(op):
    """The op on NCHW_VECT_C by way of plain NCHW."""

    def run(x, block_size, data_format="NHWC"):
        if data_format != "NCHW_VECT_C":
            return op(x, block_size, data_format)
        n, d, h, w, lanes = x.shape
        flat = op(np.moveaxis(x, 4, 2).reshape(n, d * lanes, h, w), block_size, "NCHW")
        n, d, h, w = flat.shape
        return np.moveaxis(flat.reshape(n, d // lanes, lanes, h, w), 2, 4)

    return run


def to_batch(x, block, paddings):
    rest = [(0, 0)] * (x.ndim - 1 - len(block))
    x = padded(x, [(0, 0), *paddings, *rest])
    parts = [
        x[(slice(None), *(slice(o, None, b) for o, b in zip(at_, block, strict=True)))] for at_ in np.ndindex(*block)
    ]
    return np.concatenate(parts)


def to_space(x, block, crops):
    n = x.shape[0] // int(np.prod(block))
    space = [size * int(b) for size, b in zip(x.shape[1:], block, strict=False)]
    found = np.empty((n, *space, *x.shape[1 + len(block) :]), x.dtype)
    for number, at_ in enumerate(np.ndindex(*[int(b) for b in block])):
        found[(slice(None), *(slice(o, None, b) for o, b in zip(at_, block, strict=True)))] = x[
            number * n : number * n + n
        ]
    return found[(slice(None), *(slice(b, size - a) for (b, a), size in zip(crops, space, strict=True)))]


def patches(x, ksizes, strides, padding, rates=None):
    dims = len(ksizes) - 2
    rates = rates or [1] * len(ksizes)
    reach = [(k - 1) * r + 1 for k, r in zip(ksizes, rates, strict=True)]
    if padding == "SAME":
        counts = [-(-x.shape[i] // strides[i]) for i in range(1, dims + 1)]
        around = [max(0, (c - 1) * strides[i] + reach[i] - x.shape[i]) for i, c in enumerate(counts, 1)]
        x = np.pad(x, [(0, 0), *((a // 2, a - a // 2) for a in around), (0, 0)])
    else:
        counts = [max(0, (x.shape[i] - reach[i]) // strides[i] + 1) for i in range(1, dims + 1)]
    found = np.zeros((x.shape[0], *counts, int(np.prod(ksizes)), x.shape[-1]), x.dtype)
    for place in np.ndindex(*counts):
        for number, offset in enumerate(np.ndindex(*ksizes[1:-1])):
            where = tuple(p * s + o * r for p, s, o, r in zip(place, strides[1:], offset, rates[1:], strict=False))
            found[(slice(None), *place, number)] = x[(slice(None), *where)]
    return found.reshape(*found.shape[:-2], found.shape[-2] * found.shape[-1])


ROWS = [
    row(
        "StridedSlice",
        at,
        [case(real(*s), b, e, t, types=INT32, **m) for s, b, e, t, m, _ in SLICES]
        + [case(real(2), EMPTY, EMPTY, EMPTY, types=INT32)],
        STRINGS,
    ),
    row(
        "StridedSliceGrad",
        laid_back,
        [case(list(s), b, e, t, real(*out), types=INT32, **m) for s, b, e, t, m, out in SLICES],
        "float double bfloat16 int8 uint64 bool complex128",
    ),
    row(
        "StridedSliceAssign",
        put,
        [case(real(*s), b, e, t, real(*out), types=INT32, **m) for s, b, e, t, m, out in SLICES]
        + [case(real(2, 3), [0], [2], [1], real(3), types=INT32)],
        MOVED,
    ),
    row(
        "ResourceStridedSliceAssign",
        put,
        [case(real(*s), b, e, t, real(*out), types=INT32, **m) for s, b, e, t, m, out in SLICES],
        MOVED,
    ),
    row(
        "TensorStridedSliceUpdate",
        put,
        [case(real(*s), b, e, t, real(*out), types=INT32, **m) for s, b, e, t, m, out in SLICES]
        + [case(real(2, 3), [0], [2], [1], real(3), types=INT32), case(real(2, 3), [0], [2], [1], real(), types=INT32)],
        MOVED,
    ),
    row(
        "XlaDynamicUpdateSlice",
        put_inside,
        [
            case(real(4, 5), real(2, 3), [1, 2], types={"Tindices": "int32"}),
            case(real(4, 5), real(2, 3), [9, -1], types={"Tindices": "int64"}),
            case(real(3), real(3), [2], types={"Tindices": "int32"}),
            case(real(), real(), np.zeros(0, np.int32), types={"Tindices": "int32"}),
        ],
        "float double bfloat16 int8 uint64 bool complex128",
    ),
    row(
        "Slice",
        cut,
        [
            case(real(3, 4), [1, 0], [2, 3], types=INT32),
            case(real(3, 4), [1, 2], [-1, -1], types={"Index": "int64"}),
            case(real(3), [3], [0], types=INT32),
            case(real(), EMPTY, EMPTY, types=INT32),
        ],
        MOVED,
    ),
    row("Pad", padded, [case(real(2, 3), [[1, 0], [0, 2]]), case(real(), np.zeros((0, 2), np.int32))], STRINGS),
    row(
        "PadV2",
        padded,
        [
            case(real(2, 3), [[1, 0], [0, 2]], real()),
            case(real(0, 2), [[1, 1], [0, 0]], real(), types={"Tpaddings": "int64"}),
        ],
        MOVED,
        gaps={"order 1": "TensorFlow gives the value that is padded with no gradient"},
    ),
    row(
        "MirrorPad",
        mirrored,
        [
            case(real(3, 4), [[1, 2], [0, 3]], mode="REFLECT"),
            case(real(3, 4), [[3, 2], [1, 4]], mode="SYMMETRIC", types={"Tpaddings": "int64"}),
            case(real(2), [[0, 0]], mode="REFLECT"),
        ],
        MOVED,
    ),
    row(
        "MirrorPadGrad",
        folded,
        [
            case(real(6, 5), [[1, 2], [0, 2]], mode="REFLECT"),
            case(real(8, 5), [[3, 2], [1, 0]], mode="SYMMETRIC"),
            case(real(3), [[0, 0]], mode="REFLECT"),
        ],
        "half float double int32 int64 complex64 complex128",
    ),
    row(
        "SpaceToDepth",
        lanes_last(deeper),
        [
            case(real(2, 4, 6, 3), block_size=2),
            case(real(2, 3, 4, 6), block_size=2, data_format="NCHW"),
            case(real(1, 1, 4, 2, 4), block_size=2, data_format="NCHW_VECT_C"),
        ],
        MOVED,
    ),
    row(
        "DepthToSpace",
        lanes_last(flatter),
        [
            case(real(2, 2, 3, 8), block_size=2),
            case(real(2, 9, 1, 2), block_size=3, data_format="NCHW"),
            case(real(1, 4, 1, 2, 4), block_size=2, data_format="NCHW_VECT_C"),
        ],
        MOVED,
    ),
    row(
        "SpaceToBatchND",
        to_batch,
        [
            case(real(2, 4, 3, 2), [2, 3], [[1, 1], [0, 3]]),
            case(real(1, 4), [2], [[0, 0]], types={"Tblock_shape": "int64", "Tpaddings": "int64"}),
            case(real(2, 3), EMPTY, np.zeros((0, 2), np.int32)),
        ],
        MOVED,
    ),
    row(
        "BatchToSpaceND",
        to_space,
        [
            case(real(6, 2, 3, 2), [2, 3], [[1, 0], [0, 2]]),
            case(real(4, 4), [2], [[0, 0]], types={"Tblock_shape": "int64", "Tcrops": "int64"}),
            case(real(2, 3), EMPTY, np.zeros((0, 2), np.int32)),
        ],
        MOVED,
    ),
    row(
        "SpaceToBatch",
        lambda x, paddings, block_size: to_batch(x, [block_size] * 2, paddings),
        [case(real(1, 3, 4, 2), [[0, 1], [0, 0]], block_size=2)],
        MOVED,
    ),
    row(
        "BatchToSpace",
        lambda x, crops, block_size: to_space(x, [block_size] * 2, crops),
        [case(real(4, 2, 2, 1), [[0, 1], [1, 0]], block_size=2)],
        MOVED,
    ),
    row(
        "ExtractImagePatches",
        patches,
        [
            case(real(2, 5, 6, 2), ksizes=[1, 3, 2, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="VALID"),
            case(real(1, 4, 5, 1), ksizes=[1, 3, 3, 1], strides=[1, 2, 3, 1], rates=[1, 1, 1, 1], padding="SAME"),
            case(real(1, 2, 2, 1), ksizes=[1, 3, 3, 1], strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="VALID"),
        ],
    ),
    row(
        "ExtractVolumePatches",
        patches,
        [
            case(real(1, 3, 4, 3, 2), ksizes=[1, 2, 2, 1, 1], strides=[1, 1, 2, 1, 1], padding="VALID"),
            case(real(1, 3, 2, 3, 1), ksizes=[1, 2, 3, 2, 1], strides=[1, 2, 1, 2, 1], padding="SAME"),
        ],
    ),
]
