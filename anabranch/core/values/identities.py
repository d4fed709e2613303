"""Objects as keys: told apart by identity, whatever their own equality says."""

from __future__ import annotations

from typing import Any


class ObjectIdentity:
    """An object that equals itself alone."""

    __slots__ = ("__weakref__", "_wrapped")

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    @property
    def unwrapped(self) -> Any:
        """The object."""
        return self._wrapped

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectIdentity) and self.unwrapped is other.unwrapped

    def __hash__(self) -> int:
        return id(self.unwrapped)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} wrapping {self.unwrapped!r}>"


class Reference(ObjectIdentity):
    """An object that equals itself alone; :meth:`deref` gives it back."""

    __slots__ = ()

    def deref(self) -> Any:
        """The object."""
        return self._wrapped
