"""Reductions of large arrays in the forms that compiled programs for CPUs give them."""

import types

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.math import xla_reductions
from anabranch.xla import engine

CASES = (
    ((20000, 2), 1),
    ((6000, 3, 2), 1),
    ((600, 5, 12), -2),
    ((100, 24, 16), 1),
    ((4, 9, 10, 100), (1, 2)),
    ((4, 96, 10, 8, 1), 3),
    ((3, 2, 3000, 2, 1), (1, 3)),
    ((7, 3, 2000), 1),
    ((2, 300, 70, 1), 1),
    ((300, 150, 1), 0),
    ((20, 20000), 0),
    ((3, 2, 30, 8192), (1, 2)),
    ((16, 40, 60, 3), (1, 2)),
    ((60, 300, 4), (0, 1)),
    ((50000, 2), 0),
    ((4, 4099, 3), 1),
)


def compiled(fetches, feeds):
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        return session.run(fetches, feeds)


@pytest.mark.parametrize(("shape", "axes"), CASES)
@pytest.mark.parametrize("keep", [False, True])
def test_all_reductions_agree_with_numpy(shape, axes, keep):
    values = np.random.RandomState(0).standard_normal(shape).astype(np.float32)
    wide = values.astype(np.float64)
    given = tf.placeholder(tf.float32, shape)
    ours = (tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.norm)
    theirs = (
        np.sum,
        np.mean,
        np.max,
        np.min,
        lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis, keepdims=keepdims)),
    )
    results = compiled([reduce(given, axis=axes, keepdims=keep) for reduce in ours], {given: values})
    for result, reduce in zip(results, theirs, strict=True):
        expected = reduce(wide, axis=axes, keepdims=keep)
        assert result.shape == expected.shape
        rounding = 2e-7 * np.sqrt(values.size / expected.size)  # of the sum on its way, in any order
        np.testing.assert_allclose(result, expected, rtol=2e-6, atol=max(2e-6, rounding))


def test_extrema_pass_nan_on_and_infinities():
    values = np.zeros((16384, 4), np.float32)
    values[1, 2], values[2, 1], values[3] = np.nan, -np.inf, np.inf
    given = tf.placeholder(tf.float32, values.shape)
    largest, least, total = compiled(
        [tf.reduce_max(given, 1), tf.reduce_min(given, 1), tf.reduce_sum(given, 1)], {given: values}
    )
    np.testing.assert_array_equal(largest[:5], [0, np.nan, 0, np.inf, 0])
    np.testing.assert_array_equal(least[:5], [0, np.nan, -np.inf, np.inf, 0])
    np.testing.assert_array_equal(total[:5], [0, np.nan, -np.inf, np.inf, 0])


def test_gradients_share_among_ties():
    values = np.tile(np.array([3, 1, 3], np.float32), (16384, 1))
    given = tf.placeholder(tf.float32, values.shape)
    slope = compiled(tf.gradients(tf.reduce_max(given, 1), given)[0], {given: values})
    np.testing.assert_array_equal(slope, np.tile(np.array([0.5, 0, 0.5], np.float32), (16384, 1)))


def test_one_program_serves_batches_of_several_sizes():
    given = tf.placeholder(tf.float32, [None, 300, 3])
    weights = tf.Variable(np.ones(300, np.float32))
    loss = tf.reduce_mean(tf.reduce_sum(given, 2) * weights)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(weights.initializer)
        for size in (64, 50, 61, 37, 64):
            values = np.random.RandomState(size).standard_normal((size, 300, 3)).astype(np.float32)
            value = session.run(loss, {given: values})
            np.testing.assert_allclose(value, values.astype(np.float64).sum(2).mean(), rtol=1e-4, atol=1e-6)


