"""Functional control flow in files: graphs that TensorFlow wrote, and ours read back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.verify import verify_graph

FOLDER = Path(__file__).parents[2] / "golden" / "control_flow"
RECORDED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def read(proto):
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(proto, name="")
    verify_graph(graph)
    return graph


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", RECORDED)
def test_graphs_of_tensorflow(name, tier):
    proto = tf.GraphDef.FromString((FOLDER / f"{name}.pb").read_bytes())
    given = RECORDED[name]
    for graph in (read(proto), read(read(proto).as_graph_def())):
        with tf.Session(graph=graph, config=tf.SessionOptions(tier=tier)) as session:
            values = session.run(given["fetches"], {key: np.array(value) for key, value in given["feeds"].items()})
        for value, wanted in zip(values, given["values"], strict=True):
            np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-6)


def test_the_gradient_of_a_loop_that_tensorflow_wrote():
    graph = read(tf.GraphDef.FromString((FOLDER / "lstm.pb").read_bytes()))
    given = RECORDED["lstm"]
    h, outputs = (graph.get_tensor_by_name(name) for name in given["fetches"][:2])
    inputs = [graph.get_tensor_by_name(name) for name in given["feeds"]]
    with graph.as_default(), tf.Session() as session:
        grads = tf.gradients([tf.reduce_sum(h * h), tf.reduce_sum(outputs)], inputs)
        verify_graph(graph)
        values = session.run(grads, {key: np.array(value) for key, value in given["feeds"].items()})
    for value, wanted in zip(values, given["values"][2:], strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-6)


def test_graphs_with_gradients_are_read_back():
    with tf.Graph().as_default() as graph:
        x, n = tf.placeholder(tf.float32, [None], name="x"), tf.placeholder(tf.int32, [], name="n")

        def body(i, y):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.sin(y) * x, lambda: tf.exp(-y))

        _, y = tf.while_loop(lambda i, y: i < n, body, (0, x))
        (first,) = tf.gradients(y, x)
        (second,) = tf.gradients(first, x)
        names = [tensor.name for tensor in (y, first, second)]
    again = read(graph.as_graph_def())
    assert again.as_graph_def() == graph.as_graph_def()
    feeds = {"x:0": [0.5, 1.0], "n:0": 5}
    found = []
    for item in (graph, again):
        with tf.Session(graph=item) as session:
            found.append(session.run(names, feeds))
    np.testing.assert_array_equal(*found)
    with again.as_default(), tf.Session() as session:
        (third,) = tf.gradients(again.get_tensor_by_name(names[0]), again.get_tensor_by_name("x:0"))
        np.testing.assert_allclose(session.run(third, feeds), found[0][1], rtol=1e-6)


def test_references_are_read_back():
    with tf.Graph().as_default() as graph:
        v = tf.Variable(3.0, name="v")
        x = tf.constant(2.0)
        y = tf.cond(x > 1.0, lambda: v * x, lambda: v + 1.0)
        z = tf.cond(x > 1.0, lambda: tf.assign_add(v, x), lambda: v + 1.0)
        _, w = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * v), (0, 1.0))
    proto = graph.as_graph_def()
    reference = {
        function.signature.name: [arg.is_ref for arg in function.signature.input_arg]
        for function in proto.library.function
    }
    # A value, unless a branch writes to it: other programs pass only values.
    assert reference["cond_true"] == [False, False]
    assert sorted(reference["cond_1_true"]) == [False, True]
    again = read(proto)
    assert again.as_graph_def() == proto
    inner = again.get_operation_by_name("while").get_attr("body").args
    assert [arg.dtype.is_ref for arg in inner] == [False] * 4 + [True]
    with tf.Session(graph=again) as session:
        session.run("v/Assign")
        assert session.run([y.name, w.name]) == [6.0, 27.0]
        assert session.run(z.name) == 5.0
        assert session.run([y.name, w.name]) == [10.0, 125.0]
