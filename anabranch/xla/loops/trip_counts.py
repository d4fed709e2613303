"""How often a loop can run, and how much its lists can grow, from what its condition and body look like.

A condition that is a comparison of a counter with a limit (alone, or in a conjunction) bounds the loop if the body
moves the counter by a constant, and start and limit are known, or bounded, when the loop is traced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.contract import inference
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import BodyUse, bodies_of, is_argument, passes_through
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import origin, passed
from anabranch.core.values import shapes
from anabranch.core.values.list_values import TracedList
from anabranch.xla import engine, known_values
from anabranch.xla.capacities import Padded
from anabranch.xla.lowering import BoundNeeded, HostNeeded, Scope

_COMPARISONS = {"<": (0, False), "<=": (0, True), ">": (1, False), ">=": (1, True)}
"""Which operand is the smaller one, and whether both may be equal."""


def bound(scope: Scope, op: Operation, operands: Sequence[Any]) -> int | None:
    """An upper bound of the number of iterations; None if none is known."""
    limits = [limit for limit, _ in _bounds(scope, op, operands) if limit is not None]
    return min(limits, default=None)


def guess(scope: Scope, op: Operation, operands: Sequence[Any]) -> int:
    """The number of iterations that a loop without a bound gets room for.

    Raises:
        BoundNeeded: an integer that can be known would give it a bound.
    """
    for _, missing in _bounds(scope, op, operands):
        if missing is not None and scope.can_ask(missing):
            raise BoundNeeded(missing)
    return scope.room.guess(op)


class Growing(NamedTuple):
    """Loop variables that are lists which become longer, and that nobody has given room yet."""

    by_trips: list[int]
    """As many elements as there are iterations, or a multiple of it."""
    inside: list[int]
    """As many as loops inside of the iterations add."""


def growing(op: Operation, carried: Sequence[int], operands: Sequence[Any]) -> Growing:
    """The lists among the loop variables that an iteration may make longer."""
    body: Body = op._attrs["body"]
    in_body = Growing([], [])
    for i in carried:
        value = operands[i]
        if not isinstance(value, TracedList) or value.reserved:
            continue
        growth = _growth(body, body.outputs[i])
        if growth is not None and growth.inside:
            in_body.inside.append(i)
        elif growth is not None and (growth.pushes or growth.writes):
            in_body.by_trips.append(i)
    return in_body


def unread(op: Operation, index: int) -> bool:
    """Whether an iteration, and the condition, do nothing with a list but put elements into it."""
    body: Body = op._attrs["body"]
    condition: Body = op._attrs["cond"]
    if condition.args[index]._consumers or condition.args[index] in condition.outputs:
        return False
    tensor, output = body.args[index], body.outputs[index]
    while tensor is not output:
        if len(tensor._consumers) != 1 or tensor in body.outputs:
            return False
        (user,) = tensor._consumers
        if user.role is Role.LOOP:
            place = user._inputs.index(tensor)
            if not unread(user, place):
                return False
            tensor = user._outputs[place]
            continue
        if user.role in (Role.LIST_PUSH, Role.LIST_WRITE):
            results = [user._outputs[0]] if user._inputs[0] is tensor else []
        else:
            results = [result for result in user._outputs if passed(result) is tensor]
        if len(results) != 1:
            return False
        (tensor,) = results
    return not tensor._consumers and sum(other is output for other in body.outputs) == 1


def learn(scope: Scope, op: Operation, operands: Sequence[Any], most: int | None) -> None:
    """Notes how large the loop's counters can become."""
    if most is None:
        return
    for i, start in enumerate(operands):
        step = _step(op, i, operands)
        if step is not None and step > 0 and isinstance(start, np.ndarray) and start.ndim == 0:
            scope.upper[op._outputs[i]] = int(start) + step * most


def variable(op: Operation, index: int, value: Any, most: int | None, more: int | None, operands: Sequence[Any]) -> Any:
    """The initial value of a loop variable: a traced array, or a list with room for all that the loop may add.

    ``most`` is how often it runs, ``more`` what loops inside may add to a list.
    """
    jnp = engine.jax().numpy
    if not isinstance(value, TracedList):
        return jnp.asarray(value) if isinstance(value, np.ndarray) else value
    body: Body = op._attrs["body"]
    growth = _growth(body, body.outputs[index])
    if growth is None or growth.place not in (None, index):
        raise HostNeeded(op, "a list that grows in a way that is not a push in each iteration")
    if value.reserved:  # the loop around this one has given it room, for all of its iterations
        return value
    if growth.inside and more is None:
        raise HostNeeded(op, "a list that loops inside make longer, and that is read meanwhile")
    if growth.inside:
        value = value.with_capacity(value.capacity + (more or 0) + growth.pushes * (most or more or 0))
    elif growth.pushes or growth.writes:
        assert most is not None
        have = value.known_size if value.known_size is not None else value.capacity
        for written in growth.writes:
            highest = _highest(op, written, most, operands)
            if highest is None:
                raise HostNeeded(op, "a list that grows with its writes, to an index that is known only afterwards")
            have = max(have, highest + 1)
        value = value.with_capacity(have + growth.pushes * most)
    # What an iteration will find out is settled now, as a body that holds loops takes long to trace.
    if growth.pushes and not growth.inside and value.known_size == 0 and known_values.pushes_known(body.outputs[index]):
        return value.maybe_uniform().with_size(jnp.asarray(value.size, jnp.int32))
    if (growth.pushes or growth.inside or growth.pops) and value.known_size is not None:
        value = value.with_size(jnp.asarray(value.size, jnp.int32))
    shape, dtype = value.element_shape, value.element_dtype.np
    if value.items is None and value.uniform is None and dtype is not None and shapes.is_static(shape):
        sketch = engine.jax().ShapeDtypeStruct((value.capacity, *(shape or ())), dtype)
        value = value.materialised(TracedList(value.element_dtype, shape, sketch, value.size))
    return value


