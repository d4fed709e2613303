"""Ragged rows as a dense tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Int, List, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes, shapes

_KINDS = ("FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_LENGTHS", "ROW_SPLITS")


def _levels(attrs: dict[str, Any]) -> int:
    """How many dimensions are ragged."""
    return len(attrs["row_partition_types"]) - (attrs["row_partition_types"][:1] == ("FIRST_DIM_SIZE",))


class RaggedTensorToTensor(Op):
    """The rows that ``row_partition_tensors`` cut out of ``values``, as a dense tensor filled up with
    ``default_value``.

    ``shape`` limits the result; -1 (for one dimension, or as a scalar for all) takes what the rows need.
    """

    signature = (
        "shape: Tshape, values: T, default_value: T, row_partition_tensors: num_row_partition_tensors * Tindex "
        "-> result: T"
    )
    attrs = {
        "T": Type(),
        "Tindex": Type("int64 int32"),
        "Tshape": Type("int64 int32"),
        "num_row_partition_tensors": Int(minimum=1),
        "row_partition_types": List("string"),
    }
    effect = PURE

    def shape(c):
        kinds = c.attrs["row_partition_types"]
        unknown = [kind for kind in kinds if kind not in _KINDS]
        if unknown or len(kinds) != c.attrs["num_row_partition_tensors"]:
            raise ValueError(
                errors.message(
                    f"row_partition_types {list(kinds)} for {c.attrs['num_row_partition_tensors']} tensors",
                    f"one of {list(_KINDS)} for each",
                    "check the attribute",
                )
            )
        values = c.shape("values")
        rank = None if values is None else len(values) + _levels(c.attrs)
        given = c.vector("shape") if c.shape("shape") not in (None, ()) else None
        if given is not None:
            return tuple(None if size is None or size < 0 else int(size) for size in given)
        return None if rank is None or values is None else (*[None] * (rank - len(values) + 1), *values[1:])

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        wanted, values, default, *partitions = inputs
        kinds = list(attrs["row_partition_types"])
        rows: Any = None
        if kinds[0] == "FIRST_DIM_SIZE":
            rows = int(partitions[0])
            kinds, partitions = kinds[1:], partitions[1:]
        splits = []
        for kind, partition in zip(kinds, partitions, strict=True):
            splits.append(_splits(ctx, kind, partition.astype(np.int64), rows))
            rows = int(splits[-1][-1])
        ctx.check(
            rows == values.shape[0],
            errors.InvalidArgumentError,
            "the partitions cut {0} rows out of {1} values",
            rows,
            values.shape[0],
        )
        needed = [len(splits[0]) - 1] if splits else [values.shape[0]]
        places = [np.arange(needed[0])]
        for cut in splits:
            lengths = np.diff(cut)
            needed.append(int(lengths.max(initial=0)))
            row = np.repeat(np.arange(len(lengths)), lengths)
            places = [place[row] for place in places]
            places.append(np.arange(len(row)) - cut[:-1][row])
        whole = [*needed, *values.shape[1:]]
        if wanted.ndim:
            ctx.check(
                len(wanted) == len(whole),
                errors.InvalidArgumentError,
                f"shape {wanted.tolist()} for a result of {len(whole)} dimensions",
            )
            whole = [int(size) if size >= 0 else own for size, own in zip(wanted, whole, strict=True)]
        inner = values.shape[1:]
        ctx.check(
            tuple(whole[len(needed) :]) == inner,
            errors.InvalidArgumentError,
            f"shape {shapes.show(tuple(whole))} for values of shape {shapes.show(values.shape)}",
        )
        out = np.empty(whole, values.dtype)
        out[...] = default
        inside = np.logical_and.reduce([place < size for place, size in zip(places, whole, strict=False)])
        out[tuple(place[inside] for place in places)] = values[inside]
        return out

    def gradient(op, grad):
        if any(kind not in (b"ROW_SPLITS", "ROW_SPLITS") for kind in op.get_attr("row_partition_types")):
            raise NotImplementedError(
                errors.message(
                    "the gradient of RaggedTensorToTensor of row lengths or ids",
                    "row splits",
                    "tf.RaggedTensor.from_row_lengths(values, lengths).to_tensor()",
                )
            )
        values, default, splits = op.inputs[1], op.inputs[2], list(op.inputs[3:])
        # Where each value went; those that a smaller shape cut off have no part in the result.
        whole = build("Shape", grad, out_type=dtypes.int64)[: len(splits) + 1]
        ids = build("Range", np.int64(0), build("Shape", values, out_type=dtypes.int64)[0], np.int64(1))
        at = build("RaggedTensorToSparse", splits, ids).sparse_indices
        inside = build("All", build("Less", at, whole), [1])
        nearest = build("Minimum", at, build("Sub", whole, np.int64(1)))
        picked = build("GatherNd", grad, nearest)
        shape = build("ConcatV2", [build("Shape", values)[:1], build("OnesLike", build("Shape", values)[1:])], 0)
        mask = build("Cast", build("Reshape", inside, shape), DstT=grad.dtype.base)
        of_values = build("Mul", picked, mask)
        if default.shape.ndims == 0:
            axes = build("Range", 0, build("Rank", grad), 1)
            rest = build("Sum", grad, axes)
            return [
                None,
                of_values,
                build("Sub", rest, build("Sum", of_values, build("Range", 0, build("Rank", values), 1))),
            ] + [None] * len(splits)
        outer = build("Range", 0, len(splits) + 1, 1)
        return [None, of_values, build("Sub", build("Sum", grad, outer), build("Sum", of_values, [0]))] + [None] * len(
            splits
        )


def checked_splits(ctx: Any, splits: np.ndarray, count: int | None = None) -> np.ndarray:
    """Row splits, which must begin with 0, not fall, and end with ``count`` if it is given."""
    good = splits.ndim == 1 and splits.size > 0 and splits[0] == 0 and np.all(np.diff(splits) >= 0)
    ctx.check(good, errors.InvalidArgumentError, "row splits must start with 0 and not fall: {0}", splits)
    ctx.check(
        count is None or int(splits[-1]) == count,
        errors.InvalidArgumentError,
        "row splits must end with the number of values, {1}: {0}",
        splits,
        count,
    )
    return splits


def _splits(ctx: Any, kind: str, partition: np.ndarray, rows: int | None) -> np.ndarray:
    """Where each row begins, and the end of the last."""
    if kind == "ROW_SPLITS":
        return checked_splits(ctx, partition)
    ctx.check(
        partition.ndim == 1 and np.all(partition >= 0),
        errors.InvalidArgumentError,
        "row lengths and row ids must be vectors of numbers from 0 on: {0}",
        partition,
    )
    if kind == "ROW_LENGTHS":
        return np.concatenate([[0], np.cumsum(partition)])
    good = np.all(np.diff(partition) >= 0) and rows is not None
    ctx.check(good, errors.InvalidArgumentError, "row ids must not fall: {0}", partition)
    ctx.check(
        partition.size == 0 or int(partition[-1]) < (rows or 0),
        errors.InvalidArgumentError,
        "row id {0} for {1} rows",
        partition[-1] if partition.size else 0,
        rows,
    )
    return np.concatenate([[0], np.cumsum(np.bincount(partition, minlength=rows or 0))])
