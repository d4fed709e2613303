"""Segments that only compute and draw, between the channel ops of an input step: each one function.

What a queue runner runs again and again is a chain of channel ops (a file's name is dequeued, a record is read, an
example is enqueued) with a few ops between them that parse, decode and distort. Such a segment touches no variable, so
that there is nothing to read or to publish; it draws, at most. It is run like a function of a dataset: as straight code
for the shapes that come (:mod:`~anabranch.runtime.interpreter.straight_line`), or, where these are ever new, as code
for any (:mod:`~anabranch.runtime.interpreter.open_code`). A call of a program, and more so of several with ops on the
host between them, takes longer than that as long as there is little to compute.

If no code serves, the step goes on by the executor, from the segment that it has come to: nothing has happened, and the
error is the op's. Where that is so again and again, or the code costs more than programs would, the plan goes back to
the policy that chooses its tier.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import faults
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.core.values import shapes, spare_arrays
from anabranch.ops.shared import host_blas
from anabranch.runtime.interpreter import open_code
from anabranch.runtime.interpreter.straight_line import MOST_MISSES, Straight
from anabranch.runtime.interpreter.turns import Turn, fixed_draws
from anabranch.runtime.plans import policy
from anabranch.runtime.plans.items import Segment
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.runner import Runner
from anabranch.runtime.state.slots import RandomCounter
from anabranch.runtime.step import Transaction
from anabranch.runtime.values import own, to_host


def serve(plan: Plan) -> bool:
    """Whether the segments of a plan have such forms."""
    if plan.only_feeds_channels is None:
        plan.only_feeds_channels = plan.options.tier == "auto" and _only_feeds_channels(plan)
    return plan.only_feeds_channels and plan.tier == "interpreted"


def _only_feeds_channels(plan: Plan) -> bool:
    """Whether a plan has channel ops, and does nothing else but compute arrays and draw."""
    if plan.nested or plan.final_reads or plan.analysis.carried or plan.analysis.instead or len(plan.segments) < 2:
        return False
    if any(not isinstance(key, Tensor) for key in plan.fetch_keys if key is not None):
        return False
    for segment in plan.segments:
        if segment.base_reads or segment.written or segment.calls_python or segment.carried:
            return False
        if not all(open_code.takes_or_draws(plan, op) for op in segment.ops):
            return False
    return True


class ComputedSegment:
    """The form of a segment that only computes and draws.

    Args:
        runner: runs the plan.
        segment: the segment.
        given: the keys of what is there before it.
    """

    def __init__(self, runner: Runner, segment: Segment, given: Container[ValueKey]) -> None:
        plan = runner.plan
        ops = segment.ops
        own_ops = set(ops)
        made = [output for op in ops for output in op._outputs]
        inside = {*made, *plan.constants}
        needed = dict.fromkeys(key for op in ops for key in plan.sources(op) if key is not None)
        fetched = set(plan.fetch_keys)
        self._runner: Any = runner
        self._index = segment.index
        self._random_ops = segment.random_ops
        self._fixed = fixed_draws(plan, segment.random_ops)
        """The blocks that each op reserves, if each run draws as much."""
        self.inputs: tuple[ValueKey, ...] = tuple([key for key in needed if key not in inside and key in given])
        self.outputs: tuple[Tensor, ...] = tuple(
            [key for key in made if key in fetched or not own_ops.issuperset(plan.consumers.get(key, ()))]
        )
        self._straight = Straight(plan, segment, self.inputs, self.outputs)
        self._straight.any_size = self._open = open_code.OpenCode(plan, ops, self.inputs, self.outputs)
        self._multiplies = any(op.definition.flops is not None for op in ops)
        self._certain = all(shapes.is_static(key._shape) for key in (*made, *self.inputs) if isinstance(key, Tensor))
        self._runs = 0
        self._missed = 0
        self.places: list[int] = []
        """Where the inputs are."""
        self.fetches: list[int | None] | None = None
        """Where what is fetched is, if the segment is the last."""

    @property
    def is_worth_it(self) -> bool:
        """Whether its code serves mostly, and costs no more than programs would."""
        if self._missed > MOST_MISSES + self._runs // 8:
            return False
        straight, opened = self._straight.cost, self._open.cost
        cost = min(straight, opened)
        most = policy.FUNCTION_IN_PARTS if self._certain else policy.PARTS_RUN
        return cost <= most or not np.isfinite(cost)

    def run(
        self, values: list[Any], token: CancellationToken, read_committed: bool, shared: bool = False
    ) -> list[Any] | None:
        """Compute; what is fetched if the segment is the last; None if the executor is to run it."""
        if self.outputs:
            self._runs += 1
            found = self._drawn(values, token) if self._random_ops else self._results(values, None)
            if found is None:
                self._missed += 1
                return None
            values += found
        if self.fetches is None:
            return []
        token.raise_if_cancelled()
        return [
            None
            if at is None
            else values[at]
            if type(values[at]) is np.ndarray and values[at].ndim and spare_arrays.held_by(values[at], 1)
            else own(values[at])
            for at in self.fetches
        ]

    def _drawn(self, values: list[Any], token: CancellationToken) -> Sequence[Any] | None:
        """What it computes, and its streams move.

        Where each run draws as much, its places are reserved, and nothing is held while it computes: the threads of a
        queue runner compute beside each other. Otherwise it is a transaction that claims the streams.
        """
        state = self._runner._bound().states[self._index]
        draws = [(state.counters[op], blocks) for op, blocks in self._fixed.items()]
        streams = self._runner.manager.reserve(draws) if draws else None
        if streams is not None:
            return self._drawn_from(dict(zip(self._fixed, streams, strict=True)), draws, values, token)
        transaction = Transaction(self._runner.manager, token)
        turn = Turn(state.counters.__getitem__, token)
        try:
            transaction.claim(frozenset(), state.claim_writes)
            found = self._results(values, turn)
            if found is not None:
                transaction.commit([], ())
                turn.keep()
            return found
        except BaseException:
            transaction.fail()
            raise
        finally:
            turn.back_to(0)
            transaction.end()

    def _drawn_from(
        self,
        streams: dict[Operation, RandomCounter],
        draws: Sequence[tuple[RandomCounter, int]],
        values: list[Any],
        token: CancellationToken,
    ) -> Sequence[Any] | None:
        """What it computes with streams that stand where places were reserved for it."""
        turn = Turn(streams.__getitem__, token)
        served = False
        try:
            found = self._results(values, turn)
            token.raise_if_cancelled()
            served = found is not None
            return found
        finally:
            if not served:
                turn.back_to(0)
                self._runner.manager.give_back(draws, list(streams.values()))

    def _results(self, values: list[Any], turn: Turn | None) -> Sequence[Any] | None:
        given = [value if type(value) is np.ndarray else to_host(value) for value in [values[i] for i in self.places]]
        with np.errstate(all="ignore"):
            if not self._multiplies:
                return self._of_code(given, turn)
            host_blas.enter()
            try:
                return self._of_code(given, turn)
            finally:
                host_blas.leave()

    def _of_code(self, given: list[Any], turn: Turn | None) -> Sequence[Any] | None:
        straight = self._straight
        outcome = straight.run(given, turn, recurring=False)
        if straight.bug is not None:
            faults.warn(straight.bug, "straight")
        return None if outcome is None else outcome[0]
