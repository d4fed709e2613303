"""A variational autoencoder of 784 pixels with fed noise, Adam."""

import numpy as np

BATCH, LATENT = 128, 20


def dense(tf, x, name, features):
    """A dense layer."""
    w = tf.get_variable(name, [x.shape[-1], features])
    return tf.matmul(x, w) + tf.get_variable(name + "_b", [features], initializer=tf.zeros_initializer())


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    images = tf.placeholder(tf.float32, [None, 784])
    noise = tf.placeholder(tf.float32, [None, LATENT])
    hidden = tf.nn.relu(dense(tf, images, "in", 500))
    mean, logarithm = dense(tf, hidden, "mean", LATENT), dense(tf, hidden, "log", LATENT)
    sample = mean + tf.exp(0.5 * logarithm) * noise
    logits = dense(tf, tf.nn.relu(dense(tf, sample, "out", 500)), "pixels", 784)
    likelihood = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits), axis=1)
    divergence = -0.5 * tf.reduce_sum(1 + logarithm - tf.square(mean) - tf.exp(logarithm), axis=1)
    loss = tf.reduce_mean(likelihood + divergence)
    step = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {images: random.rand(BATCH, 784).astype(np.float32), noise: random.randn(BATCH, LATENT).astype(np.float32)}
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
