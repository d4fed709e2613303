"""Gradients of tables that the bodies of loops gather rows from: slices of all iterations, as TensorFlow 1.15.5 gives
them, but for the row of zeros that its own begin with.
"""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


def by_placeholder(table):
    columns = tf.placeholder_with_default([[1, 2, 2], [0, 4, 1]], [None, None])

    def body(i, a):
        return i + 1, a * 0.5 + tf.reduce_sum(tf.nn.embedding_lookup(table, columns[:, i]) ** 2)

    return tf.while_loop(lambda i, a: i < tf.shape(columns)[1], body, [0, 0.1])[1]


def two_lookups(table):
    def body(i, a):
        first, second = tf.gather(table, [i, 1]), tf.nn.embedding_lookup(table, i)
        return i + 1, a * 0.5 + tf.reduce_sum(first**2) + tf.reduce_sum(second)

    return tf.while_loop(lambda i, a: i < 4, body, [0, 0.1])[1]


def also_outside(table):
    def body(i, a):
        return i + 1, a * 0.5 + tf.reduce_sum(tf.gather(table, [i, 1]) ** 2)

    return tf.while_loop(lambda i, a: i < 4, body, [0, 0.1])[1] + tf.reduce_sum(tf.gather(table, [3]))


def nested(table):
    def inner(j, a, i):
        return j + 1, a + tf.reduce_sum(tf.gather(table, [i, j]) ** 2), i

    def body(i, a):
        return i + 1, a * 0.5 + tf.while_loop(lambda j, a, i: j < i, inner, [0, 0.0, i])[1]

    return tf.while_loop(lambda i, a: i < 4, body, [0, 0.1])[1]


def more_rows_each_time(table):
    def body(i, a):
        return i + 1, a * 0.5 + tf.reduce_sum(tf.gather(table, tf.range(i)) ** 2)

    return tf.while_loop(lambda i, a: i < 4, body, [0, 0.1])[1]


def in_a_branch(table):
    def body(i, a):
        one = tf.cond(
            i < 2,
            lambda: tf.reduce_sum(tf.gather(table, [i]) ** 2),
            lambda: tf.reduce_sum(tf.gather(table, [i, 4]) ** 3),
        )
        return i + 1, a * 0.5 + one

    return tf.while_loop(lambda i, a: i < 4, body, [0, 0.1])[1]


def scanned(table):
    start = tf.zeros([4])
    return tf.reduce_sum(
        tf.scan(lambda a, i: a * 0.3 + tf.gather(table, i) ** 2, tf.constant([1, 2, 2, 0]), initializer=start)
    )


def mapped(table):
    rows = tf.map_fn(lambda i: tf.nn.embedding_lookup(table, [i, i + 1]) ** 2, tf.constant([1, 2, 2, 0]), tf.float32)
    return tf.reduce_sum(rows)


CASES = {
    by_placeholder: [
        [0, 0.0714, 0.1429, 0.2143],
        [1.4286, 1.7857, 2.1429, 2.5],
        [3.4286, 3.8571, 4.2857, 4.7143],
        [0] * 4,
        [2.2857, 2.4286, 2.5714, 2.7143],
    ],
    two_lookups: [
        [0.125, 0.1607, 0.1964, 0.2321],
        [2.6786, 3.2857, 3.8929, 4.5],
        [1.6429, 1.7857, 1.9286, 2.0714],
        [4.4286, 4.7143, 5, 5.2857],
        [0] * 4,
    ],
    also_outside: [
        [0, 0.0357, 0.0714, 0.1071],
        [2.4286, 3.0357, 3.6429, 4.25],
        [1.1429, 1.2857, 1.4286, 1.5714],
        [4.4286, 4.7143, 5, 5.2857],
        [0] * 4,
    ],
    nested: [
        [0, 0.5, 1, 1.5],
        [2, 2.5, 3, 3.5],
        [4.5714, 5.1429, 5.7143, 6.2857],
        [10.2857, 11.1429, 12, 12.8571],
        [0] * 4,
    ],
    more_rows_each_time: [
        [0, 0.5, 1, 1.5],
        [1.7143, 2.1429, 2.5714, 3],
        [2.2857, 2.5714, 2.8571, 3.1429],
        [0] * 4,
        [0] * 4,
    ],
    in_a_branch: [
        [0, 0.0357, 0.0714, 0.1071],
        [0.2857, 0.3571, 0.4286, 0.5],
        [1.9592, 2.4796, 3.0612, 3.7041],
        [8.8163, 10.3469, 12, 13.7755],
        [23.5102, 26.5408, 29.7551, 33.1531],
    ],
    scanned: [
        [0, 0.2857, 0.5714, 0.8571],
        [1.6194, 2.0243, 2.4291, 2.834],
        [6.1486, 6.9171, 7.6857, 8.4543],
        [0] * 4,
        [0] * 4,
    ],
    mapped: [
        [0, 0.2857, 0.5714, 0.8571],
        [2.2857, 2.8571, 3.4286, 4],
        [6.8571, 7.7143, 8.5714, 9.4286],
        [6.8571, 7.4286, 8, 8.5714],
        [0] * 4,
    ],
}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("loss", CASES)
def test_slices(loss, use_resource, tier):
    start = np.arange(20, dtype=np.float32).reshape(5, 4) / 7
    with tf.Graph().as_default():
        table = tf.get_variable("table", initializer=start, use_resource=use_resource)
        (gradient,) = tf.gradients(loss(table), table)
        assert isinstance(gradient, tf.IndexedSlices)
        assert gradient.values.shape.as_list()[1:] == [4]
        step = tf.train.GradientDescentOptimizer(0.5).apply_gradients([(gradient, table)])
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            dense, shape = session.run([tf.convert_to_tensor(gradient), gradient.dense_shape])
            np.testing.assert_allclose(dense, CASES[loss], atol=1e-4)
            assert shape.tolist() == [5, 4]
            session.run(step)
            np.testing.assert_allclose(session.run(table), start - 0.5 * dense, atol=1e-5)


