"""GloVe: pairs of words with weights, two embeddings of 20,000 words with biases, Adagrad."""

import numpy as np

BATCH, WORDS, WIDTH = 512, 20_000, 100


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    focal, context = tf.placeholder(tf.int32, [BATCH]), tf.placeholder(tf.int32, [BATCH])
    count = tf.placeholder(tf.float32, [BATCH])
    most, power = tf.constant(100.0), tf.constant(0.75)
    tables = [tf.Variable(tf.random_uniform([WORDS, WIDTH], 1.0, -1.0), name=f"e{i}") for i in range(2)]
    biases = [tf.Variable(tf.zeros([WORDS]), name=f"b{i}") for i in range(2)]
    a, b = tf.nn.embedding_lookup([tables[0]], focal), tf.nn.embedding_lookup([tables[1]], context)
    c, d = tf.nn.embedding_lookup([biases[0]], focal), tf.nn.embedding_lookup([biases[1]], context)
    weight = tf.minimum(1.0, tf.pow(tf.math.divide(count, most), power))
    product = tf.reduce_sum(tf.multiply(a, b), 1)
    distance = tf.square(tf.add_n([product, c, d, tf.negative(tf.math.log(tf.to_float(count)))]))
    loss = tf.reduce_sum(tf.multiply(weight, distance))
    step = tf.train.AdagradOptimizer(0.05).minimize(loss)
    random = np.random.RandomState(0)
    batches = [
        {
            focal: random.randint(0, WORDS, BATCH),
            context: random.randint(0, WORDS, BATCH),
            count: random.randint(1, 300, BATCH).astype(np.float32),
        }
        for _ in range(4)
    ]
    return [loss, step], lambda i: batches[i % len(batches)]
