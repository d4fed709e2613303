"""The layer of Keras: weights that are made when it is called first, and a record of its calls.

A call on tensors of a graph that come from :func:`Input` is recorded (:mod:`~anabranch.keras.v1.nodes`), and its
outputs say in ``_keras_history`` which one; :mod:`~anabranch.keras.v1.network` finds the layers between inputs and
outputs by it.
Names are TensorFlow 1.15's: ``dense``, ``dense_1`` and so on in each graph, variables under the name scope of the
first call. ``training`` is passed down from the outer layer's call if a layer is not told it; ``mask`` travels on
tensors as ``_keras_mask``.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.graph.builder import builder_of, current_builder
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import regularizers, state
from anabranch.keras.v1.nodes import Called, Node
from anabranch.keras.v1.objects import Registry
from anabranch.keras.v1.old_spellings import modern
from anabranch.keras.v1.weights import Weights, once, reachable, variables_in
from anabranch.layers.base import InputSpec, snake_case, variable_watchers
from anabranch.layers.base import Layer as ScopedLayer
from anabranch.variables import replica_frames, tracking

registry = Registry("layer")
_CONTAINERS = (tracking.ListWrapper, tracking.DictWrapper)
_OWN_LISTS = frozenset(
    {
        *("inputs", "outputs", "input_names", "output_names", "input_spec", "loss", "loss_weights", "history"),
        *("_compile_arguments", "_function_kwargs", "_target_tensors", "_collected_trainable_weights"),
        *("_call_arguments", "_config_names", "_masks", "_states", "_nodes", "_initial_weights"),
        *("_nested_inputs", "_nested_outputs"),
    }
)
"""Attributes that layers and models of ours give themselves, whose lists hold no layers of the program."""


class _Calls(threading.local):
    def __init__(self) -> None:
        self.training: list[Any] = []
        self.depth = 0


_calls = _Calls()


_symbolic_types: list[type] = []
"""Classes whose instances layers take, and give, in place of tensors."""


def register_symbolic_tensor_type(cls: type) -> None:
    """Let layers take and give instances of a class that converts to a tensor."""
    if cls not in _symbolic_types:
        _symbolic_types.append(cls)


def symbolic_tensor_types() -> tuple[type, ...]:
    """The classes of :func:`register_symbolic_tensor_type`."""
    return tuple(_symbolic_types)


def is_layer(item: Any) -> bool:
    """Whether an object is a layer: Keras' own, or one of ``tf.layers``."""
    return isinstance(item, (Layer, ScopedLayer))


def shapes_of(structure: Any) -> Any:
    """Shapes of tensors, as `TensorShape`."""
    return nest.map_structure(lambda x: tf.TensorShape(x.shape), structure)


def as_shape(shape: Any) -> Any:
    """What a layer says of its output's shape, as `TensorShape`, or a list of them."""
    if isinstance(shape, list) and shape and isinstance(shape[0], (list, tuple, tf.TensorShape)):
        return [tf.TensorShape(one) for one in shape]
    return tf.TensorShape(shape)


