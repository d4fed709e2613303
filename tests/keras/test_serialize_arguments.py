"""``serialize`` and ``deserialize`` of the namespaces of ``tf.keras`` name their argument as TensorFlow 1.15 does."""

from __future__ import annotations

import pytest

import anabranch as tf

ARGUMENTS = {
    "activations": ("activation", "name", "relu"),
    "constraints": ("constraint", "config", "unit_norm"),
    "initializers": ("initializer", "config", "zeros"),
    "losses": ("loss", "name", "mean_squared_error"),
    "metrics": ("metric", "config", "mean_squared_error"),
    "optimizers": ("optimizer", "config", "sgd"),
    "regularizers": ("regularizer", "config", "l2"),
}


@pytest.mark.parametrize("namespace", ARGUMENTS)
def test_arguments_are_taken_by_tensorflows_names(namespace: str) -> None:
    item, config, name = ARGUMENTS[namespace]
    module = getattr(tf.keras, namespace)
    with tf.Graph().as_default():
        written = module.serialize(**{item: module.get(name)})
        again = module.deserialize(**{config: written, "custom_objects": None})
        assert module.serialize(again) == written
    with pytest.raises(TypeError, match="missing a required argument"):
        module.serialize()


def test_configs_of_separable_convolutions_have_what_tensorflow_writes():
    with tf.Graph().as_default():
        uniform = {"class_name": "GlorotUniform", "config": {"seed": None, "dtype": "float32"}}
        more = {"kernel_initializer": uniform, "kernel_regularizer": None, "kernel_constraint": None}
        for kind in (tf.keras.layers.SeparableConv1D, tf.keras.layers.SeparableConv2D):
            config = kind(4, 3).get_config()
            assert {name: config[name] for name in more} == more
            assert kind.from_config(config).get_config() == config
        config = tf.keras.layers.DepthwiseConv2D(2, dilation_rate=2).get_config()
        assert config["dilation_rate"] == (2, 2)
        assert tf.keras.layers.DepthwiseConv2D.from_config(config).dilation_rate == (2, 2)
