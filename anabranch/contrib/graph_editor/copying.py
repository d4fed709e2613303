"""Parts of a graph copied: into the same graph or another one, with other inputs, under another name scope.

Policy. An operation is copied as it stands, with its type, attributes and device; its name changes scope. An input from
outside is what a handler makes of it: by default the same tensor if the graph is the same, a placeholder otherwise.
What holds bodies (conditionals, loops, calls) is refused: a body belongs to one operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.graph_editor.elements import make_list_of_t, make_placeholder_from_tensor
from anabranch.contrib.graph_editor.selection import get_walks_intersection_ops
from anabranch.contrib.graph_editor.views import SubGraphView, make_view
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.roles import BODIES
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.operation import Operation, Tensor


@public("contrib.graph_editor.replace_t_with_placeholder_handler")
def replace_t_with_placeholder_handler(info: Any, t: Any) -> Any:
    """A placeholder in place of a tensor."""
    with info.graph_.as_default(), info.graph_.name_scope(None):
        return make_placeholder_from_tensor(t, scope=info.scope_ or None)


@public("contrib.graph_editor.keep_t_if_possible_handler")
def keep_t_if_possible_handler(info: Any, t: Any) -> Any:
    """The tensor itself if the graph is the same, a placeholder otherwise."""
    return t if info.graph is info.graph_ else replace_t_with_placeholder_handler(info, t)


@public("contrib.graph_editor.transform_op_if_inside_handler")
def transform_op_if_inside_handler(info: Any, op: Any, keep_if_possible: bool = True) -> Any:
    """What became of an operation; outside the part it stays if the graph is the same, else None."""
    if op in info.sgv.ops:
        return info.transformed_ops[op]
    return op if keep_if_possible and info.graph is info.graph_ else None


@public("contrib.graph_editor.copy_op_handler")
def copy_op_handler(
    info: Any, op: Any, new_inputs: Any, copy_shape: bool = False, nodedef_fn: Callable[[Any], Any] | None = None
) -> tuple[Any, list[Any]]:
    """A copy of an operation with other inputs; it, and its outputs.

    Args:
        info: the transformation.
        op: the operation.
        new_inputs: its inputs.
        copy_shape: give the outputs the shapes of the old ones.
        nodedef_fn: must be None.
    """
    if nodedef_fn is not None:
        raise NotImplementedError(errors.message("nodedef_fn", "None: no NodeDef is made", "op._set_attr afterwards"))
    if op.definition.role in BODIES:
        raise NotImplementedError(
            errors.message(
                f"a copy of {op.name!r} ({op.type}), which holds bodies",
                "operations without bodies",
                "build it anew, or import the GraphDef with tf.import_graph_def(graph_def, input_map=...)",
            )
        )
    graph = info.graph_
    attrs = dict(op._attrs)
    if "_class" in attrs:
        attrs["_class"] = tuple(_relocated(info, item) for item in attrs["_class"])
    with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None), graph.device(None):
        name = graph.unique_name(info.new_name(op.name))
        copied = graph._create(op.definition, list(new_inputs), attrs, f"{name}/", infer_shapes=True)
    if op.device:
        copied._set_device(op.device)
    for old, new in zip(op.outputs, copied.outputs, strict=True):
        if copy_shape:
            new.set_shape(old.shape)
    return copied, list(copied.outputs)


def _relocated(info: Any, item: Any) -> Any:
    """A group of colocation: that of the copy if what it names is copied too."""
    text = item.decode() if isinstance(item, bytes) else item
    named = info.names.get(text.removeprefix("loc:@"))
    return (
        item if named is None else f"loc:@{info.transformed_ops[named].name}" if named in info.transformed_ops else item
    )


@public("contrib.graph_editor.assign_renamed_collections_handler")
def assign_renamed_collections_handler(info: Any, elem: Any, elem_: Any) -> None:
    """Put a copy into the collections of the original; those that TensorFlow does not know get the scope's name."""
    known = {value for key, value in vars(GraphKeys).items() if not key.startswith("_") and isinstance(value, str)}
    for name in info.graph.get_all_collection_keys():
        if any(elem is item for item in info.graph.get_collection_ref(name)):
            own = name if name in known else f"{info.scope_}{name.removeprefix(info.scope)}"
            info.graph_.add_to_collection(own, elem_)


