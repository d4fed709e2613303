"""What is known while a program is traced, because it follows from constants and the shapes of arrays.

Arrays have their shapes by then, whatever the graph says of them, so arithmetic of shapes is computed on the spot. An
op that cannot be compiled, since the size of what it gives depends on its input, need not run on the host if all that
it takes is known in this way: the axes that a gradient is summed over, where operands were broadcast, are the usual
case. If the guess is wrong, tracing says so (``HostNeeded``).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from anabranch.core.contract import kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of, is_invariant, outer_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import passed
from anabranch.core.graph.state_key import ValueKey
from anabranch.core.values import dtypes

MAX_OPS = 256
"""How many ops are looked at before the answer is no."""


def folds(op: Operation) -> bool:
    """Whether an op is computed on the spot when its inputs are known."""
    definition = op.definition
    return not (
        definition.is_stateful
        or definition.effect.kind != "pure"
        or not definition.deterministic
        or kernels.needs_lax(definition)
        or bodies_of(op)
        or any(output.dtype.base.host_only or output.dtype.base is dtypes.variant for output in op._outputs)
    )


def follow_from_shapes(values: Iterable[ValueKey | None], fed: Container[Tensor] = ()) -> bool:
    """Whether all of ``values`` follow from constants and shapes; those of ``fed`` do not."""
    stack = list(values)
    seen: set[ValueKey] = set()
    while stack:
        tensor = stack.pop()
        if not isinstance(tensor, Tensor) or tensor in fed or len(seen) > MAX_OPS:
            return False
        if tensor in seen:
            continue
        seen.add(tensor)
        maker = tensor.op
        role = maker.role
        if role is Role.ARGUMENT:
            stack.append(outer_of(tensor) if is_invariant(tensor) else None)
        elif role is Role.LIST_POP:
            kept = _kept(maker._inputs[0])
            if kept is None or not pushes_known(kept):
                return False
        elif role is not Role.CONSTANT:
            if not folds(maker):
                return False
            if not maker.definition.shape_only:
                stack.extend(maker._inputs)
            elif any(source.dtype.base is dtypes.variant for source in maker._inputs):
                return False
    return True


def pushes_known(tensor: Tensor) -> bool:
    """Whether all that an iteration does with a list, which is ``tensor`` then, is to push what follows from shapes."""
    while tensor.op.role is Role.LIST_PUSH:
        value = tensor.op._inputs[1]
        if not value.dtype.is_integer or not follow_from_shapes([value]):
            return False
        tensor = tensor.op._inputs[0]
    return tensor.op.role is Role.ARGUMENT


def _kept(tensor: Tensor) -> Tensor | None:
    """What an iteration of the loop that filled a list leaves of it; None if no loop did."""
    while True:
        op = tensor.op
        role = op.role
        if role is Role.ARGUMENT:
            outer = outer_of(tensor)
            if outer is None:
                return None
            tensor = outer
        elif role is Role.LOOP:
            body: Body = op._attrs["body"]
            return body.outputs[tensor.value_index]
        elif role is Role.LIST_POP:
            tensor = op._inputs[0]
        elif (source := passed(tensor)) is not None:
            tensor = source
        else:
            return None
