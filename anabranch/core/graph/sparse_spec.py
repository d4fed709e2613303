"""`tf.SparseTensorSpec`: dtype and dense shape of a sparse tensor that is not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.core.values.tensor_spec import TensorSpec, TypeSpec


@public("SparseTensorSpec")
class SparseTensorSpec(TypeSpec):
    """Dense shape and dtype of a sparse tensor.

    Args:
        shape: a shape, which may be known in part.
        dtype: the dtype of its values.

    Example:
        >>> import anabranch as tf
        >>> spec = tf.SparseTensorSpec([None, 3], tf.float32)
        >>> spec.is_compatible_with(tf.SparseTensor([[0, 1]], [2.0], [5, 3]))
        True
    """

    __slots__ = ("_dtype", "_shape")

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32) -> None:
        self._shape, self._dtype = TensorShape(shape), dtypes.as_dtype(dtype)

    @classmethod
    def from_value(cls, value: SparseTensor) -> SparseTensorSpec:
        """Dense shape and dtype of a sparse tensor."""
        return cls(value.shape, value.dtype)

    shape = property(lambda self: self._shape, doc="The dense shape.")
    dtype = property(lambda self: self._dtype, doc="The dtype of the values.")
    value_type = property(lambda self: SparseTensor, doc="The class of its values.")

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None."""
        return self._shape.ndims

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a sparse tensor, or all values of another specification, may have this shape and dtype."""
        other = spec_or_value
        return bool(
            isinstance(other, SparseTensorSpec | SparseTensor)
            and self._dtype.is_compatible_with(other.dtype)
            and self._shape.is_compatible_with(other.shape)
        )

    def _part_specs(self) -> list[TensorSpec]:
        rank = self.rank
        return [
            TensorSpec([None, rank], dtypes.int64),
            TensorSpec([None], self._dtype),
            TensorSpec([rank], dtypes.int64),
        ]

    def _of_parts(self, tensors: Sequence[Any]) -> SparseTensor:
        value = SparseTensor(*tensors)
        value._static = self._shape.raw
        return value

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype

    def _key(self) -> tuple[Any, ...]:
        return self._shape.raw, self._dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseTensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape}, {self._dtype!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseTensorSpec, self._key()
