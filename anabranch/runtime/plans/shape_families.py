"""Shapes that change from step to step: which ops they reach, and which plan serves a step.

Policy. A program is compiled for the shapes of its inputs. Where these keep changing (the number of elements that a
mask leaves, of values in a sparse tensor, of rows in a batch that is never the same) the ops that they reach, and only
those, run on the host one by one, where a new shape costs nothing; all else is compiled once. What reaches how far is
found by inferring shapes with the dimensions that change left open. Pieces between such ops that are not worth a
program of their own go to the host with them.

Inside a step (:func:`observe`, :func:`note`): the sizes that data decide are looked at while the plan is interpreted,
and as programs are compiled for them. :data:`MOST_SHAPES` different ones are taken to be all there are. When one turns
out to change as programs run, what the host gives in the next few runs is looked at anew (:func:`look_again`): what
only graphs do not know (the rows of a `segment_sum`, which are as many as the batch has) stays known, and all behind it
in one program.

Between steps (:class:`Family`): steps with the same fetches and feeds of the same ranks are a family. The first
:data:`MOST_PLANS` shapes of feeds get plans of their own, which the policy compiles as it does any. Further ones share
a plan in which the dimensions that change are open: nothing is planned or compiled for them. A shape that comes back
until interpreting what it reaches has cost as much as compiling that would gets a plan of its own in the end.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.cache import Cache, Listed
from anabranch.core.contract import inference, kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey
from anabranch.core.values import dtypes, shapes
from anabranch.runtime.plans import policy
from anabranch.xla.known_values import folds
from anabranch.xla.lowering import holds_distinct
from anabranch.xla.padding import sizes
from anabranch.xla.row_updates import only_names_rows, writes_rows
from anabranch.xla.single_op import compile_time_positions

MOST_SHAPES = 3
"""So many shapes of one value in a step are taken to be all that there are; one more, and they are open."""
MOST_PLANS = 4
"""So many shapes of the feeds of a step get plans of their own at once."""
MOST_PLANS_OF_BATCHES = 2
"""The same where shapes differ in the size of a batch only, which programs may pad."""
MOST_SIZES = 2
"""So many sizes that change apart are padded."""
MOST_VALUES = 64
"""Elements of a fed array of integers up to which its value is taken to say what shapes others have."""
SMALL = 150.0
"""Modelled microseconds of interpreting a piece below which it is not worth a program of its own."""
CALL = 30.0
"""The same of a piece of integers where shapes do not change: what calling a program takes."""
MOST_RUNS = 8
"""So many interpreted runs are looked at in full."""
MOST_KEPT = 1024


def joined(first: shapes.RawShape, second: shapes.RawShape) -> shapes.RawShape:
    """The shape that both are instances of: None where they differ."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple([a if a == b else None for a, b in zip(first, second, strict=True)])


