"""Tensors that have a value: what Python, NumPy and other libraries see of them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import anabranch as tf


def test_a_tensor_shows_its_value() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert x.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert isinstance(x, tf.Tensor)
    assert (x.shape.as_list(), x.dtype, x.ndim, len(x)) == ([2, 2], tf.float32, 2, 2)
    assert str(x) == "tf.Tensor(\n[[1. 2.]\n [3. 4.]], shape=(2, 2), dtype=float32)"
    assert "numpy=\narray([[1., 2.]," in repr(x)
    assert x.device.endswith("device:CPU:0")
    assert str(tf.constant("a")) == "tf.Tensor(b'a', shape=(), dtype=string)"


def test_what_numpy_gives_is_the_callers_own() -> None:
    x = tf.constant([1.0, 2.0])
    for array in (x.numpy(), np.asarray(x), np.array(x)):
        array[0] = 9.0
    assert x.numpy().tolist() == [1.0, 2.0]
    assert np.from_dlpack(x).tolist() == [1.0, 2.0]


def test_an_array_that_a_tensor_was_made_of_may_change() -> None:
    array = np.array([1.0, 2.0])
    x = tf.constant(array)
    y = tf.convert_to_tensor(array)
    array[0] = 9.0
    assert x.numpy().tolist() == y.numpy().tolist() == [1.0, 2.0]


def test_scalars_are_pythons_numbers() -> None:
    assert float(tf.constant(1.5)) == 1.5
    assert int(tf.constant(3)) == 3
    assert [1, 2, 3][tf.constant(1)] == 2
    assert bool(tf.constant(True))
    assert f"{tf.constant(1.5):.2f}" == "1.50"
    assert "%d" % tf.constant(4) == "4"  # noqa: UP031
    with pytest.raises(TypeError, match="as an index"):
        [1, 2][tf.constant(1.0)]
    with pytest.raises(TypeError, match=r"Scalar tensor has no `len\(\)`"):
        len(tf.constant(1.0))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tf.constant([1, 2]))


def test_operators_indexing_and_iteration() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert ((2.0 - x) @ x / 2.0)[1:, 0].numpy().tolist() == [-3.5]
    assert [row.numpy().tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert (x > 2.0).numpy().tolist() == [[False, False], [True, True]]
    assert (np.ones(2, np.float32) * x).numpy().tolist() == x.numpy().tolist()
    assert x[tf.newaxis].shape.as_list() == [1, 2, 2]
    assert tf.stack([x[0], [5.0, 6.0]]).numpy().tolist() == [[1.0, 2.0], [5.0, 6.0]]


def test_equality_and_hash_are_those_of_objects() -> None:
    x, y = tf.constant(1.0), tf.constant(1.0)
    assert x == x
    assert x != y
    assert {x: 1, y: 2}[x] == 1


def test_functions_among_control_dependencies_are_called() -> None:
    calls = []
    with tf.control_dependencies([tf.constant(1.0), lambda: calls.append(1)]):
        assert calls == [1]


def test_tensors_are_copied_and_pickled() -> None:
    x = tf.constant([1.0, 2.0])
    assert copy.copy(x) is x
    assert copy.deepcopy([x])[0] is x  # it never changes
    for one in (x, tf.constant([b"a", b"bc"]), tf.constant(3, tf.int64)):
        back = pickle.loads(pickle.dumps(one))
        assert back.dtype is one.dtype
        assert np.array_equal(back.numpy(), one.numpy())


def test_what_belongs_to_a_graph_is_not_there() -> None:
    x = tf.constant(1.0)
    for name in ("op", "graph", "name", "value_index"):
        with pytest.raises(AttributeError, match=rf"Tensor\.{name} is meaningless when eager execution is enabled"):
            getattr(x, name)
        assert not hasattr(x, name)
    with pytest.raises(NotImplementedError, match="eval is not supported when eager execution is enabled"):
        x.eval()


def test_a_tensor_of_the_other_mode_is_refused() -> None:
    x = tf.constant(1.0)
    with tf.Graph().as_default():
        y = tf.constant(2.0)
        with pytest.raises(RuntimeError, match="Attempting to capture an EagerTensor without building a function"):
            tf.add(x, y)
    with pytest.raises(TypeError, match="of a graph, in code that runs its ops at once"):
        tf.add(x, y)


def test_a_graphs_block_builds_a_graph() -> None:
    assert tf.executing_eagerly()
    with tf.Graph().as_default() as graph:
        assert not tf.executing_eagerly()
        y = tf.placeholder(tf.float32) * 2.0
        with tf.init_scope():
            assert not tf.executing_eagerly()
        with tf.Session() as session:
            assert session.run(y, {"Placeholder:0": 3.0}) == 6.0
    assert graph.get_operations()
    assert tf.executing_eagerly()


def test_a_tensor_is_formatted_like_its_array() -> None:
    assert f"{tf.constant([[4.0]])} {tf.constant(2.5):.2f} {tf.constant('a')}" == "[[4.]] 2.50 b'a'"


def test_references_are_keys() -> None:
    x, v = tf.constant(3.0), tf.Variable(1.0)
    table = {x.experimental_ref(): "x", v.experimental_ref(): "v"}
    assert table[x.experimental_ref()] == "x"
    assert v.experimental_ref().deref() is v
    assert tf.constant(3.0).experimental_ref() not in table


@pytest.mark.skipif(tf.test.is_gpu_available(), reason="there is a GPU")
def test_a_copy_to_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(RuntimeError, match="GPU:0 unknown device"):
        tf.ones([2]).gpu()
