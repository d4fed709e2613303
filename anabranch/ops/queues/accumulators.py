"""Ops on conditional accumulators. What one does is written in ``accumulator_objects.py``.

Dense ones exist twice: with a reference to a string tensor as their handle, and with a resource (``Resource...``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Shape, String, Type, channel, define
from anabranch.ops.queues.accumulator_objects import Accumulator, SparseAccumulator
from anabranch.ops.queues.sharing import shared_object

_NO_GRADIENT = NotDifferentiable("an accumulator hands values from one step to another")
_NUMBERS = (
    "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 uint16 complex128 "
    "half uint32 uint64"
)
_MADE: dict[str, Any] = {
    "dtype": Type(_NUMBERS),
    "shape": Shape(),
    "container": String(""),
    "shared_name": String(""),
    "reduction_type": String("MEAN", allowed="MEAN SUM"),
}


def _create(kind: type[Accumulator]) -> Any:
    return lambda attrs, name: kind(attrs["shared_name"] or name, attrs)


# name, the handle's form, the kind, what it makes
_MAKERS: tuple[tuple[str, str, type[Accumulator], str], ...] = (
    ("ConditionalAccumulator", "Ref(string)", Accumulator, "An accumulator of gradients."),
    ("ResourceConditionalAccumulator", "resource", Accumulator, "An accumulator of gradients."),
    (
        "SparseConditionalAccumulator",
        "Ref(string)",
        SparseAccumulator,
        "An accumulator of gradients that have few rows.",
    ),
)
for _name, _handle, _kind, _doc in _MAKERS:
    define(
        _name,
        _doc,
        signature=f"-> handle: {_handle}",
        attrs=_MADE,
        effect=PURE,
        makes="accumulator",
        create=_create(_kind),
        shape=(lambda c: ()) if _handle == "resource" else (lambda c: (2,)),
        gradient=_NO_GRADIENT,
    )


def _accumulator(ctx: Any, handle: Any) -> Accumulator:
    accumulator: Accumulator = shared_object(ctx, handle, "accumulator", Accumulator)
    return accumulator


def _apply(ctx, inputs, attrs):
    _accumulator(ctx, inputs[0]).apply(inputs[2], int(inputs[1]), ctx.op)


def _apply_sparse(ctx, inputs, attrs):
    handle, step, indices, rows, dense = inputs
    _accumulator(ctx, handle).apply((indices, rows, dense, attrs["has_known_shape"]), int(step), ctx.op)


def _take(ctx, inputs, attrs):
    return _accumulator(ctx, inputs[0]).take(int(inputs[1]), ctx.cancellation, ctx.op)


def _set_step(ctx, inputs, attrs):
    _accumulator(ctx, inputs[0]).set_step(int(inputs[1]))


def _count(ctx, inputs, attrs):
    return np.array(_accumulator(ctx, inputs[0]).count, np.int32)


def _apply_shape(c: ShapeContext) -> list[RawShape]:
    c.with_rank("local_step", 0)
    return []


def _set_shape(c: ShapeContext) -> list[RawShape]:
    c.with_rank("new_global_step", 0)
    return []


def _take_shape(c: ShapeContext) -> RawShape:
    c.with_rank("num_required", 0)
    return None


def _take_sparse_shape(c: ShapeContext) -> list[RawShape]:
    c.with_rank("num_required", 0)
    return [(None,), None, (None,)]


def _scalar(c: ShapeContext) -> RawShape:
    return ()


_DTYPE: dict[str, Any] = {"dtype": Type(_NUMBERS)}
_SPARSE = "local_step: int64, gradient_indices: int64, gradient_values: dtype, gradient_shape: int64 ->"
_SPARSE_ATTRS = {**_DTYPE, "has_known_shape": Bool()}
_APPLY_SPARSE_DOC = "Adds a gradient of some rows to an accumulator, unless it is stale."
_TAKE_SPARSE = "num_required: int32 -> indices: int64, values: dtype, shape: int64"
_TAKE_SPARSE_DOC = "The mean (or sum), row by row, of an accumulator's gradients of some rows."
_APPLY = "local_step: int64, gradient: dtype ->"
_APPLY_DOC = "Adds a gradient to an accumulator, unless it was computed at an earlier step than the accumulator's."
_TAKE_DOC = "The mean (or sum) of an accumulator's gradients, once there are ``num_required``; sets it back."
_COUNT_DOC = "How many gradients an accumulator holds; a scalar."
_STEP_DOC = "Sets the time step of an accumulator."
_TAKE = "num_required: int32 -> average: dtype"
_COUNT = "-> num_accumulated: int32"
_SET = "new_global_step: int64 ->"

# name, inputs after the handle and outputs, attributes, shape rule, kernel, whether it may wait, what it does
_OPS: tuple[tuple[str, str, dict[str, Any], Any, Any, bool, str], ...] = (
    ("AccumulatorApplyGradient", _APPLY, _DTYPE, _apply_shape, _apply, False, _APPLY_DOC),
    ("AccumulatorNumAccumulated", _COUNT, {}, _scalar, _count, False, _COUNT_DOC),
    ("AccumulatorSetGlobalStep", _SET, {}, _set_shape, _set_step, False, _STEP_DOC),
    ("AccumulatorTakeGradient", _TAKE, _DTYPE, _take_shape, _take, True, _TAKE_DOC),
    ("ResourceAccumulatorApplyGradient", _APPLY, _DTYPE, _apply_shape, _apply, False, _APPLY_DOC),
    ("ResourceAccumulatorNumAccumulated", _COUNT, {}, _scalar, _count, False, _COUNT_DOC),
    ("ResourceAccumulatorSetGlobalStep", _SET, {}, _set_shape, _set_step, False, _STEP_DOC),
    ("ResourceAccumulatorTakeGradient", _TAKE, _DTYPE, _take_shape, _take, True, _TAKE_DOC),
    ("SparseAccumulatorApplyGradient", _SPARSE, _SPARSE_ATTRS, _apply_shape, _apply_sparse, False, _APPLY_SPARSE_DOC),
    ("SparseAccumulatorTakeGradient", _TAKE_SPARSE, _DTYPE, _take_sparse_shape, _take, True, _TAKE_SPARSE_DOC),
)

for _name, _rest, _attrs, _shape, _kernel, _waits, _doc in _OPS:
    _handle = "resource" if _name.startswith("Resource") else "Ref(string)"
    _comma = "" if _rest.startswith("->") else ","
    define(
        _name,
        _doc,
        signature=f"handle: {_handle}{_comma} {_rest}",
        attrs=_attrs,
        effect=channel("handle"),
        shape=_shape,
        host_kernel=_kernel,
        may_block=_waits,
        passable=_waits or _rest.endswith("->"),
        gradient=_NO_GRADIENT,
    )
