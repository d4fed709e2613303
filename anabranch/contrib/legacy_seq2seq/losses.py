"""Losses over lists of steps, and models over buckets: pairs of lengths to which sequences are padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public

Loss = Callable[..., Any]


@public("contrib.legacy_seq2seq.sequence_loss_by_example")
def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: Loss | None = None,
    name: str | None = None,
) -> Any:
    """Weighted cross entropy of each sequence, ``[batch]``; the logarithm of its perplexity if it is an average.

    Args:
        logits: ``[batch, symbols]`` for each step.
        targets: int32 ``[batch]`` for each step.
        weights: float ``[batch]`` for each step, zero for padding.
        average_across_timesteps: divide by the sum of the weights.
        softmax_loss_function: ``f(labels=, logits=)`` in place of the full softmax, such as a sampled one.
        name: name of the operations.

    Raises:
        ValueError: the lists differ in length.
    """
    if not len(targets) == len(logits) == len(weights):
        raise ValueError(
            "Lengths of logits, weights, and targets must be the same "
            f"{len(logits)}, {len(weights)}, {len(targets)}.\n"
            + errors.message("lists of other lengths", "one entry for each step in each", "cut or pad them")
        )
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        parts = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                flat = tf.reshape(target, [-1])
                entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=logit)
            else:
                entropy = softmax_loss_function(labels=target, logits=logit)
            parts.append(entropy * weight)
        total = tf.add_n(parts)
        if average_across_timesteps:
            total /= tf.add_n([tf.convert_to_tensor(weight) for weight in weights]) + 1e-12
        return total


@public("contrib.legacy_seq2seq.sequence_loss")
def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Loss | None = None,
    name: str | None = None,
) -> Any:
    """Weighted cross entropy of all sequences, a scalar.

    Args:
        logits: ``[batch, symbols]`` for each step.
        targets: int32 ``[batch]`` for each step.
        weights: float ``[batch]`` for each step, zero for padding.
        average_across_timesteps: divide each sequence's by the sum of its weights.
        average_across_batch: divide by the number of sequences.
        softmax_loss_function: ``f(labels=, logits=)`` in place of the full softmax.
        name: name of the operations.
    """
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost = tf.reduce_sum(
            sequence_loss_by_example(
                logits,
                targets,
                weights,
                average_across_timesteps=average_across_timesteps,
                softmax_loss_function=softmax_loss_function,
            )
        )
        return cost / tf.cast(tf.shape(targets[0])[0], cost.dtype) if average_across_batch else cost


@public("contrib.legacy_seq2seq.model_with_buckets")
def model_with_buckets(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Any, Any], tuple[list[Any], Any]],
    softmax_loss_function: Loss | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[Any], list[Any]]:
    """A model for each bucket of lengths, all with the same variables.

    Args:
        encoder_inputs: int32 ``[batch]`` for each step of the encoder, as many as the last bucket has.
        decoder_inputs: the same for the decoder.
        targets: the same for what the decoder should write.
        weights: float ``[batch]`` for each of the decoder's steps, zero for padding.
        buckets: ``(steps of the encoder, steps of the decoder)``, the longest last.
        seq2seq: the model, a function of encoder and decoder inputs that gives ``(outputs, state)``.
        softmax_loss_function: ``f(labels=, logits=)`` in place of the full softmax.
        per_example_loss: give the loss of each sequence, ``[batch]``, not a scalar.
        name: name of the operations.

    Returns:
        ``(outputs, losses)``: for each bucket a list of outputs, and a loss.

    Raises:
        ValueError: a list is shorter than the last bucket.
    """
    for argument, given, needed in (
        ("encoder_inputs", encoder_inputs, buckets[-1][0]),
        ("targets", targets, buckets[-1][1]),
        ("weights", weights, buckets[-1][1]),
    ):
        if len(given) < needed:
            raise ValueError(
                f"Length of {argument} ({len(given)}) must be at least that of last bucket ({needed}).\n"
                + errors.message(f"{len(given)} {argument}", f"{needed} or more", "a placeholder for each step")
            )
    loss_of = sequence_loss_by_example if per_example_loss else sequence_loss
    losses, outputs = [], []
    with tf.name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for number, (read, written) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if number > 0 else None):
                outputs_of_bucket, _ = seq2seq(encoder_inputs[:read], decoder_inputs[:written])
                outputs.append(outputs_of_bucket)
                losses.append(
                    loss_of(
                        outputs_of_bucket,
                        targets[:written],
                        weights[:written],
                        softmax_loss_function=softmax_loss_function,
                    )
                )
    return outputs, losses
