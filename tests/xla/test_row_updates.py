"""Sparse updates whose number of distinct rows changes from step to step run as one program."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.ops.state import optimizers
from anabranch.xla import program as programs

OPTIMIZERS = {
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "LazyAdam": lambda: tf.contrib.opt.LazyAdamOptimizer(0.1),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}
STEPS = [[3, 3, 1, 0], [2, 2, 2, 2], [0, 1, 2, 3], [7, 7, 1, 1], [5, 5, 5, 1]]


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def compilations(monkeypatch):
    """Programs that were compiled, by the number of their ops."""
    found = []
    compile_ = programs.Program._compile

    def counted(self, *args, **kwargs):
        found.append(len(self.group.ops))
        return compile_(self, *args, **kwargs)

    monkeypatch.setattr(programs.Program, "_compile", counted)
    programs._shared.clear()
    return found


def _trained(make, tier, use_resource, steps):
    rng = np.random.RandomState(0)
    with tf.Graph().as_default():
        ids = tf.placeholder(tf.int32, [None])
        table = tf.get_variable("table", initializer=rng.randn(8, 3).astype(np.float32), use_resource=use_resource)
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - 1.0) * [1.0, 2.0, 3.0])
        step = make().minimize(loss)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            values = []
            for rows in steps:
                session.run(step, {ids: rows})
                values.append(session.run(table))
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 8 is not in \[0, 8\)"):
                session.run(step, {ids: [1, 8, 1, 1]})
            np.testing.assert_array_equal(session.run(table), values[-1])
            return values


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_program_serves_all_numbers_of_distinct_rows(name, use_resource, compilations):
    expected = _trained(OPTIMIZERS[name], "interpreted", use_resource, STEPS)
    compilations.clear()
    found = _trained(OPTIMIZERS[name], "compiled", use_resource, STEPS)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    large = max(compilations)
    assert compilations.count(large) == 1


def test_more_rows_than_there_is_room_for_get_a_program_with_more_room(compilations):
    table = tf.get_variable("table", initializer=np.zeros((1000, 2), np.float32))
    ids = tf.placeholder(tf.int32, [None])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids))
    step = tf.train.AdagradOptimizer(1.0).minimize(loss)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.global_variables_initializer())
        for count in (40, 300, 290, 41):
            session.run(step, {ids: np.arange(count)})
            assert np.count_nonzero(session.run(table)[:, 0]) == (40 if count == 40 else 300)


def test_distinct_values_that_others_read_are_what_they_are():
    """What is not row by row sees the true size: no padding in sums, shapes or fetches."""
    table = tf.get_variable("table", initializer=np.zeros((9, 2), np.float32))
    ids = tf.placeholder(tf.int32, [None])
    distinct, places = tf.unique(ids)
    sums = tf.unsorted_segment_sum(tf.ones([4, 2]), places, tf.shape(distinct)[0])
    update = tf.scatter_add(table, distinct, sums * 2.0)
    total, size = tf.reduce_sum(sums + 1.0), tf.size(distinct)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.global_variables_initializer())
        for rows in STEPS:
            count = len(set(rows))
            found = session.run([update, total, size, distinct, sums], {ids: rows})
            assert found[1:3] == [8 + 2 * count, count]
            assert found[3].tolist() == list(dict.fromkeys(rows))
            np.testing.assert_array_equal(found[4][:, 0], [rows.count(row) for row in found[3]])
        expected = np.zeros(9)
        np.add.at(expected, np.concatenate(STEPS), 2.0)
        np.testing.assert_array_equal(session.run(table)[:, 1], expected)


def test_rows_that_are_gathered_by_distinct_indices(compilations):
    """As in ``embedding_lookup_unique``: each row is read once."""
    params = tf.get_variable("params", initializer=np.arange(20, dtype=np.float32).reshape(10, 2))
    ids = tf.placeholder(tf.int32, [None])
    distinct, places = tf.unique(ids)
    rows = tf.gather(tf.gather(params, distinct) * 2.0, places)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.global_variables_initializer())
        compilations.clear()
        for given in STEPS:
            np.testing.assert_array_equal(session.run(rows, {ids: given})[:, 0], 4.0 * np.array(given))
        assert len(compilations) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[2\] = 10 is not in \[0, 10\)"):
            session.run(rows, {ids: [1, 2, 10, 1]})


def _by_hand(indices_of):
    """A step of `SparseApplyAdagrad`, what its indices are made of, and its variable."""
    rows = tf.placeholder(tf.int32, [None], name="rows")
    table = tf.get_variable("table", initializer=np.zeros((8, 1), np.float32), use_resource=True)
    slot = tf.get_variable("slot", initializer=np.zeros((8, 1), np.float32), use_resource=True)
    indices, made = indices_of(rows)
    step = build("ResourceSparseApplyAdagrad", table.handle, slot.handle, 1.0, tf.ones([3, 1]), indices)
    return step, rows, made, table


def _distinct(rows):
    unique, _ = tf.unique(rows)
    return tf.identity(unique), unique


def _computed(rows):
    unique, _ = tf.unique(rows)
    return unique // 2, unique


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_rows_that_come_twice_are_updated_one_after_the_other(tier):
    """Whoever feeds what `unique` makes, or computes with it, may name a row twice."""
    after = {}
    for name, make, feed in (
        ("distinct", _distinct, {"rows": [1, 2, 3]}),
        ("fed", _distinct, {"made": [1, 1, 2]}),
        ("computed", _computed, {"rows": [2, 3, 4]}),
        ("plain", lambda rows: (rows, rows), {"rows": [1, 1, 2]}),
    ):
        with tf.Graph().as_default():
            step, rows, made, table = _by_hand(make)
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                session.run(tf.global_variables_initializer())
                session.run(step, {{"rows": rows, "made": made}[key]: value for key, value in feed.items()})
                after[name] = session.run(table)[:, 0]
    once, twice = -1.0, -1.0 - 1.0 / np.sqrt(2.0)
    np.testing.assert_allclose(after["distinct"], [0, once, once, once, 0, 0, 0, 0], rtol=1e-6)
    for name in ("fed", "computed", "plain"):
        np.testing.assert_allclose(after[name], [0, twice, once, 0, 0, 0, 0, 0], rtol=1e-6)


def test_rows_that_an_optimizer_made_distinct_are_not_sorted(monkeypatch):
    programs._shared.clear()
    asked = []
    monkeypatch.setattr(optimizers, "_occurrences", lambda *given: asked.append(given))
    ids = tf.placeholder(tf.int32, [None])
    table = tf.get_variable("table", initializer=np.ones((11, 5), np.float32))
    step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.nn.embedding_lookup(table, ids)))
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {ids: [3, 3, 9]})
        assert session.run(table)[9, 0] < 1.0
    assert not asked
