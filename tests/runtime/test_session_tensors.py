"""Tensors that stay with a session (GetSessionHandle, GetSessionTensor, DeleteSessionTensor): fed, read, deleted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.state.session_tensors import SessionTensors


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def kept(session: Any) -> int:
    """How many tensors a session keeps."""
    return sum(len(one) for one in session._manager._objects.values() if isinstance(one, SessionTensors))


def test_a_handle_is_read_and_fed_in_three_ways() -> None:
    x = tf.constant([1.0, 2.0]) * 3
    y = x + 1
    with tf.Session() as session:
        handle, value = session.run([tf.get_session_handle(x), y])
        assert value.tolist() == [4.0, 7.0]
        assert handle.eval().tolist() == [3.0, 6.0]
        holder, read = tf.get_session_tensor(handle.handle, tf.float32)
        assert session.run(read * 2, {holder: handle.handle}).tolist() == [6.0, 12.0]
        assert session.run(y, {x: handle}).tolist() == [4.0, 7.0]
        assert session.run({"same": x, "next": y}, {x: handle, y: 0 * handle.eval()})["same"].tolist() == [3.0, 6.0]


def test_a_loop_over_handles_keeps_few_of_them() -> None:
    with tf.Session() as session:
        handle = session.run(tf.get_session_handle(tf.constant(0)))
        holder, x = tf.get_session_tensor(handle.handle, tf.int32)
        following = tf.get_session_handle(x + 1)
        for _ in range(30):
            handle = session.run(following, {holder: handle.handle})
        assert handle.eval() == 30
        assert kept(session) <= 2


def test_handles_are_deleted_or_given_away() -> None:
    with tf.Session() as session:
        op = tf.get_session_handle(tf.constant([1, 2]))
        handle = session.run(op)
        handle.delete()
        assert kept(session) == 0
        with pytest.raises(TypeError, match="may have already been deleted"):
            handle.eval()
        raw = session.run(op).get_raw_handle()
        gc.collect()
        session.run(op)
        holder, read = tf.get_session_tensor(raw, tf.int32)
        assert session.run(read, {holder: raw}).tolist() == [1, 2]
        holder, delete = tf.delete_session_tensor(raw)
        session.run(delete, {holder: raw})
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
            session.run(delete, {holder: raw})


def test_what_is_kept_does_not_change_and_has_its_dtype() -> None:
    v = tf.Variable(12.0)
    after = v + 5.0
    with tf.Session() as session:
        session.run(v.initializer)
        handle = session.run(tf.get_session_handle(v.read_value()))
        session.run(tf.assign_add(v, 2.0))
        assert session.run(after, {v: handle}) == 17.0
        holder, wrong = tf.get_session_tensor(handle.handle, tf.int64)
        with pytest.raises(tf.errors.InvalidArgumentError, match="asked for as int64"):
            session.run(wrong, {holder: handle.handle})
    with pytest.raises(TypeError, match="`data` must be of type Tensor"):
        tf.get_session_handle(np.ones(3))


def test_an_imported_graph_gives_handles_too() -> None:
    tf.get_session_handle(tf.constant(3), name="h")
    graph_def = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        (h,) = tf.import_graph_def(graph_def, return_elements=["h:0"], name="")
        with tf.Session() as session:
            assert session.run(h).eval() == 3
