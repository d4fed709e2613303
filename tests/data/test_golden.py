"""Pipelines against TensorFlow 1.15: elements in order, dtypes, static shapes (`tests/golden/datasets.json`)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden.dataset_cases import AGAIN, CASES
from golden.datasets import elements

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/datasets.json").read_text(encoding="utf-8"))


def test_the_file_is_of_these_cases() -> None:
    assert list(GOLDEN) == list(CASES), "run `python tools/golden/datasets.py` with TensorFlow 1.15"


@pytest.mark.parametrize("name", sorted(CASES))
def test_as_in_tensorflow(name: str) -> None:
    given = elements(tf, CASES[name], 2 if name in AGAIN else 1)
    wanted = GOLDEN[name]
    assert given["static"] == wanted["static"]
    assert len(given["elements"]) == len(wanted["elements"])
    for mine, its in zip(given["elements"], wanted["elements"], strict=True):
        assert [part[:2] for part in mine] == [part[:2] for part in its]
        for (dtype, _, values), (_, _, others) in zip(mine, its, strict=True):
            if dtype.startswith("float"):
                np.testing.assert_allclose(values, others, rtol=1e-6)
            else:
                assert values == others
