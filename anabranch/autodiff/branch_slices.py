"""Gradients of conditionals that are slices: of a table from which branches gather rows.

A program that looks words up in one of its branches wants the rows that it looked up, not a table of zeros. So where no
branch gives a dense gradient, slices come out of the conditional. All branches must give as many rows there, or the
conditional would be none for a compiler. Therefore each branch gives the rows of all of them, those of others with
zeros. That needs their positions: they are computed again where they follow from what stands outside of the branches;
where they do not, but their number is known, zeros stand in row 0. What is left gives rows of its own, and their number
depends on the branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.autodiff import gradients as walks
from anabranch.core.contract import inference
from anabranch.core.contract.roles import Cost, Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes, shapes

if TYPE_CHECKING:
    from anabranch.autodiff.control_flow import Differentiated


def unify(parts: Sequence[Differentiated], n: int, variable: Tensor) -> bool:
    """Give gradient ``n`` of all branches, that of ``variable``, one form as slices; says whether it could.

    The slices have no dense shape: :func:`dense_shape` tells it outside.
    """
    gradients = [part.gradients[n] for part in parts]
    present = [gradient for gradient in gradients if gradient is not None]
    if not all(isinstance(gradient, IndexedSlices) for gradient in present):
        return False
    whole = _shape_of(variable)
    for gradient in present:
        if whole and gradient.values._shape is not None:
            gradient.values._shape = shapes.merge(gradient.values._shape, (None, *whole[1:]))
    tails = {None if gradient.values._shape is None else gradient.values._shape[1:] for gradient in present}
    if len(tails) != 1 or not shapes.is_static(tail := tails.pop()):
        return False
    index = dtypes.int32
    if any(gradient.indices.dtype.base is dtypes.int64 for gradient in present):
        index = dtypes.int64
    slices: list[IndexedSlices | None] = [
        None if gradient is None else _cast(part.body, gradient, index)
        for part, gradient in zip(parts, gradients, strict=True)
    ]
    if not _alike(slices):
        slices = list(_filled(parts, slices, tail or (), index))
    for part, slices_of_part in zip(parts, slices, strict=True):
        part.gradients[n] = slices_of_part
    return True


def _shape_of(variable: Tensor) -> shapes.RawShape:
    handle = variable._handle if variable.dtype.base is dtypes.resource else None
    return variable._shape if handle is None else handle.shape


def dense_shape(gradients: Sequence[Any], variable: Tensor) -> Tensor:
    """The dense shape of the slices, as a tensor outside of the conditional.

    Args:
        gradients: slices or None as the branches gave them at first.
        variable: the input of the conditional that they are gradients of.
    """
    for gradient in gradients:
        if gradient is not None and gradient.dense_shape is not None:
            known = inference.partial_value(gradient.dense_shape)
            if isinstance(known, np.ndarray):
                return constant(known)
    shape = _shape_of(variable)
    if shapes.is_static(shape) and (variable.dtype.base is not dtypes.resource or variable._handle is not None):
        return constant([size or 0 for size in shape or ()], dtypes.int32)
    shape_op: Tensor = build("VariableShape" if variable.dtype.base is dtypes.resource else "Shape", variable)
    return shape_op


def _cast(body: Body, gradient: IndexedSlices, index: dtypes.DType) -> IndexedSlices:
    with body.graph.building(body), body.graph.control_dependencies(None):
        indices = gradient.indices
        if indices.dtype.base is not index:
            indices = build("Cast", indices, DstT=index)
        return IndexedSlices(gradient.values, indices)


def _alike(slices: Sequence[IndexedSlices | None]) -> bool:
    """Whether all branches give slices of a known number of rows, and it is the same one."""
    counts = {None if item is None else _count(item) for item in slices}
    return len(slices) == 1 or (len(counts) == 1 and None not in counts)


def _count(slices: IndexedSlices) -> int | None:
    for tensor in (slices.values, slices.indices):
        if tensor._shape:
            size: int | None = tensor._shape[0]
            if size is not None:
                return size
    return None


def _filled(
    parts: Sequence[Differentiated], slices: Sequence[IndexedSlices | None], tail: Sequence[Any], index: dtypes.DType
) -> list[IndexedSlices]:
    """For each branch the rows of all; those of other branches are zeros."""
    dtype = next(item.values.dtype.base for item in slices if item is not None)
    filled = []
    for part, own in zip(parts, slices, strict=True):
        with part.body.graph.building(part.body), part.body.graph.control_dependencies(None):
            rows = []
            for other in slices:
                if other is None:
                    continue
                zeros = other if other is own else _zeros_like(part.body, other, tail, dtype, index)
                if zeros is not None:
                    rows.append(zeros)
            if not rows:
                none = constant(np.zeros([0], index.np), index)
                rows.append(IndexedSlices(walks.zeros_of_shape((0, *tail), dtype), none))
            if len(rows) == 1:
                filled.append(IndexedSlices(build("Identity", rows[0].values), build("Identity", rows[0].indices)))
                continue
            filled.append(
                IndexedSlices(
                    build("ConcatV2", [row.values for row in rows], 0),
                    build("ConcatV2", [row.indices for row in rows], 0),
                )
            )
    return filled


def _zeros_like(
    body: Body, slices: IndexedSlices, tail: Sequence[Any], dtype: dtypes.DType, index: dtypes.DType
) -> IndexedSlices | None:
    """Rows of zeros where another branch has ``slices``; None if neither their positions nor number can be told."""
    count = _count(slices)
    indices = _again(slices.indices, body) if _can(slices.indices, body) else None
    if indices is None:
        if count is None:
            return None
        indices = constant(np.zeros([count], index.np), index)
    if count is not None:
        return IndexedSlices(walks.zeros_of_shape((count, *tail), dtype), indices)
    sizes = build("ConcatV2", [build("Shape", indices), constant(list(tail), dtypes.int32)], 0) if tail else None
    sizes = build("Shape", indices) if sizes is None else sizes
    values: Tensor = build("Fill", sizes, constant(0, dtype))
    return IndexedSlices(values, indices)


def _source(tensor: Tensor) -> Tensor | None:
    """What an argument of a gradient body, or of its forward body, stands for."""
    body = tensor.op.body
    for table in (body.captures, body.intermediates):
        for outer, arg in table.items():
            if arg is tensor:
                return outer
    return body_ops.outer_of(tensor)


def _arranges(op: Operation) -> bool:
    """Whether an op only arranges positions: computing it in a branch that does not need it costs little and cannot
    fail.
    """
    definition = op.definition
    if op._control_inputs or definition.checks is not None or definition.cost is not Cost.ELEMENTS:
        return False
    return definition.moves or definition.shape_only or definition.role is Role.CAST


def _can(tensor: Tensor, body: Body) -> bool:
    """Whether a tensor of another branch, or of its gradient, can be computed again in ``body``."""
    stack, seen = [tensor], {tensor}
    while stack:
        current = stack.pop()
        if current.op.body is body or current.op.body.encloses(body):
            continue
        definition = current.op.definition
        if definition.role is Role.ARGUMENT:
            source = _source(current)
            if source is None or source.dtype.is_ref:
                return False
            inputs: Sequence[Tensor] = [source]
        elif definition.role is Role.CONSTANT:
            continue
        elif _arranges(current.op):
            inputs = current.op._inputs
        else:
            return False
        stack += [item for item in inputs if item not in seen]
        seen.update(inputs)
        if len(seen) > 64:
            return False
    return True


def _again(tensor: Tensor, body: Body) -> Tensor:
    if tensor.op.body is body or tensor.op.body.encloses(body):
        return body.capture(tensor)
    if tensor.op.role is Role.ARGUMENT:
        source = _source(tensor)
        assert source is not None
        return _again(source, body)
    copy = body_ops.copy_op(tensor.op, [_again(item, body) for item in tensor.op._inputs], body)
    return copy._outputs[tensor.value_index]
