"""Calls between processes of one machine, without gRPC."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import anabranch as tf
from anabranch.cluster import local_calls, transport
from anabranch.cluster.local_calls import LocalLinks, LocalListener
from tests.running_steps import until

pytestmark = pytest.mark.skipif(not local_calls.is_possible(), reason="there are no such sockets here")
TOKEN = b"a token for tests"


class Waiting:
    """Answers when it is let go, and notes whether its caller has gone before."""

    def __init__(self):
        self.begun, self.gone, self.free = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, message, context):
        context.add_callback(self.gone.set)
        self.begun.set()
        self.free.wait(60.0)
        return b"waited"


@pytest.fixture
def waiting():
    """What answers the method Wait."""
    return Waiting()


@pytest.fixture
def listener(waiting):
    """A task that answers Echo with the message, and Wait."""
    answers = {"Echo": lambda message, context: bytes(message), "Wait": waiting}
    started = LocalListener(answers, TOKEN)
    started.start()
    yield started
    waiting.free.set()
    started.stop()


@pytest.fixture
def links(listener):
    """The sockets of a caller."""
    made = LocalLinks(listener.name, ["Echo", "Wait"], TOKEN)
    yield made
    made.close()


def test_messages_of_any_size_come_back_by_one_socket(links):
    for size in (0, 1, 1000, local_calls._FIRST_READ, 5_000_000):
        message = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        answer = links.send("Echo", message).answer()
        assert bytes(answer) == message
        assert answer.readonly
    assert len(links._idle) == 1
    assert not links._used


def test_calls_that_overlap_have_sockets_of_their_own(links, waiting):
    slow = links.send("Wait", b"")
    assert bytes(links.send("Echo", b"meanwhile").answer()) == b"meanwhile"
    waiting.free.set()
    assert bytes(slow.answer()) == b"waited"
    assert len(links._idle) == 2


def test_a_call_that_is_given_up_is_heard_of_and_disturbs_no_other(links, waiting):
    call = links.send("Wait", b"")
    assert waiting.begun.wait(60.0)
    call.cancel()
    with pytest.raises(ConnectionError, match="has ended"):
        call.answer()
    assert waiting.gone.wait(60.0)
    answered = links.send("Echo", b"1")
    answered.answer()
    answered.cancel()  # too late: its socket is free for others
    assert bytes(links.send("Echo", b"2").answer()) == b"2"
    dropped = links.send("Echo", b"3")
    dropped.drop()
    assert not links._used


def test_a_message_that_is_not_taken_is_given_up(links, waiting):
    first = links.send("Wait", b"")
    assert waiting.begun.wait(60.0)
    with links._lock:
        links._used.discard(first._link)
        links._idle.append(first._link)  # the next call goes to a task that reads nothing
    with pytest.raises(TimeoutError, match="timed out"):
        links.send("Echo", bytes(20_000_000), 0.2)
    assert bytes(links.send("Echo", b"next", 60.0).answer()) == b"next"


def test_who_does_not_say_the_token_is_not_answered(listener):
    links = LocalLinks(listener.name, ["Echo"], b"another" + TOKEN[7:])
    call = links.send("Echo", b"1")
    problem = None
    if call is not None:  # refused after the message was sent, and not before
        with pytest.raises(OSError, match=r"has ended|reset") as problem:
            call.answer()
    assert call is None or problem is not None
    links.close()


def test_a_call_ends_when_its_task_stops_or_its_caller_closes(listener, links, waiting):
    call = links.send("Wait", b"")
    assert waiting.begun.wait(60.0)
    listener.stop()
    with pytest.raises(ConnectionError, match="has ended"):
        call.answer()
    until(lambda: links.send("Echo", b"") is None)


def test_pieces_that_wait_for_nobody_go_without_grpc(cluster, monkeypatch):
    workers, _ = cluster
    monkeypatch.setattr("anabranch.cluster.task.find_here", lambda address: None)
    called = []
    for name in ("call", "start"):
        way = getattr(transport.Connection, name)
        monkeypatch.setattr(
            transport.Connection,
            name,
            lambda self, method, *more, way=way: called.append(method) or way(self, method, *more),
        )
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        queue = tf.FIFOQueue(3, tf.float32)
        put, take = queue.enqueue(7.0), queue.dequeue()
    with tf.device("/job:ps/task:1"):
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(v + w * 3.0) == 4.0
        assert "Run" not in called
        session.run(put)
        assert session.run([take, v + w]) == [7.0, 2.0]  # both ways in one step
        session.run(put)
        assert session.run(take) == 7.0
        assert "Run" in called


CLUSTER_PROGRAM = """
import atexit, gc
atexit.register(lambda: print("frozen" if gc.get_freeze_count() else "searched"))  # called last
import anabranch as tf
from anabranch.cluster import task
task.find_here = lambda address: None
workers, servers = tf.test.create_local_cluster(num_workers=1, num_ps=1)
with tf.device("/job:ps/task:0"):
    v = tf.Variable(1.0)
with tf.Session(workers[0].target) as session:
    session.run(v.initializer)
    print(session.run(v))
"""


def test_a_task_ends_without_open_sockets_and_without_a_last_search():
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", CLUSTER_PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["1.0", "frozen"]
    assert "unclosed" not in ended.stderr
