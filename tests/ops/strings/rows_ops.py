"""Where the ops on strings are tested: against TensorFlow's results."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/strings/test_strings.py"
OPS = (
    "StringLower", "StringUpper", "StringStrip", "StringLength", "Substr", "StringToNumber", "EncodeBase64",
    "DecodeBase64", "StringJoin", "ReduceJoin", "StringSplit", "StringSplitV2", "RegexReplace", "StaticRegexReplace",
    "RegexFullMatch", "StaticRegexFullMatch",
)  # fmt: skip

ROWS = [*[elsewhere(name, FILE, name) for name in OPS], elsewhere("Fingerprint", FILE, "tf.fingerprint")]
