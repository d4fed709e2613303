"""Bijectors that learn (RealNVP, masked autoregressive flows, batch normalisation), and further ones of elements.

RealNVP is of Dinh, Sohl-Dickstein and Bengio (2017), the autoregressive flow of Papamakarios, Pavlakou and Murray
(2017), the masks of its network of Germain and others (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.contrib.distributions.bijectors import Bijector
from anabranch.core import errors
from anabranch.core.contract.api import public

_HOME = "contrib.distributions.bijectors."


@public(_HOME + "ConditionalBijector")
class ConditionalBijector(Bijector):
    """The base of bijectors whose functions take further arguments, by name."""

    def forward(self, x: Any, name: str = "forward", **condition_kwargs: Any) -> Any:
        """The function of ``x``."""
        return self._call_forward(x, name, **condition_kwargs)

    def inverse(self, y: Any, name: str = "inverse", **condition_kwargs: Any) -> Any:
        """The ``x`` whose function is ``y``."""
        return self._call_inverse(y, name, **condition_kwargs)

    def forward_log_det_jacobian(
        self, x: Any, event_ndims: int, name: str = "forward_log_det_jacobian", **condition_kwargs: Any
    ) -> Any:
        """The logarithm of the determinant of the Jacobian at ``x``."""
        return self._call_forward_log_det_jacobian(x, event_ndims, name, **condition_kwargs)

    def inverse_log_det_jacobian(
        self, y: Any, event_ndims: int, name: str = "inverse_log_det_jacobian", **condition_kwargs: Any
    ) -> Any:
        """The logarithm of the determinant of the inverse's Jacobian at ``y``."""
        return self._call_inverse_log_det_jacobian(y, event_ndims, name, **condition_kwargs)

    def _forward(self, x: Any, **condition_kwargs: Any) -> Any:
        return super()._forward(x)

    def _inverse(self, y: Any, **condition_kwargs: Any) -> Any:
        return super()._inverse(y)

    def _forward_log_det_jacobian(self, x: Any, **condition_kwargs: Any) -> Any:
        return super()._forward_log_det_jacobian(x)

    def _inverse_log_det_jacobian(self, y: Any, **condition_kwargs: Any) -> Any:
        return super()._inverse_log_det_jacobian(y)


# -------------------------------------------------------------------------------------------------------- of elements
# -------------------------------------------------------------------------------------------------------------- flows
def _moved(x: Any, shift: Any, log_scale: Any) -> Any:
    x = x if log_scale is None else x * tf.exp(log_scale)
    return x if shift is None else x + shift


def _moved_back(y: Any, shift: Any, log_scale: Any) -> Any:
    y = y if shift is None else y - shift
    return y if log_scale is None else y * tf.exp(-log_scale)


