"""Values that each replica has its own of, and structures of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.values import nest
from anabranch.runtime.fetching import register_session_run_conversion_functions


class PerReplica:
    """A value of each replica.

    Args:
        values: in the order of the replicas.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)

    def get(self, device: Any = None) -> Any:
        """The value of the first replica."""
        return self.values[0]

    @property
    def primary(self) -> Any:
        """The value of the first replica."""
        return self.values[0]

    def __repr__(self) -> str:
        return f"PerReplica({', '.join(map(repr, self.values))})"


def select(index: int, structure: Any) -> Any:
    """A structure with the values of one replica."""
    return nest.map_structure(lambda item: item.values[index] if isinstance(item, PerReplica) else item, structure)


def regroup(structures: Sequence[Any]) -> Any:
    """One structure of the structures of all replicas: what is the same in all stays as it is."""
    if len(structures) == 1:
        return structures[0]
    first = structures[0]
    for other in structures[1:]:
        nest.assert_same_structure(first, other)
    leaves = [_joined(items) for items in zip(*[nest.flatten(item) for item in structures], strict=True)]
    return nest.pack_sequence_as(first, leaves)


def _joined(items: Sequence[Any]) -> Any:
    first = items[0]
    if all(item is first for item in items):
        return first
    if isinstance(first, str | int | float | bool | bytes) and all(
        type(item) is type(first) and item == first for item in items
    ):
        return first
    return PerReplica(items)


register_session_run_conversion_functions(
    PerReplica, lambda value: (list(value.values), lambda results: PerReplica(results))
)
