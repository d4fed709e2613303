"""Rows of suppression of boxes and of projective transformations; values against TensorFlow in test_raw_golden.py."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row

RANDOM = np.random.default_rng(2)
CORNERS = RANDOM.uniform(0, 1, (20, 2))
BOXES = np.concatenate([CORNERS, CORNERS + RANDOM.uniform(0.1, 0.6, (20, 2))], 1)
SCORES = RANDOM.permutation(np.linspace(0.05, 1, 20))


def shared(a, b):
    """The part of their union that two boxes share, by areas of a fine grid of rectangles."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    inner = np.prod(np.maximum(high - low, 0))
    return inner / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - inner)


def suppress(overlap, scores, size, threshold, least):
    chosen = []
    for index in np.argsort(-scores):
        if scores[index] > least and len(chosen) < size and all(overlap(index, other) <= threshold for other in chosen):
            chosen.append(int(index))
    return chosen


def by_boxes(boxes, scores, size, threshold, least):
    return suppress(lambda i, j: shared(boxes[i], boxes[j]), scores, int(size), threshold, least)


def filled(items, size, pad, dtype):
    return np.array(items + [0] * (int(size) - len(items) if pad else 0), dtype)


def fourth(boxes, scores, size, threshold, least, pad_to_max_output_size=False):
    found = by_boxes(boxes, scores, size, threshold, least)
    return filled(found, size, pad_to_max_output_size, np.int32), np.int32(len(found))


def fifth(boxes, scores, size, threshold, least, sigma, pad_to_max_output_size=False):
    if sigma == 0:
        found = by_boxes(boxes, scores, size, threshold, least)
        kept = [scores[i] for i in found]
    else:  # the best of what is left, each lowered by all that were chosen
        left, found, kept = dict(enumerate(scores)), [], []
        while left and len(found) < size:
            best = max(left, key=left.__getitem__)
            if left[best] <= least:
                break
            found.append(best)
            kept.append(left.pop(best))
            for other in left:
                left[other] *= np.exp(-0.5 / sigma * shared(boxes[best], boxes[other]) ** 2)
    pad = pad_to_max_output_size
    return filled(found, size, pad, np.int32), filled(kept, size, pad, np.float64), np.int32(len(found))


def with_overlaps(overlaps, scores, size, threshold, least):
    return np.array(suppress(lambda i, j: overlaps[i, j], scores, int(size), threshold, least), np.int32)


def combined(boxes, scores, each, total, threshold, least, pad_per_class=False, clip_boxes=True):
    batch, classes = len(boxes), scores.shape[2]
    size = min(int(total), int(each) * classes) if pad_per_class else int(total)
    out = [np.zeros((batch, size, 4)), np.zeros((batch, size)), np.zeros((batch, size)), np.zeros(batch, np.int32)]
    for b in range(batch):
        found = []
        for c in range(classes):
            own = boxes[b, :, c if boxes.shape[2] > 1 else 0]
            found += [(scores[b, i, c], c, own[i]) for i in by_boxes(own, scores[b, :, c], each, threshold, least)]
        found = sorted(found, key=lambda item: -item[0])[:size]
        for place, (score, c, box) in enumerate(found):
            out[0][b, place] = np.clip(box, 0, 1) if clip_boxes else box
            out[1][b, place], out[2][b, place] = score, c
        out[3][b] = len(found)
    return out


def transform(images, transforms, size, fill_value=0.0, interpolation="NEAREST", fill_mode="CONSTANT"):
    out = np.full((len(images), *size, images.shape[3]), float(fill_value))
    height, width = images.shape[1:3]
    for n, (image, a) in enumerate(zip(images, np.broadcast_to(transforms, (len(images), 8)), strict=True)):
        padded = np.full((height + 2, width + 2, images.shape[3]), float(fill_value))
        padded[1:-1, 1:-1] = image
        for y, x in np.ndindex(*(int(item) for item in size)):
            k = a[6] * x + a[7] * y + 1
            u, v = (a[0] * x + a[1] * y + a[2]) / k, (a[3] * x + a[4] * y + a[5]) / k
            if interpolation == "NEAREST":
                weights = [(np.floor(v + 0.5), np.floor(u + 0.5), 1.0)]
            else:
                i, j = np.floor(v), np.floor(u)
                weights = [
                    (i + di, j + dj, abs(1 - di - (v - i)) * abs(1 - dj - (u - j))) for di in (0, 1) for dj in (0, 1)
                ]
            total = 0
            for i, j, weight in weights:
                inside = -1 <= i <= height and -1 <= j <= width
                total = total + weight * (padded[int(i) + 1, int(j) + 1] if inside else float(fill_value))
            out[n, y, x] = total
    return out


TURN = [[0.83, 0.31, 0.27, -0.33, 0.91, 1.13, 0, 0], [1.07, 0.21, -1.31, 0.13, 1.21, 0.43, 0.05, -0.03]]
SAME = [[1.0, 0, 0, 0, 1, 0, 0, 0]]
OPEN = "how many are kept depends on the values"
MATRIX = RANDOM.uniform(0, 1, (20, 20))
MANY = RANDOM.uniform(0, 1, (2, 20, 3))
SEVERAL = np.stack([BOXES, BOXES[::-1], BOXES + 0.3], 1)[None].repeat(2, 0)


def moves(*fill):
    return [
        case(real(2, 4, 5, 2), TURN, [5, 6], *fill, interpolation="BILINEAR"),
        case(real(2, 4, 5, 2), TURN, [3, 4], *fill, interpolation="NEAREST", grad=False),
        case(real(1, 4, 5, 1), SAME, [4, 5], *fill, interpolation="BILINEAR", grad=False),
    ]


ROWS = [
    row("NonMaxSuppressionV4", fourth,
        [case(BOXES, SCORES, 5, 0.31, 0.1), case(BOXES, SCORES, 19, 0.31, 0.1, pad_to_max_output_size=True)], "float",
        open_shape=OPEN),
    row("NonMaxSuppressionV5", fifth,
        [case(BOXES, SCORES, 5, 0.31, 0.1, 0.0), case(BOXES, SCORES, 12, 1.0, 0.1, 0.5),
         case(BOXES, SCORES, 25, 1.0, 0.2, 0.3, pad_to_max_output_size=True)], "float", open_shape=OPEN, tolerance=4),
    row("NonMaxSuppressionWithOverlaps", with_overlaps, [case((MATRIX + MATRIX.T) / 2, SCORES, 9, 0.6, 0.2)],
        open_shape=OPEN),
    row("CombinedNonMaxSuppression", combined,
        [case(BOXES[None, :, None].repeat(2, 0), MANY, 5, 9, 0.41, 0.2),
         case(SEVERAL, MANY, 3, 20, 0.41, 0.5, pad_per_class=True),
         case(SEVERAL, MANY, 8, 7, 0.21, 0.5, clip_boxes=False)]),
    row("ImageProjectiveTransformV2", lambda images, transforms, size, **kw: transform(images, transforms, size, **kw),
        moves(), "float bfloat16", tolerance=100, order=0),
    row("ImageProjectiveTransformV3", transform, moves(1.5), "float", tolerance=100, order=0),
]  # fmt: skip
