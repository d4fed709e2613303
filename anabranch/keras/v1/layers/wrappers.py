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


@registry.add()
class TimeDistributed(Wrapper):
    """A layer applied to each step of ``[batch, time, ...]``."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Make the weights of the layer."""
        sizes = K.dims(input_shape)
        self.input_spec = InputSpec(ndim=len(sizes))
        super().build(tf.TensorShape([sizes[0], *sizes[2:]]))

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Compute the outputs."""
        given = {"training": training} if "training" in self.layer._call_arguments and training is not None else {}
        sizes = K.int_shape(inputs)
        dynamic = tf.shape(inputs)
        flat = tf.reshape(inputs, tf.concat([[-1], dynamic[2:]], 0))
        flat.set_shape([None, *sizes[2:]])
        if mask is not None and "mask" in self.layer._call_arguments and K.ndim(mask) > 2:
            given["mask"] = tf.reshape(mask, tf.concat([[-1], tf.shape(mask)[2:]], 0))
        y = self.layer.call(flat, **given) if not self.layer._is_network else self.layer(flat, **given)
        out = K.int_shape(y)[1:]
        outputs = tf.reshape(y, tf.concat([dynamic[:2], tf.shape(y)[1:]], 0))
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
    """

    def __init__(self, layer: Any, merge_mode: str | None = "concat", weights: Any = None, **kwargs: Any) -> None:
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(
                'Invalid merge mode. Merge mode should be one of {"sum", "mul", "ave", "concat", None}\n'
                + errors.message(repr(merge_mode), "'sum', 'mul', 'ave', 'concat' or None", "merge_mode='concat'")
            )
        super().__init__(layer, **kwargs)
        self._layers.clear()
        self.forward_layer = type(layer).from_config(copy.deepcopy(layer.get_config()))
        config = copy.deepcopy(layer.get_config())
        config["go_backwards"] = not config["go_backwards"]
        self.backward_layer = type(layer).from_config(config)
        self.forward_layer._name = f"forward_{layer.name}"
        self.backward_layer._name = f"backward_{layer.name}"
        self.merge_mode = merge_mode
        self.stateful = layer.stateful
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state
        self.supports_masking = True
        self._initial_weights = weights

    def build(self, input_shape: Any = None) -> None:
        """Make the weights of both layers."""
        shape = input_shape[0] if isinstance(input_shape, list) else input_shape
        for layer in (self.forward_layer, self.backward_layer):
            if not layer.built:
                layer._known_batch = K.dims(shape)[0]
                with tf.name_scope(layer.name):
                    layer.build(shape)
                layer.built = True
        self.built = True

    def __call__(self, inputs: Any, initial_state: Any = None, constants: Any = None, **kwargs: Any) -> Any:
        rest = nest.flatten(initial_state) if initial_state is not None else []
        if isinstance(inputs, (list, tuple)):
            inputs, rest = inputs[0], [*inputs[1:], *rest]
        rest += nest.flatten(constants) if constants is not None else []
        return super().__call__([inputs, *rest] if rest else inputs, **kwargs)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Compute the outputs."""
        given = {"training": training} if training is not None else {}
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        if mask is not None:
            given["mask"] = mask
        pair = [inputs, inputs]
        if isinstance(inputs, (list, tuple)):
            half = (len(inputs) - 1) // 2
            pair = [[inputs[0], *inputs[1 : 1 + half]], [inputs[0], *inputs[1 + half :]]]
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
        return {**super().get_config(), "merge_mode": self.merge_mode}
