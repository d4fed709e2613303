"""GraphDefs: what TensorFlow wrote comes back as it was, and what this package writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import anabranch as tf
from anabranch.core.contract import attrs, opdef
from anabranch.core.contract.attrs import NamedAttrs
from anabranch.core.graph.build import build
from anabranch.core.graph.verify import verify_graph
from anabranch.core.graphdef import attr_values, function_def, graph_def
from anabranch.core.protos import graph_pb2

FOLDER = Path(__file__).parents[2] / "golden" / "graphs"
CASES = sorted(path.stem for path in FOLDER.glob("*.pbtxt"))


@pytest.fixture
def g():
    with tf.Graph().as_default() as graph:
        yield graph


def golden(case):
    return text_format.Parse((FOLDER / f"{case}.pbtxt").read_text(), graph_pb2.GraphDef())


def imported(proto, **options):
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto, **{"name": "", **options})
    return graph


@pytest.mark.parametrize("case", CASES)
def test_what_tensorflow_wrote_is_written_again(case):
    proto = golden(case)
    graph = imported(proto)
    verify_graph(graph)
    again = graph.as_graph_def()
    assert {node.name: node for node in again.node} == {node.name: node for node in proto.node}
    if case != "loops":  # whose ops must be made in another order than TensorFlow lists them in
        assert again.SerializeToString(deterministic=True) == proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("case", CASES)
def test_shapes_are_as_tensorflow_infers_them(case):
    theirs = json.loads((FOLDER / f"{case}.shapes.json").read_text())
    checked = 0
    for node in imported(golden(case)).as_graph_def(add_shapes=True).node:
        listed = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else []
        ours = [None if shape.unknown_rank else [dim.size for dim in shape.dim] for shape in listed]
        if case != "loops":
            assert ours == theirs[node.name], node.name
        checked += 1
    assert checked == len(theirs)


def test_every_dtype_comes_back_with_its_values():
    graph = imported(golden("constants"))
    for op in graph.get_operations():
        value = op._attrs["value"]
        assert repr(tf.make_ndarray(op.get_attr("value")).tolist()) == repr(value.tolist())
        assert isinstance(value, np.ndarray)
        assert not value.flags.writeable
        kind = op.name.rpartition("_")[0]
        assert op.outputs[0].dtype.name == kind
        if op.name.endswith("_vector"):
            assert value.tolist()[0] in (1, b"\x00\xff")
            assert value.tolist()[1] in (2, b"", 0)
        if op.name.endswith("_filled"):
            assert value.shape == (20, 30)
            assert value.strides == (0, 0)


# ----------------------------------------------------------------------------------------------------- attribute values
SPECS = {
    "int": (-5, opdef.Int()),
    "float": (0.5, opdef.Float()),
    "bool": (True, opdef.Bool()),
    "text": ("é", opdef.String()),
    "bytes": (b"\xff", opdef.String()),
    "type": (tf.int8, opdef.Type()),
    "shape": ((None, 3), opdef.Shape()),
    "scalar": ((), opdef.Shape()),
    "no_rank": (None, opdef.Shape()),
    "func": (NamedAttrs("f", (("T", tf.float32), ("n", 3))), opdef.Func()),
    "ints": ((1, -2), opdef.List("int")),
    "floats": ((0.5, 1.0), opdef.List("float")),
    "bools": ((True, False), opdef.List("bool")),
    "strings": (("a", b"\xff"), opdef.List("string")),
    "types": ((tf.float32, tf.float32._as_ref), opdef.List("type")),
    "shapes": (((1, None), None, ()), opdef.List("shape")),
    "funcs": ((NamedAttrs("f"), NamedAttrs("g")), opdef.List("func")),
    "empty": ((), opdef.List("shape")),
}


@pytest.mark.parametrize("name", SPECS)
def test_stored_values_come_back_as_they_were(name):
    value, spec = SPECS[name]
    proto = attr_values.to_proto(value, spec)
    found = attr_values.from_proto(proto, spec)
    assert found == value
    assert type(found) is type(value)
    assert spec.convert(found, "x", "Op") == value
    assert attr_values.to_proto(attr_values.from_proto(proto)) == proto


def test_values_of_another_kind_are_refused():
    with pytest.raises(TypeError, match=r"Given: a value of kind int\nExpected: bool"):
        attr_values.from_proto(tf.AttrValue(i=1), opdef.Bool())
    with pytest.raises(TypeError, match=r"Given: no value\nExpected: bool"):
        attr_values.from_proto(tf.AttrValue(), opdef.Bool())
    with pytest.raises(TypeError, match=r"Given: a list of int\nExpected: list\(type\)"):
        attr_values.from_proto(tf.AttrValue(list=tf.AttrValue.ListValue(i=[1])), opdef.List("type"))
    with pytest.raises(ValueError, match="a list of i and f"):
        attr_values.from_proto(tf.AttrValue(list=tf.AttrValue.ListValue(i=[1], f=[1])))
    with pytest.raises(ValueError, match=r"the placeholder \$T as a value"):
        attr_values.from_proto(tf.AttrValue(placeholder="T"))
    with pytest.raises(TypeError, match=r"\{\} as the value of an attribute"):
        attr_values.to_proto({})
    shape = tf.AttrValue(shape=graph_pb2.AttrValue().shape)
    shape.shape.dim.add(size=-2)
    with pytest.raises(ValueError, match="the dimension -2"):
        attr_values.from_proto(shape, opdef.Shape())


def test_one_value_that_fills_a_shape_costs_one_value(g):
    x = tf.constant(1.5, shape=[1000, 1000])
    assert x.op._attrs["value"].strides == (0, 0)
    assert g.as_graph_def().ByteSize() < 100
    y = tf.constant([1.5] * 100)
    assert len(y.op.node_def.attr["value"].tensor.tensor_content) == 400
    huge = graph_pb2.AttrValue()
    huge.tensor.dtype = 1
    huge.tensor.float_val.append(1)
    huge.tensor.tensor_shape.dim.add(size=2**40)
    with pytest.raises(ValueError, match="a TensorProto that claims the shape"):
        attr_values.from_proto(huge)


# -------------------------------------------------------------------------------------------------------------- writing
def test_a_graph_with_its_nodes_attributes_and_controls(g):
    with g.device("/cpu:0"), g.attr_scope({"_x": 1}):
        a = tf.constant(1.0, name="a")
    b = tf.no_op(name="b")
    with g.control_dependencies([b, a]):
        tf.no_op(name="c")
    built = build("IdentityN", [a, tf.constant(1, name="d")], name="pair")
    build("AddV2", built[0], a, name="sum")
    node = {item.name: item for item in g.as_graph_def().node}
    assert node["a"].device == "/device:CPU:0"
    assert node["a"].attr["_x"].i == 1
    assert list(node["c"].input) == ["^a", "^b"]
    assert list(node["pair"].input) == ["a", "d"]
    assert list(node["sum"].input) == ["pair", "a"]
    assert a.op.node_def == node["a"]
    assert str(b) == 'name: "b"\nop: "NoOp"\n'
    assert g.as_graph_def().versions.producer == g.graph_def_versions.producer == 1395


def test_output_shapes_are_added_where_asked(g):
    tf.placeholder(tf.float32, [None, 2], name="x")
    tf.no_op(name="n")
    assert "_output_shapes" not in g.as_graph_def().node[0].attr
    node = {item.name: item for item in g.as_graph_def(add_shapes=True).node}
    assert [dim.size for dim in node["x"].attr["_output_shapes"].list.shape[0].dim] == [-1, 2]
    assert "_output_shapes" not in node["n"].attr


def test_signatures_say_what_contracts_say():
    proto = graph_def.op_def(opdef.lookup("Placeholder"))
    assert (proto.name, proto.is_stateful, [arg.type_attr for arg in proto.output_arg]) == (
        "Placeholder",
        False,
        ["dtype"],
    )
    shape = {attr.name: attr for attr in proto.attr}["shape"]
    assert (shape.type, shape.default_value.shape.unknown_rank) == ("shape", True)
    listed = graph_def.op_def(opdef.lookup("IdentityN"))
    assert (listed.attr[0].type, listed.attr[0].has_minimum, listed.attr[0].minimum) == ("list(type)", True, 1)
    assert listed.input_arg[0].type_list_attr == "T"
    assign = graph_def.op_def(opdef.lookup("Assign"))
    assert [arg.is_ref for arg in assign.input_arg] == [True, False]
    assert assign.output_arg[0].is_ref
    assert graph_def.op_def(opdef.lookup("ReadVariableOp")).is_stateful


# -------------------------------------------------------------------------------------------------------- nested bodies
def call_op():
    """An op that owns a body; the package's own ones come with the control flow families."""
    if opdef.find("AnabranchTestCall") is None:
        opdef.define(
            "AnabranchTestCall",
            "Calls a body.",
            signature="args: [Tin] -> output: [Tout]",
            attrs={"Tin": opdef.List("type"), "Tout": opdef.List("type"), "f": opdef.Func()},
            effect=opdef.BODY,
            shape=lambda c: [output._shape for output in c.attrs["f"].outputs],
            gradient=opdef.NotDifferentiable("a test op"),
        )
    return "AnabranchTestCall"


