"""Ops that parse `SequenceExample` messages: context features, and lists of features with one per step.

Policy. A feature list is dense (each step has the same shape; batches are padded with zeros to the longest sequence),
sparse (indices are example, step, position) or ragged. A dense one that an example lacks is an error unless it is
assumed to be empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from anabranch.core.contract.inference import RawShape
from anabranch.core.contract.opdef import PURE, Int, List, define
from anabranch.core.values import dtypes
from anabranch.ops.parsing.example_columns import FIELDS, Column, InvalidExample, as_array, column_of, padding
from anabranch.ops.parsing.examples import (
    NO_GRADIENT,
    VALUES,
    Batch,
    Inputs,
    batch_of,
    dense_columns,
    dense_shapes_of,
    one_row,
    same_count,
    sparse_columns,
    sparse_shapes_of,
    split_shape,
    splits_of,
    texts,
    unbounded,
)

_TYPE_NAMES = {dtypes.float32: "float", dtypes.int64: "int64", dtypes.string: "string"}


class Steps(NamedTuple):
    """A feature list of all examples: the values of all steps, and how many steps each example has (-1: missing)."""

    column: Column
    lengths: np.ndarray

    @property
    def present(self) -> np.ndarray:
        """How many steps each example has, 0 where the list is missing."""
        return np.maximum(self.lengths, 0)


def steps(batch: Batch, key: str, dtype: dtypes.DType) -> Steps:
    """A feature list of all examples."""
    items: list[Any] = []
    rows: list[int] = []
    lengths = np.empty(len(batch.messages), np.int64)
    for i, message in enumerate(batch.messages):
        lists = message.feature_lists.feature_list
        if key not in lists:
            lengths[i] = -1
            continue
        features = lists[key].feature
        lengths[i] = len(features)
        items.extend(features)
        rows.extend([i] * len(features))
    try:
        return Steps(column_of(items, key, dtype), lengths)
    except InvalidExample as problem:
        step = problem.position - rows.index(rows[problem.position])
        kind = items[problem.position].WhichOneof("kind")
        reason = problem.text
        if kind != FIELDS[dtype]:
            reason = f"Data types don't match. Expected type: {_TYPE_NAMES[dtype]}  Feature is: {kind}"
        _refuse_step(batch, rows[problem.position], key, step, reason)


def _refuse_step(batch: Batch, row: int, key: str, step: int, reason: str) -> NoReturn:
    """Fail for what is wrong with a step of an example's feature list."""
    batch.refuse(f"Name: {batch.name_of(row)}, Feature list: {key}, Index: {step}.  {reason}")


