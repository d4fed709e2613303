"""How programs compute what repeats (:mod:`anabranch.xla.loops.repeated_blocks`): a roll is a loop, a sum one product.

What a loop's blocks make for others lies in one array, a row for each block. Another loop indexes it, backwards if need
be; a sum takes it whole; any other op is given the rows that it asks for.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import faults, kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import ValueKey
from anabranch.xla import capacities as room
from anabranch.xla import engine, lowering
from anabranch.xla.loops.repeated_blocks import LEAST_TERMS
from anabranch.xla.loops.units import (
    Carried,
    FromShapes,
    Inner,
    Pieces,
    Roll,
    Rows,
    Shared,
    Source,
    Sum,
    Unit,
)


class NotRolled(Exception):
    """What repeats cannot be computed together: blocks differ in what is known only now, or may fail checks."""


_NOT_TOGETHER = (
    NotRolled,
    lowering.CutNeeded,
    lowering.HostNeeded,
    lowering.BoundNeeded,
    room.TooRoomy,
    faults.KernelBug,
    errors.OpError,
    ValueError,
    TypeError,
    IndexError,
    NotImplementedError,
)
"""What says that ops are to be traced one by one, which tells what is wrong if it goes wrong again."""


class Values(dict[ValueKey, Any]):
    """The values of a program, some of which are rows of arrays until somebody asks for them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.arrays: list[Any] = []
        self.rows: dict[ValueKey, tuple[int, int]] = {}
        self.loops: list[tuple[int, int]] = []
        """Of each loop, how many blocks it stands for, and of how many ops."""
        self._rooms = 0

    def __missing__(self, key: ValueKey) -> Any:
        array, row = self.rows[key]
        value = self[key] = self.arrays[array][row]
        return value

    def plain(self, key: ValueKey) -> Any:
        """The value of ``key``, which must be an array of one size."""
        value = self[key]
        if not (hasattr(value, "aval") or isinstance(value, np.ndarray)):
            raise NotRolled
        return value

    def keep(self, keys: Sequence[ValueKey], array: Any) -> None:
        """Have an array whose rows are the values of ``keys``."""
        self.rows.update({key: (len(self.arrays), row) for row, key in enumerate(keys)})
        self.arrays.append(array)

    def room(self, count: int, row: Any) -> Any:
        """An array for ``count`` rows like ``row``, all of which will be written.

        Each is filled with a number of its own: of arrays that are the same to begin with XLA makes one, and a copy of
        it for each place that will be written to.
        """
        self._rooms += 1
        return engine.jax().numpy.full((count, *row.shape), np.asarray(self._rooms % 128).astype(row.dtype))

    def line(self, keys: Sequence[ValueKey]) -> tuple[Any, int, int] | None:
        """An array whose rows are the values of ``keys``, with the first and the step from one to the next."""
        places = [self.rows.get(key) for key in keys]
        if any(place is None for place in places) or len({place[0] for place in places if place is not None}) != 1:
            return None
        numbers = [place[1] for place in places if place is not None]
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
        if abs(step) != 1 or any(b - a != step for a, b in itertools.pairwise(numbers)):
            return None
        return self.arrays[places[0][0]], numbers[0], step  # type: ignore[index]

    def stacked(self, keys: Sequence[ValueKey]) -> Any:
        """The values of ``keys`` as one array."""
        xp = engine.jax().numpy
        parts = []
        start = 0
        while start < len(keys):
            end = start + 2
            while end <= len(keys) and self.line(keys[start:end]) is not None:
                end += 1
            end -= 1
            line = self.line(keys[start:end]) if end - start > 1 else None
            if line is None:
                parts.append(xp.expand_dims(self.plain(keys[start]), 0))
            else:
                array, first, step = line
                low = min(first, first + step * (end - start - 1))
                part = array[low : low + end - start]
                parts.append(part if step > 0 else xp.flip(part, 0))
            start = end
        if len({(part.shape[1:], part.dtype) for part in parts}) != 1:
            raise NotRolled
        return parts[0] if len(parts) == 1 else xp.concatenate(parts)


