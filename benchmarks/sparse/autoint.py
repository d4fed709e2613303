"""String features by tables and hash buckets, safe lookups, one layer of attention, Adagrad."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    B, D, H = (64, 16, 2)
    words = [f"w{i}" for i in range(500)]
    cat = [tf.placeholder(tf.string, [None]) for _ in range(4)]
    multi = tf.sparse_placeholder(tf.string, [None, None])
    y = tf.placeholder(tf.float32, [None])
    lookup = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(words, list(range(500)), key_dtype=tf.string, value_dtype=tf.int64), -1
    )
    fields = []
    for i, c in enumerate(cat):
        if i % 2:
            ids = tf.string_to_hash_bucket_fast(c, 300)
            size = 300
        else:
            ids = tf.maximum(lookup.lookup(c), 0)
            size = 500
        fields.append(tf.nn.embedding_lookup(tf.get_variable(f"e{i}", [size, D]), ids))
    m = tf.SparseTensor(multi.indices, tf.string_to_hash_bucket_fast(multi.values, 400), multi.dense_shape)
    fields.append(tf.nn.safe_embedding_lookup_sparse([tf.get_variable("em", [400, D])], m, combiner="mean"))
    x = tf.stack(fields, 1)
    q, k, v = [tf.tensordot(x, tf.get_variable(n, [D, D]), 1) for n in "qkv"]

    def heads(t):
        return tf.concat(tf.split(t, H, 2), 0)

    a = tf.nn.softmax(tf.matmul(heads(q), heads(k), transpose_b=True))
    o = tf.concat(tf.split(tf.matmul(a, heads(v)), H, 0), 2)
    o = tf.nn.relu(o + tf.tensordot(x, tf.get_variable("r", [D, D]), 1))
    logit = tf.matmul(tf.reshape(o, [-1, 5 * D]), tf.get_variable("out", [5 * D, 1]))[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logit))
    step = tf.train.AdagradOptimizer(0.05).minimize(loss)

    def batch():
        f = {c: np.array([f"w{j}" for j in R.randint(0, 600, B)], object) for c in cat}
        n = R.randint(0, 6, B)
        rows = np.repeat(np.arange(B), n)
        cols = np.concatenate([np.arange(k) for k in n])
        f[multi] = tf.SparseTensorValue(
            np.stack([rows, cols], 1).astype(np.int64),
            np.array([f"t{j}" for j in R.randint(0, 1000, n.sum())], object),
            [B, 6],
        )
        f[y] = R.randint(0, 2, B).astype(np.float32)
        return f

    return ([loss, step], lambda i: batch())
