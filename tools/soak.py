"""Trains for a long time while all that can happen to a program happens, and asks whether it stays right and small.

    python tools/soak.py --minutes 60 --seed 1

One session trains a small model that a queue with threads feeds; it evaluates, saves, restores and writes summaries in
between, and runs steps with deadlines that are too short. Another thread sends Ctrl-C to the process at random moments.
After each of these the two variables that every step moves together must agree; at the end, memory, open files and
threads must be what they were after the first quarter. Prints a line a minute, and what went wrong.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

import numpy as np

import anabranch as tf

MOST_GROWTH = 1.25
"""How much larger than after its first quarter the process may be in the end."""


def resident() -> int:
    """Bytes of memory that the process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Heap(ctypes.Structure):
    """What glibc's ``mallinfo2`` returns."""

    _names = "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


def in_use() -> tuple[int, int]:
    """Bytes of the C heap that are in use, and blocks of Python's; what is resident beyond them is free, or code."""
    try:
        report = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # not glibc, or older than 2.33
        return 0, sys.getallocatedblocks()
    report.restype = _Heap
    heap = report()
    return heap.uordblks + heap.hblkhd, sys.getallocatedblocks()


class Soak:
    """The model and what is done with it."""

    def __init__(self, folder: str, chance: random.Random) -> None:
        self.chance = chance
        self.folder = folder
        queue = tf.FIFOQueue(64, [tf.float32], [[32, 8]])
        feed = queue.enqueue(tf.random_uniform([32, 8], seed=3))
        self.runner = tf.train.QueueRunner(queue, [feed] * 2)
        x = queue.dequeue()
        y = tf.layers.dense(tf.layers.dense(x, 64, tf.nn.relu), 1)
        loss = tf.reduce_mean(tf.square(y - tf.reduce_sum(x, 1, keepdims=True)))
        self.a = tf.get_variable("a", [], tf.float32, tf.zeros_initializer(), trainable=False)
        self.b = tf.get_variable("b", [5000], tf.float32, tf.zeros_initializer(), trainable=False)
        moves = [self.a.assign_add(1.0).op, self.b.assign_add(tf.ones([5000])).op]
        self.loss = loss
        self.step = tf.group(tf.train.AdamOptimizer(1e-3).minimize(loss), *moves)
        self.summary = tf.summary.scalar("loss", loss)
        fed = tf.placeholder(tf.float32, [None, 8])
        self.fed = fed
        self.long = tf.while_loop(
            lambda i, t: i < 3_000_000, lambda i, t: (i + 1, tf.sin(t + tf.reduce_mean(fed))), (0, 0.0)
        )[1]
        self.saver = tf.train.Saver(max_to_keep=2)
        self.init = tf.global_variables_initializer()
        self.writer = tf.summary.FileWriter(folder)
        self.session = tf.Session()
        self.number = 0

    def train(self) -> None:
        """Some steps."""
        for _ in range(20):
            self.session.run([self.step, self.loss])

    def evaluate(self) -> None:
        """A fetch of other things."""
        self.session.run([self.loss, self.b])

    def save(self) -> None:
        """A checkpoint, and back."""
        self.number += 1
        self.saver.save(self.session, f"{self.folder}/model", global_step=self.number)
        if self.chance.random() < 0.3:
            self.saver.restore(self.session, tf.train.latest_checkpoint(self.folder))

    def summarize(self) -> None:
        """A summary."""
        self.writer.add_summary(self.session.run(self.summary), self.number)
        self.writer.flush()

    def expire(self) -> None:
        """A step with a deadline that it cannot meet."""
        options = tf.RunOptions(timeout_in_ms=self.chance.randrange(1, 60))
        try:
            self.session.run([self.long, self.step], {self.fed: np.ones([4, 8], np.float32)}, options=options)
        except tf.errors.DeadlineExceededError:
            pass

    def check(self) -> None:
        """Raises if the variables do not belong to one step."""
        first, second = self.session.run([self.a, self.b])
        if not np.all(second == first):
            raise AssertionError(f"torn: {first} and {second[:3]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Soaks; 0 if nothing went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chance = random.Random(options.seed)
    counts: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    sizes: list[tuple[int, int, int]] = []
    over, armed = threading.Event(), threading.Event()
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def interrupt() -> None:
        moments = random.Random(options.seed + 1)
        while not over.wait(moments.uniform(0.5, 6.0)):
            if armed.is_set():
                armed.clear()
                signal.pthread_kill(main_thread, signal.SIGINT)

    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(folder, chance)
        soak.session.run(soak.init)
        coordinator = tf.train.Coordinator()
        threads = soak.runner.create_threads(soak.session, coordinator, daemon=True, start=True)
        threading.Thread(target=interrupt, daemon=True).start()
        begin = said = time.monotonic()
        end = begin + options.minutes * 60
        while time.monotonic() < end:
            action = chance.choice([soak.train, soak.train, soak.evaluate, soak.save, soak.summarize, soak.expire])
            try:
                armed.set()
                action()
                armed.clear()
                counts[action.__name__] += 1
            except KeyboardInterrupt:
                counts["interrupted"] += 1
            except Exception as problem:
                wrong.append(f"{action.__name__}: {type(problem).__name__}: {problem}"[:400])
                print(wrong[-1], flush=True)
            armed.clear()
            try:
                time.sleep(0.001)  # an interrupt that was under way comes here
                soak.check()
            except KeyboardInterrupt:
                counts["interrupted"] += 1
                soak.check()
            except Exception as problem:
                wrong.append(f"afterwards: {type(problem).__name__}: {problem}"[:400])
                print(wrong[-1], flush=True)
            if time.monotonic() - said > min(60.0, options.minutes * 6):
                said = time.monotonic()
                sizes.append((resident() >> 20, len(os.listdir("/proc/self/fd")), threading.active_count()))
                heap, blocks = in_use()
                print(
                    f"{(said - begin) / 60:5.1f} min: {sizes[-1]} MiB, files, threads; "
                    f"{heap >> 20} MiB of the heap in use, {blocks} blocks; {dict(counts)}",
                    flush=True,
                )
        over.set()
        coordinator.request_stop()
        soak.session.close()
        coordinator.join(threads, stop_grace_period_secs=10)
    if sizes:
        first, last = sizes[len(sizes) // 4], sizes[-1]
        if last[0] > first[0] * MOST_GROWTH:
            wrong.append(f"memory grew from {first[0]} to {last[0]} MiB")
        if last[1] > first[1] + 4 or last[2] > first[2] + 4:
            wrong.append(f"files or threads grew from {first[1:]} to {last[1:]}")
    print(f"{sum(counts.values())} rounds: {dict(counts)}; {len(wrong)} went wrong {wrong[:3]}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
