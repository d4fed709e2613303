"""Gradients of conditionals, loops and calls: their bodies are differentiated, and new ops of the same kind made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors, hooks


def control_flow_gradient(op: Any, grads: Sequence[Any]) -> list[Any]:
    """One gradient (or None) for each input of an op that holds bodies."""
    raise NotImplementedError(
        errors.message(f"the gradient of {op.name!r} ({op.type})", "an op without bodies", "tf.stop_gradient(x)")
    )


hooks.fill("control_flow_gradient", control_flow_gradient)