def compute(run: lowering.Scope, values: Values, units: Sequence[Unit], each: Callable[[Operation], None]) -> None:
    """Traces ``units``; ``each`` traces a single op."""
    if all(isinstance(unit, Operation) for unit in units):
        for unit in units:
            each(unit)  # type: ignore[arg-type]
        return
    for unit in units:
        known = len(run.context.checks)
        try:
            if isinstance(unit, Sum):
                _sum(run, values, unit)
            elif isinstance(unit, FromShapes):
                _from_shapes(values, unit.op)
            elif isinstance(unit, Pieces):
                _cut(values, unit)
            elif isinstance(unit, Roll):
                _Loop(run, values, unit).compute()
            elif not _move(run, values, unit):
                each(unit)
        except _NOT_TOGETHER:
            if isinstance(unit, Operation):
                raise
            del run.context.checks[known:]
            for op in unit.ops:
                each(op)


def _from_shapes(values: Values, op: Operation) -> None:
    given = [np.broadcast_to(np.zeros((), np.int8), tensor._shape) for tensor in op._inputs]  # type: ignore[arg-type]
    results = kernels.run_on_host(op.definition, given, op._attrs, kernels.HostContext(op))
    values.update(zip(op._outputs, map(np.asarray, results), strict=True))


def _spread(values: Values, keys: Sequence[ValueKey], array: Any, axis: int, size: int) -> None:
    """Keep pieces of ``size`` along ``axis`` as rows; ``size`` 0: elements along it."""
    shape = list(array.shape)
    shape[axis : axis + 1] = [len(keys), size] if size else [len(keys)]
    values.keep(keys, engine.jax().numpy.moveaxis(array.reshape(shape), axis, 0))


def _cut(values: Values, unit: Pieces) -> None:
    array = values.plain(unit.source)
    end = unit.start + len(unit.ops) * unit.size
    if unit.size == 0 or array.shape[unit.axis] < end:
        raise NotRolled
    part = engine.jax().lax.slice_in_dim(array, unit.start, end, axis=unit.axis)
    _spread(values, [op._outputs[0] for op in unit.ops], part, unit.axis, 0 if unit.drops else unit.size)


