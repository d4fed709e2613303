"""The functional view of a graph with control flow of version 1: conditionals and loops in place of switches and frames.

No graph has one yet: all such graphs run by tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.core.graph import Graph
from anabranch.core.operation import Tensor


class NoViewError(Exception):
    """A graph has no functional view; the text says why."""


class View(NamedTuple):
    """A scratch graph, and what stands there for the fetches and feeds of a step."""

    fetches: tuple[Any, ...]
    feeds: tuple[Tensor, ...]

    def user_op(self, op: Any) -> Any:
        """The op of the user's graph behind one of the view."""
        return op


def view(graph: Graph, fetches: Sequence[Any], feeds: Sequence[Tensor]) -> View:
    """The functional view of what ``fetches`` need; NoViewError if there is none."""
    raise NoViewError("functional views are not built yet")
