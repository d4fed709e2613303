"""Pairs of near words, from a text and from a vocabulary file."""

from __future__ import annotations

import csv
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


def _refused(text: str, given: str, expected: str, advice: str) -> ValueError:
    return ValueError(f"{text}\n" + errors.message(given, expected, advice))


def _kept(words: Any, table: Any, min_count: Any, subsampling: Any, corpus_size: Any, seed: int | None) -> Any:
    """The words that a table of frequencies has, without rare ones and a part of frequent ones."""
    if not hasattr(table, "default_value"):
        raise _refused(
            "vocab_freq_table must be a subclass of InitializableLookupTableBase (such as HashTable) instead of type "
            f"{type(table)}.",
            f"a {type(table).__name__}",
            "a table from words to frequencies",
            "tf.contrib.lookup.HashTable(initializer, -1)",
        )
    with tf.name_scope("filter_vocab", values=[words, min_count]):
        counts = table.lookup(words)
        known = tf.not_equal(counts, table.default_value)
        if min_count is not None:
            known &= counts >= tf.cast(min_count, counts.dtype)
        words, counts = tf.boolean_mask(words, known), tf.boolean_mask(counts, known)
    if not subsampling:
        return words
    if not 0 <= subsampling <= 1:
        raise _refused(
            f"Invalid vocab_subsampling={subsampling} - it should be within range [0, 1].",
            f"vocab_subsampling={subsampling}",
            "a share between 0 and 1",
            "vocab_subsampling=1e-3",
        )
    with tf.name_scope("subsample_vocab", values=[words, counts]):
        often = tf.cast(subsampling, tf.float64) * tf.cast(corpus_size, tf.float64)
        counts = tf.cast(counts, tf.float64)
        chance = (tf.sqrt(counts / often) + 1.0) * (often / counts)
        draw = tf.random_uniform(tf.shape(counts), dtype=tf.float64, seed=seed)
        return tf.boolean_mask(words, draw <= chance)


