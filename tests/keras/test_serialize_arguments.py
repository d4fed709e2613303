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
