"""`tf.TensorSpec`: shape and dtype of a tensor that is not there yet."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape


@public("TensorSpec")
class TensorSpec:
    """Shape, dtype and name of a tensor.

    Args:
        shape: a shape, which may be known in part.
        dtype: a dtype.
        name: a name, or None.

    Example:
        >>> import anabranch as tf
        >>> spec = tf.TensorSpec([None, 3], tf.float32, "x")
        >>> spec.is_compatible_with(tf.zeros([2, 3]))
        True
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        self._shape, self._dtype, self._name = TensorShape(shape), dtypes.as_dtype(dtype), name

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """The same shape and dtype, under another name if one is given."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """Shape and dtype of a tensor, named after its operation."""
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    shape = property(lambda self: self._shape, doc="The shape.")
    dtype = property(lambda self: self._dtype, doc="The dtype.")
    name = property(lambda self: self._name, doc="The name, or None.")

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor, or all tensors of another spec, may have this shape and dtype."""
        other = spec_or_tensor
        return bool(self._dtype.is_compatible_with(other.dtype) and self._shape.is_compatible_with(other.shape))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        sizes = None if self._shape.ndims is None else tuple(self._shape.as_list())
        return sizes, self._dtype, self._name

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorSpec, (self._key()[0], self._dtype, self._name)
