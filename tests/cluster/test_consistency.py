"""What steps promise each other in each mode, by their histories."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.cluster.rounds import Rounds
from tests.cluster.histories import Seen, find_order, staleness, unknown

START = {"a": 10, "b": 0}


# -------------------------------------------------------------------------------------------------------- the checker
def test_the_checker_finds_an_order_where_there_is_one():
    steps = [
        Seen(0, 0, 5, {"a": 9, "b": 1}, {"a": -1, "b": 1}),
        Seen(1, 1, 6, {"a": 10, "b": 0}, {"a": -1, "b": 1}),
        Seen(1, 7, 8, {"a": 8, "b": 2}, {}),
    ]
    assert [step.client for step in find_order(steps, START)] == [1, 0, 1]
    killed = unknown(2, 2, {"a": -5, "b": 5})
    assert find_order([*steps, killed], START) is not None  # it did not happen, or comes last
    assert find_order([*steps[:2], killed, Seen(1, 7, 8, {"a": 3, "b": 7}, {})], START) is not None


@pytest.mark.parametrize(
    "last",
    [
        Seen(1, 7, 8, {"a": 9, "b": 0}, {}),  # torn
        Seen(1, 7, 8, {"a": 10, "b": 0}, {}),  # comes after a step that it does not see
        Seen(1, 7, 8, {"a": 8, "b": 2}, {}),  # sees a step that nobody made
    ],
)
def test_the_checker_refuses_what_no_order_explains(last):
    assert find_order([Seen(0, 0, 5, {"a": 10, "b": 0}, {"a": -1, "b": 1}), last], START) is None


# ------------------------------------------------------------------------------------------------------- serialisable
def transfer():
    """Two variables on two servers; what moves 1 from one to the other and gives what they were; what reads them."""
    with tf.device("/job:ps/task:0"):
        a = tf.Variable(START["a"], name="a", use_resource=True)
    with tf.device("/job:ps/task:1"):
        b = tf.Variable(START["b"], name="b")
    old = [a.read_value(), b.read_value()]
    with tf.control_dependencies(old):
        moved = tf.group(a.assign_sub(1), b.assign_add(1))
    return (a, b), (old, moved), [tf.identity(a), tf.identity(b)]


def run_clients(targets, options, work):
    """Sessions on targets, each with a thread that does ``work(session, i)``."""
    problems = []

    def client(i, session):
        try:
            with session:
                work(session, i)
        except Exception as problem:
            problems.append(problem)

    sessions = [tf.Session(target, config=options) for target in targets]
    threads = [threading.Thread(target=client, args=pair) for pair in enumerate(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if problems:
        raise problems[0]


def test_serialisable_steps_have_an_order(cluster, reached):
    workers, _ = cluster
    (a, b), (old, moved), both = transfer()
    options = tf.SessionOptions(consistency="serialisable")
    with tf.Session(workers[0].target, config=options) as session:
        session.run([a.initializer, b.initializer])
    history = []

    def work(session, i):
        for n in range(6):
            began = time.monotonic()
            if (n + i) % 3:
                before, added = session.run([old, moved])[0], {"a": -1, "b": 1}
            else:
                before, added = session.run(both), {}
            history.append(Seen(i, began, time.monotonic(), dict(zip("ab", map(int, before), strict=True)), added))

    run_clients([workers[i % 2].target for i in range(4)], options, work)
    assert len(history) == 24
    assert find_order(history, START) is not None


@pytest.mark.parametrize("mode", ["async", "serialisable"])
def test_a_step_that_fails_on_one_task_is_undone_on_the_other_if_asked_for(cluster, reached, mode):
    workers, _ = cluster
    i = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps/task:0"):
        a = tf.Variable([1.0, 2.0], name="a")
        changed = a.assign_add([1.0, 1.0])
    with tf.device("/job:ps/task:1"), tf.control_dependencies([changed]):
        b = tf.Variable([1.0, 2.0], name="b")
        row = tf.gather(tf.identity(b), i, name="row")
        both = b.assign_sub([row, row])
    with tf.Session(workers[0].target, config=tf.SessionOptions(consistency=mode)) as session:
        session.run([a.initializer, b.initializer])
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="row"):
                session.run([changed, both], {i: 5})
        expected = [1.0, 2.0] if mode == "serialisable" else [4.0, 5.0]
        np.testing.assert_array_equal(session.run(a), expected)
        session.run([changed, both], {i: 0})
        np.testing.assert_array_equal(session.run(a), np.add(expected, 1.0))


def test_what_a_transaction_holds_is_hidden_and_undone_when_its_client_closes(cluster, reached, monkeypatch):
    workers, _ = cluster
    (a, b), (old, moved), both = transfer()
    serialisable = tf.SessionOptions(consistency="serialisable")
    one, two = tf.Session(workers[0].target, config=serialisable), tf.Session(workers[1].target)
    one.run([a.initializer, b.initializer])
    one.run([old, moved])
    commits, go_on = threading.Event(), threading.Event()
    from anabranch.cluster.consistency import Serialisable

    def stopped(self, number, names):
        commits.set()
        go_on.wait(60)
        raise tf.errors.CancelledError(None, None, "the client is killed here")

    monkeypatch.setattr(Serialisable, "_commit", stopped)

    def run_one():
        with pytest.raises(tf.errors.CancelledError, match="killed here"):
            one.run([old, moved])

    client = threading.Thread(target=run_one)
    client.start()
    assert commits.wait(60)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(two.run(both)))  # asynchronous, and yet sees nothing undecided
    reader.start()
    time.sleep(0.3)
    assert not seen
    one.close()  # what the tasks hear when a client dies
    reader.join(60)
    assert seen == [[9, 1]]
    go_on.set()
    client.join(60)
    two.close()


def test_a_serialisable_step_that_waits_while_it_holds_variables_is_refused(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0, name="v")
    with tf.device("/job:worker/task:0"):
        queue = tf.FIFOQueue(2, tf.float32, shapes=[[]])
        put = queue.enqueue(3.0)
        taken = queue.dequeue()
        with tf.control_dependencies([v.assign_add(taken)]):
            late = queue.dequeue()
    with tf.Session(workers[0].target, config=tf.SessionOptions(consistency="serialisable")) as session:
        session.run(v.initializer)
        session.run(put)
        assert session.run(v.assign_add(taken)) == 4.0  # waits first, and holds then
        with pytest.raises(tf.errors.UnimplementedError, match="comes behind the state of the step"):
            session.run(late)


# ---------------------------------------------------------------------------------------------- steps that are counted
def counting(workers):
    """Training steps of each worker that add 1 to its place of a variable; they give what it was before."""
    steps = []
    with tf.device("/job:ps/task:1"):
        step = tf.train.get_or_create_global_step()
    with tf.device("/job:ps/task:0"):
        counts = tf.Variable(np.zeros(workers, np.int32), name="counts")
    for i in range(workers):
        with tf.device(f"/job:worker/task:{i}"):
            before = tf.identity(counts) + 0
        with tf.control_dependencies([before]):
            steps.append([before, counts.assign_add(np.eye(workers, dtype=np.int32)[i]), step.assign_add(1)])
    return (counts, step), steps


def count_steps(cluster, mode, steps, waits=(0.0, 0.0)):
    """The history of two workers that make some training steps each."""
    workers, _ = cluster
    variables, fetches = counting(2)
    options = tf.SessionOptions(consistency=mode, tier="interpreted")
    with tf.Session(workers[0].target, config=options) as session:
        session.run([v.initializer for v in variables])
    history = []

    def work(session, i):
        for _ in range(steps[i]):
            began = time.monotonic()
            before = session.run(fetches[i])[0]
            history.append(Seen(i, began, time.monotonic(), dict(enumerate(before.tolist())), {i: 1}))
            time.sleep(waits[i])

    run_clients([server.target for server in workers], options, work)
    with tf.Session(workers[0].target) as session:
        assert session.run(variables[0]).tolist() == list(steps)
        assert session.run(variables[1]) == sum(steps)
    return history


def test_bounded_staleness_keeps_workers_together(cluster, reached):
    history = count_steps(cluster, ("stale", 2), (8, 8), (0.0, 0.02))
    assert staleness(history) <= 2


def test_who_is_too_far_ahead_waits_until_the_slowest_moves_or_leaves(monkeypatch):
    monkeypatch.setattr("anabranch.cluster.rounds.POLL", 0.05)
    count, steps = Rounds(), itertools.count(1)

    def ask(what, task, number=0):
        return count.ask(what, task, f"session of {task}", ["stale", 2], ["one", "two"], number, next(steps))

    for _ in range(3):
        assert ask("enter", "one") == 0
        ask("done", "one")
    assert ask("enter", "one") == ["two"]
    assert ask("enter", "two") == 0
    assert ask("enter", "one") == ["two"]  # it has begun, and not ended
    ask("done", "two")
    assert ask("enter", "one") == 0
    ask("done", "one")
    assert ask("enter", "one") == ["two"]
    count.leave("session of two", False)  # killed: waited for
    assert ask("enter", "one") == ["two"]
    assert ask("enter", "two") == 0  # it is back
    count.leave("session of two", True)
    assert ask("enter", "one") == 0


def test_a_round_closes_without_backup_workers_and_ends_without_those_that_are_gone(monkeypatch):
    monkeypatch.setattr("anabranch.cluster.rounds.POLL", 0.05)
    count, steps = Rounds(), itertools.count(1)
    names = ["one", "two", "three"]

    def ask(what, task, number=0):
        return count.ask(what, task, f"session of {task}", ["sync", 1], names, number, next(steps))

    assert [ask("enter", task) for task in names] == [0, 0, 0]
    assert ask("arrive", "one") == ["three", "two"] or ask("arrive", "one") == ["two", "three"]
    assert ask("arrive", "two") == ask("arrive", "one") == 0  # the round is closed
    assert ask("arrive", "three") == -1
    assert ask("enter", "three") == ["one", "two"]  # not while these write
    ask("done", "one")
    count.leave("session of two", False)  # killed while it wrote
    assert ask("enter", "three") == 1
    with pytest.raises(tf.errors.AbortedError, match="counts as gone"):
        ask("done", "two")


def test_who_arrives_after_having_given_up_is_not_in_the_round(monkeypatch):
    monkeypatch.setattr("anabranch.cluster.rounds.POLL", 0.05)
    count = Rounds()

    def ask(what, task, step):
        return count.ask(what, task, f"session of {task}", ["sync", 0], ["one", "two"], 0, step)

    assert ask("enter", "one", 1) == ask("enter", "two", 1) == 0
    ask("withdraw", "one", 1)
    assert ask("arrive", "one", 1) == -1  # sent before, and heard after it
    assert ask("enter", "one", 2) == 0
    assert ask("arrive", "two", 1) == ["one"]
    assert ask("arrive", "one", 2) == ask("arrive", "two", 1) == 0
    count.leave("session of one", True)
    with pytest.raises(tf.errors.AbortedError, match="counts as gone"):
        ask("arrive", "one", 2)
    ask("done", "two", 1)
    assert count.ask("enter", "two", "session of two", ["sync", 0], ["one", "two"], 0, 2) == 1


def test_synchronous_steps_see_what_all_have_done_in_the_rounds_before(cluster, reached):
    history = count_steps(cluster, "sync", (6, 6), (0.0, 0.01))
    assert all(step.before[0] == step.before[1] for step in history)
    assert [step.before[0] for step in history if step.client == 0] == list(range(6))


def test_a_session_that_closes_is_not_waited_for(cluster):
    history = count_steps(cluster, "sync", (2, 5))
    assert sorted(step.before[1] for step in history if step.client == 1) == [0, 1, 2, 3, 4]


def test_a_backup_worker_comes_too_late_and_its_updates_are_made_in_a_later_round(cluster, monkeypatch):
    history = count_steps(cluster, ("sync", 1), (5, 5), (0.0, 0.05))
    # Of each round one makes its update, from the state that the round began with.
    seen = sorted(sum(step.before.values()) for step in history)
    assert seen == list(range(10))


def test_a_worker_that_was_replaced_is_told(cluster):
    workers, _ = cluster
    variables, fetches = counting(2)
    options = tf.SessionOptions(consistency=("stale", 10))
    first, second = (tf.Session(workers[0].target, config=options) for _ in range(2))
    first.run([v.initializer for v in variables])
    first.run(fetches[0])
    second.run(fetches[0])
    assert first.run(fetches[0])[0].tolist() == [2, 0]  # it is the worker again
    first.close()
    second.close()


def test_workers_that_disagree_and_programs_without_a_global_step_are_refused(cluster):
    workers, servers = cluster
    v = tf.Variable(1.0)
    add = v.assign_add(1.0)
    with tf.Session(workers[0].target, config=tf.SessionOptions(consistency="sync")) as session:
        session.run(v.initializer)  # counts for nothing
        with pytest.raises(tf.errors.FailedPreconditionError, match="without a global step"):
            session.run(add)
    variables, fetches = counting(2)
    stale = tf.Session(workers[0].target, config=tf.SessionOptions(consistency=("stale", 3)))
    stale.run([v.initializer for v in variables])
    stale.run(fetches[0])
    with tf.Session(workers[1].target, config=tf.SessionOptions(consistency="sync")) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"\('stale', 3\)"):
            session.run(fetches[1])
    with tf.Session(servers[0].target, config=tf.SessionOptions(consistency=("stale", 3))) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="the target of one of"):
            session.run(fetches[1])
    filtered = tf.SessionOptions(consistency="sync", config=tf.ConfigProto(device_filters=["/job:worker"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="filters that let /job:ps"):
        tf.Session(workers[0].target, config=filtered)
    stale.close()


@pytest.mark.parametrize("given", ["eventual", ("stale", -1), ("sync", 1.5), ("stale",), "stale", ("async", 1)])
def test_modes_that_are_not_there_are_refused(given):
    with pytest.raises(ValueError, match="'serialisable'"):
        tf.SessionOptions(consistency=given)


def test_a_session_of_one_process_keeps_all_promises():
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(consistency="sync")) as session:
        v = tf.Variable(1.0)
        session.run(v.initializer)
        assert session.run(v.assign_add(1.0)) == 2.0
