"""A classifier of 24x24x24 volumes: three 3-D convolutions with max pooling, Adam."""

import numpy as np

BATCH, SIZE = 4, 24


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    volumes = tf.placeholder(tf.float32, [BATCH, SIZE, SIZE, SIZE, 1])
    labels = tf.placeholder(tf.int32, [BATCH])
    hidden = volumes
    for i, features in enumerate((16, 32, 32)):
        w = tf.get_variable(f"w{i}", [3, 3, 3, hidden.shape[-1], features])
        b = tf.get_variable(f"b{i}", [features], initializer=tf.zeros_initializer())
        hidden = tf.nn.relu(tf.nn.conv3d(hidden, w, [1] * 5, "SAME") + b)
        hidden = tf.nn.max_pool3d(hidden, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "SAME")
    flat = tf.reshape(hidden, [BATCH, 3 * 3 * 3 * 32])
    logits = tf.matmul(flat, tf.get_variable("dense", [3 * 3 * 3 * 32, 10]))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {volumes: random.randn(BATCH, SIZE, SIZE, SIZE, 1).astype(np.float32), labels: random.randint(0, 10, BATCH)}
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
