"""Plans of steps whose graph is not what runs: with collective ops, control flow of version 1, or handles that a
conditional chooses.

What members of collectives compute together comes first; then the functional view, or tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.ops.v1 import switches, tensor_arrays
from anabranch.rewrite import chosen_handles, functional_view, view_twins  # noqa: F401  (view_twins fills a slot)
from anabranch.runtime import collectives
from anabranch.runtime.executor import Executor
from anabranch.runtime.interpreter import body_plans
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.step import Step
from anabranch.runtime.v1.token_plan import TokenPlan
from anabranch.runtime.v1.tokens import TokenRunner

TYPES = switches.TYPES | tensor_arrays.TYPES


def occurs(fetches: Sequence[Any], feeds: Sequence[Tensor]) -> bool:
    """Whether ``fetches`` need an op that no plan runs as it is."""
    fed = frozenset(feeds)
    seen: set[Operation] = set()
    stack = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in fetches if fetch not in fed]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        if op.type in TYPES or op.definition.meets is not None or chosen_handles.occurs(op):
            return True
        seen.add(op)
        stack += [tensor.op for tensor in op._inputs if tensor not in fed]
        stack += op._control_inputs
        for use in bodies_of(op):
            stack += use.body.operations
    return False


class _ViewRunner:
    """Run the plan of a view; an error names the op of the user's graph."""

    def __init__(self, plan: Plan, view: functional_view.View | collectives.Expansion, runner: Any) -> None:
        self._view = view
        self._runner = runner

    def run(self, feeds: Sequence[Any], step: Step) -> list[Any]:
        """Run the plan and returns a value per fetch."""
        try:
            return self._runner.run(feeds, step)
        except errors.OpError as problem:
            problem._op = self._view.user_op(problem._op)
            raise

    def tell_what_stands(self, problem: errors.OpError, failed: Any, committed: bool) -> None:
        """Add to an error what stands although the step failed."""
        self._runner.tell_what_stands(problem, failed, committed)


def user_op(runner: Any, op: Operation) -> Operation:
    """The op of the user's graph that an op which ``runner`` runs stands for."""
    if isinstance(runner, _ViewRunner):
        original: Operation = runner._view.user_op(user_op(runner._runner, op))
        return original
    return op


def planned(
    graph: Graph, fetches: Sequence[Any], feeds: Sequence[Tensor], planning: Any, manager: Any,
    bodies: body_plans.BodyPlans, make_plan: Callable[[Sequence[Any], Sequence[Tensor]], Plan],
) -> tuple[Any, Any]:  # fmt: skip
    """A plan and what runs it, for fetches that :func:`occurs` is true of."""
    expansion = collectives.expanded(fetches, feeds)
    if expansion is not None:
        if occurs(expansion.fetches, expansion.feeds):
            plan, runner = planned(*expansion[:3], planning, manager, bodies, make_plan)
            return plan, _ViewRunner(plan, expansion, runner)
        plan = make_plan(expansion.fetches, expansion.feeds)
        return plan, _ViewRunner(plan, expansion, Executor(plan, manager, bodies))
    try:
        view = functional_view.view(graph, fetches, feeds)
    except functional_view.NoViewError as reason:
        token_plan = TokenPlan(fetches, feeds, planning.handle_of, planning.placer, planning.options, str(reason))
        return token_plan, TokenRunner(token_plan, manager, bodies)
    plan = make_plan(view.fetches, view.feeds)
    return plan, _ViewRunner(plan, view, Executor(plan, manager, bodies))
