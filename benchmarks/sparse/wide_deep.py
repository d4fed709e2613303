"""Wide and deep: five features of Zipf's law, 1 to 10 values, three combiners, FTRL and Adagrad."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    B, W = (64, 5000)
    R = np.random.RandomState(0)
    names = ["a", "b", "c", "d", "e"]
    sp = [tf.sparse_placeholder(tf.int64, [None, None], name=n) for n in names]
    y = tf.placeholder(tf.float32, [None, 1])
    deep, wide, slopes, rest = ([], [], [], [])
    for i, (n, s) in enumerate(zip(names, sp, strict=False)):
        t = tf.get_variable("emb_" + n, [W, 16])
        w = tf.get_variable("lin_" + n, [W, 1])
        deep.append(tf.nn.embedding_lookup_sparse(t, s, None, combiner=["mean", "sqrtn", "sum"][i % 3]))
        wide.append(tf.nn.embedding_lookup_sparse(w, s, None, combiner="sum"))
        slopes.append(w)
        rest.append(t)
    h = tf.concat(deep, 1)
    for i, u in enumerate([64, 32]):
        w = tf.get_variable(f"w{i}", [h.shape[1], u])
        b = tf.get_variable(f"b{i}", [u], initializer=tf.zeros_initializer())
        h = tf.nn.relu(tf.matmul(h, w) + b)
        rest += [w, b]
    w = tf.get_variable("wo", [32, 1])
    rest.append(w)
    logits = tf.matmul(h, w) + tf.add_n(wide)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    a = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001).minimize(loss, var_list=slopes)
    b = tf.train.AdagradOptimizer(0.05).minimize(loss, var_list=rest)

    def batch():
        f = {y: R.randint(0, 2, (B, 1)).astype(np.float32)}
        for s in sp:
            n = R.randint(1, 11, B)
            rows = np.repeat(np.arange(B), n)
            cols = np.concatenate([np.arange(k) for k in n])
            v = np.minimum(R.zipf(1.3, n.sum()), W) - 1
            f[s] = tf.SparseTensorValue(np.stack([rows, cols], 1), v, [B, 10])
        return f

    return ([loss, a, b], lambda i: batch())
