"""Ctrl-C at each bytecode of what channels do: nothing is half moved, and nobody is locked out."""

from __future__ import annotations

import collections
import contextlib
import dis
import gc
import itertools
import signal
import sys
import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.core import cancellation, conditions
from anabranch.core.cancellation import CancellationToken
from anabranch.ops.data import files
from anabranch.ops.io import reader_objects, record_input
from anabranch.ops.queues import accumulator_objects, barrier_objects, queue_objects, staging_objects

MODULES = (
    accumulator_objects,
    barrier_objects,
    conditions,
    queue_objects,
    reader_objects,
    record_input,
    staging_objects,
)
FILES = frozenset(module.__file__ for module in (*MODULES, files, cancellation, contextlib))
ASKING = ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")
"""Bytecodes behind which CPython asks whether a signal has come."""
KEY = np.array([b"a", b"b"], object)


class Interrupt:
    """Sends SIGINT at moment number ``moment`` of those at which a handler may run, and counts the moments."""

    def __init__(self, moment):
        self.moment = moment
        self.seen = 0
        self.asks = {}
        """Frame -> whether it is behind a bytecode that asks."""
        self.at = ""

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "return":
            self.asks.pop(frame, None)
        elif event == "opcode":
            asked = self.asks.get(frame, False)
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            self.asks[frame] = name.startswith(ASKING)
            self.seen += asked
            if asked and self.seen == self.moment:
                self.at = f"{frame.f_code.co_qualname}, line {frame.f_lineno}, bytecode {frame.f_lasti}"
                signal.raise_signal(signal.SIGINT)
        return self


