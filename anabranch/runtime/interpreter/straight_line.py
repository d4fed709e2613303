"""Bodies of loops that the interpreter runs again and again, as one Python function of NumPy calls.

Run op by op, a small op costs the interpreter ten times what NumPy takes for it. A body that only computes (it may read
variables, but has no writes, no channels, calls no Python) is looked at while it runs once, and
becomes *straight* code: each op a call of what its kernel does for operands of those shapes and dtypes
(``ops/shared/unchecked.py``), or of the kernel itself where there is nothing shorter. What follows from constants and
shapes alone is computed once. The code is for arguments of the shapes and dtypes that were seen, which it checks when
it begins; shapes inside follow, and where a kernel's do not, they are checked behind it if anything relies on them.
Whenever something is different, or any check fails, the iteration is run anew op by op: nothing has happened, as there
are no effects. So the values and the errors are the interpreter's, bit for bit. What was computed for nothing is
counted. A body whose values have other shapes each time gets code for any sizes (:mod:`open_code`), which takes longer
for an op and is made once. What grows in a loop has another shape in each iteration, but the same ones in later runs of
the loop, where they get their own code.

A body may also draw, and have conditionals, loops and calls inside that do no more (:mod:`inner_code`). Streams move by
the blocks that the interpreter would have reserved, and back if the code has not served, so that a run that is made
anew draws the same (:class:`Turn`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import faults, inference, kernels
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey, ValueKey
from anabranch.core.values.host_list import HostList
from anabranch.core.values.optional_values import HostOptional
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.unchecked import Changed, unchanged
from anabranch.rewrite import effects
from anabranch.runtime.plans import policy
from anabranch.runtime.values import to_host
from anabranch.xla import lowering

RUN_ANEW = (Changed, errors.OpError, ValueError, MemoryError)
"""What says that the interpreter is to run the body: other arguments, or an error, which it tells with its op."""


class TooLong(Exception):
    """A loop inside straight code has run so long that it is better compiled: the executor is to run what holds it."""


class _Unsettled(Changed):
    """Sizes that ``op`` takes as data are not those that the code is for."""

    def __init__(self, op: Operation) -> None:
        super().__init__()
        self.op = op


class _Late(Changed):
    """Something was computed before it was seen that values are not like those that the code is for."""


_FILE = "<straight code of a loop>"
MOST_FORMS = 4
"""So many kinds of arguments get code of their own as they come."""
MOST_RECURRING = 64
"""So many more do when they come again, such as those of a loop in which something grows with each iteration."""
RECURS = 4
"""So often they come again before that, where code for any sizes serves them. What comes one after the other, as within
a run of a loop, counts as once.
"""
LONG = 64
"""Runs one after the other that count as coming again."""
MOST_SEEN = 512
"""So many kinds are remembered for that."""
MOST_MISSES = 16
"""After this many runs that no code served, none is tried any more."""
MOST_BLOCKS = 1 << 28
"""Draws that reserve more may not fit into memory, which the interpreter looks at."""
MOST_SETTLED = 8
"""Sizes in a vector that code may be for."""
_ARRAYS = (np.ndarray, np.generic)


class Turn:
    """What a run of straight code takes from its step: streams, which move as it draws, and word that the step ends.

    Args:
        stream: the random stream of an op.
        token: is looked at by loops inside.
    """

    __slots__ = ("_moved", "_stream", "inner_cost", "token")

    def __init__(self, stream: Callable[[Operation], Any], token: Any = None) -> None:
        self._stream = stream
        self.token = token
        self._moved: list[tuple[Any, int]] = []
        self.inner_cost = 0.0
        """What conditionals and loops inside have cost so far, in modelled microseconds."""

    @property
    def place(self) -> int:
        """Where a run stands that may be taken back to here."""
        return len(self._moved)

    def take(self, op: Operation, blocks: int) -> Any:
        """The key and counter of the first of so many blocks of an op's stream, which moves behind them."""
        counter = self._stream(op)
        words = counter.words()
        counter.position += blocks
        self._moved.append((counter, blocks))
        return words

    def back_to(self, place: int) -> None:
        """Move the streams back to where they stood: what was drawn since is drawn anew."""
        while len(self._moved) > place:
            counter, blocks = self._moved.pop()
            counter.position -= blocks

    def keep(self) -> None:
        """What was drawn stays drawn."""
        self._moved.clear()


