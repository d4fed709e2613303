"""LSTMs with normalised weights or gates, in groups, or open by a clock; the +RNN; a cell under a compiler's scope."""

from __future__ import annotations

import math
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.rnn.cells import LSTMStateTuple, RNNCell, _activation, tanh
from anabranch.rnn.contrib_cells import _normalised
from anabranch.rnn.wrappers import _Wrapper, linear


def _known_width(inputs: Any) -> int:
    size = inputs.shape.with_rank(2).as_list()[1]
    if size is None:
        raise ValueError(
            "Could not infer input size from inputs.get_shape()[-1]\n"
            + errors.message(
                f"inputs of shape {inputs.shape}", "a known number of features", "inputs.set_shape([None, n])"
            )
        )
    return int(size)


@public("contrib.rnn.IntersectionRNNCell")
class IntersectionRNNCell(RNNCell):
    """The +RNN, gated through time and through depth (Collins et al. 2017, arXiv:1611.09913).

    Args:
        num_units: size of state and output.
        num_in_proj: project the inputs, where they have another size; not if None.
        initializer: of the variables.
        forget_bias: added to the gates.
        y_activation: of what the next layer sees.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._num_input_proj = num_in_proj
        self._y_activation = y_activation if y_activation is not None else tf.nn.relu

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        size = _known_width(inputs)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            if size != self._num_units:
                if not self._num_input_proj:
                    raise ValueError(
                        "Must have input size == output size for Intersection RNN. To fix, num_in_proj should be set "
                        "to num_units at cell init.\n"
                        + errors.message(
                            f"{size} features for {self._num_units} units",
                            "as many features as units, or a projection",
                            f"num_in_proj={self._num_units}",
                        )
                    )
                with tf.variable_scope("in_projection"):
                    inputs = linear(inputs, self._num_units, True)
            keep_h, h, keep_y, y = tf.split(linear(tf.concat([inputs, state], 1), 4 * self._num_units, True), 4, axis=1)
        keep_h = tf.sigmoid(keep_h + self._forget_bias)
        keep_y = tf.sigmoid(keep_y + self._forget_bias)
        new_state = keep_h * state + (1.0 - keep_h) * tf.tanh(h)
        return keep_y * inputs + (1.0 - keep_y) * self._y_activation(y), new_state


@public("contrib.rnn.PhasedLSTMCell")
class PhasedLSTMCell(RNNCell):
    """An LSTM whose units are open for a part of a cycle (Neil et al. 2016, arXiv:1610.09513).

    Inputs are ``(time, x)``.

    Args:
        num_units: size of output and of each part of the state.
        use_peepholes: let gates see the cell's value.
        leak: how much gets through while a unit is closed.
        ratio_on: for which part of the cycle a unit is open.
        trainable_ratio_on: whether that is trained.
        period_init_min: the shortest period at the start.
        period_init_max: the longest.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        leak: float = 0.001,
        ratio_on: float = 0.1,
        trainable_ratio_on: bool = True,
        period_init_min: float = 1.0,
        period_init_max: float = 1000.0,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._leak = leak
        self._ratio_on = ratio_on
        self._trainable_ratio_on = trainable_ratio_on
        self._period_init_min = period_init_min
        self._period_init_max = period_init_max

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_units

    def _periods(self, shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> Any:
        """Periods between the shortest and the longest, of which all orders of magnitude are alike."""
        del partition_info
        return tf.exp(tf.random_uniform(shape, math.log(self._period_init_min), math.log(self._period_init_max), dtype))

    def call(self, inputs: Any, state: Any) -> Any:
        c_old, h_old = state
        time, x = inputs
        seen = [x, h_old, c_old] if self._use_peepholes else [x, h_old]
        with tf.variable_scope("mask_gates"):
            take, keep = tf.split(tf.sigmoid(linear(seen, 2 * self._num_units, True)), 2, axis=1)
        with tf.variable_scope("new_input"):
            new = tf.tanh(linear([x, h_old], self._num_units, True))
        c = c_old * keep + take * new
        with tf.variable_scope("output_gate"):
            seen = [x, h_old, c] if self._use_peepholes else [x, h_old]
            h = tf.tanh(c) * tf.sigmoid(linear(seen, self._num_units, True))
        period = tf.get_variable("period", [self._num_units], initializer=self._periods)
        phase = tf.get_variable(
            "phase", [self._num_units], initializer=tf.random_uniform_initializer(0.0, period.initial_value)
        )
        ratio_on = tf.get_variable(
            "ratio_on",
            [self._num_units],
            initializer=tf.constant_initializer(self._ratio_on),
            trainable=self._trainable_ratio_on,
        )
        length = tf.cast(period, time.dtype)
        shifted = time - tf.cast(phase, time.dtype)
        within = tf.stop_gradient(tf.mod(shifted, length) - shifted) + shifted  # its gradient is that of the time
        position = tf.cast(within / length, tf.float32)
        rising = 2 * position / ratio_on
        opened = tf.where(position < ratio_on, 2 - rising, self._leak * position)
        opened = tf.where(position < 0.5 * ratio_on, rising, opened)
        c, h = opened * c + (1 - opened) * c_old, opened * h + (1 - opened) * h_old
        return h, LSTMStateTuple(c, h)


@public("contrib.rnn.GLSTMCell")
class GLSTMCell(RNNCell):
    """An LSTM whose units are in groups that do not see each other (Kuchaiev and Ginsburg 2017, arXiv:1703.10722).

    Args:
        num_units: size of the cell's value.
        initializer: of the variables.
        num_proj: size of the output after a projection; none if None.
        number_of_groups: by which ``num_units`` and ``num_proj`` can be divided.
        forget_bias: added to the forget gate.
        activation: of the output.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        num_proj: int | None = None,
        number_of_groups: int = 1,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        for name, size in (("num_units", num_units), ("num_proj", num_proj or 0)):
            if size % number_of_groups:
                raise ValueError(
                    f"{name} must be divisible by number_of_groups\n"
                    + errors.message(
                        f"{name}={size}, number_of_groups={number_of_groups}", "groups of one size", "another number"
                    )
                )
        self._num_units = num_units
        self._initializer = initializer
        self._num_proj = num_proj
        self._number_of_groups = number_of_groups
        self._forget_bias = forget_bias
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        c_old, m_old = state
        groups, size, dtype = self._number_of_groups, inputs.shape.as_list()[1], inputs.dtype.base
        if size is None:
            raise ValueError(
                "input size must be statically known\n"
                + errors.message(f"inputs of shape {inputs.shape}", "a known size", "inputs.set_shape([None, n])")
            )
        if size % groups:
            raise ValueError(
                f"input size ({size}) must be divisible by number_of_groups ({groups})\n"
                + errors.message(f"{size} features for {groups} groups", "groups of one size", "another number")
            )
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gates = []
            for group, (x, m) in enumerate(
                zip(tf.split(inputs, groups, axis=1), tf.split(m_old, groups, axis=1), strict=True)
            ):
                with tf.variable_scope(f"group{group}"):
                    joined = tf.concat([x, m], 1)
                    gates.append(tf.split(linear(joined, 4 * self._num_units // groups, False), 4, axis=1))
            biases = [
                tf.get_variable(
                    f"bias_{gate}", [self._num_units], dtype=dtype, initializer=tf.constant_initializer(0.0)
                )
                for gate in "ijfo"
            ]
        i, j, f, o = (
            tf.nn.bias_add(tf.concat(parts, 1), bias)
            for parts, bias in zip(zip(*gates, strict=True), biases, strict=True)
        )
        c = tf.sigmoid(f + self._forget_bias) * c_old + tf.sigmoid(i) * tf.tanh(j)
        m = tf.sigmoid(o) * self._activation(c)
        if self._num_proj is not None:
            with tf.variable_scope("projection"):
                m = linear(m, self._num_proj, False)
        return m, LSTMStateTuple(c, m)


class _Projected(RNNCell):
    """An LSTM with peepholes, clipping and a projection, whose products its subclasses normalise."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool,
        cell_clip: float | None,
        initializer: Any,
        num_proj: int | None,
        proj_clip: float | None,
        forget_bias: float,
        activation: Any,
        reuse: Any,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def _gates(self, inputs: Any, h: Any) -> list[Any]:
        raise NotImplementedError

    def _new_value(self, c: Any) -> Any:
        return c

    def _projection(self, h: Any) -> Any:
        return linear(h, self._num_proj, False)  # type: ignore[arg-type]

    def _step(self, inputs: Any, state: Any) -> Any:
        c_old, h_old = state
        _known_width(inputs)
        i, j, f, o = self._gates(inputs, h_old)
        f = f + self._forget_bias
        if self._use_peepholes:
            see_f, see_i, see_o = (
                tf.get_variable(f"w_{gate}_diag", [self._num_units], dtype=inputs.dtype.base) for gate in "fio"
            )
            f, i = f + see_f * c_old, i + see_i * c_old
        c = self._new_value(tf.sigmoid(f) * c_old + tf.sigmoid(i) * self._activation(j))
        if self._cell_clip is not None:
            c = tf.clip_by_value(c, -self._cell_clip, self._cell_clip)
        h = tf.sigmoid(o + see_o * c if self._use_peepholes else o) * self._activation(c)
        if self._num_proj is not None:
            with tf.variable_scope("projection"):
                h = self._projection(h)
            if self._proj_clip is not None:
                h = tf.clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, LSTMStateTuple(c, h)


@public("contrib.rnn.LayerNormLSTMCell")
class LayerNormLSTMCell(_Projected):
    """An LSTM with layer normalisation, peepholes and a projection (Ba et al. 2016, arXiv:1607.06450).

    Args:
        num_units: size of the cell's value.
        use_peepholes: let gates see the cell's value.
        cell_clip: clip the cell's value to ``[-cell_clip, cell_clip]``; not if None.
        initializer: of the variables.
        num_proj: size of the output after a projection; none if None.
        proj_clip: clip the projection; not if None.
        forget_bias: added to the forget gate.
        activation: of new values; tanh if None.
        layer_norm: whether to normalise.
        norm_gain: how the gains start.
        norm_shift: how the shifts start.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1.0,
        activation: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        reuse: Any = None,
    ) -> None:
        super().__init__(
            num_units, use_peepholes, cell_clip, initializer, num_proj, proj_clip, forget_bias, activation, reuse
        )
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift

    def call(self, inputs: Any, state: Any) -> Any:
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            return self._step(inputs, state)

    def _norm(self, x: Any, scope: str) -> Any:
        with tf.variable_scope(scope):
            shape, dtype = x.shape[-1:], x.dtype.base
            gain = tf.get_variable("gamma", shape, dtype=dtype, initializer=tf.constant_initializer(self._norm_gain))
            shift = tf.get_variable("beta", shape, dtype=dtype, initializer=tf.constant_initializer(self._norm_shift))
        return _normalised(x, gain, shift)

    def _gates(self, inputs: Any, h: Any) -> list[Any]:
        product = linear([inputs, h], 4 * self._num_units, not self._layer_norm)
        parts = tf.split(product, 4, axis=1)
        if not self._layer_norm:
            return list(parts)
        tf.get_variable(
            "bias", [4 * self._num_units], dtype=inputs.dtype.base, initializer=tf.zeros_initializer()
        )  # in checkpoints, though the normalised gates have their own shifts
        names = ("input", "transform", "forget", "output")
        return [self._norm(part, name) for part, name in zip(parts, names, strict=True)]

    def _new_value(self, c: Any) -> Any:
        return self._norm(c, "state") if self._layer_norm else c


@public("contrib.rnn.WeightNormLSTMCell")
class WeightNormLSTMCell(_Projected):
    """An LSTM whose weights are directions and lengths (Salimans and Kingma 2016, arXiv:1602.07868).

    Args:
        num_units: size of the cell's value.
        norm: whether to normalise.
        use_peepholes: let gates see the cell's value.
        cell_clip: clip the cell's value to ``[-cell_clip, cell_clip]``; not if None.
        initializer: of the variables.
        num_proj: size of the output after a projection; none if None.
        proj_clip: clip the projection; not if None.
        forget_bias: added to the forget gate.
        activation: of new values; tanh if None.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        norm: bool = True,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(
            num_units, use_peepholes, cell_clip, initializer, num_proj, proj_clip, forget_bias, activation, reuse
        )
        self._norm = norm

    def call(self, inputs: Any, state: Any) -> Any:
        with tf.variable_scope("wn_lstm_cell", initializer=self._initializer):
            return self._step(inputs, state)

    def _product(self, args: list[Any], size: int) -> Any:
        """The product with a kernel of which each part has columns of a trained length."""
        rows = [_known_width(x) for x in args]
        dtype = args[0].dtype.base
        kernel = tf.get_variable("kernel", [sum(rows), size], dtype=dtype)
        if self._norm:
            parts = []
            for index, part in enumerate(tf.split(kernel, rows, axis=0)):
                length = tf.get_variable(f"norm_{index}", [size], dtype=dtype)
                parts.append(tf.nn.l2_normalize(part, axis=0) * length)
            kernel = tf.concat(parts, 0)
        return tf.matmul(tf.concat(args, 1), kernel)

    def _gates(self, inputs: Any, h: Any) -> list[Any]:
        product = self._product([inputs, h], 4 * self._num_units)
        bias = tf.get_variable(
            "bias", [4 * self._num_units], dtype=inputs.dtype.base, initializer=tf.zeros_initializer()
        )
        return list(tf.split(tf.nn.bias_add(product, bias), 4, axis=1))

    def _projection(self, h: Any) -> Any:
        return self._product([h], self._num_proj)  # type: ignore[arg-type]


@public("contrib.rnn.CompiledWrapper")
class CompiledWrapper(_Wrapper):
    """A cell whose step is compiled, as every step is here: the cell itself under another name.

    Args:
        cell: the cell.
        compile_stateful: whether ops with state are compiled, too; they are.
    """

    def __init__(self, cell: Any, compile_stateful: bool = False) -> None:
        super().__init__(cell)
        del compile_stateful

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        return self._cell(inputs, state, scope=scope)
