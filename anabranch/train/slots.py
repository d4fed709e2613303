"""Slots: variables that an optimizer keeps beside another variable, named after it (``w/Adam``)."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.variables.initializers import Zeros
from anabranch.variables.resource_variable import ResourceVariable
from anabranch.variables.scope import get_variable, variable_scope
from anabranch.variables.variable import Variable


def _create(primary: Any, value: Any, shape: Any, dtype: Any) -> Any:
    by_function = callable(value)
    slot = get_variable(
        "",
        shape=shape if by_function else None,
        dtype=dtype if by_function else None,
        initializer=value,
        trainable=False,
        use_resource=isinstance(primary, ResourceVariable),
        validate_shape=shape.is_fully_defined(),
    )
    slice_info = getattr(primary, "_save_slice_info", None)
    if slice_info is not None and slot.get_shape().as_list() == primary.get_shape().as_list():
        # A slot of a partition is a partition of the slot: it is saved under the full slot's name.
        suffix = name_of(slot)[len(name_of(primary)) + 1 :]
        slot._set_save_slice_info(
            type(slice_info)(
                f"{slice_info.full_name}/{suffix}", slice_info.full_shape, slice_info.var_offset, slice_info.var_shape
            )
        )
    return slot


def name_of(primary: Any) -> str:
    """Name of a variable, or of the operation that makes a tensor, without ':0'."""
    return primary._shared_name if isinstance(primary, Variable) else primary.op.name


def start_of(primary: Any) -> Any:
    """The value that a variable starts with, or the tensor itself: for slots whose shape is known at run time only."""
    return primary.initialized_value() if isinstance(primary, Variable) else convert.convert_to_tensor(primary)


def create_slot(primary: Any, value: Any, name: str, colocate_with_primary: bool = True) -> Any:
    """A variable with initial value ``value`` (a tensor), named ``<primary>/<name>``."""
    with variable_scope(None, f"{name_of(primary)}/{name}"):
        if colocate_with_primary:
            with current_builder().colocate_with(primary):
                return _create(primary, value, value.get_shape(), value.dtype)
        return _create(primary, value, value.get_shape(), value.dtype)


def create_slot_with_initializer(
    primary: Any, initializer: Any, shape: Any, dtype: Any, name: str, colocate_with_primary: bool = True
) -> Any:
    """A variable of ``shape`` and ``dtype`` made by ``initializer``, named ``<primary>/<name>``."""
    with variable_scope(None, f"{name_of(primary)}/{name}"):
        if colocate_with_primary:
            with current_builder().colocate_with(primary):
                return _create(primary, initializer, shape, dtype)
        return _create(primary, initializer, shape, dtype)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Any:
    """A variable of zeros with ``primary``'s shape, named ``<primary>/<name>``."""
    dtype = (dtype or primary.dtype).base_dtype
    shape = primary.get_shape()
    if shape.is_fully_defined():
        return create_slot_with_initializer(primary, Zeros(dtype), shape, dtype, name, colocate_with_primary)
    zeros = build("Fill", build("Shape", start_of(primary)), convert.constant(0, dtype))
    return create_slot(primary, zeros, name, colocate_with_primary)
