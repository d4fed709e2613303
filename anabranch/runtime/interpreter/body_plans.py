"""The plans of the nested bodies that a session runs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from anabranch.core.cache import Cache, Listed
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation
from anabranch.rewrite import effects
from anabranch.runtime.interpreter import open_code
from anabranch.runtime.interpreter import straight_line as straight
from anabranch.runtime.interpreter.inner_code import InnerCode
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.watching import Watcher

BODIES_FOR_A_SEGMENT = 8
"""A body is not compiled on its own where a segment that costs at most that many times as much will be."""


class BodyPlans:
    """The plans of the nested bodies that a session runs. They are shared by all plans whose ops hold the bodies.

    As many are kept as the session keeps plans, or twice as many as the bodies of one of these if that is more: a step
    must not drop what it needs next time.
    """

    def __init__(self, outer: Any, watcher: Watcher | None = None, lasting: BodyPlans | None = None) -> None:
        self.watcher = watcher
        """Who is told of each op that is interpreted, if somebody is; then nothing is run in another way."""
        self.lasting = lasting if lasting is not None else self
        """The plans of functions that are called when the step is long over: these are not watched."""
        self.handle_of = outer.handle_of
        self._placer = outer.placer
        self._options = outer.options
        self._plans: Cache[Any, Plan] = Cache("plans of bodies", outer.options.plan_cache_size)
        self._spent: Cache[Body, float] = Cache("costs of bodies", outer.options.plan_cache_size)
        self._lock = threading.Lock()

    @property
    def caches(self) -> list[Listed]:
        """The caches that it owns, and its plans'."""
        return [self._plans, self._spent, *(cache for plan in self._plans.values() for cache in plan.caches)]

    def close(self) -> None:
        """Drop all plans, and keeps none from now on."""
        self._plans.close()
        self._spent.close()

    def expect(self, plan: Any) -> None:
        """Make room for the bodies of a plan."""
        most = 2 * _count(plan.held_bodies)
        for cache in (self._plans, self._spent):
            cache.bound = max(cache.bound, most)

    def straight(self, plan: Plan) -> straight.Straight | None:
        """What runs a body faster than op by op, if it only computes."""
        if self.watcher is not None:
            return None
        with self._lock:
            if plan.straight is None:
                made = straight.of(plan, self)
                if made is not None:
                    made.any_size = open_code.of_loop(plan, made.reads, self)
                plan.straight = (made,)
        code: straight.Straight | None = plan.straight[0]
        return code

    def inner(self, plan: Plan, op: Operation) -> InnerCode:
        """An op with bodies in the straight code of ``plan``."""
        return InnerCode(self, plan, op)

    def spend(self, plan: Any, cost: float) -> None:
        """Notes what interpreting the bodies of ``plan`` has cost in a run."""
        with self._lock:
            plan.spent += cost
            for body in plan.held_bodies:
                before = self._spent.get(body, default=0.0)
                self._spent.put(body, before + cost / len(plan.held_bodies))

    def spent(self, plan: Any) -> float:
        """What interpreting them has cost so far, whichever plan it was done for."""
        return max(plan.spent, sum(self._spent.peek(body, default=0.0) for body in plan.held_bodies))

    def of(self, body: Body, live: tuple[int, ...]) -> Plan:
        """The plan of the outputs ``live`` of ``body``, and of the effects that they bring."""
        key, graph = (body, live), body.graph
        plan: Plan | None = self._plans.get(key, graph._changes)
        if plan is None:
            with graph._lock:
                changes = graph._stamp()
                plan = self._plans.peek(key, changes)  # another thread may have made it meanwhile
                if plan is None:
                    plan = self._plan(body, live)
                    old = self._plans.peek(key)
                    if old is not None:
                        plan.runs = old.runs
                    self._plans.put(key, plan, changes)
        return plan

    def _plan(self, body: Body, live: tuple[int, ...]) -> Plan:
        feeds = [arg for arg in body.args if not arg.dtype.is_ref]
        roots: list[Any] = [*[body.outputs[i] for i in live], *body.control_outputs]
        if len(live) < len(body.outputs):
            roots += effects.needed_anyway(body)
        shapes = [arg._shape for arg in feeds]
        return Plan(roots, feeds, self.handle_of, self._placer, self._options, shapes, nested=True)


def _count(bodies: Iterable[Body]) -> int:
    """How many bodies these are, with those inside them."""
    seen: set[Body] = set()
    waiting = list(bodies)
    while waiting:
        body = waiting.pop()
        if body not in seen:
            seen.add(body)
            waiting += [use.body for op in body.operations for use in bodies_of(op)]
    return len(seen)
