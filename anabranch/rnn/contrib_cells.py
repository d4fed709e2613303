"""Cells of ``tf.contrib.rnn``: layer-normalised LSTM, NAS, coupled gates, update gates, attention."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes, nest
from anabranch.ops.math.compare import clip_by_value
from anabranch.ops.nn.bias_and_response import dropout
from anabranch.rnn.cells import (
    LSTMStateTuple,
    RNNCell,
    _activation,
    assert_like_rnncell,
    beside,
    product,
    sigmoid,
    split,
    tanh,
)
from anabranch.rnn.wrappers import linear
from anabranch.variables.initializers import Constant
from anabranch.variables.scope import get_variable, variable_scope
from anabranch.variables.scope_state import get_variable_scope


def _normalised(x: Any, gain: Any, shift: Any) -> Any:
    """Layer normalisation over the last axis (Ba et al. 2016, arXiv:1607.06450)."""
    mean = build("Mean", x, [-1], keep_dims=True)
    variance = build("Mean", build("SquaredDifference", x, mean), [-1], keep_dims=True)
    count_more(2)  # of what TensorFlow does with the mean
    scale = build("Rsqrt", variance + constant(1e-12, x.dtype)) * convert_to_tensor(gain)
    return (x - mean) * scale + convert_to_tensor(shift)


@public("contrib.rnn.LayerNormBasicLSTMCell")
class LayerNormBasicLSTMCell(RNNCell):
    """LSTM with layer normalisation and recurrent dropout (Semeniuta et al. 2016, arXiv:1603.05118).

    Args:
        num_units: size of output and of each part of the state.
        forget_bias: added to the forget gate.
        input_size: must be None.
        activation: function; tanh if None.
        layer_norm: whether to normalise.
        norm_gain: how the gains start.
        norm_shift: how the shifts start.
        dropout_keep_prob: probability of keeping a new value, a number or scalar tensor.
        dropout_prob_seed: seed of the dropout.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Any = None,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        if input_size is not None:
            raise ValueError("The input_size parameter is deprecated.")
        self._num_units = num_units
        self._activation = _activation(activation, tanh)
        self._forget_bias = forget_bias
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift
        self._reuse = reuse

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_units

    def _norm(self, x: Any, scope: str, dtype: Any) -> Any:
        shape = [x.shape.as_list()[-1]]
        with variable_scope(scope):
            gain = get_variable("gamma", shape, dtype=dtype, initializer=Constant(self._norm_gain))
            shift = get_variable("beta", shape, dtype=dtype, initializer=Constant(self._norm_shift))
        return _normalised(x, gain, shift)

    def call(self, inputs: Any, state: Any) -> Any:
        c, h = state
        dtype = inputs.dtype.base
        joined = beside(inputs, h)  # before the variables, as in TensorFlow: their seeds count operations
        kernel = get_variable("kernel", [joined.shape.as_list()[-1], 4 * self._num_units], dtype=dtype)
        gates = product([joined], kernel)
        if not self._layer_norm:
            gates = build("BiasAdd", gates, convert_to_tensor(get_variable("bias", [4 * self._num_units], dtype=dtype)))
        i, j, f, o = split(gates, 4)
        if self._layer_norm:
            i = self._norm(i, "input", dtype)
            j = self._norm(j, "transform", dtype)
            f = self._norm(f, "forget", dtype)
            o = self._norm(o, "output", dtype)
        g = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            g = dropout(g, self._keep_prob, seed=self._seed)
        new_c = c * sigmoid(f + constant(self._forget_bias, dtype)) + sigmoid(i) * g
        if self._layer_norm:
            new_c = self._norm(new_c, "state", dtype)
        new_h = self._activation(new_c) * sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


@public("contrib.rnn.NASCell")
class NASCell(RNNCell):
    """The cell that an architecture search found (Zoph and Le 2017, arXiv:1611.01578).

    Args:
        num_units: size of the cell's value.
        num_proj: size of the output after a projection; none if None.
        use_bias: add biases (``use_biases`` in older versions).
        reuse: whether to use variables that exist.
    """

    _GATES = 8

    def __init__(
        self, num_units: int, num_proj: int | None = None, use_bias: bool = False, reuse: Any = None, **kwargs: Any
    ):
        use_bias = kwargs.pop("use_biases", use_bias)
        super().__init__(_reuse=reuse, **kwargs)
        self._num_units = num_units
        self._num_proj = num_proj
        self._use_bias = use_bias
        self._reuse = reuse

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_proj or self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        c, m = state
        dtype = inputs.dtype.base
        depth = inputs.shape.as_list()[-1]
        if depth is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        width = self._GATES * self._num_units
        recurrent = get_variable("recurrent_kernel", [self.output_size, width], dtype=dtype)
        kernel = get_variable("kernel", [depth, width], dtype=dtype)
        from_state, from_input = product([m], recurrent), product([inputs], kernel)
        if self._use_bias:
            start = Constant(0.0)
            from_state = from_state + convert_to_tensor(get_variable("recurrent_bias", [width], dtype, start))
            from_input = from_input + convert_to_tensor(get_variable("bias", [width], dtype, start))
        s, x = split(from_state, self._GATES), split(from_input, self._GATES)

        def relu(value: Any) -> Any:
            return build("Relu", value)

        first = [
            sigmoid(x[0] + s[0]),
            relu(x[1] + s[1]),
            sigmoid(x[2] + s[2]),
            relu(x[3] * s[3]),
            tanh(x[4] + s[4]),
            sigmoid(x[5] + s[5]),
            tanh(x[6] + s[6]),
            sigmoid(x[7] + s[7]),
        ]
        second = [
            tanh(first[0] * first[1]),
            tanh(first[2] + first[3]),
            tanh(first[4] * first[5]),
            sigmoid(first[6] + first[7]),
        ]
        second[0] = tanh(second[0] + c)
        new_c = second[0] * second[1]
        new_m = tanh(new_c * tanh(second[2] + second[3]))
        if self._num_proj is not None:
            projection = get_variable("projection_weights", [self._num_units, self._num_proj], dtype=dtype)
            new_m = product([new_m], projection)
        return new_m, LSTMStateTuple(new_c, new_m)


