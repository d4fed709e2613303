"""Gathers and scatters of slices as pure ops.

An index out of range fails the step; the check looks at the indices alone, never at the table.
`bad_indices_policy="IGNORE"` asks for zeros (gather) or no update (scatter) instead. Slices that are named twice by a
scatter add up in `ScatterNd`; in `TensorScatterUpdate` the last one wins, in both tiers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.contract.api import public_op
from anabranch.core.contract.kernels import borrows
from anabranch.core.contract.opdef import PURE, Bool, Cost, Int, Op, Role, String, Type, define
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.values import shapes
from anabranch.ops.shared import open_places, row_rules, row_sums, unchecked
from anabranch.ops.shared.array_rules import axis_in, dense, ints, known, rank_of, refuse, require, shape_from, shape_of
from anabranch.ops.state import scatter_rules

_POLICIES = ("", "DEFAULT", "ERROR", "IGNORE")


def _policy(c: Any) -> None:
    if c.attrs["bad_indices_policy"] not in _POLICIES:
        refuse(
            c,
            f"bad_indices_policy = {c.attrs['bad_indices_policy']!r}",
            "'', 'DEFAULT', 'ERROR' or 'IGNORE'",
            "leave it out to have bad indices refused",
        )


# ------------------------------------------------------------------------------------------------------------- gathers
def _gathered_shape(c: Any, axis: int | None, batch_dims: int) -> shapes.RawShape:
    params, indices = c.with_rank_at_least(0, 1), c.shapes[1]
    if params is None or indices is None:
        return None
    batch = axis_in(c, batch_dims, len(indices) + 1, "batch_dims") if batch_dims >= 0 else batch_dims + len(indices)
    if not 0 <= batch <= len(indices):
        refuse(
            c,
            f"batch_dims = {batch_dims} for indices of shape {shapes.show(indices)}",
            f"batch_dims in [{-len(indices)}, {len(indices)}]",
            "use fewer batch_dims",
        )
    rank = len(params) + len(indices) - 1 - batch
    if axis is None:
        return (None,) * rank
    least = axis + 1 if axis >= 0 else -axis
    axis = axis_in(c, axis, len(params), lead=f"Shape must be at least rank {least} but is rank {len(params)}")
    if axis < batch:
        refuse(c, f"axis {axis} with batch_dims {batch}", "batch_dims <= axis", "use fewer batch_dims or a later axis")
    common = shapes.merge(params[:batch], indices[:batch])
    return (*common, *params[batch:axis], *indices[batch:], *params[axis + 1 :])


def _gathered(ctx: Any, params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    rank = len(params.shape)
    rows = params.shape[0] if ctx.host and axis == batch_dims == 0 and rank and params.dtype.kind != "O" else 0
    if rows and row_sums.is_within(indices, rows):  # the usual case
        return np.asarray(params.take(indices, axis=0))
    require(ctx, rank >= 1, "params must be at least 1 dimensional")
    require(ctx, -rank <= axis < rank, "Expected axis in the range [{0}, {1}), but got {2}", -rank, rank, axis)
    axis %= rank
    if batch_dims < 0:
        batch_dims += len(indices.shape)
    require(
        ctx,
        0 <= batch_dims <= min(axis, len(indices.shape)) and params.shape[:batch_dims] == indices.shape[:batch_dims],
        "params of shape {0} and indices of shape {1} do not agree in {2} batch dimensions before axis {3}",
        shapes.show(tuple(params.shape)),
        shapes.show(tuple(indices.shape)),
        batch_dims,
        axis,
    )
    scatter_rules.check_rows(ctx, indices, params.shape[axis])
    if params.shape[axis] == 0:
        shape = (*params.shape[:axis], *indices.shape[batch_dims:], *params.shape[axis + 1 :])
        return ctx.xp.zeros(shape, params.dtype)
    if batch_dims == 0:
        if ctx.host:
            return (
                params[(slice(None),) * axis + (indices, ...)]
                if params.dtype.kind == "O"
                else _host_take(params, indices, axis)
            )
        return ctx.xp.take(params, indices, axis=axis, mode="clip")
    between = axis - batch_dims
    moved = ctx.xp.moveaxis(params, axis, batch_dims) if between else params
    rows_read = scatter_rules.gather_rows(ctx, moved, indices, batch_dims)
    if not between:
        return rows_read
    inner = len(indices.shape) - batch_dims
    order = [
        *range(batch_dims),
        *range(batch_dims + inner, batch_dims + inner + between),
        *range(batch_dims, batch_dims + inner),
        *range(batch_dims + inner + between, len(rows_read.shape)),
    ]
    return ctx.xp.transpose(rows_read, order)


def _host_take(params: Any, indices: Any, axis: int) -> Any:
    return np.asarray(np.take(params, indices, axis=axis))


def _rows_gradient(params: Any, indices: Any, grad: Any) -> IndexedSlices:
    """Gradient of rows gathered from dimension 0: the rows of `grad` at their indices."""
    grad = dense(grad)
    shape = shape_of(params)
    if indices._shape is not None and len(indices._shape) == 1:
        return IndexedSlices(grad, indices, shape)
    raw, size = params._shape, shapes.num_elements(indices._shape)
    if raw is not None and None not in raw[1:]:
        rows: Any = np.array([-1 if size is None else size, *raw[1:]], np.int32)
        if size is None and 0 in raw[1:]:
            rows = build("Pack", [build("Size", indices), *raw[1:]])
    else:
        count = build("Reshape", build("Size", indices), [1])
        rows = build("ConcatV2", [count, build("StridedSlice", shape, [1], [0], [1], end_mask=1)], 0)
    return IndexedSlices(build("Reshape", grad, rows), build("Reshape", indices, [-1]), shape)


class Gather(Op):
    """Slices of `params` along dimension 0: `output[i, ...] = params[indices[i], ...]` for indices of any shape."""

    signature = "params: Tparams, indices: Tindices -> output: Tparams"
    attrs = {"validate_indices": Bool(True), "Tparams": Type(), "Tindices": Type("int32 int64")}
    effect = PURE
    any_size = open_places.gather
    role = Role.ROWS
    cost = Cost.INDEXED
    moves = True

    def shape(c):
        return _gathered_shape(c, 0, 0)

    @borrows
    def kernel(ctx, inputs, attrs):
        return _gathered(ctx, inputs[0], inputs[1], 0, 0)

    def gradient(op, grad):
        return [_rows_gradient(op.inputs[0], op.inputs[1], grad), None]


class GatherV2(Op):
    """Slices of `params` along dimension `axis`, named by `indices` of any shape.

    The first `batch_dims` dimensions of both go together.
    """

    signature = "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams"
    attrs = {
        "batch_dims": Int(0),
        "Tparams": Type(),
        "Tindices": Type("int16 int32 int64"),
        "Taxis": Type("int32 int64"),
    }
    effect = PURE
    any_size = open_places.gather
    by_rows = row_rules.gather
    straight = unchecked.rows
    role = Role.ROWS
    cost = Cost.INDEXED
    moves = True
    compile_time = ("axis",)

    def shape(c):
        c.with_rank("axis", 0)
        return _gathered_shape(c, c.scalar("axis"), c.attrs["batch_dims"])

    def value(c):
        array, indices = c.partial(0), c.value(1)
        if not isinstance(array, tuple) or indices is None or indices.ndim > 1:
            return None
        if not all(0 <= i < len(array) for i in ints(indices)):
            return None
        items = [array[i] for i in ints(indices)]
        if indices.ndim:
            return tuple(items)
        return None if items[0] is None else np.array(items[0], c.dtype(0).np)

    @borrows
    def kernel(ctx, inputs, attrs):
        params, indices, axis = inputs
        require(ctx, np.size(axis) == 1, "axis must be scalar")
        return _gathered(ctx, params, indices, int(np.asarray(axis).item()), attrs["batch_dims"])

    def gradient(op, grad):
        params, indices, axis = op.inputs
        known_axis = known(axis)
        batch_dims = op.get_attr("batch_dims")
        if known_axis is not None and int(known_axis) == 0 and batch_dims == 0:
            return [_rows_gradient(params, indices, grad), None, None]
        return [_axis_gradient(params, indices, dense(grad), axis, batch_dims), None, None]


def _axis_gradient(params: Any, indices: Any, grad: Any, axis: Any, batch_dims: int) -> Any:
    """Gradient of a gather along `axis`, of any ranks: sums of slices by index.

    Seen as `[batches, between, extent, after]`, with the gathered dimension in front of `between` while it is summed.
    """
    shape, places = shape_of(params), shape_of(indices)
    rank, inner_rank = rank_of(params), rank_of(indices)
    known_axis = known(axis)
    if known_axis is None:
        axis = build("Cast", axis, DstT="int32")
        axis = build("FloorMod", axis, rank)
    elif int(known_axis) >= 0:
        axis = int(known_axis)
    else:
        axis = rank + int(known_axis) if isinstance(rank, int) else build("Add", rank, int(known_axis))
    batch: Any = batch_dims
    if batch_dims < 0:
        batch = inner_rank + batch_dims if isinstance(inner_rank, int) else build("Add", inner_rank, batch_dims)

    def elements(of: Any, start: Any, stop: Any) -> Any:
        """How many elements the dimensions from ``start`` to ``stop`` have; to the end for None."""
        begin, end = build("Pack", [start]), build("Pack", [0 if stop is None else stop])
        return build("Prod", build("StridedSlice", of, begin, end, [1], end_mask=0 if stop is not None else 1), [0])

    extent = build("Gather", shape, axis)
    following = axis + 1 if isinstance(axis, int) else build("Add", axis, 1)
    between, after = elements(shape, batch, axis), elements(shape, following, None)
    places_each = elements(places, batch, None)
    if batch_dims == 0:
        moved = build("Transpose", build("Reshape", grad, build("Pack", [between, places_each, after])), [1, 0, 2])
        summed = build("UnsortedSegmentSum", moved, build("Reshape", indices, [-1]), extent)
        return build("Reshape", build("Transpose", summed, [1, 0, 2]), shape)
    # One segment sum for all batches: each batch's indices are moved behind those of the batches before it.
    batches = elements(shape, 0, batch)
    by_batch = build("Pack", [batches, between, places_each, after])
    moved = build("Transpose", build("Reshape", grad, by_batch), [0, 2, 1, 3])
    moved = build("Reshape", moved, build("Pack", [build("Mul", batches, places_each), between, after]))
    wide = indices.dtype.base if indices.dtype.base.name != "int16" else "int32"
    per_batch = build("Reshape", build("Cast", indices, DstT=wide), build("Pack", [batches, places_each]))
    step = build("ExpandDims", build("Mul", build("Range", 0, batches, 1), extent), 1)
    segments = build("Reshape", build("Add", per_batch, build("Cast", step, DstT=wide)), [-1])
    summed = build("UnsortedSegmentSum", moved, segments, build("Mul", batches, extent))
    summed = build("Reshape", summed, build("Pack", [batches, extent, between, after]))
    return build("Reshape", build("Transpose", summed, [0, 2, 1, 3]), shape)


class GatherNd(Op):
    """Slices of `params` at positions in the last dimension of `indices` `[..., k]`: `[..., *params.shape[k:]]`."""

    signature = "params: Tparams, indices: Tindices -> output: Tparams"
    attrs = {"Tparams": Type(), "Tindices": Type("int16 int32 int64"), "bad_indices_policy": String("")}
    effect = PURE
    any_size = open_places.gather_nd
    cost = Cost.INDEXED
    moves = True

    def shape(c):
        _policy(c)
        params, indices = c.shapes[0], c.with_rank_at_least(1, 1)
        if params is None or indices is None or indices[-1] is None:
            return None
        if indices[-1] > len(params):
            refuse(
                c,
                f"indices of shape {shapes.show(indices)} into params of shape {shapes.show(params)}",
                f"a last dimension of at most {len(params)}",
                "index no more dimensions than there are",
                f"indices.shape[-1] must be <= params.rank, but saw indices shape: {shapes.show(indices)} and params "
                f"shape: {shapes.show(params)}",
            )
        return (*indices[:-1], *params[indices[-1] :])

    def kernel(ctx, inputs, attrs):
        params, indices = inputs
        require(ctx, len(params.shape) >= 1 or indices.shape[-1:] == (0,), "params must be at least a vector")
        require(ctx, len(indices.shape) >= 1, "indices must be at least a vector")
        require(
            ctx,
            math.prod(indices.shape[:-1]) == 0 or math.prod(params.shape) > 0 or indices.shape[-1] > len(params.shape),
            "Requested more than 0 entries, but params is empty.  Params shape: {0}",
            tuple(params.shape),
        )
        require(
            ctx,
            indices.shape[-1] <= len(params.shape),
            "index innermost dimension length must be <= params rank; saw: {0} vs. {1}",
            indices.shape[-1],
            len(params.shape),
        )
        ignore = attrs["bad_indices_policy"] == "IGNORE"
        if not ignore:
            scatter_rules.check_slices(ctx, indices, tuple(params.shape), "params shape")
        slices = scatter_rules.gather_slices(ctx, params, indices)
        if ctx.host and params.dtype.kind == "O":
            slices = np.array(slices, object) if np.ndim(slices) else _boxed(slices)
        if ignore and indices.shape[-1]:
            xp = ctx.xp
            limits = np.array(params.shape[: indices.shape[-1]], indices.dtype)
            inside = xp.all((indices >= 0) & (indices < limits), axis=-1)
            inside = xp.reshape(inside, (*inside.shape, *[1] * (len(slices.shape) - len(inside.shape))))
            slices = xp.where(inside, slices, xp.zeros((), slices.dtype))
        return slices

    def gradient(op, grad):
        params, indices = op.inputs
        shape = shape_of(params, indices.dtype.base if indices.dtype.base.name != "int16" else "int32")
        grad = dense(grad)
        raw = indices._shape
        if raw is not None and len(raw) == 2 and raw[-1] == 1:
            return [IndexedSlices(grad, build("Squeeze", indices, squeeze_dims=[-1]), shape), None]
        if indices.dtype.base.name == "int16":
            shape = build("Cast", shape, DstT="int16")
        return [build("ScatterNd", indices, grad, shape, bad_indices_policy=op.get_attr("bad_indices_policy")), None]


def _boxed(item: Any) -> np.ndarray:
    box = np.empty((), object)
    box[()] = item
    return box


# ------------------------------------------------------------------------------------------------------------ scatters
def _scattered(ctx: Any, mode: str, target: Any, indices: Any, updates: Any, policy: str, noun: str) -> Any:
    require(ctx, len(indices.shape) >= 1, "Indices shape must have rank at least one. Found: []")
    depth = indices.shape[-1]
    if 0 in target.shape and tuple(indices.shape) == (0,):
        return target  # a vector without indices, for a target without elements
    require(
        ctx,
        0 < depth <= len(target.shape),
        "The inner dimension of indices, {0}, must be from 1 to the rank of the target, {1}",
        depth,
        len(target.shape),
    )
    wanted = (*indices.shape[:-1], *target.shape[depth:])
    batch, given = tuple(indices.shape[:-1]), tuple(updates.shape)
    require(
        ctx,
        given[: len(batch)] == batch,
        "The outermost dimension of updates and indices must match. Got indices.shape {0}, updates.shape {1}",
        tuple(indices.shape),
        given,
    )
    require(
        ctx,
        given == wanted,
        "Must have updates.shape = indices.shape[:batch_dim] + params_shape[slice_dim:], got updates.shape: {0}, "
        "indices.shape: {1}, params_shape: {2}, slice_dim: {3}, and batch_dim: {4}",
        given,
        tuple(indices.shape),
        tuple(target.shape),
        depth,
        len(batch),
    )
    require(
        ctx,
        math.prod(target.shape) > 0 or math.prod(batch) == 0 or 0 in target.shape[depth:],
        "Indices and updates specified for empty output.  indices shape: {0}",
        tuple(indices.shape),
    )
    ignore = policy == "IGNORE"
    if not ignore:
        scatter_rules.check_slices(ctx, indices, tuple(target.shape), noun)
    if updates.dtype == bool and mode == "Add":
        mode = "Max"
    return scatter_rules.scatter_slices(ctx, mode, target, indices, updates, drop=ignore or not ctx.host)


def _zeros(ctx: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.full(shape, b"", object) if np.dtype(dtype).kind == "O" else ctx.xp.zeros(shape, dtype)


class ScatterNd(Op):
    """Zeros of `shape` to which `updates` are added at the slices that `indices` `[..., k]` name."""

    signature = "indices: Tindices, updates: T, shape: Tindices -> output: T"
    attrs = {"T": Type(), "Tindices": Type("int16 int32 int64"), "bad_indices_policy": String("")}
    effect = PURE
    any_size = open_places.scatter_nd
    cost = Cost.INDEXED
    compile_time = ("shape",)

    def shape(c):
        _policy(c)
        c.with_rank("shape", 1)
        wanted = shape_from(c.vector("shape"))
        return scatter_rules.slice_shape(c, wanted, c.shapes[0], c.shapes[1])

    def kernel(ctx, inputs, attrs):
        indices, updates, shape = inputs
        require(ctx, np.ndim(shape) == 1, "Shape must be a vector")
        shape = ints(shape)
        require(ctx, all(size >= 0 for size in shape), "shape {0} has a negative size", list(shape))
        target = _zeros(ctx, shape, updates.dtype)
        return _scattered(ctx, "Add", target, indices, updates, attrs["bad_indices_policy"], "shape")

    def gradient(op, grad):
        policy = op.get_attr("bad_indices_policy")
        return [None, build("GatherNd", dense(grad), op.inputs[0], bad_indices_policy=policy), None]


def _gathered_gradient(op: Any, grad: Any) -> Any:
    return build("GatherNd", grad, op.inputs[1], bad_indices_policy=op.get_attr("bad_indices_policy"))


def _update_gradient(op: Any, grad: Any) -> list[Any]:
    grad = dense(grad)
    zeros = build("ZerosLike", op.inputs[2])
    policy = op.get_attr("bad_indices_policy")
    left = build("TensorScatterUpdate", build("Identity", grad), op.inputs[1], zeros, bad_indices_policy=policy)
    return [left, None, _gathered_gradient(op, grad)]


def _add_gradient(op: Any, grad: Any) -> list[Any]:
    grad = dense(grad)
    return [grad, None, _gathered_gradient(op, grad)]


def _sub_gradient(op: Any, grad: Any) -> list[Any]:
    grad = dense(grad)
    return [grad, None, build("Neg", _gathered_gradient(op, grad))]


def _extremum_gradient(op: Any, grad: Any) -> list[Any]:
    """The gradient goes to whatever is equal to the result, shared evenly between tensor and updates that tie."""
    tensor, indices, updates = op.inputs
    grad = dense(grad)
    policy = op.get_attr("bad_indices_policy")
    result = op.outputs[0]
    dtype = tensor.dtype.base
    kept = build("Cast", build("Equal", tensor, result), DstT=dtype)
    chosen = build(
        "Cast", build("Equal", updates, build("GatherNd", result, indices, bad_indices_policy=policy)), DstT=dtype
    )
    votes = build("TensorScatterAdd", kept, indices, chosen, bad_indices_policy=policy)
    share = build("RealDiv", grad, votes)
    theirs = build("Mul", chosen, build("GatherNd", share, indices, bad_indices_policy=policy))
    return [build("Mul", share, kept), None, theirs]


_INDICES = {"TensorScatterUpdate": "int16 int32 int64 uint16"}
_SCATTERS = [
    (
        "TensorScatterUpdate",
        "Update",
        "replaced by `updates`; the last one wins where a slice is named twice",
        _update_gradient,
    ),
    ("TensorScatterAdd", "Add", "to which `updates` are added", _add_gradient),
    ("TensorScatterSub", "Sub", "from which `updates` are subtracted", _sub_gradient),
    ("TensorScatterMin", "Min", "replaced by their minimum with `updates`", _extremum_gradient),
    ("TensorScatterMax", "Max", "replaced by their maximum with `updates`", _extremum_gradient),
]


def _scatter_shape(c):
    _policy(c)
    return scatter_rules.slice_shape(c, c.shapes[0], c.shapes[1], c.shapes[2])


def _scatter_kernel(mode: str) -> Any:
    def kernel(ctx, inputs, attrs):
        target, indices, updates = inputs
        return _scattered(ctx, mode, target, indices, updates, attrs["bad_indices_policy"], "shape")

    return kernel


for _name, _mode, _told, _rule in _SCATTERS:
    define(
        _name,
        f"`tensor` with the slices that `indices` `[..., k]` name {_told}.",
        signature="tensor: T, indices: Tindices, updates: T -> output: T",
        attrs={
            "T": Type(),
            "Tindices": Type(_INDICES.get(_name, "int32 int64")),
            "bad_indices_policy": String(""),
        },
        effect=PURE,
        cost=Cost.INDEXED,
        moves=_mode == "Update",
        shape=_scatter_shape,
        kernel=_scatter_kernel(_mode),
        gradient=_rule,
    )


class ScatterNdNonAliasingAdd(Op):
    """`input` with `updates` added to the slices that `indices` `[..., k]` name."""

    signature = "input: T, indices: Tindices, updates: T -> output: T"
    attrs = {
        "T": Type(scatter_rules.NUMBERS + " bool"),
        "Tindices": Type("int32 int64"),
        "bad_indices_policy": String(""),
    }
    effect = PURE
    cost = Cost.INDEXED
    shape = _scatter_shape
    kernel = _scatter_kernel("Add")
    gradient = _add_gradient


scatter_nd = public_op("ScatterNd", "scatter_nd", "manip.scatter_nd", arguments="indices updates shape")
for _op, _names in (
    ("TensorScatterUpdate", ("tensor_scatter_update", "tensor_scatter_nd_update")),
    ("TensorScatterAdd", ("tensor_scatter_add", "tensor_scatter_nd_add")),
    ("TensorScatterSub", ("tensor_scatter_sub", "tensor_scatter_nd_sub")),
    ("TensorScatterMin", ("tensor_scatter_nd_min", "tensor_scatter_min")),
    ("TensorScatterMax", ("tensor_scatter_nd_max", "tensor_scatter_max")),
):
    public_op(_op, *_names, arguments="tensor indices updates")
