"""Workers with copies of a model, which meet variables that they share; state whose place a program leaves open."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.contrib import opt
from anabranch.ops.queues.queue_objects import Queue
from tests.running_steps import until


def worker(targets, index, getter_class, make):
    """A worker's session, its training op, and tensors; its gradients are ``-1 - index`` on two variables."""
    device = f"/job:worker/task:{index}"
    with tf.Graph().as_default():
        getter = getter_class(device)
        setter = tf.train.replica_device_setter(worker_device=device, ps_device="/job:ps", ps_tasks=2)
        with tf.variable_scope("", custom_getter=getter), tf.device(setter):
            step = tf.train.get_or_create_global_step()
            v = tf.get_variable("v", initializer=0.0)
            w = tf.get_variable("w", initializer=[1.0, 2.0])
        with tf.device(device):
            optimizer = make(tf.train.GradientDescentOptimizer(1.0), getter, index)
            pairs = [(tf.constant(-1.0 - index), v), (tf.fill([2], -1.0 - index), w)]
            train = optimizer.apply_gradients(pairs, step)
            arguments = () if isinstance(optimizer, opt.ModelAverageOptimizer) else (index == 0, index)
            hook = optimizer.make_session_run_hook(*arguments)
        shared = [getter._global_map[v], getter._global_map[w]]
        session = tf.train.MonitoredTrainingSession(targets[index].target, is_chief=index == 0, hooks=[hook])
    return session, train, [v, w], shared, step


def in_line(task):
    """How many steps wait for rows of a task's queues."""
    return sum(len(item._dequeuers) for item in list(task.manager._objects.values()) if isinstance(item, Queue))


