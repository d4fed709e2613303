"""``tf.contrib.eager.Network``: layers made of layers, before there was `tf.keras.Model`.

Names of variables show how networks are nested: ``outer/inner/dense_1/kernel``. A network, and a layer that has no name
of its own, is therefore named when it is given to a network, or when it is called first; layers are counted within
their network.
"""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.layers.base import Layer, snake_case
from anabranch.session import get_default_session
from anabranch.train.saving import saver
from anabranch.train.saving.checkpoint_reader import load_checkpoint
from anabranch.train.step_counter import get_global_step
from anabranch.variables.scope_state import VariableScope, scope_store
from anabranch.variables.tracking import no_automatic_dependency_tracking

_NAMES = ("__network_names",)
_ADVICE = "derive from tf.keras.Model, which follows the layers among its attributes"


def _unique(counts: dict[str, int], base: str, taken: Any) -> str:
    """``base``, ``base_1`` and so on: the first name of these that is not taken."""
    while True:
        number = counts.get(base, 0)
        counts[base] = number + 1
        name = base if not number else f"{base}_{number}"
        if name not in taken:
            return name


@public("contrib.eager.Network")
class Network(Layer):
    """A layer made of layers: give them to :meth:`track_layer`, and call them in :meth:`call`.

    Args:
        name: a name without '/'; the class's name in snake case, made unique, if None.

    Example:
        >>> import anabranch as tf
        >>> class TwoLayers(tf.contrib.eager.Network):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.first = self.track_layer(tf.layers.Dense(4))
        ...         self.second = self.track_layer(tf.layers.Dense(1))
        ...     def call(self, x):
        ...         return self.second(self.first(x))
        >>> with tf.Graph().as_default():
        ...     network = TwoLayers()
        ...     y = network(tf.ones([1, 2]))
        ...     [v.name for v in network.variables]
        ['two_layers/dense/kernel:0', 'two_layers/dense/bias:0', 'two_layers/dense_1/kernel:0', \
'two_layers/dense_1/bias:0']
    """

    @no_automatic_dependency_tracking
    def __init__(self, name: str | None = None) -> None:
        if isinstance(name, VariableScope):
            raise ValueError(
                "VariableScopes are not valid Network names.\n"
                + errors.message(f"name={name!r}", "a string", "name=scope.name")
            )
        if name is not None and "/" in name:
            raise ValueError(
                "Forward slashes ('/') are not allowed in Network names.\n"
                + errors.message(f"name={name!r}", "a name without '/'", f"name={name.replace('/', '_')!r}")
            )
        super().__init__(name=name)
        self._layers: list[Any] = []
        self._layer_counts: dict[str, int] = {}
        self._owned_layers: dict[str, Any] = {}
        self._parent: Any = None
        """What this network was given to: a reference, None if nothing yet, False if it was called before."""
        self._outer_scope = tf.get_variable_scope()
        self._scopes_before = scope_store().counts
        """The names of scopes that are open now or come until the scope around is left."""

    def _init_set_name(self, name: Any) -> None:
        self._base_name = name or snake_case(type(self).__name__)
        self._name = name

    @property
    def name(self) -> str:
        """The name.

        Raises:
            ValueError: there is none yet.
        """
        if not self._name:
            raise ValueError(
                "The network does not yet have a final name, but a name was requested for it. Networks get a name when "
                "they are added to another Network via track_layer, or when they are first called/built.\n"
                + errors.message("the name of a network that was not called", "one that was", "network(x) first")
            )
        return self._name

    def _finalize_name(self, parent: Network | None) -> None:
        if not self._name:
            if parent is not None:
                self._name = _unique(parent._layer_counts, self._base_name, parent._owned_layers)
            else:
                outer = self._outer_scope.name
                prefix = f"{outer}/" if outer else ""
                taken = {key[len(prefix) :] for key in self._scopes_before if key and key.startswith(prefix)}
                counts: dict[Any, dict[str, int]] = current_builder().library_state(_NAMES, dict)
                self._name = _unique(counts.setdefault(outer, {}), self._base_name, taken)
        if self._parent is None or (self._parent and self._parent() is None):
            self._parent = weakref.ref(parent) if parent is not None else False

    def _name_scope_name(self, current: VariableScope) -> str:
        return f"{current.name}/"

    def _set_scope(self, scope: Any = None) -> None:
        if self._scope is not None:
            return
        if scope is not None:
            raise ValueError(
                "Networks may not be created with explicit scopes.\n"
                + errors.message(f"scope={scope!r}", "no scope", "with tf.variable_scope(...) around the network")
            )
        parent = self._parent() if self._parent else None
        if parent is None:
            self._finalize_name(None)
            outer = self._outer_scope
        else:
            parent._set_scope()
            outer = parent._scope
        with tf.variable_scope(outer) as entered:
            if f"{entered.name}/{self._name}".lstrip("/") in self._scopes_before:
                self._refuse_name()
            with tf.variable_scope(None, use_resource=True, default_name=self._name) as own:
                prefix, _, last = own.name.rpartition("/")
                if last != self._name:
                    self._refuse_name()
                if parent is not None and prefix != parent.scope_name:
                    raise ValueError(
                        "Network variable names must match a nesting of sub-Network names. Expected prefix "
                        f"'{parent.scope_name}' from parent network, but got '{prefix}' when attempting to create a "
                        f"variable_scope for Network '{self._name}'.\n"
                        + errors.message(f"the scope {own.name!r}", f"one in {parent.scope_name!r}", "no scope between")
                    )
                self._scope = own
                if parent is None and prefix:
                    self._name = own.name
        for layer in self._layers:
            if not isinstance(layer, Network):
                self._set_scope_of_layer(layer)

    def _refuse_name(self) -> None:
        raise ValueError(
            f"A Network named '{self._name}' already exists (or a variable_scope was created with this name). Names "
            "must be unique.\n"
            + errors.message(f"a second {self._name!r}", "a name for each", "no name, which makes one")
        )

    def _set_scope_of_layer(self, layer: Any) -> None:
        """Name the variables of a layer after its network."""
        if layer._scope is not None:
            return
        owner = layer._first_network() if hasattr(layer, "_first_network") else None
        if owner is None:
            raise ValueError(
                f"The parent of a Layer added to Network {self.name} was garbage collected before the Layer was "
                "built.\n"
                + errors.message(
                    "a layer whose first network is gone", "one whose network is there", "keep the network"
                )
            )
        owner._set_scope()
        with (
            tf.variable_scope(owner._scope),
            tf.variable_scope(None, use_resource=True, default_name=layer.name) as own,
        ):
            layer._scope = own
            layer.__dict__["_name_scope_name"] = lambda current: f"{current.name}/"

    # ----------------------------------------------------------------------------------------------------------- layers
    def track_layer(self, layer: Any) -> Any:
        """Take a layer, and return it.

        Raises:
            TypeError: it is not a layer. ValueError: another layer of the network has its name.
            RuntimeError: ``__init__`` was not called.
        """
        if "_layers" not in self.__dict__:
            raise RuntimeError(
                "Need to call Network.__init__ before adding layers\n"
                + errors.message("track_layer before __init__", "super().__init__() first", "super().__init__()")
            )
        if not isinstance(layer, Layer):
            raise TypeError(
                f"Network.track_layer() passed type {type(layer)}, not a tf.layers.Layer\n"
                + errors.message(f"a {type(layer).__name__}", "a layer", "tf.layers.Dense(10)")
            )
        mine = False
        if isinstance(layer, Network):
            layer._finalize_name(self)
            mine = bool(layer._parent) and layer._parent() is self
        elif not layer.built:
            first = layer.__dict__.get("_first_network")
            if first is None or first() is None:
                if layer._name != layer._base_name:  # it has no name of its own
                    layer._name = _unique(self._layer_counts, layer._base_name, self._owned_layers)
                layer.__dict__["_first_network"] = weakref.ref(self)
                mine = True
            else:
                mine = first() is self
        if mine and not layer.built:
            known = self._owned_layers.get(layer.name)
            if known is layer:
                return layer
            if known is not None:
                raise ValueError(
                    f"Attempt to add two Layers with the name '{layer.name}' to the same Network.\n"
                    + errors.message(f"a second {layer.name!r}", "a name for each", "leave the name out")
                )
            self._owned_layers[layer.name] = layer
        self._layers.append(layer)
        return layer

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """A layer, by name or by number.

        Raises:
            ValueError: there is no such layer, or not exactly one of name and index is given.
        """
        if index is not None:
            if name is not None:
                problem = "Exactly one of 'index' or 'name' must be provided"
            elif index < len(self._layers):
                return self._layers[index]
            else:
                problem = f"Was asked to retrieve layer at index {index} but model only has {len(self._layers)} layers."
        elif not name:
            problem = "Provide either a layer name or layer index."
        else:
            for layer in self._layers:
                if layer.name == name:
                    return layer
            problem = f"No such layer: {name}"
        names = [layer.name for layer in self._layers]
        raise ValueError(
            f"{problem}\n" + errors.message(f"name={name!r}, index={index!r}", f"one of {names}", "get_layer(index=0)")
        )

    @property
    def layers(self) -> list[Any]:
        """The layers, as they were given."""
        return self._layers

    @property
    def weights(self) -> list[Any]:
        """Variables of the layers."""
        return [variable for layer in self._layers for variable in layer.weights]

    @property
    def trainable_weights(self) -> list[Any]:
        """Those that optimizers change."""
        return [variable for layer in self._layers for variable in layer.trainable_weights]

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The others."""
        return [variable for layer in self._layers for variable in layer.non_trainable_weights]

    @property
    def losses(self) -> list[Any]:
        """Losses of the layers."""
        return [loss for layer in self._layers for loss in layer.losses]

    @property
    def trainable(self) -> bool:
        """True."""
        return True

    @trainable.setter
    def trainable(self, value: bool) -> None:
        if not value:
            raise AttributeError(
                "cannot mark Network as not trainable\n"
                + errors.message("network.trainable = False", "True", "var_list= of the optimizer")
            )

    def add_variable(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool = True,
        constraint: Any = None,
    ) -> Any:
        """Raise RuntimeError: a network has the variables of its layers."""
        raise RuntimeError(
            "add_variable not supported in Network class yet.\n"
            + errors.message(f"add_variable({name!r}) of a network", "one of a layer", "a tf.layers.Layer of your own")
        )

    def add_loss(self, losses: Any, inputs: Any = None) -> Any:
        """Raise RuntimeError: a network has the losses of its layers."""
        raise RuntimeError(
            "add_loss is not supported in Network class yet.\n"
            + errors.message("add_loss of a network", "one of a layer", "a tf.layers.Layer of your own")
        )

    def _gather_saveables_for_checkpoint(self) -> Any:
        """Raise NotImplementedError: networks are saved by :func:`save_network_checkpoint`."""
        raise NotImplementedError(
            "tfe.Network does not support object-based checkpointing.\n"
            + errors.message("a network in tf.train.Checkpoint", "save_network_checkpoint(network, path)", _ADVICE)
        )


@public("contrib.eager.Sequential")
class Sequential(Network):
    """Layers and functions, one after the other.

    Args:
        layers_funcs: layers, and functions of a tensor.
        name: name of the network.
    """

    def __init__(self, layers_funcs: Sequence[Any] | None = None, name: str | None = None) -> None:
        super().__init__(name=name)
        self._steps: list[tuple[bool, Any]]
        self.__dict__["_steps"] = []
        for item in layers_funcs or ():
            self.add(item)

    def add(self, layer_func: Any) -> None:
        """Put a layer or function at the end; TypeError if it is neither."""
        if isinstance(layer_func, Layer):
            parameters = inspect.signature(layer_func.call).parameters
            self.track_layer(layer_func)
        elif callable(layer_func):
            parameters = inspect.signature(layer_func).parameters
        else:
            raise TypeError(
                f"Sequential.add() takes only tf.layers.Layer objects or callables; not '{layer_func}' of type "
                f"'{type(layer_func)}'.\n"
                + errors.message(f"a {type(layer_func).__name__}", "a layer or a function", "tf.layers.Dense(10)")
            )
        self._steps.append(("training" in parameters, layer_func))

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Call each layer and function on the result of the one before."""
        for takes_training, step in self._steps:
            inputs = step(inputs, training) if takes_training and training is not None else step(inputs)
        return inputs


