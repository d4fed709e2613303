"""Cells made of cells: stacks, dropout, residual connections, devices, projections."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import nest
from anabranch.ops.nn.bias_and_response import dropout
from anabranch.ops.random.public import random_uniform
from anabranch.rnn.cells import LSTMStateTuple, RNNCell, assert_like_rnncell, concat, product
from anabranch.variables.initializers import RandomUniform, Zeros
from anabranch.variables.scope import get_variable, variable_scope
from anabranch.variables.scope_state import get_variable_scope


@public("nn.rnn_cell.MultiRNNCell", "contrib.rnn.MultiRNNCell")
class MultiRNNCell(RNNCell):
    """Cells on top of one another: the output of each is the input of the next.

    Args:
        cells: the cells, the lowest first.
        state_is_tuple: the state is a tuple of the cells' states; else one tensor of them along axis 1.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not isinstance(cells, (list, tuple)):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in self._cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set.\n"
                + errors.message(
                    "state_is_tuple=False over cells with tuples for states",
                    "cells with one tensor for a state",
                    "state_is_tuple=True, or BasicLSTMCell(..., state_is_tuple=False)",
                )
            )

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The zero states of the cells."""
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    @property
    def trainable_weights(self) -> list[Any]:
        return _distinct(v for cell in self._cells for v in getattr(cell, "trainable_weights", ()))

    @property
    def non_trainable_weights(self) -> list[Any]:
        return _distinct(v for cell in self._cells for v in getattr(cell, "non_trainable_weights", ()))

    def call(self, inputs: Any, state: Any) -> Any:
        current, position, left = inputs, 0, []
        for i, cell in enumerate(self._cells):
            with variable_scope(f"cell_{i}"):
                if self._state_is_tuple:
                    if not nest.is_nested(state):
                        raise ValueError(
                            f"Expected state to be a tuple of length {len(self.state_size)}, but received: {state}"
                        )
                    mine = state[i]
                else:
                    mine = build("Slice", state, [0, position], [-1, cell.state_size])
                    position += cell.state_size
                current, new = cell(current, mine)
                left.append(new)
        return current, tuple(left) if self._state_is_tuple else build("ConcatV2", left, constant(1))


def _distinct(items: Any) -> list[Any]:
    distinct: list[Any] = []
    distinct.extend(item for item in items if not any(item is other for other in distinct))
    return distinct


class _Wrapper(RNNCell):
    """A cell around another one, whose variables it uses as they are."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        assert_like_rnncell("cell", cell)
        self._cell = cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self._cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    @property
    def trainable_weights(self) -> list[Any]:
        return list(getattr(self._cell, "trainable_weights", ()))

    @property
    def non_trainable_weights(self) -> list[Any]:
        return list(getattr(self._cell, "non_trainable_weights", ()))

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zero state of the cell inside."""
        with name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        raise NotImplementedError("Abstract method")


def _default_filter(substate: Any) -> bool:
    """Dropout for the output part of an LSTM's state, not for its memory or a TensorArray."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)  # type: ignore[return-value]
    return not hasattr(substate, "flow")


