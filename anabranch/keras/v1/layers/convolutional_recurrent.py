"""Long short-term memory whose products are convolutions (Shi et al., 2015): ``ConvLSTM2D`` and its cell."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import backend_nn, state
from anabranch.keras.v1.layer import InputSpec, registry
from anabranch.keras.v1.layers.cells import LSTMCell
from anabranch.keras.v1.layers.config import counted, window_length
from anabranch.keras.v1.layers.recurrent import _OfCell


class ConvLSTM2DCell(LSTMCell):
    """A step of ``ConvLSTM2D``: images ``[batch, rows, columns, channels]``; arguments are the layer's."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super(LSTMCell, self).__init__(**kwargs)
        for name in ("kernel_size", "strides", "dilation_rate"):
            arguments[name] = counted(arguments[name], 2, name)
        arguments["data_format"] = state.data_format_of(data_format)
        arguments["padding"] = padding.lower()
        self.units = filters  # what the gates' weights are counted by
        self._set(arguments)
        self.state_size = [filters, filters]

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        sizes = K.dims(input_shape)
        first = self.data_format == "channels_first"
        self._channels = int(sizes[1 if first else -1])
        lengths = [
            window_length(length, size, self.padding, stride, dilation)
            for length, size, stride, dilation in zip(
                sizes[2:] if first else sizes[1:-1], self.kernel_size, self.strides, self.dilation_rate, strict=True
            )
        ]
        shape = tf.TensorShape([self.units, *lengths] if first else [*lengths, self.units])
        self.state_size, self.output_size = [shape, shape], shape
        self._weights_of(input_shape, (4 * self.units,))

    def _kernel_shape(self, name: str, size: int, wide: int) -> tuple[int, ...]:
        return (*self.kernel_size, self._channels if name == "kernel" else self.units, wide)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros as a first state, of the size that a convolution of ``inputs`` has."""
        kernel = tf.zeros((*self.kernel_size, self._channels, self.units), inputs.dtype)
        zeros = self._convolved(tf.zeros_like(inputs), kernel, None)
        return [zeros, zeros]

    def _convolved(self, x: Any, kernel: Any, bias: Any) -> Any:
        y = backend_nn.conv2d(x, kernel, self.strides, self.padding, self.data_format, self.dilation_rate)
        return y if bias is None else backend_nn.bias_add(y, bias, self.data_format)

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute output and states."""
        before, carry = states[0], states[1]
        inner = self._masked("dropout", inputs, training, 4)
        outer = self._masked("recurrent_dropout", before, training, 4)
        axis = 1 if self.data_format == "channels_first" else -1
        if inner[0] is inner[1] and outer[0] is outer[1]:
            z = self._convolved(inputs, self.kernel, self.bias)
            z += backend_nn.conv2d(before, self.recurrent_kernel, (1, 1), "same", self.data_format)
            zs = tf.split(z, 4, axis=axis)
        else:
            kernels, recurrent = tf.split(self.kernel, 4, axis=-1), tf.split(self.recurrent_kernel, 4, axis=-1)
            biases = [None] * 4 if self.bias is None else tf.split(self.bias, 4)
            zs = [
                self._convolved(inner[i], kernels[i], biases[i])
                + backend_nn.conv2d(outer[i], recurrent[i], (1, 1), "same", self.data_format)
                for i in range(4)
            ]
        gates = self.recurrent_activation
        carry = gates(zs[1]) * carry + gates(zs[0]) * self.activation(zs[2])
        output = gates(zs[3]) * self.activation(carry)
        return output, [output, carry]


@registry.add()
class ConvLSTM2D(_OfCell):
    """Long short-term memory over images ``[batch, time, rows, columns, channels]``, with convolutions for products.

    Args:
        filters: channels of the outputs.
        kernel_size, strides, padding, data_format, dilation_rate: of the convolution of the inputs; that of the states
            keeps their size.
        activation, recurrent_activation: of outputs, and of gates.
        unit_forget_bias: begin with 1 as the bias of the forget gate.
        return_sequences: give the outputs of all steps, not the last alone.
        go_backwards: begin with the last step.
        stateful: begin a batch with the last states of the one before.
        dropout, recurrent_dropout: shares of inputs and of states that are left out in training.
    """

    _cell_class = ConvLSTM2DCell

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        return_sequences: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        given = dict(locals())
        for name in ("self", "kwargs", "__class__"):
            del given[name]
        super().__init__(**given, **kwargs)
        self.input_spec = InputSpec(ndim=5)
