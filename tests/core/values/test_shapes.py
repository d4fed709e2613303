"""Shapes: the raw functions against each other and against TensorFlow's rules, and the classes that users see."""

import copy
import pickle
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from anabranch.core.values import dimensions, shapes
from anabranch.core.values.dimensions import Dimension
from anabranch.core.values.shapes import TensorShape

U = None  # unknown
RAW = [None, (), (1,), (2,), (U,), (2, 3), (1, U), (U, 3), (2, 1), (0, 3), (U, U), (4, 2, 3)]


@pytest.mark.parametrize(
    ("given", "raw"),
    [
        (None, None), ([], ()), ((2, U), (2, U)), ([2, None], (2, U)), (3, (3,)), (np.int64(3), (3,)),
        (Dimension(4), (4,)),
        ([Dimension(2), Dimension(None)], (2, U)), ([np.int32(2), 3], (2, 3)), (np.array([2, 3]), (2, 3)),
        (np.array(3), (3,)),
        (TensorShape([1, None]), (1, U)), (range(3), (0, 1, 2)), ([28 / 2], (14,)), (iter([1, 2]), (1, 2)),
        (SimpleNamespace(unknown_rank=True, dim=[]), None),
        (SimpleNamespace(unknown_rank=False, dim=[SimpleNamespace(size=2), SimpleNamespace(size=-1)]), (2, U)),
    ],
)  # fmt: skip
def test_as_raw(given, raw):
    result = shapes.as_raw(given)
    assert result == raw
    assert result is None or all(d is None or type(d) is int for d in result)


@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        ([-1], ValueError, r"the dimension -1\nExpected: a size of 0 or more\nInstead: None for"),
        ([2.5], ValueError, r"the dimension 2\.5\nExpected: a whole number"),
        (["x"], ValueError, r"invalid literal for int"),
        ("ab", TypeError, r"'ab' as a shape"),
        ({2: 3}, TypeError, r"as a shape\nExpected: a list or tuple"),
        (object(), TypeError, r"as a shape"),
        (SimpleNamespace(unknown_rank=False, dim=[SimpleNamespace(size=-2)]), ValueError, r"the dimension -2"),
    ],
)
def test_as_raw_refuses(bad, error, text):
    with pytest.raises(error, match=text):
        shapes.as_raw(bad)


@pytest.mark.parametrize(("raw", "text"), [(None, "<unknown>"), ((), "[]"), ((2, U), "[2,?]"), ((0,), "[0]")])
def test_show(raw, text):
    assert shapes.show(raw) == text


@pytest.mark.parametrize(("a", "b"), list(product(RAW, RAW)))
def test_merge_agrees_with_compatibility(a, b):
    """A merged shape fits both; where there is none, the two are incompatible."""
    fits = (
        a is None or b is None or (len(a) == len(b) and all(U in (x, y) or x == y for x, y in zip(a, b, strict=True)))
    )
    assert shapes.is_compatible(a, b) == fits
    if not fits:
        with pytest.raises(
            ValueError, match=r"the shapes \[.*\] and \[.*\]\nExpected: two shapes that can be the same"
        ):
            shapes.merge(a, b)
        return
    merged = shapes.merge(a, b)
    assert merged == shapes.merge(b, a)
    if a is None or b is None:
        assert merged == (b if a is None else a)
    else:
        assert merged == tuple(y if x is None else x for x, y in zip(a, b, strict=True))
    assert shapes.merge(merged, a) == merged


@pytest.mark.parametrize(
    ("a", "b"), list(product([(), (1,), (3,), (0,), (2, 3), (2, 1), (1, 3), (4, 1, 1), (0, 3), (2, 2)], repeat=2))
)
def test_broadcast_of_known_shapes_is_numpys(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ValueError, match="shapes that broadcast: counted from the last"):
            shapes.broadcast(a, b)
    else:
        assert shapes.broadcast(a, b) == expected


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (None, (2,), None), ((), (U, 3), (U, 3)), ((U,), (3,), (3,)), ((U,), (1,), (U,)), ((U,), (0,), (U,)),
        ((U,), (U,), (U,)), ((U, 1), (5,), (U, 5)), ((2, U), (U, 3), (2, 3)), ((7, U, 1), (U, 4), (7, U, 4)),
        ((1, U), (U, 1), (U, U)),
    ],
)  # fmt: skip
def test_broadcast_with_unknown_dimensions(a, b, result):
    assert shapes.broadcast(a, b) == result == shapes.broadcast(b, a)


