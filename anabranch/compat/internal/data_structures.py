"""Names of modules below ``tensorflow.python.data``: structures, operands, seeds, sparse tensors, datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import GraphTensor, Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes, shapes
from anabranch.data import iterators, nest, operands, structure
from anabranch.data.dataset import Dataset

GET_NEXT_CALL_WARNING_THRESHOLD = iterators.MANY_CALLS
GET_NEXT_CALL_WARNING_MESSAGE = iterators.WARNING_OF_MANY_CALLS
DatasetV1 = DatasetV2 = Dataset
is_sequence = nest.is_nested
flatten = nest.flatten
pack_sequence_as = nest.pack_sequence_as
map_structure = nest.map_structure
flatten_up_to = nest.flatten_up_to
assert_same_structure = nest.assert_same_structure
assert_shallow_structure = nest.assert_shallow_structure


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any) -> Any:
    """A structure like the shallow one, of what ``func`` gives for the parts of all at its leaves."""
    parts = [nest.flatten_up_to(shallow_tree, item) for item in inputs]
    return nest.pack_sequence_as(shallow_tree, [func(*leaves) for leaves in zip(*parts, strict=True)])


def get_seed(seed: Any) -> tuple[Any, Any]:
    """The two seeds of a stage, int64 tensors: of the graph's and an operation's."""
    return operands.seeds(seed)


def optional_param_to_tensor(
    argument_name: str, argument_value: Any, argument_default: Any = 0, argument_dtype: Any = dtypes.int64
) -> Tensor:
    """An argument as a tensor, or its default if it is None."""
    value = argument_default if argument_value is None else argument_value
    tensor: Tensor = convert_to_tensor(value, argument_dtype, name=argument_name)
    return tensor


def partial_shape_to_tensor(shape_like: Any) -> Tensor:
    """A shape that is partly known as an int64 vector, -1 for what is not."""
    if isinstance(shape_like, Tensor):
        return shape_like
    sizes = shapes.as_shape(shape_like).as_list()
    tensor: Tensor = convert_to_tensor(np.array([-1 if size is None else size for size in sizes], np.int64))
    return tensor


# -------------------------------------------------------------------------------------------------------------- sparse
def any_sparse(classes: Any) -> bool:
    """Whether one of the classes is that of sparse tensors."""
    return any(item is SparseTensor for item in nest.flatten(classes))


def get_classes(tensors: Any) -> Any:
    """The class of each leaf: that of sparse tensors, or of tensors."""
    return nest.map_structure(lambda leaf: SparseTensor if isinstance(leaf, SparseTensor) else GraphTensor, tensors)


def as_dense_shapes(element_shapes: Any, classes: Any) -> Any:
    """The shapes of the tensors that hold elements: unknown for sparse tensors."""
    pairs = zip(nest.flatten(element_shapes), nest.flatten(classes), strict=True)
    return nest.pack_sequence_as(
        element_shapes, [shapes.as_shape(None) if kind is SparseTensor else shape for shape, kind in pairs]
    )


def as_dense_types(types: Any, classes: Any) -> Any:
    """The dtypes of the tensors that hold elements: variants for sparse tensors."""
    pairs = zip(nest.flatten(types), nest.flatten(classes), strict=True)
    return nest.pack_sequence_as(types, [dtypes.variant if kind is SparseTensor else item for item, kind in pairs])


def serialize_sparse_tensors(tensors: Any) -> Any:
    """The same structure with a variant for each sparse tensor."""
    return nest.map_structure(lambda leaf: structure.component_of(leaf).to_tensor(leaf), _leaves(tensors))


def serialize_many_sparse_tensors(tensors: Any) -> Any:
    """The same structure with the rows of each sparse tensor as variants."""
    return nest.map_structure(lambda leaf: structure.component_of(leaf).to_rows(leaf), _leaves(tensors))


def _leaves(tensors: Any) -> Any:
    return nest.map_structure(structure.leaf, tensors)


def deserialize_sparse_tensors(tensors: Any, types: Any, element_shapes: Any, classes: Any) -> Any:
    """The same structure with sparse tensors in place of their variants."""
    spec = structure.from_legacy(types, element_shapes, classes)
    return structure.from_tensors(spec, nest.flatten(tensors))
