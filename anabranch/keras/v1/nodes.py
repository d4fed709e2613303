"""Calls of layers on symbolic tensors: what each took and gave, and what a layer says of its own calls."""

from __future__ import annotations

import collections
from typing import Any

from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K

KerasHistory = collections.namedtuple("KerasHistory", "layer node_index tensor_index")


def single(items: list[Any]) -> Any:
    """The only item of a list, or the list."""
    return items[0] if len(items) == 1 else items


class Node:
    """One call of a layer: the tensors that it took and gave."""

    def __init__(self, layer: Any, inputs: Any, outputs: Any, arguments: dict[str, Any]) -> None:
        self.outbound_layer = layer
        self.input_tensors, self.output_tensors, self.arguments = inputs, outputs, arguments
        histories = [x._keras_history for x in nest.flatten(inputs)] if layer._takes_history else []
        self.histories = histories
        layer._inbound_nodes.append(self)
        for history in histories:
            history.layer._outbound_nodes.append(self)
        for i, x in enumerate(nest.flatten(outputs)):
            x._keras_history = KerasHistory(layer, len(layer._inbound_nodes) - 1, i)

    @property
    def inbound_layers(self) -> Any:
        """The layers whose outputs it took."""
        return single([history.layer for history in self.histories])

    @property
    def input_shapes(self) -> Any:
        """Shapes of what it took, as tuples."""
        return nest.map_structure(K.int_shape, self.input_tensors)

    @property
    def output_shapes(self) -> Any:
        """Shapes of what it gave, as tuples."""
        return nest.map_structure(K.int_shape, self.output_tensors)


class Called:
    """What knows its calls, of which tensors tell by their ``_keras_history``."""

    name: str
    _inbound_nodes: list[Node]
    _outbound_nodes: list[Node]
    _takes_history: bool

    @property
    def inbound_nodes(self) -> list[Node]:
        """Its calls."""
        return self._inbound_nodes

    @property
    def outbound_nodes(self) -> list[Node]:
        """Calls of other layers that took its outputs."""
        return self._outbound_nodes

    def _node(self, index: int, attribute: str) -> Node:
        if not self._inbound_nodes:
            raise AttributeError(
                f"The layer {self.name} has never been called and thus has no defined {attribute.replace('_', ' ')}.\n"
                + errors.message(f"{attribute} of layer {self.name}", "a layer that was called on an Input", "layer(x)")
            )
        if index >= len(self._inbound_nodes):
            raise ValueError(
                f"Asked to get {attribute} at node {index}, but the layer has only "
                f"{len(self._inbound_nodes)} inbound nodes.\n"
                + errors.message(f"node {index}", f"at most {len(self._inbound_nodes) - 1}", "layer.inbound_nodes")
            )
        return self._inbound_nodes[index]

    def _only(self, attribute: str) -> Node:
        node = self._node(0, attribute)
        if len(self._inbound_nodes) > 1:
            kind = attribute.replace("_", " ")
            raise AttributeError(
                f'Layer {self.name} has multiple inbound nodes, hence the notion of "layer {kind}" is ill-defined. '
                f"Use `get_{attribute}_at(node_index)` instead.\n"
                + errors.message(
                    f"{attribute} of a layer that was called {len(self._inbound_nodes)} times",
                    "a layer that was called once",
                    f"layer.get_{attribute}_at(0)",
                )
            )
        return node

    @property
    def input(self) -> Any:
        """Input of its first call."""
        return self._node(0, "input").input_tensors

    @property
    def output(self) -> Any:
        """Output of its first call."""
        return self._node(0, "output").output_tensors

    @property
    def input_shape(self) -> Any:
        """Shape of the input of its only call, as a tuple."""
        return nest.map_structure(K.int_shape, self._of_one_shape("input"))

    @property
    def output_shape(self) -> Any:
        """Shape of the output of its only call, as a tuple."""
        return nest.map_structure(K.int_shape, self._of_one_shape("output"))

    def _of_one_shape(self, which: str) -> Any:
        tensors = [getattr(node, f"{which}_tensors") for node in self._inbound_nodes]
        shapes = [nest.map_structure(K.int_shape, tensor) for tensor in tensors]
        if tensors and all(shape == shapes[0] for shape in shapes):
            return tensors[0]
        return getattr(self._only(f"{which}_shape"), f"{which}_tensors")

    @property
    def input_mask(self) -> Any:
        """Mask of the input of its only call."""
        return nest.map_structure(lambda x: getattr(x, "_keras_mask", None), self.input)

    @property
    def output_mask(self) -> Any:
        """Mask of the output of its only call."""
        return nest.map_structure(lambda x: getattr(x, "_keras_mask", None), self.output)

    def get_input_at(self, node_index: int) -> Any:
        """Input of a call by its number."""
        return self._node(node_index, "input").input_tensors

    def get_output_at(self, node_index: int) -> Any:
        """Output of a call by its number."""
        return self._node(node_index, "output").output_tensors

    def get_input_shape_at(self, node_index: int) -> Any:
        """Shape of the input of a call by its number."""
        return self._node(node_index, "input shape").input_shapes

    def get_output_shape_at(self, node_index: int) -> Any:
        """Shape of the output of a call by its number."""
        return self._node(node_index, "output shape").output_shapes

    def get_input_mask_at(self, node_index: int) -> Any:
        """Mask of the input of a call by its number."""
        return nest.map_structure(lambda x: getattr(x, "_keras_mask", None), self.get_input_at(node_index))

    def get_output_mask_at(self, node_index: int) -> Any:
        """Mask of the output of a call by its number."""
        return nest.map_structure(lambda x: getattr(x, "_keras_mask", None), self.get_output_at(node_index))
