"""``training.tracking`` (once ``checkpointable``): objects whose attributes a checkpoint follows.

Any object may be saved by its attributes (``tf.train.Checkpoint``), so these classes ask for nothing.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

TrackableReference = namedtuple("TrackableReference", ["name", "ref"])
CheckpointableReference = TrackableReference


class Trackable:
    """An object whose attributes a checkpoint follows."""

    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any:
        """Follow an object under a name; ValueError if another one has it."""
        known = self.__dict__.get(name)
        if known is not None and known is not trackable and not overwrite:
            raise ValueError(f"Called Trackable._track_trackable() with name='{name}', but there is one of that name.")
        self.__dict__[name] = trackable
        return trackable

    _track_checkpointable = _track_trackable

    def _maybe_initialize_trackable(self) -> None:
        """Nothing: attributes are looked at when the checkpoint is written."""

    _maybe_initialize_checkpointable = _maybe_initialize_trackable


class AutoTrackable(Trackable):
    """An object whose attributes a checkpoint follows, as they are set."""


class ListWrapper(list[Any]):
    """A list that is an attribute; a plain list is followed as well."""


class _DictWrapper(dict[Any, Any]):
    """A dictionary that is an attribute; a plain one is followed as well."""


CheckpointableBase = Trackable
Checkpointable = AutoCheckpointable = AutoTrackable
NotTrackable = NotCheckpointable = type("NotTrackable", (), {"__doc__": "An object that no checkpoint follows."})


def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method that sets attributes; they are followed like others."""
    return method


def NoDependency(value: Any) -> Any:
    """A value that is set as an attribute."""
    return value
