"""Variables on parameter servers, everything else on workers."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.core.protos.cluster_pb2 import ClusterDef

CLUSTER = {"ps": ["ps0:2222", "ps1:2222"], "worker": ["worker0:2222", "worker1:2222", "worker2:2222"]}


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(
    "cluster", [CLUSTER, tf.train.ClusterSpec(CLUSTER), tf.train.ClusterSpec(CLUSTER).as_cluster_def()], ids=type
)
@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_take_turns(cluster, use_resource):
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        v, w, x = (tf.Variable([1.0, 2.0], use_resource=use_resource) for _ in range(3))
        total = v + w
    assert [each.device for each in (v, w, x)] == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]
    assert w.initializer.device == "/job:ps/task:1"
    assert total.device == "/job:worker"


def test_what_an_op_names_stands_and_the_rest_is_filled_in():
    with tf.device(tf.train.replica_device_setter(cluster=CLUSTER, worker_device="/job:worker/task:2/gpu:1")):
        with tf.device("/cpu:0"):
            v = tf.Variable([1.0, 2.0])
            total = v + 1.0
        with tf.device("/job:moon"):
            w = tf.Variable([2.0, 1.0])
        with tf.device("/job:ps"):  # which of its tasks is still chosen
            x = tf.Variable([2.0, 1.0])
    assert v.device == "/job:ps/task:0/device:CPU:0"
    assert total.device == "/job:worker/task:2/device:CPU:0"
    assert (w.device, x.device) == ("/job:moon", "/job:ps/task:1")


def test_without_merging_a_device_stays_as_it_is():
    with tf.device(tf.train.replica_device_setter(cluster=CLUSTER, merge_devices=False)):
        v = tf.Variable([1.0, 2.0])
        with tf.device("/job:ps"):
            w = tf.Variable([1.0, 2.0])
            total = v + w
    assert (v.device, w.device, total.device) == ("/job:ps/task:0", "/job:ps", "/job:ps")


def test_a_server_that_is_no_job_takes_all():
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, ps_device="/cpu:0")):
        v, w = tf.Variable(1.0), tf.Variable(2.0)
    assert v.device == w.device == "/device:CPU:0"


@pytest.mark.parametrize("options", [{}, {"cluster": {"worker": ["a:1"]}}, {"cluster": CLUSTER, "ps_device": "/cpu:0"}])
def test_no_parameter_servers(options):
    setter = tf.train.replica_device_setter(**options)
    assert setter is None
    with tf.device(setter):
        assert tf.Variable(1.0).device == ""


def test_other_ops_and_other_turns():
    with tf.device(tf.train.replica_device_setter(ps_tasks=3, ps_ops=["Neg"], ps_strategy=lambda op: 2)):
        v = tf.Variable(1.0)
        negative = tf.negative(v)
    assert (v.device, negative.device) == ("/job:worker", "/job:ps/task:2")
    with pytest.raises(TypeError, match="ps_strategy must be callable"):
        tf.train.replica_device_setter(ps_tasks=3, ps_strategy=2)


def test_the_task_with_the_least_load_takes_the_next():
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(cluster=CLUSTER, ps_strategy=strategy)):
        variables = [tf.get_variable(f"v{size}", [size], use_resource=size == 100) for size in (100, 30, 60, 20, 5)]
    assert [v.device[-1] for v in variables] == ["0", "1", "1", "1", "0"]


def test_a_graph_with_a_setter_for_one_machine_runs():
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, ps_device="/cpu:0", worker_device="/cpu:0")):
        v = tf.Variable(2.0)
        y = v * 3.0
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(y) == 6.0


# ------------------------------------------------------------------------------------------------------------- clusters
def test_a_cluster():
    cluster = tf.train.ClusterSpec({"worker": {2: "c:1", 0: b"a:1"}, "ps": ("p:1",)})
    assert sorted(cluster.jobs) == ["ps", "worker"]
    assert (cluster.num_tasks("worker"), cluster.task_indices("worker")) == (2, [0, 2])
    assert (cluster.task_address("worker", 2), cluster.job_tasks("worker")) == ("c:1", ["a:1", None, "c:1"])
    assert cluster.as_dict() == {"worker": {0: "a:1", 2: "c:1"}, "ps": ["p:1"]}
    message = ClusterDef()
    message.job.add(name="ps").tasks[0] = "p:1"
    message.job.add(name="worker").tasks.update({0: "a:1", 2: "c:1"})
    assert cluster.as_cluster_def() == message
    assert cluster == tf.train.ClusterSpec(message) == tf.train.ClusterSpec(cluster)
    assert cluster != tf.train.ClusterSpec({"ps": ["p:1"]})
    assert bool(cluster)
    assert not tf.train.ClusterSpec({})


@pytest.mark.parametrize("cluster", ["ps:2222", {"ps": "ps:2222"}, {"ps": [1]}, {1: ["ps:2222"]}, {"ps": {"0": "a:1"}}])
def test_what_is_not_a_cluster(cluster):
    with pytest.raises(TypeError, match=r"Expected: a (dict of job names|string)"):
        tf.train.ClusterSpec(cluster)


def test_tasks_that_are_not_there():
    cluster = tf.train.ClusterSpec(CLUSTER)
    with pytest.raises(ValueError, match="No such job in cluster: 'chief'"):
        cluster.num_tasks("chief")
    with pytest.raises(ValueError, match="No task with index 2 in job 'ps'"):
        cluster.task_address("ps", 2)


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        (None, "`cluster` must be a dictionary mapping one or more job names to lists of network addresses"),
        ("host:1", "`cluster` must be a dictionary mapping one or more job names"),
        ({"a": "host:1"}, "The tasks for job 'a' must be a list or a dictionary from integers to strings"),
        ({"a": {"0": "host:1"}}, "The tasks for job 'a' must be a list or a dictionary from integers to strings"),
        ({"a": [1]}, "Task address 1 must be bytes or unicode"),
        ({1: ["host:1"]}, "Job name 1 must be bytes or unicode"),
    ],
)
def test_what_is_not_a_cluster_is_refused_in_tensorflows_words(cluster, text):
    with pytest.raises(TypeError, match=text):
        tf.train.ClusterSpec(cluster)
