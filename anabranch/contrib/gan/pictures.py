"""Summaries of adversarial networks: pictures in a grid, weights, regularization losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.gan.models import CycleGANModel
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor

_HOME = "contrib.gan.eval."


def _refuse(first_line: str, given: str, expected: str, instead: str) -> ValueError:
    return ValueError(f"{first_line}\n" + errors.message(given, expected, instead))


@public(_HOME + "image_grid")
def image_grid(
    input_tensor: Any, grid_shape: Sequence[int], image_shape: Sequence[int] = (32, 32), num_channels: int = 3
) -> Any:
    """One picture of all pictures of a batch, row by row.

    Args:
        input_tensor: ``[batch, height, width, channels]``, or ``[batch, height * width * channels]``.
        grid_shape: pictures in a column and in a row; their product is the batch.
        image_shape: height and width of a picture.
        num_channels: channels of a picture.

    Returns:
        ``[1, rows * height, columns * width, channels]``.

    Raises:
        ValueError: sizes do not fit.
    """
    rows, columns = grid_shape
    height, width = image_shape
    batch, *sizes = (int(size) for size in input_tensor.shape)
    if rows * columns != batch:
        raise _refuse(
            f"Grid shape {grid_shape} incompatible with minibatch size {batch}.",
            f"{batch} pictures",
            f"{rows * columns} pictures for {rows} rows of {columns}",
            f"input_tensor[:{rows * columns}]",
        )
    if len(sizes) not in (1, 3):
        raise _refuse(
            "Unrecognized input tensor format.",
            f"shape {input_tensor.shape}",
            "[batch, height, width, channels] or [batch, size]",
            "tf.reshape(images, [batch, height, width, channels])",
        )
    if sizes not in ([height, width, num_channels], [height * width * num_channels]):
        raise _refuse(
            "Image shape and number of channels incompatible with input tensor.",
            f"shape {input_tensor.shape}",
            f"pictures of {height} x {width} with {num_channels} channels",
            f"image_shape={tuple(sizes[:2]) if len(sizes) == 3 else '(height, width)'}",
        )
    cells = tf.reshape(input_tensor, [rows, columns, height, width, num_channels])
    lines = tf.transpose(cells, [0, 2, 1, 3, 4])
    return tf.reshape(lines, [1, rows * height, columns * width, num_channels])


@public(_HOME + "image_reshaper")
def image_reshaper(images: Any, num_cols: int | None = None) -> Any:
    """One picture of a list of pictures, row by row; places that are left are black.

    Args:
        images: list of tensors ``[height, width, channels]``, or a tensor of them along axis 0.
        num_cols: pictures in a row; about as many as rows by default.

    Returns:
        ``[1, rows * height, columns * width, channels]``.

    Raises:
        ValueError: a shape is not fully known, or pictures have neither 1 nor 3 channels.
    """
    images = tf.unstack(images) if isinstance(images, Tensor) else list(images)
    for image in images:
        image.shape.assert_has_rank(3)
        image.shape.assert_is_fully_defined()
        if image.shape[-1].value not in (1, 3):
            raise _refuse(
                "image_reshaper only supports 1 or 3 channel images.",
                f"{image.shape[-1].value} channels",
                "pictures of 1 or 3 channels",
                "image[:, :, :3]",
            )
    columns = num_cols or math.ceil(math.sqrt(len(images)))
    images += [tf.zeros_like(images[-1])] * (-len(images) % columns)
    rows = [tf.concat(images[start : start + columns], 1) for start in range(0, len(images), columns)]
    return tf.concat(rows, 0)[None]


def _check_images(*batches: Any) -> None:
    for batch in batches:
        batch.shape.assert_has_rank(4)
        batch.shape[1:].assert_is_fully_defined()


@public(_HOME + "add_gan_model_image_summaries")
def add_gan_model_image_summaries(gan_model: Any, grid_size: int = 4, model_summaries: bool = True) -> None:
    """Summaries of real and of generated pictures.

    Args:
        gan_model: a model of pictures ``[batch, height, width, channels]``.
        grid_size: pictures in a row, and rows.
        model_summaries: also those of :func:`add_gan_model_summaries`.

    Raises:
        ValueError: the model is a CycleGAN, or its data are not pictures.
    """
    if isinstance(gan_model, CycleGANModel):
        raise _refuse(
            "`add_gan_model_image_summaries` does not take CycleGANModels. Please use "
            "`add_cyclegan_image_summaries` instead.",
            "a CycleGANModel",
            "a model with one generator",
            "tf.contrib.gan.eval.add_cyclegan_image_summaries(model)",
        )
    _check_images(gan_model.real_data, gan_model.generated_data)
    for name in ("real_data", "generated_data"):
        data = getattr(gan_model, name)
        _, height, width, channels = data.shape.as_list()
        grid = image_grid(data[: grid_size**2], (grid_size, grid_size), (height, width), channels)
        tf.summary.image(name, grid, max_outputs=1)
    if model_summaries:
        add_gan_model_summaries(gan_model)


@public(_HOME + "add_image_comparison_summaries")
def add_image_comparison_summaries(gan_model: Any, num_comparisons: int = 2, display_diffs: bool = False) -> None:
    """A summary of the generator's inputs, what it makes of them, and real data, one below the other.

    Args:
        gan_model: a model from pictures to pictures.
        num_comparisons: how many pictures of the batch.
        display_diffs: also differences of generated and real pictures.

    Raises:
        ValueError: the data are not pictures, or their shapes differ.
    """
    parts = [gan_model.generator_inputs, gan_model.generated_data, gan_model.real_data]
    _check_images(*parts)
    for part in parts[1:]:
        part.shape.assert_is_compatible_with(parts[0].shape)
    images = [image for part in parts for image in tf.unstack(part[:num_comparisons])]
    if display_diffs:
        generated, real = images[num_comparisons : 2 * num_comparisons], images[2 * num_comparisons :]
        pairs = zip(generated, real, strict=True)
        images += [tf.abs(tf.to_float(one) - tf.to_float(other)) for one, other in pairs]
    tf.summary.image("image_comparison", image_reshaper(images, num_cols=num_comparisons), max_outputs=1)


@public(_HOME + "add_cyclegan_image_summaries")
def add_cyclegan_image_summaries(cyclegan_model: Any) -> None:
    """Summaries of a picture, what a CycleGAN makes of it, and what it makes of that again; for both ways.

    Args:
        cyclegan_model: a :class:`tf.contrib.gan.CycleGANModel`.

    Raises:
        ValueError: the model is of another kind, or its data are not pictures.
    """
    if not isinstance(cyclegan_model, CycleGANModel):
        raise _refuse(
            f"`cyclegan_model` was not a CycleGANModel. Instead, was {type(cyclegan_model)}",
            f"a {type(cyclegan_model).__name__}",
            "a CycleGANModel",
            "tf.contrib.gan.eval.add_gan_model_image_summaries(model)",
        )
    ways = [
        ("x2y", cyclegan_model.model_x2y, cyclegan_model.reconstructed_x),
        ("y2x", cyclegan_model.model_y2x, cyclegan_model.reconstructed_y),
    ]
    for way, model, rebuilt in ways:
        _check_images(model.generator_inputs, model.generated_data, rebuilt)
        with tf.name_scope(f"{way}_image_comparison_summaries"):
            images = [batch[0] for batch in (model.generator_inputs, model.generated_data, rebuilt)]
            tf.summary.image("image_comparison", image_reshaper(images, num_cols=3), max_outputs=1)


def _of_parts(add: Any, model: Any, what: str) -> bool:
    """Whether the model is a CycleGAN, whose two models then have their summaries."""
    if not isinstance(model, CycleGANModel):
        return False
    for way, part in (("x2y", model.model_x2y), ("y2x", model.model_y2x)):
        with tf.name_scope(f"cyclegan_{way}_{what}"):
            add(part)
    return True


@public(_HOME + "add_gan_model_summaries")
def add_gan_model_summaries(gan_model: Any) -> None:
    """A histogram of each variable of a model.

    Args:
        gan_model: a model.
    """
    if _of_parts(add_gan_model_summaries, gan_model, "summaries"):
        return
    for name in ("generator_variables", "discriminator_variables"):
        with tf.name_scope(name):
            for variable in getattr(gan_model, name):
                tf.summary.histogram(variable.name, variable)


@public(_HOME + "add_regularization_loss_summaries")
def add_regularization_loss_summaries(gan_model: Any) -> None:
    """The regularization losses of both parts of a model.

    Args:
        gan_model: a model.
    """
    if _of_parts(add_regularization_loss_summaries, gan_model, "regularization_loss_summaries"):
        return
    for name, scope in (
        ("generator_regularization_loss", gan_model.generator_scope),
        ("discriminator_regularization_loss", gan_model.discriminator_scope),
    ):
        if scope:
            tf.summary.scalar(name, tf.losses.get_regularization_loss(scope.name))
