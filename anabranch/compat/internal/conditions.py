"""``tensorflow.python.framework.smart_cond``: conditions that are decided while the graph is built, if they can be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.compat.layer_utilities import smart_cond, smart_constant_value
from anabranch.core import errors

__all__ = ["_case_helper", "smart_case", "smart_cond", "smart_constant_value"]


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


def _case_helper(
    cond_fn: Callable[..., Any],
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None,
    exclusive: bool,
    name: str,
    allow_python_preds: bool = False,
    **cond_kwargs: Any,
) -> Any:
    """``tf.case`` built of conditionals of a given kind.

    Args:
        cond_fn: what builds a conditional: called with a condition and two functions.
        pred_fn_pairs: list or dict of conditions and functions.
        default: function for when no condition holds; without it the last condition is asserted.
        exclusive: whether it is asserted that no two conditions hold.
        name: name scope.
        allow_python_preds: whether conditions may be Python's booleans.
        cond_kwargs: further arguments of ``cond_fn``.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    for condition, _ in pairs:
        if isinstance(condition, bool) and not allow_python_preds:
            raise TypeError(
                f"pred must be Tensor of type bool, not {condition!r}\n"
                + errors.message(f"the condition {condition}", "a boolean tensor", "tf.constant(True)")
            )
    with tf.name_scope(name, "case", [condition for condition, _ in pairs if not isinstance(condition, bool)]):
        asserted = []
        known = [tf.convert_to_tensor(condition, tf.bool) for condition, _ in pairs]
        if exclusive:
            several = tf.less(tf.reduce_sum(tf.cast(tf.stack(known), tf.int32)), 2)
            asserted.append(tf.Assert(several, ["Input error: exclusive=True: more than 1 conditions hold", *known]))
        if default is None:
            (_, default) = pairs.pop()
            asserted.append(tf.Assert(tf.reduce_any(tf.stack(known)), ["None of the conditions hold", *known]))
        with tf.control_dependencies(asserted):
            chosen = default
            for condition, function in reversed(pairs):
                chosen = functools.partial(cond_fn, condition, function, chosen, **cond_kwargs)
            return chosen()
