"""Cells of a grid: each dimension has a cell and a state of its own, and all see the outputs of the others.

Dimensions without priority run first, all on what the states were; those with priority then see what came out of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.rnn.cells import RNNCell

_cells = tf.nn.rnn_cell


def _dimensions(given: Any, count: int) -> list[int]:
    """Sorted numbers of dimensions, of a number or a list."""
    listed = [] if given is None else sorted(set(given if isinstance(given, list | tuple) else [given]))
    if any(not 0 <= number < count for number in listed):
        raise ValueError(
            f"Invalid dims: {listed}. Must be in [0, {count})\n"
            + errors.message(f"dimensions {listed}", f"numbers of 0 to {count - 1}", "input_dims=0")
        )
    return listed


@public("contrib.grid_rnn.GridRNNCell")
class GridRNNCell(RNNCell):
    """A cell along several dimensions.

    Args:
        num_units: size of the state in each dimension.
        num_dims: number of dimensions.
        input_dims: dimensions that take a part of the input, which is projected onto their states.
        output_dims: dimensions whose outputs are the output of the cell.
        priority_dims: dimensions that run after the others.
        non_recurrent_dims: dimensions without a state, which are dense layers.
        tied: one cell with one set of variables for all dimensions.
        cell_fn: function from ``num_units`` to the cell of a dimension; an ``LSTMCell`` by default.
        non_recurrent_fn: activation of dimensions without a state; ``tf.nn.relu`` by default.
        state_is_tuple: states are a tuple with one for each dimension, and not one matrix.
        output_is_tuple: likewise for outputs.

    Raises:
        ValueError: there is no dimension, or a number is not that of one.
        TypeError: ``cell_fn`` does not make a cell.

    >>> with tf.Graph().as_default():
    ...     cell = tf.contrib.grid_rnn.Grid2LSTMCell(4)
    ...     (output,), states = cell(tf.ones([3, 5]), cell.zero_state(3, tf.float32))
    ...     print(output.shape, len(states))
    (3, 4) 2
    """

    def __init__(
        self,
        num_units: int,
        num_dims: int = 1,
        input_dims: Any = None,
        output_dims: Any = None,
        priority_dims: Any = None,
        non_recurrent_dims: Any = None,
        tied: bool = False,
        cell_fn: Callable[[int], Any] | None = None,
        non_recurrent_fn: Callable[[Any], Any] | None = None,
        state_is_tuple: bool = True,
        output_is_tuple: bool = True,
    ) -> None:
        super().__init__()
        if num_dims < 1:
            raise ValueError(
                f"dims must be >= 1: {num_dims}\n"
                + errors.message(f"num_dims={num_dims}", "one dimension or more", "num_dims=2")
            )
        self._units, self._count, self._tied = num_units, num_dims, tied
        self._inputs = _dimensions(input_dims, num_dims)
        self._outputs = _dimensions(output_dims, num_dims)
        self._late = _dimensions(priority_dims, num_dims)
        self._dense = _dimensions(non_recurrent_dims, num_dims)
        self._recurrent = [number for number in range(num_dims) if number not in self._dense]
        self._activation = non_recurrent_fn or tf.nn.relu
        self._tuples = state_is_tuple, output_is_tuple

        def make() -> Any:
            return _cells.LSTMCell(num_units, state_is_tuple=state_is_tuple) if cell_fn is None else cell_fn(num_units)

        self._of_dims = [make()] * num_dims if tied else [make() for _ in range(num_dims)]
        if not isinstance(self._of_dims[0], RNNCell):
            raise TypeError(
                f"cell_fn must return an RNNCell instance, saw: {type(self._of_dims[0])}\n"
                + errors.message(f"a {type(self._of_dims[0]).__name__}", "a cell", "cell_fn=tf.nn.rnn_cell.GRUCell")
            )

    def _size_of_state(self) -> int:
        size = self._of_dims[0].state_size
        return sum(size) if isinstance(size, tuple) else size

    @property
    def output_size(self) -> Any:
        """Sizes of the outputs in a tuple, or their sum."""
        size = self._of_dims[0].output_size
        return (size,) * len(self._outputs) if self._tuples[1] else size * len(self._outputs)

    @property
    def state_size(self) -> Any:
        """Sizes of the states in a tuple, or their sum."""
        if self._tuples[0]:
            return (self._of_dims[0].state_size,) * len(self._recurrent)
        return self._size_of_state() * len(self._recurrent)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Outputs and states, of inputs ``[batch, size]`` of which each input dimension takes an equal part.

        Args:
            inputs: a matrix, or a tuple with one for each input dimension; none if it has no columns.
            state: the states.
            scope: variable scope; the name of the class by default.
        """
        memories, values = self._parts(state)
        with tf.variable_scope(scope or type(self).__name__):
            self._project(inputs, memories, values)
            outputs: list[Any] = [None] * self._count
            states: list[Any] = [None] * self._count
            early = [number for number in range(self._count) if number not in self._late]
            made: set[str] = set()  # kinds of dimensions whose shared variables are there
            for numbers in (early, self._late):
                self._run(numbers, memories, values, outputs, states, made)
            given = [outputs[number] for number in self._outputs]
            kept = [states[number] for number in self._recurrent]
            dtype = tf.contrib.framework.nest.flatten(inputs)[0].dtype
            if not self._tuples[0]:
                flat = [part for each in kept for part in (each if isinstance(each, list | tuple) else [each])]
                new_state = tf.concat(flat, 1) if flat else tf.zeros([0, 0], dtype)
            else:
                new_state = tuple(kept)
            if self._tuples[1]:
                return tuple(given), new_state
            return (tf.concat(given, 1) if given else tf.zeros([0, 0], dtype)), new_state

    def _parts(self, state: Any) -> tuple[list[Any], list[Any]]:
        """Memories (of cells that have one) and values by dimension."""
        memories: list[Any] = [None] * self._count
        values: list[Any] = [None] * self._count
        width = self._size_of_state()
        if self._tuples[0]:
            if len(state) != len(self._recurrent):
                raise ValueError(
                    f"Expected state as a tuple of {len(self._recurrent)} element\n"
                    + errors.message(
                        f"{len(state)} states", f"{len(self._recurrent)} states", "cell.zero_state(batch, tf.float32)"
                    )
                )
            parts = list(state)
        else:
            parts = [state[:, start : start + width] for start in range(0, width * len(self._recurrent), width)]
        for number, part in zip(self._recurrent, parts, strict=True):
            if width == self._units:
                values[number] = part
            elif self._tuples[0]:
                memories[number], values[number] = part
            else:
                memories[number], values[number] = part[:, : self._units], part[:, self._units :]
        return memories, values

    def _project(self, inputs: Any, memories: list[Any], values: list[Any]) -> None:
        """States of input dimensions become projections of the input."""
        if inputs is None or not self._inputs:
            return
        if isinstance(inputs, tuple):
            if len(inputs) != len(self._inputs):
                raise ValueError(
                    f"Expect inputs as a tuple of {len(self._inputs)} tensors\n"
                    + errors.message(f"{len(inputs)} tensors", f"{len(self._inputs)} tensors", "inputs=(x, y)")
                )
            parts: Sequence[Any] = inputs
        elif inputs.shape.with_rank(2)[1].value:
            parts = tf.split(inputs, len(self._inputs), 1)
        else:
            return
        size = parts[0].shape.with_rank(2)[1].value
        has_memory = self._size_of_state() > self._units
        for part, number in zip(parts, self._inputs, strict=True):
            for kind, where in (("m", values), ("c", memories))[: 1 + has_memory]:
                kernel = tf.get_variable(f"project_{kind}_{number}", [size, self._units], dtype=part.dtype)
                where[number] = tf.matmul(part, kernel)

    def _run(
        self,
        numbers: list[int],
        memories: list[Any],
        values: list[Any],
        outputs: list[Any],
        states: list[Any],
        made: set[str],
    ) -> None:
        """Run some dimensions, all on what is there before."""
        if not numbers:
            return
        seen = [old if new is None else new for new, old in zip(outputs, values, strict=True)]
        last = seen[-1]
        if self._count > 1:
            others = tf.concat(seen[:-1], 1)
        else:
            others = tf.zeros([values[0].shape[0].value or tf.shape(values[0])[0], 0], values[0].dtype)
            others.set_shape([values[0].shape[0], 0])
        for number in numbers:
            kind = "non_recurrent" if number in self._dense else "recurrent"
            with tf.variable_scope(kind if self._tied else f"{kind}/cell_{number}"):
                if self._tied and kind in made:
                    tf.get_variable_scope().reuse_variables()
                made.add(kind)
                if number in self._dense:
                    scope = tf.get_variable_scope()
                    outputs[number] = tf.contrib.layers.fully_connected(
                        last if self._count == 1 else tf.concat([others, last], 1),
                        num_outputs=self._units,
                        activation_fn=self._activation,
                        weights_initializer=scope.initializer or tf.contrib.layers.xavier_initializer(),
                        weights_regularizer=scope.regularizer,
                    )
                else:
                    state = last if memories[number] is None else (memories[number], last)
                    outputs[number], states[number] = self._of_dims[number](others, state)


