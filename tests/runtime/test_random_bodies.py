"""Random nests of conditionals and loops over state: both tiers do what running the same program in Python does.

A program is a tree of statements (update a variable, check, choose, repeat). It is built as a graph in
which each statement waits for the one before it, and run by a plain Python model on a copy of the variables; a failed
check leaves the old ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from golden.graphs.random_nests import VARIABLES, programs, run_model, two_steps, without_draws
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import anabranch as tf


class Builder:
    """The same statements as a graph."""

    def __init__(self, variables):
        self.variables = variables

    def read(self, index):
        variable = self.variables[index]
        return variable.read_value() if hasattr(variable, "handle") else tf.identity(variable._ref())

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
            return self.after(tf.assign(self.variables[statement[1]], value), local)
        if kind == "add":
            value = self.read(statement[2]) * statement[3]
            return self.after(tf.assign_add(self.variables[statement[1]], value), local)
        if kind == "draw":
            value = tf.random_uniform([], 0, statement[2] + 1, tf.int32)
            return self.after(tf.assign_add(self.variables[statement[1]], value), local)
        if kind == "check":
            value = self.read(statement[1])
            return self.after(tf.Assert(tf.not_equal(value, statement[2]), [value]), local)
        if kind == "local":
            return local + self.read(statement[1]) * statement[2]
        if kind == "if":
            return tf.cond(
                self.read(statement[1]) > statement[2],
                lambda: self.block(statement[3], local),
                lambda: self.block(statement[4], local),
            )
        if kind == "repeat":
            return tf.while_loop(
                lambda i, value: i < statement[1],
                lambda i, value: self.step(i, statement[2], value),
                [tf.constant(0), local],
            )[1]
        return tf.while_loop(
            lambda i, value: self.goes_on(i, statement),
            lambda i, value: self.step(i, statement[3], value),
            [tf.constant(0), local],
        )[1]

    def goes_on(self, i, statement):
        return (self.read(statement[1]) < statement[2]) & (i < 3)

    def step(self, i, block, value):
        after = self.block(block, value)
        with tf.control_dependencies([after]):
            return tf.identity(i) + 1, after


def run_graph(block, start, resource, tier):
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        variables = [
            tf.get_variable(f"v{i}", initializer=np.int32(value), use_resource=resource)
            for i, value in enumerate(start)
        ]
        result = Builder(variables).block(block, tf.constant(1))
        return two_steps(result, variables, tier)


def check(block, start, resource):
    interpreted = run_graph(block, start, resource, "interpreted")
    assert run_graph(block, start, resource, "compiled") == interpreted
    if without_draws(block):
        assert interpreted == run_model(block, start)


common = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
    "derandomize": True,
}


@settings(max_examples=8, **common)
@given(programs, st.lists(st.integers(-3, 3), min_size=VARIABLES, max_size=VARIABLES), st.booleans())
def test_nests_do_what_python_does(block, start, resource):
    check(block, start, resource)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=200, **common)
@given(programs, st.lists(st.integers(-3, 3), min_size=VARIABLES, max_size=VARIABLES), st.booleans())
def test_many_nests_do_what_python_does(block, start, resource):
    check(block, start, resource)


def test_a_failed_iteration_rolls_the_step_back():
    block = [("repeat", 3, [("add", 0, 1, 1), ("check", 0, 3)])]
    assert run_graph(block, [0, 1, 0], False, "compiled") == [(None, [0, 1, 0]), (None, [0, 1, 0])]
    check(block, [0, 1, 0], False)
