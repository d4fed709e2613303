"""Where operations stand: contexts of loops and conditionals as libraries ask for them."""

from __future__ import annotations

import anabranch as tf
from anabranch.compat.internal import control_flow_contexts


def test_contexts_while_a_graph_is_built():
    seen = {}

    def note(name):
        seen[name] = tf.get_default_graph()._get_control_flow_context()
        return tf.constant(1.0, name=name)

    with tf.Graph().as_default() as graph:
        top = note("top")
        tf.while_loop(lambda x: x < 3, lambda x: x + tf.cond(x > 1, lambda: note("branch"), lambda: note("no")), [0.0])
        tf.while_loop(lambda x: x < 3, lambda x: x + note("body"), [0.0])
        assert seen["top"] is None
        assert top.op._get_control_flow_context() is None
        assert seen["body"].IsWhileContext()
        assert not seen["body"].IsCondContext()
        assert not seen["branch"].IsWhileContext()
        assert seen["branch"].IsCondContext()
        assert seen["branch"].outer_context.IsWhileContext()
        assert seen["branch"].GetWhileContext() == seen["branch"].outer_context
        assert seen["branch"].outer_context.outer_context is None
        inner = next(op for op in graph.get_operations() if op.name.endswith("/branch"))
        assert inner._get_control_flow_context() == seen["branch"]
        assert control_flow_contexts.IsInWhileContext(inner)
        assert control_flow_contexts.IsInCond(inner)
        assert control_flow_contexts.GetContainingWhileContext(seen["branch"]) == seen["branch"].outer_context
        assert control_flow_contexts.GetContainingWhileContext(None) is None
        assert not control_flow_contexts.IsInWhileContext(top.op)
        assert control_flow_contexts.IsContainingContext(seen["branch"], seen["branch"].outer_context)
        assert control_flow_contexts.IsContainingContext(seen["branch"], None)
        assert not control_flow_contexts.IsContainingContext(None, seen["branch"])
        assert control_flow_contexts.OpInContext(inner, seen["branch"])
        assert not control_flow_contexts.TensorInContext(top, seen["branch"])


def test_old_forms_of_control_flow():
    with tf.Graph().as_default():
        data = tf.constant(1.0)
        false, true = tf.control_flow_ops.switch(data, tf.constant(True))
        merged = tf.control_flow_ops.merge([false, true])[0]
        assert control_flow_contexts.IsSwitch(true.op)
        assert control_flow_contexts.IsCondSwitch(true.op)
        assert not control_flow_contexts.IsLoopSwitch(true.op)
        assert control_flow_contexts.IsCondMerge(merged.op)
        assert not control_flow_contexts.IsLoopMerge(merged.op)
        assert not control_flow_contexts.IsLoopEnter(data.op)
        assert not control_flow_contexts.IsLoopExit(data.op)


def test_what_libraries_read_of_operations():
    with tf.Graph().as_default() as graph:
        a = tf.constant([[1.0, 2.0]], name="a")
        with tf.control_dependencies([a]), tf.device("/cpu:0"):
            b = tf.identity(a, name="b")
        assert a._shape_as_list() == [1, 2]
        assert tf.placeholder(tf.float32)._shape_as_list() is None
        assert (a._op, a._dtype) == (a.op, tf.float32)
        assert a.shape._dims == a.shape.dims
        assert graph._nodes_by_name["b"] is b.op
        assert graph._nodes_by_id[b.op._id_value] is b.op
        assert b.op._node_def.name == "b"
        assert b.op._output_types == [1]
        assert b.op._input_types == [tf.float32]
        v = tf.Variable(1.0)
        assert v.initializer._input_types == [tf.as_dtype("float32_ref"), tf.float32]
        b.op._remove_all_control_inputs()
        assert b.op.control_inputs == []
        assert b.op not in a.op._control_outputs
        with tf.device("/job:worker"):
            graph._apply_device_functions(b.op)
        assert b.op.device == "/job:worker/device:CPU:0"
