"""Keeping freed memory is a process's choice, made before JAX is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import anabranch as tf
from anabranch.xla import memory


def _run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


@pytest.mark.multiprocess
def test_it_takes_effect_before_jax_is_loaded():
    code = """
import sys
import anabranch as tf
print(tf.keep_memory(), "jax" in sys.modules)
with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
    x = tf.placeholder(tf.float32, [4])
    print(session.run(tf.reduce_sum(x * 2.0), {x: [1, 2, 3, 4]}))
"""
    first, second = _run(code).splitlines()
    assert first == f"{sys.platform.startswith('linux')} False"
    assert second == "20.0"


@pytest.mark.multiprocess
def test_the_environment_variable_asks_for_it():
    code = """
from anabranch.xla import engine, memory
engine.jax()
print(memory._kept)
"""
    assert _run(code, ANABRANCH_KEEP_MEMORY="1") == str(sys.platform.startswith("linux"))
    assert _run(code, ANABRANCH_KEEP_MEMORY="0") == "False"


@pytest.mark.multiprocess
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc and /proc")
def test_closing_a_session_gives_back_what_was_kept():
    code = """
import numpy as np
import anabranch as tf

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

assert tf.keep_memory()
with tf.Session() as session:
    session.run(tf.constant(1.0))
    before = resident()
    blocks = [np.ones(1_000_000) for _ in range(30)]
    between = [np.ones(100) for _ in range(1000)]  # above them: the heap cannot shrink from its end
    full = resident()
    del blocks
    kept = resident()
print(full - before > 2e8, full - kept < 1e7, kept - resident() > 2e8, tf.release_memory() in (True, False))
"""
    assert _run(code) == "True True True True"


def test_nothing_is_given_back_where_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(memory, "_kept", False)
    assert not tf.release_memory()


@pytest.mark.multiprocess
def test_the_launcher_keeps_memory_unless_told_otherwise(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import tensorflow\nfrom anabranch.xla import memory\nprint(memory._kept)\n")
    code = f"from anabranch.cli.main import main; main(['run', {str(program)!r}])"
    assert _run(code, ANABRANCH_KEEP_MEMORY="0") == "False"
    environment = {name: value for name, value in os.environ.items() if name != "ANABRANCH_KEEP_MEMORY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str(sys.platform.startswith("linux"))


def test_it_is_refused_once_jax_is_there(monkeypatch):
    monkeypatch.setattr(memory, "_kept", False)
    monkeypatch.setitem(sys.modules, "jax", object())
    with pytest.raises(RuntimeError, match=r"after JAX was loaded(.|\n)*Instead"):
        tf.keep_memory()
