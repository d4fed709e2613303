"""`tf.contrib.nccl` and `tf.contrib.all_reduce`: what one device after the other gets."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

VALUES = [np.array([[1.0, 5.0], [2.0, -3.0]], np.float32) * (i + 1) for i in range(3)]
reductions = tf.contrib.all_reduce


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def placed(job="worker"):
    tensors = []
    for i, value in enumerate(VALUES):
        with tf.device(f"/job:{job}/task:{i}"):
            tensors.append(tf.constant(value))
    return tensors


def on_this_machine():
    with tf.device("/cpu:0"):
        return [tf.constant(value) for value in VALUES]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all_sum", np.add.reduce(VALUES)),
        ("all_prod", np.multiply.reduce(VALUES)),
        ("all_min", np.minimum.reduce(VALUES)),
        ("all_max", np.maximum.reduce(VALUES)),
    ],
)
def test_each_device_gets_the_reduction(name, expected):
    function = getattr(tf.contrib.nccl, name)
    assert [each.device for each in function(placed())] == [f"/job:worker/task:{i}" for i in range(3)]
    with tf.Session() as session:
        results = function(on_this_machine())
        assert len(results) == 3
        for value in session.run(results):
            np.testing.assert_array_equal(value, expected)
        np.testing.assert_array_equal(session.run(results[2]), expected)  # without the others


def test_gradients_are_summed():
    inputs = on_this_machine()
    results = tf.contrib.nccl.all_sum(inputs)
    loss = tf.add_n([tf.reduce_sum(result * (i + 1.0)) for i, result in enumerate(results)])
    with tf.Session() as session:
        for gradient in session.run(tf.gradients(loss, inputs)):
            np.testing.assert_array_equal(gradient, np.full((2, 2), 6.0))


def test_a_sum_on_one_device_and_a_copy_for_all():
    with tf.device("/job:chief"):
        total = tf.contrib.nccl.reduce_sum(placed())
    assert total.device == "/job:chief"
    (first, *_) = placed()
    assert tf.contrib.nccl.broadcast(first).device == first.device
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(tf.contrib.nccl.reduce_sum(on_this_machine())), np.add.reduce(VALUES))
        np.testing.assert_array_equal(session.run(tf.contrib.nccl.broadcast(on_this_machine()[1])), VALUES[1])


def test_tensors_must_be_there_and_name_devices():
    with pytest.raises(ValueError, match="Must pass >0 tensors to all reduce operations"):
        tf.contrib.nccl.all_sum([])
    with pytest.raises(ValueError, match="Must pass >0 tensors to reduce operations"):
        tf.contrib.nccl.reduce_sum([])
    for call in (lambda x: tf.contrib.nccl.all_max([x]), tf.contrib.nccl.broadcast):
        with pytest.raises(ValueError, match="Device assignment required for nccl collective ops"):
            call(tf.constant(1.0))


def halved(x):
    return x / 2.0


BUILDERS = {
    "ring": lambda x, un_op: reductions.build_ring_all_reduce(x, 1, 2, [0, 1, 2], tf.add, un_op),
    "recursive": lambda x, un_op: reductions.build_recursive_hd_all_reduce(x, tf.add, un_op),
    "shuffle": lambda x, un_op: reductions.build_shuffle_all_reduce(x, ["/cpu:0"], tf.add_n, un_op),
    "shuffle of two": lambda x, un_op: reductions.build_shuffle_all_reduce(x, ["/cpu:0"], tf.add, un_op),
    "nccl": lambda x, un_op: reductions.build_nccl_all_reduce(x, tf.add, un_op),
    "nccl, ring": lambda x, un_op: reductions.build_nccl_then_ring(x, 1, tf.add, un_op),
    "nccl, recursive": lambda x, un_op: reductions.build_nccl_then_recursive_hd(x, tf.add, un_op),
    "nccl, shuffle": lambda x, un_op: reductions.build_nccl_then_shuffle(x, ["/cpu:0"], tf.add, tf.add_n, un_op),
    "shuffle, ring": lambda x, un_op: reductions.build_shuffle_then_ring(x, ["/cpu:0"], 1, tf.add_n, tf.add, un_op),
    "shuffles": lambda x, un_op: reductions.build_shuffle_then_shuffle(x, ["/cpu:0"], ["/cpu:0"], tf.add_n, un_op),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS.keys())
@pytest.mark.parametrize("un_op", [None, halved])
def test_each_algorithm_gives_the_sum(build, un_op):
    assert [each.device for each in build(placed(), un_op)] == [f"/job:worker/task:{i}" for i in range(3)]
    expected = np.add.reduce(VALUES) / (1.0 if un_op is None else 2.0)
    with tf.Session() as session:
        for value in session.run(build(on_this_machine(), un_op)):
            np.testing.assert_array_equal(value, expected)


def test_other_reductions():
    with tf.Session() as session:
        results = reductions.build_recursive_hd_all_reduce(on_this_machine(), tf.maximum)
        for value in session.run(results):
            np.testing.assert_array_equal(value, np.maximum.reduce(VALUES))


def test_reductions_that_there_are_not():
    with pytest.raises(ValueError, match="red_op not supported by NCCL all-reduce"):
        reductions.build_nccl_all_reduce(placed(), tf.maximum)
    with pytest.raises(ValueError, match="input tensors must have the same shape and dtype"):
        reductions.build_recursive_hd_all_reduce([tf.zeros([2]), tf.zeros([3])], tf.add)
    with pytest.raises(ValueError, match="Given: no tensors"):
        reductions.build_ring_all_reduce([], 1, 1, [], tf.add)
