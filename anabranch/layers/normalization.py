"""Batch normalisation (Ioffe and Szegedy, 2015) as a layer of ``tf.layers``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes
from anabranch.layers.arguments import ONES, ZEROS, initializer_of
from anabranch.layers.base import Layer
from anabranch.layers.batch_statistics import BatchNormalizing, checked_options, effects_are_immediate


@public("layers.BatchNormalization")
class BatchNormalization(BatchNormalizing, Layer):
    """Take the mean off each channel and divide by its deviation; then ``gamma * x + beta``.

    While training the statistics are those of the batch, and moving averages of them are kept, by operations in the
    collection ``UPDATE_OPS`` that the training step must run. Otherwise the averages are used.

    Args:
        axis: the axis of channels (or axes) whose statistics are kept.
        momentum: share of the old average when it is updated.
        epsilon: added to the variance.
        center: add ``beta``.
        scale: multiply by ``gamma``.
        beta_initializer: how ``beta`` starts.
        gamma_initializer: how ``gamma`` starts.
        moving_mean_initializer: how the average of the means starts.
        moving_variance_initializer: how the average of the variances starts.
        beta_regularizer: function of ``beta`` whose value joins the regularization losses.
        gamma_regularizer: likewise of ``gamma``.
        beta_constraint: function that optimizers apply to ``beta`` after an update.
        gamma_constraint: likewise to ``gamma``.
        renorm: while training, correct the statistics of the batch towards averages of them.
        renorm_clipping: dict with limits of the corrections, numbers or scalars: ``rmin`` and ``rmax`` of the factor,
            ``dmax`` of the offset's absolute value.
        renorm_momentum: share of the old average of those that ``renorm`` keeps.
        fused: use the op that normalises in one step; wherever it can be if None: four axes, channels in axis 1 or 3.
        trainable: whether optimizers change ``beta`` and ``gamma``, and updates are kept.
        virtual_batch_size: while training, take the statistics over parts of the batch of this size, which divides
            it; then the variables have the rank of the inputs and one more.
        adjustment: a function of the dynamic shape of the inputs that gives ``(scale, bias)``, which broadcast with
            them and are applied to the normalised values in training, before gamma and beta; or None.
        name: name of the layer and of its variable scope.
        **kwargs: arguments of `Layer`.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: Any = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = ZEROS,
        gamma_initializer: Any = ONES,
        moving_mean_initializer: Any = ZEROS,
        moving_variance_initializer: Any = ONES,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: Any = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, **kwargs)
        clipping = checked_options(renorm_clipping, virtual_batch_size, adjustment)
        self.axis = axis
        self.momentum = momentum
        self.epsilon = epsilon
        self.center, self.scale = center, scale
        self.beta_initializer = initializer_of(beta_initializer)
        self.gamma_initializer = initializer_of(gamma_initializer)
        self.moving_mean_initializer = initializer_of(moving_mean_initializer)
        self.moving_variance_initializer = initializer_of(moving_variance_initializer)
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self.renorm, self.renorm_momentum, self.renorm_clipping = renorm, renorm_momentum, clipping
        self.virtual_batch_size = virtual_batch_size
        self.fused = fused
        self.adjustment = adjustment

    @contextlib.contextmanager
    def _whole_variables(self) -> Iterator[None]:
        self._set_scope(None)
        assert self._scope is not None
        partitioner = self._scope.partitioner
        self._scope.set_partitioner(None)
        try:
            yield
        finally:
            self._scope.set_partitioner(partitioner)

    def _averages_move(self) -> bool:
        return self.trainable or not effects_are_immediate()

    def call(self, inputs: Tensor, training: Any = False) -> Tensor:
        """The normalised inputs.

        Args:
            inputs: tensor with channels in ``axis``.
            training: use the statistics of the batch: a bool or a boolean scalar tensor.
        """
        return self.normalise(inputs, False if training is None else training)

    def compute_output_shape(self, input_shape: Any) -> shapes.TensorShape:
        """The input's shape."""
        return shapes.TensorShape(input_shape)


@public("layers.batch_normalization")
def batch_normalization(
    inputs: Any,
    axis: Any = -1,
    momentum: Any = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = ZEROS,
    gamma_initializer: Any = ONES,
    moving_mean_initializer: Any = ZEROS,
    moving_variance_initializer: Any = ONES,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: Any = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: Any = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> Tensor:
    """Batch normalisation; see :class:`BatchNormalization`.

    Args:
        inputs: tensor with channels in ``axis``.
        axis: the axis of channels.
        momentum: share of the old average when it is updated.
        epsilon: added to the variance.
        center: add ``beta``.
        scale: multiply by ``gamma``.
        beta_initializer: how ``beta`` starts.
        gamma_initializer: how ``gamma`` starts.
        moving_mean_initializer: how the average of the means starts.
        moving_variance_initializer: how the average of the variances starts.
        beta_regularizer: function of ``beta`` whose value joins the regularization losses.
        gamma_regularizer: likewise of ``gamma``.
        beta_constraint: function that optimizers apply to ``beta`` after an update.
        gamma_constraint: likewise to ``gamma``.
        training: use the statistics of the batch and keep averages of them: a bool or a boolean scalar tensor.
        trainable: whether optimizers change ``beta`` and ``gamma``.
        name: name of the layer and of its variable scope.
        reuse: use the variables that another layer of this name made.
        renorm: while training, correct the statistics of the batch towards averages of them.
        renorm_clipping: dict with limits of the corrections, numbers or scalars: ``rmin`` and ``rmax`` of the factor,
            ``dmax`` of the offset's absolute value.
        renorm_momentum: share of the old average of those that ``renorm`` keeps.
        fused: use the op that normalises in one step; wherever it can be if None.
        virtual_batch_size: while training, take the statistics over parts of the batch of this size, which divides
            it; then the variables have the rank of the inputs and one more.
        adjustment: a function of the dynamic shape of the inputs that gives ``(scale, bias)``, which broadcast with
            them and are applied to the normalised values in training, before gamma and beta; or None.
    """
    layer = BatchNormalization(
        axis,
        momentum,
        epsilon,
        center,
        scale,
        beta_initializer,
        gamma_initializer,
        moving_mean_initializer,
        moving_variance_initializer,
        beta_regularizer,
        gamma_regularizer,
        beta_constraint,
        gamma_constraint,
        renorm,
        renorm_clipping,
        renorm_momentum,
        fused,
        trainable,
        virtual_batch_size,
        adjustment,
        name,
        _reuse=reuse,
        _scope=name,
    )
    result: Tensor = layer(inputs, training=training)
    return result
