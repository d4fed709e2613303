"""`tf.config.experimental`: which devices there are; answers as TensorFlow 1.15.5 gives them with a CPU alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import anabranch as tf
from anabranch.eager import devices

CONFIG = tf.config.experimental


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(devices, "_parts", {})
    monkeypatch.setattr(devices, "_modes", dict(devices._modes))
    yield
    tf.config.experimental_run_functions_eagerly(False)


def test_the_cpu_is_one_device_of_the_machine() -> None:
    (cpu,) = CONFIG.list_physical_devices("CPU")
    assert cpu == ("/physical_device:CPU:0", "CPU")
    assert CONFIG.get_visible_devices("CPU") == [cpu]
    assert CONFIG.get_virtual_device_configuration(cpu) is None
    CONFIG.set_visible_devices(cpu, "CPU")
    first = CONFIG.list_logical_devices("CPU")[0]
    assert first == ("/job:localhost/replica:0/task:0/device:CPU:0", "CPU")
    assert tf.config.experimental_list_devices()[0] == first.name


def test_what_is_no_device_or_cannot_be_had_is_refused() -> None:
    (cpu,) = CONFIG.list_physical_devices("CPU")
    part: Any = CONFIG.VirtualDeviceConfiguration
    with pytest.raises(ValueError, match="Unrecognized device: 'x'"):
        CONFIG.set_virtual_device_configuration("x", [])
    with pytest.raises(ValueError, match="Unrecognized device"):
        CONFIG.set_visible_devices([cpu], "GPU")
    with pytest.raises(ValueError, match="Setting memory limit on CPU"):
        CONFIG.set_virtual_device_configuration(cpu, [part(memory_limit=5)])
    CONFIG.list_logical_devices()
    with pytest.raises(RuntimeError, match="ANABRANCH_CPU_DEVICES=99"):
        CONFIG.set_virtual_device_configuration(cpu, [part()] * 99)
    with pytest.raises(RuntimeError, match="Visible devices cannot be modified after being initialized"):
        CONFIG.set_visible_devices([], "CPU")


def test_the_cpu_becomes_several_devices_before_anything_runs() -> None:
    program = """
import anabranch as tf
config = tf.config.experimental
cpu = config.list_physical_devices("CPU")[0]
config.set_visible_devices(config.list_physical_devices("GPU"), "GPU")
two = [config.VirtualDeviceConfiguration()] * 2
config.set_virtual_device_configuration(cpu, two)
assert config.get_virtual_device_configuration(cpu) == two
assert len(config.list_logical_devices("CPU")) == 2
assert len(config.list_physical_devices("CPU")) == 1
config.set_virtual_device_configuration(cpu, two)
try:
    config.set_memory_growth(cpu, True)
except ValueError as problem:
    assert "virtual devices configured" in str(problem)
with tf.Session() as session, tf.device("/cpu:1"):
    assert session.run(tf.constant(1.0) + 1.0) == 2.0
print("done")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout == "done\n", ran.stderr


def test_modes_are_kept_and_checked() -> None:
    assert (CONFIG.get_device_policy(), CONFIG.get_synchronous_execution()) == ("silent", True)
    CONFIG.set_device_policy("explicit")
    CONFIG.set_synchronous_execution(False)
    assert (CONFIG.get_device_policy(), CONFIG.get_synchronous_execution()) == ("explicit", False)
    CONFIG.set_device_policy(None)
    assert CONFIG.get_device_policy() == "silent"
    with pytest.raises(ValueError, match="Not a valid device policy: 'other'"):
        CONFIG.set_device_policy("other")


def test_functions_run_line_by_line_where_that_is_asked_for() -> None:
    calls: list[Any] = []

    @tf.function
    def function(x: Any) -> Any:
        calls.append(x)
        return x + 1

    function(tf.constant(1))
    function(tf.constant(2))
    assert len(calls) == 1
    tf.config.experimental_run_functions_eagerly(True)
    assert int(function(tf.constant(3))) == 4
    assert len(calls) == 2
    assert calls[1].numpy() == 3
