"""``tf.contrib.checkpoint``: what goes with `tf.train.Checkpoint`, and looks into files that it has written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public, publish_as
from anabranch.core.graph.build import build
from anabranch.core.protos import object_graph_pb2
from anabranch.train.saving import trackable
from anabranch.train.saving.checkpoint import CheckpointManager
from anabranch.train.saving.checkpoint_reader import load_checkpoint
from anabranch.train.saving.object_checkpoint import read_object_graph
from anabranch.train.saving.python_state import PythonState
from anabranch.train.saving.saveable import SaveableObject, SaveSpec
from anabranch.variables.template import Template
from anabranch.variables.tracking import (
    AutoTrackable,
    DictWrapper,
    ListWrapper,
    NoDependency,
    Trackable,
    is_trackable,
    joined,
)
from anabranch.variables.variable import Variable

__getattr__, __dir__ = module_attributes("contrib.checkpoint")

publish_as("contrib.checkpoint.CheckpointManager", CheckpointManager)
publish_as("contrib.checkpoint.Checkpointable", AutoTrackable)
publish_as("contrib.checkpoint.CheckpointableBase", Trackable)
publish_as("contrib.checkpoint.CheckpointableObjectGraph", object_graph_pb2.TrackableObjectGraph)
publish_as("contrib.checkpoint.NoDependency", NoDependency)


# ----------------------------------------------------------------------------------------------------- lists and dicts
def _weights(items: Any) -> list[Any]:
    """Variables among items, and those of layers among them."""
    found: list[Any] = []
    for item in items:
        own = [item] if isinstance(item, Variable) else getattr(item, "variables", ())
        found += [variable for variable in own if not any(variable is other for other in found)]
    return found


class _Weights:
    """What a list or dict of layers has as if it were a layer."""

    def _items(self) -> list[Any]:
        raise NotImplementedError

    @property
    def layers(self) -> list[Any]:
        """The layers in it."""
        return [item for item in self._items() if hasattr(item, "variables") and not isinstance(item, Variable)]

    @property
    def weights(self) -> list[Any]:
        """All variables, those that are trained first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    variables = weights

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that optimizers change."""
        return [variable for variable in _weights(self._items()) if variable.trainable]

    trainable_variables = trainable_weights

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        return [variable for variable in _weights(self._items()) if not variable.trainable]

    non_trainable_variables = non_trainable_weights

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@public("contrib.checkpoint.List")
class List(_Weights, ListWrapper):  # type: ignore[misc] # it is told apart by identity
    """A list whose items a checkpoint follows, by number.

    Example:
        >>> import anabranch as tf
        >>> parts = tf.contrib.checkpoint.List([tf.Variable(1.0)])
        >>> parts.append(tf.Variable(2.0))
        >>> len(parts.variables)
        2
    """

    def _items(self) -> list[Any]:
        return list(self)


@public("contrib.checkpoint.Mapping")
class Mapping(_Weights, DictWrapper):  # type: ignore[misc] # it is told apart by identity
    """A dict whose values a checkpoint follows, by key; keys are strings, and none is given a second value."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                f"Mapping accepts only string keys, but got a key {key!r}.\n"
                + errors.message(f"the key {key!r}", "a string", "mapping[str(key)] = value")
            )
        if key in self and self[key] is not value:
            raise ValueError(
                f"Mappings are an append-only data structure. Tried to overwrite the key '{key}' with value {value}, "
                f"but it already contains {self[key]}\n"
                + errors.message(f"a second value for {key!r}", "a new key", "a dict, if values change")
            )
        super().__setitem__(key, value)

    def _items(self) -> list[Any]:
        return list(self.values())


