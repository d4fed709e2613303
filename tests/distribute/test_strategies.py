"""Strategies: over eight devices in a process that has them; of one device here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch as tf

CASES = Path(__file__).parent


@pytest.mark.multiprocess
@pytest.mark.timeout(400)
@pytest.mark.parametrize("cases", ["on_eight_devices.py", "replicas_as_one.py", "keras_on_replicas.py"])
def test_on_eight_devices(cases):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(CASES / cases)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "ANABRANCH_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
        lambda: tf.distribute.MirroredStrategy(),
        lambda: tf.contrib.distribute.MirroredStrategy(num_gpus=0),
        lambda: tf.contrib.distribute.OneDeviceStrategy("/cpu:0"),
    ],
)
def test_one_device_trains_as_without_a_strategy(make):
    with tf.Graph().as_default():
        strategy = make()
        with strategy.scope():
            v = tf.get_variable("v", initializer=1.0)
            step = tf.train.get_or_create_global_step()

            def work(x):
                return tf.train.GradientDescentOptimizer(0.25).minimize(tf.square(v - x), global_step=step)

            train = strategy.extended.call_for_each_replica(work, args=(3.0,))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            assert session.run([v, step]) == [2.0, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
        lambda: tf.distribute.MirroredStrategy(["/cpu:0"]),
        lambda: tf.distribute.experimental.ParameterServerStrategy(),
        lambda: tf.contrib.distribute.MirroredStrategy(["/cpu:0"]),
    ],
)
def test_variables_of_strategies_are_resources_that_tapes_see(make):
    with tf.Graph().as_default(), make().scope():
        v = tf.Variable(2.0)
        w = tf.get_variable("w", [], use_resource=False, initializer=tf.ones_initializer())
        gradients = tf.contrib.eager.implicit_gradients(lambda x: v * w * x)(tf.constant(3.0))
        assert {variable.name: variable.op.type for _, variable in gradients} == {
            "Variable:0": "VarHandleOp",
            "w:0": "VarHandleOp",
        }
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run([gradient for gradient, _ in gradients]) == [3.0, 6.0]


def test_without_a_strategy_the_only_replica_is_the_program():
    with tf.Graph().as_default():
        assert tf.distribute.get_strategy().num_replicas_in_sync == 1
        assert tf.distribute.get_strategy().experimental_run_v2(lambda x: x + 1, args=(2,)) == 3
        assert tf.distribute.get_replica_context().merge_call(lambda strategy, x: x, args=(5,)) == 5
        assert not tf.distribute.in_cross_replica_context()


def test_a_batch_that_replicas_cannot_share_is_refused():
    with pytest.raises(ValueError, match="is not divisible by"):
        tf.distribute.InputContext(1, 0, 3).get_per_replica_batch_size(8)
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"a tf\.distribute\.ReduceOp"):
        tf.distribute.get_strategy().reduce("product", 1.0)


def compile_model(strategy):
    with tf.Graph().as_default(), strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_dim=2)])
        model.compile("sgd", "mse")


def test_keras_models_of_several_processes_are_refused():
    cluster = tf.train.ClusterSpec({"worker": ["b:1", "c:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=0)
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    with pytest.raises(tf.errors.UnimplementedError, match="of several processes"):
        compile_model(strategy)


def test_ways_of_communication_have_their_names() -> None:
    ways = tf.distribute.experimental.CollectiveCommunication
    assert [way.value for way in ways] == ["AUTO", "RING", "NCCL"]
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(communication=ways.RING)
    assert strategy.num_replicas_in_sync >= 1
