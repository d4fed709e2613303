"""Calls on several threads: elements, order, errors and places are those of one thread; no thread is left behind."""

from __future__ import annotations

import gc
import threading
import time

import pytest

import anabranch as tf
from anabranch.ops.data import buffering, parallel

D = tf.data.Dataset
E = tf.data.experimental
BAD = 13


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture(autouse=True)
def eager_threads(monkeypatch):
    """Begin threads with the first element, and keep them."""
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 0.0)
    monkeypatch.setattr(parallel, "SLOW_BEFORE_THREADS", 1)
    monkeypatch.setattr(parallel, "GAIN", float("inf"))
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(buffering, "WORTH_A_THREAD", 0.0)


def own_threads():
    return [
        thread for thread in threading.enumerate() if thread.name in ("anabranch parallel call", "anabranch prefetch")
    ]


def checked(x):
    """Of a shape that is not known, so that no batch is computed at once; it fails for one number."""
    value = tf.check_numerics(60.0 / tf.cast(x - BAD, tf.float32), "thirteen")
    return tf.fill([tf.cast(x % 3, tf.int32) + 1], value)


PIPELINES = {
    "a map": lambda calls: D.range(40).map(checked, calls),
    "two maps": lambda calls: D.range(40).map(checked, calls).map(lambda x: x * 2, calls),
    "batches": lambda calls: D.range(40).map(lambda x: checked(x)[:1], calls).batch(4),
    "map_and_batch": lambda calls: D.range(40).apply(E.map_and_batch(lambda x: checked(x)[0], 4, None, False, calls)),
    "a prefetch behind": lambda calls: D.range(40).map(checked, calls).prefetch(3),
    "an interleave": lambda calls: D.range(8).interleave(
        lambda x: D.range(x, x + 8).map(checked, calls), 3, 2, num_parallel_calls=calls
    ),
}


def outcomes(session, element, count=1000):
    """Elements, and what is said of those that fail."""
    found = []
    while len(found) < count:
        try:
            found.append(session.run(element).tolist())
        except tf.errors.OutOfRangeError:
            break
        except tf.errors.InvalidArgumentError as problem:
            found.append(problem.message.partition(" ")[0])
    return found


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_values_order_and_errors_are_those_of_one_thread(name):
    with tf.Session() as session:
        alone = outcomes(
            session, PIPELINES[name](None if name != "map_and_batch" else 1).make_one_shot_iterator().get_next()
        )
        assert "thirteen" in alone
        for calls in (2, 7, -1):
            element = PIPELINES[name](calls).make_one_shot_iterator().get_next()
            assert outcomes(session, element) == alone
    assert not own_threads()


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_a_place_holds_what_is_under_way(name, tmp_path):
    iterator = PIPELINES[name](4).make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([E.make_saveable_from_iterator(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        outcomes(session, element, 2)
        path = saver.save(session, str(tmp_path / "place"))
        rest = outcomes(session, element)
        saver.restore(session, path)
        assert outcomes(session, element) == rest


def test_calls_run_at_the_same_time(monkeypatch):
    at_once, most = [], []
    outcome_of = parallel.outcome_of

    def noted(call, element):
        at_once.append(element)
        most.append(len(at_once))
        time.sleep(0.01)
        at_once.remove(element)
        return outcome_of(call, element)

    monkeypatch.setattr(parallel, "outcome_of", noted)
    with tf.Session() as session:
        outcomes(session, PIPELINES["a map"](4).make_one_shot_iterator().get_next())
    assert max(most) > 1


def test_functions_with_effects_are_called_one_by_one_in_order():
    seen = []

    def note(x):
        seen.append(int(x))
        return x

    def drawn(x):
        return tf.cast(x, tf.float32) + tf.random_uniform([], seed=4)

    def values(dataset):
        with tf.Session() as session:
            return outcomes(session, dataset.make_one_shot_iterator().get_next())

    values(D.range(20).map(lambda x: tf.py_func(note, [x], tf.int64), 4))
    assert seen == list(range(20))
    assert values(D.range(20).map(drawn, 4)) == values(D.range(20).map(drawn))
    assert not own_threads()


def test_threads_that_are_no_faster_are_ended(monkeypatch):
    monkeypatch.setattr(parallel, "GAIN", 0.0)
    element = D.range(100).map(lambda x: tf.fill([x % 3 + 1], x), 4).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert len(outcomes(session, element, 60)) == 60
        for thread in own_threads():
            thread.join(5)
        assert not own_threads()
        assert len(outcomes(session, element)) == 40


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_no_thread_is_left_by_a_session_that_closes_or_is_dropped(name):
    session = tf.Session()
    element = PIPELINES[name](4).repeat().make_one_shot_iterator().get_next()
    outcomes(session, element, 6)
    session.close()
    assert not own_threads()
    session = tf.Session()
    outcomes(session, element, 6)
    del session
    for _ in range(100):  # a call under way holds the pipeline
        gc.collect()
        if not own_threads():
            break
        time.sleep(0.01)
    assert not own_threads()


def test_an_iterator_that_begins_anew_ends_its_threads():
    iterator = PIPELINES["a map"](4).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        for _ in range(5):
            session.run(iterator.initializer)
            outcomes(session, element, 6)
            assert len(own_threads()) <= 4


def test_an_autotuned_buffer_widens_where_somebody_waits():
    def slow(x):
        time.sleep(0.002)
        return x

    dataset = D.range(60).map(lambda x: tf.py_func(slow, [x], tf.int64)).prefetch(E.AUTOTUNE)
    with tf.Session() as session:
        element = dataset.make_one_shot_iterator().get_next()
        assert [int(session.run(element)) for _ in range(40)] == list(range(40))
        limits = [worker.limit for worker in gc.get_objects() if isinstance(worker, buffering._Ahead)]
        assert buffering.AUTOTUNED_SIZE < max(limits) <= buffering.MOST_AUTOTUNED
