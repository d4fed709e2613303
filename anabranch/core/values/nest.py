"""Nested structures of Python values: ``tf.nest`` and its first names under ``tf.contrib.framework.nest``.

A structure is a list, tuple, named tuple, mapping or class made by ``attrs``; anything else is a leaf, arrays and
strings included. Mappings are visited in the order of their sorted keys and keep their own order when they are packed
again, as in TensorFlow: that order decides which output of a loop is which. With ``expand_composites=True`` composite
tensors (sparse and ragged ones, IndexedSlices, classes of programs) and their specs have their components as parts.
"""

from __future__ import annotations

import collections.abc
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values.composite_tensor import Expandable


@public("contrib.framework.nest.is_sequence")
def is_sequence(o: Any) -> bool:
    """Another name of :func:`is_nested`."""
    return is_nested(o)


@public("nest.is_nested", "contrib.framework.nest.is_nested")
def is_nested(seq: Any) -> bool:
    """Whether a value has parts: a list, tuple, mapping or attrs object, but no string, array or tensor."""
    structure = seq
    if isinstance(structure, list | tuple):
        return True
    return (
        isinstance(structure, collections.abc.Mapping)
        or _is_attrs(structure)
        or (
            isinstance(structure, collections.abc.Sequence)
            and not isinstance(structure, str | bytes | bytearray | memoryview)
        )
    )


def _is_attrs(value: Any) -> bool:
    return hasattr(type(value), "__attrs_attrs__")


def is_namedtuple(value: Any) -> bool:
    """Whether a value is an instance of a class made by ``collections.namedtuple``."""
    return isinstance(value, tuple) and isinstance(getattr(value, "_fields", None), tuple)


def _sorted_keys(mapping: Any) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        raise TypeError(
            errors.message(
                f"a mapping with keys {list(mapping)!r}",
                "keys that can be sorted among each other",
                "keys of one type, strings for example",
            )
        ) from None