class Code:
    """Ops as a function of its arguments, which raises :class:`Changed` if they are not what it is made for."""

    def __init__(self, function: Callable[..., list[Any]], cost: float, ops: Sequence[Operation | None]) -> None:
        self.function = function
        self.cost = cost
        """Modelled microseconds by which a run is slower than in a program."""
        self._ops = ops
        """The op of each line."""

    def bug(self, problem: BaseException) -> faults.KernelBug:
        """What to say if the interpreter succeeds where this code has raised what nobody raises on purpose."""
        lines = [line for frame, line in traceback.walk_tb(problem.__traceback__) if frame.f_code.co_filename == _FILE]
        return faults.KernelBug(self._ops[lines[-1] - 1] if lines else None, problem)


class Straight:
    """The straight code of ops that belong together: of one nested plan, if :func:`of` makes it.

    Args:
        plan: which they belong to.
        segment: which they are all of.
        arguments: what they take.
        fetches: what others take of them.
        bodies: the plans of nested bodies, if some have any.
    """

    def __init__(
        self, plan: Any, segment: Any, arguments: Sequence[ValueKey], fetches: Sequence[Any], bodies: Any = None
    ) -> None:
        self._plan = plan
        self._bodies = bodies
        self._ops = segment.ops
        self._arguments = arguments
        self._fetches = fetches
        self.reads: list[StateKey] = []
        """The variables whose values are the last of the arguments."""
        self.random_ops: list[Operation] = segment.random_ops
        """The ops that draw, also those in conditionals and loops inside; :meth:`run` then needs their streams."""
        self.nests = any(op.definition.effect.kind == "body" for op in segment.ops)
        """Whether there are conditionals, loops or calls inside; :meth:`run` then needs a turn."""
        self._codes: list[Code] = []
        self.any_size: Any = None
        """What runs the body for arguments that have no code here (:class:`open_code.OpenCode`), if it is set."""
        self._code_of: dict[Any, Code] = {}
        """The code that serves arguments of certain shapes."""
        self._seen: dict[Any, float] = {}
        """How often further kinds have come that have no code."""
        self._last: Any = None
        """The kind of the last run."""
        self._made_for_recurring = 0
        self._misses = 0
        self._served = 0
        self._unsettled: set[Operation] = set()
        """Ops that take sizes as data, which are not always the same for operands of certain shapes."""
        self._late = 0
        """How often code has computed something for nothing."""
        self._runs = 0
        self.bug: faults.KernelBug | None = None
        """Why the last run has left it to the interpreter, if that was a bug of ours."""
        self.cost = float("inf")
        """What a run of the code that was made last costs; without end if there is none."""
        self.inner_cost = 0.0
        """What conditionals and loops inside have cost lately."""
        self._left = False
        """Whether a loop inside runs so long that the executor is to run the body."""

    @property
    def serves_many(self) -> bool:
        """Whether there is code for many kinds of arguments: those that come again and again, or all that have come."""
        if self._made_for_recurring or (self.any_size is not None and self.any_size.serves):
            return True
        return len(self._codes) == MOST_FORMS and not self._seen

    @property
    def is_best(self) -> bool:
        """Whether a program takes longer to call than it saves, or would be parts of a body whose sizes change."""
        if self.serves_many:  # whatever it is, what is inside runs by code of its own
            return self.cost < policy.PARTS_RUN
        return self.cost + self.inner_cost < policy.PROGRAM_RUN

    def run(
        self, values: Sequence[Any], turn: Turn | None = None, recurring: bool = True
    ) -> tuple[list[Any], float] | None:
        """The results for these arguments and what they cost; None if the interpreter is to run the body.

        ``recurring`` says whether arguments of many kinds get code of their own if they come again. ``turn`` has the
        streams of what draws, which move if there are results.
        """
        if self._left:
            return None
        if turn is None:
            return self._run(values, None, recurring)
        place, before = turn.place, turn.inner_cost
        outcome = None
        try:
            outcome = self._run(values, turn, recurring)
        except TooLong:
            self._left = True
            raise
        finally:
            if outcome is None:
                turn.back_to(place)
                turn.inner_cost = before
        if outcome is not None and self.nests:
            self.inner_cost = max(turn.inner_cost - before, 0.875 * self.inner_cost)
        return outcome

    def _run(self, values: Sequence[Any], turn: Turn | None, recurring: bool) -> tuple[list[Any], float] | None:
        self.bug = None
        if self._late > MOST_MISSES + self._served:
            return self._of_any_size(values, turn)
        kind = tuple([value.shape if type(value) is np.ndarray else _kind_of(value) for value in values])
        code = self._code_of.get(kind)
        if code is not None:
            return self._serve(code, values, turn) or self._of_any_size(values, turn)
        if kind not in self._seen:
            for code in self._codes:  # what it does not look at may have any shape
                outcome = self._serve(code, values, turn)
                if outcome is not None:
                    if len(self._code_of) < MOST_SEEN:
                        self._code_of[kind] = code
                    return outcome
        if len(self._codes) == MOST_FORMS:
            outcome = self._again(kind, values, turn) if recurring else None
            return outcome or self._of_any_size(values, turn)
        self._runs += 1
        if self._runs == 1:
            return None
        if self._misses > MOST_MISSES:
            return self._of_any_size(values, turn)
        self._misses += 1
        made = self._build(values, turn)
        if made is None:
            return None
        results, code = made
        self._codes.append(code)
        self._code_of[kind] = code
        return results, self._plan.cost.run

    def _serve(self, code: Code, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], float] | None:
        """What a code gives for these arguments, or None if it is not for them."""
        place = 0 if turn is None else turn.place
        try:
            results = code.function(*values, turn)
        except _Late:
            self._late += 1
        except _Unsettled as problem:  # all code is made anew, and follows these sizes
            self._unsettled.add(problem.op)
            self._codes, self._code_of = [], {}
            self._misses = self._made_for_recurring = 0
        except RUN_ANEW:
            pass
        except faults.KernelBug as bug:
            self.bug = bug
        except faults.BUGS as problem:
            self.bug = code.bug(problem)
        else:
            self._served += 1
            return results, code.cost
        if turn is not None:
            turn.back_to(place)
        return None

    def _again(self, kind: Any, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], float] | None:
        """The results for arguments of one kind of many, if that has come often enough before."""
        if self._made_for_recurring == MOST_RECURRING:
            return None
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        served = self.any_size is not None and self.any_size.serves
        came = self._seen.get(kind, 0) + (1 / LONG if served and kind == self._last else 1)
        self._seen[kind], self._last = came, kind
        if came < (RECURS if served else 2):
            return None
        self._made_for_recurring += 1
        made = self._build(values, turn)
        if made is None:
            return None
        results, self._code_of[kind] = made
        return results, self._plan.cost.run

    def _of_any_size(self, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], float] | None:
        if self.any_size is None or self.bug is not None:
            return None
        bugs: list[faults.KernelBug] = []
        results = self.any_size.results(values, bugs, turn)
        if bugs:
            self.bug = bugs[0]
        if results is None:
            return None
        self.cost = min(self.cost, self.any_size.cost)
        given = iter(results)
        fetched = [next(given) if isinstance(fetch, Tensor) else None for fetch in self._fetches]
        return fetched, self.any_size.cost

    def _build(self, values: Sequence[Any], turn: Turn | None) -> tuple[list[Any], Code] | None:
        """The results for these arguments, and the code for others like them; None if there is none."""
        place = 0 if turn is None else turn.place
        try:
            with quiet():
                builder = Builder(self._plan, turn, self._bodies, self._unsettled)
                results, code = builder.build_from(self._ops, self._arguments, values, self._fetches)
        except (*RUN_ANEW, faults.KernelBug) as problem:
            if isinstance(problem, faults.KernelBug):
                self.bug = problem
            if turn is not None:
                turn.back_to(place)
            return None
        self.cost = code.cost
        return results, code


