"""Strategies by the words of TensorFlow 1.8."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.contrib import distribute
from anabranch.eager.mode import eager_mode


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def test_towers_train_by_reduce_and_update():
    strategy = distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        v = tf.get_variable("v", initializer=1.0)
        rate = strategy.broadcast(tf.constant(0.25))

        def gradient(x):
            context = distribute.get_tower_context()
            assert (context.tower_id, context.num_towers, context.is_single_tower) == (0, 1, True)
            assert context.distribution_strategy is strategy
            assert context.merge_call(lambda s, x: s is strategy and x, x) is x
            return tf.gradients(tf.square(v - x), [v])[0]

        grad = strategy.call_for_each_tower(gradient, tf.constant(3.0), run_concurrently=False)
        total = strategy.reduce("sum", grad, destinations=v)
        (train,) = strategy.unwrap(strategy.update(v, lambda v, g: v.assign_sub(g * rate), total))
        with tf.control_dependencies([train]):
            after = strategy.fetch(v, fn=lambda x: x * 10.0)
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(after) == 20.0
        assert session.run(v) == 2.0


def test_towers_on_devices_have_numbers_and_values_of_their_own():
    strategy = distribute.MirroredStrategy(["/device:CPU:0", "/device:GPU:0"])
    with strategy.scope():

        def work(number):
            def named(next_creator, *args, **kwargs):
                return f"{next_creator(*args, **kwargs)} of tower {number}"

            with tf.variable_creator_scope(named):
                v = tf.Variable(1.0)
                distribute.get_tower_context().merge_call(lambda strategy: strategy)
            return v, distribute.get_tower_context().device

        with tf.variable_creator_scope(lambda next_creator, *args, **kwargs: "a variable"):
            made, devices = strategy.call_for_each_tower(work, strategy.worker_device_index)
        assert strategy.unwrap(made) == ["a variable of tower 0", "a variable of tower 1"]
        assert strategy.unwrap(devices) == strategy.worker_devices == ["/device:CPU:0", "/device:GPU:0"]
        assert distribute.get_cross_tower_context() is strategy
        assert distribute.get_tower_context() is None


def test_a_list_is_mapped_and_reduced():
    strategy = distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        products = strategy.map(list(range(10)), lambda x, y: tf.constant(x * y), 2)
        total = strategy.reduce("sum", products)
        assert len(strategy.unwrap(products)) == 10
        pairs = strategy.map([1.0, 2.0], lambda x: tf.constant([x, 3 * x]))
        reduced = [strategy.reduce(how, pairs, axis, "/cpu:0") for how in ("sum", "mean") for axis in (None, 0)]
    rows = strategy.reduce("mean", tf.constant([[1.0, 2.0], [3.0, 4.0]]), 0)
    with tf.Session() as session:
        assert session.run(total) == 90
        assert [value.tolist() for value in session.run(reduced)] == [[3.0, 9.0], 12.0, [1.5, 4.5], 3.0]
        assert session.run(rows).tolist() == [2.0, 3.0]


def test_variables_of_a_tower_are_read_as_their_aggregate():
    strategy = distribute.MirroredStrategy(["/device:CPU:0", "/device:GPU:0"])
    with strategy.scope(), strategy.tower_local_var_scope("mean"):
        v = tf.Variable(1.0, name="v")
    assert v.aggregation is tf.VariableAggregation.MEAN
    assert not v.trainable
    assert v.synchronization is tf.VariableSynchronization.ON_READ


def test_towers_outside_of_their_scope_are_refused():
    strategy = distribute.OneDeviceStrategy("/cpu:0")
    with pytest.raises(RuntimeError, match="Need to be inside"):
        strategy.call_for_each_tower(lambda: None)
    context = distribute.get_tower_context()
    assert context is distribute.get_tower_context()  # without a strategy there is one
    assert tf.distribute.get_replica_context() is tf.distribute.get_replica_context()
    distribute.require_tower_context(context)
    with strategy.scope(), pytest.raises(RuntimeError, match="Need to be inside `call_for_each_tower"):
        distribute.require_tower_context(context)


def _standard_step(strategy, rate=0.25, elements=3):
    v = tf.get_variable("v", initializer=5.0)
    unused = tf.get_variable("unused", initializer=1.0)
    return v, distribute.StandardSingleLossStep(
        lambda: tf.data.Dataset.from_tensors(1.0).repeat(elements),
        lambda x: tf.square(v - x) + 0.0 * tf.stop_gradient(unused),
        tf.train.GradientDescentOptimizer(rate),
        strategy,
    )


def test_a_standard_step_runs_until_its_input_ends():
    strategy = distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope(), tf.Session() as session:
        v, step = _standard_step(strategy)
        assert step.distribution is strategy
        monitor = distribute.Monitor(step, session)
        monitor.run_steps(1)
        assert session.run(v) == 3.0
        monitor.run_steps()
        assert session.run(v) == 1.5
        monitor.run_steps(4)
        assert session.run(v) == 1.5


def test_a_standard_step_sums_gradients_over_its_towers():
    strategy = distribute.MirroredStrategy(["/device:CPU:0", "/device:GPU:0"])
    with strategy.scope(), tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        v, step = _standard_step(strategy, rate=0.125, elements=4)
        distribute.Monitor(step, session).run_steps(1)
        assert session.run(v) == 3.0


def test_a_monitor_wants_a_session_exactly_in_graph_mode():
    with pytest.raises(ValueError, match="Should provide a `session` in Graph mode"):
        distribute.Monitor(lambda: None)
    with tf.Session() as session:
        with eager_mode(), pytest.raises(ValueError, match="Should not provide a `session` in Eager mode"):
            distribute.Monitor(lambda: None, session)
        assert distribute.Monitor(tf.no_op, session).run_steps(2) is None
    with pytest.raises(NotImplementedError, match="a class that has inputs"):
        distribute.Step(None)()
