"""Losses of models: the functions of :mod:`anabranch.contrib.gan.formulas`, which find their arguments in a model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from anabranch.contrib.gan import formulas
from anabranch.contrib.gan.models import CycleGANModel
from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as

_HOME = "contrib.gan.losses."


def _args_to_gan_model(loss_fn: Callable[..., Any]) -> Callable[..., Any]:
    """A loss of separate arguments as a loss of a named tuple that has fields of those names.

    What the tuple lacks, or has as None, is given by name.

    Args:
        loss_fn: the loss.
    """
    parameters = inspect.signature(loss_fn).parameters
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]

    @functools.wraps(loss_fn)
    def of_model(gan_model: Any, **kwargs: Any) -> Any:
        fields = {name: getattr(gan_model, name) for name in gan_model._fields if name in parameters}
        for name in required:
            if name not in fields and name not in kwargs:
                raise ValueError(
                    f"`{name}` must be supplied to {loss_fn.__name__} loss function.\n"
                    + errors.message(
                        f"a {type(gan_model).__name__}, which has no field {name}",
                        f"the argument {name}",
                        f"{loss_fn.__name__}(model, {name}=...)",
                    )
                )
        twice = sorted(set(gan_model._fields) & set(kwargs))
        if twice:
            raise ValueError(
                "The following args are present in both the tuple and keyword args for "
                f"{loss_fn.__name__}: {twice}\n"
                + errors.message(
                    f"{', '.join(twice)} beside the model", "arguments that the model lacks", "model._replace(...)"
                )
            )
        given = {name: value for name, value in fields.items() if name in required or value is not None}
        return loss_fn(**given, **{name: value for name, value in kwargs.items() if value is not None})

    del of_model.__wrapped__  # the signature is another one
    of_model.__doc__ = f"The loss ``wargs.{loss_fn.__name__}`` of a model; its other arguments are given by name."
    return of_model


wasserstein_generator_loss = _args_to_gan_model(formulas.wasserstein_generator_loss)
publish_as(_HOME + "wasserstein_generator_loss", wasserstein_generator_loss)
wasserstein_discriminator_loss = _args_to_gan_model(formulas.wasserstein_discriminator_loss)
publish_as(_HOME + "wasserstein_discriminator_loss", wasserstein_discriminator_loss)
wasserstein_gradient_penalty = _args_to_gan_model(formulas.wasserstein_gradient_penalty)
publish_as(_HOME + "wasserstein_gradient_penalty", wasserstein_gradient_penalty)
acgan_discriminator_loss = _args_to_gan_model(formulas.acgan_discriminator_loss)
publish_as(_HOME + "acgan_discriminator_loss", acgan_discriminator_loss)
acgan_generator_loss = _args_to_gan_model(formulas.acgan_generator_loss)
publish_as(_HOME + "acgan_generator_loss", acgan_generator_loss)
minimax_discriminator_loss = _args_to_gan_model(formulas.minimax_discriminator_loss)
publish_as(_HOME + "minimax_discriminator_loss", minimax_discriminator_loss)
minimax_generator_loss = _args_to_gan_model(formulas.minimax_generator_loss)
publish_as(_HOME + "minimax_generator_loss", minimax_generator_loss)
modified_discriminator_loss = _args_to_gan_model(formulas.modified_discriminator_loss)
publish_as(_HOME + "modified_discriminator_loss", modified_discriminator_loss)
modified_generator_loss = _args_to_gan_model(formulas.modified_generator_loss)
publish_as(_HOME + "modified_generator_loss", modified_generator_loss)
least_squares_generator_loss = _args_to_gan_model(formulas.least_squares_generator_loss)
publish_as(_HOME + "least_squares_generator_loss", least_squares_generator_loss)
least_squares_discriminator_loss = _args_to_gan_model(formulas.least_squares_discriminator_loss)
publish_as(_HOME + "least_squares_discriminator_loss", least_squares_discriminator_loss)
mutual_information_penalty = _args_to_gan_model(formulas.mutual_information_penalty)
publish_as(_HOME + "mutual_information_penalty", mutual_information_penalty)


@public(_HOME + "combine_adversarial_loss")
def combine_adversarial_loss(
    gan_loss: Any,
    gan_model: Any,
    non_adversarial_loss: Any,
    weight_factor: Any = None,
    gradient_ratio: Any = None,
    gradient_ratio_epsilon: float = 1e-6,
    scalar_summaries: bool = True,
    gradient_summaries: bool = True,
) -> Any:
    """Losses whose generator's loss is joined with another one, as ``wargs.combine_adversarial_loss`` does.

    Args:
        gan_loss: a :class:`tf.contrib.gan.GANLoss`.
        gan_model: the model, whose generator's variables count.
        non_adversarial_loss: a scalar.
        weight_factor: weight of the adversarial loss.
        gradient_ratio: how many times as long the gradient of the other loss is to be.
        gradient_ratio_epsilon: is added to the norm of the adversarial gradient.
        scalar_summaries: make summaries of losses.
        gradient_summaries: make summaries of the norms of gradients.
    """
    joined = formulas.combine_adversarial_loss(
        non_adversarial_loss,
        gan_loss.generator_loss,
        weight_factor,
        gradient_ratio,
        gradient_ratio_epsilon,
        gan_model.generator_variables,
        scalar_summaries,
        gradient_summaries,
    )
    return gan_loss._replace(generator_loss=joined)


@public(_HOME + "cycle_consistency_loss")
def cycle_consistency_loss(cyclegan_model: Any, scope: str | None = None, add_summaries: bool = False) -> Any:
    """The mean distance of data from what a CycleGAN makes of it there and back.

    Args:
        cyclegan_model: a :class:`tf.contrib.gan.CycleGANModel`.
        scope: name of the operations.
        add_summaries: make summaries.

    Raises:
        ValueError: the model is of another kind.
    """
    check_cycle(cyclegan_model, "cyclegan_model")
    return formulas.cycle_consistency_loss(
        cyclegan_model.model_x2y.generator_inputs,
        cyclegan_model.reconstructed_x,
        cyclegan_model.model_y2x.generator_inputs,
        cyclegan_model.reconstructed_y,
        scope,
        add_summaries,
    )


def check_cycle(model: Any, name: str) -> None:
    """Refuse what is not a CycleGAN."""
    if not isinstance(model, CycleGANModel):
        raise ValueError(
            f"`{name}` must be a `CycleGANModel`. Instead, was {type(model)}.\n"
            + errors.message(f"a {type(model).__name__}", "a CycleGANModel", "tf.contrib.gan.cyclegan_model(...)")
        )
