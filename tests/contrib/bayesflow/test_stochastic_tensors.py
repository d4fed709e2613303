"""`tf.contrib.bayesflow`: values of distributions and losses of them; expectations stand in the golden files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

flow = tf.contrib.bayesflow
st, sg, sge = flow.stochastic_tensor, flow.stochastic_graph, flow.stochastic_gradient_estimators


def test_values_and_their_types() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        normal = tf.distributions.Normal([1.0, 2.0], 0.5)
        with st.value_type(st.MeanValue()):
            mean = st.StochasticTensor(normal, name="mean")
            with st.value_type(st.SampleValue(4, stop_gradient=True)):
                samples = st.StochasticTensor(normal)
            assert isinstance(st.get_current_value_type(), st.MeanValue)
        assert (mean.name, mean.dtype, mean.graph) == ("mean/", tf.float32, tf.get_default_graph())
        assert samples.value().shape.as_list() == [4, 2]
        np.testing.assert_array_equal(session.run(tf.add(mean, 1.0)), [2, 3])
        first, second = session.run([tf.identity(samples), samples.value()])
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(session.run(mean.entropy()), [0.5 * np.log(2 * np.pi * np.e * 0.25)] * 2, rtol=1e-6)
        assert samples.loss(tf.ones([4, 2])) is not None
        assert mean.loss(tf.ones([4, 2])) is None
        with pytest.raises(ValueError, match="No value type currently set"):
            st.get_current_value_type()


def _log_prob(logits: np.ndarray, x: np.ndarray) -> np.ndarray:
    return x * -np.log1p(np.exp(-logits)) + (1 - x) * -np.log1p(np.exp(logits))


def test_what_follows_from_a_value_is_in_its_term() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.constant([0.3, -0.8])
        coin = st.StochasticTensor(tf.distributions.Bernoulli(logits=weights, dtype=tf.float32))
        other = st.StochasticTensor(tf.distributions.Normal(weights, 1.0))  # through which gradients pass
        first, second, third = tf.multiply(coin, 2.0), tf.exp(coin) + other.value(), tf.multiply(5.0, other)
        loss = sg.surrogate_loss([first, second, third])
        x, got, *losses = session.run([coin.value(), loss, first, second, third])
        term = (losses[0] + losses[1]) * _log_prob(np.array([0.3, -0.8]), x)
        np.testing.assert_allclose(got, sum(losses) + term, rtol=1e-5)


def test_estimates_of_gradients() -> None:
    logits = np.array([0.3, -0.8, 1.2], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.constant(logits)
        for loss_fn, subtracted in (
            (sge.score_function, 0.0),
            (sge.get_score_function_with_constant_baseline(0.7), 0.7),
            (sge.get_score_function_with_baseline(lambda _, loss: 2.0 * tf.ones_like(loss)), 2.0),
            (sge.get_score_function_with_advantage(lambda _, loss: loss - 1.0), 1.0),
        ):
            coin = st.StochasticTensor(tf.distributions.Bernoulli(logits=weights, dtype=tf.float32), loss_fn=loss_fn)
            own = tf.square(coin.value() - 0.2) + weights
            loss = sg.surrogate_loss([own, weights * 2.0], [coin])
            x, got, slope = session.run([coin.value(), loss, tf.gradients(loss, weights)[0]])
            value = (x - 0.2) ** 2 + logits
            np.testing.assert_allclose(got, value + 2 * logits + _log_prob(logits, x) * (value - subtracted), rtol=1e-5)
            score = x - 1 / (1 + np.exp(-logits))
            np.testing.assert_allclose(slope, 3 + score * (value - subtracted), rtol=1e-4, atol=1e-5)


def test_baselines() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        baseline = sge.get_mean_baseline(0.5, name="past")(None, tf.constant([1.0, 3.0]))
        session.run(tf.global_variables_initializer())
        assert [float(session.run(baseline)) for _ in range(2)] == [2.0, 2.0]
        p = np.array([[0.2, 0.5], [0.7, 0.1], [0.4, 0.9]], np.float32)
        advantage = sge.get_vimco_advantage_fn()(None, tf.constant(p))
        logs = sge.get_vimco_advantage_fn(have_log_loss=True)(None, tf.log(p))
        wanted = np.empty_like(p)
        for i in range(3):
            others = np.delete(p, i, 0)
            wanted[i] = np.log(p.mean(0)) - np.log((others.sum(0) + np.exp(np.log(others).mean(0))) / 3)
        np.testing.assert_allclose(session.run(advantage), wanted, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(session.run(logs), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1.0), r"Rank of observed value \(0\) must be >= rank"),
        (np.zeros([4, 3], np.float32), "Shape of observed value .* is incompatible"),
        (np.zeros([4, 2], np.int32), "Type of observed value .* does not match"),
    ],
)
def test_observed_values(value: Any, text: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        normal = tf.distributions.Normal([0.0, 1.0], 1.0)
        seen = st.ObservedStochasticTensor(normal, [[3.0, 4.0]])
        np.testing.assert_array_equal(session.run(seen.value()), [[3, 4]])
        assert seen.loss(tf.ones([1])) is None
        with pytest.raises(ValueError, match=text):
            st.ObservedStochasticTensor(normal, value)


def test_refusals() -> None:
    with tf.Graph().as_default():
        normal = tf.distributions.Normal(0.0, 1.0)
        with pytest.raises(TypeError, match="dist must be an instance of Distribution"):
            st.StochasticTensor(tf.constant(1.0))
        with pytest.raises(TypeError, match="loss_fn must be callable"):
            st.StochasticTensor(normal, loss_fn=3)
        with pytest.raises(TypeError, match="must be a Distribution Value Type"):
            st.StochasticTensor(normal, dist_value_type=tf.float32)
        with pytest.raises(TypeError, match="sample_losses must be a list or tuple"):
            sg.surrogate_loss(tf.ones([3]))
        with pytest.raises(ValueError, match="loss must have dimensionality 1 or greater"):
            sg.surrogate_loss([tf.constant(1.0)])
        with pytest.raises(ValueError, match='exactly one of arguments "n" and "z"'):
            flow.monte_carlo.expectation_importance_sampler(tf.identity, normal.log_prob, normal)
        with pytest.raises(ValueError, match="`log_prob` must be a callable function"):
            flow.monte_carlo.expectation(tf.identity, tf.ones([3]), use_reparametrization=False)