@public("contrib.rnn.CoupledInputForgetGateLSTMCell")
class CoupledInputForgetGateLSTMCell(RNNCell):
    """LSTM whose input gate is one minus its forget gate (Greff et al. 2015, arXiv:1503.04069).

    Args:
        num_units: size of the cell's value.
        use_peepholes: let the gates see the cell's value.
        initializer: how weights start.
        num_proj: size of the output after a projection; none if None.
        proj_clip: clip the projected output.
        num_unit_shards: number of variables that hold the kernel, cut along its rows.
        num_proj_shards: number of variables that hold the projection, cut along its rows.
        forget_bias: added to the forget gate.
        state_is_tuple: the state is an `LSTMStateTuple`; else one tensor.
        activation: function of the new value.
        reuse: whether to use variables that exist.
        layer_norm: whether to normalise gates and the new value.
        norm_gain: how the gains start.
        norm_shift: how the shifts start.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._shards, self._proj_shards = num_unit_shards, num_proj_shards
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _activation(activation, tanh)
        self._reuse = reuse

    @property
    def state_size(self) -> Any:
        size = self.output_size
        return LSTMStateTuple(self._num_units, size) if self._state_is_tuple else self._num_units + size

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        if self._state_is_tuple:
            c, m = state
        else:
            c = build("Slice", state, [0, 0], [-1, self._num_units])
            m = build("Slice", state, [0, self._num_units], [-1, self.output_size])
        dtype = inputs.dtype.base
        rows, units = inputs.shape.as_list()[-1] + self.output_size, self._num_units
        kernel = self._joined("W", [rows, 3 * units], dtype, self._shards)
        bias = get_variable("B", [3 * units], dtype, initializer=Constant(0.0))
        j, f, o = split(product([inputs, m], kernel, None if self._layer_norm else bias), 3)
        if self._layer_norm:
            j, f, o = (self._norm(x, name, dtype) for x, name in ((j, "transform"), (f, "forget"), (o, "output")))
        seen_by_f = seen_by_o = None
        if self._use_peepholes:
            seen_by_f = get_variable("W_F_diag", [units], dtype, initializer=self._initializer)
            seen_by_o = get_variable("W_O_diag", [units], dtype, initializer=self._initializer)
        f = f + constant(self._forget_bias, dtype)
        gate = sigmoid(f if seen_by_f is None else f + seen_by_f * c)
        new = gate * c + (1 - gate) * self._activation(j)
        if self._layer_norm:
            new = self._norm(new, "state", dtype)
        output = sigmoid(o if seen_by_o is None else o + seen_by_o * new) * self._activation(new)
        if self._num_proj is not None:
            output = product([output], self._joined("W_P", [units, self._num_proj], dtype, self._proj_shards))
            if self._proj_clip is not None:
                output = clip_by_value(output, -self._proj_clip, self._proj_clip)
        if self._state_is_tuple:
            return output, LSTMStateTuple(new, output)
        return output, build("ConcatV2", [new, output], constant(1))

    def _joined(self, name: str, shape: list[int], dtype: Any, shards: int) -> Any:
        """A matrix that lies in variables of its rows, ``name_0`` and the next."""
        if shards > shape[0]:
            raise ValueError(
                f"Too many shards: shape={shape}, num_shards={shards}\n"
                + errors.message(f"{shards} shards of {shape[0]} rows", "a row for each", f"at most {shape[0]} shards")
            )
        rows = [shape[0] // shards + (shard < shape[0] % shards) for shard in range(shards)]
        parts = [
            get_variable(f"{name}_{shard}", [count, shape[1]], dtype, initializer=self._initializer)
            for shard, count in enumerate(rows)
        ]
        return parts[0] if shards == 1 else build("ConcatV2", parts, constant(0))

    def _norm(self, x: Any, scope: str, dtype: Any) -> Any:
        with variable_scope(scope):
            shape = [x.shape.as_list()[-1]]
            gain = get_variable("gamma", shape, dtype, initializer=Constant(self._norm_gain))
            shift = get_variable("beta", shape, dtype, initializer=Constant(self._norm_shift))
        return _normalised(x, gain, shift)


@public("contrib.rnn.UGRNNCell")
class UGRNNCell(RNNCell):
    """Update-gate recurrent cell (Collins et al. 2017, arXiv:1611.09913)."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = _activation(activation, tanh)
        self._reuse = reuse

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            g, c = split(linear(beside(inputs, state), 2 * self._num_units, True), 2)
        gate = sigmoid(g + constant(self._forget_bias, g.dtype))
        new = gate * state + (1 - gate) * self._activation(c)
        return new, new


