"""Helpers of ``tensorflow.python.util`` about Python itself: stacks, identities, modules that load when used."""

from __future__ import annotations

import importlib
import traceback
import types
import weakref
from collections.abc import Iterable, Iterator, MutableMapping, MutableSet
from typing import Any

from anabranch.core.values import identities


# -------------------------------------------------------------------------------------------------------------- stacks
def extract_stack(limit: int = -1) -> list[Any]:
    """The frames of the caller, the innermost last, as (file, line, function, text)."""
    frames = traceback.extract_stack()[:-1]
    return [tuple(frame) for frame in (frames if limit < 0 else frames[-limit:])]


def convert_stack(stack: Iterable[Any], include_func_start_lineno: bool = False) -> tuple[Any, ...]:
    """Frames as tuples of four."""
    return tuple((*tuple(frame)[:4], *((tuple(frame)[1],) if include_func_start_lineno else ())) for frame in stack)


# ---------------------------------------------------------------------------------------------------------- identities
_ObjectIdentityWrapper = identities.ObjectIdentity
Reference = identities.Reference


class ObjectIdentityDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are told apart by identity."""

    def __init__(self) -> None:
        self._storage: dict[int, tuple[Any, Any]] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._storage[id(key)][1]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._storage[id(key)] = key, value

    def __delitem__(self, key: Any) -> None:
        del self._storage[id(key)]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._storage.values())

    def __contains__(self, key: object) -> bool:
        return id(key) in self._storage

    def __repr__(self) -> str:
        return f"ObjectIdentityDictionary({dict(self._storage.values())!r})" if self._storage else "{}"


class ObjectIdentityWeakKeyDictionary(ObjectIdentityDictionary):
    """Like :class:`ObjectIdentityDictionary`, with keys that go when nobody else refers to them."""

    def __setitem__(self, key: Any, value: Any) -> None:
        number = id(key)
        storage = self._storage
        self._storage[number] = weakref.ref(key, lambda _: storage.pop(number, None)), value

    def __iter__(self) -> Iterator[Any]:
        for reference, _ in list(self._storage.values()):
            key = reference()
            if key is not None:
                yield key


class ObjectIdentitySet(MutableSet[Any]):
    """A set whose elements are told apart by identity."""

    def __init__(self, *elements: Iterable[Any]) -> None:
        self._storage = ObjectIdentityDictionary()
        for group in elements:
            self.update(group)

    def __contains__(self, key: object) -> bool:
        return key in self._storage

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._storage)

    def add(self, key: Any) -> None:
        """Put an element in."""
        self._storage[key] = None

    def discard(self, key: Any) -> None:
        """Take an element out, if it is in."""
        self._storage.pop(key, None)

    def update(self, items: Iterable[Any]) -> None:
        """Put elements in."""
        for item in items:
            self.add(item)


# ------------------------------------------------------------------------------------------------------------- modules
class LazyLoader(types.ModuleType):
    """A module that is imported when a name of it is asked for.

    Args:
        local_name: its name in ``parent_module_globals``, where the module takes its place.
        parent_module_globals: the names of the module that uses it.
        name: name of the module.
    """

    def __init__(self, local_name: str, parent_module_globals: dict[str, Any], name: str) -> None:
        super().__init__(name)
        self._local_name = local_name
        self._parent_module_globals = parent_module_globals

    def _load(self) -> types.ModuleType:
        module = importlib.import_module(self.__name__)
        self._parent_module_globals[self._local_name] = module
        self.__dict__.update(module.__dict__)
        return module

    def __getattr__(self, item: str) -> Any:
        return getattr(self._load(), item)

    def __dir__(self) -> list[str]:
        return dir(self._load())


def TFModuleWrapper(wrapped: Any, module_name: str = "", *options: Any, **more: Any) -> Any:
    """The module, as it is: what it warns of, it warns of itself."""
    return wrapped


DeprecationWrapper = TFModuleWrapper
