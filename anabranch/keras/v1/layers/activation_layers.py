"""Activations with parameters, and noise."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import backend_nn
from anabranch.keras.v1.layer import registry
from anabranch.keras.v1.layers.config import Configured
from anabranch.keras.v1.layers.core import when


class _Elementwise(Configured):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape(input_shape)


@registry.add()
class LeakyReLU(_Elementwise):
    """``x`` above 0, ``alpha * x`` below."""

    def __init__(self, alpha: float = 0.3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(alpha=alpha)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return tf.nn.leaky_relu(inputs, alpha=self.alpha)


@registry.add()
class PReLU(_Elementwise):
    """``x`` above 0, a weight times ``x`` below.

    Args:
        alpha_initializer, alpha_regularizer, alpha_constraint: of the weight.
        shared_axes: axes along which there is one weight.
    """

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        axes = (
            None
            if shared_axes is None
            else list(shared_axes)
            if isinstance(shared_axes, (list, tuple))
            else [shared_axes]
        )
        self._keep(
            alpha_initializer=alpha_initializer,
            alpha_regularizer=alpha_regularizer,
            alpha_constraint=alpha_constraint,
            shared_axes=axes,
        )

    def build(self, input_shape: Any) -> None:
        """Make the weight."""
        shape = list(K.dims(input_shape)[1:])
        for axis in self.shared_axes or []:
            shape[axis - 1] = 1
        self.alpha = self.add_weight(
            "alpha",
            shape,
            initializer=self.alpha_initializer,
            regularizer=self.alpha_regularizer,
            constraint=self.alpha_constraint,
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return tf.nn.relu(inputs) + -self.alpha * tf.nn.relu(-inputs)


@registry.add()
class ELU(_Elementwise):
    """Exponential linear unit."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(alpha=alpha)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return backend_nn.elu(inputs, self.alpha)


@registry.add()
class ThresholdedReLU(_Elementwise):
    """``x`` above ``theta``, else 0."""

    def __init__(self, theta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(theta=theta)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return inputs * tf.cast(inputs > self.theta, inputs.dtype)


@registry.add()
class Softmax(_Elementwise):
    """Softmax along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(axis=axis)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return tf.nn.softmax(inputs, axis=self.axis)


@registry.add()
class ReLU(_Elementwise):
    """Rectified linear unit."""

    def __init__(
        self, max_value: float | None = None, negative_slope: float = 0, threshold: float = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if (max_value is not None and max_value < 0) or negative_slope < 0:
            raise ValueError(
                "max_value and negative_slope of Relu layer cannot be negative values: "
                f"{max_value}, {negative_slope}\nGiven: a negative number\nExpected: 0 or "
                "more\nInstead: ReLU(max_value=6.0)"
            )
        self._keep(max_value=max_value, negative_slope=negative_slope, threshold=threshold)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return backend_nn.relu(inputs, self.negative_slope, self.max_value, self.threshold)


# --------------------------------------------------------------------------------------------------------------- noise


@registry.add()
class GaussianNoise(_Elementwise):
    """In training, normally distributed noise is added."""

    def __init__(self, stddev: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(stddev=stddev)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs."""
        return when(
            training,
            lambda: inputs + K.random_normal(tf.shape(inputs), 0.0, self.stddev, dtype=inputs.dtype),
            lambda: inputs,
        )


@registry.add()
class GaussianDropout(_Elementwise):
    """In training, times normally distributed noise around 1."""

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(rate=rate)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs."""
        if not 0 < self.rate < 1:
            return inputs
        spread = (self.rate / (1.0 - self.rate)) ** 0.5
        return when(
            training,
            lambda: inputs * K.random_normal(tf.shape(inputs), 1.0, spread, dtype=inputs.dtype),
            lambda: inputs,
        )


@registry.add()
class AlphaDropout(_Elementwise):
    """Dropout that keeps mean and variance of self-normalising networks."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(rate=rate)
        self.noise_shape, self.seed = noise_shape, seed

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs."""
        if not 0.0 < self.rate < 1.0:
            return inputs
        least = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946

        def dropped() -> Any:
            shape = tf.shape(inputs) if self.noise_shape is None else self.noise_shape
            kept = tf.cast(K.random_uniform(shape, seed=self.seed) >= self.rate, inputs.dtype)
            a = ((1 - self.rate) * (1 + self.rate * least**2)) ** -0.5
            return a * (inputs * kept + least * (1 - kept)) - a * least * self.rate

        return when(training, dropped, lambda: tf.identity(inputs))
