"""A step that a worker runs: what it computes from what, and the number by which the worker knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.runtime.fast_path.repetition import Repetition


class LocalStep(NamedTuple):
    """A step by elements of a graph: what to compute, and what the caller gives values for."""

    graph: Graph
    fetches: tuple[Tensor | Operation, ...]
    feeds: tuple[Tensor, ...]


class RegisteredStep:
    """A step that a worker knows by a number, as long as somebody holds this."""

    __slots__ = ("__weakref__", "last", "number", "step")

    def __init__(self, number: int, step: LocalStep) -> None:
        self.number = number
        self.step = step
        self.last: Repetition | None = None
        """How it ran last, if it took the fast path."""

    def plain(self, feed_dict: Any) -> list[Any] | None:
        """The values of a feed dictionary in order, if the step ran fast with such values last; else None."""
        return None if self.last is None else self.last.values(feed_dict)

    def fits(self, names: Sequence[Tensor], values: Sequence[Any]) -> bool:
        """Whether the step ran fast with such values for these tensors last."""
        return self.last is not None and self.last.fits(names, values)

    @property
    def feeds(self) -> int:
        """How many values it is fed."""
        return len(self.step.feeds)

    def describe(self) -> str:
        """What the step is, for people."""
        names = [getattr(fetch, "name", str(fetch)) for fetch in self.step.fetches]
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        return f"the step of {', '.join(map(repr, names[:2]))}{more}"

    def __repr__(self) -> str:
        return f"<step {self.number}: {len(self.step.fetches)} fetches, {self.feeds} feeds>"