def test_the_last_iteration_comes_first():
    with tf.Graph().as_default():
        table = tf.get_variable("table", initializer=np.ones((5, 4), np.float32))
        (gradient,) = tf.gradients(two_lookups(table), table)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            indices, values = session.run([gradient.indices, gradient.values])
    assert indices.tolist() == [3, 3, 1, 2, 2, 1, 1, 1, 1, 0, 0, 1]
    assert values.shape == (12, 4)


def test_no_iteration_and_no_rows():
    with tf.Graph().as_default():
        table = tf.get_variable("table", initializer=np.ones((5, 4), np.float32))
        trips = tf.placeholder(tf.int32, [])
        loop = tf.while_loop(
            lambda i, a: i < trips, lambda i, a: (i + 1, a + tf.reduce_sum(tf.gather(table, [i]) ** 2)), [0, 0.0]
        )
        (gradient,) = tf.gradients(loop[1], table)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for count in (2, 0, 3):
                assert session.run(gradient.values, {trips: count}).shape == (count, 4)
                assert session.run(tf.shape(gradient.indices), {trips: count}).tolist() == [count]


def test_what_is_dense_stays_dense():
    """A table that is a variable of the loop, and one that the body also reads as a whole."""
    with tf.Graph().as_default():
        table = tf.get_variable("table", initializer=np.ones((5, 4), np.float32))
        carried = tf.while_loop(
            lambda i, a, t: i < 4,
            lambda i, a, t: (i + 1, a + tf.reduce_sum(tf.gather(t, [i, 1]) ** 2), t),
            [0, 0.0, table],
        )
        whole = tf.while_loop(
            lambda i, a: i < 4,
            lambda i, a: (i + 1, a + tf.reduce_sum(tf.gather(table, [i, 1]) ** 2) + tf.reduce_sum(table)),
            [0, 0.0],
        )
        first, second, with_result = (
            tf.gradients(y, table)[0] for y in (carried[1], whole[1], carried[1] + tf.reduce_sum(carried[2]))
        )
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(first)[:, 0].tolist() == [2, 10, 2, 2, 0]
            assert session.run(second)[:, 0].tolist() == [6, 14, 6, 6, 4]
            assert session.run(with_result)[:, 0].tolist() == [3, 11, 3, 3, 1]


def test_the_second_derivative_passes_the_slices():
    start = np.arange(8, dtype=np.float32).reshape(4, 2)
    with tf.Graph().as_default():
        table = tf.get_variable("table", initializer=start)
        loop = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.reduce_sum(tf.gather(table, [i]) ** 3)), [0, 0.0]
        )
        (gradient,) = tf.gradients(loop[1], table)
        (second,) = tf.gradients(tf.reduce_sum(gradient.values), table)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = session.run(tf.convert_to_tensor(second))
    np.testing.assert_allclose(found, np.where(np.arange(4)[:, None] < 3, 6 * start, 0))
