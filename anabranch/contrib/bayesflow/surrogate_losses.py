"""A loss for a graph with stochastic tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.bayesflow.stochastic_tensors import COLLECTION
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor


def _upstream(loss: Tensor) -> set[Tensor]:
    """All tensors that a loss follows from, and itself."""
    found, waiting = {loss}, [loss]
    while waiting:
        for tensor in waiting.pop().op.inputs:
            if tensor not in found:
                found.add(tensor)
                waiting.append(tensor)
    return found


def _dependencies(losses: Sequence[Tensor], stochastic_tensors: Any) -> list[tuple[Any, list[Tensor]]]:
    """Stochastic tensors with the losses that follow from each, of those that have such."""
    chosen = stochastic_tensors or tf.get_collection(COLLECTION)
    upstream = [(loss, _upstream(loss)) for loss in losses]
    pairs = [(node, [loss for loss, tensors in upstream if node.value() in tensors]) for node in chosen]
    return [(node, following) for node, following in pairs if following]


def _summed(terms: Sequence[Any]) -> Any:
    first = terms[0]
    if all(term.shape.is_fully_defined() and term.shape == first.shape and term.dtype == first.dtype for term in terms):
        return tf.add_n(list(terms))
    return sum(terms[1:], first)


@public("contrib.bayesflow.stochastic_graph.surrogate_loss")
def surrogate_loss(
    sample_losses: Sequence[Any], stochastic_tensors: Sequence[Any] | None = None, name: str = "SurrogateLoss"
) -> Any:
    """The sum of losses and of what stochastic tensors add to those that follow from them.

    Args:
        sample_losses: losses of each example, at least of rank 1, and of one shape.
        stochastic_tensors: those to look at; all of the graph by default.
        name: of the operations.

    Raises:
        TypeError: not a list of tensors. ValueError: a scalar loss.
    """
    if not isinstance(sample_losses, (list, tuple)):
        raise TypeError(
            "sample_losses must be a list or tuple\n"
            + errors.message(f"a {type(sample_losses).__name__}", "a list of losses", "surrogate_loss([loss])")
        )
    for loss in sample_losses:
        if not isinstance(loss, Tensor):
            raise TypeError(
                f"loss is not a Tensor: {loss}\n"
                + errors.message(f"a {type(loss).__name__}", "a tensor", "tf.convert_to_tensor(loss)")
            )
        if not loss.shape.ndims:
            raise ValueError(
                f"loss must have dimensionality 1 or greater: {loss}\n"
                + errors.message(f"a loss of shape {loss.shape}", "a loss for each example", "the loss before its mean")
            )
    with tf.name_scope(name, values=list(sample_losses)):
        terms = list(sample_losses)
        found = _dependencies(sample_losses, stochastic_tensors)
        if not found:
            tf.logging.warn("No collection of Stochastic Tensors found for current graph.")
        for node, following in found:
            added = node.loss(tf.stop_gradient(_summed(following)))
            if added is not None:
                terms.append(added)
        return _summed(terms)