def of(plan: Any, bodies: Any) -> Straight | None:
    """What runs the body of a nested plan straight, or None if it does more than compute and draw."""
    (segment, *others) = plan.segments
    if others or segment.channel is not None or segment.written or segment.calls_python:
        return None
    if plan.final_reads:
        return None
    if not all(only_computes(op) or only_draws(op) or _nests(op) for op in segment.ops):
        return None
    reads = [StateKey(maker, 0, 0) for maker in segment.base_reads]
    made = Straight(plan, segment, [*plan.feeds, *reads], plan.fetches, bodies)
    made.reads = reads
    return made


def _nests(op: Operation) -> bool:
    """Whether an op has bodies, which do no more than compute, read and draw."""
    if op.definition.effect.kind != "body":
        return False
    return all(
        only_computes(inner)
        or only_draws(inner)
        or inner.definition.effect.kind == "body"
        or inner.definition.makes is not None
        or inner.role in (Role.CONSTANT, Role.ARGUMENT)
        for inner in effects.inner_ops(op)
    )


def _is_free(definition: OpDefinition) -> bool:
    """Whether an op costs nothing here: its results are names of what there is."""
    return definition.only_passes or definition.role is Role.ORDERING


def only_computes(op: Operation) -> bool:
    """Whether an op has no effect, and a kernel on the host."""
    definition = op.definition
    if _is_free(definition):
        return True
    if definition.effect.kind not in ("pure", "read") or definition.may_block or kernels.needs_lax(definition):
        return False
    if definition.effect.presence or definition.allows_uninitialized:
        return False
    return definition.host_kernel is not None or definition.kernel is not None


