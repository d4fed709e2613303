"""Gradients that a program takes through imported control flow of version 1: those that TensorFlow wrote for it."""

from __future__ import annotations

import numpy as np
import pytest
from anabranch.control_flow_ops import merge, switch
from golden.graphs.v1_steps import STEPS, array, meta_graph

import anabranch as tf
from anabranch.core.graph.verify import verify_graph

# Case -> y and x by name, the number of the recorded step, and the place of the gradient among its results.
CASES = {
    "cond": ("cond/Merge:0", "x:0", (1, 3), 0),
    "cond_nested": ("cond/Merge:0", "x:0", (1, 3, 5, 7), 1),
    "cond_chain": ("add_2:0", "x:0", (0, 1), 1),
    "case": ("case/cond/Merge:0", "x:0", (0, 1, 2, 3), 1),
    "while": ("while/Exit_1:0", "x:0", (1, 3, 5), 1),
    "while_limit": ("while/Exit_1:0", "x:0", (0, 1, 2), 1),
    "while_nested": ("while/Exit_1:0", "x:0", (1, 3, 5), 1),
    "while_in_cond": ("cond/Merge:0", "x:0", (1, 3, 5, 7), 1),
    "cond_in_while": ("while/Exit_1:0", "x:0", (1, 3, 5), 1),
    "array_straight": ("add:0", "x:0", (0,), 1),
    "cond_constant": ("cond_1/Merge:0", "x:0", (1,), 0),
}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_as_tensorflow(name: str, tier: str) -> None:
    y, x, steps, place = CASES[name]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph(name).graph_def, name="")
        (found,) = tf.gradients(graph.get_tensor_by_name(y), graph.get_tensor_by_name(x))
        verify_graph(graph)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            for number in steps:
                step = STEPS[name][number]
                feeds = {key: array(value) for key, value in step["feeds"].items()}
                wanted = [array(value) for value in step["results"]]
                gradient, value = session.run([found, y], feeds)
                np.testing.assert_allclose(gradient, wanted[place], 2e-5, 1e-6, err_msg=f"step {number}")
                if y in step["fetches"]:
                    np.testing.assert_allclose(value, wanted[step["fetches"].index(y)], 2e-5, 1e-6)
                assert "tokens" not in session.explain([found, y], feeds)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("cond_constant", "array_straight")])
def test_inside_of_a_function(name: str, tier: str) -> None:
    """Functions of an imported graph may hold such control flow; a call has the gradient that it has outside."""
    y, x, steps, place = CASES[name]
    graph_def = meta_graph(name).graph_def
    kinds = {node.name: node.attr["dtype"].type for node in graph_def.node if node.op == "Placeholder"}
    with tf.Graph().as_default():
        given = {f"{key}:0": tf.placeholder(kind) for key, kind in kinds.items()}

        def part(*args: tf.Tensor) -> tf.Tensor:
            return tf.import_graph_def(graph_def, dict(zip(given, args, strict=True)), [y], name="part")[0]

        outer = tf.Defun(*kinds.values())(lambda *args: tf.Defun(*kinds.values())(part)(*args) * 1.0)
        value = outer(*given.values())
        exported = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(exported, name="")
        given = {key: graph.get_tensor_by_name(tensor.name) for key, tensor in given.items()}
        value = graph.get_tensor_by_name(value.name)
        (found,) = tf.gradients(value, given[x])
        verify_graph(graph)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            for number in steps:
                step = STEPS[name][number]
                feeds = {given[key]: array(fed) for key, fed in step["feeds"].items()}
                wanted = array(step["results"][place])
                np.testing.assert_allclose(session.run(found, feeds), wanted, 2e-5, 1e-6, err_msg=f"step {number}")


def test_arrays_in_loops() -> None:
    """The gradient of the recorded program, y and the last state together."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph("arrays").graph_def, name="")
        y, last = (graph.get_tensor_by_name(name) for name in STEPS["arrays"][0]["fetches"][:2])
        x = graph.get_tensor_by_name("x:0")
        (found,) = tf.gradients(tf.reduce_sum(y * y) + tf.reduce_sum(last), x)
        verify_graph(graph)
        for tier in ("interpreted", "compiled"):
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                for number in (1, 3):
                    step = STEPS["arrays"][number]
                    feeds = {key: array(value) for key, value in step["feeds"].items()}
                    gradient = session.run(found, feeds)
                    np.testing.assert_allclose(gradient, array(step["results"][1]), 2e-5, 1e-6)


def test_training_of_an_imported_graph() -> None:
    """A forward graph of TensorFlow trains under an optimizer of ours as it did under TensorFlow's."""
    steps = STEPS["recurrent"]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph("recurrent").graph_def, name="")
        ref = graph.get_tensor_by_name("w:0")
        loss = graph.get_tensor_by_name(steps[1]["fetches"][0])
        (gradient,) = tf.gradients(loss, [ref])
        train = tf.assign_sub(ref, 0.1 * gradient)
        with tf.Session() as session:
            session.run("init")
            for step in steps[1:-1]:
                feeds = {key: array(value) for key, value in step["feeds"].items()}
                found, _ = session.run([loss, train], feeds)
                np.testing.assert_allclose(found, array(step["results"][0]), 1e-4)
            np.testing.assert_allclose(session.run(ref), array(steps[-1]["results"][0]), 1e-4)


def test_second_order() -> None:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph("while_limit").graph_def, name="")
        x, n = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("n:0")
        (first,) = tf.gradients(graph.get_tensor_by_name("while/Exit_1:0"), x)
        (second,) = tf.gradients(first, x)
        with tf.Session() as session:  # x ** 4
            assert session.run([first, second], {x: 2.0, n: 3}) == [32.0, 48.0]


