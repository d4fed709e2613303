"""MetaGraphs: a graph with its collections, so that another program can go on where this one ends.

Policy. A collection is written by what its items are: messages if functions were registered for it
(:func:`anabranch.core.graph.collections.register_proto_function`), else names of graph elements, texts, whole numbers
or floats. A collection whose items are none of these is left out with a warning, as in TensorFlow: programs keep what
they like in collections. Reading is all or nothing: if anything in the file does not fit, the graph is as it was.

Exporting a name scope strips it from all names; what its nodes take from outside is renamed and listed in the
collection ``unbound_inputs``, and must be given when the MetaGraph is imported.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from anabranch.core import errors, framework
from anabranch.core.contract import opdef
from anabranch.core.contract.api import public
from anabranch.core.contract.attrs import REQUIRED
from anabranch.core.graph.builder import require_graph
from anabranch.core.graph.collections import GraphKeys, proto_functions, register_proto_function
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Operation
from anabranch.core.graphdef import attr_values, graph_def, import_graph
from anabranch.core.protos import graph_pb2, saved_model_pb2, variable_pb2
from anabranch.train.graph_files import read_message, write_message
from anabranch.variables.save_slice import inside_scope, without_scope
from anabranch.variables.variable import Variable

_UNBOUND = "$unbound_inputs_"
UNBOUND_INPUTS = "unbound_inputs"
_SAVER_OPS = frozenset(
    ("Save", "SaveSlices", "SaveV2", "Restore", "RestoreSlice", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename")
)

for _key in GraphKeys._VARIABLE_COLLECTIONS:
    if proto_functions(_key) is None:
        register_proto_function(_key, variable_pb2.VariableDef, Variable.to_proto, Variable.from_proto)


def _in_scope(name: str, scope: str | None) -> bool:
    return not scope or name.startswith(scope)


# ------------------------------------------------------------------------------------------------------------- writing
def require_meta_graph(given: str) -> None:
    """Refuse MetaGraphs where ops run at once."""
    require_graph(
        "Exporting/importing meta graphs is not supported when eager execution is enabled. No graph exists when eager "
        "execution is enabled.",
        given,
        "tf.train.Checkpoint, or with tf.Graph().as_default():",
    )


@public("train.export_meta_graph")
def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Iterable[Any] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> Any:
    """A graph and its collections as a ``MetaGraphDef``, written to a file if asked.

    Args:
        filename: where to write it, if anywhere.
        meta_info_def: tags and versions to put in.
        graph_def: GraphDef in place of the graph's own.
        saver_def: ``SaverDef`` of the saver that the importing program will have.
        collection_list: names of the collections to export; all if None.
        as_text: write text instead of binary.
        graph: the graph; the default graph if None.
        export_scope: only the nodes of this name scope, which is stripped from their names.
        clear_devices: leave out devices.
        clear_extraneous_savers: leave out all savers but that of ``saver_def``: their nodes, and their items in the
            collection of savers.
        strip_default_attrs: leave out attributes that have their default, for programs of older versions.
        save_debug_info: must be False; sites are not written.
        kwargs: ``unbound_inputs_col_name``: name of the collection for what an exported scope takes from outside.

    Raises:
        ValueError: graph and graph_def were given with a scope, or an argument is not known.
    """
    unbound = kwargs.pop("unbound_inputs_col_name", UNBOUND_INPUTS)
    if kwargs:
        raise TypeError(f"export_meta_graph() got an unexpected keyword argument {sorted(kwargs)[0]!r}")
    if save_debug_info:
        raise NotImplementedError(
            errors.message(
                "save_debug_info=True", "save_debug_info=False", "leave it out: creation sites are not written to files"
            )
        )
    if graph is None and graph_def is None:
        require_meta_graph("tf.train.export_meta_graph")
    graph = get_default_graph() if graph is None else graph
    proto = scoped_meta_graph(
        graph,
        graph_def=graph_def,
        saver_def=saver_def,
        meta_info_def=meta_info_def,
        collection_list=collection_list,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        unbound_inputs=unbound,
    )
    if filename:
        write_message(filename, proto, as_text)
    return proto


def scoped_meta_graph(
    graph: Graph,
    *,
    graph_def: Any = None,
    saver_def: Any = None,
    meta_info_def: Any = None,
    collection_list: Iterable[Any] | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    unbound_inputs: str | None = UNBOUND_INPUTS,
    for_display: bool = False,
) -> Any:
    """The MetaGraphDef of a graph; arguments as those of :func:`export_meta_graph`.

    If it is ``for_display`` alone, among events, nobody is warned of collections that cannot be written.
    """
    source = graph.as_graph_def(add_shapes=True) if graph_def is None else own_graph_def(graph_def)
    excluded = _extraneous_saver_nodes(source, saver_def) if clear_extraneous_savers else frozenset()
    meta = saved_model_pb2.MetaGraphDef()
    missing = _copy_nodes(source, meta.graph_def, export_scope, excluded, clear_devices)
    info = meta.meta_info_def
    if meta_info_def is not None:
        info.CopyFrom(import_graph.as_message(meta_info_def, type(info), "meta_info_def must be a MetaInfoDef proto."))
    info.tensorflow_version = framework._COMPATIBLE_VERSION
    info.tensorflow_git_version = f"v{framework._COMPATIBLE_VERSION}-anabranch"
    if not info.HasField("stripped_op_list"):
        info.stripped_op_list.CopyFrom(op_list_of(meta.graph_def))
    if strip_default_attrs:
        strip_defaults(meta.graph_def)
        info.stripped_default_attrs = True
    if saver_def is not None:
        _write_saver(meta, saver_def, export_scope)
    names = graph.get_all_collection_keys() if collection_list is None else list(collection_list)
    for name in names:
        if name == unbound_inputs:
            continue
        items = None
        if clear_extraneous_savers and name == GraphKeys.SAVERS:
            if saver_def is None:
                continue
            saver: Any = proto_functions(name)
            items = [saver.from_proto(saver_def)]
        write_collection(meta, name, graph, export_scope, excluded, items, warns=not for_display)
    if missing and unbound_inputs:
        meta.collection_def[unbound_inputs].bytes_list.value.extend(name.encode() for name in missing)
    return meta


def write_graph_of_training(graph: Graph, folder: Any, writer: Any, saver_def: Any) -> None:
    """Write the graph that a program trains, as who freezes it or looks at it expects: ``graph.pbtxt``, and events.

    Args:
        graph: the graph.
        folder: where checkpoints are; None if nowhere.
        writer: a `tf.summary.FileWriter`, or None.
        saver_def: the ``SaverDef`` that the MetaGraph among the events gets, or None.
    """
    definition = graph.as_graph_def(add_shapes=True)
    if folder:
        write_message(os.path.join(os.fsdecode(folder), "graph.pbtxt"), definition, as_text=True)
    if writer is not None:
        writer.add_graph(graph)
        writer.add_meta_graph(scoped_meta_graph(graph, graph_def=definition, saver_def=saver_def, for_display=True))


def own_graph_def(given: Any) -> Any:
    """Read a graph definition given as a message of any class of that name; TypeError otherwise."""
    return import_graph.as_message(given, graph_pb2.GraphDef, "graph_def must be of type GraphDef.")


def _write_saver(meta: Any, saver_def: Any, export_scope: str | None) -> None:
    given = import_graph.as_message(saver_def, type(meta.saver_def), "saver_def must be a SaverDef proto.")
    meta.saver_def.CopyFrom(given)
    for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
        setattr(meta.saver_def, field, without_scope(getattr(given, field), export_scope))


def _copy_nodes(
    source: Any, target: Any, export_scope: str | None, excluded: frozenset[str], clear_devices: bool
) -> list[str]:
    """Copy nodes, library and versions; return the new names of inputs that come from outside the scope."""
    if not export_scope and not excluded and not clear_devices:
        target.CopyFrom(source)
        return []
    missing: dict[str, None] = {}
    target.versions.CopyFrom(source.versions)
    if source.HasField("library"):
        target.library.CopyFrom(source.library)
    if clear_devices:
        for function in target.library.function:
            for node in function.node_def:
                node.device = ""
    for node in source.node:
        if node.name in excluded or not _in_scope(node.name, export_scope):
            continue
        copy = target.node.add()
        copy.CopyFrom(node)
        if clear_devices:
            copy.device = ""
        if not export_scope:
            continue
        copy.name = without_scope(node.name, export_scope)
        del copy.input[:]
        for text in node.input:
            if _in_scope(text.lstrip("^"), export_scope):
                copy.input.append(without_scope(text, export_scope))
            else:
                renamed = re.sub(r"^\^?", lambda found: found[0] + _UNBOUND, text, count=1)
                copy.input.append(renamed)
                missing[renamed] = None
        if "_class" in copy.attr:
            groups = [
                without_scope(group.decode(), export_scope).encode()
                for group in copy.attr["_class"].list.s
                if _in_scope(group.decode().partition("@")[2], export_scope)
            ]
            del copy.attr["_class"].list.s[:]
            copy.attr["_class"].list.s.extend(groups)
            if not groups:
                del copy.attr["_class"]
        if node.op in ("Enter", "RefEnter"):
            frame = copy.attr["frame_name"].s.decode("utf-8", "surrogateescape")
            copy.attr["frame_name"].s = without_scope(frame, export_scope).encode("utf-8", "surrogateescape")
    return list(missing)


def _extraneous_saver_nodes(source: Any, saver_def: Any) -> frozenset[str]:
    """Nodes in the name scopes of savers other than that of ``saver_def``."""
    saver_scopes = set()
    if saver_def is not None:
        saver_scopes = {
            name.partition(":")[0].rpartition("/")[0]
            for name in (saver_def.filename_tensor_name, saver_def.save_tensor_name, saver_def.restore_op_name)
        }
    scopes = {node.name.rpartition("/")[0] for node in source.node if node.op in _SAVER_OPS}
    gone = tuple(f"{scope}/" for scope in scopes - saver_scopes if scope)
    return frozenset(node.name for node in source.node if gone and node.name.startswith(gone))


def op_list_of(proto: Any) -> Any:
    """The OpList of the op types that a GraphDef and its functions use, those defined here."""
    types = {node.op for node in proto.node}
    types |= {node.op for function in proto.library.function for node in function.node_def}
    listed = graph_pb2.OpList()
    for name in sorted(types):
        definition = opdef.find(name)
        if definition is not None:
            listed.op.add().CopyFrom(graph_def.op_def(definition))
    return listed


def strip_defaults(proto: Any) -> None:
    """Take attributes out of a GraphDef's nodes that have the default of their op type."""
    functions = [node for function in proto.library.function for node in function.node_def]
    for node in [*proto.node, *functions]:
        definition = opdef.find(node.op)
        if definition is None:
            continue
        for key, spec in definition.attrs.items():
            default = None if spec.default is REQUIRED else attr_values.to_proto(spec.default, spec)
            if key in node.attr and node.attr[key] == default:
                del node.attr[key]


