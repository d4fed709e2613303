"""Gradient rules that a tape keeps: the same bits as the rules themselves give, on other values of the same shapes."""

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import kept_rules
from anabranch.eager.mode import EAGER


@pytest.fixture(autouse=True)
def at_once():
    with EAGER.as_default():
        yield


def _values(seed, *shapes):
    random = np.random.default_rng(seed)
    return [random.uniform(0.2, 2.0, shape).astype(np.float32) for shape in shapes]


def _slopes(function, arrays):
    tensors = [tf.constant(array) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = function(*tensors)
    return [None if slope is None else tf.convert_to_tensor(slope).numpy() for slope in tape.gradient(result, tensors)]


def _by_rules(function, arrays):
    """The same, each rule run anew: what is called after each op sees all of them."""
    EAGER.callbacks.append(lambda *given: None)
    try:
        return _slopes(function, arrays)
    finally:
        EAGER.callbacks.pop()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: tf.matmul(x, y, transpose_b=True),
        lambda x, y: x * y + x / y - tf.pow(x, y),
        lambda x, y: tf.reduce_sum(x * y[:1], axis=1),
        lambda x, y: tf.reduce_mean(x + y[0], axis=[0], keepdims=True),
        lambda x, y: tf.reduce_max(x * y, 1) + tf.reduce_prod(y, 1),
        lambda x, y: tf.concat([x, y, x], 0) * 2.0,
        lambda x, y: tf.stack(tf.split(x, 2, 0)) + tf.stack(tf.split(y, 2, 0)),
        lambda x, y: tf.gather(x, [3, 0, 0]) * y[1:],
        lambda x, y: tf.nn.softmax(x) * tf.nn.log_softmax(y),
        lambda x, y: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(y), logits=x),
        lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1, 2, 3], logits=x * y),
        lambda x, y: tf.where(x > y, x, y * 2.0),
        lambda x, y: tf.maximum(x, y) + tf.minimum(x, y * 0.5),
        lambda x, y: tf.cumsum(x, 1) * tf.reverse(y, [0]),
        lambda x, y: tf.transpose(tf.pad(x, [[1, 0], [0, 2]])) @ tf.tile(tf.concat([y, y[:1]], 0), [1, 1]),
        lambda x, y: tf.boolean_mask(x, x > 1.0) * 3.0 + tf.reduce_sum(y),
        lambda x, y: tf.nn.top_k(x, 2)[0] * y[:, :2],
        lambda x, y: tf.nn.conv2d(x[None, :, :, None], y[:3, :3, None, None], strides=[1, 2, 1, 1], padding="SAME"),
        lambda x, y: tf.einsum("ij,kj->ik", x, y),
        lambda x, y: tf.scatter_nd([[0], [2]], x[:2], [5, 5]) * tf.pad(y, [[0, 1], [0, 0]]),
        lambda x, y: tf.clip_by_norm(x, 1.0) + tf.nn.l2_normalize(y, 1),
        lambda x, y: x * x + tf.matmul(y, y, transpose_a=True)[:4],
    ],
)
def test_the_same_bits(function):
    first, second = _values(1, (4, 5), (4, 5)), _values(2, (4, 5), (4, 5))
    _slopes(function, first)
    for arrays in (second, first):
        for given, wanted in zip(_slopes(function, arrays), _by_rules(function, arrays), strict=True):
            np.testing.assert_array_equal(given, wanted)


def test_a_value_that_the_rule_looks_at():
    (x,) = _values(3, (2, 3))

    def summed(axis):
        t, axis = tf.constant(x), tf.constant(axis)
        with tf.GradientTape() as tape:
            tape.watch(t)
            y = tf.reduce_sum(tf.reduce_prod(t, axis))
        return tape.gradient(y, t).numpy()

    for _ in range(2):
        np.testing.assert_allclose(summed([0]), x[::-1], rtol=1e-6)
        np.testing.assert_allclose(summed([1]), x.prod(1, keepdims=True) / x, rtol=1e-6)


def test_one_tensor_twice_after_two_tensors():
    x, y = _values(4, (3,), (3,))
    _slopes(lambda a, b: a * b, [x, y])
    np.testing.assert_allclose(_slopes(lambda a, b: a * a, [x, y])[0], 2 * x, rtol=1e-6)
    np.testing.assert_array_equal(_slopes(lambda a, b: a * b, [x, y])[0], y)


def test_rules_of_the_program_run_each_time():
    calls = []

    @tf.custom_gradient
    def noted(x):
        def slope(dy):
            calls.append(1)
            return dy * float(len(calls))

        return tf.identity(x), slope

    results = [_slopes(noted, _values(5, (2,)))[0] for _ in range(3)]
    assert len(calls) == 3
    np.testing.assert_array_equal(results, [[1, 1], [2, 2], [3, 3]])


def test_second_derivatives_of_kept_rules():
    (x,) = _values(6, (3,))
    for _ in range(3):
        t = tf.constant(x)
        with tf.GradientTape() as outer:
            outer.watch(t)
            with tf.GradientTape() as inner:
                inner.watch(t)
                y = tf.reduce_sum(tf.exp(t) * tf.sin(t))
            slope = inner.gradient(y, t)
        np.testing.assert_allclose(outer.gradient(slope, t).numpy(), 2 * np.exp(x) * np.cos(x), rtol=1e-4)


def test_rows_of_a_variable():
    table = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3))
    for rows in ([0, 2], [3, 3], [1, 0]):
        with tf.GradientTape() as tape:
            y = tf.nn.embedding_lookup(table, rows) ** 2.0
        slope = tape.gradient(y, table)
        assert isinstance(slope, tf.IndexedSlices)
        np.testing.assert_array_equal(slope.indices.numpy(), rows)
        np.testing.assert_allclose(slope.values.numpy(), 2 * table.numpy()[rows], rtol=1e-6)
        np.testing.assert_array_equal(slope.dense_shape.numpy(), [4, 3])


def test_a_kept_rule_is_not_run_again(monkeypatch):
    arrays = _values(7, (2, 3), (3, 2))
    _slopes(lambda x, y: tf.matmul(x, y) + 1.0, arrays)
    monkeypatch.setattr(kept_rules, "_by_rule", lambda *given: pytest.fail("a rule ran"))
    _slopes(lambda x, y: tf.matmul(x, y) + 1.0, arrays)
    with pytest.raises(pytest.fail.Exception, match="a rule ran"):
        _slopes(lambda x, y: tf.matmul(x, y) + 1.0, _values(7, (4, 3), (3, 2)))


def test_a_gradient_that_is_zero_once_is_not_zero_again():
    x = np.random.RandomState(0).randn(3, 4)
    labels = np.eye(3, 4)
    powers = np.exp(x)
    chances = powers / powers.sum(1, keepdims=True)
    slope = chances - labels
    of_squares = chances * (2 * slope - (2 * slope * chances).sum(1, keepdims=True))
    features = tf.constant(x, tf.float32)
    for squares in (False, True, False):
        with tf.GradientTape() as tape:
            tape.watch(features)
            both = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=features, labels=tf.constant(labels, tf.float32))
            loss, backprop = tf.identity_n(list(both))
            total = tf.reduce_sum(loss) + (tf.reduce_sum(tf.square(backprop)) if squares else 0.0)
        expected = slope + of_squares if squares else slope
        np.testing.assert_allclose(tape.gradient(total, features).numpy(), expected, rtol=1e-5, atol=1e-6)
