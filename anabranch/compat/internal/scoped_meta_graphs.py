"""``tensorflow.python.framework.meta_graph``: MetaGraphs of name scopes, by TensorFlow's internal functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.protos import graph_pb2
from anabranch.train import meta_graph as meta_graphs
from anabranch.train.graph_files import write_message

add_collection_def = meta_graphs.write_collection
SAVE_AND_RESTORE_OPS = [
    "SaveV2",
    "Save",
    "SaveSlice",
    "LegacySave",
    "LegacySaveSlice",
    "RestoreV2",
    "Restore",
    "RestoreSlice",
    "LegacyRestore",
    "LegacyRestoreSlice",
]
# Operations that functions of a graph hold and that are not defined by themselves.
_OF_FUNCTIONS = frozenset(("_Arg", "_Retval", "_ListToArray", "_ArrayToList"))


def read_meta_graph_file(filename: Any) -> Any:
    """The MetaGraphDef of a file, binary or text; OSError if there is none."""
    return meta_graphs.read_meta_graph(filename)


def create_meta_graph_def(
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Iterable[Any] | None = None,
    graph: Any = None,
    export_scope: str | None = None,
    exclude_nodes: Any = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
) -> Any:
    """The MetaGraphDef of a graph, or of a graph definition with the collections of a graph.

    Args:
        meta_info_def: a MetaInfoDef to begin with.
        graph_def: the nodes; those of ``graph`` if None.
        saver_def: the SaverDef.
        collection_list: keys of the collections; all if None.
        graph: the graph; the default graph if None.
        export_scope: name scope that names are stripped of.
        exclude_nodes: names of nodes that are left out of collections.
        clear_extraneous_savers: leave out savers other than ``saver_def``.
        strip_default_attrs: leave out attributes that have their default.

    Raises:
        TypeError: an argument is of another class.
    """
    if graph is not None and not isinstance(graph, tf.Graph):
        raise TypeError(
            f"graph must be of type Graph, not {type(graph)}\n"
            + errors.message(f"graph={graph!r}", "a graph", "graph=tf.get_default_graph()")
        )
    nodes = None
    if graph_def is not None:
        nodes = graph_pb2.GraphDef()
        nodes.CopyFrom(meta_graphs.own_graph_def(graph_def))
        for name in exclude_nodes or ():
            for node in [one for one in nodes.node if one.name == name]:
                nodes.node.remove(node)
    return meta_graphs.scoped_meta_graph(
        graph or tf.get_default_graph(),
        graph_def=nodes,
        saver_def=saver_def,
        meta_info_def=meta_info_def,
        collection_list=collection_list,
        export_scope=export_scope if graph_def is None else None,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
    )


def export_scoped_meta_graph(
    filename: Any = None,
    graph_def: Any = None,
    graph: Any = None,
    export_scope: str | None = None,
    as_text: bool = False,
    unbound_inputs_col_name: str | None = meta_graphs.UNBOUND_INPUTS,
    clear_devices: bool = False,
    saver_def: Any = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    **options: Any,
) -> tuple[Any, dict[str, Any]]:
    """The MetaGraphDef of a name scope, and its variables by their names in the scope.

    Args:
        filename: file to write it to, if any.
        graph_def: the nodes; those of ``graph`` if None.
        graph: the graph; the default graph if None.
        export_scope: the name scope; the whole graph if None.
        as_text: whether the file is text.
        unbound_inputs_col_name: collection for the names of what comes from outside.
        clear_devices: leave out devices.
        saver_def: the SaverDef.
        clear_extraneous_savers: leave out savers other than ``saver_def``.
        strip_default_attrs: leave out attributes that have their default.
        **options: ``meta_info_def`` and ``collection_list``.
    """
    graph = graph or tf.get_default_graph()
    meta = meta_graphs.scoped_meta_graph(
        graph,
        graph_def=graph_def,
        saver_def=saver_def,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        unbound_inputs=unbound_inputs_col_name,
        **options,
    )
    if filename:
        write_message(filename, meta, as_text)
    kept = {node.name for node in meta.graph_def.node}
    variables = meta_graphs.variables_under(graph, export_scope or "")
    return meta, {name: one for name, one in variables.items() if name.partition(":")[0] in kept}


def import_scoped_meta_graph(meta_graph_or_file: Any, *args: Any, **options: Any) -> dict[str, Any]:
    """Add a MetaGraph to a graph; its variables by their names in the file.

    Arguments are those of :func:`anabranch.train.meta_graph.import_scoped_meta_graph`.
    """
    return meta_graphs.import_scoped_meta_graph(meta_graph_or_file, *args, **options)[0]


def import_scoped_meta_graph_with_return_elements(
    meta_graph_or_file: Any, *args: Any, **options: Any
) -> tuple[dict[str, Any], Any]:
    """Add a MetaGraph to a graph; its variables by their names in the file, and the elements that are asked for."""
    return meta_graphs.import_scoped_meta_graph(meta_graph_or_file, *args, **options)[:2]


def copy_scoped_meta_graph(
    from_scope: str, to_scope: str, from_graph: Any = None, to_graph: Any = None
) -> dict[str, Any]:
    """Copy a name scope to another, in one graph or from one to another; the new variables by their names.

    Raises:
        ValueError: the scopes are the same in the same graph.
    """
    source, target = from_graph or tf.get_default_graph(), to_graph or tf.get_default_graph()
    if source is target and from_scope == to_scope:
        raise ValueError(
            "'from_scope' and 'to_scope' need to be different when performing copy in the same graph.\n"
            + errors.message(f"scope {from_scope!r} twice", "two scopes, or two graphs", f"to_scope='{to_scope}_copy'")
        )
    meta, _ = export_scoped_meta_graph(export_scope=from_scope, graph=source)
    return import_scoped_meta_graph(meta, graph=target, import_scope=to_scope)


def _ops_and_functions(node: Any) -> list[str]:
    """The type of a node, and the functions that its attributes name."""
    names = [node.op]
    for attribute in node.attr.values():
        if attribute.WhichOneof("value") == "func":
            names.append(attribute.func.name)
        names += [function.name for function in attribute.list.func]
    return names


def ops_used_by_graph_def(graph_def: Any) -> list[str]:
    """The types of operations that a graph definition uses, those in functions that it calls among them."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    used: set[str] = set()
    waiting = [kind for node in graph_def.node for kind in _ops_and_functions(node)]
    while waiting:
        kind = waiting.pop()
        if kind in used:
            continue
        used.add(kind)
        if kind in functions:
            waiting += [inner for node in functions[kind].node_def for inner in _ops_and_functions(node)]
    return [kind for kind in used if kind not in functions]


