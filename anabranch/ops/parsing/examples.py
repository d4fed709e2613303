"""Ops that parse `Example` and `SequenceExample` messages: dense features, sparse and ragged ones.

Policy. A batch is read column by column (:mod:`anabranch.ops.parsing.example_columns`). A dense feature has the same
shape in all examples, or an unknown first dimension that is padded to the longest; without a default it is required. A
sparse one gives what there is. All live on the host.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import RawShape
from anabranch.core.contract.opdef import PURE, Int, List, NotDifferentiable, define
from anabranch.core.values import dtypes, shapes
from anabranch.ops.parsing import one_example
from anabranch.ops.parsing.example_columns import Column, InvalidExample, as_array, column, padding, parsed
from anabranch.ops.parsing.example_walk import walk
from anabranch.ops.summary.messages import literal

VALUES = "float int64 string"
NO_GRADIENT = NotDifferentiable("it reads strings")
_NAMES = {dtypes.float32: "float", dtypes.int64: "int64", dtypes.string: "string"}


class Batch:
    """The messages of one execution and how to complain about them."""

    def __init__(self, ctx: Any, kind: str, serialized: Any, names: Any) -> None:
        self.ctx = ctx
        self.names = [] if names is None else list(np.asarray(names, object).ravel())
        data = list(np.asarray(serialized, object).ravel())
        if self.names and len(self.names) != len(data):
            self.refuse(f"Expected len(names) == len(serialized), but got: {len(self.names)} vs. {len(data)}")
        self._kind, self._data = kind, data
        self._walk = walk(data) if kind == "Example" else None
        if self._walk is None:
            _ = self.messages  # what is wrong with one is said before anything else

    @functools.cached_property
    def messages(self) -> list[Any]:
        """The messages, parsed."""
        try:
            return parsed(self._kind, self._data)
        except InvalidExample as problem:
            self.refuse_example(problem)

    @functools.cached_property
    def maps(self) -> list[Any]:
        """Of each `Example` the map from keys to features, of a `SequenceExample` that of its context."""
        return [
            message.features.feature if self._kind == "Example" else message.context.feature
            for message in self.messages
        ]

    def refuse(self, text: str) -> NoReturn:
        """Fail the step."""
        self.ctx.check(False, errors.InvalidArgumentError, literal(text))
        raise AssertionError(text)

    def name_of(self, position: int) -> str:
        """What an example is called in errors."""
        return self.names[position].decode("utf-8", "replace") if self.names else "<unknown>"

    def refuse_example(self, problem: InvalidExample) -> NoReturn:
        """Fail the step for what is wrong with one example."""
        if problem.key is None:
            self.refuse(f"Name: {self.name_of(problem.position)}, {problem.text}")
        self.refuse(
            f"Name: {self.name_of(problem.position)}, Key: {problem.key}, Index: {problem.position}.  {problem.text}"
        )

    def columns(self, keys: Sequence[str], types: Sequence[dtypes.DType]) -> Iterator[Column]:
        """The values of features of all examples, one after the other, so that the first that is wrong is refused."""
        walked = [None] * len(keys) if self._walk is None else self._walk.columns(keys, types)
        for key, dtype, ready in zip(keys, types, walked, strict=True):
            if ready is not None:
                yield ready
                continue
            try:
                yield column(self.maps, key, dtype)
            except InvalidExample as problem:
                self.refuse_example(problem)

    # ------------------------------------------------------------------------------------------------ one feature
    def dense(self, column: Column, key: str, dtype: dtypes.DType, shape: RawShape, default: Any) -> np.ndarray:
        """``[batch, *shape]``; an unknown first dimension is as long as the longest row."""
        if shape is None or None in shape[1:]:
            self.refuse(f"dense_shape of {key} must be known but for its first dimension, got {shapes.show(shape)}")
        default = np.asarray(default)
        if shape and shape[0] is None:
            return self._padded(column, key, dtype, shape, default)
        inner = tuple(int(d) for d in shape if d is not None)
        size = math.prod(inner)
        if column.each == size:
            return as_array(column.values, dtype).reshape(len(column.counts), *inner)
        given = column.counts >= 0
        wrong = given & (column.counts != size)
        if wrong.any():
            at = int(np.argmax(wrong))
            self.refuse_example(
                InvalidExample(
                    at,
                    key,
                    f"Number of {_NAMES[dtype]} values != expected.  Values size: {column.counts[at]} "
                    f"but output shape: {list(inner)}",
                )
            )
        values = as_array(column.values, dtype)
        if given.all():
            return values.reshape(len(given), *inner)
        if not default.size and size:
            self.refuse(
                f"Name: {self.name_of(int(np.argmin(given)))}, Feature: {key} (data type: {_NAMES[dtype]}) is required "
                "but could not be found."
            )
        out = np.empty((len(given), *inner), values.dtype)
        out[given] = values.reshape(int(given.sum()), *inner)
        out[~given] = default.reshape(inner)
        return out

    def _padded(
        self, column: Column, key: str, dtype: dtypes.DType, shape: Sequence[int | None], default: np.ndarray
    ) -> np.ndarray:
        inner = tuple(int(d) for d in shape[1:] if d is not None)
        stride = math.prod(inner)
        counts = column.present
        if default.size > 1:
            self.refuse(f"dense_defaults of the padded feature {key} must have one element, got {default.size}")
        if stride and (counts % stride).any():
            at = int(np.argmax(counts % stride != 0))
            self.refuse_example(
                InvalidExample(
                    at,
                    key,
                    f"Number of {'bytes' if dtype is dtypes.string else _NAMES[dtype]} values is not a multiple of "
                    f"stride length. Values size: {counts[at]} but output shape: {shapes.show(tuple(shape))}",
                )
            )
        longest = int(counts.max(initial=0))
        values = as_array(column.values, dtype)
        out = np.empty((len(counts), longest), values.dtype)
        out[...] = default.ravel()[0] if default.size else padding(dtype)
        out[np.arange(longest) < counts[:, None]] = values
        return out.reshape(len(counts), longest // stride if stride else 0, *inner)

    @staticmethod
    def sparse(column: Column, dtype: dtypes.DType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices ``[n, 2]``, values and shape of a feature of a batch."""
        counts = column.present
        total = int(counts.sum())
        indices = np.empty((total, 2), np.int64)
        indices[:, 0] = np.repeat(np.arange(len(counts)), counts)
        indices[:, 1] = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = np.array([len(counts), counts.max(initial=0)], np.int64)
        return indices, as_array(column.values, dtype), shape