class Varying:
    """What is known of the shapes that change in one plan."""

    def __init__(self) -> None:
        self.open: dict[Tensor, shapes.RawShape] = {}
        """Values whose shapes change, with None for the dimensions that do."""
        self.values: dict[Tensor, np.ndarray] = {}
        """Fed integers that have been the same in all steps, which say what shapes others have."""
        self.changed: set[Tensor] = set()
        """Compile-time inputs whose values change."""
        self.needed: set[Tensor] = set()
        """Those of them that a program had to know."""
        self.batch: dict[Tensor, dict[int, int]] = {}
        """Tensors that say what the sizes of a step are, with the dimensions that change, while programs pad them; and
        which of the sizes each of these is: there is one, or there are two. They are fed (the size of a batch), or ops
        on the host give them: how many elements a mask leaves."""
        self.stopped = ""
        """What keeps programs from padding the batch."""
        self._seen: dict[Tensor, set[tuple[int, ...]]] = {}
        self.observed: dict[Tensor, tuple[shapes.RawShape, Any]] = {}
        """What interpreted runs have shown of values: their shapes, joined, and themselves, if always the same."""
        self.runs = 0
        """How many runs that were."""
        self.looks_again = False
        """Whether runs of programs are looked at, as what interpreted ones have shown is no guide any more."""
        self._watched: list[Tensor] | None = None
        self._unsteady: set[Tensor] = set()
        self._by_batch: dict[Tensor, list[sizes.Observed]] = {}
        """What has been seen of each dimension of a value beside the sizes of the batch."""
        self._past: dict[Tensor, list[int]] = {}
        """Of each dimension of a value a number that says what sizes it has had, as long as it gives no size."""

    def stop_padding(self, reason: str) -> None:
        """From now on what the batch reaches is interpreted."""
        if self.batch:
            self.batch, self.stopped = {}, reason

    def forget(self, tensors: Iterable[Tensor]) -> None:
        """These are fed with one value and another."""
        self._unsteady.update(tensors)
        for tensor in tensors:
            self.values.pop(tensor, None)

    def hear(self, plan: Any, env: dict[Any, Any]) -> None:
        """Notes what is fed for small arrays of integers, as long as it stays the same."""
        for tensor in plan.feeds:
            if not tensor.dtype.is_integer or tensor in self._unsteady:
                continue
            value, known = env.get(tensor), self.values.get(tensor)
            if not isinstance(value, np.ndarray) or value.size > MOST_VALUES:
                self._unsteady.add(tensor)
            elif known is None:
                self.values[tensor] = value.copy()
            elif not _same(known, value):
                self.forget([tensor])

    def look(self, plan: Any, env: dict[Any, Any]) -> None:
        """Join what a run shows of all values to what is known."""
        self.runs += 1
        for op in plan.analysis.order:
            for output in op._outputs:
                value = env.get(output)
                if not isinstance(value, np.ndarray):
                    continue
                shape, fixed = value.shape, None
                if value.size <= MOST_VALUES and value.dtype.kind in "iu":
                    fixed = value
                old = self.observed.get(output)
                if old is not None:
                    if old[0] != shape:
                        shape = joined(old[0], shape)
                    if fixed is not None and not _same(old[1], fixed):
                        fixed = None
                self.observed[output] = (shape, fixed)

    def watched(self, plan: Any) -> list[Tensor]:
        """Outputs of host ops whose shapes only a run tells."""
        if self._watched is None:
            known = inferred(plan)
            self._watched = [
                output
                for op in plan.analysis.order
                if op.role is not Role.CONSTANT and op.definition.makes is None and op.definition.effect.kind != "feed"
                if plan.needs_host(op)
                for output in op._outputs
                if output.dtype.base.np is not None and not output.dtype.is_ref and not _fixed(output, known)
            ]
        return self._watched

    def follows(self, tensor: Tensor, shape: tuple[int, ...], size: sizes.Size) -> bool:
        """Notes a shape in a step with a batch of ``size``; whether it has been what that says in all of them."""
        known = self._by_batch.setdefault(tensor, [sizes.Observed() for _ in shape])
        if len(known) != len(shape):
            return False
        return all([one.note(length, size) for one, length in zip(known, shape, strict=True)])

    def products(self, tensor: Any, axis: int, size: int) -> tuple[sizes.Terms, ...]:
        """What a dimension may be where the batch has ``size`` sizes."""
        if tensor in self.batch:
            which = self.batch[tensor][axis]
            return (((1, tuple([int(i == which) for i in range(size)])),),)
        known = self._by_batch.get(tensor)
        found = known[axis].terms() if known is not None and axis < len(known) else ()
        return found or tuple([((0, powers),) for powers in sizes.multiples(size)])

    def gives_size(self, tensor: Tensor) -> bool:
        """Whether a value of which one dimension changes may be padded, as one whose size is the step's, or is one
        more of them: from now on it is.
        """
        shape = self.open[tensor]
        if self.stopped or tensor not in self._past or shape is None or shape.count(None) != 1:
            return False
        axis = shape.index(None)
        sizes_of = {other: next(iter(parts.items())) for other, parts in self.batch.items() if other in self._past}
        past = self._past[tensor][axis]
        same = [which for other, (along, which) in sizes_of.items() if self._past[other][along] == past]
        which = same[0] if same else len({one for parts in self.batch.values() for one in parts.values()})
        if which >= MOST_SIZES:
            return False
        if not same:  # what others have been beside the sizes that there were says nothing of these
            self._by_batch.clear()
        self.batch[tensor] = {axis: which}
        return True

    def saw(self, tensor: Tensor, shape: tuple[int, ...]) -> bool:
        """Notes a shape of a value; whether it has had so many that it is open from now on."""
        if tensor not in self.batch:
            past = self._past.get(tensor, ())
            self._past[tensor] = [hash(pair) for pair in itertools.zip_longest(past, shape)]
        if tensor in self.open:
            if shapes.is_compatible(self.open[tensor], shape):
                return False
            self.open[tensor] = joined(self.open[tensor], shape)
            return True
        seen = self._seen.setdefault(tensor, set())
        if shape in seen:
            return False
        seen.add(shape)
        if len(seen) <= MOST_SHAPES:
            return False
        whole: shapes.RawShape = shape
        for other in seen:
            whole = joined(whole, other)
        self.open[tensor] = whole
        del self._seen[tensor]
        return True


