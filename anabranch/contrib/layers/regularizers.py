"""Penalties on weights: L1, L2, both, and sums of them."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor

Regularizer = Callable[[Any], Any]


def _checked_scale(scale: Any) -> None:
    if isinstance(scale, numbers.Integral) or (isinstance(scale, numbers.Real) and scale < 0):
        raise ValueError(
            f"Setting a scale that is an integer or less than 0 on a regularizer: {scale}\n"
            + errors.message(f"scale={scale!r}", "a float of at least 0", "scale=1e-4")
        )


def _scaled(scale: Any, scope: str | None, name: str, measure: Callable[[Any], Any]) -> Regularizer:
    _checked_scale(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return lambda _: None

    def regularizer(weights: Any) -> Tensor:
        with tf.name_scope(scope, name, [weights]) as within:
            weights = tf.convert_to_tensor(weights)
            factor = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            penalty: Tensor = tf.multiply(factor, measure(weights), name=within)
            return penalty

    return regularizer


@public("contrib.layers.l1_regularizer")
def l1_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """A function that gives ``scale * sum(|weights|)``; None for a scale of 0."""
    return _scaled(scale, scope, "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


@public("contrib.layers.l2_regularizer")
def l2_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """A function that gives ``scale * sum(weights ** 2) / 2``; None for a scale of 0."""
    return _scaled(scale, scope, "l2_regularizer", tf.nn.l2_loss)


@public("contrib.layers.sum_regularizer")
def sum_regularizer(regularizer_list: Sequence[Any], scope: str | None = None) -> Regularizer | None:
    """A function that gives the sum of several regularizers; None if there are none."""
    regularizers = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not regularizers:
        return None

    def regularizer(weights: Any) -> Any:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as within:
            penalties = [value for value in (each(weights) for each in regularizers) if value is not None]
            return tf.add_n(penalties, name=within) if penalties else None

    return regularizer


@public("contrib.layers.l1_l2_regularizer")
def l1_l2_regularizer(scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: str | None = None) -> Regularizer | None:
    """The sum of :func:`l1_regularizer` and :func:`l2_regularizer`."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope or "l1_l2_regularizer")


@public("contrib.layers.apply_regularization")
def apply_regularization(regularizer: Regularizer, weights_list: Sequence[Any] | None = None) -> Tensor:
    """Sum of a regularizer over weights (collection WEIGHTS if None), added to the regularization losses."""
    weights = tf.get_collection(tf.GraphKeys.WEIGHTS) if weights_list is None else weights_list
    penalties = [value for value in (regularizer(each) for each in weights) if value is not None]
    total: Tensor = tf.add_n(penalties) if penalties else tf.constant(0.0)
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, total)
    return total
