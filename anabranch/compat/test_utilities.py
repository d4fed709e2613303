"""Helpers of ``tensorflow.python.framework.test_util`` that TensorFlow's own tests, and tests like them, use."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph import collections


def assert_ops_in_graph(expected_ops: dict[str, str], graph: Any) -> dict[str, Any]:
    """Check that a graph has ops of given names and types, and return their nodes."""
    nodes = {node.name: node for node in graph.as_graph_def().node if node.name in expected_ops}
    wrong = {name: kind for name, kind in expected_ops.items() if name not in nodes or nodes[name].op != kind}
    if wrong:
        raise ValueError(
            errors.message(f"a graph without {wrong}", f"ops {expected_ops}", "look at graph.as_graph_def()")
        )
    return nodes


def run_deprecated_v1(description: Any = None) -> Any:
    """Decorator of tests that asks for graphs: there is nothing else here."""
    return description if callable(description) else lambda test: test


run_v1_only = run_deprecated_v1


run_in_graph_and_eager_modes = tf.contrib.eager.run_test_in_graph_and_eager_modes
run_all_in_graph_and_eager_modes = tf.contrib.eager.run_all_tests_in_graph_and_eager_modes
IsolateTest = tf.contrib.eager.IsolateTest
run_in_graph_and_eager_mode = run_in_graph_and_eager_modes


# --------------------------------------------------------------------------------------------------- tests of the age
def device(use_gpu: bool) -> Any:
    """Context in which operations are on a GPU, if one is wanted and there, else on the CPU."""
    return tf.device(tf.test.gpu_device_name() if use_gpu and tf.test.is_gpu_available() else "/device:CPU:0")


def CudaSupportsHalfMatMulAndConv() -> bool:
    """Whether GPUs multiply 16-bit floats: all that XLA knows do."""
    return bool(tf.test.is_gpu_available())


def NCHWToNHWC(input_tensor: Any) -> Any:
    """A tensor, or a shape, with its channels moved from dimension 1 to the end."""
    if not isinstance(input_tensor, tf.Tensor):
        return [input_tensor[0], *input_tensor[2:], input_tensor[1]]
    rank = input_tensor.shape.ndims
    return tf.transpose(input_tensor, [0, *range(2, rank), 1])


def NHWCToNCHW_VECT_C(input_shape_or_tensor: Any) -> Any:
    """A tensor, or a shape, with its channels moved to dimension 1 and four of them kept at the end.

    Raises:
        ValueError: the number of channels is not a multiple of 4.
    """
    is_tensor = isinstance(input_shape_or_tensor, tf.Tensor)
    sizes = input_shape_or_tensor.shape.as_list() if is_tensor else list(input_shape_or_tensor)
    if sizes[-1] % 4:
        raise ValueError(
            "Last dimension of input must be evenly divisible by 4 to convert to NCHW_VECT_C.\n"
            + errors.message(f"{sizes[-1]} channels", "a multiple of 4", "tf.pad(x, ...)")
        )
    split = [*sizes[:-1], sizes[-1] // 4, 4]
    order = [0, len(split) - 2, *range(1, len(split) - 2), len(split) - 1]
    if not is_tensor:
        return [split[axis] for axis in order]
    return tf.transpose(tf.reshape(input_shape_or_tensor, split), order)


def NCHW_VECT_CToNHWC(input_shape_or_tensor: Any) -> Any:
    """A tensor, or a shape, with channels in groups of four, with all its channels at the end.

    Raises:
        ValueError: the last dimension is not 4.
    """
    is_tensor = isinstance(input_shape_or_tensor, tf.Tensor)
    sizes = input_shape_or_tensor.shape.as_list() if is_tensor else list(input_shape_or_tensor)
    if sizes[-1] != 4:
        raise ValueError(
            "Last dimension of NCHW_VECT_C must be 4.\n"
            + errors.message(f"a last dimension of {sizes[-1]}", "4", "tf.reshape(x, [..., 4])")
        )
    joined = [sizes[0], *sizes[2:-1], sizes[1] * 4]
    if not is_tensor:
        return joined
    order = [0, *range(2, len(sizes) - 1), 1, len(sizes) - 1]
    return tf.reshape(tf.transpose(input_shape_or_tensor, order), joined)


IsGoogleCudaEnabled = tf.test.is_built_with_cuda


def get_node_def_from_graph(node_name: str, graph_def: Any) -> Any:
    """The node of a name in a graph definition; None if there is none."""
    return next((node for node in graph_def.node if node.name == node_name), None)


def set_producer_version(graph: Any, producer_version: int) -> None:
    """Make a graph one that a program of a given version would have written."""
    versions = tf.GraphDef()
    versions.versions.producer = producer_version
    with graph.as_default():
        tf.import_graph_def(versions, name="")


def _assert_equal(tester: Any, one: Any, other: Any) -> None:
    tester._baseAssertEqual(one, other)


def assert_meta_graph_protos_equal(tester: Any, a: Any, b: Any) -> None:
    """Check in a test case that two MetaGraphDefs say the same, whatever the order of their nodes.

    Both are emptied.
    """
    _assert_equal(tester, set(a.collection_def), set(b.collection_def))
    for key in a.collection_def:
        kind = collections.proto_functions(key)
        ours, theirs = a.collection_def[key], b.collection_def[key]
        if kind is None or kind.proto_type is None:
            _assert_equal(tester, ours, theirs)
            continue
        _assert_equal(tester, len(ours.bytes_list.value), len(theirs.bytes_list.value))
        for one, other in zip(ours.bytes_list.value, theirs.bytes_list.value, strict=True):
            tester.assertProtoEquals(kind.proto_type.FromString(one), kind.proto_type.FromString(other))
    tf.test.assert_equal_graph_def(a.graph_def, b.graph_def, checkpoint_v2=True)
    tester.assertProtoEquals(a.graph_def.versions, b.graph_def.versions)
    for message in (a, b):
        message.ClearField("collection_def")
        message.ClearField("graph_def")
    tester.assertProtoEquals(a, b)
