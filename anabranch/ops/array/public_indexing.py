"""Public functions that pick, pad and rearrange: `tf.gather`, `tf.pad`, `tf.one_hot`, `tf.reverse` and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes, shapes
from anabranch.ops.array.public_shapes import _tensors, either
from anabranch.ops.shared.array_rules import known


@public("slice")
def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """`size` elements per dimension of `input_`, from `begin` on; a size of -1 takes what is left.

    Example:
        >>> import anabranch as tf
        >>> tf.slice(tf.zeros([4, 6]), [1, 0], [2, -1]).shape.as_list()
        [2, 6]
    """
    return build("Slice", input_, begin, size, name=name)


slice_.__name__ = slice_.__qualname__ = "slice"


@public("pad")
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0) -> Any:
    """`tensor` with `paddings[i][0]` elements before and `paddings[i][1]` after it in dimension i.

    Args:
        tensor: tensor of rank n.
        paddings: integer tensor `[n, 2]`.
        mode: `"CONSTANT"`; or `"REFLECT"`, the mirror image without the border, `"SYMMETRIC"`, with it.
        name: name of the op.
        constant_values: scalar to pad with in mode `"CONSTANT"`.

    Example:
        >>> import anabranch as tf
        >>> tf.pad(tf.zeros([2, 3]), [[1, 1], [0, 2]]).shape.as_list()
        [4, 5]
    """
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, Tensor) and np.ndim(constant_values) == 0 and constant_values == 0:
            result = build("Pad", tensor, paddings, name=name)
        else:
            result = build("PadV2", tensor, paddings, constant_values, name=name)
    elif mode in ("REFLECT", "SYMMETRIC"):
        result = build("MirrorPad", tensor, paddings, mode=mode, name=name)
    else:
        raise ValueError(
            f"Unknown padding mode: {mode}\n"
            + errors.message(f"mode={mode!r}", "'CONSTANT', 'REFLECT' or 'SYMMETRIC'", "mode='CONSTANT'")
        )
    if result._shape is None or None not in result._shape:
        return result
    raw = result.op.inputs[0]._shape
    pairs = _rows(paddings)
    if raw is not None and len(pairs) == len(raw):
        # Paddings of which some are tensors: the dimensions whose paddings are known have known sizes.
        sizes = []
        for size, pair in zip(raw, pairs, strict=True):
            ends = [None] if pair is None else [known(end) if isinstance(end, Tensor) else end for end in pair]
            padding = sum(int(end) for end in ends if end is not None)
            sizes.append(None if size is None or None in ends else size + padding)
        result.set_shape(sizes)
    return result


def _rows(matrix: Any) -> Sequence[Any]:
    """The rows of a matrix, a list or a stack: each a sequence of what is known of it, or None; none of another."""
    if isinstance(matrix, Tensor):
        op: Any = getattr(matrix, "op", None)
        matrix = list(op.inputs) if op is not None and op.type == "Pack" and op.get_attr("axis") == 0 else ()
    rows = [partial_value(row) if isinstance(row, Tensor) else row for row in matrix]
    return [row if isinstance(row, (list, tuple, np.ndarray)) else None for row in rows]


@public("gather")
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Any:
    """Slices of `params` along `axis`, named by `indices` of any shape.

    Args:
        params: tensor, or a variable (of which only the rows named are read).
        indices: integer tensor; an index out of range fails the step.
        validate_indices: has no effect, as in TensorFlow: indices are always checked.
        name: name of the op.
        axis: dimension of `params`; `batch_dims` if None.
        batch_dims: number of leading dimensions that `params` and `indices` share.

    Returns:
        A tensor `params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]`.

    Example:
        >>> import anabranch as tf
        >>> tf.gather(tf.zeros([10, 4]), [[1, 2, 3]]).shape.as_list()
        [1, 3, 4]
    """
    if axis is None:
        axis = batch_dims
    if batch_dims == 0 and not isinstance(axis, Tensor) and np.ndim(axis) == 0 and int(axis) == 0:
        read = getattr(params, "sparse_read", None)
        if read is not None:
            return read(indices, name=name)
    return build("GatherV2", params, indices, axis, batch_dims=batch_dims, name=name)


@public("batch_gather")
def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """Slices of `params` named by `indices`, whose dimensions but the last go together with those of `params`."""
    with name_scope(name, "BatchGather", _tensors(params, indices)):
        indices = convert_to_tensor(indices, name="indices")
        params = convert_to_tensor(params, name="params")
        if indices._shape is None:
            raise ValueError(
                "batch_gather does not allow indices with unknown shape.\n"
                + errors.message("indices of unknown rank", "indices of known rank", "indices.set_shape([None, None])")
            )
        batch = len(indices._shape) - 1
        return gather(params, indices, axis=batch, batch_dims=batch)


@public("gather_nd", "manip.gather_nd")
def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Any:
    """Slices of `params` at the positions in the last dimension of `indices`.

    Args:
        params: tensor of rank n.
        indices: integer tensor `[..., k]` with k at most n.
        name: name of the op.
        batch_dims: number of leading dimensions that both share.

    Returns:
        A tensor `[..., *params.shape[k:]]`.
    """
    if not isinstance(batch_dims, Tensor) and batch_dims == 0:
        read = getattr(params, "gather_nd", None)
        if read is not None:
            return read(indices, name=name)
        return build("GatherNd", params, indices, name=name)
    batch_dims = int(batch_dims)
    with name_scope(name, "BatchGatherND", _tensors(params, indices)):
        params = convert_to_tensor(params, name="params")
        indices = convert_to_tensor(indices, name="indices")
        raw = indices._shape
        if raw is None or batch_dims >= len(raw) or batch_dims < 0:
            raise ValueError(
                errors.message(
                    f"batch_dims={batch_dims} for indices of shape {shapes.show(raw)}",
                    "indices of a known rank greater than batch_dims",
                    "indices.set_shape([None, None]), or fewer batch_dims",
                )
            )
        # Positions in the shared dimensions are put before those that the caller gives.
        dims = build("Unpack", build("Shape", indices, out_type=indices.dtype.base), num=len(raw))
        zero, one = (np.array(n, indices.dtype.base.np) for n in (0, 1))
        lead = convert_to_tensor([*dims[:-1], one], indices.dtype.base)
        places = []
        for i in range(batch_dims):
            count = build("Range", zero, dims[i], one)
            column = [1] * len(raw)
            column[i] = -1
            places.append(build("BroadcastTo", build("Reshape", count, column), lead))
        return build("GatherNd", params, build("ConcatV2", [*places, indices], len(raw) - 1))


@public("one_hot")
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """A new dimension of size `depth` at `axis` (last if None), `on_value` at the index and `off_value` elsewhere.

    An index outside `[0, depth)` gives `off_value` everywhere.

    Args:
        indices: integer tensor.
        depth: scalar.
        on_value, off_value: scalars, 1 and 0 if None.
        axis: where the new dimension goes.
        dtype: dtype of the result; that of the values, float32 if they are None.
        name: name of the op.

    Raises:
        TypeError: dtypes of values and `dtype` differ.

    Example:
        >>> import anabranch as tf
        >>> tf.one_hot([0, 2], 3).shape.as_list()
        [2, 3]
    """
    with name_scope(name, "one_hot", _tensors(indices, depth, on_value, off_value)) as scope:
        wanted = None if dtype is None else dtypes.as_dtype(dtype).base
        values: dict[str, Any] = {}
        for part, value in (("on_value", on_value), ("off_value", off_value)):
            if value is not None:
                as_tensor = convert_to_tensor(value, name=part)
                if wanted is not None and as_tensor.dtype.base != wanted:
                    words = f"dtype {as_tensor.dtype.base} of {part} does not match dtype parameter {wanted}"
                    if dtype is None:
                        words = f"dtype {wanted} of on_value does not match dtype {as_tensor.dtype.base} of off_value"
                    raise TypeError(
                        f"{words}\n"
                        + errors.message(
                            f"{part} of {as_tensor.dtype.base.name}",
                            wanted.name,
                            "tf.cast(x, dtype), or leave dtype out",
                        )
                    )
                wanted = as_tensor.dtype.base
                values[part] = as_tensor
                count_more(not isinstance(value, Tensor))  # TensorFlow makes one more tensor, to see its dtype
        wanted = wanted or dtypes.float32
        on = values.get("on_value")
        off = values.get("off_value")
        on = convert_to_tensor(1, wanted, name="on_value") if on is None else on
        off = convert_to_tensor(0, wanted, name="off_value") if off is None else off
        return build("OneHot", indices, depth, on, off, axis=-1 if axis is None else axis, name=scope)


# ------------------------------------------------------------------------------------------------------------ reversals
@public("reverse", "reverse_v2", "manip.reverse")
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """`tensor` backwards along each dimension in `axis`, an integer vector or list."""
    return build("ReverseV2", tensor, axis, name=name)


@public("reverse_sequence")
def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Any:
    """For each entry b along `batch_axis`, the first `seq_lengths[b]` elements along `seq_axis` reversed.

    The rest stays as it is.
    `seq_dim` and `batch_dim` are the old names of the axes; `batch_axis` is 0 if neither is given.
    """
    seq_axis = either(seq_axis, seq_dim, "seq_axis", "seq_dim", "reverse_sequence")
    batch_axis = either(batch_axis, batch_dim, "batch_axis", "batch_dim", "reverse_sequence")
    if seq_axis is None:
        raise ValueError(errors.message("reverse_sequence without seq_axis", "the axis to reverse", "pass seq_axis=1"))
    return build("ReverseSequence", input, seq_lengths, seq_dim=seq_axis, batch_dim=batch_axis or 0, name=name)


# ----------------------------------------------------------------------------------------------------------------- sets
@public("unique")
def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """The distinct elements of the vector `x` in order of first occurrence: `(y, idx)` with `x[i] = y[idx[i]]`."""
    return build("Unique", x, out_idx=out_idx, name=name)


@public("unique_with_counts")
def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """`unique`, and how often each element occurs: `(y, idx, count)`."""
    return build("UniqueWithCounts", x, out_idx=out_idx, name=name)


@public("setdiff1d")
def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> Any:
    """The elements of the vector `x` that are not in `y`, and their positions: `(out, idx)`."""
    return build("ListDiff", x, y, out_idx=index_dtype, name=name)


@public("dynamic_stitch")
def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Any:
    """One tensor with `data[i][j, ...]` at `indices[i][j]`; where an index comes again, the later data stands."""
    return build("DynamicStitch", list(indices), list(data), name=name)


@public("searchsorted")
def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32, name: str | None = None
) -> Any:
    """Where each of `values` goes into `sorted_sequence`, row by row of the last dimension.

    Args:
        sorted_sequence: tensor `[..., n]`, sorted along its last dimension.
        values: tensor `[..., m]` with the same leading dimensions.
        side: `"left"`: the first position that fits; `"right"`: the last.
        out_type: int32 or int64.
        name: name of the scope.
    """
    if side not in ("left", "right"):
        raise ValueError(
            f"side must be either 'right' or 'left'.  Saw: {side}.\n"
            + errors.message(f"side={side!r}", "'left' or 'right'", "side='left'")
        )
    with name_scope(name, "searchsorted", _tensors(sorted_sequence, values)):
        rows = convert_to_tensor(sorted_sequence)
        values = convert_to_tensor(values, rows.dtype.base)
        length = build("Slice", build("Shape", rows), [-1 + _rank(rows)], [1])
        width = build("Slice", build("Shape", values), [-1 + _rank(values)], [1])
        flat_rows = build("Reshape", rows, build("ConcatV2", [[-1], length], 0))
        flat = build("Reshape", values, build("ConcatV2", [[-1], width], 0))
        positions = build("LowerBound" if side == "left" else "UpperBound", flat_rows, flat, out_type=out_type)
        return build("Reshape", positions, build("Shape", values))


def _rank(tensor: Any) -> int:
    if not tensor._shape:
        raise ValueError(
            errors.message(
                f"a tensor of shape {shapes.show(tensor._shape)}",
                "a tensor of known rank, 1 or more",
                "x.set_shape([None, n]), or tf.reshape(x, shape)",
            )
        )
    return len(tensor._shape)


# --------------------------------------------------------------------------------------------------------------- blocks
def _block(block_size: Any, block_shape: Any, function: str) -> Any:
    size = either(block_size, block_shape, "block_size", "block_shape", function)
    if size is None:
        raise TypeError(errors.message(f"{function} without block_size", "a block size", "pass block_size=2"))
    return np.array([size, size], np.int64) if np.ndim(size) == 0 else size


@public("space_to_batch", "nn.space_to_batch")
def space_to_batch(
    input: Any, paddings: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None
) -> Any:
    """Zero-pad an image `[n, h, w, d]` and move blocks of `block_size` x `block_size` pixels into the batch."""
    output = build("SpaceToBatchND", input, _block(block_size, block_shape, "space_to_batch"), paddings, name=name)
    output.set_shape(shapes.with_rank(output._shape, 4))
    return output


@public("batch_to_space")
def batch_to_space(
    input: Any, crops: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None
) -> Any:
    """Move blocks of `block_size` x `block_size` pixels out of the batch of `[n, h, w, d]` and cut off `crops`."""
    output = build("BatchToSpaceND", input, _block(block_size, block_shape, "batch_to_space"), crops, name=name)
    output.set_shape(shapes.with_rank(output._shape, 4))
    return output


@public("space_to_depth", "nn.space_to_depth")
def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Any:
    """Blocks of `block_size` x `block_size` pixels as channels."""
    return build("SpaceToDepth", input, block_size=block_size, data_format=data_format, name=name)


@public("depth_to_space", "nn.depth_to_space")
def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Any:
    """Channels as blocks of `block_size` x `block_size` pixels."""
    return build("DepthToSpace", input, block_size=block_size, data_format=data_format, name=name)


@public("required_space_to_batch_paddings")
def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Any, Any]:
    """Paddings that make `block_shape` divide `input_shape`, and the crops that undo what they add to `base_paddings`.

    Args:
        input_shape: integer vector `[n]`.
        block_shape: integer vector `[n]`.
        base_paddings: paddings to start from, `[n, 2]`; none if None.
        name: name of the scope.

    Returns:
        `(paddings, crops)`, two integer tensors `[n, 2]`, constants if everything is known.
    """
    with name_scope(name, "required_space_to_batch_paddings", _tensors(input_shape, block_shape)):
        sizes = convert_to_tensor(input_shape, dtypes.int32, name="input_shape")
        blocks = convert_to_tensor(block_shape, dtypes.int32, name="block_shape")
        raw = blocks._shape
        if raw is None or len(raw) != 1 or raw[0] is None:
            raise ValueError(
                errors.message(
                    f"block_shape of shape {shapes.show(raw)}", "a vector of known length", "block_shape.set_shape([2])"
                )
            )
        count = raw[0]
        if count == 0:
            empty = constant(np.zeros((0, 2), np.int32))
            return empty, empty
        sizes.set_shape([count])
        base = convert_to_tensor(
            np.zeros((count, 2), np.int32) if base_paddings is None else base_paddings,
            dtypes.int32,
            name="base_paddings",
        )
        given = [known(item) for item in (sizes, blocks, base)]
        if all(item is not None for item in given):
            whole, block, around = given
            before, after = around[:, 0], around[:, 1]  # type: ignore[index]
            extra = -(whole + before + after) % block
            paddings = np.stack([before, after + extra], axis=1).astype(np.int32)
            crops = np.stack([np.zeros_like(extra), extra], axis=1).astype(np.int32)
            return constant(paddings, name="paddings"), constant(crops, name="crops")
        before, after = build("Unpack", base, num=2, axis=1)
        full = build("Add", build("Add", sizes, before), after)
        extra = build("FloorMod", build("Sub", blocks, build("FloorMod", full, blocks)), blocks)
        paddings = build("Pack", [before, build("Add", after, extra)], axis=1, name="paddings")
        crops = build("Pack", [build("ZerosLike", extra), extra], axis=1, name="crops")
        return paddings, crops


@public("extract_image_patches", "image.extract_image_patches")
def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Any:
    """Windows of `images` `[batch, height, width, depth]`, each laid out along depth.

    Args:
        images: tensor of rank 4.
        ksizes: `[1, rows, columns, 1]` of a window (also: `sizes`).
        strides: `[1, rows, columns, 1]` between windows.
        rates: `[1, rows, columns, 1]` between the pixels of a window.
        padding: `"VALID"` or `"SAME"`.
        name: name of the op.

    Returns:
        A tensor `[batch, rows, columns, ksizes[1] * ksizes[2] * depth]`.
    """
    ksizes = either(ksizes, sizes, "ksizes", "sizes", "extract_image_patches")
    return build("ExtractImagePatches", images, ksizes=ksizes, strides=strides, rates=rates, padding=padding, name=name)


@public("image.extract_patches")
def extract_patches(images: Any, sizes: Any, strides: Any, rates: Any, padding: Any, name: str | None = None) -> Any:
    """`extract_image_patches` under its later name."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


