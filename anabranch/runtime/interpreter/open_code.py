"""Ops that only compute as one Python function of NumPy calls, for operands of any sizes.

Straight code (:mod:`straight_line`) is for certain shapes. The code here is for operands of certain *ranks*, of any
sizes. Each op that has a form for any size (``ops/shared/open_forms.py``) is a call of that; another one is a call of
its kernel, after its shape rule has been asked about shapes that are new. What follows from shapes alone (the axes that
the gradient of a broadcast is summed over, the divisor of a mean) is computed when shapes have not come lately, and
looked up otherwise.

The first run of a code runs the kernels and compares: a form that gives anything else than its kernel, to the bit, is
not used. If operands have other ranks, or anything fails, whoever asks runs the ops one by one: nothing has happened,
as they have no effects, and the error is the op's. Ops that draw do so from streams that move once the code has served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.contract import faults, kernels
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.host_list import HostList
from anabranch.core.values.optional_values import HostOptional
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.unchecked import Changed
from anabranch.runtime.interpreter.open_calls import MOST_BYTES, FromShapes, array_of, drawing, held, kernel_of
from anabranch.runtime.interpreter.shape_refusals import refused_by_shape
from anabranch.runtime.interpreter.straight_builder import (
    RUN_ANEW,
    Several,
    Written,
    letting_go,
    only_computes,
    only_draws,
    same_bits,
    served,
)
from anabranch.runtime.interpreter.straight_line import MOST_MISSES
from anabranch.runtime.interpreter.turns import Turn, blocks_of, short_draw
from anabranch.runtime.plans import policy
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.slots import ResourceHandle
from anabranch.xla import known_values, lowering

_ARRAYS = (np.ndarray, np.generic)
_FILE = "<code for any size>"


def takes(plan: Plan, op: Operation) -> bool:
    """Whether an op that only computes may be in such code."""
    if op.definition.effect.kind != "pure" or not only_computes(op) or not plan.fed.isdisjoint(op._outputs):
        return False
    return _of_arrays(plan, op)


def takes_or_draws(plan: Plan, op: Operation) -> bool:
    """The same, or whether it only draws."""
    if only_draws(op):
        return plan.fed.isdisjoint(op._outputs) and _of_arrays(plan, op)
    return takes(plan, op)


def _of_arrays(plan: Plan, op: Operation) -> bool:
    if any(key is None or key in plan.handles for key in plan.sources(op)):
        return False
    if any(output.dtype.base is dtypes.resource for output in op._outputs):  # of a handle that an op finds by its name
        return False
    return all(tensor.dtype.base is not dtypes.variant for tensor in (*op._inputs, *op._outputs))


def of_body(plan: Plan) -> OpenCode | None:
    """The code of a nested plan that only computes and draws; None if it does more, or has other values than arrays."""
    (segment, *_) = plan.segments
    if not all(_of_arrays(plan, op) if only_draws(op) else takes(plan, op) for op in segment.ops):
        return None
    if any(key.dtype.base is dtypes.variant or key.dtype.base is dtypes.resource for key in plan.feeds):
        return None
    outputs = [fetch for fetch in plan.fetches if isinstance(fetch, Tensor)]
    return OpenCode(plan, segment.ops, plan.feeds, outputs)


def of_loop(plan: Plan, reads: Sequence[ValueKey], bodies: Any) -> OpenCode | None:
    """The code of a body that straight code serves, which takes the values of variables after its arguments."""
    (segment, *_) = plan.segments
    if any(None in plan.sources(op) for op in segment.ops if op.definition.effect.kind != "body"):
        return None
    outputs = [fetch for fetch in plan.fetches if isinstance(fetch, Tensor)]
    return OpenCode(plan, segment.ops, [*plan.feeds, *reads], outputs, bodies)


class OpenCode:
    """Ops as functions of operands, one for each combination of ranks that comes.

    Args:
        plan: which they belong to.
        ops: in their order.
        inputs: what they take.
        outputs: what others take of them.
        bodies: the plans of nested bodies, if some have any.
    """

    def __init__(
        self,
        plan: Plan,
        ops: Sequence[Operation],
        inputs: Sequence[ValueKey],
        outputs: Sequence[ValueKey],
        bodies: Any = None,
    ) -> None:
        self._plan = plan
        self._bodies = bodies
        self._ops = ops
        self._inputs = inputs
        self._outputs = outputs
        self._codes: dict[tuple[Any, ...], _Code] = {}
        self._misses = 0
        self._served = 0

    @property
    def serves(self) -> bool:
        """Whether there is code, and it has not failed too often."""
        return bool(self._codes) and self._misses <= MOST_MISSES + self._served // 8

    @property
    def cost(self) -> float:
        """Modelled microseconds by which a run is slower than in a program; without end if there is no code."""
        return max((code.cost for code in self._codes.values()), default=float("inf"))

    def results(
        self, values: Sequence[Any], bugs: list[faults.KernelBug], turn: Turn | None = None
    ) -> Sequence[Any] | None:
        """The outputs for these values of the inputs; None if the ops are to be run one by one.

        Bugs of ours that kept it from them are appended to ``bugs``. ``turn`` has the streams of the ops that draw,
        which move if there are results.
        """
        if self._misses > MOST_MISSES + self._served // 8:
            return None
        place = 0 if turn is None else turn.place
        results = self._results(values, bugs, turn)
        if results is None and turn is not None:
            turn.back_to(place)
        return results

    def several(
        self, rows: Sequence[Sequence[Any]], turn: Turn | None, bugs: list[faults.KernelBug]
    ) -> list[Any] | None:
        """The outputs for several rows of values; None if each is to be computed for itself, see :meth:`results`."""
        if not self.serves:
            return None
        ranks = {tuple([getattr(value, "ndim", None) for value in row]) for row in rows}
        code = self._codes.get(next(iter(ranks))) if len(ranks) == 1 else None
        if code is None:
            return None
        found = served(lambda: code.run_several(rows, turn), turn, bugs)
        if found is None:
            self._misses += 1
        else:
            self._served += len(rows)
        return found

    def _results(self, values: Sequence[Any], bugs: list[faults.KernelBug], turn: Turn | None) -> Sequence[Any] | None:
        try:
            ranks = tuple([value.ndim if type(value) is np.ndarray else _rank_of(value) for value in values])
        except AttributeError:  # what a program has made
            return None
        code = self._codes.get(ranks)
        try:
            if code is not None:
                results = code.run(values, turn)
                self._served += 1
                return results
            self._misses += 1
            with np.errstate(all="ignore"):
                builder = _Builder(self._plan, self._ops, turn, self._bodies)
                results, self._codes[ranks] = builder.build(self._inputs, values, self._outputs)
            return results
        except RUN_ANEW:
            self._misses += 1
        except faults.KernelBug as bug:
            self._misses += 1
            bugs.append(bug)
        except faults.BUGS as problem:
            self._misses += 1
            bugs.append(faults.KernelBug(None, problem))
        return None


class _Code:
    """Ops as a function of operands."""

    def __init__(self, function: Callable[..., Sequence[Any]], several: Several, multiplies: bool, cost: float) -> None:
        self._function = function
        self._several = several
        self.cost = cost
        self._multiplies = multiplies
        """Whether it has products of matrices, which are to take one thread."""

    def run(self, values: Sequence[Any], turn: Turn | None) -> Sequence[Any]:
        """The results."""
        return self._called(self._function, *values, turn)

    def run_several(self, rows: Sequence[Sequence[Any]], turn: Turn | None) -> list[Any]:
        """The results for each of several rows of operands."""
        found: list[Any] = self._called(self._several, rows, turn)
        return found

    def _called(self, function: Any, *given: Any) -> Any:
        with np.errstate(all="ignore"):
            if not self._multiplies:
                return function(*given)
            host_blas.enter()
            try:
                return function(*given)
            finally:
                host_blas.leave()


class _Line:
    """One line of code."""

    __slots__ = ("may_fail", "sources", "targets", "text")

    def __init__(self, text: str, targets: Sequence[str], sources: Sequence[str], may_fail: bool) -> None:
        self.text = text
        self.targets = targets
        self.sources = sources
        self.may_fail = may_fail


class _Builder:
    """Run ops once, and write down what they did."""

    def __init__(self, plan: Plan, ops: Sequence[Operation], turn: Turn | None, bodies: Any) -> None:
        self._plan = plan
        self._bodies = bodies
        self._ops = ops
        self._turn = turn
        self._names: dict[ValueKey, str] = {}
        """Of what is computed from operands."""
        self._values: dict[ValueKey, Any] = {key: value for key, value in plan.constants.items()}
        self._constant: set[ValueKey] = set(plan.constants)
        self._roots: dict[ValueKey, frozenset[ValueKey]] = {}
        """Of what follows from shapes alone: whose."""
        self._tuples: dict[ValueKey, str] = {}
        """Of what of it is computed as tuples of integers: the names of these."""
        self._groups: dict[frozenset[ValueKey], tuple[str, FromShapes]] = {}
        self._scope: dict[str, Any] = {"Changed": Changed}
        self._lines: list[_Line] = []
        self._multiplies = False
        self._cost = policy.STRAIGHT_RUN

    def build(
        self, inputs: Sequence[ValueKey], values: Sequence[Any], outputs: Sequence[ValueKey]
    ) -> tuple[list[Any], _Code]:
        """The outputs for these values of the inputs, and the code for others of their ranks."""
        for i, (key, value) in enumerate(zip(inputs, values, strict=True)):
            self._names[key], self._values[key] = f"a{i}", value
        for op in self._ops:
            try:
                self._add(op)
            except faults.BUGS as problem:
                raise faults.KernelBug(op, problem) from problem
        returned = [self._array(key) for key in outputs]
        used = set(_variables(returned))
        made = {name for line in self._lines for name in line.targets}
        lines: list[Written] = []
        for line in reversed(self._lines):
            if line.may_fail or not used.isdisjoint(line.targets):
                lines.append(letting_go(line, used, made))
                used.update(line.sources)
        lines.reverse()
        body = "".join(f"    {line}\n" for line in lines)
        given = [f"a{i}" for i in range(len(values))]
        text = f"def code({', '.join([*given, 'turn'])}):\n{body}"
        text += f"    return ({''.join(f'{name}, ' for name in returned)})\n"
        exec(compile(text, _FILE, "exec"), self._scope)
        several = Several(given, lines, made, returned, self._scope)
        return [self._values[key] for key in outputs], _Code(self._scope["code"], several, self._multiplies, self._cost)

    # --------------------------------------------------------------------------------------------------- what ops take
    def _bind(self, value: Any) -> str:
        name = f"c{len(self._scope)}"
        self._scope[name] = value
        return name

    def _array(self, key: ValueKey) -> str:
        """The expression of a value as an array."""
        if key in self._names:
            return self._names[key]
        if key in self._constant:
            name = self._names[key] = self._bind(self._values[key])
            return name
        if key in self._tuples:
            given, name = self._tuples[key], f"w{len(self._scope)}"
            self._names[key] = name
            call = f"{name} = {self._bind(array_of(self._values[key]))}({given})"
            self._lines.append(_Line(call, [name], [given], False))
            return name
        return self._from_shapes(key, False)

    def _sizes(self, key: ValueKey) -> str:
        """The expression of a value as a tuple of integers."""
        if key in self._constant:
            return self._bind(tuple(np.ravel(self._values[key]).tolist()))
        if key in self._tuples:
            return self._tuples[key]
        if key in self._roots:
            return self._from_shapes(key, True)
        return f"tuple({self._names[key]}.ravel().tolist())"

    def _from_shapes(self, key: Any, as_sizes: bool) -> str:
        roots = self._roots[key]
        group = self._groups.get(roots)
        if group is None:
            group = f"s{len(self._scope)}", FromShapes(self._plan)
            self._groups[roots] = group
            maker = self._bind(group[1])
            ordered = sorted(roots, key=self._names.__getitem__)
            group[1].roots = [(root, self._values[root].dtype) for root in ordered]
            names = [self._names[root] for root in ordered]
            call = f"{group[0]} = {maker}({', '.join(f'{name}.shape' for name in names)})"
            self._scope[group[0]] = None
            self._lines.append(_Line(call, [group[0]], names, False))
        name, memo = group
        self._gather(key, memo)
        place = memo.wanted.setdefault((key, as_sizes), len(memo.wanted))
        return f"{name}[{place}]"

    def _gather(self, key: Any, memo: FromShapes) -> None:
        """Note the ops that a value follows from, those first that are needed first."""
        roots = [root for root, _ in memo.roots]
        if key in roots or key in memo.constants:
            return
        if key in self._constant:
            memo.constants[key] = self._values[key]
            return
        op = key.op
        if op not in memo.ops:
            for source in self._plan.sources(op):
                if not (op.definition.shape_only and source in roots):
                    self._gather(source, memo)
            memo.ops[op] = None

    # ------------------------------------------------------------------------------------------------------ what ops do
    def _add(self, op: Operation) -> None:
        definition = op.definition
        if definition.effect.kind == "body":
            self._add_inner(op)
            return
        sources = [key for key in self._plan.sources(op) if key is not None]
        if definition.only_passes or definition.role is Role.ORDERING:
            for output, source in zip(op._outputs, sources, strict=False):
                self._pass_on(output, source)
            return
        operands = [held(self._values[key]) for key in sources]
        refused = refused_by_shape(self._plan, op, operands)
        if refused is not None:
            raise Changed
        context = kernels.HostContext(op)
        context.precision = self._plan.options.precision
        if only_draws(op):
            assert self._turn is not None
            context.philox = self._turn.take(op, blocks_of(op, operands))
        results = kernels.run_on_host(definition, operands, op._attrs, context)
        self._values.update(zip(op._outputs, results, strict=True))
        if self._follows(op, sources, results):
            self._add_of_sizes(op, sources, operands, results)
            return
        if getattr(definition.of_sizes, "of_shapes", False) and self._add_of_sizes(op, sources, operands, results):
            return
        targets = [f"v{output.op._id}_{output.value_index}" for output in op._outputs]
        call, names, may_fail = self._call(op, sources, operands, results, context)
        self._cost += sum(policy.straight_elements(value.size) for value in results if isinstance(value, _ARRAYS))
        self._names.update(zip(op._outputs, targets, strict=True))
        text = f"{targets[0]} = {call}" if len(targets) == 1 else f"{''.join(f'{name}, ' for name in targets)}= {call}"
        self._lines.append(_Line(text if targets else call, targets, names, may_fail))

    def _add_inner(self, op: Operation) -> None:
        """A conditional, loop or call: a call of the code of its bodies."""
        inner = self._bodies.inner(self._plan, op)
        names = [self._array(key) for key in inner.keys]
        results = inner(self._turn, *[self._values[key] for key in inner.keys])
        targets = []
        for i, value in zip(inner.given, results, strict=True):
            output = op._outputs[i]
            targets.append(f"v{output.op._id}_{output.value_index}")
            self._names[output], self._values[output] = targets[-1], value
        self._cost += policy.STRAIGHT_KERNEL
        call = f"{self._bind(inner)}({', '.join(['turn', *names])})"
        text = f"{''.join(f'{name}, ' for name in targets)}= {call}" if targets else call
        self._lines.append(_Line(text, targets, _variables(names), True))

    def _pass_on(self, output: Tensor, source: ValueKey) -> None:
        self._values[output] = self._values[source]
        if source in self._names:
            self._names[output] = self._names[source]
        if source in self._constant:
            self._constant.add(output)
        if source in self._roots:
            self._roots[output] = self._roots[source]
        if source in self._tuples:
            self._tuples[output] = self._tuples[source]

    def _follows(self, op: Operation, sources: Sequence[ValueKey], results: Sequence[Any]) -> bool:
        """Whether what an op gives is the same each time, or follows from shapes alone, and is worth keeping."""
        if not known_values.folds(op) or not op._outputs:
            return False
        if not all(isinstance(self._values[key], _ARRAYS) for key in sources):
            return False
        if not all(isinstance(value, _ARRAYS) and value.nbytes <= MOST_BYTES for value in results):
            return False
        roots: set[ValueKey] = set()
        for key in sources:
            if op.definition.shape_only and not self._is_static(key):
                if key in self._roots:
                    roots |= self._roots[key]
                else:
                    roots.add(key)
            elif key in self._roots:
                roots |= self._roots[key]
            elif key not in self._constant and not op.definition.shape_only:
                return False
        if any(key not in self._names for key in roots):
            return False
        if roots:
            self._roots.update(dict.fromkeys(op._outputs, frozenset(roots)))
        else:
            self._constant.update(op._outputs)
        return True

    def _add_of_sizes(
        self, op: Operation, sources: Sequence[ValueKey], operands: Sequence[Any], results: Sequence[Any]
    ) -> bool:
        """Compute an op on sizes as one of tuples, if it has such a form."""
        make = op.definition.of_sizes
        if make is None or op._outputs[0] in self._constant:
            return False
        if any(value.dtype.kind != "i" or value.ndim > 1 for value in results):
            return False
        names = [self._tuple_of(op, key) for key in sources]
        form = None if None in names else make(operands, [key in self._constant for key in sources], op._attrs)
        if form is None:
            return False
        try:
            shapes_only = op.definition.shape_only
            found = form(*[value.shape if shapes_only else tuple(np.ravel(value).tolist()) for value in operands])
        except Changed:
            return False
        for value, expected in zip([found] if len(results) == 1 else found, results, strict=True):
            if list(value) != np.ravel(expected).tolist():
                return False
        targets = [f"z{output.op._id}_{output.value_index}" for output in op._outputs]
        given = [name for name in names if name is not None]
        text = f"{', '.join(targets)} = {self._bind(form)}({', '.join(given)})"
        self._lines.append(_Line(text, targets, _variables(given), False))
        self._tuples.update(zip(op._outputs, targets, strict=True))
        return True

    def _tuple_of(self, op: Operation, key: ValueKey) -> str | None:
        """The expression of an operand as a tuple of integers, or of its shape if an op looks at no more."""
        value = self._values[key]
        if not isinstance(value, _ARRAYS):
            return None
        if op.definition.shape_only:
            return f"{self._names[key]}.shape" if key in self._names else None
        if key in self._tuples:
            return self._tuples[key]
        if getattr(op.definition.of_sizes, "of_shapes", False) and key in self._names and value.ndim == 1:
            return f"tuple({self._names[key]}.tolist())"  # what a loop has kept of shapes
        return self._sizes(key) if key in self._constant and value.dtype.kind == "i" and value.size <= 64 else None

    def _is_static(self, key: ValueKey) -> bool:
        return key in self._constant or (isinstance(key, Tensor) and shapes.is_static(key._shape))

    def _call(
        self,
        op: Operation,
        sources: Sequence[Any],
        operands: Sequence[Any],
        results: Sequence[Any],
        context: kernels.HostContext,
    ) -> tuple[str, list[str], bool]:
        """The call that computes an op, the names that it takes, and whether it must be made even for nobody."""
        definition = op.definition
        special = self._of_distinct(op, sources)
        make = definition.any_size
        if not getattr(make, "lists", False) and not all(isinstance(value, _ARRAYS) for value in operands):
            make = None
        form = special or (make(operands, op._attrs) if make is not None else None)
        as_sizes = getattr(make, "sizes", ()) if special is None else ()
        if form is not None and any(sources[i] not in self._constant for i in getattr(form, "fixes", ())):
            form = None
        if form is not None:
            given = [tuple(np.ravel(value).tolist()) if i in as_sizes else value for i, value in enumerate(operands)]
            try:
                found = form(*given)
                found = list(found) if len(op._outputs) != 1 else [found]
            except (Changed, ValueError):
                form = None
            else:
                same = same_bits if special is None else _equal
                if not all(same(value, result) for value, result in zip(found, results, strict=True)):
                    form = None
        if form is not None:
            names = [self._sizes(key) if i in as_sizes else self._array(key) for i, key in enumerate(sources)]
            ranked = [self._rank_guard(key) for key in sources if key not in self._constant and key in self._names]
            self._lines.extend([line for line in ranked if line is not None])
            if definition.flops is not None:
                self._multiplies = True
            self._cost += policy.STRAIGHT_OP
            return f"{self._bind(form)}({', '.join(names)})", _variables(names), True
        names = [self._array(key) for key in sources]
        self._cost += policy.STRAIGHT_KERNEL
        if only_draws(op):
            known = [key in self._constant for key in sources]
            assert self._turn is not None
            call = short_draw(op, operands, known, results[0], self._turn) or drawing(self._plan, op, all(known))
            return f"{self._bind(call)}({', '.join(['turn', *names])})", _variables(names), True
        call = kernel_of(self._plan, op, context)
        return f"{self._bind(call)}({', '.join(names)})", _variables(names), True

    def _rank_guard(self, key: ValueKey) -> _Line | None:
        """A check that what a kernel gave has the rank that a form is for, if only runs tell."""
        name = self._names[key]
        if name.startswith("a") or (isinstance(key, Tensor) and key._shape is not None):
            return None
        if not isinstance(self._values[key], _ARRAYS):
            return None
        rank = self._values[key].ndim
        return _Line(f"if {name}.ndim != {rank}: raise Changed", [], [name], True)

    def _of_distinct(self, op: Operation, sources: Sequence[Any]) -> Any:
        """What numbers distinct elements that are distinct already, or adds up the one row of each of these.

        Lookups make their indices distinct, and optimizers do it once more with those of the gradient.
        """
        plan = self._plan
        if op.role is Role.DISTINCT and len(sources) == 1 and len(op._outputs) == 2:
            (source,) = sources
            if not isinstance(source, Tensor) or source in plan.fed or not lowering.holds_distinct(source):
                return None
            dtype = op._outputs[1].dtype.np

            def number(vector: Any) -> Any:
                if vector.ndim != 1:
                    raise Changed
                return vector, np.arange(len(vector), dtype=dtype)

            return number
        if op.role is Role.ROW_SUMS and len(sources) == 3 and isinstance(sources[1], Tensor):
            maker = sources[1].op
            if maker.role is not Role.DISTINCT or sources[1] is not maker._outputs[1] or len(maker._outputs) != 2:
                return None
            if len(maker._inputs) != 1 or maker._inputs[0] in plan.fed or not lowering.holds_distinct(maker._inputs[0]):
                return None

            def rows(data: Any, ids: Any, count: Any) -> Any:
                if not data.ndim or not len(data) == len(ids) == int(count):
                    raise Changed
                return data

            return rows
        return None


def _variables(names: Sequence[str]) -> list[str]:
    """The names of lines in expressions."""
    return [name.removeprefix("tuple(").partition("[")[0].partition(".")[0] for name in names]


def _rank_of(value: Any) -> Any:
    """What code for any size tells arguments apart by: a rank, or those of what an optional holds."""
    if type(value) is HostOptional:
        return "none" if value.values is None else tuple([getattr(item, "ndim", None) for item in value.values])
    return None if type(value) is HostList or type(value) is ResourceHandle else value.ndim


def _equal(value: Any, expected: Any) -> bool:
    """The same, but for zeros that are negative, which a sum with 0 does not have."""
    return value.dtype == expected.dtype and np.array_equal(value, expected, value.dtype.kind in "fc")
