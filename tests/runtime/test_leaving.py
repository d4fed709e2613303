"""Steps that Ctrl-C, ``close`` or the end of the process cuts short: callers are back soon, steps done or not."""

from __future__ import annotations

import logging
import os
import signal
import textwrap
import threading
import time

import numpy as np
import pytest
import warm_python

import anabranch as tf
from anabranch.formats import staging
from anabranch.runtime import step_threads
from tests.running_steps import LONG, expiring, until, until_waiting

LATE = 1.5 * LONG
"""Seconds that a step of these tests would take, which are not waited for."""
ENDLESS = 2_000_000_000
MAYBE_LEFT = r"^$|goes on until its program, or function, returns"


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    until(lambda: not step_threads._running)


@pytest.fixture
def sleeper():
    """A Python function that sleeps until the test is over, or for a long time."""
    over, sleeps = threading.Event(), threading.Event()

    def sleep(value):
        sleeps.set()
        over.wait(LATE)
        return value

    sleep.over, sleep.sleeps = over, sleeps
    yield sleep
    over.set()


@pytest.fixture
def ctrl_c():
    """Sends SIGINT to the main thread after some seconds; what it raises is heard, wherever the tests run.

    It is sent again if it came between the interpreter's last look for signals and a wait, which then does not end.
    """
    timers = []

    class Timer(threading.Timer):
        """Sends until it is heard, once."""

        def __init__(self, seconds):
            super().__init__(seconds, self.send)
            self.heard = threading.Event()

        def send(self):
            while not self.finished.is_set() and not self.heard.is_set():
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                self.heard.wait(5)

    def handler(number, frame):
        waiting = [timer for timer in timers if not timer.heard.is_set()]
        for timer in waiting:
            timer.heard.set()
        if waiting:
            raise KeyboardInterrupt

    def after(seconds):
        timers.append(Timer(seconds))
        timers[-1].start()

    before = signal.signal(signal.SIGINT, handler)
    yield after
    for timer in timers:
        timer.cancel()
        timer.heard.set()
        timer.join()
    signal.signal(signal.SIGINT, before)


def endless(n, x):
    """A loop that counts to ``n``."""
    return tf.while_loop(lambda i, _: i < n, lambda i, value: (i + 1, value * 1.0000001 + 1e-9), (0, x))[1]


def products(x, count, size=1000):
    """A chain of products, one program that takes some seconds and that nothing can stop."""
    value = tf.fill([size, size], x)
    for _ in range(count):
        value = tf.matmul(value, value) * 1e-9
    return value


def late_steps(v, sleeper):
    """By name a step that adds to a variable and does not end, or not soon, and its feeds."""
    n = tf.placeholder(tf.int32, [], name="n")
    slept = tf.py_func(sleeper, [tf.constant(1.0)], tf.float32)
    slept.set_shape([])
    outer = tf.while_loop(lambda i, _: i < 5, lambda i, x: (i + 1, endless(n, x)), (0, v + 1.0))[1]
    return {
        "loop": (v.assign_add(endless(n, v + 1.0)).op, {n: ENDLESS}),
        "loops": (v.assign_add(outer).op, {n: ENDLESS}),
        "function": (v.assign_add(slept).op, {}),
        "queue": (v.assign_add(tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()).op, {}),
    }


@pytest.mark.parametrize("kind", ["loop", "loops", "function", "queue"])
def test_closing_a_session_ends_what_runs(tier, sleeper, kind):
    session = tf.Session(config=tf.SessionOptions(tier=tier))
    v = tf.Variable(0.0, name="v")
    session.run(v.initializer)
    step, feeds = late_steps(v, sleeper)[kind]
    found = []

    def run():
        try:
            session.run(step, feeds)
        except tf.errors.CancelledError as problem:
            found.append(problem)

    worker = threading.Thread(target=run)
    worker.start()
    if kind == "function":
        assert sleeper.sleeps.wait(LONG)
    elif kind == "queue":
        until_waiting(session)
    else:
        until(lambda: session._worker.running)
        time.sleep(0.5)  # a moment within the loop
    session.close()
    worker.join(LONG)
    assert not worker.is_alive()
    assert ("Dequeue operation was cancelled" if kind == "queue" else "Session was closed") in str(found[0])
    sleeper.over.set()
    until(lambda: not session._worker.running)
    assert not session._worker.manager.slots()