@public("nn.rnn_cell.DropoutWrapper", "contrib.rnn.DropoutWrapper")
class DropoutWrapper(_Wrapper):
    """Dropout of inputs, outputs and state of a cell.

    Args:
        cell: the cell.
        input_keep_prob: probability of keeping an input, a number or scalar tensor; 1 for no dropout.
        output_keep_prob: the same for outputs.
        state_keep_prob: the same for the state handed to the next step.
        variational_recurrent: draw one mask for all steps (Gal and Ghahramani 2015, arXiv:1512.05287); needs
            ``dtype``, and ``input_size`` if inputs are dropped.
        input_size: shapes of the inputs without the batch.
        dtype: dtype of inputs, state and output.
        seed: seed of the masks.
        dropout_state_filter_visitor: function of a part of the state that says whether it is dropped, or, for a
            structure, which of its parts.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cell)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._filter = dropout_state_filter_visitor or _default_filter
        self._input_keep = _probability("input_keep_prob", input_keep_prob)
        self._output_keep = _probability("output_keep_prob", output_keep_prob)
        self._state_keep = _probability("state_keep_prob", state_keep_prob)
        given = (input_keep_prob, output_keep_prob, state_keep_prob)
        count_more(sum(not isinstance(keep, Tensor) for keep in given))  # TensorFlow makes tensors of them
        self._variational = variational_recurrent
        self._seed = seed
        self._masks: dict[str, Any] = {}
        if variational_recurrent:
            if dtype is None:
                raise ValueError("When variational_recurrent=True, dtype must be provided")
            self._make_masks(input_size, dtype)

    def _make_masks(self, input_size: Any, dtype: Any) -> None:
        def noise(salt: str, sizes: Any) -> Any:
            def one(i: int, size: Any) -> Any:
                return random_uniform(concat(1, size), dtype=dtype, seed=self._salted(f"{salt}_{i}"))

            flat = [one(i, size) for i, size in enumerate(nest.flatten(sizes))]
            return nest.pack_sequence_as(sizes, flat)

        if _drops(self._input_keep):
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be "
                    "provided"
                )
            self._masks["input"] = noise("input", input_size)
        self._masks["state"] = noise("state", self._cell.state_size)
        self._masks["output"] = noise("output", self._cell.output_size)

    def _salted(self, salt: str) -> int | None:
        if self._seed is None:
            return None
        digest = hashlib.md5(f"{self._seed}_{salt}".encode(), usedforsecurity=False).hexdigest()
        return int(digest[:8], 16) & 0x7FFFFFFF

    def _drop(self, values: Any, salt: str, keep: Any, chosen: Any = None) -> Any:
        """``values`` with some elements zero, where ``chosen`` (a structure of bools, or None) holds."""
        masks = self._masks.get(salt)
        flat = nest.flatten(values)
        noise = nest.flatten(masks) if masks is not None else [None] * len(flat)
        wanted = [True] * len(flat) if chosen is None else chosen
        dropped = []
        for i, (value, mask, drop) in enumerate(zip(flat, noise, wanted, strict=True)):
            if not drop:
                dropped.append(value)
                continue
            if mask is None:
                dropped.append(dropout(value, keep, seed=self._salted(f"{salt}_{i}")))
                continue
            rate = convert_to_tensor(keep, value.dtype.base)
            count_more(not isinstance(keep, Tensor))  # a tensor for each use
            made = (value / rate) * build("Floor", mask + rate)
            made.set_shape(value.shape)
            dropped.append(made)
        return nest.pack_sequence_as(values, dropped)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        if _drops(self._input_keep):
            inputs = self._drop(inputs, "input", self._input_keep)
        output, new = self._cell(inputs, state, scope=scope) if scope is not None else self._cell(inputs, state)
        if _drops(self._state_keep):
            new = self._drop(new, "state", self._state_keep, _chosen(self._filter, new))
        if _drops(self._output_keep):
            output = self._drop(output, "output", self._output_keep)
        return output, new


def _chosen(visit: Callable[[Any], Any], state: Any) -> list[bool]:
    """For each leaf of ``state`` whether ``visit`` lets it be dropped."""
    chosen = visit(state)
    if isinstance(chosen, bool):
        if chosen and nest.is_nested(state):
            return [drop for part in nest.parts(state) for drop in _chosen(visit, part)]
        return [chosen] * len(nest.flatten(state))
    return [bool(item) for item in nest.flatten(chosen)]


def _probability(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        known = constant_value(value)
        if known is None:
            return value
        value = known
    elif hasattr(value, "value"):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, numbers.Real) or not 0 <= float(value) <= 1:
        raise ValueError(
            f"Parameter {name} must be between 0 and 1: {value}\n"
            + errors.message(f"{name}={value!r}", "a probability", "1.0 for no dropout")
        )
    return float(value)


def _drops(keep: Any) -> bool:
    return not isinstance(keep, float) or keep < 1.0


@public("nn.rnn_cell.ResidualWrapper", "contrib.rnn.ResidualWrapper")
class ResidualWrapper(_Wrapper):
    """A cell whose inputs are added to its outputs (or joined by ``residual_fn(inputs, outputs)``)."""

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._residual_fn = residual_fn

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        outputs, new = self._cell(inputs, state, scope=scope) if scope is not None else self._cell(inputs, state)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, outputs), new
        nest.assert_same_structure(inputs, outputs)
        for given, summed in zip(nest.flatten(inputs), nest.flatten(outputs), strict=True):
            given.shape.assert_is_compatible_with(summed.shape)
        return nest.map_structure(lambda given, summed: given + summed, inputs, outputs), new


@public("nn.rnn_cell.DeviceWrapper", "contrib.rnn.DeviceWrapper")
class DeviceWrapper(_Wrapper):
    """A cell that runs on a device."""

    def __init__(self, cell: Any, device: Any) -> None:
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zero state, made on the device."""
        with current_builder().device(self._device):
            return super().zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        with current_builder().device(self._device):
            return self._cell(inputs, state, scope=scope) if scope is not None else self._cell(inputs, state)


