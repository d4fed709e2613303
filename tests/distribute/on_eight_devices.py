"""Strategies over eight devices. Not collected by itself: `test_strategies.py` runs it in a process that has them."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

CPUS = [f"/cpu:{i}" for i in range(8)]
SESSION = tf.SessionOptions(tier="interpreted")


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def trained(strategy, make_optimizer, steps=4, batch_norm=False):
    """Losses, variables and statistics of a small model, trained on global batches of 16."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(64, 5)).astype("f"), generator.normal(size=(64, 1)).astype("f")
    with tf.Graph().as_default(), strategy.scope():
        step = tf.train.get_or_create_global_step()
        iterator = strategy.make_dataset_iterator(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16))
        optimizer = make_optimizer()

        def work(batch):
            x, y = batch
            hidden = tf.layers.dense(x, 4, tf.nn.tanh, name="hidden")
            if batch_norm:
                hidden = tf.layers.batch_normalization(hidden, training=True, momentum=0.5, name="norm")
            row = tf.nn.embedding_lookup(tf.get_variable("table", [3, 1], initializer=tf.zeros_initializer()), [0, 2])
            loss = tf.reduce_sum(tf.square(tf.layers.dense(hidden, 1, name="out") + tf.reduce_sum(row) - y)) / 16
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS) if batch_norm else []):
                train = optimizer.minimize(loss, global_step=step)
            with tf.control_dependencies([train]):
                return tf.identity(loss)

        losses = strategy.experimental_run(work, iterator)
        total = strategy.reduce(tf.distribute.ReduceOp.SUM, losses)
        variables = tf.trainable_variables()
        statistics = [v for v in tf.global_variables() if "moving" in v.name]
        with tf.Session(config=SESSION) as session:
            session.run(iterator.initialize())
            session.run(tf.global_variables_initializer())
            for number, variable in enumerate(variables):
                start = np.random.default_rng(number).normal(size=variable.shape.as_list()) * 0.3
                variable.load(start.astype("f"), session)
            seen = [session.run(total) for _ in range(steps)]
            copies = [session.run(list(getattr(v, "values", [v]))) for v in variables]
            for values in copies:
                for value in values[1:]:
                    np.testing.assert_array_equal(value, values[0])
            assert session.run(step) == steps
            names = [v.name for v in tf.global_variables()]
            return seen, [values[0] for values in copies], session.run(statistics), names


OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_eight_replicas_train_like_one(name):
    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS[name])
    for strategy in (
        tf.distribute.MirroredStrategy(CPUS),
        tf.distribute.experimental.CentralStorageStrategy(CPUS, "/cpu:3"),
    ):
        losses, values, _, names = trained(strategy, OPTIMIZERS[name])
        np.testing.assert_allclose(losses, alone[0], rtol=2e-5)
        for own, expected in zip(values, alone[1], strict=True):
            np.testing.assert_allclose(own, expected, rtol=2e-4, atol=2e-6)
        assert names == alone[3]  # and so a checkpoint of one fits the other


def test_the_programs_of_replicas_run_compiled():
    strategy = tf.distribute.MirroredStrategy(CPUS[:2])
    with strategy.scope():
        v = tf.Variable(1.0)

    def work():
        return tf.train.GradientDescentOptimizer(0.5).minimize(tf.square(v - 3.0))

    train = strategy.experimental_run_v2(work)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(v.initializer)
        session.run(train)
        assert session.run(list(v.values)) == [5.0, 5.0]  # two gradients of -4


def test_statistics_of_batches_are_each_replicas_own_and_read_as_their_mean(tmp_path):
    strategy = tf.distribute.MirroredStrategy(CPUS[:4])
    data = np.arange(8.0, dtype="f").reshape(8, 1)
    with strategy.scope():
        iterator = strategy.make_dataset_iterator(tf.data.Dataset.from_tensors(data).repeat())

        def work(x):
            tf.layers.batch_normalization(x, training=True, momentum=0.0, name="norm")
            return tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))

        update = strategy.experimental_run(work, iterator)
        (mean,) = [v for v in tf.global_variables() if "moving_mean" in v.name]
        saver = tf.train.Saver()
    with tf.Session(config=SESSION) as session:
        session.run([*iterator.initialize(), tf.global_variables_initializer()])
        session.run(strategy.group(update))
        np.testing.assert_allclose(session.run(list(mean.values)), [[0.5], [2.5], [4.5], [6.5]])
        np.testing.assert_allclose(session.run(mean), [3.5])
        path = saver.save(session, str(tmp_path / "model"))
        assert tf.train.load_variable(path, "norm/moving_mean") == [3.5]
        saver.restore(session, path)
        np.testing.assert_allclose(session.run(list(mean.values)), [[3.5]] * 4)


def test_a_checkpoint_goes_from_one_device_to_many_and_back(tmp_path):
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
        with tf.Session(config=SESSION) as session:
            session.run(v.initializer)
            path = tf.train.Saver().save(session, str(tmp_path / "one"))
    strategy = tf.distribute.MirroredStrategy(CPUS)
    with strategy.scope():
        v = tf.get_variable("v", [2])
    doubled = v.assign(v * 2.0)
    with tf.Session(config=SESSION) as session:
        saver = tf.train.Saver()
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(list(v.values)), [[1.0, 2.0]] * 8)
        np.testing.assert_array_equal(session.run(doubled), [2.0, 4.0])
        np.testing.assert_array_equal(session.run(list(v.values)), [[2.0, 4.0]] * 8)
        back = saver.save(session, str(tmp_path / "many"))
    np.testing.assert_array_equal(tf.train.load_variable(back, "v"), [2.0, 4.0])
    assert tf.train.list_variables(back) == [("v", [2])]


