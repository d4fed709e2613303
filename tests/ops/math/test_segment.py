"""Segments: range checks in both tiers, public forms, gradients with unknown shapes, values of empty segments."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import anabranch as tf
from anabranch.testing import check_gradients
from anabranch.testing.kernels import TIERS, run_op

DATA = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def ints(*items):
    return np.array(items, np.int32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (ints(1, 0, 0), "segment ids are not increasing"),
        (ints(-1, 0, 0), r"Segment id -1 out of range \[0, 1\)"),
        (ints(0, 0), "segment_ids should be the same size as dimension 0 of input"),
        (np.zeros((3, 1), np.int32), "segment_ids should be a vector"),
    ],
)
@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max"])
def test_sorted_numbers(kind, ids, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run_op("Segment" + kind, DATA, ids)


@pytest.mark.parametrize("tier", TIERS)
def test_unsorted_numbers(tier):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"segment_ids\[1\] = 3 is out of range \[0, 3\)"):
        run_op("UnsortedSegmentSum", DATA, ints(0, 3, 0), np.int32(3), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"segment_ids\[2,1\] = 7 is out of range \[0, 3\)"):
        run_op("UnsortedSegmentMax", DATA, ints([0, 1], [2, 2], [0, 7]), np.int32(3), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"num_segments == -1 must not be negative"):
        run_op("UnsortedSegmentSum", DATA, ints(0, 0, 0), np.int32(-1), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3,2\] does not start with segment_ids.shape = \[2\]"):
        run_op("UnsortedSegmentSum", DATA, ints(0, 0), np.int32(1), tier=tier)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("indices", "ids", "text"),
    [
        (ints(0, 3), ints(0, 0), r"indices\[1\] == 3 out of range \[0, 3\)"),
        (ints(0, -1), ints(0, 0), r"indices\[1\] == -1 out of range \[0, 3\)"),
        (ints(0, 1), ints(1, 0), "segment ids are not increasing"),
        (ints(0, 1), ints(-1, 0), "Segment id -1 out of range"),
        (ints(0, 1), ints(0, 4), "segment ids must be < num_segments"),
        (ints(0, 1), ints(0), "segment_ids and indices should have same size"),
    ],
)
def test_sparse_numbers(tier, indices, ids, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run_op("SparseSegmentSumWithNumSegments", DATA, indices, ids, np.int32(4), tier=tier)


@pytest.mark.parametrize("tier", TIERS)
def test_sparse_gradients_check(tier):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Index 4 out of range \[0, 4\)"):
        run_op("SparseSegmentMeanGrad", DATA, ints(0, 2, 4), ints(0, 0, 2), np.int32(4), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid number of segments"):
        run_op("SparseSegmentMeanGrad", DATA, ints(0, 2, 2), ints(0, 0, 3), np.int32(4), tier=tier)
    for ids, bad in ((ints(0, 5, 2), 5), (ints(-1, 0, 2), -1)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"Segment id {bad} out of range \[0, 3\)"):
            run_op("SparseSegmentMeanGrad", DATA, ints(0, 2, 2), ids, np.int32(4), tier=tier)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (ints(0, 0, -1), "segment ids must be >= 0"),
        (ints(0, -1, 0), "segment ids are not increasing"),
        (ints(-1, 0, 1), r"Segment id -1 out of range \[0, 2\)"),
        (ints(0, 2, 1), "segment ids are not increasing"),
        (ints(2, 3, 1), r"Segment id 2 out of range \[0, 2\)"),
        (np.int32(0), "segment_ids should be a vector"),
    ],
)
def test_the_first_wrong_number_of_sorted_segments(ids, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run_op("SegmentSum", DATA, ids, tier="host")


def test_errors_of_construction():
    with pytest.raises(ValueError, match=r"(?s)must be non-negative but is -1"):
        tf.unsorted_segment_sum(DATA, [0, 0, 0], -1)
    with pytest.raises(ValueError, match=r"(?s)Dimensions must be equal.*a shape that data.shape begins with"):
        tf.unsorted_segment_sum(DATA, [0, 0], 1)
    with pytest.raises(ValueError, match=r"(?s)2 indices and 1 segment_ids"):
        tf.sparse_segment_sum(DATA, [0, 1], [0])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.uint16])
def test_empty_segments_of_extrema(tier, dtype):
    x = np.array([1, 2], dtype)
    limits = ml_dtypes.finfo(dtype) if x.dtype.kind not in "iu" else np.iinfo(dtype)
    low = run_op("UnsortedSegmentMax", x, ints(0, -1), np.int32(2), tier=tier)
    high = run_op("UnsortedSegmentMin", x, ints(0, -1), np.int32(2), tier=tier)
    assert (low[1], high[1]) == (limits.min, limits.max)
    assert low.dtype == high.dtype == x.dtype


@pytest.mark.parametrize("tier", TIERS)
def test_nan_wins(tier):
    x = np.array([np.nan, 1.0, 1.0, np.nan], np.float32)
    for kind in ("Max", "Min"):
        assert np.isnan(run_op("UnsortedSegment" + kind, x, ints(0, 0, 1, 1), np.int32(2), tier=tier)).all()


def test_gaps_between_sorted_numbers():
    found = [run_op("Segment" + kind, DATA, ints(1, 1, 3)) for kind in ("Sum", "Prod", "Max", "Mean")]
    assert [one[[0, 2]].ravel().tolist() for one in found] == [[0.0] * 4, [1.0] * 4, [0.0] * 4, [0.0] * 4]
    assert run_op("SegmentMean", ints(1, 2, -7, 2), ints(0, 0, 3, 3)).tolist() == [1, 0, 0, -2]


def test_number_of_rows_is_known_with_the_numbers():
    assert tf.segment_sum(DATA, [0, 0, 4])._shape == (5, 2)
    ids = tf.placeholder(tf.int32, [3])
    assert tf.segment_sum(DATA, ids)._shape == (None, 2)
    assert tf.unsorted_segment_sum(DATA, ids, tf.placeholder(tf.int32, []))._shape == (None, 2)


def test_mean_and_root():
    ids = [0, 2, 0]
    found = run([tf.unsorted_segment_mean(DATA, ids, 4), tf.unsorted_segment_sqrt_n(DATA, ids, 4)])
    total = np.array([[6.0, 8.0], [0, 0], [3, 4], [0, 0]])
    count = np.array([[2.0], [1], [1], [1]])
    np.testing.assert_allclose(found[0], total / count)
    np.testing.assert_allclose(found[1], total / np.sqrt(count), rtol=1e-6)
    x, segments = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    np.testing.assert_allclose(run(tf.unsorted_segment_mean(x, segments, 4), {x: DATA, segments: ids}), total / count)


def test_sparse_forms():
    indices, ids = [0, 2, 1], [0, 0, 2]
    found = run(
        [
            tf.sparse_segment_sum(DATA, indices, ids),
            tf.sparse_segment_mean(DATA, indices, ids, num_segments=4),
            tf.sparse.segment_sqrt_n(DATA, indices, ids, num_segments=3),
        ]
    )
    np.testing.assert_allclose(found[0], [[6, 8], [0, 0], [3, 4]])
    np.testing.assert_allclose(found[1], [[3, 4], [0, 0], [3, 4], [0, 0]])
    np.testing.assert_allclose(found[2], [[6 / 2**0.5, 8 / 2**0.5], [0, 0], [3, 4]], rtol=1e-6)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
def test_sparse_gradient_as_slices(kind):
    x = tf.constant(DATA)
    options = {"num_segments": 3, "sparse_gradient": True}
    y = tf.build_op(f"SparseSegment{kind}WithNumSegments", x, tf.constant([0, 2, 2]), tf.constant([0, 0, 2]), **options)
    dense = tf.build_op(f"SparseSegment{kind}", x, tf.constant([0, 2, 2]), tf.constant([0, 0, 2]))
    weights = tf.constant([[1.0, 2.0], [7.0, 7.0], [3.0, 4.0]])
    slices, whole = tf.gradients(y, x, weights)[0], tf.gradients(dense, x, weights)[0]
    assert isinstance(slices, tf.IndexedSlices)
    assert not isinstance(whole, tf.IndexedSlices)
    found = run([tf.convert_to_tensor(slices), whole])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_ties_share_the_gradient():
    x = tf.constant([1.0, 3.0, 3.0, 2.0])
    ids = tf.constant([0, 1, 1, -1])
    found = run(
        [tf.gradients(tf.unsorted_segment_max(x, ids, 2), x)[0], tf.gradients(tf.segment_max(x, [0, 1, 1, 2]), x)[0]]
    )
    assert [one.tolist() for one in found] == [[1.0, 0.5, 0.5, 0.0], [1.0, 0.5, 0.5, 1.0]]


def test_product_of_zeros_has_a_gradient():
    x = tf.constant([0.0, 2.0, 3.0, 0.0, 0.0, 5.0])
    found = run(
        [
            tf.gradients(tf.segment_prod(x, [0, 0, 0, 1, 1, 1]), x)[0],
            tf.gradients(tf.unsorted_segment_prod(x, [1, 1, 1, 0, 0, -1], 2), x)[0],
        ]
    )
    assert [one.tolist() for one in found] == [[6.0, 0, 0, 0, 0, 0], [6.0, 0, 0, 0, 0, 0]]


def test_gradients_of_unknown_shapes():
    data = np.random.default_rng(0).normal(size=(4, 2))
    x, ids = tf.placeholder(tf.float64), tf.placeholder(tf.int32)
    fixed = tf.constant(data)
    for kind in ("sum", "max", "prod"):
        function = getattr(tf, "unsorted_segment_" + kind)
        found, wanted = (
            tf.gradients(function(x, ids, 3), x)[0],
            tf.gradients(function(fixed, [0, 2, -1, 0], 3), fixed)[0],
        )
        got, expected = run([found, wanted], {x: data, ids: [0, 2, -1, 0]})
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    check_gradients(lambda a: tf.unsorted_segment_mean(a, [0, 2, -1, 0], 3), [data])


@pytest.mark.parametrize("lengths", [(3, 3, 3, 3), (16, 16), (17, 17), (1, 1, 1), (2, 1, 5), (40, 1, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "int8"])
def test_runs_of_rows(lengths, dtype):
    rows = sum(lengths)
    draw = np.random.RandomState(rows)
    data = draw.randint(-3, 4, (rows, 2, 3)).astype(tf.as_dtype(dtype).as_numpy_dtype)
    ids = np.repeat([0, 2, 3, 7][: len(lengths)], lengths)
    parts = {
        number: data[ids == number].astype(np.float64 if data.dtype.kind != "i" else np.int64) for number in {*ids}
    }
    given = data.copy()
    for kind, reduce, empty in (("Sum", np.sum, 0), ("Max", np.max, 0), ("Min", np.min, 0), ("Prod", np.prod, 1)):
        expected = np.full((ids[-1] + 1, 2, 3), empty, np.float64)
        for number, part in parts.items():
            # Products of many numbers would leave a narrow type: those of signs do not.
            expected[number] = reduce(part if kind != "Prod" else np.sign(part), axis=0)
        values = data if kind != "Prod" else np.sign(data.astype(np.float32)).astype(data.dtype)
        result = run_op("Segment" + kind, values, ids, tier="host")
        assert result.dtype == data.dtype
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-6)
    np.testing.assert_array_equal(data, given)


@pytest.mark.parametrize("width", [1, 3, 96])
@pytest.mark.parametrize("lengths", [[50] * 4, [200] + [1, 5, 2] * 30, [33, 1, 16, 60] * 20, [7] * 40], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.float64])
def test_runs_of_any_lengths_and_widths(lengths, width, dtype):
    draw = np.random.RandomState(0)
    ids = np.repeat(np.arange(len(lengths)) * 2, lengths)
    data = (draw.randn(len(ids), width) * 50).astype(dtype)
    if data.dtype.kind == "f":
        data[::17] = np.nan
        data[5::17] = np.inf
    for kind, reduce in (("Max", np.max), ("Min", np.min), ("Prod", np.prod)):
        values = data if kind != "Prod" else np.sign(data)
        parts = np.split(values, np.cumsum(lengths)[:-1])
        result = run_op("Segment" + kind, values, ids, tier="host")
        np.testing.assert_array_equal(result[::2], np.stack([reduce(part, axis=0) for part in parts]))


@pytest.mark.parametrize("kind", ["max", "min", "prod"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
def test_unsorted_rows_of_any_width(kind, dtype):
    random = np.random.RandomState(0)
    ids = random.randint(-1, 9, 50)
    for width in (1, 3, 8, 40):
        data = random.randint(-3, 4, (50, width)).astype(dtype)
        if np.dtype(dtype).kind == "f":
            data[3, 0], data[7, 0] = -np.inf, np.nan
        operands = data, ids.astype(np.int32), np.int32(10)
        name = f"UnsortedSegment{kind.capitalize()}"
        here, there = (run_op(name, *operands, tier=tier) for tier in TIERS)
        np.testing.assert_array_equal(here, there)
