"""Behind which ops a value is the same: those that do nothing but hand an operand on.

Policy. Whoever asks where a value, a handle or a shape comes from looks behind ops that *only pass*: pure, without
checks, outside version 1's control flow, not there to be fed (``OpDefinition.only_passes``). What an op does besides
(checking, printing) happens no less for that, since it stays in the graph; so such an op is not looked behind where the
answer lets somebody do without it.
"""

from __future__ import annotations

from anabranch.core.graph.operation import Operation, Tensor


def passed(tensor: Tensor) -> Tensor | None:
    """The input that a tensor is; None if its op computes it."""
    op = tensor.op
    definition = op.definition
    if not definition.only_passes:
        return None
    return op._inputs[definition.passed_position(tensor.value_index, op._attrs)]


def origin(tensor: Tensor, waiting: bool = True) -> Tensor:
    """The tensor whose value ``tensor`` hands on, as far back as ops only pass it.

    With ``waiting=False`` an op that waits for others, by control inputs, is not looked behind.
    """
    while waiting or not tensor.op._control_inputs:
        source = passed(tensor)
        if source is None:
            return tensor
        tensor = source
    return tensor


def is_read(op: Operation) -> bool:
    """Whether an op does nothing but read a reference."""
    definition = op.definition
    if not definition.only_passes or definition.inputs[0].is_list:
        return False
    return op._inputs[0].dtype.is_ref and not op._outputs[0].dtype.is_ref


def is_transparent_read(op: Operation) -> bool:
    """Whether an op is a plain read of a reference, like an `Identity` of it, that waits for nothing else.

    Such a read has no position of its own: whoever takes its value reads the variable, and gradients go to it.
    """
    plain = op.definition.passes_gradient and op.role is None
    return plain and is_read(op) and not op._control_inputs


__all__ = ["is_read", "is_transparent_read", "origin", "passed"]