def only_draws(op: Operation) -> bool:
    """Whether an op draws from a stream of its own, and has a kernel on the host."""
    definition = op.definition
    return definition.effect.kind == "random" and not definition.may_block and not kernels.needs_lax(definition)


@contextmanager
def quiet() -> Iterator[None]:
    """Around the runs of a loop: floating-point warnings are silenced, and matrix products take one thread."""
    host_blas.enter()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        host_blas.leave()


def _form_of(value: Any) -> Any:
    if isinstance(value, HostList):
        return value.element_dtype, value.element_shape, value.limit
    if isinstance(value, _ARRAYS):
        return value.shape, value.dtype
    if isinstance(value, HostOptional):
        return (HostOptional,)
    raise Changed


def _kind_of(value: Any) -> Any:
    """What decides which code an argument gets."""
    if isinstance(value, _ARRAYS):
        return value.shape
    return _content(value) if type(value) is HostOptional else None


def _content(value: HostOptional) -> Any:
    """The shapes of what an optional holds."""
    return "none" if value.values is None else tuple([getattr(item, "shape", None) for item in value.values])


class _Line(NamedTuple):
    """One op of straight code."""

    op: Operation
    text: str
    targets: list[str]
    sources: list[str]
    may_fail: bool
    """Whether it must run although nobody uses what it gives."""
    cost: float


