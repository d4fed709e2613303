"""Recurrent layers: cells applied over time."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import backend_nn, regularizers, state
from anabranch.keras.v1.layer import InputSpec, Layer, registry
from anabranch.keras.v1.layers import cells
from anabranch.keras.v1.layers.cells import call_cell, first_state


@registry.add()
class RNN(Layer):
    """A cell applied over time ``[batch, time, features]``.

    Args:
        cell: the cell, or a list of cells.
        return_sequences: give the outputs of all steps, not the last alone.
        return_state: give the last states after the output.
        go_backwards: begin with the last step.
        stateful: begin a batch with the last states of the one before.
        unroll: write the steps out.
        time_major: the time stands first.
    """

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        if isinstance(cell, (list, tuple)):
            cell = cells.StackedRNNCells(cell)
        if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
            raise ValueError(
                f"`cell` should have a `call` method and a `state_size`. The RNN was passed: {cell}\n"
                + errors.message(f"{cell}", "a cell", "RNN(LSTMCell(8))")
            )
        self.zero_output_for_mask = kwargs.pop("zero_output_for_mask", False)
        if "input_shape" not in kwargs and (kwargs.get("input_dim") or kwargs.get("input_length")):
            kwargs["input_shape"] = (kwargs.pop("input_length", None), kwargs.pop("input_dim", None))
        super().__init__(**kwargs)
        self.cell = cell
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        self.stateful, self.unroll, self.time_major = stateful, unroll, time_major
        self.supports_masking = True
        self._states: list[Any] | None = None
        self.state_spec: Any = None
        self.constants_spec: Any = None
        self._constants = 0
        """How many of its inputs are constants, which stand last."""

    @property
    def states(self) -> Any:
        """The states that a stateful layer keeps."""
        sizes = self._state_sizes()
        return list(self._states) if self._states is not None else [None] * len(sizes)

    def _state_sizes(self) -> list[Any]:
        return nest.flatten(self.cell.state_size)

    def build(self, input_shape: Any) -> None:
        """Make the weights of the cell."""
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        sizes = K.dims(shape)
        self.input_spec = InputSpec(ndim=len(sizes))
        step = (sizes[1] if self.time_major else sizes[0], *sizes[2:])
        if isinstance(self.cell, Layer) and not self.cell.built:
            fixed = input_shape[len(input_shape) - self._constants :] if isinstance(input_shape, list) else []
            shapes = [tf.TensorShape(step), *map(tf.TensorShape, fixed)]
            self._build_cell(shapes if fixed and cells.takes_constants(self.cell) else shapes[0])
        if self.stateful:
            self._known_batch = sizes[1 if self.time_major else 0]
            self.reset_states()
        self.built = True

    def _build_cell(self, shape: Any) -> None:
        if self._dtype is not None and self.cell._dtype is None:
            self.cell._dtype = self._dtype
        self.cell.build(shape)
        self.cell.built = True

    def get_initial_state(self, inputs: Any) -> list[Any]:
        """The states that it begins with."""
        if self.time_major:
            inputs = tf.transpose(inputs, [1, 0, *range(2, K.ndim(inputs))])
        batch = tf.shape(inputs)[0]
        return nest.flatten(first_state(self.cell, inputs[:, 0], batch, inputs.dtype))

    def __call__(self, inputs: Any, initial_state: Any = None, constants: Any = None, **kwargs: Any) -> Any:
        if isinstance(inputs, (list, tuple)):
            count = len(self._state_sizes())
            given = list(inputs)
            inputs, rest = given[0], given[1:]
            if constants is None and self._constants:  # known from a call before, or from the config
                rest, constants = rest[: -self._constants], rest[-self._constants :]
            elif constants is None and len(rest) > count:
                rest, constants = rest[:count], rest[count:]
            if rest and initial_state is None:
                initial_state = rest
        starts = [] if initial_state is None else nest.flatten(initial_state)
        fixed_inputs = [] if constants is None else nest.flatten(constants)
        self._constants = len(fixed_inputs)
        if starts or fixed_inputs:
            return super().__call__([inputs, *starts, *fixed_inputs], **kwargs)
        return super().__call__(inputs, **kwargs)

    def call(self, inputs: Any, mask: Any = None, training: Any = None, **kwargs: Any) -> Any:
        """Compute the outputs."""
        starts: list[Any] = []
        constants: list[Any] = []
        if isinstance(inputs, (list, tuple)):
            first_constant = len(inputs) - self._constants
            starts, constants = list(inputs[1:first_constant]), list(inputs[first_constant:])
            inputs = inputs[0]
        if isinstance(mask, (list, tuple)):
            mask = mask[0]
        if hasattr(self.cell, "reset_masks"):
            self.cell.reset_masks()
        if not starts:
            starts = list(self._states) if self.stateful and self._states else self.get_initial_state(inputs)
            if self.stateful and self._states:
                count_more(12 - 3 * len(starts))  # the states, which TensorFlow reads and writes otherwise
        starts = [tf.cast(tf.convert_to_tensor(x), inputs.dtype) for x in starts]
        if constants and not cells.takes_constants(self.cell):
            raise ValueError(
                "RNN cell does not support constants\n"
                + errors.message(
                    f"{len(constants)} constants for {type(self.cell).__name__}",
                    "a cell whose call takes them",
                    "def call(self, inputs, states, constants): ...",
                )
            )

        def step(x: Any, states: Any) -> Any:
            own = list(states[: len(states) - len(constants)])
            output, new = call_cell(self.cell, x, own, training, list(states[len(own) :]))
            return output, nest.flatten(new)

        last, outputs, states = backend_nn.rnn(
            step,
            inputs,
            starts,
            go_backwards=self.go_backwards,
            mask=mask,
            constants=constants,
            unroll=self.unroll,
            time_major=self.time_major,
            zero_output_for_mask=self.zero_output_for_mask,
        )
        if self.stateful and self._states is not None:
            moves = [tf.assign(variable, value) for variable, value in zip(self._states, states, strict=True)]
            self.add_update(moves)
        result = outputs if self.return_sequences else last
        return [result, *states] if self.return_state else result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        own = mask if self.return_sequences else None
        return [own, *[None] * len(self._state_sizes())] if self.return_state else own

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        sizes = K.dims(shape)
        size = getattr(self.cell, "output_size", None)
        size = self._state_sizes()[0] if size is None else size
        rest = tf.TensorShape(size).as_list()
        batch, time = (sizes[1], sizes[0]) if self.time_major else (sizes[0], sizes[1])
        lead = [time, batch] if self.time_major else [batch, time]
        result = tf.TensorShape([*lead, *rest] if self.return_sequences else [batch, *rest])
        if not self.return_state:
            return result
        return [result, *[tf.TensorShape([batch, *tf.TensorShape(s).as_list()]) for s in self._state_sizes()]]

    def reset_states(self, states: Any = None) -> None:
        """Give the states that a stateful layer keeps these values; zeros if None.

        Raises:
            AttributeError: the layer is not stateful.
        """
        if not self.stateful:
            raise AttributeError(
                "Layer must be stateful.\n"
                + errors.message("a layer without kept states", "stateful=True", "LSTM(8, stateful=True)")
            )
        if self._states is None:
            shape = getattr(self, "_batch_input_shape", None)
            batch = shape[0] if shape else None
            if batch is None and self._inbound_nodes:
                first = nest.flatten(self._inbound_nodes[0].input_tensors)[0]
                batch = K.int_shape(first)[1 if self.time_major else 0]
            batch = self._known_batch if batch is None and getattr(self, "_known_batch", None) else batch
            if batch is None:
                raise ValueError(
                    "If a RNN is stateful, it needs to know its batch size. Specify the batch "
                    "size of your input tensors.\n"
                    + errors.message("a stateful layer for any batch", "a batch size", "batch_input_shape=(32, 10, 8)")
                )
            with tf.init_scope():
                self._states = [
                    K.zeros((batch, *tf.TensorShape(size).as_list()), dtype=self._dtype) for size in self._state_sizes()
                ]
            for variable in self._states:
                if any(variable is w for w in self._own_trainable):
                    self._own_trainable[:] = [w for w in self._own_trainable if w is not variable]
            return
        given = [np.zeros(K.dims(v.shape)) for v in self._states] if states is None else nest.flatten(states)
        if len(given) != len(self._states):
            raise ValueError(
                f"Layer {self.name} expects {len(self._states)} states, but it received {len(given)} state values.\n"
                + errors.message(f"{len(given)} states", f"{len(self._states)}", "reset_states([h, c])")
            )
        state.batch_set_value(zip(self._states, given, strict=True))

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        own = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in own},
            **({"zero_output_for_mask": True} if self.zero_output_for_mask else {}),
            **({"num_constants": self._constants} if self._constants else {}),
            "cell": registry.serialize(self.cell),
        }

    def _is_abstract_config(self) -> bool:
        return False

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer that a config describes."""
        config = dict(config)
        constants = config.pop("num_constants", None) or 0
        layer = cls(registry.deserialize(config.pop("cell"), custom_objects), **config)
        layer._constants = constants
        return layer


