"""Where the ops that read values from strings are tested: what they give is compared with what TensorFlow's give."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

NAMES = (
    "ParseExample ParseExampleV2 ParseSingleExample ParseSequenceExample ParseSequenceExampleV2 "
    "ParseSingleSequenceExample DecodeRaw DecodePaddedRaw DecodeCSV DecodeJSONExample ParseTensor SerializeTensor "
    "DecodeCompressed"
)

ROWS = [elsewhere(name, "tests/ops/parsing/test_sparse_parsing_golden.py") for name in NAMES.split()]
