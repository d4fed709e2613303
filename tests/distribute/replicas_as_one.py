"""Replicas over eight devices as one program. Not collected by itself: `test_strategies.py` runs it where they are."""

from __future__ import annotations

import concurrent.futures
import re

import jax
import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.xla import disk_cache

CPUS = [f"/cpu:{i}" for i in range(8)]
COMPILED, INTERPRETED = tf.SessionOptions(tier="compiled"), tf.SessionOptions(tier="interpreted")


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def programs(session, fetches, feeds=None):
    """For each program of a step, in how many devices it is one, and of which types its ops are."""
    lines = re.findall(r"program +\d+ ops on (.*)", session.explain(fetches, feeds or {}))
    return [(int(m.group(1)) if (m := re.match(r"(\d+) devices as one", line)) else 1, line) for line in lines]


def over(strategy, work, options=COMPILED, batches=3, rows=16, width=5, shown=None):
    """What a step of replicas gives on a few batches, and the variables after each."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows * batches, width)).astype("f")
    with tf.Graph().as_default(), strategy.scope():
        tf.set_random_seed(1)
        data = tf.data.Dataset.from_tensor_slices(x).repeat().batch(rows)
        iterator = strategy.make_dataset_iterator(data)
        total = strategy.reduce("sum", strategy.experimental_run(work, iterator))
        variables = tf.global_variables()
        with tf.Session(config=options) as session:
            session.run([*iterator.initialize(), tf.global_variables_initializer()])
            results = []
            for _ in range(batches):
                results.append(session.run(total))
                copies = session.run([list(getattr(v, "values", [v])) for v in variables])
                for values in copies:
                    for value in values[1:]:
                        np.testing.assert_array_equal(value, values[0])
                results += [values[0] for values in copies]
            if shown is not None:
                shown += programs(session, total)
            return results


def alike(ours, expected):
    for own, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-4, atol=3e-6)


def minimized(loss, optimizer=None):
    step = tf.train.get_or_create_global_step()
    train = (optimizer or tf.train.AdamOptimizer(0.05)).minimize(loss, global_step=step)
    with tf.control_dependencies([train]):
        return tf.identity(loss)


def dense(x):
    hidden = tf.layers.dense(x, 4, tf.nn.tanh, kernel_initializer=tf.constant_initializer(0.3))
    return minimized(
        tf.reduce_sum(tf.square(tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer()))) / 16
    )


def rows(x):
    table = tf.get_variable("table", [7, 3], initializer=tf.random_uniform_initializer(seed=3))
    ids = tf.cast(tf.abs(x[:, :2]) * 2.0, tf.int32)
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - 1.0)) / 16
    return minimized(loss, tf.train.GradientDescentOptimizer(0.1))


def recurrent(x):
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=tf.constant_initializer(0.2))
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.expand_dims(x, 2), dtype=tf.float32)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    return minimized(tf.reduce_sum(tf.square(outputs[:, -1] - 0.5)) / 16, optimizer)


@pytest.mark.parametrize(
    ("work", "count", "writes"),
    [(dense, 4, "16 ResourceApplyAdam"), (rows, 2, "2 ResourceScatterAdd"), (recurrent, 2, "8 ResourceApplyMomentum")],
)
def test_a_step_of_replicas_is_one_program_and_gives_what_one_device_gives(work, count, writes):
    shown = []
    ours = over(tf.distribute.MirroredStrategy(CPUS[:count]), work, shown=shown)
    alike(ours, over(tf.distribute.OneDeviceStrategy("/cpu:0"), work, INTERPRETED))
    *others, last = [line for devices, line in shown if devices == count]
    assert writes in last
    assert not others or work is recurrent  # of which the number of steps is known before its loop is compiled
    # What is left on one device cuts the batch, and adds up the losses.
    assert not [line for devices, line in shown if devices == 1 and re.search("MatMul|Apply|Assign|Gather", line)]


def test_replicas_draw_numbers_of_their_own_and_the_same_in_both_tiers():
    def work(x):
        weight = tf.get_variable("w", [5, 1], initializer=tf.ones_initializer())
        kept = tf.nn.dropout(x, 0.5, seed=7)
        return minimized(tf.reduce_sum(tf.square(kept @ weight)), tf.train.GradientDescentOptimizer(0.01))

    strategy = tf.distribute.MirroredStrategy(CPUS[:4])
    alike(over(strategy, work, batches=2), over(strategy, work, INTERPRETED, batches=2))
    with strategy.scope():
        drawn = strategy.experimental_run_v2(lambda: tf.random_uniform([3]))
        summed = strategy.experimental_run_v2(
            lambda x: tf.distribute.get_replica_context().all_reduce("sum", x), args=(drawn,)
        )
    with tf.Session(config=COMPILED) as session:
        each, both = session.run([list(drawn.values), list(summed.values)])
        assert [count for count, _ in programs(session, [list(drawn.values), list(summed.values)])] == [4]
        assert len({value.tobytes() for value in each}) == 4
        np.testing.assert_allclose(both, [np.sum(each, 0)] * 4, rtol=1e-6)


def test_the_rest_of_a_data_set_is_cut_unevenly():
    def work(x):
        w = tf.get_variable("w", [5], initializer=tf.ones_initializer())
        return minimized(tf.reduce_sum(tf.square(x * w)), tf.train.GradientDescentOptimizer(0.001))

    x = np.random.default_rng(0).normal(size=(27, 5)).astype("f")
    results = []
    for strategy in (tf.distribute.MirroredStrategy(CPUS[:4]), tf.distribute.OneDeviceStrategy("/cpu:0")):
        with tf.Graph().as_default(), strategy.scope():
            iterator = strategy.make_dataset_iterator(tf.data.Dataset.from_tensor_slices(x).batch(8).repeat())
            total = strategy.reduce("sum", strategy.experimental_run(work, iterator))
            with tf.Session(config=COMPILED) as session:
                session.run([*iterator.initialize(), tf.global_variables_initializer()])
                results.append([session.run(total) for _ in range(8)])
    np.testing.assert_allclose(*results, rtol=1e-4)


def test_the_check_that_fails_first_in_any_replica_is_told_and_nothing_is_written():
    strategy = tf.distribute.MirroredStrategy(CPUS[:4])
    ids = [tf.placeholder(tf.int32, [2]) for _ in range(4)]
    with strategy.scope():
        v = tf.get_variable("v", initializer=np.arange(5, dtype="f"))
        tf.train.get_or_create_global_step()
        per_replica = type(strategy.experimental_run_v2(lambda: tf.random_uniform([])))(ids)

        def work(own):
            return minimized(tf.reduce_sum(tf.gather(v, own)), tf.train.GradientDescentOptimizer(0.1))

        train = list(strategy.experimental_run_v2(work, args=(per_replica,)).values)
    with tf.Session(config=COMPILED) as session:
        session.run(tf.global_variables_initializer())
        good = {own: [0, 1] for own in ids}
        session.run(train, good)
        before = session.run(list(v.values))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 9 is not in \[0, 5\)") as caught:
            session.run(train, {**good, ids[3]: [0, 7], ids[2]: [1, 9]})
        assert "replica_2" in caught.value.op.name
        np.testing.assert_array_equal(session.run(list(v.values)), before)
        session.run(train, good)
        assert 4 in [count for count, _ in programs(session, train, good)]


def test_the_next_start_finds_the_program_on_disk(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(disk_cache, "_the_one", disk_cache.DiskCache(tmp_path / "kept"))
    lowered = []
    trace = jax.jit

    def noted(function, *args, **kwargs):
        lowered.append(getattr(function, "__name__", ""))
        return trace(function, *args, **kwargs)

    monkeypatch.setattr(jax, "jit", noted)

    def work(x):
        table = tf.get_variable("table", [4], initializer=tf.ones_initializer())
        x = tf.nn.dropout(x, 0.5, seed=3)
        total = tf.reduce_sum(tf.gather(table, tf.cast(x[:, 0] * 0.0, tf.int32))) / 16
        return minimized(total * tf.reduce_sum(x), tf.train.GradientDescentOptimizer(0.01))

    results = [over(tf.distribute.MirroredStrategy(CPUS[:2]), work) for _ in range(2)]
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)
    assert lowered.count("anabranch_replica") == 1
    strategy = tf.distribute.MirroredStrategy(CPUS[:2])
    for bad in ((0, 9), (9, 0)):
        with tf.Graph().as_default(), strategy.scope():
            v = tf.get_variable("v", initializer=np.arange(5, dtype="f"))
            ids = [tf.placeholder(tf.int32, [1]) for _ in range(2)]
            per_replica = type(strategy.experimental_run_v2(lambda: tf.random_uniform([])))(ids)
            loss = strategy.experimental_run_v2(
                lambda own, v=v: minimized(tf.reduce_sum(tf.gather(v, own)), tf.train.GradientDescentOptimizer(0.1)),
                args=(per_replica,),
            )
            with tf.Session(config=COMPILED) as session:
                session.run(tf.global_variables_initializer())
                with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 9 is not in") as caught:
                    session.run(list(loss.values), {ids[0]: [bad[0]], ids[1]: [bad[1]]})
                assert ("replica_1" in caught.value.op.name) is (bad[1] == 9)
    assert lowered.count("anabranch_replica") == 2


def test_scalars_and_integers_of_replicas_meet():
    strategy = tf.distribute.MirroredStrategy(CPUS[:3])
    with strategy.scope():

        def work():
            context = tf.distribute.get_replica_context()
            number = tf.random_uniform([], maxval=100, dtype=tf.int64, seed=1) + context.replica_id_in_sync_group
            mean = context.all_reduce("mean", tf.cast(number, tf.float64))
            return number, context.all_reduce("sum", number), mean

        numbers, sums, means = strategy.experimental_run_v2(work)
    with tf.Session(config=COMPILED) as session:
        for _ in range(2):
            own, total, mean = session.run([list(each.values) for each in (numbers, sums, means)])
            assert total == [sum(own)] * 3
            np.testing.assert_allclose(mean, [np.mean(own)] * 3, rtol=1e-12)


def test_a_replica_that_does_something_else_is_right_too():
    def work(x):
        weight = tf.get_variable("w", [5, 1], initializer=tf.ones_initializer())
        if tf.distribute.get_replica_context().replica_id_in_sync_group == 1:
            x = tf.sin(x) + tf.cos(x) * 2.0
        return minimized(tf.reduce_sum(tf.square(x @ weight)), tf.train.GradientDescentOptimizer(0.01))

    strategy = tf.distribute.MirroredStrategy(CPUS[:4])
    shown = []
    alike(over(strategy, work, shown=shown), over(strategy, work, INTERPRETED))
    assert 4 in [count for count, _ in shown]


@pytest.mark.parametrize(("name", "reduce"), [("sum", np.sum), ("prod", np.prod), ("min", np.min), ("max", np.max)])
def test_reductions_over_devices_are_one_program(name, reduce):
    fed = [tf.placeholder(tf.float32, [2, 3]) for _ in range(8)]
    own = []
    for x, device in zip(fed, CPUS, strict=True):
        with tf.device(device):
            own.append(x * 2.0)
    values = [np.random.default_rng(i).normal(size=[2, 3]).astype("f") for i in range(8)]
    feeds = dict(zip(fed, values, strict=True))
    op = {"sum": tf.add, "prod": tf.multiply, "min": tf.minimum, "max": tf.maximum}[name]
    for results in (
        getattr(tf.contrib.nccl, f"all_{name}")(own),
        tf.contrib.all_reduce.build_ring_all_reduce(own, 1, 1, range(8), op, tf.negative),
    ):
        with tf.Session(config=COMPILED) as session:
            given = session.run(results, feeds)
            expected = reduce([2 * value for value in values], axis=0)
            for value in given:
                np.testing.assert_allclose(np.abs(value), np.abs(expected), rtol=1e-5)
            assert [count for count, _ in programs(session, results, feeds)] == [8]
            np.testing.assert_allclose(np.abs(session.run(results[3], feeds)), np.abs(expected), rtol=1e-5)


def test_members_of_collectives_that_know_each_other_by_a_name_are_one_program():
    fed, results = [], []
    for device in CPUS:
        with tf.device(device):
            x = tf.placeholder(tf.float32, [2])
            total = build("NcclAllReduce", x * 2.0, reduction="sum", num_devices=8, shared_name="all")
            keys = {"group_size": 8, "group_key": 1, "instance_key": 1}
            results += [total, build("CollectiveGather", x * 1.0, **keys, shape=[16])]
            fed.append(x)
    feeds = {x: np.array([i, -i], "f") for i, x in enumerate(fed)}
    with tf.Session(config=COMPILED) as session:
        for total, rows in zip(*[iter(session.run(results, feeds))] * 2, strict=True):
            np.testing.assert_array_equal(total, [56.0, -56.0])
            np.testing.assert_array_equal(rows.reshape(8, 2)[:, 0], range(8))
        assert [count for count, _ in programs(session, results, feeds)] == [8]


def test_steps_of_several_threads_do_not_wait_for_each_other_in_a_circle():
    own, feeds = [], {}
    for number, device in enumerate(CPUS):
        x = tf.placeholder(tf.float32, [16, 16])
        feeds[x] = np.full([16, 16], number, np.float32)
        with tf.device(device):
            own.append(x + 1.0)
    sums, bounds = tf.contrib.nccl.all_sum(own), tf.contrib.nccl.all_max(own)
    with tf.Session(config=COMPILED) as session:

        def work(fetches, expected):
            for _ in range(5):
                for value in session.run(fetches, feeds):
                    np.testing.assert_array_equal(value, np.full([16, 16], expected))

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            asked = [(sums, 36.0), (bounds, 8.0), (sums, 36.0), (bounds, 8.0)]
            for done in [threads.submit(work, *each) for each in asked]:
                done.result(100)