# ---------------------------------------------------------------------------------------------------------- checkpoints
def _without_scope(scope_name: str) -> Callable[[str], str]:
    return lambda name: name.removeprefix(f"{scope_name}/")


def _named(network: Network, map_func: Callable[[str], str], given: str) -> dict[str, Any]:
    """The variables of a network by their names in a checkpoint.

    Raises:
        ValueError: two have one name.
    """
    named: dict[str, Any] = {}
    for variable in network.variables:
        name = map_func(variable._shared_name)
        other = named.setdefault(name, variable)
        if other is not variable:
            _refuse_names(network, name, other, variable, given)
    return named


def _refuse_names(network: Network, name: str, first: Any, second: Any, given: str) -> None:
    if given:
        usual = f"The map_func passed to {given} for the Network '{network.name}' resulted in two variables named"
    else:
        usual = (
            f"The default checkpoint variable name mapping strategy for Network '{network.name}' resulted in a naming "
            "conflict. Two variables are named"
        )
    raise ValueError(
        f"{usual} '{name}' ('{first._shared_name}' and '{second._shared_name}').\n"
        + errors.message(f"two variables called {name!r}", "a name for each", "map_func=lambda name: name")
    )


def _path_of(network: Network, save_path: str) -> str:
    return os.path.join(save_path, network.name.replace("/", "_")) if os.path.isdir(save_path) else save_path


