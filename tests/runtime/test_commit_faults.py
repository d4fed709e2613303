"""Memory that ends at any moment of a step: the variables are those of before, with an error, or all new.

Each scenario is run again and again, and in its n-th run the n-th call that makes, copies or converts an array fails,
counted from the moment in which the step has claimed its variables. It ends when a run makes fewer such calls.
"""

from __future__ import annotations

import contextlib

import jax
import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.runtime import host_ops, pipeline, results, step, values
from anabranch.runtime.state import borrowing, resources, slots, spare_buffers

MODULES = (host_ops, pipeline, results, step, values, borrowing, resources, slots, spare_buffers)
FUNCTIONS = ("array", "asarray", "copyto", "empty", "zeros", "ones", "empty_like")


class Faults:
    """Lets one call fail: the n-th while a step holds its variables."""

    def __init__(self):
        self.at = 0
        self.calls = 0
        self.claimed = False
        self.where = ""

    def counted(self, function, name):
        def call(*args, **kwargs):
            if self.claimed and self.at:
                self.calls += 1
                if self.calls == self.at:
                    self.where = name
                    raise MemoryError(f"the {self.at}. call: {name}")
            return function(*args, **kwargs)

        return call

    @contextlib.contextmanager
    def in_call(self, number):
        self.at, self.calls, self.where = number, 0, ""
        try:
            yield
        finally:
            self.at = 0

    @property
    def missed(self):
        return not self.where


class Numpy:
    """NumPy for one module, of which some functions are counted."""

    def __init__(self, faults, module):
        for name in FUNCTIONS:
            setattr(self, name, faults.counted(getattr(np, name), f"{module}.{name}"))

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.fixture
def faults(monkeypatch):
    found = Faults()
    for module in MODULES:
        if hasattr(module, "np"):
            monkeypatch.setattr(module, "np", Numpy(found, module.__name__))
    monkeypatch.setattr(jax.numpy, "copy", found.counted(jax.numpy.copy, "jax.numpy.copy"))
    init, claim, end = slots.Version.__init__, step.Transaction.claim, step.Transaction.end
    monkeypatch.setattr(slots.Version, "__init__", found.counted(init, "Version"))

    def claims(self, *args, **kwargs):
        claim(self, *args, **kwargs)
        found.claimed = True

    def ends(self):
        found.claimed = False
        end(self)

    monkeypatch.setattr(step.Transaction, "claim", claims)
    monkeypatch.setattr(step.Transaction, "end", ends)
    return found


def model():
    v = tf.Variable(0.0, name="v")
    w = tf.Variable(np.zeros(4000, np.float32), name="w")
    return v, w, tf.global_variables_initializer()


def dense(session, large):
    """A step of one program, or of host ops, that fetches what it has written and what follows from it."""
    v, w, init = model()
    x = tf.placeholder(tf.float32, [])
    both = [v.assign_add(x), w.assign_add(tf.fill([4000], x))]
    with tf.control_dependencies(both):
        seen = tf.identity(v) * 1.0
        rows = tf.fill([1 << 19 if large else 3], seen)
    checked = tf.gather(tf.constant([1.0, 2.0]), tf.cast(x, tf.int32))
    session.run(init)
    fetches = [seen, rows, both[0], checked]
    return v, w, lambda: session.run(fetches, {x: 1.0})[0]


def random(session, large):
    """A step that draws random numbers, and whose stream goes with its variables."""
    v, w, init = model()
    noise = tf.random_uniform([1 << 19 if large else 3], seed=7)
    one = tf.reduce_sum(noise) * 0.0 + 1.0
    both = [v.assign_add(one), w.assign_add(tf.fill([4000], one))]
    session.run(init)
    return v, w, lambda: session.run([both[0], noise, *[op.op for op in both]])[0]


def late_segment(session, large):
    """A step whose last segment fetches what an earlier one has read, before a channel op."""
    v, w, init = model()
    queue = tf.FIFOQueue(10, [tf.float32], [[]])
    fill = queue.enqueue([np.float32(1.0)])
    before = w.read_value() if hasattr(w, "read_value") else tf.identity(w)
    item = queue.dequeue()
    with tf.control_dependencies([before]):
        both = [v.assign_add(item), w.assign_add(tf.fill([4000], item))]
    session.run(init)

    def run():
        session.run(fill)
        return session.run([both[0], before, tf.get_default_graph().get_operation_by_name(both[1].op.name)])[0]

    return v, w, run


def by_tokens(session, large):
    """A step that runs as a graph of version 1: by tokens."""
    v, w, init = model()
    choice = tf.placeholder_with_default(True, [])
    first = build("Switch", tf.constant(1.0), choice)
    other = build("Switch", tf.constant(2.0), tf.logical_not(choice))
    merged = build("Merge", [first[1], other[1]])[0]
    both = [v.assign_add(merged), w.assign_add(tf.fill([4000], merged))]
    session.run(init)
    assert "by tokens" in session.explain([op.op for op in both])
    return v, w, lambda: session.run([both[0], *[op.op for op in both]])[0]


SCENARIOS = {"dense": dense, "random": random, "late segment": late_segment, "by tokens": by_tokens}


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_step_that_runs_out_of_memory_has_done_all_or_nothing(session, faults, scenario, large):
    v, w, run = SCENARIOS[scenario](session, large)
    for _ in range(3):
        run()
    failed = 0
    for number in range(1, 200):
        before = float(session.run(v))
        with faults.in_call(number):
            try:
                result = run()
                steps = 1
            except (tf.errors.ResourceExhaustedError, MemoryError):
                steps = 0
        first, second = session.run([v, w])
        assert first == before + steps, (number, faults.where, steps)
        np.testing.assert_array_equal(second, np.full(4000, first), str((number, faults.where)))
        if steps:
            assert result == first, (number, faults.where)
        failed += not faults.missed
        if faults.missed:
            break
    assert faults.missed
    assert failed > 0


def test_steps_in_flight_that_run_out_of_memory_have_done_all_or_nothing(faults):
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        v, w, init = model()
        x = tf.placeholder(tf.float32, [])
        both = [v.assign_add(x), w.assign_add(tf.fill([4000], x))]
        session.run(init)
        call = session.make_callable([both[0], both[1]], [x], asynchronous=True)
        for _ in range(4):
            call(np.float32(1.0)).result()
        failed = 0
        for number in range(1, 200):
            before = float(session.run(v))
            told = None
            with faults.in_call(number):
                try:
                    promise = call(np.float32(1.0))
                    result = promise.result()[0]
                    steps = 1
                except (tf.errors.ResourceExhaustedError, MemoryError) as problem:
                    told, steps = problem, 0
            call.wait() if hasattr(call, "wait") else None
            first, second = session.run([v, w])
            if told is not None and "what this step wrote stands" in str(told):
                steps = 1
            elif steps:
                assert result == first, (number, faults.where)
            assert first == before + steps, (number, faults.where, told)
            np.testing.assert_array_equal(second, np.full(4000, first), str((number, faults.where)))
            failed += not faults.missed
            if faults.missed:
                break
        assert faults.missed
        assert failed > 0