@public("contrib.text.skip_gram_sample")
def skip_gram_sample(
    input_tensor: Any,
    min_skips: Any = 1,
    max_skips: Any = 5,
    start: Any = 0,
    limit: Any = -1,
    emit_self_as_target: Any = False,
    vocab_freq_table: Any = None,
    vocab_min_count: Any = None,
    vocab_subsampling: float | None = None,
    corpus_size: Any = None,
    batch_size: int | None = None,
    batch_capacity: int | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Pairs of each word and the words near it, within a window of a random size for each.

    Args:
        input_tensor: the words of a text, ``[n]``.
        min_skips: smallest size of a window, at least 0.
        max_skips: largest one.
        start: first word that takes part.
        limit: how many words take part; all if it is negative.
        emit_self_as_target: give each word as its own label too.
        vocab_freq_table: a table from words to how often they are there; other words are left out.
        vocab_min_count: leave out rarer words.
        vocab_subsampling: words of a larger share of the corpus are left out at random, the more so the more frequent
            they are.
        corpus_size: the sum of all frequencies.
        batch_size: give as many pairs at a time, from a queue.
        batch_capacity: of that queue; 100 batches by default.
        seed: of the windows and of what is left out.
        name: of the operations.

    Returns:
        Words and labels, ``[pairs]`` each, or ``[batch_size]``.

    Raises:
        ValueError: arguments about frequencies without a table. InvalidArgumentError: in a step, windows of sizes that
        are not possible.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(*session.run(tf.contrib.text.skip_gram_sample(["the", "quick", "fox"], 1, 1)))
    [b'the' b'quick' b'quick' b'fox'] [b'quick' b'the' b'fox' b'quick']
    """
    if vocab_freq_table is None and (vocab_min_count, vocab_subsampling, corpus_size) != (None, None, None):
        raise _refused(
            f"vocab_freq_table is not provided, but vocab_min_count={vocab_min_count}, vocab_subsampling="
            f"{vocab_subsampling}, or corpus_size={corpus_size} is not None. These settings are useless without a "
            "vocab_freq_table.",
            "no table",
            "a table of frequencies",
            "vocab_freq_table=tf.contrib.lookup.HashTable(initializer, -1)",
        )
    if (vocab_subsampling is None) != (corpus_size is None):
        raise _refused(
            f"vocab_subsampling is {vocab_subsampling} while corpus_size is {corpus_size} - both must be provided in "
            "order for subsampling to work.",
            "one of the two",
            "both or neither",
            "vocab_subsampling=1e-3, corpus_size=1000000",
        )
    with tf.name_scope(name, "skip_gram_sample", [input_tensor, min_skips, max_skips, start, limit]):
        words = tf.convert_to_tensor(input_tensor, name="input_tensor")
        words.shape.assert_has_rank(1)
        if vocab_freq_table is not None:
            words = _kept(words, vocab_freq_table, vocab_min_count, vocab_subsampling, corpus_size, seed)
        tokens, labels = _pairs(words, min_skips, max_skips, start, limit, emit_self_as_target, seed)
        if batch_size is None or batch_size <= 0:
            return tokens, labels
        capacity = batch_capacity if batch_capacity is not None and batch_capacity > 0 else 100 * batch_size
        batched = tf.train.batch([tokens, labels], batch_size, capacity=capacity, enqueue_many=True)
        return batched[0], batched[1]


def _pairs(
    words: Any, min_skips: Any, max_skips: Any, start: Any, limit: Any, own: Any, seed: int | None
) -> tuple[Any, Any]:
    least, most, first, limit = (tf.convert_to_tensor(n, tf.int32) for n in (min_skips, max_skips, start, limit))
    checks = [
        tf.Assert((least >= 0) & (most >= 0), ["Both min_skips and max_skips must be >= 0."]),
        tf.Assert(least <= most, ["min_skips must be <= max_skips."]),
    ]
    with tf.control_dependencies(checks):
        count = tf.size(words)
    last = tf.where(limit < 0, count, tf.minimum(first + limit, count))
    words = words[first : tf.maximum(first, last)]
    count = tf.size(words)
    sizes = least + tf.random_uniform([count], 0, most - least + 1, dtype=tf.int32, seed=seed)
    moves = tf.range(-most, most + 1)[None]
    places = tf.range(count)[:, None]
    near = places + moves
    chosen = (tf.abs(moves) <= sizes[:, None]) & (near >= 0) & (near < count)
    chosen &= tf.not_equal(moves, 0) | tf.convert_to_tensor(own, tf.bool)
    rows = tf.where(chosen)
    tokens = tf.gather(words, rows[:, 0])
    labels = tf.gather(words, tf.gather_nd(near, rows))
    return tokens, labels


@public("contrib.text.skip_gram_sample_with_text_vocab")
def skip_gram_sample_with_text_vocab(
    input_tensor: Any,
    vocab_freq_file: str,
    vocab_token_index: int = 0,
    vocab_token_dtype: Any = tf.string,
    vocab_freq_index: int = 1,
    vocab_freq_dtype: Any = tf.float64,
    vocab_delimiter: str = ",",
    vocab_min_count: Any = 0,
    vocab_subsampling: float | None = None,
    corpus_size: Any = None,
    min_skips: Any = 1,
    max_skips: Any = 5,
    start: Any = 0,
    limit: Any = -1,
    emit_self_as_target: Any = False,
    batch_size: int | None = None,
    batch_capacity: int | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """:func:`skip_gram_sample` with frequencies in a file, a word on each line.

    Args:
        input_tensor: the words of a text, ``[n]``.
        vocab_freq_file: path of the file.
        vocab_token_index: column of the words.
        vocab_token_dtype: their dtype.
        vocab_freq_index: column of the frequencies.
        vocab_freq_dtype: their dtype.
        vocab_delimiter: between columns.
        vocab_min_count: leave out rarer words.
        vocab_subsampling: leave out a part of more frequent words.
        corpus_size: the sum of all frequencies; that of the file by default.
        min_skips: further arguments are those of :func:`skip_gram_sample`.
        max_skips: likewise.
        start: likewise.
        limit: likewise.
        emit_self_as_target: likewise.
        batch_size: likewise.
        batch_capacity: likewise.
        seed: likewise.
        name: likewise.

    Raises:
        ValueError: columns that are not there, negative frequencies, or a corpus smaller than they are together.
    """
    if vocab_token_index < 0 or vocab_freq_index < 0:
        raise _refused(
            f"vocab_token_index={vocab_token_index} and vocab_freq_index={vocab_freq_index} must both be >= 0.",
            "a negative column",
            "columns counted from 0",
            "vocab_token_index=0, vocab_freq_index=1",
        )
    if vocab_token_index == vocab_freq_index:
        raise _refused(
            f"vocab_token_index and vocab_freq_index should be different, but are both {vocab_token_index}.",
            "one column for both",
            "two columns",
            "vocab_token_index=0, vocab_freq_index=1",
        )
    dtype = tf.as_dtype(vocab_freq_dtype)
    total, lines = 0.0, 0
    with tf.gfile.GFile(vocab_freq_file, mode="r") as file:
        for row in csv.reader(file, delimiter=vocab_delimiter):
            if max(vocab_token_index, vocab_freq_index) >= len(row):
                raise _refused(
                    f"Row in vocab file only has {len(row)} columns, so vocab_token_index={vocab_token_index} or "
                    f"vocab_freq_index={vocab_freq_index} is out of bounds. Row content: {row}",
                    f"the line {row}",
                    "a line with both columns",
                    "another vocab_delimiter",
                )
            count = dtype.as_numpy_dtype(row[vocab_freq_index])
            if count < 0:
                raise _refused(
                    f"Row in vocab file has negative frequency of {count}. Row content: {row}",
                    f"the line {row}",
                    "frequencies of 0 or more",
                    "another vocab_freq_index",
                )
            total, lines = total + float(count), lines + 1
    if not corpus_size:
        corpus_size = total
    elif total - corpus_size > 1e-6:
        raise _refused(
            f"`corpus_size`={corpus_size} must be greater than or equal to the sum of all the frequency counts "
            f"({total}) of `vocab_freq_file` ({vocab_freq_file}).",
            f"corpus_size={corpus_size}",
            f"{total} or more",
            "corpus_size=None",
        )
    table = tf.contrib.lookup.HashTable(
        tf.contrib.lookup.TextFileInitializer(
            vocab_freq_file,
            vocab_token_dtype,
            vocab_token_index,
            dtype,
            vocab_freq_index,
            vocab_size=lines,
            delimiter=vocab_delimiter,
        ),
        default_value=-1,
    )
    return skip_gram_sample(
        input_tensor,
        min_skips,
        max_skips,
        start,
        limit,
        emit_self_as_target,
        table,
        vocab_min_count,
        vocab_subsampling,
        None if vocab_subsampling is None else corpus_size,
        batch_size,
        batch_capacity,
        seed,
        name,
    )
