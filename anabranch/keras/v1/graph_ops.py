"""Ops between layers as layers: so that a model can be made of tensors that ``tf.add(x, y)`` gave.

Each op between a tensor with a history and one without becomes a layer of its own, named after it, as in TensorFlow
1.15. What the op takes beside tensors of the network stays as it is where the layer is applied in the same graph, and
is a constant elsewhere. The config holds the node and these constants, so that files with such layers are read both
ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf import json_format

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.opdef import OpDefinition, lookup
from anabranch.core.graph.builder import builder_of
from anabranch.core.graph.tensor import Tensor
from anabranch.core.graphdef import graph_def, import_nodes
from anabranch.core.protos import graph_pb2
from anabranch.core.values import nest
from anabranch.keras.v1 import layer as layer_module
from anabranch.keras.v1 import state
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.nodes import Node, single

_PREFIX = "tf_op_layer_"


@registry.add()
class TensorFlowOpLayer(Layer):
    """An op as a layer.

    Args:
        node_def: the op's NodeDef: a message, its bytes, or a dict as its JSON form has it.
        name: name of the op; that of the layer is ``tf_op_layer_`` and this one.
        constants: by position, values of inputs that do not come from other layers.
        trainable, dtype: as of all layers.
    """

    _node_def: Any
    _constants: dict[int, Any] | None

    def __init__(
        self, node_def: Any, name: str, constants: Any = None, trainable: bool = True, dtype: Any = None
    ) -> None:
        super().__init__(name=_PREFIX + name.replace("/", "_"), trainable=trainable, dtype=dtype)
        if isinstance(node_def, dict):
            node_def = json_format.ParseDict(node_def, graph_pb2.NodeDef())
        elif isinstance(node_def, (bytes, str)):
            node_def = graph_pb2.NodeDef.FromString(node_def.encode() if isinstance(node_def, str) else node_def)
        definition = lookup(node_def.op)
        self._begin(definition, import_nodes.read_attrs(node_def, definition)[0], node_def.name)
        self._node_def = node_def
        kinds = definition.input_dtypes(self._op_attrs)
        self._constants = {int(i): np.asarray(value, kinds[int(i)].np) for i, value in (constants or {}).items()}

    @classmethod
    def of_op(cls, op: Any, places: list[int]) -> Any:
        """The layer of an op whose inputs at ``places`` come from other layers."""
        layer = cls.__new__(cls)
        name = state.unique_name(f"{_PREFIX}{op.name}", zero_based=True)
        Layer.__init__(layer, name=name)
        layer._begin(op.definition, dict(op._attrs), op.name)
        layer._op = op
        layer._fixed = [i for i in range(len(op.inputs)) if i not in places]
        if state.is_eager():
            layer._evaluate()
        return layer

    def _begin(self, definition: OpDefinition, attrs: dict[str, Any], name: str) -> None:
        self._definition, self._op_attrs, self._op_name = definition, attrs, name
        self._op: Any = None
        self._fixed: list[int] = []
        self._node_def = None
        self._constants = None
        self.built = True

    def _evaluate(self) -> dict[int, Any]:
        if self._constants is None:
            arrays = state.values_of([self._op.inputs[i] for i in self._fixed])
            self._constants = dict(zip(self._fixed, arrays, strict=True))
        return self._constants

    @property
    def output_shape(self) -> Any:
        """Shapes of the outputs, as tuples in a list."""
        shape = super().output_shape
        return shape if isinstance(shape, list) else [shape]

    def call(self, inputs: Any) -> Any:
        """Apply the op to other tensors."""
        given = nest.flatten(inputs)
        builder = builder_of([x for x in given if isinstance(x, Tensor)])
        if self._op is not None and builder is self._op.graph and not getattr(builder, "is_symbolic", False):
            constants = {i: self._op.inputs[i] for i in self._fixed}
        else:
            constants = {i: tf.constant(value) for i, value in self._evaluate().items()}
        rest = iter(given)
        values = [constants[i] if i in constants else next(rest) for i in range(len(given) + len(constants))]
        values = [x if type(x) is builder.tensor_type else builder.adopt(x) for x in values]
        view = builder._create(self._definition, values, dict(self._op_attrs), self._op_name.rpartition("/")[2])
        return single(list(view._outputs))

    def get_config(self) -> dict[str, Any]:
        """The node and its constants.

        Raises:
            NotImplementedError: the op has branches or a body, which belong to its graph.
        """
        if self._node_def is None:
            if any(spec.kind in ("func", "list(func)") for spec in self._definition.attrs.values()):
                raise NotImplementedError(
                    errors.message(
                        f"get_config of a model with {self._op_name}, a conditional or loop, between its layers",
                        "layers, or ops without a body",
                        "tf.keras.layers.Lambda(function)(x)",
                    )
                )
            self._node_def = graph_def.node_def(self._op)
        return {
            "name": self.name[len(_PREFIX) :],
            "trainable": self.trainable,
            "dtype": self._dtype,
            "node_def": json_format.MessageToDict(self._node_def),
            "constants": dict(self._evaluate()),
        }


@registry.add()
class AddLoss(Layer):
    """What ``model.add_loss(tensor)`` adds to a network: its input is a loss wherever the network is called."""

    def __init__(self, unconditional: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unconditional = unconditional

    def call(self, inputs: Any) -> Any:
        """Add the loss."""
        self.add_loss(inputs, inputs=not self.unconditional)
        return inputs

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {**super().get_config(), "unconditional": self.unconditional}


@registry.add()
class AddMetric(Layer):
    """What ``model.add_metric(tensor)`` adds to a network: its input is reported wherever the network is called."""

    def __init__(self, aggregation: str | None = None, metric_name: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.aggregation, self.metric_name = aggregation, metric_name

    def call(self, inputs: Any) -> Any:
        """Report the value."""
        self.add_metric(inputs, self.aggregation, self.metric_name)
        return inputs

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {**super().get_config(), "aggregation": self.aggregation, "metric_name": self.metric_name}


def complete(tensors: list[Any]) -> None:
    """Give tensors a history if they depend on tensors that have one."""
    for x in tensors:
        if not isinstance(x, Tensor) or x.has_value or hasattr(x, "_keras_history"):
            continue
        order: list[Any] = []
        seen: set[int] = set()
        depends: dict[int, bool] = {}
        waiting = [(x.op, False)]
        while waiting:
            op, is_done = waiting.pop()
            if is_done:
                depends[id(op)] = any(hasattr(y, "_keras_history") or depends.get(id(y.op), False) for y in op.inputs)
                if depends[id(op)]:
                    order.append(op)
                continue
            if id(op) in seen:
                continue
            seen.add(id(op))
            waiting.append((op, True))
            waiting.extend((y.op, False) for y in op.inputs if not hasattr(y, "_keras_history"))
        for op in order:
            places = [i for i, y in enumerate(op.inputs) if hasattr(y, "_keras_history")]
            made = TensorFlowOpLayer.of_op(op, places)
            Node(made, single([op.inputs[i] for i in places]), single(list(op.outputs)), {})


layer_module._completers.append(complete)
