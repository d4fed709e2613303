"""Ops on padded arrays: arrays whose sizes a program does not know (:class:`~anabranch.xla.capacities.Padded`).

Policy. A program that is to serve sequences of any length gets them padded to a capacity. Only ops that cannot see the
padding take such arrays: those that read one position, checked against the true size, that hand them on, or that make
lists of them. Anything else makes the op, or the loop around it, run on the host, where arrays have their sizes.
There is no masking: no result depends on what the padding holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation
from anabranch.core.values import shapes
from anabranch.core.values.list_values import TracedList
from anabranch.ops.array import slice_regions
from anabranch.ops.lists.host_kernels import given_shape
from anabranch.ops.state import scatter_rules
from anabranch.xla import engine
from anabranch.xla.capacities import Padded
from anabranch.xla.lowering import Scope, TraceShapes, specials, specials_of_kinds


def _first(scope: Scope, op: Operation) -> Padded | None:
    key = scope.wiring.sources[op][0]
    value = None if key is None else scope.env.get(key)
    return value if isinstance(value, Padded) else None


def _hand_on(scope: Scope, op: Operation) -> bool:
    """What only passes its operands."""
    values = [None if key is None else scope.env.get(key) for key in scope.wiring.sources[op]]
    if not any(isinstance(value, Padded) for value in values):
        return False
    for output in op._outputs:
        if output not in scope.wiring.fed:
            scope.env[output] = values[op.definition.passed_position(output.value_index, op._attrs)]
    return True


def _shape(scope: Scope, op: Operation) -> bool:
    """The shapes of operands, with the sizes that they have in a run."""
    values = scope.operands(op)
    if not any(isinstance(value, Padded) for value in values):
        return False
    jnp = engine.jax().numpy
    dtype = op._attrs["out_type"].np
    for value, output in zip(values, op._outputs, strict=True):
        if not isinstance(value, Padded):
            scope.env[output] = np.array(value.shape, dtype)
            continue
        sizes: list[Any] = list(value.array.shape)
        for axis, size in zip(value.axes, value.sizes, strict=True):
            sizes[axis] = size
        scope.env[output] = jnp.stack([jnp.asarray(size, dtype) for size in sizes])
        scope.partial[output] = value.shape
        scope.most[output] = tuple(value.array.shape)
    return True


def _slice(scope: Scope, op: Operation) -> bool:
    """A position of a padded array; or an element of a shape, whose bound is noted."""
    value = _first(scope, op)
    if value is None:
        _bound_of_element(scope, op)
        return False
    spec = [_numbers(scope, op, i) for i in (1, 2, 3)]
    begin, end, strides = spec
    try:
        entries = slice_regions.resolve(len(value.shape), begin, end, strides, op._attrs).entries
    except slice_regions.BadSlice:
        return False
    if not all(entries[axis].shrink for axis in value.axes):
        return False
    jnp, lax = engine.jax().numpy, engine.jax().lax
    scope._enter(op)
    array, positions = value.array, scope.operands(op)[1]
    for axis, size in zip(value.axes, value.sizes, strict=True):
        place = entries[axis].spec
        index = jnp.asarray(positions[place])
        scope.context.check(
            (index >= -size) & (index < size),
            errors.InvalidArgumentError,
            "slice index {0} of dimension {1} out of bounds.",
            index,
            np.int32(axis),
        )
        index = jnp.where(index < 0, index + size, index).astype(np.int32)
        array = lax.dynamic_index_in_dim(array, index, axis, keepdims=True)
        begin[place], end[place] = 0, 1
    masks = op._attrs["begin_mask"], op._attrs["end_mask"]
    for numbers, mask in ((begin, masks[0]), (end, masks[1])):
        for i, number in enumerate(numbers):
            if number is None and not mask >> i & 1:
                return False
    known = [np.array([0 if n is None else n for n in numbers], np.int64) for numbers in (begin, end, strides)]
    operands = [array, *known]
    scope.context.shapes = TraceShapes(op, operands)
    assert op.definition.kernel is not None
    scope.env[op._outputs[0]] = op.definition.kernel(scope.context, operands, op._attrs)
    return True


def _numbers(scope: Scope, op: Operation, position: int) -> list[int | None]:
    """The elements of a vector, None where they are traced."""
    value = scope.operands(op)[position]
    if isinstance(value, np.ndarray):
        return [int(item) for item in value]
    partial = scope.partial.get(op._inputs[position])
    return [None] * value.shape[0] if partial is None else list(partial)


def _bound_of_element(scope: Scope, op: Operation) -> None:
    most = scope.most.get(op._inputs[0])
    if most is None or op._attrs["shrink_axis_mask"] != 1:
        return
    begin = scope.operands(op)[1]
    if isinstance(begin, np.ndarray) and begin.shape == (1,) and -len(most) <= int(begin[0]) < len(most):
        scope.upper[op._outputs[0]] = most[int(begin[0])]


def _gather(scope: Scope, op: Operation) -> bool:
    """Rows of a padded array."""
    value = _first(scope, op)
    if value is None:
        return False
    operands = scope.operands(op)
    axis = operands[2] if len(operands) > 2 else np.zeros((), np.int32)
    if not isinstance(axis, np.ndarray) or op._attrs.get("batch_dims") or isinstance(operands[1], Padded):
        return False
    if value.axes != (int(axis) % len(value.shape),):
        return False
    scope._enter(op)
    operands[1] = engine.jax().numpy.asarray(operands[1])
    scatter_rules.check_rows(scope.context, operands[1], value.sizes[0])
    assert op.definition.kernel is not None
    checks = len(scope.context.checks)
    scope.env[op._outputs[0]] = op.definition.kernel(scope.context, [value.array, *operands[1:]], op._attrs)
    del scope.context.checks[checks:]  # that of the padded size
    return True


def _from_tensor(scope: Scope, op: Operation) -> bool:
    value = _first(scope, op)
    given = scope.operands(op)[1]
    if value is None or value.axes != (0,) or not isinstance(given, np.ndarray):
        return False
    shape = given_shape(given)
    if not shapes.is_compatible(shape, value.shape[1:]):
        return False
    scope.env[op._outputs[0]] = TracedList(op._attrs["element_dtype"], shape, value.array, value.sizes[0])
    return True


specials_of_kinds.append((lambda definition: definition.only_passes, _hand_on))
specials.update(
    {Role.SHAPE: [_shape], Role.SUBSCRIPT: [_slice], Role.ROWS: [_gather], Role.LIST_OF_ROWS: [_from_tensor]}
)


@engine.when_loaded
def _register(module: Any) -> None:
    module.tree_util.register_pytree_node(Padded, Padded.flatten, Padded.unflatten)
