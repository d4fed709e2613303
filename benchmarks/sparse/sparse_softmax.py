"""Classification of bags of words fed as sparse tensors, gradient descent."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    B, V, C = (128, 10000, 10)
    x = tf.sparse_placeholder(tf.float32)
    y = tf.placeholder(tf.int64, [None])
    w = tf.get_variable("w", [V, C])
    b = tf.get_variable("b", [C], initializer=tf.zeros_initializer())
    logits = tf.sparse_tensor_dense_matmul(x, w) + b
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    acc = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))

    def batch():
        n = R.randint(5, 60, B)
        rows = np.repeat(np.arange(B), n)
        cols = np.concatenate([np.sort(R.choice(V, k, replace=False)) for k in n])
        return {
            x: tf.SparseTensorValue(np.stack([rows, cols], 1).astype(np.int64), np.ones(n.sum(), np.float32), [B, V]),
            y: R.randint(0, C, B),
        }

    return ([loss, step, acc], lambda i: batch())
