"""Seeds that random ops of a seeded graph get behind, and in, functions that build other ops than TensorFlow's.

The numbers are TensorFlow 1.15.5's: default seeds count operations.
"""

from __future__ import annotations

import pytest

import anabranch as tf

slim, layers = tf.contrib.slim, tf.layers


def x(*sizes):
    return tf.placeholder(tf.float32, list(sizes))


def ints(*sizes):
    return tf.placeholder(tf.int32, list(sizes))


def flag():
    return tf.placeholder(tf.bool, [])


def image():
    return x(2, 4, 4, 3)


def branches(both):
    a, b = x(2), x(2)
    return (
        tf.cond(flag(), lambda: [a + b, a], lambda: [a - 1, b]) if both else tf.cond(flag(), lambda: a, lambda: b + 1)
    )


CASES = {
    "dropout": (lambda: tf.nn.dropout(x(2, 3), 0.5), [5], 17),
    "dropout of any size": (lambda: tf.nn.dropout(x(None, 3), 0.5), [5], 17),
    "dropout, probability fed": (lambda: tf.nn.dropout(x(2, 3), x()), [7], 19),
    "dropout, rate fed": (lambda: tf.nn.dropout(x(2, 3), rate=x()), [5], 17),
    "dropout of noise": (lambda: tf.nn.dropout(x(2, 3), 0.5, noise_shape=[2, 1]), [5], 17),
    "no dropout": (lambda: tf.nn.dropout(x(2, 3), 1.0), [], 1),
    "layers.dropout": (lambda: layers.dropout(x(2, 3), training=True), [5], 17),
    "layers.dropout, fed": (lambda: layers.dropout(x(2, 3), training=flag()), [10], 26),
    "layers.dropout of any size, fed": (lambda: layers.dropout(x(None, 3), training=flag()), [11], 26),
    "cond": (lambda: branches(True), [], 16),
    "cond, tensors from outside": (lambda: branches(False), [], 12),
    "conv2d": (lambda: layers.conv2d(image(), 4, 3), [4], 18),
    "conv1d": (lambda: layers.conv1d(x(2, 8, 3), 4, 3), [4], 23),
    "separable_conv2d": (lambda: layers.separable_conv2d(image(), 4, 3), [4, 14], 30),
    "conv2d_transpose": (lambda: layers.conv2d_transpose(x(None, 8, 8, 3), 4, 3, 2, "same"), [4], 40),
    "conv2d_transpose, valid": (lambda: layers.conv2d_transpose(x(2, 8, 8, 3), 4, 3, 2, use_bias=False), [4], 39),
    "conv3d_transpose": (lambda: layers.conv3d_transpose(x(2, 4, 4, 4, 3), 4, 3, 2), [4], 48),
    "dense of three axes": (lambda: layers.dense(x(2, 5, 3), 4), [4], 27),
    "dense of any size": (lambda: layers.dense(x(None, 5, 3), 4), [4], 41),
    "flatten": (lambda: layers.flatten(x(2, 8, 3)), [], 3),
    "flatten of any size": (lambda: slim.flatten(x(None, 8, 3)), [], 9),
    "batch norm": (lambda: layers.batch_normalization(image(), training=True), [], 31),
    "batch norm, averages": (lambda: layers.batch_normalization(image()), [], 19),
    "batch norm, fed": (lambda: layers.batch_normalization(image(), training=flag()), [], 54),
    "batch norm of rows": (lambda: layers.batch_normalization(x(2, 3), training=True), [], 41),
    "batch norm of rows, fed": (lambda: layers.batch_normalization(x(2, 3), training=flag()), [], 74),
    "slim batch norm": (lambda: slim.batch_norm(image()), [], 28),
    "slim batch norm, scaled": (lambda: slim.batch_norm(image(), scale=True), [], 31),
    "slim batch norm at once": (lambda: slim.batch_norm(image(), updates_collections=None), [], 26),
    "slim batch norm at once, fed": (
        lambda: slim.batch_norm(image(), is_training=flag(), updates_collections=None),
        [],
        56,
    ),
    "slim batch norm of rows": (lambda: slim.batch_norm(x(2, 3)), [], 29),
    "slim batch norm of rows, fed": (lambda: slim.batch_norm(x(2, 3), is_training=flag()), [], 60),
    "slim batch norm, another collection": (lambda: slim.batch_norm(image(), updates_collections="mine"), [], 25),
    "softmax": (lambda: tf.nn.softmax_cross_entropy_with_logits_v2(labels=x(None, 3), logits=x(None, 3)), [], 33),
    "sparse softmax": (
        lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ints(None), logits=x(None, 3)),
        [],
        4,
    ),
    "sparse softmax of three axes": (
        lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ints(2, 5), logits=x(2, 5, 3)),
        [],
        20,
    ),
    "mean squared error": (lambda: tf.losses.mean_squared_error(x(None, 3), x(None, 3)), [], 34),
    "mean squared error, weights": (lambda: tf.losses.mean_squared_error(x(2, 3), x(2, 3), x(2, 1)), [], 33),
    "hinge loss": (lambda: tf.losses.hinge_loss(x(2, 3), x(2, 3)), [], 42),
    "softmax loss": (lambda: tf.losses.softmax_cross_entropy(x(None, 3), x(None, 3)), [], 65),
    "sparse softmax loss": (lambda: tf.losses.sparse_softmax_cross_entropy(ints(None), x(None, 3)), [], 34),
    "split": (lambda: tf.split(x(2, 4), 2, 1), [], 4),
    "ones_like": (lambda: tf.ones_like(x(None, 3)), [], 4),
    "flip": (lambda: tf.image.random_flip_left_right(x(4, 4, 3)), [5], 20),
    "contrast": (lambda: tf.image.random_contrast(x(4, 4, 3), 0.2, 0.8), [4], 10),
    "standardization": (lambda: tf.image.per_image_standardization(x(4, 4, 3)), [], 24),
    "state of zeros": (lambda: tf.nn.rnn_cell.BasicLSTMCell(4).zero_state(2, tf.float32), [], 16),
    "state of any size": (lambda: tf.nn.rnn_cell.BasicLSTMCell(4).zero_state(ints(), tf.float32), [], 21),
}


