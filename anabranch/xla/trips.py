"""How often a loop can run, and how much its lists can grow, from what its condition and body look like.

A condition that is a comparison of a counter with a limit (alone, or in a conjunction) bounds the loop if the body
moves the counter by a constant, and start and limit are known, or bounded, when the loop is traced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core.body import Body
from anabranch.core.body_ops import passes_through
from anabranch.core.list_values import TracedList
from anabranch.core.operation import Operation, Tensor
from anabranch.xla import engine
from anabranch.xla.scope import BoundNeeded, HostNeeded, Scope

_COMPARISONS = {"Less": (0, False), "LessEqual": (0, True), "Greater": (1, False), "GreaterEqual": (1, True)}
"""Which operand is the smaller one, and whether both may be equal."""


def bound(scope: Scope, op: Operation, operands: Sequence[Any]) -> int | None:
    """An upper bound of the number of iterations; None if none is known."""
    found = [limit for limit, _ in _bounds(scope, op, operands) if limit is not None]
    return min(found, default=None)


def need(scope: Scope, op: Operation, operands: Sequence[Any]) -> Exception:
    """What would give the loop a bound."""
    for _, missing in _bounds(scope, op, operands):
        if missing is not None:
            return BoundNeeded(missing)
    return HostNeeded(op, "how often the loop runs is known only afterwards")


def learn(scope: Scope, op: Operation, operands: Sequence[Any], most: int | None) -> None:
    """Notes how large the loop's counters can become."""
    if most is None:
        return
    for i, start in enumerate(operands):
        step = _step(op, i, operands)
        if step is not None and step > 0 and isinstance(start, np.ndarray):
            scope.upper[op._outputs[i]] = int(start) + step * most


def variable(scope: Scope, op: Operation, index: int, value: Any, most: int | None, operands: Sequence[Any]) -> Any:
    """The initial value of a loop variable: a traced array, or a list with room for all that the loop may add."""
    jnp = engine.jax().numpy
    if not isinstance(value, TracedList):
        return jnp.asarray(value) if isinstance(value, np.ndarray) else value
    pushes = _pushes(op, index)
    if pushes is None:
        raise HostNeeded(op, "a list that grows in a way that is not a push in each iteration")
    if pushes:
        if most is None:
            raise need(scope, op, operands)
        have = value.known_size if value.known_size is not None else value.capacity
        value = value.with_capacity(have + pushes * most)
    return value


# --------------------------------------------------------------------------------------------------------------- trips
def _bounds(scope: Scope, op: Operation, operands: Sequence[Any]) -> Iterator[tuple[int | None, Tensor | None]]:
    """For each comparison in the condition: the bound that it gives, or the input that would have to be known."""
    condition: Body = op._attrs["cond"]
    for test in _conjunction(condition.outputs[0]):
        if test.type not in _COMPARISONS:
            continue
        smaller, equal = _COMPARISONS[test.type]
        low, high = (_plain(test._inputs[smaller]), _plain(test._inputs[1 - smaller]))
        step = _step(op, _argument(condition, low), operands)
        if step is not None and step > 0:  # a counter that goes up to a limit
            start = operands[_argument(condition, low)]
            limit, missing = _limit(scope, op, condition, high, operands)
            if not isinstance(start, np.ndarray):
                continue
            if limit is None:
                yield None, missing
            else:
                yield _trips(limit - int(start), step, equal), None
            continue
        step = _step(op, _argument(condition, high), operands)
        if step is not None and step < 0:  # one that goes down
            place = _argument(condition, high)
            begin, missing = _upper(scope, op._inputs[place], operands[place])
            limit, _ = _limit(scope, op, condition, low, operands, exact=True)
            if limit is None:
                continue
            if begin is None:
                yield None, missing
            else:
                yield _trips(begin - limit, -step, equal), None


def _trips(distance: int, step: int, equal: bool) -> int:
    return max(0, (distance // step + 1) if equal else math.ceil(distance / step))


def _conjunction(tensor: Tensor) -> Iterator[Operation]:
    op = _plain(tensor).op
    if op.type == "LogicalAnd":
        for part in op._inputs:
            yield from _conjunction(part)
    else:
        yield op


def _plain(tensor: Tensor) -> Tensor:
    while tensor.op.type == "Identity":
        tensor = tensor.op._inputs[0]
    return tensor


def _argument(body: Body, tensor: Tensor) -> int:
    return tensor.op._attrs["index"] if tensor.op.type == "_Arg" and tensor.op.body is body else -1


def _step(op: Operation, index: int, operands: Sequence[Any]) -> int | None:
    """By how much an iteration moves a loop variable; None if not by a known integer."""
    if index < 0:
        return None
    body: Body = op._attrs["body"]
    if not body.args[index].dtype.is_integer:
        return None
    update = _plain(body.outputs[index]).op
    if update.type not in ("Add", "AddV2", "Sub"):
        return None
    left, right = (_plain(tensor) for tensor in update._inputs)
    if update.type != "Sub" and right is body.args[index]:
        left, right = right, left
    if left is not body.args[index]:
        return None
    amount = _constant(op, body, right, operands)
    if amount is None:
        return None
    return -amount if update.type == "Sub" else amount


def _constant(op: Operation, body: Body, tensor: Tensor, operands: Sequence[Any]) -> int | None:
    if tensor.op.type == "Const":
        value: Any = tensor.op._attrs["value"]
    else:
        place = _argument(body, tensor)
        if place < 0 or not passes_through(op._attrs["body"], place):
            return None
        value = operands[place]
    return int(value) if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu" else None


def _limit(
    scope: Scope, op: Operation, condition: Body, tensor: Tensor, operands: Sequence[Any], exact: bool = False
) -> tuple[int | None, Tensor | None]:
    found = _constant(op, condition, tensor, operands)
    if found is not None or exact:
        return found, None
    place = _argument(condition, tensor)
    if place < 0 or not passes_through(op._attrs["body"], place):
        return None, None
    return _upper(scope, op._inputs[place], operands[place])


def _upper(scope: Scope, tensor: Tensor, value: Any) -> tuple[int | None, Tensor | None]:
    if isinstance(value, np.ndarray):
        return (int(value), None) if value.ndim == 0 and value.dtype.kind in "iu" else (None, None)
    found = scope.upper.get(tensor)
    integer = tensor.dtype.base.np.kind in "iu" and getattr(value, "shape", None) == ()
    return found, tensor if found is None and integer else None


# --------------------------------------------------------------------------------------------------------------- lists
_KEEP_LENGTH = ("Identity", "TensorListPopBack", "TensorListSetItem", "TensorListScatterIntoExistingList")


def _pushes(op: Operation, index: int) -> int | None:
    """How many elements an iteration adds to a list at most; None if not known."""
    body: Body = op._attrs["body"]
    tensor = body.outputs[index]
    count = 0
    while tensor is not body.args[index]:
        inner = tensor.op
        if inner.type == "TensorListPushBack":
            count += 1
        elif inner.type not in (
            "Identity",
            "TensorListPopBack",
            "TensorListSetItem",
            "TensorListScatterIntoExistingList",
        ):
            if inner.type in ("TensorListReserve", "TensorListFromTensor", "AddN", "ZerosLike"):
                return 0  # a list of its own in each iteration
            return None
        tensor = inner._inputs[0]
    return count
