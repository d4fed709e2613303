"""Functions that are called after each op that runs at once, and those that look for NaN and infinity."""

from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.tensor import OpView
from anabranch.eager.mode import EAGER
from anabranch.platform import logging


@public("contrib.eager.ExecutionCallback")
class ExecutionCallback(enum.Enum):
    """What is done about a NaN or an infinity: nothing, a line on the screen, an exception, or a warning."""

    IGNORE = "ignore"
    PRINT = "print"
    RAISE = "raise"
    WARN = "warn"


class InfOrNanError(Exception):
    """An op gave a NaN or an infinity.

    Args:
        op_type: type of the op.
        op_name: its name, or None.
        output_index: number of the output.
        num_outputs: how many outputs there are.
        value: the output.
    """

    def __init__(self, op_type: str, op_name: str | None, output_index: int, num_outputs: int, value: Any) -> None:
        self.op_type = op_type
        self.op_name = op_name
        self.output_index = output_index
        self.num_outputs = num_outputs
        self.value = value
        counts = (np.count_nonzero(np.isinf(value)), "inf(s)"), (np.count_nonzero(np.isnan(value)), "nan(s)")
        shown = " and ".join(f"{count} {what}" for count, what in counts if count)
        name = repr(op_name) if op_name is not None else "None"
        super().__init__(
            f"Output {output_index + 1} of {num_outputs} of TFE operation {op_type} (name: {name}) contains {shown} "
            f"out of a total of {np.size(value)} element(s). Tensor value: {value}"
        )


@public("contrib.eager.inf_nan_callback")
def inf_nan_callback(
    op_type: str,
    inputs: Sequence[Any],
    attrs: Any,
    outputs: Sequence[Any],
    op_name: str | None,
    check_inf: bool = True,
    check_nan: bool = True,
    action: Any = ExecutionCallback.RAISE,
) -> None:
    """Look for infinities and NaNs in the outputs of an op; for :func:`add_execution_callback`.

    Args:
        op_type: type of the op.
        inputs: has no effect.
        attrs: has no effect.
        outputs: its outputs.
        op_name: its name, or None.
        check_inf: whether infinities count.
        check_nan: whether NaNs count.
        action: an :class:`ExecutionCallback`, or its value.

    Raises:
        InfOrNanError: there is one, and the action is to raise. ValueError: the action is not one.
    """
    chosen = ExecutionCallback(action)
    for index, output in enumerate(outputs):
        if not (output.dtype.is_floating or output.dtype.is_complex):
            continue
        value = output.numpy()
        if not ((check_inf and np.any(np.isinf(value))) or (check_nan and np.any(np.isnan(value)))):
            continue
        error = InfOrNanError(op_type, op_name, index, len(outputs), value)
        if chosen is ExecutionCallback.PRINT:
            print(f"Warning: {error}")
        elif chosen is ExecutionCallback.WARN:
            logging.warning(str(error))
        elif chosen is ExecutionCallback.RAISE:
            raise error


@public("contrib.eager.inf_callback")
def inf_callback(
    op_type: str,
    inputs: Sequence[Any],
    attrs: Any,
    outputs: Sequence[Any],
    op_name: str | None,
    action: Any = ExecutionCallback.RAISE,
) -> None:
    """Look for infinities in the outputs of an op; arguments as for :func:`inf_nan_callback`."""
    inf_nan_callback(op_type, inputs, attrs, outputs, op_name, True, False, action)


@public("contrib.eager.nan_callback")
def nan_callback(
    op_type: str,
    inputs: Sequence[Any],
    attrs: Any,
    outputs: Sequence[Any],
    op_name: str | None,
    action: Any = ExecutionCallback.RAISE,
) -> None:
    """Look for NaNs in the outputs of an op; arguments as for :func:`inf_nan_callback`."""
    inf_nan_callback(op_type, inputs, attrs, outputs, op_name, False, True, action)


class _Callback:
    """A program's function as what the mode calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, view: OpView, name: str | None) -> None:
        attrs = tuple([part for pair in view._attrs.items() for part in pair])
        self.function(view.definition.type_name, list(view._inputs), attrs, list(view._outputs), name)


@public("contrib.eager.add_execution_callback")
def add_execution_callback(callback: Callable[..., Any]) -> None:
    """Call a function after each op that runs at once: ``callback(op_type, inputs, attrs, outputs, op_name)``.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.eager import mode
        >>> tf.contrib.eager.add_execution_callback(lambda op_type, *rest: print(op_type))
        >>> with mode.eager_mode():
        ...     y = tf.square(tf.constant(2.0))
        Square
        >>> tf.contrib.eager.clear_execution_callbacks()
    """
    EAGER.callbacks.append(_Callback(callback))


@public("contrib.eager.clear_execution_callbacks")
def clear_execution_callbacks() -> None:
    """Call none of the functions any more."""
    EAGER.callbacks.clear()


def _checks_all(function: Any) -> bool:
    return function is inf_nan_callback or getattr(function, "func", None) is inf_nan_callback


@public("contrib.eager.seterr")
def seterr(inf_or_nan: Any = None) -> dict[str, Any]:
    """Set what is done about infinities and NaNs, and return what was done before.

    Args:
        inf_or_nan: an :class:`ExecutionCallback`, or its value; None leaves it as it is.

    Raises:
        ValueError: it is not one.
    """
    chosen = None if inf_or_nan is None else ExecutionCallback(inf_or_nan)
    old = ExecutionCallback.IGNORE
    others = []
    for callback in EAGER.callbacks:
        function = getattr(callback, "function", None)
        if _checks_all(function):
            old = getattr(function, "keywords", {}).get("action", ExecutionCallback.RAISE)
        else:
            others.append(callback)
    if chosen is not None:
        EAGER.callbacks[:] = others
        if chosen is not ExecutionCallback.IGNORE:
            add_execution_callback(functools.partial(inf_nan_callback, action=chosen))
    return {"inf_or_nan": old}


@public("contrib.eager.errstate")
@contextlib.contextmanager
def errstate(inf_or_nan: Any = None) -> Iterator[None]:
    """A block in which :func:`seterr` holds; in a graph it has no effect."""
    if current_builder().defers:
        yield
        return
    old = seterr(inf_or_nan=inf_or_nan)
    try:
        yield
    finally:
        seterr(**old)


__all__ = ["ExecutionCallback", "InfOrNanError", "add_execution_callback", "seterr"]
