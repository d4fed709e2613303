"""Reading GraphDefs: what is mapped and returned, order and cycles, and that a failure leaves the graph as it was."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from google.protobuf import text_format

import anabranch as tf
from anabranch.core.contract import opdef
from anabranch.core.graph.build import build
from anabranch.core.graph.verify import verify_graph
from anabranch.core.graphdef import graph_def as graph_defs
from anabranch.core.protos import graph_pb2


@pytest.fixture
def g():
    with tf.Graph().as_default() as graph:
        yield graph


def written(make):
    """The GraphDef of what ``make`` builds."""
    with tf.Graph().as_default() as graph:
        make()
    return graph.as_graph_def()


@pytest.fixture
def proto():
    def make():
        a = tf.constant([1.0, 2.0], name="a")
        with tf.control_dependencies([tf.no_op(name="n")]):
            b = tf.identity(a, name="b")
        build("AddV2", a, b, name="c")

    return written(make)


def node(graph_def, name):
    return next(item for item in graph_def.node if item.name == name)


def state(graph):
    """All that an import may touch."""
    return (
        graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True),
        graph.version,
        dict(graph._names_in_use),
        dict(graph._by_name),
        [(op, [list(t._consumers) for t in op.outputs], list(op._control_outputs)) for op in graph.get_operations()],
        [(list(body.args), dict(body.captures)) for body in {op.body for op in graph.get_operations()}],
        graph._producer_version,
    )


# ----------------------------------------------------------------------------------------------------- maps and results
def test_tensors_and_control_inputs_are_mapped_and_elements_returned(g, proto):
    x = tf.constant([3.0, 4.0], name="x")
    gate = tf.no_op(name="gate")
    found = tf.import_graph_def(
        proto, input_map={"a": x, "^n": gate}, return_elements=["c:0", b"b", "a:0", "a"], name="p"
    )
    c, b, a, a_op = found
    assert [item.name for item in found] == ["p/c:0", "p/b", "x:0", "p/a"]
    assert list(c.op.inputs) == [x, b.outputs[0]]
    assert list(b.inputs) == [a] == [x]
    assert b.control_inputs == [gate]
    assert a_op.outputs[0].consumers() == []
    assert tf.import_graph_def(proto) is None
    verify_graph(g)


def test_mapped_values_that_are_no_tensors_become_constants(g, proto):
    [b] = tf.import_graph_def(proto, input_map={"a:0": np.float32([5, 6, 7])}, return_elements=["b:0"])
    assert b.op.inputs[0].op.type == "Const"
    assert b.op.inputs[0].name.startswith("import/_inputs/")
    assert b.shape.as_list() == [3]


def test_maps_that_find_nothing_are_refused(g, proto):
    x = tf.constant([1.0, 2.0])
    for key in ("z:0", "a:1", "^z"):
        missing = re.escape(f"inputs that were not found in graph_def: [{key}]")
        with pytest.raises(ValueError, match=missing):
            tf.import_graph_def(proto, input_map={key: x})
    with pytest.raises(
        ValueError, match=r"Input 0 of node import/b was passed int32 from .*:0 incompatible with expected float"
    ):
        tf.import_graph_def(proto, input_map={"a": tf.constant(1)})
    with pytest.raises(TypeError, match="input_map must be a dictionary mapping strings to Tensor objects"):
        tf.import_graph_def(proto, input_map={1: x})
    with pytest.raises(ValueError, match="requires a non-empty `name` if `input_map` contains non-Tensor values"):
        tf.import_graph_def(proto, input_map={"a": 1.0}, name="")
    with pytest.raises(ValueError, match="'z:0' not found in graph_def"):
        tf.import_graph_def(proto, return_elements=["z:0"])
    with pytest.raises(TypeError, match="return_elements must be a list of strings"):
        tf.import_graph_def(proto, return_elements="a")
    with tf.Graph().as_default():
        foreign = tf.constant(1.0)
    with pytest.raises(ValueError, match="must be from the same graph as"):
        tf.import_graph_def(proto, input_map={"a": foreign, "b": x})


def test_a_node_that_is_mapped_away_need_not_be_there(g, proto):
    part = tf.GraphDef()
    part.CopyFrom(proto)
    del part.node[0]
    x = tf.constant([3.0, 4.0])
    [c] = tf.import_graph_def(part, input_map={"a:0": x}, return_elements=["c"])
    assert c.inputs[0] is x


# ------------------------------------------------------------------------------------------------------- what is given
def test_another_programs_message_class_is_read_and_others_are_refused(g, proto):
    with pytest.raises(TypeError, match="graph_def must be a GraphDef proto"):
        tf.import_graph_def(proto.SerializeToString())
    with pytest.raises(TypeError, match="graph_def must be a GraphDef proto"):
        tf.import_graph_def(proto.node[0])
    with pytest.raises(TypeError, match="producer_op_list must be an OpList proto"):
        tf.import_graph_def(proto, producer_op_list=[])
    with pytest.warns(UserWarning, match="op_dict has no effect"):
        tf.import_graph_def(proto, op_dict={})


def test_defaults_are_filled_in(g):
    proto = written(lambda: build("Placeholder", dtype="float32", shape=None, name="x"))
    del proto.node[0].attr["shape"]
    [x] = tf.import_graph_def(proto, return_elements=["x"])
    assert x.get_attr("shape").ndims is None
    del proto.node[0].attr["dtype"]
    with pytest.raises(ValueError, match=r"NodeDef missing attr 'dtype' from Op<name=Placeholder>"):
        tf.import_graph_def(proto)


def test_unknown_attributes_are_dropped_only_where_they_say_nothing(g, proto):
    node(proto, "b").attr["extra"].i = 3
    node(proto, "b").attr["_private"].i = 3
    with pytest.raises(ValueError, match=r"NodeDef mentions attr 'extra' not in Op<name=Identity>"):
        tf.import_graph_def(proto)
    producer = graph_pb2.OpList()
    producer.op.add(name="Identity").attr.add(name="extra", type="int").default_value.i = 4
    with pytest.raises(ValueError, match="NodeDef mentions attr 'extra'"):
        tf.import_graph_def(proto, producer_op_list=producer)
    producer.op[0].attr[0].default_value.i = 3
    [b] = tf.import_graph_def(proto, producer_op_list=producer, return_elements=["b"])
    assert b.get_attr("_private") == 3
    with pytest.raises(ValueError, match="attribute 'extra' of op"):
        b.get_attr("extra")


def test_an_attribute_that_tensorflow_added_later_may_have_its_default(g):
    proto = written(lambda: build("MatMul", tf.ones([2, 2]), tf.ones([2, 2]), name="m"))
    matmul = node(proto, "m")
    matmul.attr["grad_q"].b = False
    with pytest.raises(ValueError, match="NodeDef mentions attr 'grad_q'"):
        tf.import_graph_def(proto)
    del matmul.attr["grad_q"]
    matmul.attr["grad_a"].b = False
    tf.import_graph_def(proto)


def test_values_must_have_the_dtype_that_the_node_says(g, proto):
    node(proto, "a").attr["dtype"].type = 3
    with pytest.raises(ValueError, match="a value of dtype float32\nExpected: int32"):
        tf.import_graph_def(proto)
    node(proto, "a").attr["dtype"].s = b"float"
    with pytest.raises(ValueError, match=r"Node 'a': attribute 'dtype' cannot be read.*a value of kind string"):
        tf.import_graph_def(proto)


def test_all_unknown_op_types_come_in_one_error(g):
    proto = written(lambda: [tf.identity(1.0, name=f"x{i}") for i in range(5)])
    for i, op_type in ((1, "Identitie"), (3, "Identitie"), (5, "Zzz")):
        proto.node[i].op = op_type
    before = state(g)
    with pytest.raises(
        NotImplementedError,
        match=r"(?s)registered 'Identitie', 'Zzz'\n.*Identitie: 2 nodes \(near: Identity.*Zzz: 1 node",
    ):
        tf.import_graph_def(proto)
    assert state(g) == before


def test_graphs_for_later_consumers_are_refused_and_versions_kept(g, proto):
    proto.versions.producer, proto.versions.min_consumer = 21, 12
    proto.versions.bad_consumers.append(3)
    tf.import_graph_def(proto)
    versions = g.as_graph_def().versions
    assert (versions.producer, versions.min_consumer, list(versions.bad_consumers)) == (21, 12, [3])
    proto.versions.min_consumer = 5000
    with pytest.raises(ValueError, match="a GraphDef for consumers of version 5000"):
        tf.import_graph_def(proto)


@pytest.mark.parametrize("is_training", [True, False])
def test_graphs_of_tensorflow_say_of_which_shapes_the_unused_outputs_of_batch_norms_are(g, is_training):
    proto = tf.GraphDef()
    proto.versions.producer = 134  # of version 1.15
    for name in ("dy", "x"):
        item = proto.node.add(name=name, op="Placeholder")
        item.attr["dtype"].type = 1
    for name in ("scale", "mean", "variance", "spare"):
        item = proto.node.add(name=name, op="Placeholder")
        item.attr["dtype"].type = 1
        item.attr["shape"].shape.dim.add(size=16)
    gradient = proto.node.add(
        name="gradient", op="FusedBatchNormGradV3", input=["dy", "x", "scale", "mean", "variance", "spare"]
    )
    for key in ("T", "U"):
        gradient.attr[key].type = 1
    gradient.attr["is_training"].b = is_training
    for dims in ((-1, 8, 8, 16), (16,), (16,), *[(0 if is_training else 16,)] * 2):  # as 1.15.5 writes them
        shape = gradient.attr["_output_shapes"].list.shape.add()
        for size in dims:
            shape.dim.add(size=size)
    (imported,) = tf.import_graph_def(proto, return_elements=["gradient"], name="")
    assert [output.shape.as_list() for output in imported.outputs[3:]] == [[0 if is_training else 16]] * 2


def test_output_shapes_refine_and_must_agree(g):
    def make():
        x = tf.placeholder(tf.float32, None, name="x")
        tf.identity(x, name="y").set_shape([None, 3])

    def make_shaped():
        make()
        return tf.get_default_graph()

    with tf.Graph().as_default():
        proto = make_shaped().as_graph_def(add_shapes=True)
    [y] = tf.import_graph_def(proto, return_elements=["y:0"])
    assert y.shape.as_list() == [None, 3]
    assert "_output_shapes" not in y.op.node_def.attr
    node(proto, "y").attr["_output_shapes"].list.shape[0].dim[1].size = 4
    x = tf.placeholder(tf.float32, [2, 3])
    before = state(g)
    with pytest.raises(ValueError, match="'y' has an _output_shapes attribute inconsistent with the GraphDef"):
        tf.import_graph_def(proto, input_map={"x": x})
    assert state(g) == before


def test_colocation_with_nodes_that_are_not_there(g, proto):
    node(proto, "b").attr["_class"].list.s.extend([b"loc:@gone", b"other"])
    with pytest.raises(ValueError, match="Node 'b' expects to be colocated with unknown node 'gone'"):
        tf.import_graph_def(proto)
    [b] = tf.import_graph_def(proto, validate_colocation_constraints=False, return_elements=["b"])
    assert b.get_attr("_class") == [b"loc:@gone", b"other"]


def test_attribute_scopes_and_gradient_overrides_hold_for_imported_nodes(g, proto):
    with g.attr_scope({"_mark": 1}), g.gradient_override_map({"Identity": "Mine"}):
        b, n = tf.import_graph_def(proto, return_elements=["b", "n"])
    assert n.get_attr("_mark") == 1
    assert b.get_attr("_gradient_op_type") == b"Mine"


def test_labels_of_kernels_are_attributes_of_the_types_that_are_named(g):
    with g._kernel_label_map({"Identity": "eigen"}), g.gradient_override_map({"Identity": "Mine"}):
        x = tf.identity(tf.constant(1.0))
        with g._kernel_label_map({}):
            y = tf.identity(x)
    assert [item.op.get_attr("_kernel") for item in (x, y)] == [b"eigen", b"eigen"]
    assert x.op.get_attr("_gradient_op_type") == b"Mine"
    with pytest.raises(ValueError, match="_kernel"):
        tf.identity(x).op.get_attr("_kernel")


# ----------------------------------------------------------------------------------------------------- order and cycles
def test_nodes_may_stand_in_any_order(g):
    def make():
        x = tf.constant(1.0, name="x")
        for i in range(30):
            with tf.control_dependencies([x]):
                x = build("AddV2", x, tf.constant(float(i), name=f"k{i}"), name=f"y{i}")

    proto = written(make)
    shuffled = list(proto.node)
    random.Random(3).shuffle(shuffled)
    mixed = tf.GraphDef()
    mixed.node.extend(shuffled)
    tf.import_graph_def(mixed, name="")
    verify_graph(g)
    assert {item.name: item for item in g.as_graph_def().node} == {item.name: item for item in proto.node}


LOOP = """
node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
node { name: "next" op: "NextIteration" input: "more" attr { key: "T" value { type: DT_INT32 } } }
node { name: "enter" op: "Enter" input: "zero" attr { key: "T" value { type: DT_INT32 } }
  attr { key: "frame_name" value { s: "f" } } }
