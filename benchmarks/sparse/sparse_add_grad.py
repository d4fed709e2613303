"""The sum of two sparse matrices of 13,264 values, and its gradient."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    N = 2708

    def m():
        at = np.unique(R.randint(0, N * N, 13264))
        return np.stack([at // N, at % N], 1)

    a, b = (m(), m())
    va = tf.get_variable("va", [len(a), 1])
    vb = tf.get_variable("vb", [len(b), 1])
    s = tf.sparse_add(tf.SparseTensor(a, va[:, 0], [N, N]), tf.SparseTensor(b, vb[:, 0], [N, N]))
    loss = tf.reduce_sum(tf.square(s.values))
    g = tf.gradients(loss, [va, vb])
    return ([loss, [tf.reduce_sum(x) for x in g]], lambda i: {})
