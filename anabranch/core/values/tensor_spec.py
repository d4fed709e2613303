"""`tf.TensorSpec`: shape and dtype of a tensor that is not there yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract.api import public
from anabranch.core.errors import message
from anabranch.core.graph.operation import GraphTensor
from anabranch.core.values import dtypes
from anabranch.core.values.composite_tensor import batched, unbatched
from anabranch.core.values.shapes import TensorShape, broadcast
from anabranch.core.values.type_spec import BatchableTypeSpec, TypeSpec


@public("TensorSpec")
class TensorSpec(BatchableTypeSpec):
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
        """Shape and dtype of a tensor, named after its operation; one that has a value has no name."""
        own = getattr(tensor, "op", None)
        return cls(tensor.shape, tensor.dtype, name or (None if own is None else own.name))

    shape = property(lambda self: self._shape, doc="The shape.")
    dtype = property(lambda self: self._dtype, doc="The dtype.")
    name = property(lambda self: self._name, doc="The name, or None.")

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor, or all tensors of another spec, may have this shape and dtype."""
        other = spec_or_tensor
        if isinstance(other, TypeSpec) and not isinstance(other, TensorSpec):
            return False
        return bool(self._dtype.is_compatible_with(other.dtype) and self._shape.is_compatible_with(other.shape))

    def most_specific_compatible_type(self, other: Any) -> TensorSpec:
        """The narrowest spec that describes the tensors of both; ValueError if dtypes differ."""
        if not isinstance(other, TensorSpec) or other._dtype != self._dtype:
            raise ValueError(
                f"Types are not compatible: {self!r} vs {other!r}\n"
                + message(f"{self!r} and {other!r}", "two specs of tensors of one dtype", "tf.TensorSpec(None, dtype)")
            )
        return TensorSpec(self._shape.most_specific_compatible_shape(other._shape), self._dtype)

    @property
    def value_type(self) -> Any:
        """``tf.Tensor``."""
        return GraphTensor

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._name

    @property
    def _component_specs(self) -> Any:
        return self

    def _to_components(self, value: Any) -> Any:
        return value

    def _from_components(self, components: Any) -> Any:
        return components

    def _batch(self, batch_size: int | None) -> TensorSpec:
        return TensorSpec(batched(batch_size, self._shape), self._dtype)

    def _unbatch(self) -> TensorSpec:
        return TensorSpec(unbatched(self._shape), self._dtype)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return self._shape

    @property
    def is_discrete(self) -> bool:
        """Whether values are whole numbers."""
        return self._dtype.is_integer

    @property
    def is_continuous(self) -> bool:
        """Whether values are floats."""
        return self._dtype.is_floating

    def is_bounded(self) -> bool:
        """Whether there are bounds: only a :class:`BoundedTensorSpec` has some."""
        return False

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


class BoundedTensorSpec(TensorSpec):
    """Shape, dtype and name of a tensor with the least and the greatest value of its elements.

    Args:
        shape: a shape, which may be known in part.
        dtype: a dtype.
        minimum: number, or array that broadcasts to the shape.
        maximum: number, or array that broadcasts to the shape.
        name: a name, or None.

    Raises:
        ValueError: a bound does not broadcast to the shape.
    """

    __slots__ = ("_maximum", "_minimum")

    def __init__(self, shape: Any, dtype: Any, minimum: Any, maximum: Any, name: str | None = None) -> None:
        super().__init__(shape, dtype, name)
        self._minimum, self._maximum = self._bound("minimum", minimum), self._bound("maximum", maximum)

    def _bound(self, which: str, value: Any) -> np.ndarray:
        if value is None:
            raise ValueError(f"{which} is not provided.\n" + message(f"{which}=None", "a number", f"{which}=0"))
        array = np.array(value, self._dtype.as_numpy_dtype)
        try:
            broadcast(array.shape, self._shape.raw)
        except ValueError as problem:
            raise ValueError(f"{which} is not compatible with shape. Message: {problem}") from None
        array.setflags(write=False)
        return array

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedTensorSpec:
        """The same shape and dtype, with the bounds of the spec or else of the dtype."""
        dtype = dtypes.as_dtype(spec.dtype)
        least, greatest = getattr(spec, "minimum", dtype.min), getattr(spec, "maximum", dtype.max)
        return cls(spec.shape, dtype, least, greatest, name or spec.name)

    minimum = property(lambda self: self._minimum, doc="The least value, inclusive, as an array that is read-only.")
    maximum = property(lambda self: self._maximum, doc="The greatest value, inclusive, as an array that is read-only.")

    def is_bounded(self) -> bool:
        """True."""
        return True

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedTensorSpec)
            and self._key() == other._key()
            and np.allclose(self._minimum, other._minimum)
            and np.allclose(self._maximum, other._maximum)
        )

    __hash__ = TensorSpec.__hash__

    def __repr__(self) -> str:
        bounds = f"minimum={self._minimum!r}, maximum={self._maximum!r}"
        return f"BoundedTensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r}, {bounds})"

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundedTensorSpec, (self._key()[0], self._dtype, self._minimum, self._maximum, self._name)