def dense_steps(
    batch: Batch, key: str, dtype: dtypes.DType, shape: RawShape, may_be_missing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """``[batch, longest, *shape]`` and the lengths."""
    step_column = steps(batch, key, dtype)
    if (step_column.lengths < 0).any() and not may_be_missing:
        name = batch.name_of(int(np.argmin(step_column.lengths)))
        batch.refuse(
            f"Name: {name}, Feature list '{key}' is required but could not be found.  Did you mean to include it in "
            "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
        )
    if shape is None or None in shape:
        batch.refuse(f"the shape of each step of the dense feature list {key} must be known")
    inner = tuple(int(size) for size in shape or () if size is not None)
    size = math.prod(inner)
    counts, lengths = step_column.column.counts, step_column.present
    if (counts != size).any():
        step = int(np.argmax(counts != size))
        row = int(np.searchsorted(np.cumsum(lengths), step, side="right"))
        at = step - int(lengths[:row].sum())
        if counts[step] < 0:
            reason = f"Data types don't match. Expected type: {_TYPE_NAMES[dtype]}  Feature is: empty"
            _refuse_step(batch, row, key, at, reason)
        batch.refuse(
            f"Name: {batch.name_of(row)}, Key: {key}, Index: {at}.  Number of {_TYPE_NAMES[dtype]} values != expected."
            f"  values size: {counts[step]} but output shape: {list(inner)}"
        )
    values = as_array(step_column.column.values, dtype).reshape(-1, *inner)
    if len(lengths) == 1:
        return values.reshape(1, int(lengths[0]), *inner), lengths
    longest = int(lengths.max(initial=0))
    out = np.empty((len(lengths), longest, *inner), values.dtype)
    out[...] = padding(dtype)
    out[np.arange(longest) < lengths[:, None]] = values
    return out, lengths


def sparse_steps(batch: Batch, key: str, dtype: dtypes.DType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices ``[n, 3]`` of example, step and position, values and shape."""
    step_column = steps(batch, key, dtype)
    lengths, counts = step_column.present, step_column.column.present
    total = int(counts.sum())
    row = np.repeat(np.arange(len(lengths)), lengths)
    step = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    indices = np.empty((total, 3), np.int64)
    indices[:, 0], indices[:, 1] = np.repeat(row, counts), np.repeat(step, counts)
    indices[:, 2] = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = np.array([len(lengths), lengths.max(initial=0), counts.max(initial=0)], np.int64)
    return indices, as_array(step_column.column.values, dtype), shape


def _all_sparse_steps(batch: Batch, keys: Sequence[str], types: Sequence[Any]) -> list[Any]:
    parts = [sparse_steps(batch, key, dtype) for key, dtype in zip(keys, types, strict=True)]
    return [part[i] for i in range(3) for part in parts]


def _all_dense_steps(
    batch: Batch, keys: Sequence[str], types: Sequence[Any], all_shapes: Sequence[RawShape], missing: Sequence[bool]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    columns = [
        dense_steps(batch, key, dtype, shape, allowed)
        for key, dtype, shape, allowed in zip(keys, types, all_shapes, missing, strict=True)
    ]
    return [values for values, _ in columns], [lengths for _, lengths in columns]


def _type_lists(*names: str) -> dict[str, Any]:
    return {name: List("type", (), VALUES, minimum=0) for name in names}


def _shape_list() -> Any:
    return List("shape", (), minimum=0)


_COUNTS = {
    name: Int(0, minimum=0)
    for name in ("Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense")
}


def _check_counts(c: Any) -> None:
    attrs = c.attrs
    same_count(c, {"Ncontext_sparse": attrs["Ncontext_sparse"], "types": len(attrs["context_sparse_types"])})
    same_count(c, {"Tcontext_dense": len(attrs["Tcontext_dense"]), "shapes": len(attrs["context_dense_shapes"])})
    same_count(
        c, {"Nfeature_list_sparse": attrs["Nfeature_list_sparse"], "types": len(attrs["feature_list_sparse_types"])}
    )
    same_count(
        c,
        {
            "Nfeature_list_dense": attrs.get("Nfeature_list_dense", len(attrs["feature_list_dense_types"])),
            "types": len(attrs["feature_list_dense_types"]),
            "shapes": len(attrs["feature_list_dense_shapes"]),
        },
    )


# --------------------------------------------------------------------------------------------------------- one example
def _single_shape(c: Any) -> list[RawShape]:
    c.with_rank("serialized", 0)
    _check_counts(c)
    attrs = c.attrs
    return (
        sparse_shapes_of(attrs["Ncontext_sparse"], 1)
        + list(attrs["context_dense_shapes"])
        + sparse_shapes_of(attrs["Nfeature_list_sparse"], 2)
        + dense_shapes_of((None,), attrs["feature_list_dense_shapes"])
    )


def _single_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    given = Inputs(inputs)
    serialized, assumed_empty = given.one(), texts([given.one()])
    keys = [
        texts(given.some(attrs[count]))
        for count in ("Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense")
    ]
    defaults = given.some(len(attrs["Tcontext_dense"]))
    name = given.one()
    named = np.size(name) and np.asarray(name, object).ravel()[0]
    batch = Batch(ctx, "SequenceExample", serialized, name if named else None)
    sparse = one_row(sparse_columns(batch, keys[0], attrs["context_sparse_types"]))
    dense = dense_columns(batch, keys[1], attrs["Tcontext_dense"], attrs["context_dense_shapes"], defaults)
    lists = one_row(_all_sparse_steps(batch, keys[2], attrs["feature_list_sparse_types"]))
    values, _ = _all_dense_steps(
        batch,
        keys[3],
        attrs["feature_list_dense_types"],
        attrs["feature_list_dense_shapes"],
        [key in assumed_empty for key in keys[3]],
    )
    return sparse + [item[0, ...] for item in dense] + lists + [item[0, ...] for item in values]


define(
    "ParseSingleSequenceExample",
    "Context features and feature lists of one serialised ``SequenceExample``.",
    signature="serialized: string, feature_list_dense_missing_assumed_empty: string, "
    "context_sparse_keys: Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, "
    "feature_list_sparse_keys: Nfeature_list_sparse * string, feature_list_dense_keys: Nfeature_list_dense * string, "
    "context_dense_defaults: [Tcontext_dense], debug_name: string -> "
    "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: [context_sparse_types], "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: [Tcontext_dense], "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: [feature_list_sparse_types], "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: [feature_list_dense_types]",
    attrs={
        **_COUNTS,
        **_type_lists("context_sparse_types", "Tcontext_dense", "feature_list_dense_types"),
        "context_dense_shapes": _shape_list(),
        **_type_lists("feature_list_sparse_types"),
        "feature_list_dense_shapes": _shape_list(),
    },
    effect=PURE,
    shape=_single_shape,
    bound=unbounded,
    host_kernel=_single_kernel,
    gradient=NO_GRADIENT,
)


# ------------------------------------------------------------------------------------------------------------- a batch
def _batch_shape(c: Any) -> list[RawShape]:
    batch = batch_of(c)
    _check_counts(c)
    attrs = c.attrs
    rank = None if batch is None else len(batch)
    count, lists, dense = attrs["Ncontext_sparse"], attrs["Nfeature_list_sparse"], attrs["feature_list_dense_shapes"]

    def sparse(number: int, more: int) -> list[RawShape]:
        wide = None if rank is None else rank + more
        return [(None, wide)] * number + [(None,)] * number + [(wide,)] * number

    def behind(extra: tuple[int | None, ...], raw: Sequence[RawShape]) -> list[RawShape]:
        return [None] * len(raw) if batch is None else dense_shapes_of((*batch, *extra), raw)

    ragged = len(attrs.get("context_ragged_value_types", ()))
    ragged_lists = len(attrs.get("feature_list_ragged_value_types", ()))
    return (
        sparse(count, 1)
        + behind((), attrs["context_dense_shapes"])
        + [(None,)] * ragged
        + [split_shape(batch)] * ragged
        + sparse(lists, 2)
        + behind((None,), dense)
        + [batch] * len(dense)
        + [(None,)] * ragged_lists
        + [split_shape(batch)] * ragged_lists
        + [(None,)] * ragged_lists
    )


def _batch_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    given = Inputs(inputs)
    batch = Batch(ctx, "SequenceExample", given.one(), given.one())
    dense_keys = texts(attrs["context_dense_keys"])
    assumed_empty = texts(attrs["feature_list_dense_missing_assumed_empty"])
    list_keys = texts(attrs["feature_list_dense_keys"])
    values, lengths = _all_dense_steps(
        batch,
        list_keys,
        attrs["feature_list_dense_types"],
        attrs["feature_list_dense_shapes"],
        [key in assumed_empty for key in list_keys],
    )
    return (
        sparse_columns(batch, texts(attrs["context_sparse_keys"]), attrs["context_sparse_types"])
        + dense_columns(
            batch, dense_keys, attrs["Tcontext_dense"], attrs["context_dense_shapes"], given.some(len(dense_keys))
        )
        + _all_sparse_steps(batch, texts(attrs["feature_list_sparse_keys"]), attrs["feature_list_sparse_types"])
        + values
        + lengths
    )


define(
    "ParseSequenceExample",
    "Context features and feature lists of a vector of serialised ``SequenceExample`` messages.",
    signature="serialized: string, debug_name: string, context_dense_defaults: [Tcontext_dense] -> "
    "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: [context_sparse_types], "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: [Tcontext_dense], "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: [feature_list_sparse_types], "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: [feature_list_dense_types], "
    "feature_list_dense_lengths: Nfeature_list_dense * int64",
    attrs={
        **{
            name: List("string", minimum=0)
            for name in (
                "feature_list_dense_missing_assumed_empty",
                "context_sparse_keys",
                "context_dense_keys",
                "feature_list_sparse_keys",
                "feature_list_dense_keys",
            )
        },
        **_COUNTS,
        **_type_lists("context_sparse_types", "Tcontext_dense", "feature_list_dense_types"),
        "context_dense_shapes": _shape_list(),
        **_type_lists("feature_list_sparse_types"),
        "feature_list_dense_shapes": _shape_list(),
    },
    effect=PURE,
    shape=_batch_shape,
    bound=unbounded,
    host_kernel=_batch_kernel,
    gradient=NO_GRADIENT,
)


def _batch_v2_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    given = Inputs(inputs)
    serialized = given.one()
    scalar = np.ndim(serialized) == 0
    batch = Batch(ctx, "SequenceExample", serialized, given.one())
    sparse_keys, dense_keys, ragged_keys, list_sparse, list_dense, list_ragged = (
        texts([given.one()]) for _ in range(6)
    )
    missing = [bool(item) for item in np.ravel(given.one())]
    defaults = given.some(len(attrs["Tcontext_dense"]))
    for keys, kind in (
        (sparse_keys, "context_sparse_types"),
        (dense_keys, "Tcontext_dense"),
        (ragged_keys, "context_ragged_value_types"),
        (list_sparse, "feature_list_sparse_types"),
        (list_dense, "feature_list_dense_types"),
        (list_ragged, "feature_list_ragged_value_types"),
        (missing, "feature_list_dense_types"),
    ):
        if len(keys) != len(attrs[kind]):
            batch.refuse(f"{len(keys)} keys for {len(attrs[kind])} {kind}")
    sparse = sparse_columns(batch, sparse_keys, attrs["context_sparse_types"])
    dense = dense_columns(batch, dense_keys, attrs["Tcontext_dense"], attrs["context_dense_shapes"], defaults)
    types, kinds = attrs["context_ragged_value_types"], attrs["context_ragged_split_types"]
    ragged = list(batch.columns(ragged_keys, types))
    ragged_values = [as_array(item.values, dtype) for item, dtype in zip(ragged, types, strict=True)]
    ragged_splits = [splits_of(item.present, dtype) for item, dtype in zip(ragged, kinds, strict=True)]
    lists = _all_sparse_steps(batch, list_sparse, attrs["feature_list_sparse_types"])
    values, lengths = _all_dense_steps(
        batch, list_dense, attrs["feature_list_dense_types"], attrs["feature_list_dense_shapes"], missing
    )
    types, kinds = attrs["feature_list_ragged_value_types"], attrs["feature_list_ragged_split_types"]
    columns = [steps(batch, key, dtype) for key, dtype in zip(list_ragged, types, strict=True)]
    list_values = [as_array(item.column.values, dtype) for item, dtype in zip(columns, types, strict=True)]
    outer = [splits_of(item.present, dtype) for item, dtype in zip(columns, kinds, strict=True)]
    inner = [splits_of(item.column.present, dtype) for item, dtype in zip(columns, kinds, strict=True)]
    if scalar:
        sparse, lists = one_row(sparse), one_row(lists)
        dense, values, lengths = ([item[0, ...] for item in items] for items in (dense, values, lengths))
        ragged_splits, outer = ([item[:0] for item in items] for items in (ragged_splits, outer))
    return sparse + dense + ragged_values + ragged_splits + lists + values + lengths + list_values + outer + inner


define(
    "ParseSequenceExampleV2",
    "Context features and feature lists of one serialised ``SequenceExample`` or a vector of them.",
    signature="serialized: string, debug_name: string, context_sparse_keys: string, context_dense_keys: string, "
    "context_ragged_keys: string, feature_list_sparse_keys: string, feature_list_dense_keys: string, "
    "feature_list_ragged_keys: string, feature_list_dense_missing_assumed_empty: bool, "
    "context_dense_defaults: [Tcontext_dense] -> "
    "context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: [context_sparse_types], "
    "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: [Tcontext_dense], "
    "context_ragged_values: [context_ragged_value_types], context_ragged_row_splits: [context_ragged_split_types], "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: [feature_list_sparse_types], "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64, feature_list_dense_values: [feature_list_dense_types], "
    "feature_list_dense_lengths: Nfeature_list_dense * int64, "
    "feature_list_ragged_values: [feature_list_ragged_value_types], "
    "feature_list_ragged_outer_splits: [feature_list_ragged_split_types], "
    "feature_list_ragged_inner_splits: [feature_list_ragged_split_types]",
    attrs={
        "Ncontext_sparse": Int(0, minimum=0),
        **_type_lists("Tcontext_dense", "context_sparse_types", "context_ragged_value_types"),
        "context_ragged_split_types": List("type", (), "int32 int64", minimum=0),
        "context_dense_shapes": _shape_list(),
        "Nfeature_list_sparse": Int(0, minimum=0),
        "Nfeature_list_dense": Int(0, minimum=0),
        **_type_lists("feature_list_dense_types", "feature_list_sparse_types", "feature_list_ragged_value_types"),
        "feature_list_ragged_split_types": List("type", (), "int32 int64", minimum=0),
        "feature_list_dense_shapes": _shape_list(),
    },
    effect=PURE,
    shape=_batch_shape,
    bound=unbounded,
    host_kernel=_batch_v2_kernel,
    gradient=NO_GRADIENT,
)
