"""What a tape has noted where a graph is built: the ops of the graph that were added while it recorded.

A graph tells how each of its tensors came about, also before the tape began or while it was stopped. A tape's gradients
go through nothing but what it noted: tensors from before count as constants there, and what is made of nothing that the
tape follows has no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from anabranch.autodiff.variable_reads import handles_read, made_at, variable_of_handle
from anabranch.core.graph.operation import GraphTensor, Operation
from anabranch.core.values import dtypes


class Noted(NamedTuple):
    """The part of a graph that a tape has noted."""

    before: list[GraphTensor]
    """Tensors that ops of the part take and that count as constants: from outside the part, or made of what the tape
    did not follow yet.
    """
    followed: Mapping[Any, int]
    """Tensors that the tape follows, and what the part made of them, with the op from which on it does."""


def noted(
    graph: Any, ops: Iterable[Operation], watched: Mapping[int, tuple[Any, int]], watches_variables: bool
) -> Noted:
    """Which tensors the ops that were added while a tape recorded begin from, and which of theirs are followed.

    Args:
        graph: the graph.
        ops: its ops that were added while the tape recorded, in order.
        watched: what the program has asked the tape to follow, by identity: tensors of the graph, or values and
            handles from outside; and how many ops the graph had then.
        watches_variables: whether trainable variables that the ops read are followed, too.
    """
    ops = list(ops)
    inside = set(ops)
    followed: dict[Any, int] = {one: since for one, since in watched.values() if not one.has_value}
    for outer, inner in (*getattr(graph, "captured", ()), *getattr(graph, "handles", ())):
        if id(outer) in watched:
            followed[inner] = watched[id(outer)][1]
    for handle in handles_read(ops) if watches_variables else ():
        variable = variable_of_handle(graph, handle)
        if variable is not None and variable.trainable:
            followed.setdefault(handle, 0)
    before: dict[GraphTensor, None] = {}
    for op in ops:
        follows = waits = False
        for tensor in op._inputs:
            source = made_at(tensor)
            reads = _names_variable(tensor) or (len(tensor.op._inputs) == 1 and _names_variable(tensor.op._inputs[0]))
            if not reads:  # what a nested body captures is behind an argument of the body
                before.update((one, None) for one in (tensor, source) if one.op not in inside)  # type: ignore[misc]
            if source in followed:
                follows = follows or followed[source] <= op._id
                waits = True
            elif reads and tensor.dtype.base is not dtypes.resource:  # a variable's value, read once for many uses
                follows = True
        if follows:
            followed.update(dict.fromkeys(op._outputs, 0))
        elif waits:
            before.update(dict.fromkeys(op._outputs))  # type: ignore[arg-type]
    return Noted(list(before), followed)


def _names_variable(tensor: Any) -> bool:
    return bool(tensor.dtype.is_ref or tensor.dtype.base is dtypes.resource)
