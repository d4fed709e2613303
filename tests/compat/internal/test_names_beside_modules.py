"""Names that modules of TensorFlow 1.8 have and no file of TensorFlow's own imports: signatures, dtypes, functions."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("python.layers.pooling", "max_pool2d"),
        ("python.layers.pooling", "avg_pool3d"),
        ("python.data.ops.iterator_ops", "GET_NEXT_CALL_WARNING_MESSAGE"),
        ("python.data.ops.iterator_ops", "GET_NEXT_CALL_WARNING_THRESHOLD"),
        ("python.summary.text_summary", "text_summary"),
        ("python.summary.text_summary", "PLUGIN_NAME"),
        ("python.training.supervisor", "SVTimerCheckpointThread"),
        ("python.training.device_setter", "STANDARD_PS_OPS"),
        ("python.framework.meta_graph", "SAVE_AND_RESTORE_OPS"),
        ("python.ops.sets_impl", "set_union"),
        ("python.ops.check_ops", "NUMERIC_TYPES"),
        ("python.platform.benchmark", "TEST_REPORTER_TEST_ENV"),
        ("python.platform.benchmark", "TensorFlowBenchmark"),
        ("python.platform.googletest", "GetTempDir"),
    ],
)
def test_names_are_found(module, name):
    assert hook.resolve(module, name) is not None


def test_shapes_and_types_of_signatures():
    utilities = "python.saved_model.signature_def_utils_impl"
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.placeholder(tf.int32, [3])
    signature = tf.saved_model.signature_def_utils.build_signature_def(
        {"x": tf.saved_model.utils.build_tensor_info(x)}, {"y": tf.saved_model.utils.build_tensor_info(y)}, "method"
    )
    results = {
        kind: hook.resolve(utilities, f"get_signature_def_{kind}")(signature)
        for kind in ("input_shapes", "input_types", "output_shapes", "output_types")
    }
    assert results["input_shapes"]["x"].as_list() == [None, 2]
    assert results["input_types"] == {"x": tf.float32}
    assert results["output_shapes"]["y"].as_list() == [3]
    assert results["output_types"] == {"y": tf.int32}


def test_what_a_function_uses_of_the_graph_around_it():
    function = "python.framework.function"
    names = ("get_extra_inputs", "get_extra_args", "get_extra_vars")
    for name in names:
        assert hook.resolve(function, name)() == []
    outside = tf.constant([1.0, 2.0])
    variable = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    seen = {}

    @tf.Defun(tf.float32)
    def body(x):
        y = x + outside * variable
        seen.update({name: hook.resolve(function, name)() for name in names})
        return y

    result = body([1.0, 1.0])
    assert outside in seen["get_extra_inputs"]
    assert len(seen["get_extra_args"]) == len(seen["get_extra_inputs"]) == 2
    assert seen["get_extra_vars"] == [variable]
    with tf.Session() as session:
        session.run(variable.initializer)
        assert session.run(result).tolist() == [2.0, 3.0]


def test_ranges_of_types():
    ranges = hook.resolve("python.framework.dtypes", "dtype_range")
    assert ranges[np.uint8] == (0, 255)
    assert ranges[np.float32] == (-1, 1)
    assert ranges[np.bool_] == (False, True)
    assert hook.resolve("python.framework.dtypes", "np_resource").names == ("resource",)
    for kind in (tf.bool, tf.string, tf.complex64, tf.qint8):
        with pytest.raises(TypeError, match=f"^Cannot find minimum value of <dtype: '{kind.name}'>\\.\n"):
            _ = kind.min
        with pytest.raises(TypeError, match=f"^Cannot find maximum value of <dtype: '{kind.name}'>\\.\n"):
            _ = kind.max
    with pytest.raises(TypeError, match=r"^Cannot convert value 'foo' to a TensorFlow DType\.\n"):
        tf.as_dtype("foo")


def test_functions_of_collections():
    ops = "python.framework.ops"
    to_proto, from_proto = (lambda item, export_scope=None: None), (lambda message, import_scope=None: None)
    register = hook.resolve(ops, "register_proto_function")
    register("of this test", tf.Summary, to_proto, from_proto)
    assert hook.resolve(ops, "get_collection_proto_type")("of this test") is tf.Summary
    assert hook.resolve(ops, "get_to_proto_function")("of this test") is to_proto
    assert hook.resolve(ops, "get_from_proto_function")("of this test") is from_proto
    assert hook.resolve(ops, "get_from_proto_function")("none") is None
    with pytest.raises(KeyError, match="Registering two proto functions with name 'of this test'"):
        register("of this test", tf.Summary, from_proto, to_proto)
    with tf.Session() as session, hook.resolve(ops, "default_session")(session):
        assert tf.get_default_session() is session


def test_an_events_writer_takes_messages_and_bytes(tmp_path):
    writer = hook.resolve("python.pywrap_tensorflow", "EventsWriter")(str(tmp_path / "e"))
    writer.WriteEvent(tf.Event(step=1))
    writer._WriteSerializedEvent(tf.Event(step=2).SerializeToString())
    with pytest.raises(TypeError, match=r"^Expected an event_pb2.Event proto,  but got <class 'str'>"):
        writer.WriteEvent("text")
    writer.Close()
    (path,) = tmp_path.iterdir()
    assert [event.step for event in tf.train.summary_iterator(str(path))] == [0, 1, 2]


def test_labels_of_another_shape_are_told_by_the_axis_that_cannot_be_taken_off():
    logits = tf.constant(np.eye(4, dtype=np.float32))
    with pytest.raises(ValueError, match=r"^Can not squeeze dim\[1\], expected a dimension of 1, got 2 "):
        tf.losses.sparse_softmax_cross_entropy(tf.constant([[0, 1], [2, 3]]), logits)
    with pytest.raises(ValueError, match=r"^Can not squeeze dim\[1\], expected a dimension of 1, got 3 "):
        tf.metrics.mean_absolute_error(tf.zeros([4, 3]), tf.zeros([4]))


def test_the_handle_of_a_variable_does_not_stay_the_same():
    variable = tf.get_variable("v", [1], use_resource=True, initializer=tf.ones_initializer())
    with tf.Session() as session:
        session.run(variable.initializer)
        assert session.run(tf.guarantee_const(variable)) == [1.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"^Input tensor cannot be a resource variable handle"):
            session.run(tf.guarantee_const(variable.handle))


def test_a_model_has_one_operation_that_initialises(tmp_path):
    variable = tf.get_variable("v", [])
    tf.add_to_collection("legacy_init_op", tf.no_op())
    builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
    with tf.Session() as session:
        session.run(variable.initializer)
        with pytest.raises(
            ValueError, match=r"^Graph already contains one or more main ops under the collection legacy"
        ):
            builder.add_meta_graph_and_variables(session, ["serve"], legacy_init_op=tf.no_op())
