"""Where the ops of control flow, stacks and arrays of version 1 are tested."""

from __future__ import annotations

from anabranch.ops import v1_control_flow, v1_tensor_array
from anabranch.testing.op_cases import elsewhere

TOKENS = "tests/runtime/test_tokens.py"

ROWS = [
    elsewhere(kind, TOKENS, f'"{kind}"') for kind in sorted(v1_control_flow.TYPES | v1_tensor_array.TYPES | {"Abort"})
]
