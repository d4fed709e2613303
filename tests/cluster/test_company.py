"""Collectives whose members are in several tasks, one graph each."""

from __future__ import annotations

import concurrent.futures
import functools

import numpy as np
import pytest

import anabranch as tf
from anabranch.cluster import shared_sums
from anabranch.core.cancellation import CancellationToken
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


def tables(worker):
    """By key what a worker shares with others of its machine."""
    return worker._task.company._life.tables


@pytest.mark.parametrize("are_seen", [True, False], ids=["in memory of all", "in parts"])
@pytest.mark.parametrize("count", [2, 3])
def test_large_values_give_the_bits_of_the_whole_whichever_way_they_go(count, are_seen, monkeypatch):
    monkeypatch.setattr("anabranch.cluster.company.MOST_TABLES", 16 if are_seen else 0)
    workers, _ = tf.test.create_local_cluster(num_workers=count, num_ps=0)
    values = np.random.default_rng(0).normal(size=[4, count, 41, 433]).astype("f")  # not a multiple of the tasks

    def work(number):
        with tf.Graph().as_default(), tf.device(f"/job:worker/task:{number}"), tf.Session(workers[number].target) as s:
            x = tf.placeholder(tf.float32, values.shape[2:])
            keys = {"group_size": count, "group_key": 1}
            add = build(
                "CollectiveReduce", x, merge_op="Add", final_op="Id", subdiv_offsets=[0], **keys, instance_key=1
            )
            most = build("NcclAllReduce", x, reduction="max", num_devices=count, shared_name="most")
            rows = build("CollectiveGather", x, **keys, instance_key=2, shape=[None, 433])
            return [s.run([add, most, rows], {x: values[step, number]}) for step in range(len(values))]

    try:
        with concurrent.futures.ThreadPoolExecutor(count) as threads:
            results = [future.result(60) for future in [threads.submit(work, number) for number in range(count)]]
        companies = [sorted(len(tasks) for _, tasks in w._task.company._life.companies.values()) for w in workers]
        shared = [[table is not None for table in tables(worker).values()] for worker in workers]
    finally:
        for worker in workers:
            worker.stop()
    assert companies == [[count] * 3] * count  # all three keys go without the first worker
    assert shared == [[are_seen] * 2] * count
    for number in range(count):
        for step, (add, most, rows) in enumerate(results[number]):
            np.testing.assert_array_equal(add, functools.reduce(np.add, values[step]))
            np.testing.assert_array_equal(most, values[step].max(0))
            np.testing.assert_array_equal(rows, values[step].reshape(-1, 433))


def test_a_machine_that_not_all_tasks_see_is_no_place_to_meet(each, cluster, monkeypatch):
    workers, _ = cluster
    shown = shared_sums.Table.shown
    monkeypatch.setattr(shared_sums.Table, "shown", lambda table: [1 << 22, 0, 0, shown(table)[-1]])

    def work(number, session):
        total = build("NcclAllReduce", tf.ones([1 << 16]), reduction="sum", num_devices=2, shared_name="apart")
        return [session.run(tf.reduce_min(total)) for _ in range(3)]

    assert each(work) == [[2.0] * 3] * 2
    assert [tables(worker)["('nccl', 'apart')"] for worker in workers] == [None] * 2


def test_what_steps_hold_is_not_written_to_again(each, cluster):
    workers, _ = cluster

    def work(number, session):
        company = workers[number]._task.company
        attrs = {"key": "held", "how": "sum", "size": 2, "mine": 1, "sends": True}
        held = []
        for step in range(7):  # more than there is room for
            value = np.full(1 << 17, step + number, np.int32)
            halves = [value[:100], value[100:]]
            held.append(company.meet(attrs, halves if step % 2 else [value], CancellationToken()))
        firsts = [(int(array.min()), int(array.max())) for array in held]
        del held[:]
        small = [np.ones(1 << 15, np.int32)]  # and of another size than before
        return firsts, [int(company.meet(attrs, small, CancellationToken()).sum()) for _ in range(3)]

    assert each(work) == [([(2 * step + 1, 2 * step + 1) for step in range(7)], [1 << 16] * 3)] * 2


