"""Clipping of tensors by their norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes


def _values(tensor: Any) -> Any:
    return tensor.values if isinstance(tensor, IndexedSlices) else convert.convert_to_tensor(tensor, name="t")


def _like(tensor: Any, values: Any) -> Any:
    return IndexedSlices(values, tensor.indices, tensor.dense_shape) if isinstance(tensor, IndexedSlices) else values


def _all_axes(values: Any) -> Any:
    rank = values.get_shape().ndims
    if rank is not None:
        return list(range(rank))
    return build("Range", 0, build("Rank", values), 1)


@public("clip_by_norm")
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """``t * clip_norm / max(l2norm(t), clip_norm)``, with norms over ``axes`` (all if None).

    Args:
        t: tensor or IndexedSlices of any shape.
        clip_norm: scalar, the largest norm that passes unchanged.
        axes: dimensions over which the norm is taken.

    Returns:
        What ``t`` is, of the same shape and dtype.
    """
    builder = current_builder()
    with builder.name_scope(name or "clip_by_norm"):
        values = _values(t)
        over = _all_axes(values) if axes is None else axes
        squares = build("Sum", build("Mul", values, values), over, keep_dims=True)
        positive = build("Greater", squares, 0)
        count_more(2)  # shape and value of the ones
        # The root of zero has no gradient: the root is taken of one there.
        safe = build("Select", positive, squares, build("OnesLike", squares))
        norm = build("Select", positive, build("Sqrt", safe), squares)
        product = build("Mul", values, clip_norm)
        clipped = build(
            "Identity",
            build("RealDiv", product, build("Maximum", norm, clip_norm)),
            name=builder.get_name_scope() + "/",
        )
        clipped.set_shape(values.get_shape())
        return _like(t, clipped)


@public("clip_by_average_norm")
def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Any:
    """``t * clip_norm / max(l2norm(t) / size(t), clip_norm)``; shape and dtype of ``t``."""
    builder = current_builder()
    number = 16 if isinstance(clip_norm, Tensor) else 18
    with builder.name_scope(name or "clip_by_average_norm"), counted_as(number):
        values = _values(t)
        count = build("Cast", build("Size", values), DstT=values.dtype)
        inverse = build("Rsqrt", build("Sum", build("Mul", values, values), _all_axes(values)))
        smaller = build(
            "Minimum", build("Mul", inverse, count), build("RealDiv", build("OnesLike", inverse), clip_norm)
        )
        clipped = build("Mul", build("Mul", values, clip_norm), smaller, name=builder.get_name_scope() + "/")
        return _like(t, clipped)


def _tensors(t_list: Any) -> list[Any]:
    if not isinstance(t_list, Sequence) or isinstance(t_list, str):
        raise TypeError(
            "t_list should be a sequence\n"
            + errors.message(f"{type(t_list).__name__}", "a list of tensors, IndexedSlices or None", "[t]")
        )
    return list(t_list)


@public("global_norm", "linalg.global_norm")
def global_norm(t_list: Any, name: str | None = None) -> Any:
    """``sqrt(sum(l2norm(t)**2 for t in t_list))``, a scalar; None entries are skipped."""
    builder = current_builder()
    with builder.name_scope(name or "global_norm"):
        halves = []
        for t in _tensors(t_list):
            if t is None:
                continue
            values = _values(t)
            with builder.colocate_with(values):
                halves.append(build("L2Loss", values))
        if halves:
            total = build("Sum", build("Pack", halves), [0])
        else:  # the norm of nothing is zero
            total = build("Sum", convert.constant([], dtypes.float32, name="stack"), [0])
        two = convert.constant(2.0, total.dtype)
        return build("Sqrt", build("Mul", total, two), name="global_norm")


@public("clip_by_global_norm")
def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Scale all tensors by ``clip_norm / max(global_norm, clip_norm)``.

    Args:
        t_list: tensors, IndexedSlices or None.
        clip_norm: scalar.
        use_norm: the global norm, if it is known already.

    Returns:
        ``(list of clipped tensors, global norm)``. If the norm is not finite, the tensors become NaN.
    """
    builder = current_builder()
    tensors = _tensors(t_list)
    norm = global_norm(tensors, name) if use_norm is None else convert.convert_to_tensor(use_norm)
    with builder.name_scope(name or "clip_by_global_norm") as scope:
        limit = convert.convert_to_tensor(clip_norm, norm.dtype)
        one = convert.constant(1.0, norm.dtype)
        scale = build("Mul", limit, build("Minimum", build("RealDiv", one, norm), build("RealDiv", one, limit)))
        # 0 * inf is NaN and 0 * finite is 0: whatever the scale, a norm that is not finite shows in every tensor.
        scale = build("Add", scale, build("Sub", norm, norm))
        count_more(2 if isinstance(clip_norm, Tensor) else 3)  # TensorFlow selects
        clipped: list[Any] = []
        for i, t in enumerate(tensors):
            if t is None:
                clipped.append(None)
                continue
            values = _values(t)
            kind = values.dtype.base
            with builder.colocate_with(values):
                factor = scale if scale.dtype.base == kind else build("Cast", scale, DstT=kind)
                # TensorFlow appends the number to the whole name of the scope, inside that scope.
                clipped.append(_like(t, build("Identity", build("Mul", values, factor), name=f"{scope}_{i}")))
    return clipped, norm
