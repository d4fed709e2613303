"""``tensorflow.compiler.tf2xla.python.xla``: XLA's operations as functions, as far as Keras uses them."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor


def dynamic_update_slice(x: Any, updates: Any, starts: Any) -> Any:
    """``x`` with the block that begins at ``starts`` replaced."""
    x = convert_to_tensor(x)
    return build("XlaDynamicUpdateSlice", x, convert_to_tensor(updates, x.dtype.base), starts)