def _same(first: Any, second: Any) -> bool:
    """Whether small arrays of integers are equal."""
    return isinstance(first, np.ndarray) and first.shape == second.shape and first.tobytes() == second.tobytes()


def observe(plan: Any, env: dict[Any, Any]) -> None:
    """Look at the shapes of an interpreted run that only the run tells."""
    varying: Varying = plan.varying
    watched = varying.watched(plan)
    if not watched and not varying.open:
        return
    varying.hear(plan, env)
    new = False
    size = plan.batch_size(env)
    for tensor in watched:
        value = env.get(tensor)
        if value is None or not hasattr(value, "shape"):
            continue
        shape = tuple(value.shape)
        if not (size and all(size) and tensor not in varying.open and varying.follows(tensor, shape, size)):
            new |= varying.saw(tensor, shape)
    if varying.runs < MOST_RUNS:
        varying.look(plan, env)
        new |= varying.runs > MOST_SHAPES
    if new:
        plan.open_shapes()


def settled(plan: Any) -> bool:
    """Whether interpreted runs have shown which sizes change: before that, what is compiled may be cut elsewhere."""
    varying: Varying = plan.varying
    return varying.runs >= MOST_RUNS or all(tensor in varying.open for tensor in varying.watched(plan))


def note(plan: Any, program: Any, env: dict[Any, Any], values: Container[int]) -> None:
    """A program has been compiled for one more form of its inputs: if shapes keep changing, the plan is cut there.

    ``values`` are the positions of inputs that it has the values of.
    """
    varying, new = plan.varying, False
    varying.hear(plan, env)
    for i, key in enumerate(program.inputs):
        if isinstance(key, Tensor) and i not in values and key.dtype.base.np is not None:
            new |= varying.saw(key, tuple(env[key].shape))
    if new:
        varying.runs = 0
        varying.observed.clear()
        varying.looks_again = True
        plan.open_shapes()


def look_again(plan: Any, env: dict[Any, Any]) -> None:
    """Look at what the host gave in a run with programs, until that tells again which shapes do not change."""
    varying: Varying = plan.varying
    varying.look(plan, env)
    if varying.runs > MOST_SHAPES:
        varying.looks_again = False
        plan.open_shapes()


def open_values(plan: Any, program: Any, positions: Iterable[int]) -> None:
    """What a program must know has had too many values: what needs it runs on the host from now on."""
    keys = [program.inputs[i] for i in positions]
    numeric = {key for key in keys if isinstance(key, Tensor) and key.dtype.base.np is not None}
    if not numeric <= plan.varying.needed:
        plan.varying.changed |= numeric
        plan.varying.needed |= numeric
        plan.varying.forget(numeric)
        plan.open_shapes()


# ------------------------------------------------------------------------------------------------------------ reaching
def inferred(plan: Any, padded: Container[Any] = ()) -> dict[Tensor, tuple[Any, Any]]:
    """Shape, and value where it is known, of what is computed in a step, with open dimensions left open.

    What is in ``padded``, and all whose size follows from it, counts as of one size.
    """
    varying: Varying = plan.varying
    known: dict[Tensor, tuple[Any, Any]] = {}
    for tensor, shape in zip(plan.feeds, plan.feed_shapes, strict=True):
        known[tensor] = (varying.open.get(tensor, shape), varying.values.get(tensor))
    for op in plan.analysis.order:
        if op.role is Role.CONSTANT or op.definition.makes is not None:
            continue
        if op.definition.effect.kind == "body" and op.role is not Role.LOOP:
            continue
        for output, shape in zip(op._outputs, policy.infer(op, plan, known), strict=True):
            known.setdefault(output, (shape, None))
            if output in plan.fed:
                continue
            if output in varying.open:
                open_shape = varying.open[output]
                if output in padded and open_shape is not None:
                    open_shape = tuple([size or 1 for size in open_shape])
                known[output] = (open_shape, None)
            elif varying.runs > MOST_SHAPES and output in varying.observed:
                known[output] = varying.observed[output]
        if folds(op) and all(output.dtype.is_integer and known[output][1] is None for output in op._outputs):
            _fold(op, known)
    return known


