"""`CompositeTensor`, a value made of tensors, and which `TypeSpec` describes a value.

Policy. A composite tensor says by its type spec what it is made of; `tf.nest` opens it for who asks for that with
``expand_composites=True``. A value that is not composite has the spec of the converter that was registered last for its
class. The class of specs stands in `type_spec`, which builds on `nest`; what both need of values stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.values.shapes import TensorShape


class Expandable:
    """A value with components that `tf.nest` visits if ``expand_composites`` is true."""

    __slots__ = ()

    def _expanded(self) -> Any:
        """The components, a structure; the value itself if it is a leaf."""
        raise NotImplementedError(f"{type(self).__name__}._expanded")

    def _packed(self, components: Any) -> Any:
        """A value like this one, made of other components."""
        raise NotImplementedError(f"{type(self).__name__}._packed")


class CompositeTensor(Expandable):
    """Base of values that are made of tensors: sparse tensors, IndexedSlices, ragged tensors, classes of programs."""

    __slots__ = ()

    @property
    def _type_spec(self) -> Any:
        """The `TypeSpec` that says how this value is taken apart and made."""
        return _registered(self)

    def _expanded(self) -> Any:
        return self._type_spec._to_components(self)

    def _packed(self, components: Any) -> Any:
        return self._type_spec._from_components(components)

    def _shape_invariant_to_type_spec(self, shape: Any) -> Any:
        """The spec of a loop's variable that starts as this value and has the given shape."""
        raise NotImplementedError(f"{type(self).__name__}._shape_invariant_to_type_spec")


_Converter = Callable[[Any], Any]
_converters: list[tuple[type, _Converter, bool]] = []


def register_type_spec_from_value_converter(
    type_object: type, converter_fn: _Converter, allow_subclass: bool = False
) -> None:
    """Say which spec values of a class have; what is registered later comes first.

    Args:
        type_object: the class.
        converter_fn: the spec of a value.
        allow_subclass: whether values of its subclasses are meant, too.
    """
    _converters.append((type_object, converter_fn, allow_subclass))


def _refused(value: Any) -> TypeError:
    return TypeError(
        f"Could not build a TypeSpec for {value!r} with type {type(value).__name__}\n"
        + errors.message(
            f"a {type(value).__name__}", "a tensor, a composite tensor, or what becomes one", "tf.constant(value)"
        )
    )


def _registered(value: Any) -> Any:
    for kind, converter, subclasses in reversed(_converters):
        if type(value) is kind or (subclasses and isinstance(value, kind)):
            return converter(value)
    raise _refused(value)


def type_spec_from_value(value: Any) -> Any:
    """The `TypeSpec` of a value.

    Raises:
        TypeError: no spec describes values of its class.
    """
    if isinstance(value, CompositeTensor):
        return value._type_spec
    if isinstance(value, list) and value and isinstance(value[0], CompositeTensor):
        try:
            specs = [type_spec_from_value(item) for item in value]
            common = specs[0]
            for other in specs[1:]:
                common = common.most_specific_compatible_type(other)
        except (TypeError, ValueError):
            raise _refused(value) from None
        return common._batch(len(specs))
    return _registered(value)


def batched(size: int | None, shape: Any) -> TensorShape:
    """A shape with a further first dimension."""
    return TensorShape([size]).concatenate(shape)


def unbatched(shape: TensorShape) -> TensorShape:
    """A shape without its first dimension; ValueError of a scalar's."""
    if shape.ndims == 0:
        raise ValueError(
            "Unbatching a tensor is only supported for rank >= 1\n"
            + errors.message("the shape ()", "at least one dimension", "tf.expand_dims(value, 0)")
        )
    return shape[1:]
