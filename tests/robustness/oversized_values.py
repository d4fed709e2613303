"""A script: runs graphs with values that cannot exist in one process; prints what each step ended with, as JSON."""

from __future__ import annotations

import json
import resource
import sys

import numpy as np

import anabranch as tf

BIG = 1 << 31
ONE = np.int64(1)


def fed(value, dtype=tf.float32, shape=None):
    """A placeholder, so that nothing is known when the graph is built."""
    value = np.asarray(value, dtype.as_numpy_dtype)
    return tf.placeholder_with_default(value, [None] * value.ndim if shape is None else shape)


def sizes(*dims):
    return fed(dims, tf.int64)


def four_axes():
    vectors = [fed(np.ones([65536 if i == axis else 1 for i in range(4)])) for axis in range(4)]
    return tf.reduce_sum(vectors[0] + vectors[1] + vectors[2] + vectors[3])


def in_a_branch():
    a = fed(np.ones(65536))
    product = lambda: tf.reduce_sum(a[:, None, None, None] * a[:, None, None] * a[:, None] * a)  # noqa: E731
    return tf.cond(tf.reduce_sum(a) > 0.0, product, lambda: 0.0)


def in_a_loop():
    a = fed(np.ones(65536))
    product = lambda: tf.reduce_sum(a[:, None, None, None] * a[:, None, None] * a[:, None] * a)  # noqa: E731
    return tf.while_loop(lambda i, total: i < 3, lambda i, total: (i + 1, total + product()), (0, 0.0))


def behind_a_check():
    rows = tf.gather(fed(np.ones((2, 1 << 20))), fed(np.zeros(1 << 12), tf.int32))
    return tf.reduce_sum(rows[:, None, None] * rows[None, :, None] * rows[None, None, :])


def of_a_variable():
    return tf.Variable(tf.zeros([1 << 62])).initializer


def of_a_variable_of_any_shape():
    return tf.Variable(tf.fill(sizes(1 << 62), 1.0), validate_shape=False).initializer


def of_a_gradient():
    x = fed(np.ones(65536))
    return tf.gradients(tf.reduce_sum(x[:, None, None, None] * x[:, None, None] * x[:, None] * x), x)


CASES = {
    "a sum of what is known": lambda: tf.reduce_sum(tf.zeros([BIG - 1, BIG - 1]) + 1.0),
    "four vectors along four axes": four_axes,
    "a branch": in_a_branch,
    "a loop": in_a_loop,
    "behind a check": behind_a_check,
    "a variable": of_a_variable,
    "a variable of any shape": of_a_variable_of_any_shape,
    "a gradient": of_a_gradient,
    "no elements, but too many": lambda: tf.fill(sizes(1 << 40, 1 << 40, 0), 1.0) + 1.0,
    "fill": lambda: tf.reduce_sum(tf.fill(sizes(BIG, BIG), 1.0)),
    "broadcast_to": lambda: tf.reduce_sum(tf.sin(tf.broadcast_to(fed(1.0), sizes(BIG, BIG)))),
    "tile": lambda: tf.reduce_sum(tf.tile(fed([1.0]), sizes(1 << 62))),
    "pad": lambda: tf.reduce_sum(tf.pad(fed([[1.0]]), fed([[0, BIG], [0, BIG]], tf.int64))),
    "range": lambda: tf.reduce_sum(tf.range(fed(0, tf.int64), ONE << 61)),
    "linspace": lambda: tf.reduce_sum(tf.linspace(fed(0.0), 1.0, fed(1 << 62, tf.int64))),
    "one_hot": lambda: tf.reduce_sum(tf.one_hot(fed(np.zeros((1 << 14, 1 << 14)), tf.uint8), BIG - 1)),
    "random_uniform": lambda: tf.reduce_sum(tf.random_uniform(sizes(BIG, BIG))),
    "random_normal": lambda: tf.reduce_sum(tf.random_normal(sizes(BIG, BIG))),
    "truncated_normal": lambda: tf.reduce_sum(tf.truncated_normal(sizes(BIG, BIG), seed=1)),
    "stateless_normal": lambda: tf.reduce_sum(tf.random.stateless_normal(sizes(BIG, BIG), [1, 2])),
    "stateless_half": lambda: tf.reduce_sum(tf.random.stateless_uniform(sizes(BIG, 50), [1, 2], dtype=tf.float16)),
    "parameterized": lambda: tf.reduce_sum(
        tf.raw_ops.ParameterizedTruncatedNormal(
            shape=sizes(BIG, BIG), means=[0.0], stdevs=[1.0], minvals=[-1.0], maxvals=[1.0]
        )
    ),
    "multinomial": lambda: tf.reduce_sum(tf.multinomial(fed(np.ones((1 << 24, 1))), BIG - 1)),
    "scatter_nd": lambda: tf.reduce_sum(tf.scatter_nd(fed([[0]], tf.int64), fed([1.0]), sizes(1 << 62))),
    "sparse_to_dense": lambda: tf.reduce_sum(tf.sparse_to_dense(fed([0], tf.int64), sizes(1 << 62), 1.0)),
    "unsorted_segment_sum": lambda: tf.reduce_sum(
        tf.unsorted_segment_sum(fed([1.0]), fed([0], tf.int64), fed(1 << 62, tf.int64))
    ),
    "matmul": lambda: tf.reduce_sum(
        tf.sin(tf.matmul(tf.broadcast_to(fed(1.0), sizes(BIG, 1)), tf.broadcast_to(fed(1.0), sizes(1, BIG))))
    ),
}


def outcome(case, tier):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        try:
            return f"no error: {session.run(case())}"[:200], ""
        except Exception as problem:
            return type(problem).__name__, str(problem)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # what could exist just so is not computed
    names = sys.argv[2:] or CASES
    for name in names:
        print(json.dumps((name, *outcome(CASES[name], sys.argv[1]))), flush=True)
