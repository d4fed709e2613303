"""Loops over lists update them in place: the compiled program copies no whole list in an iteration."""

from __future__ import annotations

import re

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import cache
from anabranch.session import SessionOptions
from anabranch.xla import program

ROWS = 37  # a number that occurs nowhere else


def mapped(x):
    return tf.map_fn(lambda row: tf.tanh(row) * row, x)


def scanned(x):
    return tf.scan(lambda total, row: total * 0.5 + row, x)


def written_and_read(x):
    """Each element from the one before."""
    start = tf.TensorArray(tf.float32, size=ROWS, clear_after_read=False).unstack(x)
    _, made = tf.while_loop(
        lambda i, _: i < ROWS, lambda i, array: (i + 1, array.write(i, array.read(i - 1) + 1.0)), [1, start]
    )
    return made.stack()


_COPIED = pytest.mark.xfail(
    strict=True, reason="XLA reads an element again behind the write that takes it out of the list of gradients"
)


@pytest.mark.parametrize(
    ("function", "gradient"),
    [
        (mapped, False),
        (mapped, True),
        (scanned, False),
        (scanned, True),
        (written_and_read, False),
        pytest.param(written_and_read, True, marks=_COPIED),
    ],
)
def test_no_copies_in_a_loop(function, gradient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_shared", cache.Cache("executables", 1024))
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier="compiled")) as session:
        x = tf.placeholder(tf.float32, [ROWS, 8])
        y = function(x)
        session.run(tf.gradients(tf.reduce_sum(y * y), x)[0] if gradient else y, {x: np.ones((ROWS, 8))})
    texts = [found.function.as_text() for found in program._shared.values()]
    loops = [name for text in texts for name in re.findall(r"body=%([\w.]+)", text)]
    assert loops
    for text in texts:
        for name in loops:
            for body in re.findall(rf"^%{re.escape(name)} .*?^}}", text, re.M | re.S):
                copies = [line for line in body.splitlines() if f"f32[{ROWS},8]" in line and " copy(" in line]
                assert not copies, f"{name} copies a list in each iteration: {copies}"
