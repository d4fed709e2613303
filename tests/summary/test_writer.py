"""Event files: written, read back, closed, forked, killed, refused by the disk."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import signal
import textwrap
import threading
import time

import pytest
import warm_python

import anabranch as tf
from anabranch.summary import event_file


def summary(tag="x", value=1.0, **given):
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value, **given)])


def events(folder):
    return [event for path in sorted(glob.glob(f"{folder}/*")) for event in tf.train.summary_iterator(path)]


def test_what_is_written_is_read(tmp_path):
    logdir = tmp_path / "made" / "when needed"
    with tf.Graph().as_default() as graph:
        with tf.name_scope("scope"), tf.device("/cpu:0"):
            tf.constant(1.0, name="c")
        started = time.time()
        with tf.summary.FileWriter(logdir, graph, filename_suffix=".mine") as writer:
            assert writer.get_logdir() == str(logdir)
            writer.add_summary(summary("a", 0.5), 3)
            writer.add_summary(summary("b", 0.25).SerializeToString(), global_step=4)
            writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 5)
            writer.add_run_metadata(tf.RunMetadata(), "step 6", 6)
            writer.add_meta_graph(tf.MetaGraphDef(), 7)
            writer.add_event(tf.Event(step=8, wall_time=1.5))
    (path,) = glob.glob(f"{logdir}/*")
    assert os.path.basename(path).startswith("events.out.tfevents.")
    assert path.endswith(".mine")
    first, drawn, exported, *rest = tf.train.summary_iterator(path)
    assert first.file_version == "brain.Event:2"
    assert started - 1 < first.wall_time <= time.time()
    (node,) = tf.GraphDef.FromString(drawn.graph_def).node
    assert (node.name, node.device) == ("scope/c", "/device:CPU:0")
    assert "_output_shapes" in node.attr
    assert [node.name for node in tf.MetaGraphDef.FromString(exported.meta_graph_def).graph_def.node] == ["scope/c"]
    assert [event.step for event in rest] == [3, 4, 5, 6, 7, 8]
    assert [event.WhichOneof("what") for event in rest] == [
        "summary", "summary", "session_log", "tagged_run_metadata", "meta_graph_def", None,
    ]  # fmt: skip
    assert rest[0].summary.value[0].simple_value == 0.5
    assert rest[-1].wall_time == 1.5


def test_metadata_is_written_once_for_a_tag(tmp_path):
    metadata = tf.SummaryMetadata(display_name="shown")
    with tf.summary.FileWriter(tmp_path) as writer:
        for tag in ("a", "a", "b"):
            writer.add_summary(summary(tag, metadata=metadata))
    found = [event.summary.value[0].HasField("metadata") for event in events(tmp_path)[1:]]
    assert found == [True, False, True]
    assert metadata.display_name == "shown"


def test_flushed_events_are_in_the_file(tmp_path):
    writer = tf.summary.FileWriter(tmp_path, max_queue=2)
    for step in range(50):
        writer.add_summary(summary(), step)
    writer.flush()
    assert [event.step for event in events(tmp_path)[1:]] == list(range(50))
    writer.close()
    writer.close()


def test_closed_and_reopened(tmp_path):
    writer = tf.summary.FileWriter(tmp_path)
    writer.add_summary(summary(), 1)
    writer.close()
    with pytest.warns(UserWarning, match="closed FileWriter"):
        writer.add_summary(summary(), 2)
    with pytest.warns(UserWarning, match="closed FileWriter"):
        writer.flush()
    writer.reopen()
    writer.reopen()
    writer.add_summary(summary(), 3)
    writer.close()
    assert len(glob.glob(f"{tmp_path}/*")) == 2
    assert [event.step for event in events(tmp_path) if event.HasField("summary")] == [1, 3]


def test_writers_of_one_folder_do_not_share_a_file(tmp_path):
    writers = [tf.summary.FileWriter(tmp_path) for _ in range(5)]
    for i, writer in enumerate(writers):
        writer.add_summary(summary(), i)
        writer.close()
    assert len({writer.event_writer.path for writer in writers}) == 5
    assert sorted(event.step for event in events(tmp_path) if event.HasField("summary")) == list(range(5))


def test_many_threads(tmp_path):
    with tf.summary.FileWriter(tmp_path, max_queue=3) as writer:
        threads = [
            threading.Thread(target=lambda i=i: [writer.add_summary(summary(str(i)), n) for n in range(100)])
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [(event.summary.value[0].tag, event.step) for event in events(tmp_path)[1:]]
    assert sorted(found) == sorted((str(i), n) for i in range(4) for n in range(100))
    for i in range(4):
        assert [n for tag, n in found if tag == str(i)] == list(range(100))


def test_cache(tmp_path):
    with tf.Graph().as_default():
        tf.constant(1.0)
        first = tf.summary.FileWriterCache.get(tmp_path)
        assert tf.summary.FileWriterCache.get(str(tmp_path)) is first
        assert tf.train.SummaryWriter is tf.summary.FileWriter
    tf.summary.FileWriterCache.clear()
    assert first.event_writer.closed
    kinds = [event.WhichOneof("what") for event in events(tmp_path)]
    assert kinds == ["file_version", "graph_def", "meta_graph_def"]
    assert tf.summary.FileWriterCache.get(tmp_path) is not first
    tf.summary.FileWriterCache.clear()


def test_refusals(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.AlreadyExistsError, match="file; File exists"):
        tf.summary.FileWriter(tmp_path / "file")
    with tf.summary.FileWriter(tmp_path) as writer:
        with pytest.raises(TypeError, match="must be an instance of `Graph`"):
            writer.add_graph("graph")
        with pytest.raises(ValueError, match="not both"):
            writer.add_graph(tf.Graph(), graph_def=tf.GraphDef())
        with pytest.warns(UserWarning, match="deprecated"):
            writer.add_graph(tf.GraphDef())
        with pytest.raises(TypeError, match="must be type MetaGraphDef"):
            writer.add_meta_graph(tf.GraphDef())
        writer.add_run_metadata(tf.RunMetadata(), "tag")
        with pytest.raises(ValueError, match="already used"):
            writer.add_run_metadata(tf.RunMetadata(), "tag")
    with pytest.raises(tf.errors.NotFoundError, match="No such file"):
        tf.train.summary_iterator(tmp_path / "absent")


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    with tf.summary.FileWriter(tmp_path) as writer:
        writer.flush()

        def refuse(file, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(event_file.os, "write", refuse)
        writer.add_summary(summary(), 1)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
            writer.flush()
        monkeypatch.undo()
        writer.add_summary(summary(), 2)
    assert [event.step for event in events(tmp_path)[1:]] == [2]


def test_a_damaged_file(tmp_path):
    with tf.summary.FileWriter(tmp_path) as writer:
        writer.add_summary(summary(), 1)
    (path,) = glob.glob(f"{tmp_path}/*")
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(size - 6)
        last = file.read(1)
        file.seek(size - 6)
        file.write(bytes([last[0] ^ 1]))
    found = tf.train.summary_iterator(path)
    assert next(found).file_version
    with pytest.raises(tf.errors.DataLossError, match="corrupted record at"):
        next(found)
    for cut in (
        1,
        3,
        20,
        30,
    ):  # its writer is not done, or was killed
        os.truncate(path, size - cut)
        assert [bool(event.file_version) for event in tf.train.summary_iterator(path)] == [True]
    with tf.python_io.TFRecordWriter(tmp_path / "other") as records:
        records.write(b"\x0a\xff")
    with pytest.raises(tf.errors.DataLossError, match="a record is not an event"):
        list(tf.train.summary_iterator(tmp_path / "other"))


def run(program, *arguments):
    return warm_python.run(textwrap.dedent(program), [*map(str, arguments)])


@pytest.mark.multiprocess
def test_a_program_that_ends_without_closing_loses_nothing(tmp_path):
    shown = run(
        """
        import sys
        import anabranch as tf
        writer = tf.summary.FileWriter(sys.argv[1], max_queue=1000)
        for step in range(500):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="x", simple_value=1)]), step)
        """,
        tmp_path,
    )
    assert shown.returncode == 0, shown.stderr
    assert [event.step for event in events(tmp_path)[1:]] == list(range(500))


@pytest.mark.multiprocess
def test_a_killed_program_loses_only_what_was_not_flushed(tmp_path):
    shown = run(
        """
        import os, signal, sys
        import anabranch as tf
        writer = tf.summary.FileWriter(sys.argv[1], max_queue=1000)
        for step in range(300):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="x", simple_value=1)]), step)
            if step == 200:
                writer.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert shown.returncode == -signal.SIGKILL, shown.stderr
    (path,) = glob.glob(f"{tmp_path}/*")
    found = tf.train.summary_iterator(path)
    next(found)
    steps = []
    with contextlib.suppress(tf.errors.DataLossError):  # killed in the middle of its last write
        for event in found:
            steps.append(event.step)
    assert steps == list(range(len(steps)))
    assert len(steps) > 200


@pytest.mark.multiprocess
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_file_of_its_own(tmp_path):
    shown = run(
        """
        import os, sys
        import anabranch as tf
        def add(step):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="x", simple_value=1)]), step)
        writer = tf.summary.FileWriter(sys.argv[1])
        add(1)
        child = os.fork()
        add(10 if child else 20)
        writer.flush()
        writer.close()
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """,
        tmp_path,
    )
    assert shown.returncode == 0, shown.stderr
    files = [[event.step for event in tf.train.summary_iterator(path)][1:] for path in glob.glob(f"{tmp_path}/*")]
    assert sorted(files) == [[1, 10], [20]]
