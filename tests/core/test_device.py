"""Device names and scopes, against what TensorFlow makes of them."""

import copy
import pickle
from types import SimpleNamespace

import pytest

from anabranch.core.device import (
    DeviceScope,
    DeviceSpec,
    canonical_name,
    check_valid,
    merge_device,
    merge_names,
    resolve,
)


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("/gpu:0", "/device:GPU:0"), ("/cpu", "/device:CPU:*"), ("gpu:0", "/device:GPU:0"), ("/TPU:1", "/device:TPU:1"),
        ("/gpu:*", "/device:GPU:*"), ("/device:gpu:0", "/device:GPU:0"), ("/device:XLA_CPU:0", "/device:XLA_CPU:0"),
        ("/device:CPU", "/device:CPU:*"), ("", ""), ("/", ""), ("//gpu:0", "/device:GPU:0"), ("/job:*/task:*", ""),
        ("/job:a/replica:1/task:2/device:GPU:3", "/job:a/replica:1/task:2/device:GPU:3"),
        ("/job:a/task:0/gpu:1", "/job:a/task:0/device:GPU:1"),
        ("/device:CPU:0/replica:1/job:x", "/job:x/replica:1/device:CPU:0"),
    ],
)  # fmt: skip
def test_canonical_names(name, canonical):
    assert (
        canonical_name(name)
        == canonical_name(name.encode())
        == canonical_name(DeviceSpec.from_string(name))
        == canonical
    )
    assert DeviceSpec.from_string(name).to_string() == canonical_name(canonical) == canonical
    check_valid(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "/gpu:x",
            r"'/gpu:x': 'x' in 'gpu:x' is not a number\nExpected: parts such.*\nInstead: '/gpu:0', or '/gpu:\*'",
        ),
        ("/device:GPU:x", r"'x' in 'device:GPU:x' is not a number\n.*\nInstead: '/device:GPU:0'"),
        ("/task:-1", r"'-1' in 'task:-1' is not a number"),
        ("/task:x", r"invalid literal for int\(\) with base 10: 'x'"),
        (
            "/job:a/cpu:0/gpu:1",
            r"Multiple device types are not allowed .*/gpu:1.\n.*it names two devices",
        ),
        ("/job:a/job:b", r"it gives the job twice"),
        ("/xpu:0", r"'xpu:0' is not a part of a device name\n.*\nInstead: '/device:XPU:0'"),
        ("/job:", r"'job:' is not complete"),
        ("/job", r"'job' is not complete"),
        ("/job:a:b", r"'job:a:b' is not complete"),
        ("/device:CPU:0:1", r"'device:CPU:0:1' is not complete"),
        ("/cpu:0:1", r"'cpu:0:1' is not a device"),
        ("nonsense", r"'nonsense' is not complete"),
    ],
)
def test_wrong_names(name, text):
    with pytest.raises(ValueError, match=text):
        check_valid(name)


def test_types_of_others_keep_their_case():
    assert DeviceSpec(device_type="MyDevice", device_index=2).to_string() == "/device:MyDevice:2"
    assert DeviceSpec.from_string("/device:MyDevice:2").device_type == "MyDevice"
    assert DeviceSpec(device_type="tpu").to_string() == "/device:TPU:*"


def test_spec():
    spec = DeviceSpec(job="worker", task=1, device_type="gpu", device_index="3")
    assert (spec.job, spec.replica, spec.task, spec.device_type, spec.device_index) == ("worker", None, 1, "GPU", 3)
    assert spec.to_string() == "/job:worker/task:1/device:GPU:3"
    assert spec == DeviceSpec.from_string(spec.to_string())
    assert spec != spec.to_string()
    assert len({spec, copy.copy(spec), pickle.loads(pickle.dumps(spec)), DeviceSpec()}) == 2
    assert repr(spec) == "DeviceSpec(job='worker', task=1, device_type='GPU', device_index=3)"
    assert spec.replace(task=2).to_string() == "/job:worker/task:2/device:GPU:3"
    assert DeviceSpec(job="a", device_index=3).to_string() == "/job:a"
    assert DeviceSpec.from_string(None) == DeviceSpec()
    other = copy.copy(spec)
    other.job, other.replica, other.task, other.device_type, other.device_index = "ps", 1, 0, "cpu", None
    assert other.to_string() == "/job:ps/replica:1/task:0/device:CPU:*"
    assert spec.job == "worker"


