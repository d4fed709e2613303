"""How many elements datasets have: the numbers that TensorFlow 1.15.5 gives, and that going through them gives."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

D = tf.data.Dataset
E = tf.data.experimental
CASES = [
    (lambda: D.range(5), 5),
    (lambda: D.range(5, 0), 0),
    (lambda: D.from_tensors(1), 1),
    (lambda: D.from_tensor_slices([1, 2, 3]), 3),
    (lambda: D.range(5).repeat(2), 10),
    (lambda: D.range(5).repeat(), -1),
    (lambda: D.range(0).repeat(), 0),
    (lambda: D.range(5).repeat(0), 0),
    (lambda: D.range(5).take(3), 3),
    (lambda: D.range(5).repeat().take(7), 7),
    (lambda: D.range(5).take(9), 5),
    (lambda: D.range(5).skip(2), 3),
    (lambda: D.range(5).skip(9), 0),
    (lambda: D.range(5).skip(-1), 0),
    (lambda: D.range(5).repeat().skip(3), -1),
    (lambda: D.range(5).shard(2, 0), 3),
    (lambda: D.range(5).shard(2, 1), 2),
    (lambda: D.range(5).batch(2), 3),
    (lambda: D.range(5).batch(2, True), 2),
    (lambda: D.range(5).repeat().batch(2), -1),
    (lambda: D.range(5).padded_batch(2, []), 3),
    (lambda: D.range(5).padded_batch(2, [], drop_remainder=True), 2),
    (lambda: D.range(5).map(lambda x: x), 5),
    (lambda: D.range(5).map(lambda x: x, 4), 5),
    (lambda: D.range(5).filter(lambda x: True), -2),
    (lambda: D.range(5).flat_map(lambda x: D.range(2)), -2),
    (lambda: D.range(5).interleave(lambda x: D.range(2), 2), -2),
    (lambda: D.range(5).shuffle(3), 5),
    (lambda: D.range(5).shuffle(3).repeat(2), 10),
    (lambda: D.range(5).prefetch(1), 5),
    (lambda: D.range(5).cache(), 5),
    (lambda: D.range(5).concatenate(D.range(3)), 8),
    (lambda: D.range(5).concatenate(D.range(3).repeat()), -1),
    (lambda: D.range(5).concatenate(D.range(3).filter(lambda x: True)), -2),
    (lambda: D.zip((D.range(5), D.range(3))), 3),
    (lambda: D.zip((D.range(5), D.range(3).repeat())), 5),
    (lambda: D.zip((D.range(5).repeat(), D.range(3).repeat())), -1),
    (lambda: D.zip((D.range(5), D.range(3).filter(lambda x: True))), -2),
    (lambda: D.range(5).window(2), 3),
    (lambda: D.range(5).window(2, drop_remainder=True), 2),
    (lambda: D.range(10).window(2, 3, 2), 4),
    (lambda: D.range(5).apply(E.map_and_batch(lambda x: x, 2)), 3),
    (lambda: D.range(5).apply(E.map_and_batch(lambda x: x, 2, drop_remainder=True)), 2),
    (lambda: D.range(5).apply(E.scan(np.int64(0), lambda s, x: (s, x))), 5),
    (lambda: D.range(5).apply(E.shuffle_and_repeat(3, 2)), 10),
    (lambda: D.range(5).apply(E.shuffle_and_repeat(3)), -1),
    (lambda: D.range(5).apply(E.unique()), -2),
    (lambda: D.range(5).apply(E.take_while(lambda x: x < 3)), -2),
    (lambda: D.from_generator(lambda: iter([1]), tf.int64), -2),
    (lambda: E.RandomDataset(), -1),
    (lambda: E.RandomDataset().batch(3), -1),
    (lambda: E.choose_from_datasets([D.range(3), D.range(4)], D.range(2)), -2),
    (lambda: D.range(6).batch(2).apply(E.unbatch()), -2),
    (lambda: D.from_sparse_tensor_slices(tf.SparseTensor([[0, 0]], [1], [3, 3])), 3),
]


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(("make", "expected"), CASES)
def test_numbers_are_tensorflows_and_those_of_the_elements(make, expected):
    dataset = make()
    with tf.Session() as session:
        assert session.run(tf.data.experimental.cardinality(dataset)) == expected
        if expected >= 0:
            element, count = dataset.make_one_shot_iterator().get_next(), 0
            fetched = [tensor for tensor in tf.nest.flatten(element) if isinstance(tensor, tf.Tensor)]
            while fetched:
                try:
                    session.run(fetched)
                    count += 1
                except tf.errors.OutOfRangeError:
                    assert count == expected
                    break


def test_numbers_that_tensorflow_gives_wrongly():
    """All elements of five are five (it says: without end); where errors are left out, nobody knows (it says: five)."""
    op = build("ExperimentalDatasetCardinality", D.range(5).take(-1)._variant_tensor)
    unknown = E.cardinality(D.range(5).apply(E.ignore_errors()))
    with tf.Session() as session:
        assert session.run([op, unknown]) == [5, E.UNKNOWN_CARDINALITY]
        assert session.run(E.cardinality(D.range(5).repeat())) == E.INFINITE_CARDINALITY
