"""k-means in a graph: distances of 5,000 points of 32 dimensions to 20 centres, means by unsorted segments."""

import numpy as np

POINTS, WIDTH, CENTRES = 5000, 32, 20


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    random = np.random.RandomState(0)
    points = tf.placeholder(tf.float32, [None, WIDTH])
    centres = tf.Variable(random.randn(CENTRES, WIDTH).astype(np.float32), trainable=False)
    distances = tf.reduce_sum(tf.square(tf.expand_dims(points, 1) - tf.expand_dims(centres, 0)), 2)
    nearest = tf.argmin(distances, 1)
    sums = tf.unsorted_segment_sum(points, nearest, CENTRES)
    counts = tf.unsorted_segment_sum(tf.ones_like(points[:, :1]), nearest, CENTRES)
    loss = tf.reduce_mean(tf.reduce_min(distances, 1))
    step = tf.assign(centres, tf.where(tf.tile(counts > 0, [1, WIDTH]), sums / tf.maximum(counts, 1.0), centres))
    feeds = {points: random.randn(POINTS, WIDTH).astype(np.float32)}
    return [loss, step], lambda i: feeds