def together(*calls):
    threads = [threading.Thread(target=session.run, args=(train,)) for session, train in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_elastic_workers_move_towards_each_other(cluster, reached):
    workers, _ = cluster

    def make(inner, getter, index):
        return opt.ElasticAverageOptimizer(inner, 2, getter, communication_period=2, moving_rate=0.5)

    parts = [worker(workers, i, opt.ElasticAverageCustomGetter, make) for i in range(2)]
    for met, (session, train, _, shared, step) in enumerate(parts):
        session.run(train)
        assert session.run([step, shared[0]]) == [met, float(met)]
        session.run(train)
    (first, _, own0, shared, step), (second, _, own1, _, _) = parts
    assert first.run([own0[0], shared[0], step]) == [1.0, 2.5, 2]  # 2 -> 1 with 0 -> 1; then 4 and 1 meet in 2.5
    assert second.run(own1[0]) == 2.5
    np.testing.assert_allclose(first.run(shared[1]), [3.5, 4.5])
    for session, *_ in parts:
        session.close()


def test_workers_go_on_from_the_mean_of_all(cluster, reached):
    workers, _ = cluster

    def make(inner, getter, index):
        return opt.ModelAverageOptimizer(inner, 2, index == 0, getter, interval_steps=2)

    parts = [worker(workers, i, opt.ModelAverageCustomGetter, make) for i in range(2)]
    for turn in range(2):
        for session, train, *_ in parts:
            session.run(train)
        together(*[part[:2] for part in parts])
        for session, _, own, shared, step in parts:
            assert session.run([own[0], shared[0], step]) == [3.0 * (turn + 1), 3.0 * (turn + 1), turn + 1]
            np.testing.assert_allclose(session.run(own[1]), [1.0 + 3.0 * (turn + 1), 2.0 + 3.0 * (turn + 1)])
    for session, *_ in parts:
        session.close()


def test_accumulated_gradients_are_applied_to_what_is_shared(cluster):
    workers, _ = cluster

    def make(inner, getter, index):
        return opt.AGNOptimizer(inner, 2, getter, communication_period=2)

    parts = [worker(workers, i, opt.AGNCustomGetter, make) for i in range(2)]
    for session, train, *_ in parts:
        session.run(train)
        session.run(train)
    (first, _, own0, shared, step), (second, _, own1, _, _) = parts
    assert first.run([own0[0], shared[0], step]) == [1.0, 3.0, 2]
    assert second.run(own1[0]) == 3.0
    for session, *_ in parts:
        session.close()


@pytest.mark.parametrize("staleness", [0, 1])
def test_gradients_of_an_older_step_are_dropped(cluster, staleness):
    workers, _ = cluster
    sessions = []
    for index in range(2):
        with tf.Graph().as_default() as graph:
            step = tf.train.get_or_create_global_step()
            v = tf.get_variable("v", initializer=1.0)
            wait = tf.FIFOQueue(1, [tf.bool], shapes=[[]], shared_name="wait")
            optimizer = opt.DropStaleGradientOptimizer(tf.train.GradientDescentOptimizer(1.0), staleness)
            with tf.control_dependencies(None if index == 0 else [step + 0]):
                pairs = optimizer.compute_gradients(v * 2.0)
            if index:
                with tf.control_dependencies([pairs[0][0]]):
                    told = wait.dequeue()
                with tf.control_dependencies([told]):
                    pairs = [(tf.identity(pairs[0][0]), v)]
            train = optimizer.apply_gradients(pairs, step)
            tell = wait.enqueue(True)
            init = tf.global_variables_initializer()
        sessions.append((tf.Session(workers[index].target, graph=graph), train, tell, init, (step, v)))
    (first, train0, tell, init, state), (second, train1, *_) = sessions
    first.run(init)
    dropped = []
    waiting = threading.Thread(target=lambda: dropped.append(second.run(train1)))
    waiting.start()
    tasks = [server._task for servers in cluster for server in servers]
    until(lambda: any(in_line(task) for task in tasks))  # it has read the step, and waits for the queue
    first.run(train0)
    first.run(tell)
    waiting.join(60)
    assert dropped == [1.0 - staleness]
    assert first.run(state) == (1 + staleness, 1.0 - 2.0 * (1 + staleness))
    for session, *_ in sessions:
        session.close()


def test_state_without_a_place_is_shared_whatever_the_target(cluster, reached):
    """As in TensorFlow, where it is on the device whose name comes first."""
    workers, servers = cluster
    v = tf.get_variable("v", initializer=1.0)
    queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name="values")
    put, got, add = queue.enqueue(v), queue.dequeue(), tf.assign_add(v, 1.0)
    with tf.Session(workers[0].target) as first, tf.Session(workers[1].target) as second:
        first.run(v.initializer)
        second.run(add)
        second.run(put)
        assert first.run([v, got]) == [2.0, 2.0]
    with tf.Session(servers[1].target) as third:
        assert third.run(v) == 2.0
        assert "/job:ps/replica:0/task:0" in third.explain(v)


def test_a_branch_acts_on_queues_and_variables_of_several_tasks(cluster, reached):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(4, [tf.float32], shapes=[[]])
        total = tf.Variable(10.0)
    with tf.device("/job:ps/task:1"):
        seen = tf.Variable(0.0)
    with tf.device("/job:worker/task:0"):
        own = tf.Variable(3.0)
    choose = tf.placeholder(tf.bool, [])

    def meet():
        with tf.device("/job:ps/task:0"):
            inner = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
            put = queue.enqueue(own._ref())
        with tf.control_dependencies([put]):
            value = queue.dequeue()
            also = inner.enqueue(value + 1.0)
        with tf.control_dependencies([also]):
            more = inner.dequeue()
        with tf.control_dependencies([tf.assign_add(total, value), tf.assign(seen, more)]):
            return tf.identity(more)

    result = tf.cond(choose, meet, lambda: tf.constant(-1.0))
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(result, {choose: False}) == -1.0
        assert session.run([total, seen]) == [10.0, 0.0]
        for turn in (1, 2):
            assert session.run(result, {choose: True}) == 4.0
            assert session.run([total, seen]) == [10.0 + 3.0 * turn, 4.0]
        assert session.run(queue.size()) == 0
