"""One peer in its own process: reads JSON commands from standard input, runs cases, answers with microseconds."""

from __future__ import annotations

import importlib
import json
import sys
import time


def main() -> None:
    """Serves commands ``{"case": name, "calls": n}`` until standard input ends."""
    peer = importlib.import_module(f"peers.{sys.argv[1]}")
    answers = sys.stdout
    sys.stdout = sys.stderr  # what the peers print must not get between the answers
    ready = {}
    for line in sys.stdin:
        command = json.loads(line)
        if command.get("version"):
            answers.write(json.dumps({"version": version(sys.argv[1])}) + "\n")
            answers.flush()
            continue
        name = command["case"]
        try:
            if name not in ready:
                if name not in peer.CASES:
                    raise KeyError(f"{sys.argv[1]} has no case {name}")
                step = peer.CASES[name]()
                started = time.perf_counter()
                step()
                first = time.perf_counter() - started
                for _ in range(command.get("warmup", 3)):
                    step()
                ready[name] = (step, first)
            step, first = ready[name]
            times = []
            for _ in range(command["calls"]):
                started = time.perf_counter()
                step()
                times.append((time.perf_counter() - started) * 1e6)
            answer = {"times": times, "first": first}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def version(peer: str) -> str:
    """Version of the system behind a peer."""
    names = {"anabranch_peer": "anabranch", "jax_peer": "jax", "tf_peer": "tensorflow"}
    return str(importlib.import_module(names.get(peer, "torch")).__version__)


if __name__ == "__main__":
    main()
