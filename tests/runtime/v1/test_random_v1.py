"""Random nests of conditionals and loops as TensorFlow 1 wrote them, with ``Switch``, ``Merge`` and frames.

The programs are those of ``test_random_bodies``. They run through the functional view in both tiers, and by tokens;
all three do what running the same program in Python does.
"""

from __future__ import annotations

import numpy as np
import pytest
from anabranch.control_flow_ops import enter, exit, loop_cond, merge, next_iteration, ref_switch, switch
from golden.graphs.random_nests import VARIABLES, programs, run_model, two_steps, without_draws
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.rewrite import functional_view


class Builder:
    """A program as a graph of version 1. Each statement waits for the one before it."""

    def __init__(self, references, resource):
        self.references = list(references)
        """The variables as the current frame has them."""
        self.resource = resource
        self.frames = 0

    def read(self, index):
        ref = self.references[index]
        return build("ReadVariableOp", ref, dtype=tf.int32) if self.resource else build("Identity", ref)

    def write(self, how, index, value):
        ref = self.references[index]
        if not self.resource:
            return build(how, ref, value).op
        return build(f"{how}VariableOp", ref, value, dtype=tf.int32)

    def block(self, block, local):
        for statement in block:
            with tf.control_dependencies([local]):
                local = self.statement(statement, local)
        return tf.identity(local)

    def after(self, op, local):
        with tf.control_dependencies([op]):
            return tf.identity(local)

    def statement(self, statement, local):
        kind = statement[0]
        if kind == "set":
            value = self.read(statement[2]) + statement[3] + local
            return self.after(self.write("Assign", statement[1], value), local)
        if kind == "add":
            return self.after(self.write("AssignAdd", statement[1], self.read(statement[2]) * statement[3]), local)
        if kind == "draw":
            value = tf.random_uniform([], 0, statement[2] + 1, tf.int32)
            return self.after(self.write("AssignAdd", statement[1], value), local)
        if kind == "check":
            value = self.read(statement[1])
            return self.after(build("Assert", tf.not_equal(value, statement[2]), [value]), local)
        if kind == "local":
            return local + self.read(statement[1]) * statement[2]
        if kind == "if":
            return self.choose(self.read(statement[1]) > statement[2], local, statement[3], statement[4])
        if kind == "repeat":
            return self.loop(local, statement[2], lambda i: i < statement[1])
        return self.loop(local, statement[3], lambda i: (self.read(statement[1]) < statement[2]) & (i < 3))

    def choose(self, pred, local, if_true, if_false):
        off, on = switch(local, pred)
        outside = self.references
        turn = switch if self.resource else ref_switch
        branches = []
        for side, block in ((0, if_false), (1, if_true)):
            self.references = [turn(ref, pred)[side] for ref in outside]
            with tf.control_dependencies(None):
                branches.append(self.block(block, tf.identity((off, on)[side])))
        self.references = outside
        with tf.control_dependencies(None):
            return merge(branches).output

    def loop(self, local, block, goes_on):
        self.frames += 1
        frame = f"frame_{self.frames}"
        outside = self.references
        first = [enter(tf.identity(tf.constant(0)), frame), enter(local, frame)]
        self.references = [enter(ref, frame, is_constant=True) for ref in outside]
        with tf.control_dependencies(None):
            merges = [merge([value, value]).output for value in first]
            with tf.control_dependencies([merges[1]]):
                go = loop_cond(goes_on(merges[0]))
            (stop, more), (_, count) = switch(merges[1], go), switch(merges[0], go)
            made = self.block(block, tf.identity(more))  # a control edge from a Switch says nothing of its sides
            with tf.control_dependencies([made]):
                later = tf.identity(count) + 1
            merges[0].op._update_input(1, next_iteration(later))
            merges[1].op._update_input(1, next_iteration(made))
            self.references = outside
            return exit(stop)


def run_graph(block, start, resource, tier):
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        variables = [
            tf.get_variable(f"v{i}", initializer=np.int32(value), use_resource=resource)
            for i, value in enumerate(start)
        ]
        references = [variable.handle if resource else variable._ref() for variable in variables]
        result = Builder(references, resource).block(block, tf.identity(tf.constant(1)))
        return two_steps(result, variables, tier)


def check(block, start, resource, monkeypatch):
    found = {tier: run_graph(block, start, resource, tier) for tier in ("interpreted", "compiled")}

    def refuse(*args):
        raise functional_view.NoViewError("the test wants tokens")

    with monkeypatch.context() as patched:
        patched.setattr(functional_view, "view", refuse)
        found["tokens"] = run_graph(block, start, resource, "auto")
    assert found["compiled"] == found["interpreted"] == found["tokens"]
    if without_draws(block):
        assert found["interpreted"] == run_model(block, start)


common = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
    "derandomize": True,
}
starts = st.lists(st.integers(-3, 3), min_size=VARIABLES, max_size=VARIABLES)


def test_a_nest_of_every_statement(monkeypatch):
    block = [
        ("repeat", 2, [("if", 0, 1, [("add", 1, 0, 2), ("while", 2, 3, [("add", 2, 0, 1)])], [("set", 0, 1, 2)])]),
        ("while", 1, 8, [("repeat", 2, [("add", 1, 2, 1), ("local", 1, -1)]), ("check", 1, 20)]),
        ("if", 2, 0, [("local", 2, 1)], [("draw", 0, 2)]),
    ]
    for resource in (False, True):
        check(block, [1, 2, 1], resource, monkeypatch)


@settings(max_examples=6, **common)
@given(programs, starts, st.booleans())
def test_nests_do_what_python_does(monkeypatch, block, start, resource):
    check(block, start, resource, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=200, **common)
@given(programs, starts, st.booleans())
def test_many_nests_do_what_python_does(monkeypatch, block, start, resource):
    check(block, start, resource, monkeypatch)
