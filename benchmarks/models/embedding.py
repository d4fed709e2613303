"""Pairs of rows of a table of 200,000 x 64, gradient descent: a step that does next to nothing."""

import numpy as np

ROWS, WIDTH, BATCH = 200_000, 64, 128


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    left, right = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    alike = tf.placeholder(tf.float32, [None])
    table = tf.get_variable("table", [ROWS, WIDTH])
    logits = tf.reduce_sum(tf.nn.embedding_lookup(table, left) * tf.nn.embedding_lookup(table, right), axis=1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=alike))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {
            left: random.randint(0, ROWS, BATCH),
            right: random.randint(0, ROWS, BATCH),
            alike: random.randint(0, 2, BATCH),
        }
        for _ in range(8)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
