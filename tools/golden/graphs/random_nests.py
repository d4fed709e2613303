"""Random programs over a few variables: trees of statements, and a model that runs them in Python."""

from __future__ import annotations

import numpy as np
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
    """Statements that hold blocks of others."""
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


def without_draws(block):
    """Whether no statement draws random numbers."""
    return all(
        statement[0] != "draw" and all(without_draws(part) for part in statement if isinstance(part, list))
        for statement in block
    )


def run_model(block, start):
    """Two steps of a program in Python, as ``two_steps`` tells them."""
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


def two_steps(result, variables, tier):
    """Two steps of a program as a graph: per step the local value or None if it was refused, and the variables."""
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
