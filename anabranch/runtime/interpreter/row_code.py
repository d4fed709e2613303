"""A function of elements, run once for many of them: straight code over rows.

A body that only computes is looked at while it runs once on the rows of a batch, op by op (:mod:`straight_line`): an op
that works by element takes rows as they are, with operands of lower rank aligned; another one runs with what its
``by_rows`` makes of operands and attributes (:mod:`anabranch.ops.shared.row_rules`); what does not depend on an element
is computed once. An op that has no such form keeps the whole body from it.

The values are those of the elements taken one by one, bit for bit, or the code is not used: the first batch of each
form is computed both ways and compared, and of later ones a row now and then. What fails in a batch is run element by
element, where an error has its element. A body that draws does so for all rows what its calls would draw one after the
other: an op's draws are a fixed number of blocks apart.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import faults
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.ops.shared import row_rules
from anabranch.ops.shared.unchecked import Changed
from anabranch.runtime.interpreter.straight_builder import RUN_ANEW, Builder, Code, Line, only_draws
from anabranch.runtime.interpreter.straight_line import MOST_FORMS, MOST_MISSES
from anabranch.runtime.interpreter.turns import Turn, blocks_of
from anabranch.runtime.plans import policy

CHECKED_EVERY = 64
"""One batch in this number has a row computed alone, too."""
_log = logging.getLogger("anabranch")


class _NoForm(Exception):
    """An op cannot be computed for rows."""


class RowBuilder(Builder):
    """Run a body once for the rows of a batch, and write down what it did."""

    follows_shapes = False

    def __init__(self, plan: Any, elements: int, count: int, turn: Turn | None) -> None:
        """The first ``elements`` arguments are rows, ``count`` of them."""
        super().__init__(plan, turn)
        self._elements = elements
        self._count = count
        self._rows: set[ValueKey] = set()

    def build(self, arguments: Sequence[ValueKey], values: Sequence[Any]) -> tuple[list[Any], Code]:
        self._rows.update(arguments[: self._elements])
        results, code = super().build(arguments, values)
        return [self._complete(self._plan.fetches[i], value) for i, value in enumerate(results)], code

    def _complete(self, fetch: Any, value: Any) -> Any:
        return value if value is None or fetch in self._rows else repeated(value, self._count)

    def fetched(self, fetch: Tensor) -> str:
        name = super().fetched(fetch)
        if fetch in self._rows:
            return name
        self._scope["repeated"] = repeated
        return f"repeated({name}, {self._count})"

    def pass_on(self, output: Tensor, source: ValueKey) -> None:
        super().pass_on(output, source)
        if source in self._rows:
            self._rows.add(output)

    def run(
        self, op: Operation, attrs: dict[str, Any], operands: list[Any], known: Sequence[bool], names: list[str]
    ) -> None:
        if only_draws(op):
            self._draw(op, attrs, operands, known)
            return
        rows = [key in self._rows for key in self._sources(op)]
        if not any(rows):
            super().run(op, attrs, operands, known, names)
            return
        definition = op.definition
        if definition.shape_only:
            first = [value[0, ...] if is_rows else value for value, is_rows in zip(operands, rows, strict=True)]
            super().run(op, attrs, first, known, [f"{name}[0]" for name in names])
            return
        rule = definition.by_rows or (row_rules.by_element if definition.elementwise else None)
        adapted = rule(operands, rows, attrs) if rule is not None else None
        if adapted is None:
            raise _NoForm(f"{op.type} {op.name!r} is run element by element")
        if callable(adapted):
            self._call(op, adapted, operands, names)
            return
        values, changed = adapted
        for i, (before, after) in enumerate(zip(operands, values, strict=True)):
            if after is before:
                continue
            if rows[i]:
                names[i] = f"{names[i]}.reshape({after.shape})"
            elif known[i]:
                constant = f"c{len(self._scope)}"
                self._scope[constant] = after
                names[i] = constant
            else:
                raise _NoForm(f"{op.type} {op.name!r} has an operand that may change")
        super().run(op, changed, values, known, names)
        for output in op._outputs:
            value = self._values[output]
            if not np.ndim(value) or len(value) != self._count:
                raise Changed
            self._rows.add(output)

    def _draw(self, op: Operation, attrs: dict[str, Any], operands: list[Any], known: Sequence[bool]) -> None:
        """Draw for all rows what they would draw one after the other."""
        make, turn, count = op.definition.straight, self._turn, self._count
        draw = make(operands, known, attrs) if make is not None else None
        if draw is None or turn is None:
            raise _NoForm(f"{op.type} {op.name!r} draws element by element")
        blocks = blocks_of(op, operands)

        def drawn(turn: Turn) -> Any:
            key, place = turn.take_place(op, blocks * count)
            return draw.rows(key, place, blocks, count)

        (output,) = op._outputs
        self._values[output] = drawn(turn)
        self._names[output] = self._write(op, drawn, ["turn"], self._values[output].size)
        self._rows.add(output)

    def _call(self, op: Operation, function: Callable[..., Any], operands: list[Any], names: list[str]) -> None:
        """Call a function of rows in place of the op's kernel."""
        (output,) = op._outputs
        value = function(*operands)
        if len(value) != self._count:
            raise Changed
        self._values[output] = value
        self._names[output] = self._write(op, function, names, value.size)
        self._rows.add(output)

    def _write(self, op: Operation, function: Callable[..., Any], names: list[str], size: int) -> str:
        """Write a call down that may fail; the name of what it gives."""
        name, target = f"f{len(self._scope)}", f"v{op._id}_0"
        self._scope[name] = function
        sources = [given.partition(".")[0] for given in names]
        self._of_shape.update(sources)
        cost = policy.STRAIGHT_KERNEL + policy.straight_elements(size)
        self._lines.append(Line(op, f"{target} = {name}({', '.join(names)})", [target], sources, True, cost))
        return target


