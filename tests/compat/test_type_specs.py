"""Specs of types, structures of composite tensors and sums of linear operators, as TensorFlow 1.15 has them."""

from __future__ import annotations

import importlib.util
import json

import pytest
from sources import ROOT

from anabranch.compat import hook

_spec = importlib.util.spec_from_file_location("golden_specs", ROOT / "tools" / "golden" / "names" / "type_specs.py")
assert _spec is not None
assert _spec.loader is not None
GOLDEN = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(GOLDEN)
RECORDED = json.loads((ROOT / "tests" / "golden" / "type_specs.json").read_text())


@pytest.fixture(scope="module")
def tensorflow():
    yield hook.install(replace=True)
    hook.uninstall()


def test_the_record_is_of_these_expressions():
    assert list(RECORDED) == GOLDEN.EXPRESSIONS.strip().splitlines()


def test_texts(tensorflow):
    texts = {expression: GOLDEN.text_of(tensorflow, expression) for expression in RECORDED}
    assert {one: (text, RECORDED[one]) for one, text in texts.items() if text != RECORDED[one]} == {}
