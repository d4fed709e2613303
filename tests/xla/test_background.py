"""What goes on in the background ends with the program: at once, and without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import anabranch
import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.values import dtypes
from anabranch.xla import background, disk_cache, engine, single_op

SCRIPT = """
import atexit, sys, time
atexit.register(lambda: print("ended", time.perf_counter()))  # the last of these functions
import numpy as np
import anabranch as tf
from anabranch.runtime.plans import policy
from anabranch.xla import background, engine

engine.devices("cpu")
policy.BEGINS_AFTER = 0.0
if sys.argv[2:]:  # a program to compile with
    background.compiler_process.__file__ = sys.argv[2]
x = tf.placeholder(tf.float32, [16, 16])
v = tf.Variable(np.ones((16, 16), np.float32))
y = v
for i in range(40):  # half a second of XLA's, and more on a busy machine
    y = tf.sin(tf.matmul(y, tf.cos(tf.transpose(x) + float(i)))) + tf.reduce_sum(x, i % 2, keepdims=True)
    y = tf.reverse(tf.nn.top_k(y, 16).values, [0])
step = v.assign(y).op
session = tf.Session()  # closing it would stop the compilation
session.run(v.initializer)
while not background._threads:
    session.run(step, {x: np.ones((16, 16), np.float32)})
while sys.argv[2:] and not any(process.is_asked for process in list(background._processes.values())):
    time.sleep(0.001)
time.sleep(float(sys.argv[1]))
print("done", time.perf_counter(), len(background._threads))
"""
ENDLESS = "import sys, time; sys.stdin.buffer.read(); time.sleep(600)"


def _ends(*arguments):
    """Exit status and messages of a script that ends some seconds after a compilation began, the seconds that its end
    took, and whether the compilation was still going on.
    """
    # As programs compile, not as tests do: it has to take long.
    environment = {**os.environ, "PYTHONPATH": str(Path(anabranch.__file__).parents[1]), "XLA_FLAGS": ""}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )
    said = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    done, threads = said["done"].split()
    return run.returncode, run.stderr, float(said["ended"]) - float(done), int(threads)


@pytest.mark.multiprocess
def test_a_script_ends_while_a_program_is_compiled(tmp_path):
    endless = tmp_path / "endless.py"
    endless.write_text(ENDLESS)
    status, message, _, compiling = _ends(0.1, endless)  # some 10 ms on an idle machine, where waiting took minutes
    assert (status, message, compiling) == (0, "", 1)


@pytest.mark.multiprocess
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_scripts_end_at_twenty_moments_of_a_compilation():
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(_ends, [i * 0.02 for i in range(20)]))
    assert [(status, message) for status, message, _, _ in ends] == [(0, "")] * 20
    assert max(seconds for _, _, seconds, _ in ends) < 1.0
    assert sum(compiling for _, _, _, compiling in ends) > 5


@pytest.mark.multiprocess
def test_a_script_ends_while_a_thread_is_tracing():
    script = (
        "import time\n"
        "from anabranch.xla import background, engine\n"
        "engine.jax()\n"
        "def work():\n"
        "    while True:\n"
        "        time.sleep(0.001)\n"
        "background.start(work, 'endless')\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def _lowered(function, *arguments):
    return engine.jax().jit(function).trace(*arguments).lower()


@pytest.mark.multiprocess
def test_what_is_compiled_elsewhere_computes_the_same_bits():
    jnp = engine.jax().numpy
    x = np.random.RandomState(0).normal(size=(50, 50)).astype(np.float32)
    lowered = _lowered(lambda x: jnp.sort(jnp.tanh(x @ x)).sum(0), x)
    compiled, code = background.compiled_elsewhere(lowered)
    np.testing.assert_array_equal(compiled(x), lowered.compile()(x))
    assert len(code) > 1000


def test_options_give_way_to_what_the_user_asks_of_xla(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    assert engine.compiler_options("cpu") == {"xla_backend_optimization_level": 2}
    assert engine.compiler_options("gpu") is None
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false --xla_backend_optimization_level=3")
    assert engine.compiler_options("cpu") is None


def _of_a_program():
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.square(tf.placeholder_with_default(np.zeros(123, np.float32), [123])))


def _of_one_op():
    definition = opdef.lookup("Square")
    single_op.program(definition, [np.zeros(123, np.float32)], {"T": dtypes.float32})


def _elsewhere():
    background.compiled_elsewhere(_lowered(lambda x: x + 1, np.float32(1)), engine.compiler_options("cpu"))


@pytest.mark.parametrize("compiles", [_of_a_program, _of_one_op, _elsewhere])
def test_what_compiles_takes_the_options(compiles, monkeypatch):
    monkeypatch.setattr(engine, "compiler_options", lambda platform: {f"xla_no_such_option_on_{platform}": 1})
    with pytest.raises(Exception, match="No such compile option: 'xla_no_such_option_on_cpu'"):
        compiles()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A folder for programs, of this process and of those that it starts."""
    monkeypatch.setenv(disk_cache.SWITCH, str(tmp_path / "programs"))
    monkeypatch.setattr(disk_cache, "_the_one", None)
    monkeypatch.setattr(background, "_left", None)
    yield disk_cache.of_process()
    if background._left is not None:  # a test has failed: its process is no other one's warning
        background._left.kill()
        background._left.wait()


