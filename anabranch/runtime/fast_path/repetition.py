"""A step like the last one: what is asked of its feeds before it goes the fast path without looking for a plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from anabranch.core.graph.operation import Tensor
from anabranch.runtime.fast_path.fast_step import FastStep
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.runner import Runner
from anabranch.runtime.state.slots import ResourceHandle


class FastRunner(Runner, Protocol):
    """A runner that may go the fast path."""

    @property
    def fast(self) -> FastStep | None:
        """The plan on the fast path, if it goes there."""


class Repetition:
    """How the step of a fetch structure went last, if it went fast: what a next one of its kind needs."""

    __slots__ = ("_kinds", "changes", "fast", "plan", "runner")

    def __init__(
        self, changes: int, names: Sequence[Tensor], values: Sequence[np.ndarray], plan: Plan, runner: FastRunner
    ):
        self.changes = changes
        """How many the graph had seen."""
        self._kinds = [
            (name, None, None) if isinstance(value, ResourceHandle) else (name, value.shape, value.dtype)
            for name, value in zip(names, values, strict=True)
        ]
        """Shape and dtype of each feed; None of a handle, of which any other of the process may take the place."""
        self.plan = plan
        self.runner = runner
        self.fast = runner.fast

    def values(self, feed_dict: Any) -> list[Any] | None:
        """The feeds in order, if they are arrays of the same kinds for the same tensors; else None."""
        if not feed_dict:
            return None if self._kinds else []
        if type(feed_dict) is not dict:
            return None
        values = list(feed_dict.values())
        return values if self.fits(feed_dict, values) else None

    def fits(self, names: Collection[Any], values: Sequence[Any]) -> bool:
        """Whether these are arrays of the same kinds, and handles, for the same tensors."""
        kinds = self._kinds
        if len(values) != len(kinds):
            return False
        for key, value, (name, shape, dtype) in zip(names, values, kinds, strict=True):
            if key is not name:
                return False
            if type(value) is not np.ndarray:
                if dtype is not None or type(value) is not ResourceHandle:
                    return False
            elif value.shape != shape or value.dtype != dtype:
                return False
        return True

    def fits_arrays(self, values: Sequence[Any]) -> bool:
        """Whether values for all the feeds, in order, are such arrays of the host or of a device, and handles."""
        for value, (_, shape, dtype) in zip(values, self._kinds, strict=True):
            if dtype is None:
                if type(value) is not ResourceHandle:
                    return False
            elif type(value) is ResourceHandle or value.shape != shape or value.dtype != dtype:
                return False
        return True


def repetition(
    changes: int, names: Sequence[Tensor], values: Sequence[Any], plan: Plan, runner: Any
) -> Repetition | None:
    """What a step leaves for the next one of its kind; None if it, or its feeds, are not plain."""
    fast = getattr(runner, "fast", None)
    if fast is None or not fast.has_forms:
        return None
    for value in values:
        if type(value) is not ResourceHandle and (type(value) is not np.ndarray or value.dtype.kind == "O"):
            return None
    return Repetition(changes, names, values, plan, runner)
