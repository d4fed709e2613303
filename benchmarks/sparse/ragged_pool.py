"""Means and maxima of ragged rows of embeddings, Momentum."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    B, V, D, C = (48, 4000, 32, 6)
    vals = tf.placeholder(tf.int64, [None])
    splits = tf.placeholder(tf.int64, [None])
    y = tf.placeholder(tf.int64, [None])
    r = tf.RaggedTensor.from_row_splits(vals, splits)
    e = tf.get_variable("e", [V, D])
    em = tf.ragged.map_flat_values(tf.nn.embedding_lookup, e, r)
    mean = tf.reduce_mean(em, axis=1)
    mx = tf.reduce_max(em, axis=1)
    h = tf.concat([mean, mx], 1)
    w = tf.get_variable("w", [2 * D, C])
    logits = tf.matmul(h, w)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

    def batch():
        n = R.randint(1, 20, B)
        return {vals: R.randint(0, V, n.sum()), splits: np.concatenate([[0], np.cumsum(n)]), y: R.randint(0, C, B)}

    return ([loss, step], lambda i: batch())
