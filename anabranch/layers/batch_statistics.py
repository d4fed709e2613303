"""Arithmetic of batch normalisation, shared by the layers of ``tf.layers`` and of ``tf.keras``.

A layer derives from :class:`BatchNormalizing`, makes the variables under the names that its checkpoints have, and says
by its attributes which of the extensions it takes: batch renormalisation (Ioffe, 2017), statistics over parts of a
batch, an adjustment.
"""

from __future__ import annotations

import contextlib
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes, shapes
from anabranch.layers.arguments import known_size
from anabranch.layers.base import InputSpec
from anabranch.ops.array.cast import cast, ones_like, zeros_like
from anabranch.ops.array.public_shapes import reshape
from anabranch.ops.array.sources import identity, stop_gradient
from anabranch.ops.control.public_cond import smart_cond, smart_constant_value
from anabranch.ops.math.public_reduce import reduce_mean
from anabranch.ops.nn.public_moments import batch_normalization as normalized
from anabranch.ops.nn.public_moments import fused_batch_norm, moments
from anabranch.train.moving_averages import assign_moving_average
from anabranch.variables import replica_frames


def composed(scale: Any, bias: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
    """Factor and offset of ``gamma * (scale * x + bias) + beta``; gamma and beta may be None."""
    if gamma is None:
        return scale, bias if beta is None else bias + beta
    return scale * gamma, bias * gamma if beta is None else bias * gamma + beta


def checked_options(renorm_clipping: Any, virtual_batch_size: int | None, adjustment: Any) -> dict[str, Any]:
    """The limits of renormalisation as a dictionary; refuses options that do not go together."""
    if virtual_batch_size is not None and virtual_batch_size <= 0:
        raise ValueError(
            "virtual_batch_size must be a positive integer that divides the true batch size of the input Tensor\n"
            + errors.message(f"virtual_batch_size={virtual_batch_size}", "a size of 1 or more", "virtual_batch_size=32")
        )
    if virtual_batch_size is not None and adjustment is not None:
        raise ValueError(
            "When using virtual_batch_size, adjustment cannot be specified\n"
            + errors.message("virtual_batch_size with adjustment", "one of the two arguments", "no adjustment")
        )
    clipping = dict(renorm_clipping or {})
    unknown = set(clipping) - {"rmax", "rmin", "dmax"}
    if unknown:
        raise ValueError(
            f"renorm_clipping {renorm_clipping} contains keys not in ('rmax', 'rmin', 'dmax')\n"
            + errors.message(f"keys {sorted(unknown)}", "rmax, rmin and dmax", "{'rmax': 3.0}")
        )
    return clipping


_COUNTED_BESIDES = {
    (True, True): 3,
    (True, False): 1,
    (True, None): 0,
    (False, True): -1,
    (False, False): -1,
    (False, None): 13,
}
"""How many operations more TensorFlow builds: by whether one op does it all, and whether it is known to be training."""


def effects_are_immediate() -> bool:
    """Whether ops with effects take place without being run by a step that asks for them."""
    builder = current_builder()
    return not builder.defers or builder.building_function


class BatchNormalizing:
    """What normalises by a batch or by averages.

    Attributes: ``_axes``, the axes of channels (after the axis of parts, if there are parts); ``_spread``, the sizes by
    which statistics broadcast with the inputs; and the arguments of the layers under their names.
    """

    _axes: list[int]
    _spread: list[Any]
    axis: Any
    dtype: Any
    center: bool
    scale: bool
    beta_initializer: Any
    gamma_initializer: Any
    moving_mean_initializer: Any
    moving_variance_initializer: Any
    beta_regularizer: Any
    gamma_regularizer: Any
    beta_constraint: Any
    gamma_constraint: Any
    input_spec: Any
    built: bool
    add_weight: Any
    momentum: Any
    epsilon: float
    gamma: Any
    beta: Any
    moving_mean: Any
    moving_variance: Any
    moving_stddev: Any
    renorm: bool
    renorm_mean: Any
    renorm_stddev: Any
    renorm_momentum: Any
    renorm_clipping: dict[str, Any]
    virtual_batch_size: int | None
    adjustment: Any
    fused: bool | None
    add_update: Any

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
        self.axis = list(self._axes)
        sizes = {axis: known_size(shape, axis, "BatchNormalization") for axis in self._axes}
        self.input_spec = InputSpec(ndim=rank, axes=sizes)
        wide = dtypes.as_dtype(self.dtype or "float32")
        if self.virtual_batch_size is not None and 0 in self._axes:
            raise ValueError(
                "When using virtual_batch_size, the batch dimension must be 0 and thus axis cannot include 0\n"
                + errors.message(f"axis={self.axis}", "axes other than 0", "axis=-1")
            )
        # What the fused op computes: images, normalised over all of the batch by their channels and nothing else. As in
        # TensorFlow 1, fused=True means 'where it can be': any other input goes the long way.
        plain = self.adjustment is None and self.virtual_batch_size is None and not self.renorm
        fits = plain and rank == 4 and self._axes in ([1], [3])
        narrow = wide != dtypes.float64
        if self.fused and fits and not narrow:
            raise ValueError(
                errors.message(
                    f"fused=True for an input of {wide.name}", "floats of at most 32 bits", "fused=None or fused=False"
                )
            )
        self.fused = fits and narrow and self.fused is not False
        # Averages of narrow floats would stand still: a step of the average is smaller than their precision.
        statistics_dtype = dtypes.float32 if wide in (dtypes.float16, dtypes.bfloat16) else wide
        # Along one axis the variables are vectors, as checkpoints have them; along several they broadcast with the
        # inputs.
        self._spread = [sizes.get(axis, 1) for axis in range(rank)]
        if self.virtual_batch_size is not None:
            self._spread.insert(1, 1)
            self._axes = [axis + 1 for axis in self._axes]
        own = list(self._spread)
        if len(self._axes) == 1 and self.virtual_batch_size is None:
            own = [sizes[self._axes[0]]]
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
        with self._whole_variables():  # averages stay whole, as TensorFlow's checkpoints have them
            modes = replica_frames.statistics()
            self.moving_mean = self.add_weight(
                "moving_mean", own, statistics_dtype, self.moving_mean_initializer, trainable=False, **modes
            )
            self.moving_variance = self.add_weight(
                "moving_variance", own, statistics_dtype, self.moving_variance_initializer, trainable=False, **modes
            )
            if self.renorm:
                # For evaluation a deviation in place of the variance, for training averages that move faster.

                def deviation(*args: Any, **kwargs: Any) -> Any:
                    return build("Sqrt", self.moving_variance_initializer(*args, **kwargs))

                self.moving_stddev = self.add_weight(
                    "moving_stddev", own, statistics_dtype, deviation, trainable=False, **modes
                )
                self.renorm_mean = self.add_weight(
                    "renorm_mean", own, statistics_dtype, self.moving_mean_initializer, trainable=False, **modes
                )
                self.renorm_stddev = self.add_weight(
                    "renorm_stddev", own, statistics_dtype, deviation, trainable=False, **modes
                )
        self.built = True

    def _whole_variables(self) -> contextlib.AbstractContextManager[None]:
        """A block whose variables no partitioner divides."""
        return contextlib.nullcontext()

    def _averages_move(self) -> bool:
        """Whether training moves the averages."""
        return True

    def normalise(self, inputs: Tensor, training: Any) -> Tensor:
        """Normalise the inputs, and keep averages of their statistics while training.

        Args:
            inputs: tensor with channels in ``axis``.
            training: use the statistics of the batch: a bool or a boolean scalar tensor.
        """
        result, mean, variance = (self._fused if self.fused else self._plain)(inputs, training)
        result.set_shape(inputs.shape)
        known = smart_constant_value(training)
        if known is not False and self._averages_move():
            momentum = self._momentum_of(training, self.momentum)
            updates = [(self.moving_mean, mean), (self.moving_variance, variance)]
            if self.renorm:
                updates[1] = (self.moving_stddev, build("Sqrt", variance + self.epsilon))
            for average, value in updates:
                value = cast(value, average.dtype.base)
                update = assign_moving_average(average, value, momentum, zero_debias=False)
                if self.renorm and average is self.moving_stddev:
                    squared = build("Relu", build("Square", convert_to_tensor(update)) - self.epsilon)
                    update = self._variance_where_trained(squared, training)
                self.add_update(update, inputs=inputs)
        if not self.renorm and self.virtual_batch_size is None and self.adjustment is None:
            count_more(_COUNTED_BESIDES[bool(self.fused), known])
        return result

    def _momentum_of(self, training: Any, momentum: Any) -> Any:
        """The momentum of averages: where a step decides about training, 1 lets them stay when there is none.

        A branch would do the same, but an update in a branch could not be fetched.
        """
        if smart_constant_value(training) is not None:
            return momentum
        return smart_cond(training, lambda: convert_to_tensor(momentum, dtypes.float32), lambda: constant(1.0))

    def _variance_where_trained(self, variance: Any, training: Any) -> Any:
        """An assignment of the variance that is kept beside the deviation; it stays where there is no training."""
        if smart_constant_value(training) is None:
            variance = build("SelectV2", training, variance, convert_to_tensor(self.moving_variance))
        return self.moving_variance.assign(variance)

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
        parts = self.virtual_batch_size is not None
        others = [axis for axis in range(len(self._spread)) if axis not in self._axes and not (parts and axis == 1)]
        sizes = build("Shape", inputs)
        if parts:  # which part an example belongs to is axis 1
            inner = [-1 if size is None else size for size in inputs.shape.as_list()[1:]]
            if inner.count(-1):
                raise ValueError(
                    f"Input shape {inputs.shape} must be known but for the batch with virtual_batch_size\n"
                    + errors.message(f"inputs of shape {inputs.shape}", "known sizes but for axis 0", "x.set_shape")
                )
            inputs = reshape(inputs, [self.virtual_batch_size, -1, *inner])
        averages = convert_to_tensor(self.moving_mean), convert_to_tensor(self.moving_variance)
        mean, variance = averages
        if smart_constant_value(training) is not False:
            statistics_dtype = self.moving_mean.dtype.base

            def of_batch() -> tuple[Any, Any]:
                wide = cast(inputs, statistics_dtype)
                return moments(wide, others, keep_dims=len(self._axes) > 1 or parts)

            mean, variance = smart_cond(training, of_batch, lambda: averages)

        def spread(value: Any) -> Any:
            if value is None:
                return None
            value = cast(convert_to_tensor(value), inputs.dtype.base)
            return value if self._axes == [len(self._spread) - 1] else reshape(value, self._spread)

        gamma, beta = spread(self.gamma), spread(self.beta)
        if self.adjustment is not None:
            gamma, beta = self._adjusted(inputs, gamma, beta, training)
        kept: Any = (mean, variance)
        if parts and smart_constant_value(training) is not False:
            kept = reduce_mean(mean, [1], keepdims=True), reduce_mean(variance, [1], keepdims=True)
        if self.renorm and smart_constant_value(training) is not False:
            factor, offset, *kept = self._renormalised(kept[0], kept[1], training)
            gamma, beta = composed(spread(stop_gradient(factor)), spread(stop_gradient(offset)), gamma, beta)
        mean, variance = (mean, variance) if parts else (spread(mean), spread(variance))
        if parts:
            mean, variance = cast(mean, inputs.dtype.base), cast(variance, inputs.dtype.base)
        result = normalized(inputs, mean, variance, beta, gamma, self.epsilon)
        return (reshape(result, sizes) if parts else result), *kept

    def _renormalised(self, mean: Any, variance: Any, training: Any) -> list[Any]:
        """Factor and offset that move the normalised values towards the averages; mean and variance to be kept."""
        deviation = build("Sqrt", variance + self.epsilon)
        usual_mean = convert_to_tensor(self.renorm_mean)
        usual_deviation = build("Maximum", convert_to_tensor(self.renorm_stddev), float(self.epsilon) ** 0.5)
        factor, offset = deviation / usual_deviation, (mean - usual_mean) / usual_deviation
        limits = self.renorm_clipping
        if limits.get("rmin") is not None:
            factor = build("Maximum", factor, limits["rmin"])
        if limits.get("rmax") is not None:
            factor = build("Minimum", factor, limits["rmax"])
        if limits.get("dmax") is not None:
            offset = build("Minimum", build("Maximum", offset, -limits["dmax"]), limits["dmax"])
        momentum = self._momentum_of(training, self.renorm_momentum)
        with control_dependencies([factor, offset]):  # which read the averages as they were before
            updates = [
                assign_moving_average(average, identity(value), momentum, zero_debias=False)
                for average, value in ((self.renorm_mean, mean), (self.renorm_stddev, deviation))
            ]
        with control_dependencies(updates):
            kept_mean, kept_variance = identity(mean), identity(variance)
        chosen_factor = smart_cond(training, lambda: factor, lambda: ones_like(factor))
        chosen_offset = smart_cond(training, lambda: offset, lambda: zeros_like(offset))
        return [chosen_factor, chosen_offset, kept_mean, kept_variance]

    def _adjusted(self, inputs: Tensor, gamma: Any, beta: Any, training: Any) -> tuple[Any, Any]:
        """Scale and offset where ``adjustment`` scales and moves the normalised values before gamma and beta do."""
        scale, bias = self.adjustment(build("Shape", inputs))
        scale = smart_cond(training, lambda: convert_to_tensor(scale), lambda: ones_like(scale))
        bias = smart_cond(training, lambda: convert_to_tensor(bias), lambda: zeros_like(bias))
        return composed(scale, bias, gamma, beta)
