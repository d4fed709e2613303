"""Datasets on the host: what a dataset op makes, and how its elements are gone through.

A :class:`Dataset` is the immutable value of a variant tensor: a stage with its operands and inputs. It makes an
:class:`Iterator`, which holds a place in the sequence. An element is a tuple of arrays that nobody writes to.

An iterator gives one element (:meth:`Iterator.next`), or many as one array for each component (:meth:`Iterator.take`),
which a stage overrides where that is less work. Sources whose elements are the rows of arrays have a *table*, and so
have stages that only choose and order what comes from one: they deal in numbers of rows (:meth:`RowIterator.rows`),
and whoever needs elements gathers them, once. So ``from_tensor_slices(arrays).shuffle(n).repeat().batch(32)`` costs a
gather per batch.

To add a stage: derive from :class:`Dataset` under :func:`stage`, write ``configure`` (operands by their names, checked)
and an :class:`Iterator` with ``next``; say in ``fields`` which attributes are its place, besides those of its inputs.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Sequence
from collections.abc import Iterator as Iterator_
from typing import Any, ClassVar

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract.inference import scalar as scalar_shape
from anabranch.core.contract.kernels import Functions, PreparedFunction
from anabranch.core.contract.opdef import PURE, Attr, List, NotDifferentiable, String, define
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of, functions_of
from anabranch.core.graph.operation import Operation
from anabranch.core.live_set import LiveSet
from anabranch.core.values import dtypes, shapes
from anabranch.ops.data import fingerprints
from anabranch.ops.data.elements.stacks import Element, Rows, gathered, joined, rows_of, stacked
from anabranch.ops.data.random_words import RandomWords
from anabranch.ops.data.resources.live_captures import live

ROWS_AHEAD = 64
"""Rows that an iterator over a table asks for when it gives out elements one by one."""

NO_GRADIENT = NotDifferentiable("a dataset is not a number")
ELEMENTS: dict[str, Attr] = {"output_types": List("type", minimum=1), "output_shapes": List("shape", minimum=1)}
METADATA: dict[str, Attr] = {"metadata": String("")}
STAGES: dict[str, type[Dataset]] = {}
"""The class of what each op of a stage makes."""
SCALARS = frozenset(
    [
        "batch_size",
        "buffer_size",
        "compression_type",
        "count",
        "data_source_name",
        "driver_name",
        "drop_remainder",
        "field_delim",
        "filename",
        "footer_bytes",
        "header",
        "header_bytes",
        "index",
        "na_value",
        "num_shards",
        "query",
        "rate",
        "record_bytes",
        "seed",
        "seed2",
        "shift",
        "size",
        "sleep_microseconds",
        "start",
        "step",
        "stop",
        "stride",
        "tag",
        "use_quote_delim",
        "window_shift",
        "window_size",
        "window_stride",
    ]
)
"""Names of operands that are scalars in whatever stage has them, which is checked while the graph is built."""
THREADS = "threads"
"""What a stage says (:meth:`Context.say`) of how many threads one before it may take."""
DATASETS = "input_dataset", "input_datasets", "another_dataset", "selector_input_dataset", "data_input_datasets"
"""Names of operands that are a stage's inputs."""


class Worker:
    """What makes elements on a thread of its own."""

    depth = 0
    """How far from the end of the pipeline it stands."""

    def close(self) -> None:
        """Let the thread come to its end, without waiting for it."""
        raise NotImplementedError

    def join(self) -> None:
        """Wait until it has ended."""
        raise NotImplementedError

    def pause(self) -> None:
        """Wait until it makes nothing, and keep it from going on."""
        raise NotImplementedError

    def resume(self) -> None:
        """Let it go on after :meth:`pause`."""
        raise NotImplementedError


