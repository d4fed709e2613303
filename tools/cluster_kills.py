"""Train on two parameter servers and three workers while tasks are killed (-9) at random.

Of a hundred kills 80 are of workers, 15 of parameter servers and 5 of the chief, each after training has resumed: every
worker has made a step since the kill before. Each step looks for torn state: a vector whose places are always moved
together, and, in serialisable mode, a counter on the other server and the global step. At the end a target is set, all
workers must reach it and end with status 0, and no process may be left.

    python tools/cluster_kills.py --kills 100 --mode async
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MODES = {"async": "async", "stale": ("stale", 5), "sync": "sync", "backup": ("sync", 1), "serialisable": "serialisable"}
WORKERS, SERVERS, LENGTH = 3, 2, 1000
RESUMES_WITHIN = 150.0
"""Seconds after a kill within which all workers must have made a step."""


# --------------------------------------------------------------------------------------------------------- the program
def task(job: str, index: int, ps: str, workers: str, folder: str, mode: str) -> None:
    """What each task runs."""
    import numpy as np

    import anabranch as tf

    cluster = tf.train.ClusterSpec({"ps": ps.split(","), "worker": workers.split(",")})
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    target = Path(folder, "target")

    class StopAtTarget(tf.train.SessionRunHook):
        def before_run(self, context):
            return tf.train.SessionRunArgs(step)

        def after_run(self, context, values):
            if target.exists() and values.results >= int(target.read_text()):
                context.request_stop()

    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
        step = tf.train.get_or_create_global_step()
        with tf.device("/job:ps/task:0"):
            whole = tf.get_variable("whole", [LENGTH], tf.int64, tf.zeros_initializer())
            w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
        with tf.device("/job:ps/task:1"):
            apart = tf.get_variable("apart", [], tf.int64, tf.zeros_initializer())
        x = tf.placeholder(tf.float32, [None, 4])
        seen = [tf.identity(whole), tf.identity(apart), tf.identity(step)]
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - tf.reduce_sum(x, 1, keepdims=True)))
        with tf.control_dependencies(seen):
            optimizer = tf.train.GradientDescentOptimizer(0.02)
            train = tf.group(
                optimizer.minimize(loss, global_step=step),
                whole.assign_add(tf.ones([LENGTH], tf.int64)),
                apart.assign_add(1),
            )
    generator = np.random.default_rng(index)
    filters = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    config = tf.SessionOptions(consistency=MODES[mode], tier="interpreted", config=filters)
    is_chief = index == 0
    with tf.train.MonitoredTrainingSession(
        server.target,
        is_chief,
        os.path.join(folder, "checkpoints") if is_chief else None,
        hooks=[StopAtTarget()],
        config=config,
        save_checkpoint_steps=50,
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        log_step_count_steps=None,
    ) as session:
        while not session.should_stop():
            feed = {x: generator.normal(size=(8, 4))}
            (places, count, number), value, _ = session.run([seen, loss, train], feed)
            torn = places.min() != places.max()
            if mode == "serialisable":
                torn = torn or not places[0] == count == number
            print("TORN" if torn else "step", number, count, places.min(), places.max(), value, flush=True)
            time.sleep(0.01)
    print("ended", flush=True)


# ---------------------------------------------------------------------------------------------------------- the killer
class Process:
    """A task, and what it has printed last."""

    def __init__(self, job: str, index: int, arguments: list[str], log: Path) -> None:
        self.job, self.index = job, index
        self._command = [sys.executable, "-u", __file__, "--task", job, str(index), *arguments]
        self._log = log
        self.made = 0.0
        """When the task made its last step."""
        self.number = 0
        self.torn: list[str] = []
        self.lines: collections.deque[str] = collections.deque(maxlen=40)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout, self._log.open("a") as log:
            for line in process.stdout:
                log.write(line)
                self.lines.append(line.rstrip())
                word = line.split()
                if len(word) == 6 and word[0] in ("step", "TORN"):  # a killed task's last line may be cut off
                    self.made, self.number = time.monotonic(), int(word[1])
                    if word[0] == "TORN":
                        self.torn.append(line.rstrip())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join(10)


def addresses(count: int) -> list[str]:
    """Free addresses of this machine."""
    with contextlib.ExitStack() as held:
        holders = [held.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [f"localhost:{holder.getsockname()[1]}" for holder in holders]


def victims(kills: int, seed: int) -> list[tuple[str, int]]:
    """Whom to kill, in order: 80 of 100 workers that are not the chief, 15 servers, 5 the chief."""
    generator = random.Random(seed)
    servers, chiefs = round(0.15 * kills), round(0.05 * kills)
    order = [("ps", generator.randrange(SERVERS)) for _ in range(servers)] + [("worker", 0)] * chiefs
    order += [("worker", generator.randrange(1, WORKERS)) for _ in range(kills - len(order))]
    generator.shuffle(order)
    return order


def wait(processes: list[Process], done, seconds: float, what: str) -> float:
    """Wait until something holds of all workers; the seconds that it took."""
    started = time.monotonic()
    while not all(done(process) for process in processes if process.job == "worker"):
        if time.monotonic() - started > seconds:
            tails = ["\n".join([f"-- {p.job} {p.index} ({p.process.poll()})", *p.lines]) for p in processes]
            raise AssertionError(f"{what} not within {seconds:.0f} s\n" + "\n".join(tails))
        time.sleep(0.1)
    return time.monotonic() - started


def run(kills: int, mode: str, seed: int = 0) -> dict[str, float]:
    """Train, kill, and check; figures of the run."""
    with tempfile.TemporaryDirectory() as folder:
        ps, workers = addresses(SERVERS), addresses(WORKERS)
        arguments = [",".join(ps), ",".join(workers), folder, mode]
        jobs = [("ps", i) for i in range(SERVERS)] + [("worker", i) for i in range(WORKERS)]
        processes = [Process(job, i, arguments, Path(folder, f"{job}{i}.log")) for job, i in jobs]
        started, pauses = time.monotonic(), []
        try:
            wait(processes, lambda p: p.made > 0.0, RESUMES_WITHIN, "the first step")
            for number, victim in enumerate(victims(kills, seed)):
                process = processes[jobs.index(victim)]
                time.sleep(random.Random(seed + number).uniform(0.0, 0.5))
                killed = time.monotonic()
                process.kill()
                process.start()

                def resumed(process: Process, killed: float = killed) -> bool:
                    return process.made > killed and process.process.poll() is None

                pause = wait(processes, resumed, RESUMES_WITHIN, f"steps of all workers after kill {number} ({victim})")
                pauses.append(pause)
                reached = max(p.number for p in processes)
                name = f"{victim[0]} {victim[1]}"
                print(f"kill {number}: {name}, resumed after {pause:.1f} s, at step {reached}", flush=True)
                torn = [line for p in processes for line in p.torn]
                assert not torn, torn[:5]
            target = max(p.number for p in processes) + 50
            Path(folder, "target").write_text(str(target))
            wait(processes, lambda p: p.process.poll() == 0, RESUMES_WITHIN, "the end of all workers")
        finally:
            for process in processes:
                process.kill()
        left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
        assert folder not in left, "a process is left"
        torn = [line for p in processes for line in p.torn]
        assert not torn, torn[:5]
        pauses.sort()
        return {
            "kills": kills,
            "seconds": time.monotonic() - started,
            "target": target,
            "median pause": pauses[len(pauses) // 2],
            "longest pause": pauses[-1],
        }


def main() -> None:
    """Run the command."""
    if sys.argv[1:2] == ["--task"]:
        job, index, *others = sys.argv[2:]
        task(job, int(index), *others)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--mode", choices=MODES, default="async")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(run(options.kills, options.mode, options.seed), flush=True)


if __name__ == "__main__":
    main()
