"""What holds weights: a layer, itself or in the layers that are its attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import constraints, initializers, regularizers, state
from anabranch.layers.base import Layer as ScopedLayer
from anabranch.variables import tracking


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
    _children: dict[str, Any]
    _dtype: str | None
    _own_weights_first = True
    """Whether its own weights stand before those of its layers, or behind."""

    if TYPE_CHECKING:

        def add_loss(self, losses: Any, inputs: Any = None) -> None: ...

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
            holds = isinstance(item, (list, dict))
            # Lists and dicts tell those that are trained first, as layers do.
            for kind in (
                ("trainable_weights", "non_trainable_weights") if holds and attribute == "weights" else (attribute,)
            ):
                for layer in layers_in(item):
                    weights.extend(getattr(layer, kind))
                if holds:
                    wanted = kind == "trainable_weights"
                    weights.extend(variable for variable in variables_in(item) if bool(variable.trainable) is wanted)
        return weights

    def _with_own(self, own: list[Any], nested: list[Any]) -> list[Any]:
        return once([*own, *nested] if self._own_weights_first else [*nested, *own])

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that optimizers change."""
        if not self.trainable:
            return []
        return self._with_own(self._own_trainable, self._nested("trainable_weights"))

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        own = self._own_frozen if self.trainable else [*self._own_trainable, *self._own_frozen]
        return self._with_own(own, self._nested("non_trainable_weights" if self.trainable else "weights"))

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

    def add_weight(
        self,
        name: Any = None,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        partitioner: Any = None,
        use_resource: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A variable of the layer.

        Args:
            name: name within the layer's scope.
            shape: its shape; a scalar if None.
            dtype: its dtype; that of the layer if None.
            initializer: how it starts: Glorot's uniform distribution for floats and zeros for others, if None.
            regularizer: function of the variable that is added to the losses.
            trainable: whether optimizers change it (True if None).
            constraint: function that optimizers apply to it after an update.
            partitioner: must be None.
            use_resource: make it behind a resource handle (True if None).
            synchronization, aggregation: how a variable with a copy on each of several devices is one.
            collections: the graph's lists of variables that it joins.
        """
        if not isinstance(name, str) and name is not None and not isinstance(shape, str | None):
            name, shape = shape, name
        if isinstance(shape, str):  # add_weight(shape, name=...), as in Keras before TensorFlow had it
            name, shape = shape, name
        if partitioner is not None:
            raise ValueError(
                errors.message(
                    "add_weight(partitioner=...)", "a variable in one piece", "tf.get_variable, which cuts it"
                )
            )
        shape = () if shape is None else shape
        sizes = [int(size) if size is not None else None for size in tf.TensorShape(shape).as_list()]
        kind = tf.as_dtype(dtype or self._dtype or state.floatx())
        if initializer is None:
            initializer = "glorot_uniform" if kind.is_floating else "zeros"
        initializer = initializers.get(initializer)
        trainable = True if trainable is None else trainable
        of_copies = {"synchronization": synchronization, "aggregation": aggregation}
        with tf.init_scope():
            variable = tf.Variable(
                lambda: _initial_value(initializer, sizes, kind),
                name=name or "variable",
                trainable=trainable,
                dtype=kind,
                constraint=constraints.get(constraint),
                use_resource=True if use_resource is None else use_resource,
                collections=kwargs.get("collections"),
                **{name: value for name, value in of_copies.items() if value is not None},
            )
        state.track_variable(variable)
        (self._own_trainable if trainable else self._own_frozen).append(variable)
        if name:
            self._children.setdefault(name, variable)
            tracking.joined()
        regularizer = regularizers.get(regularizer)
        if regularizer is not None:
            scope = f"{variable.name.partition(':')[0]}/Regularizer"

            def loss() -> Any:
                with tf.name_scope(scope + "/"):
                    return regularizer(variable)

            self.add_loss(loss)
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Another name of :meth:`add_weight`."""
        return self.add_weight(*args, **kwargs)

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


def _initial_value(initializer: Any, sizes: list[Any], kind: Any) -> Any:
    try:
        return initializer(sizes, dtype=kind)
    except TypeError:
        # One of the program's own, which takes the shape alone.
        return tf.cast(initializer(sizes), kind)


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