def _session() -> Any:
    return get_default_session() if current_builder().defers else None


@public("contrib.eager.save_network_checkpoint")
def save_network_checkpoint(
    network: Network, save_path: str, global_step: Any = None, map_func: Callable[[str], str] | None = None
) -> Any:
    """Save the variables of a network, and return the path of the checkpoint.

    Args:
        network: the network, which was called.
        save_path: a path, or a folder, in which the checkpoint has the network's name.
        global_step: the step; the global step if None, and none if there is none.
        map_func: from names of variables to those in the checkpoint; the network's scope is taken off if None.

    Raises:
        ValueError: the network was not called, or two variables would have one name.
    """
    if not network.built:
        raise ValueError(
            "Attempt to save the Network before it was first called. This means variables have not yet been created, "
            "so there is nothing to save.\n"
            + errors.message("a network without variables", "one that was called", "network(x)")
        )
    network._set_scope()
    given = "save_network_checkpoint" if map_func else ""
    named = _named(network, map_func or _without_scope(network.scope_name), given)
    step = get_global_step() if global_step is None else global_step
    path = _path_of(network, save_path)
    return saver.Saver(named).save(_session(), path, write_meta_graph=False, global_step=step)


class _Restoration:
    """Values of a checkpoint for variables that a network will make."""

    def __init__(self, network: Network, values: dict[str, Any], map_func: Callable[[str], str], given: str) -> None:
        self.network = weakref.ref(network)
        self.values = values
        self.map_func = map_func
        self.given = given
        self.made: dict[str, Any] = {}


