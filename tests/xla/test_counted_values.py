"""Rows that a mask leaves, and what ``where`` and ``unique`` find, in programs, beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

WEIGHTS = np.random.RandomState(7).randn(4, 5)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(-1, keepdims=True)


def sums(x, mask):
    kept = tf.boolean_mask(x, mask)
    return [
        tf.reduce_sum(kept),
        tf.reduce_max(kept, 0),
        tf.reduce_min(kept, 0),
        tf.reduce_prod(kept * 0.1 + 1.0, 0),
        *tf.nn.moments(kept, [0]),
        tf.shape(kept)[0],
    ]


def expected_sums(x, mask):
    kept = x[mask]
    with np.errstate(all="ignore"):
        mean = kept.sum(0) / np.float64(len(kept))
        variance = ((kept - mean) ** 2).sum(0) / np.float64(len(kept))
    return [
        kept.sum(),
        kept.max(0, initial=-np.inf),
        kept.min(0, initial=np.inf),
        (kept * 0.1 + 1).prod(0),
        mean,
        variance,
        len(kept),
    ]


def pairs(x, mask):
    kept = tf.boolean_mask(x, mask)
    products = tf.matmul(kept, kept, transpose_b=True)
    distances = tf.reduce_sum(tf.square(kept[:, None] - kept[None]), 2)
    return [
        products,
        tf.nn.softmax(products),
        tf.reduce_min(distances + 100.0 * tf.eye(tf.shape(kept)[0])),
        tf.matrix_band_part(products, -1, 0),
        tf.cumsum(kept[:, 0], exclusive=True, reverse=True),
        tf.concat([kept, tf.boolean_mask(x, tf.logical_not(mask))], 0),
    ]


def expected_pairs(x, mask):
    kept = x[mask]
    products = kept @ kept.T
    distances = ((kept[:, None] - kept[None]) ** 2).sum(2)
    return [
        products,
        softmax(products),
        (distances + 100 * np.eye(len(kept))).min(initial=np.inf),
        np.tril(products),
        kept[::-1, 0].cumsum()[::-1] - kept[:, 0],
        np.concatenate([kept, x[~mask]]),
    ]


def losses(x, mask):
    kept, weights = tf.boolean_mask(x, mask), tf.constant(WEIGHTS, tf.float32)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.argmax(kept, 1), logits=tf.matmul(kept, weights))
    loss = tf.reduce_sum(each) / tf.cast(tf.maximum(tf.size(each), 1), tf.float32)
    return [each, loss, *tf.gradients(loss, [x, weights])]


def expected_losses(x, mask):
    kept = x[mask]
    rows = np.arange(len(kept))
    labels = kept.argmax(1) if len(kept) else rows
    slopes = softmax(kept @ WEIGHTS)
    each = -np.log(slopes[rows, labels])
    slopes[rows, labels] -= 1
    slopes /= max(len(kept), 1)
    by_x = np.zeros_like(x)
    by_x[mask] = slopes @ WEIGHTS.T
    return [each, each.sum() / max(len(kept), 1), by_x, kept.T @ slopes]


def places(x, mask):
    above = tf.where(x > 0.5)
    values = tf.gather_nd(x, above)
    different, of_each, counts = tf.unique_with_counts(tf.cast(x[:, 0] * 2.0, tf.int32))
    return [
        values,
        tf.gradients(tf.reduce_sum(values * values), x)[0],
        different,
        tf.reduce_max(counts),
        tf.gather(tf.cast(different, tf.float32) * 3.0, of_each),
        tf.unsorted_segment_sum(values, tf.cast(above[:, 1], tf.int32), 4),
    ]


def expected_places(x, mask):
    numbers = (x[:, 0] * 2).astype(int)
    different = np.array(list(dict.fromkeys(numbers.tolist())))
    return [
        x[x > 0.5],
        2 * x * (x > 0.5),
        different,
        np.bincount(numbers - numbers.min()).max(),
        numbers * 3.0,
        (x * (x > 0.5)).sum(0),
    ]


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize(
    ("build", "expected"),
    [(sums, expected_sums), (pairs, expected_pairs), (losses, expected_losses), (places, expected_places)],
)
def test_values_are_those_of_numpy(build, expected, batches):
    """Steps of ever new numbers of rows, none and all among them; with ``batches`` the rows fed change as well."""
    random = np.random.RandomState(0)
    with tf.Graph().as_default():
        x, mask = tf.placeholder(tf.float32, [None if batches else 40, 4]), tf.placeholder(tf.bool, [None])
        fetches = build(x, mask)
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            for share in (0.5, 0.3, 0.0, 0.8, 1.0, 0.4, 0.1, 0.6, 0.2, 0.9):
                rows = random.randint(3, 60) if batches else 40
                fed, kept = random.randn(rows, 4).astype(np.float32), random.rand(rows) < share
                found = session.run(fetches, {x: fed, mask: kept})
                for value, right in zip(found, expected(fed.astype(np.float64), kept), strict=True):
                    assert value.shape == np.shape(right)
                    np.testing.assert_allclose(value, right, rtol=1e-4, atol=1e-4)
