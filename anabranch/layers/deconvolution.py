"""Transposed and separable convolutions."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import OperationCount
from anabranch.core.values import dimensions
from anabranch.layers.arguments import ZEROS, function_of, initializer_of, op_format
from anabranch.layers.convolution import Convolution, KernelConvolution
from anabranch.ops.array.public_shapes import expand_dims, shape, squeeze, stack
from anabranch.ops.nn.windows import public_convolution as convs

_COUNTED = {2: 24, 3: 26}
"""Operations that TensorFlow builds for a transposed convolution, most of them for its shape."""


class _Transposed(KernelConvolution):
    """The gradient of a convolution as a layer of its own."""

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, self.filters, channels]

    def _length(self, size: Any, axis: int) -> Any:
        grown = size * self.strides[axis]
        if self.padding == "valid":
            grown = grown + max(self.kernel_size[axis] - self.strides[axis], 0)
        return grown

    def call(self, inputs: Tensor) -> Tensor:
        """The inputs scattered through the kernel, with bias and activation."""
        counted = OperationCount()
        known = self.compute_output_shape(inputs.shape)
        wanted: Any = known.as_list()
        if None in wanted:
            sizes = shape(inputs)
            for axis, place in enumerate(self._places()):
                if wanted[place] is None:
                    wanted[place] = self._length(sizes[place], axis)
            wanted[0] = sizes[0] if wanted[0] is None else wanted[0]
            wanted = stack(wanted)
        function = convs.conv2d_transpose if self.rank == 2 else convs.conv3d_transpose
        form = op_format(self.data_format, self.rank)
        result = function(inputs, self.kernel, wanted, list(self.strides), self.padding.upper(), data_format=form)
        result.set_shape(known)
        counted.set(_COUNTED[self.rank] + 2 * self.rank * (self.padding == "valid"))
        return self._finished(result)


class _Separable(Convolution):
    """A convolution of each channel by itself, and a convolution of size 1 over all of them."""

    def __init__(
        self,
        *args: Any,
        depth_multiplier: int,
        depthwise_initializer: Any,
        pointwise_initializer: Any,
        depthwise_regularizer: Any,
        pointwise_regularizer: Any,
        depthwise_constraint: Any,
        pointwise_constraint: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.depth_multiplier = dimensions.as_integer(depth_multiplier, "depth_multiplier")
        self.depthwise_initializer = initializer_of(depthwise_initializer)
        self.pointwise_initializer = initializer_of(pointwise_initializer)
        self.depthwise_regularizer = depthwise_regularizer
        self.pointwise_regularizer = pointwise_regularizer
        self.depthwise_constraint = depthwise_constraint
        self.pointwise_constraint = pointwise_constraint

    def build(self, input_shape: Any) -> None:
        """Make ``depthwise_kernel``, ``pointwise_kernel`` and ``bias``."""
        channels = self._channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel",
            [*self.kernel_size, channels, self.depth_multiplier],
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel",
            [*([1] * self.rank), self.depth_multiplier * channels, self.filters],
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )
        self._make_bias()

    def call(self, inputs: Tensor) -> Tensor:
        """The convolved inputs, with bias and activation."""
        inputs, padding = self._padded(inputs)
        depthwise, pointwise = self.depthwise_kernel, self.pointwise_kernel
        strides, rates, place = list(self.strides), list(self.dilation_rate), None
        if self.rank == 1:  # one row; a depthwise convolution has one stride for both of its dimensions
            place = 2 if self._first else 1
            inputs = expand_dims(inputs, place)
            depthwise, pointwise = expand_dims(depthwise, 0), expand_dims(pointwise, 0)
            strides, rates = strides * 2, [1, *rates]
        result = convs.separable_conv2d(
            inputs,
            depthwise,
            pointwise,
            strides,
            padding,
            rates,
            data_format=op_format(self.data_format, 2),
        )
        return self._finished(result if place is None else squeeze(result, [place]))


@public("layers.Conv2DTranspose")
class Conv2DTranspose(_Transposed):
    """Transposed convolution in 2 spatial dimensions: from each input a window of outputs.

    Args:
        filters: number of output channels.
        kernel_size: sizes of the window: 2 numbers, or one for all.
        strides: steps of the window, likewise.
        padding: ``"valid"`` or ``"same"``.
        data_format: ``"channels_last"``, ``[batch, height, width, channels]``,
            or ``"channels_first"``, ``[batch, channels, height, width]``.
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
            1,
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


