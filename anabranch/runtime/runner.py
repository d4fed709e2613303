"""What the pieces of a step ask of the executor that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import ValueKey
from anabranch.runtime.interpreter.body_plans import BodyPlans
from anabranch.runtime.plans.items import Segment
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Slot
from anabranch.runtime.step import Step


class Runner(Protocol):
    """One plan in one resource manager; :class:`anabranch.runtime.executor.Executor` is it."""

    plan: Plan
    manager: ResourceManager
    bodies: BodyPlans
    shared: list[Operation]
    """Makers that are fetched: each must agree with the object that is there."""

    def slot(self, maker: Operation) -> Slot:
        """The variable that ``maker`` names."""

    def resource(self, handle: Any) -> Any:
        """The queue, table or the like of a handle, made if the step has what makes it."""

    def for_plan(self, plan: Plan, manager: ResourceManager) -> Runner:
        """What runs another plan, in another manager."""

    def run(self, feeds: Sequence[Any], step: Step) -> list[Any]:
        """Run the plan; a value per fetch: NumPy arrays, None for operations."""

    def run_stateless(self, feeds: Sequence[Any], token: CancellationToken) -> list[Any] | None:
        """Run a nested plan of a few host ops without state; None, and nothing has happened, if it does more."""

    def prepare(self, tier: str) -> None:
        """Choose the tier of the coming run, and arrange the plan if it changed."""

    def run_from(self, first: int, env: dict[ValueKey, Any], step: Step) -> list[Any]:
        """Run the segments from ``first`` on; a value per fetch."""

    def tell_what_stands(self, problem: errors.OpError, failed: Segment, committed: bool) -> None:
        """Say in an error what of the step stands."""
