"""Networks: the layers between inputs and outputs, as one layer.

A network of tensors is found by the history of its outputs (:mod:`~anabranch.keras.v1.layer`). Its ``input`` and
``output`` are the graph's tensors themselves; called on others, it applies its layers to them in the order of their
depth.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import graph_ops, objects, state
from anabranch.keras.v1.layer import (
    Layer,
    as_shape,
    complete_history,
    is_inside_call,
    registry,
)
from anabranch.keras.v1.layers.inputs import InputLayer
from anabranch.keras.v1.nodes import KerasHistory, Node, single
from anabranch.keras.v1.weights import reachable
from anabranch.variables import tracking


def has_weights(layer: Any) -> bool:
    """Whether a layer has weights by now."""
    with contextlib.suppress(ValueError):  # one that is not built yet, and does not tell
        return bool(layer.weights)
    return False


def _alone(tensors: Any) -> Any:
    """The tensor of a list of one, of which a model is called and gives nothing but that."""
    return tensors[0] if isinstance(tensors, list) and len(nest.flatten(tensors)) == 1 else tensors


class Network(Layer):
    """A directed graph of layers, or the base of models that say in ``call`` what they compute."""

    _is_network = True
    _own_weights_first = False
    _keeps_layers = False
    """Whether its layers are those that the program lists, and no more."""
    inputs: Any
    outputs: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for old, new in (("input", "inputs"), ("output", "outputs")):
            if old in kwargs and new not in kwargs:
                kwargs[new] = kwargs.pop(old)
        if len(args) >= 2 or "outputs" in kwargs or (len(args) == 1 and "inputs" in kwargs):
            self._init_graph(*args, **kwargs)
        else:
            self._init_own(*args, **kwargs)

    def _init_own(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._is_graph_network = False
        object.__setattr__(self, "inputs", None)
        object.__setattr__(self, "outputs", None)
        self.built = False

    def _init_graph(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._is_graph_network = True
        self._nested_inputs, self._nested_outputs = _alone(inputs), _alone(outputs)
        object.__setattr__(self, "inputs", nest.flatten(inputs))
        object.__setattr__(self, "outputs", nest.flatten(outputs))
        for x in self.inputs:
            if not hasattr(x, "_keras_history"):
                raise ValueError(
                    f"Input tensors to a Model must come from `tf.keras.Input`. Received: {x}\n"
                    + errors.message(
                        f"{x} as an input of a model", "a tensor that Input made", "tf.keras.Input(tensor=x)"
                    )
                )
        from_ops = [x for x in self.outputs if not hasattr(x, "_keras_history")]
        if from_ops:
            _history_of(from_ops)
        self._map()
        self.built = True
        self.input_names = [x._keras_history.layer.name for x in self.inputs]
        names = [x._keras_history.layer.name for x in self.outputs]
        self.output_names = [
            name if names.count(name) == 1 or name not in names[:i] else f"{name}_{names[:i].count(name)}"
            for i, name in enumerate(names)
        ]
        self._call_arguments = ["inputs", "training", "mask"]
        self._record_own_node()

    def _record_own_node(self) -> None:
        """The call that made it, which does not change the history of its outputs."""
        histories = [x._keras_history for x in self.outputs]
        Node(self, self._nested_inputs, self._nested_outputs, {})
        for x, history in zip(self.outputs, histories, strict=True):
            x._keras_history = history

    def _map(self) -> None:
        """Find nodes and layers between inputs and outputs, and the order in which they run."""
        order: list[Node] = []
        finished: set[int] = set()
        running: set[int] = set()
        first_seen: dict[int, int] = {}
        layers: dict[int, Layer] = {}
        starts = {id(x) for x in self.inputs}

        def visit(x: Any) -> None:
            waiting: list[tuple[Any, bool]] = [(x, False)]
            while waiting:
                tensor, is_done = waiting.pop()
                layer, index, _ = tensor._keras_history
                node = layer._inbound_nodes[index]
                if is_done:
                    running.discard(id(node))
                    if id(node) not in finished:
                        finished.add(id(node))
                        order.append(node)
                    continue
                if id(node) in finished:
                    continue
                if id(node) in running:
                    continue
                first_seen.setdefault(id(layer), len(first_seen))
                layers[id(layer)] = layer
                running.add(id(node))
                waiting.append((tensor, True))
                if id(tensor) not in starts:
                    waiting.extend((y, False) for y in reversed(nest.flatten(node.input_tensors)) if node.histories)

        for x in [*self.outputs, *self.__dict__.get("_added_ends", ())]:
            visit(x)
        node_depths: dict[int, int] = {}
        layer_depths: dict[int, int] = {}
        for node in reversed(order):
            layer = node.outbound_layer
            depth = max(node_depths.setdefault(id(node), 0), layer_depths.get(id(layer), 0))
            layer_depths[id(layer)] = node_depths[id(node)] = depth
            if any(id(x) in starts for x in nest.flatten(node.output_tensors)):
                continue
            for history in node.histories:
                before = history.layer._inbound_nodes[history.node_index]
                node_depths[id(before)] = max(depth + 1, node_depths.get(id(before), 0))
        for x in self.inputs:
            layer, index, _ = x._keras_history
            if id(layer) not in layer_depths:
                layer_depths[id(layer)] = 0
                first_seen[id(layer)] = -1
                layers[id(layer)] = layer
                node_depths[id(layer._inbound_nodes[index])] = 0
                order.append(layer._inbound_nodes[index])
        ordered = sorted(layers.values(), key=lambda layer: (-layer_depths[id(layer)], first_seen[id(layer)]))
        self._layers[:] = ordered
        self._name_layers(ordered)
        self._nodes = sorted(order, key=lambda node: -node_depths[id(node)])
        known = {id(x) for x in self.inputs}
        for node in self._nodes:
            needed = nest.flatten(node.input_tensors) if node.histories else []
            is_input = all(id(x) in known for x in nest.flatten(node.output_tensors))
            missing = [x for x in needed if id(x) not in known] if not is_input else []
            if missing or (not node.histories and not is_input):
                x = missing[0] if missing else nest.flatten(node.output_tensors)[0]
                raise ValueError(
                    f'Graph disconnected: cannot obtain value for tensor {x} at layer "{node.outbound_layer.name}".\n'
                    + errors.message(
                        f"tensor {x}",
                        "outputs that depend on the given inputs alone",
                        "give its Input as one of the inputs",
                    )
                )
            known.update(id(x) for x in nest.flatten(node.output_tensors))
        names = [layer.name for layer in ordered]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f'The name "{name}" is used {names.count(name)} times in the model. '
                    "All layer names should be unique.\n"
                    + errors.message(f"two layers named {name!r}", "names that differ", "layers.Dense(3, name=...)")
                )

    # ---------------------------------------------------------------------------------------------------------- layers

    @property
    def layers(self) -> list[Any]:
        """The layers."""
        return self._sublayers

    def _follows(self, name: str) -> bool:
        return not self.__dict__.get("_is_graph_network") and super()._follows(name)

    def _name_layers(self, layers: list[Any]) -> None:
        """Name the layers as TensorFlow's checkpoints do, those with weights by numbers of their own first."""
        named: dict[str, Any] = {}
        for i, layer in enumerate(layers):
            if has_weights(layer):
                weighted = sum(name.startswith("layer_with_weights-") for name in named)
                named[f"layer_with_weights-{weighted}"] = layer
            named[f"layer-{i}"] = layer
        self._take_names(named)

    def _take_names(self, named: dict[str, Any]) -> None:
        """Give the layers these names in place of those that they had."""
        others = {
            name: child
            for name, child in self._children.items()
            if not name.startswith(("layer-", "layer_with_weights-"))
        }
        object.__setattr__(self, "_children", {**named, **others})
        tracking.joined()

    def _assert_weights_created(self) -> None:
        """Refuse to tell the weights of a class with a `build` of its own (such as `Sequential`) that has not run."""
        if not self._is_graph_network and not self.built and "build" in type(self).__dict__:
            raise ValueError(
                f"Weights for model {self.name} have not yet been created. Weights are created when the Model is first "
                "called on inputs or `build()` is called with an `input_shape`.\n"
                + errors.message(
                    f"the weights of {self.name!r}", "a model that is built", "model.build((None, 3)), or a call"
                )
            )

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that optimizers change."""
        self._assert_weights_created()
        return super().trainable_weights

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        self._assert_weights_created()
        return super().non_trainable_weights

    @property
    def weights(self) -> list[Any]:
        """All variables, layer by layer, and then those of its own."""
        self._assert_weights_created()
        return self._with_own([*self._own_trainable, *self._own_frozen], self._nested("weights"))

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """A layer by its name or number."""
        layers = self.layers
        if index is not None:
            if len(layers) <= index:
                raise ValueError(
                    f"Was asked to retrieve layer at index {index} but model only has {len(layers)} layers.\n"
                    + errors.message(f"index {index}", f"at most {len(layers) - 1}", "model.layers[-1]")
                )
            return layers[index]
        if not name:
            raise ValueError(
                "Provide either a layer name or layer index.\n"
                + errors.message("get_layer()", "a name or an index", "model.get_layer('dense')")
            )
        for layer in layers:
            if layer.name == name:
                return layer
        raise ValueError(
            f"No such layer: {name}\n"
            + errors.message(repr(name), f"one of {[x.name for x in layers]}", "model.layers")
        )

    @property
    def stateful(self) -> bool:
        """Whether a layer keeps state from batch to batch."""
        return any(getattr(layer, "stateful", False) for layer in self._sublayers)

    @stateful.setter
    def stateful(self, value: bool) -> None:
        pass  # told by the layers

    def reset_states(self) -> None:
        """Begin the state of recurrent layers anew."""
        for layer in self._sublayers:
            if hasattr(layer, "reset_states") and getattr(layer, "stateful", False):
                layer.reset_states()

    @property
    def state_updates(self) -> list[Any]:
        """Updates of layers that keep state."""
        return [u for layer in self._sublayers if getattr(layer, "stateful", False) for u in layer.updates]

    def _of_these_inputs(self, items: list[Any]) -> list[Any]:
        """Of losses or updates those of this network's own call, and those of no call."""
        if not self._is_graph_network or state.is_eager() or not items:
            return items
        inside = reachable(self.inputs, items)
        calls = [
            x
            for layer in _within(self)
            for node in getattr(layer, "_inbound_nodes", ())
            for x in nest.flatten(node.input_tensors)
        ]
        elsewhere = reachable(calls, items)
        return [item for item in items if id(item) in inside or id(item) not in elsewhere]

    def _in_steps(self, items: list[Any]) -> list[Any]:
        """Of losses, updates or metrics of its layers those that its steps compute: a network inside a model of one's
        own was applied to inputs of its own when it was made, which no step feeds.
        """
        if self._is_graph_network or state.is_eager() or not items:
            return items
        networks = [layer for layer in _within(self) if getattr(layer, "_is_graph_network", False)]
        apart = reachable([x for network in networks for x in network.inputs], items) - reachable(self.inputs, items)
        return [item for item in items if id(item) not in apart]

    @property
    def updates(self) -> list[Any]:
        """Operations that run with a training step, such as those of moving averages."""
        return self._of_these_inputs(self._all_updates())

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add tensors, or functions without arguments, to the losses; those of a network's tensors become layers."""
        for loss in nest.flatten(losses):
            if not self._joins(graph_ops.AddLoss, loss):
                super().add_loss(loss, inputs)

    def add_metric(self, value: Any, aggregation: str | None = None, name: str | None = None) -> None:
        """Have training report a tensor, as a mean over the batches; one of a network's tensors becomes a layer."""
        if not self._joins(lambda: graph_ops.AddMetric(aggregation, name), value):
            super().add_metric(value, aggregation, name)

    def _joins(self, make: Callable[[], Any], tensor: Any) -> bool:
        """Whether a tensor depends on this network's inputs; then a layer is called on it and becomes part of it."""
        if not self._is_graph_network or not isinstance(tensor, Tensor) or tensor.has_value:
            return False
        if self._keeps_layers:
            if state.is_eager():
                raise NotImplementedError(
                    errors.message(
                        f"{tensor._label}, a symbolic tensor, added to a Sequential model where ops run at once",
                        "a functional model",
                        "tf.keras.Model(model.inputs, model.outputs), and add_loss of that",
                    )
                )
            return False
        complete_history([tensor])
        if not hasattr(tensor, "_keras_history") or tensor.graph is not self.outputs[0].graph:
            return False
        self._take_in([make()(tensor)])
        return True

    def _take_in(self, ends: list[Any]) -> None:
        """Make the layers that lead to these tensors, which are not outputs, part of the network."""
        before = list(self._layers)
        self.__dict__.setdefault("_added_ends", []).extend(ends)
        self._map()
        joined = [one for one in self._layers if not any(one is known for known in before)]
        self._layers[:] = [*before, *joined]
        self._name_layers(self._layers)

    @property
    def losses(self) -> list[Any]:
        """What regularizers and ``add_loss`` add to the loss."""
        return self._of_these_inputs(self._all_losses())

    # ----------------------------------------------------------------------------------------------------------- calls

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Apply the layers; a model of one's own overrides it."""
        if not self._is_graph_network:
            raise NotImplementedError("When subclassing the `Model` class, you should implement a `call` method.")
        given = nest.flatten(inputs)
        masks = nest.flatten(mask) if mask is not None else [None] * len(given)
        values: dict[int, Any] = {}
        for place, x, one in zip(self.inputs, given, masks, strict=True):
            if isinstance(x, Tensor) and x.dtype.base_dtype != place.dtype.base_dtype and place.dtype.is_floating:
                x = tf.cast(x, place.dtype.base_dtype)
            if one is not None:
                x._keras_mask = one
            values[id(place)] = x
        for node in self._nodes:
            outputs = nest.flatten(node.output_tensors)
            if all(id(x) in values for x in outputs):
                continue
            taken = nest.map_structure(lambda x: values[id(x)], node.input_tensors)
            arguments = {
                name: nest.map_structure(lambda x: values.get(id(x), x), value)
                for name, value in node.arguments.items()
            }
            results = nest.flatten(node.outbound_layer(taken, **arguments))
            values.update({id(x): y for x, y in zip(outputs, results, strict=True)})
        return nest.map_structure(lambda x: values[id(x)], self._nested_outputs)

    def _set_masks(self, inputs: Any, outputs: Any, mask: Any) -> None:
        if type(self).compute_mask is not Network.compute_mask:
            super()._set_masks(inputs, outputs, mask)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        if not self._is_graph_network:
            return None
        return single([getattr(x, "_keras_mask", None) for x in self.outputs])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs for a shape of the inputs."""
        if not self._is_graph_network:
            return super().compute_output_shape(input_shape)
        shapes: dict[int, Any] = {}
        given = as_shape(input_shape)
        for x, shape in zip(self.inputs, given if isinstance(given, list) else [given], strict=True):
            shapes[id(x)] = shape
        for node in self._nodes:
            outputs = nest.flatten(node.output_tensors)
            if all(id(x) in shapes for x in outputs):
                continue
            taken = nest.map_structure(lambda x: shapes[id(x)], node.input_tensors)
            found = as_shape(node.outbound_layer.compute_output_shape(taken))
            for x, shape in zip(outputs, found if isinstance(found, list) else [found], strict=True):
                shapes[id(x)] = shape
        return single([shapes[id(x)] for x in self.outputs])

    def build(self, input_shape: Any) -> None:
        """Make the variables of a model of one's own for inputs of this shape."""
        if self._is_graph_network:
            self.built = True
            return
        if type(self).call is Network.call:
            raise NotImplementedError("When subclassing the `Model` class, you should implement a `call` method.")
        if not is_inside_call():
            places = nest.map_structure(lambda shape: K.placeholder(shape.as_list()), as_shape(input_shape))
            with state.graph().as_default():  # names of weights do not hold the model's, as they do after a call
                self.call(places)
        self.built = True

    # --------------------------------------------------------------------------------------------------------- configs

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the network anew."""
        if not self._is_graph_network:
            raise NotImplementedError(
                errors.message(
                    f"get_config of {type(self).__name__}, which says in call what it computes",
                    "a network of tensors, or a get_config of its own",
                    "model.save_weights(path)",
                )
            )
        numbers: dict[tuple[int, int], int] = {}
        for layer in self._layers:
            own = [i for i, node in enumerate(layer._inbound_nodes) if any(node is n for n in self._nodes)]
            numbers.update({(id(layer), i): k for k, i in enumerate(own, _first(layer))})

        def place(history: KerasHistory) -> list[Any]:
            return [history.layer.name, numbers[id(history.layer), history.node_index], history.tensor_index]

        layers = []
        for layer in self._layers:
            nodes = []
            for i, node in enumerate(layer._inbound_nodes):
                if (id(layer), i) in numbers and node.histories and not isinstance(layer, InputLayer):
                    arguments = {name: _plain(value) for name, value in node.arguments.items()}
                    nodes.append([[*place(history), arguments] for history in node.histories])
            config = objects.serialize_keras_object(layer)
            layers.append({"name": layer.name, **config, "inbound_nodes": nodes})
        return {
            "name": self.name,
            "layers": layers,
            "input_layers": [place(x._keras_history) for x in self.inputs],
            "output_layers": [place(x._keras_history) for x in self.outputs],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The network that a config describes."""
        made: dict[str, Layer] = {}
        waiting: dict[str, list[Any]] = {}
        for data in config["layers"]:
            item = {"class_name": data["class_name"], "config": data["config"]}
            made[data["name"]] = registry.deserialize(item, custom_objects)
            waiting[data["name"]] = list(data["inbound_nodes"])

        def tensor(name: str, node: int, index: int) -> Any:
            layer = made[name]
            if node >= len(layer._inbound_nodes):
                return None
            return nest.flatten(layer._inbound_nodes[node].output_tensors)[index]

        progress = True
        while any(waiting.values()) and progress:
            progress = False
            for name, nodes in waiting.items():
                while nodes:
                    arguments = dict(nodes[0][0][3]) if len(nodes[0][0]) > 3 else {}
                    inputs = [tensor(*item[:3]) for item in nodes[0]]
                    if any(x is None for x in inputs):
                        break
                    made[name](single(inputs), **arguments)
                    nodes.pop(0)
                    progress = True
        if any(waiting.values()):
            raise ValueError(
                errors.message(
                    f"a config whose layers {[n for n in waiting if waiting[n]]} have no inputs",
                    "a config that get_config gave",
                    "model.get_config()",
                )
            )
        ends = [[tensor(*item[:3]) for item in _places(config[key])] for key in ("input_layers", "output_layers")]
        model = cls(inputs=single(ends[0]), outputs=single(ends[1]), name=config.get("name"))
        added = [x for x in made.values() if isinstance(x, (graph_ops.AddLoss, graph_ops.AddMetric))]
        if added:
            model._take_in([layer._inbound_nodes[0].output_tensors for layer in added])
        return model


