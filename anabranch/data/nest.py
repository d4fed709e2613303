"""Structures of elements: tuples, named tuples, dictionaries and attrs objects.

Unlike elsewhere, a list is a leaf, which becomes a tensor, and so are the values of sparse tensors: a function that
returns ``[a, b]`` gives one component.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.sparse_tensor import SparseTensorValue
from anabranch.core.values import nest


def is_nested(structure: Any) -> bool:
    """Whether a value has parts."""
    if isinstance(structure, list | SparseTensorValue):
        return False
    return isinstance(structure, tuple | collections.abc.Mapping) or hasattr(type(structure), "__attrs_attrs__")


def flatten(structure: Any) -> list[Any]:
    """The leaves of a structure from left to right; values of dictionaries in the order of their keys."""
    if not is_nested(structure):
        return [structure]
    return [leaf for part in nest.parts(structure) for leaf in flatten(part)]


def pack_sequence_as(structure: Any, leaves: Any) -> Any:
    """A structure like the given one with other leaves; ValueError if there are more of them, or fewer."""
    given = list(leaves)
    count = len(flatten(structure))
    if len(given) != count:
        raise ValueError(
            f"Structure had {count} elements, but flat_sequence had {len(given)} elements.\n"
            + errors.message(f"{len(given)} leaves", f"{count}, those of {structure!r}", "nest.flatten(structure)")
        )
    waiting = iter(given)

    def pack(part: Any) -> Any:
        return nest.like(part, [pack(inner) for inner in nest.parts(part)]) if is_nested(part) else next(waiting)

    return pack(structure)


def map_structure(function: Callable[..., Any], *structures: Any) -> Any:
    """A structure like the first, of what ``function`` gives for the leaves of all."""
    for other in structures[1:]:
        assert_same_structure(structures[0], other)
    return pack_sequence_as(
        structures[0], [function(*leaves) for leaves in zip(*map(flatten, structures), strict=True)]
    )


def flatten_up_to(shallow: Any, structure: Any) -> list[Any]:
    """The parts of ``structure`` that stand where ``shallow`` has leaves."""
    if not is_nested(shallow):
        return [structure]
    if not is_nested(structure) and not isinstance(structure, list):
        raise TypeError(
            "If shallow structure is a sequence, input must also be a sequence. Input has type: "
            f"{type(structure).__name__}.\n"
            + errors.message(repr(structure), f"a structure with the parts of {shallow!r}", "give each part its own")
        )
    ours, theirs = _paired(shallow, structure)
    return [leaf for mine, other in zip(ours, theirs, strict=True) for leaf in flatten_up_to(mine, other)]


def assert_same_structure(first: Any, second: Any) -> None:
    """Raise unless two structures have the same form: ValueError for other parts, TypeError for other types."""
    if is_nested(first) != is_nested(second):
        raise ValueError(_different(first, second, "one has parts where the other has none"))
    if is_nested(first):
        if type(first) is not type(second) and not (
            isinstance(first, collections.abc.Mapping) and isinstance(second, collections.abc.Mapping)
        ):
            raise TypeError(_different(first, second, f"a {type(first).__name__} and a {type(second).__name__}"))
        for mine, other in zip(*_paired(first, second), strict=True):
            assert_same_structure(mine, other)


def _paired(first: Any, second: Any) -> tuple[list[Any], list[Any]]:
    ours = nest.parts(first)
    theirs = list(second) if isinstance(second, list) else nest.parts(second)
    mappings = isinstance(first, collections.abc.Mapping) and isinstance(second, collections.abc.Mapping)
    if len(ours) != len(theirs) or (mappings and set(first) != set(second)):
        raise ValueError(_different(first, second, f"{len(ours)} and {len(theirs)} parts, or other keys"))
    return ours, theirs


def _different(first: Any, second: Any, how: str) -> str:
    return "The two structures don't have the same nested structure.\n" + errors.message(
        f"{first!r} and {second!r}: {how}", "structures of one form", "return the same structure from both"
    )
