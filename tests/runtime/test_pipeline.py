"""Steps in flight: a failed one changes nothing, nor do those behind it; everybody else sees states between steps."""

from __future__ import annotations

import _thread
import signal
import threading
import time

import numpy as np
import pytest

import anabranch as tf

COMPILED = tf.SessionOptions(tier="compiled", seed=1)


def counting(session, size=4):
    """A variable, and a callable that adds its positive argument to it and returns (new value, argument)."""
    v = tf.Variable(tf.zeros([size]), name="v")
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.control_dependencies([tf.Assert(x > 0, ["x is", x])]):
        new = v.assign_add(tf.fill([size], x))
    session.run(v.initializer)
    call = session.make_callable([tf.identity(new), x], [x], asynchronous=True, in_flight=3)
    call(1.0).result()  # the first run goes the long way
    return v, x, call


def in_flight(call):
    return len(call.pipeline._steps)


@pytest.fixture
def compiled():
    with tf.Session(config=COMPILED) as session:
        yield session


def test_steps_are_in_flight_and_give_what_runs_give(compiled):
    v, _, call = counting(compiled)
    steps = [call(float(i)) for i in (1, 2, 3)]
    assert in_flight(call) == 3
    got = [step.result() for step in steps]
    assert [list(value) for value, _ in got] == [[2] * 4, [4] * 4, [7] * 4]
    assert [x for _, x in got] == [1, 2, 3]
    assert all(step.done() for step in steps)
    assert in_flight(call) == 0
    np.testing.assert_array_equal(compiled.run(v), np.full(4, 7.0))


def test_no_more_than_asked_for_are_in_flight(compiled):
    _, _, call = counting(compiled)
    for i in range(10):
        call(1.0)
        assert in_flight(call) == min(i + 1, 3)
    call.wait()
    assert in_flight(call) == 0


def test_none_behind_a_failed_step_commits(compiled):
    v, _, call = counting(compiled)
    good, bad, behind = call(1.0), call(-1.0), call(5.0)
    with pytest.raises(tf.errors.AbortedError, match=r"(?s)behind one that failed.*x is.*-1"):
        behind.result()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x is.*-1"):
        bad.result()
    assert list(good.result()[0]) == [2.0] * 4
    np.testing.assert_array_equal(compiled.run(v), np.full(4, 2.0))
    assert list(call(1.0).result()[0]) == [3.0] * 4, "the callable goes on after a failure that somebody knows of"


