"""Losses of adversarial networks, from the outputs of the discriminator: ``tf.contrib.gan.losses.wargs``.

:mod:`anabranch.contrib.gan.model_losses` has the same losses for models. All take weights of each example, add what
they give to a collection, and make summaries if they are asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.gan.models import check_distributions
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor

_HOME = "contrib.gan.losses.wargs."
_LOSSES = tf.GraphKeys.LOSSES
_MEAN = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS


def _summarize(wanted: bool, **values: Any) -> None:
    if wanted:
        for name, value in values.items():
            tf.summary.scalar(name, value)


def _sum_of(of_real: Tensor, of_generated: Tensor, kind: str, collection: Any, wanted: bool) -> Tensor:
    """The discriminator's loss of its two parts, collected and summarized."""
    loss: Tensor = tf.add(of_real, of_generated)
    tf.losses.add_loss(loss, collection)
    _summarize(
        wanted,
        **{
            f"discriminator_gen_{kind}_loss": of_generated,
            f"discriminator_real_{kind}_loss": of_real,
            f"discriminator_{kind}_loss": loss,
        },
    )
    return loss


@public(_HOME + "wasserstein_generator_loss")
def wasserstein_generator_loss(
    discriminator_gen_outputs: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """What a generator pays for low scores (Arjovsky et al., 2017): their negative mean.

    Args:
        discriminator_gen_outputs: scores of generated data, ``[batch, ...]``.
        weights: a scalar, or what broadcasts to the scores.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.contrib.gan.losses.wargs.wasserstein_generator_loss([1.0, 3.0])))
    -2.0
    """
    with tf.name_scope(scope, "generator_wasserstein_loss", [discriminator_gen_outputs, weights]) as scope:
        scores = tf.to_float(discriminator_gen_outputs)
        loss = tf.losses.compute_weighted_loss(-scores, weights, scope, loss_collection, reduction)
        _summarize(add_summaries, generator_wass_loss=loss)
    return loss


@public(_HOME + "wasserstein_discriminator_loss")
def wasserstein_discriminator_loss(
    discriminator_real_outputs: Any,
    discriminator_gen_outputs: Any,
    real_weights: Any = 1.0,
    generated_weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """The mean score of generated data less that of real data (Arjovsky et al., 2017).

    Args:
        discriminator_real_outputs: scores of real data, ``[batch, ...]``.
        discriminator_gen_outputs: scores of generated data, of the same shape.
        real_weights: a scalar, or what broadcasts to the scores.
        generated_weights: likewise.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.

    Raises:
        ValueError: the shapes differ.
    """
    values = [discriminator_real_outputs, discriminator_gen_outputs, real_weights, generated_weights]
    with tf.name_scope(scope, "discriminator_wasserstein_loss", values) as scope:
        real, generated = tf.to_float(discriminator_real_outputs), tf.to_float(discriminator_gen_outputs)
        real.shape.assert_is_compatible_with(generated.shape)
        of_generated = tf.losses.compute_weighted_loss(generated, generated_weights, scope, None, reduction)
        of_real = tf.losses.compute_weighted_loss(real, real_weights, scope, None, reduction)
        loss = of_generated - of_real
        tf.losses.add_loss(loss, loss_collection)
        _summarize(
            add_summaries,
            discriminator_gen_wass_loss=of_generated,
            discriminator_real_wass_loss=of_real,
            discriminator_wass_loss=loss,
        )
    return loss


@public(_HOME + "acgan_discriminator_loss")
def acgan_discriminator_loss(
    discriminator_real_classification_logits: Any,
    discriminator_gen_classification_logits: Any,
    one_hot_labels: Any,
    label_smoothing: float = 0.0,
    real_weights: Any = 1.0,
    generated_weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """How badly a discriminator classifies real and generated data (Odena et al., 2016): two cross entropies.

    Args:
        discriminator_real_classification_logits: ``[batch, classes]``.
        discriminator_gen_classification_logits: ``[batch, classes]``.
        one_hot_labels: ``[batch, classes]``.
        label_smoothing: how far labels of real data are moved towards equal shares, 0 to 1.
        real_weights: a scalar or ``[batch]``.
        generated_weights: a scalar or ``[batch]``.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.
    """
    real, generated = discriminator_real_classification_logits, discriminator_gen_classification_logits
    with tf.name_scope(scope, "acgan_discriminator_loss", [real, generated, one_hot_labels]) as scope:
        entropy = tf.losses.softmax_cross_entropy
        of_generated = entropy(one_hot_labels, generated, generated_weights, 0, scope, None, reduction)
        of_real = entropy(one_hot_labels, real, real_weights, label_smoothing, scope, None, reduction)
        return _sum_of(of_real, of_generated, "ac", loss_collection, add_summaries)


@public(_HOME + "acgan_generator_loss")
def acgan_generator_loss(
    discriminator_gen_classification_logits: Any,
    one_hot_labels: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """How badly generated data can be classified (Odena et al., 2016).

    Args:
        discriminator_gen_classification_logits: ``[batch, classes]``.
        one_hot_labels: ``[batch, classes]``.
        weights: a scalar or ``[batch]``.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.
    """
    logits = discriminator_gen_classification_logits
    with tf.name_scope(scope, "acgan_generator_loss", [logits, one_hot_labels]) as scope:
        loss = tf.losses.softmax_cross_entropy(
            one_hot_labels, logits, weights, scope=scope, loss_collection=loss_collection, reduction=reduction
        )
        _summarize(add_summaries, generator_ac_loss=loss)
    return loss


@public(_HOME + "wasserstein_gradient_penalty")
def wasserstein_gradient_penalty(
    real_data: Any,
    generated_data: Any,
    generator_inputs: Any,
    discriminator_fn: Callable[..., Any],
    discriminator_scope: Any,
    epsilon: float = 1e-10,
    target: Any = 1.0,
    one_sided: bool = False,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """How far the slope of a discriminator is from 1 between real and generated data (Gulrajani et al., 2017).

    Args:
        real_data: ``[batch, ...]``.
        generated_data: ``[batch, ...]``.
        generator_inputs: what the discriminator is given beside the data.
        discriminator_fn: function from data and ``generator_inputs`` to scores; of several outputs the first counts.
        discriminator_scope: variable scope of the discriminator.
        epsilon: is added to the squared slope.
        target: the slope that is wanted.
        one_sided: smaller slopes cost nothing (Petzka et al., 2017).
        weights: a scalar or ``[batch]``.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.

    Raises:
        ValueError: the rank of the data is unknown.
    """
    with tf.name_scope(scope, "wasserstein_gradient_penalty", [real_data, generated_data]) as scope:
        real, generated = tf.convert_to_tensor(real_data), tf.convert_to_tensor(generated_data)
        for name, data in (("real_data", real), ("generated_data", generated)):
            if data.shape.ndims is None:
                raise ValueError(
                    f"`{name}` can't have unknown rank.\n"
                    + errors.message(
                        f"{name} of unknown rank", "data [batch, ...]", "data.set_shape([None, 28, 28, 1])"
                    )
                )
        between = generated - real
        batch = between.shape[0].value or tf.shape(between)[0]
        share = tf.random_uniform([batch] + [1] * (between.shape.ndims - 1))
        mixed = real + share * between
        with (
            tf.name_scope(None),  # updates of the discriminator are collected under its own name
            tf.variable_scope(discriminator_scope, "gpenalty_dscope", reuse=tf.AUTO_REUSE),
        ):
            scores = discriminator_fn(mixed, generator_inputs)
        if isinstance(scores, tuple):
            scores = scores[0]
        (slopes,) = tf.gradients(scores, mixed)
        squares = tf.reduce_sum(tf.square(slopes), list(range(1, slopes.shape.ndims)))
        excess = tf.sqrt(squares + epsilon) / target - 1.0
        if one_sided:
            excess = tf.maximum(0.0, excess)
        penalty = tf.losses.compute_weighted_loss(tf.square(excess), weights, scope, loss_collection, reduction)
        _summarize(add_summaries, gradient_penalty_loss=penalty)
    return penalty


@public(_HOME + "minimax_discriminator_loss")
def minimax_discriminator_loss(
    discriminator_real_outputs: Any,
    discriminator_gen_outputs: Any,
    label_smoothing: float = 0.25,
    real_weights: Any = 1.0,
    generated_weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """The first loss of a discriminator (Goodfellow et al., 2014): ``-log D(real) - log(1 - D(generated))``.

    Args:
        discriminator_real_outputs: logits of real data, ``[batch, ...]``.
        discriminator_gen_outputs: logits of generated data.
        label_smoothing: how far labels of real data are moved from 1 towards a half, 0 to 1.
        real_weights: a scalar, or what broadcasts to the logits.
        generated_weights: likewise.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.
    """
    real, generated = discriminator_real_outputs, discriminator_gen_outputs
    values = [real, generated, real_weights, generated_weights, label_smoothing]
    with tf.name_scope(scope, "discriminator_minimax_loss", values) as scope:
        entropy = tf.losses.sigmoid_cross_entropy
        of_real = entropy(tf.ones_like(real), real, real_weights, label_smoothing, scope, None, reduction)
        of_generated = entropy(tf.zeros_like(generated), generated, generated_weights, 0, scope, None, reduction)
        return _sum_of(of_real, of_generated, "minimax", loss_collection, add_summaries)


@public(_HOME + "minimax_generator_loss")
def minimax_generator_loss(
    discriminator_gen_outputs: Any,
    label_smoothing: float = 0.0,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """The first loss of a generator (Goodfellow et al., 2014): the discriminator's, negated.

    Args:
        discriminator_gen_outputs: logits of generated data, ``[batch, ...]``.
        label_smoothing: how far labels are moved from 1 towards a half, 0 to 1.
        weights: a scalar, or what broadcasts to the logits.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.
    """
    logits = discriminator_gen_outputs
    with tf.name_scope(scope, "generator_minimax_loss") as scope:
        loss: Tensor = tf.negative(
            minimax_discriminator_loss(
                tf.ones_like(logits), logits, label_smoothing, weights, weights, scope, loss_collection, reduction
            )
        )
    _summarize(add_summaries, generator_minimax_loss=loss)
    return loss


@public(_HOME + "modified_discriminator_loss")
def modified_discriminator_loss(
    discriminator_real_outputs: Any,
    discriminator_gen_outputs: Any,
    label_smoothing: float = 0.25,
    real_weights: Any = 1.0,
    generated_weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """The loss of a discriminator beside :func:`modified_generator_loss`: :func:`minimax_discriminator_loss`."""
    return minimax_discriminator_loss(
        discriminator_real_outputs,
        discriminator_gen_outputs,
        label_smoothing,
        real_weights,
        generated_weights,
        scope or "discriminator_modified_loss",
        loss_collection,
        reduction,
        add_summaries,
    )


@public(_HOME + "modified_generator_loss")
def modified_generator_loss(
    discriminator_gen_outputs: Any,
    label_smoothing: float = 0.0,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """The loss of a generator that does not vanish when it is bad (Goodfellow et al., 2014): ``-log D(generated)``.

    Args:
        discriminator_gen_outputs: logits of generated data, ``[batch, ...]``.
        label_smoothing: how far labels are moved from 1 towards a half, 0 to 1.
        weights: a scalar, or what broadcasts to the logits.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.
    """
    logits = discriminator_gen_outputs
    with tf.name_scope(scope, "generator_modified_loss", [logits]) as scope:
        loss = tf.losses.sigmoid_cross_entropy(
            tf.ones_like(logits), logits, weights, label_smoothing, scope, loss_collection, reduction
        )
        _summarize(add_summaries, generator_modified_loss=loss)
    return loss


def _half_square(scores: Any, label: Any) -> Any:
    return tf.squared_difference(scores, label) / 2.0


@public(_HOME + "least_squares_generator_loss")
def least_squares_generator_loss(
    discriminator_gen_outputs: Any,
    real_label: Any = 1,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """Half the squared distance of scores from the label of real data (Mao et al., 2016).

    Args:
        discriminator_gen_outputs: scores of generated data, ``[batch, ...]``.
        real_label: the label of real data.
        weights: a scalar, or what broadcasts to the scores.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.
    """
    with tf.name_scope(scope, "lsq_generator_loss", [discriminator_gen_outputs, real_label]) as scope:
        distances = _half_square(tf.to_float(discriminator_gen_outputs), real_label)
        loss = tf.losses.compute_weighted_loss(distances, weights, scope, loss_collection, reduction)
    _summarize(add_summaries, generator_lsq_loss=loss)
    return loss


@public(_HOME + "least_squares_discriminator_loss")
def least_squares_discriminator_loss(
    discriminator_real_outputs: Any,
    discriminator_gen_outputs: Any,
    real_label: Any = 1,
    fake_label: Any = 0,
    real_weights: Any = 1.0,
    generated_weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """Half the squared distances of scores from two labels (Mao et al., 2016).

    Args:
        discriminator_real_outputs: scores of real data, ``[batch, ...]``.
        discriminator_gen_outputs: scores of generated data, of the same shape.
        real_label: the label of real data.
        fake_label: the label of generated data.
        real_weights: a scalar, or what broadcasts to the scores.
        generated_weights: likewise.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.

    Raises:
        ValueError: the shapes differ.
    """
    with tf.name_scope(scope, "lsq_discriminator_loss", [discriminator_gen_outputs, real_label]) as scope:
        real, generated = tf.to_float(discriminator_real_outputs), tf.to_float(discriminator_gen_outputs)
        real.shape.assert_is_compatible_with(generated.shape)
        weighted = tf.losses.compute_weighted_loss
        of_real = weighted(_half_square(real, real_label), real_weights, scope, None, reduction)
        of_generated = weighted(_half_square(generated, fake_label), generated_weights, scope, None, reduction)
        return _sum_of(of_real, of_generated, "lsq", loss_collection, add_summaries)


@public(_HOME + "mutual_information_penalty")
def mutual_information_penalty(
    structured_generator_inputs: Sequence[Any],
    predicted_distributions: Sequence[Any],
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: Any = _MEAN,
    add_summaries: bool = False,
) -> Tensor:
    """How little generated data tells about structured inputs (Chen et al., 2016).

    Args:
        structured_generator_inputs: list of tensors.
        predicted_distributions: a distribution for each of them.
        weights: a scalar, or one for each.
        scope: name of the operations.
        loss_collection: where the loss is added.
        reduction: a ``tf.losses.Reduction``.
        add_summaries: make summaries.

    Raises:
        ValueError: there is no distribution for each input.
    """
    check_distributions(predicted_distributions, structured_generator_inputs, "predicted_distributions")
    with tf.name_scope(scope, "mutual_information_loss") as scope:
        pairs = zip(predicted_distributions, structured_generator_inputs, strict=True)
        known = [tf.reduce_mean(distribution.log_prob(given)) for distribution, given in pairs]
        loss: Tensor = -1 * tf.losses.compute_weighted_loss(known, weights, scope, loss_collection, reduction)
        _summarize(add_summaries, mutual_information_penalty=loss)
    return loss


def _numerically_stable_global_norm(tensors: Sequence[Any]) -> Any:
    """The norm of all tensors, computed of multiples of the largest element, whose square may overflow."""
    there = [tensor for tensor in tensors if tensor is not None]
    if not there:
        return 0.0
    largest = tf.reduce_max([tf.reduce_max(tf.abs(tensor)) for tensor in there])
    return largest * tf.global_norm([tensor / largest for tensor in there])


@public(_HOME + "combine_adversarial_loss")
def combine_adversarial_loss(
    main_loss: Any,
    adversarial_loss: Any,
    weight_factor: Any = None,
    gradient_ratio: Any = None,
    gradient_ratio_epsilon: float = 1e-6,
    variables: Any = None,
    scalar_summaries: bool = True,
    gradient_summaries: bool = True,
    scope: str | None = None,
) -> Any:
    """Two losses together, with a weight of the adversarial one that is given or follows from gradients.

    Args:
        main_loss: a scalar.
        adversarial_loss: a scalar.
        weight_factor: weight of the adversarial loss; no gradient passes through it.
        gradient_ratio: how many times as long the gradient of the main loss is to be.
        gradient_ratio_epsilon: is added to the norm of the adversarial gradient.
        variables: of which gradients are taken; the trainable ones by default.
        scalar_summaries: make summaries of losses.
        gradient_summaries: make summaries of the norms of gradients.
        scope: name of the operations.

    Raises:
        ValueError: neither weight nor ratio is given, or both are; a loss is not a scalar.
    """
    for loss in (main_loss, adversarial_loss):
        loss.shape.assert_is_compatible_with([])
    if (weight_factor is None) == (gradient_ratio is None):
        both = "be specified" if weight_factor is not None else "be `None.`"
        raise ValueError(
            f"`weight_factor` and `gradient_ratio` cannot both {both}\n"
            + errors.message(
                f"weight_factor={weight_factor}, gradient_ratio={gradient_ratio}",
                "one of the two arguments",
                "weight_factor=1.0",
            )
        )
    if variables is None:
        variables = tf.contrib.framework.get_trainable_variables()
    with tf.name_scope(scope, "adversarial_loss", [main_loss, adversarial_loss]):
        if gradient_summaries or gradient_ratio is not None:
            main_norm = _numerically_stable_global_norm(tf.gradients(main_loss, variables))
            other_norm = _numerically_stable_global_norm(tf.gradients(adversarial_loss, variables))
        _summarize(scalar_summaries, main_loss=main_loss, adversarial_loss=adversarial_loss)
        if gradient_summaries:
            _summarize(True, main_loss_gradients=main_norm, adversarial_loss_gradients=other_norm)
        given = weight_factor if gradient_ratio is None else gradient_ratio
        if tf.contrib.util.constant_value(tf.convert_to_tensor(given)) == 0:
            return main_loss  # the adversarial loss is not even computed
        if weight_factor is None:
            weight_factor = main_norm / (other_norm + gradient_ratio_epsilon) / gradient_ratio
            tf.summary.scalar("adversarial_coefficient", weight_factor)
        return main_loss + tf.stop_gradient(weight_factor) * adversarial_loss


@public(_HOME + "cycle_consistency_loss")
def cycle_consistency_loss(
    data_x: Any,
    reconstructed_data_x: Any,
    data_y: Any,
    reconstructed_data_y: Any,
    scope: str | None = None,
    add_summaries: bool = False,
) -> Any:
    """The mean distance of data from what is made of it there and back (Zhu et al., 2017), over both kinds of data.

    Args:
        data_x: ``[batch, ...]``.
        reconstructed_data_x: of the same shape.
        data_y: ``[batch, ...]``.
        reconstructed_data_y: of the same shape.
        scope: name of the operations.
        add_summaries: make summaries.
    """
    values = [data_x, reconstructed_data_x, data_y, reconstructed_data_y]
    with tf.name_scope(scope, "cycle_consistency_loss", values):
        of_x = tf.reduce_mean(tf.abs(data_x - reconstructed_data_x))
        of_y = tf.reduce_mean(tf.abs(data_y - reconstructed_data_y))
        loss = (of_x + of_y) / 2.0
        _summarize(
            add_summaries,
            cycle_consistency_loss_x2x=of_x,
            cycle_consistency_loss_y2y=of_y,
            cycle_consistency_loss=loss,
        )
    return loss
