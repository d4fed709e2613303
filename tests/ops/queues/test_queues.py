"""Queues through sessions and threads: order, capacity, closing, cancelling, padding, priorities; texts as
TensorFlow's.
"""

from __future__ import annotations

import contextlib
import signal
import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.ops.queues import queue_objects
from tests.running_steps import until_waiting


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


class Background:
    """Runs a function in a thread; ``result()`` returns its value or raises its error."""

    def __init__(self, function, *args):
        self._value = self._error = None
        self.thread = threading.Thread(target=self._go, args=(function, args), daemon=True)
        self.thread.start()

    def _go(self, function, args):
        try:
            self._value = function(*args)
        except BaseException as error:
            self._error = error

    def result(self):
        self.thread.join(60)
        assert not self.thread.is_alive(), "still waiting"
        if self._error is not None:
            raise self._error
        return self._value

    def waits(self):
        self.thread.join(0.1)
        return self.thread.is_alive()


def plain(kind="FIFOQueue", capacity=10, types=(tf.int64,), shapes=((),), **attrs):
    """A queue object without graph or session."""
    all_attrs = {"component_types": types, "shapes": shapes, "capacity": capacity, "shared_name": "", "container": ""}
    return queue_objects.KINDS[kind]("q", all_attrs | attrs)


def wait_until_in_line(queue, count):
    """Returns once ``count`` operations wait for ``queue``."""
    deadline = threading.Event()
    for _ in range(12_000):
        with queue.changed:
            if len(queue._enqueuers) + len(queue._dequeuers) == count:
                return
        deadline.wait(0.005)
    raise AssertionError(f"{len(queue._enqueuers)} enqueues and {len(queue._dequeuers)} dequeues in line")


# ------------------------------------------------------------------------------------------------------ in a session
def test_first_in_first_out(session):
    queue = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[(2,), ()])
    session.run(queue.enqueue(([1, 2], "one")))
    session.run(queue.enqueue_many(([[3, 4], [5, 6], [7, 8]], ["two", "three", "four"])))
    assert session.run(queue.size()) == 4
    numbers, text = session.run(queue.dequeue())
    assert (numbers.tolist(), text) == ([1, 2], b"one")
    numbers, texts = session.run(queue.dequeue_many(2))
    assert numbers.tolist() == [[3, 4], [5, 6]]
    assert texts.tolist() == [b"two", b"three"]
    numbers, texts = session.run(queue.dequeue_many(0))
    assert numbers.shape == (0, 2)
    assert texts.shape == (0,)
    assert session.run(queue.size()) == 1


