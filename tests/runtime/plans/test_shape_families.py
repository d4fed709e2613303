"""Steps whose shapes keep changing: plans that are shared, programs that are compiled once, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.plans import policy, shape_families
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.plans.shape_families import MOST_SHAPES, joined
from anabranch.xla.program import Program


@pytest.fixture
def counts(monkeypatch):
    """How many plans are made, arranged and compiled."""
    found = {"plans": 0, "programs": 0}
    make, translate = Plan.__init__, Program._compile

    def planning(self, *args, **kwargs):
        found["plans"] += 1
        make(self, *args, **kwargs)

    def compiling(self, *args, **kwargs):
        made = translate(self, *args, **kwargs)
        found["programs"] += 1
        return made

    monkeypatch.setattr(Plan, "__init__", planning)
    monkeypatch.setattr(Program, "_compile", compiling)
    return found


@pytest.fixture(autouse=True)
def _nothing_beside(monkeypatch):
    """Programs are compiled by the steps that need them, which are counted; after few runs, as that is cheap."""
    monkeypatch.setattr(policy, "is_due", lambda plan: False)
    monkeypatch.setattr(policy, "COSTLY", float("inf"))
    for price in ("COMPILE_BASE", "COMPILE_OP", "COMPILE_PRODUCT", "COMPILE_LARGE_OP"):
        monkeypatch.setattr(policy, price, 3_000.0)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def session(tier="auto"):
    return tf.Session(config=tf.SessionOptions(tier=tier, seed=5))


def host_ops(found, fetches, feeds):
    lines = found.explain(fetches, feeds).splitlines()
    return {line.rpartition("(")[2].rstrip(")") for line in lines if line.strip().startswith("host ")}


def wide(optimizer):
    """A model of a sparse part and an embedding, with a dense part behind: fetches, placeholders."""
    ids, features = tf.sparse_placeholder(tf.int64), tf.sparse_placeholder(tf.float32)
    labels = tf.placeholder(tf.float32, [None, 1])
    table = tf.get_variable("table", initializer=np.linspace(-1, 1, 60).astype(np.float32).reshape(20, 3))
    weights = tf.get_variable("weights", initializer=np.linspace(0, 1, 20).astype(np.float32).reshape(20, 1))
    deep = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="mean")
    for i in range(2):
        layer = tf.get_variable(f"layer{i}", initializer=np.eye(3, dtype=np.float32) + 0.1)
        deep = tf.nn.relu(tf.matmul(deep, layer))
    logits = tf.reduce_sum(deep, 1, keepdims=True) + tf.sparse_tensor_dense_matmul(features, weights)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))
    return [optimizer.minimize(loss), loss, table], (ids, features, labels)


def batches(count, placeholders, seed=0, size=8):
    """Feeds with another number of stored values each."""
    draw = np.random.RandomState(seed)
    ids, features, labels = placeholders
    for i in range(count):
        rows = np.sort(np.concatenate([np.arange(size), draw.randint(0, size, 3 + i)]))
        place = np.array([np.sum(rows[:k] == row) for k, row in enumerate(rows)])
        at = np.stack([rows, place], 1)
        stored = np.unique(np.stack([draw.randint(0, size, 9 + i), draw.randint(0, 20, 9 + i)], 1), axis=0)
        yield {
            ids: (at, draw.randint(0, 20, len(rows)), [size, place.max() + 1]),
            features: (stored, draw.rand(len(stored)).astype(np.float32), [size, 20]),
            labels: draw.randint(0, 2, (size, 1)).astype(np.float32),
        }


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam"])
def test_sparse_feeds_of_any_size_share_a_plan(kind, counts, monkeypatch):
    if kind == "adagrad":  # which is compiled from the first step on
        monkeypatch.setattr(shape_families, "MOST_PLANS", 1)
    make = {
        "sgd": lambda: tf.train.GradientDescentOptimizer(0.5),
        "adagrad": lambda: tf.train.AdagradOptimizer(0.5),
        "adam": lambda: tf.train.AdamOptimizer(0.05),
    }[kind]
    found = {}
    for tier in ("interpreted", "compiled") if kind == "adagrad" else ("interpreted", "auto"):
        with tf.Graph().as_default():
            fetches, placeholders = wide(make())
            with session(tier) as s:
                s.run(tf.global_variables_initializer())
                counts["plans"] = 0
                found[tier] = [s.run(fetches, feeds)[1:] for feeds in batches(14, placeholders)]
                assert (
                    counts["plans"] <= shape_families.MOST_PLANS + 3
                )  # one more for each dimension that turns out to change
    plain, other = found.values()
    for left, right in zip(plain, other, strict=True):
        np.testing.assert_allclose(left[0], right[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(left[1], right[1], rtol=1e-4, atol=1e-5)


def test_what_does_not_change_is_compiled_once(counts, monkeypatch):
    monkeypatch.setattr(shape_families, "SMALL", 0.0)
    monkeypatch.setattr(policy, "COSTLY", 1e9)
    fetches, placeholders = wide(tf.train.GradientDescentOptimizer(0.5))
    with session() as s:
        s.run(tf.global_variables_initializer())
        given = list(batches(90, placeholders))
        for feeds in given[:80]:
            s.run(fetches, feeds)
        before = dict(counts)
        for feeds in given[80:]:
            s.run(fetches, feeds)
        assert counts == before
        told = s.explain(fetches, given[-1])
        assert "tier: compiled" in told
        assert "SparseTensorDenseMatMul" in host_ops(s, fetches, given[-1])
        assert "MatMul" not in host_ops(s, fetches, given[-1])


def test_a_shape_that_comes_back_gets_a_plan_of_its_own(counts, monkeypatch):
    monkeypatch.setattr(shape_families, "MOST_PLANS_OF_BATCHES", shape_families.MOST_PLANS)
    monkeypatch.setattr(shape_families.Family, "_see_batch", lambda *_: False)  # as where batches cannot be padded
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.reduce_sum(tf.tanh(x) * 2, 0)
    with session() as s:
        for n in range(1, 20):
            np.testing.assert_allclose(s.run(y, {x: np.ones((n, 3))}), np.full(3, n * np.tanh(1) * 2), rtol=1e-5)
        shared = counts["plans"]
        assert shared <= shape_families.MOST_PLANS + 2
        for _ in range(70):
            s.run(y, {x: np.ones((50, 3))})
        assert counts["plans"] == shared + 1
        assert counts["programs"] == 1
        assert not host_ops(s, y, {x: np.ones((50, 3))})


def test_few_shapes_are_planned_each_for_itself(counts):
    x = tf.placeholder(tf.float32, [None])
    y = tf.reduce_sum(tf.nn.top_k(x * x, tf.size(x))[0])  # which cannot be padded
    with session("compiled") as s:
        for _ in range(5):
            for n in range(1, shape_families.MOST_PLANS + 1):
                assert s.run(y, {x: np.ones(n)}) == n
                assert not host_ops(s, y, {x: np.ones(n)})
        # One plan more was to pad them.
        assert counts == {"plans": shape_families.MOST_PLANS + 1, "programs": shape_families.MOST_PLANS}


def masked():
    """A step in the middle of which data decide a shape."""
    x = tf.placeholder(tf.float32, [20, 4])
    v = tf.get_variable("v", initializer=np.eye(4, dtype=np.float32))
    h = tf.matmul(x, v)
    kept = tf.boolean_mask(h, tf.reduce_sum(h, 1) > 0)
    total = tf.reduce_sum(tf.square(kept)) / 20
    step = tf.train.MomentumOptimizer(0.01, 0.9).minimize(total)
    return [step, total, v], x


@pytest.mark.parametrize("tier", ["compiled", "auto"])
def test_data_dependent_shapes_leave_the_rest_compiled(tier, counts, monkeypatch):
    monkeypatch.setattr(shape_families, "SMALL", 0.0)
    draw = np.random.RandomState(1)
    given = [draw.standard_normal((20, 4)).astype(np.float32) for _ in range(80)]
    with tf.Graph().as_default():
        fetches, x = masked()
        with session("interpreted") as s:
            s.run(tf.global_variables_initializer())
            expected = [s.run(fetches, {x: value})[1:] for value in given]
    fetches, x = masked()
    with session(tier) as s:
        s.run(tf.global_variables_initializer())
        counts["programs"] = 0
        for i, (value, (total, v)) in enumerate(zip(given, expected, strict=True)):
            _, mine, after = s.run(fetches, {x: value})
            np.testing.assert_allclose(mine, total, rtol=1e-4)
            np.testing.assert_allclose(after, v, rtol=1e-4, atol=1e-6)
            if i == 70:
                before = dict(counts)
        assert counts == before
        assert counts["programs"] <= 3 * (MOST_SHAPES + 2)
        left = host_ops(s, fetches, {x: given[0]})
        assert "Where" in left  # what it leaves is padded
        assert not left & {"GatherV2", "MatMul", "ApplyMomentum"}


def test_what_the_host_gives_in_one_shape_leaves_the_rest_compiled(counts, monkeypatch):
    monkeypatch.setattr(shape_families, "SMALL", 0.0)
    draw = np.random.RandomState(2)
    matrix, of = draw.standard_normal((3, 3)), np.repeat(np.arange(8), 3)
    x, keep = tf.placeholder(tf.float32, [24, 3]), tf.placeholder(tf.bool, [24])
    sums = tf.segment_sum(tf.boolean_mask(x, keep), tf.boolean_mask(tf.constant(of), keep))
    total = tf.matmul(sums, tf.constant(matrix, tf.float32))

    def check(s, rows):
        value, kept = draw.standard_normal((24, 3)), draw.rand(24) < 0.7
        kept[3 * rows - 1], kept[3 * rows :] = True, False
        expected = np.zeros((rows, 3))
        np.add.at(expected, of[kept], value[kept])
        np.testing.assert_allclose(s.run(total, {x: value, keep: kept}), expected @ matrix, rtol=1e-4, atol=1e-5)
        return host_ops(s, total, {x: value, keep: kept})

    with session("compiled") as s:
        for _ in range(20):
            left = check(s, 8)
        assert "SegmentSum" in left
        assert "MatMul" not in left
        before = counts["programs"]
        check(s, 8)
        assert counts["programs"] == before
        for i in range(12):  # the rows change, too
            left = check(s, 1 + i % 8)
        assert "MatMul" in left


def test_a_failed_step_with_parts_on_the_host_changes_nothing():
    ids = tf.placeholder(tf.int32, [None])
    v = tf.get_variable("v", initializer=np.zeros((4, 2), np.float32))
    w = tf.get_variable("w", initializer=np.zeros(2, np.float32))
    rows = tf.gather(v + 1.0, ids)
    step = [tf.assign_add(w, tf.reduce_sum(rows, 0)), tf.scatter_add(v, ids, rows)]
    with session() as s:
        s.run(tf.global_variables_initializer())
        for n in range(1, 90):
            s.run(step, {ids: np.arange(n) % 4})
        kept = s.run([v, w])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[2\] = 4 is not in \[0, 4\)"):
            s.run(step, {ids: [0, 1, 4] + [0] * 91})
        for old, new in zip(kept, s.run([v, w]), strict=True):
            np.testing.assert_array_equal(old, new)


def test_compile_time_values_that_change_leave_the_rest_compiled(counts):
    x, begin = tf.placeholder(tf.float32, [64, 4]), tf.placeholder(tf.int32, [1])
    shape = tf.placeholder(tf.int32, [2])
    v = tf.get_variable("v", initializer=np.ones((4, 4), np.float32))
    h = tf.matmul(tf.matmul(x, v), v)
    y = tf.reduce_sum(tf.reshape(h, shape), 0)
    with session("compiled") as s:
        s.run(tf.global_variables_initializer())
        value = np.random.RandomState(0).rand(64, 4).astype(np.float32)
        flat = (value @ np.ones((4, 4)) @ np.ones((4, 4))).reshape(-1)
        sizes = [(256 // k, k) for k in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
        for first, second in sizes * 2 + [(-1, k) for k, _ in sizes]:
            found = s.run(y, {x: value, shape: [first, second], begin: [0]})
            np.testing.assert_allclose(found, flat.reshape(first, second).sum(0), rtol=1e-5)
        before = dict(counts)
        s.run(y, {x: value, shape: [-1, 32], begin: [1]})
        assert counts["programs"] == before["programs"]


def test_values_that_change_are_compiled_in_fewer_forms_where_that_costs_long(counts, monkeypatch):
    def forms(price):
        """The programs that were compiled after the steps with 1, 2 and more hard examples, and what is on the host."""
        monkeypatch.setattr(policy, "COMPILE_BASE", price)
        with tf.Graph().as_default():
            x, hard = tf.placeholder(tf.float32, [40]), tf.placeholder(tf.float32, [40])
            w = tf.get_variable("w", initializer=np.ones(40, np.float32))
            losses = tf.square(x * w - 1.0)
            number = tf.cast(tf.reduce_sum(hard), tf.int32)  # not fed: data decides
            worst, _ = tf.nn.top_k(losses, number)
            step = tf.train.GradientDescentOptimizer(0.125).minimize(tf.reduce_sum(worst) / 40.0)
            fetches, found = [tf.reduce_sum(worst), step], []
            with session("compiled") as s:
                s.run(tf.global_variables_initializer())
                weights, values = np.ones(40), np.linspace(-1.5, 2.0, 40)
                for k in range(1, 9):
                    before, feeds = counts["programs"], {x: values, hard: np.arange(40) < k}
                    loss = s.run(fetches, feeds)[0]
                    rows = np.argsort(-((values * weights - 1.0) ** 2), kind="stable")[:k]
                    np.testing.assert_allclose(loss, ((values * weights - 1.0)[rows] ** 2).sum(), 1e-5)
                    weights[rows] -= 0.125 * 2.0 / 40.0 * ((values * weights - 1.0) * values)[rows]
                    found.append(counts["programs"] - before)
                return found, host_ops(s, fetches, feeds)

    costly, on_host = forms(1e7)
    assert "TopKV2" in on_host
    assert all(costly[:4])
    assert not any(costly[5:])  # the fifth is for what is left in programs
    cheap, on_host = forms(3_000.0)
    assert "TopKV2" not in on_host
    assert all(cheap[4:])  # the first four are there


def test_joined_shapes():
    assert joined((2, 3), (2, 4)) == (2, None)
    assert joined((2, None), (2, 4)) == (2, None)
    assert joined((2,), (2, 3)) is None
    assert joined(None, (2,)) is None


@pytest.mark.parametrize("resource", [False, True])
def test_rows_are_written_in_place_and_read_without_a_copy(resource, monkeypatch):
    monkeypatch.setattr(shape_families, "SMALL", 0.0)
    found = {}
    for tier in ("interpreted", "auto"):
        with tf.Graph().as_default():
            ids, x = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [4])
            table = tf.get_variable("table", initializer=np.ones((50, 4), np.float32), use_resource=resource)
            scale = tf.get_variable("scale", initializer=np.ones((4,), np.float32), use_resource=resource)
            used = tf.nn.embedding_lookup(table, ids)
            loss = tf.reduce_sum(tf.square(used * (scale * x)))
            step = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
            draw = np.random.RandomState(3)
            with session(tier) as s:
                s.run(tf.global_variables_initializer())
                for n in range(1, 90):
                    feeds = {ids: draw.randint(0, 50, n), x: np.linspace(0, 1, 4)}
                    s.run(step, feeds)
                if tier == "auto":
                    left = host_ops(s, step, feeds)
                    assert not left
                    assert "owns the buffers of table" in s.explain(step, feeds)
                    slots = {slot.name: slot for slot in s._manager._slots.values()}
                    assert slots["table"].version._host is None
                with pytest.raises(tf.errors.InvalidArgumentError, match=r"50 is not in \[0, 50\)"):
                    s.run(step, {ids: [3] * 90 + [50], x: np.ones(4)})
                found[tier] = s.run([table, scale])
    for plain, other in zip(found["interpreted"], found["auto"], strict=True):
        np.testing.assert_allclose(plain, other, rtol=1e-5)


@pytest.mark.parametrize(("optimizer", "masked"), [("Adam", "loss"), ("Adam", "ids"), ("Momentum", "loss")])
def test_rows_behind_values_of_any_size_are_updated_where_their_table_is(optimizer, masked, monkeypatch):
    """What a mask leaves decides the values of an embedding's gradient, or how many there are, but not who writes."""
    monkeypatch.setattr(shape_families, "SMALL", 0.0)
    made = tf.train.AdamOptimizer(0.1) if optimizer == "Adam" else tf.train.MomentumOptimizer(0.1, 0.9)
    words = tf.placeholder(tf.int32, [6, 5])
    table = tf.get_variable("table", initializer=np.random.RandomState(1).randn(50, 4).astype(np.float32))
    weights = tf.get_variable("weights", initializer=np.random.RandomState(2).randn(4, 3).astype(np.float32))
    known = tf.not_equal(words, 0)
    if masked == "loss":
        scores = tf.boolean_mask(tf.tensordot(tf.nn.embedding_lookup(table, words), weights, 1), known)
    else:
        scores = tf.matmul(tf.nn.embedding_lookup(table, tf.boolean_mask(words, known)), weights)
    labels = tf.boolean_mask(words % 3, known)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))
    step = made.minimize(loss)
    draws = np.random.RandomState(3)
    batches = [draws.randint(0, 50, (6, 5)) * (draws.rand(6, 5) < 0.1 * k) for k in range(2, 10)] * 3
    found = {}
    for tier in ("interpreted", "compiled"):
        with session(tier) as s:
            s.run(tf.global_variables_initializer())
            losses = [s.run([loss, step], {words: batch})[0] for batch in batches]
            found[tier] = [*s.run([table, weights]), np.array(losses)]
            if tier == "compiled":
                told = s.explain([loss, step], {words: batches[0]})
                left = host_ops(s, [loss, step], {words: batches[0]})
                assert not {name for name in left if name.startswith(("Scatter", "SparseApply"))}
                owned = next(line for line in told.splitlines() if "owns the buffers of" in line)
                assert "table" in owned.replace(",", "").split()
    for one, other in zip(found["interpreted"], found["compiled"], strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)