class Pipeline:
    """What the iterators of a pipeline share: how functions are called, what cancels them, and what outlives a pass."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        """What its stages' functions are called by. Random ops in them draw from streams that begin with it."""
        self.token = CancellationToken()
        """Cancelled when the pipeline ends."""
        self.kept: dict[Any, Any] = {}
        self._streams: dict[tuple[int, ...], RandomWords] = {}
        """From which the passes of a shuffle draw their seeds, by its place."""
        self.watches: tuple[Any, ...] = ()
        """Who counts what its stages do (:class:`anabranch.ops.data.measuring.Watch`)."""
        self._workers: LiveSet[Worker] = LiveSet()
        self._step: tuple[int, CancellationToken] | None = None

    def stream(self, place: tuple[int, ...], seeds: tuple[int, int]) -> RandomWords:
        """The random words that all passes at a place draw from, or begin with; ``seeds`` begin them."""
        stream = self._streams.get(place)
        return self._streams.setdefault(place, RandomWords(*seeds)) if stream is None else stream

    def save(self) -> dict[str, Any]:
        """The places of what outlives a pass."""
        streams = [[list(place), words.seed, words.seed2, words.drawn] for place, words in self._streams.items()]
        return {"streams": streams, "functions": self.functions.save_streams()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to saved places."""
        for place, seed, seed2, drawn in state["streams"]:
            self._streams[tuple(place)] = words = RandomWords(seed, seed2)
            words.go_to(drawn)
        self.functions.restore_streams(state["functions"])

    def add_worker(self, worker: Worker, context: Context) -> None:
        """Say what makes elements on a thread, as long as somebody else holds it."""
        self._workers.add(worker)
        worker.depth = len(context.place)

    @contextlib.contextmanager
    def paused(self) -> Iterator_[None]:
        """Around what looks at places: nothing is made on threads meanwhile.

        The last stage's thread stands still first, as it may wait for those before it.
        """
        workers = sorted(self._workers, key=lambda worker: worker.depth)
        held: list[Worker] = []
        try:
            for worker in workers:
                held.append(worker)
                worker.pause()
            yield
        finally:
            for worker in reversed(held):
                worker.resume()

    def cancel(self, why: str) -> None:
        """Cancel what goes on, and let threads come to their end; waits for nothing."""
        self.token.cancel(errors.CancelledError(None, None, why))
        for worker in self._workers:
            worker.close()

    def join(self) -> None:
        """Wait until the threads have ended."""
        for worker in self._workers:
            worker.join()

    @contextlib.contextmanager
    def for_step(self, token: CancellationToken) -> Iterator_[None]:
        """Around what a step does with the pipeline on its own thread: it may be cancelled like the step."""
        self._step = threading.get_ident(), token
        try:
            yield
        finally:
            self._step = None

    @property
    def current_token(self) -> CancellationToken:
        """What cancels work on this thread: the step's token, or, on a thread of the pipeline's own, its own."""
        step = self._step
        return step[1] if step is not None and step[0] == threading.get_ident() else self.token


class Context:
    """Where an iterator stands in its pipeline: ``place`` are the numbers of inputs that lead to it from the end."""

    __slots__ = ("pipeline", "place")

    def __init__(self, pipeline: Pipeline, place: tuple[int, ...] = ()) -> None:
        self.pipeline = pipeline
        self.place = place

    def inner(self, number: int) -> Context:
        """The context of an iterator's input."""
        return Context(self.pipeline, (*self.place, number))

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made once for the pipeline, whichever iterator asks first."""
        kept = self.pipeline.kept
        value = kept.get(key)
        return kept.setdefault(key, make()) if value is None else value

    def say(self, what: str, value: Any) -> None:
        """Say something to all stages before this one."""
        self.pipeline.kept[what, self.place] = value

    def said_behind(self, what: str) -> Any:
        """What the nearest stage behind this one says; None if none does."""
        kept, place = self.pipeline.kept, self.place
        said = (kept.get((what, place[:size])) for size in range(len(place), -1, -1))
        return next((value for value in said if value is not None), None)


class Dataset:
    """A stage of a pipeline: base of those that :func:`stage` registers.

    ``op`` is the operation that made it, ``types`` and ``shapes`` are those of its elements' components.
    """

    iterator: ClassVar[type[Iterator]]
    shape = ()
    ndim = 0
    size = 1
    dtype = np.dtype(object)
    free: ClassVar[frozenset[str]] = fingerprints.SEEDS
    """Names of operands and attributes that a saved place does not depend on."""
    attrs: dict[str, Any] = {}
    operands: dict[str, Any] = {}
    table: tuple[Any, ...] | None = None
    """The columns (arrays, or what is indexed like them) whose rows all elements are, if it only chooses rows."""

    def __init__(self, ctx: Any, attrs: dict[str, Any], operands: dict[str, Any]) -> None:
        self.op = ctx.op
        self.types: tuple[dtypes.DType, ...] = attrs.get("output_types") or attrs.get("Toutput_types") or ()
        self.shapes: tuple[shapes.RawShape, ...] = attrs.get("output_shapes") or ()
        inputs: list[Dataset] = []
        for name in DATASETS:
            given = operands.pop(name, ())
            inputs += given if isinstance(given, list | tuple) else [given]
        for item in inputs:
            ctx.check(
                isinstance(item, Dataset), errors.InvalidArgumentError, f"a {type(item).__name__} in place of a dataset"
            )
        self.inputs = tuple(inputs)
        self.attrs = attrs
        self.operands = {name: fingerprints.sampled(value) for name, value in operands.items()}
        self.configure(ctx, attrs, **operands)

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        """Keep and check what the stage is made from: its operands besides the datasets, by name."""

    def iterate(self, context: Context) -> Iterator:
        """An iterator at the beginning."""
        return self.iterator(self, context)

    keeps_number: ClassVar[bool] = False
    """Whether it has as many elements as its input."""

    def cardinality(self) -> int:
        """How many elements it has, as far as that is known without going through it."""
        return self.inputs[0].cardinality() if self.keeps_number else UNKNOWN

    @functools.cached_property
    def row_bytes(self) -> float:
        """Bytes of an element whose components always have the same shapes; without end if they need not."""
        return _row_bytes(self.types, self.shapes) if self.types else float("inf")

    @functools.cached_property
    def alike_on_threads(self) -> bool:
        """Whether its elements are the same beside other threads: its functions draw nothing and have no effects."""
        return all(map(_only_computes, self._bodies)) and all(item.alike_on_threads for item in self.inputs)

    @functools.cached_property
    def python_apart(self) -> bool:
        """Whether its elements are the same beside other threads but for what Python functions do."""
        return all(map(computes_but_for_python, self._bodies)) and all(item.python_apart for item in self.inputs)

    @property
    def _bodies(self) -> list[Body]:
        return [value for value in self.attrs.values() if isinstance(value, Body)]

    def check_place(self) -> None:
        """Refuse to save a place if something that is not in it says what comes: a Python function's own state."""
        for value in self.attrs.values():
            op = _python_op(value) if isinstance(value, Body) else None
            if op is not None:
                raise errors.FailedPreconditionError(
                    None,
                    self.op,
                    errors.message(
                        f"the place of an iterator whose function calls the Python function of {op.name!r}, which may "
                        "have a state of its own",
                        "functions of which an element tells all",
                        "tf.py_func(function, inputs, types, stateful=False) if it depends on its inputs alone",
                        at=op.user_site,
                    ),
                )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} dataset of {len(self.types)} components>"


