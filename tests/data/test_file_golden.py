"""Pipelines that read files against TensorFlow 1.15: elements, static shapes, classes of errors.

The values are in `tests/golden/file_datasets.json`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from golden.input.file_dataset_cases import CASES, write_files
from golden.input.file_datasets import outcome

import anabranch as tf

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/file_datasets.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """What gives the path of a file."""
    return write_files(tf, str(tmp_path_factory.mktemp("files")))


def test_the_file_is_of_these_cases() -> None:
    assert list(GOLDEN) == list(CASES), "run `python tools/golden/input/file_datasets.py` with TensorFlow 1.15"


def in_pairs(text: str) -> str:
    """A text in which ordered dictionaries show as pairs, as before Python 3.12."""

    def pairs(shown: re.Match[str]) -> str:
        parts = re.split(r"(?:^|, )'(\w+)': ", shown[1])[1:]
        items = [f"({key!r}, {value})" for key, value in zip(parts[::2], parts[1::2], strict=True)]
        return f"OrderedDict([{', '.join(items)}])"

    return re.sub(r"OrderedDict\(\{(.*?)\}\)", pairs, text)


@pytest.mark.parametrize("name", list(CASES))
def test_as_in_tensorflow(name: str, path) -> None:
    given = outcome(tf, CASES[name], path)
    wanted = GOLDEN[name]
    assert given["error"] == wanted["error"]
    assert [in_pairs(text) for text in given["static"]] == wanted["static"]
    assert len(given["elements"]) == len(wanted["elements"])
    for mine, its in zip(given["elements"], wanted["elements"], strict=True):
        for (dtype, shape, values), (its_dtype, its_shape, others) in zip(mine, its, strict=True):
            assert shape == its_shape
            if dtype.startswith("float"):
                assert dtype == its_dtype
                np.testing.assert_allclose(values, others, rtol=1e-6)
            else:
                assert values == others
