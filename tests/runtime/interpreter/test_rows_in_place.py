"""Rows that an interpreted step writes where they are: as if they had been copied, whoever looks, whatever fails."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.interpreter import rows_in_place

WRITES = {
    "update": lambda v, i, x: tf.scatter_update(v, i, x),
    "add": lambda v, i, x: tf.scatter_add(v, i, x),
    "sub": lambda v, i, x: tf.scatter_sub(v, i, x),
    "mul": lambda v, i, x: tf.scatter_mul(v, i, x),
    "div": lambda v, i, x: tf.scatter_div(v, i, x),
    "nd": lambda v, i, x: tf.scatter_nd_add(v, i[:, None], x),
    "descent": lambda v, i, x: tf.train.GradientDescentOptimizer(0.5).apply_gradients([(tf.IndexedSlices(x, i), v)]),
    "adagrad": lambda v, i, x: tf.train.AdagradOptimizer(0.5).apply_gradients([(tf.IndexedSlices(x, i), v)]),
    "ftrl": lambda v, i, x: tf.train.FtrlOptimizer(0.5).apply_gradients([(tf.IndexedSlices(x, i), v)]),
}


@pytest.fixture
def places(monkeypatch):
    """Counts the arrays that were written where they are."""
    counts = []
    taken = rows_in_place.taken

    def counted(attempt, item):
        arrays = taken(attempt, item)
        counts.extend(arrays)
        return arrays

    monkeypatch.setattr(rows_in_place, "taken", counted)
    return counts


def program(kind="add", rows=6, tier="interpreted"):
    table = tf.get_variable("table", [rows, 2], initializer=tf.ones_initializer(), use_resource=False)
    indices, values = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None, 2])
    write = WRITES[kind](table, indices, values)
    session = tf.Session(config=tf.SessionOptions(tier=tier))
    session.run(tf.global_variables_initializer())
    return session, table, indices, values, write


@pytest.mark.parametrize("kind", WRITES)
def test_values_are_those_of_the_compiled_tier(kind, places):
    results = []
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default():
            session, table, indices, values, write = program(kind, tier=tier)
            with session:
                random = np.random.RandomState(0)
                for count in (3, 1, 4):
                    feeds = {indices: random.randint(0, 6, count), values: 1 + random.rand(count, 2)}
                    session.run(write.op if isinstance(write, tf.Tensor) else write, feeds)
                results.append(session.run(table))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)
    assert places


def test_a_failed_step_puts_rows_back(places):
    with tf.Graph().as_default():
        session, table, indices, values, write = program()
        limit = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([write]):
            late = tf.Assert(tf.reduce_sum(table.read_value()) < limit, ["too large"])
        with session:
            feeds = {indices: [1, 1, 5], values: np.ones((3, 2)), limit: 100.0}
            session.run(late, feeds)
            before = session.run(table)
            del places[:]
            with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
                session.run(late, {**feeds, limit: 0.0})
            assert places
            np.testing.assert_array_equal(session.run(table), before)
            session.run(late, feeds)
            np.testing.assert_array_equal(session.run(table)[:, 0], [1, 5, 1, 1, 1, 3])


def test_what_was_fetched_or_read_before_stays(places):
    with tf.Graph().as_default():
        session, table, indices, values, write = program()
        old = table.read_value()
        kept = []
        with tf.control_dependencies([old]):
            late = tf.scatter_add(table, indices, values)
        with session:
            feeds = {indices: [0], values: [[1.0, 1.0]]}
            fetched = session.run(table)
            for i in range(3):
                before, after = session.run([old, late], feeds)
                np.testing.assert_array_equal(before[0], [i + 1, i + 1])
                np.testing.assert_array_equal(after[0], [i + 2, i + 2])
            assert not places  # the old value is read, and kept, in each of these steps
            spy = tf.py_func(lambda x: kept.append(x) or np.float32(0), [table], tf.float32)
            session.run(spy)
            for _ in range(3):
                session.run(write.op, feeds)
            assert places
            np.testing.assert_array_equal(fetched, np.ones((6, 2)))
            np.testing.assert_array_equal(kept[0][0], [4, 4])
            np.testing.assert_array_equal(session.run(table)[0], [7, 7])


def test_rows_that_are_looked_up_and_written(places):
    with tf.Graph().as_default():
        session, table, indices, *_ = program()
        looked_up = tf.nn.embedding_lookup(table, indices)
        loss = tf.reduce_sum(tf.square(looked_up))
        step = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
        with session:
            for i in range(3):
                rows, _ = session.run([looked_up, step], {indices: [2, 4]})
                np.testing.assert_array_equal(rows, np.full((2, 2), 0.5**i))
            assert len(places) == 3
            np.testing.assert_array_equal(session.run(table)[:, 1], [1, 1, 0.125, 1, 0.125, 1])


def test_readers_see_states_between_steps():
    with tf.Graph().as_default():
        session, table, indices, values, write = program(rows=400)
        total = tf.reduce_max(table) - tf.reduce_min(table)
        with session:
            feeds = {indices: np.arange(400), values: np.ones((400, 2))}
            differences: list[float] = []

            def look():
                for _ in range(60):
                    differences.append(float(session.run(total)))

            reader = threading.Thread(target=look)
            reader.start()
            for _ in range(60):
                session.run(write.op, feeds)
            reader.join()
            assert differences == [0.0] * 60


def test_a_second_write_of_a_step_copies_and_a_deadline_keeps_the_table():
    with tf.Graph().as_default():
        session, table, indices, values, write = program()
        with tf.control_dependencies([write]):
            again = tf.scatter_add(table, indices, values)
        with session:
            feeds = {indices: [3], values: [[1.0, 2.0]]}
            np.testing.assert_array_equal(session.run(again, feeds)[3], [3, 5])
            options = tf.RunOptions(timeout_in_ms=60_000)
            np.testing.assert_array_equal(session.run(again, feeds, options=options)[3], [5, 9])
            np.testing.assert_array_equal(session.run(table)[3], [5, 9])


def _looked_up_in_a_loop(kind, table, count):
    """A sum that a loop makes of rows of a table, as bodies look at one."""

    def body(i, total):
        rows = tf.gather(table, [i % 6, 1])
        if kind == "a read":
            rows = tf.nn.embedding_lookup(table, [i % 6, 1])
        elif kind == "a conditional":
            rows = tf.cond(i > 1, lambda: tf.gather(table, [i % 6, 1]), lambda: tf.gather(table, [0, 0]))
        elif kind == "a loop":
            rows = tf.while_loop(lambda j, r: j < 2, lambda j, r: (j + 1, r + tf.gather(table, [j, i % 6])), [0, rows])[
                1
            ]
        elif kind == "the whole":
            rows = rows + tf.reduce_sum(table)
        return i + 1, total + tf.reduce_sum(rows**2)

    return tf.while_loop(lambda i, _: i < count, body, [0, 0.0])[1]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("kind", ["a gather", "a read", "a conditional", "a loop", "the whole"])
def test_a_loop_that_looks_rows_up(kind, resource, places):
    results = []
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default():
            start = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
            table = tf.get_variable("table", initializer=start, use_resource=resource)
            count = tf.placeholder(tf.int32, [])
            loss = _looked_up_in_a_loop(kind, table, count)
            step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                session.run(tf.global_variables_initializer())
                before = session.run(table)
                losses = [session.run([loss, step], {count: trips})[0] for trips in (3, 5, 2, 4, 6, 1)]
                np.testing.assert_array_equal(before, start)
                results.append([*losses, session.run(table)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)
    if kind == "the whole":
        assert not places
    elif not resource:
        assert len(places) > 3


def test_what_a_loop_has_kept_of_a_table_stays(places):
    """A body that hands the table on, or keeps it in a list, has it as it was."""
    with tf.Graph().as_default():
        table = tf.get_variable("table", initializer=np.ones((6, 2), np.float32))
        kept = tf.TensorArray(tf.float32, 2)
        end = tf.while_loop(
            lambda i, *_: i < 2,
            lambda i, kept, last: (i + 1, kept.write(i, table), table + 0.0 * last),
            [0, kept, tf.zeros([6, 2])],
        )
        with tf.control_dependencies([end[2]]):
            write = tf.scatter_add(table, [1, 2], tf.ones([2, 2]))
        with tf.control_dependencies([write]):
            stacked = end[1].stack()
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                before = session.run(table)
                found = session.run([stacked, write.op])[0]
                np.testing.assert_array_equal(found, np.stack([before, before]))
    assert not places