def test_a_loop_over_any_length_stays_in_programs_where_the_batch_is_known_in_the_step():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None, 3])
        lengths = tf.placeholder(tf.int32, [None])
        cell = tf.nn.rnn_cell.GRUCell(4)
        outputs, _ = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
        best = tf.nn.top_k(tf.reshape(tf.reduce_sum(outputs, 2), [-1]), 2).values
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(best))
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(tf.global_variables_initializer())
            for time in range(3, 11):
                feeds = {x: np.ones((5, time, 3), np.float32), lengths: np.full(5, time)}
                session.run([best, step], feeds)
            said = session.explain([best, step], feeds)
        assert "(While)" not in said, said
        assert "While" in said


def test_the_length_of_a_sequence_is_padded_like_a_batch():
    """A loop that takes rows one by one runs as often as there are rows, whatever the capacity."""
    x = tf.placeholder(tf.float32, [2, None])
    rows = tf.TensorArray(tf.float32, tf.shape(x)[1]).unstack(tf.transpose(x))
    total = tf.while_loop(
        lambda i, _: i < tf.shape(x)[1], lambda i, t: (i + 1, t * 0.5 + rows.read(i)), [0, tf.zeros(2)]
    )
    with session() as found:
        for length in (3, 4, 5, 6, 7, 3, 5):
            expected = np.float32([sum(0.5**k for k in range(length))] * 2)
            np.testing.assert_allclose(found.run(total[1], {x: np.ones((2, length))}), expected, rtol=1e-6)
        (family,) = [family for family in found._worker._families.values() if family is not None]
        assert list(family.plan.varying.batch) == [x]
        assert not family.plan.varying.stopped


