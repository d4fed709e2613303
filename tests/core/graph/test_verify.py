"""The verifier finds each broken invariant, and shows where."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import opdef
from anabranch.core.contract.inference import HandleData
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import GraphTensor
from anabranch.core.graph.verify import InvalidGraphError, show_neighbours, verify_graph


@pytest.fixture
def g():
    with tf.Graph().as_default() as graph:
        a = tf.constant([1.0, 2.0], name="a")
        b = tf.identity(a, name="b")
        with tf.control_dependencies([b]):
            build("AddV2", a, a, name="c")
        v = build("VariableV2", shape=[2], dtype="float32", name="v")
        build("Assign", v, a, name="assign")
        h = build("VarHandleOp", shape=[2], dtype="float32", name="h")
        build("ReadVariableOp", h, dtype="float32", name="read")
        body = graph.new_body("body")
        with graph.building(body):
            body.outputs.append(tf.identity(b, name="inside"))
        verify_graph(graph)
    return graph


def op(graph, name):
    return graph.get_operation_by_name(name)


def broken(text):
    return pytest.raises(InvalidGraphError, match=text)


def raw_attr(operation, name, value):
    operation._attrs = {**operation._attrs, name: value}


STRUCTURE = {
    "an index that is wrong": (
        lambda g: setattr(op(g, "b"), "_id", 7),
        "operation 'b' has index 7 and stands at 1",
    ),
    "a name that finds another op": (
        lambda g: g._by_name.__setitem__("b", op(g, "c")),
        "the name 'b' finds the AddV2 of index 2",
    ),
    "a name that finds nothing": (lambda g: g._by_name.pop("b"), "the name 'b' finds nothing"),
    "a name too many": (lambda g: g._by_name.__setitem__("x", op(g, "c")), r"names \['x'\] find operations"),
    "an op of no body": (
        lambda g: g.root.operations.remove(op(g, "c")),
        "operation 'c' is not among the operations of its body ''",
    ),
    "an op of another body": (
        lambda g: op(g, "inside").body.operations.append(op(g, "c")),
        "body 'body' lists 'c', which says that it is in ''",
    ),
    "an order that is wrong": (
        lambda g: g.root.operations.reverse(),
        "of body '' do not stand in the order of creation",
    ),
    "an op of another graph": (
        lambda g: setattr(op(g, "c"), "graph", tf.Graph()),
        "operation 'c' says that it is of another graph",
    ),
    "an input that is gone": (
        lambda g: setattr(op(g, "c"), "_inputs", (foreign(), op(g, "c")._inputs[1])),
        "input 0 of 'c', Const:0, comes from an operation that the graph does not hold",
    ),
    "an input that is not an output": (
        lambda g: setattr(op(g, "b"), "_inputs", (GraphTensor(op(g, "a"), 0, tf.float32, (2,)),)),
        "input 0 of 'b', a:0, is not an output of 'a'",
    ),
    "an input that was not captured": (
        lambda g: setattr(op(g, "inside"), "_inputs", (op(g, "b").outputs[0],)),
        "input 0 of 'inside', b:0, is of body '' and was not captured by 'body'",
    ),
    "an input from later": (
        lambda g: op(g, "b")._update_input(0, op(g, "c").outputs[0]),
        "input 0 of 'b', c:0, was made after it",
    ),
    "a consumer that is missing": (
        lambda g: op(g, "a").outputs[0]._consumers.remove(op(g, "c")),
        r"a:0 lists 'c' 1 time\(s\) as a consumer, which takes it 2 time\(s\)",
    ),
    "a consumer too many": (
        lambda g: op(g, "b").outputs[0]._consumers.append(op(g, "c")),
        r"b:0 lists 'c' 1 time\(s\) as a consumer, which takes it 0 time\(s\)",
    ),
    "a control edge without its start": (
        lambda g: op(g, "b")._control_outputs.clear(),
        "'b' does not list 'c' as a control output",
    ),
    "a control edge without its end": (
        lambda g: op(g, "b")._control_outputs.append(op(g, "assign")),
        "'b' lists the control output 'assign', which does not depend on it",
    ),
    "a control edge twice": (
        lambda g: op(g, "c")._control_inputs.append(op(g, "b")),
        "a control input of 'c' comes twice",
    ),
    "a control edge from later": (
        lambda g: op(g, "a")._add_control_input(op(g, "b")),
        "control input 'b' of 'a' was made after it",
    ),
    "a control edge between bodies": (
        lambda g: (
            op(g, "inside")._control_inputs.append(op(g, "a")),
            op(g, "a")._control_outputs.append(op(g, "inside")),
        ),
        "control input 'a' of 'inside' is in body ''",
    ),
    "an attribute that is missing": (lambda g: op(g, "b")._attrs.pop("T"), "attribute 'T' of 'b' is missing"),
    "an attribute that is not declared": (
        lambda g: raw_attr(op(g, "b"), "U", 1),
        "attribute 'U' of 'b' is not in the contract of Identity",
    ),
    "a shape that is not stored raw": (
        lambda g: raw_attr(op(g, "v"), "shape", [2]),
        r"attribute 'shape' of 'v' = \[2\] is not a shape in stored form",
    ),
    "a dtype that is not stored as one": (
        lambda g: raw_attr(op(g, "b"), "T", "float32"),
        "attribute 'T' of 'b' = 'float32' is not a type in stored form",
    ),
    "a constant that can be written": (
        lambda g: raw_attr(op(g, "a"), "value", np.ones(2, np.float32)),
        "attribute 'value' of 'a' = .* is not a tensor in stored form",
    ),
    "an attribute that is not allowed": (
        lambda g: raw_attr(op(g, "c"), "T", tf.bool),
        "attribute 'T' of 'c' is not allowed",
    ),
    "an input of another dtype": (
        lambda g: raw_attr(op(g, "b"), "T", tf.int32),
        "input 0 of 'b' is float32, its contract says int32",
    ),
    "an output of another dtype": (
        lambda g: setattr(op(g, "b").outputs[0], "dtype", tf.int32),
        "output 0 of 'b' is int32, its contract says float32",
    ),
    "a value where a ref is needed": (
        lambda g: op(g, "assign")._update_input(0, op(g, "a").outputs[0]),
        "input 0 of 'assign' is float32, its contract says float32_ref",
    ),
    "an input too few": (
        lambda g: (
            setattr(op(g, "c"), "_inputs", op(g, "c")._inputs[:1]),
            op(g, "a").outputs[0]._consumers.remove(op(g, "c")),
        ),
        "'c' has 1 inputs, its contract 2",
    ),
    "an output too few": (lambda g: setattr(op(g, "c"), "_outputs", ()), "'c' has 0 outputs, its contract 1"),
    "an output of another op": (
        lambda g: setattr(op(g, "c").outputs[0], "value_index", 1),
        "output 0 of 'c' says that it is c:1",
    ),
    "an argument out of place": (
        lambda g: raw_attr(op(g, "inside").body.args[0].op, "index", 1),
        "argument 0 of body 'body' is b_capture:0, which is not its _Arg of that index",
    ),
    "a capture that is not an argument": (
        lambda g: op(g, "inside").body.captures.__setitem__(op(g, "a").outputs[0], op(g, "inside").outputs[0]),
        "body 'body' captures a:0 as inside:0, which is none of its arguments",
    ),
    "a capture from inside": (
        lambda g: op(g, "inside").body.captures.__setitem__(op(g, "inside").outputs[0], op(g, "inside").body.args[0]),
        "body 'body' captures inside:0 of body 'body', not around it",
    ),
    "an output of the body around": (
        lambda g: op(g, "inside").body.outputs.append(op(g, "a").outputs[0]),
        "body 'body' returns a:0 of body ''",
    ),
    "an owner that does not hold its body": (
        lambda g: setattr(op(g, "inside").body, "owner", op(g, "c")),
        "the owner 'c' of body 'body' does not hold it as an attribute",
    ),
    "a capture that is not an input of the owner": (
        lambda g: setattr(op(g, "inside").body, "owner", op(g, "a")),
        "b:0, which body 'body' captures, is not an input of 'a'",
    ),
    "a body without owner": (
        lambda g: raw_attr(op(g, "c"), "_f", op(g, "inside").body),
        "body 'body', which 'c' holds, has no owner",
    ),
}


def foreign():
    with tf.Graph().as_default():
        return tf.constant([1.0, 2.0])


@pytest.mark.parametrize("what", STRUCTURE)
def test_a_broken_structure_is_found(what, g):
    change, text = STRUCTURE[what]
    change(g)
    with broken(text):
        verify_graph(g, "structure")
    with broken(text):
        verify_graph(g)


SHAPES = {
    "a shape against the rule": (
        lambda g: setattr(op(g, "b").outputs[0], "_shape", (3,)),
        r"output 0 of 'b' has the shape \[3\], its rule says \[2\]",
    ),
    "inputs that the rule refuses": (
        lambda g: (
            setattr(op(g, "v").outputs[0], "_shape", (5,)),
            setattr(op(g, "v"), "_attrs", {**op(g, "v")._attrs, "shape": (5,)}),
        ),
        "the shape rule of 'assign' refuses its inputs",
    ),
    "a handle to another dtype": (
        lambda g: setattr(op(g, "h").outputs[0], "_handle", HandleData(tf.int32, (2,))),
        "output 0 of 'h' is a handle to int32, its rule says float32",
    ),
}


@pytest.mark.parametrize("what", SHAPES)
def test_a_broken_shape_is_found_at_its_level(what, g):
    change, text = SHAPES[what]
    change(g)
    verify_graph(g, "structure")
    with broken(text):
        verify_graph(g, "shapes")
    with broken(text):
        verify_graph(g)


def test_a_shape_may_say_more_or_less_than_its_rule(g):
    op(g, "b").outputs[0]._shape = None
    verify_graph(g)
    with g.as_default():
        x = tf.placeholder(tf.float32, None, name="x")
        tf.identity(x).set_shape([7, None])
        x.set_shape([None, 3])
    verify_graph(g)


def test_effects_are_on_refs_and_handles(g):
    if opdef.find("AnabranchTestWriteValue") is None:
        opdef.define(
            "AnabranchTestWriteValue",
            "Writes to what is not a variable.",
            signature="x: float32 ->",
            effect=opdef.write("x"),
            shape=lambda c: [],
            gradient=opdef.NotDifferentiable("a test op"),
            predication=opdef.SELECT,
            host_kernel=lambda ctx, inputs, attrs: inputs,
        )
        opdef.define(
            "AnabranchTestBodiless",
            "Has the effects of bodies that it cannot hold.",
            signature="->",
            effect=opdef.BODY,
            shape=lambda c: [],
            gradient=opdef.NotDifferentiable("a test op"),
        )
    with g.as_default():
        build("AnabranchTestWriteValue", op(g, "a").outputs[0], name="write")
        build("AnabranchTestBodiless", name="bodiless")
    verify_graph(g, "shapes")
    text = "(?s)write of 'write' is on 'x', a float32: no ref, no handle.*'bodiless' has the effect of a body"
    with broken(text):
        verify_graph(g, "effects")
    with broken(text):
        verify_graph(g)


def test_a_back_edge_is_only_from_a_next_iteration_to_a_merge(g):
    with g.as_default():
        x = op(g, "a").outputs[0]
        merge = build("Merge", [x, x], name="merge")[0].op
        following = build("NextIteration", merge.outputs[0], name="next")
        merge._update_input(1, following)
        merge.outputs[0]._known = None
        verify_graph(g)
        merge._update_input(1, tf.identity(following, name="late"))
    with broken("input 1 of 'merge', late:0, was made after it"):
        verify_graph(g)


def test_problems_are_shown_with_neighbours_and_line_and_not_all(g):
    op(g, "b").outputs[0].dtype = tf.int32
    with pytest.raises(InvalidGraphError, match=r"output 0 of 'b' is int32") as caught:
        verify_graph(g)
    text = str(caught.value)
    for part in (
        "Identity 'b' in body '', index 1",
        "input 0: a:0 float32 [2] from Const",
        "output 0: b:0 int32 [2] to nothing",
        "before: c (AddV2)",
        f'made at File "{__file__}"',
    ):
        assert part in text, text
    assert caught.value.op is op(g, "b_capture")  # the first of the problems
    assert show_neighbours(op(g, "c")).endswith("output 0: c:0 float32 [2] to nothing")
    with g.as_default():
        tf.group(*[tf.no_op() for _ in range(20)])
    for item in g.get_operations():
        item._id += 100
    with pytest.raises(InvalidGraphError, match="operation 'a' has index 100") as caught:
        verify_graph(g)
    assert str(caught.value).count("has index") == 10


def test_levels_have_names(g):
    with pytest.raises(ValueError, match="level='deep'\nExpected: one of structure, shapes, effects, full"):
        verify_graph(g, "deep")