@public("layers.Conv3DTranspose")
class Conv3DTranspose(_Transposed):
    """Transposed convolution in 3 spatial dimensions: from each input a window of outputs.

    Args:
        filters: number of output channels.
        kernel_size: sizes of the window: 3 numbers, or one for all.
        strides: steps of the window, likewise.
        padding: ``"valid"`` or ``"same"``.
        data_format: ``"channels_last"``, ``[batch, depth, height, width, channels]``,
            or ``"channels_first"``, ``[batch, channels, depth, height, width]``.
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
            1,
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


@public("layers.SeparableConv1D")
class SeparableConv1D(_Separable):
    """Depthwise and pointwise convolution in 1 spatial dimension.

    Args:
        filters: number of output channels.
        kernel_size: sizes of the window: one number.
        strides: steps of the window, likewise.
        padding: ``"valid"``, ``"same"`` or ``"causal"``.
        data_format: ``"channels_last"``, ``[batch, width, channels]``,
            or ``"channels_first"``, ``[batch, channels, width]``.
        dilation_rate: steps between the taps of the window.
        depth_multiplier: outputs of the depthwise part for each input channel.
        activation: function of the result, or its name in ``tf.nn``.
        use_bias: add a bias.
        depthwise_initializer: how the depthwise kernel starts; the scope's, or Glorot's uniform, if None.
        pointwise_initializer: how the pointwise kernel starts; the scope's, or Glorot's uniform, if None.
        bias_initializer: how the bias ``[filters]`` starts.
        depthwise_regularizer: function of the depthwise kernel whose value joins the regularization losses.
        pointwise_regularizer: function of the pointwise kernel whose value joins the regularization losses.
        bias_regularizer: function of the bias whose value joins the regularization losses.
        activity_regularizer: likewise of the output.
        depthwise_constraint: function that optimizers apply to the depthwise kernel after an update.
        pointwise_constraint: function that optimizers apply to the pointwise kernel after an update.
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
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
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
            depth_multiplier=depth_multiplier,
            depthwise_initializer=depthwise_initializer,
            pointwise_initializer=pointwise_initializer,
            depthwise_regularizer=depthwise_regularizer,
            pointwise_regularizer=pointwise_regularizer,
            depthwise_constraint=depthwise_constraint,
            pointwise_constraint=pointwise_constraint,
            activity_regularizer=activity_regularizer,
            trainable=trainable,
            name=name,
            **kwargs,
        )


@public("layers.SeparableConv2D")
class SeparableConv2D(_Separable):
    """Depthwise and pointwise convolution in 2 spatial dimensions.

    Args:
        filters: number of output channels.
        kernel_size: sizes of the window: 2 numbers, or one for all.
        strides: steps of the window, likewise.
        padding: ``"valid"`` or ``"same"``.
        data_format: ``"channels_last"``, ``[batch, height, width, channels]``,
            or ``"channels_first"``, ``[batch, channels, height, width]``.
        dilation_rate: steps between the taps of the window.
        depth_multiplier: outputs of the depthwise part for each input channel.
        activation: function of the result, or its name in ``tf.nn``.
        use_bias: add a bias.
        depthwise_initializer: how the depthwise kernel starts; the scope's, or Glorot's uniform, if None.
        pointwise_initializer: how the pointwise kernel starts; the scope's, or Glorot's uniform, if None.
        bias_initializer: how the bias ``[filters]`` starts.
        depthwise_regularizer: function of the depthwise kernel whose value joins the regularization losses.
        pointwise_regularizer: function of the pointwise kernel whose value joins the regularization losses.
        bias_regularizer: function of the bias whose value joins the regularization losses.
        activity_regularizer: likewise of the output.
        depthwise_constraint: function that optimizers apply to the depthwise kernel after an update.
        pointwise_constraint: function that optimizers apply to the pointwise kernel after an update.
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
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
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
            depth_multiplier=depth_multiplier,
            depthwise_initializer=depthwise_initializer,
            pointwise_initializer=pointwise_initializer,
            depthwise_regularizer=depthwise_regularizer,
            pointwise_regularizer=pointwise_regularizer,
            depthwise_constraint=depthwise_constraint,
            pointwise_constraint=pointwise_constraint,
            activity_regularizer=activity_regularizer,
            trainable=trainable,
            name=name,
            **kwargs,
        )


for _class, _name in (
    (Conv2DTranspose, "conv2d_transpose"),
    (Conv3DTranspose, "conv3d_transpose"),
    (SeparableConv1D, "separable_conv1d"),
    (SeparableConv2D, "separable_conv2d"),
):
    function_of(_class, _name)
