"""Where the ops are tested that models for serving have: against TensorFlow's results, and in the file named."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/test_served.py"
OPS = (
    "UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeTranscode", "UnicodeEncode", "ScaleAndTranslate",
    "ScaleAndTranslateGrad", "RaggedRange", "RaggedGather", "RaggedTensorToSparse", "UnsortedSegmentJoin", "RngSkip",
    "RngReadAndSkip", "StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniformInt",
    "StatefulUniformFullInt", "DeviceIndex", "FakeParam", "UnicodeScript",
)  # fmt: skip

ROWS = [elsewhere(name, FILE, name) for name in OPS]
