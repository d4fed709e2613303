"""Recurrent cells: one step of a recurrent network as a layer, with variables named as TensorFlow 1 names them.

Formulas follow the papers named in each class, in the order of gates that TensorFlow's checkpoints have: GRU r, u;
LSTM i, j, f, o (input, new value, forget, output).
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes, nest, shapes
from anabranch.layers.arguments import activation_of
from anabranch.layers.base import InputSpec, Layer
from anabranch.ops.math.compare import clip_by_value
from anabranch.variables.initializers import Constant, Zeros
from anabranch.variables.partitioned import fixed_size_partitioner
from anabranch.variables.scope import variable_scope
from anabranch.variables.scope_state import get_variable_scope

WEIGHTS, BIAS = "kernel", "bias"
_LOG = logging.getLogger("anabranch")


def concat(prefix: Any, suffix: Any) -> Any:
    """The shape ``[prefix, *suffix]`` as a tensor; either may be a number, a shape, or a tensor."""
    parts = []
    for part in (prefix, suffix):
        if isinstance(part, Tensor):
            part = build("Cast", part, DstT=dtypes.int32) if part.dtype.base is not dtypes.int32 else part
            parts.append(build("ExpandDims", part, 0) if part._shape == () else part)
        else:
            sizes = shapes.TensorShape([part] if isinstance(part, int) else part).as_list()
            parts.append(constant(sizes, dtypes.int32))
    return build("ConcatV2", parts, constant(0))


def zero_state_tensors(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros in the structure of ``state_size``, each ``[batch_size, *size]``; ``dtype`` may be a structure, too."""

    def zeros(size: Any, of: Any) -> Any:
        wanted = dtypes.as_dtype(of)
        filled = build("Fill", concat(batch_size, size), constant(0, wanted), name="zeros")
        known = batch_size if isinstance(batch_size, int) else None
        count_more(2 if known is not None else 3)
        sizes = [size] if isinstance(size, int) else shapes.TensorShape(size).as_list()
        filled.set_shape([known, *sizes])
        return filled

    if nest.is_nested(dtype):
        return nest.map_structure(zeros, state_size, dtype)
    return nest.map_structure(lambda size: zeros(size, dtype), state_size)


