"""``tensorflow.python.ops.distributions.special_math``: distribution functions of the normal and Laplace distributions.

And what ``kullback_leibler`` there keeps to itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.distributions import base, unbounded

_DIVERGENCES = base._divergences
_registered_kl = base.divergence_of

LOGNDTR_FLOAT64_LOWER, LOGNDTR_FLOAT64_UPPER = np.array(-20, np.float64), np.array(8, np.float64)
LOGNDTR_FLOAT32_LOWER, LOGNDTR_FLOAT32_UPPER = np.array(-10, np.float32), np.array(5, np.float32)


def _real(x: Any) -> Any:
    x = tf.convert_to_tensor(x, name="x")
    if x.dtype.base_dtype not in (tf.float32, tf.float64):
        raise TypeError(
            f"x.dtype={x.dtype} is not handled, see docstring for supported types.\n"
            + errors.message(f"values of {x.dtype.name}", "float32 or float64", "tf.cast(x, tf.float32)")
        )
    return x


def ndtr(x: Any, name: str = "ndtr") -> Any:
    """The normal distribution's function at ``x``, of float32 or float64."""
    with tf.name_scope(name, values=[x]):
        return unbounded.normal_cdf(_real(x))


def ndtri(p: Any, name: str = "ndtri") -> Any:
    """The inverse of :func:`ndtr`; its gradient is 0 at 0 and 1 and beyond, where there is none."""
    with tf.name_scope(name, values=[p]):
        return unbounded.normal_quantile(_real(p))


def log_ndtr(x: Any, series_order: int = 3, name: str = "log_ndtr") -> Any:
    """The logarithm of :func:`ndtr`, also where it vanishes.

    Args:
        x: the values.
        series_order: how many terms of the asymptotic series to use; 3 are.

    Raises:
        ValueError: ``series_order`` is negative or above 30. TypeError: it is not an integer.
    """
    if not isinstance(series_order, int):
        raise TypeError(f"series_order must be a Python integer.\n{_order(series_order)}")
    if series_order < 0:
        raise ValueError(f"series_order must be non-negative.\n{_order(series_order)}")
    if series_order > 30:
        raise ValueError(f"series_order must be <= 30.\n{_order(series_order)}")
    if series_order != 3:
        raise NotImplementedError(_order(series_order))
    with tf.name_scope(name, values=[x]):
        return unbounded.log_normal_cdf(_real(x))


def _order(given: Any) -> str:
    return errors.message(f"series_order={given!r}", "3", "leave it out")


def erfinv(x: Any, name: str = "erfinv") -> Any:
    """The inverse of the error function."""
    with tf.name_scope(name, values=[x]):
        return tf.math.erfinv(_real(x))


def log_cdf_laplace(x: Any, name: str = "log_cdf_laplace") -> Any:
    """The logarithm of the distribution function of Laplace's distribution with location 0 and scale 1."""
    with tf.name_scope(name, values=[x]):
        return unbounded.log_laplace_cdf(_real(x))


def cross_entropy(ref: Any, other: Any, allow_nan_stats: bool = True, name: str | None = None) -> Any:
    """The cross entropy of two distributions, in nats."""
    with tf.name_scope(name, "cross_entropy"):
        return ref.entropy() + base.kl_divergence(ref, other, allow_nan_stats=allow_nan_stats)
