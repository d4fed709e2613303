"""The cases as TensorFlow 1.x programs: Anabranch and TensorFlow run this very text, each as its own ``tf``.

The peer that imports this module has put its ``tf`` and its ``hot`` (how a run becomes a step) into ``peers.system``.
"""

import numpy as np

from peers import shapes
from peers.system import chosen

tf, hot, cells = chosen()


def session_of(graph):
    session = tf.Session(graph=graph)
    session.run(tf.global_variables_initializer())
    return session


def matmul_small():
    x, weights = shapes.small()
    with tf.Graph().as_default() as graph:
        feed = tf.placeholder(tf.float32, [1, 16])
        w = tf.Variable(weights[0])
        return hot(session_of(graph), tf.matmul(feed, w), {feed: x})


def train_small():
    x, weights = shapes.small()
    with tf.Graph().as_default() as graph:
        feed = tf.placeholder(tf.float32, [1, 16])
        loss = tf.add_n([tf.reduce_sum(tf.square(tf.matmul(feed, tf.Variable(w)))) for w in weights])
        step = tf.train.GradientDescentOptimizer(1e-6).minimize(loss)
        return hot(session_of(graph), step, {feed: x})


def cross_entropy(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))


def mlp(*sizes):
    x, y, weights = shapes.mlp(*sizes)
    with tf.Graph().as_default() as graph:
        images, labels = tf.placeholder(tf.float32, x.shape), tf.placeholder(tf.int64, y.shape)
        hidden = images
        for i, w in enumerate(weights):
            hidden = tf.matmul(hidden, tf.Variable(w)) + tf.Variable(tf.zeros([w.shape[1]]))
            if i < 2:
                hidden = tf.nn.relu(hidden)
        loss = cross_entropy(hidden, labels)
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        return hot(session_of(graph), [loss, step], {images: x, labels: y})


def conv6(*sizes):
    x, y, weights = shapes.conv6(*sizes)
    with tf.Graph().as_default() as graph:
        images, labels = tf.placeholder(tf.float32, x.shape), tf.placeholder(tf.int64, y.shape)
        hidden = images
        for i, w in enumerate(weights[:-1]):
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, tf.Variable(w), [1, 1, 1, 1], "SAME"))
            if i in shapes.POOLED:
                hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        logits = tf.matmul(tf.reshape(hidden, [len(x), -1]), tf.Variable(weights[-1]))
        loss = cross_entropy(logits, labels)
        step = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
        return hot(session_of(graph), [loss, step], {images: x, labels: y})


def digits():
    x, y, weights = shapes.digits()
    with tf.Graph().as_default() as graph:
        images, labels = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int64, [None])
        hidden = images
        for w in weights[:2]:
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, tf.Variable(w), [1, 1, 1, 1], "SAME"))
            hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, 256]), tf.Variable(weights[2])))
        loss = cross_entropy(tf.matmul(hidden, tf.Variable(weights[3])), labels)
        step = tf.train.AdamOptimizer(1e-4).minimize(loss)
        return hot(session_of(graph), [loss, step], {images: x, labels: y})


def embedding(rows=shapes.ROWS, checked=True):
    with tf.Graph().as_default() as graph:
        table = tf.Variable(tf.zeros([rows, shapes.WIDTH]))
        ids = tf.placeholder(tf.int32, [shapes.BATCH])
        loss = tf.reduce_sum(tf.square(tf.gather(table, ids) - 1.0))
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        feed = {ids: np.random.RandomState(0).randint(0, rows, shapes.BATCH).astype(np.int32)}
        return hot(session_of(graph), step, feed)


def language_model():
    words, following, weights = shapes.language_model()
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.int32, words.shape), tf.placeholder(tf.int32, words.shape)
        table, kernel, _, out, out_bias = weights
        rows = tf.nn.embedding_lookup(tf.Variable(table), x)
        with tf.variable_scope("lstm", initializer=tf.constant_initializer(kernel)):  # biases begin with zeros
            hidden, _ = tf.nn.dynamic_rnn(cells.BasicLSTMCell(shapes.HIDDEN), rows, dtype=tf.float32)
        logits = tf.matmul(tf.reshape(hidden, [-1, shapes.HIDDEN]), tf.Variable(out)) + tf.Variable(out_bias)
        loss = cross_entropy(logits, tf.reshape(y, [-1]))
        step = tf.train.GradientDescentOptimizer(shapes.LM_RATE).minimize(loss)
        return hot(session_of(graph), [loss, step], {x: words, y: following})


def assert_step(checked=True):
    with tf.Graph().as_default() as graph:
        variables = [tf.Variable(tf.zeros([1250, 1000])) for _ in range(20)]
        x = tf.placeholder(tf.float32, [1000])
        check = [tf.Assert(tf.reduce_all(x > 0), [x])] if checked else []
        with tf.control_dependencies(check):
            step = tf.group(*[v.assign_sub(v * 0.01 + x) for v in variables])
        return hot(session_of(graph), step, {x: np.ones(1000, np.float32)})


CASES = {
    "matmul_small": matmul_small,
    "train_small": train_small,
    "mlp": mlp,
    "conv6": conv6,
    "mlp_wide": lambda: mlp(*shapes.WIDE_MLP),
    "conv6_wide": lambda: conv6(*shapes.WIDE_CONV),
    "digits": digits,
    "language_model": language_model,
    "language_model_plain": language_model,
    "embedding": embedding,
    "embedding_small": lambda: embedding(10_000),
    "assert_step": assert_step,
    "plain_step": lambda: assert_step(False),
}