def write_collection(
    meta: Any,
    name: Any,
    graph: Graph | None = None,
    export_scope: str | None = None,
    excluded: frozenset[str] = frozenset(),
    items: Any = None,
    warns: bool = True,
) -> None:
    """Write one collection (or ``items`` in its place) into a MetaGraphDef; it ``warns`` if that cannot be.

    Nothing is written for an empty collection.
    """
    if isinstance(name, bytes):
        name = name.decode()
    if not isinstance(name, str):
        if warns:
            reason = f"its name is not a string but {type(name).__name__}"
            warnings.warn(f"collection {name!r} is not written to the MetaGraph: {reason}", stacklevel=2)
        return
    entries = list((graph or get_default_graph()).get_collection_ref(name)) if items is None else list(items)
    if not entries:
        return
    proto = saved_model_pb2.CollectionDef()
    try:
        functions = proto_functions(name)
        if functions is not None and functions.to_proto is not None:
            proto.bytes_list.SetInParent()
            for item in entries:
                made = functions.to_proto(item, export_scope=export_scope)
                if made is not None:
                    proto.bytes_list.value.append(made.SerializeToString())
        else:
            _write_items(proto, entries, export_scope, excluded)
    except (AttributeError, TypeError, ValueError, OverflowError) as problem:
        if warns:
            warnings.warn(
                f"collection {name!r} is not written to the MetaGraph: {type(problem).__name__}: {problem}. "
                "Collections may hold graph elements, strings, ints or floats, one kind each, or items with "
                "registered functions (register_proto_function).",
                stacklevel=2,
            )
        return
    meta.collection_def[name].CopyFrom(proto)


