"""`tf.contrib.summary`: ops that write to an event file when they run."""

from __future__ import annotations

import glob

import numpy as np
import pytest

import anabranch as tf

S = tf.contrib.summary


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def events(folder):
    (path,) = glob.glob(f"{folder}/*")
    return list(tf.train.summary_iterator(path))[1:]


def test_a_training_loop(tmp_path):
    contrib = tf.contrib.summary
    step = tf.train.get_or_create_global_step()
    w = tf.Variable(1.0)
    loss = tf.square(w)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    writer = contrib.create_file_writer(str(tmp_path), max_queue=10, filename_suffix=".mine")
    with writer.as_default(), contrib.record_summaries_every_n_global_steps(2):
        recorded = contrib.scalar("loss", loss)
        with contrib.always_record_summaries():
            contrib.scalar("always", w, family="fam", step=tf.constant(7, tf.int64))
        with contrib.never_record_summaries():
            contrib.scalar("never", w)
    assert len(contrib.all_summary_ops()) == 3
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with writer.as_default():
            contrib.initialize(graph=tf.get_default_graph(), session=session)
        found = []
        for _ in range(5):
            found.append(bool(session.run(recorded)))
            session.run([contrib.all_summary_ops()[1]])
            session.run(train)
        session.run(writer.flush())
        drawn, *rest = events(tmp_path)
        assert found == [True, False, True, False, True]
        assert [node.op for node in tf.GraphDef.FromString(drawn.graph_def).node].count("SummaryWriter") == 1
        tags = [(value.tag, event.step) for event in rest for value in event.summary.value]
        assert [item for item in tags if item[0] == "loss"] == [("loss", 0), ("loss", 2), ("loss", 4)]
        assert tags.count(("fam/fam/always", 7)) == 5
        assert glob.glob(f"{tmp_path}/*.mine")


def test_each_kind(tmp_path):
    contrib = tf.contrib.summary
    metadata = tf.SummaryMetadata(display_name="shown")
    event = tf.Event(step=9, wall_time=1.0, summary=tf.Summary(value=[tf.Summary.Value(tag="e", simple_value=2)]))
    writer = contrib.create_file_writer(tmp_path)
    with writer.as_default(), contrib.always_record_summaries():
        step = tf.constant(3, tf.int32)
        contrib.histogram("h", [1.0, 2.0], step=step)
        contrib.image("i", np.zeros((2, 1, 1, 3), np.float32), max_images=1, step=step)
        contrib.audio("a", np.zeros((1, 4), np.float32), 8000.0, 1, step=step)
        contrib.generic("g", [1.0, 2.0], metadata, step=step)
        ops = [*contrib.all_summary_ops(), contrib.import_event(event.SerializeToString()), contrib.graph(b"", step=4)]
        raw = tf.build_op("WriteRawProtoSummary", writer._resource, np.int64(5), event.summary.SerializeToString())
        with tf.Session() as session:
            contrib.initialize(session=session)
            for op in [*ops, raw]:
                session.run(op)
            session.run(writer.close())
    found = events(tmp_path)
    assert [[item.step, item.WhichOneof("what")] for item in found] == [
        *[[3, "summary"]] * 4,
        [9, "summary"],
        [4, "graph_def"],
        [5, "summary"],
    ]
    values = [item.summary.value[0] for item in found if item.HasField("summary")]
    assert [value.tag for value in values] == ["h", "i/image", "a/audio", "g", "e", "e"]
    assert values[0].histo.num == 2
    assert values[3].metadata.display_name == "shown"
    assert tf.make_ndarray(values[3].tensor).tolist() == [1.0, 2.0]


def test_closing_the_session_closes_the_file(tmp_path):
    writer = tf.contrib.summary.create_file_writer(tmp_path, max_queue=100)
    with writer.as_default(), tf.contrib.summary.always_record_summaries():
        tf.contrib.summary.scalar("s", 1.0, step=1)
    with tf.Session() as session:
        session.run(writer.init())
        for _ in range(20):
            session.run(tf.contrib.summary.all_summary_ops())
    assert len(events(tmp_path)) == 20


def test_without_writer_or_file(tmp_path):
    contrib = tf.contrib.summary
    with contrib.always_record_summaries():
        assert contrib.scalar("s", 1.0).type == "NoOp"
        assert contrib.flush().type == "NoOp"
        with contrib.create_file_writer(None).as_default():
            assert contrib.scalar("s", 1.0).type == "NoOp"
    with contrib.create_file_writer(tmp_path).as_default(), contrib.always_record_summaries():
        op = contrib.scalar("s", 1.0, step=0)
        with pytest.raises(TypeError, match=r"initialize\(graph=graph\)"):
            contrib.graph(tf.get_default_graph())
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has no file yet"):
            session.run(op)
        with pytest.raises(RuntimeError, match="No default"):
            contrib.initialize(graph=tf.get_default_graph(), session=session)
    with pytest.raises(NotImplementedError, match="create_file_writer"):
        contrib.create_db_writer("db")
    assert tf.summary.all_v2_summary_ops is contrib.all_summary_ops
    assert contrib.should_record_summaries() is False


# ------------------------------------------------------------------------------------- what is written without a fetch
def events_in(folder):
    return [event for path in sorted(folder.glob("events*")) for event in tf.train.summary_iterator(str(path))]


def test_events_are_in_the_file_once_more_wait_than_may(tmp_path):
    for most, expected in ((0, [1, 2, 3, 4]), (1, [3, 3])):
        folder = tmp_path / str(most)
        with tf.Graph().as_default(), tf.Session() as session:
            with S.create_file_writer(str(folder), max_queue=most).as_default(), S.always_record_summaries():
                write = S.scalar("s", 1.0, step=1)
            session.run(S.summary_writer_initializer_op())
            assert len(events_in(folder)) == 1  # the version of the file
            if most:
                session.run(write)
                session.run(write)
                assert len(events_in(folder)) == 3
            else:
                for count in expected[1:]:
                    session.run(write)
                    assert len(events_in(folder)) == count


def test_summaries_of_branches_and_loops_are_written_when_these_run(tmp_path):
    """Nothing in the branch depends on them, and nobody can fetch them."""
    with tf.Graph().as_default(), tf.Session() as session:
        with S.create_file_writer(str(tmp_path), max_queue=0).as_default(), S.always_record_summaries():
            taken = tf.placeholder(tf.bool, [])

            def branch():
                with tf.name_scope("inner"):
                    S.scalar("c", 2.0, step=1)
                return tf.constant(1)

            def body(i):
                S.scalar("l", 3.0, step=tf.cast(i, tf.int64))
                return i + 1

            chosen = tf.cond(taken, branch, lambda: tf.constant(2))
            looped = tf.while_loop(lambda i: i < 2, body, [0])
            outside = S.scalar("o", 4.0, step=1)
        assert S.all_summary_ops() == [outside]
        session.run(S.summary_writer_initializer_op())
        session.run(chosen, {taken: False})
        assert len(events_in(tmp_path)) == 1
        session.run(chosen, {taken: True})
        session.run(looped)
        tags = [value.tag for event in events_in(tmp_path) for value in event.summary.value]
        assert tags == ["cond/inner/c", "while/l", "while/l"]
