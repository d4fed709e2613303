"""Staging areas: in order of arrival and under keys, with bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.ops.queues.public_staging import MapStagingArea

from .waiting import Waiting


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def test_first_in_first_out_looking_and_clearing() -> None:
    area = tf.contrib.staging.StagingArea([tf.int32, tf.string], shapes=[[], [1]])
    x = tf.placeholder(tf.int32, [])
    put = area.put([x, tf.constant(["text"])])
    number, text = area.get()
    assert (number.shape.as_list(), text.shape.as_list(), text.dtype) == ([], [1], tf.string)
    second, size, clear = area.peek(1)[0], area.size(), area.clear()
    with tf.Session() as session:
        for i in range(3):
            session.run(put, {x: i})
        assert session.run([second, size]) == [1, 3]
        assert session.run([number, text, size])[::2] == [0, 2]
        session.run(clear)
        assert session.run(size) == 0


def test_loading_beside_computing() -> None:
    area = tf.contrib.staging.StagingArea([tf.float32])
    x = tf.placeholder(tf.float32, [2])
    weight = tf.Variable([1.0, 1.0])
    put, (loaded,) = area.put([x]), area.get()
    loaded.set_shape([2])
    train = weight.assign_add(loaded)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(put, {x: [1, 1]})
        for i in range(2, 5):
            session.run([train, put], {x: [i, i]})
        assert session.run(weight).tolist() == [7.0, 7.0]


def test_dictionaries_and_one_name_for_two_areas() -> None:
    first = tf.contrib.staging.StagingArea([tf.int32, tf.float32], names=["a", "b"], shared_name="both")
    second = tf.contrib.staging.StagingArea([tf.int32, tf.float32], names=["a", "b"], shared_name="both")
    with tf.Session() as session:
        session.run(first.put({"b": tf.constant(0.5), "a": tf.constant(1)}))
        assert session.run(second.get()) == {"a": 1, "b": 0.5}


@pytest.mark.parametrize("bounds", [{"capacity": 2}, {"memory_limit": 8}])
def test_who_puts_in_waits_for_room(bounds: dict[str, int]) -> None:
    area = tf.contrib.staging.StagingArea([tf.int32], **bounds)
    put, (x,), size = area.put([tf.constant(7)]), area.get(), area.size()
    with tf.Session() as session:
        for _ in range(2):
            session.run(put)
        waiting = Waiting(session, put)
        assert waiting.waits
        assert session.run(x) == 7
        waiting.ended()
        assert session.run(size) == 2
        if "memory_limit" in bounds:
            with pytest.raises(tf.errors.ResourceExhaustedError, match=r"size of '12' bytes .* limit of '8'"):
                session.run(area.put([tf.constant([1, 2, 3])]))


def test_who_takes_out_or_looks_waits_and_is_cancelled() -> None:
    area = tf.contrib.staging.StagingArea([tf.int32])
    put, (x,), later = area.put([tf.constant(7)]), area.get(), area.peek(1)
    session = tf.Session()
    waiting = Waiting(session, x)
    assert waiting.waits
    session.run(put)
    assert waiting.ended() == 7
    with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        session.run(x, options=tf.RunOptions(timeout_in_ms=20))
    left = [Waiting(session, x), Waiting(session, later)]
    session.close()
    for waiting in left:
        with pytest.raises(tf.errors.CancelledError, match=r"[Cc]ancelled|closed"):
            waiting.ended()


def test_what_comes_out_has_the_dtypes_asked_for() -> None:
    with tf.Session() as session:
        session.run(build("Stage", [tf.constant(1)], shared_name="x"))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"dtypes \['int32'\] in the staging area"):
            session.run(build("Unstage", dtypes=["float"], shared_name="x"))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: tf.contrib.staging.StagingArea([tf.int32], shapes=[[], []]),
            "shapes must be the same length",
        ),
        (lambda: tf.contrib.staging.StagingArea([tf.int32], names=["a", "b"]), "names must be the same length"),
        (lambda: tf.contrib.staging.StagingArea([tf.int32], shared_name=3), "shared_name must be a string"),
        (lambda: tf.contrib.staging.StagingArea([tf.int32], capacity=-1), "capacity=-1"),
        (lambda: tf.contrib.staging.StagingArea([tf.int32]).put([1, 2]), "Unexpected number of inputs '2' vs '1'"),
        (lambda: tf.contrib.staging.StagingArea([tf.int32]).put([tf.constant(0.5)]), "Datatypes do not match"),
        (lambda: tf.contrib.staging.StagingArea([tf.int32]).put({"a": 1}), "must have names to enqueue a dictionary"),
        (lambda: tf.contrib.staging.StagingArea([tf.int32], names=["a"]).put([1]), "must enqueue a dictionary"),
        (lambda: tf.contrib.staging.StagingArea([tf.int32], names=["a"]).put({"b": 1}), "do not match names"),
        (lambda: MapStagingArea([tf.int32, tf.int32]).put(1, [1]), "Indices must be supplied"),
        (lambda: MapStagingArea([tf.int32, tf.int32]).put(1, [1], [0, 1]), "Number of indices '2' doesn't match"),
        (lambda: MapStagingArea([tf.int32]).get(1, []), "Empty indices"),
        (lambda: MapStagingArea([tf.int32]).get(1, ["a"]), "was not created with names"),
        (lambda: MapStagingArea([tf.int32], names=["a"]).get(1, ["b"]), "Named index 'b' not in"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


# ---------------------------------------------------------------------------------------------------------- under keys
@pytest.mark.parametrize("ordered", [False, True])
def test_by_key(ordered: bool) -> None:
    area = MapStagingArea([tf.int32, tf.float32], shapes=[[], [2]], ordered=ordered)
    key = tf.placeholder(tf.int64, [])
    x = tf.placeholder(tf.int32, [])
    put = area.put(key, [x, tf.fill([2], tf.cast(x, tf.float32))], indices=[0, 1])
    _, (number, row) = area.get(key)
    any_key, (any_number, _) = area.get()
    looked, size, clear = area.peek(key, [1]), area.size(), area.clear()
    with tf.Session() as session:
        for k in (5, 3, 9, 4):
            session.run(put, {key: k, x: k * 10})
        session.run(put, {key: 9, x: 0})  # there is one
        assert session.run(looked[0], {key: 9}).tolist() == [90.0, 90.0]
        given = session.run([number, row, size], {key: 4})
        assert (given[0], given[1].tolist(), given[2]) == (40, [40.0, 40.0], 3)
        keys = [session.run([any_key, any_number]) for _ in range(2)]
        assert all(value == 10 * k for k, value in keys)
        assert [k for k, _ in keys] == ([3, 5] if ordered else [5, 3])
        session.run(clear)
        assert session.run(size) == 0


@pytest.mark.parametrize("ordered", [False, True])
def test_tuples_come_and_go_in_parts(ordered: bool) -> None:
    area = MapStagingArea([tf.int32] * 3, names=["a", "b", "c"], ordered=ordered)
    size, incomplete = area.size(), area.incomplete_size()
    parts = [area.put(1, part) for part in ({"a": tf.constant(1)}, {"b": tf.constant(2), "c": tf.constant(3)})]
    with tf.Session() as session:
        session.run(parts[0])
        assert session.run([size, incomplete]) == [0, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="index '0' for key '1' was already initialized"):
            session.run(parts[0])
        session.run(parts[1])
        assert session.run([size, incomplete]) == [1, 0]
        assert session.run(area.get(1, ["b"])[1]) == {"b": 2}
        with pytest.raises(tf.errors.InvalidArgumentError, match="Tensor at index '1' for key '1' has already been"):
            session.run(area.get(1, ["b"])[1])
        assert session.run(size) == 1
        assert session.run(area.get(1, [0, 2])[1]) == {"a": 1, "c": 3}
        assert session.run(size) == 0


def test_a_key_is_waited_for_and_room_too() -> None:
    area = MapStagingArea([tf.int32], capacity=1)
    key = tf.placeholder(tf.int64, [])
    put, (_, (x,)) = area.put(key, [tf.constant(8)], [0]), area.get(key)
    with tf.Session() as session:
        session.run(put, {key: 1})
        waiting_put = Waiting(session, put, {key: 2})
        waiting_get = Waiting(session, x, {key: 2})
        assert waiting_put.waits
        assert waiting_get.waits
        assert session.run(x, {key: 1}) == 8
        waiting_put.ended()
        assert waiting_get.ended() == 8


def test_positions_are_checked() -> None:
    with tf.Session() as session:
        stage = {"dtypes": ["int32", "int32"], "shared_name": "m"}
        for positions, text in (
            ([1, 0], "not strictly ordered"),
            ([0, 2], "Index '2' for key '1' was out of bounds '2'"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(build("MapStage", np.int64(1), positions, [tf.constant(1), tf.constant(2)], **stage))
