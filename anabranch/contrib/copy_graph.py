"""``tf.contrib.copy_graph``: copies of variables and operations in another graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public


def _scoped(name: str, scope: str) -> str:
    return f"{scope}/{name}" if scope else name


def _collections_of(item: Any, scope: str, kept: Sequence[str] = ()) -> list[str]:
    """The collections that a copy of a variable, tensor or operation belongs to."""
    graph = item.graph
    names = [
        name for name in graph.get_all_collection_keys() if any(item is each for each in graph.get_collection(name))
    ]
    return [name if name in kept else _scoped(name, scope) for name in names]


@public("contrib.copy_graph.copy_variable_to_graph")
def copy_variable_to_graph(org_instance: Any, to_graph: Any, scope: str = "") -> Any:
    """A variable in another graph that begins with the value with which a variable begins.

    Args:
        org_instance: the variable.
        to_graph: the other graph.
        scope: before the name of the copy, and of its collections but those of all and of trainable variables.
    """
    if not isinstance(org_instance, tf.Variable):
        raise TypeError(
            f"{org_instance} is not a Variable\n"
            + errors.message(f"a {type(org_instance).__name__}", "a variable", "tf.Variable(value)")
        )
    keys = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES)
    collections = _collections_of(org_instance, scope, keys)
    graph = org_instance.graph
    trainable = any(org_instance is each for each in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES))
    with graph.as_default(), tf.Session() as session:
        value = session.run(org_instance.initialized_value())
    with to_graph.as_default():
        return tf.Variable(
            value,
            trainable,
            name=_scoped(org_instance.name.partition(":")[0], scope),
            collections=collections,
            validate_shape=False,
        )


@public("contrib.copy_graph.copy_op_to_graph")
def copy_op_to_graph(org_instance: Any, to_graph: Any, variables: Sequence[Any], scope: str = "") -> Any:
    """A copy of an operation or tensor in another graph, with all that it needs and that is not there yet.

    Args:
        org_instance: the operation or tensor.
        to_graph: the other graph.
        variables: those in the other graph that stand for the variables that are needed.
        scope: before the names of copies.
    """
    copied = {variable.name: variable for variable in variables}
    new_name = _scoped(org_instance.name, scope)
    if new_name in copied:
        return to_graph.get_tensor_by_name(copied[new_name].name)
    try:
        return to_graph.as_graph_element(new_name, allow_tensor=True, allow_operation=True)
    except (KeyError, ValueError):
        pass  # it is not there yet
    if isinstance(org_instance, tf.Tensor):
        operation = copy_op_to_graph(org_instance.op, to_graph, variables, scope)
        result = operation.outputs[org_instance.value_index]
    elif isinstance(org_instance, tf.Operation):
        inputs = [copy_op_to_graph(x, to_graph, variables, scope) for x in org_instance.inputs]
        controls = [copy_op_to_graph(x, to_graph, variables, scope) for x in org_instance.control_inputs]
        node = tf.NodeDef()
        node.CopyFrom(org_instance.node_def)
        del node.input[:]
        node.attr.pop("_class", None)
        node.input.extend(f"input{index}" for index in range(len(inputs)))
        names = {f"input{index}": x for index, x in enumerate(inputs)}
        definition = tf.GraphDef(node=[node], versions=org_instance.graph.as_graph_def().versions)
        with to_graph.as_default(), tf.name_scope(None):
            (result,) = tf.import_graph_def(definition, names, [node.name], name=f"{scope}/" if scope else "")
        result._add_control_inputs(controls)
    else:
        raise TypeError(
            f"Could not copy instance: {org_instance}\n"
            + errors.message(f"a {type(org_instance).__name__}", "an operation or tensor", "tensor.op")
        )
    for name in _collections_of(org_instance, scope):
        to_graph.add_to_collection(name, result)
    return result


@public("contrib.copy_graph.get_copied_op")
def get_copied_op(org_instance: Any, graph: Any, scope: str = "") -> Any:
    """The copy of an operation, tensor or variable in a graph.

    Args:
        org_instance: what was copied.
        graph: the graph of the copy.
        scope: that of the copy.
    """
    name = _scoped(org_instance.name, scope)
    return graph.as_graph_element(name, allow_tensor=True, allow_operation=True)


__getattr__, __dir__ = api.module_attributes("contrib.copy_graph")
