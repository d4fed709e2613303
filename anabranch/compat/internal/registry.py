"""``python.framework.registry``: named objects, each with the line that registered it."""

from __future__ import annotations

import traceback
from typing import Any

from anabranch.core import errors


class Registry:
    """Objects under names, of one kind.

    Args:
        name: what is registered, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._registry: dict[str, tuple[Any, traceback.FrameSummary]] = {}

    def register(self, candidate: Any, name: str | None = None) -> None:
        """Keep an object under a name, its own if None; KeyError if the name is taken."""
        name = name or candidate.__name__
        if name in self._registry:
            earlier = self._registry[name][1]
            raise KeyError(
                f"Registering two {self._name} with name '{name}' !"
                f"(Previous registration was in {earlier.name} {earlier.filename}:{earlier.lineno})\n"
                + errors.message(f"a second object {name!r}", "a name that is free", "register(candidate, 'other')")
            )
        self._registry[name] = (candidate, traceback.extract_stack(limit=2)[0])

    def list(self) -> Any:
        """The names of what is registered."""
        return self._registry.keys()

    def lookup(self, name: str | bytes) -> Any:
        """What stands under a name; LookupError if nothing does."""
        key = name.decode() if isinstance(name, bytes) else name
        if key not in self._registry:
            raise LookupError(
                f"{self._name} registry has no entry for: {key}\n"
                + errors.message(f"the name {key!r}", f"one of {len(self._registry)} registered names", "list()")
            )
        return self._registry[key][0]
