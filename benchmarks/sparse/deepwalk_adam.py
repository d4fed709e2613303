"""Walks over few nodes by ``unique``, negatives shared by the batch, Adam."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    N, D = (2000, 32)
    c = tf.placeholder(tf.int64, [None])
    o = tf.placeholder(tf.int64, [None])
    neg = tf.placeholder(tf.int64, [64])
    e = tf.get_variable("e", [N, D])
    u = tf.get_variable("u", [N, D])
    b = tf.get_variable("b", [N], initializer=tf.zeros_initializer())
    nodes, idx = tf.unique(c)
    ce = tf.gather(tf.nn.embedding_lookup(e, nodes), idx)
    ids = tf.concat([o, neg], 0)
    w = tf.nn.embedding_lookup(u, ids)
    bb = tf.nn.embedding_lookup(b, ids)
    n = tf.shape(o)[0]
    pos = tf.reduce_sum(ce * w[:n], 1) + bb[:n]
    ng = tf.matmul(ce, w[n:], transpose_b=True) + bb[n:]
    logits = tf.concat([pos[:, None], ng], 1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.zeros_like(o), logits=logits))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)

    def batch():
        n = R.randint(100, 200)
        return {c: R.randint(0, 300, n), o: R.randint(0, N, n), neg: R.randint(0, N, 64)}

    return ([loss, step], lambda i: batch())
