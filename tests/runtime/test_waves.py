"""Steps over several devices: in a process that has eight, as how many there are is fixed when JAX starts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("on_eight_devices.py")


@pytest.mark.multiprocess
@pytest.mark.timeout(400)
def test_on_eight_devices():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(CASES)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "ANABRANCH_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(600)
def test_transactions_hold_wherever_ops_are():
    """The tests of the runtime, with ops put on four devices at random."""
    here = Path(__file__).parent
    files = [
        "test_transactions.py",
        "test_state_order.py",
        "test_step.py",
        "test_late_segments.py",
        "test_random_programs.py",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "scattered_ops"]
        + ["-k", "not one_program", *(str(here / name) for name in files)],
        cwd=here.parents[1],
        env={
            **os.environ,
            "ANABRANCH_CPU_DEVICES": "4",
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def script(text, **environment):
    """What a script prints in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_CPU")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)],
        env={**inherited, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.multiprocess
def test_a_configuration_says_how_many_devices_there_are():
    told, problems = script(
        """
        import numpy as np
        import anabranch as tf
        config = tf.ConfigProto(device_count={"CPU": 3}, intra_op_parallelism_threads=1)
        with tf.Session(config=config) as session:
            print(*[device.name[-5:] for device in session.list_devices()])
            with tf.device("/cpu:2"):
                x = tf.Variable(np.ones(3, np.float32))
            session.run(x.initializer)
            print(session.run(x + 1.0))
        import os
        print(os.environ.get("PJRT_NPROC"))
        with tf.Session() as session:
            print(len(session.list_devices()))
        try:
            tf.Session(config=tf.ConfigProto(device_count={"CPU": 4}))
        except tf.errors.FailedPreconditionError as problem:
            print(problem.message)
        """
    )
    assert told.split("\n")[:4] == ["CPU:0 CPU:1 CPU:2", "[2. 2. 2.]", "None", "3"], problems
    assert told.split("\n")[4:] == [
        "Given: device_count={'CPU': 4} after JAX has started its devices, 3 of the CPU among them",
        "Expected: at most 3: the number of CPU devices is fixed when something is first compiled",
        "Instead: make the session with tf.ConfigProto(device_count={'CPU': 4}) before any other runs a step, or set "
        "ANABRANCH_CPU_DEVICES=4 in the environment",
    ]


@pytest.mark.multiprocess
def test_a_program_that_has_started_jax_itself_decides():
    told, problems = script(
        """
        import jax
        jax.devices()
        import anabranch as tf
        try:
            tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})).list_devices()
        except tf.errors.FailedPreconditionError as problem:
            print(problem.message.split(",")[0])
        print(len(tf.Session().list_devices()))
        """
    )
    assert told.split("\n") == ["Given: device_count={'CPU': 2} after JAX has started its devices", "1"], problems


@pytest.mark.multiprocess
def test_a_number_of_devices_that_is_not_a_number():
    _, problems = script("import anabranch as tf; tf.Session().list_devices()", ANABRANCH_CPU_DEVICES="many")
    assert "ValueError: Given: ANABRANCH_CPU_DEVICES='many'" in problems


@pytest.mark.multiprocess
def test_what_several_devices_do_is_compiled_once(tmp_path):
    told, problems = script(
        """
        import numpy as np
        import anabranch as tf
        from anabranch.xla.program import Program
        compiled = []
        compile = Program._compile
        Program._compile = lambda program, *args: compiled.append(program.device) or compile(program, *args)
        x = tf.placeholder(tf.float32, [4, 8])
        w = np.full((8, 8), 0.25, np.float32)
        parts = []
        for i in range(4):
            with tf.device(f"/cpu:{i}"):
                v = tf.Variable(np.full((4, 8), float(i), np.float32))
                parts.append(v.assign_add(tf.tanh(tf.matmul(x, w))))
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            compiled.clear()
            for _ in range(2):
                values = session.run(parts, {x: np.ones((4, 8))})
            print(len(compiled), all(np.allclose(value - i, values[0]) for i, value in enumerate(values)))
            print(*[slot.version.value.devices().pop().id for slot in session._manager.slots()])
        """,
        ANABRANCH_CPU_DEVICES="4",
        ANABRANCH_CACHE=str(tmp_path / "cache"),
    )
    assert told.split("\n") == ["1 True", "0 1 2 3"], problems
