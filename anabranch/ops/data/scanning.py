"""Stages whose next element depends on those before: scan, take_while, unique.

As everywhere, an element is asked for once and in order, so what a stage remembers is part of its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import Bool, Func, List
from anabranch.core.values import dtypes
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.mapping import ARGUMENTS, FUNCTION, Calling
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Dataset, Iterator, stage


class _Scanned(Iterator):
    fields = ("state", "over")

    def start(self) -> None:
        self.state = list(self.dataset.initial_state)
        self.over = False
        self._call = self.dataset.function.prepare(self.context)

    def next(self) -> Element | None:
        element = None if self.over else self.inputs[0].next()
        if element is None:
            return None
        count = len(self.state)
        try:
            results = self._call([*self.state, *element])
        except errors.OutOfRangeError as end:
            if self.dataset.keeps_count:
                raise errors.InvalidArgumentError(
                    None, self.dataset.op, f"Function invocation produced OutOfRangeError: {end.message}"
                ) from end
            self.over = True
            return None
        self.state = list(results[:count])
        return tuple(results[count:])


_SCAN = "input_dataset: variant, initial_state: [Tstate], other_arguments: [Targuments]"
_SCAN_ATTRS = {
    "f": FUNCTION["f"],
    "Tstate": List("type", minimum=1),
    "Targuments": FUNCTION["Targuments"],
    **ELEMENTS,
    "preserve_cardinality": Bool(False),
}


@stage("ScanDataset", _SCAN, {**_SCAN_ATTRS, "use_default_device": Bool(True), **METADATA})
@stage("ExperimentalScanDataset", _SCAN, _SCAN_ATTRS)
class Scan(Calling):
    """What ``f`` gives for state and element, besides the state for the next one; it begins with ``initial_state``."""

    iterator = _Scanned
    keeps_number = True

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        self.initial_state = operands["initial_state"]
        self.keeps_count = bool(attrs["preserve_cardinality"])


class _TakenWhile(Iterator):
    fields = ("over",)

    def start(self) -> None:
        self.over = False
        self._call = self.dataset.function.prepare(self.context)

    def next(self) -> Element | None:
        element = None if self.over else self.inputs[0].next()
        if element is None:
            return None
        (wanted,) = self._call(element)
        if np.ndim(wanted):
            raise errors.InvalidArgumentError(None, self.dataset.op, "`predicate` must return a scalar bool tensor.")
        self.over = not wanted
        return None if self.over else element


_WHILE = {"predicate": Func(captures="other_arguments"), "Targuments": List("type", minimum=0), **ELEMENTS}


@stage("TakeWhileDataset", ARGUMENTS, {**_WHILE, **METADATA})
@stage("ExperimentalTakeWhileDataset", ARGUMENTS, _WHILE)
class TakeWhile(Calling):
    """The elements of the input before the first for which ``predicate`` does not hold."""

    iterator = _TakenWhile


class _Unique(Iterator):
    fields = ("seen",)

    def start(self) -> None:
        self.seen: dict[Any, bool] = {}

    def next(self) -> Element | None:
        while (element := self.inputs[0].next()) is not None:
            value = np.asarray(element[0])
            key = value.item() if not value.ndim else (value.shape, *value.ravel().tolist())
            if key not in self.seen:
                self.seen[key] = True
                return element
        return None


@stage("UniqueDataset", "input_dataset: variant")
@stage("ExperimentalUniqueDataset", "input_dataset: variant", ELEMENTS)
class Unique(Dataset):
    """The elements of the input, each only where it comes for the first time: int32, int64 or strings."""

    iterator = _Unique

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        types = self.inputs[0].types
        ctx.check(
            len(types) == 1,
            errors.InvalidArgumentError,
            "UniqueDataset only supports inputs with a single component.",
        )
        ctx.check(
            types[0] in (dtypes.int32, dtypes.int64, dtypes.string),
            errors.InvalidArgumentError,
            "UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component.",
        )
