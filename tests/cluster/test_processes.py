"""Tasks as processes: any order of start, what is told of bad input, tasks that are killed or stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import anabranch as tf

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]
PROGRAM = Path(__file__).with_name("task_program.py")
ROOT = Path(__file__).parents[2]


def free_ports(count):
    with contextlib.ExitStack() as held:
        holders = [held.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [holder.getsockname()[1] for holder in holders]


class Task:
    """A process of the program, and what it has printed."""

    def __init__(self, job, index, ps, workers, folder="", last_step=10_000, program=PROGRAM):
        self.program = program
        self.arguments = [job, str(index), ",".join(ps), ",".join(workers), str(folder), str(last_step)]
        self.start()

    def start(self):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(self.program), *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def wait_for(self, accept, seconds=60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(accept(line) for line in list(self.lines)):
                return
            time.sleep(0.05)
        raise AssertionError("\n".join(["the task printed", *self.lines[-30:]]))

    def wait_for_step(self, least, seconds=60.0):
        self.wait_for(lambda line: line.startswith("step") and int(line.split()[1]) >= least, seconds)

    @property
    def steps(self):
        return [int(line.split()[1]) for line in list(self.lines) if line.startswith("step")]

    def kill(self):
        self.process.kill()
        self.process.wait(20)
        self.reader.join(20)
        self.process.stdout.close()


@pytest.fixture
def tasks():
    started = []

    def start(*arguments, **options):
        started.append(Task(*arguments, **options))
        return started[-1]

    yield start
    for task in started:
        if not task.process.stdout.closed:
            with contextlib.suppress(ProcessLookupError):
                task.process.send_signal(signal.SIGCONT)
            task.kill()


def addresses(count):
    return [f"localhost:{port}" for port in free_ports(count)]


def test_a_program_recovers_when_its_parameter_server_was_killed(tasks, tmp_path):
    ps, workers = addresses(1), addresses(2)
    chief = tasks("worker", 0, ps, workers, tmp_path, 120)  # before what it waits for
    server = tasks("ps", 0, ps, workers)
    other = tasks("worker", 1, ps, workers, "", 120)
    chief.wait_for_step(20)
    server.kill()
    server.start()
    before = len(chief.steps)
    for worker in (chief, other):
        worker.wait_for(lambda line: line == "ended", 90)
    steps = chief.steps
    assert steps[-1] >= 119
    assert min(steps[before:]) > 5  # from the checkpoint, not from the beginning
    assert chief.process.wait(20) == other.process.wait(20) == 0


def test_a_stopped_or_killed_task_is_an_error_within_ten_seconds(tasks):
    ps, workers = addresses(1), addresses(1)
    server = tasks("ps", 0, ps, workers)
    local = tf.train.Server({"ps": ps, "worker": workers}, "worker", 0)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(1.0, name="v")
            queue = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name="q")
        taken = queue.dequeue()
        with tf.Session(local.target) as session:
            session.run(v.initializer)
            for waits_in, sent in ((v, signal.SIGSTOP), (taken, signal.SIGKILL)):
                if sent == signal.SIGKILL:
                    timer = threading.Timer(0.5, server.process.send_signal, (sent,))
                    timer.start()
                else:
                    server.process.send_signal(sent)
                started = time.monotonic()
                with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError), match="is gone"):
                    session.run(waits_in)
                assert time.monotonic() - started < 10.0
                if sent == signal.SIGSTOP:
                    server.process.send_signal(signal.SIGCONT)
                    assert session.run(v) == 1.0  # nothing was lost meanwhile
    local.stop()


def test_mirrored_workers_end_with_the_same_variables_whoever_is_killed(tasks, tmp_path):
    places = addresses(2)
    options = {"folder": tmp_path, "last_step": 200, "program": PROGRAM.with_name("mirrored_program.py")}
    workers = [tasks("worker", i, [], places, **options) for i in range(2)]
    for worker in workers:
        worker.wait_for_step(20)
    for victim in (workers[1], workers[0]):  # the second is where all meet
        victim.kill()
        victim.start()
        victim.wait_for_step(20)
    for worker in workers:
        worker.wait_for(lambda line: line.startswith("ended"), 120.0)
        assert worker.process.wait(20) == 0
    assert workers[0].lines[-1] == workers[1].lines[-1]


def test_two_tasks_with_one_index(tasks):
    ps, workers = addresses(1), addresses(1)
    first = tasks("ps", 0, ps, workers)
    first.wait_for(lambda line: line == "started")
    second = tasks("ps", 0, ps, workers)
    second.wait_for(lambda line: f"where /job:ps/replica:0/task:0 (process {first.process.pid}) listens" in line)
    second.wait_for(lambda line: line.startswith("Instead: end the other process"))
    assert second.process.wait(20) == 1


def test_clusters_that_disagree(tasks):
    ps, workers = addresses(1), addresses(2)
    tasks("ps", 0, ps, workers)
    wrong = tasks("worker", 0, ps, workers[:1])
    wrong.wait_for(lambda line: "with another cluster" in line)
    wrong.wait_for(lambda line: line == "Instead: the same lists of addresses in all tasks")
    assert wrong.process.wait(20) == 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["async", "serialisable"])
def test_training_ends_whole_whoever_is_killed(mode):
    path = str(ROOT / "tools" / "cluster_kills.py")
    done = subprocess.run(
        [sys.executable, path, "--kills", "4", "--mode", mode, "--seed", "2"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "'kills': 4" in done.stdout


def test_a_parameter_server_that_is_asked_to_end_is_left_with_a_checkpoint(tasks, tmp_path):
    ps, workers = addresses(1), addresses(1)
    server = tasks("ps", 0, ps, workers)
    chief = tasks("worker", 0, ps, workers, tmp_path, 10_000)
    chief.wait_for_step(20)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == -signal.SIGTERM
    server.kill()  # only what is left of the pipe
    saved = int(tf.train.latest_checkpoint(str(tmp_path)).rpartition("-")[2])
    last = chief.steps[-1]
    assert saved >= last  # nothing that the worker has seen is lost
    server.start()
    chief.wait_for_step(last + 2)
    chief.process.send_signal(signal.SIGTERM)
    assert chief.process.wait(20) == 0
    assert chief.lines[-1] == "ended"
