"""``SyncReplicasOptimizer``: exact steps of two workers, stale gradients, backup workers, what it refuses."""

from __future__ import annotations

import threading

import pytest

import anabranch as tf


def worker(target, index, count, aggregate):
    """A worker's session, training op and tensors: gradient ``index + 1`` on a variable of the first server."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            step = tf.train.get_or_create_global_step()
            w = tf.Variable(0.0, name="w")
        with tf.device("/job:ps/task:1"):
            u = tf.Variable([1.0, 1.0], name="u")
        with tf.device(f"/job:worker/task:{index}"):
            gradient = tf.constant(index + 1.0)
            rows = tf.IndexedSlices(tf.constant([index + 1.0]), tf.constant([1]), tf.constant([2]))
            sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), aggregate, count)
            train = sync.apply_gradients([(gradient, w), (rows, u)], global_step=step)
            hook = sync.make_session_run_hook(index == 0, num_tokens=count)
        session = tf.train.MonitoredTrainingSession(target, is_chief=index == 0, hooks=[hook])
    return session, train, (step, w, u)


def test_two_workers_make_each_step_together(cluster):
    workers, _ = cluster
    parts = [worker(server.target, i, 2, 2) for i, server in enumerate(workers)]
    for session, train, _ in parts:
        session.run(train)
    session, _, (step, w, u) = parts[1]
    while session.run(step) < 1:
        pass
    assert session.run([w, u])[0] == -1.5
    assert session.run(u).tolist() == [1.0, -0.5]
    for other, train, _ in parts:  # with the tokens of step 0: what they hand in is stale, and dropped
        other.run(train)
    assert session.run([step, w])[1] == -1.5
    threads = [threading.Thread(target=other.run, args=(train,)) for other, train, _ in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert session.run([step, w])[0] == 2
    assert session.run(w) == -3.0
    for other, _, _ in parts:
        other.close()


def test_a_backup_worker_is_not_waited_for(cluster):
    workers, _ = cluster
    parts = [worker(server.target, i, 2, 1) for i, server in enumerate(workers)]
    session, train, (step, w, _) = parts[0]
    for expected in (1, 2, 3):
        while session.run(step) < expected:
            session.run(train)
    assert session.run(w) <= -3.0
    for other, _, _ in parts:
        other.close()


def test_what_is_used_too_early_or_wrongly_is_refused():
    with tf.Graph().as_default():
        sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 3, 2)
        w = tf.Variable(1.0)
        hook = sync.make_session_run_hook(True)
        with pytest.raises(ValueError, match="apply_gradient should be called"):
            hook.begin()
        with pytest.raises(ValueError, match="Global step is required"):
            sync.minimize(w * 2.0)
        with pytest.raises(ValueError, match="at least one variable"):
            sync.apply_gradients([])
        sync.minimize(w * 2.0, global_step=tf.train.get_or_create_global_step())
        with pytest.raises(ValueError, match="Too few tokens"):
            sync.get_init_tokens_op(0)
        with pytest.raises(ValueError, match="both or neither"):
            tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 1, variables_to_average=[w])