def texts(values: Sequence[Any]) -> list[str]:
    """Keys: Python strings of an attribute, or scalars or vectors of bytes of inputs."""
    names = []
    for value in values:
        for item in [value] if isinstance(value, (str, bytes)) else np.asarray(value, object).ravel():
            names.append(item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else item)
    return names


class Inputs:
    """Take inputs off in the order of the signature."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values: Iterator[Any] = iter(values)

    def one(self) -> Any:
        """The next one."""
        return next(self._values)

    def some(self, count: int) -> list[Any]:
        """The next ``count``."""
        return [next(self._values) for _ in range(count)]


def same_count(c: Any, counts: dict[str, int]) -> None:
    """Refuse attributes that disagree about how many features there are."""
    if len(set(counts.values())) > 1:
        raise ValueError(
            errors.message(
                f"{', '.join(f'{n} {what}' for what, n in counts.items())} (op type {c.definition.type_name!r})",
                "as many of each as there are features",
                "give one of each for every feature",
            )
        )


def dense_shapes_of(batch: tuple[int | None, ...], raw: Sequence[RawShape]) -> list[RawShape]:
    """Shapes of dense features behind the dimensions of the batch."""
    return [None if shape is None else (*batch, *shape) for shape in raw]


def unbounded(c: Any) -> None:
    """No bound of the shape is known."""
    return None


# --------------------------------------------------------------------------------------------------- examples: a batch
def batch_of(c: Any, operand: str = "serialized") -> tuple[int | None, ...] | None:
    """Shape of the serialised messages, a scalar or a vector."""
    shape = c.shape(operand)
    if shape is not None and len(shape) > 1:
        c.with_rank(operand, 1)
    return shape


def sparse_shapes_of(count: int, rank: int) -> list[RawShape]:
    """Shapes of all indices, all values, all shapes of ``count`` sparse features."""
    return [(None, rank)] * count + [(None,)] * count + [(rank,)] * count


def _example_shape(c: Any) -> list[RawShape]:
    batch = c.with_rank("serialized", 1)
    attrs = c.attrs
    same_count(c, {"dense_keys": attrs["Ndense"], "Tdense": len(attrs["Tdense"]), "shapes": len(attrs["dense_shapes"])})
    same_count(c, {"sparse_keys": attrs["Nsparse"], "sparse_types": len(attrs["sparse_types"])})
    return sparse_shapes_of(attrs["Nsparse"], 2) + dense_shapes_of(batch, attrs["dense_shapes"])


def _example_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    given = Inputs(inputs)
    batch = Batch(ctx, "Example", given.one(), given.one())
    sparse_keys, dense_keys = texts(given.some(attrs["Nsparse"])), texts(given.some(attrs["Ndense"]))
    sparse = sparse_columns(batch, sparse_keys, attrs["sparse_types"])
    return sparse + dense_columns(
        batch, dense_keys, attrs["Tdense"], attrs["dense_shapes"], given.some(len(dense_keys))
    )


def sparse_columns(batch: Batch, keys: Sequence[str], types: Sequence[Any]) -> list[Any]:
    """All indices, then all values, then all shapes."""
    parts = [batch.sparse(column, dtype) for column, dtype in zip(batch.columns(keys, types), types, strict=True)]
    return [part[i] for i in range(3) for part in parts]


def dense_columns(
    batch: Batch, keys: Sequence[str], types: Sequence[Any], dense_shapes: Any, defaults: Sequence[Any]
) -> list[Any]:
    """Dense features in their order."""
    return [
        batch.dense(column, key, dtype, shape, default)
        for column, key, dtype, shape, default in zip(
            batch.columns(keys, types), keys, types, dense_shapes, defaults, strict=True
        )
    ]


define(
    "ParseExample",
    "Features of a vector of serialised ``Example`` messages; ``names`` (empty, or one each) only appear in errors.",
    signature="serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
    "dense_defaults: [Tdense] -> sparse_indices: Nsparse * int64, sparse_values: [sparse_types], "
    "sparse_shapes: Nsparse * int64, dense_values: [Tdense]",
    attrs={
        "Nsparse": Int(minimum=0),
        "Ndense": Int(minimum=0),
        "sparse_types": List("type", allowed=VALUES, minimum=0),
        "Tdense": List("type", allowed=VALUES, minimum=0),
        "dense_shapes": List("shape", minimum=0),
    },
    effect=PURE,
    shape=_example_shape,
    bound=unbounded,
    host_kernel=_example_kernel,
    gradient=NO_GRADIENT,
)


def _example_v2_shape(c: Any) -> list[RawShape]:
    batch = batch_of(c)
    attrs = c.attrs
    same_count(c, {"Tdense": len(attrs["Tdense"]), "shapes": len(attrs["dense_shapes"])})
    same_count(
        c,
        {
            "ragged_value_types": len(attrs["ragged_value_types"]),
            "ragged_split_types": len(attrs["ragged_split_types"]),
        },
    )
    rank = None if batch is None else len(batch) + 1
    count, ragged = attrs["num_sparse"], len(attrs["ragged_value_types"])
    dense: list[RawShape] = [None] * len(attrs["Tdense"])
    if batch is not None:
        dense = dense_shapes_of(batch, attrs["dense_shapes"])
    splits: list[RawShape] = [split_shape(batch)] * ragged
    return [(None, rank)] * count + [(None,)] * count + [(rank,)] * count + dense + [(None,)] * ragged + splits


def split_shape(batch: RawShape) -> RawShape:
    """Shape of the row splits of a batch; a single row has none."""
    if batch == ():
        return (0,)
    return (None if not batch or batch[0] is None else batch[0] + 1,)


def _example_v2_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    given = Inputs(inputs)
    serialized = given.one()
    scalar = np.ndim(serialized) == 0
    batch = Batch(ctx, "Example", serialized, given.one())
    sparse_keys, dense_keys, ragged_keys = (texts([given.one()]) for _ in range(3))
    if not (
        len(sparse_keys) == attrs["num_sparse"] == len(attrs["sparse_types"])
        and len(dense_keys) == len(attrs["Tdense"])
        and len(ragged_keys) == len(attrs["ragged_value_types"])
    ):
        batch.refuse("sparse_keys, dense_keys and ragged_keys must have one key for each type")
    sparse = sparse_columns(batch, sparse_keys, attrs["sparse_types"])
    dense = dense_columns(batch, dense_keys, attrs["Tdense"], attrs["dense_shapes"], given.some(len(dense_keys)))
    values, splits = [], []
    ragged_types = attrs["ragged_value_types"]
    for item, dtype, split_type in zip(
        batch.columns(ragged_keys, ragged_types), ragged_types, attrs["ragged_split_types"], strict=True
    ):
        values.append(as_array(item.values, dtype))
        splits.append(splits_of(item.present, split_type))
    if scalar:
        count = len(sparse_keys)
        sparse = [item[:, 1:] if i < count else item if i < 2 * count else item[1:] for i, item in enumerate(sparse)]
        dense = [item[0, ...] for item in dense]  # a scalar string stays an array
        splits = [item[:0] for item in splits]  # one row has no splits
    return sparse + dense + values + splits


def splits_of(counts: np.ndarray, dtype: dtypes.DType) -> np.ndarray:
    """Row splits of rows of the given lengths."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(dtype.np)