@public("contrib.checkpoint.UniqueNameTracker")
class UniqueNameTracker(AutoTrackable):
    """Objects that a checkpoint follows under names which it makes unique: ``x``, ``x_1`` and so on."""

    def track(self, trackable: Any, base_name: str) -> Any:
        """Follow an object under a name like ``base_name``, and return it.

        Raises:
            ValueError: it is not one that a checkpoint can hold.
        """
        if not is_trackable(trackable):
            raise ValueError(
                f"Expected a trackable value, got {trackable} which does not inherit from tf.track.Trackable.\n"
                + errors.message(f"{trackable!r}", "a variable or trackable object", "tf.Variable(x)")
            )
        own = self._named_children()
        name, number = base_name, 0
        while name in own:
            number += 1
            name = f"{base_name}_{number}"
        own[name] = trackable
        joined()
        return trackable


# --------------------------------------------------------------------------------------------------------------- NumPy
class _Array(PythonState):
    """An array as something that a checkpoint holds."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def serialize(self) -> bytes:
        file = io.BytesIO()
        np.save(file, self.array, allow_pickle=False)
        return file.getvalue()

    def deserialize(self, string_value: bytes) -> None:
        self.array = np.load(io.BytesIO(string_value), allow_pickle=False)


@public("contrib.checkpoint.NumpyState")
class NumpyState(Trackable):
    """An object whose attributes are arrays that checkpoints hold; a restore makes those that are not there.

    Example:
        >>> import anabranch as tf, numpy as np
        >>> arrays = tf.contrib.checkpoint.NumpyState()
        >>> checkpoint = tf.train.Checkpoint(arrays=arrays)
        >>> arrays.x = np.zeros([2])
        >>> arrays.x.shape
        (2,)
    """

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__.get("_followed_children", {})
        if name not in own:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return own[name].array

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, np.ndarray | np.generic):
            raise NotImplementedError(
                f"Assigned {value} to the {name} property of {self}, which is not a NumPy array.\n"
                + errors.message(f"a {type(value).__name__}", "an array", "np.array(value)")
            )
        own = self._named_children()
        if name in own:
            own[name].array = value
        else:
            own[name] = _Array(value)
            joined()

    def _lookup_dependency(self, name: str) -> Any:
        """The array of a name, made if it is not there."""
        return self._named_children().setdefault(name, _Array(np.array([])))


# --------------------------------------------------------------------------------------------------- looking into files
@public("contrib.checkpoint.list_objects")
def list_objects(root_trackable: Any) -> list[Any]:
    """The objects that a root leads to, each once."""
    return list(trackable.ObjectGraph(root_trackable).objects)


@public("contrib.checkpoint.object_metadata")
def object_metadata(save_path: Any) -> Any:
    """The graph of objects of a checkpoint, a ``TrackableObjectGraph``.

    Raises:
        ValueError: the checkpoint was written by name. NotFoundError: there is none.
    """
    proto = read_object_graph(save_path)
    if proto is None:
        raise ValueError(
            f'The specified checkpoint "{save_path}" does not appear to be object-based (saved with TF2) since it is '
            'missing the key "_CHECKPOINTABLE_OBJECT_GRAPH".\n'
            + errors.message(
                f"{save_path}, written by name", "one that tf.train.Checkpoint wrote", "tf.train.list_variables(path)"
            )
        )
    return proto


@public("contrib.checkpoint.dot_graph_from_checkpoint")
def dot_graph_from_checkpoint(save_path: Any) -> str:
    """The graph of objects of a checkpoint, in Graphviz' language."""
    reader = load_checkpoint(save_path)
    shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    proto = object_metadata(save_path)
    slots = {slot.slot_variable_node_id for node in proto.nodes for slot in node.slot_variables}
    lines = ["digraph {"]
    for number, node in enumerate(proto.nodes):
        if len(node.attributes) == 1 and node.attributes[0].name == trackable.VALUE:
            attribute = node.attributes[0]
            color, kind = ("orange", "Slot variable") if number in slots else ("blue", "Variable")
            shape, dtype = shapes[attribute.checkpoint_key], kinds[attribute.checkpoint_key].name
            text = f"{kind} {_quoted(attribute.full_name)} shape={shape} {dtype}"
            lines.append(f'N_{number} [shape=point label="" color={color} width=.25 tooltip="{text}"]')
        elif node.slot_variables:
            lines.append(f'N_{number} [shape=point label="" width=.25 color=red,tooltip="Optimizer"]')
        else:
            lines.append(f'N_{number} [shape=point label="" width=.25]')
        lines += [f'N_{number} -> N_{child.node_id} [label="{_quoted(child.local_name)}"]' for child in node.children]
        for slot in node.slot_variables:
            place = slot.slot_variable_node_id
            lines.append(f'N_{number} -> N_{place} [label="{_quoted(slot.slot_name)}" style=dotted]')
            lines.append(f"N_{slot.original_variable_node_id} -> N_{place} [style=dotted]")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return text.replace('"', '\\"')


