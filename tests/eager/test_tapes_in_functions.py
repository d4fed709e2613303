"""Tapes inside of ``tf.function``: the gradients are those that the same lines give where ops run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as tf


def from_before_the_tape(x: Any) -> Any:
    y = x * 2.0
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x * y
    return tape.gradient(z, [x, y])


def made_while_stopped(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            q = x * x
        w = q * x
    return tape.gradient(w, x)


def made_before_a_reset(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = x * x
        tape.reset()
        tape.watch(u)
        v = u * u
    return tape.gradient(v, [u, x])


def not_watched(x: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        two = tf.constant(2.0)
        y = two * x * two
        tape.watch(x)
        z = x * two
    return tape.gradient(z, [x, two]) + tape.gradient(y, [x, two])


def second_order(x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        first = inner.gradient(y, x)
    return outer.gradient(first, x)


def second_order_by_what_the_inner_one_made(x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        first = inner.gradient(y, x)
        z = first * x
    return outer.gradient(z, [first, y, x])


def in_branches(x: Any) -> Any:
    scale = x * 3.0

    def large() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * scale
        return tape.gradient(y, x)

    return tf.cond(x > 0.0, large, lambda: x)


def in_a_loop(x: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([total, x])
            y = total * x
        along, across = tape.gradient(y, [total, x])
        return i + 1, along + across

    return tf.while_loop(lambda i, _: i < 3, body, [tf.constant(0), x * 1.0])[1]


def through_a_branch(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cond(x > 0.0, lambda: x * x, lambda: -x)
        z = y * y
    return tape.gradient(z, [y, x])


def own_gradient(x: Any) -> Any:
    @tf.custom_gradient
    def clipped(a: Any) -> Any:
        return a * a, lambda slope: slope * 100.0

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = clipped(x) * x
    return tape.gradient(y, x)


def same_argument_twice(x: Any) -> Any:
    return tf.contrib.eager.gradients_function(tf.multiply, [0, 1])(x, x)


def jacobian(x: Any) -> Any:
    before = tf.stack([x, x])
    with tf.GradientTape() as tape:
        tape.watch([before, x])
        y = before * x
    return tape.jacobian(y, before)


FUNCTIONS = [
    (from_before_the_tape, [6.0, 3.0]),
    (made_while_stopped, 9.0),
    (made_before_a_reset, [18.0, None]),
    (not_watched, [2.0, None, None, None]),
    (second_order, 18.0),
    (second_order_by_what_the_inner_one_made, [3.0, None, 81.0]),
    (in_branches, 54.0),
    (in_a_loop, None),
    (through_a_branch, [18.0, 108.0]),
    (own_gradient, 309.0),
    (same_argument_twice, [3.0, 3.0]),
    (jacobian, [[3.0, 0.0], [0.0, 3.0]]),
]


def values(results: Any) -> list[Any]:
    listed = results if isinstance(results, (list, tuple)) else [results]
    return [None if one is None else one.numpy().tolist() for one in listed]


@pytest.mark.parametrize(("lines", "expected"), FUNCTIONS, ids=[lines.__name__ for lines, _ in FUNCTIONS])
def test_a_tape_in_a_function_is_that_of_the_same_lines(lines: Callable[[Any], Any], expected: Any) -> None:
    x = tf.constant(3.0)
    at_once = values(lines(x))
    assert values(tf.function(lines)(x)) == at_once
    if expected is not None:
        listed = expected if isinstance(expected, list) and lines is not jacobian else [expected]
        np.testing.assert_array_equal(np.array(at_once, float), np.array(listed, float))


def test_variables_that_are_not_watched_have_none() -> None:
    kept, other = tf.Variable(2.0), tf.Variable(5.0, trainable=False)

    def lines(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x * x * kept * other
        every = tape.gradient(y, [kept, other, x])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([x, other])
            y = x * x * kept * other
        return every + tape.gradient(y, [kept, other, x])

    x = tf.constant(3.0)
    assert values(lines(x)) == [45.0, None, None, None, 18.0, 60.0]
    assert values(tf.function(lines)(x)) == [45.0, None, None, None, 18.0, 60.0]


def test_rows_of_a_table_and_what_was_looked_up_before() -> None:
    table = tf.Variable(np.arange(6.0, dtype=np.float32).reshape(3, 2))

    def lines(rows: Any) -> Any:
        before = tf.gather(table, rows)
        with tf.GradientTape() as tape:
            tape.watch(before)
            loss = tf.reduce_sum(tf.gather(table, rows) * before)
        slices, direct = tape.gradient(loss, [table, before])
        return slices.values, slices.indices, direct

    rows = tf.constant([0, 2])
    assert values(tf.function(lines)(rows)) == values(lines(rows))


def test_a_tape_in_a_graph_gives_what_it_was_told_to_follow() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(3.0)
        y = x * 2.0
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, y])
            z = x * y
        by_x, by_y = tape.gradient(z, [x, y])
        assert session.run([by_x, by_y]) == [6.0, 3.0]
        with tf.GradientTape() as tape:
            z = x * y
        assert tape.gradient(z, [x, y]) == [None, None]
