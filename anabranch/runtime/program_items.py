"""Programs in a segment: their arguments, the compiled form that serves these, and where their results go.

Where there is none (a variable that the step does without, too many values of what must be known at compile time, what
tracing or the device refuses) the ops run on the host one by one, which says what is wrong, if anything is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import faults, kernels
from anabranch.core.values.list_values import TracedList
from anabranch.runtime import host_ops, results
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.plans import ahead, policy, replicas, shape_families
from anabranch.runtime.plans.items import ProgramItem
from anabranch.runtime.step import Call, device_failure, random_words
from anabranch.runtime.step import run_wave as run_calls
from anabranch.runtime.values import Published, on_device, on_devices, to_host
from anabranch.xla import capacities, engine, lowering
from anabranch.xla.executables import Means, NotStored
from anabranch.xla.padding import batches, sizes
from anabranch.xla.program import UNTRACEABLE
from anabranch.xla.replicated_program import Unlike

MAX_STATIC_VARIANTS = 16
"""After this many distinct values of what a program must know at compile time, further ones are interpreted."""
MIN_STATIC_VARIANTS = 4
"""The same where each form of the program costs long to compile."""
PRICE_OF_VARIANTS = 4e6
"""Modelled microseconds for which forms are compiled beyond these few."""
MAX_SHAPES_OF_A_BODY = 3
"""After this many forms of a body's program for other shapes, what depends on them is interpreted."""


class UnknownChecks(Exception):
    """A program that was not to fail makes checks."""


class _Ready(NamedTuple):
    """A program of a segment with all that it is called with."""

    item: ProgramItem
    call: Call
    arguments: tuple[Any, ...]
    rng: np.ndarray
    old: Sequence[Any]
    """The values of the variables that it owns."""
    size: sizes.Size
    """Of the batch, if that was padded; else empty."""


def run(attempt: Attempt, item: ProgramItem) -> None:
    """Run a program of a segment, or its ops one by one."""
    ready = _prepare(attempt, item)
    if ready is None:
        _interpret(attempt, item)
        return
    if ready.call.slots and not ready.size:
        _reserve(attempt, [ready])
    _may_call(attempt, [ready])
    _store(attempt, ready, *ready.call.run(attempt.transaction, ready.arguments, ready.rng))


def run_wave(attempt: Attempt, items: Sequence[ProgramItem]) -> None:
    """Run programs on several devices, all at the same time.

    Those that are interpreted go first: they may fail, and the others may own the buffers of variables.

    Raises:
        UnknownChecks: one of them makes checks that nobody had known of.
    """
    prepared = [(item, _prepare(attempt, item)) for item in items]
    for item, ready in prepared:
        if item.must_not_fail and (ready is None or ready.call.executable.facts.records):
            for record in [] if ready is None else ready.call.executable.facts.records:
                lowering.emits_checks.add(item.program.flat_ops[record.op].type)
            raise UnknownChecks
    for item, ready in prepared:
        if ready is None:
            _interpret(attempt, item)
    programs = [ready for _, ready in prepared if ready is not None]
    if any(ready.call.slots for ready in programs):
        _reserve(attempt, programs)
    _may_call(attempt, programs)
    for goes_last in (False, True):
        wave = [ready for ready in programs if ready.item.goes_last is goes_last]
        calls = [(ready.call, ready.arguments, ready.rng) for ready in wave]
        for ready, returned in zip(wave, run_calls(calls, attempt.transaction, attempt.runner.plan.rank), strict=True):
            _store(attempt, ready, *returned)


def _interpret(attempt: Attempt, item: ProgramItem) -> None:
    host_ops.interpret(attempt, item.program.group.ops)
    if item.bug is not None:  # what fails when it is interpreted, too, has said so
        faults.warn(item.bug)


def _may_call(attempt: Attempt, programs: Sequence[_Ready]) -> None:
    """Notes what runs next, unless the step is cancelled: it may have taken long to compile."""
    for ready in programs:
        attempt.step.token.at = ready.item.program
    attempt.step.token.raise_if_cancelled()


def _prepare(attempt: Attempt, item: ProgramItem) -> _Ready | None:
    """What a program is called with, on its device; None if its ops are to run one by one."""
    program, env, state = item.program, attempt.env, attempt.state
    plan = attempt.runner.plan
    if any(key not in env for key in (*program.inputs, *program.donated_keys)):
        return None  # a variable without value that the step may do without
    engine.refuse_after_fork()
    try:
        values = [env[key] for key in program.inputs]
        where = program.devices_of_inputs
        inputs = on_device(values, program.device) if where is None else on_devices(values, where)
    except kernels.NotCompilable:  # a list whose elements do not fit into one array
        return None
    size = plan.batch_size(env) if program.batch_axes else ()
    if program.batch_axes and not size:
        raise batches.NotPadded(None, "a size is known only behind a program that it would pad")
    if not all(size):
        return None  # an empty batch
    program.ready(inputs, item.static)
    batch = program.pad(inputs, size) if size else ()
    static = {
        i: to_host(env[program.inputs[i]])
        for i in plan.compile_time_inputs(item)
        if not isinstance(inputs[i], TracedList)
    }
    rng = random_words([state.counters[op] for op in program.random_ops])
    old = engine.moved([env[key].value for key in program.donated_keys], program.device)
    executable = _executable(attempt, item, old, inputs, static, rng, batch)
    if size and executable is not None and not executable.facts.batch.holds(size, program.flat_ops):
        item.refused = (
            f"what the graph computes from a batch of {', '.join(map(str, size))} is not what it is for larger ones"
        )
        if executable.facts.batch.serves_few:
            raise batches.NotPadded(None, item.refused)
        executable = None
    if executable is None:
        return None
    attempt.used[item] = executable, static
    arguments = tuple([value for i, value in enumerate(inputs) if i not in static]) if static else tuple(inputs)
    slots = [state.slots[key] for key in program.donated_keys]
    owns_all = not item.writes and len(attempt.segment.written) == len(slots)
    call = Call(program, executable, slots, owns_all, whole=not (item.static or item.bounds or size))
    return _Ready(item, call, arguments, rng, old, size)


