"""More of ``tf.contrib.rnn``: convolutional LSTM, highway connections, stacks of two-directional loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import shapes
from anabranch.ops.nn.windows.public_convolution import convolution
from anabranch.rnn.cells import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    RNNCell,
    assert_like_rnncell,
    product,
    sigmoid,
    tanh,
)
from anabranch.rnn.dynamic import best_effort_batch, bidirectional_dynamic_rnn, transposed
from anabranch.rnn.static import static_bidirectional_rnn
from anabranch.rnn.wrappers import DropoutWrapper, MultiRNNCell, _Wrapper
from anabranch.variables.initializers import Constant
from anabranch.variables.scope import get_variable, variable_scope
from anabranch.variables.scope_state import get_variable_scope

publish_as("contrib.rnn.transpose_batch_time", transposed)
publish_as("contrib.rnn.best_effort_input_batch_size", best_effort_batch)
# Cells had modules of their own within tf.contrib.rnn for some versions.
for _cell in (BasicLSTMCell, BasicRNNCell, DropoutWrapper, GRUCell, LSTMCell, LSTMStateTuple, MultiRNNCell, RNNCell):
    publish_as(f"contrib.rnn.rnn_cell.{_cell.__name__}", _cell)
    publish_as(f"contrib.rnn.core_rnn_cell.{_cell.__name__}", _cell)


@public("contrib.rnn.ConvLSTMCell")
class ConvLSTMCell(RNNCell):
    """LSTM whose products are convolutions (Shi et al. 2015, arXiv:1506.04214).

    Args:
        conv_ndims: number of spatial dimensions: 1, 2 or 3.
        input_shape: shape of an input without the batch, channels last.
        output_channels: number of channels of the output.
        kernel_shape: spatial shape of the filters.
        use_bias: whether to add biases.
        skip_connection: join the input to the output.
        forget_bias: added to the forget gate.
        initializers: how weights start; the scope's if None.
        name: name of the variable scope.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(
                f"Invalid input_shape {list(input_shape)} for conv_ndims={conv_ndims}.\n"
                + errors.message(
                    f"{len(input_shape)} dimensions", f"{conv_ndims + 1} dimensions", "[*spatial, channels]"
                )
            )
        self._spatial = [int(size) for size in input_shape[:-1]]
        self._input_channels = int(input_shape[-1])
        self._output_channels = output_channels
        self._kernel_shape = list(kernel_shape)
        self._use_bias = use_bias
        self._skip_connection = skip_connection
        self._forget_bias = forget_bias
        self._initializers = initializers

    @property
    def output_size(self) -> shapes.TensorShape:
        channels = self._output_channels + (self._input_channels if self._skip_connection else 0)
        return shapes.TensorShape([*self._spatial, channels])

    @property
    def state_size(self) -> LSTMStateTuple:
        return LSTMStateTuple(shapes.TensorShape([*self._spatial, self._output_channels]), self.output_size)

    def call(self, inputs: Any, state: Any) -> Any:
        cell, hidden = state
        axis = len(self._spatial) + 1
        channels, dtype = inputs.shape.as_list()[-1] + hidden.shape.as_list()[-1], inputs.dtype.base
        with variable_scope(get_variable_scope(), initializer=self._initializers):
            kernel = get_variable("kernel", [*self._kernel_shape, channels, 4 * self._output_channels], dtype)
            joined = build("ConcatV2", [inputs, hidden], constant(axis))
            gates = convolution(joined, convert_to_tensor(kernel), "SAME")
            if self._use_bias:
                start = Constant(0.0, dtype=dtype)
                bias = get_variable("biases", [4 * self._output_channels], dtype, initializer=start)
                gates = gates + bias
        count_more(1)  # the number of parts
        i, j, f, o = build("Split", constant(axis), gates, num_split=4)
        new = sigmoid(f + constant(self._forget_bias, dtype)) * cell + sigmoid(i) * tanh(j)
        output = tanh(new) * sigmoid(o)
        if self._skip_connection:
            output = build("ConcatV2", [output, inputs], constant(axis))
        return output, LSTMStateTuple(new, output)


def _sized(dimensions: int) -> type[ConvLSTMCell]:
    class Sized(ConvLSTMCell):
        def __init__(self, name: str = f"conv_{dimensions}d_lstm_cell", **kwargs: Any) -> None:
            super().__init__(conv_ndims=dimensions, name=name, **kwargs)

    Sized.__name__ = Sized.__qualname__ = f"Conv{dimensions}DLSTMCell"
    Sized.__doc__ = f":class:`ConvLSTMCell` with {dimensions} spatial dimension{'s' * (dimensions > 1)}."
    return Sized


