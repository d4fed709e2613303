"""Ops on the host that run at the end of a segment, after its last program, whose checks that program makes.

A step's summaries are what this is for. If they ran as soon as their values are there, they would cut the step in two,
and what the backward half needs of the forward half would be handed over one value at a time. An op may wait for the
end if nothing but summaries takes what it makes, and if nothing can go wrong any more once its checks have passed: the
program has given up the old values of the variables by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes

Links = Mapping[Operation, Sequence[tuple[Operation, bool]]]


def find(
    plan: Any, ops: Sequence[Operation], on_host: Mapping[Operation, bool], parents: Links, children: Links
) -> list[Operation]:
    """The ops of ``ops`` that may wait, in order; ``parents`` and ``children`` are their links."""
    if all(on_host.values()) or plan.varying.open or plan.dynamic_on_host or plan.nested:
        return []
    if any(tensor.dtype.base is dtypes.string for tensor in plan.fed):
        return []  # tags, or summaries, are not what the graph says
    epilogue: set[Operation] = set()
    for op in reversed(ops):
        total = op.definition.total
        if (
            on_host[op]
            and op not in plan.on_host  # a program has found that it cannot make its checks
            and total is not None
            and total(op)
            and all(child in epilogue for child, _ in children[op])
            and all(key is None or isinstance(key, Tensor) for key in plan.sources(op))
            and all(not on_host[maker] or maker.definition.total is not None for maker, _ in parents[op])
        ):
            epilogue.add(op)
    return [op for op in ops if op in epilogue]
