"""What layers say of inputs that do not fit; losses by the inputs they come from; copies."""

from __future__ import annotations

import copy

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