def _cell(kind: Callable[..., Any], **options: Any) -> Callable[[int], Any]:
    return lambda units: kind(units, **options)


@public("contrib.grid_rnn.Grid1BasicRNNCell")
class Grid1BasicRNNCell(GridRNNCell):
    """A plain cell along one dimension; the arguments are those of :class:`GridRNNCell`."""

    def __init__(self, num_units: int, state_is_tuple: bool = True, output_is_tuple: bool = True) -> None:
        super().__init__(num_units, 1, 0, 0, 0, None, False, _cells.BasicRNNCell, None, state_is_tuple, output_is_tuple)


@public("contrib.grid_rnn.Grid2BasicRNNCell")
class Grid2BasicRNNCell(GridRNNCell):
    """Plain cells along two dimensions; dimension 0 takes the input, gives the output and runs last.

    With ``non_recurrent_fn`` dimension 0 is a dense layer; the arguments are those of :class:`GridRNNCell`.
    """

    def __init__(
        self,
        num_units: int,
        tied: bool = False,
        non_recurrent_fn: Any = None,
        state_is_tuple: bool = True,
        output_is_tuple: bool = True,
    ) -> None:
        dense = None if non_recurrent_fn is None else 0
        cell = _cells.BasicRNNCell
        super().__init__(num_units, 2, 0, 0, 0, dense, tied, cell, non_recurrent_fn, state_is_tuple, output_is_tuple)


