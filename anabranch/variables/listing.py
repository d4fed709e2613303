"""Lists of a graph's variables, the ops that initialise them, and what is not initialised yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.ops.control.public_dependencies import group
from anabranch.variables.assignments import is_variable_initialized


@public("global_variables")
def global_variables(scope: str | None = None) -> list[Any]:
    """Variables of the model and its training that are shared by all tasks (``tf.Variable``'s default)."""
    return current_builder().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


@public("all_variables")
def all_variables() -> list[Any]:
    """Old name of :func:`global_variables`."""
    return global_variables()


@public("local_variables")
def local_variables(scope: str | None = None) -> list[Any]:
    """Variables of one task that are not saved (counters, metrics)."""
    return current_builder().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


@public("model_variables")
def model_variables(scope: str | None = None) -> list[Any]:
    """Variables that inference needs, as far as libraries said so."""
    return current_builder().get_collection(GraphKeys.MODEL_VARIABLES, scope)


@public("trainable_variables")
def trainable_variables(scope: str | None = None) -> list[Any]:
    """Variables that optimizers change by default."""
    return current_builder().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


@public("moving_average_variables")
def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Variables of which moving averages are kept."""
    return current_builder().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


@public("variables_initializer", "initializers.variables")
def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Operation:
    """An op that gives each variable of ``var_list`` its initial value."""
    if var_list:
        return group(*[variable.initializer for variable in var_list], name=name)
    return build("NoOp", name=name)


@public("initialize_variables")
def initialize_variables(var_list: Sequence[Any], name: str = "init") -> Operation:
    """Old name of :func:`variables_initializer`."""
    return variables_initializer(var_list, name)


@public("global_variables_initializer", "initializers.global_variables")
def global_variables_initializer() -> Operation:
    """An op that gives each global variable its initial value.

    Example:
        >>> import anabranch as tf
        >>> v = tf.Variable(1.0)
        >>> tf.global_variables_initializer().name
        'init'
    """
    return variables_initializer(global_variables())


@public("initialize_all_variables")
def initialize_all_variables() -> Operation:
    """Old name of :func:`global_variables_initializer`."""
    return global_variables_initializer()


@public("local_variables_initializer", "initializers.local_variables")
def local_variables_initializer() -> Operation:
    """An op that gives each local variable its initial value."""
    return variables_initializer(local_variables())


@public("initialize_local_variables")
def initialize_local_variables() -> Operation:
    """Old name of :func:`local_variables_initializer`."""
    return local_variables_initializer()


def _known(var_list: Sequence[Any] | None) -> list[Any]:
    """``var_list``, or all global and local variables, or (in an imported graph) the ops that make variables."""
    if var_list is not None:
        return list(var_list)
    variables = global_variables() + local_variables()
    if not variables:
        kinds = ("Variable", "VariableV2", "AutoReloadVariable")
        variables = [op._outputs[0] for op in get_default_graph().get_operations() if op.type in kinds]
    return variables


@public("report_uninitialized_variables")
def report_uninitialized_variables(
    var_list: Sequence[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Names of the variables that have no value, a vector of strings; all global and local ones if no list is given."""
    variables = _known(var_list)
    with name_scope(name):
        states = [is_variable_initialized(variable) for variable in variables]
        device = os.environ.get("TF_DEVICE_FOR_UNINITIALIZED_VARIABLE_REPORTING", "/cpu:0")
        with current_builder().device(device):
            if not variables:
                return constant([], "string")
            missing = build("LogicalNot", build("Pack", states, axis=0, name="stack"))
            names = constant([variable.op.name for variable in variables])
            return api.names()["boolean_mask"](names, missing)


@public("assert_variables_initialized")
def assert_variables_initialized(var_list: Sequence[Any] | None = None) -> Tensor | None:
    """A tensor whose evaluation fails if a variable has no value; None without variables.

    :func:`report_uninitialized_variables` says which ones.
    """
    variables = _known(var_list)
    if not variables:
        return None
    ranks = []
    for variable in variables:
        if not hasattr(variable, "op"):
            raise TypeError(errors.message(f"{variable!r} in var_list", "a variable", "pass tf.Variable objects"))
        with current_builder().colocate_with(variable):
            ranks.append(build("Rank", variable))
    return ranks[0] if len(ranks) == 1 else build("Pack", ranks, axis=0, name="stack")
