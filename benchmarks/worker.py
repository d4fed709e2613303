"""One peer in its own process: reads JSON commands from standard input, runs cases, answers with microseconds.

Every case is made from the same draws in every peer, so that ``{"losses": case, "steps": n}`` can be compared.
"""

from __future__ import annotations

import importlib
import json
import sys
import time

from peers import shapes, system


def main() -> None:
    """Serves commands ``{"case": name, "calls": n}`` and the like until standard input ends."""
    peer = importlib.import_module(f"peers.{sys.argv[1]}")

    def made(name, cold=False):
        if name not in peer.CASES:
            raise KeyError(f"{sys.argv[1]} has no case {name}")
        shapes.rng.seed(0)
        system.cold = cold
        return peer.CASES[name]()

    answers = sys.stdout
    sys.stdout = sys.stderr  # what the peers print must not get between the answers
    ready = {}
    for line in sys.stdin:
        command = json.loads(line)
        if command.get("version"):
            answers.write(json.dumps({"version": version(sys.argv[1])}) + "\n")
            answers.flush()
            continue
        try:
            if "losses" in command:
                step = made(command["losses"], cold=True)
                answers.write(json.dumps({"losses": [loss_of(step()) for _ in range(command["steps"])]}) + "\n")
                answers.flush()
                continue
            name = command["case"]
            clock = time.process_time if command.get("cpu") else time.perf_counter
            if name not in ready:
                step = made(name)
                started = time.perf_counter()
                step()
                first = time.perf_counter() - started
                for _ in range(command.get("warmup", 3)):
                    step()
                ready[name] = (step, first)
            step, first = ready[name]
            awake = time.perf_counter() + command.get("awake", 0.0)  # a core that slept is slow for a while
            while time.perf_counter() < awake:
                step()
            times = []
            for _ in range(command["calls"]):
                started = clock()
                step()
                times.append((clock() - started) * 1e6)
            answer = {"times": times, "first": first}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def loss_of(result) -> float:
    """The loss in what a step gives: a number, or the first of a list."""
    return float(result[0] if isinstance(result, list | tuple) else result)


def version(peer: str) -> str:
    """Version of the system behind a peer."""
    names = {"anabranch_peer": "anabranch", "jax_peer": "jax", "tf_peer": "tensorflow", "tf_xla_peer": "tensorflow"}
    return str(importlib.import_module(names.get(peer, "torch")).__version__)


if __name__ == "__main__":
    main()
