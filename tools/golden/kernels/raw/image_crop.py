"""Cases of crops, sampled boxes and glimpses."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(7)
IMAGE = RANDOM.uniform(0, 9, (2, 5, 7, 2)).astype(np.float32)
BOXES = np.float32(
    [[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.8, 0.9, 0.1, 0.3], [-0.3, 0.1, 1.2, 0.8], [0.5, 0.5, 0.5, 0.5]]
)
INDEX = np.int32([0, 1, 1, 0, 1])
GRADS = RANDOM.uniform(-1, 1, (5, 4, 3, 2)).astype(np.float32)
OBJECTS = np.float32([[[0.2, 0.3, 0.6, 0.8], [0.5, 0.0, 0.9, 0.4]]])


def box(*inputs, kind="", **attrs):
    """A sampled box, five times."""
    return case(f"SampleDistortedBoundingBox{kind}", *inputs, seed=3, seed2=9, runs=5, **attrs)


def stateless(seed, size=(60, 80, 3), **attrs):
    """A sampled box of a seed."""
    inputs = np.int32(size), OBJECTS, np.float32(0.1), np.int64(seed)
    return case("StatelessSampleDistortedBoundingBox", *inputs, **attrs)


CASES = {
    "crop": case("CropAndResize", IMAGE, BOXES, INDEX, np.int32([4, 3])),
    "crop, nearest": case("CropAndResize", IMAGE, BOXES, INDEX, np.int32([4, 3]), method="nearest"),
    "crop, one pixel": case("CropAndResize", IMAGE, BOXES, INDEX, np.int32([1, 1]), extrapolation_value=-2.0),
    "crop, bytes": case(
        "CropAndResize", IMAGE.astype(np.uint8), BOXES, INDEX, np.int32([6, 8]), extrapolation_value=1.5
    ),
    "gradient by image": case("CropAndResizeGradImage", GRADS, BOXES, INDEX, np.int32([2, 5, 7, 2]), T=np.float32),
    "gradient by image, nearest": case(
        "CropAndResizeGradImage", GRADS, BOXES, INDEX, np.int32([2, 5, 7, 2]), T=np.float64, method="nearest"
    ),
    "gradient by boxes": case("CropAndResizeGradBoxes", GRADS, IMAGE, BOXES, INDEX),
    "gradient by boxes, one pixel": case("CropAndResizeGradBoxes", GRADS[:, :1, :1], IMAGE, BOXES, INDEX),
    "box": box(np.int32([60, 80, 3]), OBJECTS),
    "box, much of the object": box(np.int64([61, 43, 3]), OBJECTS, min_object_covered=0.8, area_range=[0.2, 0.7]),
    "box, second version": box(np.int32([64, 64, 1]), OBJECTS, np.float32(0.5), kind="V2"),
    "box, narrow": box(np.int32([30, 200, 3]), OBJECTS, aspect_ratio_range=[3.0, 5.0], area_range=[0.05, 0.9]),
    "box, impossible": box(np.int32([30, 200, 3]), OBJECTS, min_object_covered=2.0, max_attempts=7),
    "box, no object": box(np.int32([60, 80, 3]), np.zeros((1, 0, 4), np.float32), use_image_if_no_bounding_boxes=True),
    "box, stateless": stateless([1, 2]),
    "box, stateless, other": stateless([77, -3], (9, 9, 1), area_range=[0.3, 1.0]),
    "glimpse": case(
        "ExtractGlimpse",
        IMAGE,
        np.int32([3, 2]),
        np.float32([[0.1, -0.2], [-0.3, 0.2]]),
        uniform_noise=False,
        noise="zero",
    ),
    "glimpse, second version": case(
        "ExtractGlimpseV2",
        IMAGE,
        np.int32([3, 2]),
        np.float32([[1, -1], [-1, 2]]),
        normalized=False,
        uniform_noise=False,
        noise="zero",
    ),
    "glimpse, in pixels": case(
        "ExtractGlimpse",
        IMAGE,
        np.int32([3, 2]),
        np.float32([[1, -1], [-1, 2]]),
        normalized=False,
        uniform_noise=False,
        noise="zero",
    ),
    "glimpse, from the corner": case(
        "ExtractGlimpse", IMAGE, np.int32([3, 2]), np.float32([[2, 3], [2.6, 4]]), normalized=False, centered=False
    ),
    "glimpse, second version, from the corner": case(
        "ExtractGlimpseV2", IMAGE, np.int32([3, 2]), np.float32([[2, 3], [2.6, 4]]), normalized=False, centered=False
    ),
    "glimpse, second version, parts from the corner": case(
        "ExtractGlimpseV2", IMAGE, np.int32([2, 2]), np.float32([[0.5, 0.4], [0.6, 0.7]]), centered=False
    ),
    "glimpse, over the edge": case(
        "ExtractGlimpseV2",
        IMAGE,
        np.int32([4, 4]),
        np.float32([[0.9, 0.9], [-1.0, 0.1]]),
        uniform_noise=False,
        noise="zero",
    ),
}
