"""Which operations a step needs, in which order their effects happen, and which version of a variable each sees.

*Order.* Effects run in the lexicographically smallest topological order by creation index.

*Segments.* An op that acts on a channel ends a segment and the next one begins after it. An effect belongs to the
segment of its place in the order; anything else to the earliest segment in which its inputs exist.

*Versions.* The writes of one variable form a chain in effect order. A read, and an op that takes a ref edge where it
wants a value, sees the chain up to the last write that reaches it by data or control edges, hence no write that
merely happens in the same step. An ``Identity`` of a ref without control inputs (``w/read``) is transparent: the
value is read where *its* consumers stand, so an op under ``control_dependencies([assign])`` sees the assigned value
although ``w/read`` is older. A fetched ref is read after all writes of the step.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.operation import Operation, Tensor
from anabranch.core.state_key import StateKey


class OpState(NamedTuple):
    """State that an op touches: per flat input position the version read; and the versions that it makes."""

    reads: dict[int, StateKey]
    writes: tuple[StateKey, ...]


_NO_STATE = OpState({}, ())


class Analysis:
    """The result: ops in effect order with segments and versions."""

    def __init__(self, resource_of: Callable[[Operation], Any]) -> None:
        self.order: list[Operation] = []
        self.position: dict[Operation, int] = {}
        self.segment: dict[Operation, int] = {}
        self.state: dict[Operation, OpState] = {}
        self.channels: list[Operation] = []
        """Channel ops in order; channel ``i`` runs between segments ``i`` and ``i + 1``."""
        self.writes: list[dict[Operation, int]] = []
        """Per segment: maker -> number of writes."""
        self._resource_of = resource_of
        self._representative: dict[Any, Operation] = {}

    @property
    def segments(self) -> int:
        return len(self.channels) + 1

    def variable(self, tensor: Tensor) -> Operation:
        """The op that stands for the variable behind a handle: one for all that name the same resource."""
        maker = maker_of(tensor)
        return self._representative.setdefault(self._resource_of(maker), maker)

    def state_of(self, op: Operation) -> OpState:
        return self.state.get(op, _NO_STATE)


def is_transparent_read(op: Operation, fed: frozenset[Tensor]) -> bool:
    """Whether ``op`` is a positionless read of a ref (``w/read``)."""
    return op.type == "Identity" and not op._control_inputs and op._inputs[0].dtype.is_ref and op._inputs[0] not in fed


def maker_of(tensor: Tensor) -> Operation:
    """The op that makes the handle that a ref or resource tensor carries.

    Raises:
        UnimplementedError: the handle is computed in a way that is not known when the step is planned.
    """
    seen = tensor
    while True:
        op = seen.op
        if op.definition.makes is not None:
            return op
        if op.definition.effect.kind == "write" and seen.dtype.is_ref:
            seen = op._inputs[op.definition.resource_positions(op._attrs)[0]]
        elif op.type in ("Identity", "RefIdentity", "DeepCopy", "StopGradient") and op._inputs:
            seen = op._inputs[0]
        else:
            raise errors.UnimplementedError(
                None,
                op,
                errors.message(
                    f"the handle {tensor.name!r} that comes out of op {op.name!r} ({op.type})",
                    "a handle that leads to the op that makes it",
                    "pass the variable or queue itself",
                ),
            )


def needed_ops(fetches: Iterable[Operation], fed: frozenset[Tensor]) -> set[Operation]:
    """Operations that must run for ``fetches``, given that ``fed`` tensors have values."""
    needed: set[Operation] = set()
    stack = list(fetches)
    while stack:
        op = stack.pop()
        if op in needed:
            continue
        needed.add(op)
        for tensor in op._inputs:
            if tensor in fed:
                continue
            source = tensor.op
            if is_transparent_read(source, fed):
                source = source._inputs[0].op  # the reader takes the value itself; w/read need not run
            if source not in needed:
                stack.append(source)
        stack.extend(control for control in op._control_inputs if control not in needed)
    return needed


def _parents(op: Operation, fed: frozenset[Tensor], needed: set[Operation]) -> list[Operation]:
    found = [tensor.op for tensor in op._inputs if tensor not in fed and tensor.op in needed]
    for tensor in op._inputs:
        if tensor not in fed and is_transparent_read(tensor.op, fed):
            found.append(tensor.op._inputs[0].op)
    return found + op._control_inputs


def topological_order(needed: set[Operation], fed: frozenset[Tensor]) -> list[Operation]:
    """The lexicographically smallest topological order by creation index."""
    by_id = sorted(needed, key=lambda op: op._id)
    if all(parent._id < op._id for op in by_id for parent in _parents(op, fed, needed)):
        return by_id
    waiting = {op: len(set(_parents(op, fed, needed))) for op in by_id}
    children: dict[Operation, list[Operation]] = {op: [] for op in by_id}
    for op in by_id:
        for parent in set(_parents(op, fed, needed)):
            children[parent].append(op)
    heap = [(op._id, op) for op in by_id if not waiting[op]]
    heapq.heapify(heap)
    order = []
    while heap:
        _, op = heapq.heappop(heap)
        order.append(op)
        for child in children[op]:
            waiting[child] -= 1
            if not waiting[child]:
                heapq.heappush(heap, (child._id, child))
    if len(order) != len(by_id):
        stuck = [op for op in by_id if op not in set(order)]
        raise errors.InvalidArgumentError(
            None,
            stuck[0],
            errors.message(
                f"a cycle through {', '.join(repr(op.name) for op in stuck[:5])}",
                "a graph without cycles outside of loops",
                "use tf.while_loop, or remove the control input that closes the cycle",
            ),
        )
    return order


def analyse(fetches: Sequence[Operation], fed: frozenset[Tensor], resource_of: Callable[[Operation], Any]) -> Analysis:
    """Orders the ops that ``fetches`` need and resolves state. ``resource_of`` says which resource is whose."""
    result = Analysis(resource_of)
    needed = needed_ops(fetches, fed)
    result.order = topological_order(needed, fed)
    result.position = {op: i for i, op in enumerate(result.order)}

    # Segments: effects by their place in the order, everything else as early as its inputs allow.
    passed = 0
    for op in result.order:
        kind = op.definition.effect.kind
        level = 0
        for parent in _parents(op, fed, needed):
            before = result.segment[parent]
            level = max(level, before + 1 if parent.definition.effect.kind == "channel" else before)
        if kind == "channel":
            result.segment[op] = passed
            result.channels.append(op)
            passed += 1
        else:
            result.segment[op] = passed if kind in ("write", "random", "io") else level
    result.writes = [{} for _ in range(passed + 1)]

    # Versions: which writes (as a bit set over the writes so far) reach each op.
    write_ops: list[Operation] = []
    bit: dict[Operation, int] = {}
    reach: dict[Operation, int] = {}
    chain: dict[Operation, list[tuple[Operation, StateKey]]] = {}
    for op in result.order:
        mask = 0
        for parent in _parents(op, fed, needed):
            mask |= reach[parent] | bit.get(parent, 0)
        reach[op] = mask
        definition = op.definition
        effect = definition.effect
        segment = result.segment[op]
        owned = (
            definition.resource_positions(op._attrs) if effect.resources and effect.kind in ("read", "write") else ()
        )
        reads: dict[int, StateKey] = {}

        def seen(maker: Operation, mask: int = mask, segment: int = segment) -> StateKey:
            for writer, key in reversed(chain.get(maker, ())):
                if mask & bit[writer]:
                    return key if key.segment == segment else StateKey(maker, segment, 0)
            return StateKey(maker, segment, 0)

        for position, tensor in enumerate(op._inputs):
            if tensor in fed or position in owned:
                continue
            source = tensor
            if is_transparent_read(tensor.op, fed):
                source = tensor.op._inputs[0]
            if source.dtype.is_ref and _wants_value(op) and maker_of(source).definition.makes == "variable":
                reads[position] = seen(result.variable(source))
        made: list[StateKey] = []
        if owned:
            for position in owned:
                maker = result.variable(op._inputs[position])
                if effect.kind == "read":
                    reads[position] = seen(maker)
                    continue
                count = result.writes[segment].get(maker, 0)
                if effect.reads:
                    reads[position] = StateKey(maker, segment, count)
                result.writes[segment][maker] = count + 1
                made.append(StateKey(maker, segment, count + 1))
            if effect.kind == "write":
                bit[op] = 1 << len(write_ops)
                write_ops.append(op)
                for key in made:
                    chain.setdefault(key.maker, []).append((op, key))
        if reads or made:
            result.state[op] = OpState(reads, tuple(made))
    return result


def _wants_value(op: Operation) -> bool:
    """Whether ref edges into ``op`` that its effect does not name are read as values."""
    return op.definition.makes is None and op.definition.effect.kind != "channel"
