"""Losses of a step that several replicas share, scaled so that their sum is that of one device."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.distribute import replicas
from anabranch.losses.weighted import fitted_weights
from anabranch.ops.array.cast import cast
from anabranch.ops.math.public_reduce import reduce_sum


def _replicas_in_sync(function: str) -> int:
    if replicas.has_strategy() and replicas.in_cross_replica_context():
        raise RuntimeError(
            f"You are calling `{function}` in cross replica context, while it was expected to be called in replica "
            "context.\n"
            + errors.message(
                f"tf.nn.{function} under strategy.scope()",
                "it in what each replica runs",
                "strategy.experimental_run_v2(step), where step calls it",
            )
        )
    return int(replicas.get_strategy().num_replicas_in_sync)


@public("nn.compute_average_loss")
def compute_average_loss(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None) -> Any:
    """The sum of the losses of a replica's examples, divided by the number of examples of all replicas.

    Args:
        per_example_loss: ``[batch, ...]``.
        sample_weight: weights that broadcast against it, of one axis of size 1 more or less, or None.
        global_batch_size: number of examples of all replicas; the replica's own times the replicas if None.

    Returns:
        A scalar of the losses' dtype; float64 for integers.

    Raises:
        ValueError: ``per_example_loss`` is a scalar.
        RuntimeError: it is called outside a replica of a strategy in scope, without ``global_batch_size``.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     float(session.run(tf.nn.compute_average_loss(tf.constant([1.0, 2.0, 3.0]), global_batch_size=4)))
        1.5
    """
    loss = convert_to_tensor(per_example_loss)
    if loss.shape.ndims == 0:
        raise ValueError(
            "Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1, received: "
            f"{loss}\n" + errors.message("a scalar", "losses, one for each example", "tf.losses of reduction NONE")
        )
    given = loss.dtype.base
    if sample_weight is not None:
        wide = cast(loss, dtypes.float32) if given.size < 4 else loss
        loss = build("Mul", wide, fitted_weights(cast(convert_to_tensor(sample_weight), wide.dtype.base), wide))
    if global_batch_size is None:
        count = _replicas_in_sync("compute_average_loss")
        global_batch_size = build("Shape", loss)[0] * count
    total = cast(reduce_sum(loss), given)
    return total / cast(convert_to_tensor(global_batch_size), given)


@public("nn.scale_regularization_loss")
def scale_regularization_loss(regularization_loss: Any) -> Any:
    """The sum of regularization losses, divided by the number of replicas that each add it.

    Args:
        regularization_loss: a tensor, or a list of scalars.

    Returns:
        A scalar.

    Raises:
        RuntimeError: it is called outside a replica of a strategy in scope.
    """
    count = _replicas_in_sync("scale_regularization_loss")
    total = reduce_sum(convert_to_tensor(regularization_loss))
    with name_scope("scale_regularization_loss"):
        return total / cast(count, total.dtype.base)
