"""Sparse tensors as strings: three serialised tensors (indices, values, dense shape) in a last dimension of 3.

As variants, the three are the arrays themselves: what a dataset's element holds of a sparse tensor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import message as protobuf

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, NotDifferentiable, Op, Type
from anabranch.core.protos import tensor_pb2
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.tensor_proto import make_ndarray
from anabranch.ops.shared.array_rules import refuse, require
from anabranch.ops.sparse.rules import check_bounds, check_parts, sparse_operand, unbounded
from anabranch.ops.summary.messages import content_proto

_NO_GRADIENT = NotDifferentiable("strings have no gradient")


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _parts(arrays: Sequence[np.ndarray], dtype: dtypes.DType, out_type: dtypes.DType) -> list[Any]:
    """Indices, values and dense shape as they stand in the result."""
    if out_type is dtypes.variant:
        return list(arrays)
    types = dtypes.int64, dtype, dtypes.int64
    return [_written(array, kind) for array, kind in zip(arrays, types, strict=True)]


def _placed(parts: Sequence[Any]) -> np.ndarray:
    """A vector of three, which may be arrays."""
    vector = np.empty(3, object)
    for i, part in enumerate(parts):
        vector[i] = part
    return vector


def _written(array: np.ndarray, dtype: dtypes.DType) -> bytes:
    if dtype is dtypes.string:  # as bytes, too: all lengths, then all strings
        items = list(array)
        proto = content_proto(array[:0], dtype)
        proto.tensor_shape.dim[0].size = len(items)
        proto.tensor_content = b"".join([_varint(len(item)) for item in items] + items)
        return proto.SerializeToString()
    return content_proto(np.ascontiguousarray(array), dtype).SerializeToString()


class SerializeSparse(Op):
    """A sparse tensor as a vector of three strings."""

    signature = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: out_type"
    attrs = {"T": Type(), "out_type": Type("string variant", "string")}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        sparse_operand(c, 0, 1, 2)
        return (3,)

    def host_kernel(ctx, inputs, attrs):
        indices, values, sizes = inputs
        check_parts(ctx, indices, values, sizes)
        return _placed(_parts((indices, values, sizes), attrs["T"], attrs["out_type"]))


def rows_of(ctx: Any, indices: np.ndarray, values: np.ndarray, sizes: np.ndarray) -> list[tuple[Any, Any]]:
    """Indices (without the first coordinate) and values of each row of dimension 0 of a sparse tensor."""
    check_parts(ctx, indices, values, sizes)
    require(ctx, sizes.size > 1, f"Rank of input SparseTensor should be > 1, but saw rank: {sizes.size}")
    check_bounds(ctx, indices, sizes)
    own = indices[:, 0]
    ctx.check(bool(np.all(own[1:] >= own[:-1])), errors.InvalidArgumentError, "indices must be in row-major order")
    ends = np.searchsorted(own, np.arange(int(sizes[0]) + 1))
    parts = [slice(*pair) for pair in itertools.pairwise(ends)]
    return [(indices[part, 1:], values[part]) for part in parts]


class SerializeManySparse(Op):
    """The rows of dimension 0 of a sparse tensor, each as three strings: ``[rows, 3]``; coordinates in row order."""

    signature = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: out_type"
    attrs = {"T": Type(), "out_type": Type("string variant", "string")}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        sparse_operand(c, 0, 1, 2)
        known = c.vector(2)
        return (known[0] if known else None, 3)

    def host_kernel(ctx, inputs, attrs):
        rows = rows_of(ctx, *inputs)
        strings = np.empty((len(rows), 3), object)
        for i, (indices, values) in enumerate(rows):
            strings[i] = _placed(_parts((indices, values, inputs[2][1:]), attrs["T"], attrs["out_type"]))
        return strings


def _read(ctx: Any, data: Any, dtype: dtypes.DType, rank: int, what: str, at: int) -> np.ndarray:
    if isinstance(data, np.ndarray):
        _require_dtype(ctx, dtypes.as_dtype(data.dtype), dtype, what, at)
        require(ctx, data.ndim == rank, f"Expected serialized_sparse's {what} of rank {rank} but received {data.ndim}")
        return data
    try:
        proto = tensor_pb2.TensorProto.FromString(data)
        array = make_ndarray(proto)
    except (protobuf.DecodeError, ValueError, TypeError):
        text = f"Could not parse serialized proto: the {what} of serialized_sparse"
        ctx.check(False, errors.InvalidArgumentError, text)
        raise
    _require_dtype(ctx, dtypes.as_dtype(proto.dtype), dtype, what, at)
    require(ctx, array.ndim == rank, f"Expected serialized_sparse's {what} of rank {rank} but received {array.ndim}")
    return array


def _require_dtype(ctx: Any, given: dtypes.DType, wanted: dtypes.DType, what: str, at: int) -> None:
    if given != wanted:
        one, other = dtypes.proto_name(wanted), dtypes.proto_name(given)
        require(ctx, False, f"Requested SparseTensor of type {one} but SparseTensor[{at}].{what}.dtype() == {other}")


def _one(ctx: Any, strings: Any, dtype: dtypes.DType, at: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    indices = _read(ctx, strings[0], dtypes.int64, 2, "indices", at)
    values = _read(ctx, strings[1], dtype, 1, "values", at)
    sizes = _read(ctx, strings[2], dtypes.int64, 1, "shape", at)
    check_parts(ctx, indices, values, sizes)
    return indices, values, sizes


def _stacked(ctx: Any, strings: np.ndarray, dtype: dtypes.DType) -> list[np.ndarray]:
    """Sparse tensors ``[..., 3]`` as one, with the leading dimensions in front; sizes are the largest."""
    return stacked(
        ctx, [_one(ctx, row, dtype, at) for at, row in enumerate(strings.reshape(-1, 3))], strings.shape[:-1]
    )


def stacked(ctx: Any, parts: Sequence[tuple[Any, Any, Any]], lead: tuple[int, ...]) -> list[np.ndarray]:
    """Sparse tensors (indices, values, sizes) as one, with the dimensions ``lead`` in front; sizes are the largest."""
    require(ctx, bool(parts), "Must have at least 1 serialized SparseTensor, but the input has none")
    if not lead:
        ((indices, values, sizes),) = parts
        return [indices, values, sizes]
    rank = parts[0][2].size
    for at, (_, _, sizes) in enumerate(parts):
        require(
            ctx,
            sizes.size == rank,
            f"Inconsistent shape across SparseTensors: rank prior to SparseTensor[{at}] was: {rank} but rank of "
            f"SparseTensor[{at}] is: {sizes.size}",
        )
    places = np.stack(np.unravel_index(np.arange(math.prod(lead)), lead), axis=1)
    indices = np.concatenate(
        [
            np.concatenate([np.broadcast_to(place, (len(own), len(lead))), own], axis=1)
            for place, (own, _, _) in zip(places, parts, strict=True)
        ]
    )
    sizes = np.max([sizes for _, _, sizes in parts], axis=0)
    return [
        indices.astype(np.int64),
        np.concatenate([values for _, values, _ in parts]),
        np.concatenate([np.array(lead, np.int64), sizes]),
    ]


class DeserializeSparse(Op):
    """The sparse tensors that strings ``[..., 3]`` hold, stacked behind the leading dimensions."""

    signature = "serialized_sparse: Tserialized -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64"
    attrs = {"dtype": Type(), "Tserialized": Type("string variant", "string")}
    effect = PURE
    gradient = _NO_GRADIENT
    bound = unbounded

    def shape(c):
        given = c.with_rank_at_least(0, 1)
        if given is not None and given[-1] not in (None, 3):
            refuse(
                c,
                f"serialized_sparse of shape {shapes.show(given)}",
                "3 in the last dimension",
                "tf.serialize_sparse(x)",
            )
        return [(None, None), (None,), (None,)]

    def host_kernel(ctx, inputs, attrs):
        (strings,) = inputs
        require(
            ctx,
            strings.ndim >= 1 and strings.shape[-1] == 3,
            f"Serialized sparse should have 3 as the last dimension, got: {shapes.show(strings.shape)}",
        )
        return _stacked(ctx, strings, attrs["dtype"])


class DeserializeManySparse(Op):
    """The sparse tensors that strings ``[rows, 3]`` hold, as rows of one."""

    signature = "serialized_sparse: string -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64"
    attrs = {"dtype": Type()}
    effect = PURE
    gradient = _NO_GRADIENT
    bound = unbounded

    def shape(c):
        given = c.with_rank(0, 2)
        if given[1] not in (None, 3):
            refuse(c, f"serialized_sparse of shape {shapes.show(given)}", "[rows, 3]", "tf.serialize_many_sparse(x)")
        return [(None, None), (None,), (None,)]

    def host_kernel(ctx, inputs, attrs):
        (strings,) = inputs
        require(
            ctx,
            strings.ndim == 2 and strings.shape[1] == 3,
            f"Serialized sparse should be a matrix with 3 columns, got: {shapes.show(strings.shape)}",
        )
        return _stacked(ctx, strings, attrs["dtype"])
