"""Cells of recurrent networks: one step ``(inputs [batch, features], states) -> (output, states)``."""

from __future__ import annotations

import inspect
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.random_seed import OperationCount, counted_as
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import backend_nn, state
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.layers.config import Configured
from anabranch.keras.v1.layers.core import when


class _Cell(Configured):
    """What cells share: a kernel for inputs, one for the state, a bias, and dropout of both."""

    _gates = 1

    def _set(self, arguments: dict[str, Any]) -> None:
        names = {"self", "kwargs", "__class__"}
        kept = {name: value for name, value in arguments.items() if name not in names}
        for rate in ("dropout", "recurrent_dropout"):
            if rate in kept:
                kept[rate] = min(1.0, max(0.0, kept[rate]))
        self._keep(**kept)
        self.state_size: Any = self.units
        self.output_size = self.units
        self._masks: dict[str, Any] = {}

    def _weights_of(self, input_shape: Any, bias_shape: Any) -> None:
        size = K.dims(input_shape)[-1]
        wide = self.units * self._gates
        for name in ("kernel", "recurrent_kernel"):
            prefix = "recurrent" if name == "recurrent_kernel" else "kernel"
            weight = self.add_weight(
                name,
                self._kernel_shape(name, size, wide),
                initializer=getattr(self, f"{prefix}_initializer"),
                regularizer=getattr(self, f"{prefix}_regularizer"),
                constraint=getattr(self, f"{prefix}_constraint"),
            )
            setattr(self, name, weight)
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                bias_shape,
                initializer=self._bias_start(),
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def _kernel_shape(self, name: str, size: int, wide: int) -> tuple[int, ...]:
        return (size if name == "kernel" else self.units, wide)

    def _bias_start(self) -> Any:
        return self.bias_initializer

    def _masked(self, name: str, x: Any, training: Any, count: int) -> list[Any]:
        """The tensor for each gate, with dropout: one mask for all steps of a call."""
        rate = getattr(self, name)
        if not 0 < rate < 1:
            return [x] * count
        if name not in self._masks:
            ones = tf.ones_like(x)
            self._masks[name] = [
                when(training, lambda: backend_nn.dropout(ones, rate), lambda: ones) for _ in range(count)
            ]
        return [x * mask for mask in self._masks[name]]

    def reset_masks(self) -> None:
        """Draw dropout anew in the next step."""
        self._masks = {}

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros as a first state."""
        batch = tf.shape(inputs)[0] if inputs is not None else batch_size
        kind = inputs.dtype if inputs is not None else dtype
        sizes = self.state_size if isinstance(self.state_size, (list, tuple)) else [self.state_size]
        made = [tf.zeros(tf.stack([batch, size]), kind) for size in sizes]
        for x, size in zip(made, sizes, strict=True):
            x.set_shape([None if not isinstance(batch, int) else batch, size])
        return made if isinstance(self.state_size, (list, tuple)) else made[0]


def _affine(x: Any, kernel: Any, bias: Any) -> Any:
    y = tf.matmul(x, kernel)
    return y if bias is None else tf.nn.bias_add(y, bias)


@registry.add()
class SimpleRNNCell(_Cell):
    """A step of a fully connected recurrent network."""

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(arguments)

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        self._weights_of(input_shape, (self.units,))

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute output and states."""
        (before,) = states
        (x,) = self._masked("dropout", inputs, training, 1)
        (h,) = self._masked("recurrent_dropout", before, training, 1)
        output = _affine(x, self.kernel, self.bias) + tf.matmul(h, self.recurrent_kernel)
        output = self.activation(output)
        return output, [output]


