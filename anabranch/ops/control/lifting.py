"""Initial values that functions compute, where variables are made: outside the functions.

A variable that a function makes in a graph belongs to the graph, as its initializer runs before the function does. So
what its initial value needs is copied out of the function; what is known without running anything becomes a constant.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.inference import partial_value
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation


def lifted(value: Any, name: str) -> Any:
    """An initial value as a tensor outside functions.

    Args:
        value: the tensor.
        name: that of the variable.

    Raises:
        ValueError: a branch or loop computes the value, or it depends on an argument of a function.
    """
    maker = value._maker
    if maker is None or maker.body.is_root:
        return value
    ops: dict[Operation, Operation] = {}
    waiting = [maker]
    found: set[Operation] = set()
    values: dict[Any, Any] = {}
    while waiting:
        op = waiting.pop()
        if op in found or op.body.is_root:
            continue
        found.add(op)
        if op.body.of_control_flow:
            raise ValueError(
                f"Initializer for variable {name} is from inside a control-flow construct, such as a loop or "
                "conditional. When creating a variable inside a loop or conditional, use a lambda as the initializer.\n"
                + errors.message(
                    f"initial value {value._label} of a nested body", "one that can be computed outside", "a lambda"
                )
            )
        waiting += [control for control in op._control_inputs if control.role is not Role.ARGUMENT]
        for tensor in op._inputs:
            known = partial_value(tensor)
            outer = tensor if known is not None else _outside(tensor)
            if known is not None and not isinstance(known, tuple):
                values[tensor] = known
            elif outer is None:
                raise ValueError(
                    f"Unable to lift tensor {value._label} out of the function.\n"
                    + errors.message(
                        f"a variable {name!r} that begins with {value._label}, which depends on {tensor._label}, an "
                        "argument of the function",
                        "an initial value that does not depend on what the function is called with",
                        "make the variable before, or with an initializer that takes a shape",
                    )
                )
            else:
                waiting.append(outer.op)
    root: Body = maker.graph.root

    def at_root(tensor: Any) -> Any:
        if tensor in values:
            return convert_to_tensor(values[tensor], tensor.dtype.base)
        outer = _outside(tensor)
        assert outer is not None
        return ops[outer.op]._outputs[outer.value_index] if outer.op in ops else outer

    for op in sorted(found, key=lambda one: one._id):
        copy = ops[op] = body_ops.copy_op(op, [at_root(tensor) for tensor in op._inputs], root)
        controls = [ops.get(control, control) for control in op._control_inputs if control.role is not Role.ARGUMENT]
        root.graph._add_control_inputs(copy, controls)
    return ops[maker]._outputs[value.value_index]


def _outside(tensor: Any) -> Any:
    """What an argument that stands for a tensor of a body around stands for; other tensors as they are; None for an
    argument that a call gives.
    """
    while tensor.op.role is Role.ARGUMENT and not tensor.op.body.is_root:
        outer = next((outer for outer, inner in tensor.op.body.captures.items() if inner is tensor), None)
        if outer is None:
            return None
        tensor = outer
    return tensor
