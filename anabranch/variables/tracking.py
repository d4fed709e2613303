"""Objects whose attributes a checkpoint by object follows.

An :class:`AutoTrackable` notes what is set as an attribute of it, under the attribute's name: variables, other such
objects, and lists and dicts, which become a :class:`ListWrapper` or :class:`DictWrapper` that tell when something is
added to them. ``tf.Module``, ``tf.layers.Layer`` and ``tf.train.Checkpoint`` are such objects. Any other class takes
part if it has one of these methods:

- ``_trackable_children()``, a dict of its children by name;
- ``_checkpoint_dependencies``, a list of pairs of a name and a child;
- ``_gather_saveables_for_checkpoint()``, a dict from names to what saves a value of its own.

Restoration may come before the objects. What waits for objects registers a function in :data:`waiting`, which
:func:`joined` calls whenever a child has come to an object; with nothing that waits, that costs nothing.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.values.shapes import TensorShape
from anabranch.variables.variable import Variable

TrackableReference = namedtuple("TrackableReference", ["name", "ref"])

waiting: weakref.WeakSet[Any] = weakref.WeakSet()
"""What waits for objects: each has a method ``settle()``."""


def joined() -> None:
    """Tell what waits for objects that one has come."""
    if waiting:
        for one in sorted(waiting, key=lambda restoration: restoration.number):
            one.settle()


def is_trackable(item: Any) -> bool:
    """Whether an object has a value or children that a checkpoint can hold."""
    kind = type(item)
    if isinstance(item, (Variable, Trackable, ListWrapper, DictWrapper, tuple)) or kind in (list, dict, OrderedDict):
        return True
    return not isinstance(item, type) and any(
        hasattr(kind, name)
        for name in ("_trackable_children", "_checkpoint_dependencies", "_gather_saveables_for_checkpoint")
    )


def children(item: Any) -> dict[str, Any]:
    """The named children of an object.

    Raises:
        ValueError: a dict has a key that is not a string, under which there is something to save.
    """
    if isinstance(item, Variable):
        return {}
    if isinstance(item, (list, tuple)):
        return {str(i): part for i, part in enumerate(item) if is_trackable(part)}
    if isinstance(item, dict):
        return {_key(item, name): part for name, part in item.items() if is_trackable(part)}
    method = getattr(item, "_trackable_children", None)
    if callable(method):
        return dict(method())
    return {reference.name: reference.ref for reference in getattr(item, "_checkpoint_dependencies", ())}


def _key(item: dict[Any, Any], name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(
            f"Unable to save the object {item}: it contains a non-string key which maps to a trackable object or "
            "mutable data structure.\n"
            + errors.message(f"the key {name!r}", "strings as keys", "tf.contrib.checkpoint.NoDependency(the_dict)")
        )
    return name


class NoDependency:
    """A value that is set as an attribute without being followed.

    Args:
        value: the value, which is what the attribute holds then.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


