"""What programs find behind monitored sessions and hooks, and what a lost task in a thread does."""

from __future__ import annotations

import threading
import time
from unittest import mock

import pytest

import anabranch as tf
from anabranch.compat.internal import private_names, training_internals
from anabranch.train import moving_averages


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as new:
        yield new


def test_the_session_behind_a_monitored_one():
    x = tf.constant(3.0)
    tf.Variable(1.0)
    with tf.train.MonitoredSession() as session:
        inner, names = session, []
        while type(inner).__name__ != "Session":
            inner = inner._sess
            names.append(type(inner).__name__)
        assert names == ["_RecoverableSession", "_CoordinatedSession", "_HookedSession", "Session"]
        assert inner is session._tf_sess()
        assert inner is session._coordinated_creator.tf_sess
        assert session._sess._sess.run(x) == 3.0
        assert not session._is_closed()
    assert session._is_closed()
    assert session._sess is None
    with tf.train.SingularMonitoredSession() as session:
        assert session._sess._sess._sess is session.raw_session()
        assert session._tf_sess() is session.raw_session()


class _Counting:
    def __init__(self):
        self.count = 0

    def create_session(self):
        self.count += 1
        return tf.Session()


class _Stopping(tf.train.SessionRunHook):
    """Ask the coordinator to stop with an error, once; and fail in another way then, if told so."""

    def __init__(self, problem, then=None):
        self.problem, self.then = problem, then

    def after_create_session(self, session, coord):
        self.coord = coord

    def after_run(self, run_context, run_values):
        problem, self.problem = self.problem, None
        if problem is not None:
            self.coord.request_stop(problem)
            if self.then is not None:
                raise self.then


def test_a_task_lost_by_a_thread():
    x = tf.constant(3.0)
    creator = _Counting()
    session = tf.train.MonitoredSession(creator, [_Stopping(tf.errors.AbortedError(None, None, "gone"))])
    assert session.run(x) == 3.0
    assert not session.should_stop()
    assert creator.count == 2
    assert session.run(x) == 3.0
    session.close()


def test_the_lost_task_is_the_cause_of_another_error():
    x = tf.constant(3.0)
    creator = _Counting()
    lost, then = tf.errors.AbortedError(None, None, "gone"), tf.errors.CancelledError(None, None, "so cancelled")
    session = tf.train.MonitoredSession(creator, [_Stopping(lost, then)])
    assert session.run(x) == 3.0
    assert creator.count == 2
    session.close()


def test_another_error_of_a_thread_ends_the_loop():
    x = tf.constant(3.0)
    creator = _Counting()
    session = tf.train.MonitoredSession(creator, [_Stopping(tf.errors.UnknownError(None, None, "broken"))])
    session.run(x)
    assert session.should_stop()
    assert creator.count == 1
    with pytest.raises(tf.errors.UnknownError, match=r"broken"):
        session.close()


def test_parts_of_scaffolds():
    with pytest.raises(TypeError, match=r"copy_from_scaffold is not a Scaffold instance"):
        tf.train.Scaffold(copy_from_scaffold=1)
    assert isinstance(tf.train.Scaffold().finalize().saver, tf.train.Saver)  # without a variable, too


def test_a_timer_follows_the_time_of_the_day():
    timer = tf.train.SecondOrStepTimer(every_secs=10)
    with mock.patch.object(time, "time") as now:
        now.return_value = 1e9
        timer.update_last_triggered_step(1)
        now.return_value += 9
        assert not timer.should_trigger_for_step(2)
        now.return_value += 2
        assert timer.should_trigger_for_step(2)


def test_a_waiter_for_nothing_reads_no_step():
    step = tf.train.get_or_create_global_step()
    hook = tf.train.GlobalStepWaiterHook(0)
    hook.begin()
    with tf.Session() as session:  # nothing is initialised
        hook.before_run(tf.train.SessionRunContext(tf.train.SessionRunArgs(step), session))


