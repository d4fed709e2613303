"""Order without data: groups, gates and tuples made of control edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope


def _leaves(value: Any) -> Iterator[Any]:
    """Elements of nested lists, tuples and dicts (by sorted key)."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


@public("group")
def group(*inputs: Any, **kwargs: Any) -> Any:
    """An operation that runs after all ``inputs`` (ops, tensors, variables, nested lists of them); ``name=`` names it.

    Inputs on several devices are gathered on each device first. None where ops run at once: nothing waits.
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(
            "Unknown keyword arguments: "
            + ", ".join(kwargs)
            + "\n"
            + errors.message(
                f"tf.group(..., {', '.join(kwargs)}=)", "only the argument name=", "pass what to group by position"
            )
        )
    if not current_builder().defers:
        return None  # all of it has run
    items = list(_leaves(inputs))
    by_device: dict[str, list[Any]] = {}
    for item in items:
        if not hasattr(item, "device"):
            raise TypeError(
                f"Expected tf.group() expected Tensor objects not None with type '{type(item)}'\n"
                + errors.message(
                    f"{item!r} in tf.group",
                    "operations, tensors or variables",
                    "leave it out (a train step may be None)",
                )
            )
        by_device.setdefault(item.device or "", []).append(item)
    with name_scope(name, "group_deps", items) as scope:
        if not items:
            return build("NoOp", name=scope)
        builder = current_builder()
        if len(by_device) == 1:
            ((device, members),) = by_device.items()
            return _after(members, device, scope)
        gathered = [_after(by_device[device], device, None) for device in sorted(by_device)]
        with builder.control_dependencies(gathered):
            return build("NoOp", name=scope)


def _after(members: Sequence[Any], device: str, name: str | None) -> Operation:
    builder = current_builder()
    with builder.control_dependencies(members):
        if not device:
            return build("NoOp", name=name)
        with builder.device(device):
            return build("NoOp", name=name)


@public("control_flow_ops.with_dependencies")
def with_dependencies(dependencies: Sequence[Any], output_tensor: Any, name: str | None = None) -> Any:
    """``output_tensor`` (a tensor or IndexedSlices), available only after ``dependencies`` have run."""
    if not current_builder().defers:
        return output_tensor
    with name_scope(name, "control_dependency", [*dependencies, output_tensor]) as scope:
        builder = current_builder()
        if isinstance(output_tensor, (bool, int, float, complex, str, bytes, list, tuple, np.ndarray, np.generic)):
            output_tensor = convert_to_tensor(output_tensor)  # what ops are placed with has an op
        with builder.colocate_with(output_tensor), builder.control_dependencies(dependencies):
            if isinstance(output_tensor, IndexedSlices):
                values = build("Identity", output_tensor.values, name=scope)
                return IndexedSlices(values, output_tensor.indices, output_tensor.dense_shape)
            return build("Identity", convert_to_tensor(output_tensor), name=scope)


@public("tuple")
def tuple_(tensors: Sequence[Any], name: str | None = None, control_inputs: Sequence[Any] | None = None) -> list[Any]:
    """The tensors as a list whose elements are available only when all of them (and ``control_inputs``) are.

    Args:
        tensors: tensors, IndexedSlices, operations; None stays None.
        name: name of the scope of the ops made.
        control_inputs: further operations or tensors to wait for.
    """
    if not current_builder().defers:
        return list(tensors)
    with name_scope(name, "tuple", [item for item in tensors if item is not None]):
        items = [
            item if item is None or hasattr(item, "op") or isinstance(item, Operation) else convert_to_tensor(item)
            for item in tensors
        ]
        gates = {item if isinstance(item, Operation) else item.op for item in items if item is not None}
        for control in control_inputs or ():
            if not isinstance(control, (Operation, Tensor)):
                raise TypeError(
                    f"Control input must be Operation or Tensor: {control}\n"
                    + errors.message(
                        f"control input {control!r}", "an operation or a tensor", "pass v.initializer or v.op"
                    )
                )
            gates.add(control.op if isinstance(control, Tensor) else control)
        if not gates:
            raise ValueError(
                f"Must have at least one Tensor: {tensors}\n"
                + errors.message(
                    "no tensor in tf.tuple", "at least one tensor", "skip the call when all of them are None"
                )
            )
        gate = group(*sorted(gates, key=lambda op: op._id))
        result: list[Any] = []
        for item in items:
            if isinstance(item, Operation):
                with current_builder().control_dependencies([gate]):
                    result.append(group(item))
            else:
                result.append(None if item is None else with_dependencies([gate], item))
        return result