def _places(items: list[Any]) -> list[Any]:
    return [items] if items and isinstance(items[0], str) else items


def _within(layer: Any) -> Iterator[Any]:
    """The layers in a layer, those in wrappers and networks in it, too."""
    for inner in getattr(layer, "_sublayers", ()):
        yield inner
        yield from _within(inner)


def _first(layer: Layer) -> int:
    """The number in a config of a layer's first call: a network that is made of tensors has one of its own before."""
    return 1 if layer._is_network and getattr(layer, "_is_graph_network", False) else 0


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _history_of(tensors: list[Any]) -> None:
    complete_history(tensors)
    for x in tensors:
        if not hasattr(x, "_keras_history"):
            raise ValueError(
                "Output tensors to a Model must be the output of a TensorFlow `Layer` (thus "
                "holding past layer metadata). "
                f"Found: {x}\n"
                + errors.message(
                    f"{x} as an output of a model", "a tensor that depends on an Input", "tf.keras.Input(shape)"
                )
            )


def get_source_inputs(tensor: Any, layer: Any = None, node_index: int | None = None) -> list[Any]:
    """The inputs that a tensor depends on."""
    if not hasattr(tensor, "_keras_history"):
        return tensor
    found: dict[int, Any] = {}
    waiting = [tensor]
    while waiting:
        x = waiting.pop()
        node = x._keras_history.layer._inbound_nodes[x._keras_history.node_index]
        if not node.histories:
            found[id(x)] = x
        else:
            waiting.extend(reversed(nest.flatten(node.input_tensors)))
    return list(found.values())