def test_sizes_that_follow_the_batch_leave_it_padded():
    """`Unique` gives the place of each index, which are as many as were fed, and rows whose number nobody knows."""
    ids = tf.placeholder(tf.int32, [None])
    table = tf.get_variable("table", [40, 2])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) ** 2)
    step = tf.train.AdamOptimizer(0.1).minimize(loss)
    draw = np.random.RandomState(0)
    with session() as s:
        s.run(tf.global_variables_initializer())
        for n in range(1, 16):
            s.run(step, {ids: draw.randint(0, 40, n)})
        (family,) = [family for family in s._worker._families.values() if family is not None]
        plan = family.plan
        assert not plan.apart
        assert list(plan.varying.batch) == [ids]
        assert not plan.varying.stopped


def test_a_shape_follows_the_batch_as_long_as_it_is_a_multiple_of_it():
    varying = shape_families.Varying()
    tensor = tf.placeholder(tf.float32, [None, None])
    assert all(varying.follows(tensor, (3 * n, 7), (n,)) for n in (4, 9, 2, 21))
    assert not varying.follows(tensor, (10, 7), (5,))
    assert not varying.follows(tensor, (15, 7), (5,))
    other = tf.placeholder(tf.float32, None)
    assert varying.follows(other, (5,), (5,))
    assert not varying.follows(other, (5, 5), (5,))