def _write_items(proto: Any, items: list[Any], export_scope: str | None, excluded: frozenset[str]) -> None:
    first = items[0]
    if isinstance(first, (str, bytes)):
        proto.bytes_list.value.extend(item.encode() if isinstance(item, str) else item for item in items)
    elif isinstance(first, float):
        proto.float_list.value.extend(items)
    elif isinstance(first, int):
        proto.int64_list.value.extend(items)
    elif hasattr(first, "type_url"):
        proto.any_list.value.extend(items)
    else:
        proto.node_list.SetInParent()
        for item in items:
            name = item.name
            if not isinstance(name, str):
                raise TypeError(f"an item whose name is {name!r}")
            made_by = getattr(item, "op", item)
            if isinstance(made_by, Operation) and not made_by.body.is_root:
                continue  # of a branch or loop: its file has a function there, whose nodes have no names of the graph
            if _in_scope(name, export_scope) and name.partition(":")[0] not in excluded:
                proto.node_list.value.append(without_scope(name, export_scope))


# ------------------------------------------------------------------------------------------------------------- reading
def read_meta_graph(meta_graph_or_file: Any) -> Any:
    """A MetaGraphDef from a message or a file.

    Raises:
        OSError: the file is not there or holds no MetaGraphDef. TypeError: it is neither.
    """
    if isinstance(meta_graph_or_file, (str, bytes)) or hasattr(meta_graph_or_file, "__fspath__"):
        return read_message(meta_graph_or_file, saved_model_pb2.MetaGraphDef, "MetaGraphDef")
    return import_graph.as_message(
        meta_graph_or_file, saved_model_pb2.MetaGraphDef, "meta_graph_or_file must be a MetaGraphDef or a file's path."
    )


