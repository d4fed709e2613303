"""Inference by a network of VGG's shape on one 112x112 image: ten 3x3 convolutions, four poolings, two dense layers."""

import numpy as np

SIZE = 112


def build(tf):
    """The fetch of a call, and a function of the call's number that gives its feeds."""
    images = tf.placeholder(tf.float32, [None, SIZE, SIZE, 3])
    hidden = images
    for block, (count, features) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512))):
        for i in range(count):
            w = tf.get_variable(f"w{block}_{i}", [3, 3, hidden.shape[-1], features])
            b = tf.get_variable(f"b{block}_{i}", [features], initializer=tf.zeros_initializer())
            hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(hidden, w, [1, 1, 1, 1], "SAME"), b))
        hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    hidden = tf.reshape(hidden, [-1, 7 * 7 * 512])
    hidden = tf.nn.relu(tf.matmul(hidden, tf.get_variable("dense", [7 * 7 * 512, 512])))
    output = tf.nn.softmax(tf.matmul(hidden, tf.get_variable("out", [512, 1000])))
    random = np.random.RandomState(0)
    batches = [{images: random.randn(1, SIZE, SIZE, 3).astype(np.float32)} for _ in range(4)]
    return [tf.reduce_max(output)], lambda i: batches[i % len(batches)]
