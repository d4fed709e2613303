"""The protocol of a step: what can fail comes before the commit, and what a failed attempt leaves is not seen."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.cancellation import CancellationToken
from anabranch.core.values.dtypes import as_dtype
from anabranch.runtime import executor, results
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import ResourceHandle
from anabranch.runtime.step import OtherLayout, Transaction

TOO_MANY = 2**38


@pytest.mark.parametrize("fed", [False, True])
def test_a_fetch_that_does_not_fit_commits_nothing(session, fed):
    """A terabyte is fetched beside an update: the variable has not stepped, the first time and later."""
    v = tf.Variable(np.zeros(4, np.float32))
    value = tf.placeholder_with_default(tf.constant(1.0), []) if fed else tf.constant(1.0)
    large = tf.broadcast_to(value, tf.constant([TOO_MANY], tf.int64))
    step = v.assign_add(np.ones(4, np.float32))
    session.run(v.initializer)
    for _ in range(3):
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"\[274877906944\](.|\n)*(fetch a part|on slices)"):
            session.run([step, large], {value: np.array(2, np.float32)} if fed else None)
        assert session.run(v).tolist() == [0] * 4
    session.run(step.op)
    assert session.run(v).tolist() == [1] * 4


def test_an_op_whose_result_does_not_fit_is_named():
    v = tf.Variable(0.0)
    large = tf.fill(tf.constant([TOO_MANY], tf.int64), v.assign_add(1.0), name="much")
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(v.initializer)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="Fill 'much' with a result of float32") as caught:
            session.run(tf.reduce_sum(large))
        assert caught.value.op is large.op
        assert session.run(v) == 0.0


@pytest.mark.parametrize("owned", [False, True])
def test_memory_that_is_short_when_a_step_has_run_before(session, monkeypatch, owned):
    """The same on the fast path, for a result and for a variable, written in place or replaced."""
    v = tf.Variable(np.zeros(1 << 19, np.float32))
    x = tf.placeholder(tf.float32, [1 << 19])
    step = v.assign_add(x) if owned else v.assign(x + 1.0)
    twice = x * 2.0
    feeds = {x: np.ones(1 << 19, np.float32)}
    session.run(v.initializer)
    for _ in range(3):
        session.run([step, twice], feeds)
    before = session.run(v)[0]

    def fail(*_):
        raise MemoryError("no more")

    with monkeypatch.context() as short:
        short.setattr(results.np, "empty", fail)
        short.setattr(results, "own", fail)
        short.setattr("anabranch.runtime.fast_path.form.own", fail)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="fetches that do not fit into memory"):
            session.run([step, twice], feeds)
    assert session.run(v)[0] == before
    found = session.run([step, twice], feeds)
    assert found[0][0] == (before + 1 if owned else 2)
    found[0][0] = found[1][0] = 9.0  # the caller's own
    assert session.run(v)[0] != 9.0


def test_fetched_variables_are_still_given_away_later():
    """A large variable that is fetched is copied without a reference that would keep XLA from its buffer."""
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        v = tf.Variable(np.zeros(1 << 19, np.float32))
        step = v.assign_add(np.ones(1 << 19, np.float32))
        session.run(v.initializer)
        for _ in range(3):
            session.run(step)
        (slot,) = session._manager.slots()
        where = slot.version.value.unsafe_buffer_pointer()
        assert session.run(step)[0] == 4.0
        assert slot.version.value.unsafe_buffer_pointer() == where


def test_an_attempt_that_is_repeated_begins_anew(session, monkeypatch):
    """A branch was taken in the first attempt, which failed, and is not in the second: its write must not be kept."""
    taken, v, other = tf.Variable(True), tf.Variable(0.0), tf.Variable(0.0)

    def write():
        with tf.control_dependencies([v.assign_add(1.0)]):
            return tf.constant(1.0)

    out = tf.cond(taken, write, lambda: tf.constant(0.0))
    close = taken.assign(False).op
    both = [tf.py_func(lambda x: x, [out], tf.float32), other.assign_add(1.0)]
    session.run(tf.global_variables_initializer())
    real = executor.Executor._run_items
    attempts = []

    def run_items(self, attempt):
        real(self, attempt)
        if both[0] in self.plan.fetches:
            attempts.append(attempt)
            if len(attempts) == 1:
                session.run(close)
                raise OtherLayout

    monkeypatch.setattr(executor.Executor, "_run_items", run_items)
    assert session.run(both)[0] == 0.0
    assert len(attempts) == 2
    assert session.run([v, other]) == [0.0, 1.0]


def test_an_attempt_without_python_begins_anew(monkeypatch):
    """The same in a segment that claims its variables: the claim is let go between two attempts.

    (Interpreted: a program that has replaced variables in place is the last of its segment, and nothing repeats it.)
    """
    taken, v = tf.Variable(True), tf.Variable(0.0)

    def write():
        with tf.control_dependencies([v.assign_add(1.0)]):
            return tf.constant(1.0)

    out = tf.cond(taken, write, lambda: tf.constant(0.0))
    close = taken.assign(False).op
    real, ends = executor.Executor._run_items, Transaction.end
    attempts = []

    def run_items(self, attempt):
        real(self, attempt)
        if out in self.plan.fetches:
            attempts.append(attempt)
            if len(attempts) == 1:
                raise OtherLayout

    def end(self):
        ends(self)
        if len(attempts) == 1 and self is attempts[0].transaction:
            session.run(close)

    monkeypatch.setattr(executor.Executor, "_run_items", run_items)
    monkeypatch.setattr(Transaction, "end", end)
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(out) == 0.0
        assert len(attempts) == 2
        assert session.run(v) == 0.0


def test_a_transaction_lets_go_of_everything():
    manager = ResourceManager(0)
    handle = ResourceHandle("variable", "", "v")
    slot = manager.slot(handle, as_dtype(tf.float32), ())
    manager.publish([(slot, np.float32(1))])
    counter = manager.counter("random", 1, 2)
    version = slot.version
    transaction = Transaction(manager, CancellationToken())
    transaction.claim(frozenset(), frozenset([slot, counter]))
    assert transaction.read([slot]) == [version]
    assert version.pins == 1
    start = counter.position
    transaction.commit([(slot, np.float32(2))], [(counter, 5)])
    transaction.end()
    transaction.end()
    assert (slot.current().value, counter.position - start, version.pins) == (2, 5, 0)
    another = Transaction(manager, CancellationToken())
    another.claim(frozenset(), frozenset([slot, counter]))  # would wait for ever if the first were still held
    another.end()


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("fails", [False, True])
def test_an_interrupt_as_a_step_lets_go_leaves_nothing_claimed(tier, fails, monkeypatch):
    """It comes as the first thing in `end`, where Python looks for signals."""
    drawn = tf.random_uniform([2], seed=3)
    if fails:
        with tf.control_dependencies([drawn]):
            drawn = tf.Variable(0).assign_add(tf.gather([1, 2], tf.placeholder_with_default(9, [])))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    own = Transaction.end

    def interrupted(self):
        if self._claim is not None:
            monkeypatch.setattr(Transaction, "end", own)
            signal.raise_signal(signal.SIGINT)
        own(self)

    kinds = (tf.errors.InvalidArgumentError,) if fails else ()
    try:
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                try:
                    session.run(drawn)
                except kinds:
                    pass
            monkeypatch.setattr(Transaction, "end", interrupted)
            with pytest.raises(KeyboardInterrupt, match=r"^$|goes on"):
                session.run(drawn)
            assert session._worker.manager._active == []
    finally:
        signal.signal(signal.SIGINT, before)
