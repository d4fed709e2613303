"""Ragged tensors made, joined, cut and picked from."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.ragged import row_partitions as parts
from anabranch.ragged.elementwise import deepened, same_rows
from anabranch.ragged.ragged_tensor import RaggedTensor, as_ragged_or_tensor, match_splits_dtypes, nrows_of
from anabranch.ragged.rows import gather_rows, row_of


def axis_of(axis: Any, rank: int | None) -> int:
    """An axis from 0 on; ValueError if it is out of range, or negative where the rank is not known."""
    axis = int(axis)
    if rank is None:
        if axis < 0:
            raise ValueError(
                f"axis={axis} may only be negative if ndims is statically known.\n"
                + errors.message(f"axis={axis}", "an axis from 0 on", "axis=0")
            )
        return axis
    if not -rank <= axis < rank:
        raise ValueError(
            f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}\n"
            + errors.message(f"axis={axis}", f"{-rank} to {rank - 1}", "axis=0")
        )
    return axis + rank if axis < 0 else axis


@public("ragged.range")
def range(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> RaggedTensor:
    """Rows of numbers from ``starts`` below ``limits`` by ``deltas``.

    Args:
        starts: vector, or scalar for all rows; the limits, from 0 on, if ``limits`` is None.
        limits: vector or scalar.
        deltas: vector or scalar.
        dtype: of the numbers.
        name: name scope.
        row_splits_dtype: int32 or int64.
    """
    if limits is None:
        starts, limits = 0, starts
    with name_scope(name, "RaggedRange", [starts, limits, deltas]) as scope:
        given = [convert.convert_to_tensor(one, dtype) for one in (starts, limits, deltas)]
        if dtype is None:
            order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            kind = max((one.dtype.base for one in given), key=order.index)
            given = [parts.cast(one, kind) for one in given]
        result = build("RaggedRange", *given, Tsplits=dtypes.as_dtype(row_splits_dtype), name=scope)
        return RaggedTensor.from_row_splits(result.rt_dense_values, result.rt_nested_splits, validate=False)


@public("ragged.row_splits_to_segment_ids")
def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Any:
    """The number of the row that each value is in.

    Raises:
        ValueError: ``splits`` is empty, or neither int32 nor int64.
    """
    with name_scope(name, "RaggedSplitsToSegmentIds", [splits]):
        splits = convert.convert_to_tensor(splits, name="splits", preferred_dtype=dtypes.int64)
        if splits.dtype.base not in (dtypes.int32, dtypes.int64):
            raise ValueError("splits must have dtype int32 or int64")
        splits.shape.assert_has_rank(1)
        if splits._shape == (0,):
            raise ValueError("Invalid row_splits: []")
        ids = parts.rowids_of(splits)
        return ids if out_type is None else parts.cast(ids, dtypes.as_dtype(out_type))


@public("ragged.segment_ids_to_row_splits")
def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Any:
    """Where the rows end whose numbers ``segment_ids`` says, which do not fall.

    Args:
        segment_ids: int32 or int64 vector.
        num_segments: how many rows; one more than the last number if None.
        out_type: int32 or int64; that of ``segment_ids`` if None.
        name: name scope.
    """
    with name_scope(name, "SegmentIdsToRaggedSplits", [segment_ids]):
        ids = convert.convert_to_tensor(segment_ids, name="segment_ids", preferred_dtype=dtypes.int64)
        if ids.dtype.base not in (dtypes.int32, dtypes.int64):
            raise ValueError("segment_ids must have dtype int32 or int64")
        ids.shape.assert_has_rank(1)
        kind = ids.dtype.base if out_type is None else dtypes.as_dtype(out_type)
        ids = parts.cast(ids, kind)
        if num_segments is None:
            rows = parts.last_or(ids, -1) + convert.constant(1, kind)
        else:
            rows = parts.cast(convert.convert_to_tensor(num_segments), kind)
        return parts.splits_of_rowids(ids, rows)


# -------------------------------------------------------------------------------------------------------------- picking
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """``tf.gather`` where ``params`` or ``indices`` are ragged."""
    del validate_indices
    with name_scope(name, "RaggedGather", [params, indices]):
        params = as_ragged_or_tensor(params, name="params")
        indices = as_ragged_or_tensor(indices, name="indices")
        axis = batch_dims if axis is None else axis
        if axis != batch_dims and axis != 0:
            raise ValueError(
                "Currently, axis!=batch_dims is not supported for ragged gather\n"
                + errors.message(f"axis={axis}, batch_dims={batch_dims}", "one number for both", "batch_dims=axis")
            )
        if batch_dims:
            return batch_gather(params, indices, int(batch_dims))
        if isinstance(indices, RaggedTensor):
            return indices.with_values(gather(params, indices.values))
        if not isinstance(params, RaggedTensor):
            return build("GatherV2", params, indices, 0)
        rank = indices.shape.ndims
        if rank is None:
            raise ValueError("rank(indices) must be statically known")
        kind = params.row_splits.dtype.base
        if rank == 0:
            return row_of(params, indices)
        if rank == 1:
            return gather_rows(params, parts.cast(indices, kind))
        ragged = RaggedTensor.from_tensor(indices, ragged_rank=rank - 1, row_splits_dtype=kind)
        return gather(params, ragged)


def batch_gather(params: Any, indices: Any, batch_dims: int = 1, name: str | None = None) -> Any:
    """``tf.batch_gather``: of row ``i`` of ``params`` the elements that row ``i`` of ``indices`` names."""
    del name
    params, indices = as_ragged_or_tensor(params), as_ragged_or_tensor(indices)
    kind = next(one for one in (params, indices) if isinstance(one, RaggedTensor)).row_splits.dtype.base
    if indices.shape.ndims is not None and len(indices.shape) < batch_dims + 1:
        if indices.shape.ndims == batch_dims:
            picked = batch_gather(params, expand_dims(indices, -1), batch_dims)
            return squeeze(picked, batch_dims)
        raise ValueError("indices.shape.ndims must be greater than batch_dims")
    if batch_dims == 1 and not isinstance(indices, RaggedTensor):
        starts = build("Reshape", params.row_splits[:-1], [-1, *[1] * (indices.shape.ndims - 1)])
        return gather(params.values, parts.cast(indices, kind) + starts)
    params, indices = (deepened(one, batch_dims, kind) for one in (params, indices))
    params, indices = (
        (_merged(one, batch_dims - 1) for one in (params, indices)) if batch_dims > 1 else (params, indices)
    )
    outer = []
    if batch_dims > 1:
        params, outer = params
        indices, _ = indices
    rowids = parts.rowids_of(indices.row_splits)
    starts = build("GatherV2", params.row_splits, rowids, 0)
    inner = indices.values
    if isinstance(inner, RaggedTensor):
        wider = RaggedTensor.from_row_splits(
            build("GatherV2", starts, inner.value_rowids(), 0), inner.row_splits, validate=False
        )
        at = inner.with_flat_values(parts.cast(inner.flat_values, kind) + wider.flat_values)
    else:
        for _ in _axes(1, inner.shape.ndims or 1):
            starts = build("ExpandDims", starts, -1)
        at = parts.cast(inner, kind) + starts
    result = indices.with_values(gather(params.values, at))
    for splits in reversed(outer):
        result = RaggedTensor.from_row_splits(result, splits, validate=False)
    return result


def _axes(start: int, end: int) -> Any:
    return builtins.range(start, end)


def _merged(value: RaggedTensor, count: int) -> Any:
    """A ragged tensor without its ``count`` outermost dimensions, and their splits."""
    outer = []
    for _ in _axes(0, count):
        outer.append(value.row_splits)
        value = value.values
    return value, outer


def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None) -> Any:
    """``tf.gather_nd`` where ``params`` or ``indices`` are ragged."""
    if batch_dims:
        raise ValueError("batch_dims != 0 is not supported for ragged gather yet.")
    with name_scope(name, "RaggedGatherNd", [params, indices]):
        params, indices = as_ragged_or_tensor(params), as_ragged_or_tensor(indices)
        last = indices.shape[-1].value if indices.shape.ndims is not None else None
        if last is None:
            raise ValueError(
                "indices.shape[-1] must be statically known\n"
                + errors.message("indices of unknown innermost size", "a known size", "indices.set_shape([..., n])")
            )
        if isinstance(indices, RaggedTensor):
            return (
                indices.with_values(gather_nd(params, indices.values))
                if len(indices.shape) > 2
                else _pick(params, indices)
            )
        if indices.shape.ndims > 2 and isinstance(params, RaggedTensor) and last == params.shape.ndims:
            flat = gather_nd(params, build("Reshape", indices, [-1, last]))
            return build("Reshape", flat, build("Shape", indices)[:-1])
        if indices.shape.ndims > 2:
            kind = params.row_splits.dtype.base
            ragged = RaggedTensor.from_tensor(indices, ragged_rank=indices.shape.ndims - 2, row_splits_dtype=kind)
            return ragged.with_flat_values(gather_nd(params, ragged.flat_values))
        if indices.shape.ndims == 1:
            return gather_nd(params, build("ExpandDims", indices, 0))[0]
        if not isinstance(params, RaggedTensor):
            return build("GatherNd", params, indices)
        at = parts.cast(indices[:, 0], params.row_splits.dtype.base) if last else None
        if at is None:
            raise ValueError("indices.shape[-1] must be at least 1")
        value: Any = params
        column = 1
        while column < last and isinstance(value, RaggedTensor):
            at = build("GatherV2", value.row_splits, at, 0) + parts.cast(indices[:, column], at.dtype.base)
            value = value.values
            column += 1
        if column == last:
            return gather_rows(value, at)
        rest = parts.cast(indices[:, column:], at.dtype.base)
        return build("GatherNd", value, build("ConcatV2", [build("ExpandDims", at, 1), rest], 1))


def _pick(params: Any, indices: RaggedTensor) -> Any:
    raise ValueError(
        "indices.shape[-1] must be statically known\n"
        + errors.message(
            "indices that are ragged in their last dimension", "coordinates of one length", "indices.to_tensor()"
        )
    )


@public("ragged.boolean_mask")
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """The elements of ``data`` where ``mask`` holds, in rows as before: a mask of several dimensions leaves rows.

    Args:
        data: ragged or dense.
        mask: bool, ragged or dense, of a prefix of the shape of ``data``.
        name: name scope.
    """
    with name_scope(name, "RaggedMask", [data, mask]):
        data = as_ragged_or_tensor(data, name="data")
        mask = as_ragged_or_tensor(mask, dtypes.bool, name="mask")
        rank = mask.shape.ndims
        if rank is None:
            raise ValueError(
                "mask.shape.ndims must be known statically.\n"
                + errors.message("a mask of unknown rank", "a tensor of known rank", "mask.set_shape(...)")
            )
        if rank == 0:
            raise ValueError(
                "mask cannot be scalar.\n"
                + errors.message("a scalar mask", "a mask of a dimension or more", "mask[None]")
            )
        if rank == 1:
            if isinstance(data, RaggedTensor):
                return gather_rows(data, parts.cast(_where(mask), data.row_splits.dtype.base))
            return build("GatherV2", data, _where(mask), 0)
        kind = next((one.row_splits.dtype.base for one in (data, mask) if isinstance(one, RaggedTensor)), dtypes.int64)
        mask = deepened(mask, rank - 1, kind)
        data = deepened(data, rank - 1, kind)
        return _masked(data, mask)


def _where(mask: Any) -> Any:
    return build("Squeeze", build("Where", mask), squeeze_dims=[1])


def _masked(data: RaggedTensor, mask: RaggedTensor) -> Any:
    """Rows of which only what a mask with the same rows lets through stays."""
    if isinstance(mask.values, RaggedTensor):
        inner = _masked(data.values, mask.values)
        return data.with_values(inner)
    kind = data.row_splits.dtype.base
    kept = parts.cast(mask.values, kind)
    lengths = build("UnsortedSegmentSum", kept, parts.rowids_of(mask.row_splits), nrows_of(mask, kind))
    values = gather_rows(data.values, parts.cast(_where(mask.values), kind))
    return RaggedTensor.from_row_lengths(values, lengths, validate=False)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """``tf.where`` where an argument is ragged."""
    with name_scope(name, "RaggedWhere", [condition, x, y]):
        condition = as_ragged_or_tensor(condition, dtypes.bool, "condition")
        if (x is None) != (y is None):
            raise ValueError("x and y must be either both None or both non-None")
        if x is None:
            sparse = condition.with_flat_values(
                build("OnesLike", parts.cast(condition.flat_values, dtypes.int32))
            ).to_sparse()
            return build("GatherV2", sparse.indices, _where(condition.flat_values), 0)
        x, y = as_ragged_or_tensor(x, name="x"), as_ragged_or_tensor(y, name="y")
        both_ragged = isinstance(x, RaggedTensor) and isinstance(y, RaggedTensor)
        if both_ragged and not isinstance(condition, RaggedTensor) and condition.shape.ndims == 1:
            both = concat([x, y], 0)
            kind = both.row_splits.dtype.base
            behind = build("SelectV2", condition, convert.constant(0, kind), nrows_of(x, kind))
            return gather_rows(both, parts.counted(nrows_of(condition, kind), kind) + behind)
        x, y = same_rows(x, y)
        like = x if isinstance(x, RaggedTensor) else y
        if isinstance(like, RaggedTensor):
            condition, like = same_rows(condition, like)
            x, y = (same_rows(like, one)[1] for one in (x, y))
        flat = [one.flat_values if isinstance(one, RaggedTensor) else one for one in (condition, x, y)]
        holder = next(one for one in (like, condition) if isinstance(one, RaggedTensor))
        return holder.with_flat_values(build("SelectV2", *flat))


# -------------------------------------------------------------------------------------------------------------- joining
def concat(values: Any, axis: Any, name: str | None = None) -> Any:
    """``tf.concat`` where a value is ragged."""
    listed = [as_ragged_or_tensor(one) for one in (values if isinstance(values, (list, tuple)) else [values])]
    with name_scope(name, "RaggedConcat", listed):
        return _stacked(listed, axis, False)


@public("ragged.stack")
def stack(values: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Tensors of one rank, ragged or dense, along a new axis; the result is ragged.

    Args:
        values: list of tensors.
        axis: where the new dimension is.
        name: name scope.
    """
    listed = [as_ragged_or_tensor(one) for one in (values if isinstance(values, (list, tuple)) else [values])]
    with name_scope(name, "RaggedConcat", listed):
        return _stacked(listed, axis, True)


