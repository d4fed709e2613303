"""Rows of variables that ops on the host write where they are.

Policy. A version is immutable, so an update on the host writes to a copy: of the whole table, for the sake of some
rows. Instead the step takes the version, as a program does that owns its variables: nobody sees it until the next one
is published. Of the rows that are written the old values are kept, and put back if the attempt fails.

A version may be taken so if it is a NumPy array that nobody has been given but to look at while a kernel runs
(:attr:`Version.exposed`), if it is not pinned, and if all other ops of the segment that see it have run and only looked
at it; programs only look, and are waited for, and so do bodies that gather from it (:mod:`lent_variables`). All else is
copied as before: what is fetched as it was, what a read hands on, what a nested body writes or keeps, what a step
writes that may be left at its deadline, or that calls Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.graph.state_key import StateKey
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.interpreter.lent_variables import only_looks
from anabranch.runtime.plans.items import HostItem, ProgramItem
from anabranch.runtime.state.borrowing import may_borrow
from anabranch.runtime.state.slots import Version
from anabranch.xla import engine


def taken(attempt: Attempt, item: HostItem) -> dict[int, np.ndarray]:
    """The arrays of variables that an op may write rows of, by the position of its operand."""
    positions = item.rows_in_place
    if positions is None:
        positions = item.rows_in_place = _positions(attempt, item)
    transaction = attempt.transaction
    if not positions or transaction.may_be_left or not transaction.claims:
        return {}
    arrays: dict[int, np.ndarray] = {}
    for position in positions:
        version = attempt.env.get(item.sources[position])  # type: ignore[arg-type]
        if not isinstance(version, Version) or version.exposed:
            continue
        array = version.unexposed
        if (
            type(array) is np.ndarray
            and array.flags.writeable
            and array.dtype.kind != "O"
            and engine.owns_memory(array)
        ):
            slot = attempt.state.slots[item.sources[position]]  # type: ignore[index]
            # A reader may have come and gone meanwhile: once the version is taken, none comes any more.
            if slot.version is version and transaction.take_rows(slot) and not version.exposed:
                arrays[position] = array
    return arrays


def _positions(attempt: Attempt, item: HostItem) -> tuple[int, ...]:
    """The operands of an op that no other op sees once it runs, and none has kept."""
    plan, op, segment = attempt.runner.plan, item.op, attempt.segment
    predication = op.definition.predication
    if plan.nested or segment.calls_python or predication is None or predication.kind != "rows":
        return ()
    order: dict[Any, int] = {}
    compiled: set[Any] = set()
    for place, other in enumerate(segment.items):
        if isinstance(other, ProgramItem):
            compiled.update(other.program.group.ops)
        for inner in other.program.group.ops if isinstance(other, ProgramItem) else (other.op,):
            order[inner] = place

    def only_looked_at(key: Any) -> bool:
        for user in plan.consumers.get(key, ()):
            if user is op:
                continue
            if order.get(user, len(order)) >= order[op]:
                return False
            if user in compiled:  # a program has been waited for, and what it gives is memory of its own
                continue
            if user in plan.lent_reads:
                if not only_looked_at(user._outputs[0]):
                    return False
            elif not may_borrow(user.definition) and not only_looks(user, key.maker):
                return False
        return True

    fetched = {key for key in plan.fetch_keys if key is not None}
    return tuple(
        position
        for position, key in enumerate(item.sources)
        if isinstance(key, StateKey)
        and key.index == 0
        and item.sources.count(key) == 1
        and key in attempt.state.slots
        and key not in fetched
        and key not in segment.carried
        and only_looked_at(key)
    )
