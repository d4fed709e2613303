"""Graphs of version 1 as TensorFlow wrote them, and what it gave: see `tools/golden/graphs/v1_control_flow.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import anabranch as tf

FOLDER = Path(__file__).parents[3] / "tests/golden/v1_control_flow"
STEPS: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / "steps.json").read_text(encoding="utf-8"))


def array(written: dict[str, Any]) -> np.ndarray:
    """A value of the file."""
    return np.array(written["values"], dtype=written["dtype"]).reshape(written["shape"])


def meta_graph(name: str) -> Any:
    """The MetaGraphDef of a case."""
    return tf.MetaGraphDef.FromString((FOLDER / f"{name}.pb").read_bytes())


def check(name: str, tier: str = "auto", told: str = "") -> None:
    """Runs the steps of a case; `told` must occur in the explanation of one."""
    explained = []
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph(name).graph_def, name="")
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            for number, step in enumerate(STEPS[name]):
                fetches = [graph.as_graph_element(item) for item in step["fetches"]]
                feeds = {key: array(value) for key, value in step["feeds"].items()}
                results = session.run(fetches, feeds)
                for fetch, found, wanted in zip(step["fetches"], results, step["results"], strict=True):
                    if wanted is None:
                        assert found is None
                        continue
                    np.testing.assert_allclose(found, array(wanted), 2e-5, 1e-6, err_msg=f"step {number}: {fetch}")
                    assert found.dtype == np.dtype(wanted["dtype"]), f"step {number}: {fetch}"
                explained.append(session.explain(fetches, feeds))
    assert any(told in text for text in explained)
