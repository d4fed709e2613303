"""Rows of crops, sampled boxes and glimpses; more of them against TensorFlow's kernels in test_raw_golden.py."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row


def places(first, last, count, size):
    """Where the pixels of a crop lie along an axis."""
    return np.linspace(first, last, count) * (size - 1) if count > 1 else np.array([(first + last) / 2 * (size - 1)])


def weights(place, size, method):
    """What each pixel of an axis counts at a place; None outside."""
    if not 0 <= place <= size - 1:
        return None
    distance = np.abs(np.arange(size) - place)
    return np.maximum(1 - distance, 0) if method == "bilinear" else (np.arange(size) == np.floor(place + 0.5)) * 1.0


def crop(image, boxes, index, size, method="bilinear", extrapolation_value=0.0):
    out = np.full((len(boxes), *size, image.shape[3]), extrapolation_value)
    for number, ((y1, x1, y2, x2), source) in enumerate(zip(boxes, index, strict=True)):
        for i, y in enumerate(places(y1, y2, size[0], image.shape[1])):
            for j, x in enumerate(places(x1, x2, size[1], image.shape[2])):
                down, across = weights(y, image.shape[1], method), weights(x, image.shape[2], method)
                if down is not None and across is not None:
                    out[number, i, j] = np.einsum("hwc,h,w->c", image[source], down, across)
    return out


def by_image(grads, boxes, index, size, method="bilinear"):
    out = np.zeros(size)
    for number, ((y1, x1, y2, x2), source) in enumerate(zip(boxes, index, strict=True)):
        for i, y in enumerate(places(y1, y2, grads.shape[1], size[1])):
            for j, x in enumerate(places(x1, x2, grads.shape[2], size[2])):
                down, across = weights(y, size[1], method), weights(x, size[2], method)
                if down is not None and across is not None:
                    out[source] += np.einsum("c,h,w->hwc", grads[number, i, j], down, across)
    return out


def by_boxes(grads, image, boxes, index):
    out = np.zeros(boxes.shape)
    step = 1e-6
    for place in np.ndindex(boxes.shape):
        move = np.zeros(boxes.shape)
        move[place] = step
        high, low = (crop(image, boxes + by, index, grads.shape[1:3]) for by in (move, -move))
        out[place] = np.sum(grads * (high - low)) / (2 * step)
    return out


BOXES = [[0.05, 0.1, 0.93, 0.97], [0.9, 0.23, 0.15, 0.83], [0.31, 0.37, 0.63, 0.71]]
OUTSIDE = [[-0.31, 0.1, 1.2, 0.83], [0.21, 0.3, 0.62, 1.43]]
INDEX = [1, 0, 1]


def sampled(values, inputs, attrs):
    begin, size, box = values
    height, width, _ = (int(item) for item in inputs[0])
    top, left, _ = begin.tolist()
    rows, columns, _ = size.tolist()
    assert begin[2] == 0
    assert size[2] == np.array(-1).astype(size.dtype)
    assert 0 <= top < top + rows <= height
    assert 0 <= left < left + columns <= width
    wanted = [top / height, left / width, (top + rows) / height, (left + columns) / width]
    np.testing.assert_allclose(box[0, 0], wanted, 1e-6)
    low, high = attrs["area_range"]
    assert (rows, columns) != (height, width)
    assert low * height * width - width <= rows * columns <= high * height * width + width
    ratios = attrs["aspect_ratio_range"]
    assert ratios[0] - 1 / rows <= columns / rows <= ratios[1] + 1 / rows
    least = float(inputs[2]) if len(inputs) > 2 else attrs["min_object_covered"]
    shown = []
    for y1, x1, y2, x2 in inputs[1].reshape(-1, 4):
        a, b = int(y1 * height), int(x1 * width)
        c, d = int(y2 * height), int(x2 * width)
        shared = max(min(c, top + rows) - max(a, top), 0) * max(min(d, left + columns) - max(b, left), 0)
        shown.append(shared / ((c - a) * (d - b)))
    assert max(shown) >= least


OBJECTS = [[[0.1, 0.2, 0.5, 0.6], [0.5, 0.5, 1.0, 1.0]]]
FIXED = {"area_range": [0.2, 0.8], "aspect_ratio_range": [0.7, 1.3]}


def glimpse(version):
    def reference(images, size, offsets, centered=True, normalized=True, uniform_noise=True, noise="uniform"):
        out = np.zeros((len(images), *size, images.shape[3]))
        for number, (image, offset) in enumerate(zip(images, offsets, strict=True)):
            shape = np.array(image.shape[:2])
            place = offset * shape if normalized else offset
            if centered and (normalized or version == 1):
                place = place / 2
            if centered:
                place = place + shape / 2
            if version == 1 or (centered and normalized):
                place = place - np.array(size) / 2
            top, left = (int(item) for item in place)
            for i, j in np.ndindex(*size):
                if 0 <= top + i < shape[0] and 0 <= left + j < shape[1]:
                    out[number, i, j] = image[top + i, left + j]
        return out

    return reference


GLIMPSES = [
    case(real(2, 5, 6, 2), [3, 2], [[0.13, -0.2], [0.9, 0.8]], uniform_noise=False, noise="zero"),
    case(real(1, 5, 6, 2), [3, 2], [[1.0, 2.0]], normalized=False, centered=False),
    case(real(1, 8, 8, 1), [2, 2], [[0.3, 0.41]], centered=False),
    case(real(1, 8, 8, 1), [2, 2], [[1.3, -1.2]], normalized=False),
]

ROWS = [
    row("CropAndResize", crop,
        [case(real(2, 5, 6, 2), BOXES, INDEX, [4, 3]),
         case(real(2, 5, 6, 2), BOXES, INDEX, [4, 3], method="nearest", grad=False),
         case(real(1, 4, 3, 1), OUTSIDE, [0, 0], [3, 5], extrapolation_value=-1.5, grad=False),
         case(real(1, 4, 3, 1), OUTSIDE, [0, 0], [1, 1]),
         case(real(1, 4, 3, 1), np.zeros((0, 4)), np.zeros(0), [2, 2], grad=False)],
        "float double half uint8 int32", wrt="image boxes", order=1, tolerance=20),
    row("CropAndResizeGradImage", by_image,
        [case(real(3, 4, 3, 2), BOXES, INDEX, [2, 5, 6, 2]),
         case(real(3, 4, 3, 2), BOXES, INDEX, [2, 5, 6, 2], method="nearest"),
         case(real(2, 3, 3, 1), OUTSIDE, [0, 0], [1, 4, 3, 1])], "float half", tolerance=20),
    row("CropAndResizeGradBoxes", by_boxes,
        [case(real(3, 4, 3, 2), real(2, 5, 6, 2), BOXES, INDEX),
         case(real(2, 1, 1, 1), real(1, 4, 3, 1), OUTSIDE, [0, 0])],
        "float double uint8", tolerance=100),
    row("SampleDistortedBoundingBox", None,
        [case([60, 80, 3], OBJECTS, seed=1, seed2=n, min_object_covered=0.3, **FIXED) for n in range(3)],
        "int32 int64 uint8", check=sampled),
    row("SampleDistortedBoundingBoxV2", None,
        [case([60, 80, 3], OBJECTS, 0.5, seed=1, seed2=n, **FIXED) for n in range(3)], check=sampled),
    row("StatelessSampleDistortedBoundingBox", None,
        [case([60, 80, 3], OBJECTS, 0.5, [n, 7], **FIXED) for n in range(3)],
        check=lambda values, inputs, attrs: sampled(values, inputs[:3], attrs)),
    row("ExtractGlimpse", glimpse(1), GLIMPSES),
    row("ExtractGlimpseV2", glimpse(2), GLIMPSES),
]  # fmt: skip
