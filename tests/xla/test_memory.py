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


def test_it_is_refused_once_jax_is_there(monkeypatch):
    monkeypatch.setattr(memory, "_kept", False)
    monkeypatch.setitem(sys.modules, "jax", object())
    with pytest.raises(RuntimeError, match=r"after JAX was loaded(.|\n)*Instead"):
        tf.keep_memory()