class _Scoped(_Wrapper):
    """A wrapper with variables of its own, made by ``tf.get_variable`` when it is called."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        return RNNCell.__call__(self, inputs, state, scope)

    @property
    def trainable_weights(self) -> list[Any]:
        return _distinct([*self._trainable_weights, *super().trainable_weights])


@public("contrib.rnn.InputProjectionWrapper")
class InputProjectionWrapper(_Scoped):
    """A cell whose inputs are projected first to ``num_proj`` (or ``input_size``) features."""

    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell)
        self._reuse = reuse
        if input_size is not None:
            raise ValueError("The input_size parameter is deprecated.")
        self._num_proj = num_proj
        self._activation = activation

    def call(self, inputs: Any, state: Any) -> Any:
        projected = linear([inputs], self._num_proj, True)
        if self._activation:
            projected = self._activation(projected)
        return self._cell(projected, state)


@public("contrib.rnn.OutputProjectionWrapper")
class OutputProjectionWrapper(_Scoped):
    """A cell whose outputs are projected to ``output_size`` features."""

    def __init__(self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(cell)
        if output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: {output_size}.")
        self._reuse = reuse
        self._size = output_size
        self._activation = activation

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: Any, state: Any) -> Any:
        output, new = self._cell(inputs, state)
        projected = linear([output], self._size, True)
        return (self._activation(projected) if self._activation else projected), new


@public("contrib.rnn.EmbeddingWrapper")
class EmbeddingWrapper(_Scoped):
    """A cell whose inputs are integer ids, looked up in a table of embeddings first."""

    def __init__(
        self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, {embedding_size}."
            )
        self._reuse = reuse
        self._classes = embedding_classes
        self._size = embedding_size
        self._initializer = initializer

    def call(self, inputs: Any, state: Any) -> Any:
        limit = 3**0.5
        initializer = self._initializer or get_variable_scope().initializer or RandomUniform(-limit, limit)
        dtype = nest.flatten(state)[0].dtype
        table = get_variable("embedding", [self._classes, self._size], initializer=initializer, dtype=dtype)
        ids = build("Reshape", inputs, [-1])
        rows = build("GatherV2", convert_to_tensor(table), ids, constant(0))
        return self._cell(build("Identity", rows), state)


def linear(
    args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None
) -> Any:
    """``concat(args, 1) @ kernel (+ bias)`` with variables of the current scope."""
    flat = args if isinstance(args, (list, tuple)) else [args]
    if not flat:
        raise ValueError("`args` must be specified")
    total = 0
    for tensor in flat:
        shape = tensor.shape.as_list()
        if len(shape) != 2 or shape[1] is None:
            raise ValueError(
                f"linear expects matrices with a known number of columns, got shape {shape}\n"
                + errors.message(
                    f"tensor {tensor._label} of shape {shape}", "[batch, known]", "tensor.set_shape([None, n])"
                )
            )
        total += shape[1]
    dtype = flat[0].dtype
    kernel = get_variable("kernel", [total, output_size], dtype=dtype, initializer=kernel_initializer)
    if not bias:
        return product(flat, kernel)
    start = bias_initializer if bias_initializer is not None else Zeros(dtype=dtype)
    return product(flat, kernel, get_variable("bias", [output_size], dtype=dtype, initializer=start))
