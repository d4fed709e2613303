"""Plans of steps whose graph has control flow of version 1: of its functional view, or by tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.ops.v1 import switches, tensor_arrays
from anabranch.rewrite import functional_view, view_twins  # noqa: F401  (view_twins fills a slot)
from anabranch.runtime.executor import Executor
from anabranch.runtime.interpreter import body_plans
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.step import Step
from anabranch.runtime.v1.token_plan import TokenPlan
from anabranch.runtime.v1.tokens import TokenRunner

TYPES = switches.TYPES | tensor_arrays.TYPES


def occurs(fetches: Sequence[Any], feeds: Sequence[Tensor]) -> bool:
    """Whether ``fetches`` need an op that only a functional view or tokens can run."""
    fed = frozenset(feeds)
    seen: set[Operation] = set()
    stack = [fetch.op if isinstance(fetch, Tensor) else fetch for fetch in fetches if fetch not in fed]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        if op.type in TYPES:
            return True
        seen.add(op)
        stack += [tensor.op for tensor in op._inputs if tensor not in fed]
        stack += op._control_inputs
        for use in bodies_of(op):
            stack += use.body.operations
    return False


class _ViewRunner:
    """Run the plan of a view; an error names the op of the user's graph."""

    def __init__(self, plan: Plan, view: functional_view.View, runner: Executor) -> None:
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
    original: Operation = runner._view.user_op(op) if isinstance(runner, _ViewRunner) else op
    return original


def planned(
    graph: Graph, fetches: Sequence[Any], feeds: Sequence[Tensor], planning: Any, manager: Any,
    bodies: body_plans.BodyPlans, make_plan: Callable[[Sequence[Any], Sequence[Tensor]], Plan],
) -> tuple[Any, Any]:  # fmt: skip
    """A plan and what runs it, for fetches that :func:`occurs` is true of."""
    try:
        view = functional_view.view(graph, fetches, feeds)
    except functional_view.NoViewError as reason:
        token_plan = TokenPlan(fetches, feeds, planning.handle_of, planning.placer, planning.options, str(reason))
        return token_plan, TokenRunner(token_plan, manager, bodies)
    plan = make_plan(view.fetches, view.feeds)
    return plan, _ViewRunner(plan, view, Executor(plan, manager, bodies))