def _restoring_getter(restorations: list[_Restoration]) -> Callable[..., Any]:
    """A getter of variables that begin with their values of the last checkpoint that has them."""

    def get(
        getter: Callable[..., Any],
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        **rest: Any,
    ) -> Any:
        found = next((one for one in reversed(restorations) if one.map_func(name) in one.values), None)
        if found is None:
            return getter(name, shape=shape, dtype=dtype, initializer=initializer, **rest)
        key = found.map_func(name)
        if key not in found.made:
            shape, initializer = None, found.values[key]
        variable = getter(name, shape=shape, dtype=dtype, initializer=initializer, **rest)
        if key not in found.made:
            found.made[key] = variable
            if current_builder().defers:
                get_default_session().run(variable.initializer)  # type: ignore[union-attr]
        elif found.made[key] is not variable:
            network = found.network()
            assert network is not None
            _refuse_names(network, key, found.made[key], variable, found.given)
        return variable

    return get


def _wait(layer: Any, restoration: _Restoration, owner: Network | None) -> None:
    """Let what a layer makes begin with values of a checkpoint."""
    if isinstance(layer, Network):
        layer._set_scope()
    elif owner is not None:
        owner._set_scope_of_layer(layer)
    restorations = layer.__dict__.setdefault("_restorations", [])
    if not restorations:
        layer._scope._custom_getter = _restoring_getter(restorations)
    restorations.append(restoration)
    if isinstance(layer, Network):
        for part in layer.layers:
            _wait(part, restoration, layer)


@public("contrib.eager.restore_network_checkpoint")
def restore_network_checkpoint(network: Network, save_path: str, map_func: Callable[[str], str] | None = None) -> None:
    """Give the variables of a network the values of a checkpoint, and those that it makes later their first values.

    Args:
        network: the network.
        save_path: what :func:`save_network_checkpoint` returned, or a folder.
        map_func: as it was given to :func:`save_network_checkpoint`.

    Raises:
        ValueError: two variables have one name.
    """
    network._finalize_name(None)
    network._set_scope()
    path = _path_of(network, save_path)
    mapped = map_func or _without_scope(network.scope_name)
    given = "restore_network_checkpoint" if map_func else ""
    there = _named(network, mapped, given)
    if there:
        saver.Saver(there).restore(_session(), path)
    reader = load_checkpoint(path)
    later = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name not in there}
    if later:
        _wait(network, _Restoration(network, later, mapped, given), None)


__all__ = ["Network", "Sequential", "restore_network_checkpoint", "save_network_checkpoint"]