def _stacked(values: list[Any], axis: Any, new: bool) -> Any:
    if not values:
        raise ValueError("rt_inputs may not be empty.\n" + errors.message("no values", "one value or more", "[x, y]"))
    ranks = [one.shape.ndims for one in values]
    rank = next((one for one in ranks if one is not None), None)
    if any(one is not None and one != rank for one in ranks):
        raise ValueError(
            "all tensors must have the same rank\n"
            + errors.message(f"ranks {ranks}", "one rank", "tf.expand_dims(x, 0)")
        )
    at = axis_of(axis, None if rank is None else rank + int(new))
    if not any(isinstance(one, RaggedTensor) for one in values) and _alike(values, None if new else at):
        return build("Pack", values, axis=at) if new else build("ConcatV2", values, at)
    kind = next((one.row_splits.dtype.base for one in values if isinstance(one, RaggedTensor)), dtypes.int64)
    if new and at == 0:
        inner = _joined_rows(values, kind)
        counts = build("Pack", [nrows_of(one, kind) for one in values], axis=0)
        return RaggedTensor.from_row_lengths(inner, counts, validate=False)
    if at == 0:
        return _joined_rows(values, kind)
    if at == 1:
        if new:
            # Row i of the result holds row i of each value, as rows of their own.
            values = [expand_dims(one, 1) for one in values]
            return _stacked(values, 1, False)
        ragged = [deepened(one, 1, kind) for one in values]
        together = _joined_rows(ragged, kind)
        count = len(ragged)
        order = build(
            "Reshape",
            build("Transpose", build("Reshape", parts.counted(nrows_of(together, kind), kind), [count, -1]), [1, 0]),
            [-1],
        )
        alternating = gather_rows(together, order)
        splits = build("StridedSlice", alternating.row_splits, [0], [0], [count], end_mask=1, begin_mask=1)
        return RaggedTensor.from_row_splits(alternating.values, splits, validate=False)
    ragged = [deepened(one, 1, kind) for one in values]
    inner = _stacked([one.values for one in ragged], at - 1, new)
    return ragged[0].with_values(inner)


