"""Functions whose arguments or results version 2 changed, against TensorFlow 2's answers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import v2
from anabranch.core.values import version_two

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "version_two.json").read_text())
_spec = importlib.util.spec_from_file_location("version_two_cases", ROOT / "tools/golden/names/version_two_cases.py")
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


@pytest.fixture(autouse=True)
def version_2_everywhere():
    version_two.set_everywhere(True)
    yield
    version_two.set_everywhere(False)


@pytest.mark.parametrize("name", GOLDEN)
def test_case(name):
    with tf.Graph().as_default(), tf.Session() as session:
        value = session.run(cases.CASES[name](v2))
    expected = GOLDEN[name]
    assert str(value.dtype) == expected["dtype"]
    assert value.shape == np.shape(expected["value"])
    np.testing.assert_allclose(value, expected["value"], rtol=2e-5, atol=2e-5)


def test_all_cases_have_answers():
    assert list(cases.CASES) == list(GOLDEN)
