"""``tf.ragged.RaggedTensorValue``: what fetching a ragged tensor gives, and what is fed to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public


@public("ragged.RaggedTensorValue")
class RaggedTensorValue:
    """Rows of different lengths as arrays.

    Args:
        values: array ``[n, ...]``, or a RaggedTensorValue.
        row_splits: int32 or int64 array ``[rows + 1]``.
    """

    _values: Any
    _row_splits: Any

    def __init__(self, values: Any, row_splits: Any) -> None:
        if not (isinstance(row_splits, (np.ndarray, np.generic)) and row_splits.dtype in (np.int64, np.int32)):
            raise TypeError(
                "row_splits must be a 1D int32 or int64 numpy array\n"
                + errors.message(f"{row_splits!r:.60}", "an array", "np.array([0, 2, 3])")
            )
        if not isinstance(values, (np.ndarray, np.generic, RaggedTensorValue)):
            raise TypeError(
                "values must be a numpy array or a RaggedTensorValue\n"
                + errors.message(f"a {type(values).__name__}", "an array", "np.array(values)")
            )
        self._values = values
        self._row_splits = row_splits

    @staticmethod
    def of_parts(flat_values: Any, nested_row_splits: Sequence[Any]) -> Any:
        """The value with flat values and the splits of all dimensions, from the outermost on."""
        result: Any = np.asarray(flat_values)
        for splits in reversed(list(nested_row_splits)):
            result = RaggedTensorValue(result, np.asarray(splits))
        return result

    row_splits = property(lambda self: self._row_splits, doc="Where rows end, ``[rows + 1]``.")
    values = property(lambda self: self._values, doc="The values of all rows.")
    dtype = property(lambda self: self._values.dtype, doc="NumPy's element type.")

    @property
    def flat_values(self) -> Any:
        """The array below all ragged dimensions."""
        values = self._values
        while isinstance(values, RaggedTensorValue):
            values = values._values
        return values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """Splits of all ragged dimensions, from the outermost on."""
        inner = self._values.nested_row_splits if isinstance(self._values, RaggedTensorValue) else ()
        return (self._row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Sizes, None where dimensions are ragged."""
        return (self._row_splits.shape[0] - 1, None, *self._values.shape[1:])

    def to_list(self) -> list[Any]:
        """The rows as lists."""
        values = self._values.to_list() if isinstance(self._values, RaggedTensorValue) else self._values.tolist()
        return [values[start:end] for start, end in zip(self._row_splits[:-1], self._row_splits[1:], strict=True)]

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self._values!r}, row_splits={self._row_splits!r})"

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"


RaggedTensorValue.__module__ = "anabranch.ragged"