define(
    "ParseExampleV2",
    "Features of one serialised ``Example`` or a vector of them; ``names`` (empty, or one each) only appear in errors.",
    signature="serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
    "dense_defaults: [Tdense] -> sparse_indices: num_sparse * int64, sparse_values: [sparse_types], "
    "sparse_shapes: num_sparse * int64, dense_values: [Tdense], ragged_values: [ragged_value_types], "
    "ragged_row_splits: [ragged_split_types]",
    attrs={
        "Tdense": List("type", allowed=VALUES, minimum=0),
        "num_sparse": Int(minimum=0),
        "sparse_types": List("type", allowed=VALUES, minimum=0),
        "ragged_value_types": List("type", allowed=VALUES, minimum=0),
        "ragged_split_types": List("type", allowed="int32 int64", minimum=0),
        "dense_shapes": List("shape", minimum=0),
    },
    effect=PURE,
    shape=_example_v2_shape,
    bound=unbounded,
    host_kernel=_example_v2_kernel,
    gradient=NO_GRADIENT,
)


# ------------------------------------------------------------------------------------------------------- one example
def _single_shape(c: Any) -> list[RawShape]:
    c.with_rank("serialized", 0)
    attrs = c.attrs
    same_count(
        c,
        {"dense_keys": len(attrs["dense_keys"]), "Tdense": len(attrs["Tdense"]), "shapes": len(attrs["dense_shapes"])},
    )
    same_count(
        c,
        {
            "num_sparse": attrs["num_sparse"],
            "sparse_keys": len(attrs["sparse_keys"]),
            "sparse_types": len(attrs["sparse_types"]),
        },
    )
    return sparse_shapes_of(attrs["num_sparse"], 1) + list(attrs["dense_shapes"])


