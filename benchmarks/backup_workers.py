"""Synchronous steps with backup workers: real ones on this machine, and a model of many.

    python benchmarks/backup_workers.py [--workers 5] [--rounds 60] [--simulated 50]

A worker's step sleeps as long as a draw says: 60 to 120 ms, and now and then (one step of twelve) four times as long,
which is what a straggler is. So workers need no cores of their own, and their times are known. What a round costs
beside that is measured with one worker and with all of them, whose steps do nothing; then rounds are, with and without
a backup. The model, which is given the draws and the overhead, must say the same within 15 %. Then it says how long
rounds of many workers take. Its assumptions stand in `docs/notes/0021-cluster.md`.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from tasks import free_addresses, stop

LEAST, MOST, RARE, TIMES = 0.06, 0.12, 1 / 12, 4.0


def draws(seed: int) -> Callable[[], float]:
    """What draws how long a worker's step takes."""
    generator = random.Random(seed)

    def draw() -> float:
        seconds = generator.uniform(LEAST, MOST)
        return seconds * TIMES if generator.random() < RARE else seconds

    return draw


def task(job: str, index: int, addresses: dict[str, list[str]], backups: int, works: bool) -> None:
    """One task: a server that waits, or a worker, which steps until it is ended and prints when each step ended."""
    import numpy as np

    import anabranch as tf

    cluster = tf.train.ClusterSpec(addresses)
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    draw = draws(index)

    def compute(value):
        if works:
            time.sleep(draw())
        return np.float32(value * 0.0 + 1.0)

    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
        step = tf.train.get_or_create_global_step()
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        update = v.assign_add(tf.py_func(compute, [v], tf.float32))
        train = tf.group(update, tf.assign_add(step, 1))
    config = tf.SessionOptions(consistency=("sync", backups), tier="interpreted")
    with tf.train.MonitoredTrainingSession(server.target, index == 0, config=config) as session:
        while True:
            session.run(train)
            print(time.time(), flush=True)


def measured(workers: int, backups: int, rounds: int, works: bool = True) -> float:
    """Seconds of a round of real workers, whose steps take as long as is drawn, or do nothing."""
    ps, *others = free_addresses(workers + 1)
    cluster = json.dumps({"ps": [ps], "worker": others})
    command = [
        sys.executable,
        "-u",
        __file__,
        "--cluster",
        cluster,
        "--backups",
        str(backups),
        "--works",
        str(works),
        "--task",
    ]
    jobs = [("ps", 0)] + [("worker", i) for i in range(workers)]
    processes = [
        subprocess.Popen([*command, job, str(i)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for job, i in jobs
    ]
    ends: list[list[float]] = [[] for _ in processes]

    def read(number: int) -> None:
        stream = processes[number].stdout
        assert stream is not None
        ends[number].extend(map(float, stream))

    readers = [threading.Thread(target=read, args=(number,)) for number in range(1, workers + 1)]
    for reader in readers:
        reader.start()
    wanted = (rounds + 10) * (workers - backups)
    try:
        while sum(map(len, ends)) < wanted:
            if any(process.poll() is not None for process in processes):
                raise RuntimeError("a task has ended by itself")
            time.sleep(0.05)
    finally:
        stop(processes)
        for reader in readers:
            reader.join()
    steps = sorted(end for each in ends for end in each)[10 * (workers - backups) :]  # from when all have come
    return (steps[-1] - steps[0]) / (len(steps) - 1) * (workers - backups)


def simulated(workers: int, backups: int, rounds: int, overhead: Callable[[int], float], seed: int = 0) -> float:
    """Seconds of a round in the model."""
    draw = [draws(seed + i) for i in range(workers)]
    opens = 0.0
    arrives: list[float | None] = [None] * workers
    for _ in range(rounds):
        for i in range(workers):
            before = arrives[i]
            if before is None or before < opens:
                arrives[i] = opens + draw[i]()
        times = sorted((at, i) for i, at in enumerate(arrives) if at is not None)
        closes = times[workers - backups - 1][0]
        late = {i for _, i in times[workers - backups :]}
        opens = closes + overhead(workers - backups)
        for i in range(workers):
            at = arrives[i]
            if i not in late:
                arrives[i] = None
            elif at is not None:  # it reads and computes again, from when it hears that it is late
                arrives[i] = max(at, opens) + draw[i]()
    return opens / rounds


def main() -> None:
    """Measure, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--simulated", type=int, default=50)
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    parser.add_argument("--backups", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--works", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        task(
            options.task[0], int(options.task[1]), json.loads(options.cluster), options.backups, options.works == "True"
        )
        return
    one, several = [measured(workers, 0, options.rounds, False) for workers in (1, options.workers)]
    more = max(0.0, (several - one) / (options.workers - 1))

    def overhead(count: int) -> float:
        return one + (count - 1) * more

    print(f"a round without work: {one * 1e3:.1f} ms, and {more * 1e3:.1f} ms for each further worker in it")
    holds = True
    for backups in (0, 1):
        real = measured(options.workers, backups, options.rounds)
        model = simulated(options.workers, backups, 5000, overhead)
        holds = holds and abs(model / real - 1) <= 0.15
        print(
            f"{options.workers} workers, {backups} backups: a round {real * 1e3:.0f} ms, "
            f"model {model * 1e3:.0f} ms ({model / real - 1:+.0%})"
        )
    if not holds:
        print("The model is off by more than 15 %: no curve.")
        return
    base = None
    for backups in range(6):
        seconds = simulated(options.simulated, backups, 5000, overhead)
        base = base or seconds
        gain = base / seconds * (options.simulated - backups) / options.simulated
        print(
            f"{options.simulated} workers, {backups} backups: a round {seconds * 1e3:.0f} ms, "
            f"{base / seconds:.2f} times as fast, {gain:.2f} by the work that is kept"
        )


if __name__ == "__main__":
    main()
