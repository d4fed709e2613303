"""Sums of rows on the host against loops in float64: dtypes, empty parts, repeated and unsorted numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.shared import row_sums
from anabranch.testing.kernels import TIERS, run_op

DTYPES = ["float32", "float64", "int32", "int64", "uint8", "int16", "complex64", "float16"]


def draws(dtype, *shape):
    random = np.random.RandomState(sum(shape))
    values = random.randint(0, 9, shape)
    return (values + 1j * values[::-1]).astype(dtype) if dtype.startswith("complex") else values.astype(dtype)


def wide(dtype):
    return np.complex128 if dtype.startswith("complex") else np.float64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [(), (1,), (5,), (2, 3), (0,)])
def test_rows_are_added_where_they_are_to(dtype, inner):
    data, places = draws(dtype, 40, *inner), np.random.RandomState(1).randint(0, 7, 40)
    total = draws(dtype, 7, *inner)
    expected = total.astype(wide(dtype))
    for place, row in zip(places, data, strict=True):
        expected[place] += row
    row_sums.add_to_rows(total, places, data)
    np.testing.assert_array_equal(total.astype(wide(dtype)), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("inner", [(), (5,), (2, 3)])
def test_runs_of_selected_rows(dtype, inner):
    data, ids = draws(dtype, 30, *inner), np.array([0, 0, 0, 2, 2, 5], np.int32)
    indices = np.array([3, 3, 29, 0, 7, 11], np.int32)
    expected = np.zeros((6, *inner))
    for index, segment in zip(indices, ids, strict=True):
        expected[segment] += data[index]
    sums = row_sums.sums_of_runs(data, indices, row_sums.counted_starts(ids, 6))
    np.testing.assert_array_equal(sums, expected)
    assert sums.dtype == data.dtype
    assert row_sums.sums_of_runs(data[:0], None, row_sums.counted_starts(ids[:0], 3)).shape == (3, *inner)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("count", [1, 700, (1 << 17) + 5])
def test_sums_of_any_number_of_rows(count, dtype):
    data, places = draws("float32", count), np.random.RandomState(1).randint(0, 7, count).astype(dtype)
    total = np.zeros(7, np.float32)
    row_sums.add_to_rows(total, places, data)
    np.testing.assert_array_equal(total, np.bincount(places, data, 7))
    starts = row_sums.counted_starts(np.sort(places), 7)
    sums = row_sums.sums_of_runs(data, None, starts)
    np.testing.assert_array_equal(sums, np.bincount(np.sort(places), data, 7))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [(), (1,), (5,), (2, 3), (0,), (300,)])
@pytest.mark.parametrize("count", [3, 600])
def test_rows_are_written_in_order(dtype, inner, count):
    random = np.random.RandomState(count)
    array, rows = draws(dtype, 400, *inner), draws(dtype, 2 * count, *inner)[::2]
    for given in (rows, np.ascontiguousarray(rows)):
        places, expected = random.randint(0, 400, count), array.copy()
        for place, row in zip(places, given, strict=True):
            expected[place] = row
        row_sums.write_rows(array, places, given)
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.complex64, object])
def test_what_has_no_compiled_code_is_left_to_numpy(dtype):
    assert row_sums.sums_of_runs(np.zeros((2, 2), dtype), None, np.array([0, 2])) is None


@pytest.mark.parametrize("order", ["by rows", "by columns", "none"])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int32"])
def test_products_of_a_sparse_matrix(order, dtype):
    rows, columns = np.random.RandomState(2).randint(0, 6, 20), np.random.RandomState(3).randint(0, 4, 20)
    if order != "none":
        by = np.argsort(rows if order == "by rows" else columns, kind="stable")
        rows, columns = rows[by], columns[by]
    values, dense = draws(dtype, 20), draws(dtype, 4, 3)
    matrix = np.zeros((6, 4), wide(dtype))
    np.add.at(matrix, (rows, columns), values)
    product = row_sums.product(rows, columns, values, dense, 6)
    np.testing.assert_allclose(product, matrix @ dense, rtol=1e-5)
    assert product.dtype == dense.dtype


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_ranges(dtype):
    assert row_sums.is_within(np.array([0, 4, 2], dtype), 5)
    assert not row_sums.is_within(np.array([0, 5, 2], dtype), 5)
    assert row_sums.is_within(np.array([], dtype), 0)
    assert dtype is np.uint8 or not row_sums.is_within(np.array([0, -1], dtype), 5)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("mode", ["Sum", "Mean", "SqrtN"])
def test_gradients_of_selected_rows_take_unsorted_numbers(tier, mode):
    grad, ids = draws("float32", 3, 2), np.array([2, 0, 2, 1], np.int32)
    indices = np.array([1, 1, 0, 3], np.int32)
    counts = np.bincount(ids)
    expected = np.zeros((5, 2))
    for index, segment in zip(indices, ids, strict=True):
        divisor = {"Sum": 1, "Mean": counts[segment], "SqrtN": np.sqrt(counts[segment])}[mode]
        expected[index] += grad[segment] / divisor
    if mode == "Sum":
        result = run_op("UnsortedSegmentSum", grad[ids], indices, np.int32(5), tier=tier)
    else:
        result = run_op(f"SparseSegment{mode}Grad", grad, indices, ids, np.int32(5), tier=tier)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_sizes_that_change_are_checked_in_each_step():
    with tf.Graph().as_default():
        table = tf.get_variable("table", [10, 3], initializer=tf.ones_initializer())
        indices, ids = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int32, [None])
        sums = tf.sparse_segment_sum(table, tf.unique(indices)[0], ids)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for count in range(1, 9):
                feeds = {indices: np.arange(count), ids: np.zeros(count)}
                np.testing.assert_array_equal(session.run(sums, feeds), np.full((1, 3), count))
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] == 10 out of range"):
                session.run(sums, {indices: [3, 10], ids: [0, 0]})
            with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids and indices should have same size"):
                session.run(sums, {indices: [3, 4], ids: [0]})
            np.testing.assert_array_equal(session.run(sums, {indices: [3, 3], ids: [0]}), np.ones((1, 3)))


@pytest.mark.parametrize("fed", [False, True])
def test_what_is_distinct_is_not_made_so_again(fed):
    with tf.Graph().as_default():
        ids, rows = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 2])
        first, _ = tf.unique(ids)
        again, numbers = tf.unique(first)
        sums = tf.unsorted_segment_sum(rows, numbers, tf.shape(again)[0])
        with tf.Session() as session:
            for count in range(1, 7):
                feeds = {ids: np.arange(count) // 2 * 3, rows: np.ones(((count + 1) // 2, 2))}
                expected = np.ones(((count + 1) // 2, 2)), np.arange(0, (count + 1) // 2 * 3, 3)
                if fed:  # with elements that are not distinct
                    feeds = {first: [7] * count, rows: np.ones((count, 2))}
                    expected = np.full((1, 2), count), [7]
                summed, elements = session.run([sums, again], feeds)
                np.testing.assert_array_equal(summed, expected[0])
                np.testing.assert_array_equal(elements, expected[1])
