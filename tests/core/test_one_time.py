"""Work that is done once, and the collector of garbage that rests meanwhile."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import pytest

from anabranch.core.one_time import Once

LOADING = """
import gc
import numpy as np
import anabranch as tf
before = gc.get_stats()[2]["collections"]
tf.matmul
print(gc.get_stats()[2]["collections"] - before, gc.isenabled())
"""

LEFT = """
import gc, weakref
from anabranch.core.one_time import Once

class Node:
    pass

def work():
    node = Node()
    node.itself = node
    gone.append(weakref.ref(node))

gone = []
Once(work, "work")()
gc.collect(1)
print(gone[0]() is not None)
gc.collect()
print(gone[0]() is not None)
"""
FROZEN = """
import gc
from anabranch.core.one_time import Once

gc.freeze()
count = gc.get_freeze_count()
Once(lambda: None, "work")()
print(gc.get_freeze_count() > count // 2)  # single objects may be gone
"""
FORKING = """
import gc, os
from anabranch.core.one_time import Once

def fork():
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(Once(fork, "work")(apart=False))
"""


def shown(program):
    """Words that a program in a process of its own prints: this one's collector is the tests'."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture(autouse=True)
def _collector():
    on = gc.isenabled()
    yield
    (gc.enable if on else gc.disable)()


def test_nothing_is_collected_while_the_package_loads():
    assert shown(LOADING) == ["0", "True"]


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_what_it_was(on):
    (gc.enable if on else gc.disable)()
    assert Once(gc.isenabled, "work")() is False
    assert gc.isenabled() is on


def test_what_the_work_has_left_is_old_and_still_collected():
    assert shown(LEFT) == ["True", "False"]


def test_what_the_program_has_frozen_stays_frozen():
    assert shown(FROZEN) == ["True"]


def test_the_collector_works_again_after_a_failure():
    gc.enable()

    def fail():
        raise ValueError("for a test")

    with pytest.raises(ValueError, match="for a test"):
        Once(fail, "work")()
    assert gc.isenabled()


def test_the_last_of_two_lets_the_collector_work_again():
    gc.enable()
    begun, over = threading.Event(), threading.Event()

    def first():
        begun.set()
        assert over.wait(60)

    thread = threading.Thread(target=Once(first, "first"))
    thread.start()
    assert begun.wait(60)
    Once(lambda: None, "second")()
    assert not gc.isenabled()
    over.set()
    thread.join(60)
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_that_is_forked_meanwhile_collects():
    assert shown(FORKING) == ["0"]
