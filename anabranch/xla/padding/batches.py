"""Batches that are never of the same size: capacities, and what a program compiled for one knows of its sizes.

Policy. A step whose feeds differ in one number, the size of their batch, or in two, is compiled for *capacities*
(:func:`anabranch.xla.padding.sizes.capacity`), so that at most a third of a large batch is padding. How a
program serves all sizes of a capacity stands in :mod:`anabranch.xla.padding.masking`. Some traces tell how it depends
on the size; what they cannot tell is whether the graph decides something by its sizes (`tf.minimum(tf.shape(x)[0],
100)`). Tracing therefore records all that is computed from shapes. For a size that has not come before,
:meth:`Facts.holds` computes it again on the host, a few microseconds an op, and compares it with what the program takes
for granted. A size for which that is wrong is not served by the program, nor is one for which kernels would draw other
random numbers."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.cache import Cache
from anabranch.core.contract import kernels
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.xla import engine, jaxpr_equality, kernel_context, lowering
from anabranch.xla.padding import masking
from anabranch.xla.padding.sizes import Refused, Size, Sizes, Uneven, least, product

FOLD, VALUE, CONSUMES = "fold", "value", "consumes"
MOST_REFUSED = 8
"""So many sizes that a program does not serve may come before it is asked whether it serves most of them."""
MOST_KNOWN = 4096
"""So many sizes are remembered to be served."""


class NotPadded(Exception):
    """``op`` keeps the batch of a program from being padded; None if it is not known which."""

    def __init__(self, op: Operation | None, reason: str):
        super().__init__(op, reason)
        self.op = op
        self.reason = reason

    @property
    def text(self) -> str:
        """The reason as ``explain`` shows it."""
        return self.reason if self.op is None else f"{self.op.name} ({self.op.type}): {self.reason}"


class Shaped(NamedTuple):
    """What is known of an array of a trace: its shape."""

    shape: tuple[int, ...]
    dtype: Any


class Derived(NamedTuple):
    """Something that tracing computed from shapes: by a kernel, by a value rule, or an amount of random numbers."""

    op: Any
    """The op; its place among the ops of the program once tracing is over."""
    kind: str
    operands: tuple[Any, ...]
    partial: tuple[Any, ...]
    """Per input, what is known of the elements of a vector."""
    result: tuple[Any, ...]


class Recorder:
    """Notes what a trace derives from shapes."""

    def __init__(self) -> None:
        self.derived: list[Derived] = []
        self._sized: set[Any] = set()
        """Values that are computed from shapes."""

    def may_fold(self, op: Operation, sources: Sequence[Any]) -> bool:
        """Whether an op whose operands are known is to be computed while tracing.

        Not if it divides by a size, or the like: what is not a line in the size is left to the program, which has it.
        """
        if not op.definition.shape_only:
            if self._sized.isdisjoint(sources):
                return True
            if any(tensor.dtype.is_floating or tensor.dtype.is_complex for tensor in op._inputs):
                return False
        self._sized.update(op._outputs)
        return True

    def note(self, op: Operation, kind: str, operands: Sequence[Any], partial: dict[Tensor, Any], result: Any) -> None:
        """Notes one result; of traced operands, and of those whose elements do not count, it keeps the shapes."""
        given = [
            value
            if value is None or (isinstance(value, np.ndarray) and not (kind == FOLD and op.definition.shape_only))
            else Shaped(tuple(value.shape), value.dtype)
            for value in operands
        ]
        known = [_told(partial.get(tensor)) for tensor in op._inputs]
        self.derived.append(Derived(op, kind, tuple(given), tuple(known), tuple([_told(one) for one in result])))


def _told(elements: Any) -> Any:
    """What is known of the elements of a vector; None if nothing is, however many there are."""
    if isinstance(elements, (tuple, list)) and elements and all(element is None for element in elements):
        return None
    return elements


class _Lines:
    """Values as functions of the size."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes

    def of(self, values: Sequence[Any]) -> Any:
        """What gives the value for a size: a constant, or a function.

        Raises:
            Refused: it is not a line.
        """
        first = values[0]
        if isinstance(first, (tuple, list)):
            if len({len(value) for value in values}) != 1:
                raise Refused("as many numbers as the size says")
            parts = [self.of(items) for items in zip(*values, strict=True)]
            return parts if any(isinstance(part, _Line) for part in parts) else first
        if isinstance(first, Shaped):
            shape = self.of([value.shape for value in values])
            return _Line(lambda n: Shaped(tuple(at(shape, n)), first.dtype)) if shape is not first.shape else first
        arrays = [np.asarray(value) for value in values]
        if all(np.array_equal(arrays[0], other) for other in arrays[1:]):
            return first
        if len({array.shape for array in arrays}) != 1:
            shape = self.of([array.shape for array in arrays])
            if not jaxpr_equality.is_beginning(arrays):
                raise Refused("other values for another size")
            return _Line(lambda n: arrays[0][tuple(map(slice, at(shape, n)))])
        if arrays[0].dtype.kind not in "iuf":
            raise Refused("other values for another size")
        fitted = self._sizes.fit([array.astype(np.float64) for array in arrays])
        if fitted is None:
            raise Uneven("a number that does not grow evenly with the size")
        terms = [(a, powers) for a, powers in zip(fitted, self._sizes.powers, strict=True) if a.any()]
        dtype, plain = arrays[0].dtype, not isinstance(first, np.ndarray)

        def value(size: Size) -> Any:
            found = sum(a * product(powers, size) for a, powers in terms)
            return int(found) if plain else np.asarray(found).astype(dtype)

        return _Line(value)


