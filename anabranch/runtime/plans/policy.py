"""Which tier a plan runs in: a cost table over graph, shapes and run count, never a clock.

The two tiers trade start-up for speed: interpreting costs time at each run, compiling costs it once. Not knowing how
often a program will run a plan, the policy rents until renting has cost as much as buying: it interprets while the
modelled cost of all interpreted runs stays below the modelled cost of one compilation, and compiles then. The total
is at most twice the best possible. Heavy work is compiled at its first run by the same rule. The model is
deterministic, so a program takes the same tiers in the same runs each time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from anabranch.core.contract import inference, kernels, roles
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph import shared_bodies
from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.rewrite import effects
from anabranch.xla import engine, stored_programs
from anabranch.xla.onednn import library

# Microseconds, from measurements on two x86 cores (docs/notes/0004-tiers.md).
HOST_OP = 8.0
"""Interpreting one op, besides its work."""
HOST_PER_ELEMENT = 0.0015
HOST_PER_COPIED = 0.003
"""An element of a variable that is written as a whole, which the interpreter copies to memory that is new."""
HOST_PER_FLOP = 0.00002
HOST_PER_FLOP_BY_LIBRARY = 0.000008
"""The same of a convolution that oneDNN computes."""
HOST_PER_INDEXED_FLOP = 0.0003
"""The same for ops that look their operands up element by element."""
HOST_PER_DRAW = 0.011
"""Drawing one random number."""
OWN_PROGRAM = 30_000.0
"""Compiling one op that has no host kernel, for itself."""
OWN_PROGRAM_RUN = 60.0
PROGRAM_RUN = 50.0
"""Running the body of a conditional or loop as a program of its own."""
PARTS_RUN = 1500.0
"""The same of a body whose sizes change in each iteration: ops on the host, with programs between them."""
FUNCTION_RUN = 120.0
"""Running a function that a kernel calls as a program of its own."""
FUNCTION_PER_MOVED = 0.0015
"""The same for an element of what it takes and gives, which are copied to the program and from it."""
FUNCTION_IN_PARTS = 4 * FUNCTION_RUN
"""The same of a function of which a part stays on the host, like a decoder: each call is a step of several pieces."""
STRAIGHT_RUN = 6.0
"""By how much the straight code of a body (``interpreter/straight_line.py``) is slower than an iteration in a
program."""
STRAIGHT_OP = 1.0
STRAIGHT_KERNEL = 5.0
STRAIGHT_PER_ELEMENT = 0.0003
STRAIGHT_PER_LARGE_ELEMENT = 0.001
"""The same for arrays that leave the caches between two ops of straight code."""
STRAIGHT_LARGE = 1 << 16
STRAIGHT_PER_FLOP = 0.00001
COMPILE_BASE = 260_000.0
COMPILE_OP = 19_000.0
"""Compiling an op of a type that has not occurred with such shapes. An op that only moves values costs nothing."""
COMPILE_PRODUCT = 59_000.0
"""The same for a matrix product."""
COMPILE_WINDOWS = 150_000.0
"""The same for products over windows, which become many ops of XLA's; where oneDNN computes them, they are one call."""
COMPILE_LARGE_OP = 80_000.0
"""The same for an op that looks up or adds up rows by their numbers: its checks and loops are much code; and for any op
that draws."""
COMPILE_AGAIN = 1_500.0
"""Compiling an op like one before: LLVM's part is done once for both, and blocks that repeat become one."""
COMPILE_PRODUCT_AGAIN = 8_000.0
COMPILE_BODY_OP = 2_100.0
"""Compiling an op of a conditional or function."""
COMPILE_LOOP_OP = 12_000.0
"""Compiling an op of a loop, whose lists and checks become several of a program's."""
COMPILE_LOOPS = 1_000_000.0
"""The most that a plan's loops cost besides their ops: JAX's start, lists, bounds. A long body has more plain ops."""
LOOP_RUNS = 20
"""How often a loop is taken to run before it has."""
MAX_INTERPRETED_RUNS = 64
"""A plan that ran this often is hot, whatever the model says."""
MANY_RUNS = 512
"""The same for a plan with loops, as what these cost is counted while they run and the model errs less, and for one
that takes `COSTLY` to compile.
"""
COSTLY = 500_000.0
START_OF_JAX = 450_000.0
BEGINS_AFTER = 0.0625
"""When interpreted runs have taken this part of what compiling costs, it begins beside them, if the clock decides."""
JAX_AFTER = 0.125
"""The same part of the start of JAX, which is Python's work, so that the steps are slower meanwhile."""
WORTH_A_LOOK = 5_000.0
"""A plan is interpreted until its runs, the coming one included, have taken this: then it is asked whether its programs
are on disk. As the answer needs JAX, it is a part of its start while that has not been imported.
"""
SEED = "ANABRANCH_SEED"


