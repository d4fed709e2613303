"""Regularizers, initializers and collections of outputs."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.ops.control.public_cond import smart_constant_value

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


@public("contrib.layers.variance_scaling_initializer")
def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None, dtype: Any = tf.float32
) -> Callable[..., Tensor]:
    """An initializer with variance ``factor / n``, n being the number of inputs, of outputs, or their mean.

    Args:
        factor: 2 for rectified units (He et al., 2015), 1 for linear ones.
        mode: ``FAN_IN``, ``FAN_OUT`` or ``FAN_AVG``.
        uniform: draw from a uniform distribution, not a truncated normal one.
        seed: seed of the op.
        dtype: a floating dtype.
    """
    if not dtypes.as_dtype(dtype).is_floating or mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(
            "Cannot create initializer for non-floating point type, or Unknown mode\n"
            + errors.message(f"dtype={dtype}, mode={mode!r}", "floats; FAN_IN, FAN_OUT or FAN_AVG", "mode='FAN_AVG'")
        )

    def initializer(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Tensor:
        sizes = [float(size) for size in (shape if partition_info is None else partition_info.full_shape)]
        field = math.prod(sizes[:-2])
        fan_in = (sizes[-2] if len(sizes) > 1 else sizes[-1] if sizes else 1.0) * field
        fan_out = (sizes[-1] if sizes else 1.0) * field
        n = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            drawn: Tensor = tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        else:  # cutting at two deviations takes off about a quarter of the variance
            drawn = tf.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / n), dtype, seed=seed)
        return drawn

    return initializer


@public("contrib.layers.xavier_initializer", "contrib.layers.xavier_initializer_conv2d")
def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32) -> Callable[..., Tensor]:
    """Glorot and Bengio's initializer (2010): variance ``2 / (inputs + outputs)``."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


@public("contrib.layers.utils.collect_named_outputs")
def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """The outputs, added to collections under a further name of theirs."""
    if collections:
        append_tensor_alias(outputs, alias)
        for name in [collections] if isinstance(collections, str) else collections:
            tf.add_to_collection(name, outputs)
    return outputs


@public("contrib.layers.utils.append_tensor_alias")
def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """The tensor, with a further name."""
    tensor.aliases = [*getattr(tensor, "aliases", []), alias.rstrip("/")]
    return tensor


@public("contrib.layers.utils.get_tensor_aliases")
def get_tensor_aliases(tensor: Any) -> list[str]:
    """The further names of a tensor; the name of its operation if it has none."""
    aliases = getattr(tensor, "aliases", None)
    return list(aliases) if aliases else [tensor.op.name]


@public("contrib.layers.utils.gather_tensors_aliases")
def gather_tensors_aliases(tensors: Sequence[Any]) -> list[str]:
    """The further names of several tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


@public("contrib.layers.utils.convert_collection_to_dict")
def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
    """The tensors of a collection by alias."""
    by_alias: dict[str, Any] = {}
    for item in tf.get_collection(collection):
        for alias in get_tensor_aliases(item):
            by_alias[alias] = item
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return by_alias


@public("contrib.layers.utils.get_variable_collections")
def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """Collections of one variable: those in a dictionary under its name, or all."""
    return variables_collections.get(name) if isinstance(variables_collections, dict) else variables_collections


@public("contrib.layers.utils.static_cond")
def static_cond(pred: bool, fn1: Callable[[], Any], fn2: Callable[[], Any]) -> Any:
    """What the first function gives if the condition holds, else what the second does."""
    if not callable(fn1) or not callable(fn2):
        raise TypeError(
            errors.message("what cannot be called", "two functions", "static_cond(pred, lambda: x, lambda: y)")
        )
    return fn1() if pred else fn2()


@public("contrib.layers.utils.constant_value")
def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """A Python value, or the value of a tensor that is known without running anything; None otherwise.

    Raises:
        ValueError: there is None, or a tensor of another dtype than ``dtype``.
    """
    value = value_or_tensor_or_var
    if value is None:
        raise ValueError(
            "value_or_tensor_or_var cannot be None\n"
            + errors.message("None", "a value, tensor or variable", "constant_value(True)")
        )
    if not isinstance(value, (Tensor, tf.Variable)):
        return value
    if dtype is not None and value.dtype.base_dtype != dtype:
        raise ValueError(
            f"It has the wrong type {value.dtype} instead of {dtype}\n"
            + errors.message(f"a tensor of {value.dtype}", f"a tensor of {dtype}", "tf.cast(x, dtype)")
        )
    return tf.contrib.util.constant_value(value) if isinstance(value, Tensor) else None


@public("contrib.layers.utils.smart_cond")
def smart_cond(pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any], name: str | None = None) -> Any:
    """What one of two functions makes, called at once if the condition is known; ``tf.cond`` otherwise."""
    known = constant_value(pred, tf.bool) if isinstance(pred, Tensor) else smart_constant_value(pred)
    return tf.cond(pred, fn1, fn2, name=name) if known is None else static_cond(bool(known), fn1, fn2)


@public("contrib.layers.utils.n_positive_integers")
def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """``n`` positive integers from one or from ``n``.

    Raises:
        ValueError: they are not integers, not positive or not ``n``.
    """
    given = (value,) * n if isinstance(value, numbers.Integral) else value
    try:
        integers = tuple(int(item) for item in given)
    except (TypeError, ValueError):
        integers = ()
    if len(integers) != n or any(item < 1 for item in integers):
        raise ValueError(
            f"Must be a list of {n} positive integers or a positive integer: {value}\n"
            + errors.message(f"{value!r}", f"{n} positive integers, or one", "a number such as 1")
        )
    return integers


@public("contrib.layers.utils.two_element_tuple")
def two_element_tuple(int_or_tuple: Any) -> tuple[int, ...]:
    """Two positive integers from one, two, or a TensorShape of two sizes."""
    given = int_or_tuple.as_list() if isinstance(int_or_tuple, tf.TensorShape) else int_or_tuple
    return n_positive_integers(2, given)


@public("contrib.layers.utils.channel_dimension")
def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int:
    """The number of channels of a shape.

    Raises:
        ValueError: the rank is not known or less than ``min_rank``, or the channels are not known.
    """
    return _known_size(shape, 1 if data_format.startswith("NC") else -1, min_rank)


@public("contrib.layers.utils.last_dimension")
def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """The last size of a shape.

    Raises:
        ValueError: the rank is not known or less than ``min_rank``, or the size is not known.
    """
    return _known_size(shape, -1, min_rank)


def _known_size(shape: Any, axis: int, min_rank: int) -> int:
    shape = tf.TensorShape(shape)
    if shape.ndims is None or shape.ndims < min_rank or shape.as_list()[axis] is None:
        raise ValueError(
            f"rank of shape must be at least {min_rank} and the size known: {shape}\n"
            + errors.message(
                f"a tensor of shape {shape}",
                f"a tensor of rank {min_rank} or more whose size {axis} is known",
                "x.set_shape([None, n])",
            )
        )
    return int(shape.as_list()[axis])
