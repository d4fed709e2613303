"""Twenty small networks in a row, as solvers of backward stochastic differential equations unroll them, Adam."""

import numpy as np

BATCH, SIZE, STEPS, WIDTH = 64, 10, 20, 20


def slope(tf, x, name):
    """The gradient of the solution at a time: two hidden layers."""
    with tf.variable_scope(name):
        for i, features in enumerate((WIDTH, WIDTH, SIZE)):
            x = tf.matmul(x, tf.get_variable(f"w{i}", [x.shape[-1], features]))
            x = x + tf.get_variable(f"b{i}", [features], initializer=tf.zeros_initializer())
            if i < 2:
                x = tf.nn.relu(x)
    return x


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    noise = tf.placeholder(tf.float32, [None, SIZE, STEPS])
    value = tf.get_variable("start", [1], initializer=tf.ones_initializer()) * tf.ones([BATCH, 1])
    x = tf.zeros([BATCH, SIZE])
    for time in range(STEPS):
        gradient = slope(tf, x, f"time{time}") / SIZE
        change = noise[:, :, time]
        value = value + 0.05 * tf.reduce_sum(tf.square(gradient), 1, keepdims=True)
        value = value + tf.reduce_sum(gradient * change, 1, keepdims=True)
        x = x + change
    wanted = tf.math.log(0.5 * (1 + tf.reduce_sum(tf.square(x), 1, keepdims=True)))
    loss = tf.reduce_mean(tf.square(value - wanted))
    step = tf.train.AdamOptimizer(1e-2).minimize(loss)
    random = np.random.RandomState(0)
    batches = [{noise: random.randn(BATCH, SIZE, STEPS).astype(np.float32) * 0.2} for _ in range(4)]
    return [loss, step], lambda i: batches[i % len(batches)]