@dataclasses.dataclass
class Cost:
    """Modelled microseconds of an interpreted run, of interpreting at all (programs of single ops), of compiling."""

    run: float = 0.0
    bodies: float = 0.0
    """What of a run its nested bodies are taken to cost, before one has told."""
    start: float = 0.0
    compile: float = 0.0
    compilable: int = 0
    in_bodies: int = 0
    """How many of them are in bodies, and do more than to move values."""
    in_loops: int = 0
    """How many of them are in the bodies of loops."""
    loops: bool = False
    """Whether it has loops, of which each run tells what it has cost."""
    moves_files: bool = False
    """Whether it has an io op, and compilable ops that only move values."""

    def describe(self) -> str:
        """One line for ``explain``."""
        return (
            f"interpreted run {self.run / 1000:.3g} ms (+{self.start / 1000:.3g} ms once), "
            f"compilation {self.compile / 1000:.3g} ms, "
            f"{self.compilable} compilable ops"
        )


def cost_of(op: Operation, plan: Any, known: dict[Tensor, tuple[Any, Any]]) -> float:
    """Modelled microseconds of interpreting one op, once the shapes of its inputs and outputs are known."""
    definition = op.definition
    elements, copied = 0.0, 0.0
    by_rows = definition.predication is not None and definition.predication.kind == "rows"  # written where they are
    for output in op._outputs:
        if by_rows and output.dtype.is_ref:
            continue
        elements += _size(known[output][0] if output in known else output._shape)
    for key in plan.sources(op):
        if isinstance(key, Tensor):
            shape = known[key][0] if key in known else key._shape
            elements += _size(shape) if not definition.shape_only else 0
    if definition.effect.kind == "write" and not by_rows:
        for tensor in op._inputs:
            handle = tensor.handle_data
            if tensor.dtype.is_ref or handle is not None:  # the interpreter copies what it writes
                copied += _size(tensor._shape if handle is None else handle.shape)
    flops = 0.0
    if definition.flops is not None:
        context = _PlanShapes(op, plan, known)
        try:
            flops = float(definition.flops(context))
        except (TypeError, ValueError, LookupError, ArithmeticError):
            flops = 0.0  # of shapes that the op refuses when it runs
    per_element = HOST_PER_DRAW if definition.effect.kind == "random" else HOST_PER_ELEMENT
    per_flop = HOST_PER_INDEXED_FLOP if definition.cost is roles.Cost.INDEXED else HOST_PER_FLOP
    if definition.cost is roles.Cost.WINDOWS and _by_library(op):
        per_flop = HOST_PER_FLOP_BY_LIBRARY
    return HOST_OP + elements * per_element + copied * HOST_PER_COPIED + flops * per_flop


def cost_in_piece(op: Operation, plan: Any, known: dict[Tensor, tuple[Any, Any]]) -> float:
    """The same in a piece of a step that is small: where no program does better, an op costs a line of code."""
    only_makes_lists = bool(op._outputs) and all(output.dtype.base is dtypes.variant for output in op._outputs)
    own = HOST_OP - STRAIGHT_OP if only_makes_lists or _only_moves(op.definition) else 0.0
    return cost_of(op, plan, known) - own


def _only_moves(definition: OpDefinition) -> bool:
    """Whether an op does no work that a program does better: it hands values on, or rearranges them.

    A plan that saves or restores does nothing else beside its files; a program would copy what the host hands on.
    """
    return definition.moves or definition.passes is not None or definition.role in (Role.CONSTANT, Role.ORDERING)


