"""How many operations a GraphDef's functions make.

Each use of a function has a body of its own, so a file of a few kilobytes can stand for any number of operations:
functions that each call the next twice, 40 deep. They are counted before one is made, in time linear in the file. Where
they are many times the file's nodes, calls of one function share a body (:mod:`anabranch.core.graph.shared_bodies`), if
the function only computes, of values: then it is made once for a few kinds of arguments. What cannot be shared and is
still too much is refused.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.roles import BODIES, Role
from anabranch.core.values import budgets, dtypes

LEAST: Final = 1 << 14
"""Operations that any file may make."""
PER_NODE: Final = 100
"""Operations that a file may make for each of its nodes."""
LEAST_SHARED: Final = 1 << 10
"""Operations that a file may make, beside ten for each of its nodes, before calls share bodies."""
_HANDLES = (dtypes.resource, dtypes.variant)


class Use(NamedTuple):
    """A function that a node names."""

    name: str
    plain: bool
    """Whether it is called by a call, and with no attributes of its own."""


def shared(nodes: Iterable[Any], library: Mapping[str, Any]) -> frozenset[str]:
    """The functions whose calls are to share a body; refuses nodes that make many more operations than their file has.

    Args:
        nodes: the NodeDefs of the graph.
        library: the FunctionDefs by name.

    Raises:
        ResourceExhaustedError: they make too many. The budget for what small inputs expand to
            (:mod:`anabranch.core.values.budgets`), raised in the environment, raises the bound as much.
    """
    used = list(_functions(nodes, library))
    if not used:
        return frozenset()
    written = len(list(nodes)) + sum(len(function.node_def) for function in library.values())
    count = _operations(used, library, frozenset())
    if count <= LEAST_SHARED + 10 * written:
        return frozenset()
    sharing = _computing(used, library)
    count = _operations(used, library, sharing)
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
    return sharing


def _functions(nodes: Iterable[Any], library: Mapping[str, Any]) -> Iterator[Use]:
    """The functions of the library that nodes use, as often as they do."""
    for node in nodes:
        definition = None
        for value in node.attr.values():
            kind = value.WhichOneof("value")
            if kind == "func" and value.func.name in library:
                definition = definition or opdef.find(node.op)
                calls = definition is not None and definition.role is Role.CALL
                yield Use(value.func.name, calls and not value.func.attr)
            elif kind == "list":
                yield from (Use(item.name, False) for item in value.list.func if item.name in library)


def _operations(used: list[Use], library: Mapping[str, Any], sharing: frozenset[str]) -> int:
    """How many operations uses of functions make, those of ``sharing`` once; what calls itself is refused elsewhere."""
    sizes: dict[str, int] = {}
    once: dict[str, int] = {}
    calls: dict[str, collections.Counter[Use]] = {}
    waiting = [use.name for use in used]

    def size(use: Use) -> int:
        if use.plain and use.name in sharing:
            once[use.name] = sizes.get(use.name, 0)
            return 0
        return sizes.get(use.name, 0)

    while waiting:
        name = waiting[-1]
        if name in sizes:
            waiting.pop()
        elif name not in calls:
            calls[name] = collections.Counter(_functions(library[name].node_def, library))
            waiting += [callee.name for callee in calls[name] if callee.name not in calls]
        else:
            sizes[name] = len(library[name].node_def) + sum(count * size(use) for use, count in calls[name].items())
            waiting.pop()
    return sum(map(size, used)) + sum(once.values())


def _computing(used: list[Use], library: Mapping[str, Any]) -> frozenset[str]:
    """The functions that only compute, of values: without effect, state, handles, and control flow of version 1."""
    known: dict[str, bool] = {}
    begun: set[str] = set()
    waiting = [use.name for use in used]
    while waiting:
        name = waiting[-1]
        if name in known:
            waiting.pop()
        elif name not in begun:
            begun.add(name)
            waiting += [use.name for use in _functions(library[name].node_def, library) if use.name not in begun]
        else:
            callees = [use.name for use in _functions(library[name].node_def, library)]
            known[name] = _only_computes(library[name]) and all(known.get(callee, False) for callee in callees)
            waiting.pop()
    return frozenset(name for name, computes in known.items() if computes)


def _only_computes(function: Any) -> bool:
    for arg in function.signature.input_arg:
        dtype = dtypes.as_dtype(arg.type) if arg.type else None
        if dtype is None or dtype.is_ref or dtype in _HANDLES or arg.is_ref or arg.number_attr:
            return False
    for op_type in {node.op for node in function.node_def}:
        definition = opdef.find(op_type)
        if definition is None or definition.role is Role.FLOW or definition.makes is not None:
            return False
        if definition.role not in BODIES and (
            definition.effect.kind != "pure" or any(spec.element == "func" for spec in definition.attrs.values())
        ):
            return False
    return True
