"""A failed segment changes no variable: in both tiers, with donated buffers, with several programs in a step."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from tests.running_steps import expiring, until_waiting, waiting


def made(session, value, name="v", **kwargs):
    found = tf.Variable(value, name=name, **kwargs)
    session.run(found.initializer)
    return found


def test_a_failed_assert_holds_back_dense_writes(session):
    v = made(session, np.ones(3, np.float32))
    x = tf.placeholder(tf.float32, [])
    with tf.control_dependencies([tf.Assert(x > 0, ["x is", x])]):
        step = v.assign_add(tf.fill([3], x))
    session.run(step.op, {x: 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x is.*-5"):
        session.run(step.op, {x: -5.0})
    np.testing.assert_array_equal(session.run(v), np.full(3, 2.0))
    session.run(step.op, {x: 1.0})
    np.testing.assert_array_equal(session.run(v), np.full(3, 3.0))


def test_an_assert_beside_the_write_holds_it_back_too(session):
    v = made(session, 1.0)
    x = tf.placeholder(tf.float32, [])
    check = tf.Assert(x > 0, [x])
    step = tf.group(check, v.assign_sub(x))
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1"):
        session.run(step, {x: -1.0})
    assert session.run(v) == 1.0


def test_an_assert_on_the_new_value_takes_it_back(session):
    v = made(session, np.zeros(4, np.float32))
    x = tf.placeholder(tf.float32, [4])
    new = v.assign_add(x)
    check = tf.Assert(tf.reduce_all(tf.identity(new) < 10.0), [new])
    session.run([check, new.op], {x: np.full(4, 3.0)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
        session.run([check, new.op], {x: np.full(4, 30.0)})
    np.testing.assert_array_equal(session.run(v), np.full(4, 3.0))


def test_an_assert_on_new_rows_takes_them_back(session):
    table = made(session, np.zeros((6, 2), np.float32))
    rows = tf.placeholder(tf.int32, [None])
    change = tf.placeholder(tf.float32, [None, 2])
    new = tf.scatter_add(table, rows, change)
    check = tf.Assert(tf.reduce_all(tf.identity(new) < 10.0), ["too large"])
    session.run([check, new.op], {rows: [1, 4, 1], change: np.ones((3, 2))})
    expected = np.zeros((6, 2))
    expected[1], expected[4] = 2, 1
    np.testing.assert_array_equal(session.run(table), expected)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        session.run([check, new.op], {rows: [1, 4, 1], change: np.full((3, 2), 8.0)})
    np.testing.assert_array_equal(session.run(table), expected)


def test_an_index_out_of_range_changes_nothing(session):
    table = made(session, np.zeros((4, 2), np.float32))
    other = made(session, 0.0, "other")
    rows = tf.placeholder(tf.int32, [None])
    step = tf.group(tf.scatter_add(table, rows, tf.ones([2, 2])), other.assign_add(1.0))
    session.run(step, {rows: [0, 3]})
    for bad in ([0, 4], [-1, 0], [2**31 - 1, 0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"not in \[0, 4\)"):
            session.run(step, {rows: bad})
    np.testing.assert_array_equal(session.run(table), [[1, 1], [0, 0], [0, 0], [1, 1]])
    assert session.run(other) == 1.0


def test_nan_refused_changes_nothing(session):
    v = made(session, 1.0)
    x = tf.placeholder(tf.float32, [])
    step = v.assign(tf.check_numerics(tf.log(x), "loss"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"loss.*NaN"):
        session.run(step.op, {x: -1.0})
    assert session.run(v) == 1.0


def test_a_python_exception_between_two_programs_changes_nothing(session):
    a, b = made(session, 1.0, "a"), made(session, 1.0, "b")

    def refuse(value):
        if value > 5:
            raise ValueError("too much")
        return np.float32(value)

    x = tf.placeholder(tf.float32, [])
    first = a.assign_add(x)
    seen = tf.py_func(refuse, [tf.identity(first) * 2.0], tf.float32)
    seen.set_shape([])
    second = b.assign_add(seen)
    session.run([first.op, second.op], {x: 1.0})
    assert session.run([a, b]) == [2.0, 5.0]
    with pytest.raises(Exception, match="too much"):
        session.run([first.op, second.op], {x: 10.0})
    assert session.run([a, b]) == [2.0, 5.0]


def test_a_check_after_a_host_op_takes_back_what_came_before(session):
    a = made(session, np.ones(3, np.float32), "a")
    x = tf.placeholder(tf.float32, [3])
    first = a.assign_add(x)
    listed = tf.py_func(lambda value: np.sort(value), [tf.identity(first)], tf.float32, stateful=False)
    check = tf.Assert(tf.reduce_sum(listed) < 10.0, ["sum"])
    session.run([first.op, check], {x: np.ones(3)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="sum"):
        session.run([first.op, check], {x: np.full(3, 50.0)})
    np.testing.assert_array_equal(session.run(a), np.full(3, 2.0))


def test_random_counters_go_back_with_the_step(tier):
    def draws(fail):
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            noise = tf.random_uniform([4])
            x = tf.placeholder(tf.float32, [])
            check = tf.Assert(x > 0, [x])
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                found = [session.run([noise, check], {x: 1.0})[0]]
                if fail:
                    with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
                        session.run([noise, check], {x: -1.0})
                found.append(session.run([noise, check], {x: 1.0})[0])
                return np.stack(found)

    np.testing.assert_array_equal(draws(False), draws(True))
    assert not np.array_equal(*draws(False))


def test_the_first_failure_in_effect_order_wins(session):
    x = tf.placeholder(tf.float32, [])
    checks = [tf.Assert(x > bound, [f"bound {bound}"]) for bound in (3, 1, 2)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="bound 1"):
        session.run(checks, {x: 1.0} | {checks[0].inputs[0]: True})
    with pytest.raises(tf.errors.InvalidArgumentError, match="bound 3"):
        session.run(checks[::-1], {x: 0.0})


def test_a_consumer_that_skips_bad_records_moves_on(session):
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    feed = tf.placeholder(tf.float32, [None])
    enqueue = queue.enqueue_many([feed])
    total = made(session, 0.0, "total")
    record = queue.dequeue()
    with tf.control_dependencies([tf.Assert(record >= 0, ["bad record", record])]):
        step = total.assign_add(record)
    session.run(enqueue, {feed: [1.0, -1.0, 2.0]})
    refused = []
    for _ in range(3):
        try:
            session.run(step.op)
        except tf.errors.InvalidArgumentError as problem:
            refused.append(str(problem))
    assert session.run(total) == 3.0
    assert ["Done before the failure and kept" in text for text in refused] == [True]


def test_a_step_that_blocks_holds_nothing(session):
    """A synchronous replica: read W, hand in a gradient, wait for a token that exists only once the chief wrote W."""
    w = made(session, 10.0, "w")
    gradients = tf.FIFOQueue(10, [tf.float32], shapes=[[]], name="gradients")
    tokens = tf.FIFOQueue(10, [tf.int32], shapes=[[]], name="tokens")
    hand_in = gradients.enqueue([w.value() * 0.1])
    with tf.control_dependencies([hand_in]):
        token = tokens.dequeue()
    with tf.control_dependencies([token]):
        seen_after = w.read_value() + 0.0
    chief = w.assign_sub(gradients.dequeue())
    with tf.control_dependencies([chief]):
        release = tokens.enqueue([1])
    found = []
    worker = threading.Thread(target=lambda: found.append(session.run(seen_after)))
    worker.start()
    session.run(release)
    worker.join(60)
    assert not worker.is_alive()
    assert found == [pytest.approx(9.0)]


def test_a_python_function_may_run_the_same_session(session):
    v, w = made(session, 1.0, "v"), made(session, 0.0, "w")
    bump = v.assign_add(1.0)
    calls = []

    def nested(value):
        calls.append(1)
        session.run(bump.op)
        return np.float32(value)

    out = tf.py_func(nested, [tf.constant(5.0)], tf.float32)
    out.set_shape([])
    step = w.assign(out + v.value())
    session.run(step.op)
    assert session.run(v) == 2.0
    assert len(calls) == 1  # the step was overtaken by its own call and ran again, the call did not
    assert session.run(w) == 7.0


def test_a_python_function_must_not_change_what_its_inputs_depend_on(session):
    v, w = made(session, 1.0, "mine"), made(session, 0.0, "w")
    bump = v.assign_add(1.0)
    calls = []

    def nested(value):
        calls.append(float(value))
        session.run(bump.op)
        return np.float32(value)

    out = tf.py_func(nested, [v * 2.0], tf.float32)
    out.set_shape([])
    step = w.assign(out)
    with pytest.raises(tf.errors.AbortedError, match=r"'PyFunc'.*depend on 'mine'.*changed that by a run of its own"):
        session.run(step.op)
    assert calls == [2.0]
    assert session.run([v, w]) == [2.0, 0.0]


def test_a_python_function_may_be_overtaken_by_another_thread(session):
    v, w = made(session, 1.0, "v"), made(session, 0.0, "w")
    bump = v.assign_add(1.0)
    calls = []

    def nested(value):
        calls.append(float(value))
        if len(calls) == 1:
            worker = threading.Thread(target=lambda: session.run(bump.op))
            worker.start()
            worker.join()
        return np.float32(value)

    out = tf.py_func(nested, [v * 2.0], tf.float32)
    out.set_shape([])
    session.run(w.assign(out).op)
    assert calls == [2.0, 4.0]
    assert session.run(w) == 4.0


def test_cancellation_and_deadline_change_nothing(session):
    v = made(session, 1.0)
    queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
    item = queue.dequeue()
    step = v.assign_add(item)
    with expiring(session, lambda: waiting(session)) as options:
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
            session.run(step.op, options=options)
    assert session.run(v) == 1.0
    assert session.run(queue.size()) == 0


def test_closing_a_session_wakes_what_waits(tier):
    session = tf.Session(config=tf.SessionOptions(tier=tier))
    queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
    item = queue.dequeue()
    seen = []

    def wait():
        try:
            session.run(item)
        except tf.errors.CancelledError as problem:
            seen.append(problem)

    worker = threading.Thread(target=wait)
    worker.start()
    until_waiting(session)
    session.close()
    worker.join(60)
    assert not worker.is_alive()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(item)


def test_concurrent_transfers_are_serialisable(session):
    """Money moves between accounts in threads; no snapshot ever sees it created or lost."""
    accounts = [made(session, np.float32(100.0), f"account{i}") for i in range(4)]
    amount = tf.placeholder(tf.float32, [])
    moves = {}
    for i in range(4):
        for j in range(4):
            if i != j:
                moves[i, j] = tf.group(accounts[i].assign_sub(amount), accounts[j].assign_add(amount))
    total = tf.add_n([account.value() for account in accounts])
    wrong = []
    stop = threading.Event()

    def mover(seed):
        rng = np.random.RandomState(seed)
        for _ in range(60):
            i, j = rng.choice(4, 2, replace=False)
            session.run(moves[i, j], {amount: float(rng.randint(1, 9))})

    def reader():
        while not stop.is_set():
            if session.run(total) != 400.0:
                wrong.append(1)

    threads = [threading.Thread(target=mover, args=(seed,)) for seed in range(3)]
    watch = threading.Thread(target=reader)
    watch.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    stop.set()
    watch.join(60)
    assert not wrong
    assert sum(session.run(accounts)) == 400.0


def test_no_update_is_lost_between_threads(session):
    v = made(session, np.zeros(5, np.float32))
    add = v.assign_add(np.ones(5, np.float32))

    def work():
        for _ in range(100):
            session.run(add.op)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    np.testing.assert_array_equal(session.run(v), np.full(5, 400.0))


def test_write_skew_cannot_happen(session):
    """Each of two steps reads one variable and writes the other: some serial order must explain the result."""
    for _ in range(20):
        a, b = made(session, 1.0, "a"), made(session, 2.0, "b")
        first, second = a.assign(b.value() + 0.0), b.assign(a.value() + 0.0)
        barrier = threading.Barrier(2)

        def run(op, barrier=barrier):
            barrier.wait()
            session.run(op)

        threads = [threading.Thread(target=run, args=(op,)) for op in (first.op, second.op)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert session.run([a, b]) in ([2.0, 2.0], [1.0, 1.0])


def test_readers_do_not_wait_for_a_writer(session):
    v = made(session, 1.0)
    entered, go = threading.Event(), threading.Event()

    def slow(value):
        entered.set()
        assert go.wait(60)
        return np.float32(value + 1)

    new = tf.py_func(slow, [v.value()], tf.float32)
    new.set_shape([])
    write = v.assign(new)
    writer = threading.Thread(target=lambda: session.run(write.op))
    writer.start()
    assert entered.wait(60)
    assert session.run(v) == 1.0
    go.set()
    writer.join(60)
    assert session.run(v) == 2.0


def test_a_fetched_array_is_the_callers_own(session):
    v = made(session, np.arange(3, dtype=np.float32))
    read = v.value()
    c = tf.constant([1.0, 2.0])
    for fetch in (v, read, c, tf.identity(c)):
        got = session.run(fetch)
        assert got.flags.writeable
        got[...] = -1
        assert not np.array_equal(session.run(fetch), got)


def test_a_fetched_value_outlives_later_steps(session):
    v = made(session, np.zeros(1000, np.float32))
    add = v.assign_add(np.ones(1000, np.float32))
    snapshots = [session.run([v, add.op])[0] for _ in range(5)]
    assert [snapshot[0] for snapshot in snapshots] == [1, 2, 3, 4, 5]


def test_old_and_new_value_of_one_step(session):
    v = made(session, np.zeros(1000, np.float32))
    old = v.value() + 0.0
    read = v.read_value()
    add = v.assign_add(np.ones(1000, np.float32))
    for i in range(3):
        before, raw, after, _ = session.run([old, read, v, add.op])
        assert (before[0], raw[0], after[0]) == (i, i, i + 1)


def test_feeds_may_change_as_soon_as_run_returns(session):
    v = made(session, np.zeros(4096, np.float32))
    x = tf.placeholder(tf.float32, [4096])
    step = v.assign(x)
    kept = tf.identity(x)
    buffer = np.ones(4096, np.float32)
    session.run(step.op, {x: buffer})
    got = session.run(kept, {x: buffer})
    buffer[...] = 7
    assert session.run(v)[0] == 1.0
    assert got[0] == 1.0


def test_a_value_carried_over_a_channel_survives_other_writers(session):
    v = made(session, np.ones(2000, np.float32))
    queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
    seen = tf.FIFOQueue(1, [tf.float32], shapes=[[2000]])
    with tf.control_dependencies([seen.enqueue([v * 1.0])]):
        token = queue.dequeue()
    raw = v.read_value()
    out = v + token
    add = v.assign_add(np.ones(2000, np.float32))
    put = queue.enqueue([0.0])
    found = []
    worker = threading.Thread(target=lambda: found.append(session.run([out, raw])))
    worker.start()
    until_waiting(session)
    for _ in range(3):
        session.run(add.op)
    session.run(put)
    worker.join(60)
    assert session.run(v)[0] == 4.0
    np.testing.assert_array_equal(session.run(seen.dequeue()), np.ones(2000))
    np.testing.assert_array_equal(found[0][0], np.ones(2000))
    np.testing.assert_array_equal(found[0][1], np.ones(2000))


def test_recoverable_sessions_work_too(tier):
    with tf.Session(config=tf.SessionOptions(tier=tier, recoverable=True)) as session:
        v = made(session, 1.0)
        x = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([tf.Assert(x > 0, [x])]):
            step = v.assign_add(x)
        session.run(step.op, {x: 1.0})
        with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
            session.run(step.op, {x: -1.0})
        assert session.run(v) == 2.0


@pytest.mark.parametrize("resource", [False, True])
def test_a_program_owns_what_it_reads_and_replaces_as_a_whole(resource):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        average = made(session, np.ones(3, np.float32), "average", use_resource=resource)
        total = made(session, np.float32(0.0), "total", use_resource=resource)
        unread = made(session, np.zeros(3, np.float32), "unread", use_resource=resource)
        x = tf.placeholder(tf.float32, [3])
        with tf.control_dependencies([tf.Assert(tf.reduce_all(x < 10.0), ["too large"])]):
            step = tf.group(
                average.assign(0.5 * average + 0.5 * x),
                total.assign(total + tf.reduce_sum(x)),
                unread.assign(2.0 * x),
            )
        owned = [line for line in session.explain(step, {x: np.ones(3)}).splitlines() if "owns the buffers" in line]
        assert [name in owned[0] for name in ("average", "total", "unread")] == [True, True, False]
        for _ in range(3):  # by the executor, then by the short way
            session.run(step, {x: np.full(3, 3.0)})
        before = session.run([average, total, unread])
        np.testing.assert_allclose(before[0], np.full(3, 2.75))
        assert before[1] == 27.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
            session.run(step, {x: np.full(3, 30.0)})
        for value, old in zip(session.run([average, total, unread]), before, strict=True):
            np.testing.assert_array_equal(value, old)


def test_two_variables_change_places_in_a_program_that_owns_both():
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        a = made(session, np.array([1.0, 2.0], np.float32), "a", use_resource=True)
        b = made(session, np.array([3.0, 4.0], np.float32), "b", use_resource=True)
        old_a, old_b = tf.identity(a), tf.identity(b)
        with tf.control_dependencies([old_a, old_b]):
            swap = tf.group(a.assign(old_b), b.assign(old_a))
        for turn in range(4):
            session.run(swap)
            first, second = session.run([a, b])
            np.testing.assert_array_equal(first, [3.0, 4.0] if turn % 2 == 0 else [1.0, 2.0])
            np.testing.assert_array_equal(second, [1.0, 2.0] if turn % 2 == 0 else [3.0, 4.0])
