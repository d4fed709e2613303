"""Cases of suppression of boxes and of projective transformations."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(11)
CORNERS = RANDOM.uniform(0, 1, (30, 2))
BOXES = np.concatenate([CORNERS, CORNERS + RANDOM.uniform(0.05, 0.5, (30, 2))], 1).astype(np.float32)
SCORES = RANDOM.uniform(0, 1, 30).astype(np.float32)
F, WHOLE = np.float32, np.int32
OVERLAPS = RANDOM.uniform(0, 1, (30, 30)).astype(F)
OVERLAPS = (OVERLAPS + OVERLAPS.T) / 2
MANY = RANDOM.uniform(0, 1, (2, 30, 3)).astype(F)
SEVERAL = np.stack([BOXES, BOXES[::-1], BOXES + F(0.3)], 1)[None].repeat(2, 0)
IMAGES = RANDOM.uniform(0, 9, (2, 5, 7, 2)).astype(F)
TURN = F([[0.9, 0.3, 0.7, -0.3, 0.9, 1.1, 0, 0], [1, 0.2, -1.3, 0.1, 1.2, 0.4, 0.05, -0.03]])


def combined(boxes, *rest, **attrs):
    """A suppression of all classes."""
    return case("CombinedNonMaxSuppression", boxes, MANY, *rest, **attrs)


CASES = {
    "fourth": case("NonMaxSuppressionV4", BOXES, SCORES, WHOLE(6), F(0.3), F(0.1)),
    "fourth, padded": case(
        "NonMaxSuppressionV4", BOXES, SCORES, WHOLE(28), F(0.3), F(0.5), pad_to_max_output_size=True
    ),
    "fifth": case("NonMaxSuppressionV5", BOXES, SCORES, WHOLE(6), F(0.3), F(0.1), F(0.0)),
    "fifth, soft": case("NonMaxSuppressionV5", BOXES, SCORES, WHOLE(30), F(0.3), F(0.1), F(0.5)),
    "fifth, very soft": case(
        "NonMaxSuppressionV5", BOXES, SCORES, WHOLE(40), F(1.0), F(0.0), F(0.1), pad_to_max_output_size=True
    ),
    "by overlaps": case("NonMaxSuppressionWithOverlaps", OVERLAPS, SCORES, WHOLE(9), F(0.6), F(0.2)),
    "combined": combined(BOXES[None, :, None].repeat(2, 0), WHOLE(5), WHOLE(9), F(0.4), F(0.2)),
    "combined, by class": combined(SEVERAL, WHOLE(4), WHOLE(20), F(0.4), F(0.5), pad_per_class=True),
    "combined, not clipped": combined(SEVERAL, WHOLE(8), WHOLE(7), F(0.2), F(0.5), clip_boxes=False),
}
for _method in ("NEAREST", "BILINEAR"):
    for _fill in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
        CASES[f"transform {_method} {_fill}"] = case(
            "ImageProjectiveTransformV2",
            IMAGES,
            TURN,
            WHOLE([6, 8]),
            interpolation=_method,
            fill_mode=_fill,
            tolerance=1e-4,
        )
CASES["transform, one for all"] = case(
    "ImageProjectiveTransformV2", IMAGES.astype(WHOLE), TURN[:1], WHOLE([3, 4]), interpolation="BILINEAR"
)
CASES["transform, filled"] = case(
    "ImageProjectiveTransformV3", IMAGES, TURN, WHOLE([6, 8]), F(2.5), interpolation="BILINEAR", tolerance=1e-4
)
