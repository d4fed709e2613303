"""Conditionals, loops and calls on one task, whose bodies use variables of others."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import anabranch as tf

pytestmark = pytest.mark.usefixtures("reached")
WORKER = "/job:worker/task:0"


def placed_on_servers():
    return tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device=WORKER))


def train_recurrent(target, place, use_resource):
    """Losses of some training steps of a recurrent network, and where the step ran."""
    with tf.Graph().as_default(), place(), tf.variable_scope("net", use_resource=use_resource):
        tf.set_random_seed(3)
        x = tf.constant(np.random.RandomState(0).randn(2, 5, 4).astype("f"))
        outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(3), x, dtype=tf.float32)
        rows = tf.transpose(outputs, [1, 0, 2])
        again = tf.layers.Dense(3, tf.tanh, name="again")
        more = tf.scan(lambda state, row: again(state + row), rows)
        loss = tf.reduce_mean(tf.square(outputs - 0.5)) + tf.reduce_mean(tf.square(more))
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train])[0] for _ in range(6)]
            return losses, session.explain([loss, train])


@pytest.mark.parametrize("use_resource", [False, True], ids=["ref", "resource"])
def test_a_recurrent_network_trains_at_its_worker_with_weights_on_two_servers(cluster, use_resource):
    workers, _ = cluster
    wanted, _ = train_recurrent("", contextlib.nullcontext, use_resource)
    losses, plan = train_recurrent(workers[0].target, placed_on_servers, use_resource)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert losses[-1] < losses[0]
    assert plan.splitlines()[0] == "5 pieces on 3 tasks"


def train_towers(target, places):
    """Losses of some steps of two recurrent towers with the same variables, and where the gradients are computed."""
    with tf.Graph().as_default():
        inputs = tf.constant(np.random.RandomState(0).randn(4, 5, 3).astype("f"))
        optimizer = tf.train.GradientDescentOptimizer(0.2)
        losses, gradients = [], []
        for place, part in zip(places, tf.split(inputs, 2), strict=True):
            with place(), tf.variable_scope("net", reuse=tf.AUTO_REUSE, initializer=tf.constant_initializer(0.2)):
                outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), part, dtype=tf.float32)
                losses.append(tf.reduce_mean(tf.square(outputs - 0.5)))
                gradients.append(optimizer.compute_gradients(losses[-1], colocate_gradients_with_ops=True))
        pairs = [(tf.add_n([g for g, _ in members]), members[0][1]) for members in zip(*gradients, strict=True)]
        train = optimizer.apply_gradients(pairs)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            history = [session.run([*losses, train])[:2] for _ in range(5)]
            return history, session.explain(gradients[1][0][0])


def test_recurrent_towers_run_at_the_workers_that_they_name(cluster):
    workers, _ = cluster
    places = [
        lambda number=number: tf.device(
            tf.train.replica_device_setter(ps_tasks=2, worker_device=f"/job:worker/task:{number}")
        )
        for number in range(2)
    ]
    wanted, _ = train_towers("", [contextlib.nullcontext] * 2)
    history, plan = train_towers(workers[0].target, places)
    np.testing.assert_allclose(history, wanted, rtol=1e-5)
    # the split, the weights of each server, and all of the tower with its loops, whose lists name no device
    assert plan.splitlines()[0] == "4 pieces on 4 tasks"


def train_layers(target, places):
    """Losses of some steps of recurrent layers, each on the output of the one before."""
    with tf.Graph().as_default():
        outputs = tf.placeholder(tf.float32, [None, 5, 3], name="inputs")
        sizes = tf.placeholder(tf.int32, [None], name="sizes")
        for number, place in enumerate(places):
            with place(), tf.variable_scope(f"layer{number}", initializer=tf.constant_initializer(0.2)):
                cell = tf.nn.rnn_cell.BasicLSTMCell(3)
                outputs, _ = tf.nn.dynamic_rnn(cell, outputs, sequence_length=sizes, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs - 0.5))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, colocate_gradients_with_ops=True)
        x = np.random.RandomState(0).randn(4, 5, 3).astype("f")
        fed = [{"inputs:0": x, "sizes:0": [5, 1, 0, 3]}, {"inputs:0": x[:2], "sizes:0": [0, 4]}]
        tier = "compiled" if len(places) == 2 else "interpreted"
        with tf.Session(target, config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            return [session.run([loss, train], fed[step % 2])[0] for step in range(6)]


@pytest.mark.parametrize("layers", [2, 3], ids=["compiled", "interpreted"])
def test_what_a_loop_keeps_for_its_gradient_stays_at_its_task_while_other_tasks_compute(cluster, layers):
    workers, _ = cluster
    places = [
        lambda number=number: tf.device(
            tf.train.replica_device_setter(ps_tasks=2, worker_device=f"/job:worker/task:{number % 2}")
        )
        for number in range(layers)
    ]
    wanted = train_layers("", [contextlib.nullcontext] * layers)
    np.testing.assert_allclose(train_layers(workers[0].target, places), wanted, rtol=1e-4)


@pytest.mark.parametrize("use_resource", [False, True], ids=["ref", "resource"])
def test_a_conditional_with_variables_of_two_servers(cluster, use_resource):
    workers, _ = cluster
    with placed_on_servers(), tf.variable_scope("net", use_resource=use_resource):
        v = tf.get_variable("v", [2], initializer=tf.constant_initializer(3.0))
        w = tf.get_variable("w", [2], initializer=tf.constant_initializer(5.0))
        assert {v.device, w.device} == {"/job:ps/task:0", "/job:ps/task:1"}
        chosen = tf.placeholder(tf.bool, [])
        result = tf.cond(chosen, lambda: v * w, lambda: v + w)
        with tf.control_dependencies([result]):
            add = tf.group(v.assign_add([1.0, 1.0]), w.assign_add([1.0, 1.0]))
        with tf.control_dependencies([add]):
            after = tf.cond(chosen, lambda: v.read_value() - w.read_value(), lambda: v.read_value() * w.read_value())
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(result, {chosen: True}), [15.0, 15.0])
        values = session.run([result, after], {chosen: False})
        np.testing.assert_array_equal(values, [[8.0, 8.0], [24.0, 24.0]])  # before and behind the writes


def test_lists_go_to_a_loop_that_writes_a_variable(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:1"):
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer(), use_resource=True)
    with tf.device(WORKER):

        def add(value):
            with tf.control_dependencies([total.assign_add(value)]):
                return total.read_value()

        sums = tf.map_fn(add, tf.constant([1.0, 2.0, 3.0]), parallel_iterations=1)
    with tf.Session(workers[0].target) as session:
        session.run(total.initializer)
        np.testing.assert_array_equal(session.run(sums), [1.0, 3.0, 6.0])
        assert session.run(total) == 6.0


def test_a_large_table_stays_where_a_conditional_can_go_to_it(cluster):
    workers, _ = cluster
    with placed_on_servers():
        table = tf.get_variable("table", [70_000, 64], initializer=tf.ones_initializer())
        rows = tf.cond(tf.constant(value=True), lambda: tf.nn.embedding_lookup(table, [1, 2]), lambda: table[:2])
    with tf.Session(workers[0].target) as session:
        session.run(table.initializer)
        np.testing.assert_array_equal(session.run(rows), np.ones([2, 64]))
        assert session.explain(rows).splitlines()[1].startswith("piece 0 on /job:ps/replica:0/task:0: 1 ops")


def accumulated(use_resource):
    """Steps of which each second applies what two have accumulated."""
    with tf.variable_scope("net", use_resource=use_resource):
        weights = [tf.get_variable(f"w{i}", [2, 2], initializer=tf.ones_initializer()) for i in range(2)]
        kept = [
            tf.get_variable(f"kept{i}", [2, 2], initializer=tf.zeros_initializer(), trainable=False) for i in range(2)
        ]
    count = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(tf.constant([[1.0, 2.0]]) @ weights[0] @ weights[1]))
    optimizer = tf.train.MomentumOptimizer(0.001, 0.9)
    add = [total.assign_add(g) for total, g in zip(kept, tf.gradients(loss, weights), strict=True)]

    def apply():
        train = optimizer.apply_gradients([(g.read_value(), v) for g, v in zip(kept, weights, strict=True)])
        with tf.control_dependencies([train]):
            clear = tf.group(*[total.assign(tf.zeros([2, 2])) for total in kept])
        with tf.control_dependencies([clear]):
            return tf.reduce_sum(weights[0].read_value()) + tf.reduce_sum(weights[1].read_value())

    with tf.control_dependencies(add):
        total = tf.cond(tf.equal(count % 2, 1), apply, lambda: tf.constant(-1.0))
    with tf.control_dependencies([total]):
        step = count.assign_add(1)
    return loss, total, step


@pytest.mark.parametrize("use_resource", [False, True], ids=["ref", "resource"])
def test_a_conditional_that_updates_variables_of_two_servers(cluster, use_resource):
    workers, _ = cluster
    seen = []
    for target, place in (("", contextlib.nullcontext), (workers[0].target, placed_on_servers)):
        with tf.Graph().as_default(), place():
            fetches = accumulated(use_resource)
            with tf.Session(target) as session:
                session.run(tf.global_variables_initializer())
                steps = [session.run(fetches) for _ in range(5)]
                seen.append([*steps, *session.run(tf.global_variables())])
    for here, there in zip(*seen, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-6)
    assert [total == -1.0 for _, total, _ in seen[1][:5]] == [True, False, True, False, True]


def test_a_conditional_in_a_conditional_over_two_servers(cluster):
    workers, _ = cluster
    with placed_on_servers():
        v, w = (tf.get_variable(name, [], initializer=tf.ones_initializer()) for name in "vw")
        names = tf.get_variable("names", initializer=tf.constant(["a", "b"]))
        outer, inner = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])

        def swap():
            old_v, old_w = v + 0.0, w + 0.0
            return tf.group(v.assign(old_w * 10.0), w.assign(old_v * 100.0))

        def add():
            return tf.group(v.assign_add(1.0), w.assign_add(2.0))

        def both():
            with tf.control_dependencies([tf.cond(inner, swap, add)]):
                return tf.string_join([names, names]), v.read_value() + w.read_value()

        result = tf.cond(outer, both, lambda: (tf.constant(["none"]), tf.group(v.assign(7.0)) and tf.constant(0.0)))
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        found, total = session.run(result, {outer: True, inner: True})
        assert (found.tolist(), total) == ([b"aa", b"bb"], 110.0)
        assert session.run([v, w]) == [10.0, 100.0]
        assert session.run(result[1], {outer: True, inner: False}) == 113.0
        found, total = session.run(result, {outer: False, inner: True})
        assert (found.tolist(), total) == ([b"none"], 0.0)


def test_a_conditional_with_a_queue_over_two_tasks_is_divided(cluster):
    workers, _ = cluster
    with placed_on_servers():
        v, w = (tf.get_variable(name, [], initializer=tf.ones_initializer()) for name in "vw")
        queue = tf.FIFOQueue(2, tf.float32, [[]])

        def add():
            return tf.group(v.assign_add(1.0), w.assign_add(2.0), queue.enqueue(1.0))

        result = tf.cond(tf.placeholder_with_default(input=True, shape=[]), add, tf.no_op)
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        session.run(result)
        assert session.run([v, w, queue.size()]) == [2.0, 3.0, 1]