def test_small_raw_functions():
    assert shapes.num_elements((2, 0, 3)) == 0
    assert shapes.num_elements(()) == 1
    assert shapes.num_elements((2, U)) is shapes.num_elements(None) is None
    assert shapes.is_static((2,))
    assert not shapes.is_static((U,))
    assert not shapes.is_static(None)
    assert shapes.concatenate((1,), (U, 2)) == (1, U, 2)
    assert shapes.concatenate((1,), None) is None
    assert shapes.with_rank(None, 2) == (U, U)
    assert shapes.with_rank_at_least((1, 2), 2) == shapes.with_rank_at_most((1, 2), 2) == (1, 2)
    assert shapes.with_rank_at_least(None, 2) is None
    assert shapes.generalize((1, 2), (1, 3)) == (1, U)
    assert shapes.generalize((1,), (1, 3)) is None
    assert shapes.merge_dim(None, 3) == shapes.merge_dim(3, None) == shapes.merge_dim(3, 3) == 3


@pytest.mark.parametrize("check", ["with_rank", "with_rank_at_least", "with_rank_at_most", "assert_has_rank"])
def test_wrong_rank(check):
    shape = TensorShape([2, None]) if check != "with_rank_at_most" else TensorShape([2, None, 1, 1])
    with pytest.raises(ValueError, match=r"the shape \[2,\?.*\] of rank \d\nExpected: rank 3"):
        getattr(shape, check)(3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Dimension(3) + 2, 5), (2 + Dimension(3), 5), (Dimension(7) - 2, 5), (7 - Dimension(2), 5),
        (Dimension(3) * Dimension(2), 6),
        (2 * Dimension(3), 6), (Dimension(7) // 2, 3), (7 // Dimension(2), 3), (Dimension(7) % 4, 3),
        (7 % Dimension(4), 3),
        (Dimension(None) + 1, None), (Dimension(1) + None, None), (None + Dimension(1), None),
        (3 // Dimension(None), None),
        (Dimension(3).merge_with(None), 3), (Dimension(None).merge_with(4), 4), (Dimension(Dimension(2)), 2),
    ],
)  # fmt: skip
def test_dimension_arithmetic(value, expected):
    assert type(value) is Dimension
    assert value.value == expected


def test_dimension_comparisons_know_what_they_do_not_know():
    three, unknown = Dimension(3), Dimension(None)
    assert three == 3
    assert (lambda a, b: a == b)(3, three)  # the reflected comparison
    assert three != 4
    assert three < 4 <= Dimension(4) < 5 > three >= 3
    for compare in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        assert getattr(unknown, compare)(3) is getattr(three, compare)(None) is getattr(three, compare)(unknown) is None
    assert (three == "x") is False
    assert three.is_compatible_with(None)
    assert not three.is_compatible_with(4)
    assert {Dimension(3): 1}[3] == 1
    assert (bool(three), bool(Dimension(0)), bool(unknown)) == (True, False, False)
    assert (str(three), repr(three), str(unknown), repr(unknown)) == ("3", "Dimension(3)", "?", "Dimension(None)")
    assert int(three) == len(range(three)) == len(np.zeros(three)) == 3


@pytest.mark.parametrize(
    ("action", "error", "text"),
    [
        (lambda: int(Dimension(None)), TypeError, r"Dimension\(None\) as an integer"),
        (lambda: range(Dimension(None)), TypeError, r"Dimension\(None\) as an integer"),
        (lambda: Dimension(4) / 2, TypeError, r"Dimension\(4\) / 2\nExpected: an integer division.*\nInstead: a // b"),
        (lambda: 4 / Dimension(2), TypeError, r"4 / Dimension\(2\)"),
        (lambda: Dimension(1) - 2, ValueError, r"the dimension -1"),
        (lambda: Dimension(3) + "x", TypeError, r"unsupported operand"),
        (lambda: Dimension(3) < "x", TypeError, r"not supported"),
        (lambda: Dimension(3).merge_with(4), ValueError, r"the dimensions 3 and 4"),
        (lambda: Dimension(3).assert_is_compatible_with(4), ValueError, r"the dimensions 3 and 4"),
        (lambda: Dimension("x"), ValueError, r"invalid literal for int"),
    ],
)
def test_dimension_refuses(action, error, text):
    with pytest.raises(error, match=text):
        action()


@pytest.mark.parametrize(
    ("shape", "text", "representation"),
    [
        ([2, None], "(2, ?)", "TensorShape([Dimension(2), Dimension(None)])"),
        ([2], "(2,)", "TensorShape([Dimension(2)])"),
        ([], "()", "TensorShape([])"),
        (None, "<unknown>", "TensorShape(None)"),
    ],
)
def test_text_of_a_shape(shape, text, representation):
    assert str(TensorShape(shape)) == text
    assert repr(TensorShape(shape)) == representation


def test_shape_as_a_sequence():
    shape = TensorShape([2, None, 4])
    assert (shape.ndims, shape.rank, len(shape), shape.as_list(), shape.raw) == (3, 3, 3, [2, None, 4], (2, U, 4))
    assert type(shape[0]) is Dimension
    assert shape[-1] == 4
    assert shape[1:] == [None, 4]
    assert [d.value for d in shape] == [d.value for d in shape.dims] == [2, None, 4]
    assert np.zeros(TensorShape([2, 3])).shape == np.ones((5,)).reshape(TensorShape([5, 1])).shape[:0] + (2, 3)
    batch, *rest = shape
    assert (batch.value, [d.value for d in rest]) == (2, [None, 4])
    with pytest.raises(IndexError, match="out of range"):
        shape[3]


