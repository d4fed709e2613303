"""Optimizers by name or config, and those of ``tf.train`` as Keras uses them."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.keras.v1.objects import deserialize_keras_object
from anabranch.keras.v1.optimizers.base import Optimizer, registry


class TFOptimizer:
    """An optimizer of ``tf.train`` as Keras uses it."""

    def __init__(self, optimizer: Any, iterations: Any = None) -> None:
        self.optimizer = optimizer
        state.track_optimizer(optimizer)
        with tf.init_scope():
            self.iterations = K.variable(0, dtype="int64", name="iterations") if iterations is None else iterations

    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Operations that take one step down the loss."""
        pairs = self.optimizer.compute_gradients(loss, list(params))
        return [self.optimizer.apply_gradients(pairs, global_step=self.iterations)]

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """Change weights by their gradients."""
        return self.optimizer.apply_gradients(grads_and_vars, global_step=self.iterations, name=name)

    def _create_slots(self, var_list: Any) -> None:
        self.optimizer._create_slots(list(var_list))

    @property
    def weights(self) -> list[Any]:
        """Not there, as in TensorFlow."""
        raise NotImplementedError(
            errors.message(
                "weights of an optimizer of tf.train", "an optimizer of tf.keras", "optimizer.optimizer.variables()"
            )
        )

    def get_config(self) -> Any:
        """Not there, as in TensorFlow."""
        raise NotImplementedError(
            errors.message(
                "the config of an optimizer of tf.train", "an optimizer of tf.keras", "tf.keras.optimizers.Adam()"
            )
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)


def get(identifier: Any) -> Any:
    """An optimizer by its name or config; one of ``tf.train`` as Keras uses it."""
    if isinstance(identifier, (Optimizer, TFOptimizer)):
        return identifier
    if isinstance(identifier, tf.train.Optimizer):
        return TFOptimizer(identifier)
    if isinstance(identifier, (str, dict)):
        return deserialize({"class_name": identifier, "config": {}} if isinstance(identifier, str) else identifier)
    raise ValueError(
        f"Could not interpret optimizer identifier: {identifier}\n"
        + errors.message(repr(identifier), "a name, a config or an optimizer", "'adam'")
    )


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """The optimizer that a config describes; names in any case."""
    name = config["class_name"]
    if name.lower() in registry.objects:
        config = {**config, "class_name": name.lower()}
    return deserialize_keras_object(config, registry.objects, custom_objects, "optimizer")


serialize = registry.public_functions("optimizer")[0]
