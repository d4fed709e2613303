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
    kind = type(structure)
    if kind is tuple or kind is dict:
        return True
    if isinstance(structure, list | SparseTensorValue):
        return False
    return isinstance(structure, tuple | collections.abc.Mapping) or hasattr(type(structure), "__attrs_attrs__")


def flatten(structure: Any) -> list[Any]:
    """The leaves of a structure from left to right; values of dictionaries in the order of their keys."""
    leaves: list[Any] = []
    _add_leaves(structure, leaves)
    return leaves


def _add_leaves(structure: Any, leaves: list[Any]) -> None:
    if not is_nested(structure):
        leaves.append(structure)
        return
    for part in nest.parts(structure):
        _add_leaves(part, leaves)


def pack_sequence_as(structure: Any, leaves: Any) -> Any:
    """A structure like the given one with other leaves.

    Raises:
        TypeError: the leaves are not a sequence. ValueError: there are more of them, or fewer.
    """
    if isinstance(leaves, str | bytes) or not isinstance(leaves, collections.abc.Iterable):
        raise TypeError(
            "flat_sequence must be a sequence\n"
            + errors.message(f"{leaves!r}", "a list of the leaves", "nest.flatten(structure)")
        )
    given = list(leaves)
    count = len(flatten(structure))
    if len(given) != count:
        told = f"Structure had {count} elements, but flat_sequence had {len(given)} elements."
        if not is_nested(structure):
            told = f"Structure is a scalar but len(flat_sequence) == {len(given)} > 1"
        raise ValueError(
            f"{told}\n"
            + errors.message(f"{len(given)} leaves", f"{count}, those of {structure!r}", "nest.flatten(structure)")
        )
    waiting = iter(given)

    def pack(part: Any) -> Any:
        return nest.like(part, [pack(inner) for inner in nest.parts(part)]) if is_nested(part) else next(waiting)

    return pack(structure)


def map_structure(function: Callable[..., Any], *structures: Any, **options: Any) -> Any:
    """A structure like the first, of what ``function`` gives for the leaves of all.

    ``check_types=False`` lets parts of other types pass that have as many leaves.
    """
    if not callable(function):
        raise TypeError(
            f"func must be callable, got: {function!r}\n"
            + errors.message(f"{function!r} as the function", "a function of leaves", "map_structure(str, structure)")
        )
    check_types = options.pop("check_types", True)
    if options:
        raise ValueError(
            "Only valid keyword argument is check_types\n"
            + errors.message(f"{', '.join(options)}", "check_types or no keyword", "map_structure(function, structure)")
        )
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types)
    return pack_sequence_as(
        structures[0], [function(*leaves) for leaves in zip(*map(flatten, structures), strict=True)]
    )


def flatten_up_to(shallow: Any, structure: Any) -> list[Any]:
    """The parts of ``structure`` that stand where ``shallow`` has leaves; lists are parts there."""
    if not is_nested(shallow):
        return [structure]
    pairs = zip(*_parts_up_to(shallow, structure), strict=True)
    return [leaf for mine, other in pairs for leaf in flatten_up_to(mine, other)]


def assert_shallow_structure(shallow: Any, structure: Any, check_types: bool = True) -> None:
    """Raise unless a structure begins like a shallow one: ValueError for other parts, TypeError for other types."""
    if not is_nested(shallow):
        return
    parts = _parts_up_to(shallow, structure)
    if check_types and not isinstance(structure, type(shallow)):
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type "
            f"{type(structure)}, while shallow structure has type {type(shallow)}.\n" + _of_one_form(shallow, structure)
        )
    for mine, other in zip(*parts, strict=True):
        assert_shallow_structure(mine, other, check_types)


def _parts_up_to(shallow: Any, structure: Any) -> tuple[list[Any], list[Any]]:
    """The parts of a shallow structure, and those of one that goes deeper."""
    if not is_nested(structure) and not isinstance(structure, list):
        raise TypeError(
            "If shallow structure is a sequence, input must also be a sequence. Input has type: "
            f"{type(structure)}.\n"
            + errors.message(repr(structure), f"a structure with the parts of {shallow!r}", "give each part its own")
        )
    ours, theirs = _parts(shallow), _parts(structure)
    if len(ours) != len(theirs):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{len(theirs)}, while shallow structure has length {len(ours)}.\n" + _of_one_form(shallow, structure)
        )
    if _other_keys(shallow, structure):
        raise ValueError(
            f"The two structures don't have the same keys. Input structure has keys {list(structure)}, while "
            f"shallow structure has keys {list(shallow)}.\n" + _of_one_form(shallow, structure)
        )
    return ours, theirs


def assert_same_structure(first: Any, second: Any, check_types: bool = True) -> None:
    """Raise unless two structures have the same form: ValueError for other parts, TypeError for other types."""
    counts = len(flatten(first)), len(flatten(second))
    if counts[0] != counts[1]:
        raise ValueError(
            f"The two structures don't have the same number of elements: {counts[0]} and {counts[1]}.\n"
            + _of_one_form(first, second)
        )
    _assert_same_parts(first, second, check_types)


def _assert_same_parts(first: Any, second: Any, check_types: bool) -> None:
    ours, theirs = _parts(first), _parts(second)
    if is_nested(first) != is_nested(second):
        raise ValueError("The two structures don't have the same nested structure.\n" + _of_one_form(first, second))
    if not is_nested(first):
        return
    if check_types and type(first) is not type(second) and not _are_mappings(first, second):
        raise TypeError(
            f"The two structures don't have the same sequence type: {type(first)} and {type(second)}.\n"
            + _of_one_form(first, second)
        )
    if _other_keys(first, second):
        raise ValueError(
            f"The two dictionaries don't have the same set of keys: {list(first)} and {list(second)}.\n"
            + _of_one_form(first, second)
        )
    if len(ours) != len(theirs):
        raise ValueError("The two structures don't have the same nested structure.\n" + _of_one_form(first, second))
    for mine, other in zip(ours, theirs, strict=True):
        _assert_same_parts(mine, other, check_types)


def _parts(structure: Any) -> list[Any]:
    return list(structure) if isinstance(structure, list) else nest.parts(structure) if is_nested(structure) else []


def _are_mappings(first: Any, second: Any) -> bool:
    return isinstance(first, collections.abc.Mapping) and isinstance(second, collections.abc.Mapping)


def _other_keys(first: Any, second: Any) -> bool:
    return _are_mappings(first, second) and set(first) != set(second)


def _of_one_form(first: Any, second: Any) -> str:
    return errors.message(f"{first!r} and {second!r}", "structures of one form", "return the same structure from both")
