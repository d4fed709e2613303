"""Words from contexts of other lengths, negatives that are fed, Adagrad."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    V, D = (8000, 50)
    ctx = tf.placeholder(tf.int32, [None])
    seg = tf.placeholder(tf.int32, [None])
    tgt = tf.placeholder(tf.int32, [None])
    neg = tf.placeholder(tf.int32, [32])
    e = tf.get_variable("e", [V, D])
    u = tf.get_variable("u", [V, D])
    b = tf.get_variable("b", [V, 1], initializer=tf.zeros_initializer())
    h = tf.segment_mean(tf.nn.embedding_lookup(e, ctx), seg)
    pos = tf.reduce_sum(h * tf.nn.embedding_lookup(u, tgt), 1) + tf.nn.embedding_lookup(b, tgt)[:, 0]
    ng = tf.matmul(h, tf.nn.embedding_lookup(u, neg), transpose_b=True) + tf.nn.embedding_lookup(b, neg)[:, 0]
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(pos), logits=pos)
    ) + tf.reduce_mean(tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.zeros_like(ng), logits=ng), 1))
    step = tf.train.AdagradOptimizer(0.2).minimize(loss)

    def batch():
        n = R.randint(60, 140)
        k = R.randint(1, 9, n)
        return {
            ctx: R.randint(0, V, k.sum()).astype(np.int32),
            seg: np.repeat(np.arange(n), k).astype(np.int32),
            tgt: R.randint(0, V, n).astype(np.int32),
            neg: R.randint(0, V, 32).astype(np.int32),
        }

    return ([loss, step], lambda i: batch())
