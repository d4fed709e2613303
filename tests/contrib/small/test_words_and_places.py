"""Skip-grams, periodic resampling, slices, probes, elements in turn: refusals, sizes that only a step knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

contrib = tf.contrib
resample = contrib.periodic_resample.periodic_resample
skip_gram_sample = contrib.text.skip_gram_sample


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_resampling_of_sizes_that_a_step_knows(tier: str) -> None:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [None, None, 4])
        result = resample(x, [3, 5, None])
        (gradient,) = tf.gradients(tf.square(result), x)
        assert result.shape.as_list() == [3, 5, None]
        for shape in ((2, 3, 4), (3, 5, 4), (1, 4, 4)):
            value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            if np.prod(shape) < 15:
                continue
            got, slope = session.run([result, gradient], {x: value})
            known = session.run(resample(value, [3, 5, None]))
            np.testing.assert_array_equal(got, known)
            counts = np.bincount(known.astype(int).ravel(), minlength=value.size).reshape(shape)
            np.testing.assert_allclose(slope, 2 * value * counts)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?i)assert|condition"):
            session.run(result, {x: np.zeros([4, 5, 4])})


@pytest.mark.parametrize(
    ("shape", "sizes", "text"),
    [
        ([1, 2, 2, 4], [None, 4, 4, 1], "Dimension 3 input tensor has size 4, desired shape has size 1"),
        ([1, 2, 2, 4], [None, 4, 4], "4, to be the same as the length of the desired shape, 3"),
        ([2, 2], [2, 2], "at least one index to be marked as adjustable"),
        ([2, 2], [None, None], "only one index to be marked as adjustable"),
        ([2, 2], [9, None], "adjustable dimension, 1, isn't greater than zero, 0"),
    ],
)
def test_refusals_of_resampling(shape: list[int], sizes: Any, text: str) -> None:
    with tf.Graph().as_default(), pytest.raises(tf.errors.InvalidArgumentError, match=text):
        resample(tf.zeros(shape), sizes)


def test_slices_have_gradients() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        sums = contrib.reduce_slice_ops.reduce_slice_sum(x, [[0, 2], [1, 3], [1, 1]], axis=1)
        products = contrib.reduce_slice_ops.reduce_slice_prod(x, [[0, 3]], axis=1)
        weights = tf.constant([[1.0, 10.0, 100.0]])
        got = session.run([sums, *tf.gradients([sums * weights, products], x)])
        np.testing.assert_array_equal(got[0], [[3, 5, 0], [9, 11, 0]])
        np.testing.assert_array_equal(got[1], [[1 + 6, 11 + 3, 10 + 2], [1 + 30, 11 + 24, 10 + 20]])
        with pytest.raises(ValueError, match="Given: indices of shape"):
            contrib.reduce_slice_ops.reduce_slice_sum(x, [[0, 1, 2]], 0)


def test_words_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_text("the,x,50\nquick,x,2\nfox,x,7\n")
    sample = contrib.text.skip_gram_sample_with_text_vocab
    with tf.Graph().as_default(), tf.Session() as session:
        words = tf.constant(["the", "quick", "lazy", "fox"])
        pairs = sample(words, str(file), vocab_freq_index=2, vocab_min_count=5, min_skips=1, max_skips=1)
        batches = sample(words, str(file), vocab_freq_index=2, min_skips=2, max_skips=2, batch_size=4)
        session.run(tf.tables_initializer())
        assert [list(part) for part in session.run(pairs)] == [[b"the", b"fox"], [b"fox", b"the"]]
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        tokens, labels = session.run(batches)
        assert list(tokens) == [b"the", b"the", b"quick", b"quick"]
        assert list(labels) == [b"quick", b"fox", b"the", b"fox"]
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)
        for arguments, text in (
            ({"vocab_freq_index": 0}, "should be different, but are both 0"),
            ({"vocab_freq_index": 3}, "Row in vocab file only has 3 columns"),
            ({"vocab_freq_index": -1}, "must both be >= 0"),
            ({"vocab_freq_index": 2, "corpus_size": 3}, "must be greater than or equal to the sum"),
        ):
            with pytest.raises(ValueError, match=text):
                sample(words, str(file), **arguments)


def test_refusals_of_skip_grams() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match="These settings are useless without a vocab_freq_table"):
            skip_gram_sample(["a"], vocab_min_count=1)
        table = contrib.lookup.HashTable(contrib.lookup.KeyValueTensorInitializer(["a"], [1.0]), -1.0)
        with pytest.raises(ValueError, match="both must be provided in order for subsampling"):
            skip_gram_sample(["a"], vocab_freq_table=table, corpus_size=3)
        with pytest.raises(ValueError, match="it should be within range"):
            skip_gram_sample(["a"], vocab_freq_table=table, corpus_size=3, vocab_subsampling=2.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Both min_skips and max_skips must be >= 0"):
            session.run(skip_gram_sample(["a"], -1, 2))
        with pytest.raises(tf.errors.InvalidArgumentError, match="min_skips must be <= max_skips"):
            session.run(skip_gram_sample(["a"], 3, 2))


def test_probes() -> None:
    probe = contrib.nearest_neighbor.hyperplane_lsh_probes
    with tf.Graph().as_default(), tf.Session() as session:
        probes, tables = probe(tf.zeros([7, 6]), 2, 3, 4)
        assert probes.shape.as_list() == tables.shape.as_list() == [7, 4]
        with pytest.raises(tf.errors.InvalidArgumentError, match="must have num_tables"):
            session.run(probe(tf.zeros([7, 5]), 2, 3, 4))
        with pytest.raises(tf.errors.InvalidArgumentError, match="larger than the number of buckets"):
            session.run(probe(tf.zeros([7, 2]), 1, 2, 5))


def test_a_list_ends_after_its_epochs() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        element = contrib.input_pipeline.seek_next(["a", "b", "c"], shuffle=True, seed=3, num_epochs=2)
        session.run(tf.global_variables_initializer())
        given = [session.run(element) for _ in range(6)]
        assert sorted(given[:3]) == sorted(given[3:]) == [b"a", b"b", b"c"]
        with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 6"):
            session.run(element)
