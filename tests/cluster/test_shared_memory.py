"""Large values between processes of one machine go by memory that both see."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest

import anabranch as tf
from anabranch.cluster import shared_memory, wire
from anabranch.cluster.shared_memory import LEAST, Exchange, Shown
from anabranch.core.values import spare_arrays

pytestmark = pytest.mark.skipif(shared_memory.shown() is None, reason="there is no such memory here")


@pytest.fixture
def sides():
    """Both sides of a session; of one process, which finds its own memory as another would."""
    pair = Exchange(os.getpid()), Exchange(os.getpid())
    yield pair
    for side in pair:
        side.close()


def passed(sender, receiver, *values):
    """What the receiver has of values, and the length of the message."""
    message = sender.encode({"run": 1}, values)
    header, encoded = wire.decode(message)
    decoded = receiver.decoded(header, encoded)
    assert header == {"run": 1}
    return decoded, len(message)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex128", tf.bfloat16.as_numpy_dtype])
def test_a_large_array_arrives_as_it_was_in_a_short_message(sides, dtype):
    array = (np.arange(2 * LEAST) % 7).reshape(2, -1).astype(dtype)
    small = np.arange(3)
    (large, other, text), length = passed(*sides, array, small, np.array([b"a", b"b"], object))
    assert length < 1000
    assert large.dtype == array.dtype
    np.testing.assert_array_equal(large, array)
    assert not large.flags.writeable
    assert large.ctypes.data % 64 == 0  # programs take it as it is
    np.testing.assert_array_equal(other, small)
    assert text.tolist() == [b"a", b"b"]


def test_parts_of_arrays_arrive_too(sides):
    array = np.arange(LEAST, dtype=np.float64).reshape(64, -1)
    for part in (array[1:], array[:, ::2], array.T, array[::-1]):
        (received,), _ = passed(*sides, part)
        np.testing.assert_array_equal(received, part)


def test_what_stands_in_a_segment_is_sent_without_a_copy_and_its_memory_is_taken_up_again(sides):
    sender, receiver = sides
    with spare_arrays.copies_to(sender.empty):
        copied = spare_arrays.copy(np.full(LEAST, 3.0))
    address = copied.ctypes.data
    (received,), _ = passed(sender, receiver, copied)
    copied[0] = 4.0
    assert received[0] == 4.0
    del copied
    held = received[5:]
    del received
    passed(receiver, sender)  # with which it would say that the array is gone
    other = sender.empty([LEAST], np.float64)
    assert other.ctypes.data != address
    assert held[0] == 3.0
    del held
    passed(receiver, sender)
    again = sender.empty([LEAST], np.float64)
    assert again.ctypes.data == address
    again[...] = 5.0
    (received,), _ = passed(sender, receiver, again)
    assert received.sum() == 5.0 * LEAST


def test_free_segments_are_bounded_and_the_other_side_lets_go_of_them(sides, monkeypatch):
    monkeypatch.setattr(shared_memory, "MOST_KEPT", 3 * LEAST)
    sender, receiver = sides
    for size in range(1, 9):
        (received,), _ = passed(sender, receiver, np.ones(size * LEAST, np.uint8))
        del received
        passed(receiver, sender)
    passed(sender, receiver)
    assert sum(segment.size for segment in sender._segments) <= (3 + 8 + 7) * LEAST
    assert receiver._mapped.keys() == {segment.number for segment in sender._segments}


def test_a_receiver_takes_no_segment_for_that_of_an_exchange_before(sides):
    sender, receiver = sides
    (before,), _ = passed(sender, receiver, np.full(LEAST, 1, np.int8))
    renewed = Exchange(os.getpid())
    (after,), _ = passed(renewed, receiver, np.full(LEAST, 2, np.int8))
    assert (before[0], after[0]) == (1, 2)
    renewed.close()


def test_segments_of_a_call_that_failed_are_given_up_on_both_sides(sides):
    sender, receiver = sides
    passed(sender, receiver, np.zeros(LEAST, np.int8))  # mapped by the receiver, whose answer does not come
    (number,) = receiver._mapped
    sender.abandon()
    assert not sender._segments
    (again,), _ = passed(sender, receiver, np.ones(LEAST, np.int8))
    assert again[0] == 1
    assert number not in receiver._mapped


def test_a_process_that_cannot_be_read_shares_nothing():
    own = shared_memory.shown()
    assert own.is_seen()
    assert not own._replace(secret="00" * 16).is_seen()
    assert not Shown(2**22 + 1, own.descriptor, own.secret).is_seen()
    gone = Exchange(2**22 + 1)
    sender = Exchange(os.getpid())
    with pytest.raises(tf.errors.UnavailableError, match="a value in the memory of process"):
        passed(sender, gone, np.ones(LEAST, np.uint8))
    size = 4 * mmap.PAGESIZE  # more than the memory that is shown has
    wrong = wire.Elsewhere(np.dtype(np.uint8), (size,), 1, own.descriptor, size)
    with pytest.raises(tf.errors.UnavailableError, match="which cannot be read"):
        sender.decoded({}, [wrong])


def test_a_step_on_a_thread_of_its_own_copies_to_where_its_caller_has_large_values(sides):
    sender, _ = sides
    value = tf.constant(np.ones(LEAST, np.uint8))  # which is not the caller's without a copy
    with tf.Session() as session, spare_arrays.copies_to(sender.empty):
        fetched = session.run(value, options=tf.RunOptions(timeout_in_ms=60_000))
    assert sender._segment_of(fetched) is not None


def test_steps_send_large_values_by_memory_and_what_was_fetched_is_the_callers_own(cluster, monkeypatch):
    monkeypatch.setattr("anabranch.cluster.task.find_here", lambda address: None)
    sent = []
    encode = wire.encode

    def noted(header, values=()):
        message = encode(header, values)
        sent.append(len(message))
        return message

    monkeypatch.setattr(wire, "encode", noted)
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [LEAST], initializer=tf.zeros_initializer())
        pushed = tf.placeholder(tf.float32, [LEAST])
        add = v.assign_add(pushed)
    with tf.device("/job:worker/task:1"):
        most = tf.reduce_max(v)
    values = np.arange(LEAST, dtype="f")
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        session.run(add.op, {pushed: values})
        first = session.run(v)
        np.testing.assert_array_equal(first, values)
        first[0] = 7.0
        for _ in range(3):
            session.run(add.op, {pushed: np.ones(LEAST, "f")})
        assert session.run(most) == LEAST + 2
        np.testing.assert_array_equal(session.run(v), values + 3.0)
        np.testing.assert_array_equal(first[1:], values[1:])
    assert max(sent) < LEAST
