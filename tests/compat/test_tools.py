"""TensorFlow's tools for graphs in files: freezing, stripping, preparing for inference, inspecting."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.tools import freeze_graph, inspect_checkpoint, optimize_for_inference_lib, strip_unused_lib

X = np.random.RandomState(1).randn(2, 6, 6, 2).astype(np.float32)


def run(graph_def, output, feeds):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        return session.run(output, feeds)


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def trained(request, tmp_path):
    """A model in files, with what it gives for 3."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        v = tf.get_variable("v", initializer=5.0, use_resource=request.param)
        other = tf.get_variable("other", initializer=[1.0, 2.0], use_resource=request.param)
        x = tf.placeholder(tf.float32, [], name="x")
        with tf.device("/cpu:0"):
            tf.add(x * v, other[1], name="y")
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        prefix = saver.save(session, str(tmp_path / "model"), global_step=0)
        tf.train.write_graph(graph, str(tmp_path), "graph.pbtxt")
        tf.train.write_graph(graph, str(tmp_path), "graph.pb", as_text=False)
        tf.saved_model.simple_save(session, str(tmp_path / "saved"), {"x": x}, {"y": graph.get_tensor_by_name("y:0")})
    return tmp_path, prefix


@pytest.mark.parametrize("source", ["graph.pb", "graph.pbtxt", "meta", "saved"])
def test_frozen(trained, source):
    folder, prefix = trained
    output = folder / "frozen.pb"
    given = {
        "input_graph": str(folder / source) if source.startswith("graph") else "",
        "input_meta_graph": f"{prefix}.meta" if source == "meta" else None,
        "input_saved_model_dir": str(folder / "saved") if source == "saved" else None,
    }
    freeze_graph.freeze_graph(
        input_saver="",
        input_binary=source != "graph.pbtxt",
        input_checkpoint=prefix,
        output_node_names="y",
        restore_op_name="save/restore_all",
        filename_tensor_name="save/Const:0",
        output_graph=str(output),
        clear_devices=True,
        initializer_nodes="",
        **given,
    )
    graph_def = tf.GraphDef.FromString(output.read_bytes())
    assert not any("Var" in node.op for node in graph_def.node)
    assert {node.device for node in graph_def.node} == {""}
    assert run(graph_def, "y:0", {"x:0": 3.0}) == 17
    with pytest.raises(ValueError, match="no output_node_names"):
        freeze_graph.freeze_graph_with_def_protos(tf.GraphDef(), None, "", "", "", "", "", False, "")


def test_stripped(tmp_path):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        middle = tf.exp(x, name="middle")
        tf.multiply(middle, 2.0, name="y")
        tf.negative(middle, name="unused")
        graph_def = graph.as_graph_def()
    stripped = strip_unused_lib.strip_unused(graph_def, ["middle"], ["y"], tf.float32.as_datatype_enum)
    assert {node.name for node in stripped.node} == {"middle", "y/y", "y"}
    assert run(stripped, "y:0", {"middle:0": [1.0, 2.0]}).tolist() == [2, 4]
    with pytest.raises(KeyError, match="input nodes were not found: \\['nope'"):
        strip_unused_lib.strip_unused(graph_def, ["nope"], ["y"], 1)
    with pytest.raises(ValueError, match="appears to refer to a Tensor"):
        strip_unused_lib.strip_unused(graph_def, ["middle:0"], ["y"], 1)
    (tmp_path / "in.pb").write_bytes(graph_def.SerializeToString())
    output = tmp_path / "out.pb"
    strip_unused_lib.strip_unused_from_files(str(tmp_path / "in.pb"), True, str(output), True, "middle", "y", [1])
    assert tf.GraphDef.FromString(output.read_bytes()) == stripped


@pytest.mark.parametrize("kind", ["fused", "depthwise", "global"])
def test_batch_normalisations_become_filters(kind):
    random = np.random.RandomState(3)
    filters = random.randn(3, 3, 2, 2 if kind == "depthwise" else 4).astype(np.float32)
    scale, offset, mean = (random.randn(4).astype(np.float32) for _ in range(3))
    variance = random.rand(4).astype(np.float32) + 0.5
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 6, 6, 2], name="x")
        if kind == "depthwise":
            y = tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME", name="conv")
        else:
            y = tf.nn.conv2d(x, filters, [1, 1, 1, 1], "SAME", name="conv")
        if kind == "global":
            y = tf.build_op(
                "BatchNormWithGlobalNormalization",
                y,
                mean,
                variance,
                offset,
                scale,
                variance_epsilon=0.01,
                scale_after_normalization=False,
            )
        else:
            y = tf.nn.fused_batch_norm(y, scale, offset, mean, variance, 0.01, is_training=False)[0]
        tf.nn.relu(tf.identity(tf.check_numerics(y, "y")), name="y")
        graph_def = graph.as_graph_def()
    wanted = run(graph_def, "y:0", {"x:0": X})
    ready = optimize_for_inference_lib.optimize_for_inference(graph_def, ["x"], ["y"], 1)
    assert not {"Identity", "CheckNumerics"} & {node.op for node in ready.node}
    assert not any("BatchNorm" in node.op for node in ready.node)
    assert len([node for node in ready.node if node.op == "Const"]) == 2
    np.testing.assert_allclose(run(ready, "y:0", {"x:0": X}), wanted, 1e-4, 1e-5)


def test_what_is_no_graph():
    twice = tf.GraphDef(node=[tf.NodeDef(name="a", op="NoOp"), tf.NodeDef(name="a", op="NoOp")])
    with pytest.raises(ValueError, match="two nodes named 'a'"):
        optimize_for_inference_lib.ensure_graph_is_valid(twice)
    lost = tf.GraphDef(node=[tf.NodeDef(name="a", op="Identity", input=["b:1"])])
    with pytest.raises(ValueError, match="input 'b:1' of node 'a'"):
        optimize_for_inference_lib.ensure_graph_is_valid(lost)
    with pytest.raises(ValueError, match="should be a Const op"):
        optimize_for_inference_lib.values_from_const(lost.node[0])
    with pytest.raises(ValueError, match="No node named 'b' found in map"):
        optimize_for_inference_lib.node_from_map({}, "b:1")


def test_a_checkpoint_is_shown(trained, capsys):
    _, prefix = trained
    inspect_checkpoint.print_tensors_in_checkpoint_file(prefix, None, False)
    assert capsys.readouterr().out == "other (float32) [2]\nv (float32) []\n# Total number of params: 3\n"
    inspect_checkpoint.print_tensors_in_checkpoint_file(prefix, "other", False, count_exclude_pattern="o")
    assert capsys.readouterr().out == "tensor_name:  other\n[1. 2.]\n# Total number of params: 1\n"
    inspect_checkpoint.print_tensors_in_checkpoint_file(prefix, "", True)
    assert "tensor_name:  v\n5.0\n" in capsys.readouterr().out
