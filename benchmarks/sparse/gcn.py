"""Graph convolutions on sampled graphs of other sizes, Adam."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    F, H, C = (300, 16, 7)
    adj = tf.sparse_placeholder(tf.float32)
    x = tf.sparse_placeholder(tf.float32)
    y = tf.placeholder(tf.int64, [None])
    mask = tf.placeholder(tf.float32, [None])
    w1 = tf.get_variable("w1", [F, H])
    w2 = tf.get_variable("w2", [H, C])
    h = tf.nn.relu(tf.sparse_tensor_dense_matmul(adj, tf.sparse_tensor_dense_matmul(x, w1)))
    o = tf.sparse_tensor_dense_matmul(adj, tf.matmul(h, w2))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=o)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask) + 0.0005 * tf.nn.l2_loss(w1)
    step = tf.train.AdamOptimizer(0.01).minimize(loss)

    def batch():
        n = R.randint(200, 400)
        k = n * 4
        at = np.unique(R.randint(0, n * n, k))
        xt = np.unique(R.randint(0, n * F, n * 10))
        return {
            adj: tf.SparseTensorValue(
                np.stack([at // n, at % n], 1).astype(np.int64), np.full(len(at), 0.25, np.float32), [n, n]
            ),
            x: tf.SparseTensorValue(
                np.stack([xt // F, xt % F], 1).astype(np.int64), np.ones(len(xt), np.float32), [n, F]
            ),
            y: R.randint(0, C, n),
            mask: (R.rand(n) < 0.3).astype(np.float32),
        }

    return ([loss, step], lambda i: batch())
