"""Collectives whose members are in several tasks, one graph each."""

from __future__ import annotations

import concurrent.futures

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

KEYS = {"group_size": 2, "group_key": 1, "instance_key": 1}


@pytest.fixture
def each(cluster, reached):
    """Runs a function of the worker's number, session and graph in both workers at the same time; the results."""
    workers, _ = cluster
    sessions = []

    def call(work, *arguments):
        def one(number):
            session, graph = sessions[number]
            with graph.as_default(), tf.device(f"/job:worker/task:{number}"):
                return work(number, session, *arguments)

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            return [future.result(60) for future in [threads.submit(one, number) for number in range(2)]]

    for worker in workers:
        graph = tf.Graph()
        sessions.append((tf.Session(worker.target, graph=graph), graph))
    yield call
    for session, _ in sessions:
        session.close()


def test_values_of_two_tasks_come_together(each):
    def work(number, session):
        x = tf.constant([[1.0, number + 2.0]])
        total = build("CollectiveReduce", x, merge_op="Add", final_op="Div", subdiv_offsets=[0], **KEYS)
        rows = build("CollectiveGather", x, **{**KEYS, "instance_key": 2}, shape=[2, 2])
        least = build("NcclAllReduce", x, reduction="min", num_devices=2, shared_name="least")
        if number:
            sent = build("CollectiveBcastRecv", T=tf.float32, **{**KEYS, "instance_key": 3}, shape=[1, 2])
        else:
            sent = build("CollectiveBcastSend", x, **{**KEYS, "instance_key": 3}, shape=[1, 2])
        return [session.run([total, rows, least, sent]) for _ in range(3)]

    for results in each(work):
        for total, rows, least, sent in results:
            assert total.tolist() == [[1.0, 2.5]]
            assert rows.tolist() == [[1.0, 2.0], [1.0, 3.0]]
            assert least.tolist() == [[1.0, 2.0]]
            assert sent.tolist() == [[1.0, 2.0]]


def test_large_values_and_several_members_of_a_task(each):
    size = 1 << 19

    def work(number, session):
        members = []
        for i in range(2):
            x = tf.fill([size], float(1 + i + 2 * number))
            members.append(build("NcclAllReduce", x, reduction="sum", num_devices=4, shared_name="all"))
        return session.run([tf.reduce_min(members[0]), tf.reduce_max(members[1])])

    assert each(work) == [[10.0, 10.0]] * 2


def test_a_member_that_gives_up_ends_the_meeting_and_all_begin_anew(each):
    def begin(number, session):
        total = build("NcclAllReduce", tf.constant(1.0), reduction="sum", num_devices=2, shared_name="a", name="m")
        return session.run(total)

    def again(number, session):
        return session.run(tf.get_default_graph().get_tensor_by_name("m:0"))

    def alone(number, session):
        if not number:
            with pytest.raises(tf.errors.DeadlineExceededError, match="deadline"):
                session.run("m:0", options=tf.RunOptions(timeout_in_ms=700))

    def hears_of_it(number, session):
        if number:
            with pytest.raises(tf.errors.AbortedError, match="task:0 has given up"):
                session.run("m:0")

    assert each(begin) == [2.0, 2.0]
    each(alone)
    each(hears_of_it)
    assert each(again) == [2.0, 2.0]
    assert each(again) == [2.0, 2.0]


def test_values_that_do_not_fit_are_refused_in_all_tasks(each):
    def work(number, session):
        x = tf.zeros([number + 1])
        total = build("NcclAllReduce", x, reduction="sum", num_devices=2, shared_name="a")
        with pytest.raises(tf.errors.InvalidArgumentError, match="values of shapes"):
            session.run(total)

    each(work)


def test_a_task_that_begins_anew_aborts_the_others(cluster):
    from anabranch.cluster.company import Meetings

    meetings = Meetings()
    header = {"key": "k", "number": 0, "how": "sum", "size": 2, "mine": 1, "sends": True}
    one = {**header, "task": "/job:worker/replica:0/task:0", "life": "a"}
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        first = threads.submit(meetings.bring, one, np.ones(2), lambda call: None)
        while not meetings._meetings:
            pass
        second = threads.submit(meetings.bring, {**one, "life": "b"}, np.ones(2), lambda call: None)
        with pytest.raises(tf.errors.AbortedError, match="task:0 begins anew"):
            first.result(10)
        with pytest.raises(tf.errors.AbortedError, match="begins anew"):
            meetings.bring(one, np.ones(2), lambda call: None)  # its life is over
        other = {**header, "task": "/job:worker/replica:0/task:1", "life": "c"}
        assert meetings.bring(other, np.ones(2), lambda call: None).tolist() == [2.0, 2.0]
        assert second.result(10).tolist() == [2.0, 2.0]
