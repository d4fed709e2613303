"""What ``padded_batch`` takes: a shape and a filling for each component."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import TensorShape, of_rank
from anabranch.data import nest
from anabranch.data.structure import TensorComponent


def operands(
    spec: Any, padded_shapes: Any, padding_values: Any, size: int | None
) -> tuple[list[Tensor], list[Tensor], Any]:
    """Padded shapes and fillings of the components, and the structure of batches of ``size`` elements."""
    components = nest.flatten(spec)
    for component in components:
        if not isinstance(component, TensorComponent):
            raise TypeError(
                "Batching of padded sparse tensors is not currently supported\n"
                + errors.message(f"{component!r}", "tensors", "tf.sparse.to_dense(x)")
            )
    if padded_shapes is None:
        own_shapes = [component.shape for component in components]
        for component in components:
            if component.shape.ndims is None:
                raise ValueError(
                    "You must provide `padded_shapes` argument because component has unknown rank.\n"
                    + errors.message(f"{component!r}", "components of known rank", "padded_shapes=[None]")
                )
    else:
        own_shapes = nest.flatten_up_to(spec, padded_shapes)
    padded = [_padded_shape(given, component.shape) for given, component in zip(own_shapes, components, strict=True)]
    given_values = [None] * len(components) if padding_values is None else nest.flatten_up_to(spec, padding_values)
    values = [_padding_value(value, component.dtype) for value, component in zip(given_values, components, strict=True)]
    batched = [
        TensorComponent(component.dtype, TensorShape([size]).concatenate(_shape_of_vector(sizes)))
        for component, sizes in zip(components, padded, strict=True)
    ]
    return padded, values, nest.pack_sequence_as(spec, batched)


def _padded_shape(given: Any, own: TensorShape) -> Tensor:
    """A component's padded shape as a vector, -1 where it is the largest of a batch."""
    if isinstance(given, Tensor):
        if given.shape.ndims != 1 or given.dtype.base != dtypes.int64:
            raise TypeError(
                f"Padded shape {given} must be a 1-D tensor of tf.int64 values, but its shape is {given.shape} and its "
                f"element type is {given.dtype}.\n"
                + errors.message(f"{given!r}", "a vector of int64", "tf.constant([3, -1], tf.int64)")
            )
        return given
    sizes = None
    try:
        sizes = shapes.as_shape(given if not isinstance(given, list | tuple | np.ndarray) else _open(given))
        dims = sizes.as_list()
    except (TypeError, ValueError) as problem:
        raise ValueError(
            f"Padded shape {given!r} must be a 1-D tensor of tf.int64 values, or a shape.\n"
            + errors.message(f"{given!r}", "a shape of known rank", "padded_shapes=[None]")
        ) from problem
    if own.ndims is not None and own.ndims != len(dims):
        raise ValueError(
            f"The padded shape {TensorShape(dims)} is not compatible with the corresponding input component shape "
            f"{own}.\n"
            + errors.message(f"{len(dims)} sizes", f"{own.ndims}", "padded_shapes with a size for each dimension")
        )
    for size, least in zip(dims, own.as_list() if own.ndims is not None else (), strict=False):
        if size is not None and least is not None and size < least:
            raise ValueError(
                f"The padded shape {TensorShape(dims)} is not compatible with the corresponding input component shape "
                f"{own}."
                "\n" + errors.message(f"{size}", f"at least {least}", "a larger size, or None")
            )
    return constant([-1 if size is None else size for size in dims], dtypes.int64)


def _open(sizes: Any) -> list[int | None]:
    return [None if size is None or getattr(size, "value", size) in (None, -1) else int(size) for size in sizes]


def _padding_value(value: Any, dtype: dtypes.DType) -> Tensor:
    if value is None:
        if dtype is dtypes.variant or dtype is dtypes.resource:
            raise TypeError(
                "Unable to create padding for field of type "
                f"'{dtype.name}'\n" + errors.message(dtype.name, "numbers, bools or strings", "batch(n)")
            )
        value = "" if dtype is dtypes.string else np.zeros((), dtype.np)
    tensor = convert_to_tensor(value, name="padding_value")
    if tensor.dtype != dtype and not isinstance(value, Tensor):
        tensor = convert_to_tensor(value, dtype, name="padding_value") if not _narrows(value, dtype) else tensor
    if tensor.shape.ndims != 0:
        raise ValueError(
            f"Padding value should be a scalar, but is {value}\n"
            + errors.message(f"shape {tensor.shape}", "a scalar", "padding_values=0")
        )
    if tensor.dtype != dtype:
        raise TypeError(
            f"Padding value tensor ({value}) does not match output type: {dtype!r}\n"
            + errors.message(tensor.dtype.name, dtype.name, f"np.array({value!r}, {dtype.name!r})")
        )
    return tensor


def _narrows(value: Any, dtype: dtypes.DType) -> bool:
    """Whether a Python number is of another kind than a dtype."""
    return isinstance(value, np.ndarray | np.generic) or (isinstance(value, float) and not dtype.is_floating)


def _shape_of_vector(sizes: Tensor) -> TensorShape:
    known = partial_value(sizes)
    if isinstance(known, np.ndarray):
        return TensorShape([None if size < 0 else int(size) for size in known])
    return TensorShape(of_rank(sizes.shape[0].value))
