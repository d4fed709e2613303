"""Internal names that libraries of TensorFlow 1.x's years import: each does what its public twin does."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch
from anabranch.compat import hook
from anabranch.core.protos import config_pb2, event_pb2


@pytest.fixture
def tf() -> Iterator[Any]:
    """TensorFlow's alias, for the length of a test."""
    yield hook.install()
    hook.uninstall()


def test_counts_at_thresholds(tf: Any) -> None:
    from tensorflow.python.ops import metrics_impl

    with tf.Graph().as_default(), tf.Session() as session:
        values, updates = metrics_impl._confusion_matrix_at_thresholds(
            [1, 0, 1, 0], [0.2, 0.3, 0.9, 0.6], [0.1, 0.5], includes=("tp", "fp")
        )
        assert sorted(values) == sorted(updates) == ["fp", "tp"]
        session.run(tf.local_variables_initializer())
        session.run(updates)
        assert {key: value.tolist() for key, value in session.run(values).items()} == {"tp": [2, 1], "fp": [2, 1]}
        with pytest.raises(ValueError, match="Invalid key: xx"):
            metrics_impl._confusion_matrix_at_thresholds([1], [0.5], [0.5], includes=["xx"])


def test_parts_of_metrics(tf: Any) -> None:
    from tensorflow.python.ops import metrics_impl

    with tf.Graph().as_default() as graph, tf.Session() as session:
        assert session.run(metrics_impl._safe_scalar_div(tf.constant(3.0), tf.constant(0.0), "x")) == 0
        v = tf.Variable(2.0)
        value = metrics_impl._aggregate_variable(v, ["mine"])
        assert graph.get_collection("mine") == [value]
        _, update = metrics_impl._streaming_sparse_average_precision_at_top_k([[1], [2]], [[1, 0], [0, 2]])
        session.run(tf.local_variables_initializer())
        assert session.run(update) == 0.75
        wide = metrics_impl._maybe_expand_labels(tf.constant([1, 2]), tf.constant([[1, 0], [0, 2]]))
        assert wide.shape.as_list() == [2, 1]


def test_gradients_with_the_arguments_of_version_2(tf: Any) -> None:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import gradients_impl

    with tf.Graph().as_default(), tf.Session() as session:
        x = ops.convert_to_tensor_v2(3.0, dtype_hint=tf.float64)
        assert x.dtype == tf.float64
        slopes = gradients_impl.gradients_v2(x * x, [x, tf.constant(1.0)], unconnected_gradients="zero")
        assert session.run(slopes) == [6.0, 0.0]


def test_a_file_of_events_has_the_name_and_head_of_tensorflows(tf: Any, tmp_path: Path) -> None:
    from tensorflow.python import pywrap_tensorflow

    writer = pywrap_tensorflow.EventsWriter(str(tmp_path / "events").encode())
    assert list(tmp_path.iterdir()) == []
    for step in (1, 2):
        writer.WriteEvent(event_pb2.Event(step=step))
    writer.Flush()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    assert writer.FileName() == str(path).encode()
    writer.Close()
    events = list(tf.train.summary_iterator(str(path)))
    assert [event.step for event in events] == [0, 1, 2]
    assert events[0].file_version == "brain.Event:2"