def test_products_that_broadcast_before_a_last_dimension_of_one():
    random = np.random.RandomState(1)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((4, 90, 10, 16, 1), (4, 90, 10, 1, 1)))
    left, right = tf.placeholder(tf.float32, a.shape), tf.placeholder(tf.float32, b.shape)
    total = tf.reduce_sum(left * right, 1, keepdims=True)
    results = compiled(
        [total, tf.reduce_max(left * right, 1), *tf.gradients(total, [left, right])], {left: a, right: b}
    )
    a, b = a.astype(np.float64), b.astype(np.float64)
    expected = [(a * b).sum(1, keepdims=True), (a * b).max(1), b + 0 * a, a.sum((3, 4), keepdims=True)]
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_what_a_batch_shares():
    shared = tf.Variable(np.ones((1, 200, 100), np.float32))
    given = tf.placeholder(tf.float32, [16, 200, 100])
    slope = tf.gradients(tf.square(shared * given), shared)[0]
    values = np.random.RandomState(2).standard_normal((16, 200, 100)).astype(np.float32)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(shared.initializer)
        result = session.run(slope, {given: values})
    np.testing.assert_allclose(result, 2 * np.square(values.astype(np.float64)).sum(0, keepdims=True), rtol=1e-5)


def test_what_is_written_as_slices():
    one = types.SimpleNamespace(recorder=None)
    several = types.SimpleNamespace(recorder="that of a program for batches of several sizes")

    def applies(shape, *axes, context=one):
        return xla_reductions.by_slices(context, np.broadcast_to(np.float32(0), shape), axes)

    assert applies((5000, 12), 1)
    assert not applies((5000, 13), 1)
    assert applies((5000, 13, 2), 1)
    assert not applies((50, 24, 100, 1), 1)
    assert not applies((5000, 1), 1)
    assert applies((12, 5000), 0)
    assert not applies((12, 5000), 0, context=several)
    assert applies((64, 16384), 0)
    assert not applies((65, 16384), 0)
    assert not applies((64, 16383), 0)


@pytest.mark.parametrize(
    "different",
    [{"platform": "gpu"}, {"dtype": np.float64}, {"shape": (5000, 2)}],
    ids=["gpu", "float64", "small"],
)
def test_others_stay_one_reduction(different):
    jax = engine.jax()
    settings = {"platform": "cpu", "dtype": np.float32, "shape": (40000, 2)} | different
    context = types.SimpleNamespace(host=False, platform=settings["platform"], lax=jax.lax, xp=jax.numpy, recorder=None)
    with engine.x64():
        trace = jax.make_jaxpr(lambda x: xla_reductions.reduce(context, "sum", x, (1,), False))
        assert "reduce_sum" in str(trace(np.ones(settings["shape"], settings["dtype"])))


def test_no_reduction_is_left_in_the_program():
    jax = engine.jax()
    context = types.SimpleNamespace(host=False, platform="cpu", lax=jax.lax, xp=jax.numpy, recorder=None)
    trace = jax.make_jaxpr(lambda x: xla_reductions.reduce(context, "sum", x, (1, 3), False))
    text = str(trace(np.ones((4000, 3, 5, 2), np.float32)))
    assert "reduce" not in text
    assert text.count("add") == 5


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int32])
def test_rows_are_looked_up_and_added(dtype, adjoint):
    random = np.random.RandomState(0)
    matrix = (random.rand(9, 9) < 0.3) * random.randint(-4, 5, (9, 9)).astype(dtype)
    places = np.argwhere(matrix)[random.permutation(np.count_nonzero(matrix))]  # in any order
    values = matrix[tuple(places.T)]
    dense = random.randint(-4, 5, (9, 7)).astype(dtype)
    given = tf.placeholder(dtype, [None, 7])
    sparse = tf.SparseTensor(np.concatenate([places, places]), np.concatenate([values, values]), [9, 9])
    product = tf.sparse_tensor_dense_matmul(sparse, given, adjoint_a=adjoint)
    wanted = 2 * ((matrix.conj().T if adjoint else matrix) @ dense)
    np.testing.assert_array_equal(compiled(product, {given: dense}), wanted)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_rows_without_a_place_are_left_out(platform):
    jax = engine.jax()
    context = types.SimpleNamespace(host=False, platform=platform, lax=jax.lax, xp=jax.numpy, recorder=None)
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    table[3] = np.inf
    operands = np.ones((2, 3), np.float32), np.array([1, 2, 0, 9, 1]), table, np.array([0, 3, 1, 3, 1], np.int32)
    with engine.x64():
        total = jax.jit(lambda *x: xla_reductions.add_picked_rows(context, *x))(*operands)
    np.testing.assert_array_equal(total, [[4, 5, 6], [4, 6, 8]])
