"""Deep and cross network on hashed strings, Adam."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    B, D = (64, 8)
    cats = tf.placeholder(tf.string, [None, 6])
    dense = tf.placeholder(tf.float32, [None, 10])
    y = tf.placeholder(tf.float32, [None])
    parts = [dense]
    for i in range(6):
        t = tf.get_variable(f"e{i}", [1000, D])
        parts.append(tf.nn.embedding_lookup(t, tf.string_to_hash_bucket_fast(cats[:, i], 1000)))
    x0 = tf.concat(parts, 1)
    n = 10 + 6 * D
    x = x0
    for i in range(3):
        w = tf.get_variable(f"c{i}", [n, 1])
        b = tf.get_variable(f"cb{i}", [n], initializer=tf.zeros_initializer())
        x = x0 * tf.matmul(x, w) + b + x
    h = tf.nn.relu(tf.matmul(x0, tf.get_variable("d1", [n, 32])))
    out = tf.matmul(tf.concat([x, h], 1), tf.get_variable("o", [n + 32, 1]))[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=out))
    step = tf.train.AdamOptimizer(0.003).minimize(loss)
    bs = [
        {
            cats: np.array([[f"f{i}_{j}" for i, j in enumerate(r)] for r in R.randint(0, 800, (B, 6))], object),
            dense: R.rand(B, 10).astype(np.float32),
            y: R.randint(0, 2, B).astype(np.float32),
        }
        for _ in range(50)
    ]
    return ([loss, step], lambda i: bs[i % 50])