def repeated(value: Any, count: int) -> np.ndarray:
    """A value that is the same for each row, as rows."""
    return np.repeat(np.asarray(value)[np.newaxis], count, axis=0)


class Rows:
    """The straight code of a body over rows."""

    def __init__(self, plan: Any, count: int, told: bool) -> None:
        """``count`` of the body's arguments are components of elements, the others are captured.

        ``told`` says whether it is a surprise, and logged, if rows and elements give other values.
        """
        self._plan = plan
        self._told = told
        self._elements = count
        self._codes: dict[int, list[Code]] = {}
        self._misses = 0
        self._runs = 0
        self.refused: str | None = None
        """Why the body is run element by element; None if it need not be."""

    def run(
        self, values: Sequence[Any], outputs: int, alone: Callable[[list[Any]], list[Any]], turn: Turn | None = None
    ) -> list[Any] | None:
        """The results for a batch of rows, each stacked; None if it is to be run element by element.

        Args:
            values: components of elements, stacked, and captured values.
            outputs: how many results there are.
            alone: runs one element.
            turn: has the streams of what draws, which move by all rows if there are results.
        """
        if turn is None:
            return self._run(values, outputs, alone, None)
        results = None
        try:
            results = self._run(values, outputs, alone, turn)
        finally:
            if results is None:
                turn.back_to(0)
        return results

    def _run(
        self, values: Sequence[Any], outputs: int, alone: Callable[[list[Any]], list[Any]], turn: Turn | None
    ) -> list[Any] | None:
        count = len(values[0])
        codes = self._codes.setdefault(count, [])
        for code in codes:
            try:
                results = code.function(*values, turn)[:outputs]
            except RUN_ANEW:
                if turn is not None:
                    turn.back_to(0)
                continue
            except faults.BUGS as problem:
                self._refuse(str(code.bug(problem)))
                return None
            self._runs += 1
            if not self._runs % CHECKED_EVERY and not self._agrees(values, results, alone, [self._runs % count], turn):
                return None
            return results
        self._misses += 1
        if self._misses > MOST_MISSES or len(self._codes) > MOST_FORMS:
            return None
        arguments = self._plan.feeds
        try:
            outputs_of_rows, code = RowBuilder(self._plan, self._elements, count, turn).build(arguments, values)
        except _NoForm as problem:
            self.refused = str(problem)
            return None
        except RUN_ANEW:
            return None
        except faults.KernelBug as bug:
            self._refuse(str(bug))
            return None
        results = outputs_of_rows[:outputs]
        if not self._agrees(values, results, alone, range(count), turn):
            return None
        codes.append(code)
        return results

    def _agrees(
        self,
        values: Sequence[Any],
        results: Sequence[Any],
        alone: Callable[[list[Any]], list[Any]],
        rows: Any,
        turn: Turn | None,
    ) -> bool:
        """Whether rows have the values that their elements alone give, which draw where their rows have drawn."""
        with contextlib.nullcontext(lambda row: None) if turn is None else turn.looking_back(len(values[0])) as go_to:
            return self._agree(values, results, alone, rows, go_to)

    def _agree(
        self,
        values: Sequence[Any],
        results: Sequence[Any],
        alone: Callable[[list[Any]], list[Any]],
        rows: Any,
        go_to: Callable[[int], None],
    ) -> bool:
        for row in rows:
            go_to(row)
            try:
                expected = alone([value[row, ...] for value in values[: self._elements]])
            except errors.OpError:
                return False
            for batch, value in zip(results, expected, strict=True):
                if not _same(batch[row, ...], value):
                    self._refuse("a batch gave other values than its elements alone")
                    return False
        return True

    def _refuse(self, why: str) -> None:
        self.refused = why
        level = logging.WARNING if self._told else logging.DEBUG
        _log.log(level, "The function of a dataset is run element by element: %s", why)


def _same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.all(one == other)) if one.dtype == object else one.tobytes() == other.tobytes()
