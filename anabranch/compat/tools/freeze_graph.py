"""``tensorflow.python.tools.freeze_graph``: a graph and a checkpoint as one graph with constants for variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graphdef.graph_util import node_name
from anabranch.core.protos import training_pb2
from anabranch.train.graph_files import read_message


def _names(text: Any) -> list[str]:
    return [name.strip() for name in str(text or "").split(",") if name.strip()]


def _restored(session: Any, saver_def: Any, checkpoint: str) -> None:
    """Restore the variables of an imported graph: by its saver, or those whose names the checkpoint has."""
    if saver_def is not None:
        tf.train.Saver(saver_def=saver_def).restore(session, checkpoint)
        return
    reader = tf.train.NewCheckpointReader(checkpoint)
    for name in reader.get_variable_to_shape_map():
        try:
            operation = session.graph.get_operation_by_name(name)
        except KeyError:  # a step counter, a slot of an optimizer: not in a graph for inference
            continue
        if operation.type in ("Variable", "VariableV2"):
            session.run(tf.assign(operation.outputs[0], reader.get_tensor(name), validate_shape=False).op)
        elif operation.type == "VarHandleOp":
            session.run(tf.build_op("AssignVariableOp", operation.outputs[0], reader.get_tensor(name)))


def freeze_graph_with_def_protos(
    input_graph_def: Any,
    input_saver_def: Any,
    input_checkpoint: Any,
    output_node_names: str,
    restore_op_name: Any,
    filename_tensor_name: Any,
    output_graph: str,
    clear_devices: bool,
    initializer_nodes: str,
    variable_names_whitelist: str = "",
    variable_names_blacklist: str = "",
    input_meta_graph_def: Any = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: Sequence[str] | None = None,
    checkpoint_version: int = 2,
) -> Any:
    """A GraphDef with constants for variables, cut down to what some nodes need.

    Args:
        input_graph_def: the graph, unless a MetaGraph or a SavedModel is given.
        input_saver_def: the graph's saver; one is made if it is None.
        input_checkpoint: prefix of the checkpoint; it is not read for a SavedModel.
        output_node_names: names of nodes to keep, separated by commas.
        restore_op_name, filename_tensor_name, checkpoint_version: have no effect.
        output_graph: file to write to; none if it is empty.
        clear_devices: take devices off the nodes.
        initializer_nodes: names of operations to run before, separated by commas.
        variable_names_whitelist: variables to make constants, separated by commas; all if empty.
        variable_names_blacklist: variables to leave, separated by commas.
        input_meta_graph_def: a MetaGraph in place of the graph.
        input_saved_model_dir: a SavedModel in place of the graph and the checkpoint.
        saved_model_tags: tags of the SavedModel's graph.
    """
    del restore_op_name, filename_tensor_name, checkpoint_version
    if not output_node_names:
        raise ValueError(
            errors.message("no output_node_names", "names of the nodes to keep", "output_node_names='softmax'")
        )
    meta = input_meta_graph_def
    graph_def = input_graph_def if input_graph_def is not None else meta.graph_def if meta is not None else None
    if clear_devices and graph_def is not None:
        for node in graph_def.node:
            node.device = ""
    with tf.Graph().as_default(), tf.Session() as session:
        if input_saved_model_dir:
            tf.saved_model.loader.load(session, list(saved_model_tags or ()), input_saved_model_dir)
            graph_def = session.graph.as_graph_def()
            if clear_devices:
                for node in graph_def.node:
                    node.device = ""
        elif meta is not None:
            saver = tf.train.import_meta_graph(meta, clear_devices=clear_devices)
            if saver is None:
                _restored(session, None, str(input_checkpoint))
            else:
                saver.restore(session, str(input_checkpoint))
        else:
            tf.import_graph_def(graph_def, name="")
            _restored(session, input_saver_def, str(input_checkpoint))
        for name in _names(initializer_nodes):
            session.run(session.graph.get_operation_by_name(node_name(name)))
        frozen = tf.graph_util.convert_variables_to_constants(
            session,
            graph_def,
            [node_name(name) for name in _names(output_node_names)],
            variable_names_whitelist=_names(variable_names_whitelist) or None,
            variable_names_blacklist=_names(variable_names_blacklist) or None,
        )
    if output_graph:
        with tf.gfile.GFile(output_graph, "wb") as file:
            file.write(frozen.SerializeToString())
    return frozen


def freeze_graph(
    input_graph: str,
    input_saver: str,
    input_binary: bool,
    input_checkpoint: str,
    output_node_names: str,
    restore_op_name: Any,
    filename_tensor_name: Any,
    output_graph: str,
    clear_devices: bool,
    initializer_nodes: str,
    variable_names_whitelist: str = "",
    variable_names_blacklist: str = "",
    input_meta_graph: str | None = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: str = "serve",
    checkpoint_version: int = 2,
) -> Any:
    """:func:`freeze_graph_with_def_protos` of files.

    Args:
        input_graph: file of the GraphDef, unless a MetaGraph or a SavedModel is given.
        input_saver: file of the SaverDef, or empty.
        input_binary: has no effect: whether a file is text is seen from it.
        input_meta_graph: file of a MetaGraph.
        saved_model_tags: tags, separated by commas.
    """
    del input_binary
    graph_def = read_message(input_graph, tf.GraphDef, "a GraphDef") if input_graph else None
    saver_def = read_message(input_saver, training_pb2.SaverDef, "a SaverDef") if input_saver else None
    meta = read_message(input_meta_graph, tf.MetaGraphDef, "a MetaGraphDef") if input_meta_graph else None
    return freeze_graph_with_def_protos(
        graph_def,
        saver_def,
        input_checkpoint,
        output_node_names,
        restore_op_name,
        filename_tensor_name,
        output_graph,
        clear_devices,
        initializer_nodes,
        variable_names_whitelist,
        variable_names_blacklist,
        meta,
        input_saved_model_dir,
        _names(saved_model_tags),
        checkpoint_version,
    )
