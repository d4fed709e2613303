"""``tf.data.experimental.Optional``: a value that may be there, as a tensor; an iterator's next element as one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import composites
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes
from anabranch.core.values.optional_values import HostOptional
from anabranch.core.values.shapes import TensorShape
from anabranch.data import nest, structure
from anabranch.data.iterators import Iterator
from anabranch.data.structure import Component

_UNKNOWN = object()


class _Layout:
    """What follows from the structure of an optional's value, shared by the optionals that a function gives."""

    spec: Any = _UNKNOWN
    attrs: dict[str, Any]
    components: list[Component]

    def see(self, spec: Any) -> None:
        """Take note of a structure."""
        self.attrs, self.components = structure.attrs_of(spec), nest.flatten(spec)
        self.spec = spec

    def pack(self, values: list[Any]) -> Any:
        """The structure with values in place of its components."""
        spec = self.spec
        if type(spec) is dict and not any(map(nest.is_nested, spec.values())):
            in_order = dict(zip(sorted(spec), values, strict=True))
            return {name: in_order[name] for name in spec}
        return nest.pack_sequence_as(spec, values)


@public("data.experimental.Optional", "contrib.data.Optional")
class Optional:
    """A structure of tensors that may be there.

    Made by ``from_value``, ``none_from_structure`` and ``get_next_as_optional``; elements of datasets may hold it.

    Example:
        >>> import anabranch as tf
        >>> optional = tf.data.experimental.Optional.from_value(tf.constant(3))
        >>> with tf.Session() as session:
        ...     session.run((optional.has_value(), optional.get_value()))
        (np.True_, np.int32(3))
    """

    def __init__(self, variant_tensor: Tensor, value_structure: Any, layout: _Layout | None = None) -> None:
        self._variant_tensor = variant_tensor
        self._spec = value_structure
        self._layout = layout or _Layout()

    @staticmethod
    def from_value(value: Any) -> Optional:
        """The optional that holds a structure of tensors."""
        with name_scope("optional") as scope:
            with name_scope("value"):
                element, spec = structure.normalized(value)
                parts = structure.to_tensors(spec, element)
            return Optional(build("OptionalFromValue", parts, name=scope), spec)

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """The optional that holds nothing; ``value_structure`` is that of what another could hold."""
        known = None if value_structure is None else structure.of_signature(value_structure)
        return Optional(build("OptionalNone"), known)

    def has_value(self, name: str | None = None) -> Tensor:
        """Whether there is a value, a bool scalar."""
        builder = current_builder()
        held = self._held(builder)
        if held is not None:
            there: Tensor = builder.constant(np.array(held.values is not None), dtypes.bool, None)
            return there
        tensor: Tensor = build("OptionalHasValue", self._variant_tensor, name=name)
        return tensor

    def get_value(self, name: str | None = None) -> Any:
        """The value; a step raises InvalidArgumentError if there is none."""
        layout = self._layout
        if layout.spec is not self._spec:
            layout.see(self._spec)
        builder = current_builder()
        held = self._held(builder)
        if held is not None and held.values and all([type(value) is np.ndarray for value in held.values]):
            pairs = zip(held.values, layout.attrs["output_types"], strict=True)
            tensors = [builder.constant(value, dtype, None) for value, dtype in pairs]
        elif not builder.defers:
            tensors = build("OptionalGetValue", self._variant_tensor, **layout.attrs)
        else:
            with name_scope(name, "OptionalGetValue") as scope:
                tensors = build("OptionalGetValue", self._variant_tensor, name=scope, **layout.attrs)
        return layout.pack(
            [
                component.from_tensor(tensor)
                for component, tensor in zip(
                    layout.components, tensors if isinstance(tensors, list) else [tensors], strict=True
                )
            ]
        )

    def _held(self, builder: Any) -> HostOptional | None:
        """What it is, where it exists and nobody is told of the ops that look at it."""
        if not self._variant_tensor.has_value or builder.tells:
            return None
        held = self._variant_tensor._value  # type: ignore[attr-defined]
        return held if type(held) is HostOptional else None

    @property
    def value_structure(self) -> Any:
        """The structure of the value: a `tf.TensorSpec` for each tensor."""
        return None if self._spec is None else structure.type_specs(self._spec)

    element_spec = value_structure

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """The optional that holds nothing, of a structure of which nothing is known if ``element_spec`` is None."""
        return Optional.none_from_structure(element_spec)


@public("data.experimental.OptionalStructure", "OptionalSpec")
@dataclasses.dataclass(frozen=True)
class OptionalComponent(Component):
    """An optional that holds a structure of components."""

    value_structure: Any
    value_class = Optional

    def __post_init__(self) -> None:
        if self.value_structure is not None:
            object.__setattr__(self, "value_structure", structure.of_signature(self.value_structure))

    @property
    def legacy_type(self) -> Any:
        return self

    legacy_shape = legacy_class = legacy_type

    @property
    def flat_shape(self) -> TensorShape:
        return TensorShape([])

    @staticmethod
    def from_value(value: Optional) -> OptionalComponent:
        """The component of an optional."""
        return OptionalComponent(value._spec)

    def to_tensor(self, value: Any) -> Tensor:
        tensor: Tensor = value._variant_tensor
        return tensor

    def from_tensor(self, tensor: Tensor) -> Optional:
        return Optional(tensor, self.value_structure)

    @property
    def part_types(self) -> list[Any]:
        return []

    def parts_of(self, value: Any) -> list[Any]:
        if not isinstance(value, Optional) or value._spec is not None:
            raise TypeError("a Python function gives optionals that hold nothing")
        return []

    def of_parts(self, tensors: Any) -> Optional:
        return Optional.none_from_structure(self.value_structure)

    def batched(self, size: int | None) -> Component:
        raise NotImplementedError(
            errors.message("a batch of optionals", "a batch of tensors", "dataset.map(lambda x: x.get_value())")
        )


composites.register(
    Optional,
    lambda optional: [optional._variant_tensor],
    lambda optional, tensors: Optional(tensors[0], optional._spec, optional._layout),
    key=lambda optional: (Optional, structure.key_of(optional._spec)),
)


def _component_of(value: Any) -> Component | None:
    return OptionalComponent.from_value(value) if isinstance(value, Optional) else None


structure.add_component(_component_of)


@public("data.experimental.get_next_as_optional", "contrib.data.get_next_as_optional")
def get_next_as_optional(iterator: Iterator) -> Optional:
    """An iterator's next element as an optional, which has no value at the end."""
    if not isinstance(iterator, Iterator):
        raise TypeError(errors.message(type(iterator).__name__, "an iterator", "dataset.make_one_shot_iterator()"))
    attrs = structure.attrs_of(iterator._spec)
    variant = build("IteratorGetNextAsOptional", iterator._iterator_resource, **attrs)
    return Optional(variant, nest.map_structure(lambda component: component, iterator._spec))


Iterator.get_next_as_optional = get_next_as_optional  # type: ignore[attr-defined]
