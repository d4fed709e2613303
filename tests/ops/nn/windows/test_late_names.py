"""Poolings and convolutions under the names of TensorFlow's late versions, and fractional pooling as a function."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

X = np.random.RandomState(2).randn(2, 9, 8, 3).astype(np.float32)


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


def test_poolings_of_any_rank(session):
    found = session.run([tf.nn.max_pool_v2(X, 2, 2, "SAME"), tf.nn.max_pool(X, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")])
    assert np.array_equal(*found)
    found = session.run([tf.nn.avg_pool_v2(X[0], 3, 1, "VALID"), tf.nn.avg_pool1d(X[0], 3, 1, "VALID")])
    assert np.array_equal(*found)
    deep = X[:, :, :, :, None]
    found = session.run([tf.nn.avg_pool_v2(deep, 2, 2, "VALID"), tf.nn.avg_pool3d(deep, 2, 2, "VALID")])
    assert np.array_equal(*found)
    with pytest.raises(ValueError, match="one, two or three spatial dimensions"):
        tf.nn.max_pool_v2(X[0, 0], 2, 2, "SAME")


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_transposed_dilated_convolution_is_the_gradient(session, padding):
    x, filters = tf.constant(X), tf.constant(np.random.RandomState(3).randn(3, 2, 3, 4).astype(np.float32))
    y = tf.nn.atrous_conv2d(x, filters, 2, padding)
    dy = tf.constant(np.random.RandomState(4).randn(*y.shape.as_list()).astype(np.float32))
    back = tf.nn.atrous_conv2d_transpose(dy, filters, [2, 9, 8, 3], 2, padding)
    np.testing.assert_allclose(*session.run([back, tf.gradients(y, x, dy)[0]]), 1e-4, 1e-5)


def test_transposed_convolutions_of_any_rank(session):
    filters = np.random.RandomState(5).randn(2, 2, 5, 3).astype(np.float32)
    shape = [2, 18, 16, 5]
    found = session.run(
        [tf.nn.conv_transpose(X, filters, shape, 2), tf.nn.conv2d_transpose(X, filters, shape, [1, 2, 2, 1])]
    )
    assert np.array_equal(*found)
    found = session.run(
        [
            tf.nn.conv_transpose(X[0], filters[0], [9, 16, 5], 2),
            tf.nn.conv1d_transpose(X[0], filters[0], [9, 16, 5], 2),
        ]
    )
    assert np.array_equal(*found)
    with pytest.raises(ValueError, match="output_tensor must have 1, 2 or 3 spatial dimensions"):
        tf.nn.conv_transpose(X, filters, [2, 3], 2)


@pytest.mark.parametrize("pool", [tf.nn.fractional_max_pool, tf.nn.fractional_avg_pool])
def test_fractional_pooling(session, pool):
    x = tf.constant(X)
    output, rows, columns = pool(x, [1.0, 1.5, 1.3, 1.0], True, True)
    assert output.shape.as_list() == [2, 6, 6, 3]
    assert [rows.shape.as_list(), columns.shape.as_list()] == [[7], [7]]
    slope, _ = session.run([tf.gradients(output, x)[0], output])
    np.testing.assert_allclose(slope.sum(), 2 * 6 * 6 * 3, 1e-5)
    # Regions are drawn anew in each run, unless it is deterministic.
    wide = tf.constant(np.random.RandomState(1).randn(1, 60, 60, 1).astype(np.float32))
    changing = pool(wide, [1.0, 1.6, 1.6, 1.0])[1]
    assert len({tuple(session.run(changing)) for _ in range(4)}) > 1
    for seed in (0, 7):
        fixed = pool(wide, [1.0, 1.6, 1.6, 1.0], deterministic=True, seed=seed)[1]
        assert len({tuple(session.run(fixed)) for _ in range(4)}) == 1


def test_fractional_pooling_refuses():
    with pytest.raises(ValueError, match="not yet supported on the batch nor channel dimension"):
        tf.nn.fractional_max_pool(X, [1.5, 1.5, 1.3, 1.0])
    with pytest.raises(ValueError, match="pooling_ratio field must specify 4 dimensions"):
        tf.nn.fractional_max_pool(X, [1.0, 0.5, 1.3, 1.0])
    with pytest.raises(ValueError, match="Both seed and seed2 should be 0 if deterministic is false"):
        tf.nn.fractional_avg_pool(X, [1.0, 1.5, 1.3, 1.0], seed=3)
