"""Functions of sparse tensors, and those that parse strings, give what TensorFlow's give: values, dtypes, errors."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "sparse_parsing.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "golden_sparse", ROOT / "tools" / "golden" / "input" / "sparse_parsing.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)


# What the cases are about, beside the ops that have a row of their own.
OPS = (
    "SparseReorder SparseReshape SparseConcat SparseSplit SparseSlice SparseSliceGrad SparseAdd SparseAddGrad "
    "SparseReduceSumSparse SparseReduceMaxSparse SparseSparseMaximum SparseSparseMinimum SparseFillEmptyRows "
    "SparseFillEmptyRowsGrad SparseCross SerializeSparse SerializeManySparse DeserializeSparse DeserializeManySparse "
    "ParseExample ParseExampleV2 ParseSingleExample ParseSequenceExample ParseSequenceExampleV2 "
    "ParseSingleSequenceExample DecodeRaw DecodePaddedRaw DecodeCSV DecodeJSONExample ParseTensor "
    "SerializeTensor DecodeCompressed"
)
made: set[str] = set()


def run_case(name):
    found, types = recorder.run_case(tf, np, recorder.CASES[name], lambda op, **given: tf.build_op(op, **given))
    made.update(types)
    return json.loads(json.dumps(found))


def differences(wanted, found, place):
    """Texts of where two records differ: floats in more than the last digits, static shapes that say less."""
    if not isinstance(wanted, list) or not isinstance(found, list):
        return [] if wanted == found else [f"{place}: {found}, TensorFlow {wanted}"]
    if wanted[:2] != found[:2]:
        return [f"{place}: {found}, TensorFlow {wanted}"]
    told = []
    for w, f in zip(wanted[2], found[2], strict=True):
        same = w == f or (wanted[0].startswith(("float", "complex")) and np.isclose(complex(w), complex(f), 1e-6, 1e-6))
        told += [] if same else [f"{place}: {f} in {found[2]}, TensorFlow {w} in {wanted[2]}"]
    static = wanted[3]
    if static is not None and (
        found[3] is None or any(w is not None and w != f for w, f in zip(static, found[3], strict=True))
    ):
        told.append(f"{place}: static shape {found[3]}, TensorFlow {static}")
    return told


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_values(name):
    found, wanted = run_case(name), GOLDEN[name]
    told = [text for i, (w, f) in enumerate(zip(wanted, found, strict=False)) for text in differences(w, f, f"{i}")]
    assert not told, "\n".join(told)
    assert len(found) == len(wanted)


def test_every_op_is_in_a_case():
    for name in GOLDEN:
        run_case(name)
    assert set(OPS.split()) <= made


def test_every_case_is_recorded():
    assert sorted(recorder.CASES) == sorted(GOLDEN)
