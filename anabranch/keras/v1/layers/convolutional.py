"""Convolutions: plain, transposed, separable, with kernels that differ from place to place; padding and resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.random_seed import count_more
from anabranch.keras.v1 import activations, backend_nn, state
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1.layer import InputSpec, registry
from anabranch.keras.v1.layers.config import Configured, counted, transposed_length, window_length


class _Convolution(Configured):
    """What convolutions share: kernel, bias, activation, and where the channels stand."""

    _rank = 2
    _kernel_names = ("kernel",)

    def _set(self, filters: Any, arguments: dict[str, Any]) -> None:
        names = {"self", "filters", "kwargs", "__class__"}
        kept = {name: value for name, value in arguments.items() if name not in names}
        for name in ("kernel_size", "strides", "dilation_rate"):
            if name in kept:
                kept[name] = counted(kept[name], self._rank, name)
        kept["padding"] = kept["padding"].lower()
        if kept["padding"] not in ("valid", "same", *(["causal"] if self._rank == 1 else [])):
            raise ValueError(
                f"The `padding` argument must be a list/tuple or one of 'valid', 'same'. Received: {kept['padding']}\n"
                + errors.message(f"padding={kept['padding']!r}", "'valid' or 'same'", "padding='same'")
            )
        kept["data_format"] = state.data_format_of(kept["data_format"])
        if filters is not None:
            kept["filters"] = int(filters)
        self._keep(**kept)
        self.input_spec = InputSpec(ndim=self._rank + 2)

    @property
    def _channel_axis(self) -> int:
        return 1 if self.data_format == "channels_first" else -1

    def _channels(self, input_shape: Any) -> int:
        channels = K.dims(input_shape)[self._channel_axis]
        if channels is None:
            raise ValueError(
                "The channel dimension of the inputs should be defined. Found `None`.\n"
                + errors.message(f"inputs of shape {input_shape}", "a known number of channels", "x.set_shape(...)")
            )
        self.input_spec = InputSpec(ndim=self._rank + 2, axes={self._channel_axis: channels})
        return int(channels)

    def _weight(self, name: str, shape: Any, prefix: str | None = None) -> Any:
        prefix = prefix or name
        return self.add_weight(
            name,
            shape,
            initializer=getattr(self, f"{prefix}_initializer"),
            regularizer=getattr(self, f"{prefix}_regularizer"),
            constraint=getattr(self, f"{prefix}_constraint"),
        )

    def _bias(self, size: int) -> None:
        self.bias = self._weight("bias", (size,)) if self.use_bias else None

    def _finished(self, outputs: Any) -> Any:
        if self.use_bias:
            outputs = backend_nn.bias_add(outputs, self.bias, self.data_format)
        return outputs if self.activation is activations.linear else self.activation(outputs)

    def _spatial(self, input_shape: Any) -> list[Any]:
        sizes = K.dims(input_shape)
        return list(sizes[2:] if self.data_format == "channels_first" else sizes[1:-1])

    def _shape(self, batch: Any, spatial: list[Any], channels: int) -> Any:
        whole = [batch, channels, *spatial] if self.data_format == "channels_first" else [batch, *spatial, channels]
        return tf.TensorShape(whole)

    def _windows(self, input_shape: Any) -> list[Any]:
        padding = "same" if self.padding == "causal" else self.padding
        return [
            window_length(length, size, padding, stride, dilation)
            for length, size, stride, dilation in zip(
                self._spatial(input_shape), self.kernel_size, self.strides, self.dilation_rate, strict=True
            )
        ]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return self._shape(K.dims(input_shape)[0], self._windows(input_shape), self.filters)


class _Conv(_Convolution):
    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        self.kernel = self._weight("kernel", (*self.kernel_size, self._channels(input_shape), self.filters))
        self._bias(self.filters)
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        apply = {1: backend_nn.conv1d, 2: backend_nn.conv2d, 3: backend_nn.conv3d}[self._rank]
        strides, dilation = self.strides, self.dilation_rate
        if self._rank == 1:
            strides, dilation = strides[0], dilation[0]
        return self._finished(apply(inputs, self.kernel, strides, self.padding, self.data_format, dilation))


@registry.add("Convolution1D")
class Conv1D(_Conv):
    """Convolution along time ``[batch, time, channels]``."""

    _rank = 1

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(filters, arguments)


@registry.add("Convolution2D")
class Conv2D(_Conv):
    """Convolution of images ``[batch, height, width, channels]``."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(filters, arguments)


