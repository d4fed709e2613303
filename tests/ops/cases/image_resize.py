"""Resizing: each new pixel from its place in the old image, found with a loop; gradients; counts by row."""

from __future__ import annotations

import math

import numpy as np

from anabranch.testing.op_cases import case, elsewhere, real, row, whole

ANY = "float half bfloat16 double int8 uint8 int16 uint16 int32 int64"


def place(i: int, size: int, new: int, align: bool, half: bool, nearest: bool = False) -> float:
    """Where new position ``i`` lies in the old image."""
    scale = (size - 1) / (new - 1) if align and new > 1 else size / new
    if half:
        return (i + 0.5) * scale - (0.0 if nearest else 0.5)
    return i * scale


def matrix(size: int, new: int, align: bool, half: bool, nearest: bool) -> np.ndarray:
    """Share of each old pixel in each new one: ``[new, size]``."""
    found = np.zeros([new, size])
    for i in range(new):
        at = place(i, size, new, align, half, nearest)
        if nearest:
            k = math.floor(at + 0.5) if align else math.floor(at)
            found[i, min(max(k, 0), size - 1)] += 1
        else:
            low = math.floor(at)
            found[i, min(max(low, 0), size - 1)] += 1 - (at - low)
            found[i, min(max(low + 1, 0), size - 1)] += at - low
    return found


def resized(nearest: bool):
    def reference(image, size, align_corners=False, half_pixel_centers=False):
        flags = (align_corners, half_pixel_centers, nearest)
        rows = matrix(image.shape[1], int(size[0]), *flags)
        columns = matrix(image.shape[2], int(size[1]), *flags)
        found = np.einsum("ih,jw,bhwc->bijc", rows, columns, image)
        return found if nearest else found.astype(np.float32)

    return reference


def back(nearest: bool):
    def reference(grads, like, align_corners=False, half_pixel_centers=False):
        size = like if nearest else like.shape[1:3]
        flags = (align_corners, half_pixel_centers, nearest)
        rows = matrix(int(size[0]), grads.shape[1], *flags)
        columns = matrix(int(size[1]), grads.shape[2], *flags)
        return np.einsum("ih,jw,bijc->bhwc", rows, columns, grads)

    return reference


FLAGS = ({}, {"align_corners": True}, {"half_pixel_centers": True})
SIZES = (np.int32([5, 7]), np.int32([2, 3]), np.int32([4, 6]), np.int32([1, 1]))
CALLS = [*((SIZES[0], flags) for flags in FLAGS), (SIZES[1], FLAGS[2]), (SIZES[2], FLAGS[2]), (SIZES[3], FLAGS[1])]


def bins(values, size, weights, binary_output=False):
    rows = values.reshape(-1, values.shape[-1]).astype(int)
    amounts = (weights if weights.size else np.ones(values.shape)).reshape(rows.shape)
    found = np.zeros([len(rows), int(size)])
    for i, line in enumerate(rows):
        for value, amount in zip(line, amounts[i], strict=True):
            if value < size:
                found[i, value] = 1 if binary_output else found[i, value] + amount
    return found.reshape(*values.shape[:-1], int(size))


ROWS = [
    row(
        "ResizeBilinear",
        resized(False),
        [case(real(2, 4, 6, 3), size, **flags) for size, flags in CALLS],
        ANY,
        gaps={"order 1": "the result is float32, too coarse for differences; tests/ops/test_image_resize.py checks it"},
    ),
    row(
        "ResizeNearestNeighbor",
        resized(True),
        [case(whole(2, 4, 6, 3), size, **flags) for size, flags in CALLS],
        ANY,
    ),
    row(
        "ResizeBilinearGrad",
        back(False),
        [case(real(2, *size, 3), real(2, 4, 6, 3), types={"T": "float"}, **f) for size, f in CALLS[:4]],
        order=1,
    ),
    row(
        "ResizeNearestNeighborGrad",
        back(True),
        [case(whole(2, *size, 3), np.int32([4, 6]), **flags) for size, flags in CALLS[:4]],
        "float double half bfloat16 int32",
    ),
    row(
        "DenseBincount",
        bins,
        [
            case(np.int32([0, 3, 3, 9]), np.int32(5), np.array([1.0, 2.0, 4.0, 3.0])),
            case(np.int32([[0, 3, 3], [1, 1, 1]]), np.int32(4), np.zeros(0)),
            case(np.int32([[0, 3, 3], [1, 1, 1]]), np.int32(4), np.zeros(0), binary_output=True),
        ],
        "float double int32 int64",
        vary="T",
    ),
    elsewhere("RaggedTensorToTensor", "tests/ops/test_ragged.py"),
]
