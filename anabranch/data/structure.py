"""What a dataset's elements are made of: for each leaf of their structure a *component*.

A component says how a value becomes the tensors that an element holds, how it is made of them again, and what is known
of it: dtype and static shape, the class of the value. Tensors are themselves; a sparse tensor is a variant with its
three parts; a dataset and an optional are a scalar variant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import GraphTensor, Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor, SparseTensorSpec, SparseTensorValue
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import TensorShape
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.data import nest


class Component:
    """A leaf of the structure of elements."""

    value_class: Any
    """The class of its values, as ``output_classes`` tells it."""

    @property
    def legacy_type(self) -> Any:
        """What stands in ``output_types``."""
        return self.dtype  # type: ignore[attr-defined]

    @property
    def legacy_shape(self) -> Any:
        """What stands in ``output_shapes``."""
        return self.shape  # type: ignore[attr-defined]

    @property
    def legacy_class(self) -> Any:
        """What stands in ``output_classes``."""
        return self.value_class

    @property
    def type_spec(self) -> Any:
        """What stands in ``element_spec``: the component itself where no `tf.TypeSpec` describes its values."""
        return self

    @property
    def flat_type(self) -> dtypes.DType:
        """The dtype of the tensor that an element holds."""
        return dtypes.variant

    @property
    def flat_shape(self) -> TensorShape:
        """The static shape of that tensor."""
        return TensorShape(None)

    @property
    def outer_shape(self) -> TensorShape:
        """The static shape whose first dimension is the number of rows of a value."""
        return self.flat_shape

    def to_tensor(self, value: Any) -> Tensor:
        """The tensor of a value."""
        raise NotImplementedError

    def to_rows(self, value: Any) -> Tensor:
        """The tensor whose rows are those of the rows of a value."""
        return self.to_tensor(value)

    def from_tensor(self, tensor: Tensor) -> Any:
        """The value of a tensor."""
        raise NotImplementedError

    def batched(self, size: int | None) -> Component:
        """The component of batches of ``size``."""
        raise NotImplementedError

    def row(self) -> Component:
        """The component of the rows of a value."""
        raise NotImplementedError

    @property
    def part_types(self) -> list[dtypes.DType]:
        """The dtypes of the arrays that a Python function gives for a value."""
        raise NotImplementedError(
            errors.message(f"{self!r} from a Python function", "tensors, sparse tensors", "dataset.map(...) behind it")
        )

    def parts_of(self, value: Any) -> list[Any]:
        """These arrays."""
        raise NotImplementedError

    def shape_of(self, arrays: Sequence[Any]) -> tuple[int, ...] | None:
        """The shape of the value that arrays are the parts of; None if it has none."""
        return None

    def of_parts(self, tensors: Sequence[Tensor]) -> Any:
        """The value that is made of them."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class TensorComponent(Component):
    """A tensor."""

    dtype: dtypes.DType
    shape: TensorShape
    value_class = GraphTensor

    @property
    def type_spec(self) -> TensorSpec:
        return TensorSpec(self.shape, self.dtype)

    @property
    def flat_type(self) -> dtypes.DType:
        return self.dtype

    @property
    def flat_shape(self) -> TensorShape:
        return self.shape

    def to_tensor(self, value: Any) -> Tensor:
        return convert_to_tensor(value, self.dtype)

    def from_tensor(self, tensor: Tensor) -> Any:
        tensor.set_shape(self.shape)
        return tensor

    def batched(self, size: int | None) -> Component:
        return TensorComponent(self.dtype, TensorShape([size]).concatenate(self.shape))

    def row(self) -> Component:
        return TensorComponent(self.dtype, self.shape[1:])

    @property
    def part_types(self) -> list[dtypes.DType]:
        return [self.dtype]

    def parts_of(self, value: Any) -> list[Any]:
        return [value]

    def shape_of(self, arrays: Sequence[Any]) -> tuple[int, ...] | None:
        shape: tuple[int, ...] = arrays[0].shape
        return shape

    def of_parts(self, tensors: Sequence[Tensor]) -> Any:
        (tensor,) = tensors
        return self.from_tensor(tensor)