def calling(g):
    """A graph with a call of a body that captures a tensor, inside it another call."""
    kind = call_op()
    x = tf.constant([1.0, 2.0], name="x")
    outer, inner = g.new_body("outer/body"), None
    with g.building(outer):
        inner = g.new_body("inner")
        with g.building(inner):
            inner.outputs.append(tf.identity(x, name="deep"))
        own(inner, build(kind, list(inner_inputs(inner)), Tout=[tf.float32], f=inner, name="call"))
        a, b = outer.operations[-1].outputs[0], outer.args[0]
        with g.control_dependencies([tf.no_op(name="first")]):
            outer.outputs.extend([build("AddV2", a, b, name="sum"), b])
    own(outer, build(kind, list(inner_inputs(outer)), Tout=[tf.float32] * 2, f=outer, name="main"))
    return outer


def inner_inputs(body):
    return [tensor for tensor in body.captures if tensor.op.body is body.parent]


def own(body, built):
    op = built[0] if isinstance(built, list) else built
    body.owner = op.op if hasattr(op, "op") else op


def test_bodies_become_functions_and_functions_bodies(g):
    calling(g)
    verify_graph(g)
    proto = g.as_graph_def()
    assert [node.name for node in proto.node] == ["x", "main"]
    functions = {function.signature.name: function for function in proto.library.function}
    assert set(functions) == {"outer_body", "inner"}
    outer = functions["outer_body"]
    assert [arg.name for arg in outer.signature.input_arg] == ["x_capture"]
    assert [arg.name for arg in outer.signature.output_arg] == ["sum", "x_capture"]
    assert dict(outer.ret) == {"sum": "sum:z:0", "x_capture": "x_capture"}
    nodes = {node.name: node for node in outer.node_def}
    assert list(nodes["sum"].input) == ["call:output:0", "x_capture", "^first"]
    assert nodes["call"].attr["f"].func.name == "inner"

    again = imported(proto)
    verify_graph(again)
    assert again.as_graph_def() == proto  # as read, and so written under the same names
    main = again.get_operation_by_name("main")
    body = main.get_attr("f")
    assert body.owner is main
    assert [op.type for op in body.operations] == ["_Arg", "AnabranchTestCall", "NoOp", "AddV2"]
    assert [output.shape.as_list() for output in main.outputs] == [[2], [2]]
    assert body.args[0].shape.as_list() == [2]
    assert imported(again.as_graph_def()).as_graph_def() == proto


