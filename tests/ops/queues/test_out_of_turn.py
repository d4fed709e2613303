"""Channel ops that wait do not keep back those behind them that they wait for."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.queues.public_barriers import Barrier
from anabranch.ops.queues.public_staging import MapStagingArea
from tests.running_steps import expiring

SOON = tf.RunOptions(timeout_in_ms=60_000)


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session
    assert not [thread for thread in threading.enumerate() if thread.name == "anabranch-out-of-turn"]


def queue(capacity=1):
    return tf.FIFOQueue(capacity, tf.float32, [[]])


def test_a_step_puts_into_a_full_queue_what_it_takes_out_of(session):
    line = queue()
    x = tf.placeholder(tf.float32, [])
    put, taken = line.enqueue(x), line.dequeue()
    session.run(put, {x: 0.0})
    for i in range(1, 6):
        assert session.run([put, taken * 2.0], {x: i}, options=SOON)[1] == 2.0 * (i - 1)
    assert session.run(line.size()) == 1


def test_a_step_takes_out_of_an_empty_queue_what_it_puts_in_later(session):
    line, other = queue(), queue(5)
    v = tf.Variable(1.0)
    taken = line.dequeue()
    moved = other.enqueue(taken + 1.0)
    puts = line.enqueue(v * 3.0)  # it needs the variable as it is
    added = v.assign_add(taken)
    session.run(v.initializer)
    assert session.run([taken, puts, added, moved], options=SOON)[::2] == [3.0, 4.0]
    assert session.run([taken, puts, added, moved], options=SOON)[::2] == [12.0, 16.0]
    assert session.run(other.dequeue_many(2)).tolist() == [4.0, 13.0]


@pytest.mark.parametrize("first", ["put", "get"])
def test_staging_areas_of_one_place(session, first):
    area = tf.contrib.staging.StagingArea([tf.float32], [[]], capacity=1)
    x = tf.placeholder(tf.float32, [])
    if first == "put":
        put, (got,) = area.put([x]), area.get()
        session.run(put, {x: 5.0})
    else:
        (got,), put = area.get(), area.put([x])
    results = [session.run([put, got + 1.0], {x: i}, options=SOON)[1] for i in range(3)]
    assert results == ([6.0, 1.0, 2.0] if first == "put" else [1.0, 2.0, 3.0])


def test_what_waits_in_a_row_is_let_go_in_a_row(session):
    a, b, c = queue(), queue(), queue()
    first = a.dequeue()
    second = b.dequeue()
    third = c.dequeue()
    with tf.control_dependencies([second]):
        opens_a = a.enqueue(1.0)
    opens_b = b.enqueue(third + 1.0)
    opens_c = c.enqueue(1.0)
    values = session.run([first, second, third, opens_a, opens_b, opens_c], options=SOON)
    assert values[:3] == [1.0, 2.0, 1.0]


def test_ops_of_one_line_keep_their_order(session):
    line, gate = queue(4), queue()
    waits = gate.dequeue()
    puts = [line.enqueue(tf.constant(float(i))) for i in range(4)]
    opens = gate.enqueue(0.0)
    session.run([waits, *puts, opens], options=SOON)
    assert session.run(line.dequeue_many(4)).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_what_does_not_depend_on_it_alone_still_waits(session):
    line = queue()
    taken = line.dequeue()
    with tf.control_dependencies([taken]):
        puts = line.enqueue(1.0)
    with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out"):
        session.run([taken, puts], options=tf.RunOptions(timeout_in_ms=300))
    assert session.run(line.size()) == 0


def test_who_reads_a_variable_behind_a_write_of_the_step_waits_for_it(session):
    line = queue()
    v = tf.Variable(1.0)
    session.run(v.initializer)
    taken = line.dequeue()
    written = v.assign_add(taken)
    with tf.control_dependencies([written]):
        puts = line.enqueue(v + 0.0)
    with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out"):
        session.run([taken, puts], options=tf.RunOptions(timeout_in_ms=300))
    assert session.run([v, line.size()]) == [1.0, 0]


def test_an_error_out_of_turn_ends_the_step_and_names_its_op(session):
    line, closed, two = queue(), queue(), tf.FIFOQueue(1, tf.float32, [[]])
    session.run(closed.close())
    waits = line.dequeue()
    fails = closed.enqueue(1.0, name="fails")
    with pytest.raises(tf.errors.CancelledError, match="is closed") as info:
        session.run([waits, fails], options=SOON)
    assert info.value.op.name == "fails"
    assert session.run([two.size(), line.size()]) == [0, 0]


def test_an_error_says_what_has_run_out_of_turn(session):
    line, other = queue(), queue()
    size, fetches = other.size(), [line.dequeue(), other.enqueue(1.0, name="early")]
    with expiring(session, lambda: session.run(size) == 1) as options:
        with pytest.raises(
            tf.errors.DeadlineExceededError, match=r"(?s)Done while the step waited, and kept: .*'early'"
        ):
            session.run(fetches, options=options)
    assert session.run([line.size(), other.size()]) == [0, 1]


def test_accumulators_and_barriers_are_given_what_they_wait_for(session):
    gradients = tf.ConditionalAccumulator(tf.float32, [])
    taken, given = gradients.take_grad(1), gradients.apply_grad(2.0)
    assert session.run([taken, given], options=SOON)[0] == 2.0
    barrier = Barrier(tf.float32, shapes=[[]])
    found, put = barrier.take_many(1), barrier.insert_many(0, ["key"], [3.0])
    assert session.run([found, put], options=SOON)[0][2][0].tolist() == [3.0]


def test_a_map_of_one_place_is_given_room(session):
    area = MapStagingArea([tf.float32], shapes=[[]], capacity=1)
    put, (key, (value,)) = area.put(2, [1.0], [0]), area.get()
    session.run(area.put(1, [5.0], [0]))
    assert session.run([put, key, value], options=SOON)[1:] == [1, 5.0]


def test_who_waits_for_a_dataset_lets_nobody_by(session):
    ends = tf.data.make_one_shot_iterator(tf.data.Dataset.range(0).prefetch(1)).get_next()
    line, other = queue(), queue()
    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        session.run([ends, line.enqueue(1.0), other.enqueue(1.0)], options=SOON)
    assert session.run([line.size(), other.size()]) == [0, 0]


def test_what_asks_whether_a_variable_is_there_waits_its_turn(session):
    line = queue()
    v = tf.Variable(1.0)
    taken = line.dequeue()
    puts = line.enqueue(tf.cast(tf.is_variable_initialized(v), tf.float32))
    with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out"):
        session.run([taken, puts], options=tf.RunOptions(timeout_in_ms=300))


def test_cancelling_ends_what_waits_beside(session):
    lines = [queue() for _ in range(3)]
    with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out"):
        session.run([line.dequeue() for line in lines], options=tf.RunOptions(timeout_in_ms=200))
    session.run([line.enqueue(float(i)) for i, line in enumerate(lines)])
    assert session.run([line.dequeue() for line in lines], options=SOON) == [0.0, 1.0, 2.0]


def test_producers_of_other_threads_and_of_the_step(session):
    mine, theirs = queue(), queue(3)
    x = tf.placeholder(tf.float32, [])
    feed = theirs.enqueue(x)
    total = tf.add_n([theirs.dequeue(), mine.dequeue()])
    own = mine.enqueue(10.0)
    results = []

    def consume() -> None:
        results.extend(session.run([total, own], options=SOON)[0] for _ in range(50))

    thread = threading.Thread(target=consume)
    thread.start()
    for i in range(50):
        session.run(feed, {x: float(i)}, options=SOON)
    thread.join(60)
    np.testing.assert_array_equal(results, np.arange(50) + 10.0)
