"""String attributes that are not UTF-8, as graphs of other programs may have them."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.core.graph.build import build


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_separators_of_any_bytes(tier):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        parts = [tf.constant("a"), tf.constant("b")]
        assert session.run(build("StringJoin", parts, separator=b"\xff")) == b"a\xffb"
        assert session.run(build("ReduceJoin", tf.stack(parts), 0, separator=b"\xff")) == b"a\xffb"
        fields = build("DecodeCSV", tf.constant(b"1\xff2"), [tf.constant([0]), tf.constant([0])], field_delim=b"\xff")
        assert session.run(fields) == [1, 2]
        missing = build("DecodeCSV", tf.constant(b"\xfe,2"), [tf.constant([7]), tf.constant([0])], na_value=b"\xfe")
        assert session.run(missing) == [7, 2]


def test_strings_of_segments():
    """What TensorFlow 1.15.5 gives."""
    with tf.Graph().as_default(), tf.Session() as session:
        join = tf.strings.unsorted_segment_join
        assert session.run(join(list("abcd"), [1, 0, 1, 3], 4, ":")).tolist() == [b"b", b"a:c", b"", b"d"]
        rows = [["a", "b"], ["c", "d"]]
        assert session.run(join(rows, [1, 0], 2)).tolist() == [[b"c", b"d"], [b"a", b"b"]]
        assert session.run(join(rows, [[1, 0], [1, 1]], 3)).tolist() == [b"b", b"acd", b""]
        for segments in ([1, 0, 5, 3], [-1, 0, 1, 1]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="segment"):
                session.run(join(list("abcd"), segments, 4))
