"""What `tf.train.Supervisor` writes and refuses, compared with TensorFlow 1.8 and 1.15."""

from __future__ import annotations

import glob
import time

import pytest

import anabranch as tf

LOG = tf.SessionLog


def events(folder: object) -> list[object]:
    return [e for path in sorted(glob.glob(f"{folder}/events*")) for e in tf.train.summary_iterator(path)]


def logs(folder: object) -> list[int]:
    return [e.session_log.status for e in events(folder) if e.HasField("session_log")]


def wait_for(condition: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:  # type: ignore[operator]
        time.sleep(0.02)
    assert condition()  # type: ignore[operator]


def test_a_save_of_its_thread_is_noted_among_the_events(tmp_path):
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0.05, save_summaries_secs=0)
        with supervisor.managed_session():
            wait_for(lambda: glob.glob(f"{tmp_path}/model.ckpt-0.index"))
    assert logs(tmp_path)[0] == LOG.START
    assert logs(tmp_path)[-1] == LOG.STOP
    saved = [e for e in events(tmp_path) if e.session_log.status == LOG.CHECKPOINT]
    assert saved
    assert saved[0].session_log.checkpoint_path == f"{tmp_path}/model.ckpt"


def test_a_writer_that_stays_open_notes_no_end_and_one_that_was_closed_is_opened_again(tmp_path):
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0)
        with supervisor.managed_session(close_summary_writer=False):
            pass
        assert logs(tmp_path) == [LOG.START]
        graphs = sum(e.HasField("graph_def") for e in events(tmp_path))
        with supervisor.managed_session():
            pass
        assert logs(tmp_path) == [LOG.START, LOG.START, LOG.STOP]
        assert sum(e.HasField("graph_def") for e in events(tmp_path)) == graphs  # once for each file
        with supervisor.managed_session():
            pass
        assert logs(tmp_path).count(LOG.STOP) == 2


def test_steps_a_second_are_counted_from_the_start(tmp_path):
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0.05)
        tags = lambda: [v.tag for e in events(tmp_path) for v in e.summary.value]  # noqa: E731
        with supervisor.managed_session():
            wait_for(lambda: supervisor.summary_writer.flush() or tags())
    assert set(tags()) == {f"{step.op.name}/sec"}


def test_who_is_not_the_chief_writes_nothing(tmp_path):
    with tf.Graph().as_default():
        with tf.device("/cpu:0"):
            tf.get_variable("v", [])
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), is_chief=False)
        assert supervisor.save_path is None
        assert supervisor.save_model_secs is None
        assert supervisor.save_summaries_secs is None
        assert supervisor.summary_writer is None
        with pytest.raises(RuntimeError, match=r"^Only chief supervisor can start standard services\."):
            supervisor.start_standard_services(None)
    assert not list(tmp_path.iterdir())


def test_who_is_not_the_chief_refuses_variables_without_a_device():
    with tf.Graph().as_default():
        tf.get_variable("v", [])
        with pytest.raises(ValueError, match=r"^When using replicas, all Variables must have their device set: "):
            tf.train.Supervisor(is_chief=False)
    with tf.Graph().as_default():
        tf.get_variable("v", [], use_resource=True)
        tf.train.Supervisor(is_chief=False)


def test_without_a_folder_there_are_no_services():
    with tf.Graph().as_default():
        supervisor = tf.train.Supervisor()
        with tf.Session() as session:
            assert supervisor.start_standard_services(session) is None
            assert supervisor.StartStandardServices(session) is None
        assert supervisor.ready_for_local_init_op is None


def test_a_step_in_floats_is_no_global_step():
    with tf.Graph().as_default():
        tf.Variable(0.0, name="global_step")
        assert tf.train.Supervisor().global_step is None
    with tf.Graph().as_default() as graph:
        step = tf.Variable(0, name="global_step")
        assert tf.train.Supervisor().global_step.name == step.name
        assert [item.name for item in graph.get_collection(tf.GraphKeys.GLOBAL_STEP)] == [step.name]


def test_a_queue_runner_takes_a_tuple_of_error_classes():
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(1, tf.float32)
        for given in ([tf.errors.OutOfRangeError], (ValueError,), ()):
            with pytest.raises(TypeError, match=r"^queue_closed_exception_types, when provided, must be a tuple of"):
                tf.train.QueueRunner(queue, [tf.no_op()], queue_closed_exception_types=given)
        runner = tf.train.QueueRunner(queue, [tf.no_op()], queue_closed_exception_types=(tf.errors.CancelledError,))
        assert runner.queue_closed_exception_types == (tf.errors.CancelledError,)
