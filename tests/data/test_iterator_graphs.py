"""Iterators in conditionals, loops and MetaGraphs: TensorFlow 1.15's files run, and our own graphs give the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden.input.iterator_graph_cases import CASES
from golden.input.iterator_graphs import results

import anabranch as tf

FOLDER = Path(__file__).parents[2] / "tests/golden/iterators"
NOTED: dict[str, Any] = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))


def test_the_files_are_of_these_cases() -> None:
    assert list(NOTED) == [case.__name__ for case in CASES], "run `python tools/golden/input/iterator_graphs.py`"


@pytest.mark.parametrize("name", list(NOTED))
def test_metagraphs_of_tensorflow(name: str) -> None:
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(str(FOLDER / f"{name}.meta"))
        given = results(tf, graph, NOTED[name]["steps"])
    assert given == NOTED[name]["results"]


@pytest.mark.parametrize("case", CASES)
def test_graphs_built_here_also_from_their_own_metagraphs(case: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "graph.meta")
    with tf.Graph().as_default() as graph:
        steps = case(tf)
        assert results(tf, graph, steps) == NOTED[case.__name__]["results"]
        tf.train.export_meta_graph(path)
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(path)
        assert results(tf, graph, steps) == NOTED[case.__name__]["results"]
