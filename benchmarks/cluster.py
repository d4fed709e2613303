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
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEPS = (200, 5, 200)
CASES = ("scalar", "100 MB", "128 rows of 256 MB")


def task(job: str, index: int, addresses: dict[str, list[str]], system: str) -> None:
    """One task: a server that waits, or a worker, which measures when a line comes in and prints the medians."""
    if system == "tensorflow":
        import tensorflow  # type: ignore[import-not-found,unused-ignore]

        tf = tensorflow.compat.v1 if hasattr(tensorflow, "compat") else tensorflow
        if hasattr(tf, "disable_eager_execution"):
            tf.disable_eager_execution()
            tf.disable_resource_variables()
    else:
        import anabranch as tf
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


def free_addresses(count: int) -> list[str]:
    """Free addresses of this machine."""
    with contextlib.ExitStack() as held:
        holders = [held.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [f"localhost:{holder.getsockname()[1]}" for holder in holders]


class Group:
    """A parameter server and some workers of one system."""

    def __init__(self, name: str, python: str, system: str, workers: int) -> None:
        ps, *others = free_addresses(workers + 1)
        cluster = json.dumps({"ps": [ps], "worker": others})
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT) if system == "anabranch" else "",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        command = [python, __file__, "--system", system, "--cluster", cluster, "--task"]
        quiet = subprocess.DEVNULL
        self.name = name
        self.server = subprocess.Popen([*command, "ps", "0"], env=environment, stdout=quiet, stderr=quiet)
        self.workers = [
            subprocess.Popen(
                [*command, "worker", str(i)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=quiet,
                text=True,
            )
            for i in range(workers)
        ]
        self.measured: list[list[tuple[float, float]]] = [[] for _ in CASES]
        """Per case and round, milliseconds of a step and of the CPU."""

    def wait(self) -> None:
        """Wait until the workers are ready."""
        for worker in self.workers:
            assert worker.stdout is not None
            if not any(line.strip() == "ready" for line in worker.stdout):
                raise RuntimeError(f"a worker of {self.name} did not start")

    def measure(self, case: int) -> None:
        """Measure a case once, on all workers at the same time."""
        before = self._busy()
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{case}\n")
            worker.stdin.flush()
        times = [float(worker.stdout.readline()) for worker in self.workers if worker.stdout is not None]
        steps = STEPS[case] * len(self.workers)
        self.measured[case].append((statistics.median(times), (self._busy() - before) * 1e3 / steps))

    def _busy(self) -> float:
        """Seconds of CPU time that its processes have taken."""
        ticks = 0
        for process in (self.server, *self.workers):
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End all processes."""
        for process in (*self.workers, self.server):
            process.kill()
            process.wait()


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
            group.wait()
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
            group.stop()


if __name__ == "__main__":
    main()