def estimate(plan: Any, only: Container[Operation] | None = None) -> Cost:
    """The cost of a plan, or of some of its ops, from shapes inferred with the shapes of its feeds."""
    cost = Cost()
    known: dict[Tensor, tuple[Any, Any]] = dict(
        zip(plan.feeds, ((shape, None) for shape in plan.feed_shapes), strict=True)
    )
    own: set[str] = set()
    forms: set[Any] = set()
    cost.moves_files = any(op.definition.effect.kind == "io" for op in plan.analysis.order)
    for op in plan.analysis.order:
        definition = op.definition
        if definition.kernel is not None and not _only_moves(definition):
            cost.moves_files = False
        counts = only is None or op in only
        if definition.effect.kind == "body":
            if counts:
                _add_bodies(cost, op, own)
            continue
        if definition.makes is not None or definition.role in (Role.CONSTANT, Role.ORDERING):
            continue
        for output, shape in zip(op._outputs, infer(op, plan, known), strict=True):
            known.setdefault(output, (shape, None))
        if not counts:
            continue
        cost.run += cost_of(op, plan, known)
        if kernels.needs_lax(definition):
            cost.run += OWN_PROGRAM_RUN
            if op.type not in own:
                own.add(op.type)
                cost.start += OWN_PROGRAM
        if definition.kernel is not None and not definition.data_dependent_shape:
            cost.compilable += 1
            cost.compile += _compiling(op, known, forms)
    cost.compile += COMPILE_BASE + COMPILE_BODY_OP * cost.in_bodies + _of_loops(cost.in_loops)
    return cost


def _compiling(op: Operation, known: dict[Tensor, tuple[Any, Any]], forms: set[Any]) -> float:
    """What an op adds to the compilation of a plan, of which ops of these ``forms`` have been counted."""
    definition = op.definition
    if definition.effect.kind == "random" or definition.cost is roles.Cost.INDEXED:
        return COMPILE_LARGE_OP
    if _only_moves(definition) or definition.shape_only:
        return 0.0
    form = (op.type, *(known[t][0] if t in known else t._shape for t in (*op._inputs, *op._outputs)))
    is_product = definition.flops is not None
    if form in forms:
        return COMPILE_PRODUCT_AGAIN if is_product else COMPILE_AGAIN
    forms.add(form)
    if definition.cost is roles.Cost.WINDOWS:
        return COMPILE_PRODUCT if _by_library(op) else COMPILE_WINDOWS
    return COMPILE_PRODUCT if is_product else COMPILE_OP


def _by_library(op: Operation) -> bool:
    """Whether oneDNN is there for the convolutions of an op."""
    return op._outputs[0].dtype.base is dtypes.float32 and not isinstance(library.found(), str)


def _of_loops(ops: int) -> float:
    """What it costs to compile ``ops`` that are in loops, more than others."""
    return min((COMPILE_LOOP_OP - COMPILE_BODY_OP) * ops, COMPILE_LOOPS)


def _add_bodies(cost: Cost, op: Operation, own: set[str]) -> None:
    """Add the bodies of ``op``: what one interpreted run costs comes to light when it happens (``plan.spent``)."""
    loop = op.role is Role.LOOP
    times = LOOP_RUNS if loop else 1
    cost.loops |= loop
    calls = shared_bodies.times_inside(op)
    for inner in effects.inner_ops(op):
        definition = inner.definition
        if definition.role is Role.CONSTANT or definition.makes is not None or definition.effect.kind == "body":
            continue
        count = calls[inner.body]
        cost.bodies += HOST_OP * times * count
        if kernels.needs_lax(definition) and inner.type not in own:
            own.add(inner.type)
            cost.start += OWN_PROGRAM
        if definition.kernel is not None and not definition.data_dependent_shape:
            cost.compilable += count
            cost.in_bodies += count * (not _only_moves(definition))
            cost.in_loops += count * loop


def cost_of_bodies(op: Operation) -> float:
    """What an interpreted run of the bodies of ``op`` is taken to cost, before one has told; 0 for an op without."""
    cost = Cost()
    if op.definition.effect.kind == "body":
        _add_bodies(cost, op, set())
    return cost.bodies


def straight_elements(size: int) -> float:
    """By how much making an array of ``size`` elements is slower in straight code than in a program."""
    return size * (STRAIGHT_PER_ELEMENT if size < STRAIGHT_LARGE else STRAIGHT_PER_LARGE_ELEMENT)


