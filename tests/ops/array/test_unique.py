"""`Unique` finds the same by a table and by sorting, for every type and span."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.core.values import dtypes
from anabranch.ops.array import partition

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _one_by_one(x):
    places: dict = {}
    numbers = [places.setdefault(value, len(places)) for value in x.tolist()]
    return list(places), numbers, np.bincount(numbers, minlength=len(places)).tolist()


def _samples(dtype):
    limits, random = np.iinfo(dtype), np.random.RandomState(0)
    yield np.array([], dtype)
    yield np.array([limits.max, limits.min, limits.max, 0, limits.min], dtype)
    for span in (1, 100, 30_000, 2**31, 2**62):
        least, most = max(limits.min, -span), min(limits.max, span)
        yield random.randint(least, most, 200, dtype=np.int64).astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_any_span(dtype):
    for x in _samples(dtype):
        y, index, count = partition._unique(None, x, 0, dtypes.int32)
        values, numbers, counts = _one_by_one(x)
        assert y.dtype == x.dtype
        assert index.dtype == count.dtype == np.int32
        assert (y.tolist(), index.tolist(), count.tolist()) == (values, numbers, counts)


def test_a_table_that_was_used_before_tells_nothing_of_it():
    for x in ([5, 9, 5, 2], [9, 9, 2, 7], [1_000_000, 2, 1_000_000], [3]):
        y, index = partition._unique(None, np.array(x, np.int32), 0, dtypes.int64, count=False)
        assert (y.tolist(), index.tolist()) == _one_by_one(np.array(x))[:2]


def test_nan_differs_from_itself():
    y, index, count = partition._unique(None, np.array([np.nan, 1.0, np.nan, 1.0]), 0, dtypes.int32)
    np.testing.assert_array_equal(y, [np.nan, 1.0, np.nan])
    assert (index.tolist(), count.tolist()) == ([0, 1, 2, 1], [1, 2, 1])


@pytest.mark.parametrize("axis", [0, 1])
def test_slices(axis):
    x = np.array([[1, 1, 2], [1, 1, 2], [3, 3, 3]])
    y, index, count = partition._unique(None, x, axis, dtypes.int32)
    expected = ([[1, 1, 2], [3, 3, 3]], [0, 0, 1]) if axis == 0 else ([[1, 2], [1, 2], [3, 3]], [0, 0, 1])
    assert (y.tolist(), index.tolist()) == expected
    assert count.tolist() == [2, 1]
