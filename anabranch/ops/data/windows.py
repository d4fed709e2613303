"""Windows: runs of elements as datasets of their own, or stacked.

A window keeps its elements in memory. Windows may overlap (a shift smaller than the size), leave elements out (a larger
one), and take each ``stride``-th element only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool
from anabranch.ops.data.elements.stacks import Element, stacked
from anabranch.ops.data.pipeline import ELEMENTS, Dataset, Iterator, batches_of, number, stage


class _Held(Iterator):
    fields = ("position",)

    def start(self) -> None:
        self.position = 0

    def next(self) -> Element | None:
        elements: list[Element] = self.dataset.elements
        if self.position == len(elements):
            return None
        self.position += 1
        return elements[self.position - 1]


class Held(Dataset):
    """Elements in memory as a dataset: what a stage hands to its function, or gives out as an element."""

    iterator = _Held

    def __init__(self, op: Any, types: Sequence[Any], shapes: Sequence[Any], elements: list[Element]) -> None:
        self.op = op
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self.inputs = ()
        self.elements = elements


class _Windows(Iterator):
    """An iterator that keeps the elements of a window, and those that the next one shares with it."""

    fields = ("kept", "over")
    keeps_failures: ClassVar[bool] = False
    """Whether what could not be made takes its place in windows, each of which fails; else it takes none."""

    def start(self) -> None:
        self.kept: list[Element | errors.OpError] = []
        self.over = False

    def window(self) -> list[Element] | None:
        """The elements of the next window; None at the end."""
        dataset = self.dataset
        span = (dataset.window_size - 1) * dataset.stride + 1
        self._keep(span)
        if not self.kept or (dataset.drop_remainder and len(self.kept) < span):
            return None
        items = self.kept[:: dataset.stride]
        for _ in range(dataset.shift - len(self.kept)):
            if self._following() is None:
                break
        del self.kept[: dataset.shift]
        elements = [item for item in items if not isinstance(item, errors.OpError)]
        if len(elements) < len(items):
            raise next(item for item in items if isinstance(item, errors.OpError))
        return elements

    def _keep(self, count: int) -> None:
        while len(self.kept) < count and (item := self._following()) is not None:
            self.kept.append(item)

    def _following(self) -> Element | errors.OpError | None:
        """The input's next element, or what failed; None at the end."""
        if self.over:
            return None
        try:
            element = self.inputs[0].next()
        except errors.OpError as problem:
            if not self.keeps_failures or self.context.pipeline.current_token.cancelled:
                raise
            return problem
        self.over = element is None
        return element


class _Nested(_Windows):
    keeps_failures = True

    def next(self) -> Element | None:
        elements = self.window()
        if elements is None:
            return None
        source = self.dataset.inputs[0]
        columns = zip(source.types, source.shapes, zip(*elements, strict=True), strict=True)
        return tuple([Held(self.dataset.op, [t], [s], [(part,) for part in parts]) for t, s, parts in columns])


class _Windowing(Dataset):
    """What the two kinds of windows have in common."""

    drop_remainder = True

    def _configure(self, ctx: Any, size: Any, shift: Any, stride: Any) -> None:
        texts = "Window size", "Window shift", "Window stride"
        values = [number(ctx, value, text) for value, text in zip((size, shift, stride), texts, strict=True)]
        for value, text in zip(values, texts, strict=True):
            ctx.check(value > 0, errors.InvalidArgumentError, f"{text} must be greater than zero, but is {value}.")
        self.window_size, self.shift, self.stride = values


@stage(
    "WindowDataset",
    "input_dataset: variant, size: int64, shift: int64, stride: int64, drop_remainder: bool",
)
class Window(_Windowing):
    """Windows of ``size`` elements, ``shift`` apart, as datasets: one for each component.

    A window takes each ``stride``-th element. The last ones may have fewer, or are dropped.
    """

    iterator = _Nested

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self._configure(ctx, operands["size"], operands["shift"], operands["stride"])
        self.drop_remainder = bool(operands["drop_remainder"])

    def cardinality(self) -> int:
        count, span = self.inputs[0].cardinality(), (self.window_size - 1) * self.stride + 1
        if count < 0 or not self.drop_remainder:
            return batches_of(count, self.shift, False)
        return max(0, (count - span) // self.shift + 1)


class _Stacked(_Windows):
    def next(self) -> Element | None:
        elements = self.window()
        batch = None if elements is None else stacked(elements, self.dataset)
        return None if batch is None else tuple(batch)


_SLIDING = "input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64"


@stage("SlidingWindowDataset", _SLIDING, {"drop_remainder": Bool(True), **ELEMENTS})
@stage("ExperimentalSlidingWindowDataset", _SLIDING, ELEMENTS)
class SlidingWindow(_Windowing):
    """Windows of ``window_size`` elements, ``window_shift`` apart, each stacked; those with fewer are dropped."""

    iterator = _Stacked

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self._configure(ctx, operands["window_size"], operands["window_shift"], operands["window_stride"])
        self.drop_remainder = bool(attrs.get("drop_remainder", True))
