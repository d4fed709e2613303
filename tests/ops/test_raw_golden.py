"""Ops against what TensorFlow's own kernels gave: `tools/golden/kernels/raw_ops.py` records; cases beside it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build_operation
from anabranch.session import SessionOptions

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("raw_ops", ROOT / "tools/golden/kernels/raw_ops.py")
assert _spec is not None
assert _spec.loader is not None
raw_ops = importlib.util.module_from_spec(_spec)
sys.modules["raw_ops"] = raw_ops
_spec.loader.exec_module(raw_ops)

CASES = {(family, name): one for family in raw_ops.families() for name, one in raw_ops.load(family).items()}
RESULTS = {
    family: json.loads((raw_ops.RESULTS / f"{family}.json").read_text(encoding="utf-8"))
    for family in raw_ops.families()
}


def _runs(one: Any, tier: str) -> list[Any]:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        op = build_operation(one.op, [raw_ops.constant(tf, item) for item in one.inputs], dict(one.attrs), None)
        return [session.run(list(op.outputs)) for _ in range(one.runs)]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("key", sorted(CASES), ids=lambda key: f"{key[0]}: {key[1]}")
def test_as_tensorflow(key: tuple[str, str], tier: str) -> None:
    family, name = key
    one = CASES[key]
    wanted = RESULTS[family][name]
    for run, (expected, found) in enumerate(zip(wanted, _runs(one, tier), strict=True)):
        assert len(expected) == len(found)
        for position, (entry, value) in enumerate(zip(expected, found, strict=True)):
            value = np.asarray(value)
            target = raw_ops.restored(entry)
            told = f"run {run}, output {position}"
            assert value.dtype.name == entry["dtype"], told
            assert value.shape == target.shape, told
            if target.dtype.kind in "fc":
                scale = np.max(np.abs(target), initial=1e-6, where=np.isfinite(target))
                wide = value.astype(target.dtype)
                np.testing.assert_allclose(wide, target, one.tolerance, one.tolerance * scale, err_msg=told)
            else:
                np.testing.assert_array_equal(value, target, told)
