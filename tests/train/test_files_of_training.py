"""What lies in the folder of a training program, and what its events say: files and steps are TensorFlow 1.15's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

import anabranch as tf


def _events(folder: Path) -> list[Any]:
    """Kind, step and tags of each event but the first."""
    (path,) = folder.glob("events*")
    found = []
    for event in tf.train.summary_iterator(str(path)):
        kind = event.WhichOneof("what")
        found.append((kind, event.step, [value.tag for value in event.summary.value]))
    return found


def _train(use_resource: bool) -> Any:
    with tf.variable_scope(tf.get_variable_scope(), use_resource=use_resource):
        step = tf.train.get_or_create_global_step()
        v = tf.get_variable("v", [])
    tf.summary.scalar("value", v)
    return tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(v), step)


def _graph_nodes(folder: Path) -> set[str]:
    graph_def = text_format.Parse((folder / "graph.pbtxt").read_text(), tf.GraphDef())
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def)
    return {node.name for node in graph_def.node}


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_monitored_training_session(tmp_path: Path, use_resource: bool) -> None:
    options = {"save_checkpoint_secs": None, "save_checkpoint_steps": 7, "log_step_count_steps": None}
    hook = tf.train.ProfilerHook(save_steps=6, output_dir=str(tmp_path))
    with tf.Graph().as_default():
        op = _train(use_resource)
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), hooks=[hook], save_summaries_steps=8, save_summaries_secs=None, **options
        ) as session:
            for _ in range(20):
                session.run(op)
    files = {path.name for path in tmp_path.iterdir() if not path.name.startswith("events")}
    saved = {f"model.ckpt-{step}.{end}" for step in (0, 7, 14, 20) for end in ("index", "meta")}
    saved |= {f"model.ckpt-{step}.data-00000-of-00001" for step in (0, 7, 14, 20)}
    assert files == saved | {"checkpoint", "graph.pbtxt", *(f"timeline-{step}.json" for step in (6, 12, 18))}
    assert {"global_step", "v", "GradientDescent"} <= _graph_nodes(tmp_path)
    events = _events(tmp_path)
    assert [step for kind, step, _ in events if kind == "summary"] == [1, 9, 17]
    kinds = [kind for kind, _, _ in events]
    assert kinds[:6] == ["file_version", *("graph_def", "meta_graph_def") * 2, "session_log"]
    assert kinds.count("tagged_run_metadata") == 3


def test_a_supervisor(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        op = _train(False)
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0, save_model_secs=0)
        with supervisor.managed_session() as session:
            session.run(op)
    assert {"global_step", "v", "GradientDescent"} <= _graph_nodes(tmp_path)
    kinds = [kind for kind, _, _ in _events(tmp_path)]
    assert kinds == ["file_version", "graph_def", "meta_graph_def", "session_log", "session_log"]


def test_a_writer_of_a_graph(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", [])
        with tf.summary.FileWriter(str(tmp_path), graph):
            pass
    (path,) = tmp_path.glob("events*")
    (event,) = [event for event in tf.train.summary_iterator(str(path)) if event.meta_graph_def]
    meta = tf.MetaGraphDef.FromString(event.meta_graph_def)
    assert v.op.name in {node.name for node in meta.graph_def.node}
    assert "trainable_variables" in meta.collection_def


def test_text_of_a_graph(tmp_path: Path) -> None:
    """The text says what the binary form does, whatever values constants have."""
    with tf.Graph().as_default() as graph:
        for value in (0.1, float("inf"), float("nan"), -0.0, 1e-40, 1 / 3, b"\x00\xff\"'\n\\", "é", 2**62, [True]):
            tf.constant(value)
        tf.constant(1 / 3, tf.float64)
        path = tf.train.write_graph(graph, str(tmp_path), "g.pbtxt")
        text = Path(path).read_text()
        assert re.search(r"^node \{", text, re.MULTILINE)
        again = text_format.Parse(text, tf.GraphDef())
        assert again.SerializeToString(deterministic=True) == graph.as_graph_def().SerializeToString(deterministic=True)


def test_other_messages_are_written_too(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        tf.get_variable("v", [])
        saver = tf.train.Saver().as_saver_def()
        meta = tf.train.export_meta_graph()
    text = Path(tf.train.write_graph(saver, str(tmp_path), "saver.pbtxt")).read_text()
    assert text_format.Parse(text, type(saver)()) == saver
    path = tf.train.write_graph(meta, str(tmp_path), "meta.pb", as_text=False)
    assert tf.MetaGraphDef.FromString(Path(path).read_bytes()) == meta
    with pytest.raises(TypeError, match=r"a tf\.Graph or a GraphDef"):
        tf.train.write_graph("graph", str(tmp_path), "x")