def interrupted(act, moment):
    """What ``act`` returned, if it was not interrupted; whether it was; and whether the moment came."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    tracing = sys.gettrace()
    interrupt = Interrupt(moment)
    try:
        sys.settrace(interrupt)
        try:
            return act(), False, interrupt.seen >= moment
        except KeyboardInterrupt:
            return None, True, True
        finally:
            sys.settrace(tracing)
    finally:
        signal.signal(signal.SIGINT, before)


def in_a_thread(act):
    """What ``act`` returns in another thread, which is not locked out."""
    results = []
    thread = threading.Thread(target=lambda: results.append(act()), daemon=True)
    thread.start()
    thread.join(60)
    assert results, "locked"
    return results[0]


def soon():
    return CancellationToken(60.0)


class Staging:
    """Three tuples; one is put, one taken."""

    def make(self):
        self.area = staging_objects.Area({"capacity": 0, "memory_limit": 0})
        for number in range(3):
            self.area.put([np.full(4, number, np.int32)], soon())

    def put(self):
        self.area.put([np.full(4, 3, np.int32)], soon())

    def take(self):
        return self.area.get(soon())

    def clear(self):
        self.area.clear()

    def check(self):
        area = self.area
        numbers = [int(values[0][0]) for values, _ in area._tuples]
        assert area._bytes == 16 * len(numbers)
        assert numbers in ([0, 1, 2], [0, 1, 2, 3], [1, 2], [])
        in_a_thread(self.put)
        if len(numbers) == 3 and numbers[0] == 0:
            assert int(in_a_thread(self.take)[0][0]) == 0


class Keyed:
    """Complete tuples under the keys 1 and 2, half of one under 3; the half is completed, and one is taken."""

    def make(self):
        self.area = staging_objects.KeyedArea({"capacity": 0, "memory_limit": 0}, 2, True)
        for key in (1, 2):
            self.area.put(key, [0, 1], [np.full(4, key, np.int32)] * 2, soon())
        self.area.put(3, [0], [np.full(4, 3, np.int32)], soon())

    def put(self):
        self.area.put(3, [1], [np.full(4, 3, np.int32)], soon())

    def put_part(self):
        self.area.put(4, [1], [np.full(4, 4, np.int32)], soon())

    def take(self):
        return self.area.get_any([0, 1], soon())

    def take_part(self):
        return self.area.get(2, [1], soon())

    def clear(self):
        self.area.clear()

    def check(self):
        area = self.area
        parts = [part for parts in (*area._tuples.values(), *area._incomplete.values()) for part in parts.values()]
        assert area._bytes == 16 * len(parts)
        assert all(len(parts) == 1 for parts in area._incomplete.values())
        assert not area._tuples.keys() & area._incomplete.keys()
        count = in_a_thread(area.size)
        in_a_thread(lambda: area.put(9, [0, 1], [np.zeros(4, np.int32)] * 2, soon()))
        assert in_a_thread(area.size) == count + 1


class Barrier:
    """Two keys of which the first component has come; the second comes, or they are taken, or it is closed."""

    def make(self):
        attrs = {"component_types": [tf.float32, tf.int32], "shapes": [(), ()]}
        self.barrier = barrier_objects.Barrier("b", attrs)
        self.barrier.insert(KEY, 0, np.ones(2, np.float32))

    def put(self):
        self.barrier.insert(KEY, 1, np.ones(2, np.int32))

    def close(self):
        self.barrier.close(False)

    def check(self):
        barrier = self.barrier
        there = (in_a_thread(barrier.incomplete_size), in_a_thread(barrier.ready.size))
        assert there in ((2, 0), (0, 2))
        if there == (2, 0):
            in_a_thread(self.put)
        _, keys, *_ = in_a_thread(lambda: barrier.take(2, False, soon()))
        assert keys.tolist() == [b"a", b"b"]
        assert not barrier._closed or barrier.ready.closed


class Accumulator:
    """Two gradients of 1; one comes, or the mean is taken."""

    kind = accumulator_objects.Accumulator
    shape = (2,)

    def gradient(self):
        return np.ones(2, np.float32)

    def make(self):
        attrs = {"dtype": tf.float32, "shape": self.shape, "reduction_type": "SUM"}
        self.accumulator = self.kind("a", attrs)
        for _ in range(2):
            self.put()

    def put(self):
        self.accumulator.apply(self.gradient(), 0)

    def take(self):
        return self.accumulator.take(2, soon())

    def check(self):
        accumulator = self.accumulator
        count, step = accumulator.count, accumulator._step
        assert (count, step) in ((2, 0), (3, 0), (0, 1))
        assert accumulator._first() is None
        if step:
            in_a_thread(lambda: accumulator.set_step(0))
            in_a_thread(self.put)
            count = 1
        total = in_a_thread(lambda: accumulator.take(1, soon()))
        total = total[1] if isinstance(total, tuple) else total
        assert float(np.max(total)) == count


class SparseAccumulator(Accumulator):
    """The same with gradients of two rows."""

    kind = accumulator_objects.SparseAccumulator
    shape = (5, 2)

    def gradient(self):
        return np.array([1, 3]), np.ones((2, 2), np.float32), np.array([5, 2]), True


class Queue:
    """Three rows; one comes, or two are taken."""

    kind = "FIFOQueue"
    attrs = {"component_types": [tf.int32], "shapes": [()], "capacity": 9}

    def make(self):
        self.queue = queue_objects.KINDS[self.kind]("q", dict(self.attrs))
        for number in range(3):
            self.queue.enqueue([np.int32(number)])

    def put(self):
        self.queue.enqueue([np.int32(3)], soon())

    def take(self):
        return self.queue.dequeue_many(2, False, soon())

    def check(self):
        queue = self.queue
        count = in_a_thread(queue.size)
        assert count in (3, 4, 1)
        in_a_thread(self.put)
        assert in_a_thread(lambda: queue.dequeue_many(count + 1, False, soon()))[0][-1] == 3
        assert not queue._enqueuers
        assert not queue._dequeuers


class Reader:
    """Two files of three lines; a line is read, or several."""

    @pytest.fixture(autouse=True)
    def files(self, tmp_path):
        for name in "ab":
            (tmp_path / name).write_text(f"{name}1\n{name}2\n{name}3\n")
        self.folder = tmp_path

    def make(self):
        self.names = collections.deque([bytes(self.folder / "a"), bytes(self.folder / "b")])
        self.reader = reader_objects.TextLineReader("r", {"skip_header_lines": 0})

    def put(self):
        return self.reader.read(self.names.popleft, soon())[1]

    def take(self):
        return [value for _, value in self.reader.read_up_to(2, self.names.popleft, soon())]

    def check(self):
        lines = in_a_thread(self.rest)
        gone = 6 - len(lines)
        assert gone in (0, 1, 2)  # what the call had read that was interrupted, or gave
        assert lines == [b"a1", b"a2", b"a3", b"b1", b"b2", b"b3"][gone:]

    def rest(self):
        lines = []
        with contextlib.suppress(IndexError):  # no more names
            while True:
                lines.append(self.put())
        return lines


@pytest.mark.parametrize(
    ("channel", "act"),
    [
        (Staging, "put"),
        (Staging, "take"),
        (Staging, "clear"),
        (Keyed, "put"),
        (Keyed, "put_part"),
        (Keyed, "take"),
        (Keyed, "take_part"),
        (Keyed, "clear"),
        (Barrier, "put"),
        (Barrier, "close"),
        (Accumulator, "put"),
        (Accumulator, "take"),
        (SparseAccumulator, "put"),
        (SparseAccumulator, "take"),
        (Queue, "put"),
        (Queue, "take"),
    ],
)
def test_a_channel_is_between_two_calls_wherever_an_interrupt_comes(channel, act):
    everywhere(channel(), act)


def everywhere(tested, act):
    """Interrupt ``act`` at each bytecode in turn."""
    count = 0
    gc.collect()
    gc.disable()  # what other tests have left is not to end in the middle of it
    try:
        for moment in itertools.count(1):
            tested.make()
            _, was_interrupted, came = interrupted(getattr(tested, act), moment)
            count += was_interrupted
            tested.check()
            if not came:
                break
    finally:
        gc.enable()
    assert count >= moment - 2  # none was swallowed


class TestReader(Reader):
    """Readers, which need files."""

    @pytest.mark.parametrize("act", ["put", "take"])
    def test_a_reader_goes_on_behind_what_was_read(self, act):
        everywhere(self, act)


def test_records_in_random_order_come_once_in_an_epoch_although_a_batch_is_interrupted(tmp_path):
    for name in "ab":
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for number in range(6):
                writer.write(f"{name}{number}".encode())
    attrs = {
        "file_pattern": str(tmp_path / "?"),
        "compression_type": "",
        "file_parallelism": 2,
        "file_shuffle_shift_ratio": 0.0,
        "file_buffer_size": 3,
        "file_random_seed": 1,
    }
    expected = record_input._Records(attrs).next(24, None)

    class Records:
        def make(self):
            self.records = record_input._Records(attrs)

        def take(self):
            return self.records.next(2, None)

        def check(self):
            # The batch was given, or taken when the interrupt came, or nothing was.
            assert in_a_thread(lambda: self.records.next(20, None)) in (expected[:20], expected[2:22])

    everywhere(Records(), "take")


def test_records_of_one_length_stay_aligned_wherever_a_pipeline_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 7)
    (tmp_path / "records").write_bytes(b"".join(b"%03d" % number for number in range(8)))
    dataset = tf.data.FixedLengthRecordDataset(str(tmp_path / "records"), 3)
    with tf.Session() as session:

        class Records:
            def make(self):
                self.element = dataset.make_one_shot_iterator().get_next()

            def take(self):
                return session.run(self.element)

            def check(self):
                rest = []
                with contextlib.suppress(tf.errors.OutOfRangeError):
                    while True:
                        rest.append(int(session.run(self.element)))
                assert rest in (list(range(8)), list(range(1, 8)))

        everywhere(Records(), "take")
