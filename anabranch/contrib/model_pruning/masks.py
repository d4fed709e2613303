"""Masks over weights, and the collections in which a graph lists them."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public

# Names of the collections; each has one entry for a mask, in the same order.
MASK_COLLECTION, THRESHOLD_COLLECTION, MASKED_WEIGHT_COLLECTION = "masks", "thresholds", "masked_weights"
WEIGHT_COLLECTION = "kernel"
MASKED_WEIGHT_NAME = "weights/masked_weight"  # rewriters of graphs look for this name


def masked(weights: Any, mask: Any, threshold: Any) -> Any:
    """The product of weights and their mask, entered in the collections unless the mask is there."""
    product = tf.multiply(mask, weights, MASKED_WEIGHT_NAME)
    if not any(mask is other for other in tf.get_collection(MASK_COLLECTION)):
        for collection, value in (
            (THRESHOLD_COLLECTION, threshold),
            (MASK_COLLECTION, mask),
            (MASKED_WEIGHT_COLLECTION, product),
            (WEIGHT_COLLECTION, weights),
        ):
            tf.add_to_collection(collection, value)
    return product


@public("contrib.model_pruning.apply_mask")
def apply_mask(x: Any, scope: Any = "") -> Any:
    """Put a mask over weights.

    Args:
        x: the weights, a variable.
        scope: where the variables ``mask``, of the shape of ``x``, and ``threshold``, a scalar, are; a name or a
            ``tf.VariableScope``.

    Returns:
        The product of the mask and the weights, to compute with in their place.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     weights = tf.Variable([[3.0, -1.0], [0.5, 2.0]])
    ...     product = tf.contrib.model_pruning.apply_mask(weights)
    ...     update = tf.contrib.model_pruning.Pruning(global_step=tf.constant(0), sparsity=tf.constant(0.5))
    ...     move = update.mask_update_op()
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(move)
    ...     print(session.run(product))
    [[ 3. -0.]
     [ 0.  2.]]
    """
    with tf.variable_scope(scope):
        mask = tf.get_variable(
            "mask", x.get_shape(), initializer=tf.ones_initializer(), trainable=False, dtype=x.dtype.base_dtype
        )
        threshold = tf.get_variable(
            "threshold", [], initializer=tf.zeros_initializer(), trainable=False, dtype=x.dtype.base_dtype
        )
    return masked(x, mask, threshold)


@public("contrib.model_pruning.get_masks")
def get_masks() -> list[Any]:
    """Masks of the default graph."""
    return tf.get_collection(MASK_COLLECTION)


@public("contrib.model_pruning.get_thresholds")
def get_thresholds() -> list[Any]:
    """Thresholds of the masks: weights below have been masked."""
    return tf.get_collection(THRESHOLD_COLLECTION)


@public("contrib.model_pruning.get_weights")
def get_weights() -> list[Any]:
    """Weights under the masks."""
    return tf.get_collection(WEIGHT_COLLECTION)


@public("contrib.model_pruning.get_masked_weights")
def get_masked_weights() -> list[Any]:
    """Products of weights and masks."""
    return tf.get_collection(MASKED_WEIGHT_COLLECTION)


@public("contrib.model_pruning.get_weight_sparsity")
def get_weight_sparsity() -> list[Any]:
    """Scalar tensors: what share of each mask is zero."""
    return [tf.nn.zero_fraction(mask) for mask in get_masks()]
