"""How many operations TensorFlow 1.15 makes of one op's gradient: what default seeds behind a gradient count.

Rules here build fewer operations than TensorFlow's (an axis that is known needs no ``BroadcastGradientArgs``, a sum is
spread by one ``BroadcastTo``), and a graph's seed alone numbers its random ops by the operations made before them (see
:mod:`anabranch.core.graph.random_seed`). So what stands here says nothing of an op of ours: it is the number that
TensorFlow's own rule comes to, for those types where ours comes to another. Most are one number; others follow from
what is known of shapes. ``tests/autodiff/test_gradient_counts.py`` holds TensorFlow's numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.static_value import constant_value
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes

_KEPT = ("__shapes_of_gradients",)  # of a graph: what its gradients have asked for
_SMALL = 1000  # elements of zeros that TensorFlow makes one constant of
_REDUCED_SHAPE = 10  # the shape of a reduction with its axes kept
_ROUNDED = 3  # a quotient of shapes, at least by 1
_ZEROS_OF_SHAPE = 3  # shape, zero, Fill


def operations(op: Any, grads: Sequence[Any]) -> int | None:
    """The number for ``op`` and gradients of its outputs; None where it is that of the operations built here."""
    count = _COUNTS.get(op.type)
    return count(op, grads) if callable(count) else count


class Asked:
    """What TensorFlow's rules for the ops of a loop take of the forward loop, besides what the rules here take."""

    def __init__(self) -> None:
        self.shapes = 0
        """Shapes that are not known."""
        self.operands: set[Any] = set()
        self.outside: set[Any] = set()
        """Operands that are not of the loop in TensorFlow."""
        self.arrays: set[Any] = set()
        """Lists that elements are read from or written to, as they were first: TensorFlow's arrays."""

    def note(self, op: Any) -> None:
        """Note what the rule for ``op`` takes."""
        unknown = [not _is_static(x._shape) for x in op.inputs]
        if op.type in _BROADCASTS:
            self.shapes += 2 * any(unknown)
        elif op.type in _QUOTIENTS:
            self.shapes += sum(unknown)
        elif op.type == "ConcatV2" and any(unknown):  # the shapes are the results of one operation
            self.operands.update(op.inputs)
        elif op.type == "Select" and unknown[1]:  # zeros like it, and zeros themselves are of outside there
            maker = op.inputs[1]._maker
            if maker is not None and maker.type == "ZerosLike":
                self.outside.add(op.inputs[1])
            else:
                self.operands.add(op.inputs[1])
        elif op.type in _SHAPES:
            self.shapes += _SHAPES[op.type] * unknown[0]
        if op.type == "GatherV2" and constant_value(op.inputs[2]) != 0:
            self.operands.add(op.inputs[2])
        if op.type in ("Sum", "Mean") and unknown[0] and not _is_whole(op):
            self.operands.add(op.inputs[1])
        self.operands.update(op.inputs[index] for index in _OPERANDS.get(op.type, ()))
        if op.type in ("TensorListGetItem", "TensorListSetItem"):
            array = op.inputs[0]
            while array._maker is not None and array._maker.type == "TensorListSetItem":
                array = array._maker.inputs[0]
            self.arrays.add(array)


def behind_gate(op: Any) -> int:
    """How many gradients more than the rule here TensorFlow's returns: each passes a gate by an operation."""
    if op.type == "TopKV2":
        return 3
    return 2 * bool(op.type in _BATCH_NORMALIZATIONS and op.get_attr("is_training"))


def _is_static(shape: tuple[int | None, ...] | None) -> bool:
    return shape is not None and None not in shape


def _once(what: str, key: Any) -> bool:
    """Whether this is the first time that a graph asks for what TensorFlow keeps for a graph."""
    kept: set[Any] = current_builder().library_state(_KEPT, set)
    if (what, key) in kept:
        return False
    kept.add((what, key))
    return True


def _zeros_like(x: Any) -> int:
    return 3 if _is_static(x._shape) and np.prod(x._shape, dtype=np.int64) >= _SMALL else 1


def _are_alike(op: Any, grad: Any) -> bool:
    x, y = op.inputs[:2]
    return isinstance(grad, Tensor) and _is_static(x._shape) and x._shape == y._shape == grad._shape


