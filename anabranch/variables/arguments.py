"""What the arguments of ``tf.Variable`` must be, and the shape that they give it."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes
from anabranch.variables.scope_state import VariableAggregation, VariableSynchronization


def checked_modes(
    synchronization: Any, aggregation: Any, trainable: bool | None, name: str | None
) -> tuple[VariableSynchronization, VariableAggregation, bool]:
    """Synchronization and aggregation as members of their classes, and whether the variable is trainable."""
    modes: list[Any] = []
    for kind, label, value in (
        (VariableSynchronization, "synchronization", synchronization),
        (VariableAggregation, "aggregation", aggregation),
    ):
        if value is None:
            value = kind(0)
        if not isinstance(value, kind):
            try:
                value = kind(value)
            except ValueError:
                raise ValueError(
                    f"Invalid variable {label} mode: {value} for variable: {name}\n"
                    + errors.message(f"{label}={value!r}", f"a member of tf.{kind.__name__}", f"{kind(0)}")
                ) from None
        modes.append(value)
    if trainable is None:
        trainable = modes[0] is not VariableSynchronization.ON_READ
    return modes[0], modes[1], bool(trainable)


def check_arguments(initial_value: Any, constraint: Any) -> None:
    """Refuse a variable without an initial value, and a constraint that is not a function."""
    if initial_value is None:
        raise ValueError(
            "initial_value must be specified.\n"
            + errors.message(
                "tf.Variable without initial_value",
                "a tensor, an array, a number or a function that returns one",
                "tf.Variable(tf.zeros(shape)), or tf.get_variable(name, shape)",
            )
        )
    if constraint is not None and not callable(constraint):
        raise ValueError(
            "The `constraint` argument must be a callable.\n"
            + errors.message(
                f"constraint={constraint!r}", "a function of the value", "constraint=lambda w: tf.nn.relu(w)"
            )
        )


def declared_shape(
    initial_value: Tensor, validate_shape: bool | None, shape: Any, expected_shape: Any, name: str
) -> Any:
    """Raw shape of a variable's op, from the initial value and what the program says; None takes it unchecked."""
    initial_shape = initial_value._shape
    if expected_shape is not None and not shapes.is_compatible(shapes.as_raw(expected_shape), initial_shape):
        raise ValueError(
            errors.message(
                f"an initial value of shape {shapes.show(initial_shape)} for variable {name!r}",
                f"expected_shape {shapes.show(shapes.as_raw(expected_shape))}",
                "reshape the value, or leave expected_shape out",
            )
        )
    if validate_shape and (initial_shape is None or None in initial_shape):
        raise ValueError(
            f"initial_value must have a shape specified: {initial_value}\n"
            + errors.message(
                f"an initial value of shape {shapes.show(initial_shape)} for variable {name!r}",
                "a fully known shape",
                "set_shape on the initial value, or validate_shape=False",
            )
        )
    if shape is not None:
        raw = shapes.as_raw(shape)
        if not shapes.is_compatible(raw, initial_shape):
            raise ValueError(
                f"The initial value's shape ({shapes.show(initial_shape)}) is not compatible with the explicitly "
                f"supplied `shape` argument ({shapes.show(raw)}).\n"
                + errors.message(
                    f"an initial value of shape {shapes.show(initial_shape)}",
                    f"shape {shapes.show(raw)}",
                    "reshape one of them",
                )
            )
        return raw
    return None if validate_shape is False else initial_shape
