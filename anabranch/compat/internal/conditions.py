"""``tensorflow.python.framework.smart_cond``: conditions that are decided while the graph is built, if they can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.compat.layer_utilities import smart_cond, smart_constant_value

__all__ = ["smart_case", "smart_cond", "smart_constant_value"]


def smart_case(
    pred_fn_pairs: Any, default: Callable[[], Any] | None = None, exclusive: bool = False, name: str = "smart_case"
) -> Any:
    """``tf.case`` without the branches whose conditions are known to be false, and after one that is known to be true.

    Args:
        pred_fn_pairs: dict or list of pairs of a condition and a function.
        default: function for when no condition holds.
        exclusive: whether at most one condition may hold.
        name: name scope.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    open_pairs = []
    for condition, function in pairs:
        known = smart_constant_value(condition)
        if known is None:
            open_pairs.append((condition, function))
        elif known:
            if not open_pairs:
                return function()
            default = function
            break
    if not open_pairs and default is not None:
        return default()
    return tf.case(open_pairs, default, exclusive, name=name)