def _only_computes(body: Body, but_for_python: bool = False) -> bool:
    """Whether nothing in a function, in its branches and loops, and in what it hands to stages, has an effect."""
    return not any(
        (op.definition.effect.kind in ("random", "write", "channel", "io") and not (but_for_python and _is_python(op)))
        or not all(_only_computes(use.body, but_for_python) for use in bodies_of(op))
        or not all(_only_computes(use.body, but_for_python) for use in functions_of(op))
        for op in body.operations
    )


def computes_but_for_python(body: Body) -> bool:
    """Whether nothing in a function has an effect but Python functions that it calls."""
    return _only_computes(body, but_for_python=True)


def _is_python(op: Any) -> bool:
    """Whether an operation calls Python and may have effects."""
    return op.definition.effect.kind == "io" and not op.definition.deterministic


def _python_op(body: Body) -> Any:
    """An operation of a function, or of a branch or loop in it, that calls Python and may have effects."""
    for op in body.operations:
        if _is_python(op):
            return op
        for use in bodies_of(op):
            inner = _python_op(use.body)
            if inner is not None:
                return inner
    return None


class Iterator:
    """A place in the sequence of a dataset's elements."""

    fields: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that are its place: numbers, bytes, arrays, and lists or dictionaries of these."""

    def __init__(self, dataset: Any, context: Context) -> None:
        self.dataset = dataset
        self.context = context
        self.inputs: list[Iterator] = [item.iterate(context.inner(i)) for i, item in enumerate(dataset.inputs)]
        self.start()
        for watch in context.pipeline.watches:
            watch.add(self)

    def start(self) -> None:
        """Set up what the iterator needs, at the beginning of the sequence."""

    def next(self) -> Element | None:
        """The next element; None at the end, and from then on."""
        raise NotImplementedError

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        """The next ``count`` elements, or as many as there are, as an array for each component; None at the end.

        Where making one fails, those that came before it are appended to ``before``, and the error is raised.
        """
        return stacked(self.gather(count, before), self.dataset)

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        """The next ``count`` elements, or as many as there are, appended to ``into``: also those before one that fails.

        A list of their own if that is None.
        """
        elements: list[Element] = [] if into is None else into
        for _ in range(count):
            element = self.next()
            if element is None:
                break
            elements.append(element)
        return elements

    def form(self) -> str:
        """How it gives elements, for a person; empty if there is nothing to say."""
        return ""

    gives_without_waiting = True
    """Whether nobody else has to make its next element yet."""

    def ready(self) -> tuple[int, int] | None:
        """How many elements have been made ahead, and how many may be; None if it makes none."""
        return None

    def save(self) -> dict[str, Any]:
        """The place, as what :meth:`restore` takes."""
        self.dataset.check_place()
        state: dict[str, Any] = {name: copied(getattr(self, name)) for name in self.fields}
        state["inputs"] = [item.save() for item in self.inputs]
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a saved place."""
        for name in self.fields:
            setattr(self, name, copied(state[name]))
        for item, inner in zip(self.inputs, state["inputs"], strict=True):
            item.restore(inner)

    def close(self) -> None:
        """Let go of threads and files."""
        for item in self.inputs:
            item.close()


