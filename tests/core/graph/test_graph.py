"""Graph construction: names and scopes against TensorFlow's, nested bodies, threads, and what is refused."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from pathlib import Path

import pytest

import anabranch as tf
from anabranch.core.graph import builder
from anabranch.core.graph.build import build
from anabranch.core.graph.verify import verify_graph

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "graph_scopes.json").read_text())


@pytest.fixture
def g():
    with tf.Graph().as_default() as graph:
        yield graph


def error(function):
    try:
        return function()
    except Exception as problem:
        return type(problem).__name__


@pytest.mark.parametrize("case", GOLDEN)
def test_scopes_do_what_tensorflows_do(case, g):
    out = []
    exec("\n".join(GOLDEN[case]["source"]), {"tf": tf, "g": g, "out": out, "error": error})
    assert json.loads(json.dumps(out)) == GOLDEN[case]["out"]
    verify_graph(g)


# -------------------------------------------------------------------------------------------------------------- bodies
def nested(g):
    """A body inside a body, and a tensor of the root."""
    x = tf.constant([1.0, 2.0], name="x")
    outer = g.new_body("outer")
    with g.building(outer):
        inner = g.new_body("inner")
    return x, outer, inner


def test_a_capture_passes_through_every_body_between(g):
    x, outer, inner = nested(g)
    with g.building(inner):
        y = tf.identity(x, name="y")
    assert y.op.body is inner
    [passed] = outer.args
    [arrived] = inner.args
    assert outer.captures[x] is passed
    assert inner.captures[passed] is inner.captures[x] is arrived
    assert y.op.inputs[0] is arrived
    assert (arrived.shape.as_list(), arrived.dtype) == ([2], tf.float32)
    with g.building(inner):
        again = tf.identity(x)
    assert again.op.inputs[0] is arrived
    assert len(outer.args) == 1
    assert x.consumers() == []
    verify_graph(g)


def test_a_body_takes_no_tensor_of_a_sibling_or_of_a_body_inside(g):
    x, outer, inner = nested(g)
    sibling = g.new_body("sibling")
    with g.building(sibling):
        there = tf.identity(x, name="there")
    with g.building(inner):
        deep = tf.identity(x, name="deep")
    with g.building(outer), pytest.raises(ValueError, match=r"tensor 'there:0' of the nested body 'sibling'.*'outer'"):
        tf.identity(there)
    with (
        g.building(outer),
        pytest.raises(ValueError, match=r"'deep:0' of the nested body 'inner' used in body 'outer'"),
    ):
        tf.identity(deep)
    with pytest.raises(ValueError, match=r"'deep:0' of the nested body 'inner' used in body ''"):
        tf.identity(deep)
    verify_graph(g)


def test_control_edges_from_outside_go_to_the_owner(g):
    x, outer, inner = nested(g)
    before = tf.no_op(name="before")
    with g.building(inner), tf.control_dependencies([before]):
        y = tf.identity(x, name="y")
        z = tf.no_op(name="z")
    assert y.op.control_inputs == z.control_inputs == []
    assert list(outer.outer_control_inputs) == [before]
    with g.building(inner), tf.control_dependencies([z]):
        assert tf.no_op().control_inputs == [z]
    with (
        g.building(outer),
        tf.control_dependencies([z]),
        pytest.raises(ValueError, match="'z' inside the nested body 'inner'"),
    ):
        tf.no_op()
    verify_graph(g)


def test_init_scope_makes_ops_in_the_root(g):
    x, outer, inner = nested(g)
    with g.building(inner), tf.control_dependencies([tf.no_op(name="n")]):
        assert g.building_function
        with tf.init_scope():
            made = tf.identity(x, name="made")
        assert g.current_body is inner
    assert made.op.body is g.root
    assert made.op.control_inputs == []
    assert not g.building_function
    assert not outer.args


def test_bodies_share_names_and_order_with_the_graph(g):
    a = tf.no_op(name="a")
    body = g.new_body("body")
    with g.building(body):
        b = tf.no_op(name="a")
    assert b.name == "a_1"
    assert g.get_operations() == [a, b]
    assert body.operations == [b]
    assert g.root.operations == [a]
    assert not g.is_fetchable(b)
    assert g.is_fetchable(a)
    assert repr(body) == "<Body 'body' of 1 ops>"


# ------------------------------------------------------------------------------------------------------------ creation
def test_versions_count_changes(g):
    before = g.version
    x = tf.placeholder(tf.float32, None, name="x")
    made = g.version
    assert made > before
    x.set_shape([None, 2])
    shaped = g.version
    assert shaped > made
    x.set_shape([None, 2])
    assert g.version == shaped
    assert [node.name for node in g.as_graph_def(from_version=made).node] == []
    tf.identity(x, name="y")
    assert [node.name for node in g.as_graph_def(from_version=shaped).node] == ["y"]


def test_a_failed_op_leaves_no_trace(g):
    x = tf.constant([1.0, 2.0], name="x")
    y = tf.constant([1.0, 2.0, 3.0], name="y")
    with pytest.raises(ValueError, match=r"(?s)\[2\].*\[3\].*Op: AddV2 'add'.*x:0 float32 \[2\].*test_graph"):
        build("AddV2", x, y, name="add")
    assert [op.name for op in g.get_operations()] == ["x", "y"]
    assert x.consumers() == []
    verify_graph(g)


def test_create_op_checks_what_it_is_given(g):
    x = tf.constant([1.0], name="x")
    op = g.create_op("Identity", [x], name="copy")
    assert (op.name, op.get_attr("T")) == ("copy", tf.float32)
    assert (
        g.create_op("Identity", ["x:0"], attrs={"T": tf.AttrValue(type=1), "_x": tf.AttrValue(i=2)}).get_attr("_x") == 2
    )
    with pytest.raises(ValueError, match="2 inputs for op 'Identity'"):
        g.create_op("Identity", [x, x])
    with pytest.raises(ValueError, match=r"without attribute\(s\) \['dtype'"):
        g.create_op("Placeholder", [], attrs={"shape": [1]})
    with pytest.raises(TypeError, match="'x:0' of dtype float32 for op 'Identity'"):
        g.create_op("Identity", [x], attrs={"T": tf.int32})
    with pytest.raises(NotImplementedError, match=r"op type 'Identitty'\nExpected: .*\(near: Identity"):
        g.create_op("Identitty", [x])


def test_inputs_and_control_inputs_can_be_changed(g):
    x, y = tf.constant(1.0, name="x"), tf.constant(2.0, name="y")
    i, n = tf.constant(1, name="i"), tf.no_op(name="n")
    z = build("AddV2", x, x, name="z").op
    z._update_input(1, y)
    assert list(z.inputs) == [x, y]
    assert x.consumers() == y.consumers() == [z]
    z._add_control_input(n)
    z._add_control_inputs([n, y.op])
    assert z.control_inputs == [n, y.op]
    with pytest.raises(TypeError, match="int32 for input 0 of 'z'"):
        z._update_input(0, i)
    verify_graph(g)
    g.finalize()
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
        z._update_input(0, y)
    with pytest.raises(RuntimeError, match="Graph is finalized"):
        z._add_control_input(n)
    with pytest.raises(RuntimeError, match="Graph is finalized"):
        x.set_shape([]) or build("Placeholder", dtype="float32").set_shape([2])


def test_attr_scopes_and_containers(g):
    with g.attr_scope({"_x": tf.AttrValue(s=b"v"), "_y": 2}):
        a = tf.no_op()
        with g.attr_scope({"_x": None, "_z": True}):
            b = tf.no_op()
    assert (a.get_attr("_x"), a.get_attr("_y")) == (b"v", 2)
    assert (b.get_attr("_y"), b.get_attr("_z")) == (2, True)
    with pytest.raises(ValueError, match="attribute '_x' of op 'NoOp_1'"):
        b.get_attr("_x")
    with tf.container("here"):
        v = build("VariableV2", shape=[], dtype="float32").op
        w = build("VariableV2", shape=[], dtype="float32", container="there").op
    assert (v.get_attr("container"), w.get_attr("container")) == (b"here", b"there")
    assert build("VariableV2", shape=[], dtype="float32").op.get_attr("container") == b""


def test_set_attr_takes_protos_and_stored_values(g):
    op = tf.placeholder(tf.float32, [2], name="x").op
    op._set_attr("shape", tf.AttrValue(shape=tf.TensorShape([3, None]).as_proto()))
    assert op.get_attr("shape").as_list() == [3, None]
    op._set_attr("_mine", tf.AttrValue(b=True))
    assert op.get_attr("_mine") is True
    verify_graph(g, "structure")


def test_seeds_and_counts(g):
    assert g.seed is None
    tf.set_random_seed(7)
    assert g.seed == 7
    assert g._last_id == 0
    tf.no_op()
    assert g._last_id == 1


def test_feeds_and_fetches_can_be_prevented(g):
    x = tf.constant(1.0)
    assert g.is_feedable(x)
    assert g.is_fetchable(x)
    g.prevent_feeding(x)
    g.prevent_fetching(x.op)
    assert not g.is_feedable(x)
    assert not g.is_fetchable(x)


def test_an_op_knows_the_line_that_made_it(g):
    x = tf.constant(1.0)
    assert x.op.user_site.user_line().filename == __file__
    assert "x = tf.constant(1.0)" in str(x.op.user_site)
    assert x.op.traceback[-1][0] == __file__


def test_ops_of_a_gradient_know_their_forward_op(g):
    x = tf.constant(1.0)
    with g.original_op(x.op):
        y = tf.identity(x)
    assert y.op._original_op is x.op
    assert tf.identity(x).op._original_op is None


# ------------------------------------------------------------------------------------------------------------- threads
def test_threads_build_one_graph_under_scopes_of_their_own(g):
    start = threading.Barrier(4)
    problems = []

    def work(index):
        try:
            assert tf.get_default_graph() is not g
            with g.as_default(), g.name_scope(f"t{index}"), g.device(f"/task:{index}"):
                start.wait()
                for _ in range(50):
                    op = tf.identity(1.0, name="same").op
                    assert op.name.startswith(f"t{index}/same")
                    assert op.device == f"/task:{index}"
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len({op.name for op in g.get_operations()}) == 400
    verify_graph(g)


def test_default_graphs_must_be_left_in_order():
    a, b = tf.Graph().as_default(), tf.Graph().as_default()
    a.__enter__()
    b.__enter__()
    with pytest.raises(AssertionError, match="Nesting violated for the default graph"):
        a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    builder.current_stack().clear()


def test_the_global_graph_can_be_replaced():
    first = tf.get_default_graph()
    tf.reset_default_graph()
    assert tf.get_default_graph() is not first
    with tf.Graph().as_default(), pytest.raises(AssertionError, match="to clear nested graphs"):
        tf.reset_default_graph()


def test_a_graph_that_nobody_holds_is_freed():
    graph = tf.Graph()
    with graph.as_default():
        tf.identity(tf.constant(1.0))
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None


def test_building_stays_linear(g):
    """The ten-thousandth op of a name, input or scope must not cost more than the first: this ends at once."""
    x = tf.constant(1.0)
    y = x
    with tf.control_dependencies([x]):
        for _ in range(10_000):
            y = build("AddV2", y, x, name="same")
    assert y.op.name == "same_9999"
    assert len(x.consumers()) == 10_001  # the first op takes it twice
    verify_graph(g, "structure")
