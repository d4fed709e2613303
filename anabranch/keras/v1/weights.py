"""What holds weights: a layer, itself or in the layers that are its attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.layers.base import Layer as ScopedLayer


def reachable(inputs: Any, targets: Any) -> set[int]:
    """Which of these tensors and operations depend on the inputs; by id."""
    starts = {id(x) for x in nest.flatten(inputs)}
    for x in nest.flatten(inputs):  # of a variable what names it
        if isinstance(x, tf.Variable):
            starts.update(id(tensor) for tensor in x.op.outputs)
    known: dict[int, bool] = {}
    found = set()
    for target in targets:
        waiting = [(target if isinstance(target, tf.Operation) else target.op, False)]
        if id(target) in starts:
            found.add(id(target))
            continue
        while waiting:
            op, is_done = waiting.pop()
            if is_done:
                known[id(op)] = any(id(x) in starts or known.get(id(x.op), False) for x in op.inputs)
            elif id(op) not in known:
                known[id(op)] = any(id(x) in starts for x in op.outputs)
                if not known[id(op)]:
                    waiting.append((op, True))
                    waiting.extend((x.op, False) for x in op.inputs)
        if known[id(target if isinstance(target, tf.Operation) else target.op)]:
            found.add(id(target))
    return found


class Weights:
    """What holds weights, itself or in the layers that are its attributes."""

    _own_trainable: list[Any]
    _own_frozen: list[Any]
    _layers: list[Any]
    _trainable: bool

    @property
    def trainable(self) -> bool:
        """Whether optimizers change the weights."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = value
        for layer in self._sublayers:
            layer.trainable = value

    @property
    def _sublayers(self) -> list[Any]:
        """The layers that are attributes, or in lists and dicts that are."""
        return once([layer for item in self._layers for layer in layers_in(item)])

    def _nested(self, attribute: str) -> list[Any]:
        """The weights of one of the lists below, of layers in it and of lists and dicts that hold variables."""
        weights: list[Any] = []
        for item in self._layers:
            for layer in layers_in(item):
                weights.extend(getattr(layer, attribute))
            if isinstance(item, (list, dict)):
                wanted = {"trainable_weights": (True,), "non_trainable_weights": (False,)}.get(attribute, (True, False))
                weights.extend(variable for variable in variables_in(item) if bool(variable.trainable) in wanted)
        return weights

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that optimizers change."""
        if not self.trainable:
            return []
        return once([*self._own_trainable, *self._nested("trainable_weights")])

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        own = self._own_frozen if self.trainable else [*self._own_trainable, *self._own_frozen]
        return once([*own, *self._nested("non_trainable_weights" if self.trainable else "weights")])

    @property
    def weights(self) -> list[Any]:
        """All variables, those that are trained first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    @property
    def variables(self) -> list[Any]:
        """All variables."""
        return self.weights

    @property
    def trainable_variables(self) -> list[Any]:
        """Variables that optimizers change."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The other variables."""
        return self.non_trainable_weights

    def get_weights(self) -> list[np.ndarray]:
        """The values of the weights."""
        return state.batch_get_value(self.weights)

    def set_weights(self, weights: Any) -> None:
        """Give the weights values, in the order of :attr:`weights`.

        Raises:
            ValueError: their number or a shape differs.
        """
        own = self.weights
        if len(own) != len(weights):
            raise ValueError(
                f'You called `set_weights(weights)` on layer "{getattr(self, "name", "")}" with a weight list of '
                f"length {len(weights)}, but the layer was expecting {len(own)} weights.\n"
                + errors.message(f"{len(weights)} arrays", f"{len(own)} arrays", "layer.get_weights() shows them")
            )
        for variable, value in zip(own, weights, strict=True):
            if K.dims(variable.shape) != np.shape(value):
                raise ValueError(
                    f"Layer weight shape {K.dims(variable.shape)} not compatible with provided weight shape "
                    f"{np.shape(value)}\n"
                    + errors.message(f"shape {np.shape(value)} for {variable.name}", f"{variable.shape}", "np.reshape")
                )
        state.batch_set_value(zip(own, weights, strict=True))


def layers_in(item: Any) -> list[Any]:
    """The layers of a layer's attribute: itself, or those in a list or in a dict, there in the order of the keys."""
    if not isinstance(item, (list, tuple, dict)):
        return [item] if isinstance(item, (Weights, ScopedLayer)) else []
    return [layer for part in _parts(item) for layer in layers_in(part)]


def variables_in(item: Any) -> list[Any]:
    """The variables in a list or dict, at any depth."""
    if isinstance(item, (list, tuple, dict)):
        return [variable for part in _parts(item) for variable in variables_in(part)]
    return [item] if isinstance(item, tf.Variable) else []


def _parts(item: Any) -> list[Any]:
    if not isinstance(item, dict):
        return [part for part in item if not isinstance(part, tuple)]  # as in TensorFlow 1.15, which passes tuples over
    return [part for _, part in sorted(item.items(), key=lambda pair: str(pair[0]))]


def once(items: list[Any]) -> list[Any]:
    """A list without its repetitions."""
    return list({id(item): item for item in items}.values())