def _alike(values: Sequence[Any], axis: int | None) -> bool:
    """Whether dense tensors may have the same sizes, those along ``axis`` apart."""
    known = [list(one.shape.as_list()) for one in values if one.shape.ndims is not None]
    for sizes in known:
        if axis is not None:
            sizes[axis] = None
    first = known[0] if known else []
    return all(a is None or b is None or a == b for sizes in known for a, b in zip(first, sizes, strict=True))


def _joined_rows(values: Sequence[Any], kind: dtypes.DType) -> Any:
    """Rows one after another."""
    if not any(isinstance(one, RaggedTensor) for one in values) and _alike(values, 0):
        return build("ConcatV2", list(values), 0)
    depth = max((one.ragged_rank for one in values if isinstance(one, RaggedTensor)), default=1)
    ragged = [deepened(one, depth, kind) for one in values]
    for one in ragged[1:]:
        match_splits_dtypes(one, kind)
    splits = [ragged[0].row_splits]
    offset = ragged[0].row_splits[-1]
    for one in ragged[1:]:
        splits.append(one.row_splits[1:] + offset)
        offset = offset + one.row_splits[-1]
    inner = [one.values for one in ragged]
    if any(isinstance(one, RaggedTensor) for one in inner):
        values_joined = _joined_rows(inner, kind)
    else:
        values_joined = build("ConcatV2", inner, 0) if len(inner) > 1 else inner[0]
    return RaggedTensor.from_row_splits(values_joined, parts.joined(splits), validate=False)


