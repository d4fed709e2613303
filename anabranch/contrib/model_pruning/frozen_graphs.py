"""Frozen graphs without masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.model_pruning.strip_pruning_vars_fn")
def strip_pruning_vars_fn(input_graph_def: Any, output_node_names: Sequence[str]) -> Any:
    """A frozen graph in which constants stand for the products of weights and masks.

    Args:
        input_graph_def: a GraphDef whose variables are constants, as of
            ``tf.graph_util.convert_variables_to_constants``.
        output_node_names: names of the operations to keep, with what they need.

    Returns:
        A GraphDef without masks.
    """
    products = [node.name for node in input_graph_def.node if "masked_weight" in node.name]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(input_graph_def, name="")
        with tf.Session(graph=graph) as session:
            values = session.run({name: f"{name}:0" for name in products})
    stripped = type(input_graph_def)()
    stripped.versions.CopyFrom(input_graph_def.versions)
    stripped.library.CopyFrom(input_graph_def.library)
    for node in input_graph_def.node:
        added = stripped.node.add()
        if node.name not in values:
            added.CopyFrom(node)
            continue
        added.name, added.op, added.device = node.name, "Const", node.device
        added.attr["dtype"].CopyFrom(node.attr["T"])
        added.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values[node.name]))
    return tf.graph_util.extract_sub_graph(stripped, list(output_node_names))


@public("contrib.model_pruning.graph_def_from_checkpoint")
def graph_def_from_checkpoint(checkpoint_dir: str, output_node_names: Sequence[str]) -> Any:
    """A frozen GraphDef of the newest checkpoint of a folder, from its MetaGraph.

    Args:
        checkpoint_dir: the folder.
        output_node_names: names of the operations to keep, with what they need.

    Raises:
        ValueError: there is no checkpoint.
    """
    path = tf.train.latest_checkpoint(checkpoint_dir)
    if path is None:
        raise ValueError(
            f"Could not find a checkpoint at: {checkpoint_dir}.\n"
            + errors.message(f"{checkpoint_dir!r}", "a folder with a file `checkpoint`", "saver.save(session, path)")
        )
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(path + ".meta", clear_devices=True)
        with tf.Session(graph=graph) as session:
            saver.restore(session, path)
            return tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), list(output_node_names))
