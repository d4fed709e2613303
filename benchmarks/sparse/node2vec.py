"""Skip-gram over walks with fed negatives, another number of pairs in each step, gradient descent."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    N, D, K = (3000, 64, 5)
    c = tf.placeholder(tf.int32, [None])
    o = tf.placeholder(tf.int32, [None])
    neg = tf.placeholder(tf.int32, [None, K])
    e = tf.get_variable("e", [N, D])
    u = tf.get_variable("u", [N, D])
    ce = tf.nn.embedding_lookup(e, c)
    oe = tf.nn.embedding_lookup(u, o)
    ne = tf.nn.embedding_lookup(u, neg)
    pos = tf.reduce_sum(ce * oe, 1)
    ng = tf.reduce_sum(tf.expand_dims(ce, 1) * ne, 2)
    loss = -tf.reduce_mean(tf.log_sigmoid(pos)) - tf.reduce_mean(tf.reduce_sum(tf.log_sigmoid(-ng), 1))
    step = tf.train.GradientDescentOptimizer(0.2).minimize(loss)

    def batch():
        n = R.randint(150, 300)
        return {
            c: R.randint(0, N, n).astype(np.int32),
            o: R.randint(0, N, n).astype(np.int32),
            neg: R.randint(0, N, (n, K)).astype(np.int32),
        }

    return ([loss, step], lambda i: batch())