@public(_HOME + "RealNVP")
class RealNVP(ConditionalBijector):
    """Vectors whose last elements are scaled and moved by functions of the first.

    Args:
        num_masked: how many first elements stay what they are.
        shift_and_log_scale_fn: function of those and of the number of the others that gives ``shift`` and
            ``log_scale``, of which one may be None; `real_nvp_default_template` makes one.
        is_constant_jacobian: whether the scale is the same everywhere.
        validate_args: has no effect of its own.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        num_masked: int,
        shift_and_log_scale_fn: Callable[..., Any],
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        if num_masked <= 0:
            raise ValueError(
                "num_masked must be a positive integer.\n"
                + errors.message(f"num_masked={num_masked}", "a number of elements, 1 or more", "num_masked=2")
            )
        self._num_masked, self._function = num_masked, shift_and_log_scale_fn
        super().__init__(
            is_constant_jacobian=is_constant_jacobian,
            validate_args=validate_args,
            forward_min_event_ndims=1,
            name=name or "real_nvp",
        )

    def _parts(self, x: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        depth = x.shape.with_rank_at_least(1)[-1].value
        if depth is None:
            raise NotImplementedError(
                "Rightmost dimension must be known prior to graph execution.\n"
                + errors.message(f"vectors of shape {x.shape}", "vectors of known size", "x.set_shape([None, n])")
            )
        if self._num_masked >= depth:
            raise ValueError(
                "Number of masked units must be smaller than the event size.\n"
                + errors.message(
                    f"num_masked={self._num_masked} of {depth} elements", f"fewer than {depth}", "a smaller num_masked"
                )
            )
        first, rest = x[..., : self._num_masked], x[..., self._num_masked :]
        shift, log_scale = self._function(first, depth - self._num_masked, **kwargs)
        return first, rest, shift, log_scale

    def _forward(self, x: Any, **condition_kwargs: Any) -> Any:
        first, rest, shift, log_scale = self._parts(x, condition_kwargs)
        return tf.concat([first, _moved(rest, shift, log_scale)], -1)

    def _inverse(self, y: Any, **condition_kwargs: Any) -> Any:
        first, rest, shift, log_scale = self._parts(y, condition_kwargs)
        return tf.concat([first, _moved_back(rest, shift, log_scale)], -1)

    def _forward_log_det_jacobian(self, x: Any, **condition_kwargs: Any) -> Any:
        log_scale = self._parts(x, condition_kwargs)[3]
        return tf.constant(0.0, x.dtype.base_dtype) if log_scale is None else tf.reduce_sum(log_scale, -1)

    def _inverse_log_det_jacobian(self, y: Any, **condition_kwargs: Any) -> Any:
        return -self._forward_log_det_jacobian(y, **condition_kwargs)  # the first elements are the same


@public(_HOME + "real_nvp_default_template")
def real_nvp_default_template(
    hidden_layers: Sequence[int],
    shift_only: bool = False,
    activation: Any = tf.nn.relu,
    name: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """A network that gives the shift and the logarithm of the scale of a `RealNVP`.

    Args:
        hidden_layers: sizes of the hidden layers.
        shift_only: whether there is no scale.
        activation: of the hidden layers.
        name: name scope.
        *args, **kwargs: further arguments of `tf.layers.dense`.

    Returns:
        A template of a function ``(x, output_units) -> (shift, log_scale)``.
    """

    def network(x: Any, output_units: int, **condition_kwargs: Any) -> Any:
        if condition_kwargs:
            raise NotImplementedError(
                "Conditioning not implemented in the default template.\n"
                + errors.message(f"arguments {sorted(condition_kwargs)}", "no conditions", "a function of your own")
            )
        for units in hidden_layers:
            x = tf.layers.dense(x, units, activation, *args, **kwargs)
        x = tf.layers.dense(x, output_units * (1 if shift_only else 2), None, *args, **kwargs)
        return (x, None) if shift_only else tf.split(x, 2, axis=-1)

    with tf.name_scope(name, "real_nvp_default_template"):
        return tf.make_template("real_nvp_default_template", network)


@public(_HOME + "MaskedAutoregressiveFlow")
class MaskedAutoregressiveFlow(ConditionalBijector):
    """Vectors each element of which is scaled and moved by functions of the elements before it in the result.

    Args:
        shift_and_log_scale_fn: function of the result, element ``i`` of which it gives from the elements before ``i``:
            ``shift`` and ``log_scale``, of which one may be None. `masked_autoregressive_default_template` makes one.
        is_constant_jacobian: whether the scale is the same everywhere.
        validate_args: has no effect of its own.
        unroll_loop: apply the function once for each element, and not in a loop.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        shift_and_log_scale_fn: Callable[..., Any],
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        unroll_loop: bool = False,
        name: str | None = None,
    ) -> None:
        self._function, self._unroll_loop = shift_and_log_scale_fn, unroll_loop
        super().__init__(
            is_constant_jacobian=is_constant_jacobian,
            validate_args=validate_args,
            forward_min_event_ndims=1,
            name=name or "masked_autoregressive_flow",
        )

    def _forward(self, x: Any, **condition_kwargs: Any) -> Any:
        def better(y: Any) -> Any:
            """One more element of ``y`` is right."""
            return _moved(x, *self._function(y, **condition_kwargs))

        if self._unroll_loop:
            size = x.shape.with_rank_at_least(1)[-1].value
            if size is None:
                raise ValueError(
                    "The final dimension of `x` must be known at graph construction time if `unroll_loop=True`.\n"
                    + errors.message(f"vectors of shape {x.shape}", "vectors of known size", "unroll_loop=False")
                )
            y = tf.zeros_like(x)
            for _ in range(size):
                y = better(y)
            return y
        # The variables of the function are made outside the loop.
        start = better(tf.zeros_like(x))
        return tf.while_loop(lambda i, _: i < tf.shape(x)[-1], lambda i, y: (i + 1, better(y)), [1, start])[1]

    def _inverse(self, y: Any, **condition_kwargs: Any) -> Any:
        return _moved_back(y, *self._function(y, **condition_kwargs))

    def _inverse_log_det_jacobian(self, y: Any, **condition_kwargs: Any) -> Any:
        log_scale = self._function(y, **condition_kwargs)[1]
        return tf.constant(0.0, y.dtype.base_dtype) if log_scale is None else -tf.reduce_sum(log_scale, -1)


