"""``training.tracking`` (once ``checkpointable``): objects whose attributes a checkpoint follows."""

from __future__ import annotations

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

__all__ = [
    "AutoTrackable",
    "ListWrapper",
    "NoDependency",
    "Trackable",
    "TrackableReference",
    "no_automatic_dependency_tracking",
]
