"""Surgery on GraphDefs."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.core.graph.verify import verify_graph
from anabranch.core.graphdef import graph_util
from anabranch.core.protos import graph_pb2


@pytest.fixture
def g():
    with tf.Graph().as_default() as graph:
        yield graph


def names(proto):
    return [node.name for node in proto.node]


def chain(g):
    a = tf.constant(1.0, name="a")
    b = tf.identity(a, name="b")
    with tf.control_dependencies([tf.no_op(name="n")]):
        c = tf.identity(b, name="c")
    build("AddV2", c, a, name="d")
    build("IdentityN", [b, c], name="pair")
    tf.constant(2.0, name="other")
    return g.as_graph_def()


# ---------------------------------------------------------------------------------------------------- extract_sub_graph
def test_a_part_holds_what_it_needs_in_order(g):
    proto = chain(g)
    proto.library.function.add().signature.name = "f"
    part = tf.graph_util.extract_sub_graph(proto, ["c"])
    assert names(part) == ["a", "b", "n", "c"]
    assert part.library == proto.library
    assert part.versions == proto.versions
    assert names(tf.graph_util.extract_sub_graph(proto, ["other", "b"])) == ["a", "b", "other"]
    assert names(tf.graph_util.extract_sub_graph(proto, [])) == []
    assert len(proto.node) == 7


def test_a_part_of_what_is_not_there_is_refused(g):
    proto = chain(g)
    with pytest.raises(AssertionError, match=r"nope is not in graph\nGiven: dest_nodes with \['nope'\]"):
        tf.graph_util.extract_sub_graph(proto, ["a", "nope"])
    with pytest.raises(TypeError, match="dest_nodes must be a list"):
        tf.graph_util.extract_sub_graph(proto, "a")
    with pytest.raises(TypeError, match=r"graph_def must be a graph_pb2\.GraphDef proto"):
        tf.graph_util.extract_sub_graph(g, ["a"])


# ------------------------------------------------------------------------------------------------ remove_training_nodes
def test_pass_throughs_are_removed_but_for_control_edges(g):
    a = tf.constant(1.0, name="a")
    b = tf.identity(tf.identity(a, name="b1"), name="b2")
    kept = tf.identity(b, name="kept")
    with tf.control_dependencies([tf.identity(b, name="gate")]):
        c = build("AddV2", kept, b, name="c")
    tf.identity(c, name="output")
    proto = g.as_graph_def()
    before = proto.SerializeToString(deterministic=True)
    found = tf.graph_util.remove_training_nodes(proto, protected_nodes=["kept", "output"])
    assert names(found) == ["a", "kept", "gate", "c", "output"]
    inputs = {node.name: list(node.input) for node in found.node}
    assert inputs == {"a": [], "kept": ["a"], "gate": ["a"], "c": ["kept", "a", "^gate"], "output": ["c"]}
    assert proto.SerializeToString(deterministic=True) == before
    with tf.Graph().as_default() as again:
        tf.import_graph_def(found, name="")
    verify_graph(again)
    assert names(tf.graph_util.remove_training_nodes(proto)) == ["a", "gate", "c"]


def test_an_identity_of_a_second_output_and_of_a_check_is_removed():
    proto = text_format.Parse(
        """
        node { name: "x" op: "IdentityN" }
        node { name: "i" op: "Identity" input: "x:1" }
        node { name: "check" op: "CheckNumerics" input: "i:0" }
        node { name: "y" op: "Neg" input: "check" }
        """,
        graph_pb2.GraphDef(),
    )
    found = tf.graph_util.remove_training_nodes(proto)
    assert [(node.name, list(node.input)) for node in found.node] == [("x", []), ("y", ["x:1"])]


# --------------------------------------------------------------------------------------------------------------- others
def test_shapes_of_node_inputs(g):
    tf.placeholder(tf.float32, [None, 3], name="x")
    build("IdentityN", [tf.constant(1.0), tf.constant([1, 2])], name="pair")
    assert tf.graph_util.tensor_shape_from_node_def_name(g, "x").as_list() == [None, 3]
    assert tf.graph_util.tensor_shape_from_node_def_name(g, "pair:1").as_list() == [2]


def test_what_must_run_on_the_host(g):
    assert tf.graph_util.must_run_on_cpu(tf.constant("text").op)
    assert tf.graph_util.must_run_on_cpu(tf.constant(1).op.node_def)
    assert not tf.graph_util.must_run_on_cpu(tf.constant(1.0).op)
    v = build("VariableV2", shape=[], dtype="float32").op
    assert tf.graph_util.must_run_on_cpu(v, pin_variables_on_cpu=True)
    assert not tf.graph_util.must_run_on_cpu(v)


def test_node_names():
    assert [graph_util.node_name(text) for text in ("a/b", "a/b:1", "^a/b")] == ["a/b"] * 3


# --------------------------------------------------------------------------------------- convert_variables_to_constants
class Values:
    """A session whose variables have given values, by the name of what reads them."""

    def __init__(self, graph, values):
        self.graph = graph
        self.values = values
        self.asked = []

    def run(self, fetches):
        self.asked = [tensor.name for tensor in fetches]
        return [self.values[tensor.name] for tensor in fetches]


def with_variables(g):
    ref = build("VariableV2", shape=[2], dtype="float32", name="ref")
    read_ref = tf.identity(ref, name="ref/read")
    build("Assign", ref, [0.0, 0.0], name="ref/Assign")
    handle = build("VarHandleOp", shape=[3, 2], dtype="float32", shared_name="table", name="table")
    build("AssignVariableOp", handle, tf.ones([3, 2]), name="table/Assign")
    read = build("ReadVariableOp", handle, dtype="float32", name="table/Read/ReadVariableOp")
    rows = build("ResourceGather", handle, [2, 0], dtype="float32", name="rows")
    build("AddV2", build("AddV2", read_ref, rows, name="sum"), tf.identity(read[0], name="first"), name="y")
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    return Values(g, {"ref:0": np.float32([10, 20]), "table/Read/ReadVariableOp:0": table})


def test_variables_become_constants_of_their_values(g):
    session = with_variables(g)
    found = tf.graph_util.convert_variables_to_constants(session, g.as_graph_def(), ["y"])
    assert session.asked == ["ref:0", "table/Read/ReadVariableOp:0"]
    node = {item.name: item for item in found.node}
    types = {name: item.op for name, item in node.items()}
    assert types["ref"] == types["table"] == types["rows/axis"] == "Const"
    assert (types["ref/read"], types["table/Read/ReadVariableOp"], types["rows"]) == (
        "Identity",
        "Identity",
        "GatherV2",
    )
    assert not {"ref/Assign", "table/Assign"} & node.keys()
    assert list(node["rows"].input) == ["table", "rows/indices", "rows/axis"]
    with tf.Graph().as_default() as again:
        [ref, table, rows, y] = tf.import_graph_def(found, return_elements=["ref", "table", "rows:0", "y:0"])
    verify_graph(again)
    np.testing.assert_array_equal(tf.make_ndarray(ref.get_attr("value")), [10, 20])
    np.testing.assert_array_equal(tf.make_ndarray(table.get_attr("value")), [[0, 1], [2, 3], [4, 5]])
    assert rows.shape.as_list() == y.shape.as_list() == [2, 2]


def test_variables_can_be_left_out(g):
    session = with_variables(g)
    proto = g.as_graph_def()
    convert = tf.graph_util.convert_variables_to_constants
    for options in ({"variable_names_whitelist": ["ref"]}, {"variable_names_blacklist": ["table"]}):
        found = {node.name: node.op for node in convert(session, proto, ["y"], **options).node}
        assert (found["ref"], found["table"], found["rows"]) == ("Const", "VarHandleOp", "ResourceGather")
        assert session.asked == ["ref:0"]


def test_what_cannot_become_a_constant_is_refused(g):
    session = with_variables(g)
    proto = g.as_graph_def()
    with pytest.raises(
        NotImplementedError, match="node 'table/Assign' of type 'AssignVariableOp', which takes the variable"
    ):
        tf.graph_util.convert_variables_to_constants(session, proto, ["table/Assign"])
    with pytest.raises(TypeError, match="output_node_names must be a list"):
        tf.graph_util.convert_variables_to_constants(session, proto, "y")
    build("ReadVariableOp", build("VarHandleOp", shape=[], dtype="float32", name="lone"), dtype="float32", name="r")
    lone = g.as_graph_def()
    with tf.Graph().as_default() as other:
        build("VarHandleOp", shape=[], dtype="float32", name="lone")
    with pytest.raises(ValueError, match="variable 'lone', which the session's graph reads nowhere"):
        tf.graph_util.convert_variables_to_constants(Values(other, {}), lone, ["r"])


# ------------------------------------------------------------------------------------------------------------ functions
@pytest.mark.parametrize("resource", [False, True])
def test_variables_in_bodies_become_constants(resource):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [2], name="x")
        table = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="table", use_resource=resource)
        w = tf.Variable([2.0, 3.0], name="w", use_resource=resource)

        def inner(y):
            return tf.cond(y[0] > 3.0, lambda: y * w, lambda: y + tf.gather(table, 1))

        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(y) + w), (0, x))
        y = tf.identity(y, name="y")
        session.run(tf.global_variables_initializer())
        wanted = session.run(y, {x: [1.0, 2.0]})
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    used = {node.op for node in frozen.node}
    used |= {node.op for function in frozen.library.function for node in function.node_def}
    assert not used & {"VariableV2", "VarHandleOp"}
    with tf.Graph().as_default() as again, tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        verify_graph(again)
        assert session.run("y:0", {"x:0": [1.0, 2.0]}).tolist() == wanted.tolist()


@pytest.mark.parametrize("resource", [False, True])
def test_a_variable_that_a_body_writes_stays_one(resource):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        w = tf.Variable(2.0, name="w", use_resource=resource)
        y = tf.cond(tf.constant(True), lambda: tf.identity(tf.assign_add(w, 1.0)), lambda: w + 0.0)
        tf.identity(y, name="y")
        session.run(w.initializer)
        with pytest.raises(NotImplementedError, match=r"takes the variable '\w+' itself(.|\n)*blacklist"):
            tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
        kept = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["y"], variable_names_blacklist=["w"]
        )
        assert {node.op for node in kept.node} >= {"VarHandleOp" if resource else "VariableV2", "If"}
