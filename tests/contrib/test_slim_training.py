"""Loops of `tf.contrib.slim` and `tf.contrib.training`, and what stands beside them."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

slim = tf.contrib.slim
training = tf.contrib.training
X = np.random.RandomState(0).randn(32, 3).astype(np.float32)
Y = X @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.25


def loss_of() -> Any:
    """A linear model's loss, with a summary and an update op that counts."""
    prediction = slim.fully_connected(tf.constant(X), 1, activation_fn=None, scope="line")
    seen = tf.get_variable("seen", [], tf.int32, tf.zeros_initializer(), trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(seen, 1))
    loss = tf.losses.mean_squared_error(Y, prediction)
    tf.summary.scalar("loss", loss)
    return loss


def test_training_saves_and_goes_on(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    for steps in (30, 60):
        with tf.Graph().as_default():
            step = slim.learning.create_train_op(loss_of(), tf.train.GradientDescentOptimizer(0.1))
            last = slim.learning.train(
                step, folder, number_of_steps=steps, log_every_n_steps=20, save_summaries_secs=600
            )
    assert last < 1e-3
    assert tf.train.latest_checkpoint(folder) == f"{folder}/model.ckpt-60"
    reader = tf.train.load_checkpoint(folder)
    assert reader.get_tensor("seen") == 60
    np.testing.assert_allclose(reader.get_tensor("line/weights").ravel(), [1.0, -2.0, 0.5], atol=0.05)
    assert [path.name for path in (tmp_path / "run").glob("events*")]


def test_training_without_a_folder(caplog: pytest.LogCaptureFixture) -> None:
    steps = []

    def counted(session: Any, train_op: Any, global_step: Any, kwargs: dict[str, Any]) -> tuple[Any, bool]:
        steps.append(1)
        loss, _ = slim.learning.train_step(session, train_op, global_step, kwargs)
        return loss, len(steps) == 3

    with tf.Graph().as_default(), caplog.at_level(logging.INFO):
        step = slim.learning.create_train_op(loss_of(), tf.train.AdamOptimizer(0.1), clip_gradient_norm=1.0)
        starts: list[Any] = []
        loss = slim.learning.train(step, None, counted, init_fn=starts.append)
        assert np.isfinite(loss)
        assert len(starts) == 1
        with pytest.raises(ValueError, match="train_op cannot be None"):
            slim.learning.train(None, None)
        with pytest.raises(ValueError, match="must be either None or a positive number"):
            slim.learning.train(step, None, number_of_steps=0)
        with pytest.raises(ValueError, match=r"`sync_optimizer` must be a tf.train.SyncReplicasOptimizer"):
            slim.learning.train(step, None, sync_optimizer=object())
        with pytest.raises(ValueError, match="startup_delay_steps must be zero when sync_optimizer is supplied"):
            slim.learning.train(step, None, sync_optimizer=object(), startup_delay_steps=3)
        with pytest.raises(ValueError, match="Cannot provide trace_every_n_steps because logdir=None"):
            slim.learning.train(step, None, trace_every_n_steps=2)
        with pytest.raises(ValueError, match="logdir must be present in train_step_kwargs"):
            slim.learning.train_step(None, step, None, {"should_trace": True})


def test_steps_are_traced(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = slim.learning.create_train_op(loss_of(), tf.train.GradientDescentOptimizer(0.1))
        slim.learning.train(step, str(tmp_path), number_of_steps=5, trace_every_n_steps=2)
    traces = sorted(tmp_path.glob("tf_trace-*.json"))
    assert [path.name for path in traces] == ["tf_trace-1.json", "tf_trace-3.json", "tf_trace-5.json"]
    events = json.loads(traces[-1].read_text())["traceEvents"]
    assert any("dur" in event for event in events)
    tags = [
        event.tagged_run_metadata.tag
        for path in tmp_path.glob("events*")
        for event in tf.train.summary_iterator(str(path))
        if event.HasField("tagged_run_metadata")
    ]
    assert tags == ["run_metadata-1", "run_metadata-3", "run_metadata-5"]


def test_synchronous_steps_of_the_only_worker() -> None:
    with tf.Graph().as_default():
        loss = loss_of()
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1, 1)
        step = slim.learning.create_train_op(loss, optimizer)
        last = slim.learning.train(step, None, number_of_steps=60, sync_optimizer=optimizer)
    assert last < 1e-2


def test_gradients_are_multiplied_clipped_and_summarised() -> None:
    with tf.Graph().as_default() as graph:
        w, b = tf.get_variable("w", [2]), tf.get_variable("b", [])
        loss = 3.0 * w[0] + 4.0 * w[1] + 2.0 * b
        step = training.create_train_op(
            loss,
            tf.train.GradientDescentOptimizer(1.0),
            summarize_gradients=True,
            transform_grads_fn=lambda pairs: training.clip_gradient_norms(
                training.multiply_gradients(pairs, {"b": 0.5, w: 2.0}), 5.0
            ),
        )
        assert tf.get_collection(tf.GraphKeys.TRAIN_OP)[-1] is step  # after the optimizer's own
        names = [summary.op.name for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)]
        assert names == [f"summarize_grads/{v}_gradient{kind}" for v in "wb" for kind in ("", "_norm")]
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            before = session.run([w, b])
            session.run(step)
            after = session.run([w, b, tf.train.get_global_step()])
        np.testing.assert_allclose(before[0] - after[0], [3.0, 4.0], rtol=1e-5)  # norm 10 cut to 5
        np.testing.assert_allclose(before[1] - after[1], 1.0, rtol=1e-5)
        assert after[2] == 1
        with pytest.raises(ValueError, match="Requested multiple of `None` gradient"):
            training.multiply_gradients([(None, w)], {w: 1.0})
        with pytest.raises(ValueError, match="`gradient_multipliers` is empty"):
            training.multiply_gradients([], {})