def test_names_and_static_shapes(session):
    queue = tf.FIFOQueue(5, [tf.float32, tf.int32], names=["a", "b"], shapes=[(), (3,)], name="scope/pairs")
    assert (queue.name, queue.queue_ref.dtype, queue.names) == ("scope/pairs", tf.resource, ["a", "b"])
    enqueue = queue.enqueue({"a": 1.0, "b": [1, 2, 3]})
    assert (enqueue.name, enqueue.type) == ("pairs_enqueue", "QueueEnqueueV2")
    assert [tensor.name for tensor in enqueue.inputs[1:]] == [
        "pairs_enqueue/component_0:0",
        "pairs_enqueue/component_1:0",
    ]
    session.run(enqueue)
    row = queue.dequeue()
    assert {key: (value.name, value.shape.as_list()) for key, value in row.items()} == {
        "a": ("pairs_Dequeue:0", []),
        "b": ("pairs_Dequeue:1", [3]),
    }
    assert queue.dequeue_many(2)["b"].shape.as_list() == [2, 3]
    assert queue.dequeue_many(tf.placeholder(tf.int32, []))["b"].shape.as_list() == [None, 3]
    assert queue.dequeue_up_to(2)["b"].shape.as_list() == [None, 3]
    others = [queue.size(), queue.is_closed(), queue.close(), queue.enqueue_many({"a": [1.0], "b": [[1, 2, 3]]})]
    assert [item.name for item in others] == ["pairs_Size:0", "pairs_Is_Closed:0", "pairs_Close", "pairs_EnqueueMany"]
    found = session.run(row)
    assert found["a"] == 1
    assert found["b"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: tf.FIFOQueue(5, [tf.float32, tf.int32], shapes=[()]), r"received len\(shapes\)=1, len\(dtypes\)=2"),
        (lambda: tf.FIFOQueue(5, [tf.float32], shapes=[(None,)]), "All shapes must be fully defined"),
        (lambda: tf.FIFOQueue(5, [tf.float32], names=["a", "b"]), r"received len\(names\)=2,len\(dtypes\)=1"),
        (lambda: tf.PaddingFIFOQueue(5, [tf.float32], shapes=[tf.TensorShape(None)]), "must have a defined rank"),
        (lambda: tf.PaddingFIFOQueue(5, [tf.float32], shapes=None), "a list of shapes must be provided"),
        (lambda: tf.FIFOQueue(5, [tf.float32]).enqueue({"a": 1.0}), "must have names to enqueue a dictionary"),
        (lambda: tf.FIFOQueue(5, [tf.float32], names=["a"]).enqueue(1.0), "must enqueue a dictionary in a Queue with"),
        (lambda: tf.FIFOQueue(5, [tf.float32], names=["a"]).enqueue({"b": 1.0}), "do not match names of Queue"),
        (lambda: tf.FIFOQueue(5, [tf.float32, tf.int32]).enqueue((1.0,)), "pass one tensor per dtype of the queue"),
        (
            lambda: tf.FIFOQueue(5, [tf.float32], [(2,)]).enqueue([np.zeros(3, np.float32)]),
            "two shapes that can be the same",
        ),
        (lambda: tf.FIFOQueue(5, [tf.float32, tf.int32], [(2,), ()]).enqueue_many((np.zeros((3, 2)), [1, 2])), "equal"),
        (lambda: tf.FIFOQueue(5, [tf.float32]).enqueue(tf.constant(1)), "requested dtype float32"),
    ],
)
def test_refused_while_building(build, text):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        build()


def test_closed(session):
    queue = tf.FIFOQueue(10, tf.int32, shapes=[()], shared_name="shared")
    enqueue, close = queue.enqueue_many([[1, 2, 3]]), queue.close()
    session.run(enqueue)
    assert not session.run(queue.is_closed())
    session.run(close)
    assert session.run(queue.is_closed())
    with pytest.raises(tf.errors.CancelledError, match=r"FIFOQueue 'shared' is closed\."):
        session.run(enqueue)
    with pytest.raises(tf.errors.CancelledError, match=r"Queue 'shared' is already closed\."):
        session.run(close)
    session.run(queue.close(cancel_pending_enqueues=True))
    text = r"FIFOQueue 'shared' is closed and has insufficient elements \(requested 5, current size 3\)"
    with pytest.raises(tf.errors.OutOfRangeError, match=text):
        session.run(queue.dequeue_many(5))
    assert session.run(queue.dequeue()) == 1
    assert session.run(queue.dequeue_up_to(5)).tolist() == [2, 3]
    for dequeue in (queue.dequeue(), queue.dequeue_up_to(5)):
        with pytest.raises(tf.errors.OutOfRangeError, match=r"requested \d, current size 0"):
            session.run(dequeue)


@pytest.mark.parametrize(
    ("components", "shapes", "values", "many", "text"),
    [
        ([tf.float32, tf.int32], [(2,), ()], ([3], []), False, r"component 0\. Expected \[2\], got \[3\]"),
        ([tf.float32, tf.int32], [(2,), ()], ([3, 2], [2]), True, r"component 1\. Expected \[3\], got \[2\]"),
        ([tf.float32, tf.int32], None, ([3, 2], [2]), True, "0th dimension. Component 1 has 2, and should have 3"),
        ([tf.float32, tf.int32], None, ([], [2]), True, "Component 0 of an enqueue of many rows is a scalar"),
    ],
)
def test_shapes_at_run_time(session, components, shapes, values, many, text):
    queue = tf.FIFOQueue(10, components, shapes=shapes)
    feeds = {tf.placeholder(dtype): np.zeros(shape) for dtype, shape in zip(components, values, strict=True)}
    enqueue = queue.enqueue_many(list(feeds)) if many else queue.enqueue(list(feeds))
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(enqueue, feeds)


