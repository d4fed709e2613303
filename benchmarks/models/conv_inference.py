"""Five convolutions of 3x3 on 128x128 images, inference."""

import numpy as np

BATCH, SIZE = 4, 128


def build(tf):
    """The fetches of a call and a function of the call's number that gives its feeds."""
    images = tf.placeholder(tf.float32, [None, SIZE, SIZE, 3])
    hidden = images
    for i, (features, stride) in enumerate(((32, 1), (64, 2), (64, 1), (128, 2), (128, 1))):
        w = tf.get_variable(f"w{i}", [3, 3, hidden.shape[-1], features])
        b = tf.get_variable(f"b{i}", [features], initializer=tf.zeros_initializer())
        hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(hidden, w, [1, stride, stride, 1], "SAME"), b))
    random = np.random.RandomState(0)
    batches = [{images: random.standard_normal((BATCH, SIZE, SIZE, 3)).astype(np.float32)} for _ in range(2)]
    return [tf.reduce_mean(hidden, axis=[1, 2])], lambda i: batches[i % len(batches)]
