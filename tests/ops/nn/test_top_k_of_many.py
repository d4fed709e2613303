"""Few of many entries: the host chooses before it sorts, and gives what sorting all gives."""

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.nn import top_k


def by_sorting(key, k):
    return np.argsort(~key, axis=-1, kind="stable")[..., :k].astype(np.int32)


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.int8])
@pytest.mark.parametrize("different", [2, 1 << 31])
@pytest.mark.parametrize(
    ("shape", "k"), [((8, 500), 4), ((3, 2, 400), 100), ((5000,), 1), ((40, 64), 16), ((40, 63), 3)]
)
def test_indices_are_those_of_a_stable_sort(dtype, different, shape, k):
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -different // 2), min(limits.max, different)
    key = np.random.RandomState(0).randint(low, high, shape, dtype=np.int64).astype(dtype)
    key.flat[:3] = limits.max, limits.min, limits.max
    np.testing.assert_array_equal(top_k._host_largest(key, k), by_sorting(key, k))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_tiers_give_ties_zeros_and_nan_in_the_same_order(dtype):
    values = np.random.RandomState(1).randint(-3, 4, (4, 1000)).astype(dtype)
    values[0, 500], values[1, [3, 999]], values[2, 7], values[3, :990] = np.nan, [np.inf, np.nan], -0.0, -np.inf
    given = tf.placeholder(dtype, [None, 1000])
    results = []
    for tier in ("interpreted", "compiled"):
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            results.append(session.run(tf.nn.top_k(given, 20), {given: values}))
    clean = np.where(np.isnan(values), np.inf, values)
    indices = np.lexsort((np.broadcast_to(np.arange(1000), clean.shape), -clean, ~np.isnan(values)), axis=-1)[:, :20]
    for largest, where in results:
        np.testing.assert_array_equal(where, indices)
        np.testing.assert_array_equal(largest, np.take_along_axis(values, indices, -1))


@pytest.mark.parametrize("k", [10, 200, 500])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_many_of_a_row_come_in_order_with_ties_and_nan(k, tier):
    values = np.random.RandomState(k).randn(3, 500).astype(np.float32)
    values[:, ::7] = values[:, 1::7]
    values[1, 5], values[1, 9], values[2, 3:5] = np.inf, -np.inf, (0.0, -0.0)
    values[0, 11] = np.nan
    order = np.argsort(-np.where(np.isnan(values), np.inf, values), axis=-1, kind="stable")[:, :k]
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 500])
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            found, places = session.run(tf.nn.top_k(x, k), {x: values})
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(found, np.take_along_axis(values, order, 1))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_integers_whose_bits_are_those_of_nan_and_infinities(dtype, tier):
    draws = np.random.RandomState(0)
    patterns = [
        0,
        1,
        2**31 - 1,
        2**31,
        2**32 - 1,
        0x7F800000,
        0x7F800001,
        0x7FC00000,
        0xFF800001,
        0xFFC00000,
        0x80000001,
    ]
    values = draws.randint(0, 2**32, (2, 3000), np.uint64)
    values[:, ::4] = draws.choice(np.array(patterns, np.uint64), values[:, ::4].shape)
    values = values.astype(np.uint32).view(dtype)
    with tf.Graph().as_default():
        x = tf.placeholder(dtype, [2, 3000])
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            found, places = session.run(tf.nn.top_k(x, 700), {x: values})
    np.testing.assert_array_equal(places, by_sorting(values, 700))
    np.testing.assert_array_equal(found, np.take_along_axis(values, places, 1))


@pytest.mark.parametrize("k", [0, 1, 5, 300])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_targets_among_the_largest_of_rows_with_ties_and_what_is_not_finite(k, tier):
    draws = np.random.RandomState(k)
    values = np.round(draws.randn(200, 250), 1).astype(np.float32)
    values[::9, 5], values[1::9, 7], values[2::9, 249] = np.nan, np.inf, -np.inf
    targets = draws.randint(-2, 252, 200).astype(np.int32)
    inside = (targets >= 0) & (targets < 250)
    own = np.where(inside, values[np.arange(200), np.clip(targets, 0, 249)], np.nan)
    wanted = inside & np.isfinite(values).all(1) & ((values > own[:, None]).sum(1) < k)
    with tf.Graph().as_default():
        x, t = tf.placeholder(tf.float32, [200, 250]), tf.placeholder(tf.int32, [200])
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            found = session.run(tf.nn.in_top_k(x, t, k), {x: values, t: targets})
    np.testing.assert_array_equal(found, wanted)
