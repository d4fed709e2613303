"""Values that stand for several tensors: sparse tensors, slices, arrays of tensors.

Policy. A class whose instances are made of tensors says so once, with :func:`register`: how an instance is taken apart
into tensors, and how one like it is made from others. Whatever passes structures through bodies (conditionals, loops,
functions) then treats it as its tensors, and gives back an instance of the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.graph import convert
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graph.tensor import TensorLike
from anabranch.core.values import nest, shapes
from anabranch.core.values.composite_tensor import register_type_spec_from_value_converter
from anabranch.core.values.tensor_spec import TensorSpec


def _spec_of_tensor(tensor: Any) -> TensorSpec:
    return TensorSpec(tensor.shape, tensor.dtype)


def _spec_of_anything(value: Any) -> TensorSpec:
    """The spec of the tensor that a value becomes; it is asked last."""
    return _spec_of_tensor(convert.convert_to_tensor(value))


register_type_spec_from_value_converter(object, _spec_of_anything, allow_subclass=True)
register_type_spec_from_value_converter(TensorLike, _spec_of_tensor, allow_subclass=True)


class _Kind(NamedTuple):
    parts: Callable[[Any], list[Any]]
    rebuild: Callable[[Any, Sequence[Any]], Any]
    shapes: Callable[[Any, Any], list[Any]] | None
    key: Callable[[Any], Any]


_kinds: dict[type, _Kind] = {}


def register(
    kind: type,
    parts: Callable[[Any], list[Any]],
    rebuild: Callable[[Any, Sequence[Any]], Any],
    shapes: Callable[[Any, Any], list[Any]] | None = None,
    key: Callable[[Any], Any] = type,
) -> None:
    """Declare a class whose instances stand for tensors.

    Args:
        kind: the class; its subclasses are meant, too.
        parts: the tensors of an instance, always as many for instances that can take each other's place.
        rebuild: an instance like the given one, with other tensors.
        shapes: the shapes of the parts (raw, or None for unknown) for an instance and the one shape that a program
            gives as the invariant of a loop's variable; without it the parts keep their own.
        key: what is equal, and can be hashed, for instances that a function traced for one of them takes.
    """
    _kinds[kind] = _Kind(parts, rebuild, shapes, key)


def _kind_of(value: Any) -> _Kind | None:
    for base in type(value).__mro__:
        kind = _kinds.get(base)
        if kind is not None:
            return kind
    return None


def is_composite(value: Any) -> bool:
    """Whether a value stands for several tensors."""
    return _kind_of(value) is not None


def key(value: Any) -> Any:
    """What a composite is to a traced function, besides the dtypes and shapes of its parts."""
    kind = _kind_of(value)
    return type(value) if kind is None else kind.key(value)


def described(value: Any) -> tuple[Any, list[Any]] | None:
    """What :func:`key` and :func:`parts` give for a composite; None for any other value."""
    kind = _kind_of(value)
    return None if kind is None else (kind.key(value), kind.parts(value))


def parts(value: Any) -> list[Any]:
    """The tensors of a value: of a composite its parts, else the value itself."""
    kind = _kind_of(value)
    return [value] if kind is None else list(kind.parts(value))


def rebuilt(value: Any, tensors: Sequence[Any]) -> Any:
    """A value like ``value`` made of other tensors."""
    kind = _kind_of(value)
    if kind is None:
        (single,) = tensors
        return single
    return kind.rebuild(value, tensors)


def rebuilt_argument(value: Any, tensors: Sequence[Any]) -> Any:
    """The same for an argument of a function that is traced: what :func:`key` knows of the value holds in the trace."""
    result = rebuilt(value, tensors)
    if isinstance(value, SparseTensor):
        result._static = _shape_in_traces(value)
    return result


def _shape_in_traces(value: SparseTensor) -> shapes.RawShape:
    """What a trace may know of a sparse tensor's shape: of one that has a value, what its element type told."""
    return value._static if value._indices.has_value else value._raw()


def invariant_shapes(value: Any, shape: Any) -> list[Any] | None:
    """Shapes of the parts of a loop's variable that a program gave ``shape`` as its invariant; None: their own."""
    kind = _kind_of(value)
    if kind is None:
        return [shape]
    return None if kind.shapes is None else kind.shapes(value, shape)


def flatten(structure: Any) -> list[Any]:
    """The tensors of a structure, those of composites in place of them; None leaves are left out."""
    return [part for leaf in nest.flatten(structure) if leaf is not None for part in parts(leaf)]


def pack(structure: Any, tensors: Sequence[Any]) -> Any:
    """A structure like ``structure`` from as many tensors as :func:`flatten` gives."""
    waiting = list(tensors)
    leaves = []
    for leaf in nest.flatten(structure):
        count = 0 if leaf is None else len(parts(leaf))
        taken, waiting = waiting[:count], waiting[count:]
        leaves.append(None if leaf is None else rebuilt(leaf, taken))
    if waiting:
        raise ValueError(
            errors.message(f"{len(waiting)} tensors too many for {structure!r}", "one per part", "flatten a like one")
        )
    return nest.pack_sequence_as(structure, leaves) if nest.is_nested(structure) else leaves[0]


def _slices_parts(value: IndexedSlices) -> list[Any]:
    parts = [value.values, value.indices]
    return parts if value.dense_shape is None else [*parts, value.dense_shape]


def _slices_shapes(value: IndexedSlices, shape: Any) -> list[Any]:
    first = None if shape is None else (shape[0],)
    part_shapes: list[Any] = [shape, first]
    return part_shapes if value.dense_shape is None else [*part_shapes, None if shape is None else (len(shape),)]


def _sparse_shapes(value: SparseTensor, shape: Any) -> list[Any]:
    if shape is not None and len(shape) != 1:
        raise ValueError(
            f"Expected a shape with 1 dimension. Obtained: {shapes.TensorShape(shape)}, of {len(shape)} dimensions.\n"
            + errors.message(
                f"the shape invariant {shapes.show(shape)} of a sparse tensor",
                "the shape of its dense_shape, [rank]",
                f"tf.TensorShape([{len(shape)}]), or tf.TensorShape([None]) for any rank",
            )
        )
    rank = None if shape is None else shape[0]
    return [(None, rank), (None,), (rank,)]


register(
    IndexedSlices, _slices_parts, lambda value, tensors: IndexedSlices(*tensors), _slices_shapes
)  # values, indices, dense_shape
register(
    SparseTensor,
    lambda value: [value.indices, value.values, value.dense_shape],
    lambda value, tensors: SparseTensor(*tensors),
    _sparse_shapes,
    lambda value: (SparseTensor, _shape_in_traces(value)),
)