class _Progress:
    """A transformation while it runs: what handlers see."""

    def __init__(self, sgv: SubGraphView, graph: Any, dst_graph: Any, dst_scope: str, src_scope: str) -> None:
        self.sgv, self.graph, self.graph_ = sgv, graph, dst_graph
        self.scope, self.scope_ = src_scope, dst_scope
        self.transformed_ops: dict[Any, Any] = {}
        self.transformed_ts: dict[Any, Any] = {}
        self.names = {op.name: op for op in sgv.ops}

    def new_name(self, name: str) -> str:
        """A name in the new scope in place of the old one; ValueError if it is not in the old one."""
        if not name.startswith(self.scope):
            raise ValueError(f"{name} does not start with {self.scope}")
        return f"{self.scope_}{name[len(self.scope) :]}"


@public("contrib.graph_editor.TransformerInfo")
class TransformerInfo:
    """What became of the operations and tensors of a part."""

    def __init__(self, info: Any) -> None:
        self._graph, self._graph_ = info.graph, info.graph_
        self._scope, self._scope_ = info.scope, info.scope_
        self._ops, self._ts = dict(info.transformed_ops), dict(info.transformed_ts)

    def _found(self, top: Any, graph: Any, ops: dict[Any, Any], ts: dict[Any, Any], missing_fn: Any) -> Any:
        if isinstance(top, dict):
            return {key: self._found(item, graph, ops, ts, missing_fn) for key, item in top.items()}
        if isinstance(top, (list, tuple)):
            return type(top)(self._found(item, graph, ops, ts, missing_fn) for item in top)
        if isinstance(top, SubGraphView):
            view = SubGraphView([ops[op] for op in top.ops])
            view._inputs = [ts.get(tensor, tensor) for tensor in top.inputs]
            view._outputs = [ts.get(tensor, tensor) for tensor in top.outputs]
            return view
        element = graph.as_graph_element(top) if isinstance(top, str) else top
        known = ops if isinstance(element, Operation) else ts
        if element in known:
            return known[element]
        return None if missing_fn is None else missing_fn(element)

    def transformed(self, original: Any, missing_fn: Callable[[Any], Any] | None = None) -> Any:
        """What became of an operation, a tensor, a view, a name, or a structure of them; None if it was not copied."""
        return self._found(original, self._graph, self._ops, self._ts, missing_fn)

    def original(self, transformed: Any, missing_fn: Callable[[Any], Any] | None = None) -> Any:
        """What something was copied from; None if it was not copied."""
        ops = {new: old for old, new in self._ops.items()}
        ts = {new: old for old, new in self._ts.items()}
        return self._found(transformed, self._graph_, ops, ts, missing_fn)


@public("contrib.graph_editor.Transformer")
class Transformer:
    """A copy of parts of graphs, by handlers that may be replaced.

    - ``transform_op_handler(info, op, new_inputs)`` gives the copy and its outputs.
    - ``transform_external_input_handler(info, t)`` gives what stands for an input of the part.
    - ``transform_external_hidden_input_handler(info, t)`` gives what stands for another tensor from outside.
    - ``transform_control_input_handler(info, op)`` gives the operation to wait for, or None.
    - ``assign_collections_handler(info, old, new)`` puts a copy into collections.
    """

    def __init__(self) -> None:
        self.transform_op_handler: Callable[..., Any] = copy_op_handler
        self.transform_external_input_handler: Callable[..., Any] = keep_t_if_possible_handler
        self.transform_external_hidden_input_handler: Callable[..., Any] = keep_t_if_possible_handler
        self.transform_control_input_handler: Callable[..., Any] = transform_op_if_inside_handler
        self.assign_collections_handler: Callable[..., Any] = assign_renamed_collections_handler

    def __call__(
        self, sgv: Any, dst_graph: Any, dst_scope: str, src_scope: str = "", reuse_dst_scope: bool = False
    ) -> tuple[SubGraphView, TransformerInfo]:
        """Copy a part.

        Args:
            sgv: the part.
            dst_graph: the graph to copy to.
            dst_scope: the scope to copy to.
            src_scope: the scope that copies leave; names must begin with it.
            reuse_dst_scope: copy to a scope that is there already; otherwise it is made unique.

        Returns:
            A view of the copies, and a :class:`TransformerInfo`.
        """
        view = make_view(sgv)
        if not isinstance(dst_graph, tf.Graph):
            raise TypeError(f"Expected a tf.Graph, got: {type(dst_graph)}")
        source, scope = src_scope.rstrip("/"), dst_scope.rstrip("/")
        if scope and not reuse_dst_scope:
            with dst_graph.name_scope(None):
                scope = dst_graph.unique_name(scope)
        info = _Progress(view, view.graph, dst_graph, scope and f"{scope}/", source and f"{source}/")
        members = set(view.ops)
        inputs = set(view.inputs)
        for op in _ordered(view.ops):
            given = []
            for tensor in op.inputs:
                if tensor not in info.transformed_ts:
                    if tensor.op in members:
                        raise NotImplementedError(
                            errors.message(
                                f"a cycle through {op.name!r}", "a part without cycles", "tf.import_graph_def"
                            )
                        )
                    handler = (
                        self.transform_external_input_handler
                        if tensor in inputs
                        else self.transform_external_hidden_input_handler
                    )
                    info.transformed_ts[tensor] = handler(info, tensor)
                given.append(info.transformed_ts[tensor])
            copied, outputs = self.transform_op_handler(info, op, given)
            info.transformed_ops[op] = copied
            info.transformed_ts.update(zip(op.outputs, outputs, strict=True))
            if op is not copied:
                waits = [self.transform_control_input_handler(info, one) for one in op.control_inputs]
                copied._add_control_inputs([one for one in waits if one is not None])
                self.assign_collections_handler(info, op, copied)
                for old, new in zip(op.outputs, outputs, strict=True):
                    self.assign_collections_handler(info, old, new)
        for tensor in view.passthroughs:
            info.transformed_ts[tensor] = self.transform_external_input_handler(info, tensor)
        result = TransformerInfo(info)
        return result.transformed(view), result


