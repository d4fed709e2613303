"""Operations and tensors as lists, what consumes and what generates them, control edges, and stand-ins for tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Operation, Tensor


def _flat(items: Any) -> list[Any]:
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable) or isinstance(items, (Tensor, tf.Variable)):
        return [items]
    return [leaf for item in items for leaf in _flat(item)]


def _elements(items: Any, kind: type, other: type, ignore_others: bool, check_graph: bool, what: str) -> list[Any]:
    found: list[Any] = []
    for item in _flat(items):
        if isinstance(item, kind):
            found.append(item)
        elif not (ignore_others and isinstance(item, other)):
            raise TypeError(
                f"Expected a list of {kind.__name__}, got: {type(item)}\n"
                + errors.message(f"{item!r} in a list of {what}", f"{what} of one graph", "graph.as_graph_element")
            )
    if check_graph and len({item.graph for item in found}) > 1:
        raise ValueError(
            "Operations or tensors do not belong to the same graph\n"
            + errors.message(f"{what} of different graphs", f"{what} of one graph", "one call for each graph")
        )
    return found


@public("contrib.graph_editor.make_list_of_op")
def make_list_of_op(ops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False) -> list[Any]:
    """Operations as a list.

    Args:
        ops: an operation, a structure of them, or a graph.
        check_graph: refuse operations of different graphs.
        allow_graph: take a graph for all its operations.
        ignore_ts: leave out tensors; otherwise they are refused.

    Raises:
        TypeError: something else is among them. ValueError: they are of different graphs.
    """
    if isinstance(ops, tf.Graph) and allow_graph:
        return ops.get_operations()
    return _elements(ops, Operation, Tensor, ignore_ts, check_graph, "operations")


@public("contrib.graph_editor.make_list_of_t")
def make_list_of_t(ts: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False) -> list[Any]:
    """Tensors as a list; arguments are those of :func:`make_list_of_op`."""
    if isinstance(ts, tf.Graph) and allow_graph:
        return get_tensors(ts)
    return _elements(ts, Tensor, Operation, ignore_ops, check_graph, "tensors")


@public("contrib.graph_editor.get_tensors")
def get_tensors(graph: Any) -> list[Any]:
    """All tensors of a graph."""
    if not isinstance(graph, tf.Graph):
        raise TypeError(f"Expected a graph, got: {type(graph)}")
    return [tensor for op in graph.get_operations() for tensor in op.outputs]


@public("contrib.graph_editor.get_generating_ops")
def get_generating_ops(ts: Any) -> list[Any]:
    """The operations that tensors come from."""
    return list(dict.fromkeys(tensor.op for tensor in make_list_of_t(ts, allow_graph=False)))


@public("contrib.graph_editor.get_consuming_ops")
def get_consuming_ops(ts: Any) -> list[Any]:
    """The operations that use tensors."""
    tensors = make_list_of_t(ts, allow_graph=False)
    return list(dict.fromkeys(op for tensor in tensors for op in tensor.consumers()))


# ------------------------------------------------------------------------------------------------------- control edges
@public("contrib.graph_editor.ControlOutputs")
class ControlOutputs:
    """Which operations wait for each operation of a graph."""

    def __init__(self, graph: Any) -> None:
        if not isinstance(graph, tf.Graph):
            raise TypeError(f"Expected a tf.Graph, got: {type(graph)}")
        self._graph = graph

    @property
    def graph(self) -> Any:
        """The graph."""
        return self._graph

    def update(self) -> ControlOutputs:
        """Nothing: edges are asked for when they are needed."""
        return self

    def get_all(self) -> dict[Any, list[Any]]:
        """Operations that others wait for, with these."""
        return {op: list(op._control_outputs) for op in self._graph.get_operations() if op._control_outputs}

    def get(self, op: Any) -> list[Any]:
        """The operations that wait for ``op``."""
        return list(op._control_outputs)


@public("contrib.graph_editor.check_cios")
def check_cios(control_inputs: Any = False, control_outputs: Any = None, control_ios: Any = None) -> tuple[Any, Any]:
    """Whether control inputs count, and the :class:`ControlOutputs` if control outputs do."""
    if control_ios is not None:
        if not isinstance(control_ios, ControlOutputs):
            raise TypeError(f"Expected a util.ControlOutputs, got: {type(control_ios)}")
        if control_outputs is not None:
            raise ValueError("control_outputs should be None when using control_ios.")
        return True, control_ios
    if control_outputs is not None and not isinstance(control_outputs, ControlOutputs):
        raise TypeError(f"Expected a util.ControlOutputs, got: {type(control_outputs)}")
    return control_inputs, control_outputs


@public("contrib.graph_editor.add_control_inputs")
def add_control_inputs(op: Any, cops: Any) -> None:
    """Let ``op`` wait for other operations; ValueError if it does already."""
    others = make_list_of_op(cops, allow_graph=False)
    for other in others:
        if other in op.control_inputs:
            raise ValueError(f"{op.name} is already a control_input of {other.name}")
    op._add_control_inputs(others)


@public("contrib.graph_editor.remove_control_inputs")
def remove_control_inputs(op: Any, cops: Any) -> None:
    """Let ``op`` wait no more for other operations; ValueError if it does not wait for one."""
    others = make_list_of_op(cops, allow_graph=False)
    for other in others:
        if other not in op.control_inputs:
            raise ValueError(f"{op.name} is not a control_input of {other.name}")
    left = [one for one in op.control_inputs if one not in others]
    op._remove_all_control_inputs()
    op._add_control_inputs(left)


# ----------------------------------------------------------------------------------------------------------- stand-ins
def scope_of(name: str) -> str:
    """The scope of an operation's name, with ``/`` at its end unless it is empty."""
    scope, slash, _ = name.rpartition("/")
    return scope + slash