def test_batches_need_shapes_and_counts(session):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="FIFOQueue's DequeueMany and DequeueUpTo require the comp"
    ):
        session.run(tf.FIFOQueue(10, tf.int32).dequeue_many(1))
    queue, count = tf.FIFOQueue(10, tf.int32, shapes=[()]), tf.placeholder(tf.int32, [])
    for dequeue, kind in ((queue.dequeue_many(count), "Many"), (queue.dequeue_up_to(count), "UpTo")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"Dequeue{kind}Op requested -1 < 0 elements"):
            session.run(dequeue, {count: -1})


def test_padding(session):
    queue = tf.PaddingFIFOQueue(10, [tf.int32, tf.string], shapes=[(None, 2), (None,)])
    rows, texts = tf.placeholder(tf.int32), tf.placeholder(tf.string)
    enqueue = queue.enqueue((rows, texts))
    session.run(enqueue, {rows: [[1, 2], [3, 4]], texts: ["a"]})
    session.run(enqueue, {rows: np.zeros((0, 2)), texts: ["b", "c", "d"]})
    session.run(enqueue, {rows: [[5, 6]], texts: []})
    found, strings = session.run(queue.dequeue_many(2))
    assert found.tolist() == [[[1, 2], [3, 4]], [[0, 0], [0, 0]]]
    assert strings.tolist() == [[b"a", b"", b""], [b"b", b"c", b"d"]]
    found, strings = session.run(queue.dequeue())
    assert found.tolist() == [[5, 6]]
    assert strings.shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"component 0\. Expected \[\?,2\], got \[3,3\]"):
        session.run(enqueue, {rows: np.zeros((3, 3)), texts: []})
    many = queue.enqueue_many((rows, texts))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"component 0\. Expected \[3,\?,2\], got \[3,3,3\]"):
        session.run(many, {rows: np.zeros((3, 3, 3)), texts: [["a"]] * 3})


def test_shuffle_has_tensorflows_order(session):
    """The numbers are TensorFlow's for this seed."""
    queue = tf.RandomShuffleQueue(20, 5, tf.int32, shapes=[()], seed=7)
    session.run(queue.enqueue_many([np.arange(12)]))
    dequeue = queue.dequeue()
    assert [int(session.run(dequeue)) for _ in range(4)] == [3, 10, 5, 4]
    assert session.run(queue.dequeue_many(3)).tolist() == [0, 8, 7]
    waiting = Background(session.run, dequeue)  # five are kept
    assert waiting.waits()
    session.run(queue.close())
    assert waiting.result() == 6
    assert session.run(queue.dequeue_many(3)).tolist() == [9, 1, 11]
    assert session.run(queue.dequeue_up_to(9)).tolist() == [2]


def test_shuffles_without_seed_differ(session):
    orders = set()
    for _ in range(3):
        queue = tf.RandomShuffleQueue(30, 0, tf.int32, shapes=[()])
        session.run(queue.enqueue_many([np.arange(30)]))
        found = session.run(queue.dequeue_many(30)).tolist()
        assert sorted(found) == list(range(30))
        orders.add(tuple(found))
    assert len(orders) == 3


def test_shared_shuffles_agree_on_the_seed():
    seeds = set()
    for extra in (0, 3):
        with tf.Graph().as_default() as graph:
            graph.seed = 5
            for _ in range(extra):
                tf.constant(0)
            op = tf.RandomShuffleQueue(3, 0, tf.int32, shared_name="pool").queue_ref.op
            seeds.add((op.get_attr("seed"), op.get_attr("seed2")))
    assert len(seeds) == 1


def test_what_one_dequeue_of_a_priority_queue_gives_is_sorted(session):
    """It takes nothing before there is all that it asks for: what comes later may be smaller."""
    queue = tf.PriorityQueue(20, tf.string, shapes=[()])
    priorities = tf.placeholder(tf.int64, [None])
    put = queue.enqueue_many([priorities, tf.as_string(priorities)])
    many, up_to = queue.dequeue_many(4), queue.dequeue_up_to(4)
    session.run(put, {priorities: [5, 9]})
    waiting = Background(session.run, many[0])
    session.run(put, {priorities: [7]})
    assert session.run(queue.size()) == 3
    session.run(put, {priorities: [1, 3]})
    assert waiting.result().tolist() == [1, 3, 5, 7]
    waiting = Background(session.run, up_to[0])
    session.run(put, {priorities: [2, 4]})
    session.run(queue.close())
    assert waiting.result().tolist() == [2, 4, 9]


