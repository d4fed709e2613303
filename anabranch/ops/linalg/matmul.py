"""Matrix products.

Policy. Two-byte floats multiply with float32 accumulators and round once; integers wrap in their own type.
`ctx.precision` governs float32 on accelerators. Gradients are matrix products with the transpositions exchanged, and
nothing is transposed in memory but on CPUs, before a product that begins with a transposed matrix and is not large.
There, the products of many small matrices, and of tall ones of few columns, are sums that are taken over all rows.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared import host_blas, open_forms, unchecked
from anabranch.ops.shared.array_rules import dense, refuse, require
from anabranch.ops.shared.broadcast_gradients import reduce_to_shape_of
from anabranch.ops.shared.widening import is_half

_WIDE = 1 << 28
"""Multiplications from which XLA's product for the CPU is as fast when its first matrix lies transposed in memory.

Below, the product of a matrix that is written out runs in the library, and in the threads, of all other products. Of
128 rows, `[784, 512]` takes 0.98, `[512, 512]` 0.85-0.97 and `[512, 10]` 0.35-0.5 of the time, and the step of a
multilayer perceptron 0.76-0.9; beyond, the processor time grows, and from 2**32 on the time.
"""


_SMALL, _SMALL_ROW, _MANY = 16, 64, 256
"""Rows and inner size, columns, and how many matrices are many small ones."""
_TALL, _FEW_COLUMNS = 2048, 5
"""Rows and columns of a matrix that is tall."""


# ------------------------------------------------------------------------------------------------------------- kernels
def product(ctx: Any, a: Any, b: Any) -> Any:
    """``a @ b`` over the last two dimensions, in the type of ``a``; batch dimensions broadcast."""
    if ctx.host:
        if is_half(a.dtype):
            return host_blas.product(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        return host_blas.product(a, b)
    if ctx.platform == "cpu" and (_are_many_small(a, b) or _is_of_few_columns(a, b)):
        return ctx.apart(_sum_of_outer_products(a, b))
    wide = np.float32 if is_half(a.dtype) else a.dtype
    return ctx.xp.matmul(a, b, precision=ctx.precision, preferred_element_type=wide).astype(a.dtype)


def _are_many_small(a: Any, b: Any) -> bool:
    """Whether a product is of many small matrices, which XLA's CPU backend takes one by one.

    As sums of outer products they are one loop over all. CPU-ms of ``[n, m, k]`` times ``[n, k, l]``, one by one and as
    sums: 165,888 of 4, 4, 4 80 and 6.6 (TensorFlow 19), 5,000 of 8, 8, 8 0.89 and 0.54, 20,000 of 2, 2, 64 2.5 and 1.6,
    2,000 of 16, 16, 16 1.5 and 0.74, 2,000 of 32, 32, 32 6.1 and 7.3, 2,000 of 8, 16, 1 0.08 and 0.10.
    """
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    if a.dtype != np.float32 or b.dtype != np.float32 or max(a.ndim, b.ndim) < 3:
        return False
    if not (1 <= inner <= _SMALL and rows <= _SMALL and 1 < columns <= _SMALL_ROW):
        return False
    return math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])) >= _MANY


def _is_of_few_columns(a: Any, b: Any) -> bool:
    """Whether a product is of a tall matrix of few columns, as colours or coordinates, and a small one.

    CPU-ms of the product, and of the sum of outer products: ``[100000, 3]`` times ``[3, 3]`` 2.0 and 0.23, 65,536 of
    them 1.5 and 0.30, 16,384 0.38 and 0.06, 2,048 0.19 and 0.01; ``[16384, 3]`` times ``[3, 16]`` 0.50 and 0.23,
    ``[16384, 5]`` times ``[5, 5]`` 0.25 and 0.07, ``[16384, 8]`` times ``[8, 8]`` 0.15 and 0.30.
    """
    if a.dtype != np.float32 or b.dtype != np.float32 or a.ndim != 2 or b.ndim != 2:
        return False
    return a.shape[0] >= _TALL and 1 <= a.shape[1] <= _FEW_COLUMNS and 1 < b.shape[1] <= _SMALL


def _sum_of_outer_products(a: Any, b: Any) -> Any:
    terms = [a[..., k : k + 1] * b[..., k : k + 1, :] for k in range(a.shape[-1])]
    return functools.reduce(operator.add, terms)


def of_transposed(ctx: Any, a: Any, b: Any) -> Any:
    """The product of ``a``, transposed, and ``b``: the gradient of weights."""
    left = _oriented(ctx.xp, a, True)
    (inner, rows), columns = a.shape, b.shape[1]
    if ctx.host or ctx.platform != "cpu" or a.dtype != np.float32 or not 0 < inner * rows * columns < _WIDE:
        return product(ctx, left, b)
    written = ctx.lax.optimization_barrier
    if columns * (inner + rows) < inner * rows:  # less is written if the other one and the result are transposed
        return written(product(ctx, written(_oriented(ctx.xp, b, True)), a)).T
    return product(ctx, written(left), b)


def _oriented(xp: Any, x: Any, transpose: bool, adjoint: bool = False) -> Any:
    if adjoint and x.dtype.kind == "c":
        x = xp.conj(x)
    return xp.swapaxes(x, -1, -2) if transpose or adjoint else x


def _told(shape: Any) -> str:
    return "[" + ",".join(str(item) for item in shape) + "]"


# --------------------------------------------------------------------------------------------------------- shape rules
def _inner(c: Any, a: int | None, b: int | None) -> None:
    if a is not None and b is not None and a != b:
        refuse(
            c,
            f"a product of shapes {shapes.show(c.shapes[0])} and {shapes.show(c.shapes[1])}",
            "columns of the first (rows, if it is transposed) as many as rows of the second (columns, if transposed)",
            "transpose_a=True or transpose_b=True, or tf.reshape",
            f"Dimensions must be equal, but are {a} and {b}",
        )


def _matrix_shape(c: Any) -> Any:
    a, b = c.with_rank(0, 2), c.with_rank(1, 2)
    if c.attrs["transpose_a"]:
        a = a[::-1]
    if c.attrs["transpose_b"]:
        b = b[::-1]
    _inner(c, a[1], b[0])
    return (a[0], b[1])


def _batch_shape(c: Any) -> Any:
    a, b = c.with_rank_at_least(0, 2), c.with_rank_at_least(1, 2)
    if a is None or b is None:
        return None
    left, right = a[-2:], b[-2:]
    if c.attrs["adj_x"]:
        left = left[::-1]
    if c.attrs["adj_y"]:
        right = right[::-1]
    _inner(c, left[1], right[0])
    return shapes.concatenate(shapes.broadcast(a[:-2], b[:-2]), (left[0], right[1]))


def _equal_batch_shape(c: Any) -> Any:
    """Operands of equal rank and batch: what is known of one is known of both."""
    a, b = c.with_rank_at_least(0, 2), c.with_rank_at_least(1, 2)
    if a is not None and b is not None:
        shapes.merge(a[:-2], b[:-2])
    elif a is not None:
        return (*a[:-2], a[-1] if c.attrs["adj_x"] else a[-2], None)
    elif b is not None:
        return (*b[:-2], None, b[-2] if c.attrs["adj_y"] else b[-1])
    return _batch_shape(c)


def _flops(c: Any) -> float:
    a, result = c.shapes[0], _batch_shape(c) if "adj_x" in c.attrs else _matrix_shape(c)
    if a is None or result is None:
        return 0.0
    inner = a[-2] if c.attrs.get("transpose_a", False) or c.attrs.get("adj_x", False) else a[-1]
    return 2.0 * (inner or 1) * math.prod(item or 1 for item in result)


# --------------------------------------------------------------------------------------------------------- definitions
def _check_matrices(ctx: Any, a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> None:
    if a.ndim == b.ndim == 2 and a.shape[0 if transpose_a else 1] == b.shape[1 if transpose_b else 0]:
        return  # without making the texts
    require(ctx, a.ndim == 2, f"In[0] is not a matrix. Instead it has shape {_told(a.shape)}")
    require(ctx, b.ndim == 2, f"In[1] is not a matrix. Instead it has shape {_told(b.shape)}")
    require(
        ctx,
        a.shape[0 if transpose_a else 1] == b.shape[1 if transpose_b else 0],
        f"Matrix size-incompatible: In[0]: {_told(a.shape)}, In[1]: {_told(b.shape)}",
    )


def conjugate(tensor: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return build("Conj", tensor) if tensor.dtype.is_complex else tensor


def _matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    return build("MatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _matrix_gradients(op: Any, a: Any, b: Any, grad: Any) -> list[Any]:
    transpose_a, transpose_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    if not transpose_a and not transpose_b:
        return [_matmul(grad, b, False, True), _matmul(a, grad, True)]
    if not transpose_a:
        return [_matmul(grad, b), _matmul(grad, a, True)]
    if not transpose_b:
        return [_matmul(b, grad, False, True), _matmul(a, grad)]
    return [_matmul(b, grad, True, True), _matmul(grad, a, True, True)]


def _row_factors(attrs):
    """Of ``a^T b``, which adds up over the rows of both."""
    return (0, 1) if attrs["transpose_a"] and not attrs["transpose_b"] else None


class MatMul(Op):
    """The product of the matrices `a`, `[n, k]`, and `b`, `[k, m]`; either may be given transposed."""

    signature = "a: T, b: T -> product: T"
    attrs = {
        "transpose_a": Bool(False),
        "transpose_b": Bool(False),
        "T": Type("bfloat16 half float double int32 int64 uint8 uint16 uint32 uint64 complex64 complex128"),
        "grad_a": Bool(False),
        "grad_b": Bool(False),
    }
    effect = PURE
    straight = unchecked.matmul
    any_size = open_forms.matmul
    shape = _matrix_shape
    flops = _flops
    factors = _row_factors

    def kernel(ctx, inputs, attrs):
        a, b = inputs
        _check_matrices(ctx, a, b, attrs["transpose_a"], attrs["transpose_b"])
        if attrs["transpose_a"] and not attrs["transpose_b"]:
            return of_transposed(ctx, a, b)
        return product(ctx, _oriented(ctx.xp, a, attrs["transpose_a"]), _oriented(ctx.xp, b, attrs["transpose_b"]))

    def gradient(op, grad):
        return _matrix_gradients(op, conjugate(op.inputs[0]), conjugate(op.inputs[1]), dense(grad))


class SparseMatMul(Op):
    """The float32 product of two matrices that may hold many zeros; the flags are hints and change nothing in the
    result.
    """

    signature = "a: Ta, b: Tb -> product: float"
    attrs = {
        "transpose_a": Bool(False),
        "transpose_b": Bool(False),
        "a_is_sparse": Bool(False),
        "b_is_sparse": Bool(False),
        "Ta": Type("float bfloat16", "float"),
        "Tb": Type("float bfloat16", "float"),
    }
    effect = PURE
    shape = _matrix_shape
    flops = _flops
    factors = _row_factors

    def kernel(ctx, inputs, attrs):
        a, b = inputs
        _check_matrices(ctx, a, b, attrs["transpose_a"], attrs["transpose_b"])
        a, b = a.astype(np.float32), b.astype(np.float32)
        return product(ctx, _oriented(ctx.xp, a, attrs["transpose_a"]), _oriented(ctx.xp, b, attrs["transpose_b"]))

    def gradient(op, grad):
        wide = [_cast(item, dtypes.float32) for item in op.inputs]
        slopes = _matrix_gradients(op, *wide, dense(grad))
        return [_cast(item, source.dtype.base) for item, source in zip(slopes, op.inputs, strict=True)]


def _cast(tensor: Any, dtype: Any) -> Any:
    return tensor if tensor.dtype.base == dtype else build("Cast", tensor, DstT=dtype)


def _batch_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, y = inputs
    for i, item in enumerate((x, y)):
        require(ctx, item.ndim >= 2, f"In[{i}] ndims must be >= 2: {item.ndim}")
    inner = (x.shape[-2 if attrs["adj_x"] else -1], y.shape[-1 if attrs["adj_y"] else -2])
    heading = f"In[0]: {_told(x.shape)}, In[1]: {_told(y.shape)}"
    require(ctx, inner[0] == inner[1], f"Matrix size-incompatible: {heading}")
    fits = all(m == n or 1 in (m, n) for m, n in zip(x.shape[-3::-1], y.shape[-3::-1], strict=False))
    require(
        ctx,
        fits,
        f"In[0] and In[1] must have compatible batch dimensions: {_told(x.shape)} vs. {_told(y.shape)}",
    )
    if "Tout" in attrs:
        x, y = x.astype(attrs["Tout"].np), y.astype(attrs["Tout"].np)
    return product(ctx, _oriented(ctx.xp, x, False, attrs["adj_x"]), _oriented(ctx.xp, y, False, attrs["adj_y"]))


def _equal_batch_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, y = inputs
    require(
        ctx,
        x.shape[:-2] == y.shape[:-2],
        f"In[0] and In[1] must have compatible batch dimensions: {_told(x.shape)} vs. {_told(y.shape)}",
    )
    return _batch_kernel(ctx, inputs, attrs)


def _batch_gradients(op: Any, grad: Any, multiply: Any, of_y: Any = None) -> list[Any]:
    """``multiply(a, b, adj_x, adj_y, like)`` makes a product of the type of ``like``; ``of_y`` is the second one, if it
    is there already.
    """
    x, y = op.inputs
    grad = dense(grad)
    if of_y is not None:
        return [multiply(grad, y, False, not op.get_attr("adj_y"), x), of_y]
    if not op.get_attr("adj_x"):
        if not op.get_attr("adj_y"):
            return [multiply(grad, y, False, True, x), multiply(x, grad, True, False, y)]
        return [multiply(grad, y, False, False, x), multiply(grad, x, True, False, y)]
    if not op.get_attr("adj_y"):
        return [multiply(y, grad, False, True, x), multiply(x, grad, False, False, y)]
    return [multiply(y, grad, True, True, x), multiply(grad, x, True, True, y)]


def _batch_attrs(types: str) -> dict[str, Any]:
    flags = {"adj_x": Bool(False), "adj_y": Bool(False), "grad_x": Bool(False), "grad_y": Bool(False)}
    return {"T": Type(types)} | flags


class BatchMatMul(Op):
    """Products of matrices in slices: `x`, `[..., n, k]`, and `y`, `[..., k, m]`, with equal batch dimensions."""

    signature = "x: T, y: T -> output: T"
    attrs = _batch_attrs("bfloat16 half float double int32 int64 complex64 complex128")
    effect = PURE
    shape = _equal_batch_shape
    kernel = _equal_batch_kernel
    flops = _flops

    def gradient(op, grad):
        return _batch_gradients(
            op, grad, lambda a, b, adj_x, adj_y, like: build("BatchMatMul", a, b, adj_x=adj_x, adj_y=adj_y)
        )


def _over_all_slices(op: Any, grad: Any) -> Any:
    """The gradient of one matrix `y` for all slices of `x`, as one product, where the shapes say so; else None.

    As a product of each slice it would be as many matrices as there are slices, to be added up.
    """
    x, y = op.inputs
    if x._shape is None or y._shape is None or not len(x._shape) > len(y._shape) == 2 or op.get_attr("adj_x"):
        return None
    if not all(y._shape) or not y.dtype.is_floating:  # of unknown or no size
        return None
    inner, columns = y._shape[::-1] if op.get_attr("adj_y") else y._shape
    sides = build("Reshape", x, [-1, inner]), build("Reshape", grad, [-1, columns])
    a, b = reversed(sides) if op.get_attr("adj_y") else sides
    return build("MatMul", a, b, transpose_a=True)


class BatchMatMulV2(Op):
    """Products of matrices in slices: `x`, `[..., n, k]`, and `y`, `[..., k, m]`, whose batch dimensions broadcast."""

    signature = "x: T, y: T -> output: T"
    attrs = _batch_attrs("bfloat16 half float double int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128")
    effect = PURE
    shape = _batch_shape
    kernel = _batch_kernel
    flops = _flops

    def gradient(op, grad):
        def multiply(a, b, adj_x, adj_y, like):
            product = build("BatchMatMulV2", a, b, adj_x=adj_x, adj_y=adj_y)
            return reduce_to_shape_of(product, like)

        whole = _over_all_slices(op, dense(grad))
        return _batch_gradients(op, grad, multiply, whole)


class BatchMatMulV3(Op):
    """`BatchMatMulV2` of operands of two types in a third type, `Tout`."""

    signature = "x: Ta, y: Tb -> output: Tout"
    attrs = {
        "Ta": Type("bfloat16 half float double uint8 int8 int16 int32 int64 complex64 complex128"),
        "Tb": Type("bfloat16 half float double uint8 int8 int16 int32 int64 complex64 complex128"),
        "Tout": Type("bfloat16 half float double int16 int32 int64 complex64 complex128"),
        "adj_x": Bool(False),
        "adj_y": Bool(False),
        "grad_x": Bool(False),
        "grad_y": Bool(False),
    }
    effect = PURE
    shape = _batch_shape
    kernel = _batch_kernel
    flops = _flops

    def gradient(op, grad):
        def multiply(a, b, adj_x, adj_y, like):
            product = build("BatchMatMulV3", a, b, adj_x=adj_x, adj_y=adj_y, Tout=like.dtype.base)
            return reduce_to_shape_of(product, like)

        return _batch_gradients(op, grad, multiply)


# -------------------------------------------------------------------------------------------------------------- public
_SPARSE_TYPES = (dtypes.float32, dtypes.bfloat16)


def _only_one(transpose: bool, adjoint: bool, operand: str) -> None:
    if transpose and adjoint:
        raise ValueError(
            f"Only one of transpose_{operand} and adjoint_{operand} can be True.\n"
            + errors.message(
                f"transpose_{operand}=True and adjoint_{operand}=True",
                "one of the two arguments",
                f"adjoint_{operand}=True alone: it transposes and conjugates",
            )
        )


@public("matmul", "linalg.matmul")
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """The matrix product ``a @ b`` over the last two dimensions; leading dimensions are a batch and broadcast.

    Args:
        a: ``[..., n, k]``.
        b: ``[..., k, m]``, of the same type.
        transpose_a: take ``a`` as ``[..., k, n]``.
        transpose_b: take ``b`` as ``[..., m, k]``.
        adjoint_a: the same, conjugated.
        adjoint_b: the same, conjugated.
        a_is_sparse: a hint that ``a`` holds many zeros; the result does not depend on it.
        b_is_sparse: the same of ``b``.
        name: name of the op.

    Returns:
        ``[..., n, m]``.

    Raises:
        ValueError: shapes that do not fit, or both ``transpose`` and ``adjoint`` of one operand.
    """
    _only_one(transpose_a, adjoint_a, "a")
    _only_one(transpose_b, adjoint_b, "b")
    if isinstance(a, Tensor) and isinstance(b, Tensor) and not (transpose_a or transpose_b or adjoint_a or adjoint_b):
        return _matmul_in_scope(a, b, False, False, False, False, a_is_sparse, b_is_sparse, name or "MatMul")
    flags = (bool(transpose_a), bool(transpose_b), bool(adjoint_a), bool(adjoint_b))
    if not current_builder().defers and all([x.has_value for x in (a, b) if isinstance(x, Tensor)]):
        a = convert_to_tensor(a)  # where ops run at once, a scope names nothing
        b = convert_to_tensor(b, preferred_dtype=a.dtype.base)
        return _matmul_in_scope(a, b, *flags, a_is_sparse, b_is_sparse, name or "MatMul")
    with name_scope(name, "MatMul", [a, b]) as scope:
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, name="b", preferred_dtype=a.dtype.base)
        return _matmul_in_scope(a, b, *flags, a_is_sparse, b_is_sparse, scope)


def _matmul_in_scope(
    a: Any,
    b: Any,
    transpose_a: bool,
    transpose_b: bool,
    adjoint_a: bool,
    adjoint_b: bool,
    a_is_sparse: bool,
    b_is_sparse: bool,
    name: str,
) -> Any:
    sparse = a_is_sparse or b_is_sparse
    if not sparse and (a._shape is None or len(a._shape) > 2 or b._shape is None or len(b._shape) > 2):
        if transpose_a:
            a = conjugate(a)
        if transpose_b:
            b = conjugate(b)
        adjoint = {"adj_x": transpose_a or adjoint_a, "adj_y": transpose_b or adjoint_b}
        return build("BatchMatMulV2", a, b, **adjoint, name=name)
    if adjoint_a:
        a, transpose_a = conjugate(a), True
    if adjoint_b:
        b, transpose_b = conjugate(b), True
    left, right = a.dtype.base, b.dtype.base
    mixed = left != right and dtypes.bfloat16 in (left, right)
    transposed = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    if (sparse or mixed) and left in _SPARSE_TYPES and right in _SPARSE_TYPES:
        hints = {"a_is_sparse": bool(a_is_sparse), "b_is_sparse": bool(b_is_sparse)}
        result = build("SparseMatMul", a, b, **transposed, **hints, name=name)
        return _cast(result, dtypes.bfloat16) if left == right == dtypes.bfloat16 else result
    return build("MatMul", a, b, **transposed, name=name)


@public("sparse_matmul")
def sparse_matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """The float32 product of two matrices of float32 or bfloat16 that may hold many zeros."""
    return build(
        "SparseMatMul",
        a,
        b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        a_is_sparse=a_is_sparse,
        b_is_sparse=b_is_sparse,
        name=name,
    )


@public("linalg.matvec")
def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """The product of matrices ``[..., n, k]`` and vectors ``[..., k]``: ``[..., n]``. Arguments as those of
    :func:`matmul`.
    """
    with name_scope(name, "MatVec", [a, b]) as scope:
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, None if isinstance(b, Tensor) else a.dtype.base, name="b")
        column = build("ExpandDims", b, -1)
        product = matmul(a, column, transpose_a, False, adjoint_a, False, a_is_sparse, b_is_sparse)
        return build("Squeeze", product, squeeze_dims=[-1], name=scope)
