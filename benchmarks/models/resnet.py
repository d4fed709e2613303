"""A small residual network on 32x32 images: batch norm with moving averages, projections, Momentum, weight decay."""

import numpy as np

BATCH = 32


def convolution(tf, x, name, features, window=3, stride=1):
    """A SAME convolution without bias."""
    w = tf.get_variable(name, [window, window, x.shape[-1], features])
    return tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME")


def batch_norm(tf, x, name, updates):
    """Normalisation by the batch's moments; ``updates`` collects those of the moving averages."""
    size = [x.shape[-1]]
    with tf.variable_scope(name):
        scale = tf.get_variable("scale", size, initializer=tf.ones_initializer())
        offset = tf.get_variable("offset", size, initializer=tf.zeros_initializer())
        mean = tf.get_variable("mean", size, initializer=tf.zeros_initializer(), trainable=False)
        variance = tf.get_variable("variance", size, initializer=tf.ones_initializer(), trainable=False)
        y, batch_mean, batch_variance = tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)
    updates.append(tf.assign_sub(mean, 0.1 * (mean - batch_mean)))
    updates.append(tf.assign_sub(variance, 0.1 * (variance - batch_variance)))
    return y


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    images = tf.placeholder(tf.float32, [None, 32, 32, 3])
    labels = tf.placeholder(tf.int32, [None])
    updates = []
    hidden = tf.nn.relu(batch_norm(tf, convolution(tf, images, "first", 32), "first_norm", updates))
    for stage, features in enumerate((32, 64, 128)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            with tf.variable_scope(f"stage{stage}_block{block}"):
                inner = convolution(tf, hidden, "a", features, stride=stride)
                inner = tf.nn.relu(batch_norm(tf, inner, "norm_a", updates))
                inner = batch_norm(tf, convolution(tf, inner, "b", features), "norm_b", updates)
                if stride > 1:
                    hidden = convolution(tf, hidden, "projection", features, 1, stride)
                hidden = tf.nn.relu(hidden + inner)
    pooled = tf.reduce_mean(hidden, [1, 2])
    logits = tf.matmul(pooled, tf.get_variable("dense", [128, 10])) + tf.get_variable(
        "bias", [10], initializer=tf.zeros_initializer()
    )
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    decay = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.shape.ndims > 1])
    with tf.control_dependencies(updates):
        step = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss + 1e-4 * decay)
    random = np.random.RandomState(0)
    batches = [
        {images: random.randn(BATCH, 32, 32, 3).astype(np.float32), labels: random.randint(0, 10, BATCH)}
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
