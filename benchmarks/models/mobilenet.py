"""Blocks of MobileNet on 64x64 images: depthwise 3x3 and pointwise convolutions, each with batch norm and ReLU6."""

import numpy as np

BATCH = 16


def normalised(tf, x, name):
    """Batch norm and ReLU6."""
    size = [x.shape[-1]]
    scale = tf.get_variable(name + "_scale", size, initializer=tf.ones_initializer())
    offset = tf.get_variable(name + "_offset", size, initializer=tf.zeros_initializer())
    return tf.nn.relu6(tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)[0])


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    images = tf.placeholder(tf.float32, [None, 64, 64, 3])
    labels = tf.placeholder(tf.int32, [None])
    w = tf.get_variable("first", [3, 3, 3, 32])
    hidden = normalised(tf, tf.nn.conv2d(images, w, [1, 2, 2, 1], "SAME"), "first")
    for i, (features, stride) in enumerate(((64, 1), (128, 2), (128, 1), (256, 2), (256, 1))):
        depth = tf.get_variable(f"depth{i}", [3, 3, hidden.shape[-1], 1])
        hidden = tf.nn.depthwise_conv2d(hidden, depth, [1, stride, stride, 1], "SAME")
        hidden = normalised(tf, hidden, f"depth{i}")
        point = tf.get_variable(f"point{i}", [1, 1, hidden.shape[-1], features])
        hidden = normalised(tf, tf.nn.conv2d(hidden, point, [1, 1, 1, 1], "SAME"), f"point{i}")
    pooled = tf.reduce_mean(hidden, [1, 2])
    logits = tf.matmul(pooled, tf.get_variable("dense", [256, 100]))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.RMSPropOptimizer(1e-3, momentum=0.9, epsilon=1.0).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {images: random.randn(BATCH, 64, 64, 3).astype(np.float32), labels: random.randint(0, 100, BATCH)}
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
