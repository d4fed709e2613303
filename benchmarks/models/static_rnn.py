"""LSTM cells written out for 20 steps, in conditionals for sequences of their own lengths, as `static_rnn` does."""

import numpy as np

BATCH, TIME, FEATURES, WIDTH, CLASSES = 64, 20, 32, 100, 10


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    sequences = tf.placeholder(tf.float32, [None, TIME, FEATURES])
    lengths, labels = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    w = tf.get_variable("w", [FEATURES + WIDTH, 4 * WIDTH])
    b = tf.get_variable("b", [4 * WIDTH], initializer=tf.zeros_initializer())
    state = hidden = tf.zeros(tf.stack([tf.shape(sequences)[0], WIDTH]))
    shortest, longest = tf.reduce_min(lengths), tf.reduce_max(lengths)

    def step_of(t, x, state, hidden):
        def cell():
            entry, new, forget, out = tf.split(tf.matmul(tf.concat([x, hidden], 1), w) + b, 4, 1)
            after = state * tf.sigmoid(forget + 1.0) + tf.sigmoid(entry) * tf.tanh(new)
            return after, tf.tanh(after) * tf.sigmoid(out)

        def where_not_ended():
            after, shown = cell()
            ended = t >= lengths
            return tf.where(ended, state, after), tf.where(ended, hidden, shown)

        def unless_all_ended():
            return tf.cond(t >= longest, lambda: (tf.identity(state), tf.identity(hidden)), where_not_ended)

        return where_not_ended() if t == 0 else tf.cond(t < shortest, cell, unless_all_ended)

    for t, x in enumerate(tf.unstack(sequences, axis=1)):
        state.set_shape([None, WIDTH])
        hidden.set_shape([None, WIDTH])
        state, hidden = step_of(t, x, state, hidden)
    logits = tf.matmul(hidden, tf.get_variable("out", [WIDTH, CLASSES]))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    step = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {
            sequences: random.standard_normal((BATCH, TIME, FEATURES)).astype(np.float32),
            lengths: random.randint(5, TIME + 1, BATCH),
            labels: random.randint(0, CLASSES, BATCH),
        }
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