@public("ragged.stack_dynamic_partitions")
def stack_dynamic_partitions(data: Any, partitions: Any, num_partitions: Any, name: str | None = None) -> Any:
    """Slices of ``data`` in rows by partition, in their order.

    Args:
        data: ragged or dense.
        partitions: int32 or int64, a prefix of the shape of ``data``: the row that each slice goes to.
        num_partitions: how many rows.
        name: name scope.
    """
    with name_scope(name, "SegmentStack", [data, partitions, num_partitions]):
        data = as_ragged_or_tensor(data, name="data")
        partitions = as_ragged_or_tensor(partitions, name="partitions")
        kind = next(
            (one.row_splits.dtype.base for one in (data, partitions) if isinstance(one, RaggedTensor)), dtypes.int64
        )
        rank = partitions.shape.ndims
        if rank is None:
            raise ValueError(
                "partitions must have known rank.\n"
                + errors.message("partitions of unknown rank", "a tensor of known rank", "x.set_shape(...)")
            )
        if rank == 0:
            splits = parts.splits_of_rowids(
                parts.vector_of(parts.cast(partitions, kind)),
                parts.cast(convert.convert_to_tensor(num_partitions), kind),
            )
            return RaggedTensor.from_row_splits(expand_dims(data, 0), splits, validate=False)
        while rank > 1:
            data, partitions = deepened(data, rank - 1, kind).values, deepened(partitions, rank - 1, kind).values
            rank -= 1
        partitions = parts.cast(partitions, kind)
        order = build("Cast", _stable_order(partitions), DstT=kind)
        rowids = build("GatherV2", partitions, order, 0)
        splits = parts.splits_of_rowids(rowids, parts.cast(convert.convert_to_tensor(num_partitions), kind))
        return RaggedTensor.from_row_splits(gather_rows(data, order), splits, validate=False)


