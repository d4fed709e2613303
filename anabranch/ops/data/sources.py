"""Datasets without inputs: one element, rows of arrays, those of a sparse tensor, numbers, random words, a generator.

A place in a generator is how many elements it has given, and a checksum of what tells them from others: to go to the
place, the generator is run again up to there, and is refused if it gives other elements.
"""

from __future__ import annotations

import secrets
import zlib
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, Func, List, Type
from anabranch.core.values import dtypes, shapes
from anabranch.ops.data.elements.stacks import Element, Rows
from anabranch.ops.data.pipeline import (
    ELEMENTS,
    INFINITE,
    METADATA,
    Context,
    Dataset,
    Function,
    Iterator,
    RowIterator,
    number,
    owned,
    stage,
)
from anabranch.ops.data.random_words import RandomWords

_TENSORS = {"Toutput_types": List("type", minimum=1), "output_shapes": List("shape", minimum=1)}


class _OneElement(Iterator):
    fields = ("done",)

    def start(self) -> None:
        self.done = False

    def next(self) -> Element | None:
        if self.done:
            return None
        self.done = True
        element: Element = self.dataset.components
        return element


@stage("TensorDataset", "components: [Toutput_types]", {**_TENSORS, **METADATA})
class Tensors(Dataset):
    """One element: the components."""

    iterator = _OneElement

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.components = tuple([owned(item) for item in operands["components"]])

    def cardinality(self) -> int:
        return 1


class _RowsInOrder(RowIterator):
    fields = ("position",)

    def start(self) -> None:
        self.position = 0

    def rows(self, count: int) -> Rows:
        start = self.position
        self.position = min(start + count, self.dataset.length)
        return range(start, self.position)


@stage(
    "TensorSliceDataset",
    "components: [Toutput_types]",
    {**_TENSORS, "is_files": Bool(False), **METADATA, "replicate_on_split": Bool(False)},
)
class TensorSlices(Dataset):
    """The rows of the components along dimension 0, which has one size."""

    iterator = _RowsInOrder

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.table = tuple([owned(item) for item in operands["components"]])
        for i, column in enumerate(self.table):
            ctx.check(np.ndim(column) > 0, errors.InvalidArgumentError, "All components must be at least 1-dimensional")
            ctx.check(
                len(column) == len(self.table[0]),
                errors.InvalidArgumentError,
                "All components must have the same size in the 0th dimension, but component "
                f"{i} has {len(column)} and component 0 has {len(self.table[0])}",
            )
        self.length = len(self.table[0])

    def cardinality(self) -> int:
        return self.length


class NumberColumn:
    """The numbers ``start + step * row`` as a column of a table."""

    def __init__(self, start: int, step: int) -> None:
        self._start = start
        self._step = step

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, slice):
            return self.take(np.arange(key.start, key.stop))
        return np.array(self._start + self._step * key[0])

    def take(self, rows: np.ndarray, axis: int = 0) -> np.ndarray:
        """The numbers at ``rows``."""
        return self._start + self._step * rows


@stage(
    "RangeDataset",
    "start: int64, stop: int64, step: int64",
    {**ELEMENTS, **METADATA, "replicate_on_split": Bool(False)},
)
class Numbers(Dataset):
    """The int64 numbers from ``start`` on, ``step`` apart, up to ``stop`` exclusively."""

    iterator = _RowsInOrder

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        start, stop, step = (number(ctx, operands[name], name) for name in ("start", "stop", "step"))
        ctx.check(step != 0, errors.InvalidArgumentError, "step must be a non-zero integer.")
        self.length = len(range(start, stop, step))
        self.table = (NumberColumn(start, step),)

    def cardinality(self) -> int:
        return self.length


class _Random(Iterator):
    fields = ("seeds",)

    def start(self) -> None:
        self.seeds = self.dataset.seeds_of_pass(self.context)
        if not any(self.seeds):  # at this place in the pipeline: others, but the same for each pass
            place = "random", self.context.place
            self.seeds = list(self.context.keep(place, lambda: (secrets.randbits(64), secrets.randbits(64))))
        self._words = RandomWords(*self.seeds)

    def next(self) -> Element | None:
        return (self._words.take(1)[0],)

    def save(self) -> dict[str, Any]:
        return {**super().save(), "drawn": self._words.drawn}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        if not any(self.dataset.seeds):
            self.context.pipeline.kept["random", self.context.place] = tuple(self.seeds)
        self._words = RandomWords(*self.seeds)
        self._words.go_to(state["drawn"])


_SEEDS = "seed: int64, seed2: int64"


@stage("RandomDataset", _SEEDS, {**ELEMENTS, **METADATA})
@stage("ExperimentalRandomDataset", _SEEDS, ELEMENTS)
class Random(Dataset):
    """The 32-bit words of TensorFlow's generator for two seeds as int64 numbers, without end; 0 and 0 draw others."""

    iterator = _Random

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.seeds = tuple(number(ctx, operands[name], name) for name in ("seed", "seed2"))

    def seeds_of_pass(self, context: Context) -> list[int]:
        """The two seeds of a pass that begins."""
        return list(self.seeds)

    def cardinality(self) -> int:
        return INFINITE


class _SparseRows(Iterator):
    fields = ("position",)

    def start(self) -> None:
        self.position = 0

    def next(self) -> Element | None:
        dataset = self.dataset
        if self.position == dataset.length:
            return None
        start, end = dataset.ends[self.position : self.position + 2]
        self.position += 1
        return dataset.indices[start:end, 1:], dataset.values[start:end], dataset.sizes[1:]


