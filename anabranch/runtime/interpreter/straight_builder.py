"""Ops become one Python function of NumPy calls, while they run once on arguments of certain shapes and dtypes.

Each op becomes a call of what its kernel does for operands of those shapes and dtypes (``ops/shared/unchecked.py``), or
of the kernel itself where there is nothing shorter. What follows from constants and shapes alone is computed once. The
code looks at its arguments when it begins; shapes inside follow, and where a kernel's do not, they are checked behind
it if anything relies on them. When such code serves, and when more of it is made: :mod:`straight_line`.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import faults, inference, kernels
from anabranch.core.contract.opdef import OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.core.values.host_list import HostList
from anabranch.core.values.optional_values import HostOptional
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.unchecked import Changed, unchanged
from anabranch.runtime.interpreter.turns import Turn, blocks_of, short_draw
from anabranch.runtime.plans import policy
from anabranch.runtime.values import to_host

RUN_ANEW = (Changed, errors.OpError, ValueError, MemoryError)
"""What says that the interpreter is to run the body: other arguments, or an error, which it tells with its op."""
_FILE = "<straight code of a loop>"
MOST_SETTLED = 8
"""Sizes in a vector that code may be for."""
_ARRAYS = (np.ndarray, np.generic)


class Unsettled(Changed):
    """Sizes that ``op`` takes as data are not those that the code is for."""

    def __init__(self, op: Operation) -> None:
        super().__init__()
        self.op = op


class Late(Changed):
    """Something was computed before it was seen that values are not like those that the code is for."""


_NAME = re.compile(r"\b[a-z]\d+(?:_\d+)?\b")


class Written(NamedTuple):
    """A line of code, and the names that are dropped behind it."""

    text: str
    dropped: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.text}; del {', '.join(self.dropped)}" if self.dropped else self.text


class Several:
    """The same lines of code for several calls, each line for all of them before the next line.

    What a line needs (instructions, tables, memory that was just given back) is in the caches for all calls but the
    first: images of 100 to 200 pixels that are read, decoded, resized and recoloured take a sixth less time.

    Args:
        parameters: the names of the arguments.
        lines: of the code.
        names: what lines give.
        returned: the expressions of the results.
        scope: what the code is executed in.
    """

    def __init__(
        self, parameters: Sequence[str], lines: Sequence[Written], names: Set[str], returned: Sequence[str], scope: Any
    ) -> None:
        self._given = parameters, lines, names, returned, scope
        self._function: Callable[..., list[Any]] | None = None

    def __call__(self, rows: Sequence[Sequence[Any]], turn: Any) -> list[Any]:
        """The results for each row of arguments. What the code raises for one of them it raises."""
        if self._function is None:
            self._function = self._made()
        return self._function(rows, turn)

    def _made(self) -> Callable[..., list[Any]]:
        parameters, lines, names, returned, scope = self._given
        own = {*parameters, *names}

        def by_row(text: str) -> str:
            return _NAME.sub(lambda name: f"{name[0]}[i]" if name[0] in own else name[0], text)

        body = [f"{name} = [row[{i}] for row in rows]" for i, name in enumerate(parameters)]
        body += [f"{name} = [None] * len(rows)" for name in sorted(names)]
        for line in lines:
            body += ["for i in each:", f"    {by_row(line.text)}"]
            if line.dropped:
                body.append(f"del {', '.join(line.dropped)}")
        results = ", ".join(map(by_row, returned))
        text = "".join(f"    {line}\n" for line in ["each = range(len(rows))", *body])
        exec(compile(f"def several(rows, turn):\n{text}    return [[{results}] for i in each]\n", _FILE, "exec"), scope)
        made: Callable[..., list[Any]] = scope["several"]
        return made


class Code:
    """Ops as a function of its arguments, which raises :class:`Changed` if they are not what it is made for."""

    def __init__(
        self, function: Callable[..., list[Any]], cost: float, ops: Sequence[Operation | None], several: Several
    ) -> None:
        self.function = function
        self.several = several
        self.cost = cost
        """Modelled microseconds by which a run is slower than in a program."""
        self._ops = ops
        """The op of each line."""

    def bug(self, problem: BaseException) -> faults.KernelBug:
        """What to say if the interpreter succeeds where this code has raised what nobody raises on purpose."""
        lines = [line for frame, line in traceback.walk_tb(problem.__traceback__) if frame.f_code.co_filename == _FILE]
        return faults.KernelBug(self._ops[lines[-1] - 1] if lines else None, problem)


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


def kind_of(value: Any) -> Any:
    """What decides which code an argument gets."""
    if isinstance(value, _ARRAYS):
        return value.shape
    return content(value) if type(value) is HostOptional else None


def content(value: HostOptional) -> Any:
    """The shapes of what an optional holds."""
    return "none" if value.values is None else tuple([getattr(item, "shape", None) for item in value.values])


class Line(NamedTuple):
    """One op of straight code."""

    op: Operation
    text: str
    targets: list[str]
    sources: list[str]
    may_fail: bool
    """Whether it must run although nobody uses what it gives."""
    cost: float


def letting_go(line: Any, used: Set[str], made: Set[str]) -> Written:
    """A line that drops what nobody takes behind it: who asks for memory next gets it while caches hold it.

    Args:
        line: with ``text``, ``targets`` and ``sources``.
        used: the names that lines behind it take.
        made: those that lines give.
    """
    last = dict.fromkeys([*line.sources, *line.targets])
    is_check = line.text.startswith("if ")  # what follows it in the line belongs to it
    return Written(line.text, [name for name in last if name in made and name not in used and not is_check])


def served(call: Callable[[], list[Any]], turn: Turn | None, bugs: list[faults.KernelBug]) -> list[Any] | None:
    """What a call of code gives. None, and nothing is drawn, if the code is not for such values or has a bug of ours,
    which is appended to ``bugs``.
    """
    place = 0 if turn is None else turn.place
    try:
        return call()
    except RUN_ANEW:
        pass
    except (*faults.BUGS, faults.KernelBug) as problem:
        bugs.append(problem if isinstance(problem, faults.KernelBug) else faults.KernelBug(None, problem))
    if turn is not None:
        turn.back_to(place)
    return None


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
        self._scope.update(Optional=HostOptional, content=content)
        self._lines: list[Line] = []
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
        used: set[str] = set(fetched)
        lines: list[Written] = []
        made = {name for line in self._lines for name in line.targets}
        ops: list[Operation | None] = []
        for line in reversed(self._lines):
            if not line.may_fail and used.isdisjoint(line.targets):
                continue
            lines.append(letting_go(line, used, made))
            ops.append(line.op)
            used.update(line.sources)
            self._cost += line.cost
        looked_at = used | self._looked_at
        guards = [self._guard(i, value) for i, value in enumerate(values) if f"a{i}" in looked_at]
        lines = [*guards, *reversed(lines)]
        body = "".join(f"    {line}\n" for line in lines)
        parameters = ", ".join([*(f"a{i}" for i in range(len(values))), "turn=None"])
        text = f"def body({parameters}):\n{body}    return [{', '.join(fetched)}]\n"
        exec(compile(text, _FILE, "exec"), self._scope)
        results = [self._values[fetch] if isinstance(fetch, Tensor) else None for fetch in fetches]
        several = Several([f"a{i}" for i in range(len(values))], lines, made, fetched, self._scope)
        ops = [None] * (1 + len(guards)) + ops[::-1] + [None]
        return results, Code(self._scope["body"], self._cost, ops, several)

    def _guard(self, i: int, value: Any) -> Written:
        form = self._scope[f"g{i}"] = _form_of(value)
        if isinstance(value, HostList):
            differs = f"type(a{i}) is not List or (a{i}.element_dtype, a{i}.element_shape, a{i}.limit) != g{i}"
        elif isinstance(value, HostOptional):
            self._scope[f"s{i}"] = content(value)
            differs = f"type(a{i}) is not Optional or content(a{i}) != s{i}"
        else:
            kind = f"type(a{i}) is not array" if form[0] else f"not isinstance(a{i}, arrays)"
            self._scope[f"s{i}"], self._scope[f"d{i}"] = form
            differs = f"{kind} or a{i}.shape != s{i} or a{i}.dtype != d{i}"
        return Written(f"if {differs}: raise Changed")

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
            self._scope[maker], self._scope["Unsettled"] = op, Unsettled
            text = f"if {name}.tolist() != {value.tolist()}: raise Unsettled({maker})"
            self._lines.append(Line(op, text, [], [name], True, 0.0))
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
                    raise Late
            return found

        name = f"f{len(self._scope)}"
        self._scope[name] = call
        text = f"{''.join(f'{target}, ' for target in targets)}= {name}({', '.join(['turn', *names])})"
        self._lines.append(Line(op, text if targets else text[2:], targets, names, True, policy.STRAIGHT_KERNEL))

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
        if draws:
            assert self._turn is not None
            function = short_draw(op, operands, known, outputs[0], self._turn)
        else:
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
            function = function or _drawing(op, attrs, context.precision, forms, blocks if all(known) else None)
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
        may_fail = not short or draws or getattr(make, "may_change", False)
        self._lines.append(Line(op, text, targets, sources, may_fail, cost))

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
                    raise Late
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
                raise Late
            return [found]
        found = kernels.outputs_of(definition, attrs, found)
        for value, form in zip(found, forms, strict=True):
            if not _is_of(value, form):
                raise Late
        return found

    return call
