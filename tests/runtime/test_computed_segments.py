"""Steps that only compute and draw between channel ops: what they give, which of them are functions, how they fail."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.queues import queue_objects
from anabranch.runtime import computed_segments, step_threads
from anabranch.runtime.interpreter import turns
from anabranch.runtime.state.resources import ResourceManager


def enqueued(tier, runs, build, capacity=200):
    """What ``runs`` of an enqueue of ``build(row)`` put into a queue, and the plan of the step."""
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        tf.set_random_seed(3)
        rows = tf.FIFOQueue(capacity, [tf.float32], [[]])
        fill = rows.enqueue_many(np.arange(runs, dtype=np.float32))
        parts = build(rows.dequeue())
        queue = tf.FIFOQueue(capacity, [part.dtype for part in parts])
        enqueue, dequeue = queue.enqueue(parts), queue.dequeue()
        session.run(fill)
        for _ in range(runs):
            session.run(enqueue)
        plans = [plan for plan, _ in session._worker._plans.values() if len(plan.segments) > 2]
        return [session.run(dequeue) for _ in range(runs)], plans[0]


def drawing(row):
    noise = tf.random_uniform([3, 4]) * row
    return [noise + tf.random_normal([4]), tf.cast(row, tf.int32) * 2, tf.reduce_sum(noise)]


def growing(row):
    """Another size for each row."""
    many = tf.range(tf.cast(row, tf.int32) % 23 + 1)
    return [many * 2, tf.random_shuffle(many), tf.reduce_sum(tf.cast(many, tf.float32)) * row]


@pytest.mark.parametrize("build", [drawing, growing])
def test_values_and_draws_are_the_interpreters(build, monkeypatch):
    found, plan = enqueued("auto", 90, build)
    assert plan.only_feeds_channels
    assert plan.tier == "interpreted"
    expected, other = enqueued("interpreted", 90, build)
    assert not other.only_feeds_channels
    for parts, wanted in zip(found, expected, strict=True):
        for part, value in zip(parts if isinstance(parts, list) else [parts], wanted, strict=True):
            np.testing.assert_array_equal(part, value)


def test_more_numbers_than_code_draws_leave_the_step_to_the_executor(monkeypatch):
    """The second run of such a step raised what only the interpreter knows, and a queue runner's thread ended."""
    expected, _ = enqueued("interpreted", 5, drawing)
    monkeypatch.setattr(turns, "MOST_BLOCKS", 1)
    found, plan = enqueued("auto", 5, drawing)
    assert plan.only_feeds_channels
    for parts, wanted in zip(found, expected, strict=True):
        for part, value in zip(parts, wanted, strict=True):
            np.testing.assert_array_equal(part, value)


def test_threads_draw_beside_each_other_what_one_draws(monkeypatch):
    """Places in the streams are reserved, so that nothing is held meanwhile; each is drawn from once."""
    claims = []
    real = ResourceManager.begin
    monkeypatch.setattr(ResourceManager, "begin", lambda self, *args: claims.append(args) or real(self, *args))

    def drawn(threads):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(3)
            rows = tf.FIFOQueue(200, [tf.float32], [[]])
            fill = rows.enqueue_many(np.ones([90], np.float32))
            numbers = tf.random_uniform([3]) + rows.dequeue()
            queue = tf.FIFOQueue(200, [tf.float32])
            enqueue = queue.enqueue(numbers)
            session.run(fill)
            for _ in range(10):
                session.run(enqueue)
            claims.clear()
            if threads:
                with ThreadPoolExecutor(threads) as pool:
                    list(pool.map(lambda _: session.run(enqueue), range(80)))
            else:
                for _ in range(80):
                    session.run(enqueue)
            assert not claims
            return [session.run(queue.dequeue()).tolist() for _ in range(90)]

    assert sorted(drawn(4)) == sorted(drawn(0))


def test_a_step_that_fails_draws_nothing():
    def build(row):
        with tf.control_dependencies([tf.assert_less(row, 50.0)]):
            return tf.random_uniform([]) + row

    def drawn(values):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(3)
            rows = tf.FIFOQueue(99, [tf.float32], [[]])
            fill = rows.enqueue_many(np.array(values, np.float32))
            queue = tf.FIFOQueue(99, [tf.float32])
            enqueue = queue.enqueue(build(rows.dequeue()))
            session.run(fill)
            for value in values:
                with (
                    contextlib.nullcontext()
                    if value < 50
                    else pytest.raises(tf.errors.InvalidArgumentError, match="assertion")
                ):
                    session.run(enqueue)
            return [session.run(queue.dequeue()) for value in values if value < 50]

    good = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert drawn([*good[:5], 99.0, *good[5:]]) == drawn(good)


