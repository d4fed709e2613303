"""``tf.contrib.nn``: activations, and losses in the order of arguments that ``tf.nn`` had before."""

from __future__ import annotations

import numbers
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public

_DROPPED = -1.7580993408473766
"""What SELU tends to for small inputs: -scale * alpha of Klambauer et al. (2017)."""


@public("contrib.nn.alpha_dropout")
def alpha_dropout(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None
) -> Any:
    """Dropout for SELU (Klambauer et al., 2017): mean and variance of standard inputs stay as they are.

    Args:
        x: a tensor.
        keep_prob: the probability that an element is kept.
        noise_shape: shape of what is drawn, which is broadcast; ``x``'s if None.
        seed: of the random op.
        name: of the operations.

    Raises:
        ValueError: ``keep_prob`` is not in (0, 1].
    """
    if isinstance(keep_prob, numbers.Real) and not 0 < float(keep_prob) <= 1:
        raise ValueError(
            f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep_prob:g}\n"
            + errors.message(f"keep_prob={keep_prob}", "a probability above zero", "keep_prob=0.9")
        )
    with tf.name_scope(name, "alpha_dropout", [x]):
        x = tf.convert_to_tensor(x, name="x")
        keep_prob = tf.convert_to_tensor(keep_prob, dtype=x.dtype, name="keep_prob")
        keep_prob.get_shape().assert_has_rank(0)
        if tf.get_static_value(keep_prob) == 1:
            return x
        shape = tf.shape(x) if noise_shape is None else noise_shape
        kept = tf.cast(tf.random_uniform(shape, seed=seed, dtype=x.dtype) >= 1 - keep_prob, x.dtype)
        scale = (keep_prob + keep_prob * (1 - keep_prob) * _DROPPED**2) ** -0.5
        return scale * (x * kept + _DROPPED * (1 - kept)) - scale * _DROPPED * (1 - keep_prob)


@public("contrib.nn.scaled_softplus")
def scaled_softplus(x: Any, alpha: Any, clip: Any = None, name: str | None = None) -> Any:
    """``alpha * log(1 + exp(x / alpha))``, at most ``clip``.

    Args:
        x: a tensor.
        alpha: how smooth it is, above zero; it tends to ReLU for small ones.
        clip: an upper bound, or None.
        name: of the operations.
    """
    with tf.name_scope(name, "scaled_softplus", [x, alpha]):
        x = tf.convert_to_tensor(x, name="x")
        alpha = tf.convert_to_tensor(alpha, dtype=x.dtype, name="alpha")
        y = alpha * tf.nn.softplus(x / alpha)
        return y if clip is None else tf.minimum(y, tf.convert_to_tensor(clip, dtype=x.dtype, name="clip"))


@public("contrib.nn.deprecated_flipped_softmax_cross_entropy_with_logits")
def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> Any:
    """``tf.nn.softmax_cross_entropy_with_logits``, with the logits first."""
    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


@public("contrib.nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits")
def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> Any:
    """``tf.nn.sparse_softmax_cross_entropy_with_logits``, with the logits first."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


@public("contrib.nn.deprecated_flipped_sigmoid_cross_entropy_with_logits")
def deprecated_flipped_sigmoid_cross_entropy_with_logits(logits: Any, targets: Any, name: str | None = None) -> Any:
    """``tf.nn.sigmoid_cross_entropy_with_logits``, with the logits first."""
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)


@public("contrib.nn.fwd_gradients")
def fwd_gradients(ys: Any, xs: Any, grad_xs: Any = None, assert_unused: bool = False) -> list[Any]:
    """The change of each of ``ys`` where ``xs`` change in one direction, by the gradient of a gradient.

    The gradient of ``ys`` is linear in what it is multiplied by, so that its own gradient by that is the change
    forward (Townsend 2017, j-towns.github.io/2017/06/12/A-new-trick.html).

    Args:
        ys: tensors.
        xs: tensors.
        grad_xs: the direction, a tensor for each of ``xs``; ones if None.
        assert_unused: whether the step fails if a value on the way is computed.

    Returns:
        A tensor like each of ``ys``; None for one that ``xs`` do not reach.
    """
    factors = [tf.zeros_like(y) + float("nan") for y in ys]
    backward = [
        tf.zeros_like(x) if gradient is None else tf.convert_to_tensor(gradient)
        for x, gradient in zip(xs, tf.gradients(ys, xs, grad_ys=factors), strict=True)
    ]
    if assert_unused:
        with tf.control_dependencies(backward):
            unused = tf.Assert(False, ["a value that forward gradients do not need was computed"])
        with tf.control_dependencies([unused]):
            backward = tf.identity_n(backward)
    for x, gradient in zip(xs, backward, strict=True):
        gradient.set_shape(x.shape)
    return list(tf.gradients(backward, factors, grad_ys=grad_xs))


api.publish_as("contrib.nn.conv1d_transpose", tf.nn.conv1d_transpose)
__getattr__, __dir__ = api.module_attributes("contrib.nn")