def items(structure: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a structure one level down, each with its key, in the order in which they are flattened."""
    if isinstance(structure, collections.abc.Mapping):
        for key in _sorted_keys(structure):
            yield key, structure[key]
    elif _is_attrs(structure):
        for attribute in type(structure).__attrs_attrs__:
            yield attribute.name, getattr(structure, attribute.name)
    else:
        yield from enumerate(structure)


def parts(structure: Any) -> list[Any]:
    """The parts of a structure one level down."""
    if type(structure) is tuple or type(structure) is list:
        return list(structure)
    return [part for _, part in items(structure)]


def like(instance: Any, values: list[Any]) -> Any:
    """A structure of the type of ``instance`` with other parts, given in the order of :func:`parts`."""
    if isinstance(instance, collections.abc.Mapping):
        new = dict(zip(_sorted_keys(instance), values, strict=True))
        if isinstance(instance, collections.defaultdict):
            return type(instance)(instance.default_factory, {key: new[key] for key in instance})
        make: Callable[[Any], Any] = type(instance)
        return make([(key, new[key]) for key in instance])
    if is_namedtuple(instance) or _is_attrs(instance):
        return type(instance)(*values)
    return values if isinstance(instance, range) else type(instance)(values)


@public("nest.flatten", "contrib.framework.nest.flatten")
def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves of a structure from left to right; ``[structure]`` if it is a leaf itself.

    >>> flatten({"b": 2, "a": [0, 1]})
    [0, 1, 2]
    """
    found: list[Any] = []
    _add_leaves(structure, expand_composites, found)
    return found


def _add_leaves(structure: Any, expand: bool, found: list[Any]) -> None:
    if expand:
        structure = opened(structure, expand)
    if is_nested(structure):
        for part in parts(structure):
            _add_leaves(part, expand, found)
    else:
        found.append(structure)


def opened(structure: Any, expand: bool) -> Any:
    """The components of a composite tensor, or its spec, if they are asked for; any other value itself."""
    while expand and isinstance(structure, Expandable):
        components = structure._expanded()
        if components is structure:
            break
        structure = components
    return structure


@public("nest.pack_sequence_as", "contrib.framework.nest.pack_sequence_as")
def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """A structure like ``structure`` whose leaves are the items of ``flat_sequence``.

    Raises:
        TypeError: ``flat_sequence`` is not a sequence.
        ValueError: it has not as many items as ``structure`` has leaves.
    """
    if not is_nested(flat_sequence):
        raise TypeError(
            "flat_sequence must be a sequence\n"
            + errors.message(
                f"flat_sequence {flat_sequence!r} of type {type(flat_sequence).__name__}", "a list or tuple", "[value]"
            )
        )
    values = parts(flat_sequence)
    needed = len(flatten(structure, expand_composites))
    if len(values) != needed:
        if is_nested(opened(structure, expand_composites)):
            usual = f"Structure had {needed} elements, but flat_sequence had {len(values)} elements."
        else:
            usual = f"Structure is a scalar but len(flat_sequence) == {len(values)} > 1"
        raise ValueError(
            f"{usual}\n"
            + errors.message(
                f"a flat sequence of {len(values)} elements for a structure of {needed} leaves: {structure!r}",
                "one element for each leaf",
                "nest.flatten of a structure of the same form",
            )
        )
    waiting = iter(values)

    def pack(part: Any) -> Any:
        if expand_composites and isinstance(part, Expandable) and (components := part._expanded()) is not part:
            return part._packed(pack(components))
        return like(part, [pack(inner) for inner in parts(part)]) if is_nested(part) else next(waiting)

    return pack(structure)


def packer(structure: Any) -> Callable[[Sequence[Any]], Any]:
    """A function from the leaves of a structure, in a row, to a structure like it: what has to be found out is known.

    >>> packer({"b": 0, "a": [0, (0,)]})([1, 2, 3])
    {'b': 3, 'a': [1, (2,)]}
    """
    made, count = _packer(structure, 0)
    del count
    return made


def _packer(structure: Any, first: int) -> tuple[Callable[[Sequence[Any]], Any], int]:
    """The function for a structure whose first leaf has this number, and the number of the leaf that follows it."""
    if not is_nested(structure):
        return operator.itemgetter(first), first + 1
    makers, flat, place = [], True, first
    for part in parts(structure):
        flat = flat and not is_nested(part)
        maker, place = _packer(part, place)
        makers.append(maker)
    kind = type(structure)
    if flat and kind is tuple:
        return lambda leaves: tuple(leaves[first:place]), place
    if flat and kind is list:
        return lambda leaves: list(leaves[first:place]), place
    if kind is tuple:
        return lambda leaves: tuple([make(leaves) for make in makers]), place
    if kind is list:
        return lambda leaves: [make(leaves) for make in makers], place
    if kind is dict:
        by_key = dict(zip(_sorted_keys(structure), makers, strict=True))
        in_order = [(key, by_key[key]) for key in structure]
        return lambda leaves: {key: make(leaves) for key, make in in_order}, place
    return lambda leaves: like(structure, [make(leaves) for make in makers]), place


@public("nest.map_structure", "contrib.framework.nest.map_structure")
def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Apply a function to the leaves of structures of one form, and packs the results in the first one's form.

    Keyword arguments are ``check_types`` (default True): whether types must be equal too.

    >>> map_structure(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]})
    {'x': [11, 22]}
    """
    if not callable(func):
        raise TypeError(
            f"func must be callable, got: {func!r}\n"
            + errors.message(f"func {func!r}", "a function of one leaf of each structure", "nest.map_structure(f, s)")
        )
    if not structure:
        raise ValueError(
            errors.message("no structure", "a function and at least one structure", "nest.map_structure(f, s)")
        )
    check_types = kwargs.pop("check_types", kwargs.pop("check_types_dict", True))
    expand = kwargs.pop("expand_composites", False)
    if kwargs:
        raise ValueError(
            f"Only valid keyword argument is check_types, not {sorted(kwargs)}\n"
            + errors.message(
                f"keyword arguments {sorted(kwargs)}", "check_types or expand_composites", "leave them out"
            )
        )
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types, expand)
    columns = [flatten(one, expand) for one in structure]
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*columns, strict=True)], expand)


@public("nest.assert_same_structure", "contrib.framework.nest.assert_same_structure")
def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise unless two structures have the same form.

    Raises:
        ValueError: they have different numbers of parts somewhere, or different keys.
        TypeError: types of their structures differ, and ``check_types``.
    """
    _compare(nest1, nest2, check_types, expand_composites, nest1, nest2)