@pytest.mark.parametrize(
    ("aggregation", "expected"), [("SUM", 1.0 + 6.0), ("MEAN", 1.0 + 2.0), ("ONLY_FIRST_REPLICA", 1.0 + 1.0)]
)
def test_replicas_update_a_variable_together(aggregation, expected):
    strategy = tf.distribute.MirroredStrategy(CPUS[:3])
    with strategy.scope():
        v = tf.Variable(1.0, aggregation=getattr(tf.VariableAggregation, aggregation))
        w = tf.Variable(1.0)

    def work():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return v.assign_add(number + 1.0)

    after = strategy.experimental_run_v2(work)
    with tf.Session(config=SESSION) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(list(after.values)) == [expected] * 3
        assert session.run(list(v.values)) == [expected] * 3
    with pytest.raises(ValueError, match="You must specify an aggregation method"):
        strategy.experimental_run_v2(lambda: w.assign_add(1.0))


def test_what_replicas_give_and_are_given():
    strategy = tf.distribute.MirroredStrategy(CPUS[:2])

    def dataset(context):
        assert context.get_per_replica_batch_size(8) == 4
        return tf.data.Dataset.range(100).map(lambda i: tf.cast(i, tf.float32)).batch(3)

    with strategy.scope():
        iterator = strategy.make_input_fn_iterator(dataset)
        devices = []

        def work(x):
            context = tf.distribute.get_replica_context()
            total = context.all_reduce(tf.distribute.ReduceOp.MEAN, x)
            devices.append(total.device)
            return x, total, "same"

        own, total, text = strategy.experimental_run(work, iterator)
        assert text == "same"
        mean = strategy.reduce("mean", own, axis=0)
    assert [device[-5:] for device in devices] == ["CPU:0", "CPU:1"] or devices == ["/device:CPU:0", "/device:CPU:1"]
    with tf.Session(config=SESSION) as session:
        session.run(iterator.initialize())
        first, both, average = session.run([list(own.values), list(total.values), mean])
        np.testing.assert_array_equal(first, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
        np.testing.assert_array_equal(both, [[1.5, 2.5, 3.5]] * 2)
        assert average == 2.5


def test_the_last_batch_is_cut_as_evenly_as_it_can_be():
    strategy = tf.distribute.MirroredStrategy(CPUS[:4])
    iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(11).batch(8))
    parts = strategy.experimental_local_results(iterator.get_next())
    with tf.Session(config=SESSION) as session:
        session.run(iterator.initialize())
        assert [part.tolist() for part in session.run(parts)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert [part.tolist() for part in session.run(parts)] == [[8], [9], [10], []]
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            session.run(parts)


def test_variables_of_replicas_go_by_their_names():
    strategy = tf.distribute.MirroredStrategy(CPUS[:3])
    with strategy.scope():

        def work():
            one, two = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="v")
            with tf.variable_scope(None, "layer"):
                return one + 10.0 * two + tf.get_variable("u", initializer=100.0)

        sums = strategy.experimental_run_v2(work)
    assert [v.name for v in tf.global_variables()] == ["v:0", "v_1:0", "layer/u:0"]
    with tf.Session(config=SESSION) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(list(sums.values)) == [121.0] * 3


def test_what_is_wrong_is_said():
    strategy = tf.distribute.MirroredStrategy(CPUS[:2])
    with strategy.scope():
        v = tf.Variable(1.0)
        with pytest.raises(RuntimeError, match="cannot be called in cross-replica context"):
            tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(v))
        with pytest.raises(RuntimeError, match="Mixing different"), tf.distribute.OneDeviceStrategy("/cpu:0").scope():
            pass

        def uneven():
            context = tf.distribute.get_replica_context()
            if context.replica_id_in_sync_group:
                return context.merge_call(lambda strategy: None)
            return None

        with pytest.raises(RuntimeError, match="and others did not"):
            strategy.experimental_run_v2(uneven)

        def fails():
            if tf.distribute.get_replica_context().replica_id_in_sync_group:
                raise KeyError("in the second replica")

        with pytest.raises(KeyError, match="in the second replica"):
            strategy.experimental_run_v2(fails)
    with pytest.raises(ValueError, match="none twice"):
        tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"])
    assert tf.distribute.get_replica_context() is not None
    assert not tf.distribute.has_strategy()


def test_a_replica_that_fails_leaves_no_thread():
    import threading

    strategy = tf.distribute.MirroredStrategy(CPUS)
    with pytest.raises(KeyError, match="each"), strategy.scope():
        strategy.experimental_run_v2(lambda: {}["each"])
    assert not [t for t in threading.enumerate() if "replica" in t.name]


def test_variables_that_replicas_give_their_number_are_copies_of_one():
    strategy = tf.distribute.MirroredStrategy(CPUS[:2])

    def make():
        context = tf.distribute.get_replica_context()
        number = int(context.replica_id_in_sync_group)
        first = tf.Variable(1.0, name=f"foo_{number}")
        context.merge_call(lambda *_: None)
        return first, tf.Variable(2.0, name=f"foo_{number + 3}/bar_{number + 1}"), tf.Variable(3.0, name="foo")

    with strategy.scope():
        variables = strategy.experimental_run_v2(make)
    names = [[part.name for part in strategy.experimental_local_results(variable)] for variable in variables]
    assert names == [
        ["foo_0:0", "foo_0/replica_1:0"],
        ["foo_3/bar_1:0", "foo_3/bar_1/replica_1:0"],
        ["foo:0", "foo/replica_1:0"],
    ]  # as TensorFlow 1.15.5 has them
