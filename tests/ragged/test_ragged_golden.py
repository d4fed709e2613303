"""Ragged tensors as TensorFlow 1.15 has them: several hundred expressions."""

from __future__ import annotations

import importlib.util
import json

import pytest
from sources import ROOT

import anabranch as tf

_spec = importlib.util.spec_from_file_location("golden_ragged", ROOT / "tools" / "golden" / "kernels" / "ragged.py")
assert _spec is not None
assert _spec.loader is not None
GOLDEN = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(GOLDEN)
RECORDED = json.loads((ROOT / "tests" / "golden" / "ragged.json").read_text())
ERRORS = {
    name: value["error"] for name, value in RECORDED["values"].items() if isinstance(value, dict) and "error" in value
}


def test_the_record_is_of_these_expressions():
    assert list(RECORDED["values"]) == GOLDEN.EXPRESSIONS.strip().splitlines()
    assert RECORDED["setup"] == GOLDEN.SETUP


def test_values():
    """All expressions in one graph, run at once."""
    with tf.Graph().as_default(), tf.Session() as session:
        names = {"tf": tf, "C": tf.ragged.constant, "R": tf.RaggedTensor}
        exec(GOLDEN.SETUP, names)
        built = {one: eval(one, names) for one in RECORDED["values"] if one not in ERRORS}
        kinds = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)
        deferred = {
            one: value
            for one, value in built.items()
            if isinstance(value, kinds) or (isinstance(value, list) and value and isinstance(value[0], kinds))
        }
        values = {**built, **session.run(deferred)}
    wrong = {
        one: (GOLDEN.written(value), RECORDED["values"][one])
        for one, value in values.items()
        if repr(GOLDEN.written(value)) != repr(RECORDED["values"][one])
    }
    assert not wrong


@pytest.mark.parametrize("expression", ERRORS)
def test_errors(expression):
    assert GOLDEN.value_of(tf, expression) == {"error": ERRORS[expression]}
