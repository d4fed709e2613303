"""Public reductions: `tf.reduce_sum` and its kin, and what is composed of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract.api import public, publish_as
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ops.array.public_shapes import rank


def pick(new_name: str, new: Any, old_name: str, old: Any) -> Any:
    """An argument that has an old and a new name; ValueError if both are given."""
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
    return old


def all_axes(tensor: Any) -> Any:
    """All dimensions of a tensor: a constant if the rank is known, else a range at run time."""
    rank = tensor.get_shape().ndims
    if rank is not None:
        return constant(np.arange(rank), dtypes.int32)
    return build("Range", 0, build("Rank", tensor), 1, name="range")


def _whole(value: Any) -> tuple[Any, Any]:
    """What is reduced over all of its dimensions, and their numbers.

    A graph has the operations that TensorFlow makes: what is not a tensor yet (a variable, an array, a list) is asked
    for its rank first, and converted for that and for the reduction, whose name the second conversion carries. Seeds
    of random ops that follow, and the names of these operations, depend on it.
    """
    if isinstance(value, Tensor) or not current_builder().defers:
        value = convert_to_tensor(value)
        return value, all_axes(value)
    return value, build("Range", 0, rank(value), 1, name="range")


def _make(function_name: str, type_name: str, sentence: str) -> Any:
    def reduction(
        input_tensor: Any,
        axis: Any = None,
        keepdims: Any = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: Any = None,
    ) -> Any:
        axis = pick("axis", axis, "reduction_indices", reduction_indices)
        keepdims = pick("keepdims", keepdims, "keep_dims", keep_dims)
        scalar = axis is None and not keepdims
        if axis is None:
            input_tensor, axis = _whole(input_tensor)
        result = build(type_name, input_tensor, axis, keep_dims=bool(keepdims), name=name)
        if scalar and result._shape is None:
            result.set_shape(())
        return result

    reduction.__name__ = reduction.__qualname__ = function_name
    reduction.__doc__ = f"""{sentence}

    Args:
        input_tensor: the tensor.
        axis: dimensions to reduce (an int, a list or a tensor; negative ones count from the end); None for all.
        keepdims: keep them with length 1.
        name: name of the op.
        reduction_indices: old name of ``axis``.
        keep_dims: old name of ``keepdims``.
    """
    publish_as(function_name, reduction)
    publish_as("math." + function_name, reduction)
    return reduction


reduce_sum = _make("reduce_sum", "Sum", "Sum of elements over the dimensions ``axis``.")
reduce_mean = _make(
    "reduce_mean", "Mean", "Mean of elements over the dimensions ``axis``; of integers, rounded toward 0."
)
reduce_prod = _make("reduce_prod", "Prod", "Product of elements over the dimensions ``axis``.")
reduce_max = _make("reduce_max", "Max", "Maximum of elements over the dimensions ``axis``.")
reduce_min = _make("reduce_min", "Min", "Minimum of elements over the dimensions ``axis``.")
reduce_all = _make("reduce_all", "All", "Logical and of elements over the dimensions ``axis``.")
reduce_any = _make("reduce_any", "Any", "Logical or of elements over the dimensions ``axis``.")


@public("math.reduce_euclidean_norm")
def reduce_euclidean_norm(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Euclidean norm of elements over the dimensions ``axis``."""
    if axis is None:
        input_tensor, axis = _whole(input_tensor)
    return build("EuclideanNorm", input_tensor, axis, keep_dims=bool(keepdims), name=name)


@public("reduce_logsumexp", "math.reduce_logsumexp")
def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """``log(sum(exp(x)))`` over the dimensions ``axis``, shifted by the maximum so that it does not overflow."""
    axis = pick("axis", axis, "reduction_indices", reduction_indices)
    keep = bool(pick("keepdims", keepdims, "keep_dims", keep_dims))
    tensor = convert_to_tensor(input_tensor)
    with name_scope(name, "ReduceLogSumExp", [tensor]):
        raw = reduce_max(tensor, axis, keepdims=True)
        # An infinite maximum must not be subtracted: inf - inf is NaN.
        finite = build("Select", build("IsFinite", raw), raw, build("ZerosLike", raw, name="zeros_like"))
        shift = build("StopGradient", finite)
        total = reduce_sum(build("Exp", build("Sub", tensor, shift)), axis, keepdims=keep)
        result = build("Log", total)
        if not keep:
            shift = build("Reshape", shift, build("Shape", result))
        return build("Add", result, shift)


@public("count_nonzero", "math.count_nonzero")
def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: Any = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
    input: Any = None,
) -> Any:
    """Number of elements that are not zero (not empty, for strings) over the dimensions ``axis``."""
    axis = pick("axis", axis, "reduction_indices", reduction_indices)
    keep = pick("keepdims", keepdims, "keep_dims", keep_dims)
    input_tensor = pick("input", input, "input_tensor", input_tensor)
    with name_scope(name, "count_nonzero", [input_tensor]):
        tensor = convert_to_tensor(input_tensor, name="input")
        base = tensor.dtype.base
        zero = constant(b"" if base.name == "string" else np.zeros((), base.np), base, name="zeros")
        hits = build("Cast", build("NotEqual", tensor, zero), DstT=dtypes.int64)
        count = reduce_sum(hits, axis, keepdims=keep)
        wanted = dtypes.as_dtype(dtype).base
        return count if wanted == dtypes.int64 else build("Cast", count, DstT=wanted)


@public("math.reduce_variance")
def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Mean squared distance from the mean over the dimensions ``axis``; of integers in integers, rounded down.

    Raises:
        TypeError: bools are given.
    """
    with name_scope(name, "reduce_variance", [input_tensor]):
        mean = reduce_mean(input_tensor, axis, keepdims=True)
        difference = input_tensor - mean
        if mean.dtype.is_complex:
            product = build("Mul", build("Conj", difference), difference)
            square = build("Real", product, Tout=mean.dtype.real_dtype)
        else:
            square = build("Square", difference)
        return reduce_mean(square, axis, keepdims=keepdims)


@public("math.reduce_std")
def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Standard deviation over the dimensions ``axis``: the root of :func:`reduce_variance`."""
    with name_scope(name, "reduce_std", [input_tensor]):
        return build("Sqrt", reduce_variance(input_tensor, axis, keepdims))
