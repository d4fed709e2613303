"""Buckets and samples by queues: `tf.contrib.training`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def steps(fetches: Any, most: int = 1000) -> list[Any]:
    """What a graph gives until its queues are empty, or for some steps."""
    coordinator = tf.train.Coordinator()
    results: list[Any] = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while len(results) < most:
                results.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            pass
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    return results


def numbers(limit: int | None, epochs: int | None = 1) -> tf.Tensor:
    return tf.train.range_input_producer(limit, num_epochs=epochs, shuffle=False).dequeue()


# ------------------------------------------------------------------------------------------------------------- buckets
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_of_one_bucket_each_and_nothing_is_lost(threads: int) -> None:
    n = numbers(20)
    which, batch = tf.contrib.training.bucket(
        {"n": n, "row": tf.range(n)}, n % 3, 4, 3, num_threads=threads, dynamic_pad=True, allow_smaller_final_batch=True
    )
    seen: list[int] = []
    for bucket, parts in steps([which, batch]):
        assert set(parts["n"] % 3) == {bucket}
        assert parts["row"].shape == (len(parts["n"]), max(parts["n"]))
        for count, row in zip(parts["n"], parts["row"], strict=True):
            assert row.tolist() == [*range(count), *[0] * (len(row) - count)]
        seen += parts["n"].tolist()
    assert sorted(seen) == list(range(20))


def test_whole_batches_sizes_of_buckets_and_what_is_of_no_bucket() -> None:
    n = numbers(30)
    which, x = tf.contrib.training.bucket([n], n % 4, [2, 3, 4], 3, bucket_capacities=[5, 6, 7])
    given = steps([which, x])
    assert {(int(bucket), len(rows)) for bucket, rows in given} == {(0, 2), (1, 3), (2, 4)}
    assert not [n for _, rows in given for n in rows if n % 4 == 3]


def test_buckets_by_length_with_sparse_tensors_and_what_is_kept() -> None:
    n = tf.cast(numbers(12), tf.int64)
    row = tf.SparseTensor(tf.reshape(tf.range(n), [-1, 1]), tf.range(n), [n])
    length, parts = tf.contrib.training.bucket_by_sequence_length(
        tf.cast(n, tf.int32), [row, n], 2, [4, 8], keep_input=n > 1, allow_smaller_final_batch=True
    )
    lengths = []
    for given, (sparse, dense) in steps([length, parts]):
        assert given.tolist() == dense.tolist()
        assert len({np.searchsorted([4, 8], each, "right") for each in given}) == 1
        assert sparse.indices[:, 0].tolist() == np.repeat(np.arange(len(given)), given).tolist()
        lengths += given.tolist()
    assert sorted(lengths) == list(range(2, 12))


def test_a_list_of_one_tensor_comes_back_as_one() -> None:
    n = tf.cast(numbers(12), tf.int32)
    _, one = tf.contrib.training.bucket([n], n % 2, 2, 2)
    _, in_list = tf.contrib.training.bucket_by_sequence_length(n, [tf.range(n)], 2, [4], dynamic_pad=True)
    _, named = tf.contrib.training.bucket_by_sequence_length(n, {"x": n}, 2, [4])
    assert isinstance(one, tf.Tensor)
    assert [type(part) for part in in_list] == [tf.Tensor]
    assert list(named) == ["x"]


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda x: tf.contrib.training.bucket([x], 0, [1, 2], 3), ValueError, "must have num_buckets elements"),
    (
        lambda x: tf.contrib.training.bucket([x], 0, 2, 3, bucket_capacities=[1]),
        ValueError,
        "must have exactly num_buckets",
    ),
    (lambda x: tf.contrib.training.bucket([], 0, 2, 3), ValueError, r"at least one tensor in bucket\(\)"),
    (lambda x: tf.contrib.training.bucket_by_sequence_length(x, [x], 2, []), ValueError, "must not be empty"),
    (lambda x: tf.contrib.training.bucket_by_sequence_length(x, [x], 2, 3), TypeError, "must be a list or tuple"),
    (lambda x: tf.contrib.training.bucket_by_sequence_length(x, [x], 2, [1, 0.5]), TypeError, "must be integers"),
    (lambda x: tf.contrib.training.bucket_by_sequence_length(x, [x], 2, [3, 3]), ValueError, "3 before 3"),
    (lambda x: tf.contrib.training.stratified_sample(x, x, [1.0], 2), TypeError, "Tensor as the tensors"),
    (lambda x: tf.contrib.training.stratified_sample([x], x, [0.5, 0.5], 2, [1.0]), ValueError, "the same length"),
    (
        lambda x: tf.contrib.training.stratified_sample([x], [[x]], [1.0], 2, [1.0], enqueue_many=True),
        ValueError,
        "must have rank 1",
    ),
]


@pytest.mark.parametrize(("make", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_does_not_fit_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make(tf.constant(1))


# ------------------------------------------------------------------------------------------------------------- samples
@pytest.mark.parametrize("many", [False, True])
def test_elements_are_accepted_with_their_probability(many: bool) -> None:
    tf.set_random_seed(1)
    n = numbers(4, None)
    tensors = [tf.stack([n, n])] if many else [n]
    (batch,) = tf.contrib.training.rejection_sample(
        tensors, lambda parts: tf.cast(parts[0], tf.float32) / 3, 50, enqueue_many=many, runtime_checks=True
    )
    drawn = np.concatenate(steps(batch, 20))
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(shares, [0, 1 / 6, 2 / 6, 3 / 6], atol=0.06)


def test_probabilities_are_checked() -> None:
    sample = tf.contrib.training.rejection_sample(
        [numbers(4)], lambda parts: tf.cast(parts[0], tf.float32), 2, runtime_checks=True
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Condition x <= y did not hold"):
        steps(sample)


@pytest.mark.parametrize("known", [True, False])
def test_classes_come_in_the_shares_that_are_asked_for(known: bool) -> None:
    tf.set_random_seed(2)
    label = tf.minimum(tf.random_uniform([], 0, 10, tf.int32), 2)  # shares 0.1, 0.1, 0.8
    (x,), labels = tf.contrib.training.stratified_sample(
        [label * 10], label, [0.4, 0.4, 0.2], 50, init_probs=[0.1, 0.1, 0.8] if known else None
    )
    given = steps([x, labels], 20)
    assert all((rows == 10 * classes).all() for rows, classes in given)
    classes = np.concatenate([classes for _, classes in given])
    np.testing.assert_allclose(np.bincount(classes) / len(classes), [0.4, 0.4, 0.2], atol=0.06)


def test_a_class_that_never_comes_cannot_be_asked_for() -> None:
    _, labels = tf.contrib.training.stratified_sample([1.0], tf.constant(0), [0.5, 0.5], 2, [1.0, 0.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must also have zero target probability"):
        steps(labels)


def test_rows_are_left_out_or_taken_several_times() -> None:
    tf.set_random_seed(3)
    rates = np.repeat([0.0, 0.5, 3.0], 1000).astype(np.float32)
    rows, same = tf.contrib.training.resample_at_rate([tf.range(3000), tf.range(3000) * 2], rates)
    with tf.Session() as session:
        drawn, doubled = session.run([rows, same])
    assert (doubled == 2 * drawn).all()
    assert (np.diff(drawn) >= 0).all()
    counts = np.bincount(drawn, minlength=3000).reshape(3, 1000).mean(axis=1)
    np.testing.assert_allclose(counts, [0.0, 0.5, 3.0], atol=0.2)


def test_weights_are_taken_as_shares_of_their_mean() -> None:
    tf.set_random_seed(4)
    weights = tf.placeholder(tf.float32, [None])
    (rows,), rates = tf.contrib.training.weighted_resample([tf.range(tf.size(weights))], weights, 2.0, mean_decay=0.0)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        value = np.repeat([1.0, 3.0], 500)
        drawn, given = session.run([rows, rates], {weights: value})
    np.testing.assert_allclose(given, (value * 2.0 / 2.0)[drawn], rtol=1e-5)
    np.testing.assert_allclose(np.bincount(drawn, minlength=1000).reshape(2, 500).mean(axis=1), [1.0, 3.0], atol=0.3)