def _as_tensor(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype == np.float64:
        return tf.convert_to_tensor(x, state.floatx())
    if isinstance(x, (np.ndarray, float, int, np.generic)):
        return tf.convert_to_tensor(x)
    return x


@registry.add()
class Layer(Called, Weights):
    """Base of all layers: derive from it, make variables in :meth:`build` with :meth:`add_weight`, compute in
    :meth:`call`.

    Args:
        trainable: whether optimizers change its variables.
        name: its name; that of the class in snake case, numbered, if None.
        dtype: dtype of its variables and of inputs that it makes.
        input_shape, batch_input_shape, batch_size: shape of the input of a first layer, without or with the batch.
        weights: values of the weights, set once they are made.
    """

    _takes_history = True
    _is_network = False
    input_spec: Any
    stateful: Any

    if TYPE_CHECKING:  # attributes are those that a layer's arguments and `build` give it

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        self._prepare()
        allowed = {"input_shape", "batch_input_shape", "batch_size", "weights", "activity_regularizer", "dynamic"}
        allowed |= {"autocast", "input_dim", "input_length", "input_dtype"}
        if set(kwargs) - allowed:
            raise TypeError(
                f"Keyword argument not understood: {sorted(set(kwargs) - allowed)[0]}\n"
                + errors.message(
                    f"{sorted(set(kwargs) - allowed)} for {type(self).__name__}",
                    "arguments of the layer",
                    "leave them out",
                )
            )
        self._trainable = trainable
        self._init_set_name(name)
        self._dtype = None if dtype is None else tf.as_dtype(dtype).name
        self._activity_regularizer = regularizers.get(kwargs.get("activity_regularizer"))
        shape = kwargs.get("input_shape")
        if shape is None and kwargs.get("input_dim") is not None:
            length = kwargs.get("input_length")
            shape = (kwargs["input_dim"],) if "input_length" not in kwargs else (length, kwargs["input_dim"])
        if "batch_input_shape" in kwargs:
            self._batch_input_shape = tuple(kwargs["batch_input_shape"])
        elif shape is not None:
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
            self._batch_input_shape = (kwargs.get("batch_size"), *shape)
        self._initial_weights = kwargs.get("weights")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = modern(cls.__init__)  # type: ignore[method-assign]

    def _prepare(self) -> None:
        if "_layers" in self.__dict__:
            return
        for name in ("_layers", "_own_trainable", "_own_frozen", "_inbound_nodes", "_outbound_nodes"):
            object.__setattr__(self, name, [])
        for name in ("_losses", "_callable_losses", "_updates", "_metrics"):
            object.__setattr__(self, name, [])
        object.__setattr__(self, "_children", {})
        object.__setattr__(self, "_eager_losses", [])
        object.__setattr__(self, "_trainable", True)
        self.built = False
        self.stateful = False
        self.supports_masking = False
        self.input_spec = None
        self._initial_weights = None
        self._activity_regularizer = None
        self._dtype = None
        self._call_arguments = _arguments_of(self.call)

    def _init_set_name(self, name: str | None, zero_based: bool = True) -> None:
        self._name = name if name else state.unique_name(snake_case(type(self).__name__), zero_based)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_layers" not in self.__dict__ and not name.startswith("__"):
            self._prepare()
        if isinstance(value, tracking.NoDependency):
            object.__setattr__(self, name, value.value)
            return
        if type(value) in (list, dict) and self._follows(name):
            value = tracking.wrapped(value)
        if not name.startswith("_") or is_layer(value) or isinstance(value, (tf.Variable, *_CONTAINERS)):
            self._track(name, value)
        elif hasattr(type(value), "_trackable_children") and self._follows(name):
            self._children[name] = value
        object.__setattr__(self, name, value)
        if name in self._children:  # most attributes are numbers and names, and what waits looks at all objects
            tracking.joined()

    def _follows(self, name: str) -> bool:
        """Whether layers that are added later to a list or dict of this name become part of the layer."""
        return name not in _OWN_LISTS and not type(self).__module__.startswith("anabranch.")

    def __delattr__(self, name: str) -> None:
        value = self.__dict__.get(name)
        object.__delattr__(self, name)
        self._children.pop(name, None)
        for kept in (self._layers, self._own_trainable, self._own_frozen):
            kept[:] = [item for item in kept if item is not value]

    def _track(self, name: str, value: Any) -> None:
        if isinstance(value, _CONTAINERS):
            if not any(value is known for known in self._layers):
                self._layers.append(value)
            for variable in variables_in(value):
                self._track_variable(variable)
            self._children[name] = value
            return
        items = list(value.values()) if isinstance(value, dict) else value
        items = items if isinstance(items, (list, tuple)) else [items]
        for item in items:
            if is_layer(item) and not any(item is layer for layer in self._layers) and item is not self:
                self._layers.append(item)
            elif isinstance(item, tf.Variable):
                self._track_variable(item)
        holds = any(is_layer(item) or isinstance(item, tf.Variable) for item in items)
        if holds or hasattr(value, "_trackable_children"):
            self._children[name] = value

    def _track_variable(self, variable: Any) -> None:
        if not any(variable is known for known in (*self._own_trainable, *self._own_frozen)):
            state.track_variable(variable)
            (self._own_trainable if variable.trainable else self._own_frozen).append(variable)

    def _trackable_children(self) -> dict[str, Any]:
        return dict(self._children)

    # ------------------------------------------------------------------------------------------------------ properties
    @property
    def name(self) -> str:
        """Name of the layer."""
        return self._name

    @property
    def dtype(self) -> Any:
        """Name of the dtype of its variables."""
        return self._dtype

    @property
    def dynamic(self) -> bool:
        """False: all layers can be part of a graph."""
        return False

    @property
    def activity_regularizer(self) -> Any:
        """Function of the outputs whose value is added to the losses."""
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer: Any) -> None:
        self._activity_regularizer = regularizer

    @property
    def submodules(self) -> tuple[Any, ...]:
        """All layers below it."""
        below: list[Any] = []
        for layer in self._sublayers:
            below += [layer, *getattr(layer, "submodules", ())]
        return tuple(once(below))

    # ---------------------------------------------------------------------------------------------- losses and updates

    @property
    def updates(self) -> list[Any]:
        """Operations that run with a training step, such as those of moving averages."""
        return self._all_updates()

    def _takes_updates(self) -> bool:
        return self.stateful or not state.is_frozen(self)

    def _all_updates(self) -> list[Any]:
        """Those of all calls, of layers in it, too; a network's :attr:`updates` are those of its inputs."""
        if not self._takes_updates():
            return []
        own = [update() if callable(update) else update for update in self._updates]
        inner = [
            update
            for layer in self._sublayers
            for update in (layer._all_updates() if isinstance(layer, Layer) else layer.updates)
        ]
        return once([*own, *inner])

    @property
    def losses(self) -> list[Any]:
        """What regularizers and :meth:`add_loss` add to the loss."""
        return self._all_losses()

    def _all_losses(self) -> list[Any]:
        """Those of all calls, of layers in it, too; a network's :attr:`losses` are those of its inputs."""
        inner = [
            loss
            for layer in self._sublayers
            for loss in (layer._all_losses() if isinstance(layer, Layer) else layer.losses)
        ]
        return once([*self._unfiltered_losses(), *inner])

    def _unfiltered_losses(self) -> list[Any]:
        # Where ops ran at once the losses are theirs; what a network's own calls gave stands behind.
        own = list(self._eager_losses) if state.is_eager() and self._eager_losses else list(self._losses)
        here = current_builder()
        if getattr(here, "traces", False):  # a step that is traced: its own call alone
            own = [loss for loss in own if getattr(loss, "graph", here) is here]
        frame = replica_frames.top()
        where = state.graph(), None if frame is None or frame.replica is None else replica_frames.copies()
        for item in self._callable_losses:
            if item[1] is None or item[1][0] != where or state.is_eager():
                item[1] = (where, item[0]())
            if item[1][1] is not None:
                own.append(item[1][1])
        return own

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add tensors, or functions without arguments, to the losses."""
        for loss in nest.flatten(losses):
            if callable(loss):
                self._callable_losses.append([loss, None])
            elif loss is not None:
                loss = tf.convert_to_tensor(loss, state.floatx()) if isinstance(loss, (int, float)) else loss
                (self._eager_losses if state.is_eager() or loss.has_value else self._losses).append(loss)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add operations, or pairs of a variable and its new value, to the updates; where ops run at once they ran."""
        for update in updates if isinstance(updates, list) else [updates]:
            if callable(update):
                update = update()
            if isinstance(update, tuple):
                update = tf.assign(*update)
            if not state.is_eager() and update is not None:
                self._updates.append(getattr(update, "op", update))

    def add_metric(self, value: Any, aggregation: str | None = None, name: str | None = None) -> None:
        """Have training report a tensor, as a mean over the batches."""
        if aggregation not in (None, "mean"):
            raise ValueError(errors.message(f"aggregation={aggregation!r}", "'mean' or None", "aggregation='mean'"))
        if state.is_eager() or getattr(current_builder(), "traces", False):  # each call has a value of its own
            self._metrics[:] = [item for item in self._metrics if item[0] != (name or "metric")]
        self._metrics.append((name or "metric", value))

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Updates that depend on these tensors; those that depend on no input if None."""
        return self._for(self.updates, inputs)

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Losses that depend on these tensors; those that depend on no input if None."""
        return self._for(self.losses, inputs)

    def _for(self, items: list[Any], inputs: Any) -> list[Any]:
        own = [node.input_tensors for node in self._inbound_nodes]
        if inputs is None:
            found = reachable(own, items)
            return [item for item in items if id(item) not in found]
        found = reachable(inputs, items)
        return [item for item in items if id(item) in found]

    # ------------------------------------------------------------------------------------------------------- overrides
    def build(self, input_shape: Any) -> None:
        """Make the variables, knowing the shape of the inputs; called once, before the first :meth:`call`."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        return inputs

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        if not self.supports_masking and any(one is not None for one in nest.flatten(mask)):
            raise TypeError(
                f"Layer {self.name} does not support masking, but was passed an input_mask: {mask}\n"
                + errors.message("a mask", "a layer with supports_masking", "self.supports_masking = True")
            )
        return mask if self.supports_masking else None

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs for a shape of the inputs: found by applying the layer in a graph of its own."""
        with tf.Graph().as_default():
            shapes = as_shape(input_shape)
            places = nest.map_structure(lambda s: tf.placeholder(self._dtype or state.floatx(), s), shapes)
            copy = type(self).from_config(self.get_config())
            return shapes_of(copy(places))

    def get_config(self) -> dict[str, Any]:
        """What is needed to make the layer anew."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        if hasattr(self, "_batch_input_shape"):
            config["batch_input_shape"] = self._batch_input_shape
        config["dtype"] = self._dtype
        if self._is_abstract_config():
            raise NotImplementedError(
                "Layers with arguments in `__init__` must override `get_config`.\n"
                + errors.message(f"{type(self).__name__} without get_config", "a layer that has it", "def get_config")
            )
        return config

    def _is_abstract_config(self) -> bool:
        cls = type(self)
        if cls.get_config is not Layer.get_config or cls.__init__ is Layer.__init__:
            return False
        names = list(inspect.signature(cls.__init__).parameters.values())[1:]
        plain = {"name", "trainable", "dtype"}
        return any(p.name not in plain and p.kind is not p.VAR_KEYWORD for p in names)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The layer that a config describes."""
        return cls(**config)

    def count_params(self) -> int:
        """Number of elements of the weights.

        Raises:
            ValueError: the layer is not built.
        """
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on {self.name}, but the layer isn't built. You can build it "
                f"manually via: `{self.name}.build(batch_input_shape)`.\n"
                + errors.message(
                    "a layer without weights yet", "a layer that is built", "layer.build(batch_input_shape)"
                )
            )
        return sum(K.count_params(weight) for weight in self.weights)

    # ----------------------------------------------------------------------------------------------------------- calls
    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs = {**dict(zip(self._call_arguments[1:], args, strict=False)), **kwargs}
        inputs = nest.map_structure(_as_tensor, inputs)
        flat = [x for x in nest.flatten(inputs) if isinstance(x, (Tensor, tf.SparseTensor, *_symbolic_types))]
        dense = [x for x in flat if isinstance(x, Tensor)]
        symbolic = bool(flat) and not any(x.has_value for x in dense)
        arguments = {name: value for name, value in kwargs.items() if name != "mask" and value is not None}
        if "training" in self._call_arguments and kwargs.get("training") is None and _calls.training:
            kwargs["training"] = _calls.training[-1]
        masks = nest.map_structure(lambda x: getattr(x, "_keras_mask", None), inputs)
        if kwargs.get("mask") is None and any(mask is not None for mask in nest.flatten(masks)):
            kwargs["mask"] = masks
        if symbolic and self._takes_history:
            complete_history(flat)
        if not symbolic and _calls.depth == 0:
            self._clear_losses()
        builder = _builder_of(dense, symbolic)
        with builder, tf.name_scope(self._scope_of_call()), _inside(kwargs.get("training")):
            self._check_inputs(flat)
            if not self.built:
                self._build_for(inputs, flat)
            passed = {
                name: value
                for name, value in kwargs.items()
                if name not in {"training", "mask"} or name in self._call_arguments or "**" in self._call_arguments
            }
            outputs = self.call(inputs, **passed)
            if symbolic:
                given = {id(x) for x in flat}
                outputs = nest.map_structure(lambda x: tf.identity(x) if id(x) in given else x, outputs)
            if self._activity_regularizer is not None:
                self._regularize(outputs)
            self._set_masks(inputs, outputs, kwargs.get("mask"))
        taken = nest.flatten(inputs) if self._takes_history else flat  # with variables among it there is no history
        if symbolic and all(hasattr(x, "_keras_history") for x in taken):
            Node(self, inputs, outputs, arguments)
        return outputs

    def _build_for(self, inputs: Any, flat: list[Any]) -> None:
        if self._dtype is None:
            kind = flat[0].dtype.base_dtype if flat else None
            self._dtype = kind.name if kind is not None and kind.is_floating else state.floatx()
        self.build(shapes_of(inputs))
        object.__setattr__(self, "built", True)
        if self._initial_weights is not None:
            self.set_weights(self._initial_weights)
            self._initial_weights = None

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        return self(inputs, *args, **kwargs)

    def _scope_of_call(self) -> str:
        return self.name

    def _clear_losses(self) -> None:
        self._eager_losses.clear()
        for layer in self._sublayers:
            if isinstance(layer, Layer):
                layer._clear_losses()

    def _check_inputs(self, flat: Any) -> None:
        specs = self.input_spec
        if not specs:
            return
        for spec, x in zip(specs if isinstance(specs, (list, tuple)) else [specs], flat, strict=False):
            if spec is not None and isinstance(x, Tensor):
                spec.check(self.name, x)

    def _regularize(self, outputs: Any) -> None:
        with tf.name_scope("ActivityRegularizer"):
            for output in nest.flatten(outputs):
                value = self._activity_regularizer(output)
                self.add_loss(value / tf.cast(tf.shape(output)[0], value.dtype))

    def _set_masks(self, inputs: Any, outputs: Any, mask: Any) -> None:
        is_default = type(self).compute_mask is Layer.compute_mask
        if is_default and not self.supports_masking:
            return
        if mask is None and is_default:
            return
        out = self.compute_mask(inputs, mask)
        flat = nest.flatten(outputs)
        masks = out if isinstance(out, (list, tuple)) else [out] * len(flat)
        for x, one in zip(flat, masks, strict=False):
            if one is not None or hasattr(x, "_keras_mask"):
                x._keras_mask = one


