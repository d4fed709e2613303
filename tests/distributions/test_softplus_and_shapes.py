"""Distributions of parameters that may be any number, shapes of parameters, words of checks."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

contrib = tf.contrib.distributions


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as new:
        yield new


def run(x):
    with tf.Session() as session:
        return session.run(x)


SOFTPLUS = np.log1p(np.exp(np.float32(-1.0)))


@pytest.mark.parametrize(
    ("make", "attributes"),
    [
        (lambda: contrib.NormalWithSoftplusScale(2.0, -1.0), {"loc": 2.0, "scale": SOFTPLUS}),
        (lambda: contrib.LaplaceWithSoftplusScale(2.0, -1.0), {"loc": 2.0, "scale": SOFTPLUS}),
        (lambda: contrib.StudentTWithAbsDfSoftplusScale(-3.7, 2.0, -1.0), {"df": 3.0, "loc": 2.0, "scale": SOFTPLUS}),
        (lambda: contrib.ExponentialWithSoftplusRate(-1.0), {"rate": SOFTPLUS}),
        (lambda: contrib.GammaWithSoftplusConcentrationRate(-1.0, -1.0), {"concentration": SOFTPLUS, "rate": SOFTPLUS}),
        (
            lambda: contrib.BetaWithSoftplusConcentration(-1.0, -1.0),
            {"concentration1": SOFTPLUS, "concentration0": SOFTPLUS},
        ),
    ],
)
def test_parameters(make, attributes):
    distribution = make()
    for name, value in attributes.items():
        assert run(getattr(distribution, name)) == pytest.approx(value, rel=1e-6)


def test_a_negative_scale_of_students_distribution():
    one, other = (tf.distributions.StudentT(3.0, 1.0, scale).cdf([0.0, 1.0, 4.0]) for scale in (2.0, -2.0))
    assert run(one).tolist() == pytest.approx(run(other).tolist(), rel=1e-6)
    assert run(one)[0] < 0.5 < run(one)[2]


def test_shapes_of_parameters():
    assert {name: run(shape).tolist() for name, shape in tf.distributions.Normal.param_shapes([2, 3]).items()} == {
        "loc": [2, 3],
        "scale": [2, 3],
    }
    static = tf.distributions.StudentT.param_static_shapes(tf.constant([4]))
    assert {name: shape.as_list() for name, shape in static.items()} == {"df": [4], "loc": [4], "scale": [4]}
    with pytest.raises(ValueError, match="TensorShape sample_shape must be fully defined"):
        tf.distributions.Normal.param_static_shapes(tf.TensorShape([None, 2]))
    with pytest.raises(NotImplementedError, match="_param_shapes not implemented"):
        tf.distributions.Dirichlet.param_shapes([2])


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (lambda: tf.distributions.Normal(0.0, -5.0, validate_args=True).mean(), "Condition x > 0 did not hold"),
        (lambda: tf.distributions.StudentT([0.5], [0.0], [1.0], allow_nan_stats=False).mean(), "Condition x < y"),
        (lambda: tf.distributions.Uniform(2.0, 1.0, validate_args=True).sample(), "Condition x < y did not hold"),
    ],
)
def test_words_of_checks(compute, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        run(compute())