def test_the_next_call_tells_of_a_failure_that_nobody_asked_for(compiled):
    v, _, call = counting(compiled)
    call(-7.0)
    call(2.0)
    call(2.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x is.*-7"):
        call(4.0)
    np.testing.assert_array_equal(compiled.run(v), np.full(4, 1.0))
    call(4.0)
    call.wait()
    np.testing.assert_array_equal(compiled.run(v), np.full(4, 5.0))


def test_wait_and_close_tell_of_it_too():
    session = tf.Session(config=COMPILED)
    _, _, call = counting(session)
    call(-2.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x is.*-2"):
        call.wait()
    call.wait()
    call(-3.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x is.*-3"):
        session.close()
    session.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        call(1.0)


def test_an_exception_of_the_block_goes_before_that_of_a_step():
    def block():
        with tf.Session(config=COMPILED) as session:
            _, _, call = counting(session)
            call(-2.0)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        block()


def test_results_outlive_the_session():
    with tf.Session(config=COMPILED) as session:
        _, _, call = counting(session)
        step = call(1.0)
    assert list(step.result()[0]) == [2.0] * 4


def test_other_runs_see_states_between_steps(compiled):
    v, _, call = counting(compiled)
    double = v.assign(v * 2.0).op
    compiled.run(double)  # 2
    call(1.0)  # 3
    compiled.run(double)  # 6
    call(-1.0)
    compiled.run(double)  # 12: the failed step did nothing
    np.testing.assert_array_equal(compiled.run(v), np.full(4, 12.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1"):
        call(1.0)
    call(1.0)
    np.testing.assert_array_equal(compiled.run(v), np.full(4, 13.0))


def test_threads_run_beside_steps_in_flight(compiled):
    v, _, call = counting(compiled, 1000)
    once = v.assign_add(tf.ones([1000])).op
    compiled.run(once)
    odd: list[object] = []
    stop = threading.Event()

    def reads():
        while not stop.is_set():
            seen = compiled.run(v)
            if len(set(seen.tolist())) != 1:
                odd.append(seen)

    def writes():
        for _ in range(50):
            compiled.run(once)

    threads = [threading.Thread(target=reads), threading.Thread(target=writes), threading.Thread(target=writes)]
    for thread in threads:
        thread.start()
    failed = 0
    for i in range(200):
        try:
            call(-1.0 if i % 20 == 19 else 1.0)
        except tf.errors.InvalidArgumentError:
            failed += 1
    try:
        call.wait()
    except tf.errors.InvalidArgumentError:
        failed += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert not odd
    assert failed == 10
    total = float(compiled.run(v)[0])
    assert total == int(total)
    # 2 before, 100 of the threads; of the 200 calls ten failed, and up to four more a failure did nothing.
    assert 2 + 100 + 200 - 10 * 5 <= total <= 2 + 100 + 200 - 10


def test_several_threads_may_call(compiled):
    _, _, call = counting(compiled)
    got: list[float] = []

    def work():
        for _ in range(25):
            got.append(float(call(1.0).result()[0][0]))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [float(i) for i in range(2, 77)]


def test_feeds_may_change_as_soon_as_the_call_returns(compiled):
    v = tf.Variable(tf.zeros([1 << 16]), name="v")
    x = tf.placeholder(tf.float32, [1 << 16])
    step = v.assign_add(x)
    compiled.run(v.initializer)
    call = compiled.make_callable(step.op, [x], asynchronous=True, in_flight=4)
    feed = np.ones(1 << 16, np.float32)
    for i in range(20):
        feed[:] = i
        call(feed)
        feed[:] = np.nan
    call.wait()
    np.testing.assert_array_equal(compiled.run(v), np.full(1 << 16, 190.0))


def test_random_streams_go_back_with_a_failed_step(compiled):
    v = tf.Variable(0.0, name="v")
    x = tf.placeholder(tf.float32, [])
    draw = tf.random_uniform([3], seed=4)
    with tf.control_dependencies([tf.Assert(x > 0, [x])]):
        new = v.assign_add(tf.reduce_sum(draw))
    compiled.run(v.initializer)
    call = compiled.make_callable([draw, tf.identity(new)], [x], asynchronous=True, in_flight=5)
    call(1.0).result()
    steps = [call(value) for value in (1.0, 1.0, -1.0, 1.0)]
    got = [step.result()[0] for step in steps[:2]]
    assert steps[3].exception() is not None
    got += [call(1.0).result()[0], compiled.run([draw, new.op], {x: 1.0})[0]]
    with tf.Session(config=COMPILED) as other:
        other.run(v.initializer)
        expected = [other.run([draw, new.op], {x: 1.0})[0] for _ in range(5)][1:]
    np.testing.assert_array_equal(got, expected)


def test_a_fetched_variable_is_that_of_the_step(compiled):
    v, x, _ = counting(compiled)
    w = tf.Variable(5.0, name="w")
    compiled.run(w.initializer)
    with tf.control_dependencies([tf.Assert(x > 0, [x])]):
        step = v.assign_add(tf.fill([4], x) + w).op
    call = compiled.make_callable({"v": v, "w": w, "step": step}, [x], asynchronous=True, in_flight=3)
    call(1.0).result()
    first, second = call(1.0), call(2.0)
    assert in_flight(call) == 2
    assert list(first.result()["v"]) == [13.0] * 4
    assert list(second.result()["v"]) == [20.0] * 4
    assert first.result()["w"] == 5.0
    mine = first.result()["v"]
    mine[:] = 0
    assert list(first.result()["v"]) == [13.0] * 4


def test_two_callables_of_one_variable(compiled):
    v, x, one = counting(compiled)
    two = compiled.make_callable(v.assign_sub(tf.fill([4], x)).op, [x], asynchronous=True)
    two(1.0).result()
    for _ in range(10):
        one(3.0)
        two(1.0)
    one.wait()
    two.wait()
    np.testing.assert_array_equal(compiled.run(v), np.full(4, 20.0))


def test_batches_of_several_shapes_share_one_line(compiled):
    v = tf.Variable(0.0, name="v")
    x = tf.placeholder(tf.float32, [None])
    with tf.control_dependencies([tf.Assert(tf.reduce_all(x > 0), [x])]):
        step = v.assign_add(tf.reduce_sum(x)).op
    compiled.run(v.initializer)
    call = compiled.make_callable(step, [x], asynchronous=True, in_flight=4)
    for size in (2, 3):
        call(np.ones(size)).result()
    call(-np.ones(2))
    call(np.ones(3))
    call(np.ones(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1"):
        call.wait()
    assert compiled.run(v) == 5.0


@pytest.mark.parametrize("tier", ["auto", "interpreted"])
def test_steps_that_cannot_fly_run_at_once(tier):
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        v = tf.Variable(0.0, name="v")
        x = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([tf.Assert(x > 0, [x])]):
            new = v.assign_add(x)
        session.run(v.initializer)
        call = session.make_callable(tf.identity(new), [x], asynchronous=True)
        assert call(1.0).result() == 1.0
        failed = call(-1.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="-1"):
            call(2.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="-1"):
            failed.result()
        assert call(2.0).result() == 3.0


def test_a_python_function_between_programs_waits_for_those_in_flight(compiled):
    v, _, call = counting(compiled)
    seen: list[float] = []
    told = tf.py_func(lambda value: seen.append(float(value[0])), [v + 0.0], [], stateful=True)
    other = compiled.make_callable(told, [], asynchronous=True)
    call(1.0)
    other()
    assert seen == [2.0]


def test_recoverable_sessions_keep_nothing_in_flight():
    with tf.Session(config=tf.SessionOptions(tier="compiled", recoverable=True)) as session:
        v, _, call = counting(session)
        call(1.0)
        assert in_flight(call) == 0
        np.testing.assert_array_equal(session.run(v), np.full(4, 2.0))


@pytest.fixture
def interruptible():
    """Ctrl-C is heard, also where tests run in the background of a shell, which ignores it there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_waiting_loses_nothing(compiled):
    size = 700
    v = tf.Variable(tf.eye(size), name="v")
    x = tf.placeholder(tf.float32, [])
    value = v.read_value() if hasattr(v, "read_value") else v
    for _ in range(12):
        value = tf.matmul(value, tf.eye(size)) * x
    step = v.assign_add(value).op
    compiled.run(v.initializer)
    call = compiled.make_callable(step, [x], asynchronous=True, in_flight=2)
    call(1.0).result()
    done = 1
    end = time.monotonic() + 20
    interrupted = False
    while time.monotonic() < end and not interrupted:
        # (Python drops an exception that a signal raises inside a finalizer, hence more than one attempt.)
        timer = threading.Timer(0.15, _thread.interrupt_main)
        timer.start()
        try:
            while timer.is_alive():
                call(1.0)
                done += 1
            call(1.0)
            done += 1
        except KeyboardInterrupt:
            interrupted = True
        timer.join()
    assert interrupted
    call.wait()
    found = compiled.run(v)[0, 0]
    assert found in (2.0**done, 2.0 ** (done + 1)), "the interrupted call has started its step, or it has not"


def test_arguments_are_checked(compiled):
    _, x, call = counting(compiled)
    with pytest.raises(ValueError, match="no options per call"):
        compiled.make_callable(x, [x], True, asynchronous=True)
    with pytest.raises(ValueError, match="at least one step"):
        compiled.make_callable(x, [x], asynchronous=True, in_flight=0)
    with pytest.raises(TypeError, match=r"takes 1 argument\(s\)"):
        call()
