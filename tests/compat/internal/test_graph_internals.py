"""What programs that look into graphs, tensors and sessions find there."""

from __future__ import annotations

import importlib
import sys
from unittest import mock

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook
from anabranch.compat.internal import ops, session_names
from anabranch.core.protos import config_pb2
from anabranch.eager import mode


def test_the_class_of_a_tensor():
    x = tf.constant(1.0)
    assert type(x) is tf.Tensor
    assert isinstance(x, tf.Tensor)
    assert not isinstance(1.0, tf.Tensor)
    assert not isinstance(tf.Variable(1.0), tf.Tensor)
    with mode.eager_mode():
        y = tf.constant(1.0)
        assert isinstance(y, tf.Tensor)
        assert issubclass(type(y), tf.Tensor)
        assert type(y) is not tf.Tensor
        with pytest.raises(TypeError, match="of a graph, in code that runs its ops at once"):
            tf.convert_to_tensor(x)
    with pytest.raises(RuntimeError, match="Attempting to capture an EagerTensor"):
        tf.identity(y)


def test_operations_of_nodes():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.constant([3.0], name="x")
        first = tf.no_op(name="first")
    node = ops._NodeDef("Square", "a/copy", device="/cpu:0", attrs={"T": tf.AttrValue(type=1)})
    op = tf.Operation(node, graph, [x], [tf.float32], [first], original_op=x.op)
    assert op is graph.get_operation_by_name("a/copy")
    assert op.device == "/device:CPU:0"
    assert op.control_inputs == [first]
    assert op._original_op is x.op
    assert tf.Session(graph=graph).run(op.outputs[0]).tolist() == [9.0]
    with pytest.raises(ValueError, match="Duplicate node name in graph: 'a/copy'"):
        tf.Operation(node, graph, [x])
    with pytest.raises(ValueError, match="'-a' is not a valid node name"):
        tf.Operation(ops._NodeDef("NoOp", "-a"), graph)


def test_fields_of_tensors_and_operations():
    x = tf.placeholder(tf.float32, [2, None])
    assert x._shape_tuple() == (2, None)
    assert x._value_index == 0
    starts = x.op.traceback_with_start_lines
    assert [frame[:-1] for frame in starts] == x.op.traceback
    assert starts[-1][-1] == sys._getframe().f_code.co_firstlineno
    with pytest.raises(AttributeError, match="'_InputList' object has no attribute 'append'"):
        tf.identity(x).op.inputs.append(x)


def test_words_of_changes_to_a_graph():
    with tf.Graph().as_default():
        elsewhere = tf.constant(1.0)
    x, y = tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0, 3.0])
    op = tf.square(x).op
    with pytest.raises(ValueError, match="must be from the same graph"):
        op._update_input(0, elsewhere)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Cannot update edge, incompatible shapes: \[3\] and \[2\]"
    ):
        op._update_input(0, y)
    with pytest.raises(tf.errors.OutOfRangeError, match=r"Input index \[1\] is greater than .* inputs \[1\]"):
        op._update_input(1, x)
    with pytest.raises(
        ValueError, match=r"but are 2 and 3 for 'sum' \(op: 'AddV2'\) with input shapes: \[2\], \[3\]\."
    ):
        tf.build_op("AddV2", x, y, name="sum")
    with pytest.raises(TypeError, match=f"Can't convert Operation '{op.name}' to Tensor"):
        tf.convert_to_tensor(op)
    with pytest.raises(TypeError, match="Failed to convert object of type <class 'object'> to Tensor"):
        tf.convert_to_tensor(object())
    x.op._add_control_input(op)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Graph is invalid, contains a cycle with 2 nodes"):
        tf.Session().run(op)


def test_names_in_scopes():
    assert ops.strip_name_scope("^a/b", "a") == "^b"
    assert ops.prepend_name_scope("^b", "a") == "^a/b"
    with tf.name_scope("a"), tf.name_scope("b"):
        assert ops.get_name_scope() == "a/b"