def test_a_step_that_stands_still_is_told(caplog: pytest.LogCaptureFixture):
    tf.train.get_or_create_global_step()
    x = tf.constant(1.0)
    with tf.train.MonitoredSession(hooks=[tf.train.StepCounterHook(every_n_steps=10)]) as session:
        for _ in range(20):
            session.run(x)
        assert "has not been increased" not in caplog.text
        session.run(x)
        assert "global step (tf.train.get_global_step) has not been increased" in caplog.text


def test_the_step_before_it_is_increased():
    assert private_names._get_or_create_global_step_read() is None
    tf.train.get_or_create_global_step()
    increase = private_names._increment_global_step(2)
    read = private_names._get_or_create_global_step_read()
    assert read is private_names._get_global_step_read()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([read, increase]) == [0, 2]
        assert session.run([increase, read]) == [4, 2]
    saver = private_names._get_saver_or_default()
    assert private_names._get_saver_or_default() is saver
    tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
    with pytest.raises(RuntimeError, match=r"More than one item in collection savers"):
        private_names._get_saver_or_default()


def test_a_weighted_average():
    value, weight = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    average = moving_averages.weighted_moving_average(value, 0.5, weight)
    assert average.op.name.startswith("WeightedMovingAvg")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(average, {value: 3.0, weight: 4.0}) == 3.0
        # (3 * 4 / 4 + 11 * 8 / 2) / (4 / 4 + 8 / 2)
        assert session.run(average, {value: 11.0, weight: 8.0}) == pytest.approx(47 / 5)


def test_a_session_that_a_coordinator_ends():
    x = tf.constant(3.0)
    coord = tf.train.Coordinator()

    def wait():
        while not coord.should_stop():
            time.sleep(0.001)

    thread = threading.Thread(target=wait)
    coord.register_thread(thread)
    thread.start()
    inner = tf.Session()
    session = training_internals._CoordinatedSession(inner, coord)
    assert session.graph is inner.graph
    assert session.run(x) == 3.0
    with pytest.raises(TypeError, match="None has invalid type"):
        session.run([None])
    assert not session.should_stop()
    session.close()
    assert not thread.is_alive()
    assert coord.should_stop()
    assert session.should_stop()


def test_a_thread_of_a_coordinated_session_fails_first():
    coord = tf.train.Coordinator(clean_stop_exception_types=())
    session = training_internals._CoordinatedSession(tf.Session(), coord)
    coord.request_stop(ValueError("the thread"))
    with pytest.raises(ValueError, match="the thread"):
        session.run(tf.check_numerics(float("nan"), "the run"))
    with pytest.raises(ValueError, match="the thread"):
        session.should_stop()


class _Failing:
    """A session that loses its task after some runs."""

    def __init__(self, runs):
        self.runs = runs
        self.session = tf.Session()

    graph = property(lambda self: self.session.graph)

    def run(self, *args, **kwargs):
        if not self.runs:
            raise tf.errors.AbortedError(None, None, "gone")
        self.runs -= 1
        return self.session.run(*args, **kwargs)

    def close(self):
        self.session.close()


def test_a_session_that_is_made_anew():
    x = tf.placeholder(tf.float32)
    waiting = [_Failing(1), _Failing(2)]
    creator = mock.Mock(create_session=lambda: waiting.pop(0))
    session = training_internals._RecoverableSession(creator)
    assert len(waiting) == 1
    assert [session.run(x, {x: value}) for value in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
    assert not waiting
    with pytest.raises(IndexError, match="pop from empty list"):
        session.run(x, {x: 4.0})


def test_a_lost_task_in_a_thread_makes_a_coordinated_session_anew():
    made = []

    def create():
        coord = tf.train.Coordinator(clean_stop_exception_types=())
        made.append(training_internals._CoordinatedSession(tf.Session(), coord))
        return made[-1]

    session = training_internals._RecoverableSession(mock.Mock(create_session=create))
    assert not session.should_stop()
    made[0]._coord.request_stop(tf.errors.UnavailableError(None, None, "gone"))
    assert not session.should_stop()
    assert len(made) == 2
    assert session.run(tf.constant(2.0)) == 2.0