def test_loss_that_is_not_a_number_stops_training() -> None:
    with tf.Graph().as_default():
        w = tf.get_variable("w", [])
        step = training.create_train_op(w * float("nan"), tf.train.GradientDescentOptimizer(1.0))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
                session.run(step)


def test_monitored_training(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = training.create_train_op(loss_of(), tf.train.GradientDescentOptimizer(0.1))
        loss = training.train(step, str(tmp_path), hooks=[tf.train.StopAtStepHook(num_steps=7)])
        assert loss > 0
        with pytest.raises(ValueError, match="logdir cannot be None when save_summaries_steps"):
            training.train(step, None)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-7")


def trained(folder: Path, steps: int) -> None:
    with tf.Graph().as_default():
        step = slim.learning.create_train_op(loss_of(), tf.train.GradientDescentOptimizer(0.1))
        slim.learning.train(step, str(folder), number_of_steps=steps)


def metrics_of() -> tuple[dict[str, Any], dict[str, Any]]:
    batch = tf.random_uniform([4], 0, 32, tf.int32, seed=1)
    prediction = slim.fully_connected(tf.gather(X, batch), 1, activation_fn=None, scope="line")
    values, updates = slim.metrics.aggregate_metric_map(
        {
            "error": slim.metrics.streaming_mean_squared_error(prediction, tf.gather(Y, batch)),
            "batches": slim.metrics.streaming_mean(tf.constant(1.0)),
        }
    )
    tf.summary.scalar("error", values["error"])
    return values, updates


def test_evaluation_of_checkpoints(tmp_path: Path) -> None:
    trained(tmp_path / "run", 40)
    with tf.Graph().as_default():
        values, updates = metrics_of()
        tf.train.get_or_create_global_step()
        path = tf.train.latest_checkpoint(str(tmp_path / "run"))
        found = slim.evaluation.evaluate_once(
            "", path, str(tmp_path / "eval"), num_evals=3, eval_op=list(updates.values()), final_op=values
        )
        assert 0 <= found["error"] < 1e-2
        assert found["batches"] == 1.0
    (events,) = (tmp_path / "eval").glob("events*")
    written = [
        (event.step, value.tag) for event in tf.train.summary_iterator(str(events)) for value in event.summary.value
    ]
    assert written == [(40, "error")]
    with tf.Graph().as_default():
        values, updates = metrics_of()
        found = slim.evaluation.evaluation_loop(
            "", str(tmp_path / "run"), str(tmp_path / "eval2"), num_evals=2, eval_op=updates, final_op=values["error"],
            summary_op=None, variables_to_restore=slim.get_variables_to_restore(include=["line"]),
            max_number_of_evaluations=1, eval_interval_secs=0, timeout=5,
        )  # fmt: skip
        assert found < 1e-2


def test_waiting_for_checkpoints(tmp_path: Path) -> None:
    assert training.wait_for_new_checkpoint(str(tmp_path), seconds_to_sleep=0.01, timeout=0.05) is None
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "m-1"\n')
    (tmp_path / "m-1.index").write_text("")
    found = training.wait_for_new_checkpoint(str(tmp_path), seconds_to_sleep=0.01, timeout=1)
    assert found == str(tmp_path / "m-1")
    assert training.wait_for_new_checkpoint(str(tmp_path), found, 0.01, 0.05) is None


def test_model_analyzer(capsys: pytest.CaptureFixture[str]) -> None:
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", [3, 4])
        w = tf.get_variable("w", [], tf.int32, use_resource=True)
        p = tf.placeholder(tf.float32, [None, 2], name="pp")
        tf.matmul(tf.ones([2, 3], name="ones"), v, name="prod")
        assert slim.model_analyzer.analyze_vars([v, w], print_info=True) == (13, 52)
        assert capsys.readouterr().out.splitlines() == [
            "---------",
            "Variables: name (type shape) [size]",
            "---------",
            "v:0 (float32_ref 3x4) [12, bytes: 48]",
            "w:0 (int32 ) [1, bytes: 4]",
            "Total size of variables: 13",
            "Total bytes of variables: 52",
        ]
        assert slim.model_analyzer.tensor_description(p) == "(float32 ?x2)"
        total = slim.model_analyzer.analyze_ops(graph, print_info=True)
        lines = capsys.readouterr().out.splitlines()
        assert "prod \t-> (float32 2x4) [8]" in lines
        assert "pp \t-> (float32 ?x2) [0]" in lines
        assert total == sum(int(line.rpartition("[")[2].rstrip("]")) for line in lines[3:])


def test_summaries_named_after_tensors() -> None:
    with tf.Graph().as_default():
        x = tf.constant([[0.0, 1.0]], name="x")
        total = tf.reduce_sum(x, name="tot")
        slim.summaries.add_histogram_summary(x, prefix="pre")
        slim.summaries.add_image_summary(tf.ones([1, 4, 4, 3]), name="named")
        slim.summaries.add_zero_fraction_summary(x)
        slim.summaries.add_scalar_summaries([total, total], "q")
        shown = slim.summaries.add_scalar_summary(total, "nm", "px", print_summary=True)
        assert shown.op.type == "Print"
        found = tf.Summary.FromString(tf.Session().run(tf.summary.merge_all()))
        tags = ["pre/x", "named/image/0", "x/Fraction_of_Zero_Values", "q/tot", "q/tot_1", "px/nm"]
        assert [value.tag for value in found.value] == tags
        assert found.value[2].simple_value == 0.5


def test_queues() -> None:
    with tf.Graph().as_default():
        number = tf.get_variable("n", [], tf.int32, tf.zeros_initializer())
        queue = slim.prefetch_queue.prefetch_queue({"number": tf.assign_add(number, 1), "one": tf.constant([1.0])}, 4)
        item = queue.dequeue()
        assert sorted(item) == ["number", "one"]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            with slim.queues.QueueRunners(session):
                assert [int(session.run(item)["number"]) for _ in range(3)] == [1, 2, 3]
                with (
                    pytest.raises(slim.queues.NestedQueueRunnerError, match="cannot be nested"),
                    slim.queues.QueueRunners(session),
                ):
                    pass


def test_files_of_a_data_set(tmp_path: Path) -> None:
    for name in ("a-1", "a-2", "b"):
        (tmp_path / name).write_text("")
    files = slim.parallel_reader.get_data_files([f"{tmp_path}/a-*", f"{tmp_path}/b"])
    assert sorted(Path(name).name for name in files) == ["a-1", "a-2", "b"]
    with pytest.raises(ValueError, match="No data files found"):
        slim.parallel_reader.get_data_files(f"{tmp_path}/c*")
    made = slim.dataset.Dataset(files, None, None, 3, {"image": "An image."}, num_classes=10)
    assert (made.num_samples, made.num_classes, made.items_to_descriptions) == (3, 10, {"image": "An image."})


def example(**features: Any) -> bytes:
    """A serialized example."""
    found = tf.train.Example()
    for name, values in features.items():
        feature = found.features.feature[name.replace("__", "/")]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            feature.float_list.value.extend(values)
    return found.SerializeToString()


def png(pixels: np.ndarray) -> bytes:
    image = pytest.importorskip("PIL.Image")
    held = io.BytesIO()
    image.fromarray(pixels).save(held, "PNG")
    return held.getvalue()


def test_items_of_examples() -> None:
    decoder = slim.tfexample_decoder
    pixels = np.random.RandomState(0).randint(0, 255, (3, 4, 3)).astype(np.uint8)
    features = {
        "image/encoded": tf.FixedLenFeature((), tf.string),
        "image/format": tf.FixedLenFeature((), tf.string, "png"),
        "label": tf.FixedLenFeature([1], tf.int64),
        "box/ymin": tf.VarLenFeature(tf.float32),
        "box/xmin": tf.VarLenFeature(tf.float32),
        "box/ymax": tf.VarLenFeature(tf.float32),
        "box/xmax": tf.VarLenFeature(tf.float32),
        "values": tf.VarLenFeature(tf.float32),
        "ids": tf.VarLenFeature(tf.int64),
        "shape": tf.FixedLenFeature([2], tf.int64),
    }
    handlers = {
        "image": decoder.Image(),
        "shaped": decoder.Image(shape=[3, 4, 3]),
        "label": decoder.Tensor("label", shape=[]),
        "boxes": decoder.BoundingBox(prefix="box/"),
        "matrix": decoder.Tensor("values", shape_keys="shape"),
        "flat": decoder.Tensor("values"),
        "sparse": decoder.SparseTensor("ids", shape=[6], densify=True),
        "sum": decoder.ItemHandlerCallback(["values"], lambda found: tf.reduce_sum(found["values"].values)),
        "backup": decoder.BackupHandler(decoder.Tensor("nothing"), decoder.Tensor("values")),
    }
    features["nothing"] = tf.VarLenFeature(tf.float32)
    made = decoder.TFExampleDecoder(features, handlers)
    assert made.list_items() == list(handlers)
    written = example(
        image__encoded=[png(pixels)], label=[7], box__ymin=[0.0, 0.1], box__xmin=[0.2, 0.3], box__ymax=[0.4, 0.5],
        box__xmax=[0.6, 0.7], values=[1.0, 2.0, 3.0, 4.0], ids=[0, 2, 3, 5], shape=[2, 2],
    )  # fmt: skip
    with tf.Graph().as_default(), tf.Session() as session:
        found = dict(zip(handlers, session.run(made.decode(tf.constant(written))), strict=True))
        np.testing.assert_array_equal(found["image"], pixels)
        np.testing.assert_array_equal(found["shaped"], pixels)
        assert found["label"] == 7
        np.testing.assert_allclose(found["boxes"], [[0.0, 0.2, 0.4, 0.6], [0.1, 0.3, 0.5, 0.7]])
        np.testing.assert_array_equal(found["matrix"], [[1, 2], [3, 4]])
        np.testing.assert_array_equal(found["flat"], [1, 2, 3, 4])
        np.testing.assert_array_equal(found["sparse"], [1, 0, 2, 3, 0, 4])
        assert found["sum"] == 10
        np.testing.assert_array_equal(found["backup"], [1, 2, 3, 4])
        raw = example(image__encoded=[pixels.tobytes()], image__format=[b"raw"], label=[1], shape=[1, 1])
        (image,) = made.decode(tf.constant(raw), ["shaped"])
        np.testing.assert_array_equal(session.run(image), pixels)
    with pytest.raises(ValueError, match="BoundingBox expects 4 keys"):
        decoder.BoundingBox(["y", "x"])
    with pytest.raises(ValueError, match="Cannot specify both"):
        decoder.Tensor("a", "b", [1])


def test_items_of_sequences() -> None:
    decoder = slim.tfexample_decoder
    context = {"id": tf.FixedLenFeature((), tf.int64)}
    sides = ["ymin", "xmin", "ymax", "xmax"]
    sequence = {f"bbox/{side}": tf.VarLenFeature(tf.float32) for side in sides}
    made = decoder.TFSequenceExampleDecoder(
        context, sequence, {"id": decoder.Tensor("id"), "boxes": decoder.BoundingBoxSequence()}
    )
    message = tf.train.SequenceExample()
    message.context.feature["id"].int64_list.value.append(3)
    for number, side in enumerate(sides):
        for boxes in (2, 1):
            values = [number + 0.1 * i for i in range(boxes)]
            message.feature_lists.feature_list[f"bbox/{side}"].feature.add().float_list.value.extend(values)
    with tf.Graph().as_default(), tf.Session() as session:
        number, boxes = session.run(made.decode(tf.constant(message.SerializeToString())))
    assert number == 3
    np.testing.assert_allclose(boxes, [[[0, 1, 2, 3], [0.1, 1.1, 2.1, 3.1]], [[0, 1, 2, 3], [-1] * 4]], rtol=1e-6)
    with pytest.raises(ValueError, match="must be disjoint"):
        decoder.TFSequenceExampleDecoder(context, context, {})


def test_printed_summaries_are_merged_once(capfd: pytest.CaptureFixture[str]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        for name in ("a", "b"):
            slim.summaries.add_scalar_summary(tf.constant(1.5), name, "eval", print_summary=name == "a")
        slim.summaries.add_zero_fraction_summary(tf.constant([0.0, 1.0]), "c", print_summary=True)
        slim.summaries.add_image_summary(tf.zeros([1, 2, 2, 1]), "d", print_summary=True)
        assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 4
        merged = tf.Summary.FromString(session.run(tf.summary.merge_all()))
        assert [value.tag for value in merged.value] == [
            "eval/a",
            "eval/b",
            "c/Fraction_of_Zero_Values",
            "d/image/0",
        ]
    assert "eval/a[1.5]" in capfd.readouterr().err
