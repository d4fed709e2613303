"""`tf.TypeSpec`: what is known of a value before it is there, and how it is taken apart into tensors.

Policy. A spec is its serialization, a tuple of shapes, dtypes, specs and plain values: equality, hash, pickling, text
and compatibility follow from it, part by part. `TensorSpec` is the spec of one tensor and its own component.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values import dtypes, nest
from anabranch.core.values.composite_tensor import Expandable, type_spec_from_value
from anabranch.core.values.shapes import TensorShape


@public("TypeSpec", "data.experimental.Structure")
class TypeSpec(Expandable):
    """Base of descriptions of values that tensors make up: `TensorSpec`, `SparseTensorSpec`, `RaggedTensorSpec`."""

    __slots__ = ()

    @property
    def value_type(self) -> Any:
        """The class of the values that a spec describes."""
        raise NotImplementedError(f"{type(self).__name__}.value_type")

    @property
    def _trace_key(self) -> Any:
        """What a trace for it has in common with one for a value, besides dtypes and shapes of the parts."""
        return self.value_type

    def _to_components(self, value: Any) -> Any:
        """A structure of the tensors, or composite tensors, that a value is made of."""
        raise NotImplementedError(f"{type(self).__name__}._to_components()")

    def _from_components(self, components: Any) -> Any:
        """The value that is made of such a structure."""
        raise NotImplementedError(f"{type(self).__name__}._from_components()")

    @property
    def _component_specs(self) -> Any:
        """The structure of the components' specs."""
        raise NotImplementedError(f"{type(self).__name__}._component_specs()")

    def _serialize(self) -> tuple[Any, ...]:
        """What the spec consists of: arguments of `_deserialize`, which are those of the class unless it says more."""
        raise NotImplementedError(f"{type(self).__name__}._serialize()")

    @classmethod
    def _deserialize(cls, serialization: tuple[Any, ...]) -> Any:
        return cls(*serialization)

    def _expanded(self) -> Any:
        return self._component_specs

    def _packed(self, components: Any) -> Any:
        return self._from_components(components)

    # ---------------------------------------------------------------------------------------------- lists of tensors
    def _part_specs(self) -> list[Any]:
        """The specs of the tensors that a value is made of."""
        return nest.flatten(self._component_specs, expand_composites=True)

    def _of_parts(self, tensors: Sequence[Any]) -> Any:
        """The value that is made of tensors."""
        return self._from_components(
            nest.pack_sequence_as(self._component_specs, list(tensors), expand_composites=True)
        )

    @property
    def _flat_tensor_specs(self) -> list[Any]:
        """The specs of `_to_tensor_list`."""
        return self._part_specs()

    def _to_tensor_list(self, value: Any) -> list[Any]:
        """The tensors that a value is made of, in one list."""
        return nest.flatten(self._to_components(value), expand_composites=True)

    def _from_tensor_list(self, tensor_list: list[Any]) -> Any:
        """The value that is made of a list of tensors; ValueError if they do not fit."""
        wanted = self._flat_tensor_specs
        given = [type_spec_from_value(tensor) for tensor in tensor_list]
        if len(given) != len(wanted) or not all(map(_compatible, given, wanted)):
            raise ValueError(
                "Incompatible input: wrong number of tensors or incompatible ones\n"
                + errors.message(f"{given}", f"{wanted}", "the tensors of spec._to_tensor_list(value)")
            )
        return self._from_compatible_tensor_list(tensor_list)

    def _from_compatible_tensor_list(self, tensor_list: list[Any]) -> Any:
        return self._of_parts(tensor_list)

    def _to_legacy_output_types(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._to_legacy_output_types()")

    def _to_legacy_output_shapes(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._to_legacy_output_shapes()")

    def _to_legacy_output_classes(self) -> Any:
        return self.value_type

    # ------------------------------------------------------------------------------------------------- comparisons
    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or all values of another spec, may be ones that this spec describes."""
        other = spec_or_value if isinstance(spec_or_value, TypeSpec) else type_spec_from_value(spec_or_value)
        return type(self) is type(other) and _compatible(self._serialize(), other._serialize())

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The narrowest spec that describes the values of both.

        Raises:
            ValueError: there is none.
        """
        if type(self) is not type(other):
            raise _no_common(self, other)
        return self._deserialize(_common(self._serialize(), other._serialize()))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _key(self._serialize()) == _key(other._serialize())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), _key(self._serialize())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._serialize()

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._serialize()!r}"


class BatchableTypeSpec(TypeSpec):
    """Base of specs whose values can be stacked: the lists of tensors of a batch are those of its values, stacked."""

    __slots__ = ()

    def _batch(self, batch_size: int | None) -> Any:
        """The spec of ``batch_size`` values, stacked; of any number of them if None."""
        raise NotImplementedError(f"{type(self).__name__}._batch")

    def _unbatch(self) -> Any:
        """The spec of one value of a batch that this spec describes."""
        raise NotImplementedError(f"{type(self).__name__}._unbatch")

    def _to_batched_tensor_list(self, value: Any) -> list[Any]:
        """The tensors of a batch, in one list; ValueError if one is a scalar."""
        tensors = self._to_tensor_list(value)
        if any(tensor.shape.ndims == 0 for tensor in tensors):
            raise ValueError(
                f"Value {value} has insufficient rank for batching.\n"
                + errors.message("a value with a scalar component", "components of rank 1 or more", "tf.expand_dims")
            )
        return tensors


def _no_common(first: Any, second: Any) -> ValueError:
    return ValueError(
        f"No TypeSpec is compatible with both {first} and {second}: types are not compatible\n"
        + errors.message(f"{first!r} and {second!r}", "two specs of one class, of equal dtypes", "specs of one kind")
    )


def _compatible(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(_compatible, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_compatible(first[key], second[key]) for key in first)
    if isinstance(first, (TypeSpec, TensorShape, dtypes.DType)):
        return bool(first.is_compatible_with(second))
    return bool(first == second)


def _common(first: Any, second: Any) -> Any:
    """The narrowest serialization that two are compatible with; ValueError if there is none."""
    if type(first) is not type(second):
        raise _no_common(first, second)
    if isinstance(first, tuple) and len(first) == len(second):
        return tuple(map(_common, first, second))
    if isinstance(first, dict) and first.keys() == second.keys():
        return {key: _common(first[key], second[key]) for key in sorted(first)}
    if isinstance(first, TensorShape):
        return first.most_specific_compatible_shape(second)
    if isinstance(first, TypeSpec):
        return first.most_specific_compatible_type(second)
    if first != second:
        raise _no_common(first, second)
    return first


def _key(value: Any) -> Any:
    """A serialization as something that can be hashed."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((_key(key), _key(value[key])) for key in sorted(value))
    if isinstance(value, TensorShape):
        return TensorShape, None if value.ndims is None else tuple(value.as_list())
    if isinstance(value, np.ndarray):
        return np.ndarray, value.shape, tuple(value.ravel().tolist())
    return value