class Builder:
    """Run a body once, op by op, and writes down what it did."""

    follows_shapes = True
    """Whether what a kernel gives may have another shape each time, if nobody's code is for that."""

    def __init__(
        self, plan: Any, turn: Turn | None = None, bodies: Any = None, unsettled: set[Operation] | None = None
    ) -> None:
        self._plan = plan
        self._bodies = bodies
        self._unsettled = unsettled
        """The ops that code is not to be for certain sizes of; None: all."""
        self._turn = turn
        self._names: dict[ValueKey, str] = {}
        self._values: dict[ValueKey, Any] = {}
        self._known: set[ValueKey] = set()
        self._scope: dict[str, Any] = {"Changed": Changed, "arrays": _ARRAYS, "array": np.ndarray, "List": HostList}
        self._scope.update(Optional=HostOptional, content=_content)
        self._lines: list[_Line] = []
        self._looked_at: set[str] = set()
        """What ops take, also those that only ask for a shape and become constants: as arguments, these are guarded."""
        self._of_shape: set[str] = set()
        """What somebody takes whose code is for its shape."""
        self._kernels: list[tuple[list[str], list[Any]]] = []
        """What each kernel gives, and of which forms that must be."""
        self._cost = policy.STRAIGHT_RUN

    def build(self, arguments: Sequence[ValueKey], values: Sequence[Any]) -> tuple[list[Any], Code]:
        """The results for the ``values`` of the arguments, and the code for others like them."""
        with quiet():
            return self.build_from(self._plan.segments[0].ops, arguments, values, self._plan.fetches)

    def build_from(
        self,
        straight_ops: Sequence[Operation],
        arguments: Sequence[ValueKey],
        values: Sequence[Any],
        fetches: Sequence[Any],
    ) -> tuple[list[Any], Code]:
        """The ``fetches`` that ops give for the ``values`` of its arguments, and the code for others."""
        for tensor, array in self._plan.constants.items():
            self._bind(tensor, array)
        for i, (key, value) in enumerate(zip(arguments, values, strict=True)):
            self._names[key] = f"a{i}"
            self._values[key] = value
        for op in straight_ops:
            try:
                self.add(op)
            except faults.BUGS as problem:
                raise faults.KernelBug(op, problem) from problem
        fetched = [self.fetched(fetch) if isinstance(fetch, Tensor) else "None" for fetch in fetches]
        for targets, forms in self._kernels if self.follows_shapes else ():
            for i, target in enumerate(targets):
                if target not in self._of_shape and len(forms[i]) == 2:
                    forms[i] = None, forms[i][1]
        used, lines = set(fetched), []
        ops: list[Operation] = []
        for line in reversed(self._lines):
            if not line.may_fail and used.isdisjoint(line.targets):
                continue
            lines.append(line.text)
            ops.append(line.op)
            used.update(line.sources)
            self._cost += line.cost
        looked_at = used | self._looked_at
        guards = [line for i, value in enumerate(values) if f"a{i}" in looked_at for line in self._guard(i, value)]
        body = "".join(f"    {line}\n" for line in (*guards, *reversed(lines)))
        parameters = ", ".join([*(f"a{i}" for i in range(len(values))), "turn=None"])
        text = f"def body({parameters}):\n{body}    return [{', '.join(fetched)}]\n"
        exec(compile(text, _FILE, "exec"), self._scope)
        results = [self._values[fetch] if isinstance(fetch, Tensor) else None for fetch in fetches]
        return results, Code(self._scope["body"], self._cost, [*[None] * (1 + len(guards)), *reversed(ops), None])

    def _guard(self, i: int, value: Any) -> list[str]:
        form = self._scope[f"g{i}"] = _form_of(value)
        if isinstance(value, HostList):
            differs = f"type(a{i}) is not List or (a{i}.element_dtype, a{i}.element_shape, a{i}.limit) != g{i}"
        elif isinstance(value, HostOptional):
            self._scope[f"s{i}"] = _content(value)
            differs = f"type(a{i}) is not Optional or content(a{i}) != s{i}"
        else:
            kind = f"type(a{i}) is not array" if form[0] else f"not isinstance(a{i}, arrays)"
            self._scope[f"s{i}"], self._scope[f"d{i}"] = form
            differs = f"{kind} or a{i}.shape != s{i} or a{i}.dtype != d{i}"
        return [f"if {differs}:", "    raise Changed"]

    def _bind(self, tensor: ValueKey, array: Any) -> None:
        """A value that is the same at each run."""
        name = self._names[tensor] = f"c{len(self._scope)}"
        self._scope[name] = self._values[tensor] = array
        self._known.add(tensor)

    def _sources(self, op: Operation) -> list[ValueKey]:
        sources = self._plan.sources(op)
        if None in sources:
            raise Changed
        return list(sources)

    def fetched(self, fetch: Tensor) -> str:
        """What is returned for a fetch."""
        return self._names[fetch]

    def add(self, op: Operation) -> None:
        """Run an op and write down what it did."""
        if _is_free(op.definition):
            for output, source in zip(op._outputs, self._sources(op), strict=False):
                self.pass_on(output, source)
            return
        if op.definition.effect.kind == "body":
            self._add_inner(op)
            return
        sources = self._sources(op)
        self._looked_at.update(self._names[key] for key in sources)
        if self._unsettled is not None and op not in self._unsettled:
            for position in _settled(op.definition, len(sources)):
                self._settle(op, sources[position])
        known = [key in self._known for key in sources]
        self.run(op, op._attrs, [self._values[key] for key in sources], known, [self._names[key] for key in sources])

    def _settle(self, op: Operation, key: ValueKey) -> None:
        """Make the code for the sizes that an op takes as data: what a loop has kept of shapes for its gradient."""
        value = self._values[key]
        if key in self._known or not isinstance(value, np.ndarray) or value.dtype.kind != "i" or value.ndim != 1:
            return
        if value.size <= MOST_SETTLED:
            name, maker = self._names[key], f"o{len(self._scope)}"
            self._scope[maker], self._scope["Unsettled"] = op, _Unsettled
            text = f"if {name}.tolist() != {value.tolist()}: raise Unsettled({maker})"
            self._lines.append(_Line(op, text, [], [name], True, 0.0))
            self._bind(key, value)

    def _add_inner(self, op: Operation) -> None:
        """Run a conditional, loop or call, and write it down as a call of the code of its bodies."""
        inner = self._bodies.inner(self._plan, op)
        names = [self._names[key] for key in inner.keys]
        self._looked_at.update(names)
        results = inner(self._turn, *[self._values[key] for key in inner.keys])
        forms = [_form_of(value) for value in results]
        targets = []
        for i, value in zip(inner.given, results, strict=True):
            output = op._outputs[i]
            self._values[output] = value
            self._names[output] = f"v{output.op._id}_{output.value_index}"
            targets.append(self._names[output])
        self._kernels.append((targets, forms))

        def call(turn: Turn, *operands: Any) -> list[Any]:
            found: list[Any] = inner(turn, *operands)
            for value, form in zip(found, forms, strict=True):
                if not _is_of(value, form):
                    raise _Late
            return found

        name = f"f{len(self._scope)}"
        self._scope[name] = call
        text = f"{''.join(f'{target}, ' for target in targets)}= {name}({', '.join(['turn', *names])})"
        self._lines.append(_Line(op, text if targets else text[2:], targets, names, True, policy.STRAIGHT_KERNEL))

    def maker(self, definition: OpDefinition) -> Any:
        """What makes the short form of an op."""
        return definition.straight

    def pass_on(self, output: Tensor, source: ValueKey) -> None:
        """Let an output be what another tensor is."""
        self._names[output], self._values[output] = self._names[source], self._values[source]
        if source in self._known:
            self._known.add(output)

    def run(
        self, op: Operation, attrs: dict[str, Any], operands: list[Any], known: Sequence[bool], names: list[str]
    ) -> None:
        """Run an op on operands, of which ``known`` says what never changes, and write it down with their ``names``."""
        definition = op.definition
        context = kernels.HostContext(op)
        context.precision = self._plan.options.precision
        draws = only_draws(op)
        blocks = blocks_of(op, operands) if draws else 0
        if draws:
            assert self._turn is not None
            context.philox = self._turn.take(op, blocks)
        outputs = kernels.run_on_host(definition, [to_host(value) for value in operands], attrs, context)
        forms = [_form_of(value) for value in outputs]
        by_shape = definition.shape_only and not any(isinstance(value, HostList) for value in operands)
        constant = not draws and (all(known) or by_shape) and all(isinstance(value, np.ndarray) for value in outputs)
        for output, value in zip(op._outputs, outputs, strict=True):
            self._values[output] = value
            if constant:
                self._bind(output, value)
            else:
                self._names[output] = f"v{output.op._id}_{output.value_index}"
        sources = [name.partition(".")[0] for name in names]
        if by_shape or draws:
            self._of_shape.update(sources)
        if constant and op._outputs:
            return
        make = self.maker(definition)
        function = make(operands, known, attrs) if make is not None else None
        if function is unchanged:
            self._of_shape.update(sources)
            self._names[op._outputs[0]], self._values[op._outputs[0]] = names[0], operands[0]
            return
        short = function is not None
        if not short and not draws and self.follows_shapes:
            function = self._any_size(op, attrs, operands, known, outputs, forms)
        name = f"f{len(self._scope)}"
        targets = [self._names[output] for output in op._outputs]
        if short:
            self._of_shape.update(sources)
        else:
            self._kernels.append((targets, forms))
        if draws:
            function = _drawing(op, attrs, context.precision, forms, blocks if all(known) else None)
            names = ["turn", *names]
        self._scope[name] = function or _kernel(op, attrs, context, forms)
        call = f"{name}({', '.join(names)})"
        if len(targets) == 1 and short:
            text = f"{targets[0]} = {call}"
        else:
            text = f"{''.join(f'{target}, ' for target in targets)}= {call}" if targets else call
        cost = policy.STRAIGHT_OP if short else policy.STRAIGHT_KERNEL
        cost += sum(policy.straight_elements(value.size) for value in outputs if isinstance(value, _ARRAYS))
        if definition.flops is not None:
            given = [getattr(value, "shape", None) for value in operands]
            context_of_shapes = inference.ShapeContext(definition, attrs, op._inputs, given)
            cost += policy.STRAIGHT_PER_FLOP * float(definition.flops(context_of_shapes))
        may_fail = not short or getattr(make, "may_change", False)
        self._lines.append(_Line(op, text, targets, sources, may_fail, cost))

    def _any_size(
        self, op: Operation, attrs: dict[str, Any], operands: list[Any], known: Sequence[bool], outputs: list[Any],
        forms: list[Any],
    ) -> Callable[..., list[Any]] | None:  # fmt: skip
        """The form of an op for operands of any size, if it has the bits of its kernel."""
        make = op.definition.any_size
        if make is None or not (getattr(make, "lists", False) or all(isinstance(v, _ARRAYS) for v in operands)):
            return None
        form = make(operands, attrs)
        sizes = {i: tuple(np.ravel(operands[i]).tolist()) for i in getattr(make, "sizes", ())}
        if form is None or not all(known[i] for i in getattr(form, "fixes", ())):
            return None
        given = [sizes.get(i, value) for i, value in enumerate(operands)]
        alone = len(outputs) == 1
        try:
            results = [form(*given)] if alone else list(form(*given))
        except (Changed, ValueError):
            return None
        if not all(same_bits(value, result) for value, result in zip(results, outputs, strict=True)):
            return None

        def call(*operands: Any) -> list[Any]:
            if sizes:
                given = list(operands)
                for i, fixed in sizes.items():
                    given[i] = fixed if known[i] else tuple(given[i].ravel().tolist())
                operands = tuple(given)
            found = [form(*operands)] if alone else form(*operands)
            for value, expected in zip(found, forms, strict=True):
                if not _is_of(value, expected):
                    raise _Late
            return found

        return call


