"""Where the ops on boxes and distances of sequences are tested."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/image/test_boxes_distances.py"
OPS = (
    "NonMaxSuppression",
    "NonMaxSuppressionV2",
    "NonMaxSuppressionV3",
    "DrawBoundingBoxes",
    "DrawBoundingBoxesV2",
    "EditDistance",
    "BipartiteMatch",
    "ImageConnectedComponents",
)

ROWS = [elsewhere(name, FILE, name) for name in OPS]
