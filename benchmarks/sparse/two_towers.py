"""Parsed examples, weighted and safe lookups, softmax over the batch, Adagrad."""

import numpy as np


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    R = np.random.RandomState(0)
    B, V, D = (50, 3000, 24)
    ser = tf.placeholder(tf.string, [None])
    f = tf.io.parse_example(
        ser,
        {
            "q": tf.VarLenFeature(tf.int64),
            "d": tf.VarLenFeature(tf.int64),
            "dw": tf.VarLenFeature(tf.float32),
            "x": tf.FixedLenFeature([3], tf.float32),
        },
    )
    eq = tf.get_variable("eq", [V, D])
    ed = tf.get_variable("ed", [V, D])
    q = tf.nn.safe_embedding_lookup_sparse([eq], f["q"], combiner="sqrtn")
    d = tf.nn.embedding_lookup_sparse(ed, f["d"], f["dw"], combiner="mean")
    q = tf.tanh(tf.matmul(tf.concat([q, f["x"]], 1), tf.get_variable("wq", [D + 3, D])))
    d = tf.nn.l2_normalize(tf.matmul(d, tf.get_variable("wd", [D, D])), 1)
    q = tf.nn.l2_normalize(q, 1)
    s = 10.0 * tf.matmul(q, d, transpose_b=True)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.range(tf.shape(s)[0]), logits=s))
    step = tf.train.AdagradOptimizer(0.1).minimize(loss)

    def ex():
        n, m = (R.randint(1, 8), R.randint(1, 12))
        return tf.train.Example(
            features=tf.train.Features(
                feature={
                    "q": tf.train.Feature(int64_list=tf.train.Int64List(value=R.randint(0, V, n))),
                    "d": tf.train.Feature(int64_list=tf.train.Int64List(value=R.randint(0, V, m))),
                    "dw": tf.train.Feature(float_list=tf.train.FloatList(value=R.rand(m) + 0.1)),
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=R.rand(3))),
                }
            )
        ).SerializeToString()

    bs = [{ser: np.array([ex() for _ in range(B)], object)} for _ in range(40)]
    return ([loss, step], lambda i: bs[i % 40])
