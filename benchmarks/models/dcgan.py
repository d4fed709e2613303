"""DCGAN on 28x28 images: a generator of transposed convolutions, a discriminator of strided ones, two Adams a step."""

import numpy as np

BATCH, NOISE = 32, 64


def leaky(tf, x):
    """Leaky ReLU by hand, as the programs of its time have it."""
    return tf.maximum(x, 0.2 * x)


def normalised(tf, x, name):
    """Batch norm by the batch's moments."""
    size = [x.shape[-1]]
    scale = tf.get_variable(name + "_scale", size, initializer=tf.ones_initializer())
    offset = tf.get_variable(name + "_offset", size, initializer=tf.zeros_initializer())
    return tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)[0]


def generator(tf, noise):
    """Images ``[batch, 28, 28, 1]`` of noise."""
    with tf.variable_scope("generator"):
        hidden = tf.reshape(tf.matmul(noise, tf.get_variable("dense", [NOISE, 7 * 7 * 128])), [BATCH, 7, 7, 128])
        hidden = tf.nn.relu(normalised(tf, hidden, "norm0"))
        w = tf.get_variable("w1", [5, 5, 64, 128])
        hidden = tf.nn.conv2d_transpose(hidden, w, [BATCH, 14, 14, 64], [1, 2, 2, 1], "SAME")
        hidden = tf.nn.relu(normalised(tf, hidden, "norm1"))
        w = tf.get_variable("w2", [5, 5, 1, 64])
        return tf.tanh(tf.nn.conv2d_transpose(hidden, w, [BATCH, 28, 28, 1], [1, 2, 2, 1], "SAME"))


def discriminator(tf, images):
    """A logit for each image."""
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        hidden = leaky(tf, tf.nn.conv2d(images, tf.get_variable("w1", [5, 5, 1, 64]), [1, 2, 2, 1], "SAME"))
        hidden = tf.nn.conv2d(hidden, tf.get_variable("w2", [5, 5, 64, 128]), [1, 2, 2, 1], "SAME")
        hidden = leaky(tf, normalised(tf, hidden, "norm"))
        return tf.matmul(tf.reshape(hidden, [BATCH, 7 * 7 * 128]), tf.get_variable("dense", [7 * 7 * 128, 1]))


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    real = tf.placeholder(tf.float32, [BATCH, 28, 28, 1])
    noise = tf.placeholder(tf.float32, [BATCH, NOISE])
    fake = generator(tf, noise)
    of_real, of_fake = discriminator(tf, real), discriminator(tf, fake)

    def mean_loss(logits, label):
        labels = label * tf.ones_like(logits)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    loss = mean_loss(of_real, 0.9) + mean_loss(of_fake, 0.0)
    generator_loss = mean_loss(of_fake, 1.0)
    parts = [[v for v in tf.trainable_variables() if v.name.startswith(s)] for s in ("discriminator", "generator")]
    steps = [
        tf.train.AdamOptimizer(2e-4, 0.5).minimize(goal, var_list=part)
        for goal, part in zip((loss, generator_loss), parts, strict=True)
    ]
    random = np.random.RandomState(0)
    batches = [
        {
            real: np.tanh(random.randn(BATCH, 28, 28, 1)).astype(np.float32),
            noise: random.randn(BATCH, NOISE).astype(np.float32),
        }
        for _ in range(4)
    ]
    return [loss, generator_loss, *steps], lambda i: batches[i % len(batches)]