def test_the_loop_runs_once() -> None:
    """The value and its gradient come from one loop, so its effects happen once."""
    steps = STEPS["while_effects"]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph("while_effects").graph_def, name="")
        total = graph.get_tensor_by_name(steps[1]["fetches"][0])
        start = graph.get_tensor_by_name("while/Enter_1:0").op.inputs[0]
        (gradient,) = tf.gradients(total, start)
        with tf.Session() as session:
            session.run("init")
            feeds = {"n:0": np.int32(3)}
            assert session.run([total, gradient], feeds) == [14.0, 1.0]
            assert session.run("v:0") == 8.0


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_second_gradient_takes_the_loop_of_the_first(tier: str) -> None:
    """The loop of both is one, and what comes after it for the second only is built on it."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph("while_limit").graph_def, name="")
        x, n = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("n:0")
        y = graph.get_tensor_by_name("while/Exit_1:0")  # x ** (n + 1)
        off, on = switch(y, x > 0)
        later = merge([off * 0.0, on * on]).output
        (first,) = tf.gradients(y, x)
        loops = [op.name for op in graph.get_operations() if op.type in ("While", "StatelessWhile")]
        (second,) = tf.gradients(later, x)
        (third,) = tf.gradients([y, later], x)
        verify_graph(graph)
        forward = [
            op
            for op in graph.get_operations()
            if op.type in ("While", "StatelessWhile") and "gradients" not in op.name and op.name not in loops
        ]
        assert forward == []
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            values = session.run([y, first, second, third], {x: 2.0, n: 3})
            assert values == [16.0, 32.0, 8 * 2.0**7, 32.0 + 8 * 2.0**7]


def test_random_branch_and_gradient_agree() -> None:
    """Dropout in a branch: the gradient sees the mask of the value."""
    training = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [50])
    off, on = switch(x, training)
    with tf.control_dependencies([on.op]):
        mask = tf.cast(tf.random_uniform(tf.shape(on), seed=1) > 0.5, tf.float32)
    found = merge([off, on * mask * 2.0]).output
    (gradient,) = tf.gradients(found, x)
    with tf.Session() as session:
        value, slope = session.run([found, gradient], {training: True, x: np.ones(50)})
        np.testing.assert_array_equal(value, slope)
        assert 0 < np.count_nonzero(value) < 50
        assert session.run(gradient, {training: False, x: np.ones(50)}).tolist() == [1.0] * 50


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("taken", [False, True])
def test_one_side_of_a_switch(side: int, taken: bool) -> None:
    """TensorFlow 1.15 gives the gradient of a side that is dead as zero."""
    with tf.Graph().as_default(), tf.Session() as session:
        p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [None])
        (gradient,) = tf.gradients(switch(x, p)[side] * 3.0, x)
        assert gradient.name == "gradients/Switch_grad/Merge:0"
        expected = [3.0, 3.0] if taken == bool(side) else [0.0, 0.0]
        assert session.run(gradient, {p: taken, x: [1.0, 2.0]}).tolist() == expected


def test_rows_of_one_side_of_a_switch() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [4, 2])
        if_false, if_true = switch(x, p)
        (gradient,) = tf.gradients([tf.gather(if_false, [3]), tf.gather(if_true, [1, 1])], x)
        assert isinstance(gradient, tf.IndexedSlices)
        assert session.run(gradient, {p: False, x: np.ones((4, 2))}).indices.tolist() == [3]
        found = session.run(gradient, {p: True, x: np.ones((4, 2))})
        assert (found.indices.tolist(), found.values.tolist()) == ([1, 1], [[1, 1], [1, 1]])


def test_merge_of_several_conditions() -> None:
    """What programs write to do one of several things, each behind a switch of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        x, chosen = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
        y = merge([switch(x, tf.equal(chosen, i))[1] * (i + 2.0) for i in range(3)]).output
        (gradient,) = tf.gradients(y, x)
        results = [session.run([y, gradient], {x: 2.0, chosen: i}) for i in range(3)]
        assert results == [[4.0, 2.0], [6.0, 3.0], [8.0, 4.0]]


def test_merge_of_nested_conditions() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        p, q, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])
        first = switch(x, p)
        second = switch(first[1] * 5.0, q)
        (gradient,) = tf.gradients(merge([first[0], second[0] * 2.0, second[1] * 3.0]).output, x)
        found = [session.run(gradient, {p: a, q: b, x: 1.0}) for a in (False, True) for b in (False, True)]
        assert found == [1.0, 1.0, 10.0, 15.0]


def test_what_does_not_depend_has_no_twin() -> None:
    pred = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [])
    off, on = switch(tf.constant(1.0), pred)
    scale = merge([off, on * 2.0]).output
    graph = tf.get_default_graph()
    (gradient,) = tf.gradients(x * scale, x)
    assert scale not in graph._twins
    with tf.Session() as session:
        assert session.run(gradient, {pred: True, x: 1.0}) == 2.0


def test_gradients_of_constants_and_variables() -> None:
    """What is differentiated by may be something that bodies otherwise hold copies of."""
    with tf.Graph().as_default():
        pred = tf.placeholder(tf.bool, [])
        for x in (tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0], use_resource=True)):
            off, on = switch(x, pred)
            (gradient,) = tf.gradients(merge([-off, on * on]).output, [x])
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                assert session.run(gradient, {pred: True}).tolist() == [2.0, 4.0]
                assert session.run(gradient, {pred: False}).tolist() == [-1.0, -1.0]
