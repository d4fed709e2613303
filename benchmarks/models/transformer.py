"""A transformer encoder of four layers on 16 sequences of 64 words; gradients clipped by their norm, Adam."""

import numpy as np

BATCH, TIME, WIDTH, HEADS, WORDS, LAYERS = 16, 64, 256, 4, 8000, 4


def dense(tf, x, features, name):
    """``x W + b`` of ``[batch * time, features]``."""
    w = tf.get_variable(name, [x.shape[-1], features])
    return tf.matmul(x, w) + tf.get_variable(name + "_b", [features], initializer=tf.zeros_initializer())


def normalized(tf, x, name):
    """Layer normalisation over the last axis."""
    scale = tf.get_variable(name + "_scale", [WIDTH], initializer=tf.ones_initializer())
    shift = tf.get_variable(name + "_shift", [WIDTH], initializer=tf.zeros_initializer())
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * tf.rsqrt(variance + 1e-6) * scale + shift


def attention(tf, x):
    """Self-attention of ``[batch * time, width]`` in several heads."""
    size = WIDTH // HEADS
    query, key, value = (
        tf.transpose(tf.reshape(dense(tf, x, WIDTH, name), [BATCH, TIME, HEADS, size]), [0, 2, 1, 3])
        for name in ("query", "key", "value")
    )
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / np.float32(np.sqrt(size)))
    mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
    return dense(tf, tf.reshape(mixed, [BATCH * TIME, WIDTH]), WIDTH, "mixed")


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    words, answers = tf.placeholder(tf.int32, [BATCH, TIME]), tf.placeholder(tf.int32, [BATCH, TIME])
    table = tf.get_variable("table", [WORDS, WIDTH])
    hidden = tf.nn.embedding_lookup(table, words) + tf.get_variable("positions", [TIME, WIDTH])
    hidden = tf.reshape(hidden, [BATCH * TIME, WIDTH])
    for layer in range(LAYERS):
        with tf.variable_scope(f"layer{layer}"):
            hidden = normalized(tf, hidden + attention(tf, hidden), "first")
            wide = tf.nn.relu(dense(tf, hidden, 4 * WIDTH, "wide"))
            hidden = normalized(tf, hidden + dense(tf, wide, WIDTH, "narrow"), "second")
    logits = tf.matmul(hidden, table, transpose_b=True)
    labels = tf.reshape(answers, [-1])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels))
    optimizer = tf.train.AdamOptimizer(1e-4)
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    step = optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 1.0)[0], variables, strict=True))
    random = np.random.RandomState(0)
    batches = [{key: random.randint(0, WORDS, (BATCH, TIME)) for key in (words, answers)} for _ in range(4)]
    return [loss, step], lambda i: batches[i % len(batches)]
