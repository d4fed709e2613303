"""Wishart's distribution, against SciPy and its own samples."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import anabranch as tf

D = tf.contrib.distributions
SCALE = np.array([[1.0, 0.3], [0.3, 2.0]])
FACTOR = np.linalg.cholesky(SCALE)
X = np.array([[3.0, 0.5], [0.5, 4.0]])


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.mark.parametrize("df", [2.5, 4.0, 7.0])
@pytest.mark.parametrize("kind", ["full", "cholesky", "factors"])
def test_densities_and_moments(session, df, kind):
    degrees = np.float64(df)
    if kind == "full":
        wishart = D.WishartFull(degrees, SCALE)
    else:
        wishart = D.WishartCholesky(degrees, FACTOR, cholesky_input_output_matrices=kind == "factors")
    known = scipy.stats.wishart(df, SCALE)
    factors = kind == "factors"
    root = np.linalg.cholesky if factors else lambda matrix: matrix
    found = session.run([wishart.log_prob(root(X)), wishart.entropy(), wishart.mean(), wishart.variance()])
    np.testing.assert_allclose(found[0], known.logpdf(X), 1e-9)
    np.testing.assert_allclose(found[1], known.entropy(), 1e-9)
    np.testing.assert_allclose(found[2], root(known.mean()), 1e-9)
    np.testing.assert_allclose(found[3], root(known.var()), 1e-9)
    mode = session.run(wishart.mode())
    if df > 3:
        np.testing.assert_allclose(mode, root(known.mode()), 1e-9)
    else:
        assert np.isnan(mode[0, 0])
    np.testing.assert_allclose(session.run(wishart.scale()), FACTOR if factors else SCALE, 1e-9)
    assert (wishart.event_shape.as_list(), wishart.batch_shape.as_list()) == ([2, 2], [])
    assert session.run(wishart.dimension) == 2


def test_samples(session):
    wishart = D.WishartFull(np.array([4.0, 6.5]), SCALE)
    assert wishart.sample([3, 2]).shape.as_list() == [3, 2, 2, 2, 2]
    drawn, determinant = session.run([wishart.sample(8000, seed=3), wishart.mean_log_det()])
    for i, df in enumerate((4.0, 6.5)):
        known = scipy.stats.wishart(df, SCALE)
        np.testing.assert_allclose(drawn[:, i].mean(0), known.mean(), 0.05)
        np.testing.assert_allclose(drawn[:, i].var(0), known.var(), 0.12)
    np.testing.assert_allclose(np.linalg.slogdet(drawn)[1].mean(0), determinant, 0.02)
    factors = D.WishartCholesky(np.float64(4), FACTOR, cholesky_input_output_matrices=True).sample(500, seed=3)
    values = session.run(factors)
    assert np.allclose(np.triu(values, 1), 0)
    assert (np.diagonal(values, axis1=1, axis2=2) > 0).all()


def test_gradients_flow_through_samples(session):
    factor = tf.constant(FACTOR)
    drawn = D.WishartCholesky(np.float64(4), factor).sample(50, seed=1)
    assert np.isfinite(session.run(tf.gradients(drawn, factor)[0])).all()


def test_what_does_not_fit_is_refused(session):
    with pytest.raises(ValueError, match="cannot be less than dimension of scale matrix"):
        D.WishartFull(1.0, [[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="does not make sense"):
        D.WishartCholesky(np.float64(4), FACTOR, cholesky_input_output_matrices=True).stddev()
    few = tf.placeholder_with_default(np.float64(1), [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="did not hold"):
        session.run(D.WishartCholesky(few, FACTOR, validate_args=True).mean())
