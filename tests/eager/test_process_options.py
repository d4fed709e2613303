"""`tf.config`: threads, placement, optimizers of what runs at once; answers as TensorFlow 1.15.5 gives them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import anabranch as tf
from anabranch.eager import process_options
from anabranch.eager.mode import EAGER
from anabranch.xla import startup

THREADING, OPTIMIZER = tf.config.threading, tf.config.optimizer


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(process_options, "_choices", process_options._Choices())
    monkeypatch.setattr(EAGER, "config", EAGER.config)
    return


def test_what_is_chosen_without_a_word() -> None:
    assert THREADING.get_inter_op_parallelism_threads() == 0
    assert THREADING.get_intra_op_parallelism_threads() == 0
    assert tf.config.get_soft_device_placement() is False
    assert tf.debugging.get_log_device_placement() is False
    assert OPTIMIZER.get_jit() is False
    assert OPTIMIZER.get_experimental_options() == {"disable_model_pruning": False, "disable_meta_optimizer": False}


def test_hints_are_told_again() -> None:
    OPTIMIZER.set_jit(True)
    OPTIMIZER.set_experimental_options({"layout_optimizer": False})
    OPTIMIZER.set_experimental_options({"constant_folding": True})
    tf.config.set_soft_device_placement(True)
    assert OPTIMIZER.get_jit() is True
    assert OPTIMIZER.get_experimental_options() == {
        "layout_optimizer": False,
        "constant_folding": True,
        "disable_model_pruning": False,
        "disable_meta_optimizer": False,
    }
    assert tf.config.get_soft_device_placement() is True


def test_what_would_change_values_and_what_is_no_option_is_refused() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="enable_mixed_precision_graph_rewrite"):
        OPTIMIZER.set_experimental_options({"auto_mixed_precision": True})
    with pytest.raises(ValueError, match="Given: option 'foo'"):
        OPTIMIZER.set_experimental_options({"foo": True})
    with pytest.raises(ValueError, match="Given: num_threads=-1"):
        THREADING.set_intra_op_parallelism_threads(-1)
    assert set(OPTIMIZER.get_experimental_options()) == {"disable_model_pruning", "disable_meta_optimizer"}


def test_threads_are_fixed_when_the_devices_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup.choices, "started", True)
    with pytest.raises(RuntimeError, match="Intra op parallelism cannot be modified after initialization"):
        THREADING.set_intra_op_parallelism_threads(3)
    with pytest.raises(RuntimeError, match="Inter op parallelism cannot be modified after initialization"):
        THREADING.set_inter_op_parallelism_threads(3)
    THREADING.set_intra_op_parallelism_threads(0)  # as they are


PROGRAM = """
from anabranch.xla import startup
import anabranch as tf
tf.enable_eager_execution()
tf.config.set_soft_device_placement(True)
tf.config.threading.set_intra_op_parallelism_threads(2)
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.debugging.set_log_device_placement(True)
assert (tf.ones([2]) + 1).numpy().tolist() == [2, 2]
print(tf.function(lambda x: x * 2)(tf.ones([300, 300])).shape, startup.choices.environment[startup.THREADS])
try:
    tf.debugging.set_log_device_placement(False)
except RuntimeError as error:
    print(str(error).splitlines()[0])
with tf.device("/gpu:7"):
    print(tf.ones([1]).device)
tf.config.set_soft_device_placement(False)
try:
    with tf.device("/gpu:7"):
        tf.ones([1])
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""


def test_they_hold_for_the_process() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "Executing op AddV2 in device /job:localhost/replica:0/task:0/device:CPU:0" in ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == "(300, 300) 1"
    assert lines[1] == "Device placement logging must be set at program startup"
    assert lines[2].endswith("CPU:0")
    assert "unknown device" in lines[3]
