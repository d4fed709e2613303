"""LSTMs over time and frequency: one that runs over windows of the features, and grids of two such.

The features of a step are cut into overlapping windows (``feature_size`` wide, ``frequency_skip`` apart). Each window
has a state of its own over time, and what a window gives is seen by the next one of the same step (Sainath and Li
2016; Kalchbrenner et al. 2015, arXiv:1507.01526).
"""

from __future__ import annotations

import collections
import logging
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.rnn.cells import RNNCell

_LOG = logging.getLogger("anabranch")


def sharded(name: str, shape: list[int], dtype: Any, shards: int) -> Any:
    """A matrix whose rows lie in ``shards`` variables ``name_0``, ``name_1``, ..."""
    if shards > shape[0]:
        raise ValueError(
            f"Too many shards: shape={shape}, num_shards={shards}\n"
            + errors.message(f"{shards} shards of {shape[0]} rows", "at most a shard for each row", "num_unit_shards=1")
        )
    rows = [shape[0] // shards + (index < shape[0] % shards) for index in range(shards)]
    parts = [tf.get_variable(f"{name}_{index}", [count, *shape[1:]], dtype=dtype) for index, count in enumerate(rows)]
    return parts[0] if shards == 1 else tf.concat(parts, 0, name=f"{name}/concat")


def _clipped(x: Any, limit: float | None) -> Any:
    return x if limit is None else tf.clip_by_value(x, -limit, limit)


def _width(inputs: Any) -> int:
    size = inputs.shape.with_rank(2).as_list()[1]
    if size is None:
        raise ValueError(
            "Cannot infer input_size from static shape inference.\n"
            + errors.message(
                f"inputs of shape {inputs.shape}", "a known number of features", "inputs.set_shape([None, n])"
            )
        )
    return int(size)


@public("contrib.rnn.TimeFreqLSTMCell")
class TimeFreqLSTMCell(RNNCell):
    """An LSTM that shares its weights over windows of the features; its state is one tensor.

    Args:
        num_units: size of each part of the state.
        use_peepholes: let gates see the cell's value.
        cell_clip: clip the cell's value to ``[-cell_clip, cell_clip]``; not if None.
        initializer: of the variables.
        num_unit_shards: number of variables that hold the weights.
        forget_bias: added to the forget gate.
        feature_size: width of a window.
        frequency_skip: how far windows are apart.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: Any = None,
        frequency_skip: int = 1,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_unit_shards = num_unit_shards
        self._forget_bias = forget_bias
        self._feature_size = feature_size
        self._frequency_skip = frequency_skip

    @property
    def output_size(self) -> int:
        return self._num_units

    @property
    def state_size(self) -> int:
        return 2 * self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        units, dtype = self._num_units, inputs.dtype.base
        starts = range(0, _width(inputs) - self._feature_size + 1, self._frequency_skip)
        windows = [inputs[:, start : start + self._feature_size] for start in starts]
        kernel = sharded("W", [self._feature_size + 2 * units, 4 * units], dtype, self._num_unit_shards)
        bias = tf.get_variable("B", [4 * units], initializer=tf.zeros_initializer(), dtype=dtype)
        if self._use_peepholes:
            see_f, see_i, see_o = (tf.get_variable(f"W_{gate}_diag", [units], dtype=dtype) for gate in "FIO")
        below = tf.zeros([tf.shape(inputs)[0], units], dtype)
        outputs, states = [], []
        for index, window in enumerate(windows):
            c_old = state[:, 2 * index * units : (2 * index + 1) * units]
            m_old = state[:, (2 * index + 1) * units : (2 * index + 2) * units]
            gates = tf.nn.bias_add(tf.matmul(tf.concat([window, m_old, below], 1), kernel), bias)
            i, j, f, o = tf.split(gates, 4, axis=1)
            f = f + self._forget_bias
            if self._use_peepholes:
                f, i = f + see_f * c_old, i + see_i * c_old
            c = _clipped(tf.sigmoid(f) * c_old + tf.sigmoid(i) * tf.tanh(j), self._cell_clip)
            below = tf.sigmoid(o + see_o * c if self._use_peepholes else o) * tf.tanh(c)
            outputs.append(below)
            states += [c, below]
        return tf.concat(outputs, 1), tf.concat(states, 1)


@public("contrib.rnn.GridLSTMCell")
class GridLSTMCell(RNNCell):
    """A grid of an LSTM over time and one over frequency, in one or more blocks of windows of the features.

    Args:
        num_units: size of each part of each window's state.
        use_peepholes: let gates see the cells' values.
        share_time_frequency_weights: whether both LSTMs have the same weights.
        cell_clip: clip the cells' values to ``[-cell_clip, cell_clip]``; not if None.
        initializer: of the variables.
        num_unit_shards: number of variables that hold a matrix of weights.
        forget_bias: added to the forget gates.
        feature_size: width of a window.
        frequency_skip: how far windows are apart.
        num_frequency_blocks: number of windows in each block.
        start_freqindex_list: where the blocks begin; one block of all features if None.
        end_freqindex_list: where the blocks end.
        couple_input_forget_gates: whether the forget gate is one minus the input gate.
        state_is_tuple: whether the state is a tuple with a name for each part; else one tensor.
        reuse: whether to use variables that exist.
    """

    _DIRECTIONS: tuple[str, ...] = ("",)

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: Any = None,
        frequency_skip: Any = None,
        num_frequency_blocks: list[int] | None = None,
        start_freqindex_list: list[int] | None = None,
        end_freqindex_list: list[int] | None = None,
        couple_input_forget_gates: bool = False,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        if num_frequency_blocks is None:
            raise ValueError(
                "Must specify num_frequency_blocks\n"
                + errors.message(
                    "num_frequency_blocks=None", "the number of windows of each block", "num_frequency_blocks=[2]"
                )
            )
        if not state_is_tuple:
            _LOG.warning("%s: a state that is one tensor is slower; write state_is_tuple=True.", self)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._share = share_time_frequency_weights
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_unit_shards = num_unit_shards
        self._forget_bias = forget_bias
        self._feature_size = feature_size
        self._frequency_skip = frequency_skip
        self._blocks = [int(windows) for windows in num_frequency_blocks]
        self._starts = start_freqindex_list
        self._ends = end_freqindex_list
        self._couple = couple_input_forget_gates
        self._state_tuple_type: Any = None
        if state_is_tuple:
            self._state_tuple_type = collections.namedtuple(  # type: ignore[misc]
                self._tuple_name(),
                [
                    f"{direction}state_f{window:02d}_b{block:02d}_{part}"
                    for direction in self._DIRECTIONS
                    for block, windows in enumerate(self._blocks)
                    for window in range(windows)
                    for part in "cm"
                ],
            )

    def _tuple_name(self) -> str:
        return "GridLSTMStateTuple"

    @property
    def output_size(self) -> int:
        return 2 * self._num_units * sum(self._blocks) * len(self._DIRECTIONS)

    @property
    def state_size(self) -> Any:
        if self._state_tuple_type is None:
            return self.output_size
        return self._state_tuple_type(*[self._num_units] * len(self._state_tuple_type._fields))

    @property
    def state_tuple_type(self) -> Any:
        """The class of the state, or None."""
        return self._state_tuple_type

    def call(self, inputs: Any, state: Any) -> Any:
        outputs, states = self._direction(self._windows(inputs), state, "")
        joined = tf.concat(states, 1) if self._state_tuple_type is None else self._state_tuple_type(*states)
        return tf.concat(outputs, 1), joined

    def _direction(self, blocks: list[list[Any]], state: Any, prefix: str) -> tuple[list[Any], list[Any]]:
        """What all blocks give, and their new states."""
        outputs: list[Any] = []
        states: list[Any] = []
        for block, windows in enumerate(blocks):
            old = []
            for window in range(len(windows)):
                if self._state_tuple_type is None:
                    first = 2 * window * self._num_units
                    middle, last = first + self._num_units, first + 2 * self._num_units
                    old.append((state[:, first:middle], state[:, middle:last]))
                else:
                    name = f"{prefix}state_f{window:02d}_b{block:02d}"
                    old.append((getattr(state, f"{name}_c"), getattr(state, f"{name}_m")))
            given, new = self._block(windows, block, old)
            outputs += given
            states += new
        return outputs, states

    def _block(self, windows: list[Any], block: int, old: list[Any]) -> tuple[list[Any], list[Any]]:
        """What the windows of a block give, ``[time, frequency, time, ...]``, and their new states."""
        units, dtype = self._num_units, windows[0].dtype.base
        gates = 3 if self._couple else 4
        shape = [windows[0].shape.as_list()[1] + 2 * units, gates * units]
        axes = "f" if self._share else "ft"
        weights = {}
        for axis in axes:
            kernel = sharded(f"W_{axis}_{block}", shape, dtype, self._num_unit_shards)
            start = tf.zeros_initializer()
            weights[axis] = kernel, tf.get_variable(f"B_{axis}_{block}", shape[1:], initializer=start, dtype=dtype)
        see: dict[str, Any] = {}
        if self._use_peepholes:
            for axis in axes:
                for gate in "IO" if self._couple else "FIO":
                    for other in "ft":
                        name = f"{gate}_diag_{'freq' if axis == 'f' else 'time'}{other}"
                        see[gate + axis + other] = tf.get_variable(f"W_{name}_{block}", [units], dtype=dtype)

        def opened(x: Any, kind: str, axis: str, of_frequency: Any, of_time: Any) -> Any:
            """A gate of one of the LSTMs, which sees the values of both cells."""
            if not self._use_peepholes:
                return tf.sigmoid(x)
            own = "f" if self._share else axis
            return tf.sigmoid(x + see[kind + own + "f"] * of_frequency + see[kind + own + "t"] * of_time)

        m_below = c_below = tf.zeros([tf.shape(windows[0])[0], units], dtype)
        outputs, states = [], []
        for window, (c_old, m_old) in zip(windows, old, strict=True):
            joined = tf.concat([window, m_old, m_below], 1)
            products = {
                axis: tf.split(tf.nn.bias_add(tf.matmul(joined, kernel), bias), gates, axis=1)
                for axis, (kernel, bias) in weights.items()
            }
            cells, open_ = {}, {}
            for axis, before in (("f", c_below), ("t", c_old)):
                i, j, *f, o = products[axis if axis in products else "f"]
                take = opened(i, "I", axis, c_below, c_old)
                keep = 1.0 - take if self._couple else opened(f[0] + self._forget_bias, "F", axis, c_below, c_old)
                cells[axis] = _clipped(keep * before + take * tf.tanh(j), self._cell_clip)
                open_[axis] = o
            m_below, m_time = (
                opened(open_[axis], "O", axis, cells["f"], cells["t"]) * tf.tanh(cells[axis]) for axis in "ft"
            )
            c_below = cells["f"]
            outputs += [m_time, m_below]
            states += [cells["t"], m_time]
        return outputs, states

    def _windows(self, inputs: Any, offset: int = 0) -> list[list[Any]]:
        """The windows of each block; features are moved by ``offset``, with zeros at the end that is left."""
        size = _width(inputs)
        if offset:
            inputs = tf.pad(inputs, [[0, 0], [max(-offset, 0), max(offset, 0)]])
        starts, ends = ([0], [size]) if not self._starts else (self._starts, self._ends or [])
        if not len(self._blocks) == len(starts) == len(ends):
            raise ValueError(
                f"Length of num_frequency_blocks is not 1, but instead is {len(self._blocks)}\n"
                + errors.message(
                    f"{len(self._blocks)} blocks, {len(starts)} starts and {len(ends)} ends",
                    "as many of each; one block without starts",
                    "num_frequency_blocks=[n]",
                )
            )
        blocks = []
        for start, end, count in zip(starts, ends, self._blocks, strict=True):
            fitting = (end - start - self._feature_size) // self._frequency_skip + 1
            if fitting != count:
                raise ValueError(
                    f"Invalid num_frequency_blocks, requires {count} but gets {fitting}, please check the input size "
                    "and filter config are correct.\n"
                    + errors.message(f"num_frequency_blocks={self._blocks}", f"{fitting} windows", f"[{fitting}]")
                )
            firsts = [start + max(offset, 0) + index * self._frequency_skip for index in range(count)]
            blocks.append([inputs[:, first : first + self._feature_size] for first in firsts])
        return blocks


@public("contrib.rnn.BidirectionalGridLSTMCell")
class BidirectionalGridLSTMCell(GridLSTMCell):
    """Two grids, one over the windows and one over the windows from the last to the first.

    Args:
        num_units: size of each part of each window's state.
        use_peepholes: let gates see the cells' values.
        share_time_frequency_weights: whether both LSTMs of a grid have the same weights.
        cell_clip: clip the cells' values; not if None.
        initializer: of the variables.
        num_unit_shards: number of variables that hold a matrix of weights.
        forget_bias: added to the forget gates.
        feature_size: width of a window.
        frequency_skip: how far windows are apart.
        num_frequency_blocks: number of windows in each block.
        start_freqindex_list: where the blocks begin.
        end_freqindex_list: where the blocks end.
        couple_input_forget_gates: whether the forget gate is one minus the input gate.
        backward_slice_offset: how far the windows of the second grid are moved.
        reuse: whether to use variables that exist.
    """

    _DIRECTIONS = ("fwd_", "bwd_")

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: Any = None,
        frequency_skip: Any = None,
        num_frequency_blocks: list[int] | None = None,
        start_freqindex_list: list[int] | None = None,
        end_freqindex_list: list[int] | None = None,
        couple_input_forget_gates: bool = False,
        backward_slice_offset: int = 0,
        reuse: Any = None,
    ) -> None:
        super().__init__(
            num_units,
            use_peepholes,
            share_time_frequency_weights,
            cell_clip,
            initializer,
            num_unit_shards,
            forget_bias,
            feature_size,
            frequency_skip,
            num_frequency_blocks,
            start_freqindex_list,
            end_freqindex_list,
            couple_input_forget_gates,
            True,
            reuse,
        )
        self._backward_slice_offset = int(backward_slice_offset)

    def _tuple_name(self) -> str:
        return "BidirectionalGridLSTMStateTuple"

    def call(self, inputs: Any, state: Any) -> Any:
        forward = self._windows(inputs)
        backward = [windows[::-1] for windows in self._windows(inputs, self._backward_slice_offset)]
        with tf.variable_scope("fwd"):
            outputs, states = self._direction(forward, state, "fwd_")
        with tf.variable_scope("bwd"):
            more_outputs, more_states = self._direction(backward, state, "bwd_")
        return tf.concat([*outputs, *more_outputs], 1), self._state_tuple_type(*states, *more_states)