@pytest.mark.parametrize("kind", ["loop", "loops", "function", "queue"])
def test_an_interrupt_ends_what_runs(session, sleeper, ctrl_c, kind):
    v = tf.Variable(0.0, name="v")
    session.run(v.initializer)
    step, feeds = late_steps(v, sleeper)[kind]
    ctrl_c(0.7)
    with pytest.raises(KeyboardInterrupt, match=MAYBE_LEFT):
        session.run(step, feeds)
    assert session.run(v) == 0.0
    session.run(v.assign_add(1.0).op)
    assert session.run(v) == 1.0


def test_an_interrupted_program_is_done_and_the_next_user_is_told(ctrl_c, caplog):
    """A program that owns its variables cannot be taken back: who wants them next waits, and finds the step done."""
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        v = tf.Variable(np.zeros(3, np.float32), name="v")
        x = tf.placeholder(tf.float32, [])
        step = v.assign_add(products(x, 60)[0, :3] * 0.0 + 1.0).op
        session.run(v.initializer)
        session.run(step, {x: 1.0})
        ctrl_c(0.3)
        with caplog.at_level(logging.WARNING, "anabranch"):
            with pytest.raises(KeyboardInterrupt, match=MAYBE_LEFT) as caught:
                session.run(step, {x: 1.0})
            left = [step for step in step_threads._running if step.left]
            waited = "has ended" not in caplog.text
            session.run(v.assign_add(np.ones(3, np.float32)).op)
            if left:  # its last word comes behind its variables
                until(lambda: "has ended" in caplog.text)
        np.testing.assert_array_equal(session.run(v), np.full(3, 3.0))
    if left:  # else the machine was fast, and the step at its end
        assert "goes on until its program" in caught.value.__notes__[0]
        if waited:
            assert "waits for variables that are held by the step of 'AssignAdd', interrupted" in caplog.text
        assert "has ended: it is done, with all that it writes" in caplog.text


def test_a_step_that_was_left_before_its_program_did_nothing(caplog):
    """Closed while its function sleeps, a step writes nothing when the function returns, and the log says so."""
    started, go = threading.Event(), threading.Event()
    session = tf.Session(config=tf.SessionOptions(tier="compiled"))
    slept = tf.py_func(lambda: (started.set(), go.wait(LATE), np.float32(1.0))[2], [], tf.float32)
    slept.set_shape([])
    v = tf.Variable(0.0, name="v")
    session.run(v.initializer)
    step = v.assign_add(slept).op

    def run():
        with pytest.raises(tf.errors.CancelledError, match="Session was closed"):
            session.run(step)

    worker = threading.Thread(target=run)
    worker.start()
    assert started.wait(LATE)
    with caplog.at_level(logging.WARNING, "anabranch"):
        session.close()
        worker.join(LONG)
        assert not worker.is_alive()
        go.set()
        until(lambda: "has ended" in caplog.text)
    assert "the step of 'AssignAdd', cancelled" in caplog.text
    assert "has ended: it did nothing" in caplog.text


def test_a_function_in_python_is_interrupted_with_its_step(session, ctrl_c):
    seen = []

    def forever():
        try:
            while True:
                time.sleep(0.01)
        except BaseException as problem:
            seen.append(type(problem))
            raise

    told = tf.py_func(forever, [], [])
    ctrl_c(0.5)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        session.run(told)
    assert seen == [step_threads.Ended]


