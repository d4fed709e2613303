"""`tf.RaggedTensorSpec`: what is known of a ragged tensor before it is there."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.operation import GraphTensor
from anabranch.core.values import dtypes
from anabranch.core.values.composite_tensor import batched, register_type_spec_from_value_converter
from anabranch.core.values.shapes import TensorShape
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.core.values.type_spec import BatchableTypeSpec
from anabranch.ragged.ragged_tensor import RaggedTensor
from anabranch.ragged.values import RaggedTensorValue


@public("RaggedTensorSpec")
class RaggedTensorSpec(BatchableTypeSpec):
    """Shape, dtype and number of ragged dimensions of a ragged tensor.

    Args:
        shape: a shape whose ragged dimensions are None; None allows any.
        dtype: dtype of the values.
        ragged_rank: number of ragged dimensions; by default all but the first.
        row_splits_dtype: int32 or int64.

    Raises:
        ValueError: neither ``ragged_rank`` nor the rank is known, or the first is not less than the second.

    Example:
        >>> import anabranch as tf
        >>> tf.RaggedTensorSpec([2, None], tf.int32).is_compatible_with(tf.ragged.constant([[1, 2], []]))
        True
    """

    __slots__ = ("_dtype", "_ragged_rank", "_row_splits_dtype", "_shape")

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = dtypes.int64,
    ) -> None:
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)
        self._row_splits_dtype = dtypes.as_dtype(row_splits_dtype)
        rank = self._shape.ndims
        if ragged_rank is None:
            if rank is None:
                raise ValueError(
                    "Must specify ragged_rank or a shape with a known rank.\n"
                    + errors.message(
                        "no ragged_rank and no rank",
                        "a ragged_rank, or a shape of known rank",
                        "tf.RaggedTensorSpec([None, None])",
                    )
                )
            ragged_rank = rank - 1
        if not isinstance(ragged_rank, int):
            raise TypeError(
                "ragged_rank must be an int\n"
                + errors.message(f"ragged_rank={ragged_rank!r}", "an integer", "ragged_rank=1")
            )
        if rank is not None and ragged_rank >= rank:
            raise ValueError(
                "ragged_rank must be less than rank.\n"
                + errors.message(f"ragged_rank {ragged_rank}, rank {rank}", "fewer ragged dimensions", f"{rank - 1}")
            )
        self._ragged_rank = ragged_rank

    @property
    def value_type(self) -> Any:
        """`RaggedTensor`, or a tensor's class where nothing is ragged."""
        return RaggedTensor if self._ragged_rank > 0 else GraphTensor

    @classmethod
    def from_value(cls, value: Any) -> RaggedTensorSpec:
        """The spec of a RaggedTensor or RaggedTensorValue."""
        return cls(value.shape, value.values.dtype, value.ragged_rank, value.row_splits.dtype)

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._ragged_rank, self._row_splits_dtype

    @property
    def _component_specs(self) -> list[TensorSpec]:
        if self._ragged_rank == 0:
            return [TensorSpec(self._shape, self._dtype)]
        rows = None if self._shape.ndims is None else self._shape.as_list()[0]
        splits = [TensorSpec([None], self._row_splits_dtype)] * (self._ragged_rank - 1)
        return [
            TensorSpec(batched(None, self._shape[self._ragged_rank + 1 :]), self._dtype),
            TensorSpec([None if rows is None else rows + 1], self._row_splits_dtype),
            *splits,
        ]

    def _to_components(self, value: Any) -> list[Any]:
        ragged = isinstance(value, (RaggedTensor, RaggedTensorValue))
        return [value.flat_values, *value.nested_row_splits] if ragged else [value]

    def _from_components(self, components: Any) -> Any:
        values, *splits = components
        if all(isinstance(component, np.ndarray) for component in components):
            for ends in reversed(splits):
                values = RaggedTensorValue(values, ends)
            return values
        values, *splits = map(convert.convert_to_tensor, components)
        for ends in reversed(splits):
            values = RaggedTensor(values, ends, internal=True)
        return values

    def _batch(self, batch_size: int | None) -> RaggedTensorSpec:
        return RaggedTensorSpec(batched(batch_size, self._shape), self._dtype, self._ragged_rank + 1)

    def _unbatch(self) -> RaggedTensorSpec:
        return RaggedTensorSpec(self._shape[1:], self._dtype, self._ragged_rank - 1)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape

    def _to_legacy_output_classes(self) -> Any:
        return self


@public("data.experimental.RaggedTensorStructure")
def ragged_tensor_structure(dtype: Any, shape: Any, ragged_rank: int) -> RaggedTensorSpec:
    """The spec of ragged tensors of a dtype, a static shape and a number of ragged dimensions."""
    return RaggedTensorSpec(shape, dtype, ragged_rank)


for _class in (RaggedTensor, RaggedTensorValue):
    register_type_spec_from_value_converter(_class, RaggedTensorSpec.from_value)
