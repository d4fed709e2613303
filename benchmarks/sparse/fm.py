"""Factorisation machine on a sparse matrix of another number of values in each step, Adagrad."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    B, F, K = (100, 3000, 8)
    x = tf.sparse_placeholder(tf.float32, [None, F])
    y = tf.placeholder(tf.float32, [None])
    w0 = tf.get_variable("w0", [], initializer=tf.zeros_initializer())
    w = tf.get_variable("w", [F, 1])
    v = tf.get_variable("v", [F, K])
    lin = tf.sparse_tensor_dense_matmul(x, w)[:, 0]
    x2 = tf.SparseTensor(x.indices, tf.square(x.values), x.dense_shape)
    inter = 0.5 * tf.reduce_sum(
        tf.square(tf.sparse_tensor_dense_matmul(x, v)) - tf.sparse_tensor_dense_matmul(x2, tf.square(v)), 1
    )
    p = w0 + lin + inter
    loss = tf.reduce_mean(tf.square(p - y)) + 0.0001 * tf.nn.l2_loss(v)
    step = tf.train.AdagradOptimizer(0.05).minimize(loss)

    def batch():
        n = R.randint(3, 15, B)
        rows = np.repeat(np.arange(B), n)
        cols = np.concatenate([np.sort(R.choice(F, k, replace=False)) for k in n])
        return {
            x: tf.SparseTensorValue(
                np.stack([rows, cols], 1).astype(np.int64), R.rand(n.sum()).astype(np.float32), [B, F]
            ),
            y: R.rand(B).astype(np.float32),
        }

    return ([loss, step], lambda i: batch())
