"""Expectations estimated from samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public

_Function = Callable[[Any], Any]


def _refused(text: str, given: str, expected: str, advice: str) -> ValueError:
    return ValueError(f"{text}\n" + errors.message(given, expected, advice))


def _get_samples(dist: Any, z: Any, n: Any, seed: int | None) -> Any:
    """The samples that are given, or new ones."""
    if (n is None) == (z is None):
        raise _refused(
            f'Must specify exactly one of arguments "n" and "z".  Found: n = {n}, z = {z}',
            "both" if z is not None else "neither",
            "samples or how many to draw",
            "n=1000",
        )
    with tf.name_scope("get_samples", values=[z, n]):
        return tf.convert_to_tensor(z, name="z") if n is None else dist.sample(n, seed=seed)


def _log_mean(log_values: Any) -> Any:
    """The logarithm of the mean along axis 0 of exponentials."""
    largest = tf.stop_gradient(tf.reduce_max(log_values, axis=0))
    return tf.log(tf.reduce_mean(tf.exp(log_values - largest), axis=0)) + largest


@public("contrib.bayesflow.monte_carlo.expectation_importance_sampler")
def expectation_importance_sampler(
    f: _Function,
    log_p: _Function,
    sampling_dist_q: Any,
    z: Any = None,
    n: Any = None,
    seed: int | None = None,
    name: str = "expectation_importance_sampler",
) -> Any:
    """Expectation of ``f`` under ``p``, by samples of another distribution: the mean of ``f(z) p(z) / q(z)``.

    Positive and negative parts are summed apart as logarithms, so that large ratios do not overflow.

    Args:
        f: function of samples ``[n, ...]``.
        log_p: the logarithm of the density of ``p``, a function of samples.
        sampling_dist_q: the distribution that samples are of.
        z: samples ``[n, ...]``; give these or ``n``.
        n: how many to draw.
        seed: of the samples.
        name: of the operations.

    Returns:
        A tensor of the batch shape of ``q``.

    Raises:
        ValueError: both ``z`` and ``n``, or neither.
    """
    with tf.name_scope(name, values=[z, n]):
        z = _get_samples(sampling_dist_q, z, n, seed)
        ratio = log_p(z) - sampling_dist_q.log_prob(z)
        values = f(z)
        # The parts are shifted by one, which drops out of their difference.
        parts = [tf.exp(_log_mean(tf.log(tf.nn.relu(part) + 1.0) + ratio)) for part in (values, -values)]
        return parts[0] - parts[1]


@public("contrib.bayesflow.monte_carlo.expectation_importance_sampler_logspace")
def expectation_importance_sampler_logspace(
    log_f: _Function,
    log_p: _Function,
    sampling_dist_q: Any,
    z: Any = None,
    n: Any = None,
    seed: int | None = None,
    name: str = "expectation_importance_sampler_logspace",
) -> Any:
    """The logarithm of the expectation of a positive function, of which ``log_f`` is the logarithm.

    Other arguments are those of :func:`expectation_importance_sampler`.
    """
    with tf.name_scope(name, values=[z, n]):
        z = _get_samples(sampling_dist_q, z, n, seed)
        return _log_mean(log_f(z) + log_p(z) - sampling_dist_q.log_prob(z))


@public("contrib.bayesflow.monte_carlo.expectation")
def expectation(
    f: _Function,
    samples: Any,
    log_prob: _Function | None = None,
    use_reparametrization: bool = True,
    axis: Any = 0,
    keep_dims: bool = False,
    name: str | None = None,
) -> Any:
    """The mean of ``f`` over samples, with the gradient of the expectation.

    Args:
        f: function of the samples.
        samples: of the distribution, ``[n, ...]``.
        log_prob: the logarithm of its density, where samples have no gradient.
        use_reparametrization: samples are a function of the parameters, through which gradients pass; else the score
            function gives these.
        axis: axes to average over.
        keep_dims: keep them with size 1.
        name: of the operations.

    Raises:
        ValueError: ``f``, or ``log_prob`` where it is needed, is not a function.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     normal = tf.distributions.Normal(tf.constant(1.0), 2.0)
    ...     mean = tf.contrib.bayesflow.monte_carlo.expectation(tf.square, normal.sample(200000, seed=1))
    ...     bool(abs(session.run(mean) - 5) < 0.1)
    True
    """
    with tf.name_scope(name, "expectation", [samples]):
        for wanted, function in (("f", f), *([] if use_reparametrization else [("log_prob", log_prob)])):
            if not callable(function):
                raise _refused(
                    f"`{wanted}` must be a callable function.", f"{function!r}", "a function of samples", "p.log_prob"
                )
        if use_reparametrization:
            return tf.reduce_mean(f(samples), axis=axis, keepdims=keep_dims)
        assert log_prob is not None
        samples = tf.stop_gradient(samples)
        values, score = f(samples), log_prob(samples)
        values += tf.stop_gradient(values) * (score - tf.stop_gradient(score))
        return tf.reduce_mean(values, axis=axis, keepdims=keep_dims)