@pytest.fixture
def left_to_itself(monkeypatch):
    """Begins to compile for the disk, and stops as soon as a process does it, which is held until it is let go on."""

    def left(lowered, name):
        processes = []

        def held(process):
            process.send_signal(signal.SIGSTOP)
            processes.append(process)
            background.stop(threading.current_thread())
            background.raise_if_ended()

        def work():
            background.compiled_elsewhere(lowered, stored=name)

        with monkeypatch.context() as patch:
            patch.setattr(background, "_reply", held)
            thread = background.start(work, "left")
            thread.join(60)
            assert not thread.is_alive()
        (process,) = processes
        return process

    return left


@pytest.mark.multiprocess
def test_what_nobody_awaits_is_compiled_for_the_next_start(cache, left_to_itself, monkeypatch):
    jnp = engine.jax().numpy
    x = np.random.RandomState(0).normal(size=(50, 50)).astype(np.float32)
    lowered = _lowered(lambda x: jnp.sort(jnp.tanh(x @ x)).sum(0), x)
    process = left_to_itself(lowered, "a name")
    assert background._left is process
    # One at a time: another is ended.
    other = left_to_itself(_lowered(lambda x: jnp.cumsum(x), x), "another name")
    assert other.wait(60) < 0
    process.send_signal(signal.SIGCONT)
    monkeypatch.setattr(
        background, "_answer", None
    )  # nothing is compiled: it waits for the process, and takes its code
    compiled, code = background.compiled_elsewhere(lowered, stored="a name")
    assert process.wait(60) == 0
    np.testing.assert_array_equal(compiled(x), lowered.compile()(x))
    assert len(code) > 1000
    assert cache.info().entries == 0  # who has it keeps the whole program


@pytest.mark.multiprocess
def test_what_is_not_for_the_disk_is_ended_with_its_thread(cache, left_to_itself):
    lowered = _lowered(lambda x: x + 1, np.float32(1))
    assert left_to_itself(lowered, None).wait(60) < 0
    assert background._left is None


@pytest.mark.multiprocess
def test_a_process_without_its_whole_request_is_ended_with_its_thread(cache, monkeypatch):
    lowered = _lowered(lambda x: x + 1, np.float32(1))
    processes = []

    def interrupted(process, request):
        processes.append(process)
        background.stop(threading.current_thread())
        background.raise_if_ended()

    monkeypatch.setattr(background, "_send", interrupted)
    thread = background.start(lambda: background.compiled_elsewhere(lowered, stored="a name"), "left")
    thread.join(60)
    assert not thread.is_alive()
    assert processes[0].wait(60) < 0
    assert background._left is None


@pytest.mark.multiprocess
def test_a_process_that_has_died_is_not_waited_for(cache, left_to_itself):
    jnp = engine.jax().numpy
    x = np.ones(50, np.float32)
    lowered = _lowered(lambda x: jnp.sort(jnp.tanh(x)), x)
    process = left_to_itself(lowered, "a name")
    process.kill()
    process.wait(60)
    compiled, _ = background.compiled_elsewhere(lowered, stored="a name")
    np.testing.assert_array_equal(compiled(x), lowered.compile()(x))


@pytest.mark.multiprocess
def test_library_calls_are_found_elsewhere():
    jnp = engine.jax().numpy
    x = np.random.RandomState(0).normal(size=(5, 5)).astype(np.float32)
    lowered = _lowered(lambda x: jnp.linalg.inv(x), x)
    compiled, _ = background.compiled_elsewhere(lowered)
    np.testing.assert_array_equal(compiled(x), lowered.compile()(x))


@pytest.mark.multiprocess
def test_what_xla_refuses_is_told(monkeypatch):
    lowered = _lowered(lambda x: x + 1, np.float32(1))
    answer = background._answer
    monkeypatch.setattr(
        background, "_answer", lambda devices, module, options, name: answer(devices, b"nonsense", options, name)
    )
    with pytest.raises(errors.InternalError, match="XLA cannot compile a program"):
        background.compiled_elsewhere(lowered)


def test_a_process_that_dies_is_no_answer(monkeypatch, tmp_path):
    script = tmp_path / "dies.py"
    script.write_text("import sys; sys.stdin.read(); sys.exit(3)")
    monkeypatch.setattr(background.compiler_process, "__file__", str(script))
    with pytest.raises(background.NotPossible, match="ended with status 3"):
        background.compiled_elsewhere(_lowered(lambda x: x + 1, np.float32(1)))
    assert not background._processes


def test_while_the_process_ends_work_is_done_at_once(monkeypatch):
    monkeypatch.setattr(background, "_ended", True)
    threads = []
    assert background.start(lambda: threads.append(threading.current_thread()), "late") is None
    assert threads == [threading.current_thread()]


def test_only_what_ends_a_thread_goes_unsaid_while_the_process_ends(monkeypatch):
    said = []
    monkeypatch.setattr(threading, "excepthook", lambda problem: said.append(problem.exc_type))
    monkeypatch.setattr(sys, "unraisablehook", lambda problem: said.append(problem.exc_type))
    background._say_nothing_of_ended()

    def fail(kind):
        raise kind

    class Dropped:
        def __init__(self, kind):
            self.kind = kind

        def __del__(self):
            raise self.kind

    for kind in (background.Ended, KeyError):
        thread = threading.Thread(target=fail, args=(kind,))
        thread.start()
        thread.join()
        Dropped(kind)
    assert said == [KeyError, KeyError]


def test_a_request_that_is_larger_than_a_pipe_arrives_whole():
    """A process that starts reads nothing for a while; a pipe holds 64 KiB."""
    code = "import sys, time; time.sleep(0.3); print(len(sys.stdin.buffer.read()), end='')"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        background._send(process, b"x" * 3_000_000)
        assert background._reply(process) == b"3000000"
