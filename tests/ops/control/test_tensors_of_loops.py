"""First words about tensors of a loop that are used outside it: TensorFlow 1.15.5's, with our names of operations."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.compat.internal import control_flow_contexts


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


def of_a_loop() -> tf.Tensor:
    inside = []

    def body(i):
        if not inside:
            inside.append(tf.constant(1, name="inside"))
        return i + inside[0]

    tf.while_loop(lambda i: i < 10, body, [0], name="first")
    return inside[0]


def words(user: str, why: str) -> str:
    return f"^Cannot use 'first/inside' as input to '{user}' because {why}. See info log for more details.\n"


IN_A_LOOP = "'first/inside' is in a while loop"
IN_TWO = "they are in different while loops"


def test_outside_all_loops():
    tensor = of_a_loop()
    with pytest.raises(ValueError, match=words("there", IN_A_LOOP)):
        tf.negative(tensor, name="there")
    with tf.name_scope("scope"), pytest.raises(ValueError, match=words("scope/Neg", IN_A_LOOP)):
        tf.negative(tensor)


def test_in_a_branch():
    tensor = of_a_loop()
    with pytest.raises(ValueError, match=words("cond/Neg", IN_A_LOOP)):
        tf.cond(tf.constant(True), lambda: tf.negative(tensor), lambda: 0)


def test_in_another_loop():
    tensor = of_a_loop()
    with pytest.raises(ValueError, match=words("while/Neg", IN_TWO)):
        tf.while_loop(lambda i: i < 3, lambda i: i + tf.negative(tensor), [0])
    with pytest.raises(ValueError, match=words("while_1/NextIteration", IN_TWO)):
        tf.while_loop(lambda i: i < 3, lambda i: tensor, [0])


def test_a_branch_in_a_loop_uses_what_is_in_the_loop():
    def body(i):
        twice = i * 2
        return tf.cond(i > 1, lambda: twice + 1, lambda: i + 1)

    last = tf.while_loop(lambda i: i < 5, body, [0])
    with tf.Session() as session:
        assert session.run(last) == 5


def test_a_tensor_of_a_branch_keeps_our_words():
    inside = []
    tf.cond(tf.constant(True), lambda: inside.append(tf.constant(1)) or inside[0], lambda: 0)
    with pytest.raises(ValueError, match=r"^Given: tensor 'cond/Const:0' of the nested body"):
        tf.negative(inside[0])


def test_what_libraries_ask_of_inputs(graph):
    tensor = of_a_loop()
    outside = tf.constant(3)
    control_flow_contexts.CheckInputFromValidContext(tensor.op, outside.op)
    control_flow_contexts.CheckInputFromValidContext(tensor.op, tensor.op)
    with pytest.raises(ValueError, match=words("Const", IN_A_LOOP)):
        control_flow_contexts.CheckInputFromValidContext(outside.op, tensor.op)
    assert control_flow_contexts.IsInWhileLoop(tensor.op)
    assert not control_flow_contexts.IsInWhileLoop(outside.op)
    context = tensor.op._get_control_flow_context()
    assert control_flow_contexts.GetContainingWhileContext(context, stop_ctxt=context) == context
    assert not control_flow_contexts.IsInXLAContext(outside.op)
    with graph._attr_scope({"_XlaCompile": tf.AttrValue(b=True)}):
        marked = tf.constant(4)
    assert control_flow_contexts.IsInXLAContext(marked.op)


def test_a_branch_within_a_loop_has_the_branch_as_its_stop():
    seen = []

    def branch():
        seen.append(tf.get_default_graph()._get_control_flow_context())
        return 1

    tf.while_loop(lambda i: i < 5, lambda i: i + tf.cond(i > 1, branch, lambda: 2), [0])
    stop = seen[0]
    assert control_flow_contexts.GetContainingWhileContext(stop, stop_ctxt=stop) == stop
    assert control_flow_contexts.GetContainingWhileContext(stop).IsWhileContext()


def test_a_python_function_without_results():
    calls = []
    stateless = tf.py_func(lambda: calls.append(1) or [], [], [], stateful=False)
    stateful = tf.py_func(lambda: calls.append(1) or [], [], [])
    assert stateless == []
    assert isinstance(stateful, tf.Operation)
    with tf.Session() as session:
        assert session.run(stateful) is None
    assert calls == [1]