@public("nn.rnn_cell.RNNCell", "contrib.rnn.RNNCell")
class RNNCell(Layer):
    """Base of all cells: ``output, new_state = cell(inputs, state)``.

    A cell says its :attr:`state_size` and :attr:`output_size` (numbers, shapes, or structures of them).
    """

    def __init__(self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any) -> None:
        if kwargs.pop("input_size", None) is not None:
            _LOG.warning("%s: The input_size parameter is deprecated.", self)
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self._is_cell = True

    def __call__(self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        if scope is not None:
            with variable_scope(scope, custom_getter=self._cell_getter) as entered:
                return super().__call__(inputs, state, *args, scope=entered, **kwargs)
        cell_scope = getattr(self, "_cell_scope", None)
        if cell_scope is None:
            cell_scope = self._cell_scope = variable_scope(get_variable_scope(), custom_getter=self._cell_getter)
        with cell_scope:
            return super().__call__(inputs, state, *args, **kwargs)

    def _cell_getter(self, getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Note variables that a cell of a user makes by ``tf.get_variable`` in :meth:`call`."""
        variable = getter(*args, **kwargs)
        trainable = kwargs.get("trainable", True)
        weights = self._trainable_weights if trainable or trainable is None else self._non_trainable_weights
        if not self.built or not any(variable is other for other in weights):
            parts = list(variable) if hasattr(variable, "_get_variable_list") else [variable]
            weights.extend(part for part in parts if not any(part is other for other in weights))
        return variable

    @property
    def state_size(self) -> Any:
        """Size of the state, or a structure of sizes."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """Size of the output, or a structure of sizes."""
        raise NotImplementedError("Abstract method")

    def build(self, _: Any) -> None:
        """Nothing to make: cells of users make their variables when they are called."""

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """A state of zeros for a batch of inputs, or for a batch size and dtype."""
        if inputs is not None:
            inputs = convert_to_tensor(inputs)
            batch_size = inputs._shape[0] if inputs._shape and inputs._shape[0] is not None else _batch_of(inputs)
            dtype = inputs.dtype if dtype is None else dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                "batch_size and dtype cannot be None while constructing initial state\n"
                + errors.message(
                    f"batch_size={batch_size}, dtype={dtype}",
                    "both arguments, or inputs",
                    "cell.get_initial_state(batch_size=32, dtype=tf.float32)",
                )
            )
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros.

        Args:
            batch_size: a number or an integer scalar.
            dtype: dtype of the state, or a structure of them.
        """
        last = getattr(self, "_last_zero_state", None)
        place = current_builder().place
        if last is not None and last[0] is place and last[1] is batch_size and last[2] == dtype:
            return last[3]
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            state = zero_state_tensors(self.state_size, batch_size, dtype)
        if isinstance(batch_size, Tensor):
            self._last_zero_state = (place, batch_size, dtype, state)
        return state


def _batch_of(inputs: Any) -> Any:
    return build("StridedSlice", build("Shape", inputs), [0], [1], [1], shrink_axis_mask=1)


def _depth(inputs_shape: Any) -> int:
    depth = shapes.TensorShape(inputs_shape).as_list()[-1]
    if depth is None:
        raise ValueError(
            f"Expected inputs.shape[-1] to be known, saw shape: {inputs_shape}\n"
            + errors.message(f"inputs of shape {inputs_shape}", "a known last dimension", "inputs.set_shape([..., n])")
        )
    return int(depth)


def _activation(given: Any, default: Callable[..., Any]) -> Callable[..., Any]:
    return default if given is None else activation_of(given) or _linear


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return build("Tanh", x)


def sigmoid(x: Any) -> Any:
    """Logistic function."""
    return build("Sigmoid", x)


def _linear(x: Any) -> Any:
    return x


def product(inputs: Sequence[Any], kernel: Any, bias: Any = None) -> Any:
    """``concat(inputs, 1) @ kernel + bias``."""
    joined = inputs[0] if len(inputs) == 1 else build("ConcatV2", list(inputs), constant(1))
    result = build("MatMul", joined, convert_to_tensor(kernel))
    return result if bias is None else build("BiasAdd", result, convert_to_tensor(bias))


def beside(*inputs: Any) -> Any:
    """Matrices joined column by column."""
    return build("ConcatV2", list(inputs), constant(1))


def split(x: Any, count: int) -> list[Any]:
    """Equal parts along axis 1."""
    count_more(1)  # the number of parts, or the axis of its own
    parts = build("Split", constant(1), x, num_split=count)
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


class LayerRNNCell(RNNCell):
    """A cell whose variables are made in ``build``, like those of any layer."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables."""
        raise NotImplementedError("Abstract method")


@public("nn.rnn_cell.BasicRNNCell", "contrib.rnn.BasicRNNCell")
class BasicRNNCell(LayerRNNCell):
    """``output = new_state = activation(W [inputs, state] + b)``.

    Args:
        num_units: size of state and output.
        activation: function; tanh if None.
        reuse: whether to use variables that exist.
        name: name of the layer.
        dtype: dtype of the variables.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        depth = _depth(inputs_shape)
        self._kernel = self.add_variable(WEIGHTS, shape=[depth + self._num_units, self._num_units])
        self._bias = self.add_variable(BIAS, shape=[self._num_units], initializer=Zeros(dtype=self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        output = self._activation(product([inputs, state], self._kernel, self._bias))
        return output, output


@public("nn.rnn_cell.GRUCell", "contrib.rnn.GRUCell")
class GRUCell(LayerRNNCell):
    """Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078).

    Args:
        num_units: size of state and output.
        activation: function of the new value; tanh if None.
        reuse: whether to use variables that exist.
        kernel_initializer: how the weights start.
        bias_initializer: how the biases start; ones for the gates and zeros for the new value if None.
        name: name of the layer.
        dtype: dtype of the variables.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation, tanh)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        rows, units = _depth(inputs_shape) + self._num_units, self._num_units
        start = self._bias_initializer
        ones = Constant(1.0, dtype=self.dtype)
        zeros = Zeros(dtype=self.dtype)
        self._gate_kernel = self.add_variable(
            f"gates/{WEIGHTS}", shape=[rows, 2 * units], initializer=self._kernel_initializer
        )
        self._gate_bias = self.add_variable(f"gates/{BIAS}", shape=[2 * units], initializer=start or ones)
        self._candidate_kernel = self.add_variable(
            f"candidate/{WEIGHTS}", shape=[rows, units], initializer=self._kernel_initializer
        )
        self._candidate_bias = self.add_variable(f"candidate/{BIAS}", shape=[units], initializer=start or zeros)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        r, u = split(sigmoid(product([inputs, state], self._gate_kernel, self._gate_bias)), 2)
        c = self._activation(product([inputs, r * state], self._candidate_kernel, self._candidate_bias))
        new = u * state + (1 - u) * c
        return new, new


