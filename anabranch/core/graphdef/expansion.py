"""How many operations a GraphDef's functions make: each use of a function has a body of its own.

A file of a few kilobytes can so stand for any number of operations: functions that each call the next twice, 40 deep.
They are counted before one is made, in time linear in the file, and refused where they are many times the file's nodes.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from anabranch.core import errors
from anabranch.core.values import budgets

LEAST: Final = 1 << 14
"""Operations that any file may make; twelve functions that each call the next twice make half of them."""
PER_NODE: Final = 100
"""Operations that a file may make for each of its nodes."""


def require(nodes: Iterable[Any], library: Mapping[str, Any]) -> None:
    """Refuse nodes that make many more operations than their file has.

    Args:
        nodes: the NodeDefs of the graph.
        library: the FunctionDefs by name.

    Raises:
        ResourceExhaustedError: they make too many. The budget for what small inputs expand to
            (:mod:`anabranch.core.values.budgets`), raised in the environment, raises the bound as much.
    """
    used = list(_functions(nodes, library))
    if not used:
        return
    sizes = _sizes(used, library)
    count = sum(sizes[name] for name in used)
    written = len(list(nodes)) + sum(len(function.node_def) for function in library.values())
    limit = (LEAST + PER_NODE * written) * budgets.most() // budgets.MOST
    if count > limit:
        given = f"a graph of {written} nodes whose functions call each other so often that they make {count} operations"
        enough = budgets.MOST * (count // limit + 1)
        raise errors.ResourceExhaustedError(
            None,
            None,
            errors.message(
                given,
                f"at most {limit}: {LEAST}, and {PER_NODE} for each node",
                f"a tf.while_loop in place of calls of calls, or {budgets.VARIABLE}={enough} in the environment, if "
                "you trust where it comes from",
            ),
        )


def _functions(nodes: Iterable[Any], library: Mapping[str, Any]) -> Iterator[str]:
    """The functions of the library that nodes use, as often as they do."""
    for node in nodes:
        for value in node.attr.values():
            kind = value.WhichOneof("value")
            if kind == "func" and value.func.name in library:
                yield value.func.name
            elif kind == "list":
                yield from (item.name for item in value.list.func if item.name in library)


def _sizes(used: Iterable[str], library: Mapping[str, Any]) -> dict[str, int]:
    """How many operations one use of each function makes; what calls itself is refused elsewhere."""
    sizes: dict[str, int] = {}
    calls: dict[str, collections.Counter[str]] = {}
    waiting = list(used)
    while waiting:
        name = waiting[-1]
        if name in sizes:
            waiting.pop()
        elif name not in calls:
            calls[name] = collections.Counter(_functions(library[name].node_def, library))
            waiting += [callee for callee in calls[name] if callee not in calls]
        else:
            inner = sum(times * sizes.get(callee, 0) for callee, times in calls[name].items())
            sizes[name] = len(library[name].node_def) + inner
            waiting.pop()
    return sizes
