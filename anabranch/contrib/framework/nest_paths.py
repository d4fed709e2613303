"""Nested structures with the paths of their parts: names of ``tf.contrib.framework.nest``.

The path of a part is a tuple of keys, one a level: an index of a sequence, a key of a mapping, the name of a field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values import nest

Path = tuple[Any, ...]


@public("contrib.framework.nest.is_sequence_or_composite")
def is_sequence_or_composite(o: Any) -> bool:
    """Whether a value has parts, or is a composite tensor or the spec of one."""
    return nest.is_nested(o) or nest.opened(o, True) is not o


def _keyed(structure: Any) -> Iterator[tuple[Any, Any]]:
    if nest.is_namedtuple(structure):
        return zip(structure._fields, structure, strict=True)
    return nest.items(structure)


def _walk(shallow: Any, deep: Any, expand: bool, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The paths and values of the parts of a structure at the leaves of another."""
    opened = nest.opened(shallow, expand)
    if not nest.is_nested(opened):
        yield path, deep
        return
    if opened is not shallow:
        path = (*path, type(shallow).__name__)
    deep = nest.opened(deep, expand)
    inner = [part for _, part in nest.items(deep)]
    by_key = dict(_keyed(deep))
    for at, (key, part) in enumerate(_keyed(opened)):
        found = by_key[key] if key in by_key else inner[at]
        yield from _walk(part, found, expand, (*path, key))


@public("contrib.framework.nest.flatten_with_tuple_paths_up_to")
def flatten_with_tuple_paths_up_to(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> list[tuple[Path, Any]]:
    """The parts of ``input_tree`` that stand at the leaves of ``shallow_tree``, each with its path.

    Example:
        >>> import anabranch as tf
        >>> tf.contrib.framework.nest.flatten_with_tuple_paths_up_to([0, 0], [{"a": 1}, 2])
        [((0,), {'a': 1}), ((1,), 2)]

    Raises:
        TypeError: a leaf stands where ``shallow_tree`` has parts, or types differ and ``check_types``.
        ValueError: numbers of parts or keys differ.
    """
    nest.assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites, check_subtrees_length)
    return list(_walk(shallow_tree, input_tree, expand_composites))


@public("contrib.framework.nest.flatten_with_tuple_paths")
def flatten_with_tuple_paths(structure: Any, expand_composites: bool = False) -> list[tuple[Path, Any]]:
    """The leaves of a structure, each with its path.

    Example:
        >>> import anabranch as tf
        >>> tf.contrib.framework.nest.flatten_with_tuple_paths({"a": [3, 4]})
        [(('a', 0), 3), (('a', 1), 4)]
    """
    return list(_walk(structure, structure, expand_composites))


@public("contrib.framework.nest.flatten_with_joined_string_paths")
def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """The leaves of a structure, each with its path as one string.

    Example:
        >>> import anabranch as tf
        >>> tf.contrib.framework.nest.flatten_with_joined_string_paths({"a": [3, 4]})
        [('a/0', 3), ('a/1', 4)]
    """
    leaves = _walk(structure, structure, expand_composites)
    return [(separator.join(str(key) for key in path), leaf) for path, leaf in leaves]


@public("contrib.framework.nest.yield_flat_paths")
def yield_flat_paths(nest: Any, expand_composites: bool = False) -> Iterator[Path]:
    """The path of each leaf of a structure, in the order of the leaves.

    Example:
        >>> import anabranch as tf
        >>> list(tf.contrib.framework.nest.yield_flat_paths({"a": [3, 4]}))
        [('a', 0), ('a', 1)]
    """
    for path, _ in _walk(nest, nest, expand_composites):
        yield path


