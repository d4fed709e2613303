"""In which order the ops of a segment run: layers of programs and of host ops, and what of them is one wave.

A layer holds ops on the host, or one program for each device, of which none needs another. All programs of a layer are
dispatched before any is waited for: a *wave*. Links between ops are direct where both can be in one program, and cost
a layer where they cannot: from the host to a device and back, from device to device, and before a value that must be
known when its user is compiled.

*One device.* Host ops run as early as they can, and what is compiled as late as its users allow, so that whatever can
be one program is one program and the last one holds the writes.

*Several devices.* As late as possible would keep devices from working at the same time: of two towers of which the
first device adds up the gradients, its own tower would wait for the other's. As early as possible would, too: the
values that the first device hands to the second would come out of the program that holds its own tower. An op that may
run in any of the layers ``a`` to ``b`` runs in the middle. This is an order: along a link neither ``a`` nor ``b``
falls, and where the link costs a layer both rise. Small ops on which no other device waits move on, to where they are
used.

*Several devices as one* (:mod:`anabranch.runtime.plans.replicas`). Such a program keeps all devices at work by itself,
so its ops get as few layers as they can.

*Writes.* Programs that own the buffers of variables are the last of the segment, and nothing that can fail may run
beside or after them. So where several devices write, and a check of one may come as late as a write of another, the
writes, and what follows from them, get a layer of their own: the checks have passed by then. On one device they do if
the host is last: sizes that data decide keep ops there (the different rows of a batch, which `Unique` finds), and a
program before them would copy each table of which it writes a few rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from anabranch.core.graph.operation import Operation
from anabranch.core.values import shapes

SMALL = 1 << 12
"""Elements of an op's results up to which it may move to another layer, so that there is one program less."""
WORTH_OWNING = 1 << 18
"""Elements of a segment's variables from which on it pays to run their writes in programs of their own."""

Links = Mapping[Operation, Sequence[tuple[Operation, bool]]]


class Ordering(NamedTuple):
    """What the order of ops depends on."""

    parents: Links
    """Per op those that it waits for, and whether a value of theirs must be known when it is compiled."""
    children: Links
    on_host: Mapping[Operation, bool]
    apart: Callable[[Operation, Operation, bool], bool]
    """Whether two device ops, of which one waits for the other, must be in different programs."""
    early: Callable[[Operation], bool]
    """Whether an op on the host need not wait for any program."""


class Row(NamedTuple):
    """The ops of one layer."""

    on_host: bool
    ops: list[Operation]


def of_one_device(ops: Sequence[Operation], order: Ordering) -> list[Row]:
    """The layers of ops, in the order of effects, whose programs are all on one device."""
    layer = _earliest(ops, order)
    _move_late(ops, layer, order)
    return _rows(ops, layer, order.on_host)


def of_several_devices(
    ops: Sequence[Operation],
    order: Ordering,
    device: Mapping[Operation, object],
    together: Container[Operation] = (),
) -> list[Row]:
    """The layers of ops, in the order of effects, with programs on several devices.

    Those of ``together`` get as few layers as they can.
    """
    layer = _earliest(ops, order)
    latest = dict(layer)
    _move_late(ops, latest, order)
    gathered = [op for op in ops if op in together]
    if gathered:
        layer = _earliest(ops, order, _fewest(gathered, layer, latest))
        latest = dict(layer)
        _move_late(ops, latest, order, frozenset(ops).difference(gathered))
    for op in ops:
        layer[op] += latest[op]
    groups: dict[tuple[int, object], list[Operation]] = {}
    for op in ops:
        if not order.on_host[op]:
            groups.setdefault((layer[op], device[op]), []).append(op)
    last = max((number for number, _ in groups), default=0)
    small = {op for group in groups.values() if all(map(_is_small, group)) for op in group}
    _move_late(ops, layer, order, small, last, 4, 2)
    return _rows(ops, layer, order.on_host)


def with_writes_last(
    rows: list[Row],
    order: Ordering,
    device: Mapping[Operation, object],
    writers: Container[Operation],
    checks: Callable[[Operation], bool],
) -> list[Row]:
    """The same layers, or such with all writes in the last one, if they could not own their variables otherwise.

    Args:
        rows: layers of programs on several devices.
        order: what the order depends on.
        device: the device of each op.
        writers: ops that replace variables.
        checks: whether an op may fail.
    """
    moving: dict[Operation, None] = {}
    """The writers, and what follows from them."""
    for row in rows:
        for op in row.ops:
            makers = [(maker, static) for maker, static in order.parents[op] if maker in moving]
            if op in writers or makers:
                if row.on_host or any(order.apart(maker, op, static) for maker, static in makers):
                    return rows
                moving[op] = None
    *before, last = rows
    written_on = {device[op] for op in moving}
    hindered = last.on_host or any(
        op not in moving and checks(op) and not written_on.issubset({device[op]}) for op in last.ops
    )
    ends = [op for op in last.ops if op in moving] if hindered else last.ops
    if not hindered and not any(op in moving for row in before for op in row.ops):
        return rows
    if hindered:
        before.append(Row(last.on_host, [op for op in last.ops if op not in moving]))
    earlier = [op for row in rows[:-1] for op in row.ops if op in moving]
    before = [Row(row.on_host, [op for op in row.ops if op not in moving]) for row in before]
    return [*(row for row in before if row.ops), Row(False, [*earlier, *ends])]


