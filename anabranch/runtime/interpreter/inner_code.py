"""Conditionals, loops and calls inside straight code, as calls of the code of their bodies.

A body whose ops only compute, read variables and draw may hold others that do no more: an attention that is taken or
not, a search inside each iteration. Straight code (:mod:`straight_line`, :mod:`open_code`) calls such an op like a
kernel: the bodies that run have code of their own, and what has none yet is run op by op here, where nothing has to be
undone. Whatever fails is found by the executor, which runs the outermost body anew.

A loop inside that has taken as long as compiling its body would take, and whose body is better compiled, says so
(:class:`~anabranch.runtime.interpreter.turns.TooLong`): from then on the executor runs what holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.contract import faults, kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of, chosen_by_number
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.ops.shared.unchecked import Changed
from anabranch.runtime.interpreter.shape_refusals import refused_by_shape
from anabranch.runtime.interpreter.straight_builder import only_draws
from anabranch.runtime.interpreter.turns import TooLong, Turn, blocks_of
from anabranch.runtime.plans import policy
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.values import to_host
from anabranch.xla import control


def live_outputs(plan: Plan, op: Operation) -> tuple[int, ...]:
    """The outputs of an op with bodies that somebody uses; of a loop also the variables that these follow from."""
    live = plan.live.get(op)
    if live is None:
        fetched = frozenset(plan.fetches)
        fetched |= plan.analysis.awaited
        used = [i for i, output in enumerate(op._outputs) if output in plan.consumers or output in fetched]
        if op.role is Role.LOOP:
            used = control.carried_by(plan.view, op, used)
        live = plan.live[op] = tuple(used)
    return live


def _truth(value: Any) -> bool:
    """A predicate, mostly a bool."""
    return bool(value) if not value.ndim and value.dtype.kind == "b" else control.truth(value)


class InnerCode:
    """A conditional, loop or call of a body, as a function of the values of :attr:`keys`, which gives those of
    :attr:`given`.

    Args:
        bodies: the plans of nested bodies, :class:`~anabranch.runtime.interpreter.body_plans.BodyPlans`.
        plan: which holds the op.
        op: the op.

    Raises:
        Changed: a body of it cannot be code.
    """

    def __init__(self, bodies: Any, plan: Plan, op: Operation) -> None:
        self._op = op
        self._live = live_outputs(plan, op)
        """Which outputs the bodies compute."""
        self.given = self._live
        """Which outputs it gives."""
        uses = bodies_of(op)
        self._is_loop = op.role is Role.LOOP
        self._is_conditional = op.role is Role.CONDITIONAL
        self._by_number = self._is_conditional and chosen_by_number(op)
        self._parts = [
            _Part(bodies, use.body, (0,) if self._is_loop and use is uses[0] else self._live) for use in uses
        ]
        sources = plan.sources(op)
        self._operands: list[Any] = []
        """What never changes of the op's inputs: handles, and None for variables and for what is given."""
        self.keys: list[ValueKey] = []
        """What it takes: inputs that are values, then variables."""
        self._places: list[int] = []
        for i, key in enumerate(sources[: len(op._inputs)]):
            handle = plan.handles.get(key) if isinstance(key, Tensor) else None
            self._operands.append(handle)
            if key is not None and handle is None:
                self.keys.append(key)
                self._places.append(i)
        if self._is_loop:  # what it leaves as it is is given, too
            fetched = frozenset(plan.fetches)
            used = [i for i in self._places if op._outputs[i] in plan.consumers or op._outputs[i] in fetched]
            self.given = tuple(sorted({*self._live, *used}))
        entry = {key.maker: key for key in sources[len(op._inputs) :] if isinstance(key, StateKey)}
        makers = dict.fromkeys(maker for part in self._parts for maker in part.makers)
        if not entry.keys() >= makers.keys():
            raise Changed
        self._makers = list(makers)
        self.keys += [entry[maker] for maker in makers]

    def __call__(self, turn: Turn, *values: Any) -> list[Any]:
        operands = list(self._operands)
        for place, value in zip(self._places, values, strict=False):
            operands[place] = value
        read = dict(zip(self._makers, values[len(self._places) :], strict=True)) if self._makers else {}
        if self._is_loop:
            return self._run_loop(turn, operands, read)
        if self._is_conditional:
            chosen = operands.pop(0)
            if self._by_number:
                branch = control.branch_of(self._op, chosen, len(self._parts))
            else:
                branch = 0 if _truth(chosen) else 1
            return self._parts[branch].run(turn, operands, read)
        return self._parts[-1].run(turn, operands, read)

    def _run_loop(self, turn: Turn, values: list[Any], read: dict[Operation, Any]) -> list[Any]:
        condition, body = self._parts
        live = self._live
        before = turn.inner_cost
        while _truth(condition.run(turn, values, read)[0]):
            if turn.token is not None:
                turn.token.raise_if_cancelled()
            for i, value in zip(live, body.run(turn, values, read), strict=True):
                values[i] = value
            if turn.inner_cost - before > body.compiling and not body.is_best:
                raise TooLong
        return [values[i] for i in self.given]


