"""What a stochastic tensor adds to a loss, so that its gradient estimates that of an expectation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core.contract.api import public

_HOME = "contrib.bayesflow.stochastic_gradient_estimators."


@public(_HOME + "score_function")
def score_function(
    stochastic_tensor: Any, value: Any, loss: Any, baseline: Any = None, name: str = "ScoreFunction"
) -> Any:
    """``log_prob(value) * (loss - baseline)``, whose gradient is the score function's (REINFORCE, Williams, 1992).

    Args:
        stochastic_tensor: whose distribution has the logarithm.
        value: a sample of it.
        loss: what follows; no gradient passes through it.
        baseline: is subtracted, for less variance.
        name: of the operations.
    """
    with tf.name_scope(name, values=[value, loss, baseline]):
        advantage = tf.convert_to_tensor(loss)
        if baseline is not None:
            advantage -= tf.convert_to_tensor(baseline)
        return stochastic_tensor.distribution.log_prob(tf.convert_to_tensor(value)) * tf.stop_gradient(advantage)


@public(_HOME + "get_score_function_with_advantage")
def get_score_function_with_advantage(
    advantage_fn: Callable[..., Any], name: str = "ScoreFunctionWithAdvantage"
) -> Callable[..., Any]:
    """A score function in which ``advantage_fn(stochastic_tensor, loss)`` stands for the loss."""

    def estimated(stochastic_tensor: Any, value: Any, loss: Any) -> Any:
        with tf.name_scope(name, values=[value, loss]):
            advantage = tf.stop_gradient(advantage_fn(stochastic_tensor, loss))
            return stochastic_tensor.distribution.log_prob(value) * advantage

    return estimated


@public(_HOME + "get_score_function_with_constant_baseline")
def get_score_function_with_constant_baseline(baseline: Any, name: str = "ScoreFunction") -> Callable[..., Any]:
    """A score function that subtracts a baseline from the loss."""
    return lambda stochastic_tensor, value, loss: score_function(stochastic_tensor, value, loss, baseline, name)


@public(_HOME + "get_score_function_with_baseline")
def get_score_function_with_baseline(
    baseline_fn: Callable[..., Any] | None = None, name: str = "ScoreFunction"
) -> Callable[..., Any]:
    """A score function that subtracts ``baseline_fn(stochastic_tensor, loss)``, by default the mean of the past."""
    baseline = baseline_fn or get_mean_baseline()

    def estimated(stochastic_tensor: Any, value: Any, loss: Any) -> Any:
        with tf.name_scope(name):
            return score_function(stochastic_tensor, value, loss, baseline(stochastic_tensor, loss))

    return estimated


@public(_HOME + "get_mean_baseline")
def get_mean_baseline(ema_decay: float = 0.99, name: str | None = None) -> Callable[..., Any]:
    """A moving average of the mean loss, as a baseline.

    Args:
        ema_decay: share of the past in the average.
        name: of the scope of its variables.
    """

    def baseline(_: Any, loss: Any) -> Any:
        with tf.variable_scope(name, default_name="MeanBaseline"):
            mean = tf.reduce_mean(loss)
            average = tf.train.ExponentialMovingAverage(ema_decay, zero_debias=True)
            with tf.control_dependencies([average.apply([mean])]):
                return tf.identity(average.average(mean))

    return baseline


@public(_HOME + "get_vimco_advantage_fn")
def get_vimco_advantage_fn(have_log_loss: bool = False) -> Callable[..., Any]:
    """The advantage of each of several samples over the others (VIMCO, Mnih and Rezende, 2016, equation 9).

    The loss is ``[samples, ...]`` with two samples at least.

    Args:
        have_log_loss: the loss is a logarithm; else a probability, or a ratio of such.
    """

    def advantage(_: Any, loss: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "VIMCOAdvantage", values=[loss]):
            loss = tf.convert_to_tensor(loss)
            count = tf.cast(tf.shape(loss)[0], loss.dtype)
            logs = loss if have_log_loss else tf.log(loss)
            log_mean = tf.reduce_logsumexp(logs, 0) - tf.log(count)
            # What the sum is without a sample, and with the geometric mean of the others in its place.
            difference = logs[None] - logs[:, None]
            others = _log_expm1(tf.reduce_logsumexp(-difference, 0)) + logs
            geometric = logs - tf.reduce_sum(difference, 0) / (count - 1)
            return log_mean - (tf.reduce_logsumexp(tf.stack([others, geometric]), 0) - tf.log(count))

    return advantage


def _log_expm1(x: Any) -> Any:
    """``log(exp(x) - 1)``, with a finite gradient near 0."""
    least = np.finfo(x.dtype.as_numpy_dtype).eps

    def log(y: Any) -> Any:
        return tf.log(y + least / 1e8)

    return tf.where(tf.abs(x) < least, log(x) + x / 2 + x * x / 24, log(tf.exp(x) - 1))
