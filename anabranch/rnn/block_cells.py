"""Cells that TensorFlow 1 ran as one op, and loops in one call: names and results of those, with the ops of the others.

Programs are compiled as a whole here, so a step needs no op of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.values import dtypes, nest
from anabranch.layers.base import Layer
from anabranch.ops.array.public_indexing import reverse, reverse_sequence
from anabranch.ops.math.compare import clip_by_value
from anabranch.rnn.cells import (
    GRUCell,
    LayerRNNCell,
    LSTMCell,
    LSTMStateTuple,
    RNNCell,
    _depth,
    product,
    sigmoid,
    split,
    tanh,
)
from anabranch.rnn.dynamic import dynamic_rnn
from anabranch.rnn.static import static_rnn
from anabranch.variables.initializers import Constant, Zeros
from anabranch.variables.scope_state import get_variable_scope

public("contrib.rnn.LayerRNNCell")(LayerRNNCell)


@public("contrib.rnn.LSTMBlockCell")
class LSTMBlockCell(LSTMCell):
    """`LSTMCell` without projection, named ``lstm_cell``.

    Args:
        num_units: size of output and of each part of the state.
        forget_bias: added to the forget gate.
        cell_clip: clip the cell's value to ``[-cell_clip, cell_clip]``; not if None.
        use_peephole: let the gates see the cell's value.
        dtype: dtype of the variables.
        reuse: whether to use variables that exist.
        name: name of the layer.
    """

    _peepholes = "ifo"

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Any = None,
        name: Any = "lstm_cell",
    ) -> None:
        super().__init__(
            num_units,
            use_peepholes=use_peephole,
            cell_clip=_clip(cell_clip),
            forget_bias=forget_bias,
            reuse=reuse,
            name=name,
            dtype=dtype,
        )


def _clip(limit: float | None) -> float | None:
    return None if limit is None or limit < 0 else limit


@public("contrib.rnn.GRUBlockCellV2")
class GRUBlockCellV2(GRUCell):
    """`GRUCell`, named ``gru_cell``.

    Args:
        num_units: size of state and output.
        cell_size: the same, by an older name.
        reuse: whether to use variables that exist.
        name: name of the layer.
    """

    def __init__(
        self, num_units: int | None = None, cell_size: int | None = None, reuse: Any = None, name: Any = "gru_cell"
    ) -> None:
        if (num_units is None) == (cell_size is None):
            raise ValueError(
                "Exactly one of num_units or cell_size must be provided.\n"
                + errors.message(
                    f"num_units={num_units}, cell_size={cell_size}",
                    "a cell_size equal to num_units",
                    "leave cell_size out",
                )
            )
        size = num_units if num_units is not None else cell_size
        assert size is not None
        super().__init__(size, reuse=reuse, name=name)


@public("contrib.rnn.GRUBlockCell")
class GRUBlockCell(GRUBlockCellV2):
    """`GRUCell` with variables ``w_ru``, ``b_ru``, ``w_c`` and ``b_c``."""

    def build(self, inputs_shape: Any) -> None:
        rows, units = _depth(inputs_shape) + self._num_units, self._num_units
        self._gate_kernel = self.add_variable("w_ru", shape=[rows, 2 * units])
        self._gate_bias = self.add_variable("b_ru", shape=[2 * units], initializer=Constant(1.0))
        self._candidate_kernel = self.add_variable("w_c", shape=[rows, units])
        self._candidate_bias = self.add_variable("b_c", shape=[units], initializer=Zeros())
        self.built = True


@public("contrib.rnn.FusedRNNCell")
class FusedRNNCell:
    """Base of what runs over all of time in one call."""

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, Any]:
        """``(outputs, final_state)`` of ``inputs`` ``[time, batch, depth]``."""
        raise NotImplementedError(
            errors.message(
                f"{type(self).__name__} without __call__",
                "a class that defines __call__",
                "def __call__(self, inputs, state): ... in the class",
            )
        )


@public("contrib.rnn.FusedRNNCellAdaptor")
class FusedRNNCellAdaptor(FusedRNNCell):
    """A cell as a :class:`FusedRNNCell`.

    Args:
        cell: an `RNNCell`.
        use_dynamic_rnn: inputs are a tensor ``[time, batch, depth]``; else a list of steps.
    """

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell
        self._use_dynamic_rnn = use_dynamic_rnn

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, Any]:
        steps = isinstance(inputs, (list, tuple))
        if self._use_dynamic_rnn:
            whole = build("Pack", [convert_to_tensor(item) for item in inputs], axis=0) if steps else inputs
            outputs, state = dynamic_rnn(
                self._cell,
                whole,
                sequence_length=sequence_length,
                initial_state=initial_state,
                dtype=dtype,
                time_major=True,
                scope=scope,
            )
            return (_unstacked(outputs) if steps else outputs), state
        listed = list(inputs) if steps else _unstacked(convert_to_tensor(inputs))
        made, state = static_rnn(
            self._cell, listed, initial_state=initial_state, dtype=dtype, sequence_length=sequence_length, scope=scope
        )
        return (made if steps else build("Pack", made, axis=0)), state


def _unstacked(x: Any) -> list[Any]:
    return list(build("Unpack", x, num=int(x.shape[0]), axis=0))


@public("contrib.rnn.TimeReversedFusedRNN")
class TimeReversedFusedRNN(FusedRNNCell):
    """A :class:`FusedRNNCell` that runs backwards, within each sequence if there is a ``sequence_length``."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, Any]:
        turned = self._turn(inputs, sequence_length)
        outputs, state = self._cell(
            turned, initial_state=initial_state, dtype=dtype, sequence_length=sequence_length, scope=scope
        )
        return self._turn(outputs, sequence_length), state

    def _turn(self, x: Any, lengths: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return _unstacked(self._turn(build("Pack", [convert_to_tensor(item) for item in x], axis=0), lengths))
        return reverse(x, [0]) if lengths is None else reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


class _Step(RNNCell):
    """One step of an LSTM with variables that somebody else holds."""

    def __init__(self, units: int, step: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._units = units
        self._step = step

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._units, self._units)

    @property
    def output_size(self) -> int:
        return self._units

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        return self._step(inputs, state)


@public("contrib.rnn.LSTMBlockFusedCell")
class LSTMBlockFusedCell(Layer):
    """An LSTM over all of time: ``outputs, (c, h) = cell(inputs, initial_state=None, dtype=None,
    sequence_length=None)`` with ``inputs`` ``[time, batch, depth]`` or a list of steps.

    Args:
        num_units: size of output and of each part of the state.
        forget_bias: added to the forget gate.
        cell_clip: clip the cell's value to ``[-cell_clip, cell_clip]``; not if None.
        use_peephole: let the gates see the cell's value.
        reuse: whether to use variables that exist.
        dtype: dtype of the variables.
        name: name of the layer.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: Any = "lstm_fused_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = _clip(cell_clip)
        self._use_peephole = use_peephole

    @property
    def num_units(self) -> int:
        """Size of the output."""
        return self._num_units

    def build(self, input_shape: Any) -> None:
        """Make the variables."""
        rows, units = _depth(input_shape) + self._num_units, self._num_units
        self._kernel = self.add_variable("kernel", shape=[rows, 4 * units])
        self._bias = self.add_variable("bias", shape=[4 * units], initializer=Zeros())
        if self._use_peephole:
            self._w_i_diag = self.add_variable("w_i_diag", shape=[units])
            self._w_f_diag = self.add_variable("w_f_diag", shape=[units])
            self._w_o_diag = self.add_variable("w_o_diag", shape=[units])
        self.built = True

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(inputs, (list, tuple)):
            return super().__call__(inputs, *args, **kwargs)
        whole = build("Pack", [convert_to_tensor(item) for item in inputs], axis=0)
        outputs, state = super().__call__(whole, *args, **kwargs)
        return _unstacked(outputs), state

    def call(self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None) -> Any:
        """Outputs ``[time, batch, units]``, zeros past the end of a sequence, and the last state."""
        if (initial_state is None) == (dtype is None):
            raise ValueError(
                "Either initial_state or dtype needs to be specified\n"
                + errors.message(
                    f"initial_state={initial_state!r}, dtype={dtype!r}", "one of the two arguments", "dtype=tf.float32"
                )
            )
        if initial_state is not None:
            initial_state = LSTMStateTuple(*nest.map_structure(convert_to_tensor, tuple(initial_state)))
        wanted = inputs.dtype.base if dtype is None else dtypes.as_dtype(dtype)
        return dynamic_rnn(
            _Step(self._num_units, self._step),
            inputs,
            sequence_length=sequence_length,
            initial_state=initial_state,
            dtype=wanted,
            time_major=True,
            scope=get_variable_scope(),
        )

    def _step(self, x: Any, state: Any) -> Any:
        c, h = state
        i, j, f, o = split(product([x, h], self._kernel, self._bias), 4)
        f = f + convert_to_tensor(self._forget_bias, f.dtype)
        if self._use_peephole:
            i, f = i + self._w_i_diag * c, f + self._w_f_diag * c
        new = sigmoid(f) * c + sigmoid(i) * tanh(j)
        if self._cell_clip is not None:
            new = clip_by_value(new, -self._cell_clip, self._cell_clip)
        output = sigmoid(o + self._w_o_diag * new if self._use_peephole else o) * tanh(new)
        return output, LSTMStateTuple(new, output)
