"""Wide and deep on sparse features: ``embedding_lookup_sparse``, a linear part by FTRL, a deep one by Adagrad."""

import numpy as np

BATCH, FEATURES, IDS, WORDS = 128, 6, 4, 20_000


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    places = [tf.placeholder(tf.int64, [None, 2]) for _ in range(FEATURES)]
    ids = [tf.placeholder(tf.int64, [None]) for _ in range(FEATURES)]
    labels = tf.placeholder(tf.float32, [BATCH, 1])
    sparse = [tf.SparseTensor(at, values, [BATCH, IDS]) for at, values in zip(places, ids, strict=True)]
    tables = [tf.get_variable(f"table{i}", [WORDS, 16]) for i in range(FEATURES)]
    slopes = [tf.get_variable(f"slopes{i}", [WORDS, 1]) for i in range(FEATURES)]
    hidden = tf.concat(
        [tf.nn.embedding_lookup_sparse(t, s, None, combiner="mean") for t, s in zip(tables, sparse, strict=True)], 1
    )
    wide = tf.add_n(
        [tf.nn.embedding_lookup_sparse(t, s, None, combiner="sum") for t, s in zip(slopes, sparse, strict=True)]
    )
    deep = list(tables)
    for i, units in enumerate((100, 50, 1)):
        deep.append(tf.get_variable(f"weights{i}", [hidden.shape[-1], units]))
        hidden = tf.matmul(hidden, deep[-1])
        if units > 1:
            deep.append(tf.get_variable(f"bias{i}", [units], initializer=tf.zeros_initializer()))
            hidden = tf.nn.relu(hidden + deep[-1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=hidden + wide))
    linear = tf.train.FtrlOptimizer(0.05, l1_regularization_strength=0.001).minimize(loss, var_list=slopes)
    step = tf.train.AdagradOptimizer(0.05).minimize(loss, var_list=deep)
    random = np.random.RandomState(0)
    at = np.stack([np.repeat(np.arange(BATCH), IDS), np.tile(np.arange(IDS), BATCH)], 1)
    batches = [
        {
            labels: random.randint(0, 2, (BATCH, 1)).astype(np.float32),
            **{place: at for place in places},
            **{each: random.randint(0, WORDS, BATCH * IDS) for each in ids},
        }
        for _ in range(40)
    ]
    return [loss, step, linear], lambda i: batches[i % len(batches)]
