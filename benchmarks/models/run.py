"""Runs the models of this folder under Anabranch and TensorFlow: losses, CPU time, elapsed time, the first minute.

Usage: python benchmarks/models/run.py --tf INTERPRETER [--rounds N] [--start 20,100,500] [--json FILE] [MODEL ...]

A model is a file with ``build(tf)``, which runs unchanged in both; those of ``benchmarks/sparse``, whose sizes change
from step to step, run when they are named. Without ``--start`` the steady state is measured:
both processes are warmed up (Anabranch until its plan is in its last form: see ``--warm``), then take turns; printed
are medians of the rounds. With ``--start`` each figure is of a cold process with an empty cache of compiled programs:
seconds from the start of the process to the end of the 20th, 100th, 500th step; with ``--again`` also of a second
process that finds what the first has kept. Other work on the machine makes elapsed times mean little; CPU times of
all threads suffer less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NOT_MODELS = {"run", "worker"}
AGREE_STEPS, AGREE = 5, 5e-3
"""The first losses must agree within this, relative to their size."""


class Worker:
    """A model in a system's process."""

    def __init__(self, system: str, interpreter: str, model: str, **environment: str):
        variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **environment}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages come with their code
        command = [interpreter, str(HERE / "worker.py"), system, model, str(time.time())]
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  a pipe that nobody reads would fill up
        self._process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True
        )
        self.ready = self._answer()

    def ask(self, **command: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._complaints.seek(0)
            raise RuntimeError(self._complaints.read()[-2000:])
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait(30)


def agreement(losses: dict[str, list[float]]) -> str:
    """Whether the systems' first losses are the same."""
    if len(losses) < 2:
        return "-"
    ours, theirs = losses.values()
    worst = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(ours, theirs, strict=True))
    return f"within {worst:.0e}" if worst <= AGREE else f"DIFFER: {ours} {theirs}"


def steady(model: str, interpreters: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """Medians of the steps of both systems past all warm-up."""
    workers = {system: Worker(system, interpreter, model) for system, interpreter in interpreters.items()}
    row: dict[str, Any] = {}
    losses = {}
    try:
        for system, worker in workers.items():
            first = worker.ask(steps=AGREE_STEPS)
            losses[system] = first["losses"]
            row[system] = {"first": first["elapsed"][0], "cpu": [], "elapsed": []}
            until = time.time() + (options.warm if system == "anabranch" else min(options.warm, 3))
            while time.time() < until:
                worker.ask(steps=5)
        for round_ in range(options.rounds):
            for system in list(workers)[:: 1 if round_ % 2 else -1]:
                answer = workers[system].ask(steps=options.steps)
                for what in ("cpu", "elapsed"):
                    row[system][what].append(statistics.median(answer[what]))
        if options.explain:
            print(workers["anabranch"].ask(explain=True)["explain"])
    finally:
        for worker in workers.values():
            worker.close()
    for figures in row.values():
        figures.update({what: statistics.median(figures[what]) * 1e3 for what in ("cpu", "elapsed")})
    return {**row, "losses": agreement(losses)}


def start(model: str, interpreters: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """Seconds from the start of a process to the end of some steps, and the longest step after the first five."""
    marks = [int(mark) for mark in options.start.split(",")]
    row: dict[str, Any] = {}
    losses = {}
    with tempfile.TemporaryDirectory() as cache:
        runs = [(system, system) for system in interpreters]
        runs += [("anabranch again", "anabranch")] if options.again else []
        for name, system in runs:
            worker = Worker(system, interpreters[system], model, ANABRANCH_CACHE=cache)
            try:
                answer = worker.ask(steps=max(marks))
            finally:
                worker.close()
            if name in interpreters:
                losses[name] = answer["losses"][:AGREE_STEPS]
            row[name] = {
                "marks": [answer["since"][mark - 1] for mark in marks],
                "spent": [answer["spent"][mark - 1] for mark in marks],
                "longest": max(answer["elapsed"][5:], default=0.0),
                "cpu": sum(answer["cpu"]),
            }
    return {**row, "losses": agreement(losses)}


def show(model: str, row: dict[str, Any], options: argparse.Namespace) -> str:
    """A line of the table."""
    losses = row["losses"]
    systems = {name: figures for name, figures in row.items() if name != "losses"}
    if options.start:
        what = "spent" if options.cpu else "marks"
        cells = [
            " / ".join(f"{mark:.1f}" for mark in figures[what]) + f" ({figures['longest']:.2f})"
            for figures in systems.values()
        ]
        theirs = systems.get("tf")
        ratio = (
            " / ".join(f"{a / b:.2f}" for a, b in zip(systems["anabranch"][what], theirs[what], strict=True))
            if theirs
            else "-"
        )
    else:
        cells = [f"{f['cpu']:.1f} ({f['elapsed']:.1f}; {f['first']:.1f} s)" for f in systems.values()]
        theirs = systems.get("tf")
        ratio = f"{systems['anabranch']['cpu'] / theirs['cpu']:.2f}" if theirs else "-"
    return f"| {model} | " + " | ".join(cells) + f" | {ratio} | {losses} |"


def main() -> None:
    """Parses arguments, runs the models, prints a table in Markdown."""
    models = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_MODELS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf", metavar="INTERPRETER", help="a Python with TensorFlow")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="steps of a round")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds in which Anabranch is warmed up")
    parser.add_argument("--start", metavar="MARKS", help="measure cold starts to the end of these steps")
    parser.add_argument("--cpu", action="store_true", help="with --start: seconds of CPU time, as the machine is busy")
    parser.add_argument("--again", action="store_true", help="with --start: also a start that finds what was kept")
    parser.add_argument("--explain", action="store_true", help="print what Session.explain says of the step")
    parser.add_argument("--json", help="write all figures to this file, after each model")
    parser.add_argument("models", nargs="*", default=models, help=f"among {', '.join(models)}")
    options = parser.parse_args()
    interpreters = {"anabranch": sys.executable, **({"tf": options.tf} if options.tf else {})}
    names = [*interpreters, *(["anabranch again"] if options.start and options.again else [])]
    unit = "s to steps " + options.start + " (longest)" if options.start else "ms of CPU time (elapsed; first step)"
    print(f"| model, {unit} | " + " | ".join(names) + " | to TensorFlow | losses |")
    print("|---|" + "---|" * (len(names) + 2), flush=True)
    found = {}
    for model in options.models:
        found[model] = (start if options.start else steady)(model, interpreters, options)
        print(show(model, found[model], options), flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1))
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