def _broadcast(op: Any, grad: Any) -> int:
    """Axes to sum over, as far as the shapes leave that open, and the sums."""
    x, y = op.inputs[:2]
    if not (isinstance(grad, Tensor) and _is_static(x._shape) and _is_static(y._shape)):
        return 3 + 2 + 2
    axes = 3 * _once("axes", (x._shape, y._shape))
    return axes + 4 * (x._shape != grad._shape) + 4 * (y._shape != grad._shape)


def _add(op: Any, grads: Sequence[Any]) -> int:
    return 0 if _are_alike(op, grads[0]) else _broadcast(op, grads[0])


def _sub(op: Any, grads: Sequence[Any]) -> int:
    return 1 + _add(op, grads)


def _conjugates(op: Any) -> int:
    return 2 * bool(op.inputs[0].dtype.is_complex)


def _mul(op: Any, grads: Sequence[Any]) -> int:
    if _are_alike(op, grads[0]) and grads[0].dtype.base in (dtypes.float32, dtypes.int32):
        return 2
    return 2 + _conjugates(op) + _broadcast(op, grads[0])


def _mul_no_nan(op: Any, grads: Sequence[Any]) -> int:
    return 2 if _are_alike(op, grads[0]) else 9


def _divide(op: Any, grads: Sequence[Any]) -> int:
    return 12 + _conjugates(op)


def _pow(op: Any, grads: Sequence[Any]) -> int:
    return 15 + _zeros_like(op.inputs[0]) + _broadcast(op, grads[0])


def _squared_difference(op: Any, grads: Sequence[Any]) -> int:
    return 5 + _add(op, grads)


def _select(op: Any, grads: Sequence[Any]) -> int:
    return 2 + _zeros_like(op.inputs[1])


def _is_whole(op: Any) -> bool:
    shape, axes = op.inputs[0]._shape, constant_value(op.inputs[1])
    return shape is not None and axes is not None and np.array_equal(axes, np.arange(len(shape)))


def _sum(op: Any, grads: Sequence[Any]) -> int:
    shape, axes = op.inputs[0]._shape, constant_value(op.inputs[1])
    if shape is not None and axes is not None:
        if _is_whole(op):
            return 4
        if _is_static(shape):
            wide = axes.dtype != np.int32
            return 4 + (17 + wide) * _once("reduced", (shape, tuple(axes.reshape(-1).tolist())))
    return 16


def _mean(op: Any, grads: Sequence[Any]) -> int:
    known = _is_static(op.inputs[0]._shape) and _is_static(op.outputs[0]._shape)
    return _sum(op, grads) + (2 if known else 11)


def _batch_product(op: Any, grads: Sequence[Any]) -> int:
    x, y = op.inputs
    return 2 if _is_static(x._shape) and x._shape == y._shape else 17


def _gather(op: Any, grads: Sequence[Any]) -> int | None:
    axis = constant_value(op.inputs[2])
    return 13 if axis is not None and int(axis) == 0 else 55 + 41 * op.get_attr("batch_dims")


def _concat(op: Any, grads: Sequence[Any]) -> int | None:
    inputs = op.inputs[:-1]
    if len(inputs) == 1:
        return 0
    if not isinstance(grads[0], Tensor):
        return None
    shapes = 0
    for x in inputs:  # one by one as long as they are known, and then all at once
        shapes += 1
        if not _is_static(x._shape):
            shapes += 1
            break
    pieces = 1 + len(inputs) if len(inputs) <= 16 else 7
    return 2 + shapes + pieces


def _drops_negatives(number: int) -> Callable[[Any, Sequence[Any]], int | None]:
    def count(op: Any, grads: Sequence[Any]) -> int | None:
        shape = op.outputs[0]._shape
        return None if shape is None else number + 2 * (len(shape) - 1)

    return count


def _set_diagonal(op: Any, grads: Sequence[Any]) -> int | None:
    return None if all(_is_static(x._shape) for x in op.inputs[:2]) else 21


def _convolution(op: Any, grads: Sequence[Any]) -> int:
    return 3 + 2 * any(rate != 1 for rate in op.get_attr("dilations"))  # batches of spaces, there and back


