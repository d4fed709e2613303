"""How many operations on floats an op does, by TensorFlow's way of counting.

TensorFlow counts the types below and no others, each by a formula of its shapes; an op with a shape that is not known
is not counted. Programs that print "FLOPs" of a model expect these numbers. ``ops.RegisterStatistics`` adds types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from anabranch.core.graph.operation import Operation, Tensor

Formula = Callable[[Operation], "int | None"]


def _shape(tensor: Tensor) -> tuple[int, ...] | None:
    raw = tensor._shape
    return raw if raw is not None and None not in raw else None  # type: ignore[return-value]


def _size(tensor: Tensor) -> int | None:
    shape = _shape(tensor)
    return None if shape is None else math.prod(shape)


def _product(*factors: int | None) -> int | None:
    return None if any(factor is None for factor in factors) else math.prod(factors)  # type: ignore[arg-type]


def _by_element(count: int) -> Formula:
    """So many for each element of the result."""
    return lambda op: _product(count, _size(op.outputs[0]))


def _reduction(whole: bool = False) -> Formula:
    """An addition or comparison for each element beyond the first of each result; one more for each if ``whole``."""

    def formula(op: Operation) -> int | None:
        taken, given = _size(op.inputs[0]), _size(op.outputs[0])
        if taken is None or given is None:
            return None
        return taken if whole else taken - given

    return formula


def _product_of_matrices(op: Operation) -> int | None:
    first, result = _shape(op.inputs[0]), _size(op.outputs[0])
    if first is None or result is None:
        return None
    transposed = op._attrs.get("transpose_a") or op._attrs.get("adj_x")
    return 2 * first[-2 if transposed else -1] * result


def _convolution(op: Operation) -> int | None:
    kernel, result = _shape(op.inputs[1]), _size(op.outputs[0])
    return None if kernel is None else _product(2, result, *kernel[:-1])


def _convolution_by_channel(op: Operation) -> int | None:
    kernel, result = _shape(op.inputs[1]), _size(op.outputs[0])
    return None if kernel is None else _product(2, result, *kernel[:2])


def _gradient_of_convolution(inputs: Callable[[Operation], Tensor], kernel: Callable[[Operation], Tensor]) -> Formula:
    def formula(op: Operation) -> int | None:
        given, window = _size(inputs(op)), _shape(kernel(op))
        if given is None or window is None:
            return None
        return 2 * given * math.prod(window) // (window[2] * math.prod(op._attrs["strides"]))

    return formula


def _window(op: Operation) -> int:
    return math.prod(op._attrs["ksize"])


def _gradient_of_maxima(op: Operation) -> int | None:
    return _product(_window(op) + 1, _size(op.inputs[1]))


def _sum_of_squares(op: Operation) -> int | None:
    size = _size(op.inputs[0])
    return None if size is None else 3 * size - 1


_PER_ELEMENT = {
    1: "Reciprocal Square Log Neg AssignSub AssignAdd Add AddV2 Sub Mul RealDiv Maximum Minimum Pow GreaterEqual "
    "Greater LessEqual Less Equal NotEqual BiasAdd",
    2: "Rsqrt SquaredDifference",
    4: "RsqrtGrad",
    5: "Softmax",
}
_FORMULAS: dict[str, Formula] = {
    **{name: _by_element(count) for count, names in _PER_ELEMENT.items() for name in names.split()},
    "L2Loss": _sum_of_squares,
    "Mean": _reduction(whole=True),
    **{name: _reduction() for name in ("Sum", "ArgMax", "ArgMin", "BiasAddGrad")},
    **{name: _product_of_matrices for name in ("MatMul", "BatchMatMul", "BatchMatMulV2")},
    "AddN": lambda op: _product(len(op.inputs) - 1, _size(op.outputs[0])),
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "DepthwiseConv2dNative": _convolution_by_channel,
    "Dilation2D": _convolution_by_channel,
    "Conv2DBackpropInput": _gradient_of_convolution(lambda op: op.outputs[0], lambda op: op.inputs[1]),
    "Conv2DBackpropFilter": _gradient_of_convolution(lambda op: op.inputs[0], lambda op: op.outputs[0]),
    "AvgPool": lambda op: _product(_window(op), _size(op.outputs[0])),
    "MaxPool": lambda op: _product(_window(op), _size(op.outputs[0])),
    "AvgPoolGrad": lambda op: _product(2 * _window(op), _size(op.inputs[1])),
    "MaxPoolGrad": _gradient_of_maxima,
}
REGISTERED: dict[tuple[str, str], Callable[[Any, Any], Any]] = {}
"""Functions of programs, by op type and statistic: each takes the graph and a NodeDef, and gives an ``OpStats``."""


def float_operations(op: Operation) -> int:
    """The number of operations on floats, 0 where it is not known."""
    registered = REGISTERED.get((op.type, "flops"))
    if registered is not None:
        return int(registered(op.graph, op.node_def).value or 0)
    formula = _FORMULAS.get(op.type)
    return (formula(op) or 0) if formula is not None else 0
