"""Pipelines against TensorFlow 1.15: elements in order, dtypes, static shapes (`tests/golden/datasets.json`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.input.dataset_cases import AGAIN, CASES
from golden.input.dataset_nest_cases import NESTED
from golden.input.datasets import elements, elements_or_error

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/datasets.json").read_text(encoding="utf-8"))
NESTS = json.loads((ROOT / "tests/golden/dataset_nests.json").read_text(encoding="utf-8"))


def test_the_file_is_of_these_cases() -> None:
    assert list(GOLDEN) == list(CASES), "run `python tools/golden/input/datasets.py` with TensorFlow 1.15"


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_in_tensorflow(name: str) -> None:
    check(elements(tf, CASES[name], 2 if name in AGAIN else 1), GOLDEN[name])


def test_the_nests_are_of_these_cases() -> None:
    assert set(NESTS) <= set(NESTED), "run `python tools/golden/input/datasets.py` with TensorFlow 1.15"
    assert len(NESTS) > 0.9 * len(NESTED)


@pytest.mark.parametrize("name", sorted(NESTS))
def test_nests_as_in_tensorflow(name: str) -> None:
    given = elements_or_error(tf, NESTED[name])
    if "raises" in NESTS[name]:
        assert given == NESTS[name]
    else:
        check(given, NESTS[name])


def check(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Elements and what is static of a pipeline are what TensorFlow noted."""
    assert "raises" not in given, given
    for mine, its in zip(given["static"], wanted["static"], strict=True):
        assert mine == its or re.fullmatch(re.escape(its).replace("None", r"(None|\d+)"), mine), (mine, its)
    assert len(given["elements"]) == len(wanted["elements"])
    for mine, its in zip(given["elements"], wanted["elements"], strict=True):
        assert [part[:2] for part in mine] == [part[:2] for part in its]
        for (dtype, _, values), (_, _, others) in zip(mine, its, strict=True):
            if dtype.startswith("float"):
                np.testing.assert_allclose(values, others, rtol=1e-6)
            else:
                assert values == others
