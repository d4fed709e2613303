"""Coordinators, queue runners, hooks, monitored sessions and supervisors."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.protos import event_pb2
from anabranch.formats import bundle
from anabranch.formats import tfrecord as records


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


def step_op() -> Any:
    """An op that adds one to the global step."""
    return tf.assign_add(tf.train.get_or_create_global_step(), 1)


def tags(folder: Path) -> set[str]:
    """The tags of the summaries in a folder."""
    found = set()
    for path in folder.glob("events.*"):
        for record in records.tf_record_iterator(str(path)):
            found |= {value.tag for value in event_pb2.Event.FromString(record).summary.value}
    return found


# -------------------------------------------------------------------------------------------------------- coordinators
def test_threads_end_together() -> None:
    coord = tf.train.Coordinator()
    calls: list[int] = []

    def count() -> None:
        calls.append(1)
        if len(calls) == 3:
            coord.request_stop()

    thread = tf.train.LooperThread.loop(coord, None, count)
    other = threading.Thread(target=coord.wait_for_stop)
    other.start()
    coord.join([other])
    assert coord.should_stop()
    assert coord.joined
    assert len(calls) == 3
    assert not thread.is_alive()
    coord.clear_stop()
    assert not coord.should_stop()


def test_the_first_exception_is_raised_by_join() -> None:
    coord = tf.train.Coordinator()

    def fail() -> None:
        with coord.stop_on_exception():
            raise ValueError("first")

    thread = threading.Thread(target=fail)
    coord.register_thread(thread)
    thread.start()
    coord.wait_for_stop()
    coord.request_stop(KeyError("second"))
    with pytest.raises(ValueError, match="first"):
        coord.raise_requested_exception()
    with pytest.raises(ValueError, match="first"):
        coord.join()


def test_the_end_of_the_input_is_no_error() -> None:
    coord = tf.train.Coordinator()
    with coord.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "the end")
    coord.join()
    other = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    with other.stop_on_exception():
        raise KeyError("clean")
    other.join()


def test_threads_that_run_on_are_named() -> None:
    coord = tf.train.Coordinator()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="stubborn", daemon=True)
    thread.start()
    coord.request_stop()
    with pytest.raises(RuntimeError, match="threads still running: stubborn"):
        coord.join([thread], stop_grace_period_secs=0.1)
    coord.join([thread], stop_grace_period_secs=0.1, ignore_live_threads=True)
    release.set()


def test_loopers_want_a_coordinator() -> None:
    with pytest.raises(ValueError, match=r"a tf\.train\.Coordinator"):
        tf.train.LooperThread(None, 1)


# ------------------------------------------------------------------------------------------------------- queue runners
def test_queues_are_filled_and_closed() -> None:
    queue = tf.FIFOQueue(2, [tf.int64], shapes=[[]])  # the runner waits for the program
    counter = tf.Variable(0, dtype=tf.int64)
    following = tf.count_up_to(counter, 5)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(following)]))
    take = queue.dequeue()
    with tf.Session() as session:
        session.run(counter.initializer)
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        assert tf.train.start_queue_runners(session, coord) == []
        assert [session.run(take) for _ in range(5)] == list(range(5))
        with pytest.raises(tf.errors.OutOfRangeError, match="closed"):
            session.run(take)
        coord.request_stop()
        coord.join(threads)


def test_a_failure_of_a_runner_reaches_the_program(caplog: pytest.LogCaptureFixture) -> None:
    queue = tf.FIFOQueue(10, [tf.int64], shapes=[[]])
    bad = tf.cast(tf.gather([1], 7), tf.int64)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(bad)])
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        threads = runner.create_threads(session, coord, daemon=True, start=True)
        coord.wait_for_stop()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
            coord.join(threads)
        with caplog.at_level(logging.ERROR, "tensorflow"):
            (alone,) = runner.create_threads(session, daemon=True, start=True)
            alone.join()
        assert "Exception in QueueRunner: " in caplog.text
        assert isinstance(runner.exceptions_raised[0], tf.errors.InvalidArgumentError)


def test_runners_are_saved() -> None:
    queue = tf.FIFOQueue(10, [tf.int64], name="q")
    runner = tf.train.QueueRunner(queue, [queue.enqueue(3)])
    proto = runner.to_proto()
    assert proto.queue_name == "q"
    again = tf.train.QueueRunner.from_proto(proto)
    assert again.enqueue_ops == runner.enqueue_ops
    assert again.to_proto() == proto
    assert runner.to_proto(export_scope="other") is None
    with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
        tf.train.QueueRunner(queue, [])
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()


# --------------------------------------------------------------------------------------------------------------- hooks
class Recorder(tf.train.SessionRunHook):
    """Notes its calls; asks for a tensor."""

    def __init__(self, fetch: Any = None) -> None:
        self.calls: list[Any] = []
        self.fetch = fetch

    def begin(self) -> None:
        """Noted."""
        self.calls.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Noted."""
        self.calls.append("create")

    def before_run(self, run_context: Any) -> Any:
        """Noted."""
        self.calls.append("before")
        return tf.train.SessionRunArgs(self.fetch) if self.fetch is not None else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Noted with the value."""
        self.calls.append(("after", run_values.results))

    def end(self, session: Any) -> None:
        """Noted."""
        self.calls.append("end")


def test_hooks_are_called_in_order() -> None:
    step = step_op()
    hook, silent = Recorder(tf.constant(7)), Recorder()
    with tf.train.MonitoredSession(hooks=[hook, silent, tf.train.StopAtStepHook(last_step=2)]) as session:
        assert tf.get_default_graph().finalized
        while not session.should_stop():
            session.run(step)
    assert hook.calls == ["begin", "create", *["before", ("after", 7)] * 2, "end"]
    assert silent.calls[3] == ("after", None)
    assert not tf.get_default_graph().finalized


def test_hooks_see_options_and_statistics_that_nobody_has_asked_for() -> None:
    class Seen(tf.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.values = run_values

    hook = Seen()
    with tf.Graph().as_default():
        one = tf.constant(1)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            session.run(one)
    assert hook.values == tf.train.SessionRunValues(None, tf.RunOptions(), tf.RunMetadata())
    assert not hook.values.run_metadata.step_stats.dev_stats


def test_hooks_do_not_end_after_an_error() -> None:
    bad = tf.gather([1], 7)
    hook = Recorder()
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="not in"),
        tf.train.MonitoredSession(hooks=[hook]) as session,
    ):
        session.run(bad)
    assert "end" not in hook.calls


def test_the_end_of_the_input_ends_the_block() -> None:
    queue = tf.FIFOQueue(10, [tf.int64], shapes=[[]])
    counter = tf.Variable(0, dtype=tf.int64)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(tf.count_up_to(counter, 3))]))
    take = queue.dequeue()
    seen = []
    with tf.train.MonitoredSession() as session:
        while not session.should_stop():
            seen.append(int(session.run(take)))
    assert seen == [0, 1, 2]
    with pytest.raises(RuntimeError, match="Run called even after should_stop requested"):
        session.run(take)


def test_a_lost_session_is_made_anew(tmp_path: Path) -> None:
    step = step_op()
    fails = [True]

    def lose() -> np.int32:
        if fails and fails.pop():
            raise tf.errors.AbortedError(None, None, "lost")
        return np.int32(0)

    class Lose(tf.train.SessionRunHook):
        """Loses the session once, after the second step."""

        def after_run(self, run_context: Any, run_values: Any) -> None:
            """Loses it."""
            if run_context.session.run(tf.train.get_global_step()) == 2:
                lose()

    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_steps=1, hooks=[Lose(), tf.train.StopAtStepHook(last_step=4)]
    ) as session:
        while not session.should_stop():
            last = session.run(step)
    assert last == 4
    assert fails == []


def test_feeds_of_hooks_and_steps_without_hooks() -> None:
    place = tf.placeholder(tf.int32, [])
    doubled = place * 2
    hook = Recorder(tf.constant(1))
    feed = tf.train.FeedFnHook(lambda: {place: 21})
    with tf.train.SingularMonitoredSession(hooks=[hook, feed]) as session:
        assert session.run(doubled) == 42
        before = len(hook.calls)
        assert session.run_step_fn(lambda step_context: step_context.session.run(doubled, {place: 1})) == 2
        assert len(hook.calls) == before
        assert session.raw_session().run(doubled, {place: 2}) == 4
        assert session.run_step_fn(lambda step_context: step_context.run_with_hooks(doubled)) == 42
        with pytest.raises(RuntimeError, match="Same tensor is fed by two hooks"):
            session.run(doubled, {place: 3})
        with pytest.raises(ValueError, match="`step_fn` may either have one"):
            session.run_step_fn(lambda other: None)
        with pytest.raises(StopIteration, match="has requested the iterations to stop"):
            session.run_step_fn(lambda step_context: step_context.request_stop())


def test_training_saves_restores_and_writes_summaries(tmp_path: Path) -> None:
    def train(steps: int) -> int:
        with tf.Graph().as_default():
            w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
            loss = tf.square(w - 3.0)
            tf.summary.scalar("loss", loss)
            step = tf.train.get_or_create_global_step()
            op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path),
                save_summaries_steps=2,
                log_step_count_steps=2,
                save_checkpoint_steps=5,
                hooks=[tf.train.StopAtStepHook(num_steps=steps), tf.train.NanTensorHook(loss)],
            ) as session:
                while not session.should_stop():
                    session.run(op)
        return int(tf.train.latest_checkpoint(str(tmp_path)).rpartition("-")[2])

    assert train(10) == 10
    assert train(7) == 17
    assert {"loss", "global_step/sec"} <= tags(tmp_path)
    assert list(tmp_path.glob("*.meta"))


def test_values_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    step = step_op()
    hooks = [
        tf.train.LoggingTensorHook({"now": step}, every_n_iter=2),
        tf.train.LoggingTensorHook([step], at_end=True, formatter=lambda values: f"last {len(values)}"),
        tf.train.StopAtStepHook(last_step=4),
    ]
    with caplog.at_level(logging.INFO, "tensorflow"), tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(step)
    shown = [record.getMessage().partition(" (")[0] for record in caplog.records]
    assert [text for text in shown if text.startswith(("now", "last"))] == ["now = 1", "now = 3", "last 1"]


def test_nan_ends_training() -> None:
    loss = tf.log(-1.0)
    with pytest.raises(tf.train.NanLossDuringTrainingError, match="NaN loss during training"):
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session:
            session.run(loss)


def test_nan_may_end_training_without_an_error() -> None:
    loss = tf.log(-1.0)
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss, fail_on_nan_loss=False)]) as session:
        session.run(loss)
        assert session.should_stop()


def test_checkpoints_are_announced(tmp_path: Path) -> None:
    step = step_op()
    told: list[Any] = []

    class Listener(tf.train.CheckpointSaverListener):
        """Notes its calls, and stops at the second step."""

        def before_save(self, session: Any, global_step_value: int) -> None:
            """Noted."""
            told.append(("before", global_step_value))

        def after_save(self, session: Any, global_step_value: int) -> Any:
            """Noted."""
            told.append(("after", global_step_value))
            return global_step_value == 2

        def end(self, session: Any, global_step_value: int) -> None:
            """Noted."""
            told.append(("end", global_step_value))

    saver = tf.train.CheckpointSaverHook(
        str(tmp_path), save_steps=2, listeners=[Listener()], scaffold=tf.train.Scaffold()
    )
    final = tf.train.FinalOpsHook(tf.train.get_global_step())
    saver._scaffold._saver = tf.train.Saver()
    with tf.train.MonitoredSession(hooks=[saver, final]) as session:
        while not session.should_stop():
            session.run(step)
    assert told == [("before", 0), ("after", 0), ("before", 2), ("after", 2), ("end", 2)]
    assert final.final_ops_values == 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: tf.train.StopAtStepHook(), "exactly one of num_steps and last_step"),
        (lambda: tf.train.StopAtStepHook(num_steps=1, last_step=1), "exactly one of"),
        (lambda: tf.train.LoggingTensorHook(["x"]), "exactly one of every_n_iter and every_n_secs"),
        (lambda: tf.train.LoggingTensorHook(["x"], every_n_iter=0), "invalid every_n_iter=0"),
        (lambda: tf.train.CheckpointSaverHook("x"), "exactly one of save_steps and save_secs"),
        (lambda: tf.train.SummarySaverHook(save_steps=1), "one of scaffold or summary_op"),
        (lambda: tf.train.SecondOrStepTimer(1, 1), "Can only set one of"),
    ],
)
def test_arguments_of_hooks(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_hooks_need_a_global_step() -> None:
    with pytest.raises(RuntimeError, match="Global step should be created"):
        tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=1)])


def test_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    assert timer.should_trigger_for_step(5)
    assert timer.update_last_triggered_step(5) == (None, None)
    assert [timer.should_trigger_for_step(step) for step in (5, 7, 8)] == [False, False, True]
    assert timer.update_last_triggered_step(8)[1] == 3
    assert timer.last_triggered_step() == 8
    by_time = tf.train.SecondOrStepTimer(every_secs=5)
    now = time.time()
    for seconds, due in ((0.0, None), (4.0, False), (6.0, True)):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: now + seconds)
        if due is None:
            by_time.update_last_triggered_step(1)
        else:
            assert by_time.should_trigger_for_step(2) is due


# ------------------------------------------------------------------------------------------------- scaffolds, managers
def test_scaffolds_initialise() -> None:
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    local = tf.get_local_variable("local", [], initializer=tf.zeros_initializer())
    seen = []
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: seen.append(session.run(v)))
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
        assert session.run([v, local]) == [1.0, 0.0]
    assert seen == [1.0]
    assert tf.train.Scaffold(copy_from_scaffold=scaffold).init_op is scaffold.init_op


def test_sessions_that_are_not_ready() -> None:
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    ready = tf.report_uninitialized_variables()
    manager = tf.train.SessionManager(ready_op=ready)
    with pytest.raises(RuntimeError, match="Variables not initialized: v"):
        manager.prepare_session("", init_op=tf.no_op())
    with pytest.raises(RuntimeError, match="Model is not initialized"):
        manager.prepare_session("")
    session, restored = manager.recover_session("")
    assert not restored
    session.close()
    with pytest.raises(tf.errors.DeadlineExceededError, match="Session was not ready"):
        tf.train.SessionManager(ready_op=ready, recovery_wait_secs=0.01).wait_for_session("", max_wait_secs=0.03)
    with manager.prepare_session("", init_op=v.initializer) as good:
        assert good.run(v) == 1.0


# ---------------------------------------------------------------------------------------------------------- supervisor
def test_a_supervisor_saves_and_restores(tmp_path: Path) -> None:
    def train() -> int:
        with tf.Graph().as_default():
            step = step_op()
            tf.summary.scalar("step", tf.train.get_global_step())
            supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0.05)
            with supervisor.managed_session() as session:
                first = int(session.run(tf.train.get_global_step()))
                for _ in range(3):
                    session.run(step)
                supervisor.summary_computed(session, session.run(supervisor.summary_op))
                supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
                assert not supervisor.should_stop()
        return first

    assert train() == 0
    assert train() == 3
    assert "step" in tags(tmp_path)


def test_a_supervisors_block_raises_what_failed() -> None:
    bad = tf.gather([1], 7)
    supervisor = tf.train.Supervisor()
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"), supervisor.managed_session() as session:
        session.run(bad)
    with pytest.raises(RuntimeError, match="Writing a summary requires a summary writer"):
        supervisor.summary_computed(None, None)


def test_loops_of_a_supervisor() -> None:
    v = tf.Variable(0)
    more = tf.assign_add(v, 1)
    supervisor = tf.train.Supervisor()
    with supervisor.managed_session() as session:
        supervisor.loop(0.01, session.run, (more,))
        while session.run(v) < 3:
            time.sleep(0.01)
    assert supervisor.should_stop()


def test_a_basic_loop_goes_on_behind_an_aborted_session() -> None:
    v = tf.Variable(0)
    more = tf.assign_add(v, 1)
    supervisor = tf.train.Supervisor()
    sessions, calls = [], []

    def step(session: tf.Session, by: int, until: int = 0) -> None:
        sessions.append(session)
        calls.append(by)
        if len(calls) == 3:
            raise tf.errors.AbortedError(None, None, "the server has started again")
        if session.run(more) == until:
            supervisor.request_stop()

    tf.train.basic_train_loop(supervisor, step, args=(2,), kwargs={"until": 5})
    assert calls == [2] * 8
    assert len(set(sessions)) == 2

    with pytest.raises(ValueError, match="mine"):
        tf.train.basic_train_loop(tf.train.Supervisor(), lambda session: (_ for _ in ()).throw(ValueError("mine")))


def test_a_supervisor_saves_by_itself(tmp_path: Path) -> None:
    step = step_op()
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0.05, save_summaries_secs=0)
    with supervisor.managed_session() as session:
        session.run(step)
        while tf.train.latest_checkpoint(str(tmp_path)) is None or not tf.train.latest_checkpoint(
            str(tmp_path)
        ).endswith("-1"):
            time.sleep(0.02)


# --------------------------------------------------------------------------------------------------- asynchronous saves
@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of checkpoints that take a moment."""
    write = bundle.write_bundle

    def slow(*args: Any) -> Any:
        time.sleep(0.3)
        return write(*args)

    monkeypatch.setattr(bundle, "write_bundle", slow)