def with_writes_behind_host(
    rows: list[Row],
    order: Ordering,
    makers: Callable[[Operation], Sequence[Operation]],
    movable: Callable[[Operation], bool],
) -> list[Row]:
    """The same layers, of one device, or, if the host is last, such with the writes of programs in a last one.

    Args:
        rows: the layers.
        order: what the order depends on.
        makers: what makes the variables that an op replaces.
        movable: whether an op may go with the writes that alone use it.
    """
    if len(rows) < 2 or not rows[-1].on_host:
        return rows
    needed: set[Operation] = set()
    """What the host waits for, and what waits to be known."""
    for row in reversed(rows):
        for op in reversed(row.ops):
            links = order.children[op]
            if row.on_host or any(child in needed or order.apart(op, child, static) for child, static in links):
                needed.add(op)
    moving: dict[Operation, None] = {}
    for row in rows:
        for op in row.ops:
            if op not in needed and (makers(op) or any(maker in moving for maker, _ in order.parents[op])):
                moving[op] = None
    if elements(dict.fromkeys(maker for op in moving for maker in makers(op))) < WORTH_OWNING:
        return rows
    for row in reversed(rows):
        for op in reversed(row.ops):
            users = order.children[op]
            if op not in needed and users and movable(op) and all(child in moving for child, _ in users):
                moving[op] = None
    ends = [op for row in rows for op in row.ops if op in moving]
    before = [Row(row.on_host, [op for op in row.ops if op not in moving]) for row in rows]
    return [*(row for row in before if row.ops), Row(False, ends)]


def _fewest(
    ops: Sequence[Operation], earliest: Mapping[Operation, int], latest: Mapping[Operation, int]
) -> dict[Operation, int]:
    """A layer for each op, not before its first one or behind its last: as few different ones as there can be."""
    chosen: dict[Operation, int] = {}
    left = list(ops)
    while left:
        at = max(earliest[op] for op in left)
        chosen.update({op: at for op in left if latest[op] >= at})
        left = [op for op in left if latest[op] < at]
    return chosen


def _earliest(
    ops: Iterable[Operation], order: Ordering, least: Mapping[Operation, int] = MappingProxyType({})
) -> dict[Operation, int]:
    """The first layer for each op, not before that of ``least``: odd numbers for those on the host, even ones for those
    on devices.
    """
    on_host = order.on_host
    layer: dict[Operation, int] = {}
    for op in ops:
        at = max(least.get(op, -1), (-1 if order.early(op) else 1) if on_host[op] else 0)
        for maker, static in order.parents[op]:
            before = layer[maker]
            if on_host[maker] == on_host[op] and (on_host[op] or not order.apart(maker, op, static)):
                at = max(at, before)
            elif on_host[op] or on_host[maker]:
                at = max(at, before + 1)
            else:
                at = max(at, before + 2)
        layer[op] = at
    return layer


def _move_late(
    ops: Sequence[Operation],
    layer: dict[Operation, int],
    order: Ordering,
    movable: Container[Operation] | None = None,
    last: int | None = None,
    apart: int = 2,
    to_host: int = 1,
) -> None:
    """Move device ops (those of ``movable``, if given) to the last layer that their users allow.

    ``apart`` and ``to_host`` are by how much programs that cannot be one, and a program and the host, differ.
    """
    on_host = order.on_host
    if last is None:
        last = max((number for op, number in layer.items() if not on_host[op]), default=0)
    for op in reversed(ops):
        if on_host[op] or (movable is not None and op not in movable):
            continue
        at = last
        for child, static in order.children[op]:
            if child not in layer:
                continue  # it waits for the end
            after = layer[child]
            at = min(
                at, after - to_host if on_host[child] else after - apart if order.apart(op, child, static) else after
            )
        layer[op] = max(layer[op], at)


def _rows(ops: Iterable[Operation], layer: Mapping[Operation, int], on_host: Mapping[Operation, bool]) -> list[Row]:
    """Layers in order; of two with one number, programs come before the host, which works beside them."""
    numbered: dict[tuple[int, bool], list[Operation]] = {}
    for op in ops:
        numbered.setdefault((layer[op], on_host[op]), []).append(op)
    return [Row(host, numbered[number, host]) for number, host in sorted(numbered)]


def _is_small(op: Operation) -> bool:
    """Whether an op is not worth a program of its own."""
    if op.definition.flops is not None or op.definition.effect.kind in ("body", "random", "write"):
        return False
    sizes = [shapes.num_elements(output._shape) for output in op._outputs]
    return all(size is not None and size <= SMALL for size in sizes)


def elements(makers: Iterable[Operation]) -> float:
    """How many elements variables have; infinitely many if a shape is not known."""
    return sum(math.inf if (size := shapes.num_elements(maker._attrs["shape"])) is None else size for maker in makers)