def _store(attempt: Attempt, ready: _Ready, outputs: Any, finals: Any, _: Any) -> None:
    """Put what a program has returned where others of the step find it."""
    program, env, plan = ready.item.program, attempt.env, attempt.runner.plan
    facts = ready.call.executable.facts
    for final, value in zip(program.donated.values(), finals, strict=True):
        env[final] = Published(value) if attempt.transaction.shown else value
    known, amounts = facts.known_outputs, facts.amounts(outputs)
    if ready.size:
        outputs, known, amounts = facts.batch.cut(outputs, ready.size)
    for position, value in zip(facts.traced_outputs, outputs, strict=not facts.dynamic):
        env[program.outputs[position]] = value
    for position, value in known.items():
        env[program.outputs[position]] = value
        if value is facts.known_outputs[position]:
            plan.note_known(program.outputs[position], value)
    for op, amount in zip(program.random_ops, amounts, strict=True):
        attempt.advances.append((attempt.state.counters[op], amount))


def _most_variants(price: float) -> int:
    """In how many forms a program is compiled for values that it must know, where a form costs ``price`` to compile."""
    return max(MIN_STATIC_VARIANTS, min(MAX_STATIC_VARIANTS, int(PRICE_OF_VARIANTS // max(price, 1.0))))


def _executable(
    attempt: Attempt,
    item: ProgramItem,
    old: Sequence[Any],
    inputs: Sequence[Any],
    static: dict[int, np.ndarray],
    rng: np.ndarray,
    batch: sizes.Size = (),
) -> Any:
    """The compiled form for these arguments; None if the ops are to run on the host, for ``item.refused`` if it is for
    what tracing or the device has met.
    """
    program, plan, layout = item.program, attempt.runner.plan, attempt.state.layout
    cached = item.cached
    if cached is not None and cached[0] is layout:
        return cached[1]
    item.bug = None
    try:
        forms = program.variants
        bounds = {i: program.capacities.of(~i, int(to_host(attempt.env[program.inputs[i]]))) for i in item.bounds}
        most = _most_variants(plan.cost.compile) if item.static or bounds else None
        beside = batch and not policy.waits(plan)
        means = Means.STORED if plan.only_stored or beside else Means.HERE
        try:
            executable = program.executable(old, inputs, static, rng, most, bounds, batch=batch, means=means)
        except NotStored:
            if plan.only_stored or not beside:
                raise
            _compile_beside(plan, program, old, inputs, static, rng, bounds, batch)
            return None
        if item.settled and executable is not None and not executable.facts.guessed:
            item.cached = (layout, executable)
        if plan.nested and program.variants > MAX_SHAPES_OF_A_BODY:
            plan.keep_dynamic_on_host()
        elif executable is None:
            shape_families.open_values(plan, program, item.static)
        elif program.variants > forms and not plan.nested and not batch:
            shape_families.note(plan, program, attempt.env, static)
        return executable
    except (
        lowering.CutNeeded,
        lowering.BoundNeeded,
        lowering.HostNeeded,
        capacities.TooRoomy,
        NotStored,
        errors.InternalError,
        errors.ResourceExhaustedError,
    ):
        raise
    except faults.KernelBug as bug:
        item.refused, item.bug = bug.text, bug
        return None
    except Unlike as problem:
        item.refused = f"replicas differ: {problem}"
        replicas.note_unlike(plan, program)
    except UNTRACEABLE as problem:
        # Tracing met what can only fail at run time: the interpreter says which op fails first in effect order.
        item.refused = f"{type(problem).__name__}: {problem}".partition("\n")[0]
    except Exception as problem:
        failure = device_failure(problem, len(program.group.ops))
        if failure is None or "UNIMPLEMENTED" not in str(problem):
            if failure is None:
                raise
            raise failure from problem
        # The device has no code for one of the ops (integer convolutions on a GPU).
        item.refused = f"{type(problem).__name__}: {problem}".partition("\n")[0]
    return None


def _compile_beside(plan: Any, program: Any, *asked: Any) -> None:
    """Have a program compiled for arguments that it was not compiled for yet, one after the other.

    Raises:
        Exception: what kept one from being compiled.
    """
    further = plan.further.get(program)
    if further is not None and further.problem is not None:
        del plan.further[program]
        raise further.problem
    if further is None or further.done:
        plan.further[program] = ahead.Further(program, *asked)


def _reserve(attempt: Attempt, programs: Sequence[_Ready]) -> None:
    """Make room for large fetches, before programs are called that cannot be undone."""
    plan = attempt.runner.plan
    if attempt.segment is not plan.segments[-1] or plan.nested:
        return
    specs: dict[Any, Any] = {}
    for ready in programs:
        program, facts = ready.item.program, ready.call.executable.facts
        specs.update(
            (program.outputs[place], spec) for place, spec in zip(facts.traced_outputs, facts.specs, strict=False)
        )
        specs.update((program.outputs[at], (value.shape, value.dtype)) for at, value in facts.known_outputs.items())
        specs.update(zip(program.donated.values(), [(value.shape, value.dtype) for value in ready.old], strict=True))
    attempt.reserved = results.reserve(
        [
            None
            if key is None
            else results.large(specs[key])
            if key in specs
            else results.spec_of(attempt.env.get(key))
            for key in plan.fetch_keys
        ]
    )
