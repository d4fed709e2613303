"""Names of late versions: specs, modules, Python functions of tensors, XLA's scope, summaries of version 2."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER


def test_specs() -> None:
    spec = tf.TensorSpec([None, 3], tf.int32, "x")
    assert spec == tf.TensorSpec(tf.TensorShape([None, 3]), "int32", name="x")
    assert spec != tf.TensorSpec([None, 3], tf.int32)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(tf.TensorSpec([None, 3], tf.int32, "x"))
    with tf.Graph().as_default():
        assert spec.is_compatible_with(tf.zeros([2, 3], tf.int32))
        assert not spec.is_compatible_with(tf.zeros([2, 3]))
        assert not spec.is_compatible_with(tf.TensorSpec([2, 4], tf.int32))
        made = tf.TensorSpec.from_tensor(tf.zeros([2], name="mine"))
        assert (made.shape.as_list(), made.dtype, made.name) == ([2], tf.float32, "mine")
    assert tf.TensorSpec.from_spec(spec, "y").name == "y"


class Line(tf.Module):
    """A module with variables of both kinds, and modules in a list."""

    def __init__(self, depth: int = 0, name: str | None = None) -> None:
        super().__init__(name)
        with self.name_scope:
            self.w = tf.Variable(1.0, name="w")
            self.b = tf.Variable(0, trainable=False, name="b")
        self.inner = [Line(depth - 1)] if depth else []
        self.same = self.w

    @tf.Module.with_name_scope
    def __call__(self, x: Any) -> Any:
        return tf.multiply(x, self.w, name="scaled")


def test_modules() -> None:
    with tf.Graph().as_default():
        line = Line(1, "outer")
        assert [v.op.name for v in line.variables] == ["outer/b", "outer/w", "line/b", "line/w"]
        assert [v.op.name for v in line.trainable_variables] == ["outer/w", "line/w"]
        assert line.submodules == (line.inner[0],)
        assert line(tf.constant(2.0)).op.name == "outer/scaled"
        assert Line().name == "line"
        with pytest.raises(ValueError, match="not a valid module name"):
            Line(name="a-b")


def test_functions_of_tensors() -> None:
    def cube(x: Any) -> Any:
        assert x.numpy().shape == (2,)
        return x * tf.square(x)

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2])
        y = tf.py_function(cube, [x], tf.float32)
        (slope,) = tf.gradients(y, [x])
        plain, none = tf.py_function(lambda a: [a.numpy() + 1, len(a.numpy())], [x], [tf.float32, tf.int32])
        nothing = tf.py_function(lambda a: None, [x], [])
        found = session.run([y, slope, plain, none], {x: [2.0, -3.0]})
        for value, expected in zip(found, ([8, -27], [12, 27], [3, -2], 2), strict=True):
            np.testing.assert_allclose(value, expected)
        session.run(nothing, {x: [0.0, 0.0]})
        wrong = tf.py_function(lambda a: [a, a], [x], [tf.float32])
        with pytest.raises(tf.errors.OpError, match="2 results"):
            session.run(wrong, {x: [0.0, 0.0]})


def test_functions_of_tensors_run_at_once() -> None:
    def collatz(x: Any) -> Any:
        assert tf.executing_eagerly()
        steps = 0
        while x > 1:  # the value decides
            x = x // 2 if tf.equal(x % 2, 0) else 3 * x + 1
            steps += 1
        return steps

    def shout(text: Any) -> Any:
        assert text.numpy() == b"abc"
        return tf.strings.join([text, "!"])

    with tf.Graph().as_default(), tf.Session() as session:
        assert not tf.executing_eagerly()
        x = tf.placeholder(tf.int64, [])
        assert session.run(tf.py_function(collatz, [x], tf.int32), {x: 27}) == 111
        assert session.run(tf.py_function(shout, [tf.constant("abc")], tf.string)) == b"abc!"
        lines = tf.data.Dataset.from_tensors("abc").map(lambda line: tf.py_function(shout, [line], tf.string))
        assert session.run(tf.data.make_one_shot_iterator(lines).get_next()) == b"abc!"


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_functions_of_tensors_are_ops_with_gradients(tier: str) -> None:
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x, n = tf.placeholder(tf.float32, [2], name="x"), tf.placeholder(tf.int32, [], name="n")
        both = tf.py_function(lambda a, k: [a * tf.cast(k, tf.float32), k + 1], [x, n], [tf.float32, tf.int32])
        op = both[0].op
        assert (op.type, op.name, op.get_attr("Tin"), op.get_attr("Tout"), op.get_attr("is_async")) == (
            "EagerPyFunc", "EagerPyFunc", [tf.float32, tf.int32], [tf.float32, tf.int32], False,
        )  # fmt: skip
        slope, none = tf.gradients(tf.square(both[0]), [x, n])
        assert none is None
        assert slope.op.type == "EagerPyFunc"
        assert slope.op.get_attr("token") != op.get_attr("token")
        assert tf.gradients(slope, x, [tf.ones([2])]) == [None]
        feeds = {x: [2.0, -3.0], n: 3}
        values = session.run([*both, slope], feeds)
        for value, expected in zip(values, ([6, -9], 4, [36, -54]), strict=True):
            np.testing.assert_allclose(value, expected)
        # A GraphDef of this process runs, with gradients, as long as the function is there.
        text = graph.as_graph_def()
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x, n, y = tf.import_graph_def(text, return_elements=["x:0", "n:0", "EagerPyFunc:0"], name="again")
        slope = tf.gradients(y, x)[0]
        assert session.run([y, slope], {x: [1.0, 2.0], n: 5})[1].tolist() == [5, 5]
        before = tf.py_func(lambda: np.float32(3), [], tf.float32)
        plain = tf.py_function(lambda a: a.numpy() * 2, [before], tf.float32)
        assert session.run([plain, tf.gradients(plain, before)[0]]) == [6, 0]


def test_a_token_of_another_process() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.py_function(lambda a: a, [x], tf.float32)
        text = graph.as_graph_def()
    for node in text.node:
        if node.op == "EagerPyFunc":
            node.attr["token"].s = b"pyfunc_of_another"
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.import_graph_def(text, return_elements=["x:0", "EagerPyFunc:0"], name="")
        slope = tf.gradients(y, x)[0]
        for fetch in (y, slope):
            with pytest.raises(tf.errors.InvalidArgumentError, match="pyfunc_of_another is not found") as caught:
                session.run([fetch], {x: 1.0})
            assert caught.value.op.type == "EagerPyFunc"


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (lambda a: 1.5, tf.int32, r"(?s)int32"),
        (lambda a: tf.cast(a, tf.float64), tf.float32, "(?s)float64"),
        (lambda a: [a, a], tf.float32, "2 results"),
        (lambda a: tf.py_func(np.sqrt, [a], tf.float64), tf.float32, "(?s)float64"),
    ],
)
def test_functions_of_tensors_give_what_they_say(function: Any, kind: Any, text: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.OpError, match=text):
            session.run(tf.py_function(function, [tf.constant(1.0)], kind))


def test_compiled_by_name() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
        (one,) = tf.xla.experimental.compile(lambda x: x * 2, [3.0])
        both = tf.xla.experimental.compile(lambda x: {"a": x, "b": x + 1}, [3.0])
        (after,) = tf.xla.experimental.compile(lambda: (tf.constant(1.0), v.assign_add(1.0).op))
        only = tf.xla.experimental.compile(lambda: v.assign_add(10.0).op)
        assert isinstance(tf.xla.experimental.compile(lambda: None), tf.Operation)
        session.run(v.initializer)
        assert session.run([one, both]) == [6.0, {"a": 3.0, "b": 4.0}]
        session.run(after)
        session.run(only)
        assert session.run(v) == 11
        with tf.xla.experimental.jit_scope():
            assert session.run(tf.constant(1.0) + 1) == 2
        with pytest.raises(NotImplementedError, match="compile_ops=False"), tf.xla.experimental.jit_scope(False):
            pass


def test_devices() -> None:
    found = tf.config.experimental.list_physical_devices("CPU")
    assert found[0] == ("/physical_device:CPU:0", "CPU")
    assert set(found) <= set(tf.config.list_physical_devices())
    with pytest.raises(ValueError, match="list_physical_devices"):
        tf.config.experimental.set_memory_growth("none", True)


def test_critical_sections_keep_their_order() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [], initializer=tf.ones_initializer(), use_resource=True)
        section = tf.CriticalSection(name="mine")
        results = []
        for change in (lambda: v.assign(v * 10), lambda: v.assign(v + 1), lambda: v.assign(v * 2)):
            results.append(section.execute(lambda change=change: tf.identity(change())))
        session.run(v.initializer)
        assert session.run(results) == [10, 11, 22]
        with pytest.raises(NotImplementedError, match="import_scope"):
            tf.CriticalSection(import_scope="a")


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_part_of_a_section_runs_alone_where_nothing_else_is_asked_for(use_resource: bool, tier: str) -> None:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        v = tf.Variable(0.0, use_resource=use_resource)
        one, other = tf.CriticalSection(shared_name="cs"), tf.CriticalSection(shared_name="cs")

        def add() -> Any:
            seen = v.read_value()
            with tf.control_dependencies([seen]), tf.control_dependencies([v.assign_add(2.0)]):
                return tf.identity(seen)

        parts = [section.execute(add) for section in (one, other) * 5]
        operation = one.execute(lambda: v.assign_add(1.0).op)
        fails = other.execute(lambda: tf.Print(v.assign_add(1.0), []) + tf.check_numerics(1.0 / (v - v), "bad"))
        session.run(v.initializer)
        assert session.run(parts) == [2.0 * i for i in range(10)]
        assert (session.run(parts[7]), session.run(v)) == (20.0, 22.0)
        session.run(operation)
        assert session.run(v) == 23.0
        for _ in range(2):  # a part that fails leaves the section to others
            with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
                session.run(fails)
        seen = session.run(parts[0])
        assert session.run(v) == seen + 2.0


def test_a_section_is_not_entered_twice() -> None:
    with tf.Graph().as_default():
        one, other = tf.CriticalSection(shared_name="cs"), tf.CriticalSection(shared_name="cs")
        with pytest.raises(ValueError, match="attempts to directly access the CriticalSection"):
            one.execute(lambda: other.execute(lambda: tf.constant(1.0)))
        assert one.execute(lambda: tf.CriticalSection().execute(lambda: tf.constant(1.0))).shape == ()


def test_profile_options_and_traces(tmp_path: Path) -> None:
    options = tf.profiler.ProfileOptionBuilder.time_and_memory(min_micros=5)
    assert (options["min_micros"], options["select"]) == (5, ["micros", "bytes"])
    built = tf.profiler.ProfileOptionBuilder().with_max_depth(3).with_node_names(show_name_regexes=["a"]).build()
    assert (built["max_depth"], built["show_name_regexes"]) == (3, ["a"])
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = tf.assign_add(step, 1)
        hook = tf.train.ProfilerHook(save_steps=2, output_dir=str(tmp_path))
        with tf.train.SingularMonitoredSession(hooks=[hook]) as session:
            for _ in range(4):
                session.run(count)
    files = sorted(path.name for path in tmp_path.glob("*.json"))
    assert files == ["timeline-2.json", "timeline-4.json"]
    assert "traceEvents" in json.loads((tmp_path / files[0]).read_text())


def test_summaries_of_version_two(tmp_path: Path) -> None:
    summary = tf.compat.v2.summary
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        writer = summary.create_file_writer(str(tmp_path))
        values = tf.constant([0.0, 1.0, 2.0, 2.0])
        with writer.as_default(), summary.record_if(tf.equal(step % 2, 0)):
            summary.scalar("loss", 0.5, step=step, description="how wrong")
            summary.histogram("h", values, step=step, buckets=2)
            summary.histogram("same", tf.ones([3]), step=step)
            summary.text("t", "words", step=step)
            summary.image("i", tf.zeros([1, 2, 3, 1]), step=step)
            with pytest.raises(ValueError, match="No step set"):
                summary.scalar("loss", 0.5)
            assert summary.should_record_summaries() is not False
        session.run([tf.global_variables_initializer(), writer.init()])
        ops = tf.summary.all_v2_summary_ops()
        assert session.run(ops) == [True] * 5
        session.run(tf.assign_add(step, 1))
        assert session.run(ops) == [False] * 5
        session.run(writer.flush())
    (path,) = tmp_path.iterdir()
    found = {v.tag: v for event in tf.train.summary_iterator(str(path)) for v in event.summary.value}
    assert found["loss"].metadata.plugin_data.plugin_name == "scalars"
    assert found["loss"].metadata.summary_description == "how wrong"
    assert tf.make_ndarray(found["loss"].tensor) == 0.5
    np.testing.assert_allclose(tf.make_ndarray(found["h"].tensor), [[0, 1, 1], [1, 2, 3]])
    np.testing.assert_allclose(tf.make_ndarray(found["same"].tensor), [[0.5, 1.5, 3]])
    assert tf.make_ndarray(found["t"].tensor) == b"words"
    width, height, file = tf.make_ndarray(found["i"].tensor)
    assert (width, height, file[:4]) == (b"3", b"2", b"\x89PNG")


def _tags(folder):
    (path,) = folder.glob("events*")
    return {v.tag: v for event in tf.train.summary_iterator(str(path)) for v in event.summary.value}


def test_a_trace_of_functions_is_written_as_a_summary(tmp_path):
    summary = tf.compat.v2.summary
    with EAGER.as_default():
        twice = tf.function(lambda x: x + x)
        twice(tf.constant(1.0))
        with summary.create_file_writer(str(tmp_path)).as_default(step=7):
            with tf.name_scope("outer"):
                summary.scalar("loss", 0.5)
            summary.trace_on()
            with pytest.raises(ValueError, match="trace_on\\(\\) within a trace"):
                summary.trace_on()
            twice(tf.constant(2.0))
            summary.trace_export("traced")
            with pytest.raises(ValueError, match="without a trace"):
                summary.trace_export("traced")
    found = _tags(tmp_path)
    assert set(found) == {"outer/loss", "traced"}
    assert found["traced"].metadata.plugin_data.plugin_name == "graph_run_metadata_graph"
    run = tf.RunMetadata.FromString(tf.make_ndarray(found["traced"].tensor).item())
    (graph,) = [one.pre_optimization_graph for one in run.function_graphs]
    assert {"Placeholder", "Add"} <= {node.op.removesuffix("V2") for node in graph.node}


def test_what_xla_does_is_recorded_for_tensorboard(tmp_path):
    profiler = tf.compat.v2.profiler.experimental
    with pytest.raises(tf.errors.UnavailableError, match="No profiler is running"):
        profiler.stop()
    with profiler.Profile(str(tmp_path)), profiler.Trace("a step", step_num=1):
        with pytest.raises(tf.errors.AlreadyExistsError, match="Another profiler is running"):
            profiler.start(str(tmp_path))
    assert len(list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))) == 1
    profiler.start("")
    profiler.stop(save=False)
    for options in ({"delay_ms": 5}, {"device_tracer_level": 0}):
        with pytest.raises(tf.errors.UnimplementedError, match=next(iter(options))):
            profiler.start("", profiler.ProfilerOptions(**options))


def test_children_of_trackables_are_those_of_checkpoints_and_functions_in_models():
    root = tf.train.Checkpoint()
    root.part = tf.train.Checkpoint()
    root.twice = tf.function(lambda x: x + x)
    view = tf.compat.v2.train.TrackableView
    assert view.children(root)["part"] is root.part
    assert "twice" not in view.children(root)
    assert view.children(root, "savedmodel", cache={})["twice"] is root.twice
    with pytest.raises(NotImplementedError, match="'checkpoint' or 'savedmodel', and cache"):
        view.children(root, "other")
