"""Where ops go: what they name, their variables, their groups, what they use, what uses them."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.placement.devices import Device, Devices
from anabranch.placement.placer import Placer
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.slots import handle_of


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def plan_of(*fetches, soft=False, gpus=0, cpus=4, limits=None):
    counts = {"cpu": cpus, "gpu": gpus}
    devices = Devices(lambda platform: counts.get(platform, 0), lambda: "gpu" if gpus else "cpu", limits)
    return Plan(fetches, (), handle_of, Placer(devices, soft), SessionOptions(), ())


def places(plan, *tensors):
    return [f"{plan.device[tensor.op].platform}:{plan.device[tensor.op].number}" for tensor in tensors]


def value():
    return tf.random_uniform([3])


def test_nothing_named_goes_to_the_default_device():
    x = value()
    y = x + 1.0
    assert places(plan_of(y), x, y) == ["cpu:0", "cpu:0"]
    assert places(plan_of(y, gpus=2), x, y) == ["gpu:0", "gpu:0"]
    assert plan_of(y).device.reasons_of([x.op, y.op]) == ""


def test_an_op_goes_where_what_it_uses_is_or_where_its_users_are():
    free = value()
    with tf.device("/cpu:1"):
        x = value()
    y = x * 2.0
    z = tf.tanh(y + free)
    with tf.device("/cpu:3"):
        other = value()
    mixed = z + other
    plan = plan_of(mixed)
    assert places(plan, free, x, y, z, other, mixed) == ["cpu:1", "cpu:1", "cpu:1", "cpu:1", "cpu:3", "cpu:0"]
    assert plan.device.reasons_of([tensor.op for tensor in (free, x, y, mixed)]) == (
        "1 named, 1 where their inputs are, 1 where their users are, 1 free"
    )


def test_another_platform_draws_nothing_after_it():
    with tf.device("/cpu:0"):
        x = value()
    y = x * 2.0
    with tf.device("/gpu:1"):
        z = y + 1.0
    assert places(plan_of(z, gpus=2), x, y, z) == ["cpu:0", "gpu:1", "gpu:1"]


@pytest.mark.parametrize("use_resource", [False, True])
def test_who_takes_a_handle_goes_with_the_variable(use_resource):
    with tf.device("/cpu:2"):
        v = tf.Variable(tf.zeros([3]), use_resource=use_resource)
    with tf.device("/cpu:1"):
        update = tf.group(tf.assign(v, value()))
        used = v * 2.0
    follows = tf.square(v)
    plan = plan_of(update, used, follows)
    writer = next(op for op in plan.analysis.order if plan.analysis.state_of(op).writes)
    assert plan.device[writer] == Device("cpu", 2)
    assert places(plan, used, follows) == ["cpu:1", "cpu:2"]


def test_gradients_stay_with_their_tower():
    losses, gradients = [], []
    for i in (1, 2):
        with tf.device(f"/cpu:{i}"):
            x = value()
            losses.append(tf.reduce_sum(tf.square(tf.tanh(x))))
        gradients += tf.gradients(losses[-1], x)
    assert places(plan_of(*gradients), *gradients) == ["cpu:1", "cpu:2"]


def test_a_group_is_together():
    with tf.device("/cpu:3"):
        first = value()
    other = value()
    with tf.colocate_with(first):
        late = other + 1.0
    with tf.device("/cpu:1"):
        far = tf.identity(other)
    second = tf.identity(far)
    second.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@" + late.op.name.encode()])))
    plan = plan_of(first, late, second)
    assert places(plan, first, late, far, second) == ["cpu:3", "cpu:3", "cpu:1", "cpu:3"]


def test_a_group_whose_members_name_different_devices():
    with tf.device("/cpu:0"):
        a = tf.identity(value(), name="a")
    with tf.device("/cpu:1"):
        b = tf.identity(a, name="b")
    b.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@a"])))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"Cannot colocate nodes 'b' placed on '/device:CPU:1' and 'a' placed on '/device:CPU:0': Cannot merge",
    ):
        places(plan_of(b), a)
    assert places(plan_of(b, soft=True), a, b) == ["cpu:0", "cpu:0"]


def test_a_device_that_is_not_there():
    with tf.device("/cpu:5"):
        x = value()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"(?s)assigned to /device:CPU:5 but available.*{'CPU': 6}"
    ):
        plan_of(x)
    assert places(plan_of(x, soft=True), x) == ["cpu:0"]
    assert places(plan_of(x, cpus=6), x) == ["cpu:5"]


@pytest.mark.parametrize("soft", [False, True])
def test_another_task(soft):
    with tf.device("/job:worker/task:1"):
        x = value()
    with pytest.raises(tf.errors.InvalidArgumentError, match="assigned to /job:worker/task:1 but available"):
        plan_of(x, soft=soft)


def test_a_session_may_use_fewer_devices_than_there_are():
    x = value()
    assert places(plan_of(x, gpus=2, limits={"GPU": 0}), x) == ["cpu:0"]
    with tf.device("/cpu:1"):
        y = value()
    with pytest.raises(tf.errors.InvalidArgumentError, match="assigned to /device:CPU:1"):
        plan_of(y, limits={"CPU": 1})
    devices = Devices({"cpu": 4, "gpu": 2}.__getitem__, lambda: "gpu", {"CPU": 2, "GPU": 1})
    assert [str(device).rpartition("device:")[2] for device in devices.listed()] == ["CPU:0", "CPU:1", "GPU:0"]
