"""Steps in flight: a callable that returns before its step has ended, as far as that can be undone.

A step may be dispatched before the flags of the one ahead of it are read if everything it could do wrong can be held
back in the device: it is one program (:mod:`anabranch.runtime.fast_path`), and every variable that it writes is one
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
from anabranch.runtime import results, step_threads
from anabranch.runtime.fast_path.fast_step import FastStep
from anabranch.runtime.fast_path.form import Form
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import RandomCounter, Slot, Version
from anabranch.runtime.step import Call, OtherLayout, Transaction, device_failure, random_words
from anabranch.xla import engine, kernel_context


class StepInFlight:
    """A step that an asynchronous callable has started: a promise of its results."""

    __slots__ = (
        "_build",
        "_failure",
        "_pipeline",
        "_settled",
        "_values",
        "advances",
        "flags",
        "gated",
        "lost",
        "slots",
    )

    def __init__(self, pipeline: Pipeline, build: Callable[[list[Any]], Any], values: list[Any]):
        self._pipeline = pipeline
        self._build = build
        self._values = values
        self._settled = True
        self._failure: BaseException | None = None
        self.lost: errors.OpError | None = None
        """Why its values are lost, although it may have been done."""
        self.flags: Any = None
        self.gated: Call | None = None
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
        if self.lost is not None:
            raise self.lost
        return self._build(results.owned(self._values))

    def exception(self) -> BaseException | None:
        """What the step failed with, or None; waits for the step."""
        self._pipeline.settle(self)
        if self._failure is not None:
            self._pipeline.reported()
        return self._failure

    def __repr__(self) -> str:
        if not self._settled:
            return "<a step in flight>"
        return "<a step that ended>" if self._failure is None else f"<a step that failed: {self._failure}>"

    # ------------------------------------------------------------------------------------- for the pipeline
    def begun(self, gated: Call, flags: Any, advances: list[tuple[RandomCounter, int]]) -> None:
        """It is in the device from now on."""
        self._settled = False
        self.gated, self.flags, self.advances, self.slots = gated, flags, advances, gated.slots

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
        self._gated: Cache[Form, Any] = Cache("gated forms of steps", 32)

    # ----------------------------------------------------------------------------------------------- ending steps
    def writes_any(self, touched: frozenset[Any]) -> bool:
        """Whether a step in flight writes any of these variables and streams."""
        with self._lock:
            return any(
                not touched.isdisjoint(step.slots) or any(counter in touched for counter, _ in step.advances)
                for step in self._steps
            )

    @property
    def pending(self) -> int:
        """How many steps are in flight."""
        return len(self._steps)

    def settle(self, last: StepInFlight | None = None) -> None:
        """Waits for the steps in flight, up to ``last`` if it is given."""
        if last is not None and not last.waits:
            return
        with self._lock:
            while self._steps and (last is None or last.waits):
                self._settle_first()

    def make_room(self) -> None:
        """Wait until one step more may be started."""
        with self._lock:
            while len(self._steps) >= self._depth:
                self._settle_first()

    @property
    def caches(self) -> list[Cache[Any, Any]]:
        """The caches that it owns."""
        return [self._gated]

    def close(self) -> None:
        """Drop what was made for steps in flight: none will be started any more."""
        self._gated.close()

    def reported(self) -> None:
        """Somebody knows of the failure."""
        self._failure = None

    def raise_failure(self) -> None:
        """Raise a failure that nobody has been told of."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def record(self, failure: BaseException) -> None:
        """Keep a failure until somebody is told."""
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
            first = step.flags[0]
            # In the main thread Ctrl-C is heard only while it waits in Python.
            waits = threading.current_thread() is threading.main_thread() and not first.is_ready()
            failed = int(step_threads.wait(lambda: np.asarray(first)) if waits else np.asarray(first))
            if failed == kernel_context.PASSED:
                return None
            if failed == kernel_context.NOT_TRIED:
                return _not_tried(None)
            return gated.program.failure(gated.executable, failed, np.asarray(step.flags[1]))
        except Exception as problem:
            failure = device_failure(problem, len(gated.program.group.ops))
            if failure is None:
                raise
            self._manager.lose(gated.slots)
            return failure

    # --------------------------------------------------------------------------------------------- starting steps
    def start(
        self,
        fast: FastStep,
        feeds: Sequence[Any],
        build: Callable[[list[Any]], Any],
        token: CancellationToken,
        read_committed: bool,
    ) -> StepInFlight | None:
        """Start a step behind those in flight; None if it is not of the kind that can be."""
        form = fast.in_one
        if form is None or not _may_fly(form) or self._gated.peek(form, default=form) is None:
            return None
        transaction = Transaction(self._manager, token)
        try:
            current = form.begin(transaction, read_committed, self)
            with self._lock:
                transaction.require(form.layout)
                return self._dispatch(form, [*feeds, *fast.given], current, build, transaction)
        except OtherLayout:
            return None
        except BaseException:
            transaction.fail()
            raise
        finally:
            transaction.end()

    def _dispatch(
        self,
        form: Form,
        values: list[Any],
        current: Sequence[Version],
        build: Callable[[list[Any]], Any],
        transaction: Transaction,
    ) -> StepInFlight | None:
        assert form.last is not None
        program, counters = form.last.call.program, form.last.counters
        arguments = form.last.arguments(values, current)
        for version in current:  # nobody waits for the program while it holds them
            version.exposed = True
        rng = random_words(counters)
        gated = self._gated.get(form)
        if gated is None:
            versions = [slot.current().value for slot in form.last.call.slots]
            executable = program.executable(engine.moved(versions, program.device), arguments, {}, rng, gated=True)
            if executable is None or executable.facts.dynamic:
                self._gated.put(form, None)
                return None
            gated = form.with_executable(executable)
            self._gated.put(form, gated)
        step = StepInFlight(self, build, [])
        gate = self._steps[-1].flags[0] if self._steps else kernel_context.OPEN
        outputs, finals, flags = gated.call.run(transaction, arguments, rng, (gate,))
        amounts = gated.store(values, outputs, finals)
        advances = list(zip(counters, amounts, strict=True))
        for counter, amount in advances:
            counter.position += amount
        step.begun(gated.call, flags, advances)
        self._steps.append(step)
        with self._manager.changed:
            if self not in self._manager.in_flight:
                self._manager.in_flight.append(self)
        # The next step may own what this one returns for variables, and what it has read.
        shared = range(len(values) - len(finals), len(values))
        try:
            with engine.x64():
                copy = engine.jax().numpy.copy
                for at, value in zip(form.fetches, form.raw(values, current), strict=True):
                    belongs = at is not None and (at < 0 or at in shared) and not isinstance(value, np.ndarray)
                    step._values.append(copy(value) if belongs else value)
        except Exception as problem:  # it is in the device: whoever asks for its values is told that they are lost
            step.lost = _without_values(problem)
        return step