@dataclasses.dataclass(frozen=True)
class SparseComponent(Component):
    """A sparse tensor."""

    dtype: dtypes.DType
    shape: TensorShape
    value_class = SparseTensor

    @property
    def type_spec(self) -> SparseTensorSpec:
        return SparseTensorSpec(self.shape, self.dtype)

    @property
    def outer_shape(self) -> TensorShape:
        return self.shape

    def to_tensor(self, value: Any) -> Tensor:
        value = SparseTensor.from_value(value)
        parts = value.indices, value.values, value.dense_shape
        return build("SerializeSparse", *parts, out_type="variant")

    def to_rows(self, value: Any) -> Tensor:
        value = SparseTensor.from_value(value)
        parts = value.indices, value.values, value.dense_shape
        return build("SerializeManySparse", *parts, out_type="variant")

    def from_tensor(self, tensor: Tensor) -> Any:
        parts = build("DeserializeSparse", tensor, dtype=self.dtype)
        indices, values, sizes = parts
        if self.shape.ndims is not None:
            indices.set_shape([None, self.shape.ndims])
            sizes.set_shape([self.shape.ndims])
        value = SparseTensor(indices, values, sizes)
        value._static = self.shape.raw
        return value

    def batched(self, size: int | None) -> Component:
        return SparseComponent(self.dtype, TensorShape([size]).concatenate(self.shape))

    def row(self) -> Component:
        return SparseComponent(self.dtype, self.shape[1:])

    @property
    def part_types(self) -> list[dtypes.DType]:
        return [dtypes.int64, self.dtype, dtypes.int64]

    def parts_of(self, value: Any) -> list[Any]:
        if not isinstance(value, SparseTensor | SparseTensorValue):
            raise TypeError(f"a {type(value).__name__} is not a sparse tensor")
        return [value.indices, value.values, value.dense_shape]

    def shape_of(self, arrays: Sequence[Any]) -> tuple[int, ...] | None:
        return tuple(arrays[2].tolist())

    def of_parts(self, tensors: Sequence[Tensor]) -> Any:
        value = SparseTensor(*tensors)
        value._static = self.shape.raw
        return value


@dataclasses.dataclass(frozen=True)
class DatasetComponent(Component):
    """A dataset of elements of the structure ``spec``."""

    spec: Any
    make: Any = dataclasses.field(compare=False, repr=False)
    """Makes a dataset of a variant tensor and a structure."""
    dataset_shape: TensorShape = dataclasses.field(default_factory=lambda: TensorShape([]))
    """The shape of the tensor of datasets: a batch of elements that are datasets is a vector of them."""

    @property
    def legacy_type(self) -> Any:
        return self

    legacy_shape = legacy_class = legacy_type

    @property
    def flat_shape(self) -> TensorShape:
        return self.dataset_shape

    def to_tensor(self, value: Any) -> Tensor:
        tensor: Tensor = value._variant_tensor
        return tensor

    def from_tensor(self, tensor: Tensor) -> Any:
        return self.make(tensor, self.spec)

    def batched(self, size: int | None) -> Component:
        return dataclasses.replace(self, dataset_shape=TensorShape([size]).concatenate(self.dataset_shape))

    def row(self) -> Component:
        return dataclasses.replace(self, dataset_shape=self.dataset_shape[1:])


@dataclasses.dataclass(frozen=True)
class NoneComponent(Component):
    """The place of a value that is None: an element holds ``False`` there."""

    value_class = type(None)

    @property
    def legacy_type(self) -> Any:
        return self

    legacy_shape = legacy_class = legacy_type

    @property
    def flat_type(self) -> dtypes.DType:
        return dtypes.bool

    def to_tensor(self, value: Any) -> Tensor:
        return convert_to_tensor(False)

    def to_rows(self, value: Any) -> Tensor:
        raise ValueError(
            errors.message("None in from_tensor_slices", "arrays with rows", "Dataset.from_tensors(None).repeat()")
        )

    def from_tensor(self, tensor: Tensor) -> None:
        return None

    def batched(self, size: int | None) -> Component:
        return self

    def row(self) -> Component:
        return self

    @property
    def part_types(self) -> list[dtypes.DType]:
        return []

    def parts_of(self, value: Any) -> list[Any]:
        if value is not None:
            raise TypeError(f"{value!r} is not None")
        return []

    def of_parts(self, tensors: Sequence[Tensor]) -> Any:
        return None


