"""Bodies of loops that the interpreter runs again and again, as one Python function of NumPy calls.

Run op by op, a small op costs the interpreter ten times what NumPy takes for it. A body that only computes (it may read
variables, but has no writes, no channels, calls no Python) is looked at while it runs once, and becomes *straight* code
(:mod:`straight_builder`), for arguments of the shapes and dtypes that were seen. Whenever something is different, or
any check fails, the iteration is run anew op by op: nothing has happened, as there are no effects. So the values and
the errors are the interpreter's, bit for bit. What was computed for nothing is counted. A body whose values have other
shapes each time gets code for any sizes (:mod:`open_code`), which takes longer for an op and is made once. What grows
in a loop has another shape in each iteration, but the same ones in later runs of the loop, where they get their own
code.

A body may also draw, and have conditionals, loops and calls inside that do no more (:mod:`inner_code`). Streams move by
the blocks that the interpreter would have reserved, and back if the code has not served, so that a run that is made
anew draws the same (:class:`~anabranch.runtime.interpreter.turns.Turn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.contract import faults
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.rewrite import effects
from anabranch.runtime.interpreter.straight_builder import (
    RUN_ANEW,
    Builder,
    Code,
    Late,
    Unsettled,
    kind_of,
    only_computes,
    only_draws,
    quiet,
    served,
)
from anabranch.runtime.interpreter.turns import TooLong, Turn
from anabranch.runtime.plans import policy

MOST_FORMS = 4
"""So many kinds of arguments get code of their own as they come."""
MOST_RECURRING = 64
"""So many more do when they come again, such as those of a loop in which something grows with each iteration."""
RECURS = 4
"""So often they come again before that, where code for any sizes serves them. What comes one after the other, as within
a run of a loop, counts as once.
"""
LONG = 64
"""Runs one after the other that count as coming again."""
MOST_SEEN = 512
"""So many kinds are remembered for that."""
MOST_MISSES = 16
"""After this many runs that no code served, none is tried any more."""


class Straight:
    """The straight code of ops that belong together: of one nested plan, if :func:`of` makes it.

    Args:
        plan: which they belong to.
        segment: which they are all of.
        arguments: what they take.
        fetches: what others take of them.
        bodies: the plans of nested bodies, if some have any.
    """

    def __init__(
        self, plan: Any, segment: Any, arguments: Sequence[ValueKey], fetches: Sequence[Any], bodies: Any = None
    ) -> None:
        self._plan = plan
        self._bodies = bodies
        self._ops = segment.ops
        self._arguments = arguments
        self._fetches = fetches
        self.reads: list[StateKey] = []
        """The variables whose values are the last of the arguments."""
        self.random_ops: list[Operation] = segment.random_ops
        """The ops that draw, also those in conditionals and loops inside; :meth:`run` then needs their streams."""
        self.nests = any(op.definition.effect.kind == "body" for op in segment.ops)
        """Whether there are conditionals, loops or calls inside; :meth:`run` then needs a turn."""
        self._codes: list[Code] = []
        self.any_size: Any = None
        """What runs the body for arguments that have no code here (:class:`open_code.OpenCode`), if it is set."""
        self._code_of: dict[Any, Code] = {}
        """The code that serves arguments of certain shapes."""
        self._seen: dict[Any, float] = {}
        """How often further kinds have come that have no code."""
        self._last: Any = None
        """The kind of the last run."""
        self._made_for_recurring = 0
        self._misses = 0
        self._served = 0
        self._unsettled: set[Operation] = set()
        """Ops that take sizes as data, which are not always the same for operands of certain shapes."""
        self._late = 0
        """How often code has computed something for nothing."""
        self._runs = 0
        self.bug: faults.KernelBug | None = None
        """Why the last run has left it to the interpreter, if that was a bug of ours."""
        self.cost = float("inf")
        """What a run of the code that was made last costs; without end if there is none."""
        self.inner_cost = 0.0
        """What conditionals and loops inside have cost lately."""
        self._left = False
        """Whether a loop inside runs so long that the executor is to run the body."""

    @property
    def serves_many(self) -> bool:
        """Whether there is code for many kinds of arguments: those that come again and again, or all that have come."""
        if self._made_for_recurring or (self.any_size is not None and self.any_size.serves):
            return True
        return len(self._codes) == MOST_FORMS and not self._seen

    @property
    def is_best(self) -> bool:
        """Whether a program takes longer to call than it saves, or would be parts of a body whose sizes change."""
        if self.serves_many:  # whatever it is, what is inside runs by code of its own
            return self.cost < policy.PARTS_RUN
        return self.cost + self.inner_cost < policy.PROGRAM_RUN

    def run(
        self, values: Sequence[Any], turn: Turn | None = None, recurring: bool = True
    ) -> tuple[list[Any], float] | None:
        """The results for these arguments and what they cost; None if the interpreter is to run the body.

        ``recurring`` says whether arguments of many kinds get code of their own if they come again. ``turn`` has the
        streams of what draws, which move if there are results.
        """
        if self._left:
            return None
        if turn is None:
            return self._run(values, None, recurring)
        place, before = turn.place, turn.inner_cost
        outcome = None
        try:
            outcome = self._run(values, turn, recurring)
        except TooLong:
            self._left = True
            raise
        finally:
            if outcome is None:
                turn.back_to(place)
                turn.inner_cost = before
        if outcome is not None and self.nests:
            self.inner_cost = max(turn.inner_cost - before, 0.875 * self.inner_cost)
        return outcome

    def several(
        self, rows: Sequence[Sequence[Any]], turn: Turn | None, opened: Any, bugs: list[faults.KernelBug]
    ) -> list[Any] | None:
        """The results for each of several rows of arguments; None if each is to be run for itself.

        ``opened`` is the code for any size, if there is one. There are no conditionals and loops inside. Bugs of ours
        that kept it from them are appended to ``bugs``.
        """
        kinds = {tuple([value.shape if type(value) is np.ndarray else kind_of(value) for value in row]) for row in rows}
        code = self._code_of.get(next(iter(kinds))) if len(kinds) == 1 else None
        if code is None or self._late > MOST_MISSES + self._served:
            found: list[Any] | None = None if opened is None else opened.several(rows, turn, bugs)
            return found
        results = served(lambda: code.several(rows, turn), turn, bugs)
        if results is None:
            self._late += 1
        else:
            self._served += len(rows)
        return results

    def _run(self, values: Sequence[Any], turn: Turn | None, recurring: bool) -> tuple[list[Any], float] | None:
        self.bug = None
        if self._late > MOST_MISSES + self._served:
            return self._of_any_size(values, turn)
        kind = tuple([value.shape if type(value) is np.ndarray else kind_of(value) for value in values])
        code = self._code_of.get(kind)
        if code is not None:
            return self._serve(code, values, turn) or self._of_any_size(values, turn)
        if kind not in self._seen:
            for code in self._codes:  # what it does not look at may have any shape
                outcome = self._serve(code, values, turn)
                if outcome is not None:
                    if len(self._code_of) < MOST_SEEN:
                        self._code_of[kind] = code
                    return outcome
        if len(self._codes) == MOST_FORMS:
            outcome = self._again(kind, values, turn) if recurring else None
            return outcome or self._of_any_size(values, turn)
        self._runs += 1
        if self._runs == 1:
            return None
        if self._misses > MOST_MISSES:
            return self._of_any_size(values, turn)
        self._misses += 1
        made = self._build(values, turn)
        if made is None:
            return None
        results, code = made
        self._codes.append(code)
        self._code_of[kind] = code
        return results, self._plan.cost.run

    def _serve(self, code: Code, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], float] | None:
        """What a code gives for these arguments, or None if it is not for them."""
        place = 0 if turn is None else turn.place
        try:
            results = code.function(*values, turn)
        except Late:
            self._late += 1
        except Unsettled as problem:  # all code is made anew, and follows these sizes
            self._unsettled.add(problem.op)
            self._codes, self._code_of = [], {}
            self._misses = self._made_for_recurring = 0
        except RUN_ANEW:
            pass
        except faults.KernelBug as bug:
            self.bug = bug
        except faults.BUGS as problem:
            self.bug = code.bug(problem)
        else:
            self._served += 1
            return results, code.cost
        if turn is not None:
            turn.back_to(place)
        return None

    def _again(self, kind: Any, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], float] | None:
        """The results for arguments of one kind of many, if that has come often enough before."""
        if self._made_for_recurring == MOST_RECURRING:
            return None
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        served = self.any_size is not None and self.any_size.serves
        came = self._seen.get(kind, 0) + (1 / LONG if served and kind == self._last else 1)
        self._seen[kind], self._last = came, kind
        if came < (RECURS if served else 2):
            return None
        self._made_for_recurring += 1
        made = self._build(values, turn)
        if made is None:
            return None
        results, self._code_of[kind] = made
        return results, self._plan.cost.run

    def _of_any_size(self, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], float] | None:
        if self.any_size is None or self.bug is not None:
            return None
        bugs: list[faults.KernelBug] = []
        results = self.any_size.results(values, bugs, turn)
        if bugs:
            self.bug = bugs[0]
        if results is None:
            return None
        self.cost = min(self.cost, self.any_size.cost)
        given = iter(results)
        fetched = [next(given) if isinstance(fetch, Tensor) else None for fetch in self._fetches]
        return fetched, self.any_size.cost

    def _build(self, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], Code] | None:
        """The results for these arguments, and the code for others like them; None if there is none."""
        place = 0 if turn is None else turn.place
        try:
            with quiet():
                builder = Builder(self._plan, turn, self._bodies, self._unsettled)
                results, code = builder.build_from(self._ops, self._arguments, values, self._fetches)
        except (*RUN_ANEW, faults.KernelBug) as problem:
            if isinstance(problem, faults.KernelBug):
                self.bug = problem
            if turn is not None:
                turn.back_to(place)
            return None
        self.cost = code.cost
        return results, code


def of(plan: Any, bodies: Any) -> Straight | None:
    """What runs the body of a nested plan straight, or None if it does more than compute and draw."""
    (segment, *others) = plan.segments
    if others or segment.channel is not None or segment.written or segment.calls_python:
        return None
    if plan.final_reads:
        return None
    if not all(only_computes(op) or only_draws(op) or _nests(op) for op in segment.ops):
        return None
    reads = [StateKey(maker, 0, 0) for maker in segment.base_reads]
    made = Straight(plan, segment, [*plan.feeds, *reads], plan.fetches, bodies)
    made.reads = reads
    return made


def _nests(op: Operation) -> bool:
    """Whether an op has bodies, which do no more than compute, read and draw."""
    if op.definition.effect.kind != "body":
        return False
    return all(
        only_computes(inner)
        or only_draws(inner)
        or inner.definition.effect.kind == "body"
        or inner.definition.makes is not None
        or inner.role in (Role.CONSTANT, Role.ARGUMENT)
        for inner in effects.inner_ops(op)
    )