@pytest.mark.parametrize("name", CASES)
def test_default_seeds_are_those_of_tensorflow(name):
    call, inside, behind = CASES[name]
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        call()
        assert [op.get_attr("seed2") for op in graph.get_operations() if "seed2" in op.node_def.attr] == inside
        assert tf.get_seed(None) == (1, behind)


IN_FUNCTIONS = {
    "cond": (lambda x, p, k: tf.cond(p, lambda: x, lambda: x * 2), 2),
    "cond with two results": (lambda x, p, k: tf.cond(p, lambda: (x, x + 1), lambda: (x * 2, x)), 3),
    "case": (lambda x, p, k: tf.case([(p, lambda: x)], default=lambda: x * 2), 2),
    "while": (lambda x, p, k: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]), 7),
    "while with captures": (lambda x, p, k: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + x), [0, x]), 9),
    "flip": (lambda x, p, k: tf.image.random_flip_left_right(x), 12),
    "turn": (lambda x, p, k: tf.image.rot90(x, k), 20),
    "turn once": (lambda x, p, k: tf.image.rot90(x, 1), 21),
    "decode": (lambda x, p, k: tf.image.decode_image(tf.as_string(k)), 11),
}


@pytest.mark.parametrize("name", IN_FUNCTIONS)
def test_default_seeds_in_functions_of_datasets(name):
    call, number = IN_FUNCTIONS[name]
    counted = []

    def function(x, p, k):
        before = tf.get_seed(None)[1]
        call(x, p, k)
        counted.append(tf.get_seed(None)[1] - before)
        return k

    with tf.Graph().as_default():
        tf.set_random_seed(1)
        given = tf.data.Dataset.from_tensors(
            (tf.zeros([8, 8, 3]), tf.constant(True), tf.constant(1)),
        )
        given.map(function)
    assert counted == [number]


def u():
    return tf.random_uniform([])


def once(body, *more, condition=lambda k, *_: k < 1, **options):
    return tf.while_loop(condition, lambda k, *rest: (k + 1, *body(*rest)), [0, 0.0, *more], **options)