@dataclasses.dataclass
class _Line:
    """A value that depends on the size."""

    at: Any


def at(value: Any, size: Size) -> Any:
    """The value for a size of what a line gave."""
    if isinstance(value, _Line):
        return value.at(size)
    if isinstance(value, list):
        return [at(item, size) for item in value]
    return value


class Facts:
    """What the traces of a program at some sizes say of how it depends on the size."""

    def __init__(self, sizes: Sizes, recorders: Sequence[Recorder], places: dict[Operation, int]) -> None:
        self.capacity = sizes.capacity
        self.lines = _Lines(sizes)
        self.results: list[Any] = []
        """Of each traced result, its shape."""
        self.known: dict[int, Any] = {}
        """Outputs whose values are known for a size."""
        self.consumed: Any = ()
        """How many blocks each random op takes."""
        self.payloads: list[Any] = []
        """Of each check, the shapes of what it shows."""
        self._derived: list[Derived] = []
        self._refused = 0
        self._holds: Cache[Size, bool] = Cache("sizes of a batch", MOST_KNOWN)
        if len({len(recorder.derived) for recorder in recorders}) != 1:
            raise Refused("other shapes are known for another size")
        for parts in zip(*[recorder.derived for recorder in recorders], strict=True):
            first = parts[0]
            if any(part.op is not first.op or part.kind != first.kind for part in parts):
                raise Refused("other shapes are known for another size")
            try:
                operands = self.lines.of([part.operands for part in parts])
                partial = self.lines.of([part.partial for part in parts])
                result = self.lines.of([part.result for part in parts])
            except Refused as refusal:
                if isinstance(refusal, Uneven) and not sizes.sums:
                    raise
                raise NotPadded(first.op, refusal.reason) from None
            if operands is not first.operands or partial is not first.partial:
                self._derived.append(Derived(places[first.op], first.kind, operands, partial, result))

    def add(self, facts: Sequence[Any], outcomes: Sequence[Any]) -> None:
        """Add what the results of the program are like, from the facts and the results' shapes of each trace."""
        first, lines = facts[0], self.lines
        for other in facts[1:]:
            if other.traced_outputs != first.traced_outputs or len(other.records) != len(first.records):
                raise Refused("other results for another size")
        if any(one.dynamic or one.guessed for one in facts):
            raise Refused("a loop whose end only the run tells")
        self.results = [self._shape_of(sides) for sides in zip(*outcomes, strict=True)]
        self.known = {i: lines.of([one.known_outputs[i] for one in facts]) for i in first.known_outputs}
        self.consumed = lines.of([tuple(one.consumed) for one in facts])
        self.payloads = [
            lines.of([kernel_context.payload_shapes(one.records[i]) for one in facts])
            for i in range(len(first.records))
        ]

    def _shape_of(self, sides: Sequence[Any]) -> Any:
        """The shape of a result; None if it has capacities of its own."""
        jax = engine.jax()
        if all(isinstance(side, jax.ShapeDtypeStruct) for side in sides):
            return self.lines.of([side.shape for side in sides])
        if len({tuple([leaf.shape for leaf in jax.tree_util.tree_leaves(side)]) for side in sides}) > 1:
            raise Refused("a list as large as the batch says")
        return None

    def holds(self, size: Size, ops: Sequence[Operation]) -> bool:
        """Whether the program may serve ``size``: what the graph computes from shapes is what the program has."""
        known = self._holds.get(size)
        if known is None:
            known = all(_agrees(derived, ops[derived.op], size) for derived in self._derived)
            self._holds.put(size, known)
            if not known:
                self._refused += 1
        return known

    @property
    def serves_few(self) -> bool:
        """Whether most sizes that came are not served."""
        return self._refused > MOST_REFUSED and 2 * self._refused > len(self._holds)

    def cut(self, results: Sequence[Any], size: Size) -> tuple[list[Any], dict[int, Any], list[int]]:
        """Results, known outputs and amounts of random numbers of a run with ``size`` rows."""
        exact = []
        for value, line in zip(results, self.results, strict=True):
            if line is None:
                exact.append(value)
                continue
            shape = tuple(at(line, size))
            exact.append(value if value.shape == shape else np.asarray(value)[tuple(map(slice, shape))])
        return exact, self.known_at(size), list(at(self.consumed, size))

    def known_at(self, size: Size) -> dict[int, Any]:
        """The outputs whose values are known, for ``size`` rows."""
        return {place: at(value, size) for place, value in self.known.items()}