@registry.add("Convolution3D")
class Conv3D(_Conv):
    """Convolution of volumes ``[batch, depth, height, width, channels]``."""

    _rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(filters, arguments)


class _Transposed(_Convolution):
    def _outer(self, input_shape: Any) -> list[Any]:
        extra = self.output_padding or (None,) * self._rank
        return [
            transposed_length(length, size, self.padding, stride, more)
            for length, size, stride, more in zip(
                self._spatial(input_shape), self.kernel_size, self.strides, extra, strict=True
            )
        ]

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        self.kernel = self._weight("kernel", (*self.kernel_size, self.filters, self._channels(input_shape)))
        self._bias(self.filters)
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        x = backend_nn.channels_last(inputs, self.data_format)
        sizes = tf.shape(x)
        extra = self.output_padding or (None,) * self._rank
        spatial = [
            transposed_length(sizes[i + 1], size, self.padding, stride, more)
            for i, (size, stride, more) in enumerate(zip(self.kernel_size, self.strides, extra, strict=True))
        ]
        apply = {2: tf.nn.conv2d_transpose, 3: tf.nn.conv3d_transpose}[self._rank]
        shape = tf.stack([sizes[0], *spatial, self.filters])
        count_more(4 * (self._rank == 2))  # TensorFlow looks whether the batch is known
        y = apply(x, self.kernel, shape, (1, *self.strides, 1), padding=self.padding.upper())
        outputs = backend_nn.channels_back(y, self.data_format)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._finished(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return self._shape(K.dims(input_shape)[0], self._outer(input_shape), self.filters)


@registry.add("Deconvolution2D", "Deconv2D", "Convolution2DTranspose")
class Conv2DTranspose(_Transposed):
    """Transposed convolution of images."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(filters, arguments)
        if output_padding is not None:
            self.output_padding = counted(output_padding, 2, "output_padding")
        if self.dilation_rate != (1, 1):
            raise errors.UnimplementedError(
                None,
                None,
                errors.message("dilation_rate of a transposed convolution", "(1, 1)", "UpSampling2D and Conv2D"),
            )


@registry.add("Deconvolution3D", "Deconv3D", "Convolution3DTranspose")
class Conv3DTranspose(_Transposed):
    """Transposed convolution of volumes."""

    _rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(filters, arguments)
        if output_padding is not None:
            self.output_padding = counted(output_padding, 3, "output_padding")


def _of_a_plain_kernel(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a convolution with one kernel takes: without effect here, and in TensorFlow's configs all the same."""
    defaults = {"kernel_initializer": "glorot_uniform", "kernel_regularizer": None, "kernel_constraint": None}
    return {name: kwargs.pop(name, value) for name, value in defaults.items()}


class _Separable(_Convolution):
    def build(self, input_shape: Any) -> None:
        """Make both kernels and the bias."""
        channels = self._channels(input_shape)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        self.depthwise_kernel = self._weight("depthwise_kernel", shape, "depthwise")
        whole = (*(1,) * self._rank, self.depth_multiplier * channels, self.filters)
        self.pointwise_kernel = self._weight("pointwise_kernel", whole, "pointwise")
        self._bias(self.filters)
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        x = backend_nn.channels_last(inputs, self.data_format)
        kernels = [self.depthwise_kernel, self.pointwise_kernel]
        strides, dilation, padding = self.strides, self.dilation_rate, self.padding
        if self._rank == 1:
            if padding == "causal":
                x = backend_nn.temporal_padding(x, (dilation[0] * (self.kernel_size[0] - 1), 0))
                padding = "valid"
            x = tf.expand_dims(x, 1)
            kernels = [tf.expand_dims(kernel, 0) for kernel in kernels]
            strides, dilation = strides * 2, (1, *dilation)
        y = tf.nn.separable_conv2d(x, *kernels, (1, *strides, 1), padding.upper(), rate=dilation)
        if self._rank == 1:
            y = tf.squeeze(y, [1])
        return self._finished(backend_nn.channels_back(y, self.data_format))


@registry.add("SeparableConvolution1D")
class SeparableConv1D(_Separable):
    """Convolution along time of each channel by itself, then of the channels at each point."""

    _rank = 1

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = {**locals(), **_of_a_plain_kernel(kwargs)}
        super().__init__(**kwargs)
        self._set(filters, arguments)


@registry.add("SeparableConvolution2D")
class SeparableConv2D(_Separable):
    """Convolution of images of each channel by itself, then of the channels at each point."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = {**locals(), **_of_a_plain_kernel(kwargs)}
        super().__init__(**kwargs)
        self._set(filters, arguments)


@registry.add()
class DepthwiseConv2D(_Convolution):
    """Convolution of images of each channel by itself."""

    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        arguments = {**locals(), "dilation_rate": kwargs.pop("dilation_rate", (1, 1))}
        super().__init__(**kwargs)
        self._set(None, arguments)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        channels = self._channels(input_shape)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        self.depthwise_kernel = self._weight("depthwise_kernel", shape, "depthwise")
        self._bias(channels * self.depth_multiplier)
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return self._finished(
            backend_nn.depthwise_conv2d(
                inputs, self.depthwise_kernel, self.strides, self.padding, self.data_format, self.dilation_rate
            )
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        sizes = K.dims(input_shape)
        channels = sizes[self._channel_axis] * self.depth_multiplier
        return self._shape(sizes[0], self._windows(input_shape), channels)


class _Local(_Convolution):
    def _built_of(self, input_shape: Any) -> None:
        spatial = self._spatial(input_shape)
        if None in spatial:
            raise ValueError(
                "The spatial dimensions of the inputs to a LocallyConnected layer should be fully-defined, but layer "
                f"received the inputs shape {input_shape}\n"
                + errors.message(f"shape {input_shape}", "known sizes", "Input((28, 28, 1))")
            )
        self.dilation_rate = (1,) * self._rank
        windows = self._windows(input_shape)
        places, patch = int(np.prod(windows)), int(np.prod(self.kernel_size)) * self._channels(input_shape)
        self._places = tuple(windows)
        self.kernel = self._weight("kernel", (places, patch, self.filters))
        self.bias = self._weight("bias", (*windows, self.filters)) if self.use_bias else None

    def build(self, input_shape: Any) -> None:
        """Make kernels and bias."""
        self._built_of(input_shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        return self._finished(
            backend_nn.local_conv(inputs, self.kernel, self.kernel_size, self.strides, self._places, self.data_format)
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        self.dilation_rate = (1,) * self._rank
        return super().compute_output_shape(input_shape)


@registry.add()
class LocallyConnected1D(_Local):
    """Convolution along time whose kernel differs from step to step."""

    _rank = 1

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        implementation: int = 1,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(filters, arguments)
        _only_valid(self.padding)


@registry.add()
class LocallyConnected2D(_Local):
    """Convolution of images whose kernel differs from place to place."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        implementation: int = 1,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(filters, arguments)
        _only_valid(self.padding)


def _only_valid(padding: str) -> None:
    if padding != "valid":
        raise ValueError(
            f'Invalid border mode for a LocallyConnected layer (only "valid" is supported): {padding}\n'
            + errors.message(f"padding={padding!r}", "'valid'", "ZeroPadding2D before it")
        )
