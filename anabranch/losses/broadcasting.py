"""``tensorflow.python.ops.weights_broadcast_ops``: which weights fit which values, and what they broadcast to."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.losses.weighted import checked_weights
from anabranch.ops.array.cast import ones_like
from anabranch.ops.array.sources import no_op


def assert_broadcastable(weights: Any, values: Any) -> Any:
    """An operation that fails unless weights are a scalar, or of the rank of the values with sizes of 1 or theirs.

    Raises:
        ValueError: known shapes do not fit.
    """
    with name_scope(None, "assert_broadcastable", [weights, values]) as scope:
        weights, values = convert_to_tensor(weights, name="weights"), convert_to_tensor(values, name="values")
        checked = checked_weights(weights, values)
        count_more(-1)  # the operation below is among them
        if checked is weights:
            return no_op("static_check_success")
        with control_dependencies([checked]):
            return no_op(scope)


def broadcast_weights(weights: Any, values: Any) -> Tensor:
    """Weights broadcast to the shape of values, as far as :func:`assert_broadcastable` allows it.

    Raises:
        ValueError: known shapes do not fit.
    """
    with name_scope(None, "broadcast_weights", [weights, values]) as scope:
        values = convert_to_tensor(values, name="values")
        weights = convert_to_tensor(weights, values.dtype.base_dtype, name="weights")
        if weights.shape.is_fully_defined() and values.shape.is_fully_defined() and weights.shape == values.shape:
            return weights
        with control_dependencies([assert_broadcastable(weights, values)]):
            broadcast: Tensor = build("Mul", weights, ones_like(values), name=scope)
            return broadcast