def test_spec_merging():
    spec = DeviceSpec.from_string("/job:a/gpu:1")
    assert spec.make_merged_spec(DeviceSpec(job="b", task=2)).to_string() == "/job:b/task:2/device:GPU:1"
    assert spec.merge_from(DeviceSpec(device_type="CPU")) is None
    assert spec.to_string() == "/job:a/device:CPU:1"
    assert spec.parse_from_string("/task:1") is spec
    assert spec.to_string() == "/task:1"


@pytest.mark.parametrize("part", ["replica", "task", "device_index"])
def test_spec_refuses_what_is_no_number(part):
    with pytest.raises(ValueError, match=rf"'x' as the {part} of a device\nExpected: a number or None"):
        DeviceSpec(**{part: "x"})
    with pytest.raises(ValueError, match=rf"\[\] as the {part}"):
        setattr(DeviceSpec(), part, [])


def device_of(*scopes, device=""):
    op = SimpleNamespace(name="n", device=device, type="NoOp")
    op._set_device = lambda text: setattr(op, "device", text)
    scope = None
    for entry in scopes:
        scope = DeviceScope(scope, entry)
    return resolve(scope, op)


@pytest.mark.parametrize(
    ("scopes", "device"),
    [
        ((), ""), (("",), ""), (("/job:a", ""), "/job:a"), (("/job:a", "/gpu:0"), "/job:a/device:GPU:0"),
        (("/gpu:1", "/cpu"), "/device:CPU:1"), (("/job:a/task:3", "/job:b"), "/job:b/task:3"),
        (("/job:a", None, "/cpu:0"), "/device:CPU:0"), (("/job:a", None), ""), ((None,), ""),
        (("/job:a", DeviceSpec(task=1)), "/job:a/task:1"), (("/job:a", lambda op: DeviceSpec(task=2)), "/job:a/task:2"),
        ((lambda op: "/job:f", "/cpu:0"), "/job:f"), (("/task:4", lambda op: "/job:f", "/cpu:0"), "/job:f/task:4"),
        ((lambda op: "", "/cpu:0"), ""), ((lambda op: op.device + "/job:z", "/cpu:0"), "/job:z/device:CPU:0"),
        (("/job:a", None, lambda op: "/task:1"), "/task:1"),
        (("/job:a/cpu:0", lambda op: "/job:f"), "/job:f/device:CPU:0"),
        (("/task:1", merge_device("/job:z/task:3"), "/cpu:0"), "/job:z/task:3/device:CPU:0"),
        ((lambda op: "/gpu:0" if op.type == "MatMul" else "/cpu:0",), "/device:CPU:0"),
    ],
)  # fmt: skip
def test_scopes_merge_from_the_inside_out(scopes, device):
    assert device_of(*scopes) == device


def test_a_device_of_the_operation_itself_stands():
    assert device_of("/job:a/cpu:0", device="/device:GPU:1") == "/job:a/device:GPU:1"
    assert device_of("/job:a", lambda op: op.device, device="/device:GPU:1") == "/job:a/device:GPU:1"
    assert device_of(device="/device:GPU:1") == "/device:GPU:1"
    assert merge_names("/job:a", "/task:1") == "/job:a/task:1"


def test_scopes_with_names_only_are_merged_once():
    outer = DeviceScope(None, "/job:a")
    assert DeviceScope(outer, "/cpu:0").merged == "/job:a/device:CPU:0"
    assert DeviceScope(DeviceScope(outer, lambda op: ""), "/cpu:0").merged is None
    assert DeviceScope(DeviceScope(DeviceScope(outer, lambda op: ""), None), "/cpu:0").merged == "/device:CPU:0"


@pytest.mark.parametrize("answer", [None, 5])
def test_a_function_must_return_a_device(answer):
    with pytest.raises(
        TypeError, match=rf"a device function that returned {answer} for operation 'n'\nExpected: a device name"
    ):
        device_of(lambda op: answer)


@pytest.mark.parametrize("entry", [5, ["/cpu:0"]])
def test_what_is_no_device_is_refused(entry):
    with pytest.raises(TypeError, match=r"as a device\nExpected: a device name, a tf.DeviceSpec, a function"):
        DeviceScope(None, entry)
    with pytest.raises(TypeError, match="as a device"):
        canonical_name(entry)


def test_a_wrong_name_is_refused_when_the_scope_is_entered():
    with pytest.raises(ValueError, match="'/gpu:x'"):
        DeviceScope(None, "/gpu:x")