def test_most_runs_are_functions(monkeypatch):
    outcomes = []
    real = computed_segments.ComputedSegment._of_code

    def of_code(self, given, turn):
        outcomes.append(real(self, given, turn))
        return outcomes[-1]

    monkeypatch.setattr(computed_segments.ComputedSegment, "_of_code", of_code)
    enqueued("auto", 40, drawing)
    assert sum(outcome is not None for outcome in outcomes) >= 36


def test_a_variable_keeps_a_step_from_it():
    with tf.Graph().as_default(), tf.Session() as session:
        scale = tf.Variable(2.0)
        queue = tf.FIFOQueue(9, [tf.float32])
        enqueue = queue.enqueue(scale * 3.0)
        session.run(scale.initializer)
        for _ in range(4):
            session.run(enqueue)
        plans = [plan for plan, _ in session._worker._plans.values() if len(plan.segments) > 1]
        assert not plans[0].only_feeds_channels
        session.run(scale.assign(5.0))
        session.run(enqueue)
        assert [session.run(queue.dequeue()) for _ in range(5)] == [6.0] * 4 + [15.0]


def test_an_error_is_the_ops_and_the_next_run_goes_on():
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.FIFOQueue(99, [tf.string], [[]])
        fill = rows.enqueue_many([[b"1", b"2", b"3", b"4", b"five", b"6"]])
        number = tf.string_to_number(rows.dequeue(), name="parsed")
        queue = tf.FIFOQueue(99, [tf.float32])
        enqueue = queue.enqueue(number + 1.0)
        session.run(fill)
        for _ in range(4):
            session.run(enqueue)
        with pytest.raises(tf.errors.InvalidArgumentError, match="five") as caught:
            session.run(enqueue)
        assert caught.value.op.name == "parsed"
        assert "Done before the failure and kept" in str(caught.value)
        session.run(enqueue)
        assert [session.run(queue.dequeue()) for _ in range(5)] == [2.0, 3.0, 4.0, 5.0, 7.0]


def test_what_costs_more_than_programs_is_left_to_the_policy():
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.FIFOQueue(500, [tf.float32], [[128, 128]])
        fill = rows.enqueue_many(np.ones([40, 128, 128], np.float32))
        value = rows.dequeue()
        for _ in range(40):
            value = tf.tanh(tf.matmul(value, value))
        queue = tf.FIFOQueue(500, [tf.float32])
        enqueue = queue.enqueue(value)
        session.run(fill)
        for _ in range(30):
            session.run(enqueue)
        plans = [plan for plan, _ in session._worker._plans.values() if len(plan.segments) > 2]
        assert not plans[0].only_feeds_channels


def test_what_is_fetched_is_the_callers():
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.FIFOQueue(50, [tf.float32], [[3]])
        fill = rows.enqueue_many(np.ones([20, 3], np.float32))
        row = rows.dequeue()
        session.run(fill)
        for _ in range(8):
            first, second = session.run([row, row * 2.0])
            np.testing.assert_array_equal(first, [1, 1, 1])
            np.testing.assert_array_equal(second, [2, 2, 2])
            first += 1.0
            second += 1.0


def test_a_queue_runner_that_reads_files_hands_its_steps_to_nobody(tmp_path, monkeypatch):
    names = []
    for i in range(5):
        (tmp_path / f"{i}.txt").write_text(f"{i},{i * i}")
        names.append(str(tmp_path / f"{i}.txt"))
    handed = []
    run = step_threads.run

    def noted(*arguments):
        handed.append(threading.current_thread())
        return run(*arguments)

    monkeypatch.setattr(step_threads, "run", noted)
    with tf.Graph().as_default(), tf.Session() as session:
        (name,) = tf.train.slice_input_producer([tf.constant(names)], shuffle=False)
        number, square = tf.decode_csv(tf.read_file(name), [[0], [0]])
        batch = tf.train.batch([number, square], 10, num_threads=1)
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found = [session.run(batch) for _ in range(20)]
        coordinator.request_stop()
        coordinator.join(threads)
    for numbers, squares in found:
        assert numbers.tolist() == [0, 1, 2, 3, 4] * 2
        assert squares.tolist() == [0, 1, 4, 9, 16] * 2
    of_runners = [thread for thread in handed if thread is not threading.main_thread()]
    assert len(of_runners) < 40  # while there is no fast path yet; of 200 that read a file


def test_who_waits_for_many_rows_is_woken_once(monkeypatch):
    queue = queue_objects.Queue("rows", {"component_types": [tf.int64], "shapes": [()], "capacity": 100})
    woken = []
    notify = queue.changed.notify_all

    def noted():
        woken.append(queue.size)
        notify()

    monkeypatch.setattr(queue.changed, "notify_all", noted)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(queue.dequeue_many, 50)
        while not queue._dequeuers:
            time.sleep(0.001)
        before = len(woken)
        for i in range(50):
            queue.enqueue([np.array(i)])
        (rows,) = taken.result(timeout=30)
    assert rows.tolist() == list(range(50))
    assert len(woken) - before == 1
