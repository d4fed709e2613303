"""Optimizers: `tests/ops/test_training.py` drives all of them from TensorFlow's results, which name each."""

from __future__ import annotations

from anabranch.ops.training import TABLE
from anabranch.testing.op_cases import elsewhere

ROWS = [
    elsewhere(f"{handle}{sparse}Apply{optimizer.name}", "tests/golden/optimizers.json")
    for optimizer in TABLE
    for sparse in ("", "Sparse")
    for handle in ("", "Resource")
    if (not sparse or "sparse" in optimizer.forms) and (handle or "ref" in optimizer.forms)
]
