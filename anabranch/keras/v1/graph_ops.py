"""Ops between layers as layers: so that a model can be made of tensors that ``tf.add(x, y)`` gave.

Each op between a tensor with a history and one without becomes a layer of its own, named after it, as in TensorFlow
1.15. What the op takes beside tensors of the network stays as it is where the layer is applied in the same graph,
and is
a constant elsewhere.
"""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.graph.builder import builder_of
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import nest
from anabranch.keras.v1 import layer as layer_module
from anabranch.keras.v1 import state
from anabranch.keras.v1.layer import Layer, registry
from anabranch.keras.v1.nodes import Node, single


@registry.add()
class TensorFlowOpLayer(Layer):
    """An op as a layer."""

    def __init__(self, op: Any, places: list[int], **kwargs: Any) -> None:
        super().__init__(name=state.unique_name(f"tf_op_layer_{op.name.replace('/', '_')}", zero_based=True), **kwargs)
        self._op, self._places = op, places
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Apply the op to other tensors."""
        given = dict(zip(self._places, nest.flatten(inputs), strict=True))
        op = self._op
        values = [given.get(i, x) for i, x in enumerate(op.inputs)]
        builder = builder_of([x for x in given.values() if isinstance(x, Tensor)])
        if builder is not op.graph:
            fixed = [i for i in range(len(values)) if i not in given]
            arrays = state.get_session().run([values[i] for i in fixed]) if fixed else []
            for i, array in zip(fixed, arrays, strict=True):
                values[i] = tf.constant(array)
        view = builder._create(op.definition, values, dict(op._attrs), op.name.rpartition("/")[2])
        return single(list(view._outputs))

    def get_config(self) -> dict[str, Any]:
        """Not there: the op belongs to its graph."""
        raise NotImplementedError(
            f"the op {self._op.name} as a layer has no config\nGiven: get_config of a model with ops between layers\n"
            "Expected: layers alone\nInstead: tf.keras.layers.Lambda(function)(x)"
        )


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
            made = TensorFlowOpLayer(op, places)
            Node(made, single([op.inputs[i] for i in places]), single(list(op.outputs)), {})


layer_module._completers.append(complete)
