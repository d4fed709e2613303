"""What layers say of inputs that do not fit; losses by the inputs they come from; copies."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager import mode


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as new:
        yield new


class Same(tf.layers.Layer):
    def call(self, inputs):
        return inputs


@pytest.mark.parametrize(
    ("spec", "shape", "dtype", "words"),
    [
        ({"dtype": "float32"}, [1], tf.int32, "expected dtype=float32, found dtype=int32"),
        ({"shape": (None, 3)}, [1, 2], tf.float32, r"expected shape=\(None, 3\), found shape=\[1,2\]"),
        ({"min_ndim": 1}, None, tf.float32, "its rank is undefined, but the layer requires a defined rank"),
    ],
)
def test_specifications(spec, shape, dtype, words):
    layer = Same()
    layer.input_spec = tf.layers.InputSpec(**spec)
    with pytest.raises(ValueError, match=words):
        layer(tf.placeholder(dtype, shape))
    layer(tf.placeholder(tf.float32, [7, 3]))


@pytest.mark.parametrize("shape", [None, [], [1], [2, None]])
def test_shapes_that_a_dense_layer_cannot_have(shape):
    with pytest.raises(
        ValueError, match=r"must have rank at least 2|innermost dimension of input_shape must be defined"
    ):
        tf.layers.Dense(2).compute_output_shape(tf.TensorShape(shape))


def test_channels_that_are_not_known():
    with pytest.raises(ValueError, match=r"The channel dimension of the inputs should be defined. Found `None`"):
        tf.layers.conv2d(tf.placeholder(tf.float32, [1, 4, 4, None]), 2, 3)


def test_losses_of_inputs():
    class Layer(tf.layers.Layer):
        def call(self, inputs):
            self.add_loss(tf.reduce_sum(inputs), inputs=True)
            return inputs + 1

    layer = Layer()
    first, second = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    between = first * 2
    result = layer(between)
    layer(second)
    assert len(layer.losses) == 2
    assert layer.get_losses_for([first]) == layer.get_losses_for(between) == layer.losses[:1]
    assert layer.get_losses_for(second) == layer.losses[1:]
    assert layer.get_losses_for(result) == []
    assert layer.get_losses_for(None) == []


def test_a_copy_is_of_the_same_graph():
    layer = Same()
    layer(tf.constant([1.0]))
    twin = copy.deepcopy(layer)
    assert twin._graph is layer._graph is tf.get_default_graph()
    twin(tf.constant([2.0]))


def test_names_begin_anew_with_the_default_graph():
    with mode.eager_mode():
        assert [Same().name, Same().name] == ["same_1", "same_2"]
    with tf.Graph().as_default(), mode.eager_mode():
        assert Same().name == "same_1"


_NUMBERS = {
    "units": lambda value: tf.layers.dense(tf.zeros([2, 3]), value),
    "filters": lambda value: tf.layers.conv2d(tf.zeros([1, 6, 6, 3]), value, 3),
    "kernel_size": lambda value: tf.layers.conv2d(tf.zeros([1, 6, 6, 3]), 2, value),
    "strides": lambda value: tf.layers.conv2d(tf.zeros([1, 6, 6, 3]), 2, 3, value),
    "depth_multiplier": lambda value: tf.layers.separable_conv2d(tf.zeros([1, 6, 6, 3]), 2, 3, depth_multiplier=value),
    "ksize": lambda value: tf.nn.max_pool(tf.zeros([1, 6, 6, 3]), [1, value, 2, 1], [1, 1, 1, 1], "SAME"),
    "axis": lambda value: tf.stack([tf.zeros([6])], value),
}


@pytest.mark.parametrize("value", [float("inf"), float("nan"), np.float32("inf"), "a", [1.5]], ids=str)
@pytest.mark.parametrize("name", _NUMBERS)
def test_a_size_that_is_not_an_integer_is_named(name, value):
    with pytest.raises((TypeError, ValueError, OverflowError), match=rf"(?s){name}.*Expected: .*\n.*Instead: "):
        _NUMBERS[name](value)


@pytest.mark.parametrize("value", [3.0, np.float32(3), np.int8(3), tf.Dimension(3)], ids=repr)
def test_a_size_may_be_a_whole_number_of_another_type(value):
    assert tf.placeholder(tf.float32, value).shape.as_list() == [3]
    assert tf.TensorShape([None, value]).as_list() == [None, 3]
    cell = tf.nn.rnn_cell.LSTMCell(int(value))
    assert cell.zero_state(value, tf.float32).c.shape.as_list() == [3, 3]
    assert tf.layers.dense(tf.zeros([2, 3]), value).shape.as_list() == [2, 3]


@pytest.mark.parametrize("value", [1.5, float("inf"), np.float32(1.5), np.float32("nan")], ids=repr)
@pytest.mark.parametrize("use", [lambda v: tf.TensorShape([v]), tf.TensorShape, lambda v: tf.placeholder(tf.int32, v)])
def test_a_dimension_that_is_not_whole_is_refused(use, value):
    with pytest.raises(ValueError, match="Ambiguous dimension"):
        use(value)