def _fold(op: Operation, known: dict[Tensor, tuple[Any, Any]]) -> None:
    """Compute what follows from values that are known, and whose size nothing else tells."""
    values = []
    for tensor in op._inputs:
        value = tensor.op._attrs["value"] if tensor.op.role is Role.CONSTANT else known.get(tensor, (None, None))[1]
        if not isinstance(value, np.ndarray) or value.size > MOST_VALUES:
            return
        values.append(value)
    folded = inference.fold(op.definition, op._attrs, values, op)
    for output, value in zip(op._outputs, folded or (), strict=bool(folded)):
        known[output] = (value.shape, value)


def _fixed(tensor: Tensor, known: dict[Tensor, tuple[Any, Any]]) -> bool:
    return shapes.is_static(known[tensor][0] if tensor in known else tensor._shape)


def reached(plan: Any) -> frozenset[Operation]:
    """The ops whose shapes, or compile-time inputs, change; and pieces between them that are too small to compile."""
    varying: Varying = plan.varying
    order = [op for op in plan.analysis.order if op.role is not Role.CONSTANT and op.definition.makes is None]
    sources = {op: plan.sources(op) for op in order}
    rows = {key for key in varying.open if holds_distinct(key) and only_names_rows(key, order, sources, plan.fed)}
    for tensor in varying.open:
        if tensor not in varying.batch and tensor not in rows and not varying.gives_size(tensor):
            varying.stop_padding(f"the shape of {tensor.name} changes besides the size of the batch")
    padded = varying.batch.keys()
    changed = varying.needed if padded else varying.changed  # a padded program is traced for one size, like any other
    from_there: set[Any] = {*varying.open, *changed} - padded - rows
    if not from_there:
        return frozenset()
    known = inferred(plan)
    # Sums of the rows that a step names come padded to programs, but not from an op on the host.
    but_rows = inferred(plan, rows) if rows else known
    from_host: set[Any] = set()

    def is_open(key: Any) -> bool:
        return _open(key, known if key in from_host else but_rows)

    ops: set[Operation] = set()
    for op in order:
        if op.definition.effect.kind == "feed":
            continue
        inputs = [key for key in sources[op] if key in from_there]
        if not inputs:
            continue
        from_there.update(op._outputs)
        from_there.update(plan.analysis.state_of(op).writes)
        if op.definition.effect.kind == "body":
            continue  # lists and arrays come padded to capacities: one program serves all sizes, see xla/capacities.py
        changing = [i for i, key in enumerate(sources[op]) if (key in from_there or key in rows) and _open(key, known)]
        if changing and writes_rows(op, changing):
            continue  # the same: rows that are padding are dropped, and the variable need not be copied
        needed = compile_time_positions(op.definition, op._attrs)
        opens = not padded and any(is_open(key) for key in (*inputs, *op._outputs))
        if opens or any(sources[op][i] in from_there and not _told(sources[op][i], known) for i in needed):
            ops.add(op)
            from_host.update(op._outputs)
    return frozenset(ops | _small_pieces(plan, ops, known))


def open_axes(plan: Any, inputs: Sequence[Any]) -> dict[int, tuple[int, ...]]:
    """The dimensions of a program's inputs that change from run to run, by position."""
    if not plan.varying.open:
        return {}
    known = inferred(plan)
    axes = {}
    for i, key in enumerate(inputs):
        if isinstance(key, Tensor) and _open(key, known) and key.dtype.base is not dtypes.variant:
            shape = known[key][0] if key in known else key._shape
            if shape is not None:
                axes[i] = tuple([axis for axis, size in enumerate(shape) if size is None])
    return axes


def batch_axes(
    plan: Any, inputs: Sequence[Any], needed: Iterable[int]
) -> dict[int, dict[int, tuple[sizes.Terms, ...]]]:
    """The dimensions of a program's inputs that the sizes of the batch decide, with what each may be; of ``needed`` it
    has the values.
    """
    varying: Varying = plan.varying
    reach: set[Any] = set(varying.batch)
    for op in plan.analysis.order:
        if any(key in reach for key in plan.sources(op)):
            reach.update((*op._outputs, *plan.analysis.state_of(op).writes))
    for i in needed:
        if inputs[i] in reach:
            varying.stop_padding(f"{inputs[i].name} must be known when the step is compiled")
    axes = open_axes(plan, inputs)
    known = inferred(plan)
    for i, key in enumerate(inputs):
        if i not in axes and key in reach and _open(key, known):
            varying.stop_padding(f"the shape of {key.name} is not known when the step is compiled")
    count = len({which for parts in varying.batch.values() for which in parts.values()})
    return {i: {axis: varying.products(inputs[i], axis, count) for axis in found} for i, found in axes.items()}