def compiling_body(cost: Cost) -> float:
    """What a body adds to the compilation of a plan with a loop that runs it, in modelled microseconds."""
    return cost.compile - COMPILE_BASE + _of_loops(cost.compilable)


def may_compile(plan: Any) -> bool:
    """Whether there is anything in a plan that a program does better."""
    return bool(plan.cost.compilable) and not plan.cost.moves_files


def is_scheduled(plan: Any) -> bool:
    """Whether the tiers of a plan follow its runs alone, and not the clock."""
    options = plan.options
    return (
        plan.nested
        or options.deterministic
        or options.seed is not None
        or plan.seeded_outside
        or plan.graph.seed is not None
    )


def waits(plan: Any) -> bool:
    """Whether a step waits for the program that it needs, rather than be interpreted until it is there."""
    return is_scheduled(plan) or plan.options.tier == "compiled"


def choose(plan: Any, tier: str) -> tuple[str, str]:
    """The tier of the next run and the reason, given the user's wish (``auto``, ``interpreted``, ``compiled``).

    ``stored`` is the compiled one if its programs are there already, else the interpreted one.
    """
    if tier != "auto":
        return tier, "asked for"
    if not may_compile(plan):
        only_moves = plan.cost.compilable
        return "interpreted", (
            "beside its files it only moves values" if only_moves else "nothing in it can be compiled"
        )
    return _by_schedule(plan) if is_scheduled(plan) else _by_clock(plan)


def was_slower(plan: Any) -> str:
    """Why a plan goes back to the interpreter; empty if it does not."""
    return plan.kept_interpreted or (plan.comparison.went_back if plan.comparison is not None else "")


def _by_clock(plan: Any) -> tuple[str, str]:
    cost: Cost = plan.cost
    if slower := was_slower(plan):
        return "interpreted", slower
    if plan.ahead is not None and not plan.ahead.done:
        return "interpreted", "its programs are being compiled meanwhile"
    if plan.ahead is not None and plan.ahead.result is not None:
        return "compiled", f"its programs were compiled beside {plan.runs} interpreted runs"
    run = cost.run + cost.bodies
    worth = WORTH_A_LOOK if engine.is_loaded() else START_OF_JAX * JAX_AFTER
    # Before it is known which sizes change, a step may be cut elsewhere than the one that was kept: it is asked twice.
    asks = plan.looked is None or (plan.looked is False and plan.sizes_settled)
    if asks and plan.paid * 1e6 + run >= worth and stored_programs.are_there():
        return "stored", "its programs were there already"
    if cost.start + run >= cost.compile:
        return (
            "compiled",
            f"an interpreted run would cost {run / 1000:.3g} ms, compiling {cost.compile / 1000:.3g} ms",
        )
    paid = f"interpreted runs have taken {plan.paid * 1e3:.3g} ms, compiling costs {cost.compile / 1000:.3g} ms"
    return "compiled" if plan.ahead is not None and plan.paid * 1e6 >= cost.compile else "interpreted", paid


def is_due(plan: Any) -> bool:
    """Whether it is time to begin to compile a plan beside its interpreted runs."""
    if not may_compile(plan) or was_slower(plan):
        return False
    cost: Cost = plan.cost
    if not is_scheduled(plan):
        start = 0.0 if engine.is_loaded() else START_OF_JAX
        return plan.paid * 1e6 >= cost.compile * BEGINS_AFTER + start * JAX_AFTER
    most = most_runs(cost) // 2
    return plan.runs >= most or _spent(plan, plan.runs) >= cost.compile / 2


def is_paid_for(plan: Any) -> bool:
    """Whether interpreted runs have taken so long that a plan is to have programs of its own, or it has them."""
    if is_scheduled(plan):
        return False
    there = plan.ahead is not None and plan.ahead.result is not None
    return there or (may_compile(plan) and plan.paid * 1e6 >= plan.cost.compile)


def pay_for(plan: Any) -> None:
    """Have a plan compiled beside its next runs."""
    plan.paid = max(plan.paid, plan.cost.compile * 1e-6)


def _spent(plan: Any, runs: int) -> float:
    cost: Cost = plan.cost
    return cost.start + cost.run * runs + (plan.spent or cost.bodies)


def most_runs(cost: Cost) -> int:
    """The interpreted runs after which a plan is compiled in any case."""
    return MANY_RUNS if cost.loops or cost.compile > COSTLY else MAX_INTERPRETED_RUNS


