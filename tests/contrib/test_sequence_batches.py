"""`tf.contrib.training.SequenceQueueingStateSaver`: segments of sequences, and the state between them."""

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


def test_segments_of_a_sequence_come_one_after_the_other_with_their_state() -> None:
    n = tf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    length = n + 2
    steps = tf.reshape(tf.cast(tf.range(2 * length), tf.float32), [-1, 2])
    places = tf.cast(tf.stack([tf.range(length), tf.zeros_like(tf.range(length))], 1), tf.int64)
    rows = tf.SparseTensor(places, tf.range(length), tf.cast(tf.stack([length, 3]), tf.int64))
    own = tf.SparseTensor([[1]], tf.stack([n]), [4])
    batch = tf.contrib.training.batch_sequences_with_states(
        tf.as_string(n),
        {"x": steps, "rows": rows},
        {"n": n, "own": own},
        length,
        {"sum": tf.zeros([2])},
        2,
        2,
        num_threads=2,
        capacity=3,
    )
    total = batch.state("sum") + tf.reduce_sum(batch.sequences["x"], 1)
    save = batch.save_state("sum", total)
    assert batch.sequences["x"].shape.as_list() == [None, 2, 2]
    parts = {
        "key": batch.key,
        "next": batch.next_key,
        "length": batch.length,
        "n": batch.context["n"],
        "total": total,
        "rows": batch.sequences["rows"],
        "own": batch.context["own"],
        "save": save,
    }
    coordinator = tf.train.Coordinator()
    seen: dict[bytes, list[float]] = {}
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        threads = tf.train.start_queue_runners(session, coordinator)
        given: list[dict[str, Any]] = []
        try:
            while True:
                given.append(session.run(parts))
        except tf.errors.OutOfRangeError:
            coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    order: list[bytes] = []
    for step in given:
        order += step["key"].tolist()
        assert step["own"].values.tolist() == step["n"].tolist()
        assert step["rows"].dense_shape.tolist() == [len(step["key"]), 2, 3]
        assert len(step["rows"].values) == sum(step["length"])
        for following, total_of_one in zip(step["next"].tolist(), step["total"].tolist(), strict=True):
            seen[following] = total_of_one
    assert sorted(order) == sorted(
        b"%05d_of_%05d:%d" % (i, (n + 3) // 2, n) for n in range(4) for i in range((n + 3) // 2)
    )
    for n in range(4):
        assert seen[b"STOP:%d" % n] == [float(sum(range(0, 2 * n + 4, 2))), float(sum(range(1, 2 * n + 4, 2)))]
        own_keys = [key for key in order if key.endswith(b":%d" % n)]
        assert own_keys == sorted(own_keys)


def saver(**changes: Any) -> Any:
    given: dict[str, Any] = {
        "batch_size": 2,
        "num_unroll": 2,
        "input_length": tf.constant(4),
        "input_key": tf.constant("key"),
        "input_sequences": {"x": tf.zeros([4, 1])},
        "input_context": {},
        "initial_states": {"s": tf.zeros([1])},
    }
    return tf.contrib.training.SequenceQueueingStateSaver(**{**given, **changes})


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"capacity": 1}, ValueError, "capacity 1 needs to be >= batch_size 2"),
    ({"input_sequences": {}}, ValueError, "must have at least one sequence tensor"),
    ({"input_sequences": [1]}, TypeError, "sequences must be a dict"),
    ({"input_sequences": {"a:b": [1]}}, ValueError, "name may not have a colon: 'a:b'"),
    ({"input_context": {1: [1]}}, TypeError, "context name must be a string: 1"),
    ({"initial_states": {}}, ValueError, "initial_states may not be empty"),
    ({"initial_states": [1]}, TypeError, "initial_states must be a dict"),
    ({"input_length": [4]}, ValueError, "Rank check failed"),
    ({"input_length": 4.0}, TypeError, "length dtype must be int32"),
    ({"input_key": 4}, TypeError, "key dtype must be string"),
]


@pytest.mark.parametrize(("changes", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_does_not_fit_is_refused(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        saver(**changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_unroll": 3, "input_sequences": {"x": np.zeros([4, 1])}}, "Consider setting pad=True"),
        ({"input_length": 5}, "Input length should be <= than length from sequences"),
        (
            {"input_length": 2, "input_sequences": {"x": [1, 2], "y": [1, 2, 3, 4]}},
            "Dimension 0 of tensor labeled sorted_sequences_y should be: 2",
        ),
    ],
)
def test_lengths_are_checked_when_a_sequence_goes_in(changes: dict[str, Any], text: str) -> None:
    for name, value in changes.get("input_sequences", {}).items():
        value = np.array(value, np.float32)
        changes["input_sequences"][name] = tf.placeholder_with_default(value, [None, *value.shape[1:]])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=text) as problem:
        session.run(saver(**changes).prefetch_op)
    assert "kept" not in str(problem.value), "nothing is put in of a sequence that does not fit"


def test_sequences_under_way_are_bounded_and_closing_lets_them_end() -> None:
    key = tf.placeholder(tf.string, [])
    state_saver = saver(input_key=key, capacity=2, allow_small_batch=True)
    batch = state_saver.next_batch
    save = batch.save_state("s", batch.state("s") + 1.0)
    with pytest.raises(KeyError, match="state was not declared: other"):
        batch.save_state("other", [0.0])
    with pytest.raises(ValueError, match=r"Rank check failed for .*convert_s:0"):
        batch.save_state("s", tf.ones([1, 1, 1]))
    given = tf.placeholder(tf.float32)
    wrong = batch.save_state("s", given)
    with tf.Session() as session:
        for name in ("a", "b"):
            session.run(state_saver.prefetch_op, {key: name})
        with pytest.raises(tf.errors.InvalidArgumentError, match="convert_s:0 should be: 2, shape received"):
            session.run(wrong, {given: [1.0]})
    with tf.Session() as session:
        for name in ("a", "b"):
            session.run(state_saver.prefetch_op, {key: name})
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
            session.run(state_saver.prefetch_op, {key: "c"}, options=tf.RunOptions(timeout_in_ms=50))
        session.run(state_saver.close())
        for number in range(2):
            given = session.run([batch.sequence, batch.state("s"), batch.insertion_index, batch.total_length, save])
            assert given[0].tolist() == [number, number]
            assert given[1].tolist() == [[number], [number]]
            assert given[3].tolist() == [4, 4]
        with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient elements"):
            session.run(batch.key)
