"""Steps as bytes: what a process that has only them computes, and how it fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.portable_plan import pack, unpack

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_graph():
    with tf.Graph().as_default():
        yield


def classifier():
    """A training step with random numbers, control flow of both kinds, checks, and a second optimizer's state."""
    tf.set_random_seed(7)
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.get_variable("w", [3, 2])
    hidden = tf.nn.dropout(tf.matmul(x, w), 0.5)
    _, grown = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5 + tf.reduce_sum(w)), (0, hidden))
    chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: grown + 1.0, lambda: tf.nn.softplus(grown) * w[0, 0])
    with tf.control_dependencies([tf.Assert(tf.reduce_max(x) < 100.0, ["too large", x])]):
        loss = tf.reduce_mean(tf.square(chosen))
    train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    return x, [loss, train, w], tf.global_variables_initializer()


def test_a_step_comes_back_with_its_names_shapes_and_lines():
    x, fetches, _ = classifier()
    plan = unpack(pack(fetches[:2], [x]))
    assert [fetch.name for fetch in plan.fetches] == [fetch.name for fetch in fetches[:2]]
    assert plan.feeds[0].name == "x:0"
    assert plan.graph.seed == 7
    graph = tf.get_default_graph()
    assert 0 < len(plan.graph.get_operations()) < len(graph.get_operations())
    for op in plan.graph.get_operations():
        mine = graph.get_operation_by_name(op.name)
        assert [t.shape.as_list() if t.shape.dims else None for t in op.outputs] == [
            t.shape.as_list() if t.shape.dims else None for t in mine.outputs
        ]
        assert op.user_site.frames() == mine.user_site.frames(), op.name


def test_only_what_is_needed_travels():
    x = tf.placeholder(tf.float32, [], name="x")
    big = tf.constant(np.zeros(100_000, np.float32))
    small, _ = x + 1.0, tf.reduce_sum(big) + x
    assert len(pack([small], [x])) < 20_000


RUN = """
import json, pickle, sys
import numpy as np
import anabranch as tf
from anabranch.runtime import worker
data = open(sys.argv[1], "rb").read()
names, feeds = json.loads(sys.argv[2]), dict(np.load(sys.argv[3]))
assert "anabranch.session" not in sys.modules
it = worker.Worker(worker.Options(tier=sys.argv[4], seed=11))
steps = pickle.loads(data)
results = []
for name in names:
    step = it.register(steps[name])
    values = [feeds[f"{name}_{i}"] for i in range(step.feeds)]
    try:
        results.append([None if value is None else np.asarray(value) for value in it.run(step, values)])
    except tf.errors.OpError as problem:
        results.append(problem)
sys.stdout.buffer.write(pickle.dumps(results))
"""