def _compare(first: Any, second: Any, check_types: bool, expand: bool, whole_first: Any, whole_second: Any) -> None:
    def differ(kind: type[Exception], what: str, usual: str) -> Exception:
        return kind(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: {_shown(whole_first)}\n\nSecond structure: {_shown(whole_second)}\n\n"
            f"More specifically: {usual}\n"
            + errors.message(
                f"{what}\nfirst structure: {whole_first!r}\nsecond structure: {whole_second!r}",
                "structures of one form" + (" and of the same types" if kind is TypeError else ""),
                "pack the second with nest.pack_sequence_as(first, nest.flatten(second))",
            )
        )

    both = opened(first, expand) is not first and opened(second, expand) is not second
    if check_types and both and type(first) is not type(second):
        usual = f"Expected an instance of {type(first)}, found {type(second)}"
        raise differ(TypeError, f"types {type(first).__name__} and {type(second).__name__}", usual)
    first, second = opened(first, expand), opened(second, expand)
    if is_nested(first) != is_nested(second):
        sequence, leaf = (first, second) if is_nested(first) else (second, first)
        usual = f'Substructure "{_shown(sequence)}" is a sequence, while substructure "{_shown(leaf)}" is not'
        raise differ(ValueError, f"one has parts where the other has a leaf: {first!r} and {second!r}", usual)
    if not is_nested(first):
        return
    mappings = isinstance(first, collections.abc.Mapping), isinstance(second, collections.abc.Mapping)
    if check_types and not _same_types(first, second, all(mappings)):
        kinds = f"{type(first).__name__} and {type(second).__name__}"
        usual = "The two structures don't have the same sequence type. "
        usual += f"First structure has type {type(first)}, while second structure has type {type(second)}"
        if is_namedtuple(first) and is_namedtuple(second):
            usual = f"The two namedtuples don't have the same sequence type. {usual}"
        raise differ(TypeError, f"types {kinds}", usual)
    if all(mappings) and set(first) != set(second):
        usual = "The two dictionaries don't have the same set of keys. "
        usual += f"First structure has keys {list(first)}, while second structure has keys {list(second)}"
        raise differ(ValueError, f"keys {list(first)} and {list(second)}", usual)
    ours, theirs = parts(first), parts(second)
    for mine, other in zip(ours, theirs, strict=False):  # what differs in parts that both have comes first
        _compare(mine, other, check_types, expand, whole_first, whole_second)
    if len(ours) != len(theirs):
        usual = "The two structures don't have the same number of elements. "
        usual += f"First structure: {_shown(first)}. Second structure: {_shown(second)}"
        raise differ(ValueError, f"{len(ours)} and {len(theirs)} parts", usual)


def _shown(part: Any) -> str:
    return f"type={type(part).__name__} str={part}"


def _same_types(first: Any, second: Any, mappings: bool) -> bool:
    if is_namedtuple(first) and is_namedtuple(second):  # two definitions of one named tuple are one type
        return type(first).__name__ == type(second).__name__ and first._fields == second._fields
    return mappings or type(first) is type(second)


