"""The default graph: the innermost graph among the thread's builders, with one graph of the process below them all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from anabranch.core import errors
from anabranch.core.graph import builder

if TYPE_CHECKING:
    from anabranch.core.graph.graph import Graph

_global_graph: list[Graph] = []
_global_lock = threading.Lock()
_graph_class: list[type[Graph]] = []


def set_graph_class(graph_class: type[Graph]) -> None:
    """Say what makes the process's global graph; called by the module of `Graph` when it loads."""
    _graph_class[:] = [graph_class]


def _global() -> Graph:
    if not _global_graph:
        with _global_lock:
            if not _global_graph:
                _global_graph.append(_graph_class[0]())
    return _global_graph[0]


builder.set_bottom(_global)


def global_graph() -> Graph:
    """The process's global graph, which is below the graphs of all threads."""
    return _global()


def get_default_graph() -> Graph:
    """The default graph of the thread: the innermost ``as_default`` one, else the process's global one."""
    for one in reversed(builder.current_stack()):
        if one.defers:
            return one
    return _global()


def reset_default_graph() -> None:
    """Replace the process's global graph by an empty one.

    Where ops run at once, what libraries keep there begins anew, too: counts of names, and the global step.

    Raises:
        AssertionError: called inside a ``with graph.as_default():`` block.
    """
    if any(one.defers for one in builder.current_stack()):
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, "
            "exit the nesting and create a new graph."
        )
    with _global_lock:
        _global_graph[:] = [_graph_class[0]()]
    for one in {builder.bottom(), *builder.current_stack()}:
        if not one.defers:
            one.forget_library_state()


def leave_graphs() -> None:
    """Leave all graphs' blocks of this thread for a new default graph, as a test case does when it begins.

    Where ops run at once outside those blocks, they go on building a graph inside: the new one takes their places.
    """
    stack = builder.current_stack()
    inside = [one.defers for one in stack]
    stack[:] = [one for one in stack if not one.defers]
    reset_default_graph()
    if any(inside) and not builder.current_builder().defers:
        others = iter(list(stack))
        stack[:] = [global_graph() if defers else next(others) for defers in inside]


def graph_of(values: Iterable[Any], default: Callable[[], Graph] = get_default_graph) -> Graph:
    """The one graph that the tensors and operations among ``values`` belong to, or the default graph.

    Raises:
        ValueError: they belong to different graphs.
    """
    common: Graph | None = None
    first: Any = None
    for value in values:
        graph = getattr(value, "graph", None)
        if isinstance(graph, _graph_class[0]):
            if common is None:
                common, first = graph, value
            elif graph is not common:
                raise ValueError(
                    f"{value!r} must be from the same graph as {first!r}.\n"
                    + errors.message(
                        "tensors of two graphs",
                        "tensors of one graph",
                        "build both under the same `with graph.as_default():`",
                    )
                )
    return common or default()
