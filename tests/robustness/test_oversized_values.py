"""Values that cannot exist end a step with an error that names the op, and never the process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import warm_python

import anabranch as tf
from anabranch.core.values import sizes

SCRIPT = Path(__file__).with_name("oversized_values.py")
ROOT = SCRIPT.parents[2]


@pytest.mark.multiprocess
@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_a_value_that_cannot_exist_is_refused_with_its_op_and_line(tier):
    run = warm_python.run(SCRIPT, [tier])
    outcomes = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, run.stderr[-2000:]
    assert len(outcomes) > 20
    for name, kind, text in outcomes:
        assert kind == "ResourceExhaustedError", (name, kind, text)
        assert [
            part in text for part in ("Given: ", "Expected: values that", "Instead: ", "was created at", SCRIPT.name)
        ] == [True] * 5, text


def test_a_program_that_needs_more_than_the_machine_has_is_refused_before_its_variables_are_given_away(monkeypatch):
    monkeypatch.setattr(sizes, "host_memory", lambda: 1 << 20)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        v = tf.Variable(np.ones(1 << 10, np.float32))
        x = tf.placeholder(tf.float32, [None])
        session.run(v.initializer)
        update = v.assign_add(tf.slice(tf.nn.top_k(x + tf.reduce_sum(v), tf.size(x)).values, [0], [1 << 10]))
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"needs .* MiB; its largest values are\n.*TopK"):
            session.run(update.op, {x: np.ones(1 << 20, np.float32)})
        np.testing.assert_array_equal(session.run(v), np.ones(1 << 10))


def test_what_cannot_be_told_of_a_machine_is_no_bound(monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: -1)
    sizes.host_memory.cache_clear()
    try:
        assert sizes.host_memory() == sizes.MOST_BYTES
    finally:
        monkeypatch.undo()
        sizes.host_memory.cache_clear()