def stripped_op_list_for_graph(graph_def: Any) -> Any:
    """The OpList of the types of operations that a graph definition uses.

    Raises:
        ValueError: one is not defined.
    """
    used = ops_used_by_graph_def(graph_def)
    for kind in sorted(used):
        if opdef.find(kind) is None and kind not in _OF_FUNCTIONS:
            raise ValueError(
                f"Op {kind} is used by the graph, but is not registered\n"
                + errors.message(f"a node of type {kind}", "types that are defined", f"class {kind}(tf.Op)")
            )
    called = graph_pb2.GraphDef()
    for kind in used:
        called.node.add(op=kind)
    return meta_graphs.op_list_of(called)


# ---------------------------------------------------------------------------------------------------------- signatures
def _types(infos: Any) -> dict[str, Any]:
    return {key: tf.as_dtype(info.dtype) for key, info in infos.items()}


def _shapes(infos: Any) -> dict[str, Any]:
    return {key: tf.TensorShape(info.tensor_shape) for key, info in infos.items()}


def get_signature_def_input_shapes(signature: Any) -> dict[str, Any]:
    """The shapes of a SignatureDef's inputs by their keys."""
    return _shapes(signature.inputs)


def get_signature_def_input_types(signature: Any) -> dict[str, Any]:
    """The dtypes of a SignatureDef's inputs by their keys."""
    return _types(signature.inputs)


def get_signature_def_output_shapes(signature: Any) -> dict[str, Any]:
    """The shapes of a SignatureDef's outputs by their keys."""
    return _shapes(signature.outputs)


def get_signature_def_output_types(signature: Any) -> dict[str, Any]:
    """The dtypes of a SignatureDef's outputs by their keys."""
    return _types(signature.outputs)