node { name: "merge" op: "Merge" input: "enter" input: "next" attr { key: "T" value { type: DT_INT32 } }
  attr { key: "N" value { i: 2 } } }
node { name: "more" op: "Identity" input: "merge" attr { key: "T" value { type: DT_INT32 } } }
"""


def test_loops_of_version_1_are_cycles(g):
    proto = text_format.Parse(LOOP, graph_pb2.GraphDef())
    merge, back = tf.import_graph_def(proto, name="l", return_elements=["merge", "next:0"])
    assert merge.inputs[1] is back
    assert back.consumers() == [merge]
    assert merge.outputs[0].shape.ndims is None  # the next iteration may bring another shape
    verify_graph(g)
    [again, other] = tf.import_graph_def(g.as_graph_def(), name="again", return_elements=["l/merge", "l/next:0"])
    assert again.inputs[1] is other
    verify_graph(g)


def test_other_cycles_are_shown(g):
    proto = text_format.Parse(LOOP.replace("NextIteration", "Identity"), graph_pb2.GraphDef())
    before = state(g)
    with pytest.raises(ValueError, match=r"cycle (next -> merge -> more -> next|merge -> more -> next -> merge)"):
        tf.import_graph_def(proto)
    assert state(g) == before
    proto = text_format.Parse(LOOP.replace('input: "enter" ', 'input: "next" '), graph_pb2.GraphDef())
    with pytest.raises(ValueError, match=r"node 'merge' \(Merge\) with inputs of the next iteration only"):
        tf.import_graph_def(proto)
    assert state(g) == before


# ------------------------------------------------------------------------------------------------------- all or nothing
def test_a_shape_that_does_not_fit_leaves_the_graph_as_it_was(g, proto):
    x = tf.constant([1.0, 2.0, 3.0], name="x")
    gate = tf.no_op(name="gate")
    body = g.new_body("body")
    with g.building(body):
        inside = tf.identity(x)
    del node(proto, "b").input[:]
    node(proto, "b").input.extend(["a", "^n"])
    before = state(g)
    with g.building(body), tf.control_dependencies([inside]):
        with pytest.raises(ValueError, match=r"(?s)\[2\].*\[3\].*'import/c'"):
            tf.import_graph_def(proto, input_map={"b:0": x})
        assert tf.no_op(name="after").control_inputs == [inside.op]
        g._operations.pop()
        body.operations.pop()
        del g._by_name["after"], g._names_in_use["after"]
        inside.op._control_outputs.clear()
        g._version = before[1]
    assert state(g) == before
    with tf.control_dependencies([gate]), pytest.raises(ValueError, match="'import/c'"):
        tf.import_graph_def(proto, input_map={"b:0": tf.placeholder(tf.float32, [7], name="seven")})
    assert gate._control_outputs == [g.get_operation_by_name("seven")]
    verify_graph(g)


def test_a_device_function_that_fails_leaves_the_graph_as_it_was(g, proto):
    def device(op):
        if op.name.endswith("/c"):
            raise RuntimeError("no device for c")
        return "/cpu:0"

    before = state(g)
    with g.device(device), pytest.raises(RuntimeError, match="no device for c"):
        tf.import_graph_def(proto)
    assert state(g) == before
    tf.import_graph_def(proto)
    assert g.get_operations()[0].name == "import/a"


def test_a_finalized_graph_takes_nothing(g, proto):
    g.finalize()
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
        tf.import_graph_def(proto)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_graphs_are_refused_or_read_but_never_break_the_graph(seed):
    """Random edits of a GraphDef: an error of a known class, or a graph that is well formed."""
    rng = random.Random(seed)

    def make():
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        y = build("AddV2", x, tf.constant([1.0, 2.0], name="k"), name="y")
        three = build("IdentityN", [x, y, tf.constant(3, name="i")], name="three")
        with tf.control_dependencies([y]):
            build("AddV2", three[0], three[1], name="z")

    proto = written(make)
    for _ in range(rng.randrange(1, 4)):
        item = rng.choice(proto.node)
        edit = rng.randrange(7)
        if edit == 0 and item.input:
            item.input[rng.randrange(len(item.input))] = rng.choice(["z", "k", "three:2", "three:9", "^y", "no", ""])
        elif edit == 1 and item.input:
            del item.input[rng.randrange(len(item.input))]
        elif edit == 2:
            item.input.append(rng.choice(["x", "^x", "^z", "i"]))
        elif edit == 3 and item.attr:
            del item.attr[rng.choice(sorted(item.attr))]
        elif edit == 4 and item.attr:
            item.attr[rng.choice(sorted(item.attr))].CopyFrom(
                rng.choice([tf.AttrValue(i=1), tf.AttrValue(type=3), tf.AttrValue(), tf.AttrValue(placeholder="p")])
            )
        elif edit == 5:
            item.name = rng.choice(["x", "new", "", "bad name", "_x"])
        else:
            item.op = rng.choice(["Identity", "NoOp", "Const", "AddV2"])
    with tf.Graph().as_default() as graph:
        tf.constant(1.0)
        before = state(graph)
        try:
            tf.import_graph_def(proto)
        except (ValueError, TypeError, NotImplementedError):
            assert state(graph) == before
        verify_graph(graph)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('op: "Pack" attr { key: "N" value { i: 1073741824 } } attr { key: "T" value { type: DT_FLOAT } }', "N = 1073"),
        (
            'op: "Unpack" input: "p" attr { key: "num" value { i: 1073741824 } } '
            'attr { key: "T" value { type: DT_FLOAT } }',
            "at most 65536",
        ),
        (
            'op: "Identity" input: "p" attr { key: "T" value { type: DT_FLOAT } } '
            'attr { key: "_class" value { type: DT_INT8 } }',
            "'_class' = tf.int8\nExpected: a list of UTF-8 strings",
        ),
        (
            'op: "Identity" input: "p" attr { key: "T" value { type: DT_FLOAT } } '
            'attr { key: "_class" value { list { i: 3 } } }',
            "Expected: a list of UTF-8 strings",
        ),
        (
            'op: "Identity" input: "p" attr { key: "T" value { type: DT_FLOAT } } '
            'attr { key: "_class" value { list { s: "loc:@p\\210" } } }',
            "Expected: a list of UTF-8 strings",
        ),
    ],
)
def test_attributes_that_no_program_writes(g, text, told):
    placeholder = 'node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'
    proto = text_format.Parse(f'{placeholder} node {{ name: "n" {text} }}', tf.GraphDef())
    with pytest.raises(ValueError, match=told):
        tf.import_graph_def(proto, name="")
    assert not g.get_operations()


@pytest.mark.parametrize(
    ("signature", "ret", "told"),
    [
        ('input_arg { name: "x" type: DT_FLOAT }', "y:y:3", "an index below 1"),
        ('input_arg { name: "x" type_attr: "T" }', "y:y:0", "a call with T = None for the argument 'x'"),
        ('input_arg { name: "x" type: DT_FLOAT number_attr: "N" }', "y:y:0", "a call with N = None"),
        ('input_arg { name: "x" type_list_attr: "L" }', "y:y:0", "a list of types"),
    ],
)
def test_functions_that_do_not_fit_their_calls(g, signature, ret, told):
    proto = text_format.Parse(
        f"""
        node {{ name: "p" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
        node {{
          name: "call" op: "PartitionedCall" input: "p"
          attr {{ key: "Tin" value {{ list {{ type: DT_FLOAT }} }} }}
          attr {{ key: "Tout" value {{ list {{ type: DT_FLOAT }} }} }}
          attr {{ key: "f" value {{ func {{ name: "f" }} }} }}
        }}
        library {{
          function {{
            signature {{ name: "f" {signature} output_arg {{ name: "r" type: DT_FLOAT }} }}
            node_def {{ name: "y" op: "Sqrt" input: "x" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
            ret {{ key: "r" value: "{ret}" }}
          }}
        }}
        """,
        tf.GraphDef(),
    )
    with pytest.raises(ValueError, match=told):
        tf.import_graph_def(proto, name="")
    assert not g.get_operations()


CALLS = """
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node {
      name: "call" op: "Outer" input: "x"
      attr { key: "T" value { type: DT_FLOAT } } attr { key: "_noinline" value { b: true } }
    }
    node { name: "y" op: "Neg" input: "call:1" attr { key: "T" value { type: DT_FLOAT } } }
    library {
      function {
        signature {
          name: "Inner" input_arg { name: "a" type: DT_FLOAT } input_arg { name: "b" type: DT_FLOAT }
          output_arg { name: "sum" type: DT_FLOAT } output_arg { name: "product" type: DT_FLOAT }
        }
        node_def { name: "s" op: "Add" input: "a" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
        node_def { name: "p" op: "Mul" input: "a" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
        ret { key: "sum" value: "s:z:0" } ret { key: "product" value: "p:z:0" }
      }
      function {
        signature {
          name: "Outer" attr { name: "T" type: "type" } input_arg { name: "v" type_attr: "T" }
          output_arg { name: "first" type_attr: "T" } output_arg { name: "second" type_attr: "T" }
        }
        node_def { name: "in" op: "Inner" input: "v" input: "v" }
        node_def { name: "again" op: "Inner" input: "in:product:0" input: "in:sum:0" }
        ret { key: "first" value: "in:product:0" } ret { key: "second" value: "again:sum:0" }
      }
    }
    versions { producer: 27 }
"""


def test_calls_of_functions_by_their_name(g):
    proto = text_format.Parse(CALLS, tf.GraphDef())
    before = proto.SerializeToString(deterministic=True)
    call, y = tf.import_graph_def(proto, name="", return_elements=["call", "y:0"])
    assert proto.SerializeToString(deterministic=True) == before
    assert call.type == "PartitionedCall"
    verify_graph(g)
    x = g.get_tensor_by_name("x:0")
    gradient = tf.gradients(y, x)[0]
    with tf.Session() as session:
        found = session.run([call.outputs[0], call.outputs[1], y, gradient], {x: [3.0, -1.0]})
    assert [value.tolist() for value in found] == [[9, 1], [15, -1], [-15, 1], [-8, 0]]
    again = g.as_graph_def()
    with tf.Graph().as_default(), tf.Session() as session:
        (y,) = tf.import_graph_def(again, name="", return_elements=["y:0"])
        assert session.run(y, {"x:0": 3.0}) == -15


def test_calls_by_name_whose_types_are_not_told_are_named(g):
    proto = text_format.Parse(CALLS, tf.GraphDef())
    del proto.node[1].attr["T"]
    with pytest.raises(NotImplementedError, match=r"Outer: 1 call\(s\) of the library's function by its name"):
        tf.import_graph_def(proto, name="")
    proto = text_format.Parse(CALLS.replace("in:sum:0", "in:sum:3"), tf.GraphDef())
    with pytest.raises(ValueError, match="an index below 2"):
        tf.import_graph_def(proto, name="")


def test_a_large_graph_is_read_in_linear_time(g):
    proto = tf.GraphDef()
    first = proto.node.add(name="x0", op="Placeholder")
    first.attr["dtype"].type = 1
    for i in range(10_000):
        item = proto.node.add(name=f"x{i + 1}", op="Identity")
        item.input.append(f"x{i}")
        item.attr["T"].type = 1
    [last] = tf.import_graph_def(proto, return_elements=["x10000"])
    assert last.inputs[0].name == "import/x9999:0"


def test_own_op_types_are_read_again(g):
    if opdef.find("AnabranchTestTwice") is None:
        opdef.define(
            "AnabranchTestTwice",
            "Twice the input.",
            signature="x: T -> y: T",
            attrs={"T": opdef.Type()},
            effect=opdef.PURE,
            shape=lambda c: c.shapes[0],
            gradient=opdef.NotDifferentiable("a test op"),
            host_kernel=lambda ctx, inputs, attrs: inputs[0] * 2,
        )
    proto = written(lambda: build("AnabranchTestTwice", tf.constant([1.0]), name="twice"))
    [twice] = tf.import_graph_def(proto, return_elements=["twice:0"])
    assert twice.shape.as_list() == [1]
    assert [item.name for item in graph_defs.foreign_nodes(g.as_graph_def())] == ["import/twice"]


# ------------------------------------------------------------------------------------------------------------- versions
@pytest.mark.parametrize("producer", [0, 27, tf.GRAPH_DEF_VERSION])
def test_the_producer_version_is_kept(producer):
    proto = tf.GraphDef()
    proto.versions.producer = producer
    proto.versions.min_consumer = 12
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(proto)
        assert graph.graph_def_versions.producer == producer
        assert graph.graph_def_versions.min_consumer == 12


def test_what_a_graph_may_import_is_the_packages_version_not_its_own():
    old, new = tf.GraphDef(), tf.GraphDef()
    old.versions.producer = 5
    new.versions.producer = 30
    new.versions.min_consumer = 20
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(old)
        tf.import_graph_def(new)
        assert graph.graph_def_versions.producer == 5


def test_versions_that_cannot_be_read_are_refused():
    low, excluded = tf.GraphDef(), tf.GraphDef()
    low.versions.producer = -1
    excluded.versions.bad_consumers.append(tf.GRAPH_DEF_VERSION)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="producer version -1"):
            tf.import_graph_def(low)
        with pytest.raises(ValueError, match="excludes consumers of version"):
            tf.import_graph_def(excluded)


@pytest.mark.parametrize(("producer", "rank"), [(0, None), (21, None), (22, 0), (134, 0)])
def test_scalar_placeholders_of_old_graphs_have_an_unknown_shape(producer, rank):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.placeholder(tf.float32, [2], name="y")
        tf.placeholder_with_default(x, [], name="z")
        tf.build_op("PlaceholderV2", dtype=tf.float32, shape=[], name="v")
        tf.identity(x, name="out")
    proto = graph.as_graph_def()
    proto.versions.producer = producer
    for _ in range(2):  # also when it has been written again
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(proto, name="")
            shapes = {name: graph.get_tensor_by_name(f"{name}:0").shape for name in ("x", "y", "z", "v", "out")}
            assert {name: shape.ndims for name, shape in shapes.items()} == {
                "x": rank,
                "y": 1,
                "z": 0,
                "v": 0,
                "out": rank,
            }
            if rank is None:
                with tf.Session() as session:
                    assert session.run("out:0", {"x:0": [[1.0, 2.0]]}).tolist() == [[1.0, 2.0]]
            with (
                tf.Session() as session,
                pytest.raises(tf.errors.InvalidArgumentError, match=r"must feed a value .*'v'"),
            ):
                session.run("v:0")
        proto = graph.as_graph_def()
