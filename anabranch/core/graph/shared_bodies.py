"""Bodies that many calls hold: functions that are called so often that a body for each call would be without bound.

A library of a few kilobytes may stand for any number of calls: functions that each call the next twice, 40 deep. Where
such functions only compute (of values, without effect or state), all calls with arguments of the same shapes hold one
body, so that a graph is built, planned and written in time linear in the library. A shared body captures nothing and
is never changed: who changes what a call holds (a gradient, which takes values out of it) gives that call a body of
its own first (:func:`unshare`). Its arguments stand for inputs of many operations, so nothing outside is known of
them, and its owner is the call that was built first.

What such a graph computes may still be without bound. So the operations that a step would execute are counted before
it is planned, each as often as it is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anabranch.core import errors
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import Operation
from anabranch.core.values import budgets

MOST_COPIED: Final = 1 << 14
"""Operations that the bodies of one call may have when they are no more shared."""
MOST_EXECUTED: Final = 1 << 20
"""Operations that the shared bodies of one call may execute in a step."""


def times_inside(op: Operation) -> dict[Body, int]:
    """The bodies that an operation holds, at any depth: from how many places each is entered when ``op`` runs once."""
    order: list[Body] = []
    seen: set[Body] = set()
    stack: list[tuple[Body, bool]] = [(use.body, False) for use in body_ops.bodies_of(op)]
    while stack:
        body, left = stack.pop()
        if left:
            order.append(body)
        elif body not in seen:
            seen.add(body)
            stack.append((body, True))
            stack += [(inner, False) for inner in _held(body)]
    times = dict.fromkeys(reversed(order), 0)
    for use in body_ops.bodies_of(op):
        times[use.body] += 1
    for body in times:
        for inner in _held(body):
            times[inner] += times[body]
    return times


def _held(body: Body) -> list[Body]:
    return [use.body for op in body.operations for use in body_ops.bodies_of(op)]


def executions(op: Operation) -> int:
    """How many operations of shared bodies ``op`` executes at any depth, each counted as often as it is called."""
    return sum(count * len(body.operations) for body, count in times_inside(op).items() if body.shared)


def require_executable(ops: Iterable[Operation]) -> None:
    """Refuse calls of calls that stand for more operations than a step may execute.

    Raises:
        ResourceExhaustedError: they do; nothing has been planned for it.
    """
    for op in ops:
        _require(op, MOST_EXECUTED, "execute it", "fewer calls of calls: a tf.while_loop")


def unshare(op: Operation) -> None:
    """Give a call bodies of its own where others hold them, too; those that are called from there stay shared.

    Raises:
        ResourceExhaustedError: all that is called from there, with a body for each call, is too much.
    """
    for use in body_ops.bodies_of(op):
        if use.body.shared:
            _require(op, MOST_COPIED, "differentiate or change it", "fewer calls of calls: a tf.while_loop")
            op._attrs[use.attr] = body_ops.copy_body(use.body, op.body)
            body_ops.own(op)
            op.graph._note_change(op)


def _require(op: Operation, most: int, act: str, instead: str) -> None:
    count = executions(op)
    if count <= most:
        return
    limit = most * budgets.most() // budgets.MOST
    if count > limit:
        enough = budgets.MOST * (count // most + 1)
        raise errors.ResourceExhaustedError(
            None,
            op,
            errors.message(
                f"the call {op.name!r}, whose functions call each other so often that it takes "
                f"{count} operations to {act}",
                f"at most {limit}",
                f"{instead}, or {budgets.VARIABLE}={enough} in the environment",
                at=op.user_site,
            ),
        )
