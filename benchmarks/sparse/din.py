"""Attention over histories that are padded to the longest of the batch, RMSProp."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    V, D = (3000, 18)
    item = tf.placeholder(tf.int32, [None])
    hist = tf.placeholder(tf.int32, [None, None])
    ln = tf.placeholder(tf.int32, [None])
    y = tf.placeholder(tf.float32, [None])
    e = tf.get_variable("e", [V, D])
    cate = tf.get_variable("c", [100, D])
    look = np.random.RandomState(3).randint(0, 100, V).astype(np.int32)
    cl = tf.constant(look)

    def emb(i):
        return tf.concat([tf.nn.embedding_lookup(e, i), tf.nn.embedding_lookup(cate, tf.gather(cl, i))], -1)

    q, h = (emb(item), emb(hist))
    qq = tf.tile(q[:, None], [1, tf.shape(hist)[1], 1])
    a = tf.concat([qq, h, qq - h, qq * h], -1)
    w1 = tf.get_variable("w1", [8 * D, 16])
    w2 = tf.get_variable("w2", [16, 1])
    s = tf.reshape(tf.matmul(tf.nn.sigmoid(tf.matmul(tf.reshape(a, [-1, 8 * D]), w1)), w2), tf.shape(hist))
    s = tf.where(tf.sequence_mask(ln, tf.shape(hist)[1]), s, tf.fill(tf.shape(s), -1000000000.0))
    p = tf.matmul(tf.nn.softmax(s)[:, None], h)[:, 0]
    z = tf.concat([q, p, q * p], 1)
    o = tf.matmul(tf.nn.relu(tf.matmul(z, tf.get_variable("w3", [6 * D, 24]))), tf.get_variable("w4", [24, 1]))[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=o))
    step = tf.train.RMSPropOptimizer(0.003).minimize(loss)

    def batch():
        B = 32
        lengths = R.randint(1, R.randint(8, 25), B).astype(np.int32)
        h = np.zeros((B, lengths.max()), np.int32)
        for i, k in enumerate(lengths):
            h[i, :k] = R.randint(0, V, k)
        return {
            item: R.randint(0, V, B).astype(np.int32),
            hist: h,
            ln: lengths,
            y: R.randint(0, 2, B).astype(np.float32),
        }

    return ([loss, step], lambda i: batch())