@public("contrib.framework.nest.map_structure_with_tuple_paths_up_to")
def map_structure_with_tuple_paths_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any
) -> Any:
    """Apply ``func(path, *parts)`` to the parts of the inputs that stand at the leaves of ``shallow_tree``.

    Args:
        shallow_tree: how far down to go.
        func: gets a path and one part of each input.
        *inputs: structures that have at least the parts of ``shallow_tree``.
        **kwargs: ``check_types`` (True), ``expand_composites`` (False) and ``check_subtrees_length`` (True).

    Returns:
        A structure like ``shallow_tree``.
    """
    names = {"check_types": True, "expand_composites": False, "check_subtrees_length": True}
    chosen = {name: kwargs.pop(name, default) for name, default in names.items()}
    if not inputs or kwargs:
        raise ValueError(
            "Cannot map over no sequences\n"
            + errors.message(
                f"{len(inputs)} inputs, keyword arguments {sorted(kwargs)}",
                f"at least one input, and of keyword arguments {', '.join(names)}",
                "func, the structures, and those alone",
            )
        )
    columns = [flatten_with_tuple_paths_up_to(shallow_tree, tree, **chosen) for tree in inputs]
    results = [func(row[0][0], *(part for _, part in row)) for row in zip(*columns, strict=True)]
    return nest.pack_sequence_as(shallow_tree, results, chosen["expand_composites"])


@public("contrib.framework.nest.map_structure_with_tuple_paths")
def map_structure_with_tuple_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Apply ``func(path, *leaves)`` to the leaves of structures of one form.

    Args:
        func: gets the path of a leaf as a tuple, and the leaf of each structure.
        *structure: structures of one form.
        **kwargs: ``check_types`` (True) and ``expand_composites`` (False).

    Raises:
        TypeError: the structures' types differ and ``check_types``.
        ValueError: their parts differ.
    """
    return map_structure_with_tuple_paths_up_to(structure[0] if structure else None, func, *structure, **kwargs)


@public("contrib.framework.nest.map_structure_with_paths")
def map_structure_with_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Apply ``func(path, *leaves)`` to the leaves of structures of one form; paths are strings joined by ``/``.

    Example:
        >>> import anabranch as tf
        >>> tf.contrib.framework.nest.map_structure_with_paths(lambda path, leaf: f"{path}={leaf}", {"a": [3, 4]})
        {'a': ['a/0=3', 'a/1=4']}
    """

    def with_string(path: Path, *leaves: Any) -> Any:
        return func("/".join(str(key) for key in path), *leaves)

    return map_structure_with_tuple_paths(with_string, *structure, **kwargs)


@public("contrib.framework.nest.get_traverse_shallow_structure")
def get_traverse_shallow_structure(
    traverse_fn: Callable[[Any], Any], structure: Any, expand_composites: bool = False
) -> Any:
    """A structure of bools that says how far down a function would go, for `map_structure_up_to` and its kin.

    Args:
        traverse_fn: gets a part of the structure and returns whether to go down into it: a bool for all of its
            parts, or a structure of its form, one level deep, with a bool for each.
        structure: what is gone through.
        expand_composites: whether composite tensors have parts.

    Returns:
        A structure whose leaves are bools, as deep as ``traverse_fn`` says.

    Raises:
        TypeError: ``traverse_fn`` returns something else.
    """
    flags = traverse_fn(structure)
    opened = nest.opened(structure, expand_composites)
    if not nest.is_nested(opened):
        if type(flags) is not bool:
            raise _wrong_flags(f"traverse_fn returned structure: {flags} for non-structure: {structure}", flags)
        return flags
    parts = nest.parts(opened)
    if nest.is_nested(flags):
        nest.assert_shallow_structure(flags, opened, expand_composites=expand_composites)
        chosen = nest.parts(flags)
    elif type(flags) is bool:
        chosen = [flags] * len(parts)
        if not flags:
            return False
    else:
        raise _wrong_flags(f"traverse_fn returned a non-bool scalar: {flags} for input: {structure}", flags)
    levels = []
    for part, flag in zip(parts, chosen, strict=True):
        if type(flag) is not bool:
            wrong = f"traverse_fn didn't return a depth=1 structure of bools. saw: {flags} for structure: {structure}"
            raise _wrong_flags(wrong, flags)
        levels.append(get_traverse_shallow_structure(traverse_fn, part, expand_composites) if flag else False)
    return nest.like(opened, levels)


def _wrong_flags(problem: str, flags: Any) -> TypeError:
    wanted = "a bool, or bools in the form of the structure, one level deep"
    return TypeError(
        f"{problem}\n" + errors.message(repr(flags), wanted, "lambda part: not isinstance(part, tuple), for example")
    )