class Trackable:
    """An object with named children that a checkpoint follows."""

    def _named_children(self) -> dict[str, Any]:
        own: dict[str, Any] = self.__dict__.setdefault("_followed_children", {})
        return own

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The children by name."""
        return dict(self._named_children())

    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any:
        """Follow an object under a name.

        Raises:
            TypeError: it is not one that a checkpoint can hold. ValueError: another one has the name.
        """
        if not is_trackable(trackable):
            raise TypeError(
                "Trackable._track_trackable() passed type "
                f"{type(trackable)}, not a Trackable.\n"
                + errors.message(f"{trackable!r} under {name!r}", "a variable or trackable object", "tf.Variable(x)")
            )
        known = self._named_children().get(name)
        if known is not None and known is not trackable and not overwrite:
            raise ValueError(
                f"Called Trackable._track_trackable() with name='{name}', but a Trackable with this name is already "
                "declared as a dependency. Names must be unique (or overwrite=True).\n"
                + errors.message(f"a second {name!r}", "a name for each", "overwrite=True")
            )
        self._named_children()[name] = trackable
        joined()
        return trackable

    def _lookup_dependency(self, name: str) -> Any:
        """The child of a name, or None."""
        return self._trackable_children().get(name)

    @property
    def _checkpoint_dependencies(self) -> list[Any]:
        """The children, as pairs of name and object."""
        return [TrackableReference(name, child) for name, child in children(self).items()]

    def _maybe_initialize_trackable(self) -> None:
        """Nothing: an object needs no preparation."""

    def _no_dependency(self, value: Any) -> Any:
        """What an attribute is set to for a value that is not to be followed."""
        return value

    _track_checkpointable = _track_trackable
    _maybe_initialize_checkpointable = _maybe_initialize_trackable


def _is_given_by_property(item: Any, name: str, value: Any) -> bool:
    """Whether an attribute that cannot be set has the value already: setting it changes nothing.

    Shapes are made anew at each access, so they are compared by their sizes.
    """
    own = getattr(type(item), name, None)
    if not isinstance(own, property) or own.fset is not None:
        return False
    known = getattr(item, name)
    if isinstance(known, TensorShape) and isinstance(value, TensorShape):
        return bool(known.raw == value.raw)
    return known is value


class AutoTrackable(Trackable):
    """An object whose attributes a checkpoint follows, as they are set.

    Example:
        >>> import anabranch as tf
        >>> holder = tf.contrib.checkpoint.Checkpointable()
        >>> holder.weights = [tf.Variable(1.0)]
        >>> list(holder._trackable_children())
        ['weights']
    """

    def _no_dependency(self, value: Any) -> NoDependency:
        return NoDependency(value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not self.__dict__.get("_self_setattr_tracking", True):
            object.__setattr__(self, name, value)
            return
        if _is_given_by_property(self, name, value):
            return
        if isinstance(value, NoDependency):
            value = value.value
            followed = False
        else:
            value = wrapped(value)
            followed = is_trackable(value)
        object.__setattr__(self, name, value)
        if followed:
            self._named_children()[name] = value
            joined()
        else:
            own = self.__dict__.get("_followed_children")
            if own is not None:
                own.pop(name, None)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._named_children().pop(name, None)


def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method whose attributes are not followed."""

    @functools.wraps(method)
    def untracked(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.__dict__.get("_self_setattr_tracking", True)
        self.__dict__["_self_setattr_tracking"] = False
        try:
            return method(self, *args, **kwargs)
        finally:
            self.__dict__["_self_setattr_tracking"] = before

    return untracked


# ---------------------------------------------------------------------------------------------------- lists and dicts
class ListWrapper(list[Any]):
    """A list that is an attribute of a followed object: it says when something is added."""

    def append(self, value: Any) -> None:
        super().append(wrapped(value))
        joined()

    def extend(self, values: Any) -> None:
        super().extend([wrapped(value) for value in values])
        joined()

    def insert(self, index: Any, value: Any) -> None:
        super().insert(index, wrapped(value))
        joined()

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, [wrapped(one) for one in value] if isinstance(index, slice) else wrapped(value))
        joined()

    def __iadd__(self, values: Any) -> ListWrapper:  # type: ignore[misc]
        self.extend(values)
        return self

    def __reduce__(self) -> Any:
        return list, (list(self),)


class DictWrapper(dict[Any, Any]):
    """A dict that is an attribute of a followed object: it says when something is added."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, wrapped(value))
        joined()

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            super().__setitem__(key, wrapped(value))
        joined()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def wrapped(value: Any) -> Any:
    """A plain list or dict as one that says when something is added; anything else as it is."""
    if type(value) is list:
        return ListWrapper([wrapped(part) for part in value])
    if type(value) is dict:
        return DictWrapper({key: wrapped(part) for key, part in value.items()})
    return value