def _stable_order(keys: Any) -> Any:
    """The places of elements by size, equal ones as they come."""
    return build("TopKV2", -keys, build("Shape", keys)[0], sorted=True).indices


# --------------------------------------------------------------------------------------------------------------- shapes
def expand_dims(input: Any, axis: Any, name: str | None = None) -> Any:
    """``tf.expand_dims`` of a ragged tensor."""
    with name_scope(name, "RaggedExpandDims", [input]):
        value = as_ragged_or_tensor(input, name="input")
        if not isinstance(value, RaggedTensor):
            return build("ExpandDims", value, axis)
        rank = value.shape.ndims
        at = axis_of(axis, None if rank is None else rank + 1)
        kind = value.row_splits.dtype.base
        if at == 0:
            splits = parts.joined([convert.constant([0], kind), parts.vector_of(nrows_of(value, kind))])
            return RaggedTensor.from_row_splits(value, splits, validate=False)
        if at == 1:
            splits = parts.counted(nrows_of(value, kind) + convert.constant(1, kind), kind)
            return RaggedTensor.from_row_splits(value, splits, validate=False)
        return value.with_values(expand_dims(value.values, at - 1))


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """``tf.squeeze`` of a ragged tensor, whose axes must be given."""
    axis = squeeze_dims if axis is None else axis
    with name_scope(name, "RaggedSqueeze", [input]):
        value = as_ragged_or_tensor(input)
        if not isinstance(value, RaggedTensor):
            return build(
                "Squeeze",
                value,
                squeeze_dims=[] if axis is None else axis if isinstance(axis, (list, tuple)) else [axis],
            )
        if axis is None:
            raise ValueError(
                "Ragged.squeeze must have an axis argument.\n"
                + errors.message("no axis", "the axes of size 1", "axis=[1]")
            )
        rank = value.shape.ndims
        axes = sorted(axis_of(one, rank) for one in (axis if isinstance(axis, (list, tuple)) else [axis]))
        for at in reversed(axes):
            value = _squeezed(value, at)
        return value


