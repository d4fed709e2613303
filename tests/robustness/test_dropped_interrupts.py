"""Ctrl-C inside a callback of the garbage collector, of a weak reference, or in ``__del__``: it comes out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import gc, os, signal, sys, time, weakref

reported, asked = [], []
sys.unraisablehook = lambda unraisable: reported.append(unraisable.exc_type.__name__)
gc.disable()
import anabranch as tf

how = sys.argv[1]

def handler(number, frame):
    asked.append(number)
    raise KeyboardInterrupt("of the program")

signal.signal(signal.SIGINT, handler)
if how == "after a step":
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(tf.constant(1.0))
    session = tf.Session()
    gc.collect()

def interrupt(*_):
    if sent:
        return
    sent.append(1)
    if how == "raised":
        raise KeyboardInterrupt("of the program")
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)

class Node:
    pass

class WithEnd(Node):
    __del__ = interrupt

sent, references = [], []

def garbage(where, kind=Node):
    node = kind()
    node.itself = node
    if where == "weak reference":
        references.append(weakref.ref(node, interrupt))

def program(where):
    garbage(where, WithEnd if where == "end" else Node)
    garbage(where)
    if where == "collector":
        gc.callbacks.append(interrupt)
    gc.collect()
    for _ in range(10):
        pass
    return "swallowed"

for where in ("collector", "weak reference", "end"):
    try:
        print(program(where))
    except KeyboardInterrupt as problem:
        print("interrupted", *problem.args)
    gc.callbacks.clear()
    sent.clear()
print(len(asked), reported)

class Fails:
    def __del__(self):
        raise ValueError("no interrupt")

Fails()
print(reported)
"""


@pytest.mark.multiprocess
@pytest.mark.parametrize("how", ["signal", "raised", "after a step"])
def test_an_interrupt_inside_a_callback_of_a_collection_comes_out(how):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=100,
        check=False,
    )
    asked = 0 if how == "raised" else 3  # the program's own handler is not asked twice
    expected = ["interrupted of the program"] * 3 + [f"{asked} []", "['ValueError']"]
    assert run.stdout.splitlines() == expected, run.stderr


HELD = """
import gc, os, signal, sys, time
import anabranch
from anabranch.core import interrupts

def interrupt(phase, info):
    gc.callbacks.clear()
    raise KeyboardInterrupt

try:
    with interrupts.held():
        gc.callbacks.append(interrupt)
        gc.collect()
        for _ in range(10):
            pass
        print("whole")
    print("swallowed")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.multiprocess
def test_a_dropped_interrupt_waits_while_interrupts_are_held():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, env=environment, timeout=100, check=False
    )
    assert (run.stdout, run.stderr) == ("whole\ninterrupted\n", "")
