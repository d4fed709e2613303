"""TemporaryVariable, DestroyTemporaryVariable and RefIdentity; tf.py_function."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.session import SessionOptions

TIERS = pytest.mark.parametrize("tier", ["interpreted", "compiled"])


@TIERS
def test_temporary_variables(tier: str) -> None:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [2])
        ref = build("TemporaryVariable", shape=[2], dtype=tf.float32, var_name="sum")
        started = build("Assign", ref, x)
        added = build("AssignAdd", started, x * 2)
        final = build("DestroyTemporaryVariable", added, var_name="sum")
        for value in ([1.0, 2.0], [3.0, 4.0]):
            assert session.run(final, {x: value}).tolist() == [3 * item for item in value]


@TIERS
def test_the_identity_of_a_reference(tier: str) -> None:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        ref = build("VariableV2", shape=[], dtype=tf.float32)
        start = build("Assign", ref, 2.0)
        same = build("RefIdentity", ref)
        assert same.dtype == tf.float32_ref
        step = build("AssignAdd", same, 3.0)
        session.run(start)
        assert session.run(step) == 5.0
        assert session.run([tf.identity(ref), tf.identity(same)]) == [5.0, 5.0]
        y = same * same
        assert session.run(tf.gradients(y, ref)[0]) == 10.0
        assert np.isclose(session.run(y), 25.0)
