"""``tensorflow.python.tools.strip_unused_lib``: a graph cut down to what lies between some nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graphdef.graph_util import node_name
from anabranch.train.graph_files import read_message


def strip_unused(
    input_graph_def: Any, input_node_names: Sequence[str], output_node_names: Sequence[str], placeholder_type_enum: Any
) -> Any:
    """A GraphDef with placeholders for some nodes, cut down to what others need.

    Args:
        input_graph_def: the graph; it stays as it is.
        input_node_names: nodes to become placeholders.
        output_node_names: nodes to keep.
        placeholder_type_enum: the placeholders' dtype as a number, or a list of one for each.

    Raises:
        KeyError: there is no such input node.
    """
    for name in input_node_names:
        if ":" in name:
            raise ValueError(
                f"Name '{name}' appears to refer to a Tensor, not an Operation.\n"
                + errors.message(f"the name {name!r}", "the name of a node", node_name(name))
            )
    many = isinstance(placeholder_type_enum, (list, tuple))
    kinds = list(placeholder_type_enum) if many else [placeholder_type_enum] * len(input_node_names)
    missing = set(input_node_names)
    changed = tf.GraphDef()
    for node in input_graph_def.node:
        if node.name not in missing:
            changed.node.add().CopyFrom(node)
            continue
        missing.discard(node.name)
        stand_in = changed.node.add(op="Placeholder", name=node.name)
        stand_in.attr["dtype"].type = int(kinds[list(input_node_names).index(node.name)])
        if "_output_shapes" in node.attr:
            stand_in.attr["_output_shapes"].CopyFrom(node.attr["_output_shapes"])
        if "shape" in node.attr:
            stand_in.attr["shape"].CopyFrom(node.attr["shape"])
    if missing:
        raise KeyError(f"The following input nodes were not found: {sorted(missing)}")
    stripped = tf.graph_util.extract_sub_graph(changed, list(output_node_names))
    stripped.library.CopyFrom(input_graph_def.library)
    stripped.versions.CopyFrom(input_graph_def.versions)
    return stripped


def strip_unused_from_files(
    input_graph: str,
    input_binary: bool,
    output_graph: str,
    output_binary: bool,
    input_node_names: str,
    output_node_names: str,
    placeholder_type_enum: Any,
) -> None:
    """:func:`strip_unused` of a file, written to another one; names are separated by commas."""
    del input_binary  # whether a file is text is seen from it
    graph_def = read_message(input_graph, tf.GraphDef, "a GraphDef")
    stripped = strip_unused(graph_def, input_node_names.split(","), output_node_names.split(","), placeholder_type_enum)
    with tf.gfile.GFile(output_graph, "wb" if output_binary else "w") as file:
        file.write(stripped.SerializeToString() if output_binary else str(stripped))