@registry.add()
class GRUCell(_Cell):
    """A step of gated recurrent units (Cho et al., 2014).

    Args:
        reset_after: apply the reset gate after the product with the recurrent kernel, as cuDNN does.
        implementation: without effect: products are joined.
    """

    _gates = 3

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        implementation: int = 1,
        reset_after: bool = False,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(arguments)

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        wide = 3 * self.units
        self._weights_of(input_shape, (2, wide) if self.reset_after else (wide,))

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute output and states."""
        before = states[0]
        n = self.units
        bias, recurrent_bias = None, None
        inner = self._masked("dropout", inputs, training, 3)
        outer = self._masked("recurrent_dropout", before, training, 3)
        count = OperationCount()
        if self.use_bias:
            bias, recurrent_bias = tf.unstack(self.bias) if self.reset_after else (self.bias, None)
        kernel, recurrent = self.kernel, self.recurrent_kernel
        if inner[0] is inner[1]:
            x = _affine(inputs, kernel, bias)
            xs = tf.split(x, 3, axis=1)
        else:
            biases = [None] * 3 if bias is None else tf.split(bias, 3)
            xs = [_affine(x, kernel[:, i * n : (i + 1) * n], biases[i]) for i, x in enumerate(inner)]
        # Here and below TensorFlow multiplies for each gate by itself.
        count.set(18 + self.use_bias * (17 if self.reset_after else 18))
        if self.reset_after:
            with counted_as(18 + 15 * self.use_bias):
                hs = tf.split(_affine(before, recurrent, recurrent_bias), 3, axis=1)
            update, reset = (self.recurrent_activation(xs[i] + hs[i]) for i in range(2))
            new = self.activation(xs[2] + reset * hs[2])
        else:
            with counted_as(12):
                parts = [tf.matmul(outer[i], recurrent[:, i * n : (i + 1) * n]) for i in range(2)]
            update, reset = (self.recurrent_activation(xs[i] + parts[i]) for i in range(2))
            new = self.activation(xs[2] + tf.matmul(reset * outer[2], recurrent[:, 2 * n :]))
        output = update * before + (1 - update) * new
        return output, [output]


@registry.add()
class LSTMCell(_Cell):
    """A step of long short-term memory (Hochreiter and Schmidhuber, 1997).

    Args:
        unit_forget_bias: begin with 1 as the bias of the forget gate.
        implementation: without effect: products are joined.
    """

    _gates = 4

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        implementation: int = 1,
        **kwargs: Any,
    ) -> None:
        arguments = dict(locals())
        super().__init__(**kwargs)
        self._set(arguments)
        self.state_size = [self.units, self.units]

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        self._weights_of(input_shape, (4 * self.units,))

    def _bias_start(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def start(shape: Any, dtype: Any = None, **rest: Any) -> Any:
            n = self.units
            parts = [self.bias_initializer((n,), dtype=dtype), tf.ones((n,), dtype)]
            return tf.concat([*parts, self.bias_initializer((n * 2,), dtype=dtype)], 0)

        return start

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute output and states."""
        before, carry = states[0], states[1]
        n = self.units
        inner = self._masked("dropout", inputs, training, 4)
        outer = self._masked("recurrent_dropout", before, training, 4)
        count = OperationCount()
        if inner[0] is inner[1] and outer[0] is outer[1]:
            z = tf.matmul(inputs, self.kernel) + tf.matmul(before, self.recurrent_kernel)
            z = z if self.bias is None else tf.nn.bias_add(z, self.bias)
            zs = tf.split(z, 4, axis=1)
        else:
            biases = [None] * 4 if self.bias is None else tf.split(self.bias, 4)
            cut = [slice(i * n, (i + 1) * n) for i in range(4)]
            zs = [
                _affine(inner[i], self.kernel[:, cut[i]], biases[i])
                + tf.matmul(outer[i], self.recurrent_kernel[:, cut[i]])
                for i in range(4)
            ]
        # TensorFlow multiplies for each gate by itself, or joins, as it is told.
        count.set(36 + 8 * self.use_bias if self.implementation == 1 else 8 + 2 * self.use_bias)
        gates = self.recurrent_activation
        carry = gates(zs[1]) * carry + gates(zs[0]) * self.activation(zs[2])
        output = gates(zs[3]) * self.activation(carry)
        return output, [output, carry]


