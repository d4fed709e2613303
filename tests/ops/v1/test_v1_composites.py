"""``switch`` and ``merge`` of values that are several tensors, in the functional view and by tokens."""

from __future__ import annotations

import pytest
from anabranch.control_flow_ops import merge, switch

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.rewrite import functional_view


@pytest.fixture(params=["view", "tokens"], autouse=True)
def way(request, monkeypatch):
    if request.param == "tokens":

        def refuse(*args):
            raise functional_view.NoViewError("the test wants tokens")

        monkeypatch.setattr(functional_view, "view", refuse)
    with tf.Graph().as_default():
        yield


def test_slices():
    pred = tf.placeholder(tf.bool, [])
    data = tf.IndexedSlices(tf.constant([1, 2, 3]), tf.constant([0, 4, 8]))
    off, on = switch(data, pred)
    assert isinstance(on, tf.IndexedSlices)
    assert on.dense_shape is None
    found = merge([tf.IndexedSlices(-off.values, off.indices), on])
    with tf.Session() as session:
        for choice, sign in ((True, 1), (False, -1)):
            values, indices, which = session.run(
                [found.output.values, found.output.indices, found.value_index], {pred: choice}
            )
            assert values.tolist() == [sign, 2 * sign, 3 * sign]
            assert indices.tolist() == [0, 4, 8]
            assert which == choice


def test_sparse_tensors():
    pred = tf.placeholder(tf.bool, [])
    output, _ = merge(list(switch(tf.SparseTensor([[0, 1]], [5.0], [2, 3]), pred)))
    with tf.Session() as session:
        assert session.run(tf.sparse_tensor_to_dense(output), {pred: True}).tolist() == [[0, 5, 0], [0, 0, 0]]


def test_refused():
    slices = tf.IndexedSlices(tf.constant([1]), tf.constant([0]))
    with pytest.raises(TypeError, match="Given: IndexedSlices, Tensor to merge"):
        merge([slices, tf.constant(1)])
    with pytest.raises(TypeError, match="with the same parts"):
        merge([slices, tf.IndexedSlices(tf.constant([1]), tf.constant([0]), tf.constant([3]))])


def test_a_stack_in_a_loop_of_today_is_refused():
    stack = build("Stack", elem_type=tf.int32, stack_name="foo")

    def body(i):
        with tf.control_dependencies([build("StackPush", stack, i)]):
            return i + 1

    count = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.UnimplementedError, match=r"(?s)'Stack'.*Instead: tf.TensorArray"),
    ):
        session.run(count)