DRAWN_INSIDE = {
    "cond": (lambda i: tf.cond(i > 0, u, lambda: u() + 1), [3, 3], 5),
    "a draw behind": (lambda i: (tf.cond(i > 0, u, u), u()), [3, 3, 8], 12),
    "cond with a capture": (lambda i: tf.cond(i > 0, lambda: tf.cast(i, tf.float32) + u(), lambda: 0.0), [5], 5),
    "cond in a cond": (lambda i: tf.cond(i > 0, lambda: tf.cond(i > 1, u, u), lambda: 1.0), [3, 3], 5),
    "case": (lambda i: tf.case([(i > 0, u)], default=u), [3, 3], 5),
    "while": (lambda i: once(lambda a: [u()]), [9], 10),
    "while of three": (lambda i: once(lambda a, b: [u(), b], 1.0), [10], 12),
    "while with a limit": (lambda i: once(lambda a: [u()], maximum_iterations=3), [9], 10),
    "while with a capture": (lambda i: once(lambda a: [tf.cast(i, tf.float32) + u()]), [11], 11),
    "while whose condition captures": (
        lambda i: once(lambda a: [u()], condition=lambda k, a: k <= tf.cast(i, tf.int32)),
        [10],
        11,
    ),
    "while whose condition draws": (lambda i: once(lambda a: [u()], condition=lambda k, a: u() < 0), [7, 9], 10),
    "map_fn": (lambda i: tf.map_fn(lambda j: u(), tf.range(1), dtype=tf.float32), [10], 24),
    "map_fn of two": (lambda i: tf.map_fn(lambda j: u(), (tf.range(1), tf.ones([1, 2])), tf.float32), [13], 31),
    "map_fn to two": (lambda i: tf.map_fn(lambda j: (u(), u()), tf.range(1), (tf.float32,) * 2), [11, 18], 30),
    "map_fn of any number": (
        lambda i: tf.map_fn(lambda j: u(), tf.range(tf.cast(i, tf.int32) + 1), dtype=tf.float32),
        [11],
        29,
    ),
    "scan": (lambda i: tf.scan(lambda a, j: u(), tf.range(1), initializer=0.0), [11], 26),
    "foldl": (lambda i: tf.foldl(lambda a, j: u(), tf.range(1), initializer=0.0), [10], 20),
    "foldr": (lambda i: tf.foldr(lambda a, j: u(), tf.range(1), initializer=0.0), [12], 20),
}
"""By what is drawn in functions of datasets: seeds there, and the operations that the function then counts."""


@pytest.mark.parametrize("name", DRAWN_INSIDE)
def test_branches_and_loops_in_functions_of_datasets_count_by_themselves(name):
    call, inside, behind = DRAWN_INSIDE[name]
    counted = []

    def function(i):
        call(i)
        counted.append(tf.get_seed(None)[1])
        return i

    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        tf.data.Dataset.range(1).map(function)
        drawn = [op.get_attr("seed2") for op in graph.get_operations() if op.type == "RandomUniform"]
    assert (sorted(drawn), counted) == (sorted(inside), [behind])


FIXED, PADDED = tf.FixedLenFeature, tf.FixedLenSequenceFeature
FEATURES = {
    "fixed": ({"a": FIXED([], tf.int64), "b": FIXED([2], tf.float32)}, 3, 10),
    "defaults": ({"a": FIXED([], tf.int64, 3), "b": FIXED([], tf.string, "")}, 7, 14),
    "one default of two": ({"a": FIXED([2], tf.int64, [1, 2])}, 4, 10),
    "sparse": ({"a": FIXED([], tf.int64), "b": tf.VarLenFeature(tf.string)}, 2, 9),
    "padded": ({"a": PADDED([], tf.int64, allow_missing=True)}, 2, 8),
}


@pytest.mark.parametrize("name", FEATURES)
def test_default_seeds_behind_parsed_examples(name):
    features, of_one, of_batch = FEATURES[name]
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        given = tf.placeholder(tf.string, [])
        batch = given[None]
        counts = [tf.get_seed(None)[1]]
        tf.parse_single_example(given, features)
        counts.append(tf.get_seed(None)[1])
        tf.parse_example(batch, features)
        counts.append(tf.get_seed(None)[1])
    assert [counts[1] - counts[0], counts[2] - counts[1]] == [of_one, of_batch - 4]
