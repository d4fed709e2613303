"""Nested structures: order, packing, and what is refused."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as tf
from anabranch.core.values import nest

Pair = collections.namedtuple("Pair", ["left", "right"])
STRUCTURES = st.recursive(
    st.integers(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.builds(Pair, inner, inner),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(STRUCTURES)
def test_packing_undoes_flattening(structure: object) -> None:
    packed = nest.pack_sequence_as(structure, nest.flatten(structure))
    assert packed == structure
    assert type(packed) is type(structure)
    nest.assert_same_structure(structure, packed)


def test_mappings_go_by_sorted_keys_and_keep_their_order() -> None:
    ordered = collections.OrderedDict([("b", 1), ("a", Pair(2, [3]))])
    assert tf.nest.flatten(ordered) == [2, 3, 1]
    doubled = tf.nest.map_structure(lambda x: 2 * x, ordered)
    assert list(doubled.items()) == [("b", 2), ("a", Pair(4, [6]))]
    assert type(doubled) is collections.OrderedDict


def test_arrays_strings_and_tensors_are_leaves() -> None:
    array = np.zeros(3)
    with tf.Graph().as_default():
        tensor = tf.constant([1, 2])
        assert nest.flatten([array, "text", tensor, None]) == [array, "text", tensor, None]
    assert not tf.contrib.framework.nest.is_sequence("text")


def test_up_to_a_shallow_structure() -> None:
    assert nest.flatten_up_to([0, 0], [[1, 2], {"a": 3}]) == [[1, 2], {"a": 3}]
    assert nest.map_structure_up_to({"x": 0}, len, {"x": [1, 2, 3]}) == {"x": 3}
    with pytest.raises(TypeError, match="a structure in place of the int"):
        nest.assert_shallow_structure([0, [0]], [1, 2])
    with pytest.raises(ValueError, match="Instead: 1 parts"):
        nest.assert_shallow_structure([0], [1, 2])


def test_items_of_structures_as_keys() -> None:
    assert nest.flatten_dict_items({(4, 5): (6, 7), 1: 2}) == {4: 6, 5: 7, 1: 2}
    with pytest.raises(ValueError, match="key 4 twice"):
        nest.flatten_dict_items({(4, 5): (6, 7), 4: 2})


@pytest.mark.parametrize(
    ("first", "second", "error", "text"),
    [
        ([1, 2], [1], ValueError, "2 and 1 parts"),
        ([1, [2]], [1, 2], ValueError, "parts where the other has a leaf"),
        ([1], (1,), TypeError, "types list and tuple"),
        ({"a": 1}, {"b": 1}, ValueError, "keys"),
    ],
)
def test_other_forms_are_refused(first: object, second: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"don't have the same nested structure(.|\n)*{text}"):
        nest.map_structure(lambda a, b: None, first, second)


def test_types_are_compared_on_request_only() -> None:
    nest.assert_same_structure([1], (1,), check_types=False)
    nest.assert_same_structure({"a": 1}, collections.OrderedDict(a=1))


def test_packing_needs_as_many_values() -> None:
    with pytest.raises(ValueError, match="flat sequence of 1 elements for a structure of 2 leaves"):
        nest.pack_sequence_as([1, 2], [1])
    with pytest.raises(TypeError, match="flat_sequence 3 of type int"):
        nest.pack_sequence_as([1, 2], 3)


@given(STRUCTURES)
def test_a_packer_packs_like_a_structure_of_its_form(structure: object) -> None:
    leaves = [object() for _ in nest.flatten(structure)]
    assert nest.packer(structure)(leaves) == nest.pack_sequence_as(structure, leaves)


def test_a_packer_keeps_types_and_the_order_of_keys() -> None:
    structure = collections.OrderedDict([("b", Pair(0, [0])), ("a", {"d": 0, "c": ()})])
    packed = nest.packer(structure)([1, 2, 3])
    assert packed == collections.OrderedDict([("b", Pair(2, [3])), ("a", {"d": 1, "c": ()})])
    assert type(packed) is collections.OrderedDict
    assert list(packed["a"]) == ["d", "c"]


class _Unprintable:
    def __repr__(self) -> str:
        raise AssertionError("a value is printed for a message that nobody gets")


def test_values_are_not_printed_where_nothing_is_wrong() -> None:
    value = _Unprintable()
    assert nest.flatten_up_to([0, (0,)], [value, (value,)]) == [value, value]
