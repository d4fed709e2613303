"""Tasks of a cluster on this machine, as processes: their addresses, the CPU time they take, their end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def import_tensorflow(system: str) -> Any:
    """The module of a system that graphs are made with: Anabranch, or TensorFlow as version 1.x has it."""
    if system == "anabranch":
        import anabranch

        return anabranch
    import tensorflow  # type: ignore[import-not-found,unused-ignore]

    if not hasattr(tensorflow, "compat"):
        return tensorflow
    tf = tensorflow.compat.v1
    tf.disable_eager_execution()
    tf.disable_resource_variables()
    return tf


def free_addresses(count: int) -> list[str]:
    """Free addresses of this machine."""
    with contextlib.ExitStack() as held:
        holders = [held.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [f"localhost:{holder.getsockname()[1]}" for holder in holders]


class Tasks:
    """Parameter servers and workers of one system, each a process that runs a script.

    The script gets ``--task JOB INDEX --cluster JSON --system SYSTEM`` and the further arguments. A worker prints
    ``ready``, then answers each line that it reads with one that it prints.
    """

    def __init__(
        self, script: str, python: str, system: str, *, servers: int = 1, workers: int = 1, more: Sequence[str] = ()
    ) -> None:
        addresses = free_addresses(servers + workers)
        cluster = {"ps": addresses[:servers], "worker": addresses[servers:]}
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT) if system == "anabranch" else "",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages come with their code
        cluster_text = json.dumps({job: tasks for job, tasks in cluster.items() if tasks})
        command = [python, script, "--system", system, "--cluster", cluster_text, *more, "--task"]
        quiet = subprocess.DEVNULL
        self.servers = [
            subprocess.Popen([*command, "ps", str(i)], env=environment, stdout=quiet, stderr=quiet)
            for i in range(servers)
        ]
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

    def wait(self) -> None:
        """Wait until the workers are ready.

        Raises:
            RuntimeError: a worker has ended.
        """
        for number, worker in enumerate(self.workers):
            assert worker.stdout is not None
            if not any(line.strip() == "ready" for line in worker.stdout):
                raise RuntimeError(f"worker {number} of {worker.args} did not start")

    def ask(self, text: str) -> list[str]:
        """Send a line to all workers at the same time; what each answers."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{text}\n")
            worker.stdin.flush()
        return [worker.stdout.readline() for worker in self.workers if worker.stdout is not None]

    def cpu_seconds(self) -> float:
        """Seconds of CPU time that all processes have taken."""
        return sum(_cpu_seconds(process.pid) for process in (*self.servers, *self.workers))

    def stop(self) -> None:
        """End all processes."""
        stop((*self.workers, *self.servers))


def stop(processes: Iterable[subprocess.Popen[Any]]) -> None:
    """Kill processes and wait for their end."""
    for process in processes:
        process.kill()
        process.wait()


def _cpu_seconds(pid: int) -> float:
    """Seconds of CPU time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
