"""Savers make the nodes that TensorFlow's make, and checkpoints by object are exchanged with it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import anabranch as tf

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "golden" / "checkpoints"
GOLDEN = json.loads((FOLDER / "savers.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "golden_checkpoints", ROOT / "tools" / "golden" / "graphs" / "checkpoints.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)


@pytest.fixture(autouse=True)
def own_graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("name", list(recorder.SAVERS))
def test_nodes(name):
    found = recorder.saver_nodes(tf, *recorder.SAVERS[name])
    wanted = GOLDEN["savers"][name]
    assert found["nodes"] == wanted["nodes"]
    given, expected = (text_format.Parse(item["saver_def"], tf.train.SaverDef()) for item in (found, wanted))
    assert given == expected


@pytest.mark.parametrize("name", list(recorder.REFUSED))
def test_what_is_refused(name):
    assert recorder.refusal(tf, recorder.REFUSED[name]) == GOLDEN["refused"][name] != ""


def test_a_checkpoint_by_object_that_tensorflow_wrote():
    checkpoint, _, shown = recorder.object_model(tf, "ours_")
    with tf.Session() as session:
        status = checkpoint.restore(str(FOLDER / GOLDEN["objects"]["path"]))
        status.assert_consumed().initialize_or_restore(session)
        for found, wanted in zip(session.run(shown), GOLDEN["objects"]["values"], strict=True):
            assert np.array_equal(found, np.array(wanted, found.dtype))


def test_the_object_graph_is_that_of_tensorflow(tmp_path):
    checkpoint, train, _ = recorder.object_model(tf, "theirs_")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = checkpoint.save(str(tmp_path / "objects"), session)
    found, wanted = (tf.train.load_checkpoint(str(item)) for item in (path, FOLDER / GOLDEN["objects"]["path"]))
    key = "_CHECKPOINTABLE_OBJECT_GRAPH"
    assert found.get_variable_to_shape_map() == wanted.get_variable_to_shape_map()
    assert found.get_tensor(key) == wanted.get_tensor(key)


def test_variables_by_name_from_a_checkpoint_by_object():
    w = tf.get_variable("theirs_w", [2])
    m = tf.get_variable("theirs_w/Adam", [2])
    saver = tf.train.Saver()
    with tf.Session() as session:
        saver.restore(session, str(FOLDER / GOLDEN["objects"]["path"]))
        assert session.run(w).tolist() == np.array(GOLDEN["objects"]["values"][0], np.float32).tolist()
        assert session.run(m).tolist() == np.array(GOLDEN["objects"]["values"][2], np.float32).tolist()
