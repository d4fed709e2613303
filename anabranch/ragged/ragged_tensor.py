"""``tf.RaggedTensor``: rows of different lengths, as the values of all rows one after another and where each row ends.

Policy. A ragged tensor is ``values`` and ``row_splits``: row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``. With
more ragged dimensions ``values`` is a ragged tensor itself; ``flat_values`` is the tensor at the bottom.
All else that says where rows are (lengths, starts, limits, the row of each value) is turned into splits, and computed
from them when it is asked for. No op sees a ragged tensor as one thing: functions of ``tf`` take it apart
(:mod:`anabranch.ragged.dispatch`), sessions feed and fetch it as a whole, loops and conditionals pass its parts.

What a program says about rows is checked: while the graph is built as far as it is known then, and when it runs unless
``validate=False``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor, SparseTensorValue
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.composite_tensor import CompositeTensor
from anabranch.ragged import from_dense
from anabranch.ragged import row_partitions as parts
from anabranch.ragged.values import RaggedTensorValue


def is_ragged(value: Any) -> bool:
    """Whether a value is a RaggedTensor or the value of one."""
    return isinstance(value, (RaggedTensor, RaggedTensorValue))


def as_ragged_or_tensor(value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None) -> Any:
    """A RaggedTensor as it is, the value of one as a constant RaggedTensor, and anything else as a tensor."""
    if isinstance(value, RaggedTensor):
        return value
    if isinstance(value, RaggedTensorValue):
        with name_scope(name, "ConvertToTensorOrRaggedTensor"):
            return RaggedTensor.from_nested_row_splits(
                convert.convert_to_tensor(value.flat_values, dtype), value.nested_row_splits, validate=False
            )
    return convert.convert_to_tensor(value, dtype, name, preferred_dtype)


@public("RaggedTensor")
class RaggedTensor(CompositeTensor):
    """A tensor some of whose dimensions have slices of different lengths.

    Made by its factory functions (:meth:`from_row_splits`, :meth:`from_row_lengths`, :meth:`from_tensor` and others)
    and by ``tf.ragged.constant``.

    Example:
        >>> import anabranch as tf
        >>> x = tf.RaggedTensor.from_row_lengths([3, 1, 4, 1, 5], row_lengths=[2, 0, 3])
        >>> with tf.Session() as session:
        ...     session.run(x + 1).to_list()
        [[4, 2], [], [5, 2, 6]]
    """

    __array_priority__ = 100

    def __init__(self, values: Any, row_splits: Any, internal: bool = False) -> None:
        if not internal:
            raise ValueError(
                "RaggedTensor constructor is private; please use one of the factory methods instead (e.g., "
                "RaggedTensor.from_row_lengths())\n"
                + errors.message(
                    "RaggedTensor(...)", "a factory function", "tf.RaggedTensor.from_row_splits(v, splits)"
                )
            )
        self._values = values
        self._row_splits = row_splits

    # ------------------------------------------------------------------------------------------------------- factories
    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True) -> Any:
        """Rows ``values[row_splits[i]:row_splits[i + 1]]``.

        Args:
            values: tensor ``[n, ...]``, or a RaggedTensor.
            row_splits: int32 or int64 vector ``[rows + 1]``, which begins with 0, does not fall and ends with ``n``.
            name: name scope.
            validate: check the splits when the graph runs.
        """
        if isinstance(row_splits, (list, tuple)) and not row_splits:
            raise ValueError(
                "row_splits tensor may not be empty.\n"
                + errors.message("row_splits=[]", "0 and the end of each row", "row_splits=[0]")
            )
        with name_scope(name, "RaggedFromRowSplits", [values, row_splits]):
            values, splits = cls._of(values, row_splits, "row_splits")
            if splits._shape == (0,):
                raise ValueError(
                    "row_splits tensor may not be empty.\n"
                    + errors.message("row_splits of shape [0]", "0 and the end of each row", "row_splits=[0]")
                )
            if validate:
                splits = parts.checked(
                    splits,
                    [
                        (lambda: parts.starts_with_zero(splits), "row_splits[0] must be 0"),
                        (lambda: parts.does_not_fall(splits), "row_splits must not fall"),
                        (
                            lambda: parts.ends_with(splits, nrows_of(values, splits.dtype.base)),
                            "row_splits[-1] must be the number of values",
                        ),
                    ],
                    "from_row_splits",
                )
            return cls(values, splits, internal=True)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True) -> Any:
        """Rows of lengths ``row_lengths``, whose sum is the number of values."""
        with name_scope(name, "RaggedFromRowLengths", [values, row_lengths]):
            values, lengths = cls._of(values, row_lengths, "row_lengths")
            splits = parts.splits_of_lengths(lengths)
            if validate:
                splits = parts.checked(
                    splits,
                    [
                        (lambda: parts.all_at_least_zero(lengths), "a row length is negative"),
                        (
                            lambda: parts.ends_with(splits, nrows_of(values, splits.dtype.base)),
                            "their sum must be the number of values",
                        ),
                    ],
                    "from_row_lengths",
                )
            return cls(values, splits, internal=True)

    @classmethod
    def from_row_starts(cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True) -> Any:
        """Rows that begin at ``row_starts``, each of which goes on to the next."""
        with name_scope(name, "RaggedFromRowStarts", [values, row_starts]):
            values, starts = cls._of(values, row_starts, "row_starts")
            end = parts.vector_of(nrows_of(values, starts.dtype.base))
            return cls.from_row_splits(values, parts.joined([starts, end]), validate=validate)

    @classmethod
    def from_row_limits(cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True) -> Any:
        """Rows that end before ``row_limits``, each of which begins where the one before ends."""
        with name_scope(name, "RaggedFromRowLimits", [values, row_limits]):
            values, limits = cls._of(values, row_limits, "row_limits")
            zero = convert.constant([0], limits.dtype.base)
            return cls.from_row_splits(values, parts.joined([zero, limits]), validate=validate)

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None, validate: bool = True
    ) -> Any:
        """Rows by the number of the row that each value is in.

        Args:
            values: tensor ``[n, ...]``, or a RaggedTensor.
            value_rowids: vector ``[n]`` that does not fall.
            nrows: how many rows there are; by default one more than the last number.
            name: name scope.
            validate: check the numbers when the graph runs.
        """
        with name_scope(name, "RaggedFromValueRowIds", [values, value_rowids, nrows]):
            values, rowids = cls._of(values, value_rowids, "value_rowids")
            known = None
            if nrows is None:
                rows = parts.last_or(rowids, -1) + convert.constant(1, rowids.dtype.base)
            else:
                rows = parts.cast(convert.convert_to_tensor(nrows, name="nrows"), rowids.dtype.base)
                known = parts.constant_of(rows)
                rows.shape.assert_has_rank(0)
                cls._check_rows(known, parts.constant_of(rowids))
            splits = parts.splits_of_rowids(rowids, rows)
            if known is not None:
                splits.set_shape([int(known) + 1])
            if validate:
                splits = parts.checked(
                    splits,
                    [
                        (lambda: parts.does_not_fall(rowids), "value_rowids must not fall"),
                        (lambda: parts.all_at_least_zero(rowids), "value_rowids must not be negative"),
                        (lambda: parts.all_below(rowids, rows), "value_rowids must be below nrows"),
                    ],
                    "from_value_rowids",
                )
            return cls(values, splits, internal=True)

    @staticmethod
    def _check_rows(nrows: Any, rowids: Any) -> None:
        if nrows is None:
            return
        if nrows < 0:
            raise ValueError(
                f"Expected nrows >= 0; got {nrows}\n"
                + errors.message(f"nrows={nrows}", "a number from 0 on", "nrows=None")
            )
        if rowids is not None and rowids.size and not nrows >= rowids[-1] + 1:
            raise ValueError(
                f"Expected nrows >= value_rowids[-1] + 1; got nrows={nrows}, value_rowids[-1]={rowids[-1]}\n"
                + errors.message(f"nrows={nrows}", f"at least {rowids[-1] + 1}", "nrows=None")
            )

    @classmethod
    def _of(cls, values: Any, partition: Any, name: str) -> tuple[Any, Any]:
        values = as_ragged_or_tensor(values, name="values")
        numbers = parts.as_partition(partition, name)
        if isinstance(values, RaggedTensor):
            match_splits_dtypes(values, numbers.dtype.base)
        else:
            values.shape.with_rank_at_least(1)
        return values, numbers

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """Several ragged dimensions, whose splits are given from the outermost on."""
        return cls._nested(cls.from_row_splits, flat_values, nested_row_splits, "nested_row_splits", name, validate)

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """Several ragged dimensions, whose row lengths are given from the outermost on."""
        return cls._nested(cls.from_row_lengths, flat_values, nested_row_lengths, "nested_row_lengths", name, validate)

    @classmethod
    def _nested(
        cls, make: Any, flat_values: Any, nested: Sequence[Any], argument: str, name: str | None, validate: bool
    ) -> Any:
        if isinstance(nested, Tensor):
            raise TypeError(
                f"{argument} must be a list of Tensors\n"
                + errors.message(f"{argument}, a tensor", "a list of tensors", f"{argument}=[...]")
            )
        with name_scope(name, "RaggedFromNested", [flat_values, *nested]):
            result = flat_values
            for one in reversed(list(nested)):
                result = make(result, one, validate=validate)
            return result

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Sequence[Any],
        nested_nrows: Sequence[Any] | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Several ragged dimensions, whose rows are given by the number of each value's row, from the outermost on."""
        for argument, given in (("nested_value_rowids", nested_value_rowids), ("nested_nrows", nested_nrows)):
            if isinstance(given, Tensor):
                raise TypeError(
                    f"{argument} must be a list of Tensors\n"
                    + errors.message(f"{argument}, a tensor", "a list of tensors", f"{argument}=[...]")
                )
        rows = [None] * len(nested_value_rowids) if nested_nrows is None else list(nested_nrows)
        if len(rows) != len(nested_value_rowids):
            raise ValueError(
                "nested_nrows must have the same length as nested_value_rowids\n"
                + errors.message(
                    f"{len(rows)} of {len(nested_value_rowids)}", "one for each dimension", "nested_nrows=None"
                )
            )
        with name_scope(name, "RaggedFromNestedValueRowIds", [flat_values, *nested_value_rowids]):
            result = flat_values
            for rowids, count in zip(reversed(list(nested_value_rowids)), reversed(rows), strict=True):
                result = cls.from_value_rowids(result, rowids, count, validate=validate)
            return result

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        lengths: Any = None,
        padding: Any = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: Any = dtypes.int64,
    ) -> Any:
        """Rows of a tensor, without what is behind their lengths or is padding at their ends.

        Args:
            tensor: of at least ``ragged_rank + 1`` dimensions.
            lengths: of the rows of the innermost ragged dimension, or a list of them for all, from the outermost on.
            padding: value (or slice) that ends rows; not with ``lengths``.
            ragged_rank: how many dimensions are ragged.
            name: name scope.
            row_splits_dtype: int32 or int64.
        """
        return from_dense.rows_of_tensor(cls, tensor, lengths, padding, ragged_rank, name, row_splits_dtype)

    @classmethod
    def from_sparse(cls, st_input: Any, name: str | None = None, row_splits_dtype: Any = dtypes.int64) -> Any:
        """The rows of a sparse matrix, whose elements must begin each row without gaps."""
        kind = dtypes.as_dtype(row_splits_dtype)
        if not isinstance(st_input, (SparseTensor, SparseTensorValue)):
            raise TypeError(f"Expected SparseTensor, got {type(st_input).__name__}")
        with name_scope(name, "RaggedFromSparse"):
            sparse = SparseTensor.from_value(st_input)
            rank = sparse.shape.ndims
            if rank is None or rank != 2:
                raise ValueError(
                    ("rank(st_input) must be statically known" if rank is None else "rank(st_input) must be 2")
                    + "\n"
                    + errors.message(
                        f"a sparse tensor of shape {sparse.shape}", "a matrix", "tf.sparse_reshape(x, ...)"
                    )
                )
            rows = parts.cast(sparse.dense_shape[0], kind)
            rowids = parts.cast(sparse.indices[:, 0], kind)
            columns = parts.cast(sparse.indices[:, 1], kind)
            splits = parts.splits_of_rowids(rowids, rows)
            places = parts.places_in_rows(splits, rowids)
            splits = parts.checked(
                splits,
                [(lambda: build("All", build("Equal", places, columns), [0]), "SparseTensor is not right-ragged")],
                "from_sparse",
            )
            return cls(sparse.values, splits, internal=True)

    # ------------------------------------------------------------------------------------------------------ properties
    @property
    def values(self) -> Any:
        """The values of all rows, one after another: a tensor, or a RaggedTensor."""
        return self._values

    @property
    def row_splits(self) -> Any:
        """Where rows end: a vector ``[rows + 1]`` that begins with 0."""
        return self._row_splits

    @property
    def dtype(self) -> dtypes.DType:
        """Element type."""
        return self._values.dtype

    @property
    def shape(self) -> shapes.TensorShape:
        """Static shape; ragged dimensions are unknown."""
        count = self._row_splits._shape
        rows = None if count is None or count[0] is None else count[0] - 1
        return shapes.TensorShape([rows, None]).concatenate(self._values.shape[1:])

    def get_shape(self) -> shapes.TensorShape:
        """Alias of :attr:`shape`."""
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        return 1 + (self._values.ragged_rank if isinstance(self._values, RaggedTensor) else 0)

    @property
    def flat_values(self) -> Any:
        """The tensor below all ragged dimensions."""
        values = self._values
        while isinstance(values, RaggedTensor):
            values = values._values
        return values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """Splits of all ragged dimensions, from the outermost on."""
        splits, one = [], self
        while isinstance(one, RaggedTensor):
            splits.append(one._row_splits)
            one = one._values
        return tuple(splits)

    @property
    def graph(self) -> Any:
        """The graph that holds the tensors."""
        return self._row_splits.graph

    def consumers(self) -> list[Any]:
        """Operations that take the values or the splits."""
        return list(dict.fromkeys([*self._values.consumers(), *self._row_splits.consumers()]))

    # ------------------------------------------------------------------------------------------------- where rows are
    def value_rowids(self, name: str | None = None) -> Any:
        """The number of the row that each value is in, ``[n]``."""
        with name_scope(name, "RaggedValueRowIds", [self]):
            return parts.rowids_of(self._row_splits)

    def nested_value_rowids(self, name: str | None = None) -> tuple[Any, ...]:
        """:meth:`value_rowids` of all ragged dimensions, from the outermost on."""
        with name_scope(name, "RaggedNestedValueRowIds", [self]):
            return tuple(parts.rowids_of(splits) for splits in self.nested_row_splits)

    def nrows(self, out_type: Any = None, name: str | None = None) -> Any:
        """How many rows there are, a scalar."""
        kind = self._row_splits.dtype.base if out_type is None else dtypes.as_dtype(out_type)
        with name_scope(name, "RaggedNRows", [self]):
            return nrows_of(self, kind)

    def row_starts(self, name: str | None = None) -> Any:
        """Where rows begin, ``[rows]``."""
        with name_scope(name, "RaggedRowStarts", [self]):
            return self._row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Any:
        """Where rows end, ``[rows]``."""
        with name_scope(name, "RaggedRowLimits", [self]):
            return self._row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Lengths of the slices along an axis: a vector for axis 1, ragged for ragged axes below it."""
        if axis == 0:
            return self.nrows()
        if axis == 1:
            with name_scope(name, "RaggedRowLengths", [self]):
                return parts.lengths_of(self._row_splits)
        with name_scope(name, "RaggedRowLengths", [self]):
            if isinstance(self._values, RaggedTensor):
                return self.with_values(self._values.row_lengths(axis - 1))
            size = build("Shape", self._values, out_type=self._row_splits.dtype.base)
            rows = size[:1]
            return self.with_values(build("Fill", rows, size[axis - 1]))

    def nested_row_lengths(self, name: str | None = None) -> tuple[Any, ...]:
        """Row lengths of all ragged dimensions, from the outermost on."""
        with name_scope(name, "RaggedNestedRowLengths", [self]):
            return tuple(parts.lengths_of(splits) for splits in self.nested_row_splits)

    def bounding_shape(self, axis: Any = None, name: str | None = None, out_type: Any = None) -> Any:
        """The shape of the smallest dense tensor that holds all; along ``axis`` if given."""
        kind = self._row_splits.dtype.base if out_type is None else dtypes.as_dtype(out_type)
        with name_scope(name, "RaggedBoundingBox", [self, axis]):
            if axis is not None and not isinstance(axis, (list, tuple)) and axis in (0, 1):
                return self.nrows(kind) if axis == 0 else parts.cast(parts.longest(self._row_splits), kind)
            longest = [parts.vector_of(parts.cast(parts.longest(one), kind)) for one in self.nested_row_splits]
            inner = build("Shape", self.flat_values, out_type=kind)[1:]
            whole = parts.joined([parts.vector_of(self.nrows(kind)), *longest, inner])
            return whole if axis is None else build("GatherV2", whole, axis, 0)

    # -------------------------------------------------------------------------------------------------- other contents
    def with_values(self, new_values: Any) -> RaggedTensor:
        """The same rows of other values; their number is the same."""
        new_values = as_ragged_or_tensor(new_values)
        new_values.shape.with_rank_at_least(1)
        self._values.shape[:1].assert_is_compatible_with(new_values.shape[:1])
        if isinstance(new_values, RaggedTensor):
            match_splits_dtypes(new_values, self._row_splits.dtype.base)
        return RaggedTensor(new_values, self._row_splits, internal=True)

    def with_flat_values(self, new_values: Any) -> Any:
        """The same rows of other flat values."""
        if isinstance(self._values, RaggedTensor):
            return self.with_values(self._values.with_flat_values(new_values))
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same with splits of another type, int32 or int64."""
        kind = dtypes.as_dtype(dtype)
        if kind not in (dtypes.int32, dtypes.int64):
            raise ValueError("dtype must be int32 or int64")
        values = self._values.with_row_splits_dtype(kind) if isinstance(self._values, RaggedTensor) else self._values
        return RaggedTensor(values, parts.cast(self._row_splits, kind), internal=True)

    # ----------------------------------------------------------------------------------------------------- other forms
    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Any:
        """A dense tensor, its rows filled up with ``default_value`` (0 or "" if None) to the longest.

        Args:
            default_value: what fills rows up.
            name: name scope.
            shape: the shape of the result, to which rows are filled up or cut; None in it, or for all of it, is the
                longest.
        """
        with name_scope(name, "RaggedToTensor", [self, default_value]):
            flat = self.flat_values
            kind = flat.dtype.base
            if default_value is None:
                default_value = convert.constant("" if kind == dtypes.string else np.zeros((), kind.np), kind)
            default = convert.convert_to_tensor(default_value, kind, "default_value")
            inner = flat.shape[1:]
            if default.shape.ndims != 0 and not default.shape.is_compatible_with(inner):
                raise ValueError(
                    f"Shape {default.shape} of default_value must be compatible with {inner}\n"
                    + errors.message(f"default_value of shape {default.shape}", f"a scalar, or {inner}", "0")
                )
            splits = list(self.nested_row_splits)
            wanted = shapes.TensorShape(shape if not isinstance(shape, Tensor) else None)
            sizes: Any = shape if isinstance(shape, Tensor) else -1
            if wanted.ndims is not None:
                sizes = [-1 if size is None else size for size in wanted.as_list()]
            dense = build(
                "RaggedTensorToTensor",
                convert.convert_to_tensor(sizes, None if isinstance(shape, Tensor) else dtypes.int64),
                flat,
                default,
                splits,
                row_partition_types=["ROW_SPLITS"] * len(splits),
            )
            if shape is None:
                dense.set_shape(shapes.TensorShape([self.shape[0].value, *[None] * len(splits)]).concatenate(inner))
            else:
                dense.set_shape(wanted)
            return dense

    def to_sparse(self, name: str | None = None) -> Any:
        """A sparse tensor of the same elements."""
        with name_scope(name, "RaggedToSparse", [self]):
            result = build("RaggedTensorToSparse", list(self.nested_row_splits), self.flat_values)
            return SparseTensor(result.sparse_indices, result.sparse_values, result.sparse_dense_shape)

    def eval(self, feed_dict: Any = None, session: Any = None) -> RaggedTensorValue:
        """Its RaggedTensorValue, computed in ``session`` or the default session."""
        found = hooks.evaluate([self.flat_values, *self.nested_row_splits], feed_dict, self.graph, session)
        return RaggedTensorValue.of_parts(found[0], found[1:])

    def to_list(self) -> list[Any]:
        """The rows as lists, where ops run at once."""
        if not self._row_splits.has_value:
            raise ValueError(
                "RaggedTensor.to_list() is only supported in eager mode; in graph mode, evaluate the RaggedTensor "
                "first and then use RaggedTensorValue.to_list().\n"
                + errors.message("a ragged tensor of a graph", "its value", "session.run(x).to_list()")
            )
        return RaggedTensorValue.of_parts(
            self.flat_values.numpy(), [one.numpy() for one in self.nested_row_splits]
        ).to_list()

    def __repr__(self) -> str:
        if self._row_splits.has_value:
            return f"<tf.RaggedTensor {self.to_list()}>"
        return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"

    __str__ = __repr__


RaggedTensor.__module__ = "anabranch"


def nrows_of(value: Any, kind: dtypes.DType) -> Any:
    """The size of a tensor's, or a ragged tensor's, outermost dimension, a scalar."""
    if isinstance(value, RaggedTensor):
        return parts.cast(parts.size_of(value._row_splits, kind) - convert.constant(1, kind), kind)
    return parts.size_of(value, kind)


def match_splits_dtypes(value: Any, kind: dtypes.DType) -> None:
    """Refuse a ragged tensor whose splits are of another type."""
    if value.row_splits.dtype.base != kind:
        raise ValueError(
            "Input RaggedTensors have mismatched row_splits dtypes; use RaggedTensor.with_row_splits_dtype() to "
            "convert them to compatible dtypes.\n"
            + errors.message(
                f"splits of {value.row_splits.dtype.name} and {kind.name}",
                "splits of one type",
                f"x.with_row_splits_dtype(tf.{kind.name})",
            )
        )
