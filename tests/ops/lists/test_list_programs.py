"""Random programs on lists, straight and in loops, in both tiers against a Python model of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.session import SessionOptions

FLOAT = {"element_dtype": tf.float32}
SIZE = 4


def zeros(count: int) -> list[np.ndarray]:
    return [np.zeros(2, np.float32) for _ in range(count)]


class Straight:
    """A chain of operations on one list, in the graph and in Python side by side."""

    def __init__(self, draw: random.Random, x) -> None:
        self.draw, self.x = draw, x
        self.values = [build("TensorListFromTensor", x, [2])]
        self.models: list[list[np.ndarray]] = []
        self.fetches: list = []
        self.wanted: list = []

    def build(self, rows: np.ndarray, steps: int) -> None:
        self.models.append(list(rows))
        for _ in range(steps):
            self.step(rows)
        for value, model in zip(self.values, self.models, strict=True):
            self.fetches.append(build("TensorListStack", value, [2], **FLOAT))
            self.wanted.append(np.array(model, np.float32).reshape(-1, 2))

    def step(self, rows: np.ndarray) -> None:
        draw = self.draw
        which = draw.randrange(len(self.values))
        value, model = self.values[which], self.models[which]
        source = draw.randrange(len(rows))
        item, row = self.x[source] * 2.0, rows[source] * 2
        kind = draw.choice(["push", "pop", "set", "grow", "get", "resize", "add", "zeros", "gather", "split"])
        if kind == "push":
            self.keep(build("TensorListPushBack", value, item), [*model, row])
        elif kind == "grow":
            place = len(model) + draw.randrange(2)
            made = build("TensorListSetItem", value, place, item, resize_if_index_out_of_bounds=True)
            self.keep(made, [*model, *zeros(place - len(model)), row])
        elif kind == "resize":
            count = draw.randrange(5)
            self.keep(build("TensorListResize", value, count), [*model, *zeros(count)][:count])
        elif kind == "add":
            others = [i for i, other in enumerate(self.models) if len(other) == len(model)]
            other = draw.choice(others)
            total = [a + b for a, b in zip(model, self.models[other], strict=True)]
            self.keep(build("AddN", [value, self.values[other]]), total)
        elif kind == "zeros":
            self.keep(build("ZerosLike", value), zeros(len(model)))
        elif not model:
            return
        elif kind == "pop":
            rest, last = build("TensorListPopBack", value, [2], **FLOAT)
            self.keep(rest, model[:-1])
            self.see(last, model[-1])
        elif kind == "set":
            place = draw.randrange(len(model))
            made = build("TensorListSetItem", value, place, item)
            self.keep(made, [*model[:place], row, *model[place + 1 :]])
        elif kind == "get":
            place = draw.randrange(len(model))
            self.see(build("TensorListGetItem", value, place, [2], **FLOAT), model[place])
        elif kind == "gather":
            places = [draw.randrange(len(model)) for _ in range(3)]
            self.see(build("TensorListGather", value, places, [2], **FLOAT), [model[i] for i in places])
        else:
            whole = build("TensorListStack", value, [2], **FLOAT)
            parts = build("TensorListSplit", whole, [-1, 2], np.ones(len(model), np.int64))
            self.see(build("TensorListConcat", parts, **FLOAT)[0], model)

    def keep(self, value, model) -> None:
        self.values.append(value)
        self.models.append(list(model))

    def see(self, tensor, wanted) -> None:
        self.fetches.append(tensor)
        self.wanted.append(np.array(wanted))


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("seed", range(6))
def test_straight_programs(seed: int, tier: str) -> None:
    rows = np.random.default_rng(seed).integers(-4, 5, (3, 2)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [3, 2])
        program = Straight(random.Random(seed), x)
        program.build(rows, 25)
        for found, wanted in zip(session.run(program.fetches, {x: rows}), program.wanted, strict=True):
            np.testing.assert_array_equal(found, wanted)


# --------------------------------------------------------------------------------------------------------------- loops
KINDS = ("set", "set before", "read", "read before", "read other", "add read", "clear", "push", "pop push", "both")


class Loop:
    """The body of a loop over two arrays and a sum, drawn once, run by the graph and by Python."""

    def __init__(self, draw: random.Random) -> None:
        self.steps = [(draw.choice(KINDS), draw.randrange(2)) for _ in range(draw.randrange(2, 6))]

    def graph(self, i, total, first, second):
        pair = [first, second]
        before = tf.maximum(i - 1, 0)
        for kind, which in self.steps:
            value, other = pair[which], pair[1 - which]
            if kind == "set":
                pair[which] = build("TensorListSetItem", value, i, total)
            elif kind == "set before":
                pair[which] = build("TensorListSetItem", value, before, total * 2.0)
            elif kind == "read":
                total = total + read(value, i)
            elif kind == "read before":
                total = total - read(value, before)
            elif kind == "read other":
                total = total * 0.5 + read(other, i)
            elif kind == "add read":
                pair[which] = build("TensorListSetItem", value, i, read(value, before) + 1.0)
            elif kind == "clear":
                total = total + read(value, i)
                pair[which] = build("TensorListSetItem", value, i, tf.zeros([2]))
            elif kind == "push":
                pair[which] = build("TensorListPushBack", value, total)
            elif kind == "pop push":
                rest, last = build("TensorListPopBack", value, [2], **FLOAT)
                pair[which] = build("TensorListPushBack", rest, last * 0.5 + 1.0)
            else:
                pair[which] = build("AddN", [value, build("TensorListSetItem", build("ZerosLike", value), i, total)])
        return [i + 1, total, *pair]

    def python(self, i, total, first, second):
        pair = [list(first), list(second)]
        before = max(i - 1, 0)
        for kind, which in self.steps:
            value, other = pair[which], pair[1 - which]
            if kind == "set":
                value[i] = total
            elif kind == "set before":
                value[before] = total * 2
            elif kind == "read":
                total = total + value[i]
            elif kind == "read before":
                total = total - value[before]
            elif kind == "read other":
                total = total * np.float32(0.5) + other[i]
            elif kind == "add read":
                value[i] = value[before] + 1
            elif kind == "clear":
                total = total + value[i]
                value[i] = np.zeros(2, np.float32)
            elif kind == "push":
                value.append(total)
            elif kind == "pop push":
                value[-1] = value[-1] * np.float32(0.5) + 1
            else:
                value[i] = value[i] + total
        return i + 1, total, *pair


def read(value, index):
    return build("TensorListGetItem", value, index, [2], **FLOAT)


def in_python(loop: Loop, rows: np.ndarray) -> list[np.ndarray]:
    state = 0, np.float32([1, -1]), list(rows[0]), list(rows[1])
    for _ in range(SIZE):
        state = loop.python(*state)
    return [np.array(value, np.float32) for value in state[1:]]


def in_graph(loop: Loop, x, limit) -> list:
    _, total, first, second = tf.while_loop(
        lambda i, *_: i < limit,
        loop.graph,
        [0, tf.constant([1.0, -1.0]), *(build("TensorListFromTensor", x[k], [2]) for k in range(2))],
    )
    return [total, *(build("TensorListStack", value, [2], **FLOAT) for value in (first, second))]


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_loops(seed: int, fed: bool) -> None:
    loop = Loop(random.Random(seed))
    rows, direction = np.random.default_rng(seed).integers(-4, 5, (2, 2, SIZE, 2)).astype(np.float32)
    wanted, moved = in_python(loop, rows), in_python(loop, rows + direction)
    weights = [np.cos(np.arange(value.size).reshape(value.shape)).astype(np.float32) for value in wanted]
    # Every step is linear, so that the difference of two runs is the derivative.
    slope = sum(float(((b - a) * w).sum()) for a, b, w in zip(wanted, moved, weights, strict=True))
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, SIZE, 2])
        limit = tf.placeholder(tf.int32, []) if fed else tf.constant(SIZE)
        fetches = in_graph(loop, x, limit)
        loss = tf.add_n([tf.reduce_sum(value * w) for value, w in zip(fetches, weights, strict=True)])
        (gradient,) = tf.gradients(loss, x)
        feed = {x: rows, **({limit: SIZE} if fed else {})}
        for tier in ("interpreted", "compiled"):
            with tf.Session(graph=graph, config=SessionOptions(tier=tier)) as session:
                told = f"{tier}: {loop.steps}"
                for found, value in zip(session.run(fetches, feed), wanted, strict=True):
                    np.testing.assert_allclose(found, value, rtol=1e-6, err_msg=told)
                found = session.run(gradient, feed)
                np.testing.assert_allclose((found * direction).sum(), slope, rtol=1e-4, atol=1e-3, err_msg=told)
