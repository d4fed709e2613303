"""Calls on several threads: elements, order, errors and places are those of one thread; no thread is left behind."""

from __future__ import annotations

import contextlib
import gc
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.data import buffering, parallel
from anabranch.xla import startup
from tests.running_steps import until

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
        with contextlib.suppress(AssertionError):  # the first one has nobody beside it, where threads begin later
            until(lambda: most or len(at_once) > 1, 0.2)
        most.extend([len(at_once)] * (len(at_once) > 1))
        at_once.remove(element)
        return outcome_of(call, element)

    monkeypatch.setattr(parallel, "outcome_of", noted)
    with tf.Session() as session:
        outcomes(session, PIPELINES["a map"](4).make_one_shot_iterator().get_next())
    assert most


def drawn(x):
    return tf.cast(x, tf.float32) + tf.random_uniform([], seed=4)


def test_functions_that_draw_give_what_calls_in_turn_do():
    def values(dataset):
        with tf.Session() as session:
            return outcomes(session, dataset.make_one_shot_iterator().get_next())

    assert values(D.range(20).map(drawn, 4)) == values(D.range(20).map(drawn))
    assert not own_threads()


class Meeting:
    """A Python function each call of which but that for 0 waits for another one, and gives -1 if none comes."""

    def __init__(self):
        self.barrier = threading.Barrier(2, timeout=60)

    def __call__(self, x):
        try:
            if x:
                self.barrier.wait()
        except threading.BrokenBarrierError:
            return np.int64(-1)
        return x


def called(function):
    return lambda x: tf.py_func(function, [x], tf.int64)


def ranges(function):
    """A function that makes a dataset: the elements 10 to 13 of 1, 20 to 23 of 2."""
    return lambda x: D.range(10 * x, 10 * x + 4).map(called(function))


IN_TURNS = [10, 20, 11, 21, 12, 22, 13, 23]
OVERLAPPING = {
    # what calls a function for two elements at a time, and its elements if that returns its argument
    "map": (lambda function: D.range(9).map(called(function), 2), [*range(9)]),
    "map_and_batch": (
        lambda function: D.range(9).apply(E.map_and_batch(called(function), 1, None, False, 2)).apply(E.unbatch()),
        [*range(9)],
    ),
    "parallel_interleave": (
        lambda function: D.range(1, 3).apply(E.parallel_interleave(ranges(function), 2)),
        IN_TURNS,
    ),
    "interleave": (lambda function: D.range(1, 3).interleave(ranges(function), 2, num_parallel_calls=2), IN_TURNS),
}


@pytest.mark.parametrize("name", sorted(OVERLAPPING))
def test_python_functions_are_called_at_the_same_time_where_the_program_says_so(name):
    build, expected = OVERLAPPING[name]
    with tf.Session() as session:
        assert outcomes(session, build(Meeting()).make_one_shot_iterator().get_next()) == expected
    assert not own_threads()


@pytest.mark.parametrize("name", sorted(OVERLAPPING))
def test_a_session_that_is_to_repeat_calls_python_in_the_order_of_elements(name, monkeypatch):
    monkeypatch.setitem(startup.choices.environment, startup.THREADS, "2")  # as if the session had come first
    build, expected = OVERLAPPING[name]
    seen = []

    def note(x):
        seen.append(int(x))
        time.sleep(0.001 * (x % 3))
        return x

    with tf.Session(config=tf.SessionOptions(deterministic=True)) as session:
        assert outcomes(session, build(note).make_one_shot_iterator().get_next()) == expected
    assert seen == expected


def test_an_automatic_number_of_calls_calls_python_in_the_order_of_elements():
    seen = []
    dataset = D.range(20).map(called(lambda x: seen.append(int(x)) or x), E.AUTOTUNE)
    with tf.Session() as session:
        outcomes(session, dataset.make_one_shot_iterator().get_next())
    assert seen == [*range(20)]


def test_a_sloppy_interleave_passes_over_what_is_not_ready():
    allowed = threading.Event()

    def wait(x):
        assert x != 11 or allowed.wait(60)
        return x

    dataset = D.range(1, 4).apply(E.parallel_interleave(ranges(wait), 2, sloppy=True, prefetch_input_elements=1))
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        early = outcomes(session, element, 9)
        allowed.set()
        late = outcomes(session, element)
    assert 11 not in early
    assert late == [11, 12, 13]
    assert [x for x in early if x >= 20] == [20, 21, 22, 23, 30, 31, 32, 33]
    assert not own_threads()


