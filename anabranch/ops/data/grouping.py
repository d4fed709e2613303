"""Stages that put elements together by a key: windows of a group as they fill up, a reduction of each group.

A group's elements keep the order of the input. What is left when the input ends comes in the order of the keys. What
outlives a pass (the seeds of a shuffle) is shared by the datasets that are made of windows, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Func, List
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.flattening import inner_dataset
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Dataset, Function, Iterator, stage
from anabranch.ops.data.windows import Held


def _functions(*names: str) -> dict[str, Any]:
    """The attributes of functions, each with operands that it captures."""
    functions = {name: Func(captures=f"{name}_other_arguments") for name in names}
    return {**functions, **{f"T{name}_other_arguments": List("type", minimum=0) for name in names}}


def _operands(*names: str) -> str:
    """The operands that functions capture, behind the input."""
    captured = [f"{name}_other_arguments: [T{name}_other_arguments]" for name in names]
    return ", ".join(["input_dataset: variant", *captured])


class _Grouping(Dataset):
    """A stage with several functions by name, the first of which gives an element's key."""

    names: tuple[str, ...]

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.functions = [Function(attrs[name], operands[f"{name}_other_arguments"]) for name in self.names]


class _Keyed(Iterator):
    def start(self) -> None:
        self._calls = [function.prepare(self.context) for function in self.dataset.functions]

    def integer(self, call: Callable[[Sequence[Any]], list[Any]], arguments: Sequence[Any], name: str) -> int:
        """What a function gives that returns an integer."""
        (value,) = call(arguments)
        if np.ndim(value):
            raise errors.InvalidArgumentError(None, self.dataset.op, f"`{name}` must return a scalar int64.")
        return int(value)


# -------------------------------------------------------------------------------------------------------------- windows
class _GroupedByWindow(_Keyed):
    fields = ("groups", "sizes", "over")

    def start(self) -> None:
        super().start()
        self.groups: dict[int, list[Element]] = {}
        self.sizes: dict[int, int] = {}
        self.over = False
        self.current: tuple[int, list[Element], Iterator] | None = None

    def next(self) -> Element | None:
        while True:
            if self.current is None:
                key = self._next_window()
                if key is None:
                    return None
                self.current = self._open(key, self.groups.pop(key))
            element = self.current[2].next()
            if element is not None:
                return element
            self.current[2].close()
            self.current = None

    def _next_window(self) -> int | None:
        """The key of the next group that is full, or is left over at the end."""
        key_of, _, size_of = self._calls
        while not self.over:
            element = self.inputs[0].next()
            if element is None:
                self.over = True
                break
            key = self.integer(key_of, element, "key_func")
            size = self.sizes.get(key)
            if size is None:
                size = self.integer(size_of, [np.array(key, np.int64)], "window_size_func")
                if size <= 0:
                    raise errors.InvalidArgumentError(
                        None, self.dataset.op, f"Window size must be greater than zero, but got {size}."
                    )
                self.sizes[key] = size
            group = self.groups.setdefault(key, [])
            group.append(element)
            if len(group) == size:
                return key
        return min(self.groups, default=None)

    def _open(self, key: int, elements: list[Element]) -> tuple[int, list[Element], Iterator]:
        source = self.dataset.inputs[0]
        window = Held(self.dataset.op, source.types, source.shapes, elements)
        (inner,) = self._calls[1]([np.array(key, np.int64), window])
        inner = inner_dataset(self.dataset.op, inner)
        return key, elements, inner.iterate(self.context.inner(1))

    def save(self) -> dict[str, Any]:
        current = None
        if self.current is not None:
            current = {"key": self.current[0], "elements": self.current[1], "place": self.current[2].save()}
        return {**super().save(), "current": current}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        if self.current is not None:
            self.current[2].close()
        self.current = None
        current = state["current"]
        if current is not None:
            self.current = self._open(current["key"], current["elements"])
            self.current[2].restore(current["place"])

    def close(self) -> None:
        super().close()
        if self.current is not None:
            self.current[2].close()


_WINDOW = "key_func", "reduce_func", "window_size_func"


@stage("GroupByWindowDataset", _operands(*_WINDOW), {**_functions(*_WINDOW), **ELEMENTS, **METADATA})
@stage("ExperimentalGroupByWindowDataset", _operands(*_WINDOW), {**_functions(*_WINDOW), **ELEMENTS})
class GroupByWindow(_Grouping):
    """The elements of the datasets that ``reduce_func`` makes of a key and a dataset of elements with that key.

    It is called when ``window_size_func(key)`` elements have come together, and at the end for what is left.
    """

    iterator = _GroupedByWindow
    names = _WINDOW


# ----------------------------------------------------------------------------------------------------------- reductions
class _GroupedByReducer(_Keyed):
    fields = ("states", "keys")

    def start(self) -> None:
        super().start()
        self.states: dict[int, list[Any]] = {}
        self.keys: list[int] | None = None
        """Keys of groups that have not been given out, the next one last; None before the input has ended."""

    def next(self) -> Element | None:
        if self.keys is None:
            self._reduce()
            self.keys = sorted(self.states, reverse=True)
        if not self.keys:
            return None
        finish = self._calls[3]
        return tuple(finish(self.states.pop(self.keys.pop())))

    def _reduce(self) -> None:
        key_of, begin, reduce, _ = self._calls
        while (element := self.inputs[0].next()) is not None:
            key = self.integer(key_of, element, "key_func")
            state = self.states.get(key)
            if state is None:
                state = begin([np.array(key, np.int64)])
            self.states[key] = reduce([*state, *element])


_REDUCER = "key_func", "init_func", "reduce_func", "finalize_func"


@stage("GroupByReducerDataset", _operands(*_REDUCER), {**_functions(*_REDUCER), **ELEMENTS})
@stage("ExperimentalGroupByReducerDataset", _operands(*_REDUCER), {**_functions(*_REDUCER), **ELEMENTS})
class GroupByReducer(_Grouping):
    """For each key what ``finalize_func`` makes of the state that ``reduce_func`` has come to.

    It begins with what ``init_func`` gives for the key, and takes state and element.
    """

    iterator = _GroupedByReducer
    names = _REDUCER
