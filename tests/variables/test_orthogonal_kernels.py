"""Orthogonal kernels of convolutions: norms stay, draws are TensorFlow 1.15's."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

framework = tf.contrib.framework
# The sum of absolute values of a seeded draw in TensorFlow 1.15, and its first elements that are not 0.
DRAWS = [
    (framework.convolutional_delta_orthogonal, [3, 3, 2, 4], 6.6262, None),
    (framework.convolutional_orthogonal_1d, [3, 2, 4], 10.3834, [0.0497, 0.0852, 0.0390, 0.4611, 0.2724, 0.6427]),
    (framework.convolutional_orthogonal_2d, [2, 2, 2, 3], 10.7863, [0.1602, 0.1710, 0.1616, 0.3483, 0.3720, 0.3515]),
    (framework.convolutional_orthogonal_3d, [2, 2, 2, 1, 2], 3.6701, [0.1142, 0.1486, 1.5383, 1.1819, 0.2723, 0.3544]),
    (framework.convolutional_orthogonal_2d, [1, 1, 2, 3], 5.9741, [1.6360, 0.4388, 1.0634, 0.6879, 1.8550, 0.2930]),
]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as new:
        yield new


@pytest.mark.parametrize(("kind", "shape", "total", "first"), DRAWS)
def test_seeded_draws(kind, shape, total, first):
    with tf.Session() as session:
        value = np.abs(session.run(kind(gain=2.0, seed=5)(shape)))
    assert value.shape == tuple(shape)
    assert value.sum() == pytest.approx(total, abs=2e-4)
    if first is not None:
        assert value.ravel()[:6].tolist() == pytest.approx(first, abs=1e-4)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_norms_stay(axes, size):
    """A periodic convolution with such a kernel keeps the norm of its input, times the gain."""
    kind = getattr(framework, f"convolutional_orthogonal_{axes}d")
    inputs = np.random.RandomState(0).randn(1, *[4] * axes, 2).astype(np.float32)
    with tf.Session() as session:
        kernel = session.run(kind(gain=3.0, seed=1)([size] * axes + [2, 5]))
    result = 0.0
    for place in np.ndindex(*[size] * axes):
        result = result + np.roll(inputs, place, axis=tuple(range(1, axes + 1))) @ kernel[place]
    assert np.linalg.norm(result) == pytest.approx(3.0 * np.linalg.norm(inputs), rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        (framework.convolutional_orthogonal_1d, [3, 5, 4], "In_filters cannot be greater than out_filters"),
        (framework.convolutional_orthogonal_2d, [3, 2, 4, 4], "Kernel sizes must be equal"),
        (framework.convolutional_orthogonal_2d, [3, 4, 4], "must be four-dimensional"),
        (framework.convolutional_delta_orthogonal, [3, 4], "at least three-dimensional and at most five-dimensional"),
    ],
)
def test_shapes_that_are_refused(kind, shape, words):
    with pytest.raises(ValueError, match=words):
        kind()(shape)


def test_configurations():
    initializer = framework.convolutional_orthogonal_2d(gain=3.0, seed=2)
    assert initializer.get_config() == {"gain": 3.0, "seed": 2, "dtype": "float32"}
    assert type(initializer).from_config(initializer.get_config()).gain == 3.0
