"""Where the ops on maps of sparse tensors are tested: they act on what no table shows."""

from __future__ import annotations

from anabranch.testing.op_cases import elsewhere

FILE = "tests/ops/sparse/test_tensor_maps.py"

ROWS = [
    elsewhere("AddSparseToTensorsMap", FILE),
    elsewhere("AddManySparseToTensorsMap", FILE),
    elsewhere("TakeManySparseFromTensorsMap", FILE),
]