# ------------------------------------------------------------------------------------------------------------ templates
@public("contrib.checkpoint.capture_dependencies")
@contextmanager
def capture_dependencies(template: Template) -> Iterator[None]:
    """Do nothing: a template's variables are its children in any case, whenever they are made."""
    yield


class _Part(Trackable):
    """One of several values that are saved and restored together."""

    def __init__(self, name: str, dtype: Any, device: Any, whole: _Whole) -> None:
        self._own = (name, dtype, device, whole)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        name, dtype, device, whole = self._own
        return {trackable.VALUE: lambda key: _PartSaveable(key, name, dtype, device, whole)}


class _PartSaveable(SaveableObject):
    def __init__(self, key: str, part: str, dtype: Any, device: Any, whole: _Whole) -> None:
        self._part = part
        self._whole = whole
        super().__init__(whole.saved, [SaveSpec(lambda: whole.saved(part), "", key, dtype, device)], key)
        self.op = self  # one of several, which are told apart

    def restore(self, restored_tensors: list[Any], restored_shapes: list[Any] | None) -> Any:
        return self._whole.restored(self._part, restored_tensors[0])


class _Whole:
    """Values that one function gives, and another one takes."""

    def __init__(self, names: Sequence[str], fill: Callable[[Any], Any], consume: Callable[[Any], Any]) -> None:
        self._names = names
        self._fill = fill
        self._consume = consume
        self._given: dict[str, Any] = {}
        self._taken: dict[str, Any] = {}

    def saved(self, name: str) -> Any:
        """A value to save."""
        if name not in self._given:
            self._require(not self._given, name, "saved")
            self._fill(self._given)
        return self._given.pop(name)

    def restored(self, name: str, tensor: Any) -> Any:
        """Take a value that was restored; with the last one, all of them are used."""
        self._require(name not in self._taken, name, "restored")
        self._taken[name] = tensor
        if len(self._taken) < len(self._names):
            return build("NoOp")
        taken, self._taken = self._taken, {}
        return self._consume(taken)

    def _require(self, holds: bool, name: str, what: str) -> None:
        if not holds:
            raise AssertionError(
                f"Split dependency {name} unsynchronized. Split dependencies must be {what} together.\n"
                + errors.message(f"{name!r} {what} without the others", "all parts", "follow all parts from one root")
            )


@public("contrib.checkpoint.split_dependency")
def split_dependency(
    component_names: Sequence[str],
    component_dtypes: Sequence[Any],
    fill_save_buffer_fn: Callable[[Any], Any],
    consume_restore_buffer_fn: Callable[[Any], Any],
    device: Any,
) -> dict[str, Any]:
    """Objects that a checkpoint holds as if each were a variable, and whose values come and go together.

    Args:
        component_names: their names.
        component_dtypes: a dtype for each.
        fill_save_buffer_fn: puts tensors into the dict that it is given, under these names.
        consume_restore_buffer_fn: takes a dict of tensors, and returns the op that restores them, if there is one.
        device: where that happens.
    """
    whole = _Whole(component_names, fill_save_buffer_fn, consume_restore_buffer_fn)
    return {
        name: _Part(name, dtype, device, whole) for name, dtype in zip(component_names, component_dtypes, strict=True)
    }


__all__ = ["List", "Mapping", "NumpyState", "UniqueNameTracker", "split_dependency"]