class _Part:
    """A body of such an op."""

    def __init__(self, bodies: Any, body: Body, live: Sequence[int]) -> None:
        self._bodies = bodies
        self._plan = bodies.of(body, tuple(live))
        self._count = len(live)
        code = bodies.straight(self._plan)
        if code is None:
            raise Changed
        self._code = code
        self._places = [i for i, arg in enumerate(body.args) if not arg.dtype.is_ref]
        self.makers = [key.maker for key in code.reads]
        """What makes the variables that it reads."""
        self._inner: dict[Operation, InnerCode] = {}
        may_compile = self._plan.options.tier == "auto" and policy.may_compile(self._plan)
        self.compiling = self._plan.cost.compile if may_compile else float("inf")
        """What it costs to compile it, in modelled microseconds."""

    @property
    def is_best(self) -> bool:
        """Whether its code is better than a program, as far as it has any."""
        return self._code.is_best

    def run(self, turn: Turn, operands: Sequence[Any], read: dict[Operation, Any]) -> list[Any]:
        """The values of the outputs that are used."""
        values = [operands[i] for i in self._places]
        values += [read[maker] for maker in self.makers]
        outcome = self._code.run(values, turn)
        if outcome is not None:
            turn.inner_cost += outcome[1]
            return outcome[0][: self._count]
        bug = self._code.bug
        turn.inner_cost += self._plan.cost.run
        results = self._run_each(turn, values)
        if bug is not None:  # the kernels have succeeded where the code has not
            faults.warn(bug, "straight")
        return results[: self._count]

    def _run_each(self, turn: Turn, values: Sequence[Any]) -> list[Any]:
        """Run op by op, as there is no code yet."""
        plan = self._plan
        env: dict[Any, Any] = {**plan.constants, **plan.handles}
        env.update(zip([*plan.feeds, *self._code.reads], values, strict=True))
        for op in plan.segments[0].ops:
            definition = op.definition
            if definition.effect.kind == "body":
                inner = self._inner.get(op)
                if inner is None:
                    inner = self._inner[op] = self._bodies.inner(plan, op)
                results = inner(turn, *[env[key] for key in inner.keys])
                env.update(zip([op._outputs[i] for i in inner.given], results, strict=True))
                continue
            operands = [to_host(env[key]) for key in plan.sources(op) if key is not None]
            if definition.only_passes or definition.role is Role.ORDERING:
                env.update(zip(op._outputs, operands, strict=False))
                continue
            if refused_by_shape(plan, op, operands) is not None:
                raise Changed
            context = kernels.HostContext(op)
            context.precision = plan.options.precision
            if only_draws(op):
                context.philox = turn.take(op, blocks_of(op, operands))
            try:
                results = kernels.run_on_host(definition, operands, op._attrs, context)
            except faults.BUGS as problem:
                raise faults.KernelBug(op, problem) from problem
            env.update(zip(op._outputs, results, strict=True))
        return [env[fetch] for fetch in plan.fetches if isinstance(fetch, Tensor)]