def _squeezed(value: Any, at: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return build("Squeeze", value, squeeze_dims=[at])
    kind = value.row_splits.dtype.base
    text = "the given axis (axis = %d) is not squeezable!"
    if at == 0:
        rows = nrows_of(value, kind)
        splits = parts.checked(value.row_splits, [(lambda: build("Equal", rows, convert.constant(1, kind)), text % at)])
        del splits
        return value.values
    if at == 1:
        lengths = parts.lengths_of(value.row_splits)
        checked = parts.checked(
            lengths, [(lambda: build("All", build("Equal", lengths, convert.constant(1, kind)), [0]), text % at)]
        )
        del checked
        return value.values
    return value.with_values(_squeezed(value.values, at - 1))


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """``tf.tile`` of a ragged tensor."""
    with name_scope(name, "RaggedTile", [input, multiples]):
        value = as_ragged_or_tensor(input)
        if not isinstance(value, RaggedTensor):
            return build("Tile", value, multiples)
        counts = convert.convert_to_tensor(multiples, name="multiples", preferred_dtype=value.row_splits.dtype.base)
        return _tiled(value, parts.cast(counts, value.row_splits.dtype.base))


def _tiled(value: Any, counts: Any) -> Any:
    if not isinstance(value, RaggedTensor):
        return build("Tile", value, counts)
    kind = value.row_splits.dtype.base
    rows = nrows_of(value, kind)
    # Below the rows first, then the rows' own contents, then the rows.
    inner = (
        _tiled(value.values, parts.joined([convert.constant([1], kind), counts[2:]]))
        if len(value.shape) > 2
        else value.values
    )
    value = value.with_values(inner)
    lengths = parts.lengths_of(value.row_splits)
    splits = parts.splits_of_lengths(lengths * counts[1])
    rowids = parts.rowids_of(splits)
    places = build("FloorMod", parts.places_in_rows(splits, rowids), build("GatherV2", lengths, rowids, 0))
    values = gather_rows(value.values, build("GatherV2", value.row_splits, rowids, 0) + places)
    wide = RaggedTensor.from_row_splits(values, splits, validate=False)
    return gather_rows(wide, build("FloorMod", parts.counted(rows * counts[0], kind), rows))


def rank(input: Any, name: str | None = None) -> Any:
    """``tf.rank`` of a ragged tensor."""
    value = as_ragged_or_tensor(input)
    if not isinstance(value, RaggedTensor):
        return build("Rank", value, name=name)
    return convert.constant(value.ragged_rank, dtypes.int32) + build("Rank", value.flat_values, name=name)


def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Any:
    """``tf.size`` of a ragged tensor: how many elements it has."""
    value = as_ragged_or_tensor(input)
    return build("Size", value.flat_values if isinstance(value, RaggedTensor) else value, out_type=out_type, name=name)


def one_hot(indices: Any, *args: Any, **kwargs: Any) -> Any:
    """``tf.one_hot`` of ragged indices, with the new dimension last."""
    axis = kwargs.pop("axis", None)
    if axis is not None:
        rank_ = indices.shape.ndims
        if axis_of(axis, None if rank_ is None else rank_ + 1) != rank_:
            raise ValueError("axis must be the innermost dimension for ragged one_hot")
    plain = api.names()["one_hot"]
    plain = getattr(plain, "__wrapped__", plain)
    ragged = as_ragged_or_tensor(indices)
    return ragged.with_flat_values(plain(ragged.flat_values, *args, **kwargs))


def merge_dims(self: RaggedTensor, outer_axis: int, inner_axis: int) -> Any:
    """The tensor with the dimensions from ``outer_axis`` to ``inner_axis`` as one."""
    rank = self.shape.ndims
    first, last = (axis + rank if axis < 0 and rank is not None else axis for axis in (outer_axis, inner_axis))
    if not 0 <= first <= last or (rank is not None and last >= rank):
        raise ValueError(
            f"Expected outer_axis ({outer_axis}) to be less than or equal to inner_axis ({inner_axis})\n"
            + errors.message(
                f"the axes {outer_axis} and {inner_axis} of a tensor of rank {rank}",
                "two of its axes, the outer one first",
                "x.merge_dims(0, 1)",
            )
        )
    return _as_one(self, first, last)


def _as_one(x: Any, first: int, last: int) -> Any:
    if first == last:
        return x
    if not isinstance(x, RaggedTensor):
        sizes = build("Shape", x)
        return build("Reshape", x, build("ConcatV2", [sizes[:first], [-1], sizes[last + 1 :]], 0))
    if first == 0:
        return _as_one(x.values, 0, last - 1)
    if first > 1:
        return x.with_values(_as_one(x.values, first - 1, last - 1))
    values, splits = x.values, x.row_splits
    for _ in builtins.range(last - 1):
        if isinstance(values, RaggedTensor):
            splits = build("GatherV2", values.row_splits, splits, 0)
            values = values.values
        else:
            splits = build("Mul", splits, build("Shape", values, out_type=splits.dtype)[1])
            values = _as_one(values, 0, 1)
    return RaggedTensor.from_row_splits(values, splits, validate=False)


RaggedTensor.merge_dims = merge_dims  # type: ignore[attr-defined]
