"""Tables of which a step writes some rows, beside ops whose sizes data decide: nothing copies them, whatever fails."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.interpreter import rows_in_place
from anabranch.runtime.plans import layers, shape_families

ROWS, WIDTH = 40, 4
OPTIMIZERS = {
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "lazy adam": lambda: tf.contrib.opt.LazyAdamOptimizer(0.1),
}


@pytest.fixture(autouse=True)
def tables_are_large(monkeypatch):
    """Writes to any variables are worth a program of their own; only the first sizes are worth a plan of their own."""
    monkeypatch.setattr(layers, "WORTH_OWNING", 1)
    monkeypatch.setattr(shape_families, "MOST_PLANS", 1)


@pytest.fixture
def arrays(monkeypatch):
    """The addresses of what was written where it was."""
    addresses = []
    taken = rows_in_place.taken

    def noted(attempt, item):
        found = taken(attempt, item)
        addresses.extend(array.ctypes.data for array in found.values())
        return found

    monkeypatch.setattr(rows_in_place, "taken", noted)
    return addresses


class Program:
    """Two tables, one updated by descent and one by an optimizer that makes rows distinct, looked up by a batch.

    With ``sizes`` a step has any number of ids, and of weights, which what is behind their sums does not see.
    """

    def __init__(self, kind="adagrad", tier="compiled", use_resource=False, sizes=False):
        start = np.random.RandomState(1).rand(2, ROWS, WIDTH).astype("f")
        self.tables = [
            tf.get_variable(name, initializer=values, use_resource=use_resource)
            for name, values in zip(("plain", "slots"), start, strict=True)
        ]
        self.ids = tf.placeholder(tf.int32, [None if sizes else 8])
        self.weights = tf.placeholder(tf.float32, [None if sizes else 4])
        self.limit = tf.placeholder(tf.float32, [])
        plain, slots = [tf.nn.embedding_lookup(table, self.ids) for table in self.tables]
        pooled = tf.unsorted_segment_sum(plain * slots, self.ids % 4, 4)
        square = tf.fill([200, 200], tf.reduce_mean(self.tables[1]))
        decay = tf.reduce_mean(tf.matmul(square, square))  # worth a program, which reads the table
        dense = tf.get_variable("dense", initializer=np.eye(WIDTH, dtype="f"), use_resource=use_resource)
        pooled = tf.matmul(pooled, dense)
        self.loss = tf.reduce_sum(tf.square(pooled - tf.reduce_max(self.weights))) + tf.stop_gradient(decay)
        steps = [
            tf.train.GradientDescentOptimizer(0.1).minimize(self.loss, var_list=[self.tables[0], dense]),
            OPTIMIZERS[kind]().minimize(self.loss, var_list=self.tables[1:]),
        ]
        with tf.control_dependencies(steps):
            after = tf.reduce_sum(self.tables[0].read_value())
            self.check = tf.Assert(after < self.limit, ["too large", after])
        self.step = tf.group(*steps)
        self.session = tf.Session(config=tf.SessionOptions(tier=tier))
        self.session.run(tf.global_variables_initializer())
        self.sizes = sizes

    def feeds(self, count, limit=1e6):
        """A batch with so many different rows."""
        ids = np.arange(5 + count if self.sizes else 8) % count * 3
        return {self.ids: ids, self.weights: np.full(count if self.sizes else 4, 0.5), self.limit: limit}


@pytest.mark.parametrize(("use_resource", "sizes"), [(False, False), (True, True)])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_both_tiers_have_the_same_values(kind, use_resource, sizes):
    results = []
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default():
            program = Program(kind, tier, use_resource, sizes)
            with program.session as session:
                for i in range(9):
                    session.run([program.loss, program.step], program.feeds(8 - i % 6))
                results.append(session.run(tf.global_variables()))
                if tier == "compiled" and kind == "adagrad":
                    said = session.explain([program.loss, program.step], program.feeds(2))
                    assert said.count("owns the buffers of") == 1
                    (owned,) = [line for line in said.splitlines() if "owns the buffers of" in line]
                    assert said.endswith(owned)
                    assert owned.split(" of ")[1] == ("dense" if sizes else "plain, dense, slots, slots/Adagrad")
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def settled(sizes):
    """A compiled program whose plan knows what changes: how many different rows there are, or, after the first
    sizes, which have a plan of their own, all sizes.
    """
    program = Program(sizes=sizes)
    for i in range(6):
        for fetches in ([program.loss, program.step], program.check):
            program.session.run(fetches, program.feeds(2 + i % 8))
    return program


def test_rows_are_written_where_programs_read_them(arrays, monkeypatch):
    monkeypatch.setattr(shape_families, "MOST_SIZES", 1)  # no program is padded, so rows are summed between programs
    with tf.Graph().as_default():
        program = settled(sizes=True)
        with program.session as session:
            session.run([program.loss, program.step], program.feeds(6))
            del arrays[:]
            for i in range(4):
                session.run([program.loss, program.step], program.feeds(6 + i))
            assert len(arrays) == 12
            assert len(set(arrays)) == 3  # the tables and a slot, again and again


@pytest.mark.parametrize("sizes", [False, True])
def test_a_failed_step_changes_no_table(sizes):
    with tf.Graph().as_default():
        program = settled(sizes)
        with program.session as session:
            before = session.run(tf.global_variables())
            session.run(program.step, program.feeds(6))
            session.run(program.step, program.feeds(7))
            after = session.run(tf.global_variables())
            assert not np.array_equal(before[1], after[1])
            for limit, count in ((0.0, 6), (1e6, 7), (0.0, 8)):
                if limit:
                    session.run(program.check, program.feeds(count, limit))
                    after = session.run(tf.global_variables())
                    continue
                with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
                    session.run(program.check, program.feeds(count, limit))
                for one, other in zip(after, session.run(tf.global_variables()), strict=True):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("sizes", [False, True])
def test_readers_and_those_who_were_given_values_see_no_writes(sizes):
    with tf.Graph().as_default():
        program = settled(sizes)
        total = tf.reduce_sum(program.tables[1])
        with program.session as session:
            flying = session.make_callable(total, asynchronous=True)
            kept = session.run(program.tables[1])
            copy = kept.copy()
            sums = []

            def look():
                for _ in range(40):
                    sums.append(float(session.run(total)))

            expected = {float(session.run(total))}
            reader = threading.Thread(target=look)
            reader.start()
            for i in range(40):
                session.run([program.loss, program.step], program.feeds(6 + i % 4))
                begun = flying()
                session.run([program.loss, program.step], program.feeds(6 + i % 3))
                expected.add(float(np.asarray(begun.result() if hasattr(begun, "result") else begun)))
                expected.add(float(session.run(total)))
            reader.join()
            np.testing.assert_array_equal(kept, copy)
            low, high = min(expected) - 1e-3, max(expected) + 1e-3
            assert all(low <= value <= high for value in sums)