# ----------------------------------------------------------------------------------------------------------- composites
@public("meshgrid")
def meshgrid(*args: Any, **kwargs: Any) -> list[Any]:
    """Coordinates of a grid: for n vectors, n tensors of rank n that repeat each along the other dimensions.

    Args:
        args: the vectors.
        indexing: `"xy"` (the default: the first two dimensions exchanged, as in pictures) or `"ij"`.
        name: name of the scope.

    Example:
        >>> import anabranch as tf
        >>> [grid.shape.as_list() for grid in tf.meshgrid([1, 2, 3], [4, 5])]
        [[2, 3], [2, 3]]
    """
    indexing = kwargs.pop("indexing", "xy")
    name = kwargs.pop("name", "meshgrid")
    if kwargs:
        raise TypeError(
            f"'{next(iter(kwargs))}' is an invalid keyword argument for this function\n"
            + errors.message(f"arguments {sorted(kwargs)}", "only the arguments indexing and name", "leave them out")
        )
    if indexing not in ("xy", "ij"):
        raise ValueError(
            "indexing parameter must be either 'xy' or 'ij'\n"
            + errors.message(f"indexing={indexing!r}", "'xy' or 'ij'", "indexing='xy'")
        )
    with name_scope(name, "meshgrid", _tensors(*args)):
        count = len(args)
        placed = []
        for i, value in enumerate(args):
            column = [1] * count
            column[i] = -1
            placed.append(build("Reshape", convert_to_tensor(value), column))
        sizes = [build("Size", value) for value in args]
        if indexing == "xy" and count > 1:
            for i, column in ((0, [1, -1, *[1] * (count - 2)]), (1, [-1, *[1] * (count - 1)])):
                placed[i] = build("Reshape", placed[i], column)
            sizes[0], sizes[1] = sizes[1], sizes[0]
        if not count:
            return []
        count_more(count + 1)  # how many there are
        ones = build("Fill", build("Pack", sizes), np.ones((), placed[0].dtype.base.np))
        return [build("Mul", item, ones, name="mul") for item in placed]