def test_shape_of_unknown_rank():
    shape = TensorShape(None)
    assert shape.ndims is shape.dims is shape.raw is shape.num_elements() is None
    assert not shape
    assert TensorShape([])
    assert shape[5].value is None
    assert shape[1:3].as_list() == [None, None]
    assert shape[:-1].ndims is shape[1:].ndims is None
    assert shape[3:1].as_list() == []
    for action in (len, list, TensorShape.as_list):
        with pytest.raises(ValueError, match=r"of a TensorShape of unknown rank\nExpected: a shape of known rank"):
            action(shape)
    with pytest.raises(ValueError, match="a slice of step 2"):
        shape[::2]


def test_shape_algebra():
    shape = TensorShape([1, None])
    assert shape + [3] == TensorShape([1, None, 3]) == TensorShape([1]) + TensorShape([None, 3])
    assert [3] + shape == [3, 1, None]
    assert shape.concatenate(3) == [1, None, 3]
    assert (shape + TensorShape(None)).ndims is None
    assert shape.merge_with([None, 3]) == [1, 3]
    assert shape.most_specific_compatible_shape([2, 3]) == [None, None]
    assert TensorShape(None).with_rank(2) == [None, None]
    assert shape.is_compatible_with([1, 9])
    assert not shape.is_compatible_with([2, 9])
    assert TensorShape([2, 3]).num_elements() == 6
    assert not shape.is_fully_defined()
    shape.assert_same_rank([5, 6])
    shape.assert_is_compatible_with([1, 6])
    with pytest.raises(ValueError, match=r"\[1,\?\] and \[5\]\nExpected: two shapes of the same rank"):
        shape.assert_same_rank([5])
    with pytest.raises(ValueError, match=r"the shapes \[1,\?\] and \[2,3\]"):
        shape.merge_with([2, 3])
    with pytest.raises(ValueError, match=r"the shapes \[1,\?\] and \[2,3\]"):
        shape.assert_is_compatible_with([2, 3])
    with pytest.raises(ValueError, match=r"the shape \[1,\?\]\nExpected: a fully known shape"):
        shape.assert_is_fully_defined()


def test_shape_equality_and_hash():
    assert TensorShape([None]) == TensorShape([None])
    assert TensorShape([2]) == [2] == TensorShape((2,))
    assert TensorShape([2]) != [3]
    assert TensorShape([2]) != "x"
    assert TensorShape(None) != TensorShape([])
    assert len({TensorShape([2, None]), TensorShape((2, None)), TensorShape(None)}) == 2
    for shape in (TensorShape([2, None]), TensorShape(None)):
        assert pickle.loads(pickle.dumps(shape)) == copy.deepcopy(shape) == shape
    assert pickle.loads(pickle.dumps(Dimension(3))) == 3


def test_helpers():
    assert shapes.unknown_shape().ndims is None
    assert shapes.unknown_shape(2) == shapes.unknown_shape(ndims=2) == shapes.unknown_shape(rank=2) == [None, None]
    assert shapes.scalar() == []
    assert shapes.vector(3) == [3]
    assert shapes.matrix(None, 2) == [None, 2]
    assert shapes.as_shape([2]) == TensorShape([2])
    assert dimensions.as_dimension(3).value == 3
    assert (dimensions.dimension_value(Dimension(3)), dimensions.dimension_value(4)) == (3, 4)
    assert shapes.dimension_at_index(TensorShape(None), 4).value is None


@pytest.mark.parametrize("raw", RAW)
def test_proto_round_trip(raw):
    proto = TensorShape(raw).as_proto()
    assert TensorShape(type(proto).FromString(proto.SerializeToString())).raw == raw


def test_proto_bytes_are_tensorflows():
    assert (
        TensorShape([2, None]).as_proto().SerializeToString() == b"\x12\x02\x08\x02\x12\x0b\x08" + b"\xff" * 9 + b"\x01"
    )
    assert TensorShape(None).as_proto().SerializeToString() == b"\x18\x01"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda shape: shape.assert_has_rank(2), "must have rank 2"),
        (lambda shape: shape.with_rank(2), "must have rank 2"),
        (lambda shape: shape.with_rank_at_least(2), "must have rank at least 2"),
        (lambda shape: shape.with_rank_at_most(0), "must have rank at most 0"),
    ],
)
def test_errors_of_ranks_begin_as_tensorflows(call, text) -> None:
    with pytest.raises(ValueError, match=rf"Shape \(\?,\) {text}\nGiven: the shape"):
        call(TensorShape([None]))