def test_shapes_with_plans_of_their_own_take_part_in_padding(counts):
    """The first sizes have plans; these are not compiled any more once one program may serve all sizes."""
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.reduce_sum(tf.tanh(x), 0)
    with session() as s:
        for n in (1, 2, 3, *[1] * 9):
            s.run(y, {x: np.ones((n, 3))})
        (family,) = [family for family in s._worker._families.values() if family is not None]
        assert family.plan.runs == 10


def test_integers_for_the_host_are_no_program_of_their_own() -> None:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        table = tf.Variable(np.arange(40, dtype=np.float32).reshape(10, 4))
        first, second = (tf.placeholder(tf.int32, [3]) for _ in range(2))
        loss = tf.reduce_sum(tf.gather(table, first) - 2.0 * tf.gather(table, second))
        train = tf.train.AdagradOptimizer(1.0, initial_accumulator_value=1.0).minimize(loss)
        session.run(tf.global_variables_initializer())
        feeds = {first: [1, 2, 2], second: [7, 1, 8]}
        assert session.run([loss, train], feeds)[0] == -450.0
        rows = [line for line in session.explain([loss, train], feeds).splitlines() if " ops on " in line]
        assert len(rows) == 1  # what joins the indices before `Unique` is not worth a call of a program
        slope = np.zeros(10)
        np.add.at(slope, [1, 2, 2, 7, 1, 8], [1, 1, 1, -2, -2, -2])
        wanted = np.arange(40).reshape(10, 4) - (slope / np.sqrt(1 + slope**2))[:, None]
        np.testing.assert_allclose(session.run(table), wanted, rtol=1e-6)
