"""Models of layers one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import objects, state
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.layers.inputs import Input, InputLayer
from anabranch.keras.v1.model import Model
from anabranch.keras.v1.network import has_weights
from anabranch.layers.base import Layer as ScopedLayer


class ScopedLayerInNetwork(Layer):
    """A layer of ``tf.layers`` as one of a network."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(name=layer.name, **kwargs)
        self.layer = layer
        self._has_training = "training" in layer.call.__code__.co_varnames

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Apply the layer."""
        return (
            self.layer(inputs, training=training) if self._has_training and training is not None else self.layer(inputs)
        )

    def _all_updates(self) -> list[Any]:
        return list(self.layer.updates)


@registry.add()
class Sequential(Model):
    """Layers one after the other.

    Args:
        layers: the first ones.
        name: name of the model.
    """

    _keeps_layers = True
    _build_input_shape: tuple[int | None, ...] | None
    """For which inputs the weights were made, of a model that came without an input."""

    def __init__(self, layers: Any = None, name: str | None = None) -> None:
        self._init_own(name=name)
        self._is_graph_network = False
        object.__setattr__(self, "_call_arguments", ["inputs", "training", "mask"])
        self._has_input = False
        self._is_deferred = False
        object.__setattr__(self, "_build_input_shape", None)
        for layer in layers or []:
            self.add(layer)

    @property
    def layers(self) -> list[Any]:
        """The layers, without that of the input."""
        return [layer for layer in self._layers if not isinstance(layer, InputLayer)]

    def _follows(self, name: str) -> bool:
        return False  # its layers are those that were added

    def add(self, layer: Any) -> None:
        """Add a layer at the end."""
        if hasattr(layer, "_keras_history") and isinstance(layer, tf.Tensor):
            layer = layer._keras_history.layer
        if isinstance(layer, ScopedLayer):
            layer = ScopedLayerInNetwork(layer)
        if not isinstance(layer, Layer):
            raise TypeError(
                f"The added layer must be an instance of class Layer. Found: {layer}\n"
                + errors.message(repr(layer), "a layer", "tf.keras.layers.Lambda(function)")
            )
        if any(layer.name == known.name for known in self._layers):
            raise ValueError(
                "All layers added to a Sequential model should have unique names. Name "
                f"{layer.name} is already the name "
                f"of a layer in this model.\n"
                + errors.message(f"a second layer {layer.name!r}", "another name", "Dense(3, name='other')")
            )
        self.built = False
        if not self._layers:
            shape, kind = _first_shape(layer)
            if isinstance(layer, InputLayer):
                self._begin(layer._inbound_nodes[-1].output_tensors)
                self._layers.append(layer)
                self._finish()
                return
            if shape is not None:
                x = Input(batch_shape=shape, dtype=kind, name=f"{layer.name}_input")
                self._layers.append(x._keras_history.layer)
                self._begin(x)
        self._layers.append(layer)
        if not self._has_input:
            self._is_deferred = True
            self._name_layers(self._layers)
        else:
            output = layer(self.outputs[0])
            if isinstance(output, (list, tuple)):
                raise TypeError(
                    "All layers in a Sequential model should have a single output tensor. For "
                    "multi-output layers, use the "
                    "functional API.\n"
                    + errors.message(
                        f"{len(output)} outputs of {layer.name}", "one output", "tf.keras.Model(inputs, outputs)"
                    )
                )
            object.__setattr__(self, "outputs", [output])
            self._finish()

    def _begin(self, x: Any) -> None:
        self._has_input = True
        object.__setattr__(self, "inputs", [x])
        object.__setattr__(self, "outputs", [x])

    def _finish(self) -> None:
        """Make it a network of its tensors."""
        layers = list(self._layers)
        self._inbound_nodes.clear()
        self._nested_inputs, self._nested_outputs = self.inputs[0], self.outputs[0]
        self._map()
        self._layers[:] = layers
        self._is_graph_network = True
        self.input_names = [self.inputs[0]._keras_history.layer.name]
        self.output_names = [self.outputs[0]._keras_history.layer.name]
        self._record_own_node()
        self._name_layers(layers)
        self.built = True

    def _name_layers(self, layers: list[Any]) -> None:
        """See `Network._name_layers`: a model that came without an input numbers the layers that were added."""
        if not self._is_deferred:
            super()._name_layers(layers)
            return
        numbered = {f"layer-{i}": layer for i, layer in enumerate(self.layers)}
        weighted = [layer for layer in self.layers if has_weights(layer)]
        self._take_names({**numbered, **{f"layer_with_weights-{i}": layer for i, layer in enumerate(weighted)}})

    def pop(self) -> None:
        """Take the last layer away.

        Raises:
            TypeError: there is none.
        """
        if not self.layers:
            raise TypeError(
                "There are no layers in the model.\n"
                + errors.message("pop of an empty model", "a layer", "model.add(layer)")
            )
        layer = self._layers.pop()
        self.built = False
        if not self.layers:
            self._layers.clear()
            self._has_input = self._is_graph_network = self._is_deferred = False
            object.__setattr__(self, "inputs", None)
            object.__setattr__(self, "outputs", None)
        elif self._has_input:
            self.layers[-1]._outbound_nodes[:] = [
                node for node in self.layers[-1]._outbound_nodes if node.outbound_layer is not layer
            ]
            object.__setattr__(self, "outputs", [self.layers[-1].output])
            self._finish()
        else:
            self._name_layers(self._layers)

    def build(self, input_shape: Any = None) -> None:
        """Make the weights for inputs of this shape."""
        if self._is_graph_network or input_shape is None:
            if not self._is_graph_network:
                raise ValueError(
                    "You must provide an `input_shape` argument.\n"
                    + errors.message("build() of a model without inputs", "a shape", "model.build((None, 3))")
                )
            return
        shape = input_shape if isinstance(input_shape, dict) else tuple(tf.TensorShape(input_shape).as_list())
        object.__setattr__(self, "_build_input_shape", shape)
        super().build(input_shape)
        self._name_layers(self._layers)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Apply the layers."""
        if self._is_graph_network:
            return super().call(inputs, training=training, mask=mask)
        x = inputs
        for layer in self._layers:
            given = {"mask": mask} if mask is not None and "mask" in layer._call_arguments else {}
            x = layer(x, **given)
            mask = getattr(x, "_keras_mask", None)
        return x

    def _set_inputs(self, arrays: Any) -> None:
        if isinstance(arrays, dict) or len(arrays) != 1 or (isinstance(arrays[0], tf.Tensor) and not state.is_eager()):
            super()._set_inputs(arrays)
            return
        own = self.layers
        (x,) = arrays
        object.__setattr__(self, "_build_input_shape", (None, *np.shape(x)[1:]))
        kind = x.dtype.name if x.dtype in (np.int32, np.int64) else state.floatx()
        with state.graph().as_default():
            y = Input(batch_shape=(None, *np.shape(x)[1:]), dtype=kind, name=f"input_{state.get_uid('input')}")
            self._begin(y)
            with tf.name_scope(self.name):
                for layer in own:
                    y = layer(y)
        self._layers[:] = [self.inputs[0]._keras_history.layer, *own]
        object.__setattr__(self, "outputs", [y])
        self._finish()
        self.input_names, self.output_names = ["input_1"], ["output_1"]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs for a shape of the inputs."""
        shape = tf.TensorShape(input_shape)
        for layer in self.layers:
            shape = layer.compute_output_shape(shape)
        return shape

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        return getattr(self.outputs[0], "_keras_mask", None) if self.outputs else None

    def predict_proba(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """Probabilities of classes: the outputs."""
        return self.predict(x, batch_size, verbose)

    def predict_classes(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """Class numbers: of the greatest output, or whether the only one is above one half."""
        outputs = self.predict(x, batch_size, verbose)
        return outputs.argmax(-1) if outputs.shape[-1] > 1 else (outputs > 0.5).astype(np.int32)

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the model anew."""
        config: dict[str, Any] = {
            "name": self.name,
            "layers": [objects.serialize_keras_object(layer) for layer in self.layers],
        }
        if self._build_input_shape is not None:
            config["build_input_shape"] = self._build_input_shape
        return config

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """The model that a config describes."""
        data: dict[str, Any] = {"name": None, "layers": config} if isinstance(config, list) else config
        model = cls(name=data.get("name"))
        for layer in data["layers"]:
            model.add(registry.deserialize(layer, custom_objects))
        shape = data.get("build_input_shape")
        if not model.inputs and shape:
            model.build(shape)
        return model


def _first_shape(layer: Any) -> tuple[Any, Any]:
    """Shape and dtype that a first layer says of its input."""
    while isinstance(layer, Model) and not hasattr(layer, "_batch_input_shape"):
        if layer.inputs:
            return nest.map_structure(lambda x: tuple(x.shape.as_list()), layer.inputs[0]), layer.inputs[0].dtype.name
        if not layer.layers:
            return None, None
        layer = layer.layers[0]
    return getattr(layer, "_batch_input_shape", None), layer.dtype
