"""What goes from task to task, and what stays at one between the pieces of a step."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import anabranch as tf
from anabranch.cluster import task as tasks
from anabranch.cluster import wire
from anabranch.cluster.deliveries import LEAST, Deliveries
from anabranch.runtime.fast_path import form

SIZE = LEAST // 4


@pytest.fixture
def messages(monkeypatch):
    """All tasks reached like those of other processes, and the lengths of what goes over the network."""
    monkeypatch.setattr("anabranch.cluster.task.find_here", lambda address: None)
    monkeypatch.setattr("anabranch.cluster.shared_memory.shown", lambda: None)
    monkeypatch.setattr(Deliveries, "_exchange_from", lambda self, address, connection: (0, None))
    sent = []
    encode = wire.encode

    def noted(header, values=()):
        message = encode(header, values)
        sent.append((next(iter(header), ""), len(message)))
        return message

    monkeypatch.setattr(wire, "encode", noted)
    return sent


def left_behind():
    """How many values the tasks of this process hold for sessions."""
    all_tasks = [item for item in gc.get_objects() if isinstance(item, tasks.Task)]
    return sum(len(here.kept) for task in all_tasks for here in task._sessions.values())


def large_step():
    """Of a variable on a parameter server and of what two workers compute from it."""
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [SIZE], initializer=tf.ones_initializer())
    with tf.device("/job:worker/task:1"):
        total = tf.reduce_sum(v * 2.0)
        doubled = v * 2.0
    with tf.device("/job:ps/task:1"):
        most = tf.reduce_max(doubled + 1.0)
    return v, total, most


def test_a_large_value_goes_from_task_to_task_and_not_by_the_client(cluster, messages):
    workers, _ = cluster
    v, total, most = large_step()
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        for _ in range(2):
            messages.clear()
            assert session.run([total, most]) == [2.0 * SIZE, 3.0]
        large = [kind for kind, length in messages if length > LEAST]
        assert large == ["pid", "pid"]  # both are answers to a task that fetches
        np.testing.assert_array_equal(session.run(v), np.ones(SIZE, "f"))  # what is fetched goes to the client
        session.run(v.op)
    assert left_behind() == 0


def test_memory_serves_tasks_of_one_machine(cluster, monkeypatch):
    monkeypatch.setattr("anabranch.cluster.task.find_here", lambda address: None)
    workers, _ = cluster
    v, total, most = large_step()
    change = v.assign_add(tf.ones([SIZE]))
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        for number in range(1, 5):
            assert session.run([total, most]) == [2.0 * SIZE * number, 2.0 * number + 1.0]
            session.run(change.op)


def test_what_stays_for_a_later_piece_goes_when_that_has_taken_it(cluster, messages):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        draws = tf.random_uniform([3])
        queue = tf.FIFOQueue(10, tf.float32)
        fill = queue.enqueue_many([tf.range(10.0)])
        taken, own = queue.dequeue(), queue.dequeue()
        v = tf.Variable(0.0)
    with tf.device("/job:worker/task:1"):
        there = tf.reduce_sum(draws) * 0.0 + taken * 0.0
    with tf.device("/job:ps/task:0"):
        add = v.assign_add(own + there)
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        session.run(fill)
        assert "1 of them stay there" in session.explain(add.op)
        for _ in range(5):
            session.run(add.op)
        assert session.run(v) == 25.0  # the second, fourth, ...
        assert left_behind() == 0


def test_a_step_that_fails_leaves_nothing(cluster, messages):
    workers, _ = cluster
    v, total, _ = large_step()
    with tf.device("/job:ps/task:1"), tf.control_dependencies([total]):
        fails = tf.Assert(total < 0.0, [total])
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
                session.run(fails)
        session.run(v.initializer)  # what is forgotten is not waited for, but comes before the next step
        assert left_behind() == 0


def test_what_a_compiled_piece_gives_is_not_copied_and_a_fetch_is_the_callers(cluster, reached, monkeypatch):
    workers, _ = cluster
    with tf.device("/job:worker/task:1"):
        x = tf.placeholder(tf.float32, [SIZE], name="x")
        doubled = x * 2.0
    with tf.device("/job:ps/task:0"):
        most = tf.reduce_max(doubled)
    with tf.device("/job:worker/task:1"):
        rest = doubled - most  # what it takes has stayed
    feeds = {"x:0": np.arange(SIZE, dtype="f")}
    with tf.Session(workers[0].target, config=tf.SessionOptions(tier="compiled")) as session:
        first, _ = [session.run([rest, doubled], feeds) for _ in range(2)]
        copied = []
        collect = form.Form.collect
        monkeypatch.setattr(
            form.Form, "collect", lambda self, *arguments: copied.append(self) or collect(self, *arguments)
        )
        again = session.run([rest, doubled], feeds)
        assert not copied
        for values in (first, again):
            np.testing.assert_array_equal(values[0], np.arange(SIZE) * 2.0 - (SIZE - 1) * 2.0)
            np.testing.assert_array_equal(values[1], np.arange(SIZE) * 2.0)
            for value in values:
                value[:] = -1.0  # theirs to write to
