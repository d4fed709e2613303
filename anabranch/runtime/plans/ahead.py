"""Programs that are compiled beside the interpreted runs of their plan, so that no run waits for XLA.

An interpreted run shows the shape of every value in the step. With these, a thread arranges a second plan of the same
step for the compiled tier, traces its programs, and has each compiled by a process of its own
(:mod:`anabranch.xla.background`), one plan after another. Lists, and small integers that follow from shapes, a program
hands to a later one in another form than the interpreter: that form is taken from what the first one was compiled to.
What tracing finds out on the way (values that must be known,
ops that have no compiled form) arranges that plan anew, as it would have done in a step. The plan of the session adopts
the other's programs when the policy says so (:mod:`anabranch.runtime.plans.policy`); until then, nothing of it changes.

Whatever cannot be done in this way is compiled by the step that needs it, as if there had been no attempt: plans on
several devices.

A program that pads its batch is compiled for one capacity after another. Where the clock decides, a step that needs one
that is not there has it compiled beside it (:class:`Further`), and is interpreted.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.core import conditions
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import kernels
from anabranch.core.graph.state_key import ValueKey
from anabranch.core.values.list_values import TracedList
from anabranch.runtime.plans import shape_families
from anabranch.runtime.plans.items import ProgramItem, Segment
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.values import device_value, to_host
from anabranch.xla import background, capacities, engine, lists, lowering
from anabranch.xla.executables import Means
from anabranch.xla.padding import batches
from anabranch.xla.program import UNTRACEABLE

KNOWN_ELEMENTS = 1024
"""Arrays of up to this many elements are remembered with their values, which a program may have to know."""
_NEEDS = (lowering.CutNeeded, lowering.BoundNeeded, lowering.HostNeeded, batches.NotPadded)
_log = logging.getLogger("anabranch")
_turn = threading.Lock()
"""Held by the thread whose programs are compiled: two compilations at a time would slow the steps down."""


class NotPossible(Exception):
    """The plan is one that only a step can compile: the reason."""


def observed(env: Mapping[ValueKey, Any]) -> dict[ValueKey, Any]:
    """What the values of a run look like; it keeps none of the large ones."""
    observations = {}
    for key, value in env.items():
        with contextlib.suppress(kernels.NotCompilable):  # a list that programs do not take
            observations[key] = _like(device_value(value))
    return observations


def _like(value: Any) -> Any:
    if isinstance(value, capacities.Padded):
        value = value.exact()
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None or np.dtype(dtype).hasobject or isinstance(value, TracedList):
        return value
    if value.size <= KNOWN_ELEMENTS:
        return np.array(to_host(value))
    return np.broadcast_to(np.zeros((), dtype), shape)


class Ahead:
    """The programs of one plan that are being compiled. ``values`` are what :func:`observed` has given."""

    def __init__(self, plan: Plan, values: dict[ValueKey, Any]) -> None:
        self.result: Plan | None = None
        """The plan whose programs are there; None before that, and if it was not possible."""
        self.done = False
        self._plan = plan
        self._values = values
        with plan._arranging:
            _ = plan.apart  # which finds out whether its batches can be padded
            self._varying = _varying_of(plan)
        self._ended = conditions.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to compile."""
        self._thread = background.start(self._work, "anabranch-ahead")

    def cancel(self) -> None:
        """Stop compiling: nobody will run the plan again."""
        if self._thread is not None:
            background.stop(self._thread)

    def wait(self, token: CancellationToken) -> None:
        """Wait until it is done.

        Raises:
            OpError: the step whose token this is was cancelled.
        """
        with self._ended:
            token.wait_for(self._ended, lambda: self.done)

    @property
    def fits(self) -> bool:
        """Whether the plan is still to be arranged like the one whose programs are there."""
        return self.result is not None and self._varying == _varying_of(self._plan)

    def _work(self) -> None:
        result = None
        try:
            with _turn:
                result = self._compiled()
        except (NotPossible, kernels.NotCompilable) as reason:
            _log.info("A plan is compiled by the step that needs it: %s", reason)
        except Exception as problem:  # the step that compiles for itself meets it again, and says what it is
            _log.info("Compiling beside a plan's runs failed: %s: %s", type(problem).__name__, problem)
        finally:
            self._values = {}
            with self._ended:
                self.result, self.done = result, True
                self._ended.notify_all()

    def _compiled(self) -> Plan:
        with self._plan.graph._lock:
            plan = _alike(self._plan)
        plan.arrange("compiled")
        if plan.several_devices:
            raise NotPossible("it runs on several devices")
        while True:
            # A need arranges the plan anew, with other programs: none is compiled before all have been traced.
            for means in (Means.LOWERED, Means.BESIDE):
                segment, need = self._first_need(plan, means)
                if need is not None:
                    plan.require(need, segment, segment.items)
                    break
            else:
                return plan

    def _first_need(self, plan: Plan, means: Means) -> tuple[Segment, Exception | None]:
        """Lower or compile the programs; the first thing that one of them needs to know, and its segment."""
        values = dict(self._values)
        for segment in plan.segments:
            for item in segment.items:
                if isinstance(item, ProgramItem):
                    try:
                        self._make(plan, item, values, means)
                    except _NEEDS as need:
                        return segment, need
                    except capacities.TooRoomy as need:  # the next attempt takes less
                        return segment, need
                    except UNTRACEABLE:  # its ops will run one by one
                        pass
        return plan.segments[-1], None

    def _make(self, plan: Plan, item: ProgramItem, values: dict[ValueKey, Any], means: Means) -> None:
        """Lower or compile a program for ``values``, and put what it hands on in their place."""
        program = item.program
        if any(key not in values for key in (*program.inputs, *program.donated_keys)):
            return  # of a variable that the step does without
        inputs = [values[key] for key in program.inputs]
        size = plan.batch_size(values) if program.batch_axes else ()
        if program.batch_axes and not all(size or (0,)):
            return  # an empty batch is interpreted
        program.ready(inputs, item.static)
        batch = program.pad(inputs, size) if size else ()
        static = {
            i: to_host(values[program.inputs[i]])
            for i in plan.compile_time_inputs(item)
            if not isinstance(inputs[i], TracedList)
        }
        bounds = {i: program.capacities.of(~i, int(to_host(values[program.inputs[i]]))) for i in item.bounds}
        rng = np.zeros((len(program.random_ops), 6), np.uint32)
        engine.refuse_after_fork()
        old = [values[key] for key in program.donated_keys]
        executable = program.executable(old, inputs, static, rng, None, bounds, batch=batch, means=means)
        assert executable is not None
        outputs = executable.outputs()
        for position, value in zip(executable.facts.traced_outputs, outputs, strict=not executable.facts.dynamic):
            key = program.outputs[position]
            if isinstance(value, TracedList):
                # The number of its elements is what the step had, which decides on their room elsewhere.
                values[key] = value.with_size(values[key].size) if value.known_size is None else value
            elif isinstance(value, lists.TracedOptional):
                values[key] = value
        known_outputs = executable.facts.known_outputs
        if batch:
            assert executable.facts.batch is not None
            known_outputs = executable.facts.batch.known_at(size)
        for position, known in known_outputs.items():
            values[program.outputs[position]] = known
            if known is executable.facts.known_outputs[position]:
                plan.note_known(program.outputs[position], known)


