"""Batch normalisation (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.layers.arguments import ONES, ZEROS, initializer_of, known_size
from anabranch.layers.base import InputSpec, Layer
from anabranch.ops.array.cast import cast, ones_like, zeros_like
from anabranch.ops.array.public_shapes import reshape
from anabranch.ops.control.public_cond import smart_cond, smart_constant_value
from anabranch.ops.nn.public_moments import batch_normalization as normalized
from anabranch.ops.nn.public_moments import fused_batch_norm, moments
from anabranch.train.moving_averages import assign_moving_average


def _refuse(given: str, instead: str) -> None:
    raise NotImplementedError(
        errors.message(f"{given} of batch normalisation", f"{given} left at its default", instead)
    )


@public("layers.BatchNormalization")
class BatchNormalization(Layer):
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
        renorm: must be False.
        renorm_clipping: must be None.
        renorm_momentum: belongs to ``renorm``.
        fused: use the op that normalises in one step; wherever it can be if None: four axes, channels in axis 1 or 3.
        trainable: whether optimizers change ``beta`` and ``gamma``, and updates are kept.
        virtual_batch_size: must be None.
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
        if renorm or renorm_clipping is not None:
            _refuse("renorm", "larger batches, or tf.contrib.layers.layer_norm, which needs none")
        if virtual_batch_size is not None:
            _refuse("virtual_batch_size", "split the batch with tf.split and normalise each part")
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
        self.renorm, self.renorm_momentum = renorm, renorm_momentum
        self.fused = fused
        self.adjustment = adjustment

    def build(self, input_shape: Any) -> None:
        """Make ``gamma``, ``beta``, ``moving_mean`` and ``moving_variance``."""
        shape = shapes.TensorShape(input_shape)
        rank = shape.ndims
        if rank is None:
            raise ValueError(
                "Input has undefined rank\n"
                + errors.message("an input of unknown rank", "an input of known rank", "x.set_shape([None, n])")
            )
        given = list(self.axis) if isinstance(self.axis, (list, tuple)) else [self.axis]
        self._axes = [int(axis) + rank if axis < 0 else int(axis) for axis in given]
        if any(not 0 <= axis < rank for axis in self._axes) or len(set(self._axes)) != len(self._axes):
            raise ValueError(
                f"Invalid axis: {self.axis}\n"
                + errors.message(f"axis={self.axis}", f"different axes of a tensor of {rank} axes", "axis=-1")
            )
        sizes = {axis: known_size(shape, axis, "BatchNormalization") for axis in self._axes}
        self.input_spec = InputSpec(ndim=rank, axes=sizes)
        wide = dtypes.as_dtype(self.dtype or "float32")
        # What the fused op can do.
        fits = rank == 4 and self._axes in ([1], [3]) and wide != dtypes.float64
        if self.fused and self.adjustment is not None:
            raise ValueError(
                "When using fused batch norm, adjustment must be None\n"
                + errors.message("fused=True with an adjustment", "an adjustment or the fused op", "fused=False")
            )
        if self.adjustment is not None or (self.fused and rank != 4):
            self.fused = False  # as TensorFlow 1 does: the fused op is for images
        if self.fused and not fits:
            raise ValueError(
                "Unsupported axis, fused batch norm only supports axis == [1] or axis == [3]\n"
                + errors.message(
                    f"fused=True for an input of shape {shape} and {wide.name}, axis={self.axis}",
                    "four axes, channels in axis 1 or 3, and at most 32 bits",
                    "fused=None",
                )
            )
        self.fused = fits if self.fused is None else bool(self.fused)
        # Averages of narrow floats would stand still: a step of the average is smaller than their precision.
        statistics_dtype = dtypes.float32 if wide in (dtypes.float16, dtypes.bfloat16) else wide
        # Along one axis the variables are vectors, as checkpoints have them; along several they broadcast with the
        # inputs.
        if len(self._axes) == 1:
            own = [sizes[self._axes[0]]]
        else:
            own = [sizes.get(axis, 1) for axis in range(rank)]
        self._spread = [sizes.get(axis, 1) for axis in range(rank)]
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                own,
                statistics_dtype,
                self.gamma_initializer,
                self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                own,
                statistics_dtype,
                self.beta_initializer,
                self.beta_regularizer,
                constraint=self.beta_constraint,
            )
        with self._without_partitioner():  # averages stay whole, as TensorFlow's checkpoints have them
            self.moving_mean = self.add_weight(
                "moving_mean", own, statistics_dtype, self.moving_mean_initializer, trainable=False
            )
            self.moving_variance = self.add_weight(
                "moving_variance", own, statistics_dtype, self.moving_variance_initializer, trainable=False
            )
        self.built = True

    @contextlib.contextmanager
    def _without_partitioner(self) -> Iterator[None]:
        self._set_scope(None)
        assert self._scope is not None
        partitioner = self._scope.partitioner
        self._scope.set_partitioner(None)
        try:
            yield
        finally:
            self._scope.set_partitioner(partitioner)

    def call(self, inputs: Tensor, training: Any = False) -> Tensor:
        """The normalised inputs.

        Args:
            inputs: tensor with channels in ``axis``.
            training: use the statistics of the batch: a bool or a boolean scalar tensor.
        """
        training = False if training is None else training
        result, mean, variance = (self._fused if self.fused else self._plain)(inputs, training)
        result.set_shape(inputs.shape)
        known = smart_constant_value(training)
        if known is not False:
            # Where training is decided by a step, the averages stay by a momentum of 1, not by a branch: an update in a
            # branch could not be fetched.
            momentum = self.momentum
            if known is None:
                factor = constant(1.0)
                momentum = smart_cond(
                    training, lambda: convert_to_tensor(self.momentum, dtypes.float32), lambda: factor
                )
            for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
                value = cast(value, average.dtype.base)
                self.add_update(assign_moving_average(average, value, momentum, zero_debias=False), inputs=inputs)
        return result

    def _fused(self, inputs: Tensor, training: Any) -> tuple[Any, Any, Any]:
        form = "NHWC" if self._axes == [3] else "NCHW"
        size, statistics_dtype = self._spread[self._axes[0]], self.moving_mean.dtype.base
        gamma = constant(1.0, statistics_dtype, [size]) if self.gamma is None else self.gamma
        beta = constant(0.0, statistics_dtype, [size]) if self.beta is None else self.beta

        def of_batch() -> tuple[Any, Any, Any]:
            return fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=form)

        def of_averages() -> tuple[Any, Any, Any]:
            return fused_batch_norm(
                inputs,
                gamma,
                beta,
                self.moving_mean,
                self.moving_variance,
                self.epsilon,
                data_format=form,
                is_training=False,
            )

        normalised: tuple[Any, Any, Any] = smart_cond(training, of_batch, of_averages)
        return normalised

    def _plain(self, inputs: Tensor, training: Any) -> tuple[Any, Any, Any]:
        others = [axis for axis in range(len(self._spread)) if axis not in self._axes]
        averages = convert_to_tensor(self.moving_mean), convert_to_tensor(self.moving_variance)
        mean, variance = averages
        if smart_constant_value(training) is not False:
            statistics_dtype = self.moving_mean.dtype.base

            def of_batch() -> tuple[Any, Any]:
                wide = cast(inputs, statistics_dtype)
                return moments(wide, others, keep_dims=len(self._axes) > 1)

            mean, variance = smart_cond(training, of_batch, lambda: averages)

        def spread(value: Any) -> Any:
            if value is None:
                return None
            value = cast(convert_to_tensor(value), inputs.dtype.base)
            return value if self._axes == [len(self._spread) - 1] else reshape(value, self._spread)

        gamma, beta = spread(self.gamma), spread(self.beta)
        if self.adjustment is not None:
            gamma, beta = self._adjusted(inputs, gamma, beta, training)
        return normalized(inputs, spread(mean), spread(variance), beta, gamma, self.epsilon), mean, variance

    def _adjusted(self, inputs: Tensor, gamma: Any, beta: Any, training: Any) -> tuple[Any, Any]:
        """Scale and offset where ``adjustment`` scales and moves the normalised values before gamma and beta do."""
        scale, bias = self.adjustment(build("Shape", inputs))
        scale = smart_cond(training, lambda: convert_to_tensor(scale), lambda: ones_like(scale))
        bias = smart_cond(training, lambda: convert_to_tensor(bias), lambda: zeros_like(bias))
        if gamma is None:
            return scale, bias if beta is None else bias + beta
        return scale * gamma, bias * gamma if beta is None else bias * gamma + beta

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
        renorm: must be False.
        renorm_clipping: must be None.
        renorm_momentum: belongs to ``renorm``.
        fused: use the op that normalises in one step; wherever it can be if None.
        virtual_batch_size: must be None.
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