_converters: list[Any] = []
"""Functions that give the component of a value, or None."""


def add_component(component_of: Any) -> None:
    """Say which component values of further classes have: ``component_of(value)`` gives it, or None."""
    _converters.append(component_of)


def leaf(value: Any, name: str | None = None) -> Any:
    """A leaf of what a program gives, as a tensor or a value of another component's class."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if value is None or isinstance(value, SparseTensor) or any(find(value) is not None for find in _converters):
        return value
    return convert_to_tensor(value, name=name)


def component_of(value: Any) -> Component:
    """The component of a leaf that :func:`leaf` gave."""
    for find in _converters:
        component: Component | None = find(value)
        if component is not None:
            return component
    if value is None:
        return NoneComponent()
    if isinstance(value, SparseTensor):
        return SparseComponent(value.dtype, value.shape)
    return TensorComponent(value.dtype.base, value.shape)


def spec_of(element: Any) -> Any:
    """The structure of components of an element whose leaves :func:`leaf` gave."""
    return nest.map_structure(component_of, element)


def type_specs(spec: Any) -> Any:
    """What programs see of a structure of components; :func:`of_signature` takes it back."""
    return nest.map_structure(lambda component: component.type_spec, spec)


def of_signature(signature: Any) -> Any:
    """The structure of components of values that a structure of `tf.TypeSpec` describes."""
    return nest.map_structure(_of_type_spec, signature)


def _of_type_spec(spec: Any) -> Component:
    if isinstance(spec, TensorSpec):
        return TensorComponent(spec.dtype, spec.shape)
    if isinstance(spec, SparseTensorSpec):
        return SparseComponent(spec.dtype, spec.shape)
    if isinstance(spec, Component):
        return spec
    raise TypeError(
        "`output_signature` must contain objects that are subclass of `tf.TypeSpec` but found "
        f"{type(spec)} which is not.\n"
        + errors.message(f"{spec!r}", "a tf.TensorSpec or tf.SparseTensorSpec", "tf.TensorSpec([None], tf.float32)")
    )


def key_of(spec: Any) -> Any:
    """A structure of components as something that can be hashed."""
    if isinstance(spec, dict):
        return (dict, *[(name, key_of(spec[name])) for name in sorted(spec)])
    if isinstance(spec, tuple):
        return (type(spec), *[key_of(part) for part in spec])
    return spec


def flat_types(spec: Any) -> list[dtypes.DType]:
    """The dtypes of the tensors that an element holds."""
    return [component.flat_type for component in nest.flatten(spec)]


def flat_shapes(spec: Any) -> list[TensorShape]:
    """The static shapes of the tensors that an element holds."""
    return [component.flat_shape for component in nest.flatten(spec)]


def attrs_of(spec: Any) -> dict[str, Any]:
    """The attributes ``output_types`` and ``output_shapes`` of an op that gives such elements."""
    return {
        "output_types": tuple(flat_types(spec)),
        "output_shapes": tuple([shape.raw for shape in flat_shapes(spec)]),
    }


def to_tensors(spec: Any, element: Any) -> list[Tensor]:
    """The tensors of an element."""
    return [
        component.to_tensor(value) for component, value in zip(nest.flatten(spec), nest.flatten(element), strict=True)
    ]


def from_tensors(spec: Any, tensors: Sequence[Tensor]) -> Any:
    """The element that is made of tensors."""
    components = nest.flatten(spec)
    return nest.pack_sequence_as(
        spec, [component.from_tensor(tensor) for component, tensor in zip(components, tensors, strict=True)]
    )


def from_legacy(types: Any, element_shapes: Any, classes: Any) -> Any:
    """The structure of components that dtypes, shapes and classes tell; None stands for unknown shapes and tensors."""
    types = nest.map_structure(lambda item: item if isinstance(item, Component) else dtypes.as_dtype(item), types)
    count = len(nest.flatten(types))
    if element_shapes is None:
        flat: list[Any] = [TensorShape(None)] * count
    else:
        flat = [
            item if isinstance(item, Component) else shapes.as_shape(item)
            for item in nest.flatten_up_to(types, element_shapes)
        ]
    kinds = [GraphTensor] * count if classes is None else nest.flatten(classes)
    components = []
    for dtype, shape, kind in zip(nest.flatten(types), flat, kinds, strict=True):
        if isinstance(dtype, Component):
            components.append(dtype)
        elif kind is SparseTensor:
            components.append(SparseComponent(dtype, shape))
        elif isinstance(kind, type) and issubclass(kind, Tensor):
            components.append(TensorComponent(dtype, shape))
        else:
            raise TypeError(
                f"Could not build a structure for output class {getattr(kind, '__name__', kind)}\n"
                + errors.message(f"the class {kind!r}", "tf.Tensor or tf.SparseTensor", "output_classes=tf.Tensor")
            )
    return nest.pack_sequence_as(types, components)


def common_spec(spec: Any, returned: Any) -> Any:
    """The structure of a state and of what a function returns for it; TypeError if there is none."""
    nest.assert_same_structure(spec, returned)
    components: list[Component] = []
    for mine, other in zip(nest.flatten(spec), nest.flatten(returned), strict=True):
        if type(mine) is not type(other):
            raise TypeError(
                "The element classes for the new state must match the initial state. Expected "
                f"{mine!r}; got {other!r}.\n"
                + errors.message(f"{other!r}", f"{mine!r}", "return what the state was, a tensor or a sparse tensor")
            )
        if mine.legacy_type != other.legacy_type:
            raise TypeError(
                f"The element types for the new state must match the initial state. Expected {mine!r}; got {other!r}.\n"
                + errors.message(f"{other!r}", f"{mine!r}", "tf.cast(x, ...) what the function returns")
            )
        shape = mine.shape.most_specific_compatible_shape(other.shape)
        components.append(type(mine)(mine.dtype, shape))
    return nest.pack_sequence_as(spec, components)


def is_compatible(spec: Any, other: Any) -> bool:
    """Whether two structures are of one form, with equal dtypes and shapes that go together."""
    try:
        nest.assert_same_structure(spec, other)
    except (TypeError, ValueError):
        return False
    return all(
        type(mine) is type(its)
        and mine.flat_type == its.flat_type
        and (isinstance(mine, DatasetComponent) or mine.legacy_type == its.legacy_type)
        and (not isinstance(mine, TensorComponent | SparseComponent) or mine.shape.is_compatible_with(its.shape))
        for mine, its in zip(nest.flatten(spec), nest.flatten(other), strict=True)
    )


class OfElements:
    """What has a structure of elements: a dataset, an iterator."""

    _spec: Any
    """The structure of its elements: a component for each leaf."""

    @property
    def element_spec(self) -> Any:
        """The structure of its elements: a `tf.TensorSpec` for each tensor, a `tf.SparseTensorSpec` for a sparse one.

        Example:
            >>> import anabranch as tf
            >>> tf.data.Dataset.range(6).batch(2).element_spec
            TensorSpec(shape=(None,), dtype=tf.int64, name=None)
        """
        return type_specs(self._spec)

    @property
    def output_types(self) -> Any:
        """The dtype of each component."""
        return nest.map_structure(lambda component: component.legacy_type, self._spec)

    @property
    def output_shapes(self) -> Any:
        """The static shape of each component."""
        return nest.map_structure(lambda component: component.legacy_shape, self._spec)

    @property
    def output_classes(self) -> Any:
        """The class of each component: tf.Tensor, tf.SparseTensor."""
        return nest.map_structure(lambda component: component.legacy_class, self._spec)


@public("data.get_output_types")
def get_output_types(dataset_or_iterator: Any) -> Any:
    """The dtype of each component of the elements of a dataset or iterator."""
    return dataset_or_iterator.output_types


@public("data.get_output_shapes")
def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The static shape of each component of the elements of a dataset or iterator."""
    return dataset_or_iterator.output_shapes


@public("data.get_output_classes")
def get_output_classes(dataset_or_iterator: Any) -> Any:
    """The class of each component of the elements of a dataset or iterator."""
    return dataset_or_iterator.output_classes


def normalized(tensors: Any) -> tuple[Any, Any]:
    """What a program gives as an element, its leaves converted, and its structure."""
    leaves = [leaf(value, f"component_{i}") for i, value in enumerate(nest.flatten(tensors))]
    element = nest.pack_sequence_as(tensors, leaves)
    return element, spec_of(element)