def test_vectors_that_are_joined_for_others_are_brought_one_by_one(each):
    def work(number, session):
        parts = [tf.fill([1 << 16], 1.0 + number), tf.fill([3], 10.0), tf.placeholder(tf.float32, [5])]
        joined = tf.concat(parts, 0)
        total = build("CollectiveReduce", joined, merge_op="Add", final_op="Div", subdiv_offsets=[0], **KEYS)
        ends = [total[0], total[-8], total[-1], tf.size(total)]
        given = [session.run(ends, {parts[2]: np.full(5, 7.0 + number)}) for _ in range(3)]
        fed = [session.run(ends, {joined: np.full((1 << 16) + 8, 2.0 + number)}) for _ in range(3)]
        return given, fed

    wanted = [[1.5, 10.0, 7.5, (1 << 16) + 8]] * 3, [[2.5, 2.5, 2.5, (1 << 16) + 8]] * 3
    assert each(work) == [wanted] * 2


@pytest.mark.parametrize("size", [1, 1 << 18], ids=["at the first worker", "in memory of all"])
def test_a_member_that_gives_up_ends_the_meeting_and_all_begin_anew(each, size):
    def begin(number, session):
        x = tf.ones([size])
        total = build("NcclAllReduce", x, reduction="sum", num_devices=2, shared_name="a", name="m")
        return session.run(tf.reduce_max(total, name="most"))

    def again(number, session):
        return session.run("most:0")

    def alone(number, session):
        if not number:
            with pytest.raises(tf.errors.DeadlineExceededError, match="deadline"):
                session.run("m:0", options=tf.RunOptions(timeout_in_ms=2000))

    def hears_of_it(number, session):
        if number:
            with pytest.raises(tf.errors.AbortedError, match=r"task:0 (has given up|has failed)"):
                session.run("m:0")

    assert each(begin) == [2.0, 2.0]
    each(alone)
    each(hears_of_it)
    assert each(again) == [2.0, 2.0]
    assert each(again) == [2.0, 2.0]


def test_parts_of_values_that_do_not_fit_are_refused(each):
    def work(number, session):
        x = tf.placeholder(tf.float32, [None, None])
        total = build("NcclAllReduce", x, reduction="sum", num_devices=2, shared_name="a")
        assert session.run(total, {x: np.ones([256, 256])}).max() == 2.0
        with pytest.raises(
            (tf.errors.InvalidArgumentError, tf.errors.AbortedError), match=r"values of shapes|begin anew"
        ) as caught:
            session.run(total, {x: np.ones([256, 256] if number else [128, 512])})  # as many numbers
        return type(caught.value)

    assert tf.errors.InvalidArgumentError in each(work)


def test_values_that_do_not_fit_are_refused_in_all_tasks(each):
    def work(number, session):
        x = tf.zeros([number + 1])
        total = build("NcclAllReduce", x, reduction="sum", num_devices=2, shared_name="a")
        with pytest.raises(tf.errors.InvalidArgumentError, match="values of shapes"):
            session.run(total)

    each(work)


def test_a_task_that_begins_anew_aborts_the_others(cluster):
    from anabranch.cluster.meetings import Meetings

    meetings = Meetings()
    header = {"key": "k", "number": 0, "how": "sum", "size": 2, "mine": 1, "sends": True}
    one = {**header, "task": "/job:worker/replica:0/task:0", "life": "a"}
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        first = threads.submit(meetings.bring, one, np.ones(2), lambda call: None)
        while not meetings._meetings:
            pass
        second = threads.submit(meetings.bring, {**one, "life": "b"}, np.ones(2), lambda call: None)
        with pytest.raises(tf.errors.AbortedError, match="task:0 begins anew"):
            first.result(60)
        with pytest.raises(tf.errors.AbortedError, match="begins anew"):
            meetings.bring(one, np.ones(2), lambda call: None)  # its life is over
        other = {**header, "task": "/job:worker/replica:0/task:1", "life": "c"}
        assert meetings.bring(other, np.ones(2), lambda call: None).value.tolist() == [2.0, 2.0]
        assert second.result(60).value.tolist() == [2.0, 2.0]
