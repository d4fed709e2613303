"""``training.tracking`` (once ``checkpointable``): objects whose attributes a checkpoint follows."""

from __future__ import annotations

import functools
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.train.saving import checkpoint_state
from anabranch.train.saving.trackable import ObjectGraph
from anabranch.variables.tracking import (
    AutoTrackable,
    DictWrapper,
    ListWrapper,
    NoDependency,
    Trackable,
    TrackableReference,
    no_automatic_dependency_tracking,
    wrapped,
)

CheckpointableReference = TrackableReference
CheckpointableBase = Trackable
Checkpointable = AutoCheckpointable = AutoTrackable
NotTrackable = NotCheckpointable = type("NotTrackable", (), {"__doc__": "An object that no checkpoint follows."})
_DictWrapper = DictWrapper
VARIABLE_VALUE_KEY = "VARIABLE_VALUE"
OBJECT_GRAPH_PROTO_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
wrap_or_unwrap = wrapped


def add_variable(
    trackable: Any = None,
    name: str = "",
    shape: Any = None,
    dtype: Any = tf.float32,
    initializer: Any = None,
    trainable: bool = True,
    checkpointable: Any = None,
) -> Any:
    """Make a variable that an object follows under ``name``; scopes add to the variable's own name alone.

    ``checkpointable`` is the first name of ``trackable``.

    Raises:
        ValueError: the object has a child of that name, or a constant and a shape are given.
    """
    trackable = checkpointable if trackable is None else trackable
    if name in trackable._named_children():
        raise ValueError(
            f"A variable named '{name}' already exists in this Trackable, but Trackable._add_variable called to create "
            "another with that name. Variable names must be unique within a Trackable object.\n"
            + errors.message(f"a second variable {name!r} of {trackable!r}", "a name for each", "another name")
        )
    if initializer is not None and not callable(initializer) and shape is not None:
        raise ValueError(
            "If initializer is a constant, do not specify shape.\n"
            + errors.message(
                f"shape={shape} beside a value", "a shape for an initializer that is called", "leave out shape"
            )
        )
    dtype = tf.as_dtype(dtype).base_dtype
    if initializer is None:
        initializer = tf.glorot_uniform_initializer() if dtype.is_floating else tf.zeros_initializer()
    value = initializer
    if callable(initializer):
        make = initializer(dtype=dtype) if isinstance(initializer, type) else initializer
        value = functools.partial(make, tf.TensorShape(shape).as_list(), dtype=dtype)
    with tf.init_scope():
        made = tf.Variable(value, trainable=trainable, name=name, dtype=dtype, use_resource=True)
    return trackable._track_trackable(made, name)


def list_objects(root_trackable: Any) -> list[Any]:
    """All objects that a checkpoint of an object follows, itself first."""
    return list(ObjectGraph(root_trackable).objects)


def gather_initializers(root_trackable: Any) -> list[Any]:
    """The initializers of the objects that a checkpoint of an object follows."""
    found = (getattr(item, "initializer", None) for item in list_objects(root_trackable))
    return [initializer for initializer in found if initializer is not None]


class CheckpointableSaver:
    """Save and restore an object without a counter of saves; `tf.train.Checkpoint` is the public form."""

    def __init__(self, root_checkpointable: Any) -> None:
        self._checkpoint = tf.train.Checkpoint(root=root_checkpointable)

    def save(self, file_prefix: Any, checkpoint_number: Any = None, session: Any = None) -> str:
        """Write a checkpoint at the prefix, with ``-checkpoint_number`` behind it if there is one; return its path."""
        place = checkpoint_state.as_path(file_prefix)
        if checkpoint_number is not None:
            place += f"-{int(checkpoint_number)}"
        return self._checkpoint.write(place, session)

    def restore(self, save_path: Any) -> Any:
        """What can be restored from a checkpoint: a status, as of `tf.train.Checkpoint.restore`."""
        return self._checkpoint.read(save_path)


__all__ = [
    "AutoTrackable",
    "CheckpointableSaver",
    "ListWrapper",
    "NoDependency",
    "Trackable",
    "TrackableReference",
    "add_variable",
    "gather_initializers",
    "list_objects",
    "no_automatic_dependency_tracking",
]
