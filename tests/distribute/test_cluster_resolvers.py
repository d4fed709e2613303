"""Where the addresses of a cluster come from, and strategies that use them."""

from __future__ import annotations

import types

import pytest

import anabranch as tf
from anabranch.distribute.cluster_resolvers import expanded_hosts

resolvers = tf.distribute.cluster_resolver
CONFIG = '{"cluster": {"ps": ["p:1"], "worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": %s}}'


def test_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", CONFIG % 1)
    resolver = resolvers.TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.cluster_spec().as_dict() == {"ps": ["p:1"], "worker": ["a:1", "b:1"]}
    assert resolver.master() == "b:1"
    assert resolver.master("ps", 0, "grpc") == "grpc://p:1"
    assert resolvers.TFConfigClusterResolver(task_type="ps", task_id=0).master() == "p:1"
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}}')
    assert resolvers.TFConfigClusterResolver().master() == ""  # it is alone
    monkeypatch.delenv("TF_CONFIG")
    assert resolvers.TFConfigClusterResolver().cluster_spec().as_dict() == {}
    monkeypatch.setenv("TF_CONFIG", "{cluster}")
    with pytest.raises(ValueError, match="JSON with the cluster and the task"):
        resolvers.TFConfigClusterResolver()


def test_a_cluster_that_is_given_and_several_together():
    one = resolvers.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["a:1"]}), "a:1", "worker", 0, rpc_layer="grpc"
    )
    two = resolvers.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["b:1"], "ps": ["p:1"]}))
    assert one.master() == "grpc://a:1"
    both = tf.contrib.cluster_resolver.UnionClusterResolver(one, two)
    assert both.cluster_spec().as_dict() == {"worker": ["a:1", "b:1"], "ps": ["p:1"]}
    assert (both.master(), both.master("worker", 1)) == ("grpc://a:1", "grpc://b:1")
    with pytest.raises(TypeError, match="must be a ClusterSpec"):
        resolvers.SimpleClusterResolver({"worker": ["a:1"]})


def test_slurm(monkeypatch):
    assert expanded_hosts("a[1-3,07],b,c[09-10]x") == ["a1", "a2", "a3", "a07", "b", "c09x", "c10x"]
    facts = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    for name, value in facts.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "all")
    resolver = resolvers.SlurmClusterResolver({"worker": 3, "ps": 1}, gpus_per_node=2)
    assert resolver.cluster_spec().as_dict() == {"ps": ["n1:8888"], "worker": ["n1:8889", "n2:8888", "n2:8889"]}
    assert resolver.get_task_info() == ("worker", 2)
    assert resolver.master() == "grpc://n2:8889"
    import os

    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    with pytest.raises(RuntimeError, match="Requested 3 tasks but only 4"):
        resolvers.SlurmClusterResolver({"worker": 3})
    monkeypatch.delenv("SLURM_PROCID")
    with pytest.raises(RuntimeError, match="a process that Slurm has started"):
        resolvers.SlurmClusterResolver({"worker": 4})


def test_kubernetes():
    def pod(name, phase, ip):
        status = types.SimpleNamespace(phase=phase, pod_ip=ip, host_ip=None)
        return types.SimpleNamespace(metadata=types.SimpleNamespace(name=name), status=status)

    pods = {"job=w": [pod("w-1", "Running", "10.0.0.2"), pod("w-0", "Running", "10.0.0.1")], "job=p": []}
    client = types.SimpleNamespace(
        list_pod_for_all_namespaces=lambda label_selector: types.SimpleNamespace(items=pods[label_selector])
    )
    resolver = resolvers.KubernetesClusterResolver({"worker": ["job=w"], "ps": ["job=p"]}, override_client=client)
    assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.1:8470", "10.0.0.2:8470"], "ps": []}
    pods["job=p"].append(pod("p-0", "Pending", None))
    with pytest.raises(RuntimeError, match='"p-0" is not running'):
        resolver.cluster_spec()


def test_variables_of_a_parameter_server_strategy_are_on_the_servers(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", (CONFIG % 1).replace('"p:1"', '"p:1", "q:1"'))
    for strategy in (
        tf.distribute.experimental.ParameterServerStrategy(),
        tf.contrib.distribute.ParameterServerStrategy(),
    ):
        with tf.Graph().as_default(), strategy.scope():
            step = tf.train.get_or_create_global_step()
            v = tf.get_variable("v", initializer=[1.0, 2.0])

            def work(v=v, step=step):
                loss = tf.reduce_sum(tf.square(v), name="loss")
                return loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step)

            loss, _ = strategy.experimental_run_v2(work)
            assert [v.device for v in tf.global_variables()][:2] == ["/job:ps/task:0", "/job:ps/task:1"]
            (slot,) = [v for v in tf.global_variables() if "Momentum" in v.name]
            assert slot.op.colocation_groups() == v.op.colocation_groups()
            assert loss.device == "/job:worker/task:1"
            assert not strategy.extended.should_checkpoint
            assert strategy.extended.parameter_devices == ("/job:ps/task:0", "/job:ps/task:1")


@pytest.mark.parametrize(
    "make", [tf.distribute.experimental.MultiWorkerMirroredStrategy, tf.contrib.distribute.CollectiveAllReduceStrategy]
)
def test_mirrors_over_several_workers_are_on_each_of_them(monkeypatch, make):
    monkeypatch.setenv("TF_CONFIG", CONFIG % 1)
    strategy = make()
    assert strategy.num_replicas_in_sync == 2
    assert list(strategy.extended.worker_devices) == ["/job:worker/task:1/device:CPU:0"]
    assert not strategy.extended.should_checkpoint
    with tf.Graph().as_default(), strategy.scope():
        assert tf.get_variable("v", [2]).device == "/job:worker/task:1/device:CPU:0"
    monkeypatch.delenv("TF_CONFIG")
    assert make().num_replicas_in_sync == 1
