"""XLA's operations as functions, as far as Keras uses them, and ``xla.compile``: every step is compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation
from anabranch.core.values import nest
from anabranch.ops.control.public_dependencies import group


def dynamic_update_slice(x: Any, updates: Any, starts: Any) -> Any:
    """``x`` with the block that begins at ``starts`` replaced."""
    x = convert_to_tensor(x)
    return build("XlaDynamicUpdateSlice", x, convert_to_tensor(updates, x.dtype.base), starts)


def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Any:
    """What a function of tensors returns: its ops are compiled by XLA, like those of any step.

    Args:
        computation: the function; what it returns may be nested. Of several operations and tensors the tensors are
            returned, of operations alone one that waits for all of them.
        inputs: its arguments, which are converted to tensors.

    Returns:
        The structure that the function returns; a tuple of one if it returns a single tensor.
    """
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError(
            "inputs must be a list or tuple\n"
            + errors.message(f"inputs of type {type(inputs).__name__}", "a list of tensors", "inputs=[x]")
        )
    outputs = computation(*nest.map_structure(convert_to_tensor, list(inputs or [])))
    flat = nest.flatten(outputs)
    if outputs is None or all(isinstance(output, Operation) for output in flat):
        return group(*(flat if outputs is not None else ()))
    if not nest.is_sequence(outputs):
        return (convert_to_tensor(outputs),)
    if isinstance(outputs, (list, tuple)) and any(isinstance(output, Operation) for output in outputs):
        outputs = [output for output in outputs if not isinstance(output, Operation)]
    return nest.map_structure(convert_to_tensor, outputs)
