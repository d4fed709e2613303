"""A layer applied several times in a row, in scopes of its own."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.core.contract.api import public


def _name_of(layer: Any, otherwise: str) -> str:
    """The name of a function, also of one that `functools.partial` has given arguments."""
    return str(getattr(layer, "__name__", None) or getattr(getattr(layer, "func", None), "__name__", otherwise))


@public("contrib.layers.repeat")
@add_arg_scope
def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """A layer applied again and again, in scopes ``scope_1``, ``scope_2`` and so on."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        base = scope or _name_of(layer, "repeat")
        for i in range(repetitions):
            inputs = layer(inputs, *args, scope=f"{base}_{i + 1}", **kwargs)
        return inputs


@public("contrib.layers.stack")
@add_arg_scope
def stack(inputs: Any, layer: Any, stack_args: Any, **kwargs: Any) -> Any:
    """A layer applied again and again with other arguments each time, in scopes ``scope_1``, ``scope_2`` and so on."""
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Stack", [inputs]):
        base = scope or _name_of(layer, "stack")
        for i, given in enumerate(stack_args, 1):
            given = given if isinstance(given, (list, tuple)) else [given]
            inputs = layer(inputs, *given, scope=f"{base}_{i}", **kwargs)
        return inputs