def _settled(definition: OpDefinition, count: int) -> Sequence[int]:
    """The operands of an op that are shapes, or follow from shapes."""
    if getattr(definition.of_sizes, "of_shapes", False):
        return range(count)
    return getattr(definition.any_size, "settled", ())


def same_bits(value: Any, expected: Any) -> bool:
    """Whether a form gives what its kernel does."""
    if isinstance(expected, HostList):  # as long, after the same change
        return type(value) is HostList and value.length == expected.length
    if not isinstance(value, _ARRAYS) or value.shape != expected.shape or value.dtype != expected.dtype:
        return False
    return value.dtype == object or value.tobytes() == expected.tobytes()


def blocks_of(op: Operation, operands: Sequence[Any]) -> int:
    """How many blocks of its stream a run of an op reserves."""
    consumes = op.definition.consumes
    assert consumes is not None
    blocks = int(consumes(lowering.TraceShapes(op, operands)))
    if blocks > MOST_BLOCKS:
        raise Changed
    return blocks


def _drawing(
    op: Operation, attrs: dict[str, Any], precision: Any, forms: Sequence[Any], blocks: int | None
) -> Callable[..., list[Any]]:
    """The kernel of an op that draws, as a function of the streams and its operands.

    ``blocks`` is what each run reserves; None if that depends on the operands.
    """

    def call(turn: Turn, *operands: Any) -> list[Any]:
        context = kernels.HostContext(op)
        context.precision = precision
        context.philox = turn.take(op, blocks_of(op, operands) if blocks is None else blocks)
        return _kernel(op, attrs, context, forms)(*operands)

    return call


def _is_of(value: Any, form: Any) -> bool:
    """Whether a value has a form, whose shape may be None, which stands for any."""
    if len(form) == 2 and form[0] is None:
        return isinstance(value, _ARRAYS) and value.dtype == form[1]
    return bool(_form_of(value) == form)


def _kernel(op: Operation, attrs: dict[str, Any], context: Any, forms: Sequence[Any]) -> Callable[..., list[Any]]:
    """The kernel of an op as a function of its operands, whose results must be of ``forms``, which may still change."""
    definition = op.definition
    kernel, checks = definition.host_kernel or definition.kernel, definition.checks
    assert kernel is not None

    def call(*operands: Any) -> list[Any]:
        values = [
            value if type(value) is np.ndarray or type(value) is HostList else to_host(value) for value in operands
        ]
        if checks is not None:
            checks(context, values, attrs)
        found = kernel(context, values, attrs)
        if type(found) is np.ndarray and len(forms) == 1:
            if not _is_of(found, forms[0]):
                raise _Late
            return [found]
        found = kernels.outputs_of(definition, attrs, found)
        for value, form in zip(found, forms, strict=True):
            if not _is_of(value, form):
                raise _Late
        return found

    return call
