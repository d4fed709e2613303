"""Gradients of conditionals over tables that branches gather rows from: slices, the same in both tiers."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

TABLE = np.arange(12.0, dtype=np.float32).reshape(6, 2)
FIRST, SECOND = [1, 1, 3], [2, 0]


def rows_of(count, rows, values):
    dense = np.zeros([count, 2], np.float32)
    np.add.at(dense, rows, values)
    return dense


def squares(table, rows):
    return tf.reduce_sum(tf.gather(table, rows) ** 2)


CASES = {
    # What the branches are, gradients if the predicate holds and if not, how many rows each gives.
    "in one branch": (
        lambda t, i, j: (squares(t, i), tf.constant(0.0)),
        lambda: (rows_of(6, FIRST, 2 * TABLE[FIRST]), rows_of(6, [], 0.0)),
        (3, 3),
    ),
    "in both": (
        lambda t, i, j: (squares(t, i), tf.reduce_sum(tf.gather(t, j))),
        lambda: (rows_of(6, FIRST, 2 * TABLE[FIRST]), rows_of(6, SECOND, 1.0)),
        (5, 5),
    ),
    "a known number": (
        lambda t, i, j: (
            tf.reduce_sum(tf.nn.embedding_lookup(t, tf.reshape(i, [1, -1])) ** 2),
            tf.reduce_sum(tf.gather(t, [1, 2, 3])),
        ),
        lambda: (rows_of(6, FIRST, 2 * TABLE[FIRST]), rows_of(6, [1, 2, 3], 1.0)),
        (6, 6),
    ),
    "places computed inside": (
        lambda t, i, j: (
            squares(t, tf.argmax(t, 0)),
            tf.reduce_sum(tf.gather(t, j)) + tf.reduce_sum(tf.gather(t, [0])),
        ),
        lambda: (rows_of(6, [5, 5], 2 * TABLE[[5, 5]]), rows_of(6, [*SECOND, 0], 1.0)),
        (5, 5),
    ),
    "a number that data tell": (
        lambda t, i, j: (squares(t, tf.where(t[:, 0] > 3.0)[:, 0]), tf.constant(0.0)),
        lambda: (rows_of(6, [2, 3, 4, 5], 2 * TABLE[2:]), rows_of(6, [], 0.0)),
        (4, 0),
    ),
}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_slices_come_out_of_a_conditional(case, resource, tier):
    branches, expected, counts = CASES[case]
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        table = tf.Variable(TABLE, use_resource=resource)
        p = tf.placeholder(tf.bool, [])
        i, j = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int64, [None])
        y = tf.cond(p, lambda: branches(table, i, j)[0], lambda: branches(table, i, j)[1])
        (gradient,) = tf.gradients(y, table)
        assert isinstance(gradient, tf.IndexedSlices)
        assert gradient.get_shape().as_list() == [6, 2]
        step = tf.train.GradientDescentOptimizer(0.5).minimize(y)
        for holds, dense, count in zip((True, False), expected(), counts, strict=True):
            feeds = {p: holds, i: FIRST, j: SECOND}
            session.run(tf.global_variables_initializer())
            found = session.run(gradient, feeds)
            assert len(found.indices) == count
            np.testing.assert_array_equal(rows_of(6, found.indices, found.values), dense)
            np.testing.assert_array_equal(session.run(tf.convert_to_tensor(gradient), feeds), dense)
            session.run(step, feeds)
            np.testing.assert_allclose(session.run(table), TABLE - 0.5 * dense)


def test_a_branch_that_reads_the_whole_table_makes_the_gradient_dense():
    with tf.Graph().as_default(), tf.Session() as session:
        table, p = tf.Variable(TABLE), tf.placeholder(tf.bool, [])
        y = tf.cond(p, lambda: squares(table, FIRST), lambda: tf.reduce_sum(table))
        (gradient,) = tf.gradients(y, table)
        assert isinstance(gradient, tf.Tensor)
        session.run(table.initializer)
        np.testing.assert_array_equal(session.run(gradient, {p: True}), rows_of(6, FIRST, 2 * TABLE[FIRST]))
        np.testing.assert_array_equal(session.run(gradient, {p: False}), np.ones([6, 2]))


def test_gradients_of_slices_out_of_conditionals():
    with tf.Graph().as_default(), tf.Session() as session:
        table, p = tf.Variable(TABLE), tf.placeholder(tf.bool, [])
        y = tf.cond(p, lambda: squares(table, FIRST), lambda: tf.constant(0.0))
        (gradient,) = tf.gradients(y, table)
        (second,) = tf.gradients(tf.reduce_sum(gradient.values * [1.0, 10.0]), table)
        session.run(table.initializer)
        dense = tf.convert_to_tensor(second)
        np.testing.assert_array_equal(session.run(dense, {p: True}), rows_of(6, FIRST, [2.0, 20.0]))
        np.testing.assert_array_equal(session.run(dense, {p: False}), np.zeros([6, 2]))


def test_by_number_and_in_a_loop():
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        table, n = tf.Variable(TABLE, use_resource=True), tf.placeholder(tf.int32, [])

        def body(k, total):
            one = tf.switch_case(
                k % 3,
                [
                    lambda: squares(table, [k]),
                    lambda: tf.reduce_sum(tf.gather(table, [k, k + 1])),
                    lambda: tf.constant(0.0),
                ],
            )
            return k + 1, total + one

        _, total = tf.while_loop(lambda k, _: k < n, body, (0, 0.0))
        (gradient,) = tf.gradients(total, table)
        session.run(table.initializer)
        expected = rows_of(
            6, [0, 1, 2, 3, 4, 5], np.vstack([2 * TABLE[0], [1, 1], [1, 1], 2 * TABLE[3], [1, 1], [1, 1]])
        )
        np.testing.assert_array_equal(session.run(tf.convert_to_tensor(gradient), {n: 5}), expected)


def test_a_step_with_such_a_gradient_is_one_program():
    """What only one branch of the gradient needs, such as a shape, does not cut the step in two."""
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        table, p = tf.Variable(TABLE), tf.placeholder(tf.bool, [])
        i, j = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
        y = tf.cond(p, lambda: squares(table, i), lambda: tf.reduce_sum(tf.gather(table, j)))
        dense = tf.convert_to_tensor(tf.gradients(y, table)[0])
        session.run(table.initializer)
        for holds in (True, False):
            session.run(dense, {p: holds, i: FIRST, j: SECOND})
        told = session.explain(dense, {p: True, i: FIRST, j: SECOND})
        assert told.count("    program ") == 1
        assert "per value of" not in told
        # A conditional of the user's that looks just like it is another program.
        shape = tf.cond(p, lambda: tf.shape(tf.gather(table, i)), lambda: tf.zeros([2], tf.int32))
        assert session.run(shape, {p: False, i: FIRST}).tolist() == [0, 0]
        assert session.run(shape, {p: True, i: FIRST}).tolist() == [3, 2]
