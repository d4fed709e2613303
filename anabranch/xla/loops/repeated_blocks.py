"""Blocks of ops that a graph repeats, each taking what the one before it made: a network unrolled over time.

Python loops over cells are how most recurrent networks were written, and so are their gradients: thousands of ops, of
which XLA would compile each for itself. Here the repetition is found again, from types, attributes and wiring alone, so
that a program has one block and a loop (:mod:`anabranch.xla.loops.rolled_blocks`).

A run of blocks is a *roll* if each block's ops take, position by position, what is made in the same block, what the
block before it made (*carried*), what is the same for all (*shared*), or what comes from outside, one value for each
block (*rows*). Nothing in a block may write, draw random numbers or have bodies. Versions of variables may be shared,
but are no rows: stacking them would copy them in each step.

Sums of many products or biases' gradients, one from each block, are *sums* that are computed as one product of all
factors; the blocks then only make the factors. What stands between loops is not many ops either: slices of one tensor
are its *pieces*, and an op that is applied to many pieces, or to what all blocks made, is a roll that carries nothing.
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.core.contract import opdef
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values import dtypes, shapes
from anabranch.ops.array import slice_regions
from anabranch.xla import known_values
from anabranch.xla.loops.units import (
    Carried,
    FromShapes,
    Inner,
    Pieces,
    PlaceInBlock,
    Roll,
    Rows,
    Shared,
    Source,
    Sum,
    Unit,
)

LEAST_BLOCKS = 4
LEAST_SAVED = 100
"""How many ops a roll must spare."""
LEAST_OPS = 3
"""Of a block."""
LONGEST_BLOCK = 2048
LEAST_TERMS = 8
_CANDIDATES = 24
"""How many periods are looked at in one stretch of ops."""

Sources = Mapping[Operation, tuple[ValueKey | None, ...]]


def find(
    ops: Sequence[Operation],
    sources: Sources,
    writes: Mapping[Operation, Any],
    kept: frozenset[ValueKey],
    fed: frozenset[Tensor] = frozenset(),
) -> list[Unit]:
    """``ops`` in an order in which they can be computed, with what repeats as rolls and sums.

    Args:
        ops: in an order in which they can be computed.
        sources: where each op's inputs come from.
        writes: the versions that ops make, if any.
        kept: values that others than ``ops`` use.
        fed: outputs whose values come from the caller, whatever their ops compute.
    """
    if len(ops) < LEAST_SAVED:
        return list(ops)
    takers: dict[ValueKey, list[Operation]] = collections.defaultdict(list)
    for op in ops:
        for key in sources[op]:
            if key is not None:
                takers[key].append(op)
    sums = [total for op in ops if (total := _sum_of(op, sources, takers, kept)) is not None]
    shape_ops = [FromShapes(op) for op in ops if _follows_from_shapes(op) and fed.isdisjoint(op._outputs)]
    terms = {term for one in sums for term in one.terms}
    apart = terms.union((one.op for one in sums), (one.op for one in shape_ops))
    # What random ops draw are rows: none of them is in a block.
    apart.update(op for op in ops if op.role is Role.CONSTANT or op.definition.effect.kind == "random")
    sequence = [op for op in ops if op not in apart]
    singular = _singular(sequence, sources)
    sequence = [op for op in sequence if op not in singular]
    search = _Search(sequence, sources, writes, takers, kept, fed)
    rolls = search.rolls()
    while rolls:
        apart = terms.union((op for roll in rolls for op in roll.ops), (one.op for one in shape_ops))
        pieces = _pieces([op for op in (*sequence, *singular) if op not in apart], sources, fed)
        apart.update(op for one in pieces for op in one.ops)
        maps = _maps([op for op in sequence if op not in apart], rolls, pieces, search)
        apart.update(op for one in maps for op in one.ops)
        rest = [op for op in ops if op not in apart]
        order = _ordered(rest, [*rolls, *pieces, *maps, *shape_ops], sums, sources, writes)
        if order is not None:
            return order
        rolls.pop()  # it needs, on the way, what is made from what it makes
    return list(ops)


# ----------------------------------------------------------------------------------------------------------------- sums
def _sum_of(
    op: Operation, sources: Sources, takers: Mapping[ValueKey, list[Operation]], kept: frozenset[ValueKey]
) -> Sum | None:
    if op.definition.symbol != "+" or len(op._inputs) < LEAST_TERMS:
        return None
    terms = []
    for key in sources[op]:
        if not isinstance(key, Tensor) or key in kept or len(takers[key]) != 1:
            return None
        terms.append(key.op)
    definition = terms[0].definition
    if definition.factors is None or any(term.definition is not definition or term not in sources for term in terms):
        return None
    factors_of_terms = {definition.factors(term._attrs) for term in terms}
    factors = factors_of_terms.pop()
    if factors_of_terms or factors is None:
        return None
    keys = [[_known(sources[term][position]) for term in terms] for position in factors]
    if len(keys) == 1:
        return Sum(op, terms, [], keys[0])
    if op._outputs[0].dtype.base.np is None or op._outputs[0].dtype.base.np.kind != "f":
        return None
    return Sum(op, terms, *keys) if all(_pays(term) for term in terms) else None


def _known(key: ValueKey | None) -> ValueKey:
    assert key is not None
    return key


def _pays(term: Operation) -> bool:
    """Whether the factors of a product take less memory than the product."""
    a, b = (tensor._shape for tensor in term._inputs)
    if not shapes.is_static(a) or not shapes.is_static(b):
        return True  # a large batch of small products: putting factors together costs what reading them costs
    assert a is not None
    assert b is not None
    return a[1] * b[1] > a[0] * (a[1] + b[1])  # type: ignore[operator]


# ---------------------------------------------------------------------------------------------------------------- rolls
class _Search:
    def __init__(
        self,
        sequence: Sequence[Operation],
        sources: Sources,
        writes: Mapping[Operation, Any],
        takers: Mapping[ValueKey, list[Operation]],
        kept: frozenset[ValueKey],
        fed: frozenset[Tensor],
    ):
        self.sequence = sequence
        self.sources = sources
        self.takers = takers
        self.kept = kept
        numbers: dict[Any, int] = {}
        flat = []
        for i, op in enumerate(sequence):
            if _may_repeat(op, writes) and fed.isdisjoint(op._outputs):
                form = _signature(op), _known_operands(op, sources)
                flat.append(numbers.setdefault(form, len(numbers)))
            else:
                flat.append(-1 - i)
        self.numbers = np.array(flat, np.int64)

    def rolls(self) -> list[Roll]:
        """Rolls that do not overlap, those that spare most first."""
        rolls = []
        stretches = [(0, len(self.sequence))]
        while stretches:
            low, high = stretches.pop()
            best = self._best(low, high)
            if best is not None:
                roll, start, end = best
                rolls.append(roll)
                stretches += [(low, start), (end, high)]
        return sorted(rolls, key=lambda roll: -roll.saved)

    def _best(self, low: int, high: int) -> tuple[Roll, int, int] | None:
        candidates = sorted(self._candidates(low, high))
        best: tuple[Roll, int, int] | None = None
        for _, period, start, length in candidates[:_CANDIDATES]:
            if best is not None and best[0].saved >= (length // period) * period * 0.7:
                break
            free = length % period
            for shift in sorted({0, *np.linspace(0, free, 6).astype(int).tolist()}):
                candidate = self._verified(start + shift, period, (length - shift) // period + 1)
                if candidate is not None and (best is None or candidate[0].saved > best[0].saved):
                    best = candidate
        return best

    def _candidates(self, low: int, high: int) -> Iterator[tuple[int, int, int, int]]:
        """Stretches in which ops repeat: ops spared (negative), period, start and length."""
        numbers = self.numbers[low:high]
        count = len(numbers)
        for period in range(LEAST_OPS, min(LONGEST_BLOCK, count // LEAST_BLOCKS) + 1):
            equal = numbers[:-period] == numbers[period:]
            if np.count_nonzero(equal) < LEAST_SAVED:
                continue
            ends = np.flatnonzero(np.concatenate([[True], ~equal, [True]]))
            lengths = np.diff(ends) - 1
            at = int(np.argmax(lengths))
            length = int(lengths[at])
            spared = length // period * period
            if spared >= LEAST_SAVED and length // period + 1 >= LEAST_BLOCKS:
                yield -spared, period, low + int(ends[at]), length

    def _verified(self, start: int, period: int, count: int) -> tuple[Roll, int, int] | None:
        """The longest run of blocks, from those that look alike, that are wired alike."""
        blocks = [list(self.sequence[start + t * period : start + (t + 1) * period]) for t in range(count)]
        place = {op: (t, j) for t, block in enumerate(blocks) for j, op in enumerate(block)}
        wiring = [
            [self._wired(key, t, place) for op in block for key in self.sources[op]] for t, block in enumerate(blocks)
        ]
        best = (0, 0)
        first = 0
        for t in range(1, count + 1):
            if t < count and (t == first + 1 or wiring[t] == wiring[t - 1]) and _follows(wiring[first], wiring[t]):
                continue
            best = max(best, (t - first, -first))
            # The block before this one may be the first of the next run: it need not be wired as those that follow.
            first = t if t == count or not _follows(wiring[t - 1], wiring[t]) else t - 1
        length, first = best[0], -best[1]
        if length < LEAST_BLOCKS or (length - 1) * period < LEAST_SAVED:
            return None
        roll = self.roll_of(blocks[first : first + length])
        if roll is not None and not any(isinstance(source, Carried) for row in roll.sources for source in row):
            return None
        return None if roll is None else (roll, start + first * period, start + (first + length) * period)

    def mapped(self, ops: Sequence[Operation]) -> Roll | None:
        """The roll of blocks of one op, none of which takes what another makes."""
        outputs = {output for op in ops for output in op._outputs}
        if any(key in outputs for op in ops for key in self.sources[op]):
            return None
        return self.roll_of([[op] for op in ops])

    def _wired(self, key: ValueKey | None, t: int, place: Mapping[Operation, tuple[int, int]]) -> Any:
        if not isinstance(key, Tensor):
            return "outside"
        at = place.get(key.op)
        if at is None:
            return "outside"
        if at[0] == t:
            return ("inner", at[1], key.op._outputs.index(key))
        if at[0] == t - 1:
            return ("carried", at[1], key.op._outputs.index(key))
        return "far"

    def roll_of(self, blocks: list[list[Operation]]) -> Roll | None:
        """The roll of blocks that are wired alike; None if it cannot be one loop."""
        place = {op: (t, j) for t, block in enumerate(blocks) for j, op in enumerate(block)}
        rows: list[list[Source]] = []
        for j, op in enumerate(blocks[0]):
            row: list[Source] = []
            for q in range(len(self.sources[op])):
                keys = [self.sources[block[j]][q] for block in blocks]
                second = self._wired(keys[1], 1, place)
                if second[0] == "inner":
                    row.append(Inner(second[1:]))
                elif second[0] == "carried":
                    row.append(Carried(second[1:], _known(keys[0])))
                else:
                    source = self._outside(keys)
                    if source is None:
                        return None
                    row.append(source)
            rows.append(row)
        inside = set(place)
        outside: dict[PlaceInBlock, list[int]] = {}
        for t, block in enumerate(blocks):
            for j, op in enumerate(block):
                for o, output in enumerate(op._outputs):
                    if output in self.kept or not inside.issuperset(self.takers.get(output, ())):
                        outside.setdefault((j, o), []).append(t)
        return Roll(blocks, rows, outside)

    def _is_variable(self, key: ValueKey | None) -> bool:
        """Whether a value is what a variable holds, perhaps in another dtype."""
        while isinstance(key, Tensor) and _has_value_of_source(key.op.definition):
            key = self.sources.get(key.op, (None,))[-1]
        return isinstance(key, StateKey)

    def _outside(self, keys: Sequence[ValueKey | None]) -> Source:
        """Where inputs come from that no block makes; None if they cannot be had in a loop."""
        if all(key is not None and key == keys[0] for key in keys):
            return Shared(_known(keys[0]))
        tensors = [key for key in keys if isinstance(key, Tensor)]
        if len(tensors) != len(keys):
            return None
        if all(tensor.op.role is Role.CONSTANT for tensor in tensors):
            value = opdef.attr_key(tensors[0].op._attrs["value"])
            if all(opdef.attr_key(tensor.op._attrs["value"]) == value for tensor in tensors):
                return Shared(tensors[0])
        if any(self._is_variable(tensor) for tensor in tensors):
            return None
        return Rows(tuple(tensors))


def _follows(first: list[Any], later: list[Any]) -> bool:
    """Whether a block that is wired as ``first`` may come before blocks that are wired as ``later``."""
    return all(
        one == other if other[0] == "inner" else one[0] != "inner" and other != "far"
        for one, other in zip(first, later, strict=True)
    )


def _has_value_of_source(definition: OpDefinition) -> bool:
    """Whether an op gives what it takes, perhaps in another dtype."""
    return definition.passes is not None or definition.role is Role.CAST


def _follows_from_shapes(op: Operation) -> bool:
    return (
        op.definition.shape_only
        and known_values.folds(op)
        and all(shapes.is_static(tensor._shape) and _numeric(tensor) for tensor in op._inputs)
    )


def _may_repeat(op: Operation, writes: Mapping[Operation, Any]) -> bool:
    definition = op.definition
    return (
        definition.effect.kind == "pure"
        and not writes.get(op)
        and (known_values.folds(op) if definition.data_dependent_shape else definition.kernel is not None)
        and all(not tensor.dtype.is_ref and _numeric(tensor) for tensor in (*op._inputs, *op._outputs))
    )


def _numeric(tensor: Tensor) -> bool:
    base = tensor.dtype.base
    return not base.host_only and base not in (dtypes.variant, dtypes.resource)


def _signature(op: Operation) -> Any:
    attrs = tuple([(name, opdef.attr_key(value)) for name, value in sorted(op._attrs.items()) if name[:1] != "_"])
    return (op.type, op.definition.version, attrs, len(op._inputs), tuple([output._shape for output in op._outputs]))


def _is_constant(key: ValueKey | None) -> bool:
    return isinstance(key, Tensor) and key.op.role is Role.CONSTANT


def _known_operands(op: Operation, sources: Sources) -> tuple[Any, ...]:
    """The constants among what must be known when an op is compiled: no loop can give it one for each block."""
    found: list[Any] = []
    for name in op.definition.compile_time:
        for key in sources[op][op.definition.input_range(name, op._attrs)]:
            if isinstance(key, Tensor) and _is_constant(key):
                found.append(opdef.attr_key(key.op._attrs["value"]))
    return tuple(found)


def _singular(ops: Sequence[Operation], sources: Sources) -> dict[Operation, None]:
    """Ops that are like many others but for the constants that they must know: the slices of a sequence, step by step.

    They stand between the blocks that use them; what they give are rows.
    """
    forms: dict[Any, dict[Any, list[Operation]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for op in ops:
        known = _known_operands(op, sources)
        if known:
            forms[_signature(op)][known].append(op)
    return {
        op: None
        for alike in forms.values()
        if sum(map(len, alike.values())) >= LEAST_BLOCKS
        for same in alike.values()
        if len(same) < LEAST_BLOCKS
        for op in same
    }


# --------------------------------------------------------------------------------------------------------- between them
def _pieces(ops: Sequence[Operation], sources: Sources, fed: frozenset[Tensor]) -> list[Pieces]:
    """Slices of one tensor by constants, a row of them."""
    groups: dict[Any, list[tuple[tuple[int, ...], Operation]]] = collections.defaultdict(list)
    for op in ops:
        window = _window(op, sources) if fed.isdisjoint(op._outputs) else None
        if window is not None:
            begin, size, shrunk = window
            groups[sources[op][0], size, shrunk].append((begin, op))
    pieces = []
    for (source, size, shrunk), members in groups.items():
        members.sort(key=lambda member: member[0])
        begins = np.array([begin for begin, _ in members])
        steps = np.diff(begins, axis=0)
        if len(members) < LEAST_TERMS or not steps.size or (steps != steps[0]).any() or np.count_nonzero(steps[0]) != 1:
            continue
        axis = int(np.flatnonzero(steps[0])[0])
        others = np.delete(begins[0], axis)
        if steps[0][axis] != size[axis] or others.any() or not _whole(source._shape, size, axis):
            continue
        if shrunk in ((), (axis,)):
            start = int(begins[0][axis])
            pieces.append(Pieces([op for _, op in members], source, axis, start, size[axis], bool(shrunk)))
    return pieces


def _window(op: Operation, sources: Sources) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """What a slice by constants takes of a tensor: begins, sizes (-1: all that is left), dimensions that go away."""
    if op.role not in (Role.WINDOW, Role.SUBSCRIPT):
        return None
    source, *places = sources[op]
    values = [key.op._attrs["value"].tolist() for key in places if isinstance(key, Tensor) and _is_constant(key)]
    if not isinstance(source, Tensor) or source._shape is None or not _numeric(source) or len(values) < len(places):
        return None
    if op.role is Role.WINDOW:
        begin, size = values
        return tuple(begin), tuple(size), ()
    try:
        begin, end, strides = values
        resolved = slice_regions.resolve(len(source._shape), begin, end, strides, op._attrs)
    except slice_regions.BadSlice:
        return None
    begins, sizes, shrunk = [], [], []
    for dim, entry in enumerate(resolved.entries):
        if entry.whole_masks:
            begins.append(0)
            sizes.append(-1)
        elif entry.begin is None or entry.begin < 0 or entry.begin_masked or entry.end_masked:
            return None
        else:
            end = entry.begin + 1 if entry.shrink else entry.end
            if end is None or end <= entry.begin:
                return None
            begins.append(entry.begin)
            sizes.append(end - entry.begin)
            shrunk += [dim] if entry.shrink else []
    if -1 in resolved.layout or any(entry.stride != 1 for entry in resolved.entries):
        return None
    return tuple(begins), tuple(sizes), tuple(shrunk)


def _whole(shape: Any, size: Sequence[int], axis: int) -> bool:
    """Whether slices of ``size`` take all of a tensor of ``shape`` but along ``axis``."""
    return shape is not None and all(
        i == axis or wanted == -1 or wanted == dim for i, (dim, wanted) in enumerate(zip(shape, size, strict=True))
    )


def _maps(ops: Sequence[Operation], rolls: Sequence[Roll], pieces: Sequence[Pieces], search: _Search) -> list[Roll]:
    """Ops that are applied to each of many pieces, or to what all blocks made."""
    family: dict[ValueKey, Any] = {}
    for roll in rolls:
        for outside in roll.outside:
            family.update({roll.key(outside, t): (roll, outside) for t in range(len(roll.blocks))})
    for one in pieces:
        family.update({op._outputs[0]: one for op in one.ops})
    for op in ops:
        if op.role is Role.SPLIT and len(op._outputs) >= LEAST_TERMS:
            family.update(dict.fromkeys(op._outputs, op))
    maps: list[Roll] = []
    number = {op: search.numbers[i] for i, op in enumerate(search.sequence)}
    waiting = list(ops)
    while True:
        groups: dict[Any, list[Operation]] = collections.defaultdict(list)
        for op in waiting:
            of = [family[key] for key in search.sources[op] if key in family]
            if len(of) == 1 and number[op] >= 0:
                groups[number[op], of[0], len(op._outputs)].append(op)
        mapped = [search.mapped(group) for group in groups.values() if len(group) >= LEAST_TERMS]
        new = [roll for roll in mapped if roll is not None]
        if not new:
            return maps
        maps += new
        taken = {op for roll in new for op in roll.ops}
        waiting = [op for op in waiting if op not in taken]
        for roll in new:
            for o in range(len(roll.blocks[0][0]._outputs)):
                family.update({roll.key((0, o), t): (roll, o) for t in range(len(roll.blocks))})


# ---------------------------------------------------------------------------------------------------------------- order
def _ops_of(unit: Unit) -> Iterator[Operation]:
    if isinstance(unit, (Roll, Pieces)):
        yield from unit.ops
    else:
        yield unit if isinstance(unit, Operation) else unit.op


def _ordered(
    ops: Sequence[Operation],
    rolls: Sequence[Unit],
    sums: Sequence[Sum],
    sources: Sources,
    writes: Mapping[Operation, Any],
) -> list[Unit] | None:
    """All in an order in which they can be computed, close to the given one; None if there is none."""
    summed = {one.op: one for one in sums}
    units: list[Unit] = [*(summed.get(op, op) for op in ops), *rolls]
    maker: dict[ValueKey, int] = {}
    needs: list[list[ValueKey]] = []
    for i, unit in enumerate(units):
        if isinstance(unit, Operation):
            needs.append([key for key in sources[unit] if key is not None])
            outputs: list[ValueKey] = [*unit._outputs, *writes.get(unit, ())]
        else:
            needs.append(list(unit.needs()))
            outputs = [output for op in _ops_of(unit) for output in op._outputs]
        maker.update(dict.fromkeys(outputs, i))
    position = {op: i for i, op in enumerate(sources)}
    last = [max(position[op] for op in _ops_of(unit)) for unit in units]
    waits: list[set[int]] = [{maker[key] for key in keys if key in maker} for keys in needs]
    followers: list[list[int]] = [[] for _ in units]
    for i, before in enumerate(waits):
        for other in before:
            followers[other].append(i)
    ready = [(last[i], i) for i, before in enumerate(waits) if not before]
    heapq.heapify(ready)
    ordered: list[Unit] = []
    while ready:
        _, i = heapq.heappop(ready)
        ordered.append(units[i])
        for other in followers[i]:
            waits[other].discard(i)
            if not waits[other]:
                heapq.heappush(ready, (last[other], other))
    return ordered if len(ordered) == len(units) else None
