"""Layers of layers: at each step, in both directions."""

from __future__ import annotations

import copy
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1.layer import InputSpec, Layer, as_shape, registry


@registry.add()
class Wrapper(Layer):
    """A layer that holds another."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        if not isinstance(layer, Layer):
            raise ValueError(
                f"Layer {layer} supplied to wrapper is not a supported layer type. Please ensure "
                "wrapped layer is a valid "
                "Keras layer.\n" + errors.message(f"{layer}", "a layer of tf.keras", "TimeDistributed(Dense(3))")
            )
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        """Make the weights of the layer."""
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        return {**super().get_config(), "layer": registry.serialize(self.layer)}

    def _is_abstract_config(self) -> bool:
        return False

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer that a config describes."""
        config = dict(config)
        return cls(registry.deserialize(config.pop("layer"), custom_objects), **config)


def _sizes(first: list[Any], x: Any, axis: int) -> list[Any]:
    """Sizes to reshape to: ``first``, and those of ``x`` from ``axis`` on, computed where they are unknown."""
    known = K.int_shape(x)[axis:]
    dynamic: Any = tf.shape(x) if None in known else None
    return [*first, *[dynamic[axis + i] if size is None else size for i, size in enumerate(known)]]


@registry.add()
class TimeDistributed(Wrapper):
    """A layer applied to each step of ``[batch, time, ...]``."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Make the weights of the layer."""
        sizes = K.dims(input_shape)
        if len(sizes) < 3:
            raise ValueError(
                "`TimeDistributed` Layer should be passed an `input_shape ` with at least 3 dimensions, received: "
                f"{list(sizes)}\n"
                + errors.message(f"inputs of shape {sizes}", "shape [batch, time, ...]", "tf.expand_dims(x, 1)")
            )
        self.input_spec = InputSpec(ndim=len(sizes))
        super().build(tf.TensorShape([sizes[0], *sizes[2:]]))

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Compute the outputs."""
        given = {"training": training} if "training" in self.layer._call_arguments and training is not None else {}
        sizes = K.int_shape(inputs)
        flat = tf.reshape(inputs, _sizes([-1], inputs, 2))
        flat.set_shape([None, *sizes[2:]])
        if mask is not None and "mask" in self.layer._call_arguments and K.ndim(mask) > 2:
            given["mask"] = tf.reshape(mask, _sizes([-1], mask, 2))
        y = self.layer.call(flat, **given) if not self.layer._is_network else self.layer(flat, **given)
        out = K.int_shape(y)[1:]
        time = tf.shape(inputs)[1] if sizes[1] is None else sizes[1]
        outputs = tf.reshape(y, _sizes([-1, time], y, 1))
        outputs.set_shape([*sizes[:2], *out])
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        sizes = K.dims(input_shape)
        inner = as_shape(self.layer.compute_output_shape(tf.TensorShape([sizes[0], *sizes[2:]]))).as_list()
        return tf.TensorShape([*sizes[:2], *inner[1:]])


@registry.add()
class Bidirectional(Wrapper):
    """A recurrent layer in both directions.

    Args:
        layer: the layer.
        merge_mode: how both are joined: ``'concat'``, ``'sum'``, ``'mul'``, ``'ave'``, or None for a list.
        weights: first values of the weights.
        backward_layer: the layer that reads the inputs from their end; by default one like ``layer``.

    Raises:
        ValueError: ``layer`` or ``backward_layer`` is not a layer, or the two do not fit together.
    """

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ) -> None:
        for given, what in ((layer, "layer"), (layer if backward_layer is None else backward_layer, "backward_layer")):
            if not isinstance(given, Layer):
                raise ValueError(
                    f"Please initialize `Bidirectional` layer with a `Layer` instance. You passed: {given}\n"
                    + errors.message(f"{what}={given!r}", "a recurrent layer", "Bidirectional(LSTM(8))")
                )
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(
                'Invalid merge mode. Merge mode should be one of {"sum", "mul", "ave", "concat", None}\n'
                + errors.message(repr(merge_mode), "'sum', 'mul', 'ave', 'concat' or None", "merge_mode='concat'")
            )
        super().__init__(layer, **kwargs)
        self._layers.clear()
        self.forward_layer = _like(layer, layer.go_backwards)
        self._backward_config = None
        if backward_layer is None:
            backward_layer = _like(layer, not layer.go_backwards)
        else:
            own = {"class_name": type(backward_layer).__name__, "config": backward_layer.get_config()}
            self._backward_config = copy.deepcopy(own)
        self.backward_layer = backward_layer
        self.forward_layer._name = f"forward_{layer.name}"
        self.backward_layer._name = f"backward_{backward_layer.name}"
        self._check_pair()
        for each in (self.forward_layer, self.backward_layer):
            if getattr(each, "zero_output_for_mask", None) is not None:  # so that both ends of a mask are zeros
                each.zero_output_for_mask = each.return_sequences
        self.merge_mode = merge_mode
        self.stateful = layer.stateful
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state
        self.supports_masking = True
        self._initial_weights = weights
        self._constants = 0

    def _check_pair(self) -> None:
        forward, backward = self.forward_layer, self.backward_layer
        if forward.go_backwards == backward.go_backwards:
            raise ValueError(
                "Forward layer and backward layer should have different `go_backwards` value.\n"
                + errors.message(
                    f"two layers with go_backwards={forward.go_backwards}",
                    "layers of which one goes backwards",
                    "Bidirectional(LSTM(8), backward_layer=GRU(8, go_backwards=True))",
                )
            )
        for name in ("stateful", "return_sequences", "return_state"):
            pair = getattr(forward, name), getattr(backward, name)
            if pair[0] != pair[1]:
                raise ValueError(
                    "Forward layer and backward layer are expected to have the same value for attribute "
                    f"{name}, got {pair[0]} and {pair[1]}\n"
                    + errors.message(f"layers with {name}={pair[0]} and {name}={pair[1]}", "one value", f"{name}=True")
                )

    def build(self, input_shape: Any = None) -> None:
        """Make the weights of both layers."""
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        fixed = input_shape[len(input_shape) - self._constants :] if isinstance(input_shape, list) else []
        for layer in (self.forward_layer, self.backward_layer):
            if not layer.built:
                layer._known_batch, layer._constants = K.dims(shape)[0], self._constants
                with tf.name_scope(layer.name):
                    layer.build([shape, *fixed] if fixed else shape)
                layer.built = True
        self.built = True

    def __call__(self, inputs: Any, initial_state: Any = None, constants: Any = None, **kwargs: Any) -> Any:
        rest = nest.flatten(initial_state) if initial_state is not None else []
        if isinstance(inputs, (list, tuple)):
            inputs, rest = inputs[0], [*inputs[1:], *rest]
        if len(rest) % 2:
            raise ValueError(
                "When passing `initial_state` to a Bidirectional RNN, the state should be a list containing the states "
                f"of the underlying RNNs. Found: {rest}\n"
                + errors.message(f"{len(rest)} states", "those of both directions", "initial_state=[h, c, h, c]")
            )
        fixed = nest.flatten(constants) if constants is not None else []
        self._constants = len(fixed)
        rest = [*rest, *fixed]
        return super().__call__([inputs, *rest] if rest else inputs, **kwargs)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Compute the outputs."""
        given = {"training": training} if training is not None else {}
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        if mask is not None:
            given["mask"] = mask
        pair = [inputs, inputs]
        if isinstance(inputs, (list, tuple)):
            end = len(inputs) - self._constants
            half, fixed = (end - 1) // 2, inputs[end:]
            pair = [[inputs[0], *inputs[1 : 1 + half], *fixed], [inputs[0], *inputs[1 + half : end], *fixed]]
        for layer in (self.forward_layer, self.backward_layer):
            layer._constants = self._constants
        y, back = (
            layer.call(x, **given) for layer, x in zip((self.forward_layer, self.backward_layer), pair, strict=True)
        )
        states: list[Any] = []
        if self.return_state:
            states = [*y[1:], *back[1:]]
            y, back = y[0], back[0]
        if self.return_sequences:
            back = tf.reverse(back, [0 if getattr(self.forward_layer, "time_major", False) else 1])
        joined = {
            "concat": lambda: tf.concat([y, back], -1),
            "sum": lambda: y + back,
            "ave": lambda: (y + back) / 2,
            "mul": lambda: y * back,
            None: lambda: [y, back],
        }[self.merge_mode]()
        if not self.return_state:
            return joined
        return [*joined, *states] if self.merge_mode is None else [joined, *states]

    def reset_states(self) -> None:
        """Begin the states of both layers anew."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        own = mask if self.return_sequences else None
        masks = [own, own] if not self.merge_mode else own
        if not self.return_state:
            return masks
        states = [None] * (2 * len(self.forward_layer._state_sizes()))
        return [*masks, *states] if isinstance(masks, list) else [masks, *states]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        found = as_shape(self.forward_layer.compute_output_shape(input_shape))
        shape, states = (found[0], found[1:]) if isinstance(found, list) else (found, [])
        if self.merge_mode == "concat":
            sizes = shape.as_list()
            shape = tf.TensorShape([*sizes[:-1], sizes[-1] * 2])
        outputs = [shape, shape] if self.merge_mode is None else [shape]
        whole = [*outputs, *states, *states]
        return whole if len(whole) > 1 else whole[0]

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        config = {**super().get_config(), "merge_mode": self.merge_mode}
        if self._backward_config is not None:
            config["backward_layer"] = self._backward_config
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layer that a config describes."""
        config = dict(config)
        if config.get("backward_layer") is not None:
            config["backward_layer"] = registry.deserialize(config["backward_layer"], custom_objects)
        return super().from_config(config, custom_objects)


def _like(layer: Any, go_backwards: bool) -> Any:
    """A recurrent layer like another, which reads its inputs in one direction; cells of the program's own are known."""
    config = copy.deepcopy(layer.get_config())
    config["go_backwards"] = go_backwards
    cell = getattr(layer, "cell", None)
    if cell is None or "cell" not in config:
        return type(layer).from_config(config)
    cells = {type(one).__name__: type(one) for one in (cell, *getattr(cell, "cells", ()))}
    return type(layer).from_config(config, custom_objects=cells)
