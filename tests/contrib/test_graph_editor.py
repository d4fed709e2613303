"""Parts of graphs selected, rerouted, detached, connected and copied."""

from __future__ import annotations

import re

import numpy as np
import pytest

import anabranch as tf

ge = tf.contrib.graph_editor


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.fixture
def chain():
    """a and b are added in scope `foo`; the sum is doubled, and then negated in scope `bar`."""
    a = tf.constant([1.0, 1.0], name="a")
    with tf.name_scope("foo"):
        b = tf.constant([2.0, 2.0], name="b")
        c = tf.add(a, b, name="c")
        d = tf.constant([3.0, 3.0], name="d")
        with tf.name_scope("bar"):
            e = tf.add(c, d, name="e")
            f = tf.add(c, d, name="f")
            g = tf.add(c, a, name="g")
            with tf.control_dependencies([c.op]):
                h = tf.add(f, g, name="h")
    return a, b, c, d, e, f, g, h


def names(items):
    return [item.name for item in items]


def test_selection(chain):
    a, _, c, d, e, f, _g, h = chain
    graph = a.graph
    assert names(ge.filter_ops_from_regex(graph, r"foo/bar/[ef]$")) == ["foo/bar/e", "foo/bar/f"]
    assert names(ge.get_name_scope_ops(graph, "foo/bar/")) == ["foo/bar/e", "foo/bar/f", "foo/bar/g", "foo/bar/h"]
    assert names(ge.filter_ts_from_regex(graph, r"/bar/h:")) == ["foo/bar/h:0"]
    assert names(ge.select_ops("^foo/[bd]$", h.op, graph=graph)) == ["foo/b", "foo/d", "foo/bar/h"]
    assert ge.select_ts(re.compile("(?#ts)/bar/e"), c, graph=graph) == [e, c]
    ops, ts = ge.select_ops_and_ts("^a$", "(?#ts)^foo/d:0$", graph=graph)
    assert (ops, ts) == ([a.op], [d])
    assert ge.get_consuming_ops([d]) == [e.op, f.op]
    assert ge.get_generating_ops([c, d, c]) == [c.op, d.op]
    with pytest.raises(ValueError, match="Use the keyword argument 'graph' to use regex"):
        ge.select_ops("foo")
    with pytest.raises(TypeError, match="Expected a list of Operation"):
        ge.make_list_of_op([a.op, a])
    with pytest.raises(ValueError, match="do not belong to the same graph"), tf.Graph().as_default():
        ge.make_list_of_t([a, tf.constant(1.0)])
    assert ge.make_list_of_op([a.op, [a]], ignore_ts=True) == [a.op]
    assert h in ge.get_tensors(graph)


def test_walks(chain):
    a, _, c, d, e, f, g, h = chain
    assert names(ge.get_forward_walk_ops([d.op])) == ["foo/d", "foo/bar/e", "foo/bar/f", "foo/bar/h"]
    assert names(ge.get_forward_walk_ops(d)) == ["foo/bar/e", "foo/bar/f", "foo/bar/h"]
    assert set(ge.get_backward_walk_ops([g.op], inclusive=False)) == {c.op, a.op, chain[1].op}
    assert set(ge.get_backward_walk_ops([g], stop_at_ts=[c])) == {g.op, a.op}
    assert set(ge.get_backward_walk_ops([h.op], within_ops=[h.op, f.op, c.op])) == {h.op, f.op, c.op}
    assert ge.get_backward_walk_ops([h.op], within_ops_fn=lambda op: op is not f.op and op is not g.op) == [h.op]
    controls = ge.ControlOutputs(a.graph)
    assert controls.get(c.op) == [h.op]
    assert controls.get_all() == {c.op: [h.op]}
    within = ge.get_forward_walk_ops([c.op], within_ops=[c.op, h.op], control_outputs=controls)
    assert within == [c.op, h.op]
    assert set(ge.get_walks_intersection_ops([d.op], [h.op])) == {d.op, f.op, h.op}
    assert e.op in ge.get_walks_union_ops([d.op], [g.op])
    assert set(ge.get_within_boundary_ops(a.graph, [f.op], [c.op, h.op], inclusive=False)) == {f.op, d.op, e.op}
    with pytest.raises(ValueError, match="Boundary is intersecting with the seeds"):
        ge.get_within_boundary_ops(a.graph, [f.op], [f.op])
    inputs, outputs, inside = ge.compute_boundary_ts([c.op, f.op])
    assert (names(inputs), outputs, inside) == (["a:0", "foo/b:0", "foo/d:0"], [c, f], [c])


