"""Examples that are read by walking their bytes together: as by their messages, also where bytes are damaged."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.ops.parsing import example_walk, examples

FEATURES = {
    "one": tf.io.FixedLenFeature([], tf.int64, -5),
    "some": tf.io.VarLenFeature(tf.int64),
    "pair": tf.io.FixedLenFeature([2], tf.float32, [0.5, 1.5]),
    "text": tf.io.FixedLenFeature([], tf.string, "none"),
    "words": tf.io.VarLenFeature(tf.string),
    "rows": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
}
INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300))
EXAMPLE = st.fixed_dictionaries(
    {},
    optional={
        "one": st.lists(INTEGERS, min_size=1, max_size=1),
        "some": st.lists(INTEGERS, max_size=4),
        "pair": st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2),
        "text": st.lists(st.binary(max_size=300), min_size=1, max_size=1),
        "words": st.lists(st.binary(max_size=9), max_size=3),
        "rows": st.lists(st.floats(width=32, allow_nan=False), max_size=3),
        "other": st.lists(INTEGERS, max_size=2),
    },
)


def serialized(values):
    example = tf.train.Example()
    for key, items in values.items():
        feature = example.features.feature[key]
        kind = "bytes_list" if key in ("text", "words") else "float_list" if key in ("pair", "rows") else "int64_list"
        target = getattr(feature, kind)
        target.SetInParent()
        target.value.extend(items)
    return example.SerializeToString()


@pytest.fixture(scope="module")
def parse():
    """Parse a batch, by walking or by messages; values, or the class and the text of the error."""
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        batch = tf.placeholder(tf.string, [None])
        parsed = tf.io.parse_example(batch, FEATURES)

        def run(data, walks):
            walk = examples.walk
            try:
                examples.walk = walk if walks else lambda data: None
                found = session.run(parsed, {batch: np.array(data, object)})
            except tf.errors.OpError as problem:
                return type(problem), problem.message
            finally:
                examples.walk = walk
            return [(np.asarray(part).dtype, repr(np.asarray(part).tolist())) for part in tf.nest.flatten(found)]

        yield run


@settings(max_examples=20, deadline=None)
@given(st.lists(EXAMPLE, min_size=example_walk.FEWEST, max_size=24))
def test_random_examples_are_read_as_by_their_messages(parse, batch):
    data = [serialized(values) for values in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example_walk, "_are_mixed", lambda data: False)
        assert example_walk.walk(data) is not None or not all(data)
        assert parse(data, True) == parse(data, False)


def in_order(keys):
    entries = b""
    for key in keys:
        entry = tf.train.Example(
            features=tf.train.Features(feature={key: tf.train.Feature(int64_list=tf.train.Int64List(value=[3]))})
        )
        entries += entry.features.SerializeToString()
    return b"\x0a" + bytes([len(entries)]) + entries


def test_a_few_examples_whose_keys_come_in_any_order_are_not_walked(parse):
    orders = list(itertools.permutations(["a", "b", "c", "d"]))
    mixed, same = [in_order(keys) for keys in orders], [in_order("abcd")] * len(orders)
    assert example_walk.walk(same) is not None
    assert example_walk.walk(mixed) is None
    assert example_walk.walk(mixed * 40) is not None
    assert parse(mixed, True) == parse(mixed, False)
    for damaged in ([b""] * 24, [b"\x0a"] * 24, [b"\x0a\xff"] * 24, [b"\x12\x01\x0a"] * 24):
        assert not example_walk._are_mixed(damaged)


@settings(max_examples=30, deadline=None)
@given(st.lists(EXAMPLE, min_size=2, max_size=4), st.integers(0, 2**32))
def test_damaged_examples_give_the_same_values_or_errors(parse, batch, seed):
    chance = random.Random(seed)
    data = [bytearray(serialized(batch[i % len(batch)])) for i in range(example_walk.FEWEST)]
    for _ in range(chance.randrange(1, 4)):
        one = data[chance.randrange(len(data))]
        if one:
            if chance.random() < 0.3:
                del one[chance.randrange(len(one)) :]
            else:
                one[chance.randrange(len(one))] = chance.randrange(256)
    data = [bytes(one) for one in data]
    walked, messages = parse(data, True), parse(data, False)
    # What is wrong in a feature that nobody asks for is seen by messages alone.
    assert walked == messages or "Could not parse example input" in messages[1]


def test_a_usual_batch_is_not_parsed_into_messages(parse, monkeypatch):
    values = [
        {"one": [i * 1000], "pair": [i, 2.0], "text": [b"x" * i], "words": [b"a"], "some": [i]} for i in range(64)
    ]
    data = [serialized(value) for value in values]
    expected = parse(data, False)

    def refuse(*_):
        raise AssertionError("messages were parsed")

    monkeypatch.setattr(examples, "parsed", refuse)
    assert parse(data, True) == expected