def test_a_changed_body_is_written_under_a_name_of_its_own(g):
    calling(g)
    proto = g.as_graph_def()
    again = imported(proto, name="p")
    body = again.get_operation_by_name("p/main").get_attr("f")
    assert function_def.is_as_read(body)
    with again.as_default(), again.building(body):
        body.outputs[0] = tf.identity(body.outputs[0], name="more")
    assert not function_def.is_as_read(body)
    written = again.as_graph_def()
    assert {f.signature.name for f in written.library.function} == {"outer_body", "inner", "p_main_f"}
    assert written.node[1].attr["f"].func.name == "p_main_f"
    third = imported(written)
    assert third.get_operation_by_name("p/main").get_attr("f").outputs[0].op.type == "Identity"


def test_functions_keep_placeholders_of_attributes():
    call_op()
    proto = text_format.Parse(
        """
        node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
        node { name: "y" op: "AnabranchTestCall" input: "x"
          attr { key: "Tin" value { list { type: DT_INT32 } } } attr { key: "Tout" value { list { type: DT_INT32 } } }
          attr { key: "f" value { func { name: "same" attr { key: "T" value { type: DT_INT32 } } } } } }
        library { function { signature { name: "same" input_arg { name: "a" type_attr: "T" }
            output_arg { name: "b" type_attr: "T" } attr { name: "T" type: "type" } }
          node_def { name: "i" op: "Identity" input: "a" attr { key: "T" value { placeholder: "T" } } }
          ret { key: "b" value: "i:output:0" } } }
        """,
        graph_pb2.GraphDef(),
    )
    graph = imported(proto)
    verify_graph(graph)
    assert graph.get_operation_by_name("y").get_attr("f").outputs[0].dtype == tf.int32
    again = graph.as_graph_def()
    assert again.library == proto.library
    assert again.node[1] == proto.node[1]


def test_functions_that_cannot_be_read_are_named(g):
    calling(g)
    proto = g.as_graph_def()
    for function in proto.library.function:
        if function.signature.name == "inner":
            function.node_def[0].op = "Unheard"
    with pytest.raises(NotImplementedError, match=r"Op type not registered 'Unheard'\n"):
        imported(proto)
    del proto.library.function[:]
    with pytest.raises(ValueError, match=r"node 'main' \(AnabranchTestCall\) with function 'outer_body'"):
        imported(proto)


def test_a_function_that_calls_itself_is_refused(g):
    calling(g)
    proto = g.as_graph_def()
    for function in proto.library.function:
        for node in function.node_def:
            if "f" in node.attr:
                node.attr["f"].func.name = "outer_body"
    with pytest.raises(NotImplementedError, match="function 'outer_body', which calls itself"):
        imported(proto)


def test_library_functions_must_agree(g):
    calling(g)
    proto = g.as_graph_def()
    graph = imported(proto)
    with graph.as_default():
        tf.import_graph_def(proto)
        verify_graph(graph)
        proto.library.function[0].node_def[0].name = "renamed"
        before = graph.as_graph_def()
        with pytest.raises(ValueError, match="different function with the same name already exists"):
            tf.import_graph_def(proto)
    assert graph.as_graph_def() == before


def test_nodes_that_only_this_package_knows_are_named(g):
    calling(g)
    proto = g.as_graph_def()
    assert {node.name for node in graph_def.foreign_nodes(proto)} == {"main", "call"}
    with pytest.raises(NotImplementedError, match="2 of type AnabranchTestCall: main, call"):
        graph_def.check_exportable(proto)
    graph_def.check_exportable(golden("arithmetic"))
    assert attrs.attr_key(NamedAttrs("f"))