def one_row(parts: list[Any]) -> list[Any]:
    """Indices, values and shapes of a batch of one without the batch."""
    count = len(parts) // 3
    return (
        [part[:, 1:] for part in parts[:count]] + parts[count : 2 * count] + [part[1:] for part in parts[2 * count :]]
    )


@functools.lru_cache(256)
def _keys(names: tuple[Any, ...]) -> list[str]:
    """Keys that an attribute holds."""
    return texts(names)


def _single_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
    """Also for a vector of examples, which :func:`_single_rows` gives it: what is dense is then a row for each."""
    given = Inputs(inputs)
    serialized = given.one()
    if not np.ndim(serialized):
        dense_types = zip(_keys(attrs["dense_keys"]), attrs["Tdense"], attrs["dense_shapes"], strict=True)
        sparse_types = zip(_keys(attrs["sparse_keys"]), attrs["sparse_types"], strict=True)
        found = one_example.parse(np.asarray(serialized, object)[()], list(sparse_types), list(dense_types))
        if found is not None:
            return found
    batch = Batch(ctx, "Example", serialized, None)
    sparse = sparse_columns(batch, texts(attrs["sparse_keys"]), attrs["sparse_types"])
    dense_keys = texts(attrs["dense_keys"])
    dense = dense_columns(batch, dense_keys, attrs["Tdense"], attrs["dense_shapes"], given.some(len(dense_keys)))
    if np.ndim(serialized):
        return dense
    return one_row(sparse) + [item[0, ...] for item in dense]  # a scalar string stays an array


def _single_rows(operands: list[Any], rows: Sequence[bool], attrs: dict[str, Any]) -> Any:
    """Examples as rows, where what each gives has a certain size."""
    if any(rows[1:]) or attrs["num_sparse"] or any(shape is None or None in shape for shape in attrs["dense_shapes"]):
        return None
    return operands, attrs


define(
    "ParseSingleExample",
    "Features of one serialised ``Example``.",
    signature="serialized: string, dense_defaults: [Tdense] -> sparse_indices: num_sparse * int64, "
    "sparse_values: [sparse_types], sparse_shapes: num_sparse * int64, dense_values: [Tdense]",
    attrs={
        "num_sparse": Int(minimum=0),
        "sparse_keys": List("string", minimum=0),
        "dense_keys": List("string", minimum=0),
        "sparse_types": List("type", allowed=VALUES, minimum=0),
        "Tdense": List("type", allowed=VALUES, minimum=0),
        "dense_shapes": List("shape", minimum=0),
    },
    effect=PURE,
    shape=_single_shape,
    bound=unbounded,
    host_kernel=_single_kernel,
    by_rows=_single_rows,
    gradient=NO_GRADIENT,
)