def import_scoped_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: dict[str, Any] | None = None,
    unbound_inputs_col_name: str | None = UNBOUND_INPUTS,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
    return_elements: Any = None,
) -> tuple[dict[str, Variable], list[Any] | None, str]:
    """Add the nodes and collections of a MetaGraph to a graph.

    Args:
        meta_graph_or_file: a MetaGraphDef or a file's path.
        clear_devices: leave out devices.
        graph: the graph; the default graph if None.
        import_scope: name scope for the nodes.
        input_map: as for `import_graph_def`.
        unbound_inputs_col_name: collection with the names of inputs that must be in ``input_map``.
        restore_collections_predicate: which collections to take over, by name.
        return_elements: as for `import_graph_def`.

    Returns:
        The global variables by their names in the file; the elements asked for; the prefix of the new names.
    """
    meta = read_meta_graph(meta_graph_or_file)
    graph = get_default_graph() if graph is None else graph
    if unbound_inputs_col_name and unbound_inputs_col_name in meta.collection_def:
        listed = meta.collection_def[unbound_inputs_col_name].bytes_list.value
        names = [value.decode("utf-8", "replace") for value in listed]
        given = set(input_map or ())
        missing = sorted(name for name in names if name not in given and f"{name}:0" not in given)
        if missing:
            raise ValueError(
                f"Graph contains unbound inputs: {', '.join(missing)}. "
                "Must provide these inputs through input_map.\n"
                + errors.message(
                    "a MetaGraph of a name scope without what it takes from outside",
                    f"a tensor for each of {missing}",
                    f"input_map={{{missing[0]!r}: tensor}}",
                )
            )
    proto = meta.graph_def
    if clear_devices:
        proto = graph_pb2.GraphDef()
        _copy_nodes(meta.graph_def, proto, None, frozenset(), True)
    producers = meta.meta_info_def.stripped_op_list if meta.meta_info_def.HasField("stripped_op_list") else None
    with _unchanged_on_failure(graph), graph.as_default():
        prefix = graph.unique_name(import_scope or "", mark_as_used=False)
        elements = import_graph.import_graph_def(
            proto,
            name=import_scope or prefix,
            input_map=input_map,
            producer_op_list=producers,
            return_elements=return_elements,
        )
        read_collections(meta, graph, prefix, unbound_inputs_col_name, restore_collections_predicate)
    return variables_under(graph, prefix), elements, prefix