# --------------------------------------------------------------------------------------------------------------- trips
def _bounds(scope: Scope, op: Operation, operands: Sequence[Any]) -> Iterator[tuple[int | None, Tensor | None]]:
    """For each comparison in the condition: the bound that it gives, or the input that would have to be known."""
    condition: Body = op._attrs["cond"]
    for test in _conjunction(condition.outputs[0]):
        if test.definition.symbol not in _COMPARISONS:
            continue
        smaller, equal = _COMPARISONS[test.definition.symbol]
        low, high = (origin(test._inputs[smaller]), origin(test._inputs[1 - smaller]))
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
    op = origin(tensor).op
    if op.definition.symbol == "and":
        for part in op._inputs:
            yield from _conjunction(part)
    else:
        yield op


def _argument(body: Body, tensor: Tensor) -> int:
    return tensor.op._attrs["index"] if is_argument(tensor, body) else -1


def _step(op: Operation, index: int, operands: Sequence[Any]) -> int | None:
    """By how much an iteration moves a loop variable; None if not by a known integer."""
    if index < 0:
        return None
    body: Body = op._attrs["body"]
    if not body.args[index].dtype.is_integer:
        return None
    update = origin(body.outputs[index]).op
    symbol = update.definition.symbol
    if symbol not in ("+", "-") or len(update._inputs) != 2:
        return None
    left, right = (origin(tensor) for tensor in update._inputs)
    if symbol == "+" and right is body.args[index]:
        left, right = right, left
    if left is not body.args[index]:
        return None
    amount = _constant(op, body, right, operands)
    if amount is None:
        return None
    return -amount if symbol == "-" else amount


def _constant(op: Operation, body: Body, tensor: Tensor, operands: Sequence[Any]) -> int | None:
    value = _evaluated(op, body, tensor, operands, _MOST_EVALUATED)
    return int(value) if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu" else None


_MOST_EVALUATED = 8
"""How deep an expression in a condition may be, such as ``tf.shape(x)[0]``, that is computed to find a limit."""


def _evaluated(op: Operation, body: Body, tensor: Tensor, operands: Sequence[Any], depth: int) -> Any:
    """What a tensor of a loop's body or condition is in all iterations: an array, a shape alone, or None."""
    inner = tensor.op
    definition = inner.definition
    if definition.role is Role.CONSTANT:
        return inner._attrs["value"]
    if definition.role is Role.ARGUMENT:
        place = _argument(body, tensor)
        return operands[place] if place >= 0 and passes_through(op._attrs["body"], place) else None
    if not depth or inner.body is not body or definition.effect.kind != "pure":
        return None
    values = [_evaluated(op, body, source, operands, depth - 1) for source in inner._inputs]
    if definition.shape_only and all(None not in getattr(value, "shape", (None,)) for value in values):
        values = [np.broadcast_to(np.zeros((), np.int8), value.shape) for value in values]
    if not all(isinstance(value, np.ndarray) for value in values):
        return None
    folded = inference.fold(definition, inner._attrs, values, inner)
    return None if folded is None else folded[tensor.value_index]


def _limit(
    scope: Scope, op: Operation, condition: Body, tensor: Tensor, operands: Sequence[Any], exact: bool = False
) -> tuple[int | None, Tensor | None]:
    fixed = _constant(op, condition, tensor, operands)
    if fixed is not None or exact:
        return fixed, None
    source = tensor.op
    of = source._inputs[0] if source.role is Role.SUBSCRIPT else None
    if of is not None and of.op.role is Role.SHAPE:  # of a padded array: its capacity
        begin, place = source._inputs[1].op, _argument(condition, origin(of.op._inputs[of.value_index]))
        value = operands[place] if place >= 0 and passes_through(op._attrs["body"], place) else None
        known = begin.role is Role.CONSTANT
        if isinstance(value, Padded) and known and source._attrs["shrink_axis_mask"] == 1:
            return int(value.array.shape[int(begin._attrs["value"][0])]), None
    place = _argument(condition, tensor)
    if place < 0 or not passes_through(op._attrs["body"], place):
        return None, None
    return _upper(scope, op._inputs[place], operands[place])