for _dimensions in (1, 2, 3):
    publish_as(f"contrib.rnn.Conv{_dimensions}DLSTMCell", _sized(_dimensions))


@public("contrib.rnn.HighwayWrapper")
class HighwayWrapper(_Wrapper):
    """A cell whose inputs pass through gates to its outputs (Srivastava et al. 2015, arXiv:1505.00387).

    Args:
        cell: the cell, whose output is as wide as its input.
        couple_carry_transform_gates: what is not carried is transformed: one gate for both.
        carry_bias_init: how the bias of the carry gate starts.
    """

    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._coupled = couple_carry_transform_gates
        self._carry_bias_init = carry_bias_init

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        output, new = self._cell(inputs, state, scope=scope) if scope is not None else self._cell(inputs, state)
        inputs.shape.assert_is_compatible_with(output.shape)
        carry = self._gate(inputs, "carry", self._carry_bias_init)
        transform = 1 - carry if self._coupled else self._gate(inputs, "transform", -self._carry_bias_init)
        return inputs * carry + output * transform, new

    def _gate(self, inputs: Any, which: str, start: float) -> Any:
        size, dtype = inputs.shape.as_list()[1], inputs.dtype.base
        weight = get_variable(f"{which}_w", [size, size], dtype)
        bias = get_variable(f"{which}_b", [size], dtype, initializer=Constant(start, dtype=dtype))
        return sigmoid(product([inputs], weight, bias))


def _checked(cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any) -> None:
    for argument, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError(
                f"{argument} must be a list of cells (one per layer).\n"
                + errors.message(f"{argument}={cells!r}", "a list", f"{argument}=[cell, ...]")
            )
        for cell in cells:
            assert_like_rnncell(argument, cell)
    if len(cells_fw) != len(cells_bw):
        raise ValueError(
            "Forward and Backward cells must have the same depth.\n"
            + errors.message(
                f"{len(cells_fw)} and {len(cells_bw)} cells",
                "as many cells backward as forward",
                "a pair of cells per layer",
            )
        )
    for argument, states in (("initial_states_fw", states_fw), ("initial_states_bw", states_bw)):
        if states is not None and (not isinstance(states, (list, tuple)) or len(states) != len(cells_fw)):
            raise ValueError(
                f"{argument} must be a list of state tensors (one per layer).\n"
                + errors.message(f"{argument}={states!r}", f"{len(cells_fw)} states", "one state per layer")
            )


@public("contrib.rnn.stack_bidirectional_rnn")
def stack_bidirectional_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Sequence[Any],
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    """Layers of `static_bidirectional_rnn`, each over the joined outputs of the one below.

    Returns:
        ``(outputs, states_fw, states_bw)``: outputs of the last layer, final states of all.
    """
    _checked(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    current, left = list(inputs), []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with variable_scope(f"cell_{i}") as layer:
                current, state_fw, state_bw = static_bidirectional_rnn(
                    forward,
                    backward,
                    current,
                    initial_state_fw=initial_states_fw and initial_states_fw[i],
                    initial_state_bw=initial_states_bw and initial_states_bw[i],
                    sequence_length=sequence_length,
                    dtype=dtype,
                    scope=layer,
                )
            left.append((state_fw, state_bw))
    return current, tuple(state for state, _ in left), tuple(state for _, state in left)


@public("contrib.rnn.stack_bidirectional_dynamic_rnn")
def stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Layers of `bidirectional_dynamic_rnn`, each over the joined outputs of the one below.

    Returns:
        ``(outputs, states_fw, states_bw)``: outputs of the last layer, joined, and final states of all.
    """
    _checked(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    current, left = inputs, []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with variable_scope(f"cell_{i}"):
                outputs, states = bidirectional_dynamic_rnn(
                    forward,
                    backward,
                    current,
                    initial_state_fw=initial_states_fw and initial_states_fw[i],
                    initial_state_bw=initial_states_bw and initial_states_bw[i],
                    sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations,
                    dtype=dtype,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
            current = build("ConcatV2", list(outputs), constant(2))
            left.append(states)
    return current, tuple(state for state, _ in left), tuple(state for _, state in left)
