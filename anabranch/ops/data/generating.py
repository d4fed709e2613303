"""The dataset of a generator: three functions that begin, go on and end."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.opdef import Func, List
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Dataset, Element, Function, Iterator, stage


class _Generated(Iterator):
    def start(self) -> None:
        begin, go_on, end = self.dataset.functions
        self._begin, self._go_on = begin.prepare(self.context), go_on.prepare(self.context)
        self._end = end.prepare(self.context, at_end=True)
        self._state: list[Any] | None = None
        self._over = False

    def next(self) -> Element | None:
        if self._over:
            return None
        if self._state is None:
            self._state = self._begin(())
        try:
            return tuple(self._go_on(self._state))
        except errors.OutOfRangeError:
            self._finish()
            return None

    def _finish(self) -> None:
        self._over = True
        state, self._state = self._state, None
        if state is not None:
            self._end(state)

    def save(self) -> dict[str, Any]:
        raise errors.UnimplementedError(
            None,
            self.dataset.op,
            errors.message(
                "the place in a dataset from a generator, which lives in Python",
                "stages whose place can be saved",
                "write the elements to a TFRecord file, or leave the iterator out of the checkpoint",
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

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.functions = tuple(
            Function(attrs[f"{name}_func"], operands[f"{name}_func_other_args"])
            for name in ("init", "next", "finalize")
        )
