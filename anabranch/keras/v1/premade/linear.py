"""Linear models of one input or several."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import activations, initializers, regularizers
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.layers.core import Dense
from anabranch.keras.v1.model import Model


@registry.add()
class LinearModel(Model):
    """A model that is linear in its inputs: the sum of a product with weights for each input, and a bias.

    Args:
        units: size of the output ``[batch, units]``.
        activation: what is applied to the sum; None for nothing.
        use_bias: whether there is a bias.
        kernel_initializer, bias_initializer: first values of the weights and the bias.
        kernel_regularizer, bias_regularizer: losses of these.
        **kwargs: ``name`` and other arguments of a layer.

    Raises:
        ValueError: from a call: the number of inputs is another than in the first one.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     model = tf.keras.experimental.LinearModel(kernel_initializer="zeros")
        ...     model.compile(tf.train.GradientDescentOptimizer(0.5), "mse")
        ...     model.fit([[1.0, 0.0]], [[1.0]], verbose=0).history["loss"]
        [1.0]
    """

    def __init__(
        self,
        units: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Make the layer of each input, and the bias."""
        several = isinstance(input_shape, list)
        self.dense_layers = [
            Dense(
                self.units,
                use_bias=False,
                kernel_initializer=self.kernel_initializer,
                kernel_regularizer=self.kernel_regularizer,
            )
            for _ in (input_shape if several else [input_shape])
        ]
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", shape=(self.units,), initializer=self.bias_initializer, regularizer=self.bias_regularizer
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The sum over the inputs."""
        inputs = inputs if isinstance(inputs, (tuple, list)) else [inputs]
        if len(inputs) != len(self.dense_layers):
            raise ValueError(
                f"Expected {len(self.dense_layers)} inputs, but got {len(inputs)} inputs\n"
                + errors.message(
                    f"{len(inputs)} inputs of {self.name}",
                    f"{len(self.dense_layers)} inputs, like in its first call",
                    "a model of its own: tf.keras.experimental.LinearModel()",
                )
            )
        result: Any = None
        for x, layer in zip(inputs, self.dense_layers, strict=True):
            result = layer(x) if result is None else result + layer(x)
        if self.use_bias:
            result = tf.nn.bias_add(result, self.bias)
        return result if self.activation is None else self.activation(result)

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the model anew."""
        return {
            **Layer.get_config(self),
            "units": self.units,
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
        }

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """The model that a config describes."""
        del custom_objects
        return cls(**config)
