"""What the shape rule of an op says of operands that are there: kernels of NumPy would take more than the rule does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import faults
from anabranch.core.graph.operation import Operation
from anabranch.xla import lowering

MOST_ACCEPTED = 128
"""Shapes of an op's operands that are remembered as accepted: sizes that data decide come back."""


def refused_by_shape(plan: Any, op: Operation, operands: Sequence[Any]) -> errors.OpError | None:
    """What the shape rule of an op says of its operands, unless it has accepted such shapes before."""
    accepted = plan.accepted.get(op)
    forms = tuple([getattr(value, "shape", None) for value in operands])
    if accepted is not None and forms in accepted:
        return None
    if not faults.as_built(op, operands):
        refused = faults.refusal(op, lowering.TraceShapes(op, operands))
        if refused is not None:
            return refused
    if accepted is None or len(accepted) >= MOST_ACCEPTED:
        accepted = plan.accepted[op] = set()
    accepted.add(forms)
    return None
