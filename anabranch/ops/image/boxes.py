"""Boxes in images: drawing them, and keeping of many that overlap the best. On the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Float, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.ops.image.non_max_suppression import check_threshold, overlaps_of, select

_HALVES = "float half"
_NO_GRADIENT = NotDifferentiable("which boxes are kept is a choice")


def _suppress(ctx: Any, boxes: np.ndarray, scores: np.ndarray, size: Any, overlap: Any, least: Any) -> np.ndarray:
    """Indices of boxes by falling score that overlap none before by more than a part of their union."""
    check_threshold(ctx, float(overlap))
    chosen, _ = select(scores, overlaps_of(boxes), int(size), float(overlap), float(least))
    return np.array(chosen, np.int32)


def _selected(c: Any) -> Any:
    boxes = c.with_rank("boxes", 2)
    scores = c.with_rank("scores", 1)
    shapes.merge_dim(boxes[0], scores[0])
    if boxes[1] not in (None, 4):
        raise ValueError(
            f"Dimension must be 4 but is {boxes[1]}\n"
            + errors.message(f"boxes of shape {shapes.show(boxes)}", "[n, 4]", "[y1, x1, y2, x2] each")
        )
    c.with_rank("max_output_size", 0)
    return (None,)


class NonMaxSuppression(Op):
    """Indices of the best boxes that do not overlap each other by more than ``iou_threshold`` of their union."""

    signature = "boxes: float, scores: float, max_output_size: int32 -> selected_indices: int32"
    attrs = {"iou_threshold": Float(0.5)}
    effect = PURE
    shape = _selected
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        boxes, scores, size = inputs
        return _suppress(ctx, boxes, scores, size, attrs["iou_threshold"], -np.inf)


class NonMaxSuppressionV2(Op):
    """NonMaxSuppression with the threshold as an operand."""

    signature = "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold -> selected_indices: int32"
    attrs = {"T": Type(_HALVES, "float"), "T_threshold": Type(_HALVES, "float")}
    effect = PURE
    ranks = {"iou_threshold": 0}
    shape = _selected
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        boxes, scores, size, overlap = inputs
        return _suppress(ctx, boxes, scores, size, overlap, -np.inf)


class NonMaxSuppressionV3(Op):
    """NonMaxSuppressionV2 that leaves out boxes whose score is not above ``score_threshold``."""

    signature = (
        "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, score_threshold: T_threshold "
        "-> selected_indices: int32"
    )
    attrs = {"T": Type(_HALVES, "float"), "T_threshold": Type(_HALVES, "float")}
    effect = PURE
    ranks = {"iou_threshold": 0, "score_threshold": 0}
    shape = _selected
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        boxes, scores, size, overlap, least = inputs
        return _suppress(ctx, boxes, scores, size, overlap, least)


# The colours that boxes are drawn in, one after another, in red, green, blue and alpha.
_COLOURS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)


def _drawn(images: np.ndarray, boxes: np.ndarray, colours: np.ndarray) -> np.ndarray:
    if images.shape[3] not in (1, 3, 4):
        raise errors.InvalidArgumentError(
            None,
            None,
            "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)\n"
            + errors.message(
                f"images of {images.shape[3]} channels",
                "images of 1, 3 or 4 channels",
                "tf.image.grayscale_to_rgb(images[..., :1])",
            ),
        )
    if boxes.shape[0] != images.shape[0] or boxes.shape[2] != 4:
        raise errors.InvalidArgumentError(
            None,
            None,
            ("The batch sizes should be the same\n" if boxes.shape[0] != images.shape[0] else "")
            + errors.message(
                f"boxes of shape {shapes.show(boxes.shape)} for {images.shape[0]} images",
                f"the shape [{images.shape[0]}, boxes, 4]",
                "boxes[None] for one image",
            ),
        )
    if colours.ndim != 2 or colours.shape[1] < images.shape[3]:
        raise errors.InvalidArgumentError(
            None,
            None,
            errors.message(
                f"colors of shape {shapes.show(colours.shape)} for {images.shape[3]} channels",
                f"a matrix of colors of {images.shape[3]} numbers or more",
                "colors=[[1.0, 0.0, 0.0, 1.0]]",
            ),
        )
    out = np.array(images)
    _, height, width, channels = images.shape
    for image, rows in zip(out, boxes, strict=True):
        for number, (top, left, bottom, right) in enumerate(rows):
            colour = colours[number % len(colours)][:channels] if channels > 1 else np.ones(1, np.float32)
            y1, y2 = int(np.float32(top) * (height - 1)), int(np.float32(bottom) * (height - 1))
            x1, x2 = int(np.float32(left) * (width - 1)), int(np.float32(right) * (width - 1))
            if y1 > y2 or x1 > x2 or y1 >= height or y2 < 0 or x1 >= width or x2 < 0:
                continue
            ya, yb, xa, xb = max(y1, 0), min(y2, height - 1), max(x1, 0), min(x2, width - 1)
            for y in (y1, y2):
                if 0 <= y < height:
                    image[y, xa : xb + 1] = colour
            for x in (x1, x2):
                if 0 <= x < width:
                    image[ya : yb + 1, x] = colour
    return out


def _same_images(c: Any) -> Any:
    c.with_rank("boxes", 3)
    return c.with_rank("images", 4)


class DrawBoundingBoxes(Op):
    """Images with the outlines of boxes ``[y1, x1, y2, x2]``, given as parts of height and width, drawn on them."""

    signature = "images: T, boxes: float -> output: T"
    attrs = {"T": Type(_HALVES, "float")}
    effect = PURE
    shape = _same_images
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def host_kernel(ctx, inputs, attrs):
        return _drawn(*inputs, _COLOURS)


class DrawBoundingBoxesV2(Op):
    """DrawBoundingBoxes in given colours ``[n, channels]``."""

    signature = "images: T, boxes: float, colors: float -> output: T"
    attrs = {"T": Type(_HALVES, "float")}
    effect = PURE
    shape = _same_images
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def host_kernel(ctx, inputs, attrs):
        colours = inputs[2]
        return _drawn(*inputs[:2], colours if colours.size else _COLOURS)


@public("image.non_max_suppression")
def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Indices of the best boxes that do not overlap.

    Args:
        boxes: ``[n, 4]``, two opposite corners each.
        scores: ``[n]``.
        max_output_size: how many to keep at most.
        iou_threshold: the part of their union by which two may overlap.
        score_threshold: leave out boxes whose score is not above it.
        name: of the op.
    """
    boxes = convert_to_tensor(boxes)
    thresholds = [convert_to_tensor(value, dtypes.float32) for value in (iou_threshold, score_threshold)]
    return build("NonMaxSuppressionV3", boxes, scores, max_output_size, *thresholds, name=name)


@public("image.draw_bounding_boxes")
def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """Images ``[batch, height, width, 1, 3 or 4]`` with boxes ``[batch, n, 4]`` drawn on them.

    Args:
        images: floats.
        boxes: ``[y1, x1, y2, x2]`` as parts of height and width.
        name: of the op.
        colors: ``[m, channels]``; ten colours in turn by default.
    """
    if colors is None:
        return build("DrawBoundingBoxes", images, boxes, name=name)
    return build("DrawBoundingBoxesV2", images, boxes, colors, name=name)
