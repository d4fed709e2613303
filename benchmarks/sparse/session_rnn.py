"""A recurrent step over sessions, items of the batch as samples, batches of other sizes, Adagrad."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    V, D = (1500, 32)
    x = tf.placeholder(tf.int32, [None])
    y = tf.placeholder(tf.int32, [None])
    s = tf.placeholder(tf.float32, [None, D])
    e = tf.get_variable("e", [V, D])
    sw = tf.get_variable("sw", [V, D])
    sb = tf.get_variable("sb", [V], initializer=tf.zeros_initializer())
    wz = tf.get_variable("wz", [2 * D, 2 * D])
    wc = tf.get_variable("wc", [2 * D, D])
    i = tf.nn.embedding_lookup(e, x)
    zr = tf.sigmoid(tf.matmul(tf.concat([i, s], 1), wz))
    z, r = tf.split(zr, 2, 1)
    c = tf.tanh(tf.matmul(tf.concat([i, r * s], 1), wc))
    n = z * s + (1 - z) * c
    logits = tf.matmul(n, tf.nn.embedding_lookup(sw, y), transpose_b=True) + tf.nn.embedding_lookup(sb, y)
    loss = tf.reduce_mean(-tf.log(tf.linalg.diag_part(tf.nn.softmax(logits)) + 1e-24))
    o = tf.train.AdagradOptimizer(0.05)
    gv = o.compute_gradients(loss)
    step = o.apply_gradients(
        [(tf.clip_by_norm(g, 5.0) if not isinstance(g, tf.IndexedSlices) else g, v) for g, v in gv]
    )

    def batch():
        B = R.randint(20, 60)
        return {
            x: R.randint(0, V, B).astype(np.int32),
            y: R.randint(0, V, B).astype(np.int32),
            s: R.randn(B, D).astype(np.float32),
        }

    return ([loss, step, n], lambda i: batch())
