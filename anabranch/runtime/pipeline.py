"""Steps in flight: a callable that returns before its step has ended, as far as that can be undone.

A step may be dispatched before the flags of the one ahead of it are read if everything it could do wrong can be held
back in the device: it is one program (:mod:`anabranch.runtime.plans.direct`), and every variable that it writes is one
whose buffer it owns. Such a program, *gated*, takes the first flag of the step ahead as an argument: unless that
one passed, it writes nothing. So what the programs return for their variables is right whatever fails, and it is
published when the call returns. Everybody else's steps read it, or build on it, as after a step that has ended.

Positions of random streams are advanced when a step is dispatched and taken back if it fails. Nobody else sees them
meanwhile: whoever claims a variable or stream that steps in flight write has these settled first.

Any other step runs at once, after those in flight.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import Cache
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Tensor
from anabranch.runtime.interrupts import Interrupts
from anabranch.runtime.plans.direct import DirectStep, device_failure
from anabranch.runtime.state import spare_buffers
from anabranch.runtime.state.resources import Claim, RandomCounter, ResourceManager, Slot, Version
from anabranch.runtime.values import NO_RNG, own
from anabranch.xla import engine, kernel_context


class StepInFlight:
    """A step that an asynchronous callable has started: a promise of its results."""

    __slots__ = ("_build", "_failure", "_pipeline", "_settled", "_values", "advances", "flags", "gated", "slots")

    def __init__(self, pipeline: Pipeline, build: Callable[[list[Any]], Any], values: list[Any]):
        self._pipeline = pipeline
        self._build = build
        self._values = values
        self._settled = True
        self._failure: BaseException | None = None
        self.flags: Any = None
        self.gated: DirectStep | None = None
        self.slots: Sequence[Slot] = ()
        self.advances: list[tuple[RandomCounter, int]] = []

    def done(self) -> bool:
        """Whether the step has ended: ``result`` will not wait."""
        return self._settled or bool(self.flags[0].is_ready())

    def result(self) -> Any:
        """The values of the fetches, as ``Session.run`` returns them; waits for the step.

        Raises:
            tf.errors.OpError: the step failed. tf.errors.AbortedError: one before it did, so this one did nothing.
        """
        failure = self.exception()
        if failure is not None:
            raise failure
        return self._build([own(value) for value in self._values])

    def exception(self) -> BaseException | None:
        """What the step failed with, or None; waits for the step."""
        self._pipeline.settle(self)
        if self._failure is not None:
            self._pipeline.told()
        return self._failure

    def __repr__(self) -> str:
        if not self._settled:
            return "<a step in flight>"
        return "<a step that ended>" if self._failure is None else f"<a step that failed: {self._failure}>"

    # ------------------------------------------------------------------------------------- for the pipeline
    def begun(self, gated: DirectStep, flags: Any, advances: list[tuple[RandomCounter, int]]) -> None:
        """It is in the device from now on."""
        self._settled = False
        self.gated, self.flags, self.advances, self.slots = gated, flags, advances, gated.donated_slots

    def settled(self, failure: BaseException | None) -> None:
        """Its outcome is known."""
        if failure is not None:
            self._failure = failure
            self._values = []
            for counter, amount in self.advances:
                counter.position -= amount
        self._settled = True
        self.flags = self.gated = None
        self.slots = ()

    @property
    def waits(self) -> bool:
        """Whether the outcome is still unknown."""
        return not self._settled


class Pipeline:
    """The steps in flight of one asynchronous callable, in order."""

    def __init__(self, manager: ResourceManager, depth: int):
        self._manager = manager
        self._depth = depth
        self._steps: collections.deque[StepInFlight] = collections.deque()
        self._lock = threading.RLock()
        self._failure: BaseException | None = None
        """A failure that nobody has been told of."""
        self._gated: Cache[DirectStep, DirectStep | None] = Cache("gated forms of steps", 32)

    # ----------------------------------------------------------------------------------------------- ending steps
    def writes_any(self, touched: frozenset[Any]) -> bool:
        """Whether a step in flight writes any of these variables and streams."""
        with self._lock:
            return any(
                not touched.isdisjoint(step.slots) or any(counter in touched for counter, _ in step.advances)
                for step in self._steps
            )

    def settle(self, last: StepInFlight | None = None) -> None:
        """Waits for the steps in flight, up to ``last`` if it is given."""
        if last is not None and not last.waits:
            return
        with self._lock:
            while self._steps and (last is None or last.waits):
                self._settle_first()

    def make_room(self) -> None:
        """Waits until one step more may be started."""
        with self._lock:
            while len(self._steps) >= self._depth:
                self._settle_first()

    @property
    def caches(self) -> list[Cache[Any, Any]]:
        """The caches that it owns."""
        return [self._gated]

    def close(self) -> None:
        """Drops what was made for steps in flight: none will be started any more."""
        self._gated.close()

    def told(self) -> None:
        """Somebody knows of the failure."""
        self._failure = None

    def raise_failure(self) -> None:
        """Raises a failure that nobody has been told of."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def record(self, failure: BaseException) -> None:
        """Keeps a failure until somebody is told."""
        self._failure = failure

    def _settle_first(self) -> None:
        # An interrupt may come while this waits: only then is anything changed, so that it can be asked again.
        step = self._steps[0]
        failure = self._outcome(step)
        if failure is None:
            self._steps.popleft()
            step.settled(None)
        else:
            behind = list(self._steps)[1:]
            for other in behind:
                self._outcome(other)
            self._failure = failure
            step.settled(failure)
            for other in behind:
                other.settled(_not_tried(failure))
            self._steps.clear()
        if not self._steps:
            with self._manager.changed:
                if self in self._manager.in_flight:
                    self._manager.in_flight.remove(self)

    def _outcome(self, step: StepInFlight) -> BaseException | None:
        gated = step.gated
        assert gated is not None
        try:
            failed = int(np.asarray(step.flags[0]))
            if failed == kernel_context.PASSED:
                return None
            if failed == kernel_context.NOT_TRIED:
                return _not_tried(None)
            return gated.program.failure(gated.executable, failed, np.asarray(step.flags[1]))
        except Exception as problem:
            told = device_failure(problem, len(gated.program.group.ops))
            if told is None:
                raise
            self._manager.lose(gated.donated_slots)
            return told

    # --------------------------------------------------------------------------------------------- starting steps
    def start(
        self,
        direct: DirectStep,
        feeds: Sequence[Any],
        build: Callable[[list[Any]], Any],
        token: CancellationToken,
        read_committed: bool,
    ) -> StepInFlight | None:
        """Starts a step behind those in flight; None if it is not of the kind that can be."""
        manager = self._manager
        if not _may_fly(direct) or self._gated.peek(direct, default=direct) is None:
            return None
        loose: list[Version] = []
        state = direct.state
        claim = Claim(frozenset() if read_committed else state.claim_reads, state.claim_writes)
        interrupts = Interrupts()
        try:
            if direct.writes:
                manager.begin(claim, token, self)
            if not direct.layout.holds:
                return None
            if direct.read_slots and (read_committed or not direct.writes):
                current = loose = manager.pin(direct.read_slots, None, self)
            else:
                current = [slot.current() for slot in direct.read_slots]
            with self._lock:
                if not direct.layout.holds:
                    return None
                return self._dispatch(direct, feeds, current, build, interrupts)
        except BaseException:
            manager.settle(direct.donated_slots)
            raise
        finally:
            if loose:
                manager.unpin(loose)
            if direct.writes:
                manager.end(claim)
            interrupts.release()

    def _dispatch(
        self,
        direct: DirectStep,
        feeds: Sequence[Any],
        current: Sequence[Version],
        build: Callable[[list[Any]], Any],
        interrupts: Interrupts,
    ) -> StepInFlight | None:
        manager, program = self._manager, direct.program
        arguments = tuple(
            engine.moved([feeds[i] if i >= 0 else current[~i].value for i in direct.sources], program.device)
        )
        versions: list[Version] = [slot.current() for slot in direct.donated_slots]
        old = engine.moved([version.value for version in versions], program.device)
        rng = NO_RNG
        if direct.counters:
            rng = np.empty((len(direct.counters), 6), np.uint32)
            for row, counter in enumerate(direct.counters):
                rng[row, :2], rng[row, 2:] = counter.words()
        gated = self._gated.get(direct)
        if gated is None:
            executable = program.executable(old, arguments, {}, rng, gated=True)
            if executable is None or executable.facts.dynamic:
                self._gated.put(direct, None)
                return None
            gated = direct.variant(executable)
            self._gated.put(direct, gated)
        facts = gated.executable.facts
        step = StepInFlight(self, build, [])
        interrupts.hold()
        try:
            with engine.x64():
                copy = engine.jax().numpy.copy
                function, donated = spare_buffers.handed(
                    manager, program, gated.executable, versions, old, arguments, rng, gated=True
                )
                gate = self._steps[-1].flags[0] if self._steps else kernel_context.OPEN
                results, finals, flags = function(donated, arguments, program.device_constants(), rng, gate)
                manager.replace(gated.donated_slots, finals)
                # The next step may own what this one returns for variables, and what it has read.
                for kind, place in gated.fetches:
                    value = gated.place_of(kind, place, feeds, results, finals, current)
                    shared = kind in ("final", "read") and not isinstance(value, np.ndarray)
                    step._values.append(copy(value) if shared else value)
        except Exception as problem:
            told = device_failure(problem, len(program.group.ops))
            if told is None:
                raise
            raise told from problem
        advances = list(zip(gated.counters, facts.amounts(results), strict=True))
        for counter, amount in advances:
            counter.position += amount
        step.begun(gated, flags, advances)
        self._steps.append(step)
        with manager.changed:
            if self not in manager.in_flight:
                manager.in_flight.append(self)
        return step


