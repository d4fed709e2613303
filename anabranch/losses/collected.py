"""Losses by way of their collections."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import constant
from anabranch.core.graph.operation import Tensor
from anabranch.ops.math.nary import add_n


@public("losses.add_loss")
def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add a loss to a collection (to none if it is None)."""
    if loss_collection:
        current_builder().add_to_collection(loss_collection, loss)


@public("losses.get_losses")
def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """Losses of a collection, those whose names begin with ``scope`` (a regular expression)."""
    return current_builder().get_collection(loss_collection, scope)


@public("losses.get_regularization_losses")
def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Losses of regularizers, those whose names begin with ``scope``."""
    return current_builder().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


@public("losses.get_regularization_loss")
def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """Sum of the losses of regularizers, 0 if there are none."""
    losses = get_regularization_losses(scope)
    total: Tensor = add_n(losses, name=name) if losses else constant(0.0)
    return total


@public("losses.get_total_loss")
def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Sum of the collected losses.

    Args:
        add_regularization_losses: add those of regularizers.
        name: name of the sum.
        scope: take losses whose names begin with it.

    Raises:
        ValueError: there is no loss.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = [*losses, *get_regularization_losses(scope)]
    total: Tensor = add_n(losses, name=name)
    return total
