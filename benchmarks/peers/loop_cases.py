"""Loops as TensorFlow 1.x programs, run by Anabranch and TensorFlow; see ``graph_cases``."""

import numpy as np

from peers import shapes
from peers.system import chosen

tf, hot, _ = chosen()


def running(graph, fetch, feed):
    return hot(tf.Session(graph=graph), fetch, feed)


def trivial():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [])
        _, y = tf.while_loop(lambda i, y: i < shapes.TRIPS, lambda i, y: (i + 1, y * 0.999 + 1.0), [0, x])
        return running(graph, y, {x: 1.0})


def recurrence(fed, gradient=True):
    state, weights, count = shapes.recurrence()
    with tf.Graph().as_default() as graph:
        h, w, n = tf.placeholder(tf.float32, state.shape), tf.placeholder(tf.float32, weights.shape), count
        feed = {h: state, w: weights}
        if fed:
            n = tf.placeholder(tf.int32, [])
            feed[n] = count
        _, last = tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, h])
        fetch = tf.gradients(tf.reduce_sum(last), w)[0] if gradient else last
        return running(graph, fetch, feed)


def rows(function, gradient=False):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, shapes.ROW])
        y = function(x)
        fetch = tf.gradients(tf.reduce_sum(y), x)[0] if gradient else y
        return running(graph, fetch, {x: shapes.rows()})


def mapped(x):
    return tf.map_fn(lambda row: tf.tanh(row) * row, x)


def scanned(x):
    return tf.scan(lambda total, row: total * 0.9 + row, x, initializer=np.zeros(shapes.ROW, np.float32))


def grown():
    """An array that grows for as long as the data say."""
    with tf.Graph().as_default() as graph:
        limit = tf.placeholder(tf.float32, [])
        _, _, array = tf.while_loop(
            lambda i, x, _: x < limit,
            lambda i, x, array: (i + 1, x + 1.0, array.write(i, tf.fill([8], x))),
            [0, 0.0, tf.TensorArray(tf.float32, size=0, dynamic_size=True)],
        )
        return running(graph, array.stack(), {limit: 1000.0})


CASES = {
    "loop_trivial": trivial,
    "loop_forward": lambda: recurrence(True, False),
    "loop_grad_known": lambda: recurrence(False),
    "loop_grad_fed": lambda: recurrence(True),
    "map_fn": lambda: rows(mapped),
    "map_fn_grad": lambda: rows(mapped, True),
    "scan": lambda: rows(scanned),
    "scan_grad": lambda: rows(scanned, True),
    "loop_array_grown": grown,
}
