"""``tensorflow.python.tools.optimize_for_inference_lib``: a frozen graph without what only training needs.

Batch normalisations after convolutions become factors of the filters and a bias. Resizing and padding before a
convolution stay operations of their own: the compiler fuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.compat.tools.strip_unused_lib import strip_unused
from anabranch.core import errors
from anabranch.core.graphdef.graph_util import node_name as node_name_from_input

INPUT_ORDER = {
    "BatchNormWithGlobalNormalization": ["conv_op", "mean_op", "var_op", "beta_op", "gamma_op"],
    "FusedBatchNorm": ["conv_op", "gamma_op", "beta_op", "mean_op", "var_op"],
    "FusedBatchNormV2": ["conv_op", "gamma_op", "beta_op", "mean_op", "var_op"],
    "FusedBatchNormV3": ["conv_op", "gamma_op", "beta_op", "mean_op", "var_op"],
}
EPSILON_ATTR = {
    "BatchNormWithGlobalNormalization": "variance_epsilon",
    "FusedBatchNorm": "epsilon",
    "FusedBatchNormV2": "epsilon",
    "FusedBatchNormV3": "epsilon",
}


def optimize_for_inference(
    input_graph_def: Any,
    input_node_names: Sequence[str],
    output_node_names: Sequence[str],
    placeholder_type_enum: Any,
    toco_compatible: bool = False,
) -> Any:
    """A GraphDef for inference: stripped, without nodes of training, batch normalisations folded into convolutions.

    Args:
        input_graph_def: a graph with constants for variables.
        input_node_names: nodes to become placeholders.
        output_node_names: nodes to keep.
        placeholder_type_enum: the placeholders' dtype as a number, or a list of one for each.
        toco_compatible: has no effect.
    """
    del toco_compatible
    ensure_graph_is_valid(input_graph_def)
    optimized = strip_unused(input_graph_def, input_node_names, output_node_names, placeholder_type_enum)
    optimized = tf.graph_util.remove_training_nodes(optimized, list(output_node_names))
    optimized = fold_batch_norms(optimized)
    ensure_graph_is_valid(optimized)
    return optimized


def ensure_graph_is_valid(graph_def: Any) -> None:
    """Refuse a graph with two nodes of one name, or with inputs that are not there: ValueError."""
    names: set[str] = set()
    for node in graph_def.node:
        if node.name in names:
            raise ValueError(
                errors.message(f"two nodes named {node.name!r}", "nodes of different names", "rename one of them")
            )
        names.add(node.name)
    for node in graph_def.node:
        for given in node.input:
            if node_name_from_input(given) not in names:
                raise ValueError(
                    errors.message(f"input {given!r} of node {node.name!r}", "a node of the graph", "add that node")
                )


def node_from_map(node_map: dict[str, Any], name: str) -> Any:
    """The node behind an input's name; ValueError if there is none."""
    found = node_map.get(node_name_from_input(name))
    if found is None:
        raise ValueError(f"No node named '{node_name_from_input(name)}' found in map.")
    return found


def values_from_const(node_def: Any) -> np.ndarray:
    """The value of a constant; ValueError for another node."""
    if node_def.op != "Const":
        raise ValueError(f"Node named '{node_def.name}' should be a Const op for values_from_const.")
    return tf.contrib.util.make_ndarray(node_def.attr["value"].tensor)


def _constant(name: str, like: Any, value: np.ndarray) -> Any:
    node = type(like)(op="Const", name=name)
    node.attr["dtype"].CopyFrom(like.attr["dtype"])
    tensor = tf.contrib.util.make_tensor_proto(value, value.dtype.type, value.shape)
    node.attr["value"].tensor.CopyFrom(tensor)
    return node


def _scale_after_normalization(node: Any) -> bool:
    return bool(node.attr["scale_after_normalization"].b) if node.op == "BatchNormWithGlobalNormalization" else True


def fold_batch_norms(input_graph_def: Any) -> Any:
    """A GraphDef in which batch normalisations of convolutions, with constant operands, are part of the filters."""
    nodes = {node.name: node for node in input_graph_def.node}
    uses: dict[str, int] = {}
    for node in input_graph_def.node:
        for given in node.input:
            uses[node_name_from_input(given)] = uses.get(node_name_from_input(given), 0) + 1
    replaced: dict[str, list[Any]] = {}
    for node in input_graph_def.node:
        if node.op not in INPUT_ORDER or node.attr["is_training"].b:
            continue
        operands = dict(zip(INPUT_ORDER[node.op], [node_from_map(nodes, one) for one in node.input], strict=False))
        convolution = operands["conv_op"]
        if convolution.op not in ("Conv2D", "DepthwiseConv2dNative") or uses[convolution.name] != 1:
            continue
        weights = node_from_map(nodes, convolution.input[1])
        constants = [operands[key] for key in ("mean_op", "var_op", "beta_op", "gamma_op")]
        if any(one.op != "Const" for one in (weights, *constants)):
            continue
        mean, variance, beta, gamma = (values_from_const(one) for one in constants)
        epsilon = node.attr[EPSILON_ATTR[node.op]].f
        scale = 1.0 / np.sqrt(variance.astype(np.float64) + epsilon)
        if _scale_after_normalization(node):
            scale = scale * gamma
        filters = values_from_const(weights)
        by_channel = scale if convolution.op == "Conv2D" else scale.reshape(filters.shape[2:])
        scaled = _constant(f"{convolution.name}_weights", weights, (filters * by_channel).astype(filters.dtype))
        offset = _constant(f"{convolution.name}_bn_offset", weights, (beta - mean * scale).astype(filters.dtype))
        product = type(node)()
        product.CopyFrom(convolution)
        product.input[1] = scaled.name
        result = type(node)(op="BiasAdd", name=node.name, input=[product.name, offset.name])
        result.attr["T"].CopyFrom(convolution.attr["T"])
        result.attr["data_format"].CopyFrom(convolution.attr["data_format"])
        if not result.attr["data_format"].s:
            result.attr["data_format"].s = b"NHWC"
        replaced[convolution.name] = [scaled, product]
        replaced[node.name] = [offset, result]
    folded = tf.GraphDef()
    for node in input_graph_def.node:
        folded.node.extend(replaced.get(node.name, [node]))
    folded.library.CopyFrom(input_graph_def.library)
    folded.versions.CopyFrom(input_graph_def.versions)
    needed = {node_name_from_input(given) for node in folded.node for given in node.input}
    gone = {name for name in uses if name not in needed}  # constants that only the normalisations read
    kept = [node for node in folded.node if not (node.op == "Const" and node.name in gone)]
    del folded.node[:]
    folded.node.extend(kept)
    return folded
