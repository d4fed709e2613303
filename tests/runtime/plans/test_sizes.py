"""Loops whose number of iterations, and arrays whose sizes, nobody knows: how many programs, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import cache
from anabranch.core.graph.build import build
from anabranch.runtime.plans import policy, shape_families
from anabranch.xla import capacities, program

TIERS = ["interpreted", "compiled"]


def session(tier="compiled"):
    return tf.Session(config=tf.SessionOptions(tier=tier, seed=1))


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


@pytest.fixture
def compiled(monkeypatch):
    """The ops of each program that was compiled."""
    found = []
    plain = program.Program._compile

    def noted(self, *args, **kwargs):
        made = plain(self, *args, **kwargs)
        found.append([op.type for op in self.group.ops])
        return made

    monkeypatch.setattr(program.Program, "_compile", noted)
    monkeypatch.setattr(program, "_shared", cache.Cache("executables", 1024))  # not what other tests compiled
    return found


# --------------------------------------------------------------------------------------- ends that depend on the data
def approach(x, w, limit):
    """The model of :func:`approaching`: the last value, its derivative by ``w``, and the number of iterations."""
    slope, trips = 0.0, 0
    while x < limit:
        x, slope, trips = x + np.sin(x * w) + 2.1, slope + np.cos(x * w) * (x + w * slope), trips + 1
    return x, slope, trips


def approaching(x, w, limit):
    return tf.while_loop(lambda v: v < limit, lambda v: v + tf.sin(v * w) + 2.1, [x])


@pytest.mark.parametrize("tier", TIERS)
def test_an_end_that_depends_on_data_has_a_gradient(tier, compiled):
    x, limit = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [])
    w = tf.get_variable("w", initializer=np.float64(0.7))
    y = approaching(x, w, limit)
    (grad,) = tf.gradients(y, w)
    with session(tier) as s:
        s.run(w.initializer)
        for start, end in ((0.0, 3.0), (0.0, 400.0), (5.0, 5.0), (0.0, 70.0)):
            value, slope, trips = approach(start, 0.7, end)
            assert (trips > capacities.LEAST) == (end == 400)
            np.testing.assert_allclose(s.run([y, grad], {x: start, limit: end}), [value, slope])
    loops = [types for types in compiled if "While" in types]
    assert len(loops) == (2 if tier == "compiled" else 0)  # the first guess, and what was needed


def test_a_loop_that_had_too_little_room_changed_nothing():
    x, limit = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [])
    w = tf.get_variable("w", initializer=np.float64(0.7))
    runs = tf.get_variable("runs", initializer=0)
    (grad,) = tf.gradients(approaching(x, w, limit), w)
    noise = tf.random_uniform([], seed=3)
    with tf.control_dependencies([tf.assign_add(runs, 1)]):
        step = tf.assign_add(w, 1e-3 * grad)
    found = {}
    for tier in TIERS:
        with session(tier) as s:
            s.run(tf.global_variables_initializer())
            found[tier] = [s.run([step, noise], {x: 0.0, limit: end}) for end in (10.0, 400.0, 20.0, 3000.0)]
            assert s.run(runs) == 4
    np.testing.assert_allclose(found["compiled"], found["interpreted"], rtol=1e-9)


def test_a_failed_check_is_told_although_the_loop_had_too_little_room():
    limit = tf.placeholder(tf.float32, [])
    w = tf.Variable(1.5)

    def body(i, v):
        with tf.control_dependencies([tf.Assert(i < 100, ["too long", i])]):
            return i + 1, tf.sin(v * w) + v + 1.1

    _, y = tf.while_loop(lambda _, v: v < limit, body, [0, 0.0])
    (grad,) = tf.gradients(y, w)
    with session() as s:
        s.run(w.initializer)
        assert np.isfinite(s.run(grad, {limit: 60.0}))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[too long\] \[100\]"):
            s.run(grad, {limit: 1e6})
        assert np.isfinite(s.run(grad, {limit: 60.0}))


@pytest.mark.parametrize("tier", TIERS)
def test_an_array_grows_until_the_data_say_stop(tier, compiled):
    limit = tf.placeholder(tf.float32, [])

    def body(i, v, rows):
        return i + 1, v * 1.25, rows.write(i, v)

    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[])
    count, _, rows = tf.while_loop(lambda _, v, rows: v < limit, body, [0, 1.0, rows])
    whole = rows.stack()
    with session(tier) as s:
        for end in (1.0, 50.0, 1e9, 7.0):
            number, values = s.run([count, whole], {limit: end})
            expected = 1.25 ** np.arange(number)
            np.testing.assert_allclose(values, expected, rtol=1e-5)
            assert (expected < end).all()
            assert 1.25 ** float(number) >= end * 0.999
    assert len([types for types in compiled if "While" in types]) <= 2


@pytest.mark.parametrize("tier", TIERS)
def test_an_array_that_is_read_back_while_it_grows(tier):
    limit = tf.placeholder(tf.int32, [])

    def body(i, last, rows):
        last = last + rows.read(i // 2)
        return i + 1, last, rows.write(i + 1, last)

    rows = tf.TensorArray(tf.int32, size=1, dynamic_size=True, element_shape=[], clear_after_read=False).write(0, 1)
    count, last, rows = tf.while_loop(lambda _, last, rows: last < limit, body, [0, 1, rows])

    def model(end):
        values = [1]
        while values[-1] < end:
            values.append(values[-1] + values[(len(values) - 1) // 2])
        return len(values) - 1, values[-1]

    with session(tier) as s:
        for end in (1, 100, 10**6, 5, 10**8):
            assert tuple(s.run([count, last], {limit: end})) == model(end)


@pytest.mark.parametrize("tier", TIERS)
def test_ends_that_depend_on_data_inside_of_each_other(tier):
    x = tf.placeholder(tf.float64, [3])
    w = tf.get_variable("w", initializer=np.float64(0.7))

    def outer(i, total):
        inner = approaching(tf.constant(0.0, tf.float64), w, 4.0 * x[i])
        return i + 1, total + inner

    _, y = tf.while_loop(lambda i, total: total < 60.0, lambda i, t: outer(i % 3, t), [0, tf.constant(0.0, tf.float64)])
    (grad,) = tf.gradients(y, w)

    def model(values):
        total = slope = 0.0
        i = 0
        while total < 60:
            made, part, _ = approach(0.0, 0.7, 4 * values[i % 3])
            total, slope, i = total + made, slope + part, i % 3 + 1
        return total, slope

    with session(tier) as s:
        s.run(w.initializer)
        for values in ([1.0, 2.0, 3.0], [9.0, 1.0, 5.0], [0.3, 0.4, 0.5]):
            np.testing.assert_allclose(s.run([y, grad], {x: values}), model(values))


@pytest.mark.parametrize("tier", TIERS)
def test_loops_inside_may_make_a_list_longer_that_stands_outside(tier, compiled):
    """Stacks of version 1 are such lists: their loops push to them at every depth."""
    counts = tf.placeholder(tf.int32, [None])
    total = tf.shape(counts)[0]

    def push(kept, item):
        return build("TensorListPushBack", kept, item)

    def outer(i, kept):
        inside = (0, push(kept, -i), i)
        _, kept, _ = tf.while_loop(
            lambda j, *_: j < counts[i], lambda j, kept, i: (j + 1, push(kept, i * 100 + j), i), inside
        )
        return i + 1, kept

    def drain(last, i, kept):
        kept, item = build("TensorListPopBack", kept, np.zeros(0, np.int32), element_dtype=tf.int32)
        return last * 3 + item, i + 1, kept

    empty = build("EmptyTensorList", np.zeros(0, np.int32), -1, element_dtype=tf.int32)
    _, kept = tf.while_loop(lambda i, _: i < total, outer, [0, empty])
    size = build("TensorListLength", kept)
    found, _, _ = tf.while_loop(lambda _, i, __: i < size, drain, [0, 0, kept])

    def model(numbers):
        items = [item for i, n in enumerate(numbers) for item in (-i, *(i * 100 + j for j in range(n)))]
        last = np.int32(0)
        with np.errstate(over="ignore"):
            for item in reversed(items):
                last = last * np.int32(3) + np.int32(item)
        return int(last), len(items)

    with session(tier) as s:
        for numbers in ([1, 2, 3], [50, 0, 60], [3, 2, 1], [100, 200, 300]):
            assert tuple(s.run([found, size], {counts: numbers})) == model(numbers)
    assert len([types for types in compiled if "StatelessWhile" in types]) == (3 if tier == "compiled" else 0)


def test_lists_that_take_much_memory_get_no_room_to_spare(monkeypatch):
    monkeypatch.setattr(capacities, "MAX_BYTES", 1 << 10)
    x = tf.placeholder(tf.float64, [16])
    y = tf.while_loop(lambda v: tf.reduce_max(v) < 100.0, lambda v: v * v, [x])
    (grad,) = tf.gradients(y, x)
    with session() as s:
        for start in (3.0, 1.0001, 50.0):
            power, value = 1, start
            while value < 100:
                power, value = power * 2, value * value
            found = s.run([y, grad], {x: np.full(16, start)})
            np.testing.assert_allclose(found[0], [value] * 16)
            np.testing.assert_allclose(found[1], [power * start ** (power - 1)] * 16)


def test_capacities():
    found = capacities.Capacities()
    assert [found.of("a", size) for size in (5, 60, 65, 5, 200, 5)] == [64, 64, 128, 8, 256, 8]
    assert found.of("a", 100) == 256
    assert found.of("b", 3, nbytes=capacities.MAX_BYTES) == 4
    found.tight = True
    assert found.of("a", 3) == 4


# ---------------------------------------------------------------------------------------- sequences of changing length
def indexed(x, w):
    """The rows of a captured array, by position."""
    rows = tf.transpose(x, [1, 0, 2])
    count = tf.shape(rows)[0]
    start = (0, tf.zeros([2, 4], tf.float64))
    return tf.while_loop(lambda t, _: t < count, lambda t, h: (t + 1, tf.tanh(tf.matmul(rows[t] + h, w))), start)[1]


def backwards(x, w):
    """The same from the end, by negative positions and by gathering."""
    rows = tf.transpose(x, [1, 0, 2])
    count = tf.shape(rows)[0]

    def step(t, h):
        return t + 1, tf.tanh(tf.matmul(0.5 * (rows[-1 - t] + tf.gather(rows, count - 1 - t)) + h, w))

    return tf.while_loop(lambda t, _: t < count, step, (0, tf.zeros([2, 4], tf.float64)))[1]


def arrays(x, w):
    """Arrays of tensors as inputs and outputs; what comes out is stacked."""
    rows = tf.transpose(x, [1, 0, 2])
    count = tf.shape(rows)[0]
    given = tf.TensorArray(tf.float64, count).unstack(rows)

    def step(t, h, made):
        h = tf.tanh(tf.matmul(given.read(t) + h, w))
        return t + 1, h, made.write(t, h)

    start = (0, tf.zeros([2, 4], tf.float64), tf.TensorArray(tf.float64, count))
    _, h, made = tf.while_loop(lambda t, *_: t < count, step, start)
    return h + tf.reduce_mean(made.stack(), 0)


def scanned(x, w):
    rows = tf.transpose(x, [1, 0, 2])
    return tf.foldl(lambda h, row: tf.tanh(tf.matmul(row + h, w)), rows, tf.zeros([2, 4], tf.float64))


@pytest.mark.parametrize("network", [indexed, backwards, arrays, scanned])
def test_sequences_of_any_length_are_one_program(network, compiled):
    x = tf.placeholder(tf.float64, [2, None, 4])
    w = tf.get_variable("w", initializer=np.linspace(-1, 1, 16).reshape(4, 4))
    loss = tf.reduce_sum(network(x, w) ** 2)
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    lengths = [7, 3, 12, 5, 9, 31, 60, 1, 44, 17, 2, 64, 8, 23]
    random = np.random.RandomState(0)
    feeds = [random.randn(2, length, 4) for length in lengths]
    found = {}
    for tier in TIERS:
        with session(tier) as s:
            s.run(w.initializer)
            before = len(compiled)
            found[tier] = [s.run([loss, step], {x: feed})[0] for feed in feeds]
            found[tier].append(s.run(w))
            loops = [types for types in compiled[before:] if "While" in types or "StatelessWhile" in types]
    for one, other in zip(found["interpreted"], found["compiled"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    # A few shapes have plans of their own; all others are one program, or two where arrays are stacked between loops.
    assert len(loops) <= shape_families.MOST_PLANS + 2


@pytest.mark.parametrize(
    ("pick", "text"),
    [
        (lambda x, t: x[t], "slice index 5 of dimension 0 out of bounds"),
        (lambda x, t: tf.gather(x, t), r"= 5 is not in \[0, 5\)"),
    ],
)
def test_positions_are_checked_against_the_size_that_is_not_the_capacity(pick, text):
    x = tf.placeholder(tf.float64, [None, 4])
    n = tf.placeholder(tf.int32, [])
    start = (0, tf.zeros([4], tf.float64))
    _, y = tf.while_loop(lambda t, _: t < n, lambda t, h: (t + 1, h + pick(x, t)), start)
    with session() as s:
        for length in (2, 3, 4, 6, 7, 8, 5):
            feed = np.ones((length, 4))
            assert s.run(y, {x: feed, n: length}).tolist() == [length] * 4
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            s.run(y, {x: feed, n: 6})


def test_a_loop_that_becomes_hot_is_compiled_once_with_all_around_it(compiled):
    x = tf.placeholder(tf.float64, [2, 30, 4])
    w = tf.get_variable("w", initializer=np.linspace(-1, 1, 16).reshape(4, 4))
    loss = tf.reduce_sum(arrays(x, w) ** 2)
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with session("auto") as s:
        s.run(w.initializer)
        for _ in range(400):
            s.run(step, {x: np.ones((2, 30, 4))})
            if compiled:
                break
        for _ in range(3):
            s.run(step, {x: np.ones((2, 30, 4))})
    assert len(compiled) == 1


def test_training_on_sequences_of_any_length_compiles_its_loops_once(compiled):
    """Also for those lengths that came first, and had plans of their own."""
    x = tf.placeholder(tf.float64, [2, None, 4])
    w = tf.get_variable("w", initializer=np.linspace(-1, 1, 16).reshape(4, 4))
    loss = tf.reduce_sum(arrays(x, w) ** 2)
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    random = np.random.RandomState(0)
    lengths = [*random.randint(5, 61, 400), *random.randint(5, 61, 4).repeat(8)]
    with session("auto") as s:
        s.run(w.initializer)
        for length in lengths:
            s.run([loss, step], {x: random.randn(2, length, 4)})
    # What comes out is stacked on the host: the loop and its gradient are two programs.
    assert sum("While" in types or "StatelessWhile" in types for types in compiled) == 2
