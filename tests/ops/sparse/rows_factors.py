"""Rows of the sums that weighted alternating least squares are made of."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row

PLACES = np.array([[2, 0], [0, 1], [2, 3], [0, 3], [2, 1]])
VALUES = np.array([1.5, -2.0, 0.5, 3.0, 1.0])
NONE = np.zeros(0)
FACTOR_WEIGHTS, ROW_WEIGHTS = np.array([0.5, 1.0, 9.0, 0.0]), np.array([2.0, 1.0, 0.25])


def sides(factors, factor_weights, unobserved, weights, places, values, entry_weights, size, transposed):
    left = np.zeros([int(size), factors.shape[1], factors.shape[1]])
    right = np.zeros([int(size), factors.shape[1]])
    for k, (i, j) in enumerate(places[:, ::-1] if transposed else places):
        weight = entry_weights[k] if len(entry_weights) else weights[i] * factor_weights[j]
        left[i] += weight * np.outer(factors[j], factors[j])
        right[i] += (unobserved + weight) * values[k] * factors[j]
    return left, right


def products(a, b, places, transpose_a, transpose_b):
    whole = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    return whole[tuple(places.T)]


ROWS = [
    row(
        "WALSComputePartialLhsAndRhs",
        sides,
        [
            case(real(4, 3), FACTOR_WEIGHTS, 0.1, ROW_WEIGHTS, PLACES, VALUES, NONE, 3, False),
            case(real(4, 2), FACTOR_WEIGHTS, 0.0, ROW_WEIGHTS, PLACES[:, ::-1].copy(), VALUES, NONE, 3, True),
            case(real(4, 2), NONE, 0.1, NONE, PLACES, VALUES, np.array([0.5, 1.0, 0.0, 2.0, 1.5]), 3, False),
            case(real(4, 2), FACTOR_WEIGHTS, 0.1, ROW_WEIGHTS, PLACES[:0], VALUES[:0], NONE, 2, False),
        ],
        tolerance=4,
        open_shape="how many rows there are is a value",
    ),
    row(
        "MaskedMatmul",
        products,
        [
            case(real(3, 2), real(2, 4), PLACES, False, False),
            case(real(2, 3), real(4, 2), PLACES, True, True),
            case(real(3, 2), real(4, 2), PLACES[:0], False, True),
        ],
        tolerance=4,
    ),
]
