"""The value of a tensor that is known without running anything: ``tf.get_static_value``."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.tensor import TensorLike
from anabranch.core.values.composite_tensor import CompositeTensor
from anabranch.core.values.shapes import TensorShape, of_rank


@public("get_static_value", "contrib.util.constant_value", "contrib.framework.constant_value")
def constant_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor as an array if the graph determines it (constants, known shapes and what is made of them).

    Args:
        tensor: the tensor; what is neither one nor a variable is given back, None included.
        partial: give a vector of which only some elements are known too, as an array of objects with None for the rest.

    Returns:
        The array, which must not be written to, or None.
    """
    if not isinstance(tensor, Tensor):
        symbolic = isinstance(tensor, (TensorLike, CompositeTensor)) or hasattr(tensor, "_as_graph_element")
        return None if symbolic else tensor
    known = partial_value(tensor)
    if isinstance(known, tuple):
        return np.array(known, object) if partial else None
    return known


@public("contrib.util.constant_value_as_shape")
def constant_value_as_shape(tensor: Any) -> Any:
    """An integer vector as a TensorShape, as far as its elements are known (-1 counts as unknown).

    Raises:
        ValueError: ``tensor`` has more than one dimension, or none and not the value -1, which is an unknown shape.
    """
    known = constant_value(tensor, partial=True)
    static = getattr(tensor, "shape", None)
    rank = static.ndims if isinstance(static, TensorShape) else np.ndim(tensor)
    if rank == 0:
        if known is None or int(known) != -1:
            given = "unknown value" if known is None else f"value '{known}'"
            raise ValueError(
                f"Received a scalar with {given} as shape; require a statically known scalar with value '-1' to "
                "describe an unknown shape.\n"
                + errors.message(f"a scalar with {given}", "a vector, or the scalar -1", "tf.expand_dims(size, 0)")
            )
        return TensorShape(None)
    if rank not in (1, None):
        raise ValueError(
            f"Shape {tensor.shape} must have rank 1\n"
            + errors.message(f"a tensor of shape {tensor.shape}", "a vector", "tf.reshape(x, [-1])")
        )
    if known is None:
        size = tensor.shape.as_list()[0] if tensor.shape.ndims == 1 else None
        return TensorShape(of_rank(size))
    return TensorShape([None if size in (None, -1) else int(size) for size in known])
