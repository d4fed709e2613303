"""Steps as bytes: what a process that has only them computes, and how it fails."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.portable_plan import pack, unpack
from anabranch.runtime.registered_step import LocalStep
from anabranch.runtime.worker import Worker

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
    return x, [loss, train, tf.identity(w)], tf.global_variables_initializer()


def test_a_step_comes_back_with_its_names_shapes_and_lines():
    x, fetches, _ = classifier()
    plan = unpack(pack(fetches[:2], [x]))
    assert [fetch.name for fetch in plan.fetches] == [fetch.name for fetch in fetches[:2]]
    assert plan.feeds[0].name == "x:0"
    assert plan.graph.seed == 7
    graph = tf.get_default_graph()
    assert 0 < len(plan.graph.root.operations) < len(graph.root.operations)
    for op in plan.graph.root.operations:
        mine = graph.get_operation_by_name(op.name)
        assert [str(t.shape) for t in op.outputs] == [str(t.shape) for t in mine.outputs]
        assert op.user_site.frames() == mine.user_site.frames(), op.name
    inner = [op for op in plan.graph.get_operations() if not op.body.is_root]
    assert inner
    assert all(op.user_site.user_line().filename == __file__ for op in inner)


def test_only_what_is_needed_travels():
    x = tf.placeholder(tf.float32, [], name="x")
    big = tf.constant(np.zeros(100_000, np.float32))
    small, _ = x + 1.0, tf.reduce_sum(big) + x
    assert len(pack([small], [x])) < 20_000


OTHER_PROCESS = """
import pickle, sys
import numpy as np
import anabranch as tf
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.worker import Worker

tier, calls, steps = pickle.load(sys.stdin.buffer)
worker = Worker(SessionOptions(tier=tier, seed=11))
known = {name: worker.register(data) for name, data in steps.items()}
results = []
for name, values in calls:
    try:
        results.append(worker.run(worker.step(known[name].number), values))
    except tf.errors.OpError as problem:
        results.append(problem)
assert "anabranch.session" not in sys.modules
sys.stdout.buffer.write(pickle.dumps(results))
"""


def in_another_process(steps, calls, tier):
    """The results, or errors, of steps run in turn by a worker in a process that has their bytes alone."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        input=pickle.dumps((tier, calls, steps)),
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


@pytest.mark.multiprocess
@pytest.mark.parametrize("tier", ["interpreted", "compiled", "auto"])
def test_another_process_has_equal_bits_and_equal_failures(tier):
    x, (loss, train, w), start = classifier()
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((n, 3)).astype(np.float32) for n in (4, 4, 7)]
    batches.insert(2, np.full((4, 3), 200.0, np.float32))  # the assertion fails
    calls = [("start", ())]
    calls += [call for batch in batches for call in (("train", (batch,)), ("read", ()))]
    steps = {"start": pack([start], []), "train": pack([loss, train], [x]), "read": pack([w], [])}
    assert all(isinstance(data, bytes) for data in steps.values())
    theirs = in_another_process(steps, calls, tier)

    mine = []
    with tf.Session(config=tf.SessionOptions(tier=tier, seed=11)) as session:
        fetches = {"start": [start], "train": [loss, train], "read": [w]}
        for name, values in calls:
            try:
                mine.append(session.run(fetches[name], {x: values[0]} if values else None))
            except tf.errors.OpError as problem:
                mine.append(problem)
    failures = 0
    for own, other in zip(mine, theirs, strict=True):
        if isinstance(own, tf.errors.OpError):
            failures += 1
            assert type(other) is type(own)
            assert str(other) == str(own)
            assert f'File "{__file__}", line ' in str(other)
            continue
        for a, b in zip(own, other, strict=True):
            np.testing.assert_array_equal(a, b)  # all bits
    assert failures == 1


def test_a_worker_runs_bytes_and_elements_alike():
    x = tf.placeholder(tf.float32, [], name="x")
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    add = v.assign_add(x)
    graph = tf.get_default_graph()
    worker = Worker()
    start = worker.register(LocalStep(graph, (v.initializer,), ()))
    by_elements = worker.register(LocalStep(graph, (add,), (x,)))
    by_bytes = worker.register(pack([add], [x]))
    assert worker.register(LocalStep(graph, (add,), (x,))) is by_elements
    assert by_elements.number != by_bytes.number
    worker.run(start, ())
    total = [worker.run(worker.step(one.number), (np.float32(1.5),))[0] for one in (by_elements, by_bytes, by_bytes)]
    assert total == [1.5, 3.0, 4.5]  # one variable, by its name
    number = by_bytes.number
    del by_bytes
    gc.collect()
    with pytest.raises(tf.errors.NotFoundError, match=f"step {number}"):
        worker.step(number)
    worker.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        worker.run(by_elements, (np.float32(1.0),))


@pytest.mark.parametrize(
    ("damage", "kind", "text"),
    [
        (lambda data: b"", tf.errors.DataLossError, "0 bytes that do not begin"),
        (lambda data: b"other" + data, tf.errors.DataLossError, "do not begin with b'ABPLAN'"),
        (lambda data: data[:40], tf.errors.DataLossError, "40 bytes that are damaged"),
        (lambda data: data[:-7] + b"x" + data[-6:], tf.errors.DataLossError, "bytes that are damaged"),
        (lambda data: data[:-7], tf.errors.DataLossError, "bytes that are damaged"),
        (lambda data: data[:6] + b"\x63\x00" + data[8:], tf.errors.FailedPreconditionError, "version 99"),
    ],
)
def test_bytes_that_are_not_a_plan_are_refused(damage, kind, text):
    x = tf.placeholder(tf.float32, [2])
    data = pack([x * 2.0], [x])
    with pytest.raises(kind, match=text):
        unpack(damage(data))


def test_nothing_to_run_is_refused():
    with pytest.raises(ValueError, match="a step without fetches"):
        pack([], [])
