"""Random nests of conditionals and loops over state: both tiers do what running the same program in Python does.

A program is a tree of statements (update a variable, check, choose, repeat). It is built as a graph in which each
statement waits for the one before it, and run by a plain Python model on a copy of the variables; a failed check leaves
the old ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import anabranch as tf

VARIABLES = 3
leaf = st.one_of(
    st.tuples(st.just("set"), st.integers(0, VARIABLES - 1), st.integers(0, VARIABLES - 1), st.integers(-2, 2)),
    st.tuples(st.just("add"), st.integers(0, VARIABLES - 1), st.integers(0, VARIABLES - 1), st.integers(-2, 2)),
    st.tuples(st.just("draw"), st.integers(0, VARIABLES - 1), st.integers(1, 3)),
    st.tuples(st.just("check"), st.integers(0, VARIABLES - 1), st.integers(-20, 20)),
    st.tuples(st.just("local"), st.integers(0, VARIABLES - 1), st.integers(-2, 2)),
)


def nested(inner):
    block = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), st.integers(0, VARIABLES - 1), st.integers(-3, 3), block, block),
        st.tuples(st.just("repeat"), st.integers(0, 3), block),
        st.tuples(st.just("while"), st.integers(0, VARIABLES - 1), st.integers(-4, 8), block),
    )


programs = st.lists(st.recursive(leaf, nested, max_leaves=8), min_size=1, max_size=4)


class Refused(Exception):
    """A check of the model failed."""


def model(block, state, local, draws):
    """Runs ``block`` in Python; returns the local value that it leaves."""
    for statement in block:
        kind = statement[0]
        if kind == "set":
            state[statement[1]] = state[statement[2]] + statement[3] + local
        elif kind == "add":
            state[statement[1]] += state[statement[2]] * statement[3]
        elif kind == "draw":
            state[statement[1]] += draws(statement)
        elif kind == "check":
            if state[statement[1]] == statement[2]:
                raise Refused
        elif kind == "local":
            local = local + state[statement[1]] * statement[2]
        elif kind == "if":
            local = model(statement[3] if state[statement[1]] > statement[2] else statement[4], state, local, draws)
        elif kind == "repeat":
            for _ in range(statement[1]):
                local = model(statement[2], state, local, draws)
        else:
            trips = 0
            while state[statement[1]] < statement[2] and trips < 3:
                local = model(statement[3], state, local, draws)
                trips += 1
        state[:] = [np.int32(value) for value in state]
        local = np.int32(local)
    return local


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
    """Two steps of the program as a graph: per step the local value or None if it was refused, and the variables."""
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        variables = [
            tf.get_variable(f"v{i}", initializer=np.int32(value), use_resource=resource)
            for i, value in enumerate(start)
        ]
        result = Builder(variables).block(block, tf.constant(1))
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            steps = []
            for _ in range(2):
                try:
                    value = int(session.run(result))
                except tf.errors.InvalidArgumentError:
                    value = None
                steps.append((value, [int(item) for item in session.run(variables)]))
            return steps


def without_draws(block):
    """Whether no statement draws random numbers."""
    return all(
        statement[0] != "draw" and all(without_draws(part) for part in statement if isinstance(part, list))
        for statement in block
    )


def run_model(block, start):
    state = [np.int32(value) for value in start]
    steps = []
    with np.errstate(over="ignore"):
        for _ in range(2):
            attempt = list(state)
            try:
                value = int(model(block, attempt, np.int32(1), None))
                state = attempt
            except Refused:
                value = None
            steps.append((value, [int(item) for item in state]))
    return steps


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