def _upper(scope: Scope, tensor: Tensor, value: Any) -> tuple[int | None, Tensor | None]:
    if isinstance(value, np.ndarray):
        return (int(value), None) if value.ndim == 0 and value.dtype.kind in "iu" else (None, None)
    limit = upper(scope, tensor)
    integer = tensor.dtype.base.is_integer and getattr(value, "shape", None) == ()
    return limit, tensor if limit is None and integer else None


def upper(scope: Scope, tensor: Tensor) -> int | None:
    """What an integer is at most: as is noted of it, or of an operand of the minimum that it is."""
    tensor = tensor if tensor in scope.upper else origin(tensor)
    if tensor in scope.upper or tensor.op.definition.symbol != "min":
        return scope.upper.get(tensor)
    bounds = []
    for source in tensor.op._inputs:
        value = scope.env.get(source)
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu":
            bounds.append(int(value))
        elif (bound := upper(scope, source)) is not None:
            bounds.append(bound)
    return min(bounds, default=None)


# --------------------------------------------------------------------------------------------------------------- lists
_KEEP_LENGTH = (Role.LIST_POP, Role.LIST_WRITE, Role.LIST_RESIZE)
_NEW = (Role.LIST_EMPTY, Role.LIST_NEW, Role.LIST_OF_ROWS)


class _Growth(NamedTuple):
    """How a body changes a list."""

    place: int | None
    """The argument that the list was; None if each run of the body makes its own."""
    pushes: int
    writes: tuple[Tensor, ...] = ()
    """Indices of writes that may make the list longer."""
    inside: bool = False
    """Whether a loop inside makes it longer, nobody knows how much."""
    pops: bool = False
    """Whether it may become shorter."""


def _growth(body: Body, tensor: Tensor) -> _Growth | None:
    """How the list ``tensor`` came about; None if that is not known."""
    pushes = 0
    writes: list[Tensor] = []
    inside = pops = False
    while True:
        op = tensor.op
        role = op.role
        if role is Role.ARGUMENT:
            if op.body is not body:
                return None
            return _Growth(op._attrs["index"], pushes, tuple(writes), inside, pops)
        if (source := passed(tensor)) is not None:
            tensor = source
            continue
        if role in _NEW or op.definition.elementwise:  # sums of lists, and their zeros
            return _Growth(None, 0)
        if role is Role.LIST_PUSH:
            pushes += 1
        elif role is Role.CONDITIONAL:
            growths = [_through(body, op, use, tensor.value_index) for use in bodies_of(op)]
            if any(part is None or part.place != growths[0].place for part in growths):  # type: ignore[union-attr]
                return None
            parts = [part for part in growths if part is not None]
            return _Growth(
                parts[0].place,
                pushes + max(part.pushes for part in parts),
                (*writes, *(index for part in parts for index in part.writes)),
                inside or any(part.inside for part in parts),
                pops or any(part.pops for part in parts),
            )
        elif role is Role.LOOP:
            inner = _growth(op._attrs["body"], op._attrs["body"].outputs[tensor.value_index])
            if inner is None:
                return None
            if inner.place is None:
                return _Growth(None, 0)
            if inner.place != tensor.value_index:
                return None
            inside = inside or inner.inside or bool(inner.pushes or inner.writes)
            pops = pops or inner.pops
        elif role not in _KEEP_LENGTH:
            return None
        elif role is Role.LIST_POP:
            pops = True
        elif op._attrs.get("resize_if_index_out_of_bounds"):
            writes.append(op._inputs[1])
        tensor = op._inputs[tensor.value_index if role is Role.LOOP else 0]


def _through(body: Body, op: Operation, use: BodyUse, output: int) -> _Growth | None:
    """How a list came about that leaves one branch of a conditional in ``body``."""
    inside = _growth(use.body, use.body.outputs[output])
    if inside is None or inside.writes or inside.place is None:
        return None if inside is None or inside.writes else inside
    before = _growth(body, op._inputs[use.first + inside.place])
    if before is None:
        return None
    return before._replace(
        pushes=before.pushes + inside.pushes, inside=before.inside or inside.inside, pops=before.pops or inside.pops
    )


def _highest(op: Operation, index: Tensor, most: int, operands: Sequence[Any]) -> int | None:
    """The largest value of an index that is one of the loop's counters, or that many away from it."""
    body: Body = op._attrs["body"]
    index = origin(index)
    offset: int | None = 0
    symbol = index.op.definition.symbol
    if symbol in ("+", "-") and len(index.op._inputs) == 2:
        offset = _constant(op, body, origin(index.op._inputs[1]), operands)
        offset = -offset if offset is not None and symbol == "-" else offset
        index = origin(index.op._inputs[0])
    place = _argument(body, index)
    step = _step(op, place, operands)
    if offset is None or step is None or not isinstance(operands[place], np.ndarray):
        return _constant(op, body, index, operands) if offset == 0 else None
    start = int(operands[place])
    return offset + max(start, start + step * max(most - 1, 0))
