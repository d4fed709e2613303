"""Generalized divisive normalization (Ballé, Laparra and Simoncelli, arXiv:1511.06281 and 1611.01704).

Policy. Variables hold square roots of ``beta`` and ``gamma`` plus a small offset, as in TensorFlow, so that its
checkpoints load. Their lower bound is a `Maximum` with a gradient of its own, under TensorFlow's name
``GDNLowerBound``: graphs that TensorFlow saved find it, too.
"""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.layers.arguments import known_size

_AXES = {"channels_first": 1, "channels_last": -1}


@tf.RegisterGradient("GDNLowerBound")
def _lower_bound_gradient(operation: Any, gradient: Any) -> list[Any]:
    """Pass on what does not push a value further below its bound; nothing reaches the bound itself."""
    value, bound = operation.inputs
    passes = tf.logical_or(value >= bound, gradient < 0)
    return [tf.cast(passes, gradient.dtype) * gradient, None]


def _at_least(value: Any, bound: Any) -> Any:
    with tf.name_scope(None, "GDNLowerBound", [value, bound]) as scope:
        value = tf.convert_to_tensor(value, name="inputs")
        bound = tf.convert_to_tensor(bound, name="bound")
        with tf.get_default_graph().gradient_override_map({"Maximum": "GDNLowerBound"}):
            return tf.maximum(value, bound, name=scope)


@public("contrib.layers.GDN")
class GDN(tf.layers.Layer):
    """Divide each channel by a trained root of a weighted sum of the squares of all: ``[batch, ..., channels]``.

    ``y[i] = x[i] / sqrt(beta[i] + sum_j(gamma[j, i] * x[j] ** 2))`` at each place, with ``i`` and ``j`` over the
    channels.

    Args:
        inverse: multiply by the root in place of dividing by it (a step of a fixed point iteration for the inverse).
        beta_min: lower bound of ``beta``.
        gamma_init: ``gamma`` begins as this times the identity.
        reparam_offset: added to what the variables are roots of, so that gradients at zero do not vanish.
        data_format: "channels_last" or "channels_first".
        activity_regularizer: function of the output whose value joins the losses.
        trainable: whether optimizers change the variables.
        name: name of the layer and of its variable scope.
        **kwargs: arguments of `tf.layers.Layer`.

    Raises:
        ValueError: no such ``data_format``; when it is called, inputs of another rank than 3 to 5, or of an unknown
            number of channels.

    Example:
        >>> layer = tf.contrib.layers.GDN()
        >>> y = layer(tf.constant([[[3.0, 0.0], [0.0, 1.0]]]))
        >>> with tf.Session() as session:
        ...     session.run(tf.global_variables_initializer())
        ...     print(session.run(y).round(3).tolist())
        [[[2.176, 0.0], [0.0, 0.953]]]
    """

    def __init__(
        self,
        inverse: bool = False,
        beta_min: float = 1e-6,
        gamma_init: float = 0.1,
        reparam_offset: float = 2**-18,
        data_format: str = "channels_last",
        activity_regularizer: Any = None,
        trainable: bool = True,
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        if data_format not in _AXES:
            raise ValueError(
                f"Unsupported `data_format` for GDN layer: {data_format}.\n"
                + errors.message(f"data_format={data_format!r}", " or ".join(map(repr, _AXES)), "'channels_last'")
            )
        self.inverse = inverse
        self.data_format = data_format
        self._beta_min, self._gamma_init, self._offset = beta_min, gamma_init, reparam_offset
        self.input_spec = tf.layers.InputSpec(min_ndim=3, max_ndim=5)

    def build(self, input_shape: Any) -> None:
        """Make ``reparam_beta`` ``[channels]`` and ``reparam_gamma`` ``[channels, channels]``."""
        axis = _AXES[self.data_format]
        shape = tf.TensorShape(input_shape)
        channels = known_size(shape, axis, "GDN")
        self._rank = shape.ndims
        self.input_spec = tf.layers.InputSpec(ndim=shape.ndims, axes={axis: channels})
        pedestal = tf.constant(self._offset**2, dtype=self.dtype)

        def root_of_ones(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            return tf.sqrt(tf.ones(shape, dtype) + tf.constant(self._offset**2, dtype=self.dtype))

        def root_of_identity(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            return tf.sqrt(self._gamma_init * tf.eye(shape[0], dtype=dtype) + tf.constant(self._offset**2, dtype=dtype))

        beta = self.add_weight("reparam_beta", [channels], initializer=root_of_ones, dtype=self.dtype)
        bound = tf.constant((self._beta_min + self._offset**2) ** 0.5, dtype=self.dtype)
        self.beta = tf.square(_at_least(beta, bound)) - pedestal
        gamma = self.add_weight("reparam_gamma", [channels, channels], initializer=root_of_identity, dtype=self.dtype)
        self.gamma = tf.square(_at_least(gamma, tf.constant(self._offset, dtype=self.dtype))) - pedestal
        self.built = True

    def call(self, inputs: Any) -> Any:
        """``[batch, ..., channels]`` to the same shape."""
        inputs = tf.convert_to_tensor(inputs, dtype=self.dtype)
        places = self._rank - 2
        kernel = tf.reshape(self.gamma, [1] * places + self.gamma.shape.as_list())
        if self.data_format == "channels_first":
            order = "NC" + "DHW"[-places:] if places > 1 else "NCW"
            pool = tf.nn.convolution(tf.square(inputs), kernel, "VALID", data_format=order)
            root = tf.sqrt(pool + tf.reshape(self.beta, [-1] + [1] * places))
        else:
            root = tf.sqrt(tf.nn.bias_add(tf.nn.convolution(tf.square(inputs), kernel, "VALID"), self.beta))
        outputs = inputs * root if self.inverse else inputs / root
        outputs.set_shape(inputs.shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The input's shape; ValueError for another rank than 3 to 5, or an unknown number of channels."""
        shape = tf.TensorShape(input_shape)
        if not 3 <= (shape.ndims or 0) <= 5:
            raise ValueError(
                "`input_shape` must be of rank 3 to 5, inclusive.\n"
                + errors.message(f"input_shape={shape}", "a shape of 3 to 5 sizes", "[None, 8, 8, 3]")
            )
        known_size(shape, _AXES[self.data_format], "GDN")
        return shape


@public("contrib.layers.gdn")
def gdn(
    inputs: Any,
    inverse: bool = False,
    beta_min: float = 1e-6,
    gamma_init: float = 0.1,
    reparam_offset: float = 2**-18,
    data_format: str = "channels_last",
    activity_regularizer: Any = None,
    trainable: bool = True,
    name: Any = None,
    reuse: bool | None = None,
) -> Any:
    """Make a :class:`GDN` layer and call it.

    Args:
        inputs: ``[batch, ..., channels]`` of rank 3 to 5.
        inverse: as for `GDN`.
        beta_min: likewise.
        gamma_init: likewise.
        reparam_offset: likewise.
        data_format: likewise.
        activity_regularizer: likewise.
        trainable: likewise.
        name: name of the layer and of its variable scope.
        reuse: take the variables of an earlier layer of this name.

    Returns:
        A tensor of the shape of ``inputs``.
    """
    layer = GDN(
        inverse=inverse,
        beta_min=beta_min,
        gamma_init=gamma_init,
        reparam_offset=reparam_offset,
        data_format=data_format,
        activity_regularizer=activity_regularizer,
        trainable=trainable,
        name=name,
        dtype=inputs.dtype.base_dtype,
        _scope=name,
        _reuse=reuse,
    )
    return layer.apply(inputs)