def test_names_that_a_docstring_lists(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from tensorflow.python.util.all_util import make_all

    module = types.ModuleType("listed", "Words.\n\n@@one\n@@two\n@@absent\n")
    module.__dict__.update(one=1, two=2, three=3, _four=4)
    monkeypatch.setitem(sys.modules, "listed", module)
    assert make_all("listed") == ["one", "two"]


def test_other_names_are_the_public_ones(tf: Any) -> None:
    from tensorflow.python.framework import constant_op, tensor_shape
    from tensorflow.python.keras.engine import input_spec
    from tensorflow.python.ops import control_flow_ops
    from tensorflow.python.training import evaluation

    assert input_spec.InputSpec is anabranch.layers.InputSpec
    assert evaluation._StopAfterNEvalsHook is anabranch.contrib.training.StopAfterNEvalsHook
    assert evaluation._evaluate_once is anabranch.contrib.training.evaluate_once
    assert evaluation._get_or_create_eval_step is anabranch.contrib.training.get_or_create_eval_step
    assert not isinstance(tf.get_default_graph()._get_control_flow_context(), control_flow_ops.XLAControlFlowContext)
    with tf.Graph().as_default(), tf.Session() as session:
        shape = constant_op._tensor_shape_tensor_conversion_function(tensor_shape.TensorShape([2, 3]))
        np.testing.assert_array_equal(session.run(shape), [2, 3])


def test_what_is_like_an_operation_is_told_the_device_in_force() -> None:
    tf = anabranch

    class Asks:
        device: str | None = None

        def _set_device(self, device: str) -> None:
            self.device = device

    def asked() -> str | None:
        asks = Asks()
        tf.get_default_graph()._apply_device_functions(asks)
        return asks.device

    with tf.Graph().as_default():
        assert asked() is None
        with tf.device("/cpu:0"), tf.device("/job:ps"):
            assert asked() == "/job:ps/device:CPU:0"
        with tf.device(lambda op: "/device:GPU:1"):
            assert asked() == "/device:GPU:1"


def test_a_callable_of_a_message_takes_options_and_metadata() -> None:
    tf = anabranch
    options = config_pb2.CallableOptions()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        y = x * 2
        options.feed.append(x.name)
        options.fetch.append(y.name)
        options.target.append(tf.no_op().name)
        options.run_options.trace_level = tf.RunOptions.FULL_TRACE
        run, metadata = session._make_callable_from_options(options), tf.RunMetadata()
        assert run(3.0) == [6.0]
        assert run(4.0, run_metadata=metadata) == [8.0]
        assert metadata.step_stats.dev_stats


def test_names_of_structures_and_inspection(tf: Any) -> None:
    import collections
    import inspect

    from tensorflow.python.ops import unconnected_gradients
    from tensorflow.python.util import nest, tf_inspect

    class Wider(collections.namedtuple("Pair", "a b")):
        pass

    assert nest._is_namedtuple(Wider(1, 2))
    assert not nest._is_namedtuple(Wider(1, 2), strict=True)
    assert nest._is_namedtuple(Wider.__base__(1, 2), strict=True)
    assert not nest._is_namedtuple((1, 2))
    assert tf_inspect._inspect is inspect
    assert unconnected_gradients.UnconnectedGradients is anabranch.UnconnectedGradients


def test_attributes_in_which_a_module_has_no_variables() -> None:
    tf = anabranch

    class Holder(tf.Module):
        _TF_MODULE_IGNORED_PROPERTIES = frozenset(["cached"]).union(tf.Module._TF_MODULE_IGNORED_PROPERTIES)

    with tf.Graph().as_default():
        holder = Holder()
        holder.kept, holder.cached = tf.Variable(1.0), tf.Variable(2.0)
        assert [one is holder.kept for one in holder.variables] == [True]
        assert len(tf.Module("plain").variables) == 0


def test_a_callable_of_a_message_connects_tensors() -> None:
    tf = anabranch
    options = config_pb2.CallableOptions()
    with tf.Graph().as_default(), tf.Session() as session:
        count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), use_resource=True)
        fed, first, second = (tf.placeholder(tf.float32, []) for _ in range(3))
        counted = tf.identity(count.assign_add(fed))
        session.run(count.initializer)
        options.feed.append(fed.name)
        options.fetch.extend([(first + second).name, counted.name])
        for tensor in (first, second):
            options.tensor_connection.add(from_tensor=counted.name, to_tensor=tensor.name)
        run = session._make_callable_from_options(options)
        assert run(3.0) == [6.0, 3.0]
        assert run(2.0) == [10.0, 5.0]
        assert session.run(count) == 5.0


def test_names_of_loops_of_training_and_partitions(tf: Any) -> None:
    from tensorflow.python.ops import script_ops, variable_scope
    from tensorflow.python.training import basic_loops, saver

    assert basic_loops.basic_train_loop is anabranch.train.basic_train_loop
    assert script_ops.eager_py_func is anabranch.py_function
    assert variable_scope._PartitionInfo([9, 3], [4, 0]).single_offset([1, 3]) == 4
    assert saver.Saver._MetaGraphFilename("folder/model-00000-of-00001") == "folder/model.meta"