@stage("SparseTensorSliceDataset", "indices: int64, values: Tvalues, dense_shape: int64", {"Tvalues": Type()})
class SparseSlices(Dataset):
    """The rows of a sparse tensor along dimension 0: indices, values and dense shape of each."""

    iterator = _SparseRows

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        indices, values, sizes = (owned(operands[name]) for name in ("indices", "values", "dense_shape"))
        ctx.check(
            indices.ndim == 2,
            errors.InvalidArgumentError,
            f"Input indices should be a matrix but received shape {shapes.show(indices.shape)}",
        )
        ctx.check(
            values.ndim == 1,
            errors.InvalidArgumentError,
            f"Input values should be a vector but received shape {shapes.show(values.shape)}",
        )
        ctx.check(
            sizes.ndim == 1,
            errors.InvalidArgumentError,
            f"Input shape should be a vector but received shape {shapes.show(sizes.shape)}",
        )
        ctx.check(
            sizes.size > 0 and sizes.min() >= 0 and indices.shape == (len(values), len(sizes)),
            errors.InvalidArgumentError,
            f"Input shape should hold at least one size of 0 or more, and indices a row of {len(sizes)} for each of "
            f"{len(values)} values; received {sizes.tolist()} and indices of shape {shapes.show(indices.shape)}",
        )
        rows = indices[:, 0]
        ctx.check(
            bool(np.all(rows[1:] >= rows[:-1])),
            errors.UnimplementedError,
            "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is not "
            "currently supported.",
        )
        self.types = (dtypes.int64, attrs["Tvalues"], dtypes.int64)
        self.shapes = ((None, len(sizes) - 1), (None,), (len(sizes) - 1,))
        self.indices, self.values, self.sizes = indices, values, sizes
        self.length = int(sizes[0])
        self.ends = np.searchsorted(rows, np.arange(self.length + 1)).tolist()
        self.ends[-1] = len(rows)

    def cardinality(self) -> int:
        return self.length


# ----------------------------------------------------------------------------------------------------------- generators
LOOKED_AT = 4096
"""Bytes of a component that count in the checksum."""


def _checksum(element: Element, before: int) -> int:
    for part in element:
        array = np.asarray(part)
        if array.dtype == object:
            data = repr(array.ravel()[:16].tolist()).encode()
        elif array.nbytes > LOOKED_AT:
            data = array.flat[: LOOKED_AT // array.itemsize].tobytes()
        else:
            data = array.tobytes()
        before = zlib.crc32(data, zlib.crc32(repr(array.shape).encode(), before))
    return before


class _Generated(Iterator):
    fields = ("over", "given", "checksum")

    def start(self) -> None:
        begin, go_on, end = self.dataset.functions
        self._begin, self._go_on = begin.prepare(self.context), go_on.prepare(self.context)
        self._end = end.prepare(self.context, at_end=True)
        self._state: list[Any] | None = None
        self.over = False
        self.given = 0
        self.checksum = 0

    def next(self) -> Element | None:
        if self.over:
            return None
        if self._state is None:
            self._state = self._begin(())
        try:
            element = tuple(self._go_on(self._state))
        except errors.OutOfRangeError:
            self._finish()
            return None
        self.given += 1
        self.checksum = _checksum(element, self.checksum)
        return element

    def _finish(self) -> None:
        self.over = True
        state, self._state = self._state, None
        if state is not None:
            self._end(state)

    def restore(self, state: dict[str, Any]) -> None:
        if state["over"]:
            self._finish()
            super().restore(state)
            return
        if self._state is not None or self.over:
            self._finish()
            self.start()
        while self.given < state["given"] and self.next() is not None:
            self.context.pipeline.current_token.raise_if_cancelled(self.dataset.op)
        if (self.given, self.checksum) != (state["given"], state["checksum"]):
            raise errors.DataLossError(
                None,
                self.dataset.op,
                errors.message(
                    f"a generator that gave {self.given} elements, other than the {state['given']} before the place "
                    "that was saved",
                    "a generator that gives the same elements whenever it is called, up to the place",
                    "a generator with a seed of its own, or session.run(iterator.initializer) to begin anew",
                ),
            )

    def close(self) -> None:
        super().close()
        self._finish()


@stage(
    "GeneratorDataset",
    "init_func_other_args: [Tinit_func_args], next_func_other_args: [Tnext_func_args], "
    "finalize_func_other_args: [Tfinalize_func_args]",
    {
        "init_func": Func(captures="init_func_other_args"),
        "next_func": Func(captures="next_func_other_args"),
        "finalize_func": Func(captures="finalize_func_other_args"),
        "Tinit_func_args": List("type", minimum=0),
        "Tnext_func_args": List("type", minimum=0),
        "Tfinalize_func_args": List("type", minimum=0),
        **ELEMENTS,
        **METADATA,
    },
)
class Generator(Dataset):
    """What ``next_func`` gives for the state that ``init_func`` made, until it raises OutOfRangeError.

    ``finalize_func`` is called with the state at the end, or when the iterator is dropped.
    """

    iterator = _Generated

    def check_place(self) -> None:
        """Nothing is refused: a place is gone to by running the generator again."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.functions = tuple(
            Function(attrs[f"{name}_func"], operands[f"{name}_func_other_args"])
            for name in ("init", "next", "finalize")
        )
