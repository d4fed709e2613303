"""Baskets by ``nce_loss``, whose samples differ between systems, a decaying rate."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    V, D = (4000, 40)
    a = tf.placeholder(tf.int64, [None])
    b = tf.placeholder(tf.int64, [None])
    e = tf.get_variable("e", [V, D])
    w = tf.get_variable("w", [V, D])
    bias = tf.get_variable("bias", [V], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.nn.nce_loss(w, bias, b[:, None], tf.nn.embedding_lookup(e, a), 10, V))
    gs = tf.train.get_or_create_global_step()
    lr = tf.train.exponential_decay(0.5, gs, 100, 0.97)
    step = tf.train.GradientDescentOptimizer(lr).minimize(loss, global_step=gs)

    def batch():
        n = R.randint(100, 220)
        return {a: R.randint(0, V, n), b: R.randint(0, V, n)}

    return ([loss, step], lambda i: batch())