def test_priorities(session):
    queue = tf.PriorityQueue(20, tf.string, shapes=[()])
    assert (queue.dtypes, [shape.as_list() for shape in queue.shapes]) == ([tf.int64, tf.string], [[], []])
    session.run(queue.enqueue_many([np.array([3, 1, 2, 1]), ["c", "a", "b", "a2"]]))
    priorities, texts = session.run(queue.dequeue_many(3))
    assert priorities.tolist() == [1, 1, 2]
    assert texts.tolist() == [b"a", b"a2", b"b"]
    assert queue.dequeue_many(2)[1].shape.as_list() == [2]
    priority = tf.placeholder(tf.int64)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Shape mismatch in tuple component 0. Expected \[\], got \[1\]"
    ):
        session.run(queue.enqueue((priority, "x")), {priority: [1]})


def test_one_of_several(session):
    queues = [tf.FIFOQueue(5, tf.int32, shapes=[()], name=f"queue{i}") for i in range(3)]
    index = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(index, queues)
    assert chosen.queue_ref.op.type == "_PickResource"
    enqueue, dequeue = chosen.enqueue(index * 10), chosen.dequeue()
    for i in (2, 0):
        session.run(enqueue, {index: i})
    assert session.run([queue.size() for queue in queues]) == [1, 0, 1]
    assert session.run(dequeue, {index: 2}) == 20
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"index = 3 is not in \[0, 3\)"):
        session.run(dequeue, {index: 3})
    with pytest.raises(TypeError, match="A list of queues expected"):
        tf.QueueBase.from_list(0, [queues[0], 3])
    with pytest.raises(TypeError, match="do not have matching component dtypes"):
        tf.QueueBase.from_list(0, [queues[0], tf.FIFOQueue(5, tf.int64)])


def test_makers_that_share_a_name_must_agree(session):
    first = tf.FIFOQueue(1, tf.float32, shapes=[()], shared_name="z")
    session.run(first.size())
    for other, text in (
        (tf.FIFOQueue(2, tf.float32, shapes=[()], shared_name="z"), "capacity 1 but requested capacity was 2"),
        (
            tf.FIFOQueue(1, tf.int32, shapes=[()], shared_name="z"),
            "types float32 but requested component types were int32",
        ),
        (
            tf.FIFOQueue(1, tf.float32, shapes=[(3,)], shared_name="z"),
            r"shapes \[\[\]\] but requested .* were \[\[3\]\]",
        ),
        (tf.PaddingFIFOQueue(1, tf.float32, shapes=[()], shared_name="z"), "a FIFOQueue but a PaddingFIFOQueue"),
    ):
        for asked in (other.size(), other.queue_ref, other.queue_ref.op):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"Shared queue 'z' .*{text}"):
                session.run(asked)
    same = tf.FIFOQueue(1, tf.float32, shapes=[()], shared_name="z")
    session.run(same.queue_ref.op)


FORMS = {
    "old": "FIFOQueue PaddingFIFOQueue RandomShuffleQueue PriorityQueue QueueEnqueue QueueEnqueueMany QueueDequeue "
    "QueueDequeueMany QueueDequeueUpTo QueueClose QueueSize QueueIsClosed",
    "new": "FIFOQueueV2 PaddingFIFOQueueV2 RandomShuffleQueueV2 PriorityQueueV2 QueueEnqueueV2 QueueEnqueueManyV2 "
    "QueueDequeueV2 QueueDequeueManyV2 QueueDequeueUpToV2 QueueCloseV2 QueueSizeV2 QueueIsClosedV2",
}