def _may_fly(direct: DirectStep) -> bool:
    """Whether everything that the step writes is held back by its own program."""
    return not direct.item.writes and len(direct.segment.written) == len(direct.donated_slots)


def _not_tried(cause: BaseException | None) -> errors.OpError:
    told = getattr(cause, "message", None) or str(cause or "")
    found = errors.AbortedError(
        None,
        None,
        errors.message(
            "a step in flight behind one that failed, which therefore did nothing",
            "no failure before it",
            f"see what failed, and start it again: {told}",
        ),
    )
    found.__cause__ = cause
    return found


class AsynchronousCallable:
    """What ``Session.make_callable(asynchronous=True)`` returns: called, it starts a step and returns a promise."""

    def __init__(self, session: Any, fetch_plan: Any, names: tuple[Tensor, ...], bind: Any, in_flight: int):
        self._session = session
        self._fetch_plan = fetch_plan
        self._names = names
        self._bind = bind
        self.pipeline = Pipeline(session._manager, in_flight)

    def __call__(self, *args: Any) -> StepInFlight:
        """Starts a step with ``args`` as feeds, which may be changed at once. Waits if enough are in flight.

        Raises:
            tf.errors.OpError: an earlier step failed and nobody has asked it for its result; this one is not started.
        """
        values = tuple(
            [
                np.array(value)
                if isinstance(value, np.ndarray) and (value is given or value.base is not None)
                else value
                for value, given in zip(self._bind(args), args, strict=True)
            ]
        )
        self.pipeline.make_room()
        self.pipeline.raise_failure()
        session, plan = self._session, self._fetch_plan
        found = session._start(self.pipeline, plan.unique, self._names, values, plan.build)
        if found is not None:
            return found
        self.wait()
        step = StepInFlight(self.pipeline, plan.build, [])
        try:
            step._values = session._run(plan, self._names, values)
        except Exception as problem:
            self.pipeline.record(problem)
            step.settled(problem)
        return step

    def wait(self) -> None:
        """Waits for all steps in flight; raises the first failure that nobody has been told of."""
        self.pipeline.settle()
        self.pipeline.raise_failure()
