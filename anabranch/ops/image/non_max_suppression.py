"""Keeping of many overlapping boxes the best: padded, softened, by given overlaps, for many classes. On the host."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes

_HALVES = "half float"
_CHOICE = NotDifferentiable("which boxes are kept is a choice")


_FIRST, _MOST = 64, 256
"""How many candidates one call compares with the chosen boxes, and with each other: in the first block, and in later
ones, which double, as what is left then mostly overlaps a chosen one."""


def overlaps_of(boxes: np.ndarray) -> Callable[[Any, Any], np.ndarray]:
    """The part of their union that each of some boxes shares with each of others: ``[some, others]``."""
    corners = boxes.astype(np.float32).T
    top, left = np.minimum(corners[:2], corners[2:])
    bottom, right = np.maximum(corners[:2], corners[2:])
    areas = (bottom - top) * (right - left)
    all_there = bool((areas > 0).all())

    def of(some: Any, others: Any) -> np.ndarray:
        rows, columns = np.asarray(some)[:, None], np.asarray(others)
        shared = np.minimum(bottom[rows], bottom[columns])
        shared -= np.maximum(top[rows], top[columns])
        np.maximum(shared, 0, out=shared)
        width = np.minimum(right[rows], right[columns])
        width -= np.maximum(left[rows], left[columns])
        shared *= np.maximum(width, 0, out=width)
        union = areas[columns] + areas[rows]
        union -= shared
        if all_there:
            return np.divide(shared, union, out=shared)
        there = (areas[columns] > 0) & (areas[rows] > 0)
        return np.where(there, shared / np.where(there, union, 1), np.float32(0))

    return of


def select(
    scores: np.ndarray,
    overlap: Callable[[Any, Any], np.ndarray],
    size: int,
    threshold: float,
    least: float,
    sigma: float = 0.0,
) -> tuple[list[int], list[np.float32]]:
    """Boxes by falling score. What overlaps a chosen one too much is dropped, or its score lowered if ``sigma > 0``."""
    scores = scores.astype(np.float32)
    if sigma > 0:
        return _select_softly(scores, overlap, size, np.float32(least), np.float32(-0.5 / sigma))
    limit = np.float32(threshold)
    candidates = np.flatnonzero(scores > np.float32(least))
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    chosen: list[int] = []
    begin, width = 0, _FIRST
    while begin < len(candidates) and len(chosen) < size:
        block = candidates[begin : begin + width]
        begin, width = begin + width, min(2 * width, _MOST)
        if chosen:
            block = block[~(overlap(block, chosen) > limit).any(1)]
        drops = overlap(block, block) > limit
        dropped = np.zeros(len(block), bool)
        for place, index in enumerate(block.tolist()):
            if not dropped[place] and len(chosen) < size:
                chosen.append(index)
                dropped |= drops[:, place]
    return chosen, list(scores[chosen])


def _select_softly(
    scores: np.ndarray, overlap: Callable[[Any, Any], np.ndarray], size: int, least: np.float32, scale: np.float32
) -> tuple[list[int], list[np.float32]]:
    """Boxes by falling score, which what overlaps a chosen one lowers."""
    # A box was compared with the first `begin` of those chosen already.
    queue = [(-score, index, 0) for index, score in enumerate(scores) if score > least]
    heapq.heapify(queue)
    chosen: list[int] = []
    scores_selected: list[np.float32] = []
    while queue and len(chosen) < size:
        negative, index, begin = heapq.heappop(queue)
        score = before = -negative
        others = chosen[begin:][::-1]
        if others:
            ratios = overlap([index], others)[0]
            for weight in np.exp(scale * ratios * ratios):
                score = np.float32(score * weight)
                if score <= least:
                    break
        if score == before:
            chosen.append(index)
            scores_selected.append(score)
        elif score > least:
            heapq.heappush(queue, (-score, index, len(chosen)))
    return chosen, scores_selected


def check_threshold(ctx: Any, threshold: float) -> None:
    """Fail the step unless an overlap is a part of a whole."""
    ctx.check(
        0 <= threshold <= 1,
        errors.InvalidArgumentError,
        "iou_threshold must be in [0, 1]\n"
        + errors.message(f"iou_threshold {threshold}", "a value from 0 to 1", "iou_threshold=0.5"),
    )


def _boxes(c: Any) -> None:
    boxes, scores = c.with_rank("boxes", 2), c.with_rank("scores", 1)
    shapes.merge_dim(boxes[0], scores[0])
    if boxes[1] not in (None, 4):
        raise ValueError(
            f"Dimension must be 4 but is {boxes[1]}\n"
            + errors.message(f"boxes of shape {shapes.show(boxes)}", "[n, 4]", "[y1, x1, y2, x2] each")
        )
    c.with_rank("max_output_size", 0)


def _count(c: Any) -> int | None:
    if not c.attrs.get("pad_to_max_output_size"):
        return None
    size = c.scalar("max_output_size")
    return None if size is None else max(int(size), 0)


def _padded(selected: list[Any], size: int, pad: bool, dtype: Any) -> np.ndarray:
    out = np.array(selected, dtype)
    return np.pad(out, (0, size - len(out))) if pad else out


class NonMaxSuppressionV4(Op):
    """Indices of the best boxes that do not overlap, padded to ``max_output_size`` if asked, and their number."""

    signature = (
        "boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, score_threshold: T_threshold "
        "-> selected_indices: int32, valid_outputs: int32"
    )
    attrs = {
        "T": Type(_HALVES, "float"),
        "T_threshold": Type(_HALVES, "float"),
        "pad_to_max_output_size": Bool(False),
    }
    effect = PURE
    ranks = {"max_output_size": 0, "iou_threshold": 0, "score_threshold": 0}
    compile_time = ("max_output_size",)
    gradient = _CHOICE

    def shape(c):
        _boxes(c)
        return [(_count(c),), ()]

    def host_kernel(ctx, inputs, attrs):
        boxes, scores, size, threshold, least = inputs
        check_threshold(ctx, float(threshold))
        selected, _ = select(scores, overlaps_of(boxes), int(size), float(threshold), float(least))
        return _padded(selected, int(size), attrs["pad_to_max_output_size"], np.int32), np.int32(len(selected))


class NonMaxSuppressionV5(Op):
    """NonMaxSuppressionV4 that lowers scores by ``exp(-overlap ** 2 / (2 soft_nms_sigma))``, unless that is 0."""

    signature = (
        "boxes: T, scores: T, max_output_size: int32, iou_threshold: T, score_threshold: T, soft_nms_sigma: T "
        "-> selected_indices: int32, selected_scores: T, valid_outputs: int32"
    )
    attrs = {"T": Type(_HALVES, "float"), "pad_to_max_output_size": Bool(False)}
    effect = PURE
    ranks = {"max_output_size": 0, "iou_threshold": 0, "score_threshold": 0, "soft_nms_sigma": 0}
    compile_time = ("max_output_size",)
    gradient = _CHOICE

    def shape(c):
        _boxes(c)
        return [(_count(c),), (_count(c),), ()]

    def host_kernel(ctx, inputs, attrs):
        boxes, scores, size, threshold, least, sigma = inputs
        check_threshold(ctx, float(threshold))
        ctx.check(
            float(sigma) >= 0,
            errors.InvalidArgumentError,
            "soft_nms_sigma_val must be >= 0\n"
            + errors.message(f"soft_nms_sigma {sigma}", "a number of 0 or more", "soft_nms_sigma=0.5"),
        )
        selected, selected_scores = select(
            scores, overlaps_of(boxes), int(size), float(threshold), float(least), float(sigma)
        )
        pad = attrs["pad_to_max_output_size"]
        return (
            _padded(selected, int(size), pad, np.int32),
            _padded(selected_scores, int(size), pad, scores.dtype),
            np.int32(len(selected)),
        )


class NonMaxSuppressionWithOverlaps(Op):
    """Indices of the best boxes of which no two overlap by more than ``overlap_threshold``, by their ``overlaps``."""

    signature = (
        "overlaps: float, scores: float, max_output_size: int32, overlap_threshold: float, score_threshold: float "
        "-> selected_indices: int32"
    )
    effect = PURE
    ranks = {"max_output_size": 0, "overlap_threshold": 0, "score_threshold": 0}
    gradient = _CHOICE

    def shape(c):
        overlaps, scores = c.with_rank("overlaps", 2), c.with_rank("scores", 1)
        shapes.merge_dim(shapes.merge_dim(overlaps[0], overlaps[1]), scores[0])
        return (None,)

    def host_kernel(ctx, inputs, attrs):
        overlaps, scores, size, threshold, least = inputs
        selected, _ = select(
            scores, lambda some, others: overlaps[np.ix_(some, others)], int(size), float(threshold), float(least)
        )
        return np.array(selected, np.int32)


class CombinedNonMaxSuppression(Op):
    """For each image the best boxes of all classes: boxes, scores and classes, padded with 0, and how many there are.

    ``boxes`` ``[batch, n, q, 4]``, where ``q`` is 1 or the number of classes, and ``scores`` ``[batch, n, classes]``.
    Boxes suppress only others of their class.
    """

    signature = (
        "boxes: float, scores: float, max_output_size_per_class: int32, max_total_size: int32, iou_threshold: float, "
        "score_threshold: float "
        "-> nmsed_boxes: float, nmsed_scores: float, nmsed_classes: float, valid_detections: int32"
    )
    attrs = {"pad_per_class": Bool(False), "clip_boxes": Bool(True)}
    effect = PURE
    ranks = {"max_output_size_per_class": 0, "max_total_size": 0, "iou_threshold": 0, "score_threshold": 0}
    compile_time = ("max_output_size_per_class", "max_total_size")
    gradient = _CHOICE

    def shape(c):
        boxes, scores = c.with_rank("boxes", 4), c.with_rank("scores", 3)
        batch = shapes.merge_dim(boxes[0], scores[0])
        shapes.merge_dim(boxes[1], scores[1])
        if boxes[2] not in (None, 1) and scores[2] not in (None, boxes[2]):
            raise ValueError(
                "third dimension of boxes must be either 1 or equal to the third dimension of scores\n"
                + errors.message(
                    f"boxes {shapes.show(boxes)}, scores {shapes.show(scores)}",
                    "boxes [n, 1 or classes, 4] and scores [n, classes] per image",
                    "boxes[:, :, None]",
                )
            )
        each, total = c.scalar("max_output_size_per_class"), c.scalar("max_total_size")
        size = None if total is None else int(total)
        if c.attrs["pad_per_class"]:
            known = each is not None and scores[2] is not None and size is not None
            size = min(size, int(each) * scores[2]) if known and size is not None else None
        return [(batch, size, 4), (batch, size), (batch, size), (batch,)]

    def host_kernel(ctx, inputs, attrs):
        boxes, scores, each, total, threshold, least = inputs
        check_threshold(ctx, float(threshold))
        batch, _, forms, _ = boxes.shape
        classes = scores.shape[2]
        size = min(int(total), int(each) * classes) if attrs["pad_per_class"] else int(total)
        out = [np.zeros((batch, size, *row_shape), np.float32) for row_shape in ((4,), (), ())]
        counts = np.zeros(batch, np.int32)
        for image in range(batch):
            candidates = []
            for kind in range(classes):
                own = boxes[image, :, kind if forms > 1 else 0]
                chosen, selected_scores = select(
                    scores[image, :, kind], overlaps_of(own), int(each), float(threshold), float(least)
                )
                candidates += [(score, kind, own[index]) for index, score in zip(chosen, selected_scores, strict=True)]
            candidates.sort(key=lambda item: -item[0])
            counts[image] = len(candidates[:size])
            for place, (score, kind, box) in enumerate(candidates[:size]):
                out[0][image, place] = np.clip(box, 0, 1) if attrs["clip_boxes"] else box
                out[1][image, place], out[2][image, place] = score, kind
        return (*out, counts)


# ----------------------------------------------------------------------------------------------------------- functions
@public("image.non_max_suppression_padded")
def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> Any:
    """``tf.image.non_max_suppression`` whose result may be padded with 0 to ``max_output_size``, and its true size."""
    boxes = convert_to_tensor(boxes)
    thresholds = [convert_to_tensor(value, dtypes.float32) for value in (iou_threshold, score_threshold)]
    pad = {"pad_to_max_output_size": pad_to_max_output_size}
    return build("NonMaxSuppressionV4", boxes, scores, max_output_size, *thresholds, name=name, **pad)


@public("image.non_max_suppression_with_scores")
def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """``tf.image.non_max_suppression`` that lowers the scores of overlapping boxes (Bodla et al., 2017), and scores."""
    boxes = convert_to_tensor(boxes)
    kind = boxes.dtype.base
    numbers = [convert_to_tensor(value, kind) for value in (iou_threshold, score_threshold, soft_nms_sigma)]
    outputs = build("NonMaxSuppressionV5", boxes, scores, max_output_size, *numbers, name=name)
    return outputs.selected_indices, outputs.selected_scores


@public("image.non_max_suppression_overlaps")
def non_max_suppression_with_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """``tf.image.non_max_suppression`` by a matrix of overlaps ``[n, n]``."""
    operands = overlaps, scores, max_output_size, overlap_threshold, score_threshold
    return build("NonMaxSuppressionWithOverlaps", *operands, name=name)


@public("image.combined_non_max_suppression")
def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> Any:
    """The best boxes of all classes of each image; see the op CombinedNonMaxSuppression."""
    operands = boxes, scores, max_output_size_per_class, max_total_size, iou_threshold, score_threshold
    options = {"pad_per_class": pad_per_class, "clip_boxes": clip_boxes}
    return build("CombinedNonMaxSuppression", *operands, name=name, **options)