@pytest.mark.parametrize("form", FORMS)
def test_all_op_types(session, form):
    """Reference handles (the old form) and resource handles, each kind through each op."""
    *makers, enqueue, enqueue_many, dequeue, many, up_to, close, size, is_closed = FORMS[form].split()
    for maker in makers:
        attrs = {"min_after_dequeue": 0} if maker.startswith("Random") else {}
        row = [tf.constant(1, tf.int64)] if maker.startswith("Priority") else []
        rows = [tf.constant([2, 3, 4], tf.int64)] if row else []
        types = ["int64", "int32"] if row else ["int32"]
        handle = tf.build_op(maker, component_types=["int32"], shapes=[[]], **attrs)
        assert handle.dtype.is_ref == (form == "old")
        session.run(tf.build_op(enqueue, handle, [*row, tf.constant(7)]))
        session.run(tf.build_op(enqueue_many, handle, [*rows, tf.constant([8, 9, 10])]))
        assert session.run(tf.build_op(size, handle)) == 4
        found = [int(session.run(tf.build_op(dequeue, handle, component_types=types)[-1]))]
        found += session.run(tf.build_op(many, handle, 2, component_types=types)[-1]).tolist()
        assert not session.run(tf.build_op(is_closed, handle))
        session.run(tf.build_op(close, handle))
        assert session.run(tf.build_op(is_closed, handle))
        found += session.run(tf.build_op(up_to, handle, 5, component_types=types)[-1]).tolist()
        assert sorted(found) == [7, 8, 9, 10]