def _cross_entropy(op: Any, grads: Sequence[Any]) -> int:
    """Logits of rank 2 are reshaped, too, there: and losses, both of which pass gradients."""
    maker = op.inputs[0]._maker
    return 8 + 4 * (maker is None or maker.type != "Reshape")


def _small_zeros(number: int) -> Callable[[Any, Sequence[Any]], int]:
    return lambda op, grads: number + _zeros_like(op.inputs[0])


_BROADCASTS = frozenset(("Add", "AddV2", "Sub", "Mul"))
_QUOTIENTS = frozenset(("Div", "RealDiv", "DivNoNan", "Pow", "Maximum", "Minimum", "SquaredDifference", "FloorMod"))
_SHAPES = {
    "Reshape": 1,
    "ExpandDims": 1,
    "Squeeze": 1,
    "BroadcastTo": 1,
    "StridedSlice": 1,
    "Slice": 2,
    "Pad": 1,
    "PadV2": 1,
    "Tile": 1,
    "GatherV2": 1,
    "Sum": 1,
    "Mean": 2,
}
_OPERANDS = {
    "Transpose": (1,),
    "Pad": (1,),
    "PadV2": (1,),
    "Slice": (1,),
    "StridedSlice": (1, 2, 3),
    "Tile": (1,),
    "GatherV2": (1,),
    "ConcatV2": (-1,),
    "Split": (0,),
}
_BATCH_NORMALIZATIONS = frozenset(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"))

_COUNTS: dict[str, Any] = {
    # two operands, broadcast
    "Add": _add,
    "AddV2": _add,
    "Sub": _sub,
    "Mul": _mul,
    "MulNoNan": _mul_no_nan,
    "Div": _divide,
    "RealDiv": _divide,
    "DivNoNan": _divide,
    "Pow": _pow,
    "Maximum": 13,
    "Minimum": 13,
    "SquaredDifference": _squared_difference,
    "Select": _select,
    "SelectV2": 12,
    "Complex": 9,
    "FloorMod": 10,
    "Atan2": 7,
    "Igamma": 19,
    "Igammac": 21,
    "Zeta": 11,
    "Polygamma": 9,
    "Xlogy": 14,
    "Xdivy": 17,
    # one operand
    "Sign": _ZEROS_OF_SHAPE,
    "Softplus": 2,
    "BesselI1e": 17,
    # reductions
    "Sum": _sum,
    "Mean": _mean,
    "Max": 9 + _REDUCED_SHAPE,
    "Min": 9 + _REDUCED_SHAPE,
    "Prod": 49,
    "SegmentMean": 16,
    "SegmentMax": 10,
    "SegmentMin": 10,
    "UnsortedSegmentSum": _drops_negatives(12),
    "UnsortedSegmentMax": _drops_negatives(23),
    "UnsortedSegmentMin": _drops_negatives(23),
    # linear algebra
    "BatchMatMulV2": _batch_product,
    "MatrixDeterminant": 8,
    "MatrixTriangularSolve": 6,
    "MatrixSetDiag": _set_diagonal,
    # arrays
    "GatherV2": _gather,
    "ConcatV2": _concat,
    "Slice": 12,
    "Transpose": 2,
    "Tile": 12,
    "Pad": 9,
    "PadV2": 9,
    "BroadcastTo": 4,
    "ExtractImagePatches": 97,
    "TopKV2": 43,
    "TensorListStack": 3,
    "TensorListGather": 3,
    "TensorListFromTensor": 3,
    "TensorListScatterV2": 3,
    "TensorListSetItem": 3,
    "TensorListGetItem": 3,
    # windows
    "Conv2D": _convolution,
    # losses
    "SparseSoftmaxCrossEntropyWithLogits": 4,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "CTCLoss": 4,
    # gradients of gradients
    "ReluGrad": 1 + _ZEROS_OF_SHAPE,
    "Relu6Grad": 1 + _ZEROS_OF_SHAPE,
    "LeakyReluGrad": 1 + _ZEROS_OF_SHAPE,
    "BiasAddGrad": 20,
    "MaxPoolGrad": 1 + 2 * _ZEROS_OF_SHAPE,
    "EluGrad": _small_zeros(5),
    "SeluGrad": _small_zeros(5),
}