def test_views(chain):
    a, b, c, d, _, f, _, h = chain
    view = ge.sgv(c.op, f.op)
    assert (view.inputs, view.outputs) == ([a, b, d], [c, f])
    assert view.remap_inputs([2, 0]).inputs == [d, a]
    assert view.remap_outputs([1, c, 1]).outputs == [f, c, f]
    assert view.remap([1], [0]).remap_default().inputs == [a, b, d]
    assert view.remap_outputs([0, 0]).remap_outputs_make_unique().outputs == [c]
    assert len(view.remap_outputs_to_consumers().outputs) == 3
    assert view.consumers()[-1] is h.op
    assert view.find_op_by_name("foo/c") is c.op
    assert view.remap([], [0]).remove_unused_ops().ops == [c.op]
    assert "foo/bar/f" in str(view)
    assert not ge.SubGraphView()
    assert ge.sgv(view) is view
    through = ge.sgv(c.op, h)
    assert through.passthroughs == [h]
    assert through.is_passthrough(h)
    assert through.connected_inputs == [a, b]
    assert set(ge.sgv_scope("foo/bar", a.graph).ops) == set(ge.make_view("^foo/bar/", graph=a.graph).ops)
    with pytest.raises(AttributeError, match="not found in this SubGraphView"):
        view.find_op_by_name("x")
    with pytest.raises(ValueError, match="each place once"):
        view.remap_inputs([0, 0])
    with pytest.raises(ValueError, match="place 7 of 3 inputs"):
        view.remap_inputs([7])


# ---------------------------------------------------------------------------------------------------------- rerouting
def test_tensors_are_rerouted(session):
    a, b = tf.constant(1.0, name="a"), tf.constant(10.0, name="b")
    x, y = tf.negative(a), tf.exp(b * 0)
    assert session.run([x, y]) == [-1, 1]
    assert ge.reroute_ts([b], [a]) == 1
    assert session.run(x) == -10
    assert x.op.inputs[0] is b
    u, v = a + 1.0, b + 2.0
    assert session.run([u, v]) == [2, 12]
    assert ge.swap_ts([a], [b], can_modify=[u.op, v.op]) == 2
    assert session.run([u, v]) == [11, 3]
    assert ge.reroute_ts([a], [b], cannot_modify=[u.op, x.op, y.op, y.op.inputs[0].op]) == 0
    with pytest.raises(ValueError, match="ts0 and ts1 have different sizes: 1 != 2"):
        ge.reroute_ts([a], [a, b])
    with pytest.raises(ValueError, match="tensors of one dtype"):
        ge.reroute_ts([a], [tf.constant(1)])


def two_parts():
    a = tf.constant([1.0, 2.0], name="a")
    b = tf.constant([10.0, 20.0], name="b")
    x, y = tf.multiply(a, 2.0, name="x"), tf.multiply(b, 3.0, name="y")
    return a, b, x, y, tf.identity(x, name="use_x"), tf.identity(y, name="use_y")


def test_inputs_and_outputs_of_parts(session):
    a, b, x, y, use_x, use_y = two_parts()
    factors = [x.op.inputs[1], y.op.inputs[1]]
    first, second = ge.sgv(x.op, factors[0].op), ge.sgv(y.op, factors[1].op)
    ge.swap_inputs(first, second)
    assert [value.tolist() for value in session.run([use_x, use_y])] == [[20, 40], [3, 6]]
    assert (first.inputs, second.inputs) == ([b], [a])
    ge.swap_outputs(first, second)
    assert [value.tolist() for value in session.run([use_x, use_y])] == [[3, 6], [20, 40]]
    ge.reroute_inputs(first, second)
    assert [value.tolist() for value in session.run([use_x, use_y])] == [[30, 60], [20, 40]]
    ge.reroute_outputs(first, second)
    assert [value.tolist() for value in session.run([use_x, use_y])] == [[20, 40], [20, 40]]


def test_parts_change_places(session):
    _a, _b, x, y, use_x, use_y = two_parts()
    first, second = ge.sgv(x.op, x.op.inputs[1].op), ge.sgv(y.op, y.op.inputs[1].op)
    ge.swap_ios(first, second)
    assert [value.tolist() for value in session.run([use_x, use_y])] == [[3, 6], [20, 40]]


def test_detached_connected_and_bypassed(session):
    a, b, x, y, use_x, use_y = two_parts()
    view, stand_ins = ge.detach_inputs(ge.sgv(x.op, x.op.inputs[1].op))
    assert names(stand_ins) == ["geph__a_0:0"]
    assert session.run(use_x, {stand_ins[0]: [5.0, 6.0]}).tolist() == [10, 12]
    other = ge.sgv(y.op, y.op.inputs[1].op)
    ge.connect(other, view)
    assert session.run(use_x).tolist() == [60, 120]
    assert session.run(use_y).tolist() == [30, 60]
    ge.bypass(view)
    assert session.run(use_x).tolist() == [30, 60]
    _, outputs = ge.detach_outputs(other)
    assert session.run(use_y, {outputs[0]: [7.0, 8.0]}).tolist() == [7, 8]
    with tf.control_dependencies([a]):
        waiting = tf.identity(b)
    ge.detach_control_inputs(ge.sgv(waiting.op))
    assert waiting.op.control_inputs == []
    ge.add_control_inputs(waiting.op, [a.op])
    with pytest.raises(ValueError, match="is already a control_input"):
        ge.add_control_inputs(waiting.op, [a.op])
    ge.detach_control_outputs(ge.sgv(a.op), ge.ControlOutputs(a.graph))
    assert waiting.op.control_inputs == []
    with pytest.raises(ValueError, match="is not a control_input"):
        ge.remove_control_inputs(waiting.op, [a.op])
    _, into, out_of = ge.detach(ge.sgv(waiting.op))
    assert (len(into), len(out_of)) == (1, 0)


