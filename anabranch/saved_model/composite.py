"""Values that are made of several tensors, as functions of TensorFlow 2 take and give them: sparse and ragged ones.

A function's body knows the parts only: indices, values and dense shape of a sparse tensor; of a ragged one the values
and, from the outermost dimension on, where each row begins and ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.graph.sparse_tensor import SparseTensorValue
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import RawShape


class RaggedTensorValue(NamedTuple):
    """A ragged array: rows of ``values`` that ``nested_row_splits`` cut out, those of the outermost dimension first.

    Example:
        >>> import numpy as np
        >>> RaggedTensorValue(np.array([1, 2, 3]), (np.array([0, 2, 2, 3]),)).to_list()
        [[1, 2], [], [3]]
    """

    values: np.ndarray
    nested_row_splits: tuple[np.ndarray, ...]

    def to_list(self) -> list[Any]:
        """The rows as lists of lists."""
        rows = np.asarray(self.values).tolist()
        for splits in reversed(self.nested_row_splits):
            at = np.asarray(splits).tolist()
            rows = [rows[start:end] for start, end in itertools.pairwise(at)]
        return rows

    @staticmethod
    def from_list(rows: Any, ragged_rank: int, dtype: Any) -> RaggedTensorValue:
        """Lists of lists as a value with ``ragged_rank`` ragged dimensions."""
        splits = []
        for _ in range(ragged_rank):
            if not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
                raise TypeError(
                    errors.message(
                        f"rows {rows!r:.80}",
                        f"rows as lists, {ragged_rank} deep",
                        "a RaggedTensorValue, or lists of lists",
                    )
                )
            splits.append(np.cumsum([0, *map(len, rows)], dtype=np.int64))
            rows = [item for row in rows for item in row]
        return RaggedTensorValue(np.array(rows, dtype), tuple(splits))


class Leaf(NamedTuple):
    """One value of a function's structure: how it is made of tensors of which dtypes and shapes."""

    kind: str
    """``tensor``, ``sparse`` or ``ragged``."""
    parts: tuple[tuple[dtypes.DType, RawShape], ...]

    def pack(self, arrays: Sequence[Any]) -> Any:
        """The value of these parts."""
        if self.kind == "sparse":
            return SparseTensorValue(*arrays)
        return RaggedTensorValue(arrays[0], tuple(arrays[1:])) if self.kind == "ragged" else arrays[0]

    def unpack(self, value: Any) -> list[Any]:
        """The parts of a value.

        Raises:
            TypeError: it is none of this kind.
        """
        if self.kind == "tensor":
            return [value]
        if self.kind == "sparse" and all(hasattr(value, name) for name in SparseTensorValue._fields):
            return [value.indices, value.values, value.dense_shape]
        if self.kind == "ragged":
            levels = len(self.parts) - 1
            if isinstance(value, (list, np.ndarray)):
                value = RaggedTensorValue.from_list(value, levels, self.parts[0][0].np)
            if len(getattr(value, "nested_row_splits", ())) == levels:
                return [value.values, *value.nested_row_splits]
        raise TypeError(
            errors.message(
                f"a {type(value).__name__} for a {self.kind} tensor",
                "a tf.SparseTensorValue" if self.kind == "sparse" else "a RaggedTensorValue of its rank, or lists",
                "tf.SparseTensorValue(indices, values, dense_shape)"
                if self.kind == "sparse"
                else "[[1, 2], []], or saved_model.RaggedTensorValue(values, nested_row_splits)",
            )
        )

    def shown(self) -> str:
        """Kind, dtype and shape as text."""
        dtype, shape = self.parts[self.kind == "sparse"]
        if self.kind == "tensor":
            return f"{dtype.base.name}{shapes.show(shape)}"
        return f"{self.kind} {dtype.base.name}"


TENSOR = Leaf("tensor", ((dtypes.float32, None),))
"""A tensor of which nothing is known."""


def composite_leaf(spec: Any) -> Leaf:
    """The leaf that a ``TypeSpecProto`` describes.

    Raises:
        NotImplementedError: it is of another class.
    """
    state = list(spec.type_state.tuple_value.values)
    kind = {spec.SPARSE_TENSOR_SPEC: "sparse", spec.RAGGED_TENSOR_SPEC: "ragged"}.get(spec.type_spec_class)
    if kind is None or len(state) < (2 if kind == "sparse" else 4):
        raise NotImplementedError(
            errors.message(
                f"a value of class {spec.type_spec_class_name or spec.type_spec_class} in a function's structure",
                "tensors, sparse tensors and ragged tensors",
                "save a signature that takes and gives the tensors that the value is made of",
            )
        )
    shape = shapes.as_raw(state[0].tensor_shape_value)
    dtype = dtypes.as_dtype(int(state[1].tensor_dtype_value))
    rank = None if shape is None else len(shape)
    if kind == "sparse":
        return Leaf(kind, ((dtypes.int64, (None, rank)), (dtype, (None,)), (dtypes.int64, (rank,))))
    levels = state[2].int64_value
    if not 0 <= levels < 64 or (rank is not None and levels >= rank):
        raise ValueError(
            errors.message(
                f"a ragged tensor of rank {rank} with {levels} ragged dimensions",
                "fewer ragged dimensions than the rank",
                "save it again",
            )
        )
    split = dtypes.as_dtype(int(state[3].tensor_dtype_value))
    inner = None if shape is None else (None, *shape[levels + 1 :])
    return Leaf(kind, ((dtype, inner), *[(split, (None,))] * levels))


__all__ = ["TENSOR", "Leaf", "RaggedTensorValue", "composite_leaf"]
