"""Strategies whose replicas are in several workers, each with a graph, variables and a session of its own."""

from __future__ import annotations

import concurrent.futures

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

X = np.random.default_rng(0).normal(size=(32, 3)).astype("f")


def in_both(workers, work):
    """What a function of the worker's number and target gives in two workers at the same time."""
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(work, number, worker.target) for number, worker in enumerate(workers)]
        return [future.result(60) for future in futures]


def strategy_of(workers, number):
    cluster = {"worker": [worker.target.removeprefix("grpc://") for worker in workers]}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="worker", task_id=number
    )
    return tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


def model(strategy):
    """A training step on global batches of eight rows; its loss, and the variables."""
    with strategy.scope():
        step = tf.train.get_or_create_global_step()
        iterator = strategy.make_dataset_iterator(tf.data.Dataset.from_tensor_slices(X).repeat().batch(8))
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)

        def work(x):
            w = tf.get_variable("w", [3, 1], initializer=tf.random_normal_initializer())
            table = tf.get_variable("table", [4, 1], initializer=tf.ones_initializer())
            rows = tf.nn.embedding_lookup(table, tf.cast(tf.abs(x[:, 0]) * 2.0, tf.int32) % 4)
            loss = tf.reduce_sum(tf.square(x @ w + rows - 1.0)) / 8
            with tf.control_dependencies([optimizer.minimize(loss, global_step=step)]):
                return tf.identity(loss)

        total = strategy.reduce("sum", strategy.experimental_run(work, iterator))
    return iterator, total, tf.trainable_variables()


def test_two_workers_train_like_one(cluster, reached):
    workers, _ = cluster

    def trained(number, target):
        with tf.Graph().as_default():
            tf.set_random_seed(number)  # each would begin elsewhere
            strategy = strategy_of(workers, number)
            assert strategy.num_replicas_in_sync == 2
            iterator, total, variables = model(strategy)
            with tf.Session(target) as session:
                session.run(iterator.initialize())
                session.run(tf.global_variables_initializer())
                begun = session.run(variables)
                losses = [session.run(total) for _ in range(4)]
                return begun, losses, session.run([*variables, tf.train.get_global_step()])

    first, second = in_both(workers, trained)
    for own, other in zip(first[0] + first[2], second[0] + second[2], strict=True):
        np.testing.assert_array_equal(own, other)
    assert first[1] == second[1]
    with tf.Graph().as_default():
        iterator, total, variables = model(tf.distribute.OneDeviceStrategy("/cpu:0"))
        with tf.Session() as session:
            session.run([*iterator.initialize(), tf.global_variables_initializer()])
            for variable, value in zip(variables, first[0], strict=True):
                variable.load(value, session)
            np.testing.assert_allclose([session.run(total) for _ in range(4)], first[1], rtol=1e-5)
            for value, own in zip(session.run(variables), first[2], strict=False):
                np.testing.assert_allclose(value, own, rtol=1e-5)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("sum", [1.0, 3.0]), ("max", [1.0, 2.0]), ("concat", [0.0, 1.0, 1.0, 2.0]), ("first", [0.0, 1.0])],
)
def test_members_of_two_tasks_exchange_their_values(cluster, how, wanted):
    workers, _ = cluster

    def exchanged(number, target):
        with tf.Graph().as_default(), tf.Session(target) as session:
            own = np.array([0.0, 1.0], "f") + number
            sends = how != "first" or number == 0
            return session.run(
                build("AnabranchExchange", [own], key=how, how=how, size=2, mine=1, sends=sends)
            ).tolist()

    assert in_both(workers, exchanged) == [wanted, wanted]


NUMBERS = (
    *("bool", "half", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_variables_of_any_numbers_begin_like_the_first_workers(cluster, dtype):
    workers, _ = cluster
    dtype = tf.as_dtype(dtype)

    def begun(number, target):
        with tf.Graph().as_default():
            values = np.array([[1, 0], [3, 2]]) * (0.5 if dtype.is_floating or dtype.is_complex else 1) + number
            with strategy_of(workers, number).scope():
                v = tf.get_variable("v", initializer=values.astype(dtype.as_numpy_dtype))
            with tf.Session(target) as session:
                session.run(v.initializer)
                return session.run(v)

    first, second = in_both(workers, begun)
    assert first.dtype == second.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(first, second)
    assert complex(first[0, 0]) in (0.5, 1)


def test_who_fails_in_a_meeting_ends_it_for_all(cluster):
    workers, _ = cluster

    def met(number, target):
        with tf.Graph().as_default(), tf.Session(target) as session:
            member = build("AnabranchExchange", [np.ones(2, "f")], key="size", how="sum", size=2 + number, mine=1)
            kinds = (tf.errors.FailedPreconditionError, tf.errors.AbortedError)
            with pytest.raises(kinds, match=r"of . members by|members begin anew, as .* has failed") as caught:
                session.run(member)
            return type(caught.value).__name__

    assert sorted(in_both(workers, met)) == ["AbortedError", "FailedPreconditionError"]


def test_an_exchange_needs_a_cluster():
    member = build("AnabranchExchange", [np.ones(2, "f")], key="k", how="sum", size=2, mine=1)
    with tf.Session() as session, pytest.raises(tf.errors.UnimplementedError, match="in a session of no cluster"):
        session.run(member)


def test_values_of_replicas_are_reduced_over_workers(cluster):
    workers, _ = cluster

    def reduced(number, target):
        with tf.Graph().as_default():
            strategy = strategy_of(workers, number)
            context = []

            def dataset(given):
                context.append((given.num_input_pipelines, given.input_pipeline_id, given.num_replicas_in_sync))
                return tf.data.Dataset.from_tensors([2.0 * number, 1.0])

            with strategy.scope():
                iterator = strategy.make_input_fn_iterator(dataset)

                def work(x):
                    return x, tf.distribute.get_replica_context().all_reduce("mean", x)

                own, mean = strategy.experimental_run(work, iterator)
                rows = strategy.reduce("mean", own, axis=0)
            with tf.Session(target) as session:
                session.run(iterator.initialize())
                return context, [value.tolist() for value in session.run([mean, rows])]

    first, second = in_both(workers, reduced)
    assert first == ([(2, 0, 2)], [[1.0, 1.0], 1.0])
    assert second == ([(2, 1, 2)], first[1])


def test_all_workers_restore_the_chiefs_checkpoint(cluster, tmp_path):
    workers, _ = cluster

    def trained(number, target, last):
        with tf.Graph().as_default():
            strategy = strategy_of(workers, number)
            with strategy.scope():
                step = tf.train.get_or_create_global_step()
                v = tf.get_variable("v", initializer=float(number))
                train = strategy.experimental_run_v2(
                    lambda: tf.train.GradientDescentOptimizer(0.5).minimize(v * 1.0, global_step=step)
                )
                hooks = [tf.train.StopAtStepHook(last_step=last)]
                with tf.train.MonitoredTrainingSession(
                    target,
                    number == 0,
                    str(tmp_path),
                    hooks=hooks,
                    save_summaries_steps=None,
                    log_step_count_steps=None,
                ) as session:
                    while not session.should_stop():
                        _, value, reached = session.run([train, v, step])
            return float(value), int(reached)

    for last in (2, 4):
        first, second = in_both(workers, lambda number, target, last=last: trained(number, target, last))
        assert first == second
    assert tf.train.load_variable(str(tmp_path), "v") == -4.0  # four times two gradients of one half


def test_a_task_that_is_not_a_worker_is_refused():
    cluster = tf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1", "c:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="ps", task_id=0)
    with pytest.raises(ValueError, match="one of the workers"):
        tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
