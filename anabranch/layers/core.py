"""Dense layers, dropout and flattening."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import OperationCount, count_more
from anabranch.core.values import dimensions, shapes
from anabranch.layers.arguments import ZEROS, activation_of, channels_first, function_of, initializer_of, known_size
from anabranch.layers.base import InputSpec, Layer
from anabranch.ops.array.public_shapes import reshape, shape, stack, transpose
from anabranch.ops.array.sources import identity
from anabranch.ops.control.public_cond import smart_cond
from anabranch.ops.linalg.einsum import tensordot
from anabranch.ops.linalg.matmul import matmul
from anabranch.ops.nn.bias_and_response import bias_add, dropout


@public("layers.Dense")
class Dense(Layer):
    """``activation(inputs @ kernel + bias)`` over the last axis: ``[..., in]`` to ``[..., units]``.

    Args:
        units: size of the output's last axis.
        activation: function of the result, or its name in ``tf.nn``.
        use_bias: add a bias.
        kernel_initializer: how the kernel ``[in, units]`` starts; the scope's, or Glorot's uniform, if None.
        bias_initializer: how the bias ``[units]`` starts.
        kernel_regularizer: function of the kernel whose value joins the regularization losses.
        bias_regularizer: likewise of the bias.
        activity_regularizer: likewise of the output.
        kernel_constraint: function that optimizers apply to the kernel after an update.
        bias_constraint: likewise to the bias.
        trainable: whether optimizers change the variables.
        name: name of the layer and of its variable scope.
        **kwargs: arguments of `Layer`.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     y = tf.layers.dense(tf.ones([2, 3]), 4, activation=tf.nn.relu)
        ...     y.shape.as_list(), [v.op.name for v in tf.trainable_variables()]
        ([2, 4], ['dense/kernel', 'dense/bias'])
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.units = dimensions.as_integer(units, "units")
        self.activation = activation_of(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializer_of(kernel_initializer)
        self.bias_initializer = initializer_of(bias_initializer)
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """Make ``kernel`` and ``bias``."""
        depth = known_size(input_shape, -1, "Dense")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: depth})
        self.kernel = self.add_weight(
            "kernel",
            [depth, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        """``[..., in]`` to ``[..., units]``."""
        sizes = inputs.shape.as_list()
        if len(sizes) == 2:
            result = matmul(inputs, self.kernel)
        else:
            result = tensordot(inputs, self.kernel, [[len(sizes) - 1], [0]])
            result.set_shape([*sizes[:-1], self.units])
        if self.bias is not None:
            result = bias_add(result, self.bias)
        return result if self.activation is None else self.activation(result)

    def compute_output_shape(self, input_shape: Any) -> shapes.TensorShape:
        """The input's shape with ``units`` for its last size; ValueError below rank 2 or if that size is unknown."""
        shape = shapes.TensorShape(input_shape).with_rank_at_least(2)
        if shape[-1].value is None:
            raise ValueError(
                f"The innermost dimension of input_shape must be defined, but saw: {shape}\n"
                + errors.message(f"input_shape={shape}", "a known last size", "[None, n]")
            )
        return shapes.TensorShape([*shape.as_list()[:-1], self.units])


@public("layers.Dropout")
class Dropout(Layer):
    """Set elements to 0 with probability ``rate`` while training, and scale the others by ``1 / (1 - rate)``.

    Args:
        rate: probability that an element is dropped, a number or a scalar tensor.
        noise_shape: shape of the random decisions; sizes of 1 share one decision, None stands for the input's size.
        seed: seed of the op.
        name: name of the layer.
        **kwargs: arguments of `Layer`.
    """

    def __init__(
        self, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, name: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: Tensor, training: Any = False) -> Tensor:
        """The inputs with elements dropped if ``training`` (a bool or a boolean scalar tensor) holds."""

        def dropped() -> Any:
            count_more(self.noise_shape is not None)
            return dropout(inputs, noise_shape=self.noise_shape, seed=self.seed, rate=self.rate)

        result: Tensor = smart_cond(False if training is None else training, dropped, lambda: identity(inputs))
        return result

    def compute_output_shape(self, input_shape: Any) -> shapes.TensorShape:
        """The input's shape."""
        return shapes.TensorShape(input_shape)


@public("layers.Flatten")
class Flatten(Layer):
    """``[batch, ...]`` to ``[batch, product of the rest]``.

    Args:
        data_format: with ``"channels_first"`` channels are moved last before flattening.
        **kwargs: arguments of `Layer`.
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = "channels_last" if data_format is None else data_format
        self._first = channels_first(self.data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Tensor) -> Tensor:
        """The inputs with all axes but the first joined."""
        rank = inputs.shape.ndims
        if rank is None:
            raise ValueError(
                errors.message(
                    f"tensor {inputs._label} of unknown rank",
                    "a tensor of known rank",
                    "x.set_shape([None, n]), or tf.reshape(x, shape)",
                )
            )
        if self._first and rank > 2:
            inputs = transpose(inputs, [0, *range(2, rank), 1])
        sizes = inputs.shape.as_list()
        counted = OperationCount()
        features = shapes.num_elements(tuple(sizes[1:]))
        if features is not None and (sizes[0] is None or features == 0):
            wanted: Any = [-1, features] if features else stack([shape(inputs)[0], features])
        else:
            wanted = [sizes[0], -1] if sizes[0] else stack([shape(inputs)[0], -1])
        result = reshape(inputs, wanted)
        counted.set(8 if None in sizes else 2)
        result.set_shape([sizes[0], features])
        return result

    def compute_output_shape(self, input_shape: Any) -> shapes.TensorShape:
        """``[batch, product of the rest]``."""
        sizes = shapes.TensorShape(input_shape).as_list()
        return shapes.TensorShape([sizes[0], shapes.num_elements(tuple(sizes[1:]))])


dense = function_of(Dense, "dense")
dropout_function = function_of(Dropout, "dropout", scoped=False, call=["training"])


@public("layers.flatten")
def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """``[batch, ...]`` to ``[batch, product of the rest]``.

    Args:
        inputs: tensor of at least one axis.
        name: name of the layer.
        data_format: with ``"channels_first"`` channels are moved last before flattening.
    """
    result: Tensor = Flatten(name=name, data_format=data_format)(convert_to_tensor(inputs))
    return result