_OF_LAYER = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major")


class _OfCell(RNN):
    """A recurrent layer of one kind of cell, whose arguments it takes."""

    _cell_class: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        defaults = self._cell_class.__init__
        names = [n for n in defaults.__wrapped__.__code__.co_varnames[1 : defaults.__wrapped__.__code__.co_argcount]]
        order = [*names, *_OF_LAYER[:5]]
        if "reset_after" in names:  # stands last in the layer's arguments
            order = [*[n for n in names if n != "reset_after"], *_OF_LAYER[:5], "time_major", "reset_after"]
        kwargs.update(zip(order, args, strict=False))
        regularizer = kwargs.pop("activity_regularizer", None)
        of_cell = {name: kwargs.pop(name) for name in names if name in kwargs}
        of_layer = {name: kwargs.pop(name) for name in _OF_LAYER if name in kwargs}
        kind = {"dtype": kwargs["dtype"]} if kwargs.get("dtype") else {}
        cell = self._cell_class(**of_cell, **kind, trainable=kwargs.get("trainable", True))
        super().__init__(cell, **of_layer, activity_regularizer=regularizer, **kwargs)
        self.input_spec = InputSpec(ndim=3)

    def __getattr__(self, name: str) -> Any:
        cell = self.__dict__.get("cell")
        if (
            cell is not None
            and not name.startswith("_")
            and name in (*cell._config_names, "kernel", "recurrent_kernel", "bias")
        ):
            return getattr(cell, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        config = super().get_config()
        del config["cell"]
        own = self.cell.get_config()
        regularizer = regularizers.serialize(self._activity_regularizer)
        return {
            **config,
            **{name: own[name] for name in self.cell._config_names},
            "activity_regularizer": regularizer,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer that a config describes."""
        return cls(**config)


@registry.add()
class SimpleRNN(_OfCell):
    """A fully connected recurrent network; arguments are those of `SimpleRNNCell` and `RNN`.

    Args:
        implementation: without effect: there is one way to compute it.
    """

    _cell_class = cells.SimpleRNNCell

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("implementation", None)
        super().__init__(*args, **kwargs)


@registry.add()
class GRU(_OfCell):
    """Gated recurrent units; arguments are those of `GRUCell` and `RNN`."""

    _cell_class = cells.GRUCell


@registry.add()
class LSTM(_OfCell):
    """Long short-term memory; arguments are those of `LSTMCell` and `RNN`."""

    _cell_class = cells.LSTMCell


class _CuDNN(_OfCell):
    """What has cuDNN's weights and arguments, on any device."""

    _fixed: dict[str, Any] = {}
    _hidden = ("activation", "recurrent_activation", "use_bias", "dropout", "recurrent_dropout", "implementation")

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        names = [
            "kernel_initializer",
            "recurrent_initializer",
            "bias_initializer",
            *(["unit_forget_bias"] if self._cell_class is cells.LSTMCell else []),
            "kernel_regularizer",
            "recurrent_regularizer",
            "bias_regularizer",
            "activity_regularizer",
            "kernel_constraint",
            "recurrent_constraint",
            "bias_constraint",
            "return_sequences",
            "return_state",
            "go_backwards",
            "stateful",
        ]
        kwargs.update(zip(names, args, strict=False))
        super().__init__(units=units, **self._fixed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        hidden = (*self._hidden, "unroll", "reset_after")
        return {name: value for name, value in super().get_config().items() if name not in hidden}


@registry.add()
class CuDNNLSTM(_CuDNN):
    """Long short-term memory as cuDNN has it: a sigmoid for the gates, and two biases of which one is zero."""

    _cell_class = cells.LSTMCell
    _fixed = {"recurrent_activation": "sigmoid"}


@registry.add()
class CuDNNGRU(_CuDNN):
    """Gated recurrent units as cuDNN has them."""

    _cell_class = cells.GRUCell
    _fixed = {"recurrent_activation": "sigmoid", "reset_after": True}
