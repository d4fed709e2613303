"""Normalisation by the batch or by the features."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.random_seed import count_more
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.keras.v1.layer import registry
from anabranch.keras.v1.layers.config import Configured
from anabranch.layers.batch_statistics import BatchNormalizing, checked_options, effects_are_immediate


@registry.add("BatchNormalizationV1")
class BatchNormalization(BatchNormalizing, Configured):
    """Scale features to mean 0 and variance 1: by the batch in training, by moving averages else.

    Args:
        axis: axis of the features.
        momentum: share of the moving averages that stays in an update.
        epsilon: added to the variance.
        center, scale: add ``beta``; multiply by ``gamma``.
        beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer: how they start.
        beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint: of both weights.
        renorm: while training, correct the statistics of the batch towards averages of them (Ioffe, 2017).
        renorm_clipping: dict with limits of the corrections: ``rmin`` and ``rmax`` of the factor, ``dmax`` of the
            offset's absolute value.
        renorm_momentum: share of the old average of those that ``renorm`` keeps.
        fused: use the op that normalises in one step; wherever it can be if None.
        virtual_batch_size: while training, take the statistics over parts of the batch of this size.
        adjustment: a function of the dynamic shape of the inputs that gives ``(scale, bias)`` of the normalised values
            in training, before gamma and beta; or None.
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
        if axis is None or isinstance(axis, str):
            raise TypeError(
                f"axis must be int or list, type given: {type(axis)}\n"
                + errors.message(f"axis={axis!r}", "a number of an axis, or a list of them", "axis=-1")
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
        limits = checked_options(renorm_clipping, virtual_batch_size, adjustment)
        self.renorm, self.renorm_momentum, self.renorm_clipping = renorm, renorm_momentum, limits
        self.virtual_batch_size, self.adjustment = virtual_batch_size, adjustment
        self.fused = fused
        self.supports_masking = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs."""
        training = state.learning_phase() if training is None else training
        decided = isinstance(training, (int, np.bool_))
        if not self.fused:
            count_more(2 - 4 * decided)  # reads of the variables, which TensorFlow places otherwise
        return self.normalise(inputs, bool(training) if decided else training)

    def _averages_move(self) -> bool:
        return self._takes_updates() or not effects_are_immediate()

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew; an adjustment, which is a function, is left out."""
        config = super().get_config()
        if self.renorm:
            config.update(renorm=True, renorm_clipping=dict(self.renorm_clipping), renorm_momentum=self.renorm_momentum)
        if self.virtual_batch_size is not None:
            config["virtual_batch_size"] = self.virtual_batch_size
        return config

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
        beta, gamma = self.beta, self.gamma
        if axes != [rank - 1]:
            wide = [size if i in axes else 1 for i, size in enumerate(K.int_shape(inputs))]
            beta, gamma = (None if x is None else tf.reshape(x, wide) for x in (beta, gamma))
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, self.epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape(input_shape)