def _ordered(ops: list[Any]) -> list[Any]:
    """Operations, each after those of them that it needs."""
    members = set(ops)
    done: dict[Any, None] = {}
    stack = [(op, False) for op in reversed(sorted(ops, key=lambda op: op._id))]
    seen: set[Any] = set()
    while stack:
        op, complete = stack.pop()
        if complete:
            done[op] = None
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            needs = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
            stack += [(one, False) for one in needs if one in members]
    return list(done)


@public("contrib.graph_editor.copy")
def copy(
    sgv: Any, dst_graph: Any = None, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False
) -> tuple[SubGraphView, TransformerInfo]:
    """Copy a part of a graph; ``dst_graph`` is its own if None, and other arguments are those of a Transformer."""
    view = make_view(sgv)
    return Transformer()(view, view.graph if dst_graph is None else dst_graph, dst_scope, src_scope, reuse_dst_scope)


@public("contrib.graph_editor.copy_with_input_replacements")
def copy_with_input_replacements(
    sgv: Any,
    replacement_ts: dict[Any, Any],
    dst_graph: Any = None,
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:
    """Copy a part of a graph with other tensors in place of some of its inputs.

    Args:
        sgv: the part.
        replacement_ts: inputs, with the tensors that take their places.
        dst_graph, dst_scope, src_scope, reuse_dst_scope: those of :func:`copy`.
    """
    view = make_view(sgv)
    transformer = Transformer()

    def replaced(info: Any, tensor: Any) -> Any:
        return replacement_ts[tensor] if tensor in replacement_ts else keep_t_if_possible_handler(info, tensor)

    transformer.transform_external_input_handler = replaced
    return transformer(view, view.graph if dst_graph is None else dst_graph, dst_scope, src_scope, reuse_dst_scope)


@public("contrib.graph_editor.graph_replace")
def graph_replace(
    target_ts: Any,
    replacement_ts: dict[Any, Any],
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> Any:
    """Tensors computed anew, with other tensors in place of some that they depend on.

    Args:
        target_ts: a tensor, or a structure of tensors.
        replacement_ts: tensors, with those that take their places.
        dst_scope, src_scope, reuse_dst_scope: those of :func:`copy`.

    Returns:
        What became of the targets, in their structure; a target that depends on none of the tensors stays.

    Raises:
        ValueError: no target depends on a tensor that is replaced.
    """
    targets = make_list_of_t(list(target_ts.values()) if isinstance(target_ts, dict) else target_ts)
    ops = get_walks_intersection_ops(list(replacement_ts), targets)
    if not ops:
        raise ValueError("Targets and replacements are not connected!")
    _, info = copy_with_input_replacements(
        ops, {old: new for old, new in replacement_ts.items()}, None, dst_scope, src_scope, reuse_dst_scope
    )

    def missing(tensor: Any) -> Any:
        return replacement_ts.get(tensor, tensor) if isinstance(tensor, Tensor) else tensor

    return info.transformed(target_ts, missing)
