"""Sums of products over the iterations of a loop, as one product after it.

The gradient of a matrix that every iteration multiplies with is a sum of products, one per iteration. Adding each to a
matrix of that size costs far more than the product itself. Where it is only summed up, the loop keeps the factors, and
one large product after it gives the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import origin
from anabranch.core.values import shapes
from anabranch.xla import engine
from anabranch.xla.lowering import Scope

MAX_BYTES = 1 << 30
"""How much memory the factors of one sum may take."""


def find(op: Operation, carried: Sequence[int], bound: int | None, operands: Sequence[Any]) -> dict[int, Any]:
    """Loop variables that only sum up products ``a^T b``, with the tensors ``a`` and ``b`` of the body."""
    products: dict[int, Any] = {}
    if not bound:
        return products
    body: Body = op._attrs["body"]
    condition: Body = op._attrs["cond"]
    for i in carried:
        factors = _product(body, i)
        if factors is None or condition.args[i]._consumers or condition.args[i] in condition.outputs:
            continue
        if _pays(factors, bound, operands[i]):
            products[i] = factors
    return products


def _product(body: Body, index: int) -> tuple[Tensor, Tensor] | None:
    arg, output = body.args[index], body.outputs[index]
    added = origin(output).op
    if added.definition.symbol != "+" or len(added._inputs) != 2 or len(arg._consumers) != 1:
        return None
    if sum(other is arg for other in body.outputs):
        return None
    first, second = added._inputs
    other = second if first is arg else first if second is arg else None
    if other is None:
        return None
    product = origin(other).op  # behind a gate of the gradients of one op: its control inputs are computed anyway
    factors = product.definition.factors(product._attrs) if product.definition.factors is not None else None
    if factors is None or len(factors) != 2 or product._outputs[0].dtype != product._inputs[0].dtype.base:
        return None
    a, b = (product._inputs[position] for position in factors)
    return a, b


def _pays(factors: tuple[Tensor, Tensor], bound: int, value: Any) -> bool:
    a, b = factors
    if getattr(value, "ndim", 0) != 2 or np.dtype(value.dtype).kind != "f":
        return False
    rows = (a._shape or (None,))[0] or (b._shape or (None,))[0]
    if rows is None or not shapes.is_compatible(a._shape, (rows, value.shape[0])):
        return False
    columns = value.shape[0] + value.shape[1]
    size = bound * rows * columns * np.dtype(value.dtype).itemsize
    return value.shape[0] * value.shape[1] > rows * columns and size <= MAX_BYTES


def finish(scope: Scope, start: Any, a: Any, b: Any) -> Any:
    """``start`` and the sum of the products of the rows of ``a`` and ``b``."""
    jax = engine.jax()
    left = a.reshape(-1, a.shape[-1])
    right = b.reshape(-1, b.shape[-1])
    product = jax.lax.dot_general(left, right, (((0,), (0,)), ((), ())), precision=scope.context.precision)
    return start + product
