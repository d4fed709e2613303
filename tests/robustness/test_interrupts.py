"""Ctrl-C while a program starts, builds, traces, compiles, runs and saves: it comes out, and the next run works."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import interrupts
import pytest

from anabranch.core import one_time

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = """
import importlib.abc, os, signal, sys, time
import numpy as np

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it

class Interrupts(importlib.abc.MetaPathFinder):
    sent = False

    def find_spec(self, name, path, target=None):
        if name == sys.argv[1] and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.001)

finder = Interrupts()
sys.meta_path.insert(0, finder)

def program():
    import anabranch as tf
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        x = tf.constant([[1.0, 2.0]])
        return session.run(tf.reduce_sum(tf.matmul(x, x, transpose_b=True)))

try:
    program()
except KeyboardInterrupt:
    print("interrupted")
else:
    print("swallowed", finder.sent)
print(program(), program())
"""


HALF = """
import importlib.abc, os, signal, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "anabranch.ops.state":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

sys.meta_path.insert(0, Slow())
import anabranch as tf
try:
    tf.Session
except KeyboardInterrupt:
    print("interrupted")
tf.Graph  # has a name already
from anabranch.core.contract import opdef
print(opdef.lookup("ApplyAdam") is not None)
"""


@pytest.mark.multiprocess
@pytest.mark.parametrize(
    "module",
    ["anabranch.core.framework", "anabranch.ops.math", "anabranch.session", "jax", "jax._src.config", "jax._src.pjit"],
)
def test_an_interrupt_in_the_middle_of_an_import_leaves_it_whole(module):
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED, module],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=100,
        check=False,
    )
    assert (run.stdout.splitlines(), run.returncode) == (["interrupted", "5.0 5.0"], 0), run.stderr[-2000:]


@pytest.mark.multiprocess
def test_interrupts_at_random_moments_come_out_and_the_next_round_works():
    outcomes = interrupts.interrupt(6, interrupts.random.Random(7))
    assert [outcome for outcome in outcomes if outcome.lasting] == []
    assert len(outcomes) == 6


@pytest.mark.slow
@pytest.mark.multiprocess
def test_a_hundred_interrupts_at_random_moments_are_served():
    assert interrupts.main(["--count", "100", "--seed", "11"]) == 0


def test_work_that_is_done_once_is_done_once_by_many_threads():
    calls = []
    gate = threading.Event()

    def work():
        gate.wait(60)
        calls.append(1)
        return object()

    once = one_time.Once(work, "test")
    found = []
    threads = [threading.Thread(target=lambda: found.append(once())) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert (len(calls), len(set(map(id, found))), once.done) == (1, 1, True)


def test_names_are_found_when_all_are_there():
    run = subprocess.run(
        [sys.executable, "-c", HALF],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=100,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("interrupted\nTrue\n", 0), run.stderr[-2000:]


def test_work_that_failed_is_tried_again():
    attempts = iter([ValueError("not yet"), 7])

    def work():
        found = next(attempts)
        if isinstance(found, Exception):
            raise found
        return found

    once = one_time.Once(work, "test")
    with pytest.raises(ValueError, match="not yet"):
        once()
    assert (once.done, once(), once()) == (False, 7, 7)


def test_work_may_ask_for_itself():
    depth = []

    def work():
        depth.append(1)
        return once() if len(depth) < 3 else "inner"

    once = one_time.Once(work, "test")
    assert (once(), len(depth)) == ("inner", 3)


WAITED_FOR = """
import signal, threading
from anabranch.core import one_time

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
started, goes_on, seen = threading.Event(), threading.Event(), threading.Event()

def work():
    started.set()
    return goes_on.wait(60)

def interrupt():
    started.wait(60)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    while not seen.wait(5):  # it came between the interpreter's last look for signals and the wait
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

once = one_time.Once(work, "test")
threading.Thread(target=interrupt).start()
try:
    once()
except KeyboardInterrupt as interrupted:
    seen.set()
    print("interrupted", interrupted.args)
goes_on.set()
print(once())
"""


@pytest.mark.multiprocess
def test_an_interrupt_ends_the_wait_and_not_the_work():
    run = subprocess.run(
        [sys.executable, "-c", WAITED_FOR],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=100,
        check=False,
    )
    assert (run.stdout.splitlines(), run.returncode) == (["interrupted ()", "True"], 0), run.stderr[-2000:]