class Latest(tf.train.CheckpointSaverListener):
    """Notes which checkpoint is the latest when it hears of one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.found = str(folder), []

    def after_save(self, session: Any, global_step_value: Any) -> None:
        """Looks."""
        path = tf.train.latest_checkpoint(self.folder)
        self.found.append((global_step_value, None if path is None else int(path.rpartition("-")[2])))


@pytest.mark.usefixtures("slow_disk")
@pytest.mark.parametrize("listening", [False, True])
def test_who_leaves_a_session_finds_its_last_checkpoint(tmp_path: Path, listening: bool) -> None:
    step = step_op()
    listener = Latest(tmp_path)
    saver = tf.train.Saver(asynchronous=True)
    hook = tf.train.CheckpointSaverHook(
        str(tmp_path), save_steps=2, saver=saver, listeners=[listener] if listening else None
    )
    for last in (3, 6):
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), scaffold=tf.train.Scaffold(saver=saver), hooks=[hook],
            save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None,
        ) as session:  # fmt: skip
            for _ in range(3):
                found = session.run(step)
            assert found == last
        assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / f"model.ckpt-{last}")
    assert all(told == there for told, there in listener.found)
    assert bool(listener.found) == listening


@pytest.mark.usefixtures("slow_disk")
def test_a_supervisor_waits_for_its_saver(tmp_path: Path) -> None:
    step = step_op()
    saver = tf.train.Saver(asynchronous=True)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), saver=saver, save_model_secs=0, summary_op=None)
    with supervisor.managed_session() as session:
        session.run(step)
        saver.save(session, str(tmp_path / "model.ckpt"), global_step=1)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-1")


@pytest.mark.usefixtures("slow_disk")
def test_a_session_after_a_failure_restores_what_was_being_written(tmp_path: Path) -> None:
    step = step_op()
    saver = tf.train.Saver(asynchronous=True)
    manager = tf.train.SessionManager()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        saver.save(session, str(tmp_path / "model.ckpt"), global_step=1)
    with manager.prepare_session("", saver=saver, checkpoint_dir=str(tmp_path)) as session:
        assert session.run(tf.train.get_global_step()) == 1


def test_a_session_is_closed_once():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="Session is already closed"):
        with tf.train.MonitoredSession() as session:
            session.close()


def test_a_step_whose_run_with_hooks_loses_a_task_is_tried_again_as_a_whole():
    class Loses(tf.train.SessionRunHook):
        lost = False

        def before_run(self, run_context):
            if not self.lost:
                self.lost = True
                raise tf.errors.AbortedError(None, None, "lost")

    begun = []

    def step(step_context):
        begun.append(step_context.session)
        return step_context.run_with_hooks(v)

    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=3.0)
        with tf.train.MonitoredSession(hooks=[Loses()]) as session:
            assert session.run_step_fn(step) == 3.0
    assert len(begun) == 2
    assert begun[0] is not begun[1]
