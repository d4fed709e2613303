"""Convolutions with one kernel, and what all convolutions share."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dimensions, shapes
from anabranch.layers.arguments import (
    ZEROS,
    activation_of,
    channels_first,
    function_of,
    initializer_of,
    known_size,
    numbers,
    op_format,
    padding_name,
)
from anabranch.layers.base import InputSpec, Layer
from anabranch.ops.array.public_indexing import pad
from anabranch.ops.nn.bias_and_response import bias_add
from anabranch.ops.nn.windows import public_convolution as convs


class Convolution(Layer):
    """What all convolutions share: arguments, the bias, the activation, the output's shape."""

    rank: int
    causal = False
    """Whether ``padding="causal"`` is one of the layer's."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any,
        padding: str,
        data_format: str,
        dilation_rate: Any,
        activation: Any,
        use_bias: bool,
        bias_initializer: Any,
        bias_regularizer: Any,
        bias_constraint: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filters = dimensions.as_integer(filters, "filters")
        self.kernel_size = numbers(kernel_size, self.rank, "kernel_size")
        self.strides = numbers(strides, self.rank, "strides")
        self.padding = padding_name(padding, self.causal).lower()
        self.data_format = data_format
        self._first = channels_first(data_format)
        if self.padding == "causal" and self._first:
            raise ValueError(
                "When using causal padding in Conv1D, `data_format` must be channels_last.\n"
                + errors.message(
                    "padding='causal', data_format='channels_first'",
                    "data_format='channels_last' with causal padding",
                    "tf.pad the input on its left, then padding='valid'",
                )
            )
        self.dilation_rate = numbers(dilation_rate, self.rank, "dilation_rate")
        self.activation = activation_of(activation)
        self.use_bias = use_bias
        self.bias_initializer = initializer_of(bias_initializer)
        self.bias_regularizer = bias_regularizer
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(ndim=self.rank + 2)
        self.bias: Any = None

    def _channels(self, input_shape: Any) -> int:
        axis = 1 if self._first else -1
        channels = known_size(input_shape, axis, type(self).__name__)
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: channels})
        return channels

    def _make_bias(self) -> None:
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [self.filters],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def _finished(self, result: Tensor) -> Tensor:
        if self.bias is not None:
            result = bias_add(result, self.bias, data_format=op_format(self.data_format, self.rank))
        return result if self.activation is None else self.activation(result)

    def _padded(self, inputs: Tensor) -> tuple[Tensor, str]:
        """Inputs and the padding of the op: causal padding is zeros before the first place."""
        if self.padding != "causal":
            return inputs, self.padding.upper()
        before = (self.kernel_size[0] - 1) * self.dilation_rate[0]
        return pad(inputs, [[0, 0], [before, 0], [0, 0]]), "VALID"

    def _places(self) -> range:
        start = 2 if self._first else 1
        return range(start, start + self.rank)

    def _length(self, size: Any, axis: int) -> Any:
        reach = (self.kernel_size[axis] - 1) * self.dilation_rate[axis] + 1
        places = size - reach + 1 if self.padding == "valid" else size
        return -(-places // self.strides[axis])

    def compute_output_shape(self, input_shape: Any) -> shapes.TensorShape:
        """The shape of the outputs for a shape of the inputs."""
        sizes = shapes.TensorShape(input_shape).as_list()
        for axis, place in enumerate(self._places()):
            if sizes[place] is not None:
                sizes[place] = self._length(sizes[place], axis)
        sizes[1 if self._first else -1] = self.filters
        return shapes.TensorShape(sizes)


class KernelConvolution(Convolution):
    """A convolution with one kernel."""

    def __init__(
        self, *args: Any, kernel_initializer: Any, kernel_regularizer: Any, kernel_constraint: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.kernel_initializer = initializer_of(kernel_initializer)
        self.kernel_regularizer = kernel_regularizer
        self.kernel_constraint = kernel_constraint

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, channels, self.filters]

    def build(self, input_shape: Any) -> None:
        """Make ``kernel`` and ``bias``."""
        self.kernel = self.add_weight(
            "kernel",
            self._kernel_shape(self._channels(input_shape)),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self._make_bias()

    def call(self, inputs: Tensor) -> Tensor:
        """The convolved inputs, with bias and activation."""
        form = op_format(self.data_format, self.rank)
        spaced = any(rate > 1 for rate in self.dilation_rate)  # TensorFlow takes such inputs to batches and back
        count_more((12 if self.padding == "same" else 11) if spaced else 1)
        inputs, padding = self._padded(inputs)
        if self.rank == 1:
            result = convs.conv1d(
                inputs, self.kernel, self.strides[0], padding, data_format=form, dilations=self.dilation_rate[0]
            )
        else:
            function = convs.conv2d if self.rank == 2 else convs.conv3d
            result = function(
                inputs,
                self.kernel,
                list(self.strides),
                padding,
                data_format=form,
                dilations=list(self.dilation_rate),
            )
        return self._finished(result)


@public("layers.Conv1D")
class Conv1D(KernelConvolution):
    """Convolution in 1 spatial dimension.

    Args:
        filters: number of output channels.
        kernel_size: sizes of the window: one number.
        strides: steps of the window, likewise.
        padding: ``"valid"``, ``"same"``, or ``"causal"``: output i depends on no input after i.
        data_format: ``"channels_last"``, ``[batch, width, channels]``,
            or ``"channels_first"``, ``[batch, channels, width]``.
        dilation_rate: steps between the taps of the window.
        activation: function of the result, or its name in ``tf.nn``.
        use_bias: add a bias.
        kernel_initializer: how the kernel starts; the scope's, or Glorot's uniform, if None.
        bias_initializer: how the bias ``[filters]`` starts.
        kernel_regularizer: function of the kernel whose value joins the regularization losses.
        bias_regularizer: function of the bias whose value joins the regularization losses.
        activity_regularizer: likewise of the output.
        kernel_constraint: function that optimizers apply to the kernel after an update.
        bias_constraint: function that optimizers apply to the bias after an update.
        trainable: whether optimizers change the variables.
        name: name of the layer and of its variable scope.
        **kwargs: arguments of `Layer`.
    """

    rank = 1
    causal = True

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
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
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            bias_initializer,
            bias_regularizer,
            bias_constraint,
            kernel_initializer=kernel_initializer,
            kernel_regularizer=kernel_regularizer,
            kernel_constraint=kernel_constraint,
            activity_regularizer=activity_regularizer,
            trainable=trainable,
            name=name,
            **kwargs,
        )


@public("layers.Conv2D")
class Conv2D(KernelConvolution):
    """Convolution in 2 spatial dimensions.

    Args:
        filters: number of output channels.
        kernel_size: sizes of the window: 2 numbers, or one for all.
        strides: steps of the window, likewise.
        padding: ``"valid"`` or ``"same"``.
        data_format: ``"channels_last"``, ``[batch, height, width, channels]``,
            or ``"channels_first"``, ``[batch, channels, height, width]``.
        dilation_rate: steps between the taps of the window.
        activation: function of the result, or its name in ``tf.nn``.
        use_bias: add a bias.
        kernel_initializer: how the kernel starts; the scope's, or Glorot's uniform, if None.
        bias_initializer: how the bias ``[filters]`` starts.
        kernel_regularizer: function of the kernel whose value joins the regularization losses.
        bias_regularizer: function of the bias whose value joins the regularization losses.
        activity_regularizer: likewise of the output.
        kernel_constraint: function that optimizers apply to the kernel after an update.
        bias_constraint: function that optimizers apply to the bias after an update.
        trainable: whether optimizers change the variables.
        name: name of the layer and of its variable scope.
        **kwargs: arguments of `Layer`.
    """

    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = (1, 1),
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
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            bias_initializer,
            bias_regularizer,
            bias_constraint,
            kernel_initializer=kernel_initializer,
            kernel_regularizer=kernel_regularizer,
            kernel_constraint=kernel_constraint,
            activity_regularizer=activity_regularizer,
            trainable=trainable,
            name=name,
            **kwargs,
        )


@public("layers.Conv3D")
class Conv3D(KernelConvolution):
    """Convolution in 3 spatial dimensions.

    Args:
        filters: number of output channels.
        kernel_size: sizes of the window: 3 numbers, or one for all.
        strides: steps of the window, likewise.
        padding: ``"valid"`` or ``"same"``.
        data_format: ``"channels_last"``, ``[batch, depth, height, width, channels]``,
            or ``"channels_first"``, ``[batch, channels, depth, height, width]``.
        dilation_rate: steps between the taps of the window.
        activation: function of the result, or its name in ``tf.nn``.
        use_bias: add a bias.
        kernel_initializer: how the kernel starts; the scope's, or Glorot's uniform, if None.
        bias_initializer: how the bias ``[filters]`` starts.
        kernel_regularizer: function of the kernel whose value joins the regularization losses.
        bias_regularizer: function of the bias whose value joins the regularization losses.
        activity_regularizer: likewise of the output.
        kernel_constraint: function that optimizers apply to the kernel after an update.
        bias_constraint: function that optimizers apply to the bias after an update.
        trainable: whether optimizers change the variables.
        name: name of the layer and of its variable scope.
        **kwargs: arguments of `Layer`.
    """

    rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = (1, 1, 1),
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
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            bias_initializer,
            bias_regularizer,
            bias_constraint,
            kernel_initializer=kernel_initializer,
            kernel_regularizer=kernel_regularizer,
            kernel_constraint=kernel_constraint,
            activity_regularizer=activity_regularizer,
            trainable=trainable,
            name=name,
            **kwargs,
        )


for _class, _name in ((Conv1D, "conv1d"), (Conv2D, "conv2d"), (Conv3D, "conv3d")):
    function_of(_class, _name)