def test_sessions():
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.add(x, 1.0, name="y")
    with tf.Session() as session:
        assert session_names._default_session_stack.get_default() is session
        options = config_pb2.CallableOptions(feed=[x.name], fetch=[y.name], target=[y.op.name])
        assert session._make_callable_from_options(options)(np.float32(1)) == [2.0]
        assert "_output_shapes" not in session.graph_def.node[0].attr
        session_names._default_session_stack.reset()
        assert session_names._default_session_stack.is_cleared()
        session_names._stack.sessions.append(session)
    config = tf.ConfigProto(graph_options=tf.GraphOptions(infer_shapes=True))
    assert "_output_shapes" in tf.Session(config=config).graph_def.node[0].attr
    attributes = session_names._DeviceAttributes("/job:w/task:1/cpu:0", "CPU", 10)
    assert str(attributes) == "_DeviceAttributes(/job:w/task:1/device:CPU:0, CPU, 10)"


class _Counting(tf.train.SessionRunHook):
    def __init__(self, tensor, last):
        self.tensor, self.last, self.seen = tensor, last, []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.seen.append(run_values.results)
        if run_values.results >= self.last:
            run_context.request_stop()


def test_a_session_with_hooks_around_one_of_the_program():
    hook.install()
    try:
        wrapping = importlib.import_module("tensorflow.python.training.monitored_session")
        hooked_session = wrapping._HookedSession
    finally:
        hook.uninstall()
    count = tf.Variable(0.0, use_resource=True)
    step = count.assign_add(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        inner = _Counting(step, 2.0)
        hooked = hooked_session(session, [inner])
        outer = hooked_session(hooked, [_Counting(tf.constant(0.0), 9.0)])
        assert outer.graph is session.graph
        assert outer.run(None) is None
        assert not outer.should_stop()
        assert outer.run_step_fn(lambda context: context.run_with_hooks({"a": count * 2.0}), session, None)["a"] in (
            2,
            4,
        )
        assert inner.seen == [1.0, 2.0]
        assert outer.should_stop()
        with pytest.raises(RuntimeError, match="Run called even after should_stop requested"):
            hooked.run(count)
        hooked.close()
        assert hooked.should_stop()


def test_functions_of_logging_can_be_replaced():
    hook.install()
    try:
        import tensorflow
        from tensorflow.python.platform import tf_logging

        from anabranch.platform import logging

        own = logging.warning
        with mock.patch.object(tf_logging, "warn") as patched:
            logging.warning("a %s", 1)
            assert patched.call_args_list == [mock.call("a %s", 1)]
        assert logging.warning is own
        tensorflow.logging.info = seen = mock.Mock()
        logging.info("b")
        assert seen.call_count == 1
        del tensorflow.logging.info
        assert logging.info.__module__ == "anabranch.platform.logging"
    finally:
        hook.uninstall()


def test_versions_of_the_module_that_has_them():
    hook.install()
    try:
        from tensorflow.python.framework import versions

        assert versions.__version__ == versions.VERSION == tf.VERSION
        assert versions.__git_version__ == tf.GIT_VERSION
    finally:
        hook.uninstall()


def test_sampled_logits_by_their_internal_name():
    from anabranch.compat.internal import private_names

    logits, labels = private_names._compute_sampled_logits(
        weights=tf.eye(3),
        biases=tf.zeros([3]),
        labels=[[1], [2]],
        inputs=tf.constant([[0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]),
        num_sampled=1,
        num_classes=3,
        sampled_values=([0], [[1.0], [1.0]], [1.0]),
    )
    with tf.Session() as session:
        assert session.run([logits, labels])[0].tolist() == [[2.0, 0.0], [3.0, 0.0]]
        assert session.run(labels).tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_crosses_by_their_internal_names():
    hook.install()
    try:
        from tensorflow.python.ops import init_ops, sparse_ops

        assert sparse_ops._sparse_cross is tf.sparse.cross
        assert sparse_ops._sparse_cross_hashed is tf.sparse.cross_hashed
        assert init_ops.convolutional_orthogonal_1d is tf.contrib.framework.convolutional_orthogonal_1d
        assert init_ops.identity_initializer is tf.initializers.identity
    finally:
        hook.uninstall()


def test_the_value_of_a_constant():
    proto = tf.constant([[1, 2]]).op.get_attr("value")
    assert list(proto.tensor_shape.dim)[1].size == 2
    assert tf.make_ndarray(proto).tolist() == [[1, 2]]
    assert list(tf.constant(0.5, tf.float16).op.get_attr("value").half_val) == [14336]
    assert list(tf.constant("a").op.get_attr("value").string_val) == [b"a"]
