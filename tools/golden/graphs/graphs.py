"""Write graphs as TensorFlow writes them, and check that TensorFlow reads ours.

Run with an interpreter that has TensorFlow: `python tools/golden/graphs/graphs.py write tests/golden/graphs` writes one
text GraphDef per case, and `python tools/golden/graphs/graphs.py read FILE...` imports serialised GraphDefs and prints,
for each, the names and types of its nodes, or the error.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf
from google.protobuf import text_format

tf.disable_eager_execution()
tf.disable_control_flow_v2()

DTYPES = [
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128", "string", "qint8", "quint8", "qint16", "quint16", "qint32",
]  # fmt: skip


def constants():
    """A scalar, a vector and a filled matrix of each dtype."""
    for name in DTYPES:
        dtype = tf.as_dtype(name)
        one = b"\x00\xff" if name == "string" else True if name == "bool" else (1,) if name.startswith("q") else 1
        two = b"" if name == "string" else False if name == "bool" else (2,) if name.startswith("q") else 2
        if name.startswith("q"):
            record = np.dtype(dtype.as_numpy_dtype)
            tf.constant(np.array([one, two], record), dtype, name=f"{name}_vector")
            continue
        tf.constant(one, dtype, name=f"{name}_scalar")
        tf.constant([one, two], dtype, name=f"{name}_vector")
        tf.constant(two, dtype, shape=[20, 30], name=f"{name}_filled")
        tf.constant([], dtype, name=f"{name}_empty")


def placeholders():
    """Known, partly known and unknown shapes."""
    tf.placeholder(tf.float32, [None, 784], name="x")
    tf.placeholder(tf.int64, [], name="scalar")
    tf.placeholder(tf.string, name="unknown")
    tf.placeholder_with_default([1.0, 2.0], [None], name="default")


def arithmetic():
    """Names, scopes and attributes of common ops."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.name_scope("layer"):
        y = tf.matmul(x, tf.ones([3, 2]), transpose_b=False, name="product") + 1.0
        z = tf.nn.relu(-y)
    with tf.name_scope("layer"):
        s = tf.reduce_sum(z * 2.0, axis=1, keepdims=True)
    parts = tf.split(s, 1, axis=0, name="parts")
    tf.concat(parts + [s], axis=1, name="joined")
    tf.cast(tf.identity(s), tf.int32, name="cast")
    tf.reshape(x, [-1, 1], name="reshaped")


def variables():
    """Ref variables and resource variables."""
    v = tf.get_variable("v", [2, 3], initializer=tf.zeros_initializer(), use_resource=False)
    w = tf.get_variable("w", [2], initializer=tf.ones_initializer(), use_resource=True)
    tf.assign_add(v, tf.ones([2, 3]), name="update")
    w.assign_add([1.0, 2.0])
    tf.global_variables_initializer()


def controls():
    """Control inputs, and groups."""
    b = tf.constant(1.0, name="b")
    a = tf.constant(2.0, name="a")
    with tf.control_dependencies([b, a]):
        c = tf.identity(a, name="c")
        d = tf.identity(c, name="d")
        tf.no_op(name="unsorted")
    with tf.control_dependencies([d.op]):
        tf.no_op(name="done")
    tf.group(c, d, name="both")


def devices():
    """Devices and colocation."""
    with tf.device("/job:ps/task:1"):
        a = tf.constant(1.0, name="a")
        with tf.device("/cpu:0"):
            b = tf.constant(1.0, name="b")
    with tf.colocate_with(a.op):
        c = tf.identity(b, name="c")
    with tf.colocate_with(c.op):
        tf.identity(c, name="d")


def lists():
    """List attributes, and undeclared ones of each kind."""
    tf.identity_n([tf.constant(1.0), tf.constant(2), tf.constant("s")], name="three")
    value = tf.AttrValue
    undeclared = {
        "_int": value(i=-3),
        "_float": value(f=0.5),
        "_bool": value(b=True),
        "_bytes": value(s=b"\xff\x00"),
        "_string": value(s="é".encode()),
        "_type": value(type=tf.int8.as_datatype_enum),
        "_shape": value(shape=tf.TensorShape([None, 2]).as_proto()),
        "_no_rank": value(shape=tf.TensorShape(None).as_proto()),
        "_tensor": value(tensor=tf.make_tensor_proto([1, 2, 3])),
        "_empty": value(list=value.ListValue()),
        "_ints": value(list=value.ListValue(i=[1, 2])),
        "_floats": value(list=value.ListValue(f=[0.1, 2])),
        "_bools": value(list=value.ListValue(b=[True, False])),
        "_strings": value(list=value.ListValue(s=[b"a", b"b"])),
        "_types": value(list=value.ListValue(type=[1, 101])),
        "_shapes": value(list=value.ListValue(shape=[tf.TensorShape([1]).as_proto(), tf.TensorShape(None).as_proto()])),
    }
    with tf.get_default_graph()._attr_scope(undeclared):
        tf.identity(tf.constant(1.0, name="inner"), name="undeclared")


def loops():
    """A loop as ops that form a cycle."""
    tf.while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, x * 2.0), [0, tf.constant([1.0, 2.0])], name="loop")
    tf.cond(tf.constant(True), lambda: tf.constant(1.0), lambda: tf.constant(2.0), name="cond")


CASES = [constants, placeholders, arithmetic, variables, controls, devices, lists, loops]


def write(folder):
    """Write each case as text."""
    os.makedirs(folder, exist_ok=True)
    for case in CASES:
        with tf.Graph().as_default() as graph:
            case()
            proto = graph.as_graph_def()
            proto.versions.producer = 1395
            shaped = graph.as_graph_def(add_shapes=True)
        proto.ClearField("debug_info")
        with open(os.path.join(folder, f"{case.__name__}.pbtxt"), "w") as file:
            file.write(text_format.MessageToString(proto, as_utf8=False))
        shapes = {
            node.name: [
                None if shape.unknown_rank else [dim.size for dim in shape.dim]
                for shape in node.attr["_output_shapes"].list.shape
            ]
            for node in shaped.node
        }
        with open(os.path.join(folder, f"{case.__name__}.shapes.json"), "w") as file:
            json.dump(shapes, file, indent=0)
            file.write("\n")


def read(paths):
    """Import each file and print what came of it."""
    for path in paths:
        proto = tf.GraphDef()
        with open(path, "rb") as file:
            proto.ParseFromString(file.read())
        with tf.Graph().as_default() as graph:
            try:
                tf.import_graph_def(proto, name="")
            except Exception as problem:
                print(f"{path}: {type(problem).__name__}: {problem}")
                continue
            print(f"{path}: {' '.join(f'{op.name}={op.type}' for op in graph.get_operations())}")


if __name__ == "__main__":
    write(sys.argv[2]) if sys.argv[1] == "write" else read(sys.argv[2:])