def test_loops_that_are_usually_short_run_in_their_callers_thread_until_one_is_not():
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        v = tf.Variable(0, name="v")
        n = tf.placeholder(tf.int32, [])
        step = v.assign_add(tf.while_loop(lambda i, _: i < n, lambda i, s: (i + 1, s + i % 3), (0, 0))[1])
        session.run(v.initializer)
        few, many = {n: np.array(4, np.int32)}, {n: np.array(30_000_000, np.int32)}
        for _ in range(4):
            session.run(step, few)
        ((plan, runner),) = [
            found for found in session._worker._plans.values() if found.runner.fast and found.runner.fast.limited
        ]
        assert not runner.fast.apart
        assert plan.took < 0.05
        before = session.run(v)
        expected = sum(i % 3 for i in range(9)) * (30_000_000 // 9) + sum(i % 3 for i in range(30_000_000 % 9))
        assert session.run(step, many) == before + expected
        assert runner.fast._overran == 1
        assert session.run(step, few) == before + expected + 3
        for _ in range(6):
            session.run(step, many)
            session.run(step, few)
        assert session.run(v) == before + 7 * expected + 7 * 3
        assert runner.fast.apart


def test_steps_of_a_session_with_a_timeout_are_not_in_flight():
    config = tf.ConfigProto(operation_timeout_in_ms=60000)
    with tf.Session(config=tf.SessionOptions(tier="compiled", config=config)) as session:
        v = tf.Variable(0.0, name="v")
        session.run(v.initializer)
        call = session.make_callable(v.assign_add(1.0).op, [], asynchronous=True)
        for _ in range(3):
            call()
        assert call.pipeline.pending == 0
        assert session.run(v) == 3.0


def test_an_endless_loop_of_an_asynchronous_callable_is_interrupted(ctrl_c):
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        v = tf.Variable(0.0, name="v")
        n = tf.placeholder(tf.int32, [])
        session.run(v.initializer)
        call = session.make_callable(v.assign_add(endless(n, v + 1.0)).op, [n], asynchronous=True)
        call(3)
        before = session.run(v)
        ctrl_c(0.5)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            call(ENDLESS)
        assert session.run(v) == before


def test_a_coordinator_stops_threads_in_long_steps(tier, sleeper):
    session = tf.Session(config=tf.SessionOptions(tier=tier))
    v = tf.Variable(0.0, name="v")
    session.run(v.initializer)
    steps = late_steps(v, sleeper)
    coordinator = tf.train.Coordinator(clean_stop_exception_types=(tf.errors.CancelledError,))

    def work(step, feeds):
        with coordinator.stop_on_exception():
            session.run(step, feeds)

    threads = [threading.Thread(target=work, args=steps[kind]) for kind in ("loop", "queue")]
    for thread in threads:
        thread.start()
    until(lambda: len(session._worker.running) == 2)
    until_waiting(session)
    time.sleep(0.3)  # a moment within the loop
    coordinator.request_stop()
    session.close()
    coordinator.join(threads, stop_grace_period_secs=LONG)
    assert not any(thread.is_alive() for thread in threads)


def run_script(text):
    done = warm_python.run(textwrap.dedent(text), warnings_are="ignore")
    assert done.returncode == 0, done.stderr
    return done


LEFT_IN_A_PROGRAM = """
    import time
    import numpy as np
    import anabranch as tf
    session = tf.Session(config=tf.SessionOptions(tier="compiled"))
    x = tf.placeholder(tf.float32, [])
    value = tf.fill([1000, 1000], x)
    for _ in range(30):
        value = tf.matmul(value, value) * 1e-9
    try:
        session.run(value, {x: 1.0}, options=tf.RunOptions(timeout_in_ms=1))
    except tf.errors.DeadlineExceededError:
        pass
    try:
        session.run(value, {x: 1.0}, options=tf.RunOptions(timeout_in_ms=1500))
    except tf.errors.DeadlineExceededError:
        print("late")
    else:
        print("in time")
"""


@pytest.mark.multiprocess
def test_the_end_of_the_process_waits_for_a_program_and_says_so():
    done = run_script(LEFT_IN_A_PROGRAM)
    assert "terminate called" not in done.stderr
    if "late" in done.stdout:
        assert "has ended: it did nothing" in done.stderr or "The process waits for the step of 'mul" in done.stderr


@pytest.mark.multiprocess
def test_the_end_of_the_process_does_not_wait_for_a_function_that_sleeps():
    done = run_script(
        """
        import time
        import anabranch as tf
        session = tf.Session()
        slept = tf.py_func(lambda: (print("sleeps"), time.sleep(600)), [], [])
        session.run(tf.py_func(lambda: None, [], []))
        try:
            session.run(slept, options=tf.RunOptions(timeout_in_ms=2000))
        except tf.errors.DeadlineExceededError:
            print("late")
        """
    )
    assert done.stdout == "sleeps\nlate\n"
    assert "The process waits for the step of 'PyFunc', left at its deadline" in done.stderr
    assert "The process ends while the step of 'PyFunc'" in done.stderr


@pytest.mark.multiprocess
def test_a_loop_in_a_daemon_thread_ends_with_the_process():
    done = run_script(
        """
        import threading, time
        import anabranch as tf
        session = tf.Session(config=tf.SessionOptions(tier="compiled"))
        loop = tf.while_loop(lambda i, x: i < 2000000000, lambda i, x: (i + 1, x * 1.0000001 + 1e-9), (0, 1.0))[1]

        def run():
            try:
                session.run(loop)
            except tf.errors.CancelledError as problem:
                print(problem.message)

        threading.Thread(target=run, daemon=True).start()
        time.sleep(3)
        """,
    )
    assert "terminate called" not in done.stderr


@pytest.mark.slow
def test_random_interrupts_and_deadlines_leave_states_between_steps(session, ctrl_c):
    """Steps of all kinds, cut short at random moments: what is counted and what is added agree, and no step is lost."""
    x, n = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    v, count = tf.Variable(np.zeros(1000, np.float32)), tf.Variable(0)
    called = tf.py_func(lambda value: value, [x], tf.float32)
    called.set_shape([])
    kinds = [x, endless(n, x), called, products(x, 6, 300)[0, 0]]
    steps = [tf.group(v.assign_add(tf.fill([1000], kind * 0.0 + 1.0)), count.assign_add(1)) for kind in kinds]
    session.run(tf.global_variables_initializer())
    draw = np.random.RandomState(0)
    done = interrupted = 0
    end = time.monotonic() + 15
    while time.monotonic() < end:
        ctrl_c(float(draw.uniform(0.01, 0.3)))
        try:
            while True:
                feeds = {x: 1.0, n: int(draw.choice([3, 3, 3, 200_000, 30_000_000]))}
                options = tf.RunOptions(timeout_in_ms=int(draw.choice([5, 50, 60000]))) if draw.rand() < 0.3 else None
                try:
                    session.run(steps[draw.randint(len(steps))], feeds, options=options)
                    done += 1
                except tf.errors.DeadlineExceededError:
                    pass
        except KeyboardInterrupt:
            interrupted += 1
    added, counted = session.run([v, count])
    assert (added == counted).all()
    assert done <= counted <= done + interrupted


@pytest.mark.multiprocess
@pytest.mark.slow
def test_close_says_that_it_waits_for_steps_in_flight():
    done = run_script(
        """
        import anabranch as tf
        v = tf.Variable(tf.zeros([]), name="v")
        x = tf.placeholder(tf.float32, [])
        value = tf.fill([1000, 1000], x)
        for _ in range(20):
            value = tf.matmul(value, value) * 1e-9
        session = tf.Session(config=tf.SessionOptions(tier="compiled"))
        call = session.make_callable(v.assign_add(value[0, 0] * 0.0 + 1.0).op, [x], asynchronous=True, in_flight=9)
        session.run(v.initializer)
        call(1.0).result()
        for _ in range(5):
            call(1.0)
        print(call.pipeline.pending > 2)
        session.close()
        """
    )
    if done.stdout == "True\n":  # else the machine was fast, or runs such programs in the caller's thread
        assert "Session.close waits for" in done.stderr
        assert "steps in flight to end" in done.stderr


@pytest.mark.parametrize("by_tokens", [False, True])
def test_a_graph_of_version_1_is_left_at_its_deadline(sleeper, by_tokens, monkeypatch):
    from anabranch.control_flow_ops import merge, switch

    from anabranch.rewrite import functional_view

    if by_tokens:

        def refuse(*args):
            raise functional_view.NoViewError("the test wants tokens")

        monkeypatch.setattr(functional_view, "view", refuse)
    pred = tf.placeholder(tf.bool, [])
    off, on = switch(tf.constant(3.0), pred)
    value = merge([off, tf.py_func(sleeper, [on], tf.float32)])[0]
    with tf.Session() as session:
        with expiring(session, sleeper.sleeps.is_set) as options:
            with pytest.raises(tf.errors.DeadlineExceededError, match="an end before the deadline"):
                session.run(value, {pred: True}, options=options)
        sleeper.over.set()
        assert session.run(value, {pred: False}) == 3.0


@pytest.mark.parametrize("version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2])
@pytest.mark.parametrize("moment", ["written", "placed"])
def test_a_save_past_its_deadline_leaves_no_files(session, tmp_path, monkeypatch, version, moment):
    """A save whose caller has gone takes back what it wrote: in the middle of a file, or before files get names."""
    started, go = threading.Event(), threading.Event()

    def hold(original):
        def held(*args, **kwargs):
            started.set()
            go.wait(LATE)
            return original(*args, **kwargs)

        return held

    place, name = (staging.Syncing, "write") if moment == "written" else (staging.Staged, "commit")
    monkeypatch.setattr(place, name, hold(getattr(place, name)))
    v = tf.Variable(tf.ones([1000]), name="v")
    saver = tf.train.Saver([v], write_version=version)
    session.run(v.initializer)
    save_op, path = saver.saver_def.save_tensor_name, saver.saver_def.filename_tensor_name
    with expiring(session, started.is_set) as options:
        with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out"):
            session.run(save_op, {path: str(tmp_path / "m")}, options=options)
    go.set()
    until(lambda: not step_threads._running)
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    saver.save(session, str(tmp_path / "m"))
    session.run(v.assign(tf.zeros([1000])))
    saver.restore(session, str(tmp_path / "m"))
    assert session.run(v).sum() == 1000