class Further:
    """A further capacity of a program, compiled beside steps that are interpreted as long as it is not there.

    ``asked`` are the arguments of ``Program.executable``, of which it keeps no large array.
    """

    def __init__(self, program: Any, old: Any, inputs: Any, static: Any, rng: Any, bounds: Any, batch: Any) -> None:
        self.done = False
        self.problem: Exception | None = None
        """What kept it from being compiled, for the step that needs it."""
        given = [
            capacities.Padded(_like(value.array), value.axes, value.sizes)
            if isinstance(value, capacities.Padded)
            else _like(value)
            for value in inputs
        ]
        asked = [_like(value) for value in old], given, static, np.zeros_like(rng), None

        def work() -> None:
            try:
                with _turn:
                    program.executable(*asked, bounds, batch=batch, means=Means.BESIDE)
            except UNTRACEABLE:
                pass  # the program knows from now on
            except Exception as problem:
                self.problem = problem
            finally:
                self.done = True

        self._thread = background.start(work, "anabranch-ahead")

    def cancel(self) -> None:
        """Stop compiling."""
        if self._thread is not None:
            background.stop(self._thread)


def _alike(known: Plan) -> Plan:
    """Another plan of the same step, which knows what the first one has found out."""
    plan = Plan(known.fetches, known.feeds, known.handle_of, known.placer, known.options, known.feed_shapes)
    plan.varying = known.varying
    plan.required_static |= known.required_static
    plan.required_bounds |= known.required_bounds
    plan.on_host |= known.on_host
    return plan


def adopt(plan: Plan, other: Plan) -> None:
    """Have a plan run the programs of another plan of the same step from now on."""
    with plan._arranging:
        plan.required_static, plan.required_bounds = other.required_static, other.required_bounds
        plan.on_host, plan.host_slices = other.on_host, other.host_slices
        for segment, theirs in zip(plan.segments, other.segments, strict=True):
            segment.items = theirs.items
        plan.arrangements += 1
        plan.took = math.inf
        plan.tier = "compiled"  # last, like in `Plan.arrange`


def _varying_of(plan: Plan) -> tuple[Any, ...]:
    """What a plan is arranged by: a shape that turns out to change may follow from others that do."""
    varying = plan.varying
    inferred = {tensor: shape for tensor, (shape, _) in shape_families.inferred(plan).items()}
    rows = {tensor for tensor in varying.open if lowering.holds_distinct(tensor)}
    return inferred, rows, set(varying.changed), dict(varying.batch)
