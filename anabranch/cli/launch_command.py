"""``anabranch launch``: all tasks of a program on this machine, until the workers have ended.

Each task is a process that runs the script as ``anabranch run`` does. It learns who it is from the environment variable
``TF_CONFIG``, and from arguments in which ``{job}``, ``{index}``, ``{ps}`` and ``{workers}`` stand for its job, its
number and the addresses. What tasks print has the task before it. A task that dies is started again, up to a number of
times; one that gives up ends the others. When all workers have ended well the others are asked to end (SIGTERM), and
killed if they do not. A launcher that is itself killed takes its tasks with it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from anabranch.cluster import transport
from anabranch.core import errors

PATIENCE = 5.0
"""Seconds that a task has to end when it is asked to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--ps", type=int, default=1, metavar="N", help="how many parameter servers (default 1)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many workers (default 2)")
    parser.add_argument(
        "--restarts", type=int, default=3, metavar="N", help="how often a task that dies is started again (default 3)"
    )
    parser.add_argument("script", help="the program")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="its arguments; {job}, {index}, {ps}, {workers} are filled in"
    )


class LaunchedTask:
    """One task: its process, and how often it has been started."""

    def __init__(self, job: str, index: int, command: Sequence[str], environment: dict[str, str]) -> None:
        self.job, self.index = job, index
        self._command, self._environment = command, environment
        self.restarts = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """What stands before what it prints."""
        return f"{self.job} {self.index}"

    def start(self, ended: queue.SimpleQueue[LaunchedTask]) -> None:
        """Start its process; when that has ended, the task is put into ``ended``."""
        process = self.process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
        )

        def read() -> None:
            assert process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    print(f"[{self.name}] {line.decode(errors='replace')}", end="", flush=True)
            process.wait()
            ended.put(self)

        threading.Thread(target=read, daemon=True).start()

    def stop(self, patience: float) -> None:
        """End its process, by force if it takes longer than ``patience`` seconds."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _addresses(count: int) -> list[str]:
    """Free addresses of this machine."""
    with contextlib.ExitStack() as held:
        holders = [held.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [f"localhost:{holder.getsockname()[1]}" for holder in holders]


def tasks_of(options: argparse.Namespace) -> list[LaunchedTask]:
    """The tasks that the options ask for.

    Raises:
        ValueError: there are to be none, or they are to be in a Ray cluster.
    """
    if ray := os.environ.get(transport.RAY_ADDRESS):
        raise ValueError(
            errors.message(
                f"the environment variable {transport.RAY_ADDRESS}={ray}, of a Ray cluster",
                "no such variable: all tasks are started on this machine, and by nobody else",
                f"env -u {transport.RAY_ADDRESS} anabranch launch ...; on several machines, one command per task "
                "(docs/cluster.md)",
            )
        )
    counts = {"ps": options.ps, "worker": options.workers}
    if options.workers < 1 or options.ps < 0 or options.restarts < 0:
        raise ValueError(
            errors.message(
                f"--ps {options.ps} --workers {options.workers} --restarts {options.restarts}",
                "at least one worker, and no negative number",
                "anabranch launch --ps 1 --workers 2 SCRIPT",
            )
        )
    free = iter(_addresses(sum(counts.values())))
    cluster = {job: [next(free) for _ in range(count)] for job, count in counts.items() if count}
    tasks = []
    for job, addresses in cluster.items():
        for index in range(len(addresses)):
            fills = {
                "{job}": job,
                "{index}": str(index),
                "{ps}": ",".join(cluster.get("ps", ())),
                "{workers}": ",".join(cluster["worker"]),
            }
            arguments = [_filled(argument, fills) for argument in options.arguments]
            command = [
                sys.executable,
                "-u",
                "-m",
                "anabranch.cli.launched",
                str(os.getpid()),
                options.script,
                *arguments,
            ]
            config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
            tasks.append(LaunchedTask(job, index, command, {**os.environ, "TF_CONFIG": config}))
    return tasks


def _filled(argument: str, fills: dict[str, str]) -> str:
    for name, value in fills.items():
        argument = argument.replace(name, value)
    return argument


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    tasks = tasks_of(options)
    ended: queue.SimpleQueue[LaunchedTask] = queue.SimpleQueue()

    def interrupted(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        for task in tasks:
            task.start(ended)
        return _supervise(tasks, ended, options.restarts)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        end = time.monotonic() + PATIENCE
        for task in reversed(tasks):  # workers first: they may have something to say to the others
            task.stop(max(0.1, end - time.monotonic()))
        signal.signal(signal.SIGTERM, before)


def _supervise(tasks: Sequence[LaunchedTask], ended: queue.SimpleQueue[LaunchedTask], restarts: int) -> int:
    """Start again what dies, until all workers have ended; the exit status."""
    working = {task for task in tasks if task.job == "worker"}
    while working:
        task = ended.get()
        assert task.process is not None
        status = task.process.returncode
        if status == 0 and task in working:
            working.discard(task)
            continue
        why = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        if task.restarts >= restarts:
            print(f"[launch] {task.name} {why} after {task.restarts} restarts; ending the others", flush=True)
            return 1
        task.restarts += 1
        print(f"[launch] {task.name} {why}; starting it again", flush=True)
        time.sleep(min(0.5 * task.restarts, 5.0))
        task.start(ended)
    return 0
