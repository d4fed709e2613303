"""A WaveNet-like stack on sequences of 1,024: gated causal convolutions with dilations 1 to 32, skips, Adam."""

import numpy as np

BATCH, LENGTH, CHANNELS, LEVELS = 4, 1024, 32, 64


def causal(tf, x, name, features, dilation):
    """A convolution of windows of two that sees the present and what is ``dilation`` before."""
    w = tf.get_variable(name, [1, 2, x.shape[-1], features])
    padded = tf.pad(x, [[0, 0], [0, 0], [dilation, 0], [0, 0]])
    return tf.nn.conv2d(padded, w, [1, 1, 1, 1], "VALID", dilations=[1, 1, dilation, 1])


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    waves = tf.placeholder(tf.int32, [BATCH, LENGTH + 1])
    inputs = tf.one_hot(waves[:, :-1], LEVELS)[:, None]
    hidden = causal(tf, inputs, "first", CHANNELS, 1)
    skips = []
    for i, dilation in enumerate((1, 2, 4, 8, 16, 32)):
        gate = tf.sigmoid(causal(tf, hidden, f"gate{i}", CHANNELS, dilation))
        signal = tf.tanh(causal(tf, hidden, f"signal{i}", CHANNELS, dilation)) * gate
        w = tf.get_variable(f"out{i}", [1, 1, CHANNELS, CHANNELS])
        out = tf.nn.conv2d(signal, w, [1, 1, 1, 1], "VALID")
        skips.append(out)
        hidden = hidden + out
    joined = tf.nn.relu(tf.add_n(skips))
    logits = tf.nn.conv2d(joined, tf.get_variable("last", [1, 1, CHANNELS, LEVELS]), [1, 1, 1, 1], "VALID")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=waves[:, 1:], logits=tf.squeeze(logits, [1]))
    )
    step = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    batches = [{waves: random.randint(0, LEVELS, (BATCH, LENGTH + 1))} for _ in range(4)]
    return [loss, step], lambda i: batches[i % len(batches)]
