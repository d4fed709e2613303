"""``tf.contrib.cudnn_rnn``: stacked recurrent layers over whole sequences, computed by XLA.

cuDNN keeps all weights of a layer in one opaque buffer, and saves them in the form of ordinary cells. That form is the
only one here: variables are named and shaped as in checkpoints of TensorFlow's layers (``cudnn_lstm/rnn/multi_rnn_cell/
cell_0/cudnn_compatible_lstm_cell/kernel``). cuDNN's two biases of a gate are one here, their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public
from anabranch.rnn.block_cells import LSTMBlockCell
from anabranch.rnn.cells import LayerRNNCell, LSTMStateTuple

__getattr__, __dir__ = module_attributes("contrib.cudnn_rnn")
for _name, _value in {
    "CUDNN_LSTM": "lstm",
    "CUDNN_GRU": "gru",
    "CUDNN_RNN_TANH": "rnn_tanh",
    "CUDNN_RNN_RELU": "rnn_relu",
    "CUDNN_RNN_UNIDIRECTION": "unidirectional",
    "CUDNN_RNN_BIDIRECTION": "bidirectional",
    "CUDNN_INPUT_LINEAR_MODE": "linear_input",
    "CUDNN_INPUT_SKIP_MODE": "skip_input",
    "CUDNN_INPUT_AUTO_MODE": "auto_select",
}.items():
    public(f"contrib.cudnn_rnn.{_name}")(_value)


@public("contrib.cudnn_rnn.CudnnCompatibleLSTMCell")
class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """The LSTM cell that computes what :class:`CudnnLSTM` does, for inference step by step."""

    def __init__(self, num_units: int, reuse: Any = None) -> None:
        super().__init__(num_units, forget_bias=0.0, reuse=reuse, name="cudnn_compatible_lstm_cell")


@public("contrib.cudnn_rnn.CudnnCompatibleGRUCell")
class CudnnCompatibleGRUCell(LayerRNNCell):
    """The GRU cell that computes what :class:`CudnnGRU` does: the reset gate comes after the product.

    ``new = tanh(W x + b + r * (R state + b'))``, ``state = (1 - u) * new + u * state``.
    """

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None) -> None:
        super().__init__(_reuse=reuse, name="cudnn_compatible_gru_cell")
        self._num_units, self._initializer = num_units, kernel_initializer

    state_size = property(lambda self: self._num_units, doc="The number of units.")
    output_size = property(lambda self: self._num_units, doc="The number of units.")

    def build(self, inputs_shape: Any) -> None:
        """Make the variables."""
        depth, units = tf.TensorShape(inputs_shape).as_list()[-1], self._num_units
        self._parts = {}
        for name, shape in (
            ("gates/kernel", [depth + units, 2 * units]),
            ("gates/bias", [2 * units]),
            ("candidate/input_projection/kernel", [depth, units]),
            ("candidate/input_projection/bias", [units]),
            ("candidate/hidden_projection/kernel", [units, units]),
            ("candidate/hidden_projection/bias", [units]),
        ):
            start = tf.zeros_initializer() if name.endswith("bias") else self._initializer
            self._parts[name] = self.add_variable(name, shape=shape, initializer=start)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """One step: output and state, which are the same."""
        parts = self._parts
        gates = tf.matmul(tf.concat([inputs, state], 1), parts["gates/kernel"])
        r, u = tf.split(tf.sigmoid(tf.nn.bias_add(gates, parts["gates/bias"])), 2, 1)
        given, held = (
            tf.nn.bias_add(
                tf.matmul(x, parts[f"candidate/{name}_projection/kernel"]), parts[f"candidate/{name}_projection/bias"]
            )
            for name, x in (("input", inputs), ("hidden", state))
        )
        new = (1.0 - u) * tf.tanh(given + r * held) + u * state
        return new, new


def _by_blocks(initializer: Any, units: int) -> Callable[..., Any]:
    """An initializer of a cell's kernel that draws each gate's matrices for inputs and for the state by themselves."""

    def start(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> Any:
        rows, columns = (int(size) for size in shape)
        heights = [rows - units, units] if rows > units else [rows]
        return tf.concat(
            [
                tf.concat([initializer([height, units], dtype=dtype) for _ in range(columns // units)], 1)
                for height in heights
            ],
            0,
        )

    return start


class _CudnnRNN(tf.layers.Layer):
    """A stack of recurrent layers.

    Args:
        num_layers: number of layers.
        num_units: size of the state of each layer and direction.
        input_mode: ``"linear_input"``.
        direction: ``"unidirectional"`` or ``"bidirectional"``.
        dropout: share of elements that are dropped between layers while training.
        seed: seed of the dropout.
        dtype: dtype of the variables.
        kernel_initializer: initializer of each gate's matrices; Glorot's uniform one by default.
        bias_initializer: initializer of biases; zeros by default.
        name: name of the layer.
    """

    _mode: ClassVar[str] = ""

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = "linear_input",
        direction: str = "unidirectional",
        dropout: float = 0.0,
        seed: int | None = None,
        dtype: Any = tf.float32,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name or None)
        if direction not in ("unidirectional", "bidirectional"):
            raise ValueError(
                f"direction must be unidirectional or bidirectional, not {direction}\n"
                + errors.message(
                    f"direction={direction!r}", "'unidirectional' or 'bidirectional'", "direction='bidirectional'"
                )
            )
        if input_mode != "linear_input":
            raise NotImplementedError(
                errors.message(f"input_mode={input_mode!r}", "'linear_input'", "a product with the identity")
            )
        if bias_initializer is not None:
            raise NotImplementedError(
                errors.message(
                    "a bias_initializer",
                    "biases that begin at zero",
                    "variable.load(value, session) after initialisation",
                )
            )
        self._layers, self._units, self._direction = num_layers, num_units, direction
        self._dropout, self._seed, self._start = dropout, seed, kernel_initializer
        self._cells: list[list[Any]] | None = None

    num_layers = property(lambda self: self._layers, doc="Number of layers.")
    num_units = property(lambda self: self._units, doc="Size of the state of each layer and direction.")
    direction = property(lambda self: self._direction, doc="``unidirectional`` or ``bidirectional``.")
    num_dirs = property(lambda self: 2 if self._direction == "bidirectional" else 1, doc="1 or 2.")
    rnn_mode = property(lambda self: self._mode, doc="The kind of cell.")
    input_mode = property(lambda self: "linear_input", doc="How inputs enter.")

    def _cell(self) -> Any:
        raise NotImplementedError

    def state_shape(self, batch_size: int) -> tuple[Any, ...]:
        """Shapes of the states."""
        shape = [self._layers * self.num_dirs, batch_size, self._units]
        return (shape, shape) if self._mode == "lstm" else (shape,)

    def _states(self, given: Any) -> list[Any] | None:
        """States by layer and direction, as cells take them."""
        if given is None:
            return None
        parts = [tf.unstack(part, self._layers * self.num_dirs) for part in given]
        if self._mode == "lstm":
            return [LSTMStateTuple(c, h) for h, c in zip(*parts, strict=True)]
        return list(parts[0])

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: Any = True,
    ) -> tuple[Any, tuple[Any, ...]]:
        """Outputs of the last layer, and the states at the end.

        Args:
            inputs: ``[time, batch, size]``, or ``[batch, time, size]``.
            initial_state: ``(h, c)`` (of a GRU ``(h,)``), each ``[layers * directions, batch, units]``; zeros by
                default.
            sequence_lengths: lengths ``[batch]``; all steps by default.
            time_major: whether time is the first axis.
            training: whether elements are dropped.

        Returns:
            ``outputs``: ``[time, batch, units * directions]`` in the order of the inputs; and states as
            ``initial_state``.
        """
        inputs = tf.convert_to_tensor(inputs)
        if self._cells is None:
            self._cells = [[self._cell() for _ in range(self._layers)] for _ in range(self.num_dirs)]
        cells = [self._dropped(each, training) for each in self._cells]
        states = self._states(initial_state)
        lengths = None if sequence_lengths is None else tf.to_int32(sequence_lengths)
        options: dict[str, Any] = {"sequence_length": lengths, "dtype": inputs.dtype, "time_major": time_major}
        if self.num_dirs == 1:
            outputs, last = tf.nn.dynamic_rnn(
                tf.nn.rnn_cell.MultiRNNCell(cells[0]),
                inputs,
                initial_state=None if states is None else tuple(states),
                **options,
            )
            ends = list(last)
        else:
            outputs, forward, back = tf.contrib.rnn.stack_bidirectional_dynamic_rnn(
                cells[0],
                cells[1],
                inputs,
                initial_states_fw=None if states is None else states[::2],
                initial_states_bw=None if states is None else states[1::2],
                **options,
            )
            ends = [state for pair in zip(forward, back, strict=True) for state in pair]
        self._trainable_weights = [
            v for pair in zip(*self._cells, strict=True) for cell in pair for v in cell.variables
        ]
        if self._mode == "lstm":
            return outputs, (tf.stack([end.h for end in ends]), tf.stack([end.c for end in ends]))
        return outputs, (tf.stack(ends),)

    def _dropped(self, cells: Sequence[Any], training: Any) -> list[Any]:
        if not self._dropout or training is False:
            return list(cells)
        keep = 1.0 - self._dropout
        if training is not True:
            keep = tf.where(training, tf.constant(keep), tf.constant(1.0))
        wrap = tf.nn.rnn_cell.DropoutWrapper
        return [cells[0], *(wrap(cell, input_keep_prob=keep, seed=self._seed) for cell in cells[1:])]

    def _kernel_start(self) -> Any:
        return _by_blocks(self._start or tf.glorot_uniform_initializer(), self._units)


@public("contrib.cudnn_rnn.CudnnLSTM")
class CudnnLSTM(_CudnnRNN):
    """A stack of LSTM layers (forget bias 0)."""

    _mode = "lstm"

    def _cell(self) -> Any:
        cell = CudnnCompatibleLSTMCell(self._units)
        return _started(cell, self._kernel_start())


@public("contrib.cudnn_rnn.CudnnGRU")
class CudnnGRU(_CudnnRNN):
    """A stack of GRU layers, whose reset gate comes after the product."""

    _mode = "gru"

    def _cell(self) -> Any:
        return CudnnCompatibleGRUCell(self._units, kernel_initializer=self._kernel_start())


@public("contrib.cudnn_rnn.CudnnRNNTanh")
class CudnnRNNTanh(_CudnnRNN):
    """A stack of plain recurrent layers with the hyperbolic tangent."""

    _mode = "rnn_tanh"

    def _cell(self) -> Any:
        return _started(tf.nn.rnn_cell.BasicRNNCell(self._units, tf.tanh), self._kernel_start())


@public("contrib.cudnn_rnn.CudnnRNNRelu")
class CudnnRNNRelu(_CudnnRNN):
    """A stack of plain recurrent layers with rectified units."""

    _mode = "rnn_relu"

    def _cell(self) -> Any:
        return _started(tf.nn.rnn_cell.BasicRNNCell(self._units, tf.nn.relu), self._kernel_start())


def _started(cell: Any, initializer: Any) -> Any:
    """The cell, with another initializer of its kernel."""
    add = cell.add_variable

    def started(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "kernel":
            kwargs["initializer"] = initializer
        return add(name, *args, **kwargs)

    cell.add_variable = started
    return cell
