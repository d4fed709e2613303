"""DeepFM: 20 fields of 200,000 values, factors of 16, two dense layers, Adam."""

import numpy as np

VALUES, FIELDS, FACTORS, BATCH = 200_000, 20, 16, 256


def dense(tf, x, features, name):
    """``x W + b``."""
    w = tf.get_variable(name, [x.shape[-1], features])
    return tf.matmul(x, w) + tf.get_variable(name + "_b", [features], initializer=tf.zeros_initializer())


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    fields = tf.placeholder(tf.int32, [None, FIELDS])
    clicked = tf.placeholder(tf.float32, [None])
    rows = tf.nn.embedding_lookup(tf.get_variable("factors", [VALUES, FACTORS]), fields)
    first = tf.reduce_sum(tf.nn.embedding_lookup(tf.get_variable("weights", [VALUES, 1]), fields), axis=[1, 2])
    total = tf.reduce_sum(rows, axis=1)
    second = 0.5 * tf.reduce_sum(tf.square(total) - tf.reduce_sum(tf.square(rows), axis=1), axis=1)
    hidden = tf.reshape(rows, [-1, FIELDS * FACTORS])
    for name, features in (("first", 256), ("second", 128)):
        hidden = tf.nn.relu(dense(tf, hidden, features, name))
    logits = first + second + dense(tf, hidden, 1, "out")[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=clicked))
    step = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {fields: random.randint(0, VALUES, (BATCH, FIELDS)), clicked: random.randint(0, 2, BATCH)} for _ in range(8)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
