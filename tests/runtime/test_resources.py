"""Owners of resources: what is made while others want it, and what a handle says."""

from __future__ import annotations

import threading

import pytest

import anabranch as tf
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import ResourceHandle

HANDLE, OTHER = ResourceHandle("queue", "", "slow"), ResourceHandle("queue", "", "quick")


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    return thread, results


def test_a_slow_object_keeps_only_those_waiting_who_want_it():
    manager = ResourceManager(0)
    begun, go_on, made = threading.Event(), threading.Event(), []

    def create():
        begun.set()
        assert go_on.wait(20)
        made.append(object())
        return made[-1]

    first, one = in_thread(lambda: manager.object(HANDLE, create))
    assert begun.wait(20)
    second, two = in_thread(lambda: manager.object(HANDLE, create))
    assert manager.object(OTHER, lambda: "at once") == "at once"
    assert manager.slots() == []
    go_on.set()
    first.join(20)
    second.join(20)
    assert one == two == made
    assert len(made) == 1


def test_an_object_that_cannot_be_made_is_tried_again():
    manager = ResourceManager(0)

    def fail():
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        manager.object(HANDLE, fail)
    assert manager.object(HANDLE, lambda: 1) == 1


def test_an_object_that_was_being_made_when_all_were_cleared_is_shut_down():
    manager = ResourceManager(0)
    shut_down = []

    class Channel:
        def shutdown(self):
            shut_down.append(self)

    def create():
        if not shut_down and not created:
            manager.clear()
        created.append(Channel())
        return created[-1]

    created = []
    current = manager.object(HANDLE, create)
    assert shut_down == created[:1]
    assert current is created[1]
    assert manager.object(HANDLE, create) is current


def test_a_handle_is_known_by_name_and_says_where_it_is():
    there = ResourceHandle("variable", "", "w", "/job:ps/replica:0/task:1/device:CPU:0")
    assert there == ResourceHandle("variable", "", "w")
    assert hash(there) == hash(ResourceHandle("variable", "", "w"))
    assert there.task == "/job:ps/replica:0/task:1"
    assert ResourceHandle("variable", "", "w").task == ""


def test_handles_of_a_session_name_its_task():
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(1, [tf.float32])
        handle = session.run(queue.queue_ref)
    assert handle.task == "/job:localhost/replica:0/task:0"