@pytest.mark.parametrize("sloppy", [False, True])
def test_what_fails_in_a_dataset_that_is_opened_early_comes_at_its_turn(sloppy):
    def fails(x):
        if x in (0, 21):
            raise ValueError("no such element")
        return x

    def inner(x):
        return D.range(10 * tf.py_func(fails, [x], tf.int64), 10 * x + 4).map(called(fails))

    parallel_ = E.parallel_interleave(inner, 2, sloppy=sloppy, prefetch_input_elements=2)
    element = D.from_tensor_slices([1, 2, 0, 3]).map(lambda x: tf.cast(x, tf.int64)).apply(parallel_)
    with tf.Session() as session:
        seen = outcomes(session, element.make_one_shot_iterator().get_next())
    if not sloppy:
        assert seen == [10, 20, 11, "ValueError:", 12, 22, 13, 23, "ValueError:", 30, 31, 32, 33]
    assert sorted(map(str, seen)) == sorted(
        map(str, [10, 11, 12, 13, 20, 22, 23, 30, 31, 32, 33, "ValueError:", "ValueError:"])
    )


def test_a_place_holds_what_datasets_that_are_opened_early_have_made(tmp_path):
    def same(x):
        return tf.py_func(lambda value: value, [x], tf.int64, stateful=False)

    dataset = D.range(1, 6).apply(
        E.parallel_interleave(lambda x: D.range(10 * x, 10 * x + 4).map(same), 2, prefetch_input_elements=2)
    )
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([E.make_saveable_from_iterator(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        outcomes(session, element, 7)
        path = saver.save(session, str(tmp_path / "place"))
        rest = outcomes(session, element)
        saver.restore(session, path)
        assert outcomes(session, element) == rest
    assert len(rest) == 13


def test_threads_that_are_no_faster_are_ended(monkeypatch):
    monkeypatch.setattr(parallel, "GAIN", 0.0)
    element = D.range(100).map(lambda x: tf.fill([x % 3 + 1], x), 4).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert len(outcomes(session, element, 60)) == 60
        for thread in own_threads():
            thread.join(60)
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
    until(lambda: gc.collect() is not None and not own_threads())  # a call under way holds the pipeline


def test_an_iterator_that_begins_anew_ends_its_threads():
    iterator = PIPELINES["a map"](4).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        for _ in range(5):
            session.run(iterator.initializer)
            outcomes(session, element, 6)
            assert len(own_threads()) <= 4


def test_an_autotuned_buffer_widens_where_somebody_waits():
    asked = [0]

    def slow(x):
        until(lambda: asked[0] >= min(x, 40))  # so that who asks waits, however slow it is
        time.sleep(0.005)
        return x

    dataset = D.range(60).map(lambda x: tf.py_func(slow, [x], tf.int64)).prefetch(E.AUTOTUNE)
    with tf.Session() as session:
        element = dataset.make_one_shot_iterator().get_next()
        for i in range(40):
            asked[0] = i
            assert session.run(element) == i
        asked[0] = 40
        limits = [worker.limit for worker in gc.get_objects() if isinstance(worker, buffering._Ahead)]
        assert buffering.AUTOTUNED_SIZE < max(limits) <= buffering.MOST_AUTOTUNED


def test_python_is_called_in_the_threads_of_a_pool_that_is_asked_for_and_in_no_others():
    callers = set()

    def called(x):
        callers.add(threading.get_ident())
        time.sleep(0.001)
        return x * 2

    options = tf.data.Options()
    options.experimental_threading.private_threadpool_size = 2
    dataset = D.range(40).map(lambda x: tf.py_func(called, [x], tf.int64), 8).with_options(options)
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert [session.run(element) for _ in range(40)] == list(range(0, 80, 2))
    assert len(callers) <= 2
    assert threading.get_ident() not in callers


def test_a_python_function_is_called_once_for_each_element_and_its_error_names_its_operation():
    seen = []

    def called(x):
        seen.append(int(x))
        if x == 2:
            raise ValueError("two")
        return np.full(int(x), x)  # of another shape each time

    dataset = D.range(5).map(lambda x: tf.reduce_sum(tf.py_func(called, [x + 1], tf.int64, name="caller")) * 10)
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(element) == 10
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"two(.|\n)*caller"):
            session.run(element)
        assert [session.run(element) for _ in range(3)] == [90, 160, 250]
    assert seen == [1, 2, 3, 4, 5]
