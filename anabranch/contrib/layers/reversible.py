"""Reversible residual blocks (Gomez et al., 2017, arXiv:1707.04585).

TensorFlow recomputes activations on the way back to save memory. Values and gradients are the same without, and which
values are kept until the way back is left to XLA: the functions here do not recompute anything by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


def _repeated(given: Any, count: int, name: str) -> list[Any]:
    items = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(items) != count:
        raise ValueError(
            errors.message(
                f"{len(items)} functions {name} for {count} layers", "one, or one for each layer", f"{name}=[...]"
            )
        )
    return items


@public("contrib.layers.rev_block")
def rev_block(
    x1: Any,
    x2: Any,
    f: Any,
    g: Any,
    num_layers: int = 1,
    f_side_input: Sequence[Any] | None = None,
    g_side_input: Sequence[Any] | None = None,
    is_training: bool = True,
) -> tuple[Any, Any]:
    """Layers ``y1 = x1 + f(x2)``, ``y2 = x2 + g(y1)``, one after the other.

    Args:
        x1: tensor.
        x2: tensor of the same shape.
        f: function of a tensor, or one for each layer.
        g: likewise.
        num_layers: number of layers.
        f_side_input: further arguments of ``f``, as one list.
        g_side_input: further arguments of ``g``, as one list.
        is_training: has no effect here: nothing is recomputed in either case.
    """
    del is_training
    return RevBlock(f, g, num_layers, f_side_input, g_side_input).forward(x1, x2)


@public("contrib.layers.RevBlock")
class RevBlock:
    """A block of reversible layers; :func:`rev_block` makes and calls one."""

    def __init__(
        self,
        f: Any,
        g: Any,
        num_layers: int = 1,
        f_side_input: Sequence[Any] | None = None,
        g_side_input: Sequence[Any] | None = None,
        use_efficient_backprop: bool = True,
        name: str = "revblock",
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise NotImplementedError(errors.message(f"arguments {sorted(kwargs)}", "none of these", "leave them out"))
        del use_efficient_backprop  # the same values and gradients: see the head of the module
        self._layers = list(zip(_repeated(f, num_layers, "f"), _repeated(g, num_layers, "g"), strict=True))
        self._f_side, self._g_side, self._name = list(f_side_input or []), list(g_side_input or []), name

    def __call__(self, inputs: Any, forward: bool = True) -> tuple[Any, Any]:
        """Both halves ``(x1, x2)``, through the block or back through it."""
        return self.forward(*inputs) if forward else self.backward(*inputs)

    def forward(self, x1: Any, x2: Any) -> tuple[Any, Any]:
        """Through the block."""
        x1, x2 = tf.convert_to_tensor(x1), tf.convert_to_tensor(x2)
        with tf.variable_scope(self._name):
            for number, (f, g) in enumerate(self._layers):
                x1 = x1 + self._called(f, x2, self._f_side, number, "f", None)
                x2 = x2 + self._called(g, x1, self._g_side, number, "g", None)
        return x1, x2

    def backward(self, y1: Any, y2: Any) -> tuple[Any, Any]:
        """The inputs that give these outputs; the block must have been called before."""
        y1, y2 = tf.convert_to_tensor(y1), tf.convert_to_tensor(y2)
        with tf.variable_scope(self._name):
            for number, (f, g) in reversed(list(enumerate(self._layers))):
                y2 = y2 - self._called(g, y1, self._g_side, number, "g", True)
                y1 = y1 - self._called(f, y2, self._f_side, number, "f", True)
        return y1, y2

    def _called(self, function: Any, x: Any, side: list[Any], number: int, name: str, reuse: Any) -> Any:
        with tf.variable_scope(f"revlayer_{number}/{name}", reuse=reuse):
            return function(x, side) if side else function(x)


@public("contrib.layers.recompute_grad")
def recompute_grad(
    fn: Callable[..., Any] | None = None, use_data_dep: Any = None, tupleize_grads: bool = False
) -> Callable[..., Any]:
    """The function as it is: XLA decides which of its values are kept for the gradient.

    ``use_data_dep`` and ``tupleize_grads`` order a recomputation that does not happen, and change no value.
    """
    if fn is None:
        return lambda function: recompute_grad(function, use_data_dep, tupleize_grads)
    return fn