def _mask(num_blocks: int, inputs: int, units: int, exclusive: bool) -> np.ndarray[Any, Any]:
    """Which kernel elements ``[inputs, units]`` are used: a block of units sees blocks of inputs up to its own."""
    wide, tall = inputs // num_blocks, units // num_blocks
    if not wide or not tall:
        raise ValueError(
            errors.message(
                f"{num_blocks} blocks of {inputs} inputs and {units} units", "at most as many blocks", "more units"
            )
        )
    column = np.arange(inputs)[:, None] // wide
    row = np.arange(units)[None, :] // tall
    return (column < num_blocks) & ((column < row) if exclusive else (column <= row))


@public(_HOME + "masked_dense")
def masked_dense(
    inputs: Any,
    units: int,
    num_blocks: int | None = None,
    exclusive: bool = False,
    kernel_initializer: Any = None,
    reuse: bool | None = None,
    name: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """A dense layer in which blocks of units see blocks of inputs up to their own.

    Args:
        inputs: ``[..., n]``.
        units: how many outputs there are.
        num_blocks: number of blocks; ``n`` if None.
        exclusive: whether a block of units does not see the block of inputs of the same number either.
        kernel_initializer: of the part that is used; Glorot's normal if None.
        reuse: whether the variables are those of a layer before.
        name: of the layer.
        *args, **kwargs: further arguments of `tf.layers.Dense`.

    Returns:
        ``[..., units]``.
    """
    inputs = tf.convert_to_tensor(inputs)
    depth = inputs.shape.with_rank_at_least(1)[-1].value
    if depth is None:
        raise NotImplementedError(
            "Rightmost dimension must be known prior to graph execution.\n"
            + errors.message(f"inputs of shape {inputs.shape}", "inputs of known size", "x.set_shape([None, n])")
        )
    mask = _mask(depth if num_blocks is None else num_blocks, depth, units, exclusive)
    initializer = tf.glorot_normal_initializer() if kernel_initializer is None else kernel_initializer

    def masked(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return mask.astype(dtype.as_numpy_dtype) * initializer(shape, dtype, partition_info)

    with tf.name_scope(name, "masked_dense", [inputs, units]):
        layer = tf.layers.Dense(
            units,
            *args,
            kernel_initializer=masked,
            kernel_constraint=lambda kernel: mask.astype(kernel.dtype.base_dtype.as_numpy_dtype) * kernel,
            name=name,
            dtype=inputs.dtype.base_dtype,
            _scope=name,
            _reuse=reuse,
            **kwargs,
        )
        return layer.apply(inputs)


@public(_HOME + "masked_autoregressive_default_template")
def masked_autoregressive_default_template(
    hidden_layers: Sequence[int],
    shift_only: bool = False,
    activation: Any = tf.nn.relu,
    log_scale_min_clip: float = -5.0,
    log_scale_max_clip: float = 3.0,
    log_scale_clip_gradient: bool = False,
    name: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """A network of `masked_dense` layers for a `MaskedAutoregressiveFlow`.

    Args:
        hidden_layers: sizes of the hidden layers.
        shift_only: whether there is no scale.
        activation: of the hidden layers.
        log_scale_min_clip, log_scale_max_clip: bounds of the logarithm of the scale.
        log_scale_clip_gradient: whether its gradient is zero beyond them.
        name: name scope.
        *args, **kwargs: further arguments of `masked_dense`.

    Returns:
        A template of a function ``x -> (shift, log_scale)``.
    """

    def network(x: Any) -> Any:
        depth, shape = x.shape.with_rank_at_least(1)[-1].value, tf.shape(x)
        static = x.shape
        for i, units in enumerate(hidden_layers):
            x = masked_dense(x, units, depth, i == 0, *args, activation=activation, **kwargs)
        x = masked_dense(
            x, depth * (1 if shift_only else 2), depth, not hidden_layers, *args, activation=None, **kwargs
        )
        if shift_only:
            return tf.reshape(x, shape), None
        x = tf.reshape(x, tf.concat([shape, [2]], 0))
        x.set_shape(static.concatenate([2]))
        shift, log_scale = tf.unstack(x, num=2, axis=-1)
        clipped = tf.clip_by_value(log_scale, log_scale_min_clip, log_scale_max_clip)
        if not log_scale_clip_gradient:
            clipped = log_scale + tf.stop_gradient(clipped - log_scale)
        return shift, clipped

    with tf.name_scope(name, "masked_autoregressive_default_template"):
        return tf.make_template("masked_autoregressive_default_template", network)


@public(_HOME + "BatchNormalization")
class BatchNormalization(Bijector):
    """The inverse of a batch normalisation: ``inverse`` normalises, ``forward`` undoes it.

    Args:
        batchnorm_layer: a `tf.layers.BatchNormalization`; one whose ``gamma`` is positive if None.
        training: whether the batch's own statistics are used, and its averages follow them.
        validate_args: has no effect of its own.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        batchnorm_layer: Any = None,
        training: bool = True,
        validate_args: bool = False,
        name: str = "batch_normalization",
    ) -> None:
        if batchnorm_layer is None:
            batchnorm_layer = tf.layers.BatchNormalization(gamma_constraint=lambda gamma: tf.nn.relu(gamma) + 1e-6)
        if not isinstance(batchnorm_layer, tf.layers.BatchNormalization):
            raise ValueError(
                "batchnorm_layer must be an instance of BatchNormalization layer.\n"
                + errors.message(f"{batchnorm_layer!r}", "a layer of that class", "tf.layers.BatchNormalization()")
            )
        if batchnorm_layer.renorm or batchnorm_layer.virtual_batch_size:
            raise ValueError(
                "BatchNorm Bijector does not support renormalization and virtual batch sizes.\n"
                + errors.message("a layer with renorm or virtual_batch_size", "one without", "renorm=False")
            )
        self.batchnorm, self._training = batchnorm_layer, training
        axis = batchnorm_layer.axis
        super().__init__(
            validate_args=validate_args,
            forward_min_event_ndims=1 if isinstance(axis, int) else len(axis),
            name=name,
        )

    def _broadcast(self, value: Any, x: Any) -> Any:
        axes = self.batchnorm.axis
        return tf.reshape(value, [x.shape[i].value if i in axes else 1 for i in range(x.shape.ndims)])

    def _built(self, x: Any) -> None:
        if not self.batchnorm.built:
            self.batchnorm.build(x.shape)

    def _forward(self, x: Any) -> Any:
        layer = self.batchnorm
        self._built(x)
        rescale = tf.sqrt(self._broadcast(layer.moving_variance, x) + layer.epsilon)
        if layer.gamma is not None:
            rescale /= self._broadcast(layer.gamma, x)
        offset = self._broadcast(layer.moving_mean, x)
        if layer.beta is not None:
            offset -= self._broadcast(layer.beta, x) * rescale
        return x * rescale + offset

    def _inverse(self, y: Any) -> Any:
        return self.batchnorm.apply(y, training=self._training)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        if not y.shape.is_fully_defined():
            raise ValueError(
                "Input must have shape known at graph construction.\n"
                + errors.message(f"values of shape {y.shape}", "a known shape", "y.set_shape([batch, n])")
            )
        self._built(y)
        layer = self.batchnorm
        if self._training:
            others = [i for i in range(y.shape.ndims) if i not in layer.axis]
            variance = tf.nn.moments(y, others, keep_dims=True)[1]
        else:
            variance = layer.moving_variance
        total = -0.5 * tf.reduce_sum(tf.log(variance + layer.epsilon))
        return total if layer.gamma is None else total + tf.reduce_sum(tf.log(layer.gamma))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -self._inverse_log_det_jacobian(x)
