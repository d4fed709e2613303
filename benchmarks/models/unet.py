"""A U-Net for two classes on 64x64 images: max pooling down, bilinear upsampling and skips up, Adam."""

import numpy as np

BATCH = 8


def twice(tf, x, name, features):
    """Two 3x3 convolutions with bias and ReLU."""
    for part in "ab":
        w = tf.get_variable(f"{name}{part}", [3, 3, x.shape[-1], features])
        b = tf.get_variable(f"{name}{part}_b", [features], initializer=tf.zeros_initializer())
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
    return x


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    images = tf.placeholder(tf.float32, [BATCH, 64, 64, 3])
    labels = tf.placeholder(tf.int32, [BATCH, 64, 64])
    hidden, skips = images, []
    for i, features in enumerate((16, 32, 64)):
        hidden = twice(tf, hidden, f"down{i}", features)
        skips.append(hidden)
        hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    hidden = twice(tf, hidden, "middle", 128)
    for i, skip in reversed(list(enumerate(skips))):
        size = skip.shape.as_list()[1:3]
        hidden = tf.concat([tf.image.resize_bilinear(hidden, size), skip], axis=3)
        hidden = twice(tf, hidden, f"up{i}", skip.shape.as_list()[-1])
    logits = tf.nn.conv2d(hidden, tf.get_variable("last", [1, 1, 16, 2]), [1, 1, 1, 1], "SAME")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.AdamOptimizer(1e-4).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {images: random.randn(BATCH, 64, 64, 3).astype(np.float32), labels: random.randint(0, 2, (BATCH, 64, 64))}
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
