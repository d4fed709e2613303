"""The default graph: a stack per thread, and one graph of the process below all stacks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.core.graph.graph import Graph


class _DefaultStack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []


_stack = _DefaultStack()
_global_graph: list[Graph] = []
_global_lock = threading.Lock()
_make_graph: list[Callable[[], Graph]] = []


def set_graph_class(make: Callable[[], Graph]) -> None:
    """Says what makes the process's global graph; called by the module of `Graph` when it loads."""
    _make_graph[:] = [make]


@contextlib.contextmanager
def as_default(graph: Graph) -> Iterator[Graph]:
    """Makes ``graph`` the default graph of the thread inside a ``with`` block."""
    stack = _stack.graphs
    stack.append(graph)
    try:
        yield graph
    finally:
        if not stack or stack[-1] is not graph:
            raise AssertionError(
                "Nesting violated for the default graph: exit contexts in the reverse order of entering them."
            )
        stack.pop()


def get_default_graph() -> Graph:
    """The default graph of the thread: the innermost ``as_default`` one, else the process's global one."""
    if _stack.graphs:
        return _stack.graphs[-1]
    if not _global_graph:
        with _global_lock:
            if not _global_graph:
                _global_graph.append(_make_graph[0]())
    return _global_graph[0]


def reset_default_graph() -> None:
    """Replaces the process's global graph by an empty one.

    Raises:
        AssertionError: called inside a ``with graph.as_default():`` block.
    """
    if _stack.graphs:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, "
            "exit the nesting and create a new graph."
        )
    with _global_lock:
        _global_graph[:] = [_make_graph[0]()]
