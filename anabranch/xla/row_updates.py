"""Updates of the rows that a step names, where the number of different ones changes from step to step.

Optimizers sum the rows of a sparse gradient per distinct index before they update a variable: `Unique` on the host,
whose result is as long as there are distinct indices, then `UnsortedSegmentSum`, arithmetic row by row, and a write of
rows. A program for each length would be compiled at almost every step. Instead the distinct indices come padded to a
capacity (:class:`~anabranch.xla.capacities.Padded`). Nothing sees the padding: sums per index leave its rows empty,
arithmetic goes row by row, and writes of rows get indices out of range there, which they drop.

A program takes an input so only if all that it does with it is of this kind; :func:`open_inputs` finds out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.core.contract import kernels
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.xla import capacities, engine
from anabranch.xla import lowering as scopes
from anabranch.xla import padded_arrays as _padded  # noqa: F401  (its entries of `specials` come first)
from anabranch.xla.capacities import Padded
from anabranch.xla.lowering import Scope, specials, specials_of_kinds


def open_inputs(group: Any, inputs: Sequence[Any]) -> dict[int, tuple[int, ...]]:
    """Inputs of a program that it may take padded in dimension 0: ``{position: (0,)}``."""
    open_axes: dict[int, tuple[int, ...]] = {}
    for i, key in enumerate(inputs):
        if not isinstance(key, Tensor) or key in group.fed:
            continue
        if scopes.holds_distinct(key):
            rank = key._shape
            if rank is not None and len(rank) == 1 and only_names_rows(key, group.ops, group.sources, group.fed):
                open_axes[i] = (0,)
    return open_axes


def only_names_rows(
    distinct: Tensor,
    ops: Iterable[Operation],
    sources_of: Mapping[Operation, Sequence[ValueKey | None]],
    fed: Container[Tensor],
) -> bool:
    """Whether all that ``ops`` do with distinct indices leaves their padding unseen."""
    padded: set[Any] = {distinct}
    forms: set[Any] = set()
    sizes: set[Any] = set()
    for op in ops:
        sources = sources_of[op]
        at = [i for i, key in enumerate(sources) if key in padded]
        by_size = [i for i, key in enumerate(sources) if key in forms or key in sizes]
        if not at and not by_size:
            continue
        if any(output in fed for output in op._outputs):
            return False
        definition = op.definition
        role = definition.role
        if role is Role.SHAPE and at == [0] and len(op._outputs) == 1:
            forms.add(op._outputs[0])
        elif role is Role.SUBSCRIPT and by_size == [0] and sources[0] in forms and _first_element(op):
            sizes.add(op._outputs[0])
        elif role is Role.ROW_SUMS:
            ids = sources[1]
            if at or by_size != [2] or sources[2] not in sizes:
                return False
            if not isinstance(ids, Tensor) or ids.op is not distinct.op or ids is not distinct.op._outputs[1]:
                return False
            padded.add(op._outputs[0])
        elif by_size:
            return False
        elif definition.only_passes:
            padded.update(
                output for output in op._outputs if definition.passed_position(output.value_index, op._attrs) in at
            )
        elif (is_arithmetic(definition) and _by_row(op, at)) or _takes_rows(op, at):
            padded.add(op._outputs[0])
        elif not (writes_rows(op, at) or (role is Role.ROWS and at == [0])):
            return False
    return True


def is_arithmetic(definition: OpDefinition) -> bool:
    """Whether ops compute each row of their only output from the same row of their operands, and from scalars."""
    return definition.elementwise and definition.kernel is not None and len(definition.outputs) == 1


def _first_element(op: Operation) -> bool:
    """Whether a slice is element 0 of a vector."""
    begin = op._inputs[1].op
    return (
        op._attrs["shrink_axis_mask"] == 1
        and not op._attrs["ellipsis_mask"]
        and not op._attrs["new_axis_mask"]
        and begin.role is Role.CONSTANT
        and begin._attrs["value"].tolist() == [0]
    )


def _by_row(op: Operation, at: Sequence[int]) -> bool:
    return all(i in at or tensor._shape == () for i, tensor in enumerate(op._inputs))


def _takes_rows(op: Operation, at: Sequence[int]) -> bool:
    """Whether an op gathers rows of dimension 0 by padded indices."""
    if op.role is not Role.ROWS or list(at) != [1] or op._attrs.get("batch_dims"):
        return False
    if len(op._inputs) == 2:
        return True
    axis = op._inputs[2].op
    return axis.role is Role.CONSTANT and int(axis._attrs["value"]) == 0


def writes_rows(op: Operation, at: Sequence[int]) -> bool:
    """Whether an op writes rows, and all that changes in size, its inputs ``at``, is how many."""
    predication = op.definition.predication
    if predication is None or predication.kind != "rows" or predication.coordinates:
        return False
    place = op.definition.input_range(predication.indices, op._attrs).start
    resources = op.definition.resource_positions(op._attrs)
    if place not in at or any(i in resources for i in at):
        return False
    return all(i in at or i in resources or tensor._shape == () for i, tensor in enumerate(op._inputs))


# ------------------------------------------------------------------------------------------------------------ lowering
def _one_size(operands: Sequence[Any]) -> Padded | None:
    """The first padded operand, if all of them are padded in dimension 0 to one capacity."""
    padded = [value for value in operands if isinstance(value, Padded)]
    if not padded or any(value.axes != (0,) or value.array.shape[0] != padded[0].array.shape[0] for value in padded):
        return None
    return padded[0]


def _arithmetic(scope: Scope, op: Operation) -> bool:
    operands = scope.operands(op)
    first = _one_size(operands)
    if first is None or any(not isinstance(value, Padded) and value.shape for value in operands):
        return False
    scope._enter(op)
    definition = op.definition
    assert definition.kernel is not None
    arrays = [value.array if isinstance(value, Padded) else value for value in operands]
    checks = len(scope.context.checks)
    (result,) = kernels.outputs_of(definition, op._attrs, definition.kernel(scope.context, arrays, op._attrs))
    if definition.checks is not None or len(scope.context.checks) > checks:  # these are not to see the padding
        del scope.context.checks[checks:]
        arrays = [_repeated(value) if isinstance(value, Padded) else value for value in operands]
        if definition.checks is not None:
            definition.checks(scope.context, arrays, op._attrs)
        (result,) = kernels.outputs_of(definition, op._attrs, definition.kernel(scope.context, arrays, op._attrs))
    scope.env[op._outputs[0]] = Padded(result, (0,), first.sizes)
    return True


def _repeated(value: Padded) -> Any:
    """An array that is padded in dimension 0 with its first row in place of the padding; with ones if it has none."""
    jnp = engine.jax().numpy
    array = jnp.asarray(value.array)
    if not array.shape[0]:
        return array
    first = jnp.where(value.sizes[0] > 0, array[:1], jnp.ones_like(array[:1]))
    inside = jnp.arange(array.shape[0]) < value.sizes[0]
    return jnp.where(inside.reshape(-1, *[1] * (array.ndim - 1)), array, first)


def _segment_sum(scope: Scope, op: Operation) -> bool:
    """Sums per distinct index; how many there are is traced, and bounded by their capacity."""
    data, ids, count = scope.operands(op)
    most = scope.upper.get(op._inputs[2])
    if most is None or isinstance(count, np.ndarray) or isinstance(data, Padded) or isinstance(ids, Padded):
        return False
    if op._inputs[1].op.role is not Role.DISTINCT:  # other numbers might be too large, which is an error
        return False
    scope._enter(op)
    assert op.definition.kernel is not None
    checks = len(scope.context.checks)
    sums = op.definition.kernel(scope.context, [data, ids, np.int64(most)], op._attrs)
    del scope.context.checks[checks:]
    scope.env[op._outputs[0]] = Padded(sums, (0,), (count.astype(np.int32),))
    return True


def _gather(scope: Scope, op: Operation) -> bool:
    """Rows that padded indices name; where these are padding, some row."""
    operands = scope.operands(op)
    indices = operands[1]
    if not isinstance(indices, Padded) or isinstance(operands[0], Padded) or indices.axes != (0,):
        return False
    if not _takes_rows(op, [1]):
        return False
    scope._enter(op)
    definition = op.definition
    operands[1] = capacities.filled(scope.context.xp, indices, 0)
    if definition.checks is not None:
        definition.checks(scope.context, operands, op._attrs)
    assert definition.kernel is not None
    (rows,) = kernels.outputs_of(definition, op._attrs, definition.kernel(scope.context, operands, op._attrs))
    scope.env[op._outputs[0]] = Padded(rows, (0,), indices.sizes)
    return True


specials_of_kinds.append((is_arithmetic, _arithmetic))
specials[Role.ROW_SUMS] = [_segment_sum]
specials[Role.ROWS].append(_gather)


def row_operands(scope: Scope, op: Operation, operands: Sequence[Any]) -> tuple[list[Any], list[Any]] | None:
    """Operands of a write of padded rows: as its checks are to see them, and as its kernel is.

    Past the size the checks see row 0 and values of the first row, the kernel indices that are out of range, each once.
    """
    at = [i for i, value in enumerate(operands) if isinstance(value, Padded)]
    if not writes_rows(op, at) or _one_size(operands) is None or operands[0].shape[0] == 0:
        return None
    assert op.definition.predication is not None
    place = op.definition.input_range(op.definition.predication.indices, op._attrs).start
    arrays = [_repeated(value) if isinstance(value, Padded) else value for value in operands]
    indices = operands[place]
    beyond = np.iinfo(indices.dtype).max - engine.jax().numpy.arange(indices.array.shape[0], dtype=indices.dtype)
    checked = arrays
    written = [value.array if isinstance(value, Padded) else value for value in operands]
    checked[place] = capacities.filled(scope.context.xp, indices, 0)
    written[place] = capacities.filled(scope.context.xp, indices, beyond)
    return checked, written


scopes.row_operands.append(row_operands)


# ------------------------------------------------------------------------------------------- rows that are taken back
def row_index(op: Operation, indices: Any) -> Any:
    """Index of the rows that a row write touches: rows of dimension 0, or tuples of coordinates."""
    assert op.definition.predication is not None
    if op.definition.predication.coordinates:
        return tuple(indices[..., i] for i in range(indices.shape[-1]))
    return indices


def masked_row_index(op: Operation, indices: Any, ok: Any) -> Any:
    """The same, out of range if ``ok`` holds."""
    jnp = engine.jax().numpy
    return row_index(op, jnp.where(ok, np.iinfo(indices.dtype).max, indices))