def padded(
    trace: Callable[..., Any],
    facts: Any,
    sizes: Sizes,
    traced: list[tuple[Any, Any, Any, Recorder]],
    ops: Sequence[Operation],
    resized: Callable[[Size], tuple[Any, ...]],
    inputs: tuple[Any, ...],
    size: Sequence[Any],
    rest: tuple[Any, ...],
) -> Any:
    """The results of a program for ``size`` rows of inputs that are padded to a capacity.

    Args:
        trace: ``trace(facts, donated, inputs, *others)`` traces the program at the sizes of its inputs.
        facts: what it is to note in.
        sizes: the sizes at which it is to be traced, its capacity first.
        traced: the traces, with those that an attempt without sums has made.
        ops: the ops of the program; equations bear their numbers.
        resized: the inputs for some sizes, as far as shapes go.
        inputs: the inputs.
        size: how many rows they have, or two such numbers.
        rest: the donated values, and the other arguments.

    Raises:
        NotPadded: the program does something with its batch that cannot be done with padding.
        Uneven: it has numbers that may be sums, and these have not been looked for.
    """
    jax = engine.jax()
    donated, *others = rest
    try:
        for point in sizes.points[len(traced) :]:
            one, recorder = type(facts)() if traced else facts, Recorder()
            one.recorder = recorder
            try:
                make = jax.make_jaxpr(functools.partial(trace, one), return_shape=True)
                traced.append((*make(donated, resized(point), *others), one, recorder))
            finally:
                one.recorder = None
        traces = [jaxpr for jaxpr, _, _, _ in traced]
        facts.batch = Facts(sizes, [recorder for _, _, _, recorder in traced], {op: i for i, op in enumerate(ops)})
        facts.batch.add([one for _, _, one, _ in traced], [outcome[0] for _, outcome, _, _ in traced])
        masked = masking.Masked(sizes, size, least(sizes.capacity))
        leaves = jax.tree_util.tree_leaves((donated, inputs, *others))
        results = masked.evaluate([one.jaxpr for one in traces], [one.consts for one in traces], leaves)
    except Refused as refusal:
        if isinstance(refusal, Uneven) and not sizes.sums:
            raise
        number = re.findall(r"op(\d+)", refusal.place)
        raise NotPadded(ops[int(number[-1])] if number else None, refusal.reason) from None
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(traced[0][1]), results)


def _agrees(derived: Derived, op: Operation, size: Size) -> bool:
    operands = [at(value, size) for value in derived.operands]
    partial = {
        tensor: tuple(at(value, size))
        for tensor, value in zip(op._inputs, derived.partial, strict=True)
        if value is not None
    }
    expected = at(derived.result, size)
    try:
        inferred = _derive(op, derived.kind, operands, partial)
    except (ValueError, TypeError, IndexError, ArithmeticError):
        return False
    return _alike(inferred, expected)


def _derive(op: Operation, kind: str, operands: list[Any], partial: dict[Tensor, Any]) -> Sequence[Any]:
    definition = op.definition
    if kind == FOLD:
        arrays = [
            np.broadcast_to(np.zeros((), np.int8), value.shape) if isinstance(value, Shaped) else value
            for value in operands
        ]
        with np.errstate(all="ignore"):
            return list(kernels.run_on_host(definition, arrays, op._attrs, kernels.HostContext(op)))
    shapes = lowering.TraceShapes(op, operands, partial)
    rule = definition.value if kind == VALUE else definition.consumes
    assert rule is not None
    return (rule(shapes),)


def _alike(first: Any, second: Any) -> bool:
    """Whether what a size gives is what a trace has; what the trace did not know, it has not made use of."""
    if first is None or second is None:
        return second is None
    if isinstance(first, (tuple, list)):
        return len(first) == len(second) and all(_alike(a, b) for a, b in zip(first, second, strict=True))
    return bool(np.array_equal(np.asarray(first), np.asarray(second)))
