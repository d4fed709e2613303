"""Steps with channel ops: what is computed when, and that a step sees one value of a variable.

Each test runs a step that waits in a queue while another thread changes a variable, then lets it go on.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from tests.running_steps import until_waiting


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def resource(request):
    return request.param


def variable(session, value, resource=False):
    v = tf.Variable(value, use_resource=resource, dtype=tf.float32)
    session.run(v.initializer)
    return v


def queue_of(*values, session=None):
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    for value in values:
        session.run(queue.enqueue([value]))
    return queue


def run_while_waiting(session, fetches, meanwhile, go):
    """The results of a step that waits: ``meanwhile`` runs while it does, then ``go`` lets it go on."""
    results = []
    worker = threading.Thread(target=lambda: results.append(session.run(fetches)))
    worker.start()
    until_waiting(session)
    for op in meanwhile:
        session.run(op)
    session.run(go)
    worker.join(60)
    assert not worker.is_alive()
    return results[0]


def segments(session, fetches):
    """Per segment of the plan, how many programs and host ops it has."""
    text = session.explain(fetches)
    found = []
    for line in text.splitlines():
        if line.startswith("  segment"):
            found.append([0, 0])
        elif line.startswith("    program"):
            found[-1][0] += 1
        elif line.startswith("    host"):
            found[-1][1] += 1
    return found


def test_loss_and_gradient_see_one_value(session, resource):
    w1, w2 = variable(session, 3.0, resource), variable(session, 10.0, resource)
    queue = queue_of()
    loss = queue.dequeue() * w1 * w2
    grad = tf.gradients(loss, w1)[0]
    got = run_while_waiting(session, [loss, grad], [w2.assign(1000.0).op], queue.enqueue([1.0]))
    assert got == [3000.0, 1000.0]


def test_a_dequeue_is_followed_by_one_program(tier, session, resource):
    w1, w2 = variable(session, 3.0, resource), variable(session, 10.0, resource)
    queue = queue_of(1.0, 2.0, session=session)
    loss = queue.dequeue() * w1 * (w2 * 2.0 + 1.0)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[w1, w2])
    session.run([loss, train])
    if tier == "compiled":
        assert segments(session, [loss, train]) == [[0, 0], [1, 0]]


def test_what_a_queue_takes_before_is_seen_after(session, resource):
    """A value that one op on a channel takes is the value for all of the step, although the step waits afterwards."""
    w = variable(session, 10.0, resource)
    one, other, out = queue_of(1.0, session=session), queue_of(), queue_of()
    read = w.value() if resource else w
    first = one.dequeue() * read
    with tf.control_dependencies([out.enqueue([first])]):
        second = other.dequeue()
    total = second * read + first
    got = run_while_waiting(session, total, [w.assign(1000.0).op], other.enqueue([1.0]))
    assert got == 20.0
    assert session.run([out.dequeue(), w]) == [10.0, 1000.0]


def test_a_write_of_the_step_stands_between(session, resource):
    """The read behind the waiting sees the write of the step itself, and what others wrote since."""
    w = variable(session, 10.0, resource)
    one, other, out = queue_of(1.0, session=session), queue_of(), queue_of()
    before = one.dequeue() * w
    with tf.control_dependencies([out.enqueue([before])]):
        add = w.assign_add(1.0)
    with tf.control_dependencies([add]):
        second = other.dequeue()
    with tf.control_dependencies([second]):
        after = w.read_value() + 0.0
    got = run_while_waiting(session, [before, after], [w.assign_add(100.0).op], other.enqueue([1.0]))
    assert got == [10.0, 111.0]


def test_a_read_stays_before_a_write_that_must_not_reach_it(session, resource):
    """Late, but not behind an assignment of the same step that comes before the queue op."""
    w = variable(session, 10.0, resource)
    queue = queue_of(1.0, session=session)
    old = w * 2.0
    with tf.control_dependencies([old]):
        write = w.assign(5.0)
    with tf.control_dependencies([write]):
        x = queue.dequeue()
    assert session.run(old + x) == 21.0
    assert session.run(w) == 5.0


def test_a_read_without_order_does_not_see_the_write_before_the_wait(session):
    w = variable(session, 10.0)
    other = variable(session, 0.0)
    queue = queue_of(1.0, session=session)
    doubled = w * 2.0
    keep = other.assign(doubled)  # an effect before the queue op, which takes the old value
    with tf.control_dependencies([keep, w.assign_add(1.0)]):
        x = queue.dequeue()
    assert session.run([doubled + x, other, w]) == [21.0, 20.0, 11.0]


def test_a_read_with_a_place_of_its_own_is_read_there(session, resource):
    w = variable(session, 10.0, resource)
    one, other, out = queue_of(1.0, session=session), queue_of(), queue_of()
    first = one.dequeue() * w
    with tf.control_dependencies([out.enqueue([first])]):
        token = other.dequeue()
    with tf.control_dependencies([token]):
        after = w.read_value() + token * 0.0
    got = run_while_waiting(session, [first, after], [w.assign(1000.0).op], other.enqueue([1.0]))
    assert got == [10.0, 1000.0]


@pytest.mark.parametrize("taken", [True, False])
def test_conditionals_see_the_value_of_the_step(session, resource, taken):
    w1, w2 = variable(session, 3.0, resource), variable(session, 10.0, resource)
    queue = queue_of()
    which = tf.placeholder_with_default(taken, [])
    read = w2.value() if resource else w2
    x = queue.dequeue()
    loss = tf.cond(which, lambda: x * w1 * read, lambda: x + w1 + read)
    grad = tf.gradients(loss, w1)[0]
    both = loss * 0.0 + read
    got = run_while_waiting(session, [loss, grad, both], [w2.assign(1000.0).op], queue.enqueue([1.0]))
    assert got == ([3000.0, 1000.0, 1000.0] if taken else [1004.0, 1.0, 1000.0])


def test_loops_see_the_value_of_the_step(session, resource):
    w = variable(session, 2.0, resource)
    queue = queue_of()
    x = queue.dequeue()
    _, product = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w), (0, x))
    grad = tf.gradients(product, x)[0]
    got = run_while_waiting(session, [product, grad, w + 0.0], [w.assign(10.0).op], queue.enqueue([1.0]))
    assert got == [1000.0, 1000.0, 10.0]


def test_a_conditional_with_a_queue_sees_what_it_took_from_outside(session, resource):
    """The branch waits; what it has taken from outside is what the op before it and behind it see."""
    w = variable(session, 10.0, resource)
    read = w.value() if resource else w
    queue, out = queue_of(), queue_of()
    with tf.control_dependencies([out.enqueue([read * 1.0])]):
        inside = tf.cond(tf.constant(True), lambda: queue.dequeue() * read, lambda: 0.0)
    got = run_while_waiting(session, inside + read, [w.assign(1000.0).op], queue.enqueue([1.0]))
    assert got == 20.0
    assert session.run(out.dequeue()) == 10.0


def test_a_loop_with_a_queue_sees_what_it_took_from_outside(session, resource):
    w = variable(session, 10.0, resource)
    read = w.value() if resource else w
    queue = queue_of(1.0, session=session)
    _, total = tf.while_loop(
        lambda i, y: i < 2, lambda i, y: (i + 1, y + queue.dequeue() * read), (0, tf.constant(0.0))
    )
    got = run_while_waiting(session, total + read, [w.assign(1000.0).op], queue.enqueue([1.0]))
    assert got == 30.0


def test_a_loop_with_a_queue_reads_anew_what_it_reads_itself(session):
    w = variable(session, 10.0)
    queue = queue_of(1.0, session=session)

    def body(i, y):
        x = queue.dequeue()
        with tf.control_dependencies([x]):
            return i + 1, y + x * tf.identity(w.read_value())

    _, total = tf.while_loop(lambda i, y: i < 2, body, (0, tf.constant(0.0)))
    got = run_while_waiting(session, total, [w.assign(1000.0).op], queue.enqueue([1.0]))
    assert got == 1010.0


def test_many_queues_in_a_row_are_followed_by_one_program(tier, session, resource):
    w = variable(session, np.float32(2.0), resource)
    queues = [queue_of(1.0, 1.0, session=session) for _ in range(4)]
    parts = [queue.dequeue() * w for queue in queues]
    total = tf.add_n(parts)
    assert session.run(total) == 8.0
    if tier == "compiled":
        assert segments(session, total) == [[0, 0], [0, 0], [0, 0], [0, 0], [1, 0]]


def test_a_carried_value_survives_steps_that_take_the_buffer(session):
    w = variable(session, np.full(100_000, 1.0, np.float32))
    one, other, out = queue_of(1.0, session=session), queue_of(), tf.FIFOQueue(1, [tf.float32], shapes=[[100_000]])
    with tf.control_dependencies([out.enqueue([w * one.dequeue()])]):
        second = other.dequeue()
    result = w + second
    add = w.assign_add(np.ones(100_000, np.float32)).op
    got = run_while_waiting(session, result, [add] * 3, other.enqueue([1.0]))
    np.testing.assert_array_equal(got, np.full(100_000, 2.0))
    assert session.run(w)[0] == 4.0


def test_explain_names_what_is_carried(session):
    w = variable(session, 10.0)
    w_name = w.op.name
    one, other, out = queue_of(1.0, session=session), queue_of(), queue_of()
    with tf.control_dependencies([out.enqueue([one.dequeue() * w])]):
        second = other.dequeue()
    assert f"carried to what follows: {w_name}" in session.explain(second * w)
