"""A worker: the resources, plans and nested bodies of one task, and the steps that it runs.

Policy. A worker is told which steps to run. It knows no session, no structure of fetches and no names that a caller
has for what it feeds: values come and go by position. A step is registered once, by elements of a graph of this process
(:class:`LocalStep`) or by the bytes that another process has made of them (:mod:`anabranch.runtime.portable_plan`), and
has a number from then on. For the worker the two are the same: a graph that came as bytes is a graph.

What a step needs (a plan for its feeds' shapes, in a tier) is found or made when it runs. A step that is running has a
token in :attr:`Worker.running`; a closed worker cancels these, and frees what it owns when the last has ended.

A step that fails raises what ``Session.run`` does. An error names the op and the lines of the program that made it; it
can be pickled, and is then the same text in another process, without the op.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anabranch.core import cache, errors
from anabranch.core import device as device_names
from anabranch.core.cache import Cache
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.live_set import LiveSet
from anabranch.placement.placer import LOCAL_TASK, Placer
from anabranch.runtime import executor, pipeline, portable_plan, step_stats
from anabranch.runtime.interpreter import nested
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.plans import direct, shape_families
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.resources import ResourceHandle, ResourceManager
from anabranch.runtime.v1 import plans as version_one
from anabranch.xla import engine, memory


class LocalStep(NamedTuple):
    """A step by elements of a graph: what to compute, and what the caller gives values for."""

    graph: Graph
    fetches: tuple[Tensor | Operation, ...]
    feeds: tuple[Tensor, ...]


class RegisteredStep:
    """A step that a worker knows by a number, as long as somebody holds this."""

    __slots__ = ("__weakref__", "number", "shortcut", "step")

    def __init__(self, number: int, step: LocalStep) -> None:
        self.number = number
        self.step = step
        self.shortcut: direct.Hot | None = None
        """How it ran last, if it took the short way."""


class _Planning(NamedTuple):
    """What plans of nested bodies share with those of steps."""

    handle_of: Callable[[Operation], ResourceHandle]
    placer: Placer
    options: SessionOptions


class Worker:
    """Runs steps for a task.

    Args:
        options: how steps run.
        soft_placement: whether an op that names a device which is not there goes to another one.
        task: the name of the task, which handles of its resources carry.
    """

    def __init__(
        self, options: SessionOptions | None = None, soft_placement: bool = False, task: str = LOCAL_TASK
    ) -> None:
        self.options = options if options is not None else SessionOptions()
        self.task = task
        self.manager = ResourceManager(self.options.seed)
        self.placer = Placer(lambda platform: len(engine.devices(platform)), engine.default_platform, soft_placement)
        self._planning = _Planning(self.handle_of, self.placer, self.options)
        self._bodies = nested.BodyPlans(self._planning)
        self._plans: Cache[Any, shape_families.Planned] = Cache("plans", self.options.plan_cache_size)
        self._families: Cache[Any, shape_families.Family | None] = Cache(
            "families of shapes", self.options.plan_cache_size
        )
        self._steps: weakref.WeakValueDictionary[LocalStep, RegisteredStep] = weakref.WeakValueDictionary()
        self._by_number: weakref.WeakValueDictionary[int, RegisteredStep] = weakref.WeakValueDictionary()
        self._numbers = itertools.count(1)
        self._pipelines: LiveSet[pipeline.Pipeline] = LiveSet()
        self._lock = threading.Lock()
        self._read_committed = self.options.isolation == "read_committed"
        self.running: set[CancellationToken] = set()
        self.closed = False

    # ------------------------------------------------------------------------------------------------------------ steps
    def register(self, step: LocalStep | bytes) -> RegisteredStep:
        """Makes a step known, or finds it if it is."""
        if isinstance(step, bytes):
            plan = portable_plan.unpack(step)
            step = LocalStep(plan.graph, plan.fetches, plan.feeds)
        with self._lock:
            known = self._steps.get(step)
            if known is None:
                known = RegisteredStep(next(self._numbers), step)
                self._steps[step] = self._by_number[known.number] = known
            return known

    def step(self, number: int) -> RegisteredStep:
        """The step of a number.

        Raises:
            NotFoundError: nobody has registered it, or nobody holds it any more.
        """
        known = self._by_number.get(number)
        if known is None:
            raise errors.NotFoundError(
                None,
                None,
                errors.message(f"step {number}", "the number of a registered step", "register it again"),
            )
        return known

    def handle_of(self, maker: Operation) -> ResourceHandle:
        """The resource that an op which makes handles names."""
        attrs = maker._attrs
        assert maker.definition.makes is not None
        return ResourceHandle(
            maker.definition.makes,
            attrs.get("container", "") or "",
            attrs.get("shared_name", "") or maker.name,
            device_names.merge_names(self.task, maker._device),
        )

    # ---------------------------------------------------------------------------------------------------------- running
    def run(
        self,
        registered: RegisteredStep,
        values: Sequence[Any],
        timeout: float | None = None,
        run_metadata: Any = None,
    ) -> list[Any]:
        """Runs a step and returns a value per fetch: arrays that the caller owns, None for operations.

        Args:
            registered: the step.
            values: a value per feed, of its dtype and a shape that it allows.
            timeout: seconds after which the step is cancelled; None for never.
            run_metadata: a RunMetadata that is told what ran when, if given.

        Raises:
            OpError: the step failed. RuntimeError: the worker is closed.
        """
        shortcut = registered.shortcut
        if shortcut is not None and run_metadata is None and shortcut.fits(registered.step.feeds, values):
            results = self._run_shortcut(registered.step.graph, shortcut, values, timeout)
            if results is not None:
                return results
        changes = registered.step.graph._changes
        plan, runner = self.plan(registered, values)
        if plan.tier not in ("compiled", "tokens"):
            with self._lock:
                plan.spent = self._bodies.spent(plan)
                executor.prepare(plan, self.options.tier)
                plan.runs += 1
        else:
            plan.runs += 1
        token = self._entered(timeout)
        try:
            step = executor.Step(self.manager, token, self._read_committed)
            if run_metadata is not None:
                step.stats = []
            results = runner.run(values, step)
            if step.nested_cost[0]:
                self._bodies.spend(plan, step.nested_cost[0])
            if step.stats is not None:
                step_stats.fill_metadata(run_metadata, step.stats)
            elif plan.tier == "compiled":
                registered.shortcut = direct.hot(changes, registered.step.feeds, values, plan, runner)
            return results
        finally:
            self._left(token)
