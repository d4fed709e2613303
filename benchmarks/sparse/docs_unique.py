"""Documents of other lengths by ``unique_with_counts``, segment sums, clipped norms, Momentum."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    V, D, C = (2500, 24, 4)
    words = tf.placeholder(tf.int32, [None])
    docs = tf.placeholder(tf.int32, [None])
    y = tf.placeholder(tf.int32, [None])
    e = tf.get_variable("e", [V, D])
    w = tf.get_variable("w", [D, C])
    u, idx, cnt = tf.unique_with_counts(words)
    weight = 1.0 / tf.log(2.0 + tf.cast(cnt, tf.float32))
    rows = tf.gather(tf.nn.embedding_lookup(e, u) * weight[:, None], idx)
    n = tf.size(y)
    total = tf.unsorted_segment_sum(rows, docs, n)
    num = tf.unsorted_segment_sum(tf.ones_like(docs, tf.float32), docs, n)
    h = tf.tanh(total / tf.maximum(num, 1.0)[:, None])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(h, w)))
    o = tf.train.MomentumOptimizer(0.1, 0.9)
    v = [e, w]
    g, norm = tf.clip_by_global_norm(tf.gradients(loss, v), 1.0)
    step = o.apply_gradients(zip(g, v, strict=False))

    def batch():
        B = 40
        n = R.randint(5, 40, B)
        return {
            words: np.minimum(R.zipf(1.2, n.sum()), V).astype(np.int32) - 1,
            docs: np.repeat(np.arange(B), n).astype(np.int32),
            y: R.randint(0, C, B).astype(np.int32),
        }

    return ([loss, step, norm], lambda i: batch())
