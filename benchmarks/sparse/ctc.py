"""Loss of a linear net by CTC on labels of other lengths, Momentum."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    T, B, C = (30, 8, 20)
    x = tf.placeholder(tf.float32, [T, B, 16])
    lab = tf.sparse_placeholder(tf.int32)
    ln = tf.placeholder(tf.int32, [B])
    w = tf.get_variable("w", [16, C])
    logits = tf.reshape(tf.matmul(tf.reshape(x, [-1, 16]), w), [T, B, C])
    loss = tf.reduce_mean(tf.nn.ctc_loss(lab, logits, ln))
    step = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)

    def batch():
        n = R.randint(3, 10, B)
        rows = np.repeat(np.arange(B), n)
        cols = np.concatenate([np.arange(k) for k in n])
        return {
            x: R.randn(T, B, 16).astype(np.float32),
            lab: tf.SparseTensorValue(
                np.stack([rows, cols], 1).astype(np.int64), R.randint(0, C - 1, n.sum()).astype(np.int32), [B, 10]
            ),
            ln: np.full(B, T, np.int32) - R.randint(0, 5, B).astype(np.int32),
        }

    return ([loss, step], lambda i: batch())
