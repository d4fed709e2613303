"""Two graph attention layers on a citation graph's size: 2,708 nodes, 13,264 edges as a sparse matrix, Adam."""

import numpy as np

NODES, EDGES, FEATURES, CLASSES = 2708, 13264, 256, 7


def layer(tf, x, edges, name, features, heads):
    """Attention heads, side by side."""
    outputs = []
    for i in range(heads):
        with tf.variable_scope(f"{name}{i}"):
            mapped = tf.matmul(x, tf.get_variable("w", [x.shape[-1], features]))
            left = tf.matmul(mapped, tf.get_variable("left", [features, 1]))
            right = tf.matmul(mapped, tf.get_variable("right", [features, 1]))
            scores = tf.sparse_add(edges * left, edges * tf.transpose(right))
            slopes = tf.SparseTensor(scores.indices, tf.nn.leaky_relu(scores.values), scores.dense_shape)
            outputs.append(tf.sparse_tensor_dense_matmul(tf.sparse_softmax(slopes), mapped))
    return tf.concat(outputs, axis=1)


def build(tf):
    """The fetches of a step, the loss first, and a function of the step's number that gives its feeds."""
    random = np.random.RandomState(0)
    flat = np.sort(random.choice(NODES * NODES, EDGES, replace=False))
    places = np.stack([flat // NODES, flat % NODES], axis=1).astype(np.int64)
    edges = tf.sparse_placeholder(tf.float32)
    matrix = tf.SparseTensor(edges.indices, edges.values, tf.constant([NODES, NODES], tf.int64))
    x = tf.placeholder(tf.float32, [NODES, FEATURES])
    labels = tf.placeholder(tf.int32, [NODES])
    hidden = tf.nn.elu(layer(tf, x, matrix, "first", 8, 4))
    logits = layer(tf, hidden, matrix, "second", CLASSES, 1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.AdamOptimizer(5e-3).minimize(loss)
    values = (places, np.ones(EDGES, np.float32), np.array([NODES, NODES], np.int64))
    feeds = {
        edges: values,
        x: random.randn(NODES, FEATURES).astype(np.float32),
        labels: random.randint(0, CLASSES, NODES),
    }
    return [loss, step], lambda i: feeds
