"""Rows of pooling by windows of random sizes. References walk over every window."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row, whole

TYPES = "double float int32 int64"


def windows(rows, columns, height, width, overlapping):
    """Output place and slices of each window."""
    for r in range(len(rows) - 1):
        for c in range(len(columns) - 1):
            bottom = min(rows[r + 1] + overlapping, height)
            right = min(columns[c + 1] + overlapping, width)
            yield r, c, slice(int(rows[r]), int(bottom)), slice(int(columns[c]), int(right))


def check_sequence(sequence, size, ratio):
    out = int(size / ratio)
    steps = np.diff(sequence)
    assert sequence[0] == 0
    assert sequence[-1] == size
    assert len(steps) == out
    assert set(steps.tolist()) <= {size // out, size // out + 1}


def pooled(combine):
    def check(values, inputs, attrs):
        (x,), (found, rows, columns) = inputs, values
        overlapping = attrs.get("overlapping", False)
        check_sequence(rows, x.shape[1], attrs["pooling_ratio"][1])
        check_sequence(columns, x.shape[2], attrs["pooling_ratio"][2])
        for r, c, down, across in windows(rows, columns, x.shape[1], x.shape[2], overlapping):
            wide = x[:, down, across, :].astype(np.float64)
            np.testing.assert_allclose(found[:, r, c, :], combine(wide).astype(x.dtype), 1e-5, 1e-6)

    return check


def largest(x):
    return x.max((1, 2))


def mean(x):
    return np.trunc(x.sum((1, 2)) / (x.shape[1] * x.shape[2]) * (1 << 20)) / (1 << 20)


def max_pool(x, rows, columns, overlapping=False):
    out = np.zeros((len(x), len(rows) - 1, len(columns) - 1, x.shape[3]), x.dtype)
    for r, c, down, across in windows(rows, columns, x.shape[1], x.shape[2], overlapping):
        out[:, r, c] = x[:, down, across].max((1, 2))
    return out


def max_grad(x, y, dy, rows, columns, overlapping=False):
    dx = np.zeros_like(x)
    for r, c, down, across in windows(rows, columns, x.shape[1], x.shape[2], overlapping):
        part = x[:, down, across]
        for b in range(len(x)):
            for k in range(x.shape[3]):
                h, w = np.unravel_index(part[b, :, :, k].argmax(), part.shape[1:3])
                dx[b, down.start + h, across.start + w, k] += dy[b, r, c, k]
    return dx


def avg_grad(shape, dy, rows, columns, overlapping=False):
    dx = np.zeros([int(size) for size in shape])
    for r, c, down, across in windows(rows, columns, shape[1], shape[2], overlapping):
        part = dx[:, down, across]
        part += (dy[:, r, c, :] / (part.shape[1] * part.shape[2]))[:, None, None, :]
    return np.trunc(dx).astype(dy.dtype) if dy.dtype.kind == "i" else dx


ROWS_OF, COLUMNS_OF = [0, 2, 3, 5, 7], [0, 1, 3, 4]
RANDOM = np.random.RandomState(4)
IMAGES = np.round(4 * RANDOM.randn(2, 7, 4, 3))  # with ties
RATIOS = [1.0, 1.7, 1.3, 1.0]
CALLS = [
    case(whole(2, 7, 5, 3, distinct=False, low=-9, high=9), pooling_ratio=RATIOS, seed=3, seed2=4, deterministic=True),
    case(real(2, 17, 5, 3), pooling_ratio=[1.0, 1.44, 1.2, 1.0], pseudo_random=True, overlapping=True),
    case(real(1, 12, 9, 1), pooling_ratio=[1.0, 3.5, 1.5, 1.0], overlapping=True),
    case(real(1, 12, 9, 1), pooling_ratio=[1.0, 3.5, 1.5, 1.0], pseudo_random=True, seed=5, deterministic=True),
    case(real(1, 8, 9, 1), pooling_ratio=[1.0, 2.0, 1.0, 1.0]),
    case(real(0, 8, 9, 1), pooling_ratio=[1.0, 2.0, 1.0, 1.0], deterministic=True),
]

ROWS = [
    row("FractionalMaxPool", None, CALLS, TYPES, check=pooled(largest), order=0),
    row("FractionalAvgPool", None, [CALLS[1], *CALLS[2:]], "float double", check=pooled(mean), order=0),
    row(
        "FractionalMaxPoolGrad",
        max_grad,
        [
            case(IMAGES, max_pool(IMAGES, ROWS_OF, COLUMNS_OF), whole(2, 4, 3, 3), ROWS_OF, COLUMNS_OF),
            case(
                IMAGES,
                max_pool(IMAGES, ROWS_OF, COLUMNS_OF, True),
                real(2, 4, 3, 3),
                ROWS_OF,
                COLUMNS_OF,
                overlapping=True,
            ),
        ],
        TYPES,
    ),
    row(
        "FractionalAvgPoolGrad",
        avg_grad,
        [
            case([2, 7, 4, 3], whole(2, 4, 3, 3, low=-50, high=50), ROWS_OF, COLUMNS_OF),
            case([2, 7, 4, 3], real(2, 4, 3, 3), ROWS_OF, COLUMNS_OF, overlapping=True),
        ],
        TYPES,
    ),
]
