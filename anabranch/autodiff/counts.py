"""How many operations TensorFlow 1.15's gradients of loops and conditionals come to, for the seeds behind them.

TensorFlow's are made of switches, merges, stacks and counters; those here are loops and conditionals themselves. The
numbers follow from what takes part: see :mod:`anabranch.ops.shared.gradient_counts` for the rules inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.autodiff.control_flow import Differentiated
from anabranch.autodiff.input_gradients import is_differentiable
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes, shapes

_FORWARD_COUNTER = 8
_BACKWARD_COUNTER = 10
_VARIABLE = 5  # an entry, a merge, a switch, the next value, an exit
_SUM = 7  # the same, zeros and an addition
_SUMMED_SLICES = 23  # of values, rows and a shape
_STACK = 4  # its size, the stack, a push and a pop; and an entry into either loop, at each depth
_BRANCH_INPUT = 6  # zeros for where the branch is not taken, and a merge
_BRANCH_INPUT_IN_LOOP = 3
_STACK_IN_BRANCH = 2  # more than for what is not in a branch
_SMALL = 1000  # elements of zeros that are one constant


def of_loop(op: Operation, grads: Sequence[Any], taking_part: Sequence[int], part: Differentiated) -> int:
    """The number for a loop.

    Args:
        op: the loop.
        grads: of its outputs; None where there is none.
        taking_part: numbers of the variables that have a gradient.
        part: what the differentiation of its body has given.
    """
    forward: Body = op._attrs["body"]
    captured = set(forward.captures.values())
    total = _FORWARD_COUNTER + _BACKWARD_COUNTER + part.counted + len(part.body.captures)
    for i, gradient in zip(taking_part, part.gradients, strict=True):
        if forward.args[i] not in captured:
            total += _VARIABLE
        elif isinstance(gradient, Tensor):
            total += _SUM + (0 if shapes.is_static(gradient._shape) else 2)
        elif gradient is not None:
            total += _SUMMED_SLICES
    for i, output in enumerate(op._outputs[: len(forward.args)]):
        if (i >= len(grads) or grads[i] is None) and forward.args[i] not in captured and _is_trained(output):
            total += _zeros(output) + (i not in taking_part)
    stacks = part.asked.shapes
    taken = part.body.intermediates
    for tensor in {*taken, *part.asked.operands}:
        inner = taken.get(tensor)
        if tensor.op.role is Role.CONSTANT:
            total += 1
        elif tensor in captured or (inner is not None and inner in part.body.captures.values()):
            total += inner is None
        elif not _is_handle(tensor) and (tensor in part.asked.operands or inner is None or not _shapes_only(inner)):
            stacks += 1
    entered = sum(array in forward.args for array in part.asked.arrays) + len(part.asked.outside)
    return total + entered + (_STACK + 2 + 2 * _depth(op)) * stacks + (stacks > 0)


def of_conditional(op: Operation, parts: Sequence[Differentiated], given: int, kept: Sequence[int]) -> int:
    """The number for a conditional.

    Args:
        op: the conditional.
        parts: what the differentiation of each branch has given.
        given: how many results have gradients.
        kept: which of the inputs asked for have a gradient in some branch.
    """
    in_loop = _depth(op) > 0
    total = given + sum(all(part.gradients[n] is not None for part in parts) for n in kept)
    stacks = 0
    for part in parts:
        inputs = sum(part.gradients[n] is not None for n in kept)
        total += part.counted + (_BRANCH_INPUT_IN_LOOP if in_loop else _BRANCH_INPUT) * inputs
        if in_loop:
            constants = sum(tensor.op.role is Role.CONSTANT for tensor in part.body.intermediates)
            stacks += len(part.body.intermediates) - constants
            total += constants
    return total + _STACK_IN_BRANCH * stacks + (stacks > 0)


def _depth(op: Operation) -> int:
    """How many loops an op is in."""
    depth = 0
    body: Body | None = op.body
    while body is not None:
        depth += body.owner is not None and body.owner.role is Role.LOOP
        body = body.parent
    return depth


def _is_trained(tensor: Tensor) -> bool:
    return is_differentiable(tensor) and tensor.dtype.base is not dtypes.resource


def _zeros(tensor: Tensor) -> int:
    shape = tensor._shape
    size = np.prod([dimension or 0 for dimension in shape], dtype=np.int64) if shapes.is_static(shape) and shape else 0
    return 1 if size < _SMALL else 3


def _is_handle(tensor: Tensor) -> bool:
    return tensor.dtype.base in (dtypes.variant, dtypes.resource)


def _shapes_only(inner: Tensor) -> bool:
    consumers = inner.consumers()
    return bool(consumers) and all(consumer.definition.shape_only for consumer in consumers)
