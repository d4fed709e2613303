"""`tf.summary.FileWriter(session=)`: events that a session writes, to a file that all writers to its folder share."""

from __future__ import annotations

import glob

import pytest

import anabranch as tf


def summary(tag):
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=1.0)])


def tags(path):
    return [value.tag for event in tf.train.summary_iterator(path) for value in event.summary.value]


def test_writers_to_one_folder_of_a_session_share_its_file(tmp_path):
    with tf.Graph().as_default() as graph:
        with tf.Session() as session:
            first = tf.summary.FileWriter(tmp_path, session=session)
            first.add_summary(summary("a"), 1)
            second = tf.summary.FileWriter(str(tmp_path), session=session)
            second.add_summary(summary("b"), 2)
            shared = tf.contrib.summary.create_file_writer(str(tmp_path))
            with shared.as_default(), tf.contrib.summary.always_record_summaries():
                written = tf.contrib.summary.scalar("c", 3.0, step=3)
            session.run(shared.init())
            session.run(written)
            with tf.Session(graph=graph) as other:
                third = tf.summary.FileWriter(tmp_path, session=other, filename_suffix=".other")
                third.add_summary(summary("d"), 4)
                third.flush()
            elsewhere = tf.summary.FileWriter(tmp_path / "elsewhere", session=session)
            elsewhere.add_summary(summary("e"), 5)
            first.flush()
            assert first.get_logdir() == str(tmp_path)
            elsewhere.flush()
            (path,) = (name for name in glob.glob(f"{tmp_path}/events*") if not name.endswith(".other"))
            assert tags(path) == ["a", "b", "c"]
            assert tags(*glob.glob(f"{tmp_path}/*.other")) == ["d"]
            assert tags(*glob.glob(f"{tmp_path}/elsewhere/*")) == ["e"]


def test_it_writes_graphs_and_is_closed_and_opened_again(tmp_path):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.constant(1.0, name="c")
        with tf.summary.FileWriter(tmp_path, graph, session=session) as writer:
            writer.add_run_metadata(tf.RunMetadata(), "step 1", 1)
            writer.flush()
        kinds = [event.WhichOneof("what") for event in tf.train.summary_iterator(*glob.glob(f"{tmp_path}/*"))]
        assert kinds == ["file_version", "graph_def", "meta_graph_def", "tagged_run_metadata"]
        with pytest.warns(UserWarning, match="closed FileWriter"):
            writer.add_summary(summary("lost"), 2)
        writer.close()
        writer.reopen()
        writer.add_summary(summary("again"), 3)
        writer.close()
        assert [tag for path in glob.glob(f"{tmp_path}/*") for tag in tags(path)] == ["again"]


def test_a_graph_that_is_finalized_takes_no_writer(tmp_path):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        graph.finalize()
        with pytest.raises(RuntimeError, match="finalized"):
            tf.summary.FileWriter(tmp_path, session=session)
