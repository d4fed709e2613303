"""Sums of many tensors, and the axes over which gradients of broadcasting ops are summed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Int, NotDifferentiable, Op, Shape, Type
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared import open_forms, size_forms, unchecked
from anabranch.ops.shared.numerics import NUMBERS


def _sum(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    if hasattr(inputs[0], "plus"):  # lists and optionals, which know their own sum
        return functools.reduce(lambda total, value: total.plus(value), inputs)
    if attrs["T"].np is None:
        ctx.check(False, errors.UnimplementedError, "AddN of " + attrs["T"].name + " has no kernel; add the values")
    if ctx.host:
        for value in inputs[1:]:
            if np.shape(value) != np.shape(inputs[0]):
                text = (
                    "Inputs to operation {0} of type {1} must have the same size and shape. Input 0: {2} != input: {3}"
                )
                both_shapes = (list(np.shape(inputs[0])), list(np.shape(value)))
                ctx.check(False, errors.InvalidArgumentError, text.format(ctx.op.name, ctx.op.type, *both_shapes))
    total = inputs[0]
    for value in inputs[1:]:
        total = total + value
    return total


def _sum_gradient(op, grad):
    return [grad] * len(op.inputs)


class AddN(Op):
    """The sum of `N` tensors of one shape, added from the first to the last."""

    signature = "inputs: N * T -> sum: T"
    attrs = {"N": Int(minimum=1), "T": Type(f"{NUMBERS} variant")}
    effect = PURE
    straight = unchecked.add_n
    any_size = open_forms.add_n
    elementwise = True
    symbol = "+"
    aggregate = True
    commutative = True
    kernel = _sum
    gradient = _sum_gradient

    def shape(c):
        if c.attrs["T"] is dtypes.variant and (handle := c.handle(0)) is not None:
            c.set_handle(0, *handle)
        return inference.merged(c)


class AccumulateNV2(Op):
    """The sum of `N` tensors of the shape `shape`, added from the first to the last."""

    signature = "inputs: N * T -> sum: T"
    attrs = {"N": Int(minimum=1), "T": Type(NUMBERS), "shape": Shape()}
    effect = PURE
    elementwise = True
    symbol = "+"
    aggregate = True
    commutative = True
    kernel = _sum
    gradient = _sum_gradient

    def shape(c):
        return shapes.merge(inference.merged(c), c.attrs["shape"])


class BroadcastGradientArgs(Op):
    """The axes over which the gradient of a broadcast is summed, for operands of shapes `s0` and `s1`.

    Where both operands have extent 1 the axis is in both results; equal shapes need no sum at all.
    """

    signature = "s0: T, s1: T -> r0: T, r1: T"
    attrs = {"T": Type("int32 int64", "int32")}
    effect = PURE
    of_sizes = size_forms.gradient_axes
    gradient = NotDifferentiable("it is a function of shapes")

    def shape(c):
        c.with_rank("s0", 1)
        c.with_rank("s1", 1)
        return [(None,), (None,)]

    def bound(c):
        sizes = [c.shape("s0"), c.shape("s1")]
        if any(size is None or size[0] is None for size in sizes):
            return None
        longest = max(size[0] for size in sizes)
        return [(longest,), (longest,)]

    def host_kernel(ctx, inputs, attrs):
        dtype = attrs["T"].np
        s0, s1 = (np.asarray(value).tolist() for value in inputs)
        if s0 == s1:
            return [np.zeros(0, dtype), np.zeros(0, dtype)]
        rank = max(len(s0), len(s1))
        wide0, wide1 = [1] * (rank - len(s0)) + s0, [1] * (rank - len(s1)) + s1
        for a, b in zip(wide0, wide1, strict=True):
            if a != b and a != 1 and b != 1:
                ctx.check(
                    False,
                    errors.InvalidArgumentError,
                    f"Incompatible shapes: {shapes.show(tuple(s0))} vs. {shapes.show(tuple(s1))}",
                )
        return [np.array([i for i in range(rank) if wide[i] == 1], dtype) for wide in (wide0, wide1)]


# ------------------------------------------------------------------------------------------------------------- public
def _converted(inputs: Any) -> list[Any]:
    refused = "inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape\n"
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError(
            refused
            + errors.message(
                f"{inputs!r} to add up", "a list of at least one tensor", "tf.reduce_sum(x) for one tensor"
            )
        )
    tensors = [
        item if isinstance(item, (Tensor, IndexedSlices)) else convert.convert_to_tensor(item) for item in inputs
    ]
    first = tensors[0]
    for item in tensors[1:]:
        if item.dtype.base != first.dtype.base and isinstance(item, IndexedSlices):
            raise ValueError(
                refused
                + errors.message(
                    f"tensors of {first.dtype.base.name} and {item.dtype.base.name}",
                    "one dtype",
                    f"tf.cast(x, tf.{first.dtype.base.name})",
                )
            )
    return tensors


@public("add_n", "math.add_n")
def add_n(inputs: Any, name: str | None = None) -> Any:
    """The sum of a list of tensors (or IndexedSlices) of one shape and dtype.

    Raises:
        ValueError: the list is empty, or the shapes or dtypes differ.

    Example:
        >>> import anabranch as tf
        >>> tf.add_n([tf.ones([2]), tf.ones([2])]).shape.as_list()
        [2]
    """
    tensors = _converted(inputs)
    if len(tensors) == 1:
        only = convert.convert_to_tensor(tensors[0])
        return build("Identity", only, name=name) if name else only
    return build("AddN", [convert.convert_to_tensor(item) for item in tensors], name=name)


@public("accumulate_n", "math.accumulate_n")
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Any:
    """The sum of a list of tensors of one shape and dtype, which may be given as ``shape`` and ``tensor_dtype``."""
    tensors = [convert.convert_to_tensor(item) for item in _converted(inputs)]
    wanted = None if tensor_dtype is None else dtypes.as_dtype(tensor_dtype).base
    if wanted is not None and wanted != tensors[0].dtype.base:
        raise TypeError(
            errors.message(
                f"tensor_dtype={wanted!r} for tensors of {tensors[0].dtype.base.name}",
                f"tensor_dtype=tf.{tensors[0].dtype.base.name}",
                "leave it out, or cast the tensors",
            )
        )
    merged = shapes.as_raw(shape)
    for item in tensors:
        merged = shapes.merge(merged, item._shape)
    if len(tensors) == 1:
        return build("Identity", tensors[0], name=name) if name else tensors[0]
    return build("AccumulateNV2", tensors, shape=merged, name=name)