_Pair = collections.namedtuple("LSTMStateTuple", ("c", "h"))  # type: ignore[name-match]


@public("nn.rnn_cell.LSTMStateTuple", "contrib.rnn.LSTMStateTuple")
class LSTMStateTuple(_Pair):
    """State of an LSTM: the cell's value ``c`` and the output ``h``."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """Dtype of both."""
        c, h = self
        if c.dtype != h.dtype:
            raise TypeError(f"Inconsistent internal state: {c.dtype} vs {h.dtype}")
        return c.dtype


@public("nn.rnn_cell.BasicLSTMCell", "contrib.rnn.BasicLSTMCell")
class BasicLSTMCell(LayerRNNCell):
    """LSTM (Zaremba et al. 2014, arXiv:1409.2329), without peepholes, clipping and projection.

    Args:
        num_units: size of output and of each part of the state.
        forget_bias: added to the forget gate.
        state_is_tuple: the state is an `LSTMStateTuple`; else one tensor ``[c, h]`` along axis 1.
        activation: function; tanh if None.
        reuse: whether to use variables that exist.
        name: name of the layer.
        dtype: dtype of the variables.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _activation(activation, tanh)

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units) if self._state_is_tuple else 2 * self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        rows, units = _depth(inputs_shape) + self._num_units, self._num_units
        self._kernel = self.add_variable(WEIGHTS, shape=[rows, 4 * units])
        self._bias = self.add_variable(BIAS, shape=[4 * units], initializer=Zeros(dtype=self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        c, h = state if self._state_is_tuple else split(state, 2)
        i, j, f, o = split(product([inputs, h], self._kernel, self._bias), 4)
        new_c = c * sigmoid(f + constant(self._forget_bias, f.dtype)) + sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * sigmoid(o)
        return new_h, self._state(new_c, new_h)

    def _state(self, c: Any, h: Any) -> Any:
        return LSTMStateTuple(c, h) if self._state_is_tuple else build("ConcatV2", [c, h], constant(1))


@public("nn.rnn_cell.LSTMCell", "contrib.rnn.LSTMCell")
class LSTMCell(LayerRNNCell):
    """LSTM with peepholes, clipping and projection (Sak et al. 2014, research.google.com/pubs/archive/43905.pdf).

    Args:
        num_units: size of the cell's value.
        use_peepholes: let the gates see the cell's value.
        cell_clip: clip the cell's value to ``[-cell_clip, cell_clip]``.
        initializer: how weights and projection start.
        num_proj: size of the output after a projection; none if None.
        proj_clip: clip the projected output.
        num_unit_shards: cut the weights into as many variables.
        num_proj_shards: cut the projection into as many variables.
        forget_bias: added to the forget gate.
        state_is_tuple: the state is an `LSTMStateTuple`; else one tensor ``[c, h]`` along axis 1.
        activation: function; tanh if None.
        reuse: whether to use variables that exist.
        name: name of the layer.
        dtype: dtype of the variables.
    """

    _peepholes: ClassVar[str] = "fio"
    """The order in which the gates' diagonals are made, which `tf.global_variables` shows."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = _activation(activation, tanh)
        self._output_size = num_proj or num_units

    @property
    def state_size(self) -> Any:
        if self._state_is_tuple:
            return LSTMStateTuple(self._num_units, self._output_size)
        return self._num_units + self._output_size

    @property
    def output_size(self) -> int:
        return self._output_size

    def build(self, inputs_shape: Any) -> None:
        rows, units = _depth(inputs_shape) + self._output_size, self._num_units
        self._kernel = self.add_variable(
            WEIGHTS,
            shape=[rows, 4 * units],
            initializer=self._initializer,
            partitioner=_parts(self._num_unit_shards),
        )
        zeros = Zeros(dtype=dtypes.as_dtype(self.dtype or dtypes.float32))
        self._bias = self.add_variable(BIAS, shape=[4 * units], initializer=zeros)
        if self._use_peepholes:
            made = {
                gate: self.add_variable(f"w_{gate}_diag", shape=[units], initializer=self._initializer)
                for gate in self._peepholes
            }
            self._w_f_diag, self._w_i_diag, self._w_o_diag = made["f"], made["i"], made["o"]
        if self._num_proj is not None:
            self._proj_kernel = self.add_variable(
                f"projection/{WEIGHTS}",
                shape=[units, self._num_proj],
                initializer=self._initializer,
                partitioner=_parts(self._num_proj_shards),
            )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        if self._state_is_tuple:
            c, m = state
        else:
            c = build("Slice", state, [0, 0], [-1, self._num_units])
            m = build("Slice", state, [0, self._num_units], [-1, self._output_size])
        i, j, f, o = split(product([inputs, m], self._kernel, self._bias), 4)
        f = f + constant(self._forget_bias, f.dtype)
        if self._use_peepholes:
            f = f + self._w_f_diag * c
            i = i + self._w_i_diag * c
        new = sigmoid(f) * c + sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            new = clip_by_value(new, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + self._w_o_diag * new
        output = sigmoid(o) * self._activation(new)
        if self._num_proj is not None:
            output = product([output], self._proj_kernel)
            if self._proj_clip is not None:
                output = clip_by_value(output, -self._proj_clip, self._proj_clip)
        if self._state_is_tuple:
            return output, LSTMStateTuple(new, output)
        return output, build("ConcatV2", [new, output], constant(1))


def _parts(count: int | None) -> Any:
    return None if count is None else fixed_size_partitioner(count)


def assert_like_rnncell(name: str, cell: Any) -> None:
    """Refuse what is not a cell.

    Raises:
        TypeError: it has no ``output_size``, ``state_size``, ``zero_state``, or cannot be called.
    """
    missing = [
        problem
        for problem, ok in (
            ("'output_size' property is missing", hasattr(cell, "output_size")),
            ("'state_size' property is missing", hasattr(cell, "state_size")),
            (
                "either 'zero_state' or 'get_initial_state' method is required",
                hasattr(cell, "zero_state") or hasattr(cell, "get_initial_state"),
            ),
            ("is not callable", callable(cell)),
        )
        if not ok
    ]
    if missing:
        raise TypeError(
            f"The argument {name!r} ({cell!r}) is not an RNNCell: {', '.join(missing)}.\n"
            + errors.message(f"{cell!r}", "a cell", "tf.nn.rnn_cell.BasicLSTMCell(num_units)")
        )
