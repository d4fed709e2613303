"""Sums of the gradients that reach one tensor over several paths.

Dense gradients are added by one ``AddN`` for each device they lie on, then across devices. Slices are concatenated,
which adds nothing up but keeps an embedding's gradient as small as the rows used; mixed with a dense gradient they
become dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import builder_of, current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices, densify
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import dtypes, shapes


@public("AggregationMethod")
class AggregationMethod:
    """How ``tf.gradients`` adds up several gradients of one tensor.

    ``ADD_N`` (the default) adds all at once when they are there, ``EXPERIMENTAL_TREE`` one by one,
    ``EXPERIMENTAL_ACCUMULATE_N`` with one buffer. Under a compiler the three give the same program; they differ in the
    graph.
    """

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


METHODS = (AggregationMethod.ADD_N, AggregationMethod.EXPERIMENTAL_TREE, AggregationMethod.EXPERIMENTAL_ACCUMULATE_N)


def check_method(method: Any) -> int:
    """The number of an aggregation method; None is the default."""
    if method is None:
        return AggregationMethod.DEFAULT
    if method not in METHODS:
        raise ValueError(
            f"Invalid aggregation_method specified {method}. Accepted values are {list(METHODS)}.\n"
            + errors.message(
                f"aggregation_method={method!r}",
                "ADD_N, EXPERIMENTAL_TREE or EXPERIMENTAL_ACCUMULATE_N",
                "aggregation_method=tf.AggregationMethod.ADD_N",
            )
        )
    return method


def aggregate(op: OpView, grads: Sequence[Any], method: int) -> Any:
    """One gradient (a tensor or `IndexedSlices`) for several of one output of ``op``; None for none."""
    if not grads:
        return None
    if len(grads) == 1:
        return grads[0]
    if not all(isinstance(grad, Tensor) for grad in grads):
        return _with_slices(grads)
    builder = current_builder()
    if method == AggregationMethod.EXPERIMENTAL_ACCUMULATE_N and len(grads) > 2 and _one_static_shape(grads):
        with builder.name_scope(f"{op.name}_gradient_sum"):
            if opdef.find("AccumulateNV2") is not None:
                return build("AccumulateNV2", list(grads), shape=grads[0]._shape)
            return build("AddN", list(grads))
    if method in (AggregationMethod.EXPERIMENTAL_TREE, AggregationMethod.EXPERIMENTAL_ACCUMULATE_N):
        with builder.name_scope(f"{op.name}_gradient_sum"):
            total = grads[0]
            for grad in grads[1:]:
                total = build("AddN", [total, grad])
            return total
    return _add_by_device(grads)


def _one_static_shape(grads: Sequence[Tensor]) -> bool:
    return shapes.is_static(grads[0]._shape) and all(grad._shape == grads[0]._shape for grad in grads)


def _add_by_device(grads: Sequence[Tensor]) -> Tensor:
    groups: dict[str, list[Tensor]] = {}
    for grad in grads:
        groups.setdefault(grad.device, []).append(grad)
    builder = builder_of(grads)
    sums = []
    for group in groups.values():
        with builder.colocate_with(group[0], ignore_existing=True):
            sums.append(group[0] if len(group) == 1 else build("AddN", group))
    return sums[0] if len(sums) == 1 else build("AddN", sums)


def _with_slices(grads: Sequence[Any]) -> Any:
    if any(isinstance(grad, Tensor) for grad in grads):
        return build("AddN", [grad if isinstance(grad, Tensor) else densify(grad) for grad in grads])
    indices = [grad.indices for grad in grads]
    if len({index.dtype.base for index in indices}) > 1:
        indices = [
            index if index.dtype.base is dtypes.int64 else build("Cast", index, DstT=dtypes.int64) for index in indices
        ]
    values = build("ConcatV2", [grad.values for grad in grads], axis=0, name="concat")
    return IndexedSlices(values, build("ConcatV2", indices, axis=0, name="concat"), _dense_shape(grads))


def _dense_shape(grads: Sequence[Any]) -> Any:
    return next((grad.dense_shape for grad in grads if grad.dense_shape is not None), None)