@public("contrib.framework.nest.assert_shallow_structure")
def assert_shallow_structure(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> None:
    """Raise unless ``input_tree`` has the form of ``shallow_tree`` as far down as that goes.

    With ``check_subtrees_length=False`` a part of ``input_tree`` may have more entries than that of ``shallow_tree``.

    Raises:
        ValueError: numbers of parts or keys differ.
        TypeError: a leaf stands where ``shallow_tree`` has parts, or types differ and ``check_types``.
    """
    shallow_tree, input_tree = opened(shallow_tree, expand_composites), opened(input_tree, expand_composites)
    if not is_nested(shallow_tree):
        return

    def told(instead: str) -> str:
        given = f"shallow structure {shallow_tree!r}\ninput {input_tree!r}"
        return errors.message(given, "an input that has at least its parts", instead)

    if not is_nested(input_tree):
        raise TypeError(
            "If shallow structure is a sequence, input must also be a sequence. "
            f"Input has type: {type(input_tree)}.\n" + told(f"a structure in place of the {type(input_tree).__name__}")
        )
    mappings = isinstance(shallow_tree, collections.abc.Mapping) and isinstance(input_tree, collections.abc.Mapping)
    if check_types and not _same_types(shallow_tree, input_tree, mappings):
        raise TypeError(
            "The two structures don't have the same sequence type. "
            f"Input structure has type {type(input_tree)}, while shallow structure has type {type(shallow_tree)}.\n"
            + told(f"a {type(shallow_tree).__name__} in place of the {type(input_tree).__name__}")
        )
    missing = len(parts(shallow_tree)) - len(parts(input_tree))
    if missing if check_subtrees_length else missing > 0 and not mappings:
        raise ValueError(
            f"The two structures don't have the same sequence length. Input structure has length "
            f"{len(parts(input_tree))}, while shallow structure has length {len(parts(shallow_tree))}.\n"
            + told(f"{len(parts(shallow_tree))} parts")
        )
    absent = [key for key in shallow_tree if key not in input_tree] if mappings else []
    if absent:
        raise ValueError(
            f"The two structures don't have the same keys. Input structure has keys {list(input_tree)}, "
            f"while shallow structure has keys {list(shallow_tree)}.\n" + told(f"an input that has keys {absent}")
        )
    found: Any = input_tree if mappings else dict(items(input_tree))
    for key, part in items(shallow_tree):
        inner = found[key]
        assert_shallow_structure(part, inner, check_types, expand_composites, check_subtrees_length)


@public("contrib.framework.nest.flatten_up_to")
def flatten_up_to(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> list[Any]:
    """The parts of ``input_tree`` that stand at the leaves of ``shallow_tree``."""
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites, check_subtrees_length)

    def walk(shallow: Any, deep: Any) -> Iterator[Any]:
        shallow, deep = opened(shallow, expand_composites), opened(deep, expand_composites)
        if not is_nested(shallow):
            yield deep
            return
        inner = dict(items(deep))
        for key, part in items(shallow):
            yield from walk(part, inner[key])

    return list(walk(shallow_tree, input_tree))


@public("contrib.framework.nest.map_structure_up_to")
def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
    """Apply a function to the parts of the inputs that stand at the leaves of ``shallow_tree``."""
    check_types, expand = kwargs.pop("check_types", True), kwargs.pop("expand_composites", False)
    if not inputs or kwargs:
        raise ValueError(
            errors.message(
                f"{len(inputs)} inputs, keyword arguments {sorted(kwargs)}",
                "at least one input, check_types, expand_composites",
                "drop them",
            )
        )
    columns = [flatten_up_to(shallow_tree, tree, check_types, expand) for tree in inputs]
    return pack_sequence_as(shallow_tree, [func(*leaves) for leaves in zip(*columns, strict=True)], expand)


@public("contrib.framework.nest.flatten_dict_items")
def flatten_dict_items(dictionary: Any) -> dict[Any, Any]:
    """A dictionary whose keys are structures as one from leaf to leaf.

    >>> flatten_dict_items({(4, 5): (6, 7), 1: 2})
    {4: 6, 5: 7, 1: 2}
    """
    if not isinstance(dictionary, collections.abc.Mapping):
        raise TypeError(
            "input must be a dictionary\n"
            + errors.message(f"a {type(dictionary).__name__}", "a dictionary", "dict(...)")
        )
    flat: dict[Any, Any] = {}
    for keys, values in dictionary.items():
        if is_nested(keys):
            if len(flatten(keys)) != len(flatten(values)):
                raise ValueError(
                    f"Could not flatten dictionary. Key had {len(flatten(keys))} elements, but value had "
                    f"{len(flatten(values))} elements. Key: {keys}, value: {values}.\n"
                    + errors.message(f"{keys!r}: {values!r}", "key and value of one form", "{(1, 2): (3, 4)}")
                )
            assert_same_structure(keys, values)
            pairs = list(zip(flatten(keys), flatten(values), strict=True))
        else:
            pairs = [(keys, values)]
        for key, value in pairs:
            if key in flat:
                raise ValueError(
                    f"Could not flatten dictionary: key {key!r} is not unique.\n"
                    + errors.message(f"key {key!r} twice", "each key once", "another key")
                )
            flat[key] = value
    return flat
