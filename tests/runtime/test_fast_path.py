"""The fast path: which steps go it, that what changes between two steps is noticed, how programs are called."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime import executor
from tests.running_steps import expiring, until_waiting, waiting


@pytest.fixture
def session():
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as found:
        yield found


@pytest.fixture
def planned(session, monkeypatch):
    """How often a plan was looked for."""
    calls = []
    real = session._worker._plan

    def plan(*args):
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(session._worker, "_plan", plan)
    return calls


def ones(*shape):
    return np.ones(shape, np.float32)


def test_a_step_like_the_last_one_needs_no_plan(session, planned):
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [])
    v = tf.Variable(2.0)
    session.run(v.initializer)
    add, out = v.assign_add(1.0), x * y + 0.0
    feeds = {x: ones(3), y: np.array(4, np.float32)}
    for _ in range(2):
        assert session.run([out, add.op], feeds)[0].tolist() == [4, 4, 4]
    del planned[:]
    for _ in range(3):
        found, none = session.run([out, add.op], feeds)
        assert (found.tolist(), none, found.flags.writeable) == ([4, 4, 4], None, True)
    assert not planned
    assert session.run(v) == 7.0
    for changed in (
        {y: np.array(4, np.float32), x: ones(3)},
        {x: ones(2), y: np.array(4, np.float32)},
        {x: np.ones(3), y: np.array(4, np.float32)},
        {x: [1.0, 1.0, 1.0], y: 4.0},
    ):
        del planned[:]
        assert set(session.run([out, add.op], changed)[0].tolist()) == {4.0}
        assert planned
    with pytest.raises(ValueError, match=r"shape \(1, 3\)"):
        session.run([out, add.op], {x: ones(1, 3), y: np.array(4, np.float32)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must feed a value"):
        session.run([out, add.op], {x: ones(3)})
    assert session.run(v) == 11.0


def test_callables_need_no_plan_either(session, planned):
    x = tf.placeholder(tf.float32, [None])
    call = session.make_callable([x + 1.0], [x])
    for _ in range(3):
        call(ones(2))
    del planned[:]
    assert call(ones(2))[0].tolist() == [2, 2]
    assert call([1, 1])[0].tolist() == [2, 2]
    assert not planned
    assert call(ones(3))[0].tolist() == [2, 2, 2]
    assert planned


def test_what_a_graph_learns_later_holds(session):
    x = tf.placeholder(tf.float32)
    out = x + 1.0
    for _ in range(3):
        session.run(out, {x: ones(2)})
    x.set_shape([3])
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        session.run(out, {x: ones(2)})
    for _ in range(3):
        session.run(out, {x: ones(3)})
    session.graph.prevent_feeding(x)
    with pytest.raises(ValueError, match="may not be fed"):
        session.run(out, {x: ones(3)})


def test_variables_that_change_their_shape_or_vanish(session):
    v = tf.Variable(ones(2), validate_shape=False)
    longer = tf.assign(v, ones(3), validate_shape=False)
    total = tf.reduce_sum(v) + 0.0
    session.run(v.initializer)
    for _ in range(3):
        assert session.run(total) == 2
    session.run(longer.op)
    assert session.run(total) == 3
    tf.Session.reset("")
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        session.run(total)


def test_a_closed_session_runs_nothing(session):
    out = tf.constant(1.0) + 1.0
    call = session.make_callable(out)
    for _ in range(3):
        session.run(out)
        call()
    session.close()
    for run in (call, lambda: session.run(out)):
        with pytest.raises(RuntimeError, match="closed Session"):
            run()


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.complex128, np.uint64])
def test_values_of_64_bits_stay_what_they_are(session, dtype):
    large = np.array([2**53 - 9, 5], dtype)
    x, v = tf.placeholder(tf.as_dtype(dtype), [2]), tf.Variable(large)
    session.run(v.initializer)
    both = [x + v, v.assign(v + x)]
    for i in range(1, 4):
        found = session.run(both, {x: np.array([1, 1], dtype)})
        assert [value.dtype for value in found] == [dtype, dtype]
        assert found[1].tolist() == [2**53 - 9 + i, 5 + i]


# --------------------------------------------------------------------------------- queues, summaries, several programs
@pytest.fixture
def slow(monkeypatch):
    """The segments from which the executor ran a step, for each step that did not stay on the fast path."""
    starts = []
    real = executor.Executor.run_from

    def run_from(self, first, env, step):
        starts.append(first)
        return real(self, first, env, step)

    monkeypatch.setattr(executor.Executor, "run_from", run_from)
    return starts


def rows(count, width=2, first=0):
    return (np.arange(count * width, dtype=np.float32) + first).reshape(count, width)


@pytest.mark.parametrize("kind", ["one", "many"])
def test_a_step_fed_by_a_queue_goes_fast_and_gives_what_it_gave(session, slow, kind):
    queue = tf.FIFOQueue(100, [tf.float32, tf.int64], [[2], []])
    x = tf.placeholder(tf.float32, [None, 2])
    fill = queue.enqueue_many([x, tf.range(tf.shape(x, out_type=tf.int64)[0])])
    values, numbers = queue.dequeue() if kind == "one" else queue.dequeue_many(3)
    v = tf.Variable(tf.zeros([2]))
    step = [v.assign_add(values if kind == "one" else tf.reduce_sum(values, 0)).op, values, numbers]
    session.run(v.initializer)
    taken = 1 if kind == "one" else 3
    total = np.zeros(2, np.float32)
    session.run(fill, {x: rows(10 * taken)})
    del slow[:]
    for i in range(10):
        _, got, number = session.run(step)
        expected = rows(10 * taken)[i * taken : (i + 1) * taken]
        assert got.tolist() == (expected[0] if kind == "one" else expected).tolist()
        assert np.ravel(number).tolist() == list(range(i * taken, (i + 1) * taken))
        assert got.flags.writeable
        total += expected.sum(0)
        assert session.run(v).tolist() == total.tolist()
    assert len(slow) <= 4  # the first step, and the first that only reads


def test_records_from_a_queue_of_strings(session, slow):
    """What is parsed on the host behind a dequeue is taken by a program of the same segment."""
    queue = tf.FIFOQueue(100, [tf.string], [[]])
    numbers = tf.reshape(tf.decode_raw(queue.dequeue_many(3), tf.float32), [3, 2])
    v = tf.Variable(0.0)
    step = [v.assign_add(tf.reduce_sum(numbers)).op, numbers]
    session.run([v.initializer, queue.enqueue_many([np.array([row.tobytes() for row in rows(15)], object)])])
    for i in range(2):
        assert session.run(step)[1].tolist() == rows(15)[i * 3 : i * 3 + 3].tolist()
    del slow[:]
    for i in range(2, 5):
        assert session.run(step)[1].tolist() == rows(15)[i * 3 : i * 3 + 3].tolist()
    assert not slow
    assert session.run(v) == rows(15).sum()


def test_batches_of_other_sizes_have_forms_of_their_own(session, slow):
    queue = tf.FIFOQueue(100, tf.float32, [[2]])
    x = tf.placeholder(tf.float32, [None, 2])
    count = tf.placeholder(tf.int32, [])
    fill, out = queue.enqueue_many(x), tf.reduce_sum(queue.dequeue_up_to(count)) * 2.0
    for sizes in ([3, 2, 3, 2], [2, 3, 2, 3]):
        for size in sizes:
            session.run(fill, {x: rows(size)})
            assert session.run(out, {count: np.array(size, np.int32)}) == rows(size).sum() * 2
    del slow[:]
    for size in (3, 2, 3, 2):
        session.run(fill, {x: rows(size)})
        assert session.run(out, {count: np.array(size, np.int32)}) == rows(size).sum() * 2
    assert not slow
    session.run(fill, {x: rows(4)})
    assert session.run(out, {count: np.array(4, np.int32)}) == rows(4).sum() * 2
    assert 1 in slow  # from behind the dequeue: what was taken is not lost


def test_what_is_dequeued_is_not_lost_when_the_variable_has_changed_its_shape(session, slow):
    queue = tf.FIFOQueue(100, tf.float32, [[]])
    v = tf.Variable(ones(2), validate_shape=False)
    value = tf.placeholder(tf.float32, [None])
    change, fill = tf.assign(v, value, validate_shape=False).op, queue.enqueue_many([tf.range(20.0)])
    out = v * queue.dequeue()
    session.run([v.initializer, fill])
    for i in range(4):
        assert session.run(out).tolist() == [i, i]
    session.run(change, {value: ones(3)})
    del slow[:]
    assert session.run(out).tolist() == [4, 4, 4]
    assert slow == [1]
    assert session.run(out).tolist() == [5, 5, 5]
    assert slow == [1]
    assert session.run(queue.size()) == 14


def test_errors_on_the_fast_path_say_what_stands(session, slow):
    queue = tf.FIFOQueue(100, tf.float32, [[]])
    v = tf.Variable(0.0)
    fill = queue.enqueue_many([tf.constant([1.0, 1.0, 1.0, -1.0])])
    taken = queue.dequeue()
    with tf.control_dependencies([tf.assert_positive(taken)]):
        step = v.assign_add(taken)
    session.run([v.initializer, fill])
    for i in range(3):
        assert session.run(step) == i + 1
    del slow[:]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Done before the failure and kept: QueueDequeueV2"):
        session.run(step)
    assert not slow
    assert session.run(v) == 3.0
    session.run(queue.close())
    with pytest.raises(tf.errors.OutOfRangeError, match="closed and has insufficient elements"):
        session.run(step)
    assert session.run(v) == 3.0


def test_a_step_that_waits_is_cancelled(session):
    queue = tf.FIFOQueue(100, tf.float32, [[]])
    fill, out = queue.enqueue_many([tf.ones([3])]), queue.dequeue() + 1.0
    session.run(fill)
    for _ in range(3):
        session.run(out)
    with expiring(session, lambda: waiting(session)) as options:
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout"):
            session.run(out, options=options)
    problems = []

    def wait():
        try:
            session.run(out)
        except tf.errors.CancelledError as problem:
            problems.append(problem)

    thread = threading.Thread(target=wait)
    thread.start()
    until_waiting(session)
    session.close()
    thread.join(60)
    assert len(problems) == 1


def test_steps_on_both_sides_of_a_queue(session, slow):
    """One step computes and enqueues, another dequeues and writes: both stay on the fast path, at the same time."""
    queue = tf.FIFOQueue(2, tf.float32, [[3]])
    made, total = tf.Variable(0.0), tf.Variable(tf.zeros([3]))
    put = queue.enqueue(tf.fill([3], made.assign_add(1.0)))
    take = total.assign_add(queue.dequeue()).op
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(put)
        session.run(take)
    del slow[:]

    def work(fetch):
        for _ in range(50):
            session.run(fetch)

    threads = [threading.Thread(target=work, args=(fetch,)) for fetch in (put, take)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not slow
    assert session.run(total).tolist() == [53 * 54 / 2] * 3


def test_summaries_at_the_end_of_a_step_go_fast(session, slow):
    x, v = tf.placeholder(tf.float32, [3]), tf.Variable(1.0)
    loss = tf.reduce_sum(x) * v
    merged = tf.summary.merge([tf.summary.scalar("loss", loss), tf.summary.histogram("x", x * 2.0)])
    step = [v.assign_add(1.0).op, merged]
    session.run(v.initializer)
    found = [session.run(step, {x: ones(3)})[1] for _ in range(2)]
    del slow[:]
    found += [session.run(step, {x: ones(3)})[1] for _ in range(3)]
    assert not slow
    values = [tf.Summary.FromString(text).value[0].simple_value for text in found]
    assert values == [3.0, 6.0, 9.0, 12.0, 15.0]


def test_several_programs_in_a_step_go_fast(session, slow):
    """A host op in the middle makes two programs of a segment: lengths that data decide, and shapes that follow."""
    x = tf.placeholder(tf.float32, [4])
    v = tf.Variable(10.0)
    kept = tf.boolean_mask(x * 2.0, tf.constant([True, False, True, True]))
    total = tf.reduce_sum(kept) + v
    step = [total, v.assign_add(total).op]
    session.run(v.initializer)
    expected, value = [], 10.0
    for i in range(5):
        expected.append(6.0 * (i + 1) + value)
        value += expected[-1]
    found = [session.run(step, {x: ones(4) * (i + 1)})[0] for i in range(3)]
    del slow[:]
    found += [session.run(step, {x: ones(4) * (i + 1)})[0] for i in (3, 4)]
    assert not slow
    assert found == expected


def test_random_streams_move_as_they_do_on_the_slow_way():
    def draws(fast):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled", seed=4)) as session:
            queue = tf.FIFOQueue(100, tf.float32, [[]])
            out = queue.dequeue() + tf.random_uniform([2], seed=3)
            session.run(queue.enqueue_many([tf.zeros([10])]))
            found = []
            for _ in range(8):
                found.append(session.run(out).tolist())
                if not fast:
                    for _, runner in session._worker._plans.values():
                        runner._fast = None
            return found

    assert draws(True) == draws(False)
    assert len({tuple(pair) for pair in draws(True)}) == 8


def test_a_python_function_keeps_a_step_from_it(session, slow):
    queue = tf.FIFOQueue(100, tf.float32, [[]])
    out = tf.py_func(lambda x: x + 1, [queue.dequeue()], tf.float32) * 2.0
    session.run(queue.enqueue_many([tf.range(9.0)]))
    del slow[:]
    assert [session.run(out) for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]
    assert len(slow) == 4


def test_many_threads_learn_forms_at_the_same_time(session):
    """Batches of many sizes, a variable whose shape changes, and threads that switch wherever they can."""
    queue = tf.FIFOQueue(10000, tf.float32, [[]])
    count, value = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [None])
    v, total = tf.Variable(ones(1), validate_shape=False), tf.Variable(0.0)
    change = tf.assign(v, value, validate_shape=False).op
    batch = queue.dequeue_up_to(count)
    step = [tf.reduce_sum(batch) + tf.reduce_max(v), total.assign_add(tf.reduce_sum(batch)).op]
    session.run([tf.global_variables_initializer(), queue.enqueue_many([tf.ones([3000])])])
    problems = []

    def work(seed):
        try:
            for i in range(40):
                size = (i * seed) % 11 + 1
                found, _ = session.run(step, {count: np.array(size, np.int32)})
                if found != size + 1:
                    problems.append((size, found))
                if i % 7 == seed:
                    session.run(change, {value: ones(size)})
        except Exception as problem:
            problems.append(problem)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 3, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
    finally:
        sys.setswitchinterval(interval)
    assert not problems
    assert session.run(total) == 3000 - session.run(queue.size())


def test_steps_whose_numbers_of_distinct_rows_differ_go_it_too(session, monkeypatch):
    executed = []
    real = executor.Executor._run

    def run(self, *args, **kwargs):
        executed.append(self)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(executor.Executor, "_run", run)
    ids = tf.placeholder(tf.int32, [200])
    table = tf.Variable(np.arange(600, dtype=np.float32).reshape(300, 2))
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) ** 2) / 2.0
    step = tf.train.MomentumOptimizer(0.125, 0.5).minimize(loss)
    session.run(tf.global_variables_initializer())
    rows, momenta = session.run(table).astype(np.float64), np.zeros([300, 2])
    rng = np.random.RandomState(0)
    # A first program has room for 64, a second one for 256: what leaves a form is the first step of each.
    for distinct, slow in ((40, 1), (3, 0), (64, 0), (1, 0), (150, 1), (70, 0), (180, 0), (50, 0)):
        fed = np.resize(rng.choice(300, distinct, replace=False), 200).astype(np.int32)
        del executed[:]
        session.run(step, {ids: fed})
        names, times = np.unique(fed, return_counts=True)
        momenta[names] = 0.5 * momenta[names] + rows[names] * times[:, None]
        rows[names] -= 0.125 * momenta[names]
        assert len(executed) == slow
    np.testing.assert_allclose(session.run(table), rows, 1e-4, 1e-5)


def test_forms_are_listed_and_go_where_shapes_change_too_often(session):
    queue = tf.FIFOQueue(1000, tf.float32, [[]])
    count = tf.placeholder(tf.int32, [])
    fill, out = queue.enqueue_many([tf.ones([300])]), queue.dequeue_up_to(count) + 1.0
    session.run(fill)

    def forms():
        return [
            len(cache)
            for _, runner in session._worker._plans.values()
            if runner.fast is not None
            for cache in runner.fast.caches
        ]

    for size in range(1, 4):
        assert len(session.run(out, {count: np.array(size, np.int32)})) == size
    assert forms() == [3]
    assert "forms of segments" in session.explain_caches()
    for size in range(4, 13):  # beyond a few shapes the plan keeps on the host what they reach
        assert len(session.run(out, {count: np.array(size, np.int32)})) == size
    assert forms() == []


_SCRIPT = """
    import anabranch as tf
    import numpy as np
    session = tf.Session(config=tf.SessionOptions(tier="compiled"))
    x = tf.placeholder(tf.float32, [2])
    {before}
    session.run(x + 1.0, {{x: np.ones(2)}})
    import jax
    assert jax.config.values["jax_cpu_enable_async_dispatch"] is True
    program = jax.jit(lambda a: a @ a @ a @ a @ a)
    a = jax.numpy.ones((700, 700))
    program(a).block_until_ready()
    print(all([program(a).is_ready() for _ in range(8)]))  # where another thread runs it, it may be ready by then once
"""


@pytest.mark.parametrize(
    ("before", "variables", "at_once"),
    [
        ("", {}, True),
        ("", {"ANABRANCH_CPU_DISPATCH": "threads"}, False),
        ("session.make_callable(x + 2.0, [x], asynchronous=True)", {}, False),
        ("import jax", {}, False),
    ],
)
def test_programs_on_the_cpu_run_in_the_thread_that_calls_them(before, variables, at_once):
    script = textwrap.dedent(_SCRIPT).format(before=before)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **variables}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True, timeout=100
    )
    assert (found.returncode, found.stdout.strip()) == (0, str(at_once)), found.stderr


def test_ways_that_there_are_not():
    environment = {**os.environ, "ANABRANCH_CPU_DISPATCH": "fast"}
    script = "import anabranch as tf; tf.Session(config=tf.SessionOptions(tier='compiled')).run(tf.constant(1.0) + 1)"
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=100)
    assert "ValueError: Given: ANABRANCH_CPU_DISPATCH='fast'" in found.stderr