@contextlib.contextmanager
def _inside(training: Any) -> Iterator[None]:
    """The call of a layer: layers within it train as it does, if it was told."""
    _calls.depth += 1
    if training is not None:
        _calls.training.append(training)
    try:
        yield
    finally:
        _calls.depth -= 1
        if training is not None:
            _calls.training.pop()


def _builder_of(tensors: list[Any], symbolic: bool) -> Any:
    """The block in which ops on these tensors are made."""
    if not tensors:
        return contextlib.nullcontext()
    if symbolic and state.is_eager():
        return tensors[0].graph.as_default()
    return builder_of(tensors).as_default()


def is_inside_call() -> bool:
    """Whether the call of a layer goes on."""
    return _calls.depth > 0


def _arguments_of(call: Any) -> list[str]:
    parameters = inspect.signature(call).parameters.values()
    return ["**" if p.kind is p.VAR_KEYWORD else p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]


_completers: list[Any] = []  # filled by the module of ops between layers, which stands above this one


def complete_history(flat: Any) -> None:
    """Make ops between layers layers themselves, so that tensors have a history."""
    if any(not hasattr(x, "_keras_history") for x in flat):
        for complete in _completers:
            complete(flat)


variable_watchers.append(state.track_variable)

__all__ = ["InputSpec", "Layer", "registry"]
