"""Slots that upper parts fill: an empty one loads these parts, and says what is missing if that does not help."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from anabranch.core.contract import hooks


def test_an_empty_slot_loads_the_parts_that_fill_it() -> None:
    program = "import anabranch as tf; print(len(tf.Graph().as_graph_def().node))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert shown.stdout == "0\n", shown.stderr


def test_tensors_have_operators_whichever_name_is_used_first() -> None:
    """A library publishes the names of the ops that it needs, which are found without loading anything else."""
    program = """import anabranch as tf
tf.layers
held = tf.TensorArray(tf.float32, 5)
tf.while_loop(lambda i, held: i < 5, lambda i, held: (i + 1, held.write(i, 2.0)), [0, held])
print("built")"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert shown.stdout == "built\n", shown.stderr


def test_a_slot_that_stays_empty_says_so(monkeypatch) -> None:
    import_module("anabranch.core.graphdef.graph_def")  # what is loaded does not fill a slot again
    monkeypatch.setitem(hooks._slots, "op_def", hooks._empty("op_def"))
    with pytest.raises(RuntimeError, match=r"the slot 'op_def' of anabranch\.core\.contract\.hooks is empty"):
        hooks.op_def(None)


def test_slots_have_names() -> None:
    with pytest.raises(KeyError, match="no slot 'other'"):
        hooks.fill("other", print)
