"""Rows of a tensor for functions whose gradients are tensors, where that of a gather would be slices."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor


def dense_rows(tensor: Tensor, indices: Any, axis: int) -> Tensor:
    """``tf.gather(tensor, indices, axis=axis)`` whose gradient is a tensor, as TensorFlow's functions reshape before.

    Along the first axis the gradient of a gather is an ``IndexedSlices``, which programs that differentiate with
    respect to a signal or an image do not expect.
    """
    known = tensor._shape
    if axis == 0 or known is None:
        whole = known if known is not None and None not in known else build("Shape", tensor)
        reshaped = build("Reshape", tensor, list(whole) if isinstance(whole, tuple) else whole)
        reshaped.set_shape(tensor.shape)
        tensor = reshaped
    gathered: Tensor = build("GatherV2", tensor, indices, axis)
    return gathered
