"""A worker: the resources, plans and nested bodies of one task, and the steps that it runs.

Policy. A worker is told which steps to run. It knows no session, no structure of fetches and no names that a caller
has for what it feeds: values come and go by position. A step is registered once, by elements of a graph of this process
(:mod:`anabranch.runtime.registered_step`) or by the bytes that another process has made of them
(:mod:`anabranch.runtime.portable_plan`), and has a number from then on. For the worker the two are the same: a graph
that came as bytes is a graph.

A step that may last runs on a thread of its own (:mod:`anabranch.runtime.step_threads`), so that its caller hears of
deadlines, of ``close`` and of Ctrl-C: every step with a deadline; the first run of what is compiled, as compiling takes
long; a step whose last run took more than `LASTS`, or whose modelled price is more; one that calls Python functions or
acts on files; one with bodies that run on the host. All others, which are most, run in the thread that asks for them,
and cost nothing more. Loops of these that may last have a budget (:mod:`anabranch.xla.loops.loop_limits`).

What a step needs (a plan for the shapes of its feeds, in a tier) is found, or made, when it runs. A step that runs has
a token in :attr:`Worker.running`. A worker that is closed cancels these, and frees what it owns when the last has
ended.

A step that fails raises what ``Session.run`` does. An error names the op and the lines of the program that made it; it
can be pickled, and says the same in another process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anabranch.core import cache, conditions, errors
from anabranch.core.cache import Cache
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.live_set import LiveSet
from anabranch.core.values import spare_arrays
from anabranch.placement.devices import LOCAL_TASK, Devices
from anabranch.placement.placer import Placer
from anabranch.runtime import executor, pipeline, portable_plan, step_stats, step_threads
from anabranch.runtime.fast_path.fast_step import FastStep
from anabranch.runtime.fast_path.repetition import Repetition, repetition
from anabranch.runtime.interpreter import body_calls, body_plans
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.plans import comparison, policy, shape_families
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.registered_step import LocalStep, RegisteredStep
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import ResourceHandle, handle_of
from anabranch.runtime.step import Step
from anabranch.runtime.v1 import plans as version_one
from anabranch.runtime.watching import Watcher
from anabranch.xla import engine, memory, startup
from anabranch.xla.loops import loop_limits

_log = logging.getLogger("anabranch")
_numbers = itertools.count(1)
PATIENCE = 1.0
"""Seconds after which something says what it waits for."""
LASTS = 0.05
"""Seconds: a step that took longer runs on a thread of its own the next time."""


OnToken = Callable[[CancellationToken], None]
"""Is told the token of a step that begins."""


def _stays_here(fast: FastStep) -> bool:
    """Whether a step that may last stays in the thread that asks for it.

    It does if it only feeds queues, and the thread is there for that: no signal comes to it, and where the step waits
    for a queue it hears of everything else.
    """
    return bool(fast.computed) and not fast.limited and threading.current_thread() is not threading.main_thread()


class _Planning(NamedTuple):
    """What plans of nested bodies share with those of steps."""

    handle_of: Callable[[Operation], ResourceHandle]
    placer: Placer
    options: SessionOptions


class Worker:
    """Run steps for a task.

    Args:
        options: how steps run.
        config: a ConfigProto: which devices there are, and how ops are placed.
        task: the name of the task, which handles of its resources carry.
        manager: the resources, if they outlive the worker, or others share them; its own if None.

    Raises:
        FailedPreconditionError: the configuration asks for what JAX fixed when its devices started.
    """

    clock: Callable[[], float] = staticmethod(time.perf_counter)
    """Seconds, for what is decided by how long steps take."""
    busy: Callable[[], float] = staticmethod(time.thread_time)
    """Seconds of CPU time of the calling thread, for what is decided by how much work interpreted steps are.

    Waiting for a queue, or for other programs on the machine, is no reason to compile.
    """

    def __init__(
        self,
        options: SessionOptions | None = None,
        config: Any = None,
        task: str = LOCAL_TASK,
        manager: ResourceManager | None = None,
    ) -> None:
        self.options = options if options is not None else SessionOptions()
        self.task = task
        self._owns_resources = manager is None
        self._own = "" if manager is None else f"_{next(_numbers)}_"
        """What names of resources begin with that other workers of the same manager do not share."""
        self._private: set[ResourceHandle] = set()
        self.manager = ResourceManager(self.options.seed) if manager is None else manager
        if config is not None:
            startup.choose(config)
        if self.options.deterministic:
            startup.fix_threads()
        self.devices = Devices(
            lambda platform: len(engine.devices(platform)),
            engine.default_platform,
            None if config is None else config.device_count,
        )
        soft, logs = (False, False) if config is None else (config.allow_soft_placement, config.log_device_placement)
        self.placer = Placer(self.devices, soft, logs, task)
        self._planning = _Planning(self.handle_of, self.placer, self.options)
        self._bodies = body_plans.BodyPlans(self._planning)
        bound = self.options.plan_cache_size
        self._plans: Cache[Any, shape_families.Planned] = Cache("plans", bound)
        self._families: Cache[Any, shape_families.Family | None] = Cache("families of shapes", bound)
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
        """Make a step known; the one that is known if it is.

        Raises:
            DataLossError: bytes that are no step, or not whole.
        """
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
                None, None, errors.message(f"step {number}", "the number of a registered step", "register it again")
            )
        return known

    @property
    def functions(self) -> body_calls.BodyCalls:
        """What calls functions between steps, with the worker's resources."""
        return body_calls.BodyCalls(executor.Executor, self._bodies.lasting, self.manager)

    def handle_of(self, maker: Operation) -> ResourceHandle:
        """The resource that an op which makes handles names, or the stream of a random op."""
        handle = handle_of(maker, self.task, self._own)
        if self._own and handle.name.startswith(self._own):
            self._private.add(handle)
        return handle

    # ---------------------------------------------------------------------------------------------------------- running
    def run(
        self,
        registered: RegisteredStep,
        values: Sequence[Any],
        timeout: float | None = None,
        run_metadata: Any = None,
        on_token: OnToken | None = None,
    ) -> list[Any]:
        """Run a step and returns a value per fetch: arrays that the caller owns, None for operations.

        Args:
            registered: the step.
            values: a value per feed, of its dtype and a shape that it allows.
            timeout: seconds after which the step is cancelled; None for never.
            run_metadata: a RunMetadata that is told what ran when, if given.
            on_token: told the step's token when it begins, so that somebody else can cancel it.

        Raises:
            OpError: the step failed. RuntimeError: the worker is closed.
        """
        changes = registered.step.graph._changes
        plan, runner = self._plan(registered, values)
        if plan.tier not in ("compiled", "tokens"):
            with self._lock:
                plan.spent = self._bodies.spent(plan)
                executor.prepare(plan, self.options.tier)
                plan.runs += 1
        else:
            plan.runs += 1
        fast = getattr(runner, "fast", None)
        apart = timeout is not None or self._may_last(plan, fast)
        token = self._entered(timeout, on_token)
        token.brief = not apart and fast is not None and fast.limited
        step = Step(self.manager, token, self._read_committed)

        interpreted = plan.tier == "interpreted" and self.options.tier == "auto"

        def work() -> list[Any]:
            started, began = self.clock(), self.busy()
            try:
                if run_metadata is not None:
                    step.stats = []
                    results = runner.run(values, step)
                    with contextlib.suppress(MemoryError):
                        step_stats.fill_metadata(run_metadata, step.stats)
                    return results
                results = runner.run(values, step)
                with contextlib.suppress(MemoryError):  # the step is done, and what is noted of it can be spared
                    if step.nested_cost[0]:
                        self._bodies.spend(plan, step.nested_cost[0])
                    registered.last = repetition(changes, registered.step.feeds, values, plan, runner)
                    if interpreted:
                        executor.ran_interpreted(plan, self.busy() - began)
                return results
            finally:
                self._took(plan, self.clock() - started)
                self._left(token)

        if apart:
            return self._run_apart(registered, work, token, lambda problem: self._leave(token, runner, problem))
        try:
            return work()
        except loop_limits.TooLong:
            assert fast is not None
            fast.overran()
            step.token = token = self._entered(None, on_token)
            return self._run_apart(registered, work, token, lambda problem: self._leave(token, runner, problem))

    @staticmethod
    def _may_last(plan: Any, fast: FastStep | None) -> bool:
        """Whether a step is to run on a thread of its own, as it may last: see the policy above."""
        if plan.took > LASTS or plan.acts_outside:
            return True
        return fast.apart if fast is not None and fast.has_forms else bool(plan.held_bodies)

    def _run_apart(
        self, registered: RegisteredStep, work: Any, token: CancellationToken, leave: Callable[[errors.OpError], None]
    ) -> Any:
        """Run a step on a thread of its own; its results are copied to where this thread has them copied."""
        try:
            return step_threads.run(spare_arrays.copying_as_here(work), token, leave, registered.describe)
        except step_threads.NoThread as problem:
            self._left(token)
            raise errors.ResourceExhaustedError(None, None, str(problem)) from problem

    def repeat(
        self,
        registered: RegisteredStep,
        values: Sequence[Any],
        timeout: float | None,
        on_token: OnToken | None = None,
        shared: bool = False,
    ) -> list[Any] | None:
        """Run a step like the last time, if ``values`` are of the same kinds; None if it can no longer go that way.

        Args:
            registered: the step.
            values: a value per feed, like the last time.
            timeout: as in :meth:`run`, like the next.
            on_token: told the step's token.
            shared: whether results may stay on their device: the caller writes to none of them.
        """
        last = registered.last
        if last is None:
            return None
        fast = last.runner.fast
        if fast is None or fast is not last.fast or last.changes != registered.step.graph._changes:
            return None
        plan = last.plan
        if timeout is not None or ((plan.took > LASTS or fast.apart) and not _stays_here(fast)):
            return self._repeat_apart(registered, last, values, timeout, on_token, shared)
        token = self._entered(None, on_token)
        token.brief = fast.limited
        started = self.clock()
        try:
            results = fast.run(values, token, self._read_committed, shared)
            plan.runs += results is not None
            return results
        except loop_limits.TooLong:
            fast.overran()
        finally:
            self._took(plan, self.clock() - started)
            self._left(token)
        return self._repeat_apart(registered, last, values, None, on_token, shared)

    def _repeat_apart(
        self,
        registered: RegisteredStep,
        last: Repetition,
        values: Sequence[Any],
        timeout: float | None,
        on_token: OnToken | None,
        shared: bool,
    ) -> list[Any] | None:
        """The same on a thread of its own."""
        token = self._entered(timeout, on_token)
        plan, fast, runner = last.plan, last.fast, last.runner
        assert fast is not None

        def work() -> list[Any] | None:
            started = self.clock()
            try:
                results = fast.run(values, token, self._read_committed, shared)
                plan.runs += results is not None
                return results
            finally:
                self._took(plan, self.clock() - started)
                self._left(token)

        fetched: list[Any] | None = self._run_apart(
            registered, work, token, lambda problem: self._leave(token, runner, problem)
        )
        return fetched

    @staticmethod
    def _took(plan: Plan, seconds: float) -> None:
        """Note how long a run has taken, and which form of the plan is quicker if that is still to be found out."""
        plan.took = seconds
        if plan.comparison is not None:
            with plan._arranging:
                if plan.comparison is not None:  # another thread may have decided
                    plan.comparison.note(plan)

    def start(
        self,
        line: pipeline.Pipeline,
        registered: RegisteredStep,
        values: Sequence[Any],
        build: Callable[[list[Any]], Any],
        timeout: float | None,
    ) -> pipeline.StepInFlight | None:
        """Start a step behind those in flight; None if it must run at once."""
        if timeout is not None:
            return None
        plan, runner = self._plan(registered, values)
        fast = getattr(runner, "fast", None)
        if plan.tier != "compiled" or fast is None or fast.limited:
            return None
        token = self._entered(timeout)

        def work() -> pipeline.StepInFlight | None:
            started = self.clock()
            try:
                step = line.start(fast, values, build, token, self._read_committed)
                plan.runs += step is not None
                return step
            finally:
                if engine.waits_in_caller():
                    plan.took = self.clock() - started
                self._left(token)

        if not (engine.waits_in_caller() and self._may_last(plan, fast)):
            return work()
        in_flight: pipeline.StepInFlight | None = self._run_apart(registered, work, token, lambda problem: None)
        return in_flight

    def add_pipeline(self, line: pipeline.Pipeline) -> None:
        """Take part of a pipeline's life: it is settled when the worker closes."""
        self._pipelines.add(line)

    def watch(
        self,
        registered: RegisteredStep,
        values: Sequence[Any],
        watcher: Watcher,
        timeout: float | None = None,
        run_metadata: Any = None,
    ) -> list[Any]:
        """Run a step op by op, in the thread that asks for it, and tell a watcher of each op; the rest is as in `run`.

        The plan is made for this run and not kept. Functions that datasets call later are not watched.
        """
        graph, fetches, feeds = registered.step
        planning = self._planning._replace(options=dataclasses.replace(self.options, tier="interpreted"))
        bodies = body_plans.BodyPlans(planning, watcher, self._bodies)
        feed_shapes = [getattr(value, "shape", None) for value in values]

        def make_plan(fetches: Sequence[Any], feeds: Sequence[Tensor]) -> Plan:
            return Plan(fetches, feeds, self.handle_of, self.placer, planning.options, feed_shapes)

        with graph._lock:
            if version_one.occurs(fetches, feeds):
                plan, runner = version_one.planned(graph, fetches, feeds, planning, self.manager, bodies, make_plan)
            else:
                plan = make_plan(fetches, feeds)
                runner = executor.Executor(plan, self.manager, bodies)
        bodies.expect(plan)
        if plan.tier != "tokens":
            executor.prepare(plan, "interpreted")
        watcher.begins(lambda op: version_one.user_op(runner, op))
        token = self._entered(timeout)
        step = Step(self.manager, token, self._read_committed, None if run_metadata is None else [])
        try:
            results: list[Any] = runner.run(values, step)
        finally:
            self._left(token)
        if step.stats is not None:
            step_stats.fill_metadata(run_metadata, step.stats)
        return results

    def describe_partitions(self, registered: RegisteredStep, values: Sequence[Any], run_metadata: Any) -> None:
        """Note in a RunMetadata which ops a step with such values has on each device."""
        plan, _ = self._plan(registered, values)
        placed = [(op, str(plan.device[op])) for op in plan.analysis.order]
        step_stats.fill_partitions(run_metadata, placed)

    def explain(self, registered: RegisteredStep, values: Sequence[Any]) -> str:
        """Say what running a step with such values does: segments, programs, host ops, the tier and why."""
        plan, _ = self._plan(registered, values)
        if not plan.tier:
            with self._lock:
                executor.prepare(plan, self.options.tier)
        return plan.explain()

    def _entered(self, timeout: float | None, on_token: OnToken | None = None) -> CancellationToken:
        """The token of a step that begins; `_left` must follow."""
        token = CancellationToken(timeout)
        if on_token is not None:
            on_token(token)
        self.running.add(token)
        if self.closed:
            self._left(token)
            raise RuntimeError("Attempted to use a closed Session.")
        return token

    def _leave(self, token: CancellationToken, runner: Any, problem: errors.OpError) -> None:
        """The caller of a step goes away, with an error, before the step has ended."""
        if token.deadline is not None:  # it will not commit, and gives nothing away
            self.manager.give_up(token)
        if token.reached is not None:
            runner.tell_what_stands(problem, *token.reached)

    def _left(self, token: CancellationToken) -> None:
        token.ended = True
        self.running.discard(token)
        if self.closed and not self.running:
            self._free()

    # ------------------------------------------------------------------------------------------------------------ plans
    def _plan(self, registered: RegisteredStep, values: Sequence[Any]) -> shape_families.Planned:
        graph, fetches, feeds = registered.step
        shapes = tuple(
            [value.kind if isinstance(value, ResourceHandle) else getattr(value, "shape", value) for value in values]
        )
        key = (registered.number, shapes)
        family_key = shape_families.family_of(registered.number, values)
        changes = graph._changes
        planned: shape_families.Planned | None = self._plans.get(key, changes)
        if planned is not None:
            if planned.plan.tier != "interpreted" or family_key is None or policy.is_paid_for(planned.plan):
                return planned
            family = self._families.get(family_key, changes)
            if family is None or not family.serves(planned.plan):
                return planned
            # What the other shapes run is better than a program for this one, to be compiled yet.
        feed_shapes = [getattr(value, "shape", None) for value in values]
        runs = 0

        def make_plan(fetches: Sequence[Any], feeds: Sequence[Tensor]) -> Plan:
            return Plan(fetches, feeds, self.handle_of, self.placer, self.options, feed_shapes)

        with graph._lock:
            changes = graph._stamp()
            if planned is None:
                planned = self._plans.peek(key, changes)  # another thread may have made it meanwhile
                if planned is not None:
                    return planned
            family = None
            if family_key is not None:  # the steps that this one shares a plan with if shapes of feeds keep changing
                family = self._families.get_or_make(
                    family_key,
                    lambda: None if version_one.occurs(fetches, feeds) else shape_families.Family(),
                    changes,
                )
            if family is not None:
                shared, runs = family.choose(feeds, values, lambda: self._planned(make_plan(fetches, feeds)))
                if shared is not None:
                    return shared
            if family is None and version_one.occurs(fetches, feeds):
                planned = shape_families.Planned(
                    *version_one.planned(graph, fetches, feeds, self._planning, self.manager, self._bodies, make_plan)
                )
                self._expect(planned.plan)
            else:
                planned = self._plans.peek(key, changes) or self._planned(make_plan(fetches, feeds))
                planned.plan.runs = max(runs, planned.plan.runs)
                if runs:  # it has come so often that it is worth its programs
                    policy.pay_for(planned.plan)
            self._plans.put(key, planned, changes)
        return planned

    def _planned(self, plan: Plan) -> shape_families.Planned:
        self._expect(plan)
        return shape_families.Planned(plan, executor.Executor(plan, self.manager, self._bodies))

    def _expect(self, plan: Any) -> None:
        """Make ready for runs of a new plan."""
        self._bodies.expect(plan)
        decides = self.options.tier == "auto" and plan.tier != "tokens" and bool(plan.analysis.order)
        if decides and not policy.is_scheduled(plan):
            plan.comparison = comparison.Comparison()

    @property
    def caches(self) -> list[cache.Listed]:
        """The caches that it owns, and those of its plans, families and pipelines."""
        own: list[cache.Listed] = [self._plans, self._families, *self._bodies.caches]
        for plan, runner in self._plans.values():
            fast = getattr(runner, "fast", None)
            own += [*plan.caches, *(fast.caches if fast is not None else ())]
        for family in self._families.values():
            own += family.caches if family is not None else ()
        for line in self._pipelines:
            own += line.caches
        return [*own, *self.placer.caches]

    # ---------------------------------------------------------------------------------------------------------- closing
    def close(self) -> None:
        """Cancel running steps and frees the resources. Steps in flight end.

        Raises:
            OpError: one of these failed, and nobody has been told.
        """
        if self.closed:
            return
        self.closed = True
        for token in list(self.running):
            token.cancel(errors.CancelledError(None, None, "Session was closed."))
        lines = list(self._pipelines)
        self._settle(lines)
        if not self.running:  # else the last step that ends does it
            self._free()
        for line in lines:
            line.raise_failure()

    def _settle(self, lines: Sequence[pipeline.Pipeline]) -> None:
        """Waits for steps in flight, and says so if that takes long."""
        count = sum(line.pending for line in lines)
        if not count:
            return
        started = time.monotonic()
        say = threading.Timer(PATIENCE, _log.warning, ("Session.close waits for %d steps in flight to end", count))
        say.daemon = True
        conditions.start(say)
        try:
            for line in lines:
                line.settle()
        finally:
            say.cancel()
        if time.monotonic() - started > PATIENCE:
            _log.warning("Session.close waited %.1f s for steps in flight", time.monotonic() - started)

    def _free(self) -> None:
        for registered in list(self._by_number.values()):
            registered.last = None
        plans = [plan for plan, _ in self._plans.values()]
        plans += [family.plan for family in self._families.values() if family is not None and family.plan is not None]
        for plan in plans:
            for beside in (getattr(plan, "ahead", None), *getattr(plan, "further", {}).values()):
                if beside is not None:
                    beside.cancel()
        for kept in (self._plans, self._families, self._bodies, *self._pipelines):
            kept.close()
        if self._owns_resources:
            self.manager.clear()
        else:
            self.manager.drop(self._private)
        memory.release_memory()
