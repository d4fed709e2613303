"""``anabranch cluster status``: what the tasks of a cluster do."""

from __future__ import annotations

import argparse
import time
from typing import Any

from anabranch.cli import showing
from anabranch.cluster import peers, transport
from anabranch.core import errors

PATIENCE = 5.0
"""Seconds that a task has to answer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    purpose = "tasks, steps, sessions, variables and bytes"
    child = actions.add_parser("status", help=purpose, description=f"{purpose.capitalize()}.", allow_abbrev=False)
    child.add_argument("address", help="host:port of any task of the cluster")
    showing.add_json(child)


def _status(address: str) -> dict[str, Any]:
    """What a task says of itself, or why it says nothing."""
    try:
        return transport.connection(address).call("Status", {}, (), PATIENCE)[0]
    except errors.OpError as problem:
        return {"error": problem.message.splitlines()[0].removeprefix("Given: ")}


def run(options: argparse.Namespace) -> int:
    """Run a subcommand; return its exit status: 1 if a task does not answer."""
    answer = transport.connection(options.address).call("Hello", peers.greeting(), (), PATIENCE)[0]
    statuses = [
        {"task": f"/job:{job}/replica:0/task:{index}", "address": address, **_status(address)}
        for job, tasks in sorted(answer["cluster"].items())
        for index, address in tasks.items()
    ]
    if options.json:
        showing.print_json(statuses)
    else:
        rows = [("task", "address", "process", "up, s", "sessions", "steps", "running", "variables", "bytes", "queues")]
        for status in statuses:
            if "error" in status:
                rows.append((status["task"], status["address"], status["error"], *[""] * 7))
                continue
            up = f"{time.time() - status['since']:.0f}"
            fields = [str(status[name]) for name in ("sessions", "steps", "running", "variables")]
            queues = ", ".join(f"{name}: {size}" for name, size in status["queues"].items())
            rows.append(
                (
                    status["task"],
                    status["address"],
                    str(status["pid"]),
                    up,
                    *fields,
                    showing.size_text(status["bytes"]),
                    queues,
                )
            )
        print(showing.table(rows))
    return int(any("error" in status for status in statuses))
