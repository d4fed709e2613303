"""A linear model beside a deep one, each with an optimizer of its own."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.keras.v1 import activations
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.model import Model
from anabranch.keras.v1.objects import serialize_keras_object


@registry.add()
class WideDeepModel(Model):
    """The mean of a linear model and a deep one (Cheng et al. 2016), trained together.

    ``compile`` takes a list of two optimizers, that of the linear model first, or one for both. Inputs are a list of
    what the linear and the deep model take, or the same for both.

    Args:
        linear_model: :class:`LinearModel` or another model of as many outputs.
        dnn_model: the deep one.
        activation: what is applied to the mean; None for nothing.
        **kwargs: ``name`` and other arguments of a layer.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     linear = tf.keras.experimental.LinearModel(kernel_initializer="zeros")
        ...     deep = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros")])
        ...     model = tf.keras.experimental.WideDeepModel(linear, deep)
        ...     model.compile(["sgd", "adam"], "mse")
        ...     model.fit([[1.0, 0.0]], [[1.0]], verbose=0).history["loss"]
        [1.0]
    """

    def __init__(self, linear_model: Any, dnn_model: Any, activation: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.linear_model = linear_model
        self.dnn_model = dnn_model
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        """The mean of what both models give."""
        both = isinstance(inputs, (tuple, list)) and len(inputs) == 2
        wide, deep = inputs if both else (inputs, inputs)
        result = 0.5 * (self.linear_model(wide) + self.dnn_model(deep))
        return self.activation(result) if self.activation else result

    def _trained_by(self) -> list[tuple[Any, list[Any]]]:
        given = self.optimizer
        if not isinstance(given, (list, tuple)):
            given = [given, given]
        if len(given) != 2:
            raise ValueError(
                errors.message(
                    f"{len(given)} optimizers of {self.name}",
                    "one for both models, or a list of two",
                    "model.compile(['sgd', 'adam'], loss)",
                )
            )
        known = {id(weight) for weight in self._collected_trainable_weights}
        models = (self.linear_model, self.dnn_model)
        return [
            (optimizer, [weight for weight in model.trainable_weights if id(weight) in known])
            for optimizer, model in zip(given, models, strict=True)
        ]

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the model anew."""
        return {
            **Layer.get_config(self),
            "linear_model": serialize_keras_object(self.linear_model),
            "dnn_model": serialize_keras_object(self.dnn_model),
            "activation": activations.serialize(self.activation),
        }

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """The model that a config describes."""
        given = dict(config)
        for name in ("linear_model", "dnn_model"):
            given[name] = registry.deserialize(given[name], custom_objects)
        given["activation"] = activations.deserialize(given.get("activation"), custom_objects)
        return cls(**given)
