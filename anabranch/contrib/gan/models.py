"""Models of adversarial networks: what the generator and the discriminator make of the data, and their variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.distributions import Distribution


@public("contrib.gan.GANModel")
class GANModel(NamedTuple):
    """A generator with its discriminator."""

    generator_inputs: Any
    generated_data: Any
    generator_variables: Any
    generator_scope: Any
    generator_fn: Any
    real_data: Any
    discriminator_real_outputs: Any
    discriminator_gen_outputs: Any
    discriminator_variables: Any
    discriminator_scope: Any
    discriminator_fn: Any


@public("contrib.gan.InfoGANModel")
class InfoGANModel(NamedTuple):
    """A model whose discriminator says also what structured inputs the generator had (Chen et al., 2016)."""

    generator_inputs: Any
    generated_data: Any
    generator_variables: Any
    generator_scope: Any
    generator_fn: Any
    real_data: Any
    discriminator_real_outputs: Any
    discriminator_gen_outputs: Any
    discriminator_variables: Any
    discriminator_scope: Any
    discriminator_fn: Any
    structured_generator_inputs: Any
    predicted_distributions: Any
    discriminator_and_aux_fn: Any


@public("contrib.gan.ACGANModel")
class ACGANModel(NamedTuple):
    """A model whose discriminator classifies too (Odena et al., 2016)."""

    generator_inputs: Any
    generated_data: Any
    generator_variables: Any
    generator_scope: Any
    generator_fn: Any
    real_data: Any
    discriminator_real_outputs: Any
    discriminator_gen_outputs: Any
    discriminator_variables: Any
    discriminator_scope: Any
    discriminator_fn: Any
    one_hot_labels: Any
    discriminator_real_classification_logits: Any
    discriminator_gen_classification_logits: Any


@public("contrib.gan.CycleGANModel")
class CycleGANModel(NamedTuple):
    """Two models, one from X to Y and one back, and what both ways together make of the data (Zhu et al., 2017)."""

    model_x2y: Any
    model_y2x: Any
    reconstructed_x: Any
    reconstructed_y: Any


def as_tensors(values: Any) -> Any:
    """A tensor, or tensors in a list or dictionary."""
    if isinstance(values, list | tuple):
        return [tf.convert_to_tensor(value) for value in values]
    if isinstance(values, dict):
        return {key: tf.convert_to_tensor(value) for key, value in values.items()}
    return tf.convert_to_tensor(values)


def _check_shapes(generated: Tensor, real: Tensor) -> None:
    if not generated.shape.is_compatible_with(real.shape):
        raise ValueError(
            f"Generator output shape ({generated.shape}) must be the same shape as real data ({real.shape}).\n"
            + errors.message(
                f"generated data of shape {generated.shape}",
                f"data of shape {real.shape}, as the real data has",
                "check_shapes=False, if the discriminator takes both",
            )
        )


def _trainable(scope: Any) -> list[Any]:
    return list(tf.contrib.framework.get_trainable_variables(scope))


@public("contrib.gan.gan_model")
def gan_model(
    generator_fn: Callable[..., Any],
    discriminator_fn: Callable[..., Any],
    real_data: Any,
    generator_inputs: Any,
    generator_scope: Any = "Generator",
    discriminator_scope: Any = "Discriminator",
    check_shapes: bool = True,
) -> GANModel:
    """Make a generator, and a discriminator of what it makes and of real data.

    Args:
        generator_fn: function from ``generator_inputs`` to data.
        discriminator_fn: function from data and ``generator_inputs`` to scores ``[batch, ...]``.
        real_data: ``[batch, ...]``.
        generator_inputs: a tensor, or tensors in a list or dictionary.
        generator_scope: variable scope of the generator.
        discriminator_scope: variable scope of the discriminator.
        check_shapes: refuse generated data of another shape than the real data.

    Raises:
        ValueError: generated data has another shape.

    >>> with tf.Graph().as_default():
    ...     model = tf.contrib.gan.gan_model(
    ...         lambda noise: tf.layers.dense(noise, 3),
    ...         lambda data, _: tf.layers.dense(data, 1),
    ...         real_data=tf.zeros([8, 3]),
    ...         generator_inputs=tf.random_normal([8, 2]),
    ...     )
    ...     print(model.generated_data.shape, [v.op.name for v in model.generator_variables])
    (8, 3) ['Generator/dense/kernel', 'Generator/dense/bias']
    """
    with tf.variable_scope(generator_scope) as making:
        inputs = as_tensors(generator_inputs)
        generated = generator_fn(inputs)
    with tf.variable_scope(discriminator_scope) as judging:
        of_generated = discriminator_fn(generated, inputs)
    with tf.variable_scope(judging, reuse=True):
        real = tf.convert_to_tensor(real_data)
        of_real = discriminator_fn(real, inputs)
    if check_shapes:
        _check_shapes(generated, real)
    return GANModel(
        inputs,
        generated,
        _trainable(making),
        making,
        generator_fn,
        real,
        of_real,
        of_generated,
        _trainable(judging),
        judging,
        discriminator_fn,
    )


@public("contrib.gan.infogan_model")
def infogan_model(
    generator_fn: Callable[..., Any],
    discriminator_fn: Callable[..., Any],
    real_data: Any,
    unstructured_generator_inputs: Any,
    structured_generator_inputs: Any,
    generator_scope: Any = "Generator",
    discriminator_scope: Any = "Discriminator",
) -> InfoGANModel:
    """Make an InfoGAN (Chen et al., 2016).

    Args:
        generator_fn: function from a list of tensors to data.
        discriminator_fn: function from data and the list to scores, and one distribution for each structured input.
        real_data: ``[batch, ...]``.
        unstructured_generator_inputs: list of tensors of noise.
        structured_generator_inputs: list of tensors that the data should tell about.
        generator_scope: variable scope of the generator.
        discriminator_scope: variable scope of the discriminator.

    Raises:
        ValueError: generated data has another shape than real data, or the discriminator gives no such list.
    """
    with tf.variable_scope(generator_scope) as making:
        structured = as_tensors(structured_generator_inputs)
        inputs = as_tensors(unstructured_generator_inputs) + structured
        generated = generator_fn(inputs)
    with tf.variable_scope(discriminator_scope) as judging:
        of_generated, predicted = discriminator_fn(generated, inputs)
    check_distributions(predicted, structured, "predicted_distributions")
    with tf.variable_scope(judging, reuse=True):
        real = tf.convert_to_tensor(real_data)
        of_real, _ = discriminator_fn(real, inputs)
    _check_shapes(generated, real)
    return InfoGANModel(
        inputs,
        generated,
        _trainable(making),
        making,
        generator_fn,
        real,
        of_real,
        of_generated,
        _trainable(judging),
        judging,
        lambda data, given: discriminator_fn(data, given)[0],
        structured,
        predicted,
        discriminator_fn,
    )


def check_distributions(distributions: Any, inputs: Any, name: str) -> None:
    """Refuse what is not a list with a distribution for each structured input."""
    advice = "return scores, [tf.distributions.Normal(mean, 1.0)] in the discriminator"
    wanted = "a list of distributions, one for each structured input"
    if not isinstance(distributions, list | tuple):
        raise ValueError(
            f"`{name}` must be a list. Instead, found {type(distributions)}.\n"
            + errors.message(f"a {type(distributions).__name__}", wanted, advice)
        )
    for item in distributions:
        if not isinstance(item, Distribution):
            raise ValueError(
                f"Every element in `{name}` must be a `tf.Distribution`. Instead, found {type(item)}.\n"
                + errors.message(f"a {type(item).__name__}", wanted, advice)
            )
    if len(distributions) != len(inputs):
        raise ValueError(
            f"Length of `{name}` {len(distributions)} must be the same as the length of structured noise "
            f"{len(inputs)}.\n"
            + errors.message(f"{len(distributions)} distributions for {len(inputs)} inputs", wanted, advice)
        )


def _two(outputs: Any) -> tuple[Any, Any]:
    try:
        scores, logits = outputs
    except (TypeError, ValueError):
        raise TypeError(
            "A discriminator function for ACGAN must output a tuple consisting of (discrimination logits, "
            "classification logits).\n"
            + errors.message(
                f"a {type(outputs).__name__}", "scores and logits of classes", "return scores, tf.layers.dense(x, 10)"
            )
        ) from None
    return scores, logits


@public("contrib.gan.acgan_model")
def acgan_model(
    generator_fn: Callable[..., Any],
    discriminator_fn: Callable[..., Any],
    real_data: Any,
    generator_inputs: Any,
    one_hot_labels: Any,
    generator_scope: Any = "Generator",
    discriminator_scope: Any = "Discriminator",
    check_shapes: bool = True,
) -> ACGANModel:
    """Make a model whose discriminator classifies too (Odena et al., 2016).

    Args:
        generator_fn: function from ``generator_inputs`` to data.
        discriminator_fn: function from data and ``generator_inputs`` to scores and logits ``[batch, classes]``.
        real_data: ``[batch, ...]``.
        generator_inputs: a tensor, or tensors in a list or dictionary.
        one_hot_labels: ``[batch, classes]``.
        generator_scope: variable scope of the generator.
        discriminator_scope: variable scope of the discriminator.
        check_shapes: refuse generated data of another shape than the real data.

    Raises:
        ValueError: generated data has another shape.
        TypeError: the discriminator does not give a pair.
    """
    with tf.variable_scope(generator_scope) as making:
        inputs = as_tensors(generator_inputs)
        generated = generator_fn(inputs)
    with tf.variable_scope(discriminator_scope) as judging, tf.name_scope(judging.name + "/generated/"):
        of_generated, logits_of_generated = _two(discriminator_fn(generated, inputs))
    with tf.variable_scope(judging, reuse=True), tf.name_scope(judging.name + "/real/"):
        real = tf.convert_to_tensor(real_data)
        of_real, logits_of_real = _two(discriminator_fn(real, inputs))
    if check_shapes:
        _check_shapes(generated, real)
    return ACGANModel(
        inputs,
        generated,
        _trainable(making),
        making,
        generator_fn,
        real,
        of_real,
        of_generated,
        _trainable(judging),
        judging,
        discriminator_fn,
        one_hot_labels,
        logits_of_real,
        logits_of_generated,
    )


@public("contrib.gan.cyclegan_model")
def cyclegan_model(
    generator_fn: Callable[..., Any],
    discriminator_fn: Callable[..., Any],
    data_x: Any,
    data_y: Any,
    generator_scope: str = "Generator",
    discriminator_scope: str = "Discriminator",
    model_x2y_scope: str = "ModelX2Y",
    model_y2x_scope: str = "ModelY2X",
    check_shapes: bool = True,
) -> CycleGANModel:
    """Make two models that turn data of two kinds into each other (Zhu et al., 2017).

    Args:
        generator_fn: function from data of one kind to data of the other.
        discriminator_fn: function from data and the generator's inputs to scores ``[batch, ...]``.
        data_x: ``[batch, ...]``.
        data_y: ``[batch, ...]``.
        generator_scope: variable scope of the generator in each model.
        discriminator_scope: variable scope of the discriminator in each model.
        model_x2y_scope: variable scope of the model from X to Y.
        model_y2x_scope: variable scope of the model from Y to X.
        check_shapes: refuse generated data of another shape than the real data.

    Raises:
        ValueError: generated data has another shape.
    """
    models = []
    for scope, source, target in ((model_x2y_scope, data_x, data_y), (model_y2x_scope, data_y, data_x)):
        with tf.variable_scope(scope):
            models.append(
                gan_model(
                    generator_fn, discriminator_fn, target, source, generator_scope, discriminator_scope, check_shapes
                )
            )
    there, back = models
    rebuilt = []
    for first, second in ((there, back), (back, there)):
        with tf.variable_scope(second.generator_scope, reuse=True):
            rebuilt.append(second.generator_fn(first.generated_data))
    return CycleGANModel(there, back, *rebuilt)