@public("contrib.grid_rnn.Grid1BasicLSTMCell")
class Grid1BasicLSTMCell(GridRNNCell):
    """A basic LSTM cell along one dimension; the arguments are those of :class:`GridRNNCell`."""

    def __init__(
        self, num_units: int, forget_bias: float = 1, state_is_tuple: bool = True, output_is_tuple: bool = True
    ) -> None:
        cell = _cell(_cells.BasicLSTMCell, forget_bias=forget_bias)
        super().__init__(num_units, 1, 0, 0, 0, None, False, cell, None, state_is_tuple, output_is_tuple)


@public("contrib.grid_rnn.Grid2BasicLSTMCell")
class Grid2BasicLSTMCell(GridRNNCell):
    """Basic LSTM cells along two dimensions; see :class:`Grid2BasicRNNCell`."""

    def __init__(
        self,
        num_units: int,
        tied: bool = False,
        non_recurrent_fn: Any = None,
        forget_bias: float = 1,
        state_is_tuple: bool = True,
        output_is_tuple: bool = True,
    ) -> None:
        dense = None if non_recurrent_fn is None else 0
        cell = _cell(_cells.BasicLSTMCell, forget_bias=forget_bias)
        super().__init__(num_units, 2, 0, 0, 0, dense, tied, cell, non_recurrent_fn, state_is_tuple, output_is_tuple)


@public("contrib.grid_rnn.Grid1LSTMCell")
class Grid1LSTMCell(GridRNNCell):
    """An LSTM cell along one dimension; the arguments are those of :class:`GridRNNCell`."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        output_is_tuple: bool = True,
    ) -> None:
        cell = _cell(_cells.LSTMCell, forget_bias=forget_bias, use_peepholes=use_peepholes)
        super().__init__(num_units, 1, 0, 0, 0, None, False, cell, None, state_is_tuple, output_is_tuple)


@public("contrib.grid_rnn.Grid2LSTMCell")
class Grid2LSTMCell(GridRNNCell):
    """LSTM cells along two dimensions; see :class:`Grid2BasicRNNCell`."""

    def __init__(
        self,
        num_units: int,
        tied: bool = False,
        non_recurrent_fn: Any = None,
        use_peepholes: bool = False,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        output_is_tuple: bool = True,
    ) -> None:
        dense = None if non_recurrent_fn is None else 0
        cell = _cell(_cells.LSTMCell, forget_bias=forget_bias, use_peepholes=use_peepholes)
        super().__init__(num_units, 2, 0, 0, 0, dense, tied, cell, non_recurrent_fn, state_is_tuple, output_is_tuple)


@public("contrib.grid_rnn.Grid3LSTMCell")
class Grid3LSTMCell(GridRNNCell):
    """LSTM cells along three dimensions; see :class:`Grid2BasicRNNCell`."""

    def __init__(
        self,
        num_units: int,
        tied: bool = False,
        non_recurrent_fn: Any = None,
        use_peepholes: bool = False,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        output_is_tuple: bool = True,
    ) -> None:
        dense = None if non_recurrent_fn is None else 0
        cell = _cell(_cells.LSTMCell, forget_bias=forget_bias, use_peepholes=use_peepholes)
        super().__init__(num_units, 3, 0, 0, 0, dense, tied, cell, non_recurrent_fn, state_is_tuple, output_is_tuple)


@public("contrib.grid_rnn.Grid2GRUCell")
class Grid2GRUCell(GridRNNCell):
    """GRU cells along two dimensions; see :class:`Grid2BasicRNNCell`."""

    def __init__(
        self,
        num_units: int,
        tied: bool = False,
        non_recurrent_fn: Any = None,
        state_is_tuple: bool = True,
        output_is_tuple: bool = True,
    ) -> None:
        dense = None if non_recurrent_fn is None else 0
        super().__init__(
            num_units, 2, 0, 0, 0, dense, tied, _cells.GRUCell, non_recurrent_fn, state_is_tuple, output_is_tuple
        )