def _by_schedule(plan: Any) -> tuple[str, str]:
    cost: Cost = plan.cost
    spent = _spent(plan, plan.runs + 1)
    if plan.runs >= most_runs(cost):
        return "compiled", f"it has run {plan.runs} times"
    if spent >= cost.compile:
        return (
            "compiled",
            f"interpreting would have cost {spent / 1000:.3g} ms by the end of run {plan.runs + 1}, "
            f"compiling costs {cost.compile / 1000:.3g} ms",
        )
    return (
        "interpreted",
        f"interpreting costs {spent / 1000:.3g} ms by the end of run {plan.runs + 1}, "
        f"compiling {cost.compile / 1000:.3g} ms",
    )


MOST_PASSES = 4
"""So often a loop's body is looked through for shapes that it keeps."""


class _PlanShapes(inference.ShapeContext):
    """Shapes of a step: those of its feeds, and what follows from them."""

    __slots__ = ("_known_", "_plan_")

    def __init__(self, op: Operation, plan: Any, known: dict[Tensor, tuple[Any, Any]]):
        input_shapes = []
        for tensor in op._inputs:
            input_shapes.append(known[tensor][0] if tensor in known else tensor._shape)
        super().__init__(op.definition, op._attrs, op._inputs, input_shapes)
        self._known_ = known
        self._plan_ = plan

    def _partial(self, position: int) -> Any:
        tensor = self._tensors[position]
        facts = self._known_.get(tensor)
        if facts is not None and facts[1] is not None:
            return facts[1]
        if tensor in self._plan_.fed:
            return None
        return inference.partial_value(tensor)


def infer(op: Operation, plan: Any, known: dict[Tensor, tuple[Any, Any]]) -> list[Any]:
    """The shapes of an op's outputs, from what is ``known`` of its inputs; a value that follows is noted there."""
    if not any(tensor in known for tensor in op._inputs):
        return [output._shape for output in op._outputs]
    context = _PlanShapes(op, plan, known)
    try:
        inferred = inference.infer(op.definition, context, len(op._outputs))
        if op.definition.value is not None and op._outputs:
            given = inference.known_value(op.definition, context)
            entries = given if isinstance(given, list) else [given]  # one per output, or of the first
            for output, shape, value in zip(op._outputs, inferred, entries, strict=False):
                if isinstance(value, tuple) and None not in value:
                    value = np.array(value, output.dtype.base.np)
                if value is not None:
                    known[output] = (shape, value)
    except (TypeError, ValueError, OverflowError):
        return [output._shape for output in op._outputs]
    found = [shape if shape is not None else output._shape for output, shape in zip(op._outputs, inferred, strict=True)]
    if op.role is Role.LOOP and not all(map(shapes.is_static, found)):
        return _of_loop(op, plan, context.shapes, found)
    return found


def _of_loop(op: Operation, plan: Any, given: Sequence[shapes.RawShape], declared: list[Any]) -> list[Any]:
    """The shapes of a loop's variables at its end: those they begin with, where the body keeps them.

    A graph that does not know the size of its batch declares its loops for any; in a step whose batch is known, what
    comes out of them, and all behind it, has a known size.
    """
    body = op._attrs["body"]
    if not isinstance(body, Body):
        return declared
    variables = list(given)
    for _ in range(MOST_PASSES):
        known: dict[Tensor, tuple[Any, Any]] = {
            arg: (shape, None) for arg, shape in zip(body.args, variables, strict=True)
        }
        for inner in body.operations:
            if inner.role is not Role.CONSTANT and inner.definition.makes is None:
                for output, shape in zip(inner._outputs, infer(inner, plan, known), strict=True):
                    known.setdefault(output, (shape, None))
        later = [known[output][0] if output in known else output._shape for output in body.outputs]
        kept = [shapes.generalize(shape, new) for shape, new in zip(variables, later, strict=True)]
        if kept == variables:
            fits = all(map(shapes.is_compatible, declared, kept))
            return [shapes.merge(a, b) for a, b in zip(declared, kept, strict=True)] if fits else declared
        variables = kept
    return declared


def _size(shape: Any) -> float:
    if shape is None:
        return 1.0
    size = 1.0
    for dim in shape:
        size *= 1 if dim is None else dim
    return size
