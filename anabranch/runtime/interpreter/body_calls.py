"""Functions that kernels call: bodies that run outside a step's transaction, element after element.

A body is planned once. A cheap one that only computes becomes straight code (:mod:`straight_line`), a call of which
takes little more than NumPy does, and so does one that draws from streams of its iterator. One that does more (reads or
writes variables, has bodies of its own), or that costs more than a call of a program, runs by the executor in segments
of its own, and is compiled by the policy that chooses the tier of steps. Values and errors are the same either way.

A call sees what is committed, like a step of another thread. Calls of one function may come from several threads; those
that draw from the streams of one iterator come one after the other.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import faults, kernels
from anabranch.core.graph.body import Body
from anabranch.core.values import shapes
from anabranch.rewrite import effects
from anabranch.runtime.interpreter import open_code
from anabranch.runtime.interpreter.row_code import Rows
from anabranch.runtime.interpreter.straight_line import Straight
from anabranch.runtime.interpreter.turns import TooLong, Turn, fixed_draws
from anabranch.runtime.plans import policy
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Layout, RandomCounter
from anabranch.runtime.step import Step
from anabranch.runtime.values import seen, to_host


class OwnStreams:
    """A resource manager with random streams of its own, which begin when somebody first draws from them."""

    def __init__(self, below: ResourceManager) -> None:
        self.below = below
        self._counters: dict[str, RandomCounter] = {}
        self._lock = threading.Lock()
        self.drawing = threading.RLock()
        """Held while a function that only computes and draws is called."""

    @property
    def shared(self) -> OwnStreams:
        """Itself: what these functions see is committed."""
        return self

    def counter(self, name: str, seed: int, seed2: int, layout: Layout | None = None) -> RandomCounter:
        """The stream of the random op called ``name``, see :meth:`ResourceManager.counter`."""
        with self._lock:
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = self.below.new_counter(seed, seed2)
            counter.join(layout)
            return counter

    def of(self, op: Any) -> RandomCounter:
        """The stream of a random op."""
        return self.counter(op.name, op._attrs.get("seed", 0), op._attrs.get("seed2", 0))

    def reserve(self, blocks: dict[Any, int]) -> dict[str, Any]:
        """Move the streams of ops by so many blocks each; keys and positions where they were, by name."""
        places = {}
        for op, amount in blocks.items():
            counter = self.of(op)
            places[op.name] = counter.key, counter.position
            counter.position += amount
        return places

    def save(self) -> dict[str, Any]:
        """Keys and positions of the streams."""
        with self._lock:
            return {name: (counter.key, counter.position) for name, counter in self._counters.items()}

    def restore(self, places: dict[str, Any]) -> None:
        """Go to saved keys and positions."""
        with self._lock:
            for name, (key, position) in places.items():
                counter = self._counters.setdefault(name, RandomCounter(key, position))
                counter.key, counter.position = key, position

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


class BodyCalls(kernels.Functions):
    """Calls of bodies with the resources of a worker.

    Args:
        runner_type: the class that runs plans.
        bodies: plans that last as long as somebody holds the functions.
        committed: the resources of the worker, as they are committed.
        manager: what the functions see, if that is something else.
    """

    def __init__(self, runner_type: Any, bodies: Any, committed: Any, manager: Any = None) -> None:
        self._type = runner_type
        self._bodies = bodies
        self._committed = committed
        self._manager = committed if manager is None else manager

    def with_own_streams(self) -> BodyCalls:
        """The same, whose random ops begin anew."""
        return BodyCalls(self._type, self._bodies, self._committed, OwnStreams(self._committed))

    def save_streams(self) -> dict[str, Any]:
        """Keys and positions of streams of its own, by the names of their ops."""
        return self._manager.save() if isinstance(self._manager, OwnStreams) else {}

    def restore_streams(self, places: dict[str, Any]) -> None:
        """Go to saved keys and positions."""
        if places:
            self._manager.restore(places)

    def committed(self, maker: Any) -> Any:
        """The committed value of the variable that an op makes; None if there is none here."""
        slot = self._committed.find(self._bodies.handle_of(maker))
        return None if slot is None or slot.version is None else _committed(self._committed, slot, None)

    def prepare(self, body: Body, captured: Sequence[Any]) -> BodyFunction:
        """The function of ``body``, with a plan of its own as long as somebody holds it."""
        plan = self._bodies.of(body, tuple(range(len(body.outputs))))
        return BodyFunction(self._type(plan, self._manager, self._bodies), body, captured)


def _committed(manager: Any, slot: Any, token: CancellationToken | None) -> np.ndarray:
    """The committed value of a variable."""
    versions = manager.pin([slot], None, None, token)
    try:
        value: np.ndarray = versions[0].host()
        return value
    finally:
        manager.unpin(versions)


def _no_stream(op: Any) -> RandomCounter:
    """What draws from the streams of a step is run by the executor."""
    raise AssertionError(op)


class BodyFunction:
    """A body with what it captures, to be called any number of times."""

    __slots__ = (
        "_body",
        "_captured",
        "_copies",
        "_count",
        "_fixed",
        "_given",
        "_in_parts",
        "_live",
        "_manager",
        "_open",
        "_plan",
        "_program_run",
        "_read",
        "_rows",
        "_runner",
        "_straight",
        "_tier",
        "_turn",
    )

    def __init__(self, runner: Any, body: Body, captured: Sequence[Any]) -> None:
        self._runner = runner
        self._body = body
        self._manager = runner.manager
        self._plan = runner.plan
        self._given = tuple(captured)
        self._captured = [item.value if isinstance(item, kernels.LiveValue) else item for item in captured]
        self._live = [
            (i - len(captured), self._manager.shared.find(self._plan.handle_of(item.maker)))
            for i, item in enumerate(captured)
            if isinstance(item, kernels.LiveValue)
        ]
        """Of captured values that are read for each call, their places from the end, and their variables."""
        self._count = len(body.outputs)
        self._tier = self._plan.options.tier
        straight = runner.bodies.straight(self._plan)
        # What draws from streams of steps goes by the executor.
        if straight is not None and straight.random_ops and not isinstance(self._manager, OwnStreams):
            straight = None
        self._straight: Straight | None = straight
        self._in_parts = straight is not None and any(self._plan.needs_host(op) for op in self._plan.segments[0].ops)
        """Whether ops of it stay on the host when it is compiled."""
        moved = sum(shapes.num_elements(getattr(key, "_shape", None)) or 0 for key in (*body.args, *body.outputs))
        alone = policy.FUNCTION_RUN + policy.FUNCTION_PER_MOVED * moved
        self._program_run = policy.FUNCTION_IN_PARTS if self._in_parts else alone
        """What a program must save at least."""
        self._read = [] if straight is None else [runner.slot(key.maker) for key in straight.reads]
        """The tables and variables that its code reads, which are pinned for each call."""
        self._open = None if straight is None or straight.any_size is not None else open_code.of_body(self._plan)
        """What runs a body that draws where straight code does not: for elements of ever new sizes."""
        self._turn: Turn | None = None
        certain = straight is not None and not straight.nests
        self._fixed = fixed_draws(self._plan, self._plan.segments[0].random_ops) if certain else {}
        self._copies: list[BodyFunction] = []
        """The same with streams of their own, for calls whose places in the streams were reserved; each in one call."""
        self._rows: Rows | None = None
        computes = straight is not None and not straight.nests and not self._read
        if computes and (self._fixed or not straight.random_ops):
            # Where elements are to be computed by programs, rows are used if they have the same bits.
            told = self._tier != "compiled"
            self._rows = Rows(self._plan, len(body.args) - len(self._captured), told)

    @property
    def alike_in_parallel(self) -> bool:
        """Whether calls on several threads give what calls one after the other do: it draws nothing, has no effects and
        calls no Python.
        """
        (segment, *others) = self._plan.segments
        if others or segment.channel is not None or segment.written or segment.random_ops or segment.calls_python:
            return False
        for op in segment.ops:
            within = effects.summary(op)
            if within is not None and (within.writes or within.random_ops or within.channel or within.io):
                return False
        return True

    @property
    def repeats(self) -> bool:
        """Whether it belongs to a session that is to repeat, so that Python is called in one order."""
        return bool(self._plan.options.deterministic)

    @property
    def reserves(self) -> bool:
        """Whether it draws, and each call so much that the next one's place in the streams is known before."""
        return bool(self._fixed)

    def reserved(self, count: int = 1) -> Callable[[Sequence[Any], CancellationToken], list[Any]]:
        """The function for one call, or for ``count`` (:meth:`outcomes`), that draws what it would if called now."""
        with self._manager.drawing:
            places = self._manager.reserve({op: count * blocks for op, blocks in self._fixed.items()})

        def call(operands: Sequence[Any], token: CancellationToken) -> list[Any]:
            try:
                copy = self._copies.pop()
            except IndexError:
                runner = self._runner
                streams = OwnStreams(self._manager.below)
                copy = BodyFunction(type(runner)(self._plan, streams, runner.bodies), self._body, self._given)
            copy._manager.restore(places)
            try:
                return copy(operands, token) if count == 1 else copy.outcomes(operands, token)
            finally:
                self._copies.append(copy)

        return call

    @property
    def by_element(self) -> str | None:
        """Why it is called element by element, as far as that is known; None if it may be called for many."""
        if self._rows is None:
            if self._straight is None:
                return "it does more than compute"
            if self._read:
                return "it reads tables or variables"
            return "it draws" if not self._straight.nests else "it has conditionals or loops"
        return self._rows.refused

    def rows(self, columns: Sequence[Any], token: CancellationToken) -> list[Any] | None:
        """What it returns for many elements, given and returned as arrays with a row for each; None if they are to be
        given one by one.
        """
        rows = self._rows
        if rows is None or rows.refused is not None:
            return None
        values = self._with_captured(columns, token)
        if not self._fixed:
            return rows.run(values, self._count, lambda element: self(element, token))
        with self._manager.drawing:
            turn = Turn(functools.cache(self._manager.of))
            return rows.run(values, self._count, lambda element: self(element, token), turn)

    @property
    def takes_several(self) -> bool:
        """Whether calls one after the other may be made line by line for all of them (:meth:`outcomes`)."""
        straight = self._straight
        if straight is None or straight.nests or self._live or (straight.random_ops and not self._fixed):
            return False
        return self._plan.tier == "interpreted" and (self._stays_code or self._tier == "interpreted")

    def outcomes(self, rows: Sequence[Sequence[Any]], token: CancellationToken) -> list[Any]:
        """What calls for several elements give, one after the other: values, or what they raise."""
        bugs: list[faults.KernelBug] = []
        found = self._several(rows, token, bugs) if self.takes_several else None
        if found is not None:
            self._plan.runs += len(rows)
            return [tuple(results[: self._count]) for results in found]
        outcomes: list[Any] = []
        for row in rows:
            try:
                outcomes.append(tuple(self(row, token)))
            except BaseException as problem:  # told to whoever asks for this element
                outcomes.append(problem)
        if not any(isinstance(outcome, BaseException) for outcome in outcomes):
            self._warn(bugs)
        return outcomes

    def _several(
        self, rows: Sequence[Sequence[Any]], token: CancellationToken, bugs: list[faults.KernelBug]
    ) -> list[Any] | None:
        """What code gives that runs line by line for all of them; None if it fails for one."""
        straight = self._straight
        if straight is None or any(slot.version is None for slot in self._read):
            return None
        versions = self._manager.pin(self._read, None, None, token) if self._read else []
        try:
            behind = [*self._captured, *(version.host() for version in versions)]
            with self._manager.drawing if self._fixed else contextlib.nullcontext():
                turn = self._turn_of(straight, token)
                opened = straight.any_size or self._open
                found = straight.several([[*row, *behind] for row in rows], turn, opened, bugs)
                if turn is not None:
                    turn.keep()
            return found
        finally:
            self._manager.unpin(versions)

    def __call__(self, operands: Sequence[Any], token: CancellationToken) -> list[Any]:
        values = self._with_captured(operands, token) if self._live else [*operands, *self._captured]
        if self._straight is None or not self._straight.random_ops:
            return self._call(values, token)
        with self._manager.drawing:
            try:
                return self._call(values, token)
            except BaseException:  # what was drawn before the failure is drawn
                self._manager.reserve(self._fixed)
                raise

    def _with_captured(self, operands: Sequence[Any], token: CancellationToken) -> list[Any]:
        values = [*operands, *self._captured]
        for at, slot in self._live:
            values[at] = _committed(self._manager.shared, slot, token)
        return values

    def _turn_of(self, straight: Straight, token: CancellationToken) -> Turn | None:
        """What a call takes from here; the streams of the ops that draw have begun with the first, op by op."""
        if straight.nests:
            return Turn(self._manager.of if straight.random_ops else _no_stream, token)
        if straight.random_ops and self._turn is None:
            self._turn = Turn(functools.cache(self._manager.of))
        return self._turn

    def _call(self, values: list[Any], token: CancellationToken) -> list[Any]:
        plan, straight = self._plan, self._straight
        bugs: list[faults.KernelBug] = []
        if plan.tier != "compiled":
            if not self._stays_code:
                self._runner.prepare(self._tier)
            plan.runs += 1
            if straight is not None and plan.tier == "interpreted":
                results = self._run_code(straight, values, bugs, token)
                if results is not None:
                    return results
            if plan.tier == "interpreted":
                given = self._runner.run_stateless(values, token)
                if given is not None:
                    self._warn(bugs)
                    return [to_host(value) for value in given[: self._count]]
        step = Step(self._manager, token)
        results = self._runner.run(values, step)
        self._warn(bugs)
        if step.nested_cost[0]:
            self._runner.bodies.spend(plan, step.nested_cost[0])
        return [seen(value) for value in results[: self._count]]

    @property
    def _stays_code(self) -> bool:
        """Whether code costs less than programs would: one, or, where sizes are ever new, several with ops on the host
        between them.
        """
        straight = self._straight
        if straight is None:
            return False
        if straight.cost <= self._program_run:
            return True
        code = straight.any_size
        return code is not None and code.serves and self._tier == "auto" and code.cost <= policy.PARTS_RUN

    def _run_code(
        self, straight: Straight, values: Sequence[Any], bugs: list[faults.KernelBug], token: CancellationToken
    ) -> list[Any] | None:
        """What code for these shapes gives, or, where they are ever new, code for any; None if neither serves."""
        if not self._read:
            return self._of_code(straight, values, bugs, token)
        if any([slot.version is None for slot in self._read]):  # the executor says which has no value
            return None
        versions = self._manager.pin(self._read, None, None, token)
        try:
            read = [version.host() for version in versions]
            return self._of_code(straight, [*values, *read], bugs, token)
        finally:
            self._manager.unpin(versions)

    def _of_code(
        self, straight: Straight, values: Sequence[Any], bugs: list[faults.KernelBug], token: CancellationToken
    ) -> list[Any] | None:
        turn = self._turn_of(straight, token)
        try:
            outcome = straight.run(values, turn, recurring=self._open is None and straight.any_size is None)
        except TooLong:
            outcome = None
        if turn is not None:
            turn.keep()
        if outcome is not None:
            return outcome[0][: self._count]
        if straight.bug is not None:
            bugs.append(straight.bug)
        elif self._open is not None and self._plan.runs > 1:
            results = self._open.results(values, bugs, turn)
            if turn is not None:
                turn.keep()
            if results is not None:
                return list(results[: self._count])
        return None

    @staticmethod
    def _warn(bugs: Sequence[faults.KernelBug]) -> None:
        """Tell of code that failed where the interpreter has succeeded."""
        for bug in bugs:
            faults.warn(bug, "straight")