def copied(value: Any) -> Any:
    """A copy of the lists and dictionaries of a place; nobody writes to what is in them."""
    if isinstance(value, list):
        return [copied(item) for item in value]
    return {key: copied(item) for key, item in value.items()} if isinstance(value, dict) else value


class RowIterator(Iterator):
    """An iterator over rows of a table."""

    def __init__(self, dataset: Any, context: Context) -> None:
        self._columns: tuple[Any, ...] = dataset.table
        self.ahead: list[int] = []
        """Rows that it has asked for and not given out, the next one last."""
        super().__init__(dataset, context)

    def rows(self, count: int) -> Rows:
        """The next ``count`` rows, or as many as there are."""
        raise NotImplementedError

    def form(self) -> str:
        return "numbers of rows"

    def next(self) -> Element | None:
        ahead = self.ahead
        if not ahead:
            rows = self.rows(ROWS_AHEAD)
            ahead.extend(reversed(rows if isinstance(rows, range) else rows.tolist()))
            if not ahead:
                return None
        row = ahead.pop()
        return tuple([column[row, ...] for column in self._columns])

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        rows: Rows
        if self.ahead:
            first = self.ahead[-1 : -count - 1 : -1]
            del self.ahead[-count:]
            rows = joined([first, self.rows(count - len(first))])
        else:
            rows = self.rows(count)
        return [gathered(column, rows) for column in self._columns] if len(rows) else None

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        elements: list[Element] = [] if into is None else into
        elements += rows_of(self.take(count) or ())
        return elements

    def save(self) -> dict[str, Any]:
        return {**super().save(), "ahead": [int(row) for row in self.ahead]}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.ahead = list(state["ahead"])


# ----------------------------------------------------------------------------------------------------------- functions
class Function:
    """A function that a stage holds: a body and the values that it captures."""

    def __init__(self, body: Any, captured: Sequence[Any]) -> None:
        self.body = body
        self.captured = tuple(captured)

    def prepare(self, context: Context, at_end: bool = False) -> Call:
        """What calls it with the other arguments; ``at_end`` also when the pipeline has been cancelled."""
        return Call(context.pipeline, context.pipeline.functions.prepare(self.body, self.captured), at_end)


class Call:
    """Calls of a function by an iterator."""

    __slots__ = ("_at_end", "_pipeline", "function")

    def __init__(self, pipeline: Pipeline, function: PreparedFunction, at_end: bool) -> None:
        self._pipeline = pipeline
        self.function = function
        self._at_end = at_end

    def __call__(self, element: Sequence[Any]) -> list[Any]:
        return self.function(element, CancellationToken() if self._at_end else self._pipeline.current_token)

    def reserved(self, count: int = 1) -> Callable[[Sequence[Any]], list[Any]]:
        """The function for a call on any thread, or for ``count`` elements, that draws what it would if called now."""
        if not self.function.reserves:
            return self if count == 1 else self.outcomes
        function, pipeline = self.function.reserved(count), self._pipeline
        return lambda element: function(element, pipeline.current_token)

    def outcomes(self, elements: Sequence[Sequence[Any]]) -> list[Any]:
        """What calls for several elements give, one after the other: tuples, or what they raise."""
        return self.function.outcomes(elements, self._pipeline.current_token)

    def rows(self, columns: Sequence[Any]) -> list[Any] | None:
        """What it returns for many elements, each component stacked; None if it is to be called for each."""
        return self.function.rows(columns, self._pipeline.current_token)

    def takes_rows(self, source: Dataset) -> bool:
        """Whether it may be called for many elements of a dataset: of one shape, and so small that it pays."""
        if self.function.by_element is not None:
            return False
        return source.row_bytes <= LARGEST_ROW


