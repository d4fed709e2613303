"""Normalisation by the batch or by the features."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.keras.v1.layer import InputSpec, registry
from anabranch.keras.v1.layers.config import Configured
from anabranch.keras.v1.layers.core import when


@registry.add("BatchNormalizationV1")
class BatchNormalization(Configured):
    """Scale features to mean 0 and variance 1: by the batch in training, by moving averages else.

    Args:
        axis: axis of the features.
        momentum: share of the moving averages that stays in an update.
        epsilon: added to the variance.
        center, scale: add ``beta``; multiply by ``gamma``.
        beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer: how they start.
        beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint: of both weights.
        renorm, renorm_clipping, renorm_momentum, virtual_batch_size, adjustment: must have their defaults;
            ``tf.layers`` has them.
        fused: without effect: the compiler fuses.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 0.001,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, **kwargs)
        if renorm or virtual_batch_size is not None or adjustment is not None:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    "renorm, virtual_batch_size or adjustment of tf.keras' batch normalisation",
                    "their defaults",
                    "tf.layers.batch_normalization(x, renorm=True)",
                ),
            )
        self._keep(
            axis=list(axis) if isinstance(axis, (list, tuple)) else axis,
            momentum=momentum,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            moving_mean_initializer=moving_mean_initializer,
            moving_variance_initializer=moving_variance_initializer,
            beta_regularizer=beta_regularizer,
            gamma_regularizer=gamma_regularizer,
            beta_constraint=beta_constraint,
            gamma_constraint=gamma_constraint,
        )
        self.renorm, self.virtual_batch_size, self.adjustment = False, None, None
        self.fused = fused
        self.supports_masking = True

    def _axes(self, rank: int) -> list[int]:
        axes = self.axis if isinstance(self.axis, list) else [self.axis]
        return [axis % rank for axis in axes]

    def build(self, input_shape: Any) -> None:
        """Make the weights and the moving averages."""
        sizes = K.dims(input_shape)
        axes = self._axes(len(sizes))
        if any(sizes[axis] is None for axis in axes):
            raise ValueError(
                f"There are None dimensions in the input_shape {input_shape}\n"
                + errors.message(f"shape {input_shape}", f"a known size of axis {self.axis}", "x.set_shape(...)")
            )
        self.input_spec = InputSpec(ndim=len(sizes), axes={axis: sizes[axis] for axis in axes})
        self.axis: Any = list(axes)
        shape = (sizes[axes[0]],) if len(axes) == 1 else tuple(size if i in axes else 1 for i, size in enumerate(sizes))
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                shape,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                shape,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
            )
        self.moving_mean = self.add_weight(
            "moving_mean", shape, initializer=self.moving_mean_initializer, trainable=False
        )
        self.moving_variance = self.add_weight(
            "moving_variance", shape, initializer=self.moving_variance_initializer, trainable=False
        )
        self.built = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs."""
        training = state.learning_phase() if training is None else training
        if not self.trainable:
            training = False
        rank = K.ndim(inputs)
        axes = self._axes(rank)
        others = [i for i in range(rank) if i not in axes]
        wide = None if axes == [rank - 1] else [K.int_shape(inputs)[i] if i in axes else 1 for i in range(rank)]

        def broad(x: Any) -> Any:
            return x if x is None or wide is None or K.ndim(x) == rank else tf.reshape(x, wide)

        def by_batch() -> tuple[Any, Any]:
            mean, variance = tf.nn.moments(inputs, others, keep_dims=len(axes) > 1)
            return mean, variance

        def kept() -> tuple[Any, Any]:
            return tf.identity(self.moving_mean), tf.identity(self.moving_variance)

        mean, variance = when(training, by_batch, kept)
        outputs = tf.nn.batch_normalization(
            inputs, broad(mean), broad(variance), broad(self.beta), broad(self.gamma), self.epsilon
        )
        outputs.set_shape(inputs.shape)
        self._move(training, inputs, mean, variance, others)
        return outputs

    def _move(self, training: Any, inputs: Any, mean: Any, variance: Any, others: list[int]) -> None:
        """Move the averages, if the layer trains."""
        if isinstance(training, (bool, int)) and not training:
            return
        share = when(training, lambda: tf.constant(1.0 - self.momentum), lambda: tf.constant(0.0))
        if K.ndim(inputs) == 4 and len(self._axes(4)) == 1:  # TensorFlow's fused kernel, which corrects the variance
            count = tf.cast(tf.reduce_prod(tf.gather(tf.shape(inputs), others)), variance.dtype)
            corrected = variance * count / tf.maximum(count - 1.0, 1.0)
        else:
            corrected = variance
        moves = [(self.moving_mean, mean), (self.moving_variance, corrected)]
        for variable, value in moves:
            change = (tf.identity(variable) - value) * tf.cast(share, variable.dtype.base_dtype)
            self.add_update(tf.assign_sub(variable, change))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape(input_shape)


@registry.add()
class LayerNormalization(Configured):
    """Scale each sample to mean 0 and variance 1 over some axes."""

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, **kwargs)
        self._keep(
            axis=list(axis) if isinstance(axis, (list, tuple)) else axis,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            beta_regularizer=beta_regularizer,
            gamma_regularizer=gamma_regularizer,
            beta_constraint=beta_constraint,
            gamma_constraint=gamma_constraint,
        )
        self.supports_masking = True

    def _axes(self, rank: int) -> list[int]:
        return [axis % rank for axis in (self.axis if isinstance(self.axis, list) else [self.axis])]

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        sizes = K.dims(input_shape)
        shape = [sizes[axis] for axis in self._axes(len(sizes))]
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                shape,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                shape,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        rank = K.ndim(inputs)
        axes = self._axes(rank)
        mean, variance = tf.nn.moments(inputs, axes, keep_dims=True)
        wide = [size if i in axes else 1 for i, size in enumerate(K.int_shape(inputs))]
        beta, gamma = (None if x is None else tf.reshape(x, wide) for x in (self.beta, self.gamma))
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, self.epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape(input_shape)