@public("contrib.rnn.AttentionCellWrapper")
class AttentionCellWrapper(RNNCell):
    """A cell that attends to its last outputs (Bahdanau et al. 2014, arXiv:1409.0473).

    Args:
        cell: the cell inside.
        attn_length: how many outputs it looks back.
        attn_size: size of the attention vector; the cell's output size if None.
        attn_vec_size: size of the hidden layer of the attention; ``attn_size`` if None.
        input_size: size that inputs are projected to; their own if None.
        state_is_tuple: the state is ``(cell state, attention, last outputs)``; else one tensor.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        assert_like_rnncell("cell", cell)
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        if nest.is_nested(cell.state_size) and not state_is_tuple:
            raise ValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. "
                f"State size is: {cell.state_size}\n"
                + errors.message(
                    "a cell whose state is a tuple", "state_is_tuple=True", "AttentionCellWrapper(cell, n)"
                )
            )
        self._cell = cell
        self._attn_length = attn_length
        self._attn_size = attn_size if attn_size is not None else cell.output_size
        self._attn_vec_size = attn_vec_size if attn_vec_size is not None else self._attn_size
        self._input_size = input_size
        self._state_is_tuple = state_is_tuple
        self._reuse = reuse

    @property
    def state_size(self) -> Any:
        size = (self._cell.state_size, self._attn_size, self._attn_size * self._attn_length)
        return size if self._state_is_tuple else sum(size)

    @property
    def output_size(self) -> int:
        return self._attn_size

    def call(self, inputs: Any, state: Any) -> Any:
        if self._state_is_tuple:
            state, attns, attn_states = state
        else:
            whole, size = state, self._cell.state_size
            state = build("Slice", whole, [0, 0], [-1, size])
            attns = build("Slice", whole, [0, size], [-1, self._attn_size])
            attn_states = build("Slice", whole, [0, size + self._attn_size], [-1, self._attn_size * self._attn_length])
        attn_states = build("Reshape", attn_states, [-1, self._attn_length, self._attn_size])
        width = self._input_size if self._input_size is not None else inputs.shape.as_list()[1]
        mixed = linear([inputs, attns], width, True)
        output, new_state = self._cell(mixed, state)
        parts = nest.flatten(new_state)
        query = build("ConcatV2", parts, constant(1)) if len(parts) > 1 else parts[0]
        count_more(2 * (len(parts) == 1))  # a state of one part is joined, too
        new_attns, new_attn_states = self._attention(query, attn_states)
        with variable_scope("attn_output_projection"):
            output = linear([output, new_attns], self._attn_size, True)
        new_attn_states = build("ConcatV2", [new_attn_states, build("ExpandDims", output, 1)], constant(1))
        new_attn_states = build("Reshape", new_attn_states, [-1, self._attn_length * self._attn_size])
        left = (new_state, new_attns, new_attn_states)
        return output, left if self._state_is_tuple else build("ConcatV2", list(left), constant(1))

    def _attention(self, query: Any, states: Any) -> tuple[Any, Any]:
        with variable_scope("attention"):
            dtype = dtypes.as_dtype(query.dtype.base)
            kernel = get_variable("attn_w", [1, 1, self._attn_size, self._attn_vec_size], dtype)
            weight = get_variable("attn_v", [self._attn_vec_size], dtype)
            hidden = build("Reshape", states, [-1, self._attn_length, 1, self._attn_size])
            features = build("Conv2D", hidden, convert_to_tensor(kernel), strides=[1, 1, 1, 1], padding="SAME")
            y = build("Reshape", linear([query], self._attn_vec_size, True), [-1, 1, 1, self._attn_vec_size])
            score = build("Sum", convert_to_tensor(weight) * tanh(features + y), [2, 3])
            weights = build("Reshape", build("Softmax", score), [-1, self._attn_length, 1, 1])
            attended = build("Sum", weights * hidden, [1, 2])
            newer_states = build("Slice", states, [0, 1, 0], [-1, -1, -1])
            return build("Reshape", attended, [-1, self._attn_size]), newer_states
