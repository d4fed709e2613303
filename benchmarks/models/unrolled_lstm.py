"""LSTM cells of 128 written out for 100 steps of time, Adam."""

import numpy as np

BATCH, TIME, FEATURES, WIDTH, CLASSES = 32, 100, 64, 128, 10


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    sequences = tf.placeholder(tf.float32, [BATCH, TIME, FEATURES])
    labels = tf.placeholder(tf.int32, [BATCH])
    w = tf.get_variable("w", [FEATURES + WIDTH, 4 * WIDTH])
    b = tf.get_variable("b", [4 * WIDTH], initializer=tf.zeros_initializer())
    state = hidden = tf.zeros([BATCH, WIDTH])
    for t in range(TIME):
        gates = tf.matmul(tf.concat([sequences[:, t], hidden], 1), w) + b
        entry, new, forget, out = tf.split(gates, 4, 1)
        state = state * tf.sigmoid(forget + 1.0) + tf.sigmoid(entry) * tf.tanh(new)
        hidden = tf.tanh(state) * tf.sigmoid(out)
    logits = tf.matmul(hidden, tf.get_variable("out", [WIDTH, CLASSES]))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    step = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {
            sequences: random.standard_normal((BATCH, TIME, FEATURES)).astype(np.float32),
            labels: random.randint(0, CLASSES, BATCH),
        }
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
