"""Tensors as ``TensorInfo`` messages and back."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graphdef import attr_values
from anabranch.core.protos import saved_model_pb2
from anabranch.core.values import dtypes
from anabranch.variables.save_slice import inside_scope
from anabranch.variables.variable import Variable


@public("saved_model.utils.build_tensor_info", "saved_model.build_tensor_info")
def build_tensor_info(tensor: Any) -> Any:
    """The ``TensorInfo`` of a tensor, a variable or a sparse tensor: its name, dtype and shape."""
    if isinstance(tensor, Variable):
        tensor = tensor._as_graph_element()
    info = saved_model_pb2.TensorInfo()
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
        shape = tensor.get_shape().as_list() if tensor.get_shape().ndims is not None else None
        raw = None if shape is None else tuple(shape)
    elif isinstance(tensor, Tensor):
        info.name = tensor.name
        raw = tensor._shape
    else:
        raise TypeError(
            errors.message(
                f"{tensor!r} of type {type(tensor).__name__}",
                "a tensor, a variable or a SparseTensor",
                "pass the tensor that the signature feeds or fetches",
            )
        )
    info.dtype = tensor.dtype.base.enum
    info.tensor_shape.CopyFrom(attr_values.shape_proto(raw))
    return info


def build_tensor_info_from_op(op: Operation) -> Any:
    """The ``TensorInfo`` that names an operation, as signatures of init and training ops have it."""
    return saved_model_pb2.TensorInfo(name=op.name)


@public("saved_model.utils.get_tensor_from_tensor_info", "saved_model.get_tensor_from_tensor_info")
def get_tensor_from_tensor_info(tensor_info: Any, graph: Graph | None = None, import_scope: str | None = None) -> Any:
    """The tensor (or sparse tensor) that a ``TensorInfo`` names.

    Args:
        tensor_info: the message.
        graph: graph to look in; the default graph if None.
        import_scope: name scope that the model was imported under.

    Raises:
        KeyError: the graph has no such tensor. ValueError: the name is malformed, or the message names nothing.
    """
    graph_of_tensor = graph or get_default_graph()

    def tensor(name: str) -> Tensor:
        return graph_of_tensor.get_tensor_by_name(inside_scope(name, import_scope))

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return tensor(tensor_info.name)
    if encoding == "coo_sparse":
        sparse = tensor_info.coo_sparse
        return SparseTensor(
            tensor(sparse.indices_tensor_name),
            tensor(sparse.values_tensor_name),
            tensor(sparse.dense_shape_tensor_name),
        )
    if encoding == "composite_tensor":
        kind = tensor_info.composite_tensor.type_spec.type_spec_class
        parts = tensor_info.composite_tensor.components
        if kind == 1 and len(parts) == 3:  # a sparse tensor: indices, values, dense shape
            return SparseTensor(*(tensor(part.name) for part in parts))
        raise NotImplementedError(
            errors.message(
                f"a TensorInfo for a composite tensor of class {kind}",
                "a tensor or a sparse tensor",
                "fetch its components by their names",
            )
        )
    raise ValueError(errors.message("a TensorInfo without a name", "a name", "build it with build_tensor_info(tensor)"))


def get_element_from_tensor_info(tensor_info: Any, graph: Graph | None = None, import_scope: str | None = None) -> Any:
    """The tensor or operation that a ``TensorInfo`` names."""
    return (graph or get_default_graph()).as_graph_element(inside_scope(tensor_info.name, import_scope))


def shown(info: Any) -> str:
    """A ``TensorInfo`` as text: ``float32[?, 3] x:0``."""
    shape = (
        "?"
        if info.tensor_shape.unknown_rank
        else ", ".join("?" if size.size < 0 else str(size.size) for size in info.tensor_shape.dim)
    )
    dtype = dtypes.as_dtype(int(info.dtype)).name if info.dtype else "operation"
    name = info.name or info.coo_sparse.values_tensor_name
    return f"{dtype}[{shape}] {name}"


__all__ = [
    "build_tensor_info",
    "build_tensor_info_from_op",
    "get_element_from_tensor_info",
    "get_tensor_from_tensor_info",
    "shown",
]
