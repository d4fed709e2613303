"""Null steps of a cluster on this machine: workers fetch what variables on a parameter server hold.

    python benchmarks/cluster.py [--tensorflow PYTHON]... [--workers 1] [--rounds 5]

For each system a parameter server and some workers, which step at the same time; systems take turns, round by round and
case by case. Printed are medians over rounds, in milliseconds: of the median step of a worker, and of the CPU time that
all processes together took for a worker's step. The cases: a scalar, read and added to on the worker; 100 MB of
float32, read there and reduced to one element; and 128 rows of a table of 256 MB.
PYTHON is an interpreter that has TensorFlow (1.x, or 2.x through `tf.compat.v1`).
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time

from tasks import Tasks, import_tensorflow

STEPS = (200, 5, 200)
CASES = ("scalar", "100 MB", "128 rows of 256 MB")


def task(job: str, index: int, addresses: dict[str, list[str]], system: str) -> None:
    """One task: a server that waits, or a worker, which measures when a line comes in and prints the medians."""
    tf = import_tensorflow(system)
    server = tf.train.Server(tf.train.ClusterSpec(addresses), job_name=job, task_index=index)
    if job == "ps":
        server.join()
    with tf.device("/job:ps/task:0"):
        scalar = tf.get_variable("scalar", [], initializer=tf.ones_initializer())
        large = tf.get_variable("large", [25_000_000], initializer=tf.zeros_initializer())
        table = tf.get_variable("table", [1_000_000, 64], initializer=tf.zeros_initializer())
        initialize = tf.global_variables_initializer()
        missing = tf.report_uninitialized_variables()
    ids = tf.placeholder(tf.int64, [128])
    rows = tf.nn.embedding_lookup(table, ids)
    with tf.device(f"/job:worker/task:{index}"):
        steps = [
            (scalar + 1.0, STEPS[0]),
            (tf.reduce_max(large), STEPS[1]),
            (tf.reduce_sum(rows), STEPS[2]),
        ]
    feed = {ids: [i * 7919 % 1_000_000 for i in range(128)]}
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    with tf.Session(server.target, config=config) as session:
        if not index:
            session.run(initialize)
        while len(session.run(missing)):
            time.sleep(0.2)
        for fetch, _ in steps:
            for _ in range(10):
                session.run(fetch, feed)
        print("ready", flush=True)
        for line in sys.stdin:
            fetch, count = steps[int(line)]
            times = []
            for _ in range(count):
                started = time.time()
                session.run(fetch, feed)
                times.append(time.time() - started)
            print(statistics.median(times) * 1e3, flush=True)


class Group:
    """The tasks of one system, and what was measured."""

    def __init__(self, name: str, python: str, system: str, workers: int) -> None:
        self.name = name
        self.tasks = Tasks(__file__, python, system, workers=workers)
        self.measured: list[list[tuple[float, float]]] = [[] for _ in CASES]
        """Per case and round, milliseconds of a step and of the CPU."""

    def measure(self, case: int) -> None:
        """Measure a case once, on all workers at the same time."""
        before = self.tasks.cpu_seconds()
        times = [float(text) for text in self.tasks.ask(str(case))]
        steps = STEPS[case] * len(times)
        self.measured[case].append((statistics.median(times), (self.tasks.cpu_seconds() - before) * 1e3 / steps))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow", action="append", default=[], metavar="PYTHON")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    parser.add_argument("--system", help=argparse.SUPPRESS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # its processes end with it
    if options.task:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        task(options.task[0], int(options.task[1]), json.loads(options.cluster), options.system)
        return
    groups = [Group("anabranch", sys.executable, "anabranch", options.workers)]
    groups += [Group(python, python, "tensorflow", options.workers) for python in options.tensorflow]
    try:
        for group in groups:
            group.tasks.wait()
        for _ in range(options.rounds):
            for case in range(len(CASES)):
                for group in groups:
                    group.measure(case)
        for group in groups:
            figures = []
            for case, rounds in zip(CASES, group.measured, strict=True):
                step, busy = [statistics.median(values) for values in zip(*rounds, strict=True)]
                figures.append(f"{case} {step:.2f} ms (CPU {busy:.2f})")
            print(f"{group.name}, {options.workers} workers: {', '.join(figures)}")
    finally:
        for group in groups:
            group.tasks.stop()


if __name__ == "__main__":
    main()
