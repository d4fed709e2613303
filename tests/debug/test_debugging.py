"""Looking into steps: stops with inputs, the first NaN, dumps, and the prompt."""

import bdb
import io
import os
import pdb
import sys

import numpy as np
import pytest

import anabranch as tf
from anabranch import debug
from anabranch.debug import reports
from anabranch.formats.records import read_records
from anabranch.train.session_run_hook import SessionRunHook

MODES = ("ref", "resource")


@pytest.fixture(autouse=True)
def graph():
    """A graph for each test."""
    with tf.Graph().as_default():
        yield


def net(mode="ref"):
    """A small step that trains: log of the input, a product with a variable, a loss."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    weights = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer(), use_resource=mode == "resource")
    logs = tf.log(x, name="logs")
    loss = tf.reduce_mean(tf.matmul(logs, weights), name="loss")
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return x, weights, loss, train


@pytest.mark.parametrize("mode", MODES)
def test_a_watched_step_has_the_values_and_effects_of_any_other(mode):
    x, weights, loss, train = net(mode)
    value = np.float32([[1, 2, 3], [4, 5, 6]])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        plain = session.run([loss, train], {x: value})[0], session.run(weights)
        session.run(tf.global_variables_initializer())
        types = []
        with tf.debugging.StepDebugger(session, "*", on_stop=lambda stop: types.append(stop.op.type)):
            watched = session.run([loss, train], {x: value})[0]
        assert watched == plain[0]
        np.testing.assert_allclose(session.run(weights), plain[1], rtol=1e-6)
    assert types[:1] == ["Log"] or "Log" in types
    assert any(kind.endswith("ApplyGradientDescent") for kind in types)


def test_a_stop_has_the_op_the_line_and_the_inputs():
    x, _, loss, _ = net()
    stops = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with tf.debugging.StepDebugger(session, "logs", on_stop=stops.append):
            session.run(loss, {x: [[1, 2, 3]]})
    (stop,) = stops
    assert stop.op.name == "logs"
    np.testing.assert_array_equal(stop.inputs[0], np.float32([[1, 2, 3]]))
    assert "float32[1, 3]: 0 NaN" in str(stop)
    assert "test_debugging.py" in str(stop)


def test_stops_at_a_line_of_the_program():
    x, _, loss, _ = net()
    line = next(frame.lineno for frame in tf.get_default_graph().get_operation_by_name("logs").user_site.frames())
    names = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with tf.debugging.StepDebugger(session, f"test_debugging.py:{line}", on_stop=lambda s: names.append(s.op.name)):
            session.run(loss, {x: [[1, 2, 3]]})
        session.run(loss, {x: [[1, 2, 3]]})
    assert names == ["logs"]


def test_next_stops_at_the_op_that_follows():
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.sqrt(tf.exp(x, name="first"), name="second")
    names = []

    def stop(at):
        names.append(at.op.name)
        if at.op.name == "first":
            at.debugger.next()

    with tf.Session() as session, tf.debugging.StepDebugger(session, "first", on_stop=stop):
        session.run(y, {x: 0.0})
    assert names == ["first", "second"]


def test_stops_in_each_iteration_of_a_loop_and_in_a_conditional():
    x = tf.placeholder(tf.float32, [], name="x")
    total = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.square(t, name="inner")), [0, x])[1]
    y = tf.cond(x > 1, lambda: tf.negative(total, name="yes"), lambda: total)
    seen = []
    with tf.Session() as session:
        for _ in range(3):  # what is compiled by now is watched like anything else
            assert session.run(y, {x: 2.0}) == -256.0
        with tf.debugging.StepDebugger(session, ["*inner", "*yes"], on_stop=lambda s: seen.append(float(s.inputs[0]))):
            assert session.run(y, {x: 2.0}) == -256.0
    assert seen == [2.0, 4.0, 16.0, 256.0]


def test_an_exception_at_a_stop_changes_nothing():
    x, weights, loss, train = net()

    def refuse(stop):
        raise KeyError("stop here")

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with (
            tf.debugging.StepDebugger(session, "*ApplyGradientDescent", on_stop=refuse),
            pytest.raises(KeyError, match="stop here"),
        ):
            session.run([loss, train], {x: [[1, 2, 3]]})
        np.testing.assert_array_equal(session.run(weights), np.ones([3, 1]))


def test_pdb_sees_the_op_and_its_inputs(monkeypatch):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.square(x, name="y")
    answers = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("p op.name, inputs[0] + 1\ncontinue\n"), stdout=answers, nosigint=True)
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe().f_back))
    with tf.Session() as session, tf.debugging.StepDebugger(session, y):
        np.testing.assert_array_equal(session.run(y, {x: [1.0, 2.0]}), [1, 4])
    assert "('y', array([2., 3.], dtype=float32))" in answers.getvalue()


def test_quitting_pdb_fails_the_step(monkeypatch):
    x, weights, loss, train = net()
    debugger = pdb.Pdb(stdin=io.StringIO("quit\n"), stdout=io.StringIO(), nosigint=True)
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe().f_back))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with tf.debugging.StepDebugger(session, "loss"), pytest.raises(bdb.BdbQuit, match=r"^$"):
            session.run([loss, train], {x: [[1.0, 2.0, 3.0]]})
        np.testing.assert_array_equal(session.run(weights), np.ones([3, 1]))


def test_what_is_no_place_is_refused():
    with tf.Session(graph=tf.Graph()) as session, pytest.raises(ValueError, match=r"train\.py:42"):
        tf.debugging.StepDebugger(session, [3.5])


# ---------------------------------------------------------------------------------------------------------- numerics
@pytest.mark.parametrize("mode", MODES)
def test_the_first_nan_is_found_and_nothing_changes(mode):
    x, weights, loss, train = net(mode)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([loss, train], {x: [[1, 1, 1]]})
        before = session.run(weights)
        tf.debugging.enable_check_numerics()
        try:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"Log 'logs' is float32\[1, 3\]: 1 NaN") as info:
                session.run([loss, train], {x: [[-1, 1, 1]]})
        finally:
            tf.debugging.disable_check_numerics()
        assert info.value.op.name == "logs"
        assert "all its inputs are finite" in str(info.value)
        assert "float32[1, 3]: 0 NaN, 0 +Inf, 0 -Inf of 3; the rest from -1 to 1" in str(info.value)
        assert "input 0 x:0: float32[1, 3]: 0 NaN" in str(info.value)
        assert "test_debugging.py" in str(info.value)
        np.testing.assert_array_equal(session.run(weights), before)
        assert np.isnan(session.run(loss, {x: [[-1, 1, 1]]}))


def test_a_nan_that_was_fed_is_told_apart():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.square(x, name="y")
    with (
        tf.Session() as session,
        tf.debugging.StepDebugger(session, check_numerics=True),
        pytest.raises(tf.errors.InvalidArgumentError, match="input 0 had such a value already"),
    ):
        session.run(y, {x: [np.nan, 1]})


def test_steps_that_were_compiled_and_callables_are_checked_too():
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.log(x)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        call = session.make_callable(y, [x])
        for _ in range(3):
            call(2.0)
            session.run(y, {x: 2.0})
        with tf.debugging.StepDebugger(session, check_numerics=True):
            for run in (lambda: call(0.0), lambda: session.run(y, {x: 0.0})):
                with pytest.raises(tf.errors.InvalidArgumentError, match="1 -Inf"):
                    run()
        assert np.isneginf(call(0.0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, tf.bfloat16.as_numpy_dtype, np.complex64])
def test_every_floating_dtype_is_looked_at(dtype):
    assert reports.not_finite(np.array([1, np.nan], dtype))
    assert not reports.not_finite(np.array([1, 2], dtype))
    assert np.dtype(dtype).name in reports.describe(np.array([1, np.inf], dtype))


def test_limits_of_check_numerics_are_checked():
    with pytest.raises(ValueError, match="limits of at least 1"):
        tf.debugging.enable_check_numerics(stack_height_limit=0)


# ------------------------------------------------------------------------------------------------------------- dumps
def test_run_options_keep_the_tensors_of_a_step(tmp_path):
    x, _, loss, _ = net()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions()
        debug.watch_graph(options, session.graph, debug_urls=f"file://{tmp_path}", op_type_regex_whitelist="Log|MatMul")
        session.run(loss, {x: [[1, 2, 3]]}, options=options)
    dump = debug.DebugDumpDir(str(tmp_path))
    assert [datum.node_name for datum in dump.dumped_tensor_data] == ["logs", "MatMul"]
    np.testing.assert_allclose(dump.get_tensors("logs", 0, "DebugIdentity")[0], np.log([[1, 2, 3]]), rtol=1e-6)
    (datum, _) = dump.dumped_tensor_data
    assert datum.device_name == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert datum.file_path.startswith(str(tmp_path / "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"))
    assert len(list(read_records(datum.file_path))) == 1
    assert dump.get_rel_timestamps("logs", 0, "DebugIdentity") == [0]


def test_patterns_that_leave_nothing_are_refused(tmp_path):
    tf.constant(1.0)
    with pytest.raises(ValueError, match="no tensor of the graph passes"):
        debug.watch_graph(tf.RunOptions(), tf.get_default_graph(), node_name_regex_whitelist="nowhere")
    options = tf.RunOptions()
    debug.watch_graph_with_blacklists(options, tf.get_default_graph(), debug_urls="grpc://localhost:1")
    with tf.Session() as session, pytest.raises(tf.errors.UnimplementedError, match="file:// URL"):
        session.run(tf.constant(1.0) + 1, options=options)


def test_a_dumping_session_describes_each_run(tmp_path):
    x, _, loss, train = net()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        watched = debug.DumpingDebugWrapperSession(session, str(tmp_path / "root"), log_usage=False)
        with watched.as_default():
            loss.eval({x: [[1, 2, 3]]})
        first = watched.last_dump
        watched.run(train, {x: [[0, 2, 3]]})
    assert watched.run_call_count == 2
    dump = debug.DebugDumpDir(first)
    assert dump.run_fetches_info == "loss:0"
    assert dump.run_feed_keys_info == "x:0"
    assert dump.node_inputs("logs") == ["x"]
    assert "MatMul" in dump.node_recipients("logs")
    assert "x" in dump.transitive_inputs("loss")
    assert dump.find(debug.has_inf_or_nan) == []
    bad = debug.DebugDumpDir(watched.last_dump).find(debug.has_inf_or_nan)
    assert bad[0].node_name == "logs"
    with pytest.raises(ValueError, match="non-empty directory"):
        debug.DumpingDebugWrapperSession(session, str(tmp_path / "root"))
    with pytest.raises(tf.errors.UnimplementedError, match="make_callable"):
        watched.make_callable(loss)


def test_variables_are_dumped_as_they_are_before_the_step_writes_them(tmp_path):
    v = tf.Variable([1.0, 2.0], name="v")
    y = tf.multiply(v, 3.0, name="y")
    with tf.control_dependencies([y]):
        write = tf.assign_add(v, [1.0, 1.0], name="write")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        watched = debug.DumpingDebugWrapperSession(session, str(tmp_path / "root"), log_usage=False)
        for before in ([1.0, 2.0], [2.0, 3.0]):
            watched.run(write)
            dump = debug.DebugDumpDir(watched.last_dump)
            for name in ("v", "v/read"):
                (value,) = dump.get_tensors(name, 0, "DebugIdentity")
                assert value.tolist() == before
            (after,) = dump.get_tensors("write", 0, "DebugIdentity")
            assert after.tolist() == [b + 1 for b in before]


def test_a_hook_keeps_the_runs_of_a_monitored_session(tmp_path):
    x = tf.placeholder(tf.float32, [], name="x")
    step = tf.train.get_or_create_global_step()
    y = tf.sqrt(x, name="y")
    train = tf.assign_add(step, 1)
    hook = debug.DumpingDebugHook(
        str(tmp_path / "dumps"), lambda fetches, feeds: debug.WatchOptions(node_name_regex_whitelist="y")
    )
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run([y, train], {x: 4.0})
    (run,) = [folder for folder in os.listdir(tmp_path / "dumps") if folder.startswith("run_")]
    dump = debug.DebugDumpDir(str(tmp_path / "dumps" / run))
    assert dump.get_tensors("y", 0, "DebugIdentity")[0] == 2.0
    assert issubclass(debug.LocalCLIDebugHook, SessionRunHook)


# ------------------------------------------------------------------------------------------------------------ prompt
def dialogue(session, commands, run):
    """What the prompt answers to commands while ``run(session)`` goes on."""
    answers = io.StringIO()
    wrapped = debug.LocalCLIDebugWrapperSession(session, stdin=io.StringIO("\n".join(commands) + "\n"), stdout=answers)
    run(wrapped)
    return answers.getvalue()


def test_the_prompt_lists_and_shows_tensors():
    x, _, loss, _ = net()
    commands = ["pf x:0", "run", "lt -n logs", "pt logs:0[0,1:]", "ni -t logs", "li loss", "lo logs", "nonsense", "run"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        text = dialogue(session, commands, lambda wrapped: wrapped.run(loss, {x: [[1, 2, 3]]}))
    assert "run 1: fetches loss:0" in text
    assert "x:0: int64[1, 3]: from 1 to 3" in text
    assert "logs:0  Log  float32[1, 3]" in text
    assert "[0.6931472 1.0986123]" in text
    assert "inputs: x" in text
    assert "test_debugging.py" in text
    assert "no command 'nonsense'" in text


def test_runs_go_on_until_the_filter_passes():
    x, _, loss, _ = net()
    values = []

    def run(wrapped):
        for number in (1.0, 2.0, 0.0):
            values.append(wrapped.run(loss, {x: [[number, 2, 3]]}))

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        text = dialogue(session, ["run -f has_inf_or_nan", "lt -f has_inf_or_nan", "run"], run)
    assert "has_inf_or_nan passes logs:0 first" in text
    assert "run 3 is over" in text
    assert "run 1 is over" not in text
    assert np.isneginf(values[-1])


def test_plain_runs_several_runs_and_leaving():
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.square(x)
    with tf.Session() as session:
        text = dialogue(session, ["run -n", "run -t 3", "run"], lambda w: [w.run(y, {x: 2.0}) for _ in range(4)])
        assert "run 1 is over" not in text
        assert "run 4 is over" in text
        with pytest.raises(SystemExit, match="1"):
            dialogue(session, ["exit"], lambda w: w.run(y, {x: 2.0}))
        text = dialogue(session, ["run -f nothing", "run -t 0", "run", "run"], lambda w: w.run(y, {x: 2.0}))
        assert "no filter 'nothing'" in text
        assert "at least one run" in text


def test_a_run_that_fails_is_shown_and_raises():
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.control_dependencies([tf.Assert(x > 0, ["not positive"])]):
        y = tf.square(x, name="y")

    def run(wrapped):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not positive"):
            wrapped.run(y, {x: -1.0})

    with tf.Session() as session:
        assert "it failed:" in dialogue(session, ["run", "run"], run)


def test_debuggers_elsewhere_are_refused():
    with pytest.raises(tf.errors.UnimplementedError, match="StepDebugger"):
        debug.TensorBoardDebugWrapperSession(None, "localhost:6064")
