"""Sparse with dense: products, sums, and what becomes dense.

Policy. The dense shape of the sparse operand is known when XLA compiles, its coordinates and values are not. Two-byte
floats are summed in float32. Element by element the dense operand is broadcast to the sparse one and only looked up
where something is stored, so that 0 times infinity elsewhere does not matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import borrows
from anabranch.core.contract.opdef import PURE, Bool, Cost, NotDifferentiable, Op, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.math import xla_reductions
from anabranch.ops.math.binary import _div
from anabranch.ops.math.reduce import kernel_axes
from anabranch.ops.shared import row_sums
from anabranch.ops.shared.array_rules import INDEX, NUMBERS, dense, ints, refuse, require
from anabranch.ops.shared.broadcast_gradients import reduce_to_shape_of
from anabranch.ops.shared.open_forms import takes_sizes
from anabranch.ops.shared.unchecked import Changed
from anabranch.ops.shared.widening import widen
from anabranch.ops.sparse.rules import (
    REAL,
    SPARSE_INPUT,
    check_bounds,
    check_parts,
    dense_shape,
    flat_positions,
    grouped,
    sparse_operand,
)


def column(indices: Any, i: int) -> Any:
    """Coordinates along dimension ``i``, in the graph."""
    return build("StridedSlice", indices, [0, i], [0, i + 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)


def _complex(tensor: Any) -> bool:
    return tensor.dtype.base.is_complex


def _conj(tensor: Any) -> Any:
    return build("Conj", tensor) if _complex(tensor) else tensor


def _adjoint(matrix: Any) -> Any:
    return build("ConjugateTranspose" if _complex(matrix) else "Transpose", matrix, [1, 0])


# ------------------------------------------------------------------------------------------------------------ products
def _check_index(ctx: Any, index: Any, limit: int, text: str) -> None:
    """Check that one column of coordinates lies in a matrix."""
    if not index.shape[0] or (ctx.host and row_sums.is_within(index, limit)):
        return
    bad = (index < 0) | (index >= limit)
    at = ctx.xp.argmax(bad)
    ctx.check(~ctx.xp.any(bad), errors.InvalidArgumentError, text, index[at], at)


@takes_sizes(2)
def _any_size(operands: Any, attrs: Any) -> Any:
    indices, values, _, b = operands
    if values.dtype not in (np.float32, np.float64) or b.dtype != values.dtype:
        return None
    if indices.ndim != 2 or values.ndim != 1 or b.ndim != 2:
        return None
    row = int(attrs["adjoint_a"])
    turned = attrs["adjoint_b"]

    def product(indices: Any, values: Any, sizes: tuple[int, ...], b: Any) -> Any:
        count = len(values)
        if not count or indices.shape != (count, 2) or len(sizes) != 2:
            raise Changed
        rows, columns, height = indices[:, row], indices[:, 1 - row], sizes[row]
        b = b.T if turned else b
        if sizes[1 - row] != len(b) or not row_sums.is_within(columns, len(b)) or not row_sums.is_within(rows, height):
            raise Changed
        return row_sums.product(rows, columns, values, b, height)

    return product


class SparseTensorDenseMatMul(Op):
    """Product of a sparse matrix ``[n, k]`` and a dense one ``[k, m]``, each transposed and conjugated if asked for.

    Coordinates may come in any order; those that occur twice add up.
    """

    signature = "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> product: T"
    attrs = {"T": Type(), "Tindices": Type(INDEX, "int64"), "adjoint_a": Bool(False), "adjoint_b": Bool(False)}
    effect = PURE
    any_size = _any_size
    cost = Cost.INDEXED
    compile_time = ("a_shape",)

    def shape(c):
        sparse_operand(c, 0, 1, 2)
        sizes = dense_shape(c, "a_shape")
        if sizes is not None and len(sizes) != 2:
            refuse(c, f"a_shape of {len(sizes)} dimensions", "a matrix, 2", "tf.sparse_reshape(a, [n, k])")
        rows, inner = (None, None) if sizes is None else sizes
        if c.attrs["adjoint_a"]:
            rows, inner = inner, rows
        b = c.with_rank("b", 2)
        height, width = reversed(b) if c.attrs["adjoint_b"] else b
        if inner is not None and height is not None and inner != height:
            refuse(
                c,
                f"inner dimensions {inner} and {height}",
                "equal ones",
                "adjoint_a=True or adjoint_b=True, or transpose one of them",
                f"Dimensions must be equal, but are {inner} and {height}",
            )
        return (rows, width)

    def flops(c):
        count, width = c.shape("a_values"), c.shape("b")
        if count is None or width is None or None in (count[0], *width):
            return 0.0
        return 2.0 * count[0] * width[0 if c.attrs["adjoint_b"] else 1]

    @borrows
    def kernel(ctx, inputs, attrs):
        indices, values, sizes, b = inputs
        xp = ctx.xp
        check_parts(ctx, indices, values, sizes, "a")
        require(ctx, len(sizes) == 2, f"Tensor 'a_shape' must have 2 elements, not {len(sizes)}")
        require(ctx, b.ndim == 2, f"Tensor 'b' is not a matrix: shape {shapes.show(b.shape)}")
        height, inner = ints(sizes)
        rows, columns = indices[:, 0], indices[:, 1]
        if attrs["adjoint_a"]:
            height, inner, rows, columns = inner, height, columns, rows
            values = xp.conj(values) if values.dtype.kind == "c" else values
        if attrs["adjoint_b"]:
            b = xp.conj(b.T) if b.dtype.kind == "c" else b.T
        require(
            ctx,
            inner == b.shape[0],
            f"Cannot multiply A and B because inner dimension does not match: {inner} vs. {b.shape[0]}.  Did you "
            f"forget a transpose?  Dimensions of A: {shapes.show(ints(sizes))}.  "
            f"Dimensions of B: {shapes.show(inputs[3].shape)}",
        )
        first = int(bool(attrs["adjoint_a"]))
        _check_index(ctx, columns, inner, f"k ({{0}}) from index[{{1}},{1 - first}] out of bounds (>={inner})")
        _check_index(ctx, rows, height, f"m ({{0}}) from index[{{1}},{first}] out of bounds (>={height})")
        if not inner or not indices.shape[0]:
            return xp.zeros((height, b.shape[1]), b.dtype)
        if ctx.host:
            return row_sums.product(rows, columns, widen(values), widen(b), height).astype(b.dtype, copy=False)
        wide = widen(b)
        total = xp.zeros((height, b.shape[1]), wide.dtype)
        total = xla_reductions.add_picked_rows(ctx, total, rows, wide, columns, widen(values))
        return total.astype(b.dtype)

    def gradient(op, grad):
        grad = dense(grad)
        indices, values, sizes, b = op.inputs
        adjoint_a, adjoint_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
        b_grad = build("SparseTensorDenseMatMul", indices, values, sizes, grad, adjoint_a=not adjoint_a)
        if adjoint_b:
            b_grad, b = _adjoint(b_grad), _adjoint(b)
        rows, columns = column(indices, 0), column(indices, 1)
        if adjoint_a:
            rows, columns = columns, rows
        of_grad, of_b = build("GatherV2", grad, rows, 0), build("GatherV2", b, columns, 0)
        product = build("Mul", _conj(of_grad), of_b) if adjoint_a else build("Mul", of_grad, _conj(of_b))
        return [None, build("Sum", product, [1]), None, b_grad]


# ------------------------------------------------------------------------------------------------------ becoming dense
class SparseToDense(Op):
    """A dense tensor of ``output_shape`` filled with ``default_value``, with ``sparse_values`` at ``sparse_indices``.

    ``sparse_values`` is a vector, or one scalar for all. With ``validate_indices`` coordinates must be in row-major
    order without repetition.
    """

    signature = "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> dense: T"
    attrs = {"validate_indices": Bool(True), "T": Type(), "Tindices": Type(INDEX)}
    effect = PURE
    moves = True
    cost = Cost.INDEXED
    compile_time = ("output_shape",)

    def shape(c):
        c.with_rank("output_shape", 1)  # the other shapes are the kernel's to refuse
        return dense_shape(c, "output_shape")

    def kernel(ctx, inputs, attrs):
        if ctx.host and (vector := _dense_vector(*inputs, attrs["validate_indices"])) is not None:
            return vector
        indices, sizes, values, default = inputs
        xp = ctx.xp
        sizes = ints(sizes)
        require(
            ctx,
            indices.ndim <= 2,
            "sparse_indices should be a scalar, vector, or matrix, got shape {0}",
            tuple(indices.shape),
        )
        require(
            ctx, np.ndim(inputs[1]) == 1, "output_shape should be a vector, got shape {0}", tuple(np.shape(inputs[1]))
        )
        indices = indices if indices.ndim == 2 else xp.reshape(indices, (-1, 1))
        require(
            ctx,
            indices.shape[1] == len(sizes),
            f"output_shape has incorrect number of elements: {len(sizes)} should be: {indices.shape[1]}",
        )
        require(
            ctx,
            values.ndim == 0 or values.shape == (indices.shape[0],),
            "sparse_values has incorrect shape {0}, should be [] or [{1}]",
            tuple(values.shape),
            indices.shape[0],
        )
        require(ctx, default.ndim == 0, "default_value should be a scalar.")
        require(ctx, all(size >= 0 for size in sizes), f"output_shape {list(sizes)} has a negative size")
        total = math.prod(sizes)
        require(ctx, total < 2**63, f"output_shape {list(sizes)} has more elements than 64 bits can count")
        check_bounds(ctx, indices, np.array(sizes, np.int64))
        places = flat_positions(xp, indices, sizes)
        if attrs["validate_indices"] and places.shape[0] > 1:
            _check_order(ctx, places, indices)
        if ctx.host:
            out = np.full(total, default[()] if default.dtype == object else default, default.dtype)
            out[places] = values
            return out.reshape(sizes)
        return xp.full((total,), default).at[places].set(values, mode="drop").reshape(sizes)

    def gradient(op, grad):
        grad = dense(grad)
        indices, sizes, given = op.inputs[:3]
        if indices._shape is None or len(indices._shape) != 2:  # a scalar or a vector of places in a vector, perhaps
            indices = build("Reshape", indices, build("Pack", [-1, build("Size", sizes)]))
        values = build("GatherNd", grad, indices)
        on_new_values = build("Sub", _total(grad), _total(values))
        return [None, None, reduce_to_shape_of(values, given), on_new_values]


def _dense_vector(indices: Any, sizes: Any, values: Any, default: Any, ordered: bool) -> Any:
    """The dense vector of values at places that ascend: a feature of an example. None for all else."""
    if sizes.shape != (1,) or default.ndim or indices.ndim > 2 or not ordered:
        return None
    places, size = indices.reshape(-1), int(sizes[0])
    count = len(places)
    if not count or size < count or (indices.ndim == 2 and indices.shape[1] != 1):
        return None
    if (values.ndim and values.shape != (count,)) or not (places[1:] > places[:-1]).all():
        return None
    if places[0] < 0 or places[-1] >= size:
        return None
    out = np.empty(size, values.dtype)
    if count < size:
        out.fill(default[()])
        out[places] = values
    else:
        out[:] = values
    return out


def _total(tensor: Any) -> Any:
    return build("Sum", build("Reshape", tensor, [-1]), [0])


def _check_order(ctx: Any, places: Any, indices: Any) -> None:
    xp = ctx.xp
    if ctx.host and (places[1:] > places[:-1]).all():
        return
    for bad, reason in (
        (
            places[1:] < places[:-1],
            "is out of order. Many sparse ops require sorted indices.\n"
            "    Use `tf.sparse_reorder` to create a correctly ordered copy.",
        ),
        (places[1:] == places[:-1], "is repeated"),
    ):
        at = xp.argmax(bad) + 1
        width = indices.shape[1]
        shown = ",".join(f"{{{i + 1}}}" for i in range(width))
        ctx.check(
            ~xp.any(bad),
            errors.InvalidArgumentError,
            f"indices[{{0}}] = [{shown}] {reason}",
            at,
            *[indices[at][i] for i in range(width)],
        )


class SparseTensorDenseAdd(Op):
    """A dense tensor ``b`` plus a sparse one of the same dense shape; the result is dense."""

    signature = "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T -> output: T"
    attrs = {"T": Type(NUMBERS), "Tindices": Type(INDEX)}
    effect = PURE
    compile_time = ("a_shape",)

    def shape(c):
        sparse_operand(c, 0, 1, 2)
        return shapes.merge(c.shape("b"), dense_shape(c, "a_shape"))

    def kernel(ctx, inputs, attrs):
        indices, values, sizes, b = inputs
        check_parts(ctx, indices, values, sizes, "a")
        sizes = ints(sizes)
        require(ctx, sizes == b.shape, f"Dimensions of a, {list(sizes)}, and b, {shapes.show(b.shape)}, must be equal")
        lead = f"\nSparse tensor has some invalid index; dense tensor shape: {shapes.show(b.shape)}"
        check_bounds(ctx, indices, np.array(sizes, np.int64), lead)
        places = flat_positions(ctx.xp, indices, sizes)
        flat = widen(ctx.xp.reshape(b, (-1,)))
        if ctx.host:
            flat = np.array(flat)
            row_sums.add_to_rows(flat, places, widen(values))
        else:
            flat = flat.at[places].add(widen(values), mode="drop")
        return flat.astype(b.dtype).reshape(sizes)

    def gradient(op, grad):
        grad = dense(grad)
        return [None, build("GatherNd", grad, op.inputs[0]), None, grad]


# -------------------------------------------------------------------------------------------------- element by element
def _looked_up(ctx: Any, indices: Any, sizes: Any, other: Any) -> Any:
    """The elements of ``other``, broadcast to the dense shape, at the coordinates."""
    xp = ctx.xp
    ahead = indices.shape[1] - other.ndim
    require(
        ctx,
        ahead >= 0,
        f"SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: {indices.shape[1]} "
        f"dimensions vs. {shapes.show(other.shape)}",
    )
    own = np.array(other.shape, np.int64)
    if other.ndim:
        limits = xp.asarray(sizes)[ahead:]
        fits = xp.all((limits == own) | (own == 1))
        ctx.check(
            fits,
            errors.InvalidArgumentError,
            "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: [{0}] vs. "
            f"{shapes.show(other.shape)}",
            xp.asarray(sizes),
            summarize=-1,
        )
    check_bounds(ctx, indices, sizes)
    if 0 in other.shape:
        return xp.zeros((indices.shape[0],), other.dtype)
    local = xp.where(own == 1, np.int64(0), indices[:, ahead:])
    places = flat_positions(xp, local, other.shape)
    return xp.reshape(other, (-1,))[places]


def _dense_lookup(op: Any) -> tuple[Any, Any]:
    """In the graph: coordinates in the dense operand, behind a new first dimension, and its elements there."""
    # (The new dimension is for scalars, which have none to gather from and scatter to.)
    indices, _, sizes, other = op.inputs
    own = build("Shape", other, out_type="int64")
    ahead = build("Sub", build("Size", sizes), build("Size", own))
    padded = build("ConcatV2", [build("Fill", build("ExpandDims", ahead, 0), np.int64(1)), own], 0)
    one = build("Equal", padded, np.int64(1))
    local = build("SelectV2", one, build("ZerosLike", indices), indices)
    local = build("Slice", local, build("Pack", [0, ahead]), [-1, -1])
    first = build("ZerosLike", build("Slice", indices, [0, 0], [-1, 1]))
    places = build("ConcatV2", [first, local], 1)
    return places, build("GatherNd", build("ExpandDims", other, 0), places)


def _to_dense_operand(op: Any, places: Any, values: Any) -> Any:
    own = build("Shape", op.inputs[3], out_type="int64")
    dense_operand = build("ScatterNd", places, values, build("ConcatV2", [np.array([1], np.int64), own], 0))
    return build("Reshape", dense_operand, own)


def _cwise(name: str, doc: str, function: Any, gradient: Any) -> None:
    def shape(c):
        count, _ = sparse_operand(c, 0, 1, 2)
        return (count,)

    def kernel(ctx, inputs, attrs):
        indices, values, sizes, other = inputs
        check_parts(ctx, indices, values, sizes, "sp")
        return function(ctx, values, _looked_up(ctx, indices, sizes, other))

    define(
        name,
        doc,
        signature="sp_indices: int64, sp_values: T, sp_shape: int64, dense: T -> output: T",
        attrs={"T": Type(NUMBERS)},
        effect=PURE,
        shape=shape,
        kernel=kernel,
        gradient=gradient,
    )


def _add_gradient(op: Any, grad: Any) -> list[Any]:
    places, _ = _dense_lookup(op)
    return [None, grad, None, _to_dense_operand(op, places, grad)]


def _mul_gradient(op: Any, grad: Any) -> list[Any]:
    places, there = _dense_lookup(op)
    of_dense = build("Mul", grad, _conj(op.inputs[1]))
    return [None, build("Mul", grad, _conj(there)), None, _to_dense_operand(op, places, of_dense)]


def _div_gradient(op: Any, grad: Any) -> list[Any]:
    places, there = _dense_lookup(op)
    there = _conj(there)
    of_dense = build("Mul", grad, build("RealDiv", build("Neg", _conj(op.inputs[1])), build("Square", there)))
    return [None, build("RealDiv", grad, there), None, _to_dense_operand(op, places, of_dense)]


_cwise(
    "SparseDenseCwiseAdd",
    "Stored elements plus those of ``dense``, which is broadcast; what is not stored stays away.",
    lambda ctx, x, y: x + y,
    _add_gradient,
)
_cwise(
    "SparseDenseCwiseMul",
    "Stored elements times those of ``dense``, which is broadcast.",
    lambda ctx, x, y: x * y,
    _mul_gradient,
)
_cwise(
    "SparseDenseCwiseDiv",
    "Stored elements divided by those of ``dense``, which is broadcast; integers are cut towards zero.",
    _div,
    _div_gradient,
)


# ---------------------------------------------------------------------------------------------------------- reductions
def _reduce_shape(c: Any) -> Any:
    sparse_operand(c, 0, 1, 2)
    sizes = dense_shape(c, "input_shape")
    axes = c.value("reduction_axes")
    if sizes is None or axes is None:
        return None if sizes is None or not c.attrs["keep_dims"] else (None,) * len(sizes)
    rank = len(sizes)
    for axis in axes.ravel().tolist():
        if not -rank <= axis < rank:
            return None  # the kernel's to refuse
    gone = {axis % rank for axis in axes.ravel().tolist()}
    if c.attrs["keep_dims"]:
        return tuple([1 if i in gone else size for i, size in enumerate(sizes)])
    return tuple([size for i, size in enumerate(sizes) if i not in gone])


def reduction(ctx: Any, inputs: Any) -> tuple[Any, tuple[int, ...], list[int], list[int]]:
    """Checked coordinates, dense shape, reduced and kept dimensions of a sparse reduction."""
    indices, values, sizes, axes = inputs
    check_parts(ctx, indices, values, sizes)
    sizes = ints(sizes)
    rank = len(sizes)
    for axis in np.asarray(axes).ravel().tolist():
        require(
            ctx, -rank <= axis < rank, "Invalid reduction dimension {0}, for input with {1} dimensions.", axis, rank
        )
    gone = list(kernel_axes(ctx, axes, rank))
    check_bounds(ctx, indices, np.array(sizes, np.int64))
    return indices, sizes, gone, [i for i in range(len(sizes)) if i not in gone]


def _reduce(name: str, doc: str, mode: str, types: str, gradient: Any) -> None:
    def kernel(ctx, inputs, attrs):
        indices, sizes, gone, kept_axes = reduction(ctx, inputs)
        values = widen(inputs[1])
        inner = [sizes[i] for i in kept_axes]
        groups = flat_positions(ctx.xp, indices[:, np.array(kept_axes, np.int64)], inner)
        total = math.prod(inner)
        if mode == "max":  # a group without elements is 0
            lowest = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
            combined = grouped(ctx, "max", values, groups, total, values.dtype.type(lowest))
            some = grouped(ctx, "add", ctx.xp.ones(values.shape, np.int32), groups, total, np.int32(0)) > 0
            combined = ctx.xp.where(some, combined, values.dtype.type(0))
        else:
            combined = grouped(ctx, "add", values, groups, total, 0)
        shown = [1 if i in gone else size for i, size in enumerate(sizes)] if attrs["keep_dims"] else inner
        return combined.astype(inputs[1].dtype).reshape(shown)

    define(
        name,
        doc,
        signature=f"{SPARSE_INPUT}, reduction_axes: int32 -> output: T",
        attrs={"keep_dims": Bool(False), "T": Type(types)},
        effect=PURE,
        compile_time=("input_shape", "reduction_axes"),
        shape=_reduce_shape,
        kernel=kernel,
        gradient=gradient,
    )


def _sum_gradient(op: Any, grad: Any) -> list[Any]:
    indices, _, sizes, axes = op.inputs
    rank = build("Size", sizes)
    axes = build("FloorMod", build("Add", build("Reshape", axes, [-1]), rank), rank)
    ones = build("Fill", build("Shape", axes), np.int64(1))
    broadcast_shape = build("DynamicStitch", [build("Range", 0, rank, 1), axes], [sizes, ones])
    shaped = build("Reshape", dense(grad), broadcast_shape)
    local = build("SelectV2", build("Equal", broadcast_shape, np.int64(1)), build("ZerosLike", indices), indices)
    return [None, build("GatherNd", shaped, local), None, None]


_reduce(
    "SparseReduceSum", "Sums over dimensions of a sparse tensor; the result is dense.", "add", NUMBERS, _sum_gradient
)
_reduce(
    "SparseReduceMax",
    "The largest stored element over dimensions of a sparse tensor, 0 where nothing is stored; the result is dense.",
    "max",
    REAL,
    NotDifferentiable("TensorFlow has no gradient for it"),
)


class SparseSoftmax(Op):
    """Softmax over the stored elements of each row of the last dimension; coordinates in row-major order."""

    signature = "sp_indices: int64, sp_values: T, sp_shape: int64 -> output: T"
    attrs = {"T": Type("half float double")}
    effect = PURE
    compile_time = ("sp_shape",)

    def shape(c):
        count, _ = sparse_operand(c, 0, 1, 2)
        return (count,)

    def kernel(ctx, inputs, attrs):
        indices, values, sizes = inputs
        check_parts(ctx, indices, values, sizes, "sp")
        sizes = ints(sizes)
        require(ctx, len(sizes) >= 2, f"Input should have rank >= 2, but received shape: {list(sizes)}")
        check_bounds(ctx, indices, np.array(sizes, np.int64))
        wide = widen(values)
        rows = flat_positions(ctx.xp, indices[:, :-1], sizes[:-1])
        # As many groups as there are values, whatever the dense shape is: rows are in order.
        steps = ctx.xp.concatenate([ctx.xp.zeros(1, bool), rows[1:] != rows[:-1]]) if len(rows) else rows.astype(bool)
        groups = ctx.xp.cumsum(steps.astype(np.int64))
        count = int(values.shape[0])
        largest = grouped(ctx, "max", wide, groups, count, wide.dtype.type(-np.inf))
        powers = ctx.xp.exp(wide - largest[groups])
        return (powers / grouped(ctx, "add", powers, groups, count, 0)[groups]).astype(values.dtype)

    def gradient(op, grad):
        indices, _, sizes = op.inputs
        output = op.outputs[0]
        total = build("SparseReduceSum", indices, build("Mul", output, grad), sizes, [-1], keep_dims=True)
        centred = build("SparseDenseCwiseAdd", indices, grad, sizes, build("Neg", total))
        return [None, build("Mul", centred, output), None]