def test_timeout_attribute(session):
    queue = tf.FIFOQueue(1, tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Timeout not supported yet"):
        session.run(tf.build_op("QueueDequeueV2", queue.queue_ref, component_types=["int32"], timeout_ms=5))


def test_rows_are_values(session):
    """What was put in does not change with the array that was fed."""
    queue, feed = tf.FIFOQueue(5, tf.float32, shapes=[(2,)]), tf.placeholder(tf.float32)
    array = np.ones((2, 2), np.float32)
    session.run(queue.enqueue_many([feed]), {feed: array})
    session.run(queue.enqueue(feed), {feed: array[0]})
    array[:] = 7
    assert session.run(queue.dequeue_many(3)).tolist() == [[1, 1]] * 3


def test_steps_wait_and_hold_nothing(session):
    """A step that waits for a row does not keep others from writing the variable that it read before."""
    queue = tf.FIFOQueue(1, tf.float32, shapes=[()])
    variable = tf.Variable(1.0)
    session.run(tf.global_variables_initializer())
    assign, enqueue, total = variable.assign(5.0), queue.enqueue(2.0), queue.dequeue() + variable
    waiting = Background(session.run, total)
    until_waiting(session)
    assert waiting.waits()
    session.run(assign)
    session.run(enqueue)
    assert waiting.result() in (3.0, 7.0)


def test_deadline_and_session_close():
    with tf.Graph().as_default():
        session = tf.Session()
        queue = tf.FIFOQueue(1, tf.float32)
        dequeue = queue.dequeue()
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
            session.run(dequeue, options=tf.RunOptions(timeout_in_ms=50))
        waiting = Background(session.run, dequeue)
        until_waiting(session)
        session.close()
        with pytest.raises(tf.errors.CancelledError, match="Dequeue operation was cancelled"):
            waiting.result()


# ------------------------------------------------------------------------------------------------- the object alone
def _drain(queue):
    return [int(queue.dequeue()[0]) for _ in range(queue.size())]


def test_enqueue_of_more_than_the_capacity_feeds_dequeues():
    queue = plain(capacity=2)
    putting = Background(queue.enqueue_many, [np.arange(7)])
    found = queue.dequeue_many(5)
    assert found[0].tolist() == [0, 1, 2, 3, 4]
    putting.result()
    assert _drain(queue) == [5, 6]


def test_dequeue_of_more_than_the_capacity():
    queue = plain(capacity=2)
    getting = Background(queue.dequeue_many, 5)
    queue.enqueue_many([np.arange(5)])
    assert getting.result()[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["FIFOQueue", "PaddingFIFOQueue"])
def test_a_cancelled_dequeue_puts_rows_back_in_order(kind):
    queue, token = plain(kind), CancellationToken()
    queue.enqueue_many([np.arange(3)])
    getting = Background(queue.dequeue_many, 5, False, token)
    wait_until_in_line(queue, 1)
    behind = Background(queue.dequeue)
    wait_until_in_line(queue, 2)
    assert queue.size() == 0
    token.cancel()
    with pytest.raises(errors.CancelledError, match="Dequeue operation was cancelled"):
        getting.result()
    assert int(behind.result()[0]) == 0
    assert _drain(queue) == [1, 2]


def test_a_cancelled_dequeue_of_priorities_keeps_their_order():
    queue, token = plain("PriorityQueue", types=(tf.int64,)), CancellationToken()
    queue.enqueue_many([np.array([2, 1, 1]), np.array([20, 10, 11])])
    getting = Background(queue.dequeue_many, 5, False, token)
    wait_until_in_line(queue, 1)
    token.cancel()
    with pytest.raises(errors.CancelledError, match="Dequeue operation was cancelled"):
        getting.result()
    queue.enqueue([np.array(1), np.array(12)])
    assert [int(queue.dequeue()[1]) for _ in range(4)] == [10, 11, 12, 20]


def test_a_dequeue_that_is_left_without_rows_puts_them_back():
    queue = plain()
    queue.enqueue_many([np.arange(2)])
    getting = Background(queue.dequeue_many, 5)
    wait_until_in_line(queue, 1)
    queue.close()
    with pytest.raises(errors.OutOfRangeError, match=r"requested 3, current size 0"):
        getting.result()
    assert _drain(queue) == [0, 1]


def test_up_to_takes_what_it_holds_when_the_queue_closes():
    queue = plain()
    queue.enqueue_many([np.arange(2)])
    getting = Background(queue.dequeue_many, 5, True)
    wait_until_in_line(queue, 1)
    queue.close()
    assert getting.result()[0].tolist() == [0, 1]


def test_closing_lets_in_what_waits_and_nothing_after_it():
    queue = plain(capacity=1)
    queue.enqueue([np.int64(1)])
    before = Background(queue.enqueue, [np.int64(2)])
    wait_until_in_line(queue, 1)
    closing = Background(queue.close)
    wait_until_in_line(queue, 2)
    after = Background(queue.enqueue, [np.int64(3)])
    assert closing.waits()
    assert [int(queue.dequeue()[0]), int(queue.dequeue()[0])] == [1, 2]
    before.result()
    closing.result()
    with pytest.raises(errors.CancelledError, match=r"FIFOQueue 'q' is closed\."):
        after.result()


def test_closing_may_cancel_what_waits():
    queue = plain(capacity=1)
    queue.enqueue([np.int64(1)])
    waiting = [Background(queue.enqueue, [np.int64(i)]) for i in range(3)]
    wait_until_in_line(queue, 3)
    queue.close(cancel=True)
    for thread in waiting:
        with pytest.raises(errors.CancelledError, match="Enqueue operation was cancelled"):
            thread.result()
    assert _drain(queue) == [1]


def test_shutdown_wakes_everybody():
    queue = plain()
    waiting = [Background(queue.dequeue) for _ in range(3)]
    wait_until_in_line(queue, 3)
    queue.shutdown()
    for thread in waiting:
        with pytest.raises(errors.CancelledError, match="Dequeue operation was cancelled"):
            thread.result()


@pytest.mark.parametrize("kind", ["FIFOQueue", "RandomShuffleQueue"])
def test_many_threads_lose_and_invent_nothing(kind):
    """Producers and consumers with cancelled operations in between: every row comes out once."""
    attrs = {"min_after_dequeue": 0, "seed": 1, "seed2": 1} if kind == "RandomShuffleQueue" else {}
    queue = plain(kind, capacity=7, **attrs)
    found, lock = [], threading.Lock()

    def produce(start):
        for first in range(start, start + 200, 5):
            queue.enqueue_many([np.arange(first, first + 5)])

    def consume(size):
        with contextlib.suppress(errors.OutOfRangeError):
            while True:
                (rows,) = queue.dequeue_many(size, True)
                with lock:
                    found.extend(rows.tolist())

    def give_up():
        for _ in range(50):
            with contextlib.suppress(errors.DeadlineExceededError, errors.OutOfRangeError):
                (rows,) = queue.dequeue_many(9, False, CancellationToken(0.001))
                with lock:
                    found.extend(rows.tolist())

    producers = [Background(produce, 1000 * i) for i in range(4)]
    consumers = [Background(consume, size) for size in (1, 3, 8)] + [Background(give_up)]
    for thread in producers:
        thread.result()
    queue.close()
    for thread in consumers:
        thread.result()
    assert sorted(found) == sorted(value for i in range(4) for value in range(1000 * i, 1000 * i + 200))


def test_philox_is_the_published_one():
    """Known answers of the paper's reference implementation: counter and key all zeros; all ones in the key."""
    words = queue_objects.philox_words(0, 0)
    assert [next(words) for _ in range(4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


# ------------------------------------------------------------------------------------ who waits moves with the change
@pytest.mark.parametrize("kind", ["FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue"])
def test_a_dequeue_lets_the_next_row_in_before_it_returns(kind):
    extra = {"min_after_dequeue": 0, "seed": 1, "seed2": 2} if kind == "RandomShuffleQueue" else {}
    queue = plain(kind, capacity=3, **extra)
    producer = Background(queue.enqueue_many, [np.arange(5)])
    wait_until_in_line(queue, 1)
    taken = [int(queue.dequeue()[0])]
    assert queue.size() == 3
    taken.append(int(queue.dequeue()[0]))
    assert queue.size() == 3
    producer.result()
    taken += queue.dequeue_many(3)[0].tolist()
    assert sorted(taken) == [0, 1, 2, 3, 4]


def test_an_enqueue_serves_those_that_wait_before_it_returns():
    queue = plain()
    consumer = Background(queue.dequeue_many, 3)
    wait_until_in_line(queue, 1)
    queue.enqueue_many([np.arange(2)])
    assert queue.size() == 0
    queue.enqueue([np.int64(7)])
    assert queue.size() == 0
    assert consumer.result()[0].tolist() == [0, 1, 7]


def test_what_a_cancelled_dequeue_held_goes_to_the_next_in_line():
    queue, token = plain(), CancellationToken()
    first = Background(queue.dequeue_many, 3, False, token)
    wait_until_in_line(queue, 1)
    queue.enqueue_many([np.arange(2)])
    second = Background(queue.dequeue_many, 2)
    wait_until_in_line(queue, 2)
    token.cancel()
    assert second.result()[0].tolist() == [0, 1]
    with pytest.raises(errors.CancelledError, match="Dequeue operation was cancelled"):
        first.result()


def test_a_deadline_is_told_as_one_whoever_notices_it():
    queue, token = plain(), CancellationToken(timeout=0.05)
    waiting = Background(queue.dequeue, token)
    with pytest.raises(errors.DeadlineExceededError, match="timeout_in_ms"):
        waiting.result()
    queue.enqueue([np.int64(1)])
    assert queue.size() == 1


@pytest.mark.parametrize("kind", ["FIFOQueue", "RandomShuffleQueue", "PriorityQueue"])
@pytest.mark.parametrize(("shapes", "found"), [((), []), ((3,), [3]), ((3, 2), [3, 2]), ([()], []), ([[2]], [2])])
def test_one_shape_stands_for_the_one_component(kind, shapes, found):
    args = (10, 0) if kind == "RandomShuffleQueue" else (10,)
    with tf.Graph().as_default():
        assert getattr(tf, kind)(*args, tf.float32, shapes=shapes).shapes[-1].as_list() == found


def test_one_shape_is_not_taken_for_several_components():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=r"len\(shapes\)=0, len\(dtypes\)=2|len\(shapes\)=1, len\(dtypes\)=2"):
            tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=())
        with pytest.raises(TypeError, match="a TensorShape or a list of them"):
            tf.FIFOQueue(10, tf.float32, shapes=3)
        with pytest.raises(ValueError, match="When providing partial shapes"):
            tf.PaddingFIFOQueue(10, tf.float32, shapes=(3,))


@pytest.mark.parametrize("moment", ["_take", "_move"])
def test_an_interrupt_in_the_middle_of_a_move_loses_no_row(moment, monkeypatch):
    queue = queue_objects.KINDS["FIFOQueue"]("q", {"component_types": [tf.int32], "shapes": [()], "capacity": 9})
    for number in range(4):
        queue.enqueue([np.int32(number)])
    own = getattr(queue, moment)
    if moment == "_move":  # as if somebody stood before
        monkeypatch.setattr(queue, "_take_now", lambda count, token: None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted():
        monkeypatch.setattr(queue, moment, own)
        result = own() if moment == "_take" else None
        signal.raise_signal(signal.SIGINT)  # between the queue and who asked
        return result if moment == "_take" else own()

    monkeypatch.setattr(queue, moment, interrupted, raising=True)
    try:
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            queue.dequeue_many(2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not queue._dequeuers  # nobody is left who would take rows to no end
    assert queue.size() in (2, 4)  # both were taken, or none
    assert int(queue.dequeue()[0]) == 4 - (queue.size() + 1)