# ------------------------------------------------------------------------------------------------------------ copying
def test_copies(session, chain):
    a, b, c, _d, _e, _f, _g, h = chain
    tf.add_to_collection("mine", h)
    view, info = ge.copy(ge.sgv_scope("foo", a.graph), dst_scope="copied", src_scope="foo")
    copied = info.transformed(h)
    assert copied.name == "copied/bar/h:0"
    assert info.original(copied) is h
    assert info.transformed(a) is a
    assert info.transformed("foo/bar/h:0") is copied
    assert info.transformed({"x": [c.op]}) == {"x": [copied.graph.get_operation_by_name("copied/c")]}
    assert copied.op.control_inputs == [info.transformed(c.op)]
    assert view.ops[0].name.startswith("copied/")
    assert tf.get_collection("copied/mine") == [copied]
    np.testing.assert_array_equal(*session.run([h, copied]))
    again = ge.copy(ge.sgv_scope("foo", a.graph), dst_scope="copied", src_scope="foo")[1].transformed(h)
    assert again.name == "copied_1/bar/h:0"
    other = tf.Graph()
    _, info = ge.copy(ge.sgv(c.op, b.op), dst_graph=other)
    assert names(op for op in other.get_operations()) == ["foo/b", "geph__a_0", "foo/c"]
    with tf.Session(graph=other) as elsewhere:
        assert elsewhere.run(info.transformed(c), {"geph__a_0:0": [5.0, 6.0]}).tolist() == [7, 8]
    with pytest.raises(ValueError, match="does not start with bar"):
        ge.copy(ge.sgv(c.op), src_scope="bar")
    with pytest.raises(TypeError, match=r"Expected a tf\.Graph"):
        ge.copy(ge.sgv(c.op), dst_graph=3)


def test_replaced_tensors(session, chain):
    a, b, c, d, _, _f, _, h = chain
    new = tf.constant([100.0, 200.0])
    replaced, unchanged = ge.graph_replace([h, d], {c: new}, dst_scope="r")
    assert session.run(replaced).tolist() == [2 * 100 + 3 + 1, 2 * 200 + 3 + 1]
    assert unchanged is d
    assert replaced.name == "r/foo/bar/h:0"
    assert session.run(ge.graph_replace(c, {a: new, b: new})).tolist() == [200, 400]
    with pytest.raises(ValueError, match="Targets and replacements are not connected!"):
        ge.graph_replace(b, {d: new})
    view, info = ge.copy_with_input_replacements(ge.sgv(c.op), {a: new})
    assert session.run(info.transformed(c)).tolist() == [102, 202]
    assert view.inputs == [new, b]


def test_gradients_of_copies(session):
    x = tf.constant(3.0)
    y = tf.square(x) * 2.0
    z = tf.constant(5.0)
    replaced = ge.graph_replace(y, {x: z})
    assert session.run(tf.gradients(replaced, z)[0]) == 20
    v = tf.get_variable("v", initializer=2.0, use_resource=True)
    product = tf.multiply(v.read_value(), x)
    session.run(v.initializer)
    assert session.run(ge.graph_replace(product, {x: z})) == 10
    w = tf.while_loop(lambda i: i < 3.0, lambda i: i + x, [x])
    with pytest.raises(NotImplementedError, match="which holds bodies"):
        ge.graph_replace(w, {x: z})


def test_handlers_may_be_replaced(session):
    a = tf.constant(2.0, name="a")
    b = tf.negative(tf.exp(a, name="e"), name="n")
    transformer = ge.Transformer()

    def square_for_exp(info, op, new_inputs):
        if op.type == "Exp":
            with info.graph_.as_default():
                new = tf.square(new_inputs[0])
            return new.op, new.op.outputs
        return ge.copy_op_handler(info, op, new_inputs)

    transformer.transform_op_handler = square_for_exp
    _, info = transformer(ge.sgv(b.op, b.op.inputs[0].op), a.graph, "t")
    assert session.run(info.transformed(b)) == -4
    assert ge.placeholder_name(a) == "geph__a_0"
    assert ge.placeholder_name(a, scope="s", prefix="p") == "s/p__a_0"
    assert ge.ph(tf.float32, [2]).name == "geph:0"
    assert ge.util is ge
    assert ge.select.get_backward_walk_ops is ge.get_backward_walk_ops