def _may_fly(form: Form) -> bool:
    """Whether everything that the step writes is held back by its own program."""
    return not form.segment.written or form.shows


def _without_values(problem: Exception) -> errors.OpError:
    error = errors.ResourceExhaustedError(
        None,
        None,
        errors.message(
            f"fetches of a step in flight that could not be copied: {problem}",
            "memory for what the step gives while the next one runs",
            "fetch less, or keep fewer steps in flight; what this step wrote stands, if it has not failed otherwise",
        ),
    )
    error.__cause__ = problem
    return error


def _not_tried(cause: BaseException | None) -> errors.OpError:
    reason = getattr(cause, "message", None) or str(cause or "")
    error = errors.AbortedError(
        None,
        None,
        errors.message(
            "a step in flight behind one that failed, which therefore did nothing",
            "no failure before it",
            f"see what failed, and start it again: {reason}",
        ),
    )
    error.__cause__ = cause
    return error


class AsynchronousCallable:
    """What ``Session.make_callable(asynchronous=True)`` returns: called, it starts a step and returns a promise."""

    def __init__(self, session: Any, fetch_plan: Any, names: tuple[Tensor, ...], bind: Any, in_flight: int):
        self._session = session
        self._fetch_plan = fetch_plan
        self._names = names
        self._bind = bind
        self.pipeline = Pipeline(session._manager, in_flight)

    def __call__(self, *args: Any) -> StepInFlight:
        """Start a step with ``args`` as feeds, which may be changed at once. Waits if enough are in flight.

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
        in_flight = session._start(self.pipeline, plan, self._names, values)
        if in_flight is not None:
            return in_flight
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