def variables_under(graph: Graph, prefix: str) -> dict[str, Variable]:
    """The global variables in a name scope, by their names without it."""
    variables = graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=prefix or None)
    return {without_scope(item.name, prefix): item for item in variables if isinstance(item, Variable)}


@contextlib.contextmanager
def _unchanged_on_failure(graph: Graph) -> Iterator[None]:
    """Put graph and collections back as they were if the block raises."""
    with import_graph.all_or_nothing(graph):
        before = {key: list(items) for key, items in graph._collections.items()}
        try:
            yield
        except BaseException:
            for key in list(graph._collections):
                if key in before:
                    graph._collections[key][:] = before[key]
                else:
                    del graph._collections[key]
            raise


def read_collections(
    meta: Any, graph: Graph, prefix: str, unbound_inputs: str | None, wanted: Callable[[str], bool]
) -> None:
    """Add the collections of a MetaGraph to the graph that its nodes were added to under ``prefix``."""
    items_by_bytes: dict[bytes, Any] = {}
    old = _before_trainable(meta.meta_info_def.tensorflow_version)
    for key, collection in sorted(meta.collection_def.items()):
        if key == unbound_inputs or not wanted(key):
            continue
        kind = collection.WhichOneof("kind")
        if kind is None:
            continue  # an empty one of an old writer
        functions = proto_functions(key)
        if kind == "bytes_list" and functions is not None and functions.from_proto is not None:
            for value in collection.bytes_list.value:
                if value not in items_by_bytes or key not in GraphKeys._VARIABLE_COLLECTIONS:
                    items_by_bytes[value] = _read_item(key, value, functions, prefix, old)
                graph.add_to_collection(key, items_by_bytes[value])
        elif kind == "node_list":
            for name in collection.node_list.value:
                graph.add_to_collection(key, _element(graph, key, inside_scope(name, prefix)))
        else:
            for item in getattr(collection, kind).value:
                graph.add_to_collection(key, item)


def _element(graph: Graph, key: str, name: str) -> Any:
    try:
        return graph.as_graph_element(name)
    except (KeyError, ValueError) as problem:
        raise ValueError(
            errors.message(
                f"collection {key!r} with {name!r}, which is not in the graph ({problem})",
                "names of the MetaGraph's operations and tensors",
                f"import it without that collection: del meta_graph.collection_def[{key!r}]",
            )
        ) from None


def _read_item(key: str, value: bytes, functions: Any, prefix: str, old: bool) -> Any:
    proto = functions.proto_type()
    try:
        proto.ParseFromString(value)
    except DecodeError as problem:
        raise ValueError(
            errors.message(
                f"collection {key!r} with {len(value)} bytes that are no {functions.proto_type.__name__} ({problem})",
                f"serialised messages {functions.proto_type.__name__}",
                f"import it without that collection: del meta_graph.collection_def[{key!r}]",
            )
        ) from None
    if old and isinstance(proto, variable_pb2.VariableDef):
        proto.trainable = True
    try:
        return functions.from_proto(proto, import_scope=prefix)
    except KeyError as problem:
        raise ValueError(
            errors.message(
                f"collection {key!r} with an item that names what is not in the graph: {problem}",
                "names of the MetaGraph's operations and tensors",
                f"import it without that collection: del meta_graph.collection_def[{key!r}]",
            )
        ) from None


def _before_trainable(version: str) -> bool:
    """Whether a writer of this version left out ``VariableDef.trainable`` (all were taken for trainable)."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) < (1, 9)


__all__ = [
    "export_meta_graph",
    "import_scoped_meta_graph",
    "op_list_of",
    "read_collections",
    "read_meta_graph",
    "scoped_meta_graph",
    "strip_defaults",
    "variables_under",
    "write_collection",
]
