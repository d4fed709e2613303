"""Statistics of samples: percentiles, autocorrelation, moving averages; what a normal mean is after observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.distributions.percentile")
def percentile(
    x: Any,
    q: Any,
    axis: Any = None,
    interpolation: str | None = None,
    keep_dims: bool = False,
    validate_args: bool = False,
    name: str | None = None,
) -> Any:
    """The element of ``x`` below which ``q`` percent of the elements are.

    Args:
        x: numbers.
        q: a scalar between 0 and 100.
        axis: over which axes; over all if None.
        interpolation: which element if none is exactly there: ``"nearest"`` (also if None), ``"lower"``, ``"higher"``.
        keep_dims: whether axes stay, of size 1.
        validate_args: whether ``q`` is checked when it is used.
        name: of the operations.

    >>> with tf.Session() as session:
    ...     print(session.run(tf.contrib.distributions.percentile([1.0, 2.0, 3.0, 4.0], 30.0)))
    2.0
    """
    rounding = {"lower": tf.ceil, "higher": tf.floor, "nearest": tf.round, None: tf.round}.get(interpolation)
    if rounding is None:
        raise ValueError(
            f"Argument 'interpolation' must be in lower, higher, nearest. Found {interpolation}\n"
            + errors.message(f"interpolation={interpolation!r}", "one of lower, higher, nearest", '"nearest"')
        )
    with tf.name_scope(name, "percentile", [x, q]):
        x = tf.convert_to_tensor(x, name="x")
        q = tf.cast(q, tf.float64, name="q")
        q.shape.assert_has_rank(0)
        if validate_args:
            checks = [tf.assert_greater_equal(q, tf.zeros([], q.dtype)), tf.assert_less_equal(q, q * 0 + 100)]
            with tf.control_dependencies(checks):
                q = tf.identity(q)
        if axis is None:
            axes, rows = None, tf.reshape(x, [-1])
        else:
            axes = _known_axes(x, axis)
            others = [each for each in range(x.shape.ndims) if each not in axes]
            turned = tf.transpose(x, others + axes)
            rows = tf.reshape(turned, tf.concat([tf.shape(turned)[: len(others)], [-1]], 0))
            sizes = [x.shape.as_list()[each] for each in others]
            rows.set_shape([*sizes, rows.shape.as_list()[-1]])
        count = tf.shape(rows)[-1]
        place = rounding((tf.cast(count, tf.float64) - 1) * (1.0 - q / 100.0))
        place = tf.clip_by_value(tf.cast(place, tf.int32), 0, count - 1)
        ordered, _ = tf.nn.top_k(rows, k=count)
        result = ordered[..., place]
        result.set_shape(rows.shape[:-1])
        if keep_dims:
            if axes is None:
                result *= tf.ones(tf.ones([tf.rank(x)], tf.int32), x.dtype)
            for each in sorted(axes or ()):
                result = tf.expand_dims(result, each)
        return result


def _known_axes(x: Any, axis: Any) -> list[int]:
    axes = tf.contrib.util.constant_value(tf.convert_to_tensor(axis))
    if axes is None or x.shape.ndims is None:
        raise ValueError(
            f"Expected argument 'axis' to be statically available. Found: {axis}\n"
            + errors.message(f"axis={axis} of x of shape {x.shape}", "numbers, and x of known rank", "axis=0")
        )
    wanted = [int(each) for each in (axes.ravel() if axes.ndim else [axes])]
    for each in wanted:
        if not -x.shape.ndims <= each < x.shape.ndims:
            raise ValueError(
                f"dim {each} not in the interval [{-x.shape.ndims}, {x.shape.ndims - 1}].\n"
                + errors.message(f"axis {each} of {x.shape.ndims} axes", "an axis that is there", "axis=-1")
            )
    return [each % x.shape.ndims for each in wanted]


@public("contrib.distributions.auto_correlation")
def auto_correlation(
    x: Any,
    axis: int = -1,
    max_lags: Any = None,
    center: bool = True,
    normalize: bool = True,
    name: str = "auto_correlation",
) -> Any:
    """The correlation of a series with itself, ``lag`` steps later: ``E[x[n] * conj(x[n + lag])]``.

    Args:
        x: floating or complex series.
        axis: that of time.
        max_lags: up to which lag; up to the length of the series if None.
        center: take the mean off first.
        normalize: divide by the correlation at lag 0.
        name: of the operations.
    """
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError(
                f"Argument x must have either float or complex dtype, found: {dtype}\n"
                + errors.message(f"x of {dtype.name}", "a floating or complex series", "tf.to_float(x)")
            )
        axis = axis % x.shape.ndims if x.shape.ndims is not None else axis
        order = tf.range(tf.rank(x))
        axis = axis if x.shape.ndims is not None or axis >= 0 else tf.rank(x) + axis
        there = tf.concat([order[axis + 1 :], order[: axis + 1]], 0)
        series = tf.transpose(x, there)
        if center:
            series -= tf.reduce_mean(series, axis=-1, keepdims=True)
        length = tf.shape(series)[-1]
        long = tf.cast(
            2.0 ** tf.ceil(tf.log(tf.cast(length * 2, tf.float64)) / tf.log(tf.constant(2.0, tf.float64))), tf.int32
        )
        pads = tf.concat([tf.zeros([tf.rank(x) - 1, 2], tf.int32), [[0, long - length]]], 0)
        padded = tf.pad(series, pads)
        if not dtype.is_complex:
            padded = tf.complex(padded, tf.zeros_like(padded))
        spectrum = tf.fft(padded)
        products = tf.ifft(spectrum * tf.conj(spectrum))
        products = products if dtype.is_complex else tf.real(products)
        last = length - 1 if max_lags is None else tf.minimum(length - 1, max_lags)
        counts = tf.cast(length - tf.range(0, last + 1), dtype)
        result = products[..., : last + 1] / counts
        if normalize:
            result /= result[..., :1]
        result = tf.transpose(result, tf.invert_permutation(there))
        if x.shape.is_fully_defined() and isinstance(axis, int):
            sizes = x.shape.as_list()
            known = (
                sizes[axis] - 1 if max_lags is None else tf.contrib.util.constant_value(tf.convert_to_tensor(max_lags))
            )
            sizes[axis] = None if known is None else min(sizes[axis], int(known) + 1)
            result.set_shape(sizes)
        return result


def _floating(dtype: Any, name: str) -> Any:
    base = dtype.base_dtype
    if not base.is_floating:
        raise TypeError(
            f"{name}.base_dtype({base.name}) does not have float type `dtype`.\n"
            + errors.message(f"{name} of {base.name}", "a floating dtype", "dtype=tf.float32")
        )
    return base


@public("contrib.distributions.assign_moving_mean_variance")
def assign_moving_mean_variance(
    mean_var: Any, variance_var: Any, value: Any, decay: Any, name: str | None = None
) -> Any:
    """Move a mean and a variance towards ``value``; both as they are after that.

    Args:
        mean_var: the variable of the mean.
        variance_var: the variable of the variance.
        value: the new value.
        decay: how much of the old ones stays.
        name: of the operations.
    """
    with tf.name_scope(name, "assign_moving_mean_variance", [variance_var, mean_var, value, decay]):
        dtype = _floating(mean_var.dtype, "mean_var")
        if variance_var.dtype.base_dtype != dtype:
            raise TypeError(
                f"mean_var.base_dtype({dtype.name}) != variance_var.base_dtype({variance_var.dtype.base_dtype.name})\n"
                + errors.message("variables of two dtypes", "one dtype", "dtype=tf.float32")
            )
        value = tf.convert_to_tensor(value, dtype, name="value")
        decay = tf.convert_to_tensor(decay, dtype, name="decay")
        delta = value - mean_var
        with tf.control_dependencies([delta]):
            mean = tf.assign_add(mean_var, (1.0 - decay) * delta)
            variance = tf.assign_sub(variance_var, (1.0 - decay) * (variance_var - decay * tf.square(delta)))
        return mean, variance


@public("contrib.distributions.assign_log_moving_mean_exp")
def assign_log_moving_mean_exp(log_mean_exp_var: Any, log_value: Any, decay: Any, name: str | None = None) -> Any:
    """Move ``log(mean(exp(x)))`` towards a new ``x``, without overflow.

    Args:
        log_mean_exp_var: the variable.
        log_value: the new ``x``.
        decay: how much of the old mean stays.
        name: of the operations.
    """
    with tf.name_scope(name, "assign_log_moving_mean_exp", [log_mean_exp_var, log_value, decay]):
        dtype = _floating(log_mean_exp_var.dtype, "log_mean_exp_var")
        log_value = tf.convert_to_tensor(log_value, dtype, name="log_value")
        decay = tf.convert_to_tensor(decay, dtype, name="decay")
        delta = log_value - log_mean_exp_var
        parts = [tf.log(decay) * tf.ones_like(delta), delta + tf.log1p(-decay)]
        return log_mean_exp_var.assign_add(tf.reduce_logsumexp(tf.stack(parts), axis=0))


@public("contrib.distributions.moving_mean_variance")
def moving_mean_variance(
    value: Any, decay: Any, collections: Sequence[str] | None = None, name: str | None = None
) -> Any:
    """Make variables of a moving mean and variance of ``value``, and move them.

    Args:
        value: the value.
        decay: how much of the old ones stays.
        collections: of the variables; those of global variables if None.
        name: of the variables' scope.
    """
    with tf.variable_scope(name, "moving_mean_variance", [value, decay]):
        value = tf.convert_to_tensor(value, name="value")
        dtype = _floating(value.dtype, "value")
        variance, mean = (
            tf.get_variable(
                which,
                value.shape,
                dtype,
                initializer=tf.zeros_initializer(),
                trainable=False,
                collections=[tf.GraphKeys.GLOBAL_VARIABLES] if collections is None else collections,
            )
            for which in ("moving_variance", "moving_mean")
        )
        return assign_moving_mean_variance(mean, variance, value, tf.convert_to_tensor(decay, dtype))


def _posterior(prior: Any, scale: Any, s: Any, n: Any) -> Any:
    """Mean and variance of a mean after ``n`` observations with the sum ``s``, and the variance of an observation."""
    if not isinstance(prior, tf.distributions.Normal):
        raise TypeError(
            "Expected prior to be an instance of type Normal\n"
            + errors.message(
                f"a prior of type {type(prior).__name__}", "a normal one", "tf.distributions.Normal(0., 1.)"
            )
        )
    if s.dtype != prior.dtype:
        raise TypeError(
            f"Observation sum s.dtype does not match prior dtype: {s.dtype} vs. {prior.dtype}\n"
            + errors.message(f"s of {s.dtype.name}", f"a sum of {prior.dtype.name}", "tf.cast(s, prior.dtype)")
        )
    n = tf.cast(n, prior.dtype)
    before, noise = tf.square(prior.scale), tf.square(scale)
    variance = 1.0 / (1 / before + n / noise)
    return (prior.loc / before + s / noise) * variance, variance, noise


@public("contrib.distributions.normal_conjugates_known_scale_posterior")
def normal_conjugates_known_scale_posterior(prior: Any, scale: Any, s: Any, n: Any) -> Any:
    """The distribution of a normal mean after observations.

    Args:
        prior: the normal distribution of the mean before.
        scale: the standard deviation of observations.
        s: their sum.
        n: their number.
    """
    mean, variance, _ = _posterior(prior, scale, s, n)
    return tf.distributions.Normal(loc=mean, scale=tf.sqrt(variance))


@public("contrib.distributions.normal_conjugates_known_scale_predictive")
def normal_conjugates_known_scale_predictive(prior: Any, scale: Any, s: Any, n: Any) -> Any:
    """The distribution of the next observation after others; arguments as for the posterior."""
    mean, variance, noise = _posterior(prior, scale, s, n)
    return tf.distributions.Normal(loc=mean, scale=tf.sqrt(variance + noise))
