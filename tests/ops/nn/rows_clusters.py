"""Rows of what k-means is made of. Which points are chosen is what TensorFlow 1.15.5 chose for the same seeds."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row

POINTS = (np.sin(np.arange(36) * 1.7) * 3).reshape(12, 3).astype(np.float32)
DISTANCES = (POINTS**2).sum(1)
LARGE = 2**40 + 5

CHOSEN = {
    (1, 0, 0): [9],
    (4, 0, 0): [9, 7, 0, 8],
    (5, 0, 2): [0, 3, 1, 2, 4],
    (12, 0, -1): [0, 2, 4, 3, 6, 10, 11, 8, 5, 1, 7, 9],
    (4, 7, 0): [1, 5, 9, 3],
    (12, 7, -1): [3, 6, 5, 2, 9, 8, 11, 0, 10, 1, 7, 4],
    (1, LARGE, 0): [2],
    (5, LARGE, 2): [8, 0, 9, 7, 6],
}
LAST = {0: 11, 7: 11, LARGE: 10}


def nearest(points, centers, k):
    distances = ((points[:, None].astype(np.float64) - centers[None]) ** 2).sum(2)
    order = np.argsort(distances, axis=1, kind="stable")[:, : int(k)]
    return order, np.take_along_axis(distances, order, 1)


TIED = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])

ROWS = [
    row(
        "NearestNeighbors",
        nearest,
        [
            case(real(7, 3), real(4, 3), 1),
            case(real(7, 3), real(4, 3), 3),
            case(real(2, 3), real(4, 3), 9),
            case(real(2, 3), real(4, 3), 0),
            case(real(2, 3), real(0, 3), 1),
            case([[1.0, 1.0]], TIED, 1),
            case([[1.0, 1.0]], TIED, 3),
        ],
        tolerance=4,
        open_shape="how many there are is a value",
    ),
    row(
        "KmeansPlusPlusInitialization",
        lambda points, count, seed, retries: points[CHOSEN[int(count), int(seed), int(retries)]],
        [case(POINTS, *numbers) for numbers in CHOSEN],
        open_shape="how many there are is a value",
    ),
    row(
        "KMC2ChainInitialization", lambda distances, seed: np.int64(LAST[int(seed)]), [case(DISTANCES, s) for s in LAST]
    ),
]