@public("contrib.graph_editor.placeholder_name")
def placeholder_name(t: Any = None, scope: str | None = None, prefix: str = "geph") -> str:
    """A name for what stands for a tensor.

    Args:
        t: the tensor, whose name it takes up.
        scope: scope of the name; that of the tensor if None.
        prefix: what it begins with.
    """
    if scope:
        scope = scope.rstrip("/") + "/"
    if t is None:
        return f"{scope or ''}{prefix}"
    if not isinstance(t, Tensor):
        raise TypeError(f"Expected a tf.Tenfor, got: {type(t)}")
    own_scope = scope_of(t.op.name)
    base = t.op.name[len(own_scope) :]
    return f"{own_scope if scope is None else scope}{prefix}__{base}_{t.value_index}"


@public("contrib.graph_editor.make_placeholder_from_tensor")
def make_placeholder_from_tensor(t: Any, scope: str | None = None, prefix: str = "geph") -> Any:
    """A placeholder of a tensor's dtype and shape in the default graph."""
    return tf.placeholder(t.dtype.base_dtype, t.shape, name=placeholder_name(t, scope, prefix))


@public("contrib.graph_editor.make_placeholder_from_dtype_and_shape", "contrib.graph_editor.ph")
def make_placeholder_from_dtype_and_shape(
    dtype: Any, shape: Any = None, scope: str | None = None, prefix: str = "geph"
) -> Any:
    """A placeholder in the default graph."""
    return tf.placeholder(dtype, shape, name=placeholder_name(scope=scope, prefix=prefix))


# ------------------------------------------------------------------------------------------------- regular expressions
@public("contrib.graph_editor.can_be_regex")
def can_be_regex(obj: Any) -> bool:
    """Whether something is a text or a compiled regular expression."""
    return isinstance(obj, (str, re.Pattern))


@public("contrib.graph_editor.make_regex")
def make_regex(obj: Any) -> Any:
    """A compiled regular expression; ValueError for anything but a text or one."""
    if not can_be_regex(obj):
        raise ValueError(f"Expected a string or a regex, got: {type(obj)}")
    return re.compile(obj) if isinstance(obj, str) else obj
