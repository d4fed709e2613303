"""The dataset of a generator: three functions that begin, go on and end.

A place in it is how many elements it has given, and a checksum of what tells them from others: to go to the place, the
generator is run again up to there, and is refused if it gives other elements.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Func, List
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Dataset, Element, Function, Iterator, stage

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