def _told(key: Any, known: dict[Tensor, tuple[Any, Any]]) -> bool:
    return isinstance(key, Tensor) and key in known and known[key][1] is not None


def _open(key: Any, known: dict[Tensor, tuple[Any, Any]]) -> bool:
    if isinstance(key, StateKey):
        return False
    if key.dtype.base is dtypes.variant:
        return True
    return key.dtype.base.np is not None and not key.dtype.is_ref and not _fixed(key, known)


def _small_pieces(plan: Any, apart: set[Operation], known: dict[Tensor, tuple[Any, Any]]) -> set[Operation]:
    """Connected pieces of what is left that touch ``apart`` and cost next to nothing on the host."""
    head: dict[Operation, Operation] = {}

    def find(op: Operation) -> Operation:
        while head[op] is not op:
            head[op] = head[head[op]]
            op = head[op]
        return op

    touching: set[Operation] = set()
    for op in plan.analysis.order:
        if op in apart or op.role is Role.CONSTANT or op.definition.makes is not None or plan.needs_host(op):
            continue
        head[op] = op
    for op in plan.analysis.order:
        for key in plan.sources(op):
            maker = plan.producer(key)
            if maker in head and op in head:
                head[find(op)] = find(maker)
            elif maker in apart and op in head:
                touching.add(op)
            elif maker in head and op in apart:
                touching.add(maker)
    cost: dict[Operation, float] = collections.defaultdict(float)
    for op in head:
        cost[find(op)] += policy.cost_in_piece(op, plan, known) + policy.cost_of_bodies(op)
    small = {find(op) for op in touching if cost[find(op)] < SMALL}
    return {op for op in head if find(op) in small}


def small_programs(plan: Any, groups: Sequence[list[Operation]]) -> list[list[Operation]]:
    """Those of a step's programs that only compute, and cost next to nothing on the host.

    Pieces that hang together elsewhere come apart where one half must wait for the host.
    """
    if len(groups) < 2 or (plan.varying.batch and not plan.apart):  # what is padded stays in programs
        return []
    known = inferred(plan)
    most = SMALL if plan.apart else CALL

    def is_whole(op: Operation) -> bool:
        """Whether it makes the same bits in both tiers, whatever it is asked."""
        return all(output.dtype.base.is_integer or output.dtype.base.is_bool for output in op._outputs)

    def is_small(ops: Sequence[Operation]) -> bool:
        pure = all(op.definition.effect.kind == "pure" and not kernels.needs_lax(op.definition) for op in ops)
        pure = pure and (bool(plan.apart) or all(map(is_whole, ops)))
        return pure and sum(policy.cost_in_piece(op, plan, known) for op in ops if op.role is not Role.CONSTANT) < most

    return [ops for ops in groups if is_small(ops)]


# ------------------------------------------------------------------------------------------------------------ families
class Planned(NamedTuple):
    """A plan and who runs it."""

    plan: Any
    runner: Any


