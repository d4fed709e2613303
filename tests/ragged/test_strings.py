"""Strings cut into pieces: what TensorFlow 1.15.5 gives for the same strings, dense and ragged, of several ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

MATRIX = [["a b", "c"], ["", "d  e"]]
VECTOR = ["a b", "", "héé x"]
ROWS = [["a bc", "d"], [], ["hé w"]]


def _values(make: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        results = make()
        together = isinstance(results, tuple)
        values = session.run(list(results) if together else [results])
        lists = [value.to_list() if hasattr(value, "to_list") else np.asarray(value).tolist() for value in values]
        return lists if together else lists[0]


@pytest.mark.parametrize(
    ("strings", "words"),
    [
        (MATRIX, [[[b"a", b"b"], [b"c"]], [[], [b"d", b"e"]]]),
        (VECTOR, [[b"a", b"b"], [], ["héé".encode(), b"x"]]),
        ("hé y", ["hé".encode(), b"y"]),
        (ROWS, [[[b"a", b"bc"], [b"d"]], [], [["hé".encode(), b"w"]]]),
    ],
)
def test_words(strings: Any, words: Any) -> None:
    given = (lambda: tf.ragged.constant(strings)) if strings is ROWS else (lambda: tf.constant(strings))
    assert _values(lambda: tf.strings.split(given(), result_type="RaggedTensor")) == words
    assert _values(lambda: tf.compat.v2.strings.split(given())) == words
    if strings is VECTOR:
        assert _values(lambda: tf.string_split(given(), result_type="RaggedTensor")) == words


def test_bytes_and_characters() -> None:
    assert _values(lambda: tf.strings.bytes_split(VECTOR)) == [
        [b"a", b" ", b"b"],
        [],
        [b"h", b"\xc3", b"\xa9", b"\xc3", b"\xa9", b" ", b"x"],
    ]
    assert _values(lambda: tf.strings.unicode_decode(MATRIX, "UTF-8")) == [
        [[97, 32, 98], [99]],
        [[], [100, 32, 32, 101]],
    ]
    codes, starts = _values(lambda: tf.strings.unicode_decode_with_offsets(VECTOR, "UTF-8"))
    assert (codes, starts) == ([[97, 32, 98], [], [104, 233, 233, 32, 120]], [[0, 1, 2], [], [0, 1, 3, 5, 6]])
    characters, starts = _values(lambda: tf.strings.unicode_split_with_offsets("hé", "UTF-8"))
    assert (characters, starts) == ([b"h", "é".encode()], [0, 1])
    assert _values(lambda: tf.strings.unicode_split(tf.ragged.constant(ROWS), "UTF-8"))[2] == [
        [b"h", "é".encode(), b" ", b"w"]
    ]
    assert _values(lambda: tf.strings.unicode_decode([b"a\xff"], "UTF-8", replacement_char=33)) == [[97, 33]]
    with pytest.raises(ValueError, match="statically-known rank"):
        _values(lambda: tf.strings.unicode_split(tf.placeholder(tf.string), "UTF-8"))


@pytest.mark.parametrize(
    ("codes", "strings"),
    [
        ([72, 105], b"Hi"),
        ([[72, 105], [33, 0x1F600]], [b"Hi", "!😀".encode()]),
        ([[[72]], [[73]]], [[b"H"], [b"I"]]),
    ],
)
def test_code_points_become_strings(codes: Any, strings: Any) -> None:
    assert _values(lambda: tf.strings.unicode_encode(codes, "UTF-8")) == strings


def test_ragged_code_points_become_strings() -> None:
    rows = [[[72], [73]], [], [[105, 233]]]
    encoded = _values(lambda: tf.strings.unicode_encode(tf.ragged.constant(rows), "UTF-16-BE"))
    assert encoded == [[b"\0H", b"\0I"], [], [b"\0i\0\xe9"]]
    with pytest.raises(ValueError, match="rank must be at least 1"):
        _values(lambda: tf.strings.unicode_encode(72, "UTF-8"))


def test_groups_of_words() -> None:
    words = [["a", "b", "c"], ["d", "e", "f"]]
    assert _values(lambda: tf.strings.ngrams(words, 2)) == [[b"a b", b"b c"], [b"d e", b"e f"]]
    assert _values(lambda: tf.strings.ngrams(words[0], [1, 3], "|")) == [b"a", b"b", b"c", b"a|b|c"]
    padded = _values(lambda: tf.strings.ngrams(tf.ragged.constant([["a"], ["b", "c"]]), 2, "|", ("<", ">")))
    assert padded == [[b"<|a", b"a|>"], [b"<|b", b"b|c", b"c|>"]]
    with pytest.raises(ValueError, match="greater than 0"):
        tf.strings.ngrams(words, 0)
    with pytest.raises(ValueError, match="pad_values must be provided"):
        tf.strings.ngrams(words, 2, padding_width=1)
