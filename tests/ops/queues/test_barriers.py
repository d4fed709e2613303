"""Barriers: components of values by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.ops.queues.public_barriers import Barrier

from .waiting import Waiting

FIRST = -(2**63)


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def insert(barrier: Barrier, component: int, keys: list[str], values: Any) -> tf.Operation:
    return barrier.insert_many(component, keys, values)


def test_complete_values_come_in_the_order_of_their_keys() -> None:
    barrier = Barrier((tf.float32, tf.string), shapes=((2,), ()), name="b")
    index, key, (row, word) = barrier.take_many(2)
    assert [part.shape.as_list() for part in (index, key, row, word)] == [[2], [2], [2, 2], [2]]
    ready, incomplete = barrier.ready_size(), barrier.incomplete_size()
    with tf.Session() as session:
        session.run(insert(barrier, 0, ["k1", "k2"], [[1.0, 1.0], [2.0, 2.0]]))
        session.run(insert(barrier, 1, ["k3"], ["three"]))
        assert session.run([ready, incomplete]) == [0, 3]
        session.run(insert(barrier, 0, ["k3"], [[3.0, 3.0]]))
        session.run(insert(barrier, 1, ["k2"], ["two"]))
        assert session.run([ready, incomplete]) == [2, 1]
        given = session.run([index, key, row, word])
    assert given[0].tolist() == [FIRST, FIRST + 1]
    assert given[1].tolist() == [b"k2", b"k3"]
    assert given[2].tolist() == [[2.0, 2.0], [3.0, 3.0]]
    assert given[3].tolist() == [b"two", b"three"]


def test_who_takes_waits_until_there_is_enough_and_is_cancelled() -> None:
    barrier = Barrier(tf.int32, shapes=[()])
    keys = tf.placeholder(tf.string, [None])
    put = barrier.insert_many(0, keys, tf.cast(tf.string_to_number(keys), tf.int32))
    values = barrier.take_many(3)[2][0]
    session = tf.Session()
    waiting = Waiting(session, values)
    session.run(put, {keys: ["5", "4"]})
    assert waiting.waits
    session.run(put, {keys: ["3"]})
    assert waiting.ended().tolist() == [5, 4, 3]
    waiting = Waiting(session, values)
    session.close()
    with pytest.raises(tf.errors.CancelledError, match="Dequeue operation was cancelled"):
        waiting.ended()


def test_a_closed_barrier_completes_what_has_begun() -> None:
    barrier = Barrier((tf.int32, tf.int32), shapes=((), ()))
    take, small = barrier.take_many(2), barrier.take_many(5, allow_small_batch=True)
    with tf.Session() as session:
        session.run(insert(barrier, 0, ["a", "b", "c"], [1, 2, 3]))
        session.run(barrier.close())
        with pytest.raises(tf.errors.CancelledError, match=r"attempted to insert a brand new key: d"):
            session.run(insert(barrier, 0, ["d"], [4]))
        session.run(insert(barrier, 1, ["a", "b"], [10, 20]))
        assert session.run(take)[1].tolist() == [b"a", b"b"]
        with pytest.raises(tf.errors.OutOfRangeError, match=r"is closed and has insufficient elements \(requested 2"):
            session.run(take)
        session.run(insert(barrier, 1, ["c"], [30]))
        assert session.run(small)[1].tolist() == [b"c"]
        with pytest.raises(tf.errors.OutOfRangeError, match="insufficient elements"):
            session.run(small)
        with pytest.raises(tf.errors.CancelledError, match="is already closed"):
            session.run(barrier.close())
        session.run(barrier.close(cancel_pending_enqueues=True))
        with pytest.raises(tf.errors.CancelledError, match="Pending enqueues cancelled: 1"):
            session.run(insert(barrier, 1, ["c"], [0]))


def test_closing_ends_who_waits_once_nothing_more_can_come() -> None:
    barrier = Barrier((tf.int32, tf.int32), shapes=((), ()))
    take = barrier.take_many(2, allow_small_batch=True)
    with tf.Session() as session:
        session.run(insert(barrier, 0, ["a"], [1]))
        waiting = Waiting(session, take)
        session.run(barrier.close())
        assert waiting.waits
        session.run(insert(barrier, 1, ["a"], [1]))
        assert waiting.ended()[1].tolist() == [b"a"]
    other = Barrier((tf.int32, tf.int32), shapes=((), ()))
    with tf.Session() as session:
        session.run(insert(other, 0, ["a"], [1]))
        waiting = Waiting(session, other.take_many(1))
        session.run(other.close(cancel_pending_enqueues=True))
        with pytest.raises(tf.errors.OutOfRangeError, match="insufficient elements"):
            waiting.ended()
        assert session.run(other.incomplete_size()) == 0


def test_who_waits_for_more_than_there_is_gets_what_there_is_when_no_more_keys_come() -> None:
    barrier = Barrier((tf.int32, tf.int32), shapes=((), ()))
    take = barrier.take_many(2, allow_small_batch=True)
    with tf.Session() as session:
        session.run(insert(barrier, 0, ["a", "b"], [1, 2]))
        session.run(insert(barrier, 1, ["a"], [1]))
        waiting = Waiting(session, take)
        assert waiting.waits
        session.run(barrier.close())
        assert waiting.ended()[1].tolist() == [b"a"], "b may be completed by who waits"


@pytest.mark.parametrize(
    ("component", "keys", "values", "text"),
    [
        (0, ["a"], [0.5], "Type mismatch in component 0. Expected int32"),
        (2, ["a"], [1], "component ID is out of range 2"),
        (0, ["a", "b"], [1], "Expected as many values as keys"),
        (0, ["a", "a"], [1, 2], "Key a already has a value for component 0 in barrier"),
        (1, ["a"], np.zeros([1, 0], np.int32), "Tensors with no elements are not supported"),
    ],
)
def test_insertions_that_do_not_fit(component: int, keys: list[str], values: Any, text: str) -> None:
    barrier = Barrier((tf.int32, tf.int32))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(barrier.insert_many(component, keys, values))


def test_what_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="Empty tensors are not supported, but received shape"):
        Barrier(tf.int32, shapes=[(0, 2)])
    barrier = Barrier(tf.int32, shapes=[()])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="Timeout not supported yet"):
        session.run(barrier.take_many(1, timeout=10))


def test_two_makers_by_one_name_agree() -> None:
    first = Barrier(tf.int32, shapes=[()], shared_name="one")
    others = [(Barrier(tf.int64, shapes=[()], shared_name="one"), "component types")]
    others += [(Barrier(tf.int32, shapes=[(2,)], shared_name="one"), "component shapes")]
    with tf.Session() as session:
        session.run(insert(first, 0, ["a"], [1]))
        for other, text in others:
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(other.ready_size())
        again = build("BarrierReadySize", Barrier(tf.int32, shapes=[()], shared_name="one").barrier_ref)
        assert session.run(again) == 1
