"""``tf.contrib.nn``: activations, and losses in the order of arguments that ``tf.nn`` had before."""

from __future__ import annotations

import numbers
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.ops.nn.public_sampled_losses import compute_sampled_logits

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


@public("contrib.nn.sampled_sparse_softmax_loss")
def sampled_sparse_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_sparse_softmax_loss",
) -> Any:
    """The softmax loss of one class for each example, among a sample of the others; for training alone.

    Args:
        weights: ``[num_classes, dim]``, or a list of parts of it.
        biases: ``[num_classes]``.
        labels: int64 ``[batch, 1]``.
        inputs: ``[batch, dim]``.
        num_sampled: how many classes are drawn for a batch.
        num_classes: how many there are.
        sampled_values: what a ``tf.nn.*_candidate_sampler`` gives; that of the log-uniform one if None.
        remove_accidental_hits: whether a drawn class that is an example's own is left out.
        partition_strategy: ``"mod"`` or ``"div"``: how rows lie in the parts.
        name: of the operations.

    Returns:
        ``[batch]``, the losses.
    """
    logits, _ = compute_sampled_logits(
        weights=weights,
        biases=biases,
        labels=labels,
        inputs=inputs,
        num_sampled=num_sampled,
        num_classes=num_classes,
        num_true=1,
        sampled_values=sampled_values,
        subtract_log_q=True,
        remove_accidental_hits=remove_accidental_hits,
        partition_strategy=partition_strategy,
        name=name,
    )
    first = tf.zeros([tf.shape(logits)[0]], tf.int64)  # where the logit of the example's own class stands
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=first, logits=logits)


@public("contrib.nn.rank_sampled_softmax_loss")
def rank_sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_resampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    resampling_temperature: Any,
    remove_accidental_hits: bool,
    partition_strategy: str,
    name: str | None = None,
) -> Any:
    """The softmax loss among those of a sample of classes that the batch takes for the likeliest (Bai et al., 2017).

    Args:
        weights: ``[num_classes, dim]``, or a list of parts of it.
        biases: ``[num_classes]``.
        labels: int64 ``[batch, num_true]``.
        inputs: ``[batch, dim]``.
        num_sampled: how many classes are drawn for a batch.
        num_resampled: how many of them are kept: those whose logits, exponentiated and summed over the batch, are
            largest.
        num_classes: how many there are.
        num_true: how many classes an example has.
        sampled_values: what a ``tf.nn.*_candidate_sampler`` gives; that of the learned one if None.
        resampling_temperature: a scalar: what logits are divided by for that.
        remove_accidental_hits: whether a class that is an example's own is left out.
        partition_strategy: ``"mod"`` or ``"div"``: how rows lie in the parts.
        name: of the operations.

    Returns:
        ``[batch]``, the losses.

    Raises:
        ValueError: more are kept than drawn, or drawn than there are; or another strategy.
    """
    for wrong, problem, instead in (
        (
            num_sampled > num_classes,
            f"num_sampled ({num_sampled}) cannot be greater than num_classes ({num_classes})",
            f"num_sampled={num_classes}",
        ),
        (
            num_sampled <= num_resampled,
            f"num_resampled ({num_resampled}) must be less than num_sampled ({num_sampled})",
            f"num_resampled={num_sampled - 1}",
        ),
        (
            partition_strategy not in ("div", "mod"),
            f"unsupported partition_strategy ({partition_strategy})",
            "partition_strategy='mod'",
        ),
    ):
        if wrong:
            raise ValueError(
                f"{problem}\n"
                + errors.message(problem, "num_resampled < num_sampled <= num_classes, and 'div' or 'mod'", instead)
            )
    with tf.name_scope(name, "rank_sampled_softmax_loss") as name:
        if not sampled_values:
            sampled_values = tf.nn.learned_unigram_candidate_sampler(
                labels, num_true, num_sampled, unique=True, range_max=num_classes
            )
        kept = _likeliest(
            weights, biases, inputs, sampled_values, num_resampled, resampling_temperature, partition_strategy
        )
        return tf.nn.sampled_softmax_loss(
            weights,
            biases,
            labels,
            inputs,
            num_resampled,
            num_classes,
            num_true=num_true,
            sampled_values=kept,
            remove_accidental_hits=remove_accidental_hits,
            partition_strategy=partition_strategy,
            name=name,
        )


def _likeliest(
    weights: Any, biases: Any, inputs: Any, sampled_values: Any, count: int, temperature: Any, strategy: str
) -> tuple[Any, Any, Any]:
    """The drawn classes that a batch takes for the likeliest, with how often classes are expected."""
    drawn, expected, drawn_expected = (tf.stop_gradient(value) for value in sampled_values)
    drawn = tf.cast(drawn, tf.int64)
    rows = tf.nn.embedding_lookup(weights, drawn, partition_strategy=strategy)
    logits = tf.reduce_logsumexp(tf.matmul(rows, inputs / temperature, transpose_b=True), 1)
    logits += tf.reshape(tf.nn.embedding_lookup(biases, drawn, partition_strategy=strategy), [-1]) / temperature
    _, kept = tf.nn.top_k(logits, count, sorted=False)
    return tf.gather(drawn, kept), expected, tf.gather(drawn_expected, kept)


api.publish_as("contrib.nn.conv1d_transpose", tf.nn.conv1d_transpose)
__getattr__, __dir__ = api.module_attributes("contrib.nn")