@public("sequence_mask")
def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool, name: str | None = None) -> Any:
    """True in the first `lengths[...]` places of a new last dimension of size `maxlen`, false after them.

    Args:
        lengths: integer tensor.
        maxlen: scalar; the greatest of `lengths` if None.
        dtype: dtype of the result, 1 standing for true.
        name: name of the scope.

    Example:
        >>> import anabranch as tf
        >>> tf.sequence_mask([1, 3, 2], 5).shape.as_list()
        [3, 5]
    """
    with name_scope(name, "SequenceMask", _tensors(lengths, maxlen)):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            rank = lengths._shape
            axes = (
                build("Range", 0, build("Rank", lengths), 1) if rank is None else np.arange(len(rank), dtype=np.int32)
            )
            maxlen = build("Max", lengths, axes)
            maxlen = build("Maximum", constant(0, maxlen.dtype.base), maxlen)
        else:
            maxlen = convert_to_tensor(maxlen)
        if maxlen._shape not in (None, ()):
            raise ValueError(
                "maxlen must be scalar for sequence_mask\n"
                + errors.message(f"maxlen of shape {shapes.show(maxlen._shape)}", "a scalar", "tf.reduce_max(maxlen)")
            )
        kind = maxlen.dtype.base
        row = build("Range", constant(0, kind), maxlen, constant(1, kind))
        column = build("ExpandDims", lengths, -1)
        mask = build("Less", row, build("Cast", column, DstT=kind))
        wanted = dtypes.as_dtype(dtype if dtype is not None else dtypes.bool)
        return mask if wanted == dtypes.bool else build("Cast", mask, DstT=wanted)


publish_as("nn.batch_to_space", batch_to_space)
