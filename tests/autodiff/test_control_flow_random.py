"""Random nests of conditionals and loops: values and gradients of both orders against a model in plain Python.

A program is a list of steps on a few vectors: element-wise operations, conditionals on the sum of one of them, loops
over a count or until a sum is reached. The model runs it in NumPy, and takes central differences.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.verify import verify_graph

SIMPLE = ("sin", "product", "mean", "decay", "outside", "square")
NESTED = ("cond", "count", "until")
WEIGHTS = np.array([1.0, -2.0])


def random_program(pick: random.Random, count: int, depth: int) -> list[tuple[Any, ...]]:
    program: list[tuple[Any, ...]] = []
    for _ in range(pick.randint(1, 3)):
        kind = pick.choice(SIMPLE + (NESTED * 2 if depth else ()))
        target, first, second = (pick.randrange(count) for _ in range(3))
        if kind in SIMPLE:
            program.append((kind, target, first, second))
            continue
        inner = [random_program(pick, count, depth - 1) for _ in range(2 if kind == "cond" else 1)]
        limit = pick.choice([-0.3, 0.1, 0.5]) if kind == "cond" else pick.randint(0, 3)
        program.append((kind, first, limit, *inner))
    return program


def simple(lib: Any, kind: str, a: Any, b: Any, x: Any, turn: Any) -> Any:
    """One element-wise step in NumPy or in the graph."""
    if kind == "sin":
        return lib.sin(a)
    if kind == "product":
        return a * b * 0.7
    if kind == "mean":
        return (a + b * (turn + 1.0)) / (turn + 2.0)
    if kind == "decay":
        return lib.exp(-lib.abs(a) * 0.5)
    return a + x * 0.5 if kind == "outside" else lib.tanh(a * a)


def run_model(program: list[tuple[Any, ...]], values: list[Any], x: Any, turn: int = 0) -> list[Any]:
    values = list(values)
    for kind, *rest in program:
        if kind in SIMPLE:
            target, first, second = rest
            values[target] = simple(np, kind, values[first], values[second], x, float(turn))
            continue
        first, limit, *inner = rest
        if kind == "cond":
            values = run_model(inner[0 if values[first].sum() > limit else 1], values, x, turn)
        else:
            i = 0
            while i < limit and (kind == "count" or values[first].sum() < 2.0):
                values = run_model(inner[0], values, x, i)
                i += 1
    return values


def build(program: list[tuple[Any, ...]], values: list[Any], x: Any, turn: Any = None) -> list[Any]:
    values = list(values)
    for kind, *rest in program:
        if kind in SIMPLE:
            target, first, second = rest
            now = tf.constant(0.0, tf.float64) if turn is None else tf.to_double(turn)
            values[target] = simple(tf, kind, values[first], values[second], x, now)
        elif kind == "cond":
            values = build_cond(rest, values, x, turn)
        else:
            values = build_loop(kind, rest, values, x)
    return values


def build_cond(rest: list[Any], values: list[Any], x: Any, turn: Any) -> list[Any]:
    first, limit, taken, other = rest
    return list(
        tf.cond(
            tf.reduce_sum(values[first]) > limit,
            lambda: build(taken, values, x, turn),
            lambda: build(other, values, x, turn),
            strict=True,
        )
    )


def build_loop(kind: str, rest: list[Any], values: list[Any], x: Any) -> list[Any]:
    first, limit, inner = rest

    def goes_on(i: Any, *now: Any) -> Any:
        more = i < limit
        return more if kind == "count" else tf.logical_and(more, tf.reduce_sum(now[first]) < 2.0)

    shapes = [tf.TensorShape([])] + [x.shape] * len(values)
    return list(
        tf.while_loop(goes_on, lambda i, *now: [i + 1, *build(inner, list(now), x, i)], [0, *values], shapes)[1:]
    )


def differences(f: Any, x: np.ndarray, step: float) -> np.ndarray:
    return np.array([(f(x + step * unit) - f(x - step * unit)) / (2 * step) for unit in np.eye(x.size)])


@pytest.mark.parametrize(
    ("seed", "tier"),
    [*((seed, "interpreted") for seed in range(40)), *((seed, "compiled") for seed in (4, 16, 24))],
)
def test_random_nests(seed: int, tier: str) -> None:
    pick = random.Random(seed)
    count = pick.randint(1, 3)
    program = random_program(pick, count, pick.randint(1, 3))
    given = np.random.RandomState(seed).uniform(-1, 1, 2)

    def model(x: np.ndarray) -> Any:
        results = run_model(program, [x * (k + 1.0) for k in range(count)], x)
        return sum(result.sum() * (k + 1.0) for k, result in enumerate(results))

    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float64, [None] if seed % 2 else [2])
        results = build(program, [x * (k + 1.0) for k in range(count)], x)
        y = tf.add_n([tf.reduce_sum(result * (k + 1.0)) for k, result in enumerate(results)])
        (first,) = tf.gradients(y, x, unconnected_gradients="zero")
        (second,) = tf.gradients(tf.reduce_sum(first * WEIGHTS), x, unconnected_gradients="zero")
        verify_graph(graph)
        values = session.run([y, first, second], {x: given})
    np.testing.assert_allclose(values[0], model(given), rtol=1e-9)
    np.testing.assert_allclose(values[1], differences(model, given, 1e-6), rtol=1e-5, atol=1e-6)
    wanted = differences(lambda x: differences(model, x, 1e-4) @ WEIGHTS, given, 1e-4)
    np.testing.assert_allclose(values[2], wanted, rtol=2e-3, atol=2e-4)