@registry.add()
class AbstractRNNCell(Layer):
    """The base class of cells of one's own: `call`, `state_size` and `output_size` are theirs; states begin with 0."""

    def _refuse(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            "Abstract method\n"
            + errors.message(f"{type(self).__name__} without {what}", "a cell with it", f"def {what}")
        )

    def call(self, inputs: Any, states: Any) -> Any:
        """One step: the output, and the states after it."""
        raise self._refuse("call(self, inputs, states)")

    @property
    def state_size(self) -> Any:
        """Sizes of the states: a number, a TensorShape, or a tuple of them."""
        raise self._refuse("state_size(self)")

    @property
    def output_size(self) -> Any:
        """The size of the output: a number or a TensorShape."""
        raise self._refuse("output_size(self)")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros of the sizes of the states."""
        return _zero_state(self, inputs, batch_size, dtype)


@registry.add()
class StackedRNNCells(Layer):
    """Cells one above the other, as one cell."""

    def __init__(self, cells: Any, **kwargs: Any) -> None:
        self.reverse_state_order = kwargs.pop("reverse_state_order", False)
        super().__init__(**kwargs)
        for cell in cells:
            if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
                raise ValueError(
                    f"All cells must have `call` and `state_size` methods. received cells: {cells}\n"
                    + errors.message(f"{cell}", "a cell", "LSTMCell(8)")
                )
        self.cells = list(cells)

    def _order(self) -> list[Any]:
        return self.cells[::-1] if self.reverse_state_order else self.cells

    @property
    def state_size(self) -> Any:
        """Sizes of the states of each cell."""
        return tuple(cell.state_size for cell in self._order())

    @property
    def output_size(self) -> Any:
        """Size of the output."""
        last = self.cells[-1]
        size = getattr(last, "output_size", last.state_size)
        return size[0] if isinstance(size, (list, tuple)) else size

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Zeros as first states."""
        return tuple(first_state(cell, inputs, batch_size, dtype) for cell in self._order())

    def build(self, input_shape: Any) -> None:
        """Make the weights of the cells."""
        fixed = input_shape[1:] if isinstance(input_shape, list) else []
        shape = tf.TensorShape(input_shape[0] if isinstance(input_shape, list) else input_shape)
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                cell.build([shape, *fixed] if fixed and takes_constants(cell) else shape)
                cell.built = True
            size = getattr(cell, "output_size", cell.state_size)
            size = size[0] if isinstance(size, (list, tuple)) else size
            shape = tf.TensorShape([shape.as_list()[0], *tf.TensorShape(size).as_list()])
        self.built = True

    def call(self, inputs: Any, states: Any, constants: Any = None, training: Any = None) -> Any:
        """Compute output and states."""
        nested = (
            states if len(states) == len(self.cells) and isinstance(states[0], (list, tuple)) else self._nest(states)
        )
        nested = list(nested)[::-1] if self.reverse_state_order else list(nested)
        after = []
        for cell, own in zip(self.cells, nested, strict=True):
            own = list(own) if isinstance(own, (list, tuple)) else [own]
            inputs, new = call_cell(cell, inputs, own, training, constants)
            after.append(new)
        ordered = after[::-1] if self.reverse_state_order else after
        return inputs, [x for new in ordered for x in new]

    def _nest(self, states: Any) -> list[list[Any]]:
        waiting = list(states)
        nested = []
        for cell in self._order():
            size = cell.state_size
            count = len(size) if isinstance(size, (list, tuple)) else 1
            nested.append(waiting[:count])
            waiting = waiting[count:]
        return nested

    def reset_masks(self) -> None:
        """Draw dropout anew in the next step."""
        for cell in self.cells:
            if hasattr(cell, "reset_masks"):
                cell.reset_masks()

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the cells anew."""
        return {**super().get_config(), "cells": [registry.serialize(cell) for cell in self.cells]}

    def _is_abstract_config(self) -> bool:
        return False

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The cells that a config describes."""
        config = dict(config)
        return cls([registry.deserialize(cell, custom_objects) for cell in config.pop("cells")], **config)


def takes_constants(cell: Any) -> bool:
    """Whether a cell takes what is the same in all steps."""
    names = getattr(cell, "_call_arguments", None)
    return "constants" in (inspect.signature(cell.call).parameters if names is None else names)


def call_cell(cell: Any, inputs: Any, states: list[Any], training: Any, constants: Any = None) -> tuple[Any, list[Any]]:
    """One step of a cell, which may be one of the program's own."""
    names = getattr(cell, "_call_arguments", ())
    given = {"training": training} if "training" in names and training is not None else {}
    if constants and takes_constants(cell):
        given["constants"] = constants
    output, new = cell.call(inputs, states, **given)
    return output, list(new) if isinstance(new, (list, tuple)) else [new]


def first_state(cell: Any, inputs: Any, batch_size: Any, dtype: Any) -> Any:
    """The state that a cell begins with."""
    if hasattr(cell, "get_initial_state"):
        return cell.get_initial_state(inputs=inputs, batch_size=batch_size, dtype=dtype)
    return _zero_state(cell, inputs, batch_size, dtype)


def _zero_state(cell: Any, inputs: Any, batch_size: Any, dtype: Any) -> Any:
    batch = tf.shape(inputs)[0] if inputs is not None else batch_size
    sizes = cell.state_size if isinstance(cell.state_size, (list, tuple)) else [cell.state_size]
    made = []
    for size in sizes:
        whole = tf.TensorShape(size).as_list()
        x = tf.zeros(tf.stack([batch, *whole]), dtype or state.floatx())
        x.set_shape([None, *whole])
        made.append(x)
    return made if isinstance(cell.state_size, (list, tuple)) else made[0]