def _move(run: lowering.Scope, values: Values, op: Operation) -> bool:
    """Traces an op that only takes one array apart, or puts rows together; False if it is not such a one."""
    definition = op.definition
    if definition.role not in (Role.SPLIT, Role.JOIN) or not run.wiring.fed.isdisjoint(op._outputs):
        return False
    keys = [key for key in run.wiring.sources[op] if key is not None]
    stacks = "axis" in op._attrs
    at = definition.input_range("value" if definition.role is Role.SPLIT else "values", op._attrs)
    (axis,) = (
        [op._attrs["axis"]] if stacks else [values[key] for i, key in enumerate(keys) if not at.start <= i < at.stop]
    )
    if definition.role is Role.SPLIT:
        array = values[keys[at.start]]
        count = len(op._outputs)
        if count < LEAST_TERMS or not hasattr(array, "aval") or not (isinstance(axis, int) or np.ndim(axis) == 0):
            return False
        if not isinstance(axis, (int, np.ndarray)) or not -array.ndim <= int(axis) < array.ndim:
            return False
        axis = int(axis) % array.ndim
        length = array.shape[axis]
        if length != count if stacks else not length or length % count:
            return False
        _spread(values, op._outputs, array, axis, 0 if stacks else length // count)
        return True
    joined = keys[at]
    if sum(key in values.rows and not dict.__contains__(values, key) for key in joined) < LEAST_TERMS:
        return False
    if not isinstance(axis, (int, np.ndarray)) or np.ndim(axis):
        return False
    try:
        array = values.stacked(joined)
    except NotRolled:
        return False
    rank = array.ndim - (not stacks)
    if not -rank <= int(axis) < rank:
        return False
    axis = int(axis) % rank
    array = engine.jax().numpy.moveaxis(array, 0, axis)
    if not stacks:
        array = array.reshape(
            (*array.shape[:axis], array.shape[axis] * array.shape[axis + 1], *array.shape[axis + 2 :])
        )
    values[op._outputs[0]] = array
    return True


def _sum(run: lowering.Scope, values: Values, unit: Sum) -> None:
    order = sorted(range(len(unit.right)), key=lambda i: values.rows.get(unit.right[i], (-1, i)))
    term = unit.terms[0]
    factors = []
    for keys in (unit.left, unit.right):
        if keys:
            array = values.stacked([keys[i] for i in order])
            factors.append(array.reshape(-1, array.shape[-1]))
    kernel = term.definition.kernel
    assert kernel is not None
    run.context.op = term
    result = kernel(run.context, factors, term._attrs)
    (values[unit.op._outputs[0]],) = kernels.outputs_of(term.definition, term._attrs, result)


@dataclasses.dataclass
class _Loop:
    """The loop of a roll."""

    run: lowering.Scope
    values: Values
    roll: Roll

    def compute(self) -> None:
        """Traces the loop and takes what it makes for others."""
        roll, values = self.roll, self.values
        xp, lax = engine.jax().numpy, engine.jax().lax
        count = len(roll.blocks)
        self.carried: dict[tuple[Any, ValueKey], int] = {}
        self.lines: dict[tuple[ValueKey, ...], int] = {}
        wiring = {op: tuple(map(self._place, row)) for op, row in zip(roll.blocks[0], roll.sources, strict=True)}
        first = tuple([xp.asarray(values.plain(key)) for _, key in self.carried])
        shared = {
            source.key: values.plain(source.key) for row in roll.sources for source in row if isinstance(source, Shared)
        }
        finals = {place: i for (place, _), i in self.carried.items()}
        late = {place for place, blocks in roll.outside.items() if blocks == [count - 1] and place in finals}
        kept = [place for place in roll.outside if place not in late]
        known: dict[Any, np.ndarray] = {}
        """What follows from shapes, and so is the same in all blocks: whoever takes it may have to know it."""

        def block(carry: Any, rows: Sequence[Any]) -> Any:
            context = copy.copy(self.run.context)
            context.checks = []
            inner: dict[Any, Any] = dict(shared)
            inner.update({("carried", i): value for i, value in enumerate(carry)})
            inner.update({("row", i): value for i, value in enumerate(rows)})
            computation = lowering.Scope(
                lowering.Wiring(wiring, {}), inner, context, lowering.Streams((), None), rank_of=self.run.rank_of
            )
            for op in roll.blocks[0]:
                computation.everything(op, None)
            if context.checks:
                raise NotRolled
            following = tuple([xp.asarray(inner[roll.key(place, 0)]) for place, _ in self.carried])
            made = {place: inner[roll.key(place, 0)] for place in kept}
            known.update({place: value for place, value in made.items() if isinstance(value, np.ndarray)})
            return following, tuple([xp.asarray(value) for place, value in made.items() if place not in known])

        if first:
            lines = [values.line(keys) or (values.stacked(keys), 0, 1) for keys in self.lines]

            def computed(carry: Any, number: Any) -> Any:
                rows = [
                    lax.dynamic_index_in_dim(a, start + step * number, 0, keepdims=False) for a, start, step in lines
                ]
                return block(carry, rows)

            def iteration(state: Any, number: Any) -> Any:
                carry, rows = computed(state[0], number)
                arrays = [
                    lax.dynamic_update_index_in_dim(array, row, number, 0)
                    for array, row in zip(state[1], rows, strict=True)
                ]
                return (carry, arrays), None

            computation = engine.jax().eval_shape(computed, first, np.int32(0))[1]
            (last, rows), _ = lax.scan(
                iteration, (first, [values.room(count, row) for row in computation]), xp.arange(count, dtype=np.int32)
            )
            values.loops.append((count, len(roll.blocks[0])))
        else:
            last, rows = (), engine.jax().vmap(lambda *rows: block((), rows)[1])(*map(values.stacked, self.lines))
        for place, array in zip([place for place in kept if place not in known], rows, strict=True):
            values.keep([roll.key(place, t) for t in range(count)], array)
        for place, value in known.items():
            values.update(dict.fromkeys([roll.key(place, t) for t in range(count)], value))
        for place in late:
            values[roll.key(place, count - 1)] = last[finals[place]]

    def _place(self, source: Source) -> Any:
        """The key of an input within the loop."""
        if source is None:
            return None
        if isinstance(source, Inner):
            return self.roll.key(source.place, 0)
        if isinstance(source, Shared):
            return source.key
        if isinstance(source, Carried):
            return ("carried", self.carried.setdefault((source.place, source.first), len(self.carried)))
        assert isinstance(source, Rows)
        return ("row", self.lines.setdefault(source.keys, len(self.lines)))
