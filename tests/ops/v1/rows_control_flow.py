"""Where the ops of control flow, stacks and arrays of version 1 are tested."""

from __future__ import annotations

from anabranch.ops.v1 import switches, tensor_arrays
from anabranch.testing.op_cases import elsewhere

TOKENS = "tests/runtime/v1/test_tokens.py"

ROWS = [elsewhere(kind, TOKENS, f'"{kind}"') for kind in sorted(switches.TYPES | tensor_arrays.TYPES | {"Abort"})]
