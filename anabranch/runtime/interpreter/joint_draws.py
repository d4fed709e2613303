"""Draws of many random ops by one call of the generator, in interpreted steps.

A dropout in each layer, or in each step of an unrolled network, draws some hundred to some thousand numbers. Of the 150
microseconds that one takes, most are the sixty calls of NumPy for ten rounds of Philox, and the way to the kernel. So
draws of one kind that follow each other (they run before what needs them, see :mod:`stretches`) are made together: the
blocks of all streams lie end to end, and each gets a piece of what the rounds give (``together`` of an op's block). A
number depends on its stream and its place in it alone, so the bits are those of the ops.

Draws of up to `SMALL` numbers run together, so that what is computed on the way stays in the caches. Whatever is
different from what is expected has the draws run one by one, which says what is wrong with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from anabranch.core.graph.state_key import ValueKey
from anabranch.runtime import host_ops
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.interpreter.turns import blocks_of
from anabranch.runtime.plans.items import HostItem
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.values import to_host

SMALL = 1 << 13
"""Numbers of a draw up to which it is made together with others."""
MOST_NUMBERS = 1 << 16
"""Numbers that one call draws."""
LEAST_DRAWS = 3


def may_join(plan: Plan, item: HostItem) -> bool:
    """Whether an item is a draw that may be made together with others of its kind."""
    op, definition = item.op, item.op.definition
    return definition.together is not None and len(item.sources) == 1 and plan.fed.isdisjoint(op._outputs)


def joined(plan: Plan, items: Sequence[HostItem]) -> Iterator[Any]:
    """Consecutive draws (:func:`may_join`), those of a kind together."""
    kinds: dict[Any, list[HostItem]] = {}
    for item in items:
        kinds.setdefault((item.op.definition, item.op._outputs[0].dtype), []).append(item)
    for alike in kinds.values():
        if len(alike) < LEAST_DRAWS:
            yield from alike
        else:
            yield JointDraws(alike)


class _Part(NamedTuple):
    """A draw that is made together with others."""

    item: HostItem
    dims: tuple[int, ...]
    blocks: int
    """What it reserves of its stream."""


class JointDraws:
    """Draws of one kind that follow each other in an interpreted step."""

    wave: ClassVar[int] = -1
    short: ClassVar[None] = None

    def __init__(self, items: Sequence[HostItem]) -> None:
        self.items = items
        self._shapes: tuple[bytes, ...] = ()
        """The shapes that were drawn last, as they were given."""
        self._groups: list[list[_Part]] = []
        """What one call draws, for these shapes."""

    def run(self, attempt: Attempt) -> None:
        """Draw what the ops draw."""
        attempt.step.token.at = self.items[0].op
        drawn = self._drawn(attempt)
        attempt.env.update(drawn)
        for item in self.items if len(drawn) < len(self.items) else ():
            if item.op._outputs[0] in drawn:
                continue
            attempt.step.token.raise_if_cancelled()
            host_ops.run(attempt, item)

    def _drawn(self, attempt: Attempt) -> dict[ValueKey, Any]:
        """What is drawn together; the other ops are to run by themselves, and their streams have not moved."""
        drawn: dict[ValueKey, Any] = {}
        advances = []
        op = self.items[0].op
        together, dtype = op.definition.together, op._outputs[0].dtype.base.np
        assert together is not None
        try:
            shapes = [to_host(attempt.env[key]) for item in self.items for key in item.sources if key is not None]
            given = tuple([shape.tobytes() for shape in shapes])
            if given != self._shapes:
                self._divide(shapes)
                self._shapes = given
            for group in self._groups:
                counters = [attempt.state.counters[part.item.op] for part in group]
                places = [(counter.key, counter.position) for counter in counters]
                numbers = together(places, [math.prod(part.dims) for part in group], dtype)
                for part, counter, values in zip(group, counters, numbers, strict=True):
                    if values is not None:
                        drawn[part.item.op._outputs[0]] = values.reshape(part.dims)
                        advances.append((counter, part.blocks))
        except Exception:  # the op that fails says what it is when it runs by itself
            return {}
        attempt.advances += advances
        return drawn

    def _divide(self, shapes: Sequence[np.ndarray]) -> None:
        """Say which draws are made by one call, for these shapes."""
        self._groups, self._shapes = [], ()
        group: list[_Part] = []
        total = 0
        for item, shape in zip(self.items, shapes, strict=True):
            dims = tuple(shape.tolist())
            count = math.prod(dims)
            if min(dims, default=0) < 0 or not 0 < count <= SMALL:
                continue
            if total + count > MOST_NUMBERS:
                self._groups.append(group)
                group, total = [], 0
            group.append(_Part(item, dims, blocks_of(item.op, [shape])))
            total += count
        if group:
            self._groups.append(group)
