"""A choice by bits gives what a choice by branches gives, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.ops.shared import host_choice, row_sums, unchecked


def _numbers(random, shape, dtype):
    values = (random.randn(*shape) * 5).astype(dtype)
    if values.dtype.kind == "f":
        values.ravel()[::7] = np.nan
        values.ravel()[1::7] = -0.0
        values.ravel()[2::7] = -np.inf
    return values


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.int8, np.float16])
@pytest.mark.parametrize("shape", [(3, 5), (40, 50), (1, 700)])
def test_choices_are_those_of_numpy(dtype, shape):
    random = np.random.RandomState(0)
    one, other = _numbers(random, shape, dtype), _numbers(random, shape, dtype)
    for condition in (
        random.rand(*shape) < 0.5,
        random.rand(shape[0], 1) < 0.5,
        random.rand(shape[0], 1) < 1,
        np.array(True),
        random.rand(7, 1, 1) < 1,
    ):
        value = host_choice.choose(condition, one, other)
        expected = np.where(condition, one, other)
        assert value.dtype == expected.dtype
        assert value.shape == expected.shape
        assert value.tobytes() == expected.tobytes()
    wide = host_choice.choose(random.rand(6, shape[1]) < 0.5, one[:1], other[:1])
    assert wide.shape == (6, shape[1])
    turned = host_choice.choose(one.T > 0, one.T, other.T)
    np.testing.assert_array_equal(turned, np.where(one.T > 0, one.T, other.T))
    zeroed = host_choice.or_zero(one > 0, other)
    assert zeroed.tobytes() == np.where(one > 0, other, one.dtype.type(0)).tobytes()


def test_straight_code_chooses_without_branches():
    random = np.random.RandomState(0)
    one, other = _numbers(random, (40, 50), np.float32), _numbers(random, (40, 50), np.float32)
    alike = random.rand(40, 50) < 0.5
    assert unchecked.select([alike, one, other], [False] * 3, {}) is host_choice.choose
    rows = random.rand(40) < 0.5
    by_row = unchecked.select([rows, one, other], [False] * 3, {})
    assert by_row(rows, one, other).tobytes() == np.where(rows[:, None], one, other).tobytes()
    for condition in (np.array(True), np.array(False)):
        scalar = unchecked.select([condition, one, other], [False] * 3, {})
        assert scalar(condition, one, other).tobytes() == np.where(condition, one, other).tobytes()


@pytest.mark.parametrize("order", ["rows", "columns", "neither"])
def test_products_add_up_entry_by_entry_in_their_order(order):
    random = np.random.RandomState(0)
    rows, columns = random.randint(0, 30, 400), random.randint(0, 20, 400)
    by = {"rows": rows, "columns": columns, "neither": np.zeros(400)}[order]
    sorted_by = np.argsort(by, kind="stable")
    rows, columns = rows[sorted_by], columns[sorted_by]
    values, dense = random.randn(400).astype(np.float32), random.randn(20, 3).astype(np.float32)
    expected = np.zeros((30, 3), np.float32)
    np.add.at(expected, rows, values[:, None] * dense[columns])
    np.testing.assert_array_equal(row_sums.product(rows, columns, values, dense, 30), expected)