class Family:
    """Steps with the same fetches and the same feeds, but for their shapes."""

    def __init__(self) -> None:
        self._runs: Cache[Any, int] = Cache("runs of shapes without a plan", MOST_KEPT)
        """How often each shape came that has no plan of its own."""
        self._exact: list[Any] = []
        self._forms: set[Any] = set()
        """The shapes that came, as long as they are few."""
        self._shape: tuple[shapes.RawShape, ...] | None = None
        self._values: dict[Tensor, np.ndarray | None] = {}
        self._planned: Planned | None = None
        self._batch: dict[Tensor, dict[int, int]] | None = {}
        """Dimensions of feeds that change, with which of one or two sizes each has had in all steps; None if there are
        more."""
        self._past: dict[tuple[Tensor, int], int] = {}
        """Of each dimension of the feeds a number that says what sizes it has had: equal ones have had the same."""

    @property
    def caches(self) -> list[Listed]:
        """The caches that it owns, and its plan's."""
        return [self._runs, *(self._planned.plan.caches if self._planned is not None else ())]

    @property
    def plan(self) -> Any:
        """The shared plan; None before there is one."""
        return None if self._planned is None else self._planned.plan

    def serves(self, own: Any) -> bool:
        """Whether a shape whose plan of its own is not compiled runs by the shared one: that one is compiled, or will
        be for all, or has run more often, so that there are more shapes than this one that keep coming.
        """
        plan = self.plan
        return plan is not None and (plan.tier == "compiled" or bool(plan.varying.batch) or plan.runs > own.runs)

    def choose(
        self,
        names: Sequence[Tensor],
        values: Sequence[Any],
        make: Callable[[], Planned],
    ) -> tuple[Planned | None, int]:
        """The plan for feeds that have none of their own; None if they are to get one, which has run so often before.

        ``make`` plans a step for the shapes that are fed now.
        """
        form = tuple([getattr(value, "shape", None) for value in values])
        changed = self._join(names, values, form)
        changed |= self._see_batch(names, form)
        pads = bool(self._batch) and (self._planned is None or not self._planned.plan.varying.stopped)
        if len(self._forms) <= MOST_PLANS:
            self._forms.add(form)
        few = self._planned is None or len(self._forms) <= MOST_PLANS
        if few and len(self._exact) < (MOST_PLANS_OF_BATCHES if pads else MOST_PLANS):
            self._exact.append(form)
            return None, 0
        if self._planned is None or changed:
            planned = make()
            varying: Varying = planned.plan.varying
            assert self._shape is not None
            for tensor, shape, fed in zip(names, self._shape, form, strict=True):
                if shape != fed:
                    varying.open[tensor] = shape
            varying.values.update({key: value for key, value in self._values.items() if value is not None})
            varying.changed |= {key for key, value in self._values.items() if value is None}
            varying.forget(varying.changed)
            if pads and self._batch is not None and varying.open.keys() <= self._batch.keys():
                varying.batch.update(self._batch)
            elif self._planned is not None:
                varying.stopped = self._planned.plan.varying.stopped
            if self._planned is not None:
                planned.plan.runs, planned.plan.spent = self._planned.plan.runs, self._planned.plan.spent
            self._planned = planned
        plan = self._planned.plan
        runs = self._runs.get(form, default=0) + 1
        self._runs.put(form, runs)
        if plan.varying.batch:  # a size that keeps coming back is worth not to be padded, but only few are
            if runs < policy.most_runs(plan.cost) or len(self._exact) >= MOST_PLANS:
                return self._planned, runs
            self._exact.append(form)
        if runs >= policy.MAX_INTERPRETED_RUNS or runs * plan.apart_cost.run >= plan.apart_cost.compile:
            self._runs.discard(form)
            return None, runs
        return self._planned, runs

    def _see_batch(self, names: Sequence[Tensor], form: tuple[Any, ...]) -> bool:
        """Look which dimensions that change have had one size in all steps; whether these are others than before."""
        if self._batch is None or self._shape is None:
            return False
        batch: dict[Tensor, dict[int, int]] = {}
        places: dict[int, int] = {}
        for tensor, shape, fed in zip(names, self._shape, form, strict=True):
            for axis, size in enumerate(fed or ()):
                self._past[tensor, axis] = hash((self._past.get((tensor, axis)), size))
            if shape != fed:
                if not shape:
                    self._batch = None
                    return True
                changing = [self._past[tensor, axis] for axis, size in enumerate(shape) if size is None]
                numbers = iter([places.setdefault(past, len(places)) for past in changing])
                batch[tensor] = {axis: next(numbers) for axis, size in enumerate(shape) if size is None}
        before, self._batch = self._batch, batch if len(places) <= MOST_SIZES else None
        return bool(before) and before != self._batch

    def _join(self, names: Sequence[Tensor], values: Sequence[Any], form: tuple[Any, ...]) -> bool:
        """Whether what is fed does not fit what was taken to change."""
        if self._shape is None:
            self._shape = form
            for tensor, value in zip(names, values, strict=True):
                if tensor.dtype.is_integer and isinstance(value, np.ndarray) and value.size <= MOST_VALUES:
                    self._values[tensor] = value.copy()
            return True
        changed = False
        wider = tuple([joined(old, new) for old, new in zip(self._shape, form, strict=True)])
        if wider != self._shape:
            self._shape, changed = wider, True
        for tensor, value in zip(names, values, strict=True):
            kept = self._values.get(tensor)
            if kept is not None and not np.array_equal(kept, value):
                self._values[tensor] = None
                changed = True
        return changed


def family_of(step: int, values: Sequence[Any]) -> Any:
    """A key that runs of a step share which differ in the extents of their feeds alone; None if nothing fed has any."""
    ranks = tuple([getattr(value, "ndim", -1) for value in values])
    return (step, ranks) if any(rank > 0 for rank in ranks) else None
