"""Sizes that the data of a step decide (how many elements a mask leaves), padded: the interpreter's results."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.cancellation import CancellationToken
from anabranch.runtime.fast_path.items import PaddedProgram
from anabranch.runtime.plans import ahead, shape_families

ROWS = 40
SUMS = {
    "sum": lambda kept, ids: tf.reduce_sum(kept, 0),
    "mean": lambda kept, ids: tf.reduce_mean(kept),
    "greatest": lambda kept, ids: tf.reduce_max(kept, 0),
    "least": lambda kept, ids: tf.reduce_min(kept, 0),
    "product": lambda kept, ids: tf.reduce_prod(kept, 0),
    "logsumexp": lambda kept, ids: tf.reduce_logsumexp(kept, 0),
    "moments": lambda kept, ids: tf.stack(tf.nn.moments(kept, [0])),
    "place of the greatest": lambda kept, ids: tf.argmax(kept, 0),
    "place of the least": lambda kept, ids: tf.argmin(kept, 0),
    "any, all": lambda kept, ids: [tf.reduce_any(kept > 1.0, 0), tf.reduce_all(kept < 1.0, 0)],
    "number": lambda kept, ids: tf.size(kept),
    "products of all": lambda kept, ids: tf.matmul(kept, kept, transpose_a=True),
    "sums of segments": lambda kept, ids: tf.unsorted_segment_sum(kept, ids, 5),
    "greatest of segments": lambda kept, ids: tf.unsorted_segment_max(kept, ids, 5),
    "sum of quotients": lambda kept, ids: tf.reduce_sum(1.0 / kept, 0),
    "last": lambda kept, ids: kept[-1],
    "counts": lambda kept, ids: tf.bincount(ids, minlength=5, maxlength=5),
}
WHOLE = {
    "softmax over all": lambda kept, ids: tf.nn.softmax(kept, 0),
    "softmax of rows": lambda kept, ids: tf.nn.softmax(kept),
    "products of each two": lambda kept, ids: tf.nn.log_softmax(tf.matmul(kept, kept, transpose_b=True)),
    "sums so far": lambda kept, ids: tf.cumsum(kept, 0),
    "sums from the end": lambda kept, ids: tf.cumsum(kept, 0, exclusive=True, reverse=True),
    "turned": lambda kept, ids: tf.reverse(kept, [0]),
    "the best of each row": lambda kept, ids: tf.nn.top_k(kept, 2).indices,
    "with others": lambda kept, ids: tf.concat([kept, [[1.0, 2.0, 3.0]], 2.0 * kept], 0),
    "slices": lambda kept, ids: kept[:, 1:] - kept[:, :-1],
    "rows of a table": lambda kept, ids: tf.gather(tf.constant(np.arange(10.0).reshape(5, 2)), ids),
    "one of each": lambda kept, ids: tf.one_hot(ids, 5),
    "by condition": lambda kept, ids: tf.where(kept > 0.0, tf.sqrt(tf.abs(kept)), kept),
    "scattered": lambda kept, ids: tf.scatter_nd(ids[:, None], kept, [5, 3]),
    "sorted": lambda kept, ids: tf.contrib.framework.sort(kept, axis=0),
    "left of what is left": lambda kept, ids: tf.boolean_mask(kept, kept[:, 0] > 0.0),
    "different ones": lambda kept, ids: tf.unique(ids).y,
}


def given(number=7):
    """Arrays of which the first row, which padding may show, has what must never be seen; all rows, one, none."""
    draw = np.random.RandomState(2)
    x = draw.randn(ROWS, 3).astype(np.float32)
    x[0] = [np.nan, np.inf, -np.inf]
    masks = [draw.rand(ROWS) < share for share in np.linspace(0.1, 0.7, number)]
    for mask in masks:
        mask[0], mask[3] = False, True
    masks[5:5] = [np.arange(ROWS) > 0, np.arange(ROWS) == 7, np.zeros(ROWS, bool)]
    return [(x + 0.1 * i, mask, draw.randint(0, 5, ROWS)) for i, mask in enumerate(masks)]


def steps(tier, function):
    """What a step gives that keeps rows, updates a variable by them, and has ``function`` of them."""
    with tf.Graph().as_default():
        x, mask = tf.placeholder(tf.float32, [ROWS, 3]), tf.placeholder(tf.bool, [ROWS])
        ids = tf.placeholder(tf.int32, [ROWS])
        w = tf.Variable(np.eye(3, dtype=np.float32) + 0.1)
        kept = tf.matmul(tf.boolean_mask(x, mask), w)
        value = function(kept, tf.boolean_mask(ids, mask))
        loss = 0.01 * tf.reduce_sum(tf.square(kept))
        fetches = [value, loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss)]
        found = []
        with tf.Session(config=tf.SessionOptions(tier=tier)) as s:
            s.run(tf.global_variables_initializer())
            for one in given():
                feeds = dict(zip((x, mask, ids), one, strict=True))
                try:
                    found.append(s.run(fetches, feeds)[:2])
                except tf.errors.OpError as error:
                    found.append(type(error))
            return found, s.run(w), s.explain(fetches, feeds)


@pytest.mark.parametrize("first", range(0, len(SUMS) + len(WHOLE), 5))
def test_what_is_done_with_the_rows_that_a_mask_leaves(first):
    functions = [*SUMS.values(), *WHOLE.values()][first : first + 5]

    def together(kept, ids):
        return [function(kept, ids) for function in functions]

    expected, w, _ = steps("interpreted", together)
    found, same, told = steps("compiled", together)
    assert "batches" in told  # they are padded, or it is said what keeps them from it
    flatten = tf.contrib.framework.nest.flatten
    for left, right in zip(expected, found, strict=True):
        if isinstance(left, type):
            assert left is right
            continue
        for one, other in zip(flatten(left), flatten(right), strict=True):
            assert np.shape(one) == np.shape(other)
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_allclose(other, one, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(same, w, rtol=1e-5)


def test_most_of_it_is_padded():
    names = ("sum", "mean", "greatest", "number", "softmax over all", "sums of segments", "with others")
    told = steps("compiled", lambda kept, ids: [{**SUMS, **WHOLE}[name](kept, ids) for name in names])[2]
    assert "batches of any size" in told
    assert "boolean_mask/Where:0" in told


def test_two_masks_are_two_sizes_and_a_third_is_too_many(monkeypatch):
    fast: list[int] = []
    run = PaddedProgram.run
    monkeypatch.setattr(PaddedProgram, "run", lambda *args: fast.append(1) or run(*args))
    for masks in (1, 2, 3):
        fast.clear()
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [ROWS, 2])
            kept = [tf.placeholder(tf.bool, [ROWS]) for _ in range(masks)]
            twice = tf.boolean_mask(x, kept[0])  # as many as the first time
            parts = [tf.boolean_mask(x, mask) for mask in kept]
            total = tf.reduce_sum(twice * parts[0]) + tf.add_n([tf.reduce_mean(part) for part in parts])
            draw = np.random.RandomState(0)
            with tf.Session(config=tf.SessionOptions(tier="compiled")) as s:
                for _ in range(16):
                    value = draw.randn(ROWS, 2).astype(np.float32)
                    chosen = [np.append(draw.rand(ROWS - 1) < 0.5, True) for _ in kept]
                    feeds = {x: value, **dict(zip(kept, chosen, strict=True))}
                    expected = np.square(value[chosen[0]]).sum() + sum(value[one].mean() for one in chosen)
                    np.testing.assert_allclose(s.run(total, feeds), expected, rtol=1e-4, atol=1e-5)
                told = s.explain(total, feeds)
        assert ("batches of any size" in told) is (masks <= shape_families.MOST_SIZES)
        assert bool(fast) is (masks <= shape_families.MOST_SIZES)  # such steps go the fast path


def test_a_mask_of_what_a_padded_part_computes():
    """The second size is known only when the first part has run."""
    with tf.Graph().as_default():
        x, mask = tf.placeholder(tf.float32, [ROWS, 2]), tf.placeholder(tf.bool, [ROWS])
        v = tf.Variable([1.0, 2.0])
        first = tf.tanh(tf.boolean_mask(x, mask) * v)
        second = tf.boolean_mask(first, first[:, 0] > 0.0)
        total = tf.reduce_sum(second) + tf.reduce_sum(first[:, 1])
        step = tf.train.GradientDescentOptimizer(0.1).minimize(total)
        draw = np.random.RandomState(0)
        data = [(draw.randn(ROWS, 2), draw.rand(ROWS) < 0.6) for _ in range(16)]
        found = {}
        for tier in ("interpreted", "compiled"):
            with tf.Session(config=tf.SessionOptions(tier=tier)) as s:
                s.run(tf.global_variables_initializer())
                found[tier] = [s.run([total, step], {x: one, mask: other})[0] for one, other in data]
                told = s.explain([total, step], {x: data[0][0], mask: data[0][1]})
        assert "known only behind a program that it would pad" in told
        np.testing.assert_allclose(found["compiled"], found["interpreted"], rtol=1e-3)


def test_a_further_capacity_is_compiled_once_where_rows_of_a_table_are_padded_too():
    with tf.Graph().as_default(), tf.Session() as s:
        words, mask = tf.placeholder(tf.int32, [ROWS, 2]), tf.placeholder(tf.bool, [ROWS])
        table = tf.get_variable("table", [90, 3], initializer=tf.ones_initializer())
        kept = tf.boolean_mask(tf.tanh(tf.nn.embedding_lookup(table, words)), mask)
        loss = tf.reduce_mean(tf.square(kept - 0.5))
        fetches = [loss, tf.train.AdamOptimizer(0.01).minimize(loss)]
        s.run(tf.global_variables_initializer())
        draw = np.random.RandomState(0)

        def step(number):
            feeds = {words: draw.randint(0, 90, (ROWS, 2)), mask: np.arange(ROWS) < number}
            return s.run(fetches, feeds)[0]

        for i in range(shape_families.MOST_RUNS + 2):
            step(2 + 2 * i)
        (plan,) = [plan for plan, _ in s._worker._plans.values() if plan.runs > 5]
        beside = ahead.Ahead(plan, plan.observed)
        beside.start()
        beside.wait(CancellationToken())
        ahead.adopt(plan, beside.result)
        step(20)
        assert not plan.further
        step(35)  # which is more than a capacity of 32
        (further,) = plan.further.values()
        further._thread.join(120)
        for number in (36, 37, 38, 39):
            step(number)
        assert list(plan.further.values()) == [further]
        assert further.problem is None


@pytest.mark.parametrize("tier", ["auto", "compiled"])
def test_a_mask_over_batches_of_any_size(tier):
    """The size of the batch changes, then what a mask leaves of it does, and a table's rows with both."""
    found = {}
    for which in ("interpreted", tier):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=which)) as s:
            words, mask = tf.placeholder(tf.int32, [None, 3]), tf.placeholder(tf.bool, [None])
            table = tf.get_variable("table", initializer=np.linspace(-1, 1, 60, dtype=np.float32).reshape(20, 3))
            read = tf.tanh(tf.nn.embedding_lookup(table, words))
            kept = tf.boolean_mask(tf.reduce_sum(read, 1), mask)
            loss = tf.reduce_mean(tf.square(kept - 0.5)) + 0.1 * tf.reduce_mean(read)
            fetches = [loss, kept, tf.train.AdamOptimizer(0.01).minimize(loss)]
            s.run(tf.global_variables_initializer())
            draw = np.random.RandomState(0)
            results = found[which] = []
            for i in range(24):
                rows = 4 + int(draw.randint(20))
                chosen = np.arange(rows) < (2 if i < 8 else draw.randint(1, rows))
                feeds = {words: draw.randint(0, 20, (rows, 3)), mask: chosen}
                results.append(s.run(fetches, feeds)[:2])
                for family in s._worker._families.values():
                    if family is not None and family.plan is not None:
                        _ = family.plan.apart  # as who asks whether to compile it
            if which == "compiled":
                assert "batches" in s.explain(fetches, feeds)
    for left, right in zip(*found.values(), strict=True):
        np.testing.assert_allclose(right[0], left[0], rtol=1e-4)
        np.testing.assert_allclose(right[1], left[1], rtol=1e-3, atol=1e-5)
