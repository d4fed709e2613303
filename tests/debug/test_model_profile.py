"""``tf.profiler.profile``: counts as TensorFlow's, views, options, files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden.kernels import counted_programs

import anabranch as tf

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "float_operations.json").read_text())
BUILDER = tf.profiler.ProfileOptionBuilder
PARAMETERS = {**BUILDER.trainable_variables_parameter(), "output": "none"}
FLOAT_OPS = {**BUILDER.float_operation(), "output": "none"}


def by_type(node):
    counts = {}
    while node.children:
        node = node.children[0]
        counts[node.name] = node.float_ops
    return counts


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_operations_on_floats_are_counted_as_tensorflow_does(name):
    with tf.Graph().as_default() as graph:
        counted_programs.programs(tf)[name]()
        node = tf.profiler.profile(graph, cmd="op", options=FLOAT_OPS)
    assert by_type(node) == GOLDEN[name]
    assert node.total_float_ops == sum(GOLDEN[name].values())


def network():
    with tf.variable_scope("net"):
        x = tf.placeholder(tf.float32, [2, 8], "x")
        hidden = tf.layers.dense(x, 4, tf.nn.relu, name="first")
        y = tf.layers.dense(hidden, 3, name="second")
    return x, tf.reduce_sum(y, name="total")


def test_parameters_by_scope(capsys):
    with tf.Graph().as_default() as graph:
        network()
        tf.get_variable("apart", [7], trainable=False)
        root = tf.profiler.profile(graph, options={**PARAMETERS, "output": "stdout"})
    assert (root.name, root.total_parameters) == ("_TFProfRoot", 8 * 4 + 4 + 4 * 3 + 3)
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("node name | # parameters") + 1
    assert lines[start : start + 6] == [
        "_TFProfRoot (--/51 params)",
        "  net (--/51 params)",
        "    net/first (--/36 params)",
        "      net/first/bias (4, 4/4 params)",
        "      net/first/kernel (8x4, 32/32 params)",
        "    net/second (--/15 params)",
    ]


def test_views_and_options():
    with tf.Graph().as_default() as graph:
        network()
        product = 2 * 2 * 8 * 4
        for command in ("scope", "graph", "op", "code"):
            assert tf.profiler.profile(graph, cmd=command, options=FLOAT_OPS).total_float_ops > product
        only = {**FLOAT_OPS, "show_name_regexes": [".*first/MatMul"]}
        (shown,) = tf.profiler.profile(graph, options=only).children
        assert (shown.name, shown.float_ops) == ("net/first/MatMul", product)
        assert [dim.size for dim in shown.input_shapes[1].dim] == [8, 4]
        assert tf.profiler.profile(graph, options={**PARAMETERS, "max_depth": 2}).total_parameters == 0
        assert (
            tf.profiler.profile(graph, options={**PARAMETERS, "trim_name_regexes": ["net/second"]})
            .children[0]
            .total_parameters
            == 36
        )
        hidden = {**PARAMETERS, "hide_name_regexes": [".*bias"], "account_displayed_op_only": False}
        assert tf.profiler.profile(graph, options=hidden).total_parameters == 51
        lines = tf.profiler.profile(graph, cmd="code", options=FLOAT_OPS)
        assert all(Path(__file__).name in child.name for child in lines.children)


def test_times_of_a_traced_step(tmp_path):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x, y = network()
        session.run(tf.global_variables_initializer())
        measured = tf.RunMetadata()
        full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(y, {x: np.ones([2, 8])}, options=full, run_metadata=measured)
        options = {**BUILDER.time_and_memory(), "output": f"file:outfile={tmp_path / 'profile.txt'}"}
        root = tf.profiler.profile(graph, measured, options=options)
        assert root.total_exec_micros > 0
        assert root.total_exec_micros == root.total_cpu_exec_micros
        assert "total execution time" in (tmp_path / "profile.txt").read_text()
        profiler = tf.profiler.Profiler(graph)
        profiler.add_step(3, measured)
        options["output"] = "none"
        assert profiler.profile_operations(options).total_exec_micros > 0
        assert profiler.profile_operations({**options, "step": 2}).total_exec_micros == 0
        assert profiler.profile_name_scope(options) == root
        assert profiler.profile_graph(options).total_exec_micros > 0
        assert profiler.profile_python(options).total_exec_micros > 0


def test_names_of_first_versions(tmp_path):
    analyzer = tf.contrib.tfprof.model_analyzer
    with tf.Graph().as_default() as graph:
        network()
        options = {**analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS, "dump_to_file": str(tmp_path / "parameters")}
        assert analyzer.print_model_analysis(graph, tfprof_options=options).total_parameters == 51
        assert "net/first/kernel (8x4, 32/32 params)" in (tmp_path / "parameters").read_text()


def test_what_is_not_supported_is_refused():
    with tf.Graph().as_default() as graph:
        with pytest.raises(tf.errors.InvalidArgumentError, match="one of scope, graph, op, code"):
            tf.profiler.profile(graph, cmd="lines", options=FLOAT_OPS)
        with pytest.raises(tf.errors.InvalidArgumentError, match="'speed' to select"):
            tf.profiler.profile(graph, options={**FLOAT_OPS, "select": ["speed"]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="'device' to order by"):
            tf.profiler.profile(graph, options={**FLOAT_OPS, "order_by": "device"})
        with pytest.raises(NotImplementedError, match="'tensor_value' to select"):
            tf.profiler.profile(graph, options={**FLOAT_OPS, "select": ["tensor_value"]})
        with pytest.raises(NotImplementedError, match="ProfilerHook"):
            tf.profiler.profile(graph, options={**FLOAT_OPS, "output": "timeline:outfile=a"})
        with pytest.raises(NotImplementedError, match="RegisterStatistics"):
            tf.profiler.profile(graph, op_log=object(), options=FLOAT_OPS)


def test_methods_of_the_builder_say_what_is_counted_and_shown():
    builder = tf.profiler.ProfileOptionBuilder
    with tf.Graph().as_default() as graph:
        network()

        def shown(options):
            root = tf.profiler.profile(graph, options=options.with_empty_output().build())
            return root.total_parameters, root.total_float_ops

        parameters, flops = builder.trainable_variables_parameter(), builder.float_operation()
        assert shown(builder(parameters)) == (51, 0)
        assert shown(builder(parameters).with_min_parameters(20)) == (32, 0)
        products = shown(builder(flops).with_accounted_types(["MatMul"]))[1]
        assert 0 < products < shown(builder(flops))[1]
        assert shown(builder(flops).with_min_float_operations(products + 1))[1] == 0
        assert shown(builder(flops).with_min_occurrence(2))[1] == 0
        assert shown(builder(flops).with_min_memory(min_bytes=1))[1] == 0
        hidden = builder(flops).with_node_names(show_name_regexes=["none"])
        assert shown(hidden)[1] == 0
        assert shown(hidden.account_displayed_op_only(False))[1] > products


def test_words_beside_the_numbers(capsys):
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:0"):
            network()
        options = {**FLOAT_OPS, "output": "stdout", "show_name_regexes": [".*first/MatMul", "MatMul"]}
        options["select"] = ["float_ops", "device", "op_types", "occurrence", "input_shapes"]
        tf.profiler.profile(graph, options=options)
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "first/MatMul" in line]
        assert line.strip() == ("net/first/MatMul (128/128 flops, /device:CPU:0, MatMul|/device:CPU:0, 1, 0:2x8|1:8x4)")
        tf.profiler.profile(graph, cmd="op", options={**options, "order_by": "occurrence", "min_occurrence": 2})
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[lines.index("Profile:") + 2 : -2]] == ["MatMul"]
