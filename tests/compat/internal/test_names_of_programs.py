"""Names below TensorFlow's modules that programs of its years import, seen as they see them."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook


@pytest.fixture
def tensorflow():
    """The module that programs import, in a graph of the test's own."""
    with tf.Graph().as_default():
        yield hook.install()
    hook.uninstall()


def test_names_that_programs_take_from_modules_of_tensorflow(tensorflow):
    from tensorflow.contrib import autograph, slim
    from tensorflow.contrib.learn.python.learn import monitored_session
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.ops import control_flow_ops, op_selector

    # contrib.slim has what the files of contrib.layers import and define.
    assert slim.init_ops.zeros_initializer is tf.zeros_initializer
    assert slim.optimize_loss is tf.contrib.layers.optimize_loss
    assert slim.nets.vgg.vgg_16 is tf.contrib.slim.nets.vgg.vgg_16
    assert autograph.to_graph is tf.contrib.autograph.to_graph
    assert monitored_session.MonitoredSession is tf.train.MonitoredSession
    assert issubclass(tf.data.Dataset, dataset_ops.DatasetV2)
    x = tf.placeholder(tf.float32, [2])
    with tf.Session() as session:
        assert list(session.run(tensorflow.raw_ops.Add(x=x, y=1.0, name="sum"), {x: [1, 2]})) == [2.0, 3.0]
    y = tf.square(x)
    assert [op.type for op in op_selector.get_backward_walk_ops([y.op])] == ["Square", "Placeholder"]
    assert isinstance(tensorflow.__file__, str)
    seen = []
    tf.while_loop(
        lambda i: i < 1, lambda i: seen.append(tf.get_default_graph()._get_control_flow_context()) or i + 1, [0]
    )
    assert isinstance(seen[0], control_flow_ops.ControlFlowContext)


def test_a_function_compiled_by_xla(tensorflow):
    from tensorflow.contrib.compiler import xla

    x = tf.constant([1.0, 2.0])
    (double,) = xla.compile(lambda x: x * 2.0, [np.array([1.0, 2.0], np.float32)])
    total, other = xla.compile(lambda x, y: (x + y, tf.no_op(), x - y), [x, 1.0])
    named = xla.compile(lambda x: {"a": x, "b": [x + 1.0]}, [x])
    done = xla.compile(lambda: tf.no_op())
    with tf.Session() as session:
        assert session.run([double, total, other])[1].tolist() == [2.0, 3.0]
        assert session.run(named)["b"][0].tolist() == [2.0, 3.0]
        assert session.run(done) is None
    with pytest.raises(TypeError, match="inputs must be a list or tuple"):
        xla.compile(lambda x: x, x)


def test_whether_a_session_is_ready_and_what_it_fetches(tensorflow):
    from tensorflow.python.client.session import _FetchHandler
    from tensorflow.python.training.session_manager import _ready

    v = tf.Variable(1.0, name="v")
    missing = tf.report_uninitialized_variables()
    with tf.Session() as session:
        assert _ready(missing, session, "m") == (False, "Variables not initialized: v")
        assert _ready(v, session, "m")[0] is False
        session.run(v.initializer)
        assert _ready(missing, session, "m") == _ready(None, session, "m") == (True, None)
    handler = _FetchHandler(tf.get_default_graph(), {"a": missing, "b": [v.initializer, missing]}, {})
    assert (handler.fetches(), handler.targets()) == ([missing], [v.initializer])


def test_names_of_cells_metrics_and_training_that_programs_copy_from_tensorflow(tensorflow):
    """Values as TensorFlow 1.15 gave them, and of 1.8 where 1.15 has the name no more."""
    from tensorflow.contrib.seq2seq.python.ops.decoder import _transpose_batch_time
    from tensorflow.python.ops import rnn_cell_impl
    from tensorflow.python.ops.metrics_impl import _streaming_confusion_matrix
    from tensorflow.python.platform import tf_logging
    from tensorflow.python.training import device_setter
    from tensorflow.python.training.optimizer import _deduplicate_indexed_slices

    assert rnn_cell_impl._like_rnncell(tf.nn.rnn_cell.GRUCell(3))
    assert not rnn_cell_impl._like_rnncell(tf)
    assert _transpose_batch_time(tf.zeros([2, 3, 1])).shape.as_list() == [3, 2, 1]
    assert tf_logging._get_logger() is tf_logging.get_logger()
    turns = device_setter._RoundRobinStrategy(2)
    assert [turns(None) for _ in range(3)] == [0, 1, 0]
    matrix, update = _streaming_confusion_matrix([0, 1, 2, 1], [[0], [1], [1], [1]], 3, [1.0, 2.0, 3.0, 4.0])
    slices = _deduplicate_indexed_slices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([4, 1, 4]))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        once = session.run(update)
        np.testing.assert_array_equal(once, [[1, 0, 0], [0, 6, 0], [0, 3, 0]])
        session.run(update)
        np.testing.assert_array_equal(session.run(matrix), 2 * once)
        assert [values.tolist() for values in session.run(slices)] == [[[4.0], [2.0]], [4, 1]]


def test_modules_of_saved_models_have_the_names_of_their_files(tensorflow, tmp_path):
    from tensorflow.python.saved_model import builder, loader, main_op, utils

    folder = str(tmp_path / "model")
    with tf.Session() as session:
        variable = tf.Variable(3.0)
        session.run(variable.initializer)
        written = builder.SavedModelBuilder(folder)
        written.add_meta_graph_and_variables(session, ["serve"])
        written.save()
        assert utils.build_tensor_info(variable).name == "Variable:0"
        assert main_op.main_op().type == "NoOp"
    with tf.Graph().as_default(), tf.Session() as session:
        loader.load(session, ["serve"], folder)
        assert session.run("Variable:0") == 3.0
