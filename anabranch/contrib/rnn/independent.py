"""Cells whose units see only their own past, or none of it within the product: IndRNN, its gated kin, SRU."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.layers.base import InputSpec
from anabranch.rnn.cells import BIAS, WEIGHTS, LayerRNNCell, _activation, _depth, tanh


class _Units(LayerRNNCell):
    """A cell of ``num_units`` values that takes matrices."""

    def __init__(self, num_units: int, activation: Any, reuse: Any, name: Any, dtype: Any, **kwargs: Any) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def _own_past(self, name: str, gates: int) -> Any:
        """The weights, one for each unit and gate, between -1 and 1, by which units see their own past."""
        start = tf.random_uniform_initializer(minval=-1, maxval=1, dtype=self.dtype)
        return self.add_variable(name, shape=[1, gates * self._num_units], initializer=start)


@public("contrib.rnn.IndRNNCell")
class IndRNNCell(_Units):
    """``output = new_state = activation(W inputs + u * state + b)`` (Li et al. 2018, arXiv:1803.04831).

    Args:
        num_units: size of state and output.
        activation: function; tanh if None.
        reuse: whether to use variables that exist.
        name: of the layer.
        dtype: of the variables.
    """

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, name: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype)

    def build(self, inputs_shape: Any) -> None:
        self._kernel_w = self.add_variable(f"{WEIGHTS}_w", shape=[_depth(inputs_shape), self._num_units])
        self._kernel_u = self._own_past(f"{WEIGHTS}_u", 1)
        self._bias = self.add_variable(
            BIAS, shape=[self._num_units], initializer=tf.zeros_initializer(dtype=self.dtype)
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        gates = tf.matmul(inputs, self._kernel_w) + state * self._kernel_u
        output = self._activation(tf.nn.bias_add(gates, self._bias))
        return output, output


class _GatedUnits(_Units):
    """A gated cell with initializers of its own."""

    def __init__(
        self,
        num_units: int,
        activation: Any,
        reuse: Any,
        kernel_initializer: Any,
        bias_initializer: Any,
        name: Any,
        dtype: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    def _weights(self, name: str, inputs_shape: Any, gates: int) -> Any:
        shape = [_depth(inputs_shape), gates * self._num_units]
        return self.add_variable(name, shape=shape, initializer=self._kernel_initializer)

    def _biases(self, name: str, gates: int, start: float) -> Any:
        given = self._bias_initializer
        initializer = tf.constant_initializer(start, dtype=self.dtype) if given is None else given
        return self.add_variable(name, shape=[gates * self._num_units], initializer=initializer)


@public("contrib.rnn.IndyGRUCell")
class IndyGRUCell(_GatedUnits):
    """A GRU whose units see only their own past (after Li et al. 2018, arXiv:1803.04831).

    Args:
        num_units: size of state and output.
        activation: of the candidate; tanh if None.
        reuse: whether to use variables that exist.
        kernel_initializer: of the weights of the inputs.
        bias_initializer: of the biases; ones for the gates and zeros for the candidate if None.
        name: of the layer.
        dtype: of the variables.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_units, activation, reuse, kernel_initializer, bias_initializer, name, dtype)

    def build(self, inputs_shape: Any) -> None:
        self._gate_kernel_w = self._weights(f"gates/{WEIGHTS}_w", inputs_shape, 2)
        self._gate_kernel_u = self._own_past(f"gates/{WEIGHTS}_u", 2)
        self._gate_bias = self._biases(f"gates/{BIAS}", 2, 1.0)
        self._candidate_kernel_w = self._weights(f"candidate/{WEIGHTS}", inputs_shape, 1)
        self._candidate_kernel_u = self._own_past(f"candidate/{WEIGHTS}_u", 1)
        self._candidate_bias = self._biases(f"candidate/{BIAS}", 1, 0.0)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        gates = tf.matmul(inputs, self._gate_kernel_w) + tf.tile(state, [1, 2]) * self._gate_kernel_u
        reset, update = tf.split(tf.sigmoid(tf.nn.bias_add(gates, self._gate_bias)), 2, axis=1)
        candidate = tf.matmul(inputs, self._candidate_kernel_w) + (reset * state) * self._candidate_kernel_u
        candidate = self._activation(tf.nn.bias_add(candidate, self._candidate_bias))
        new = update * state + (1 - update) * candidate
        return new, new


@public("contrib.rnn.IndyLSTMCell")
class IndyLSTMCell(_GatedUnits):
    """An LSTM whose units see only their own past (Gonnet and Deselaers 2019, arXiv:1903.08023).

    Args:
        num_units: size of output and of each part of the state.
        forget_bias: added to the forget gate.
        activation: of new values; tanh if None.
        reuse: whether to use variables that exist.
        kernel_initializer: of the weights of the inputs.
        bias_initializer: of the biases; zeros if None.
        name: of the layer.
        dtype: of the variables.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_units, activation, reuse, kernel_initializer, bias_initializer, name, dtype)
        self._forget_bias = forget_bias

    @property
    def state_size(self) -> Any:
        return tf.nn.rnn_cell.LSTMStateTuple(self._num_units, self._num_units)

    def build(self, inputs_shape: Any) -> None:
        self._kernel_w = self._weights(f"{WEIGHTS}_w", inputs_shape, 4)
        self._kernel_u = self._own_past(f"{WEIGHTS}_u", 4)
        self._bias = self._biases(BIAS, 4, 0.0)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        c, h = state
        gates = tf.matmul(inputs, self._kernel_w) + tf.tile(h, [1, 4]) * self._kernel_u
        i, j, f, o = tf.split(tf.nn.bias_add(gates, self._bias), 4, axis=1)
        new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, tf.nn.rnn_cell.LSTMStateTuple(new_c, new_h)


@public("contrib.rnn.SRUCell")
class SRUCell(_Units):
    """The simple recurrent unit, whose gates see the inputs alone (Lei et al. 2017, arXiv:1709.02755).

    Args:
        num_units: size of state and output, and of the inputs.
        activation: of the state; tanh if None.
        reuse: whether to use variables that exist.
        name: of the layer.
        **kwargs: of the layer, like ``dtype``.
    """

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, name: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(num_units, activation, reuse, name, kwargs.pop("dtype", None), **kwargs)

    def build(self, inputs_shape: Any) -> None:
        self._kernel = self.add_variable(WEIGHTS, shape=[_depth(inputs_shape), 4 * self._num_units])
        self._bias = self.add_variable(BIAS, shape=[2 * self._num_units], initializer=tf.zeros_initializer)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        new, forget, reset, passed = tf.split(tf.matmul(inputs, self._kernel), 4, axis=1)
        gates = tf.sigmoid(tf.nn.bias_add(tf.concat([forget, reset], 1), self._bias))
        forget, reset = tf.split(gates, 2, axis=1)
        c = forget * state + (1.0 - forget) * new
        return reset * self._activation(c) + (1.0 - reset) * passed, c
