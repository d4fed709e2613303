"""Which operations a step needs, what makes the handle behind a tensor, and the order of execution.

Everything here works on one body at a time: the root, or a nested body whose arguments are taken as given. Handles
are followed out of a body through its arguments to the op that makes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from anabranch.core import errors
from anabranch.core.contract.roles import Role
from anabranch.core.graph import passing
from anabranch.core.graph.body_ops import bodies_of, is_invariant, outer_of, passes_through
from anabranch.core.graph.operation import Operation, Tensor


def is_transparent_read(op: Operation, fed: frozenset[Tensor]) -> bool:
    """Whether ``op`` is a positionless read of a ref (``w/read``)."""
    return passing.is_transparent_read(op) and op._inputs[0] not in fed


def maker_of(tensor: Tensor) -> Operation:
    """The op that makes the handle that a ref or resource tensor carries.

    Raises:
        UnimplementedError: the handle is computed in a way that is not known when the step is planned.
    """
    maker, seen = followed(tensor)
    if maker is None:
        last = seen.op
        raise errors.UnimplementedError(
            None,
            last,
            errors.message(
                f"the handle {tensor.name!r} that comes out of op {last.name!r} ({last.type})",
                "a handle that leads to the op that makes it",
                "pass the variable or queue itself",
            ),
        )
    return maker


def known_maker_of(tensor: Tensor) -> Operation | None:
    """The same; None for a handle that a step computes (of an iterator that a string names)."""
    return followed(tensor)[0]


def followed(tensor: Tensor) -> tuple[Operation | None, Tensor]:
    """The maker of a handle, or None, and the tensor at which it was looked for last."""
    seen = tensor
    calls: list[Operation] = []  # those whose functions are looked into; several may call one
    while True:
        op = seen.op
        if op.definition.makes is not None:
            return op, seen
        if op.role is Role.CALL:
            calls.append(op)
            seen = bodies_of(op)[0].body.outputs[seen.value_index]
            continue
        if op.role is Role.LOOP and passes_through(op._attrs["body"], seen.value_index):
            seen = op._inputs[seen.value_index]
            continue
        if op.role is Role.ARGUMENT and calls:
            called = bodies_of(calls[-1])[0]
            if called.body is op.body:
                seen = calls.pop()._inputs[called.first + op._attrs["index"]]
                continue
        outer = outer_of(seen) if op.role is Role.ARGUMENT and is_invariant(seen) else None
        if outer is not None:
            seen = outer
            continue
        if op.definition.effect.kind == "write" and seen.dtype.is_ref:
            seen = op._inputs[op.definition.resource_positions(op._attrs)[0]]
        elif (source := passing.passed(seen)) is not None:
            seen = source
        else:
            return None, seen


def owned_by(op: Operation, position: int) -> Operation:
    """The maker of the resource that an op reads or writes.

    Raises:
        InvalidArgumentError: it makes something else than the op is for.
    """
    maker = maker_of(op._inputs[position])
    wanted = op.definition.effect.of
    if wanted and maker.definition.makes != wanted:
        kind = (maker.definition.makes or "resource").replace("_", " ")
        raise errors.InvalidArgumentError(
            None,
            op,
            errors.message(
                f"{maker.name!r} ({maker.type}), a {kind}, for {op.name!r} ({op.type})",
                f"a {wanted.replace('_', ' ')}",
                f"pass the handle of a {wanted.replace('_', ' ')}",
            ),
        )
    return maker


def needed_ops(fetches: Iterable[Operation], fed: frozenset[Tensor]) -> set[Operation]:
    """Operations that must run for ``fetches``, given that ``fed`` tensors have values.

    The gradients of an op stand behind a gate that waits for all of them. Those of operands that nobody asks about (the
    values of a sparse matrix that is fed) are left out if all that they take only computes.
    """
    needed: set[Operation] = set()
    spared: dict[Operation, None] = {}
    _need(list(fetches), fed, needed, spared)
    while spared:
        op = next(iter(spared))
        del spared[op]
        if op not in needed and not _only_computes(op, fed, needed):
            _need([op], fed, needed, spared)
    return needed


def _need(
    stack: list[Operation], fed: frozenset[Tensor], needed: set[Operation], spared: dict[Operation, None]
) -> None:
    """Add what ops need; ``spared`` takes what only gates of gradients wait for."""
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
            if source not in needed and source.role is not Role.ARGUMENT:
                stack.append(source)
        controls = [control for control in controls_of(op) if control not in needed]
        if controls and _is_gate(op):
            spared.update(dict.fromkeys(controls))
        else:
            stack.extend(controls)


def _is_gate(op: Operation) -> bool:
    """Whether an op only keeps the gradients of one op back until all are there."""
    if op.role is not Role.ORDERING or op._inputs or op.original is None:
        return False
    controls = set(op._control_inputs)
    return all(
        follower.definition.only_passes and len(follower._inputs) == 1 and follower._inputs[0].op in controls
        for follower in op._control_outputs
    )


def _only_computes(op: Operation, fed: frozenset[Tensor], needed: set[Operation]) -> bool:
    """Whether an op, and what it takes that nobody else needs, has no effects and makes no checks."""
    seen: set[Operation] = set()
    stack = [op]
    while stack:
        op = stack.pop()
        if op in seen or op in needed or op.role is Role.ARGUMENT:
            continue
        seen.add(op)
        if not _is_gate(op) and (op.definition.effect.kind != "pure" or not op._outputs):
            return False
        stack += [tensor.op for tensor in op._inputs if tensor not in fed]
        stack += op._control_inputs
    return True


def controls_of(op: Operation) -> list[Operation]:
    """The ops that ``op`` waits for besides those whose outputs it takes. Arguments of a body are there already."""
    return [control for control in op._control_inputs if control.role is not Role.ARGUMENT]


def parents(op: Operation, fed: frozenset[Tensor], needed: set[Operation]) -> list[Operation]:
    """What must run before ``op``, among the ops that are needed."""
    ops = [tensor.op for tensor in op._inputs if tensor not in fed and tensor.op in needed]
    for tensor in op._inputs:
        if tensor not in fed and is_transparent_read(tensor.op, fed):
            source = tensor.op._inputs[0].op
            if source.role is not Role.ARGUMENT:
                ops.append(source)
    return ops + [control for control in controls_of(op) if control in needed]


def body_roots(outputs: Iterable[Tensor], controls: Iterable[Operation], fed: frozenset[Tensor]) -> list[Operation]:
    """The ops that a nested body must run to give ``outputs``."""
    return [
        *(output.op for output in outputs if output not in fed and output.op.role is not Role.ARGUMENT),
        *(op for op in controls if op.role is not Role.ARGUMENT),
    ]


def topological_order(needed: set[Operation], fed: frozenset[Tensor]) -> list[Operation]:
    """The lexicographically smallest topological order by creation index."""
    by_id = sorted(needed, key=lambda op: op._id)
    if all(parent._id < op._id for op in by_id for parent in parents(op, fed, needed)):
        return by_id
    waiting = {op: len(set(parents(op, fed, needed))) for op in by_id}
    children: dict[Operation, list[Operation]] = {op: [] for op in by_id}
    for op in by_id:
        for parent in set(parents(op, fed, needed)):
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
            f"Graph is invalid, contains a cycle with {len(stuck)} nodes\n"
            + errors.message(
                f"a cycle through {', '.join(repr(op.name) for op in stuck[:5])}",
                "a graph without cycles outside of loops",
                "use tf.while_loop, or remove the control input that closes the cycle",
            ),
        )
    return order