INFINITE, UNKNOWN = -1, -2
"""Numbers of elements that are none, as in TensorFlow."""
LARGEST_ROW = 1 << 15
"""Bytes of an element from which on calling a function for each costs little besides what it does."""
_STRING_BYTES = 64
"""What a string counts as."""
MOST_ROWS = 1024
"""Elements that a function is called for in one run."""


def _row_bytes(types: Sequence[dtypes.DType], sizes: Sequence[shapes.RawShape]) -> float:
    """Bytes of an element whose components always have the same shapes; without end if they need not."""
    total = 0.0
    for dtype, shape in zip(types, sizes, strict=True):
        if shape is None or None in shape or dtype is dtypes.variant or dtype is dtypes.resource:
            return float("inf")
        total += math.prod(size or 0 for size in shape) * (
            _STRING_BYTES if dtype.np is None or dtype is dtypes.string else dtype.np.itemsize
        )
    return total


# --------------------------------------------------------------------------------------------------------- registering
def stage(
    type_name: str,
    inputs: str,
    attrs: dict[str, Attr] | None = None,
    output: str = "handle",
    ranks: dict[str, Any] | None = None,
) -> Callable[[type[Dataset]], type[Dataset]]:
    """Decorator of a :class:`Dataset`: the op type that makes it.

    Args:
        type_name: TensorFlow's op type.
        inputs: the left side of its signature.
        attrs: its attributes; those of its elements (:data:`ELEMENTS`) and metadata if None.
        output: the name of its output.
        ranks: ranks of operands that are checked while the graph is built, besides those that are :data:`SCALARS`.
    """

    def register(cls: type[Dataset]) -> type[Dataset]:
        def kernel(ctx: Any, values: Sequence[Any], given: dict[str, Any]) -> Dataset:
            operands = {}
            for spec in definition.inputs:
                bounds = definition.input_range(spec.name, given)
                operands[spec.name] = tuple(values[bounds]) if spec.is_list else values[bounds.start]
                if spec.name in captures and operands[spec.name] and isinstance(ctx.op, Operation):
                    operands[spec.name] = live(ctx.op._inputs[bounds], operands[spec.name], ctx)
            return cls(ctx, given, operands)

        operand_names = (part.partition(":")[0].strip() for part in inputs.split(","))
        captures = {attr.captures for attr in (attrs or {}).values() if attr.captures}
        scalars = dict.fromkeys((name for name in operand_names if name in SCALARS), 0)
        definition = define(
            type_name,
            cls.__doc__,
            signature=f"{inputs} -> {output}: variant",
            attrs={**ELEMENTS, **METADATA} if attrs is None else attrs,
            effect=PURE,
            shape=scalar_shape,
            host_kernel=kernel,
            gradient=NO_GRADIENT,
            ranks=scalars | (ranks or {}),
        )
        STAGES[type_name] = cls
        return cls

    return register


def batches_of(count: int, size: int, drops: bool) -> int:
    """How many batches ``count`` elements make."""
    return count if count < 0 else count // size if drops else -(-count // size)


_WORDS_OF_LEAST = {
    "batch_size": "Batch size must be greater than zero.",
    "record_bytes": "`record_bytes` must be > 0",
    "header_bytes": "`header_bytes` must be >= 0",
    "footer_bytes": "`footer_bytes` must be >= 0",
}


def number(ctx: Any, value: Any, name: str, minimum: int | None = None) -> int:
    """A scalar operand as an integer."""
    ctx.check(np.ndim(value) == 0, errors.InvalidArgumentError, f"{name} must be a scalar")
    result = int(value)
    if minimum is not None:
        least = "greater than zero" if minimum == 1 else f"at least {minimum}"
        words = _WORDS_OF_LEAST.get(name, f"{name} must be {least}.")
        told = errors.message(f"{name}={result}", f"{minimum} or more", f"{name}={max(minimum, 1)}")
        ctx.check(result >= minimum, errors.InvalidArgumentError, f"{words}\n{told}")
    return result


def owned(array: Any) -> Any:
    """An array that nobody writes to: a copy if somebody could."""
    if isinstance(array, np.ndarray) and array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array
