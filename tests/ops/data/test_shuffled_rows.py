"""A shuffle of rows makes the draws of a batch together; the order is that of a shuffle that makes them in turn."""

import numpy as np
import pytest

import anabranch as tf

CASES = [
    # number of elements, size of the buffer, passes
    (200, 1, 1),
    (200, 7, 1),
    (300, 100, 1),
    (300, 299, 2),
    (250, 1000, 1),
    (17, 1000, 9),
    (120, 150, 3),
    (400, 64, 3),
    (9000, 5000, 2),
    (1, 4, 5),
    (0, 4, 1),
]


def _drawn(dataset, size, sess):
    iterator = dataset.batch(size).make_initializable_iterator()
    element, batches = iterator.get_next(), []
    sess.run(iterator.initializer)
    while True:
        try:
            batches.append(sess.run(element))
        except tf.errors.OutOfRangeError:
            return np.concatenate(batches) if batches else np.zeros(0, np.int64)


@pytest.mark.parametrize("together", [False, True], ids=["shuffle, repeat", "shuffle_and_repeat"])
def test_rows_come_in_the_order_of_elements(together):
    for count, buffer, passes in CASES:
        with tf.Graph().as_default(), tf.Session() as sess:
            rows = tf.data.Dataset.from_tensor_slices(np.arange(count))
            elements = rows.batch(1).apply(tf.data.experimental.unbatch())  # which has no table

            def shuffled(dataset, buffer=buffer, passes=passes):
                if together:
                    return dataset.apply(tf.data.experimental.shuffle_and_repeat(buffer, passes, seed=5))
                return dataset.shuffle(buffer, seed=5).repeat(passes)

            by_rows, one_by_one = _drawn(shuffled(rows), 64, sess), _drawn(shuffled(elements), 64, sess)
            np.testing.assert_array_equal(by_rows, one_by_one)
            assert sorted(by_rows) == sorted([*range(count)] * passes)
