"""Initial values that depend on other variables.

A step that runs all initializers has no order between them, so an initial value that reads another variable would
find it without a value. As in TensorFlow, such reads are replaced: by the variable's value if it has one, and by its
own initial value, computed in the same step, if it has none. TensorFlow builds that with a conditional; here one op
does it, which looks at the variable once and needs no branches.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.opdef import Op, Type, read
from anabranch.core.graph.build import build
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.operation import Operation, Tensor


def _value_or_initial(ctx, inputs, attrs):
    return inputs[1] if inputs[0] is None else inputs[0]


def _gradient(op: Operation, grad: Any) -> list[Any]:
    """The variable's, which has a value wherever anything is trained."""
    return [grad, None]


class AnabranchInitializedValue(Op):
    """The value of the variable, or ``initial``, of its shape, if it has none (the kernel is then given None)."""

    signature = "ref: Ref(T), initial: T -> value: T"
    attrs = {"T": Type()}
    effect = read("ref")
    allows_uninitialized = True
    shape = inference.merged
    gradient = _gradient
    kernel = _value_or_initial


class AnabranchInitializedResourceValue(Op):
    """Like ``AnabranchInitializedValue``, for a variable behind a handle."""

    signature = "resource: resource, initial: dtype -> value: dtype"
    attrs = {"dtype": Type()}
    effect = read("resource")
    allows_uninitialized = True
    gradient = _gradient
    kernel = _value_or_initial

    def shape(c):
        return c.shape("initial")


def initialized_value(variable: Any) -> Tensor:
    """A tensor with the variable's value, or with its initial value if it has none."""
    if not variable._builder.defers:
        return variable.value()
    initializer = variable.initializer
    # What the initializer assigns is guarded itself, so that chains of variables work.
    assigned = initializer.type in ("Assign", "AssignVariableOp")
    initial = initializer._inputs[1] if assigned else variable.initial_value
    if initial is None:
        raise ValueError(
            errors.message(
                f"variable {variable.name!r}, which was imported without its initial value",
                "a variable made by the program, or saved with initial_value_name",
                "read it with v.read_value() after restoring it",
            )
        )
    with variable.graph.init_scope():
        if variable._is_resource:
            return build("AnabranchInitializedResourceValue", variable.handle, initial, name="initialized_value")
        return build("AnabranchInitializedValue", variable._ref(), initial, name="initialized_value")


_MAKERS = frozenset({"Variable", "VariableV2", "VarHandleOp"})
_LEFT_ALONE = frozenset(
    {
        "IsVariableInitialized",
        "VarIsInitializedOp",
        "ReadVariableOp",
        "AnabranchInitializedValue",
        "AnabranchInitializedResourceValue",
    }
)


def guarded(name: str, initial_value: Tensor) -> Tensor:
    """``initial_value`` with every read of another variable replaced by that variable's initialised value.

    Operations on the way from such a read are copied under their own name with ``_<name>`` behind it. A value that
    depends on itself (a loop of an imported graph) stays as it is.
    """
    order = _ancestors(initial_value.op)
    if order is None or not any(op.type in _MAKERS for op in order):
        return initial_value
    copies: dict[Operation, Operation] = {}
    values: dict[Tensor, Tensor] = {}
    suffix = "_" + name.replace(":", "_")
    for op in order:
        if op.type in _MAKERS:
            variable = _variable_of(op)
            if variable is not None:
                values[op._outputs[0]] = initialized_value(variable)
            continue
        if op.type in _LEFT_ALONE or op.definition.effect.kind == "body":
            continue
        inputs = [values.get(tensor, tensor) for tensor in op._inputs]
        if inputs == list(op._inputs):
            continue
        attrs = {key: value for key, value in op._attrs.items() if value is not None}
        copy = op.graph._create(op.definition, inputs, attrs, op.name + suffix)
        copies[op] = copy
        values.update(zip(op._outputs, copy._outputs, strict=True))
    return values.get(initial_value, initial_value)


def _ancestors(op: Operation) -> list[Operation] | None:
    """``op`` and everything that it takes values from, inputs first; None if there is a cycle."""
    order: list[Operation] = []
    done: dict[Operation, bool] = {}
    stack: list[tuple[Operation, bool]] = [(op, False)]
    while stack:
        current, finished = stack.pop()
        if finished:
            done[current] = True
            order.append(current)
        elif current in done:
            if not done[current]:
                return None
        else:
            done[current] = False
            stack.append((current, True))
            if current.type in _LEFT_ALONE or current.definition.effect.kind == "body":
                continue
            stack.extend((tensor.op, False) for tensor in reversed(current._inputs) if not done.get(tensor.op))
            if any(done.get(tensor.op) is False for tensor in current._inputs):
                return None
    return order


def _variable_of(op: Operation) -> Any:
    """The Python variable whose op ``op`` is, or None."""
    names = (op.name, op.name + ":0")
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in op.graph.get_collection(key):
            if getattr(variable, "name", None) in names and hasattr(variable, "initialized_value"):
                return variable
    return None
