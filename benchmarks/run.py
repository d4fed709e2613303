"""Runs cases in several peers, interleaved, and prints medians and ratios.

python benchmarks/run.py [--python ENV=INTERPRETER ...] [--rounds N] [--json FILE] [--markdown FILE] [CASE ...]

The tables of docs/performance.md come from one such call with `--python tf=... --python torch=...`, all cases, on an
idle machine: the load is printed with the table, as it says what the figures are worth.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
PAUSE = 0.5
"""Seconds between two peers."""
AWAKE = 0.4
"""Seconds for which a peer runs before its calls are timed."""
# case: (calls a round, what it is)
CASES = {
    "matmul_small": (300, "1x16 by 16x4 matrix product, one run"),
    "train_small": (200, "training step of ten variables"),
    "mlp": (60, "MLP 784-512-512-10, batch 128, SGD step"),
    "conv6": (4, "six-layer conv net, 32x32, batch 32, SGD step"),
    "digits": (60, "the demo's network on 8x8 digits, batch 64, Adam step"),
    "language_model": (5, "LSTM language model, 10 k words, 256 wide, 20x20, SGD step"),
    "language_model_plain": (5, "the same where JAX's is `lax.scan` and `jax.grad`"),
    "embedding": (30, "embedding step, 1 M x 64 table, 256 rows"),
    "embedding_unchecked": (30, "the same without the range check"),
    "embedding_small": (30, "the same on a table of 10 k rows"),
    "assert_step": (10, "update of 100 MB of variables with an Assert on the inputs"),
    "plain_step": (10, "the same without"),
}
WIDE = {
    "mlp_wide": (20, "MLP 784-4096-4096-10, batch 1024, SGD step"),
    "conv6_wide": (5, "six-layer conv net, 32x32, batch 256, SGD step"),
}
"""For machines with an accelerator; only when named."""
ALL = {**CASES, **WIDE}
TRAINING = ("mlp", "conv6", "digits", "language_model", "language_model_plain")
"""Cases whose steps give a loss: the peers' must agree."""
AGREE_STEPS, AGREE = 5, 2e-3
# peer -> module and environment
PEERS = {
    "anabranch": ("anabranch_peer", "anabranch"),
    "jax": ("jax_peer", "anabranch"),
    "tf": ("tf_peer", "tf"),
    "tf-xla": ("tf_xla_peer", "tf"),
    "torch": ("torch_peer", "torch"),
    "torch.compile": ("torch_compiled_peer", "torch"),
}


class Worker:
    """A peer's process."""

    def __init__(self, module: str, interpreter: str):
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        }
        if not environment["CUDA_VISIBLE_DEVICES"]:
            environment.pop("CUDA_VISIBLE_DEVICES")
        self._process = subprocess.Popen(
            [interpreter, "worker.py", module],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, **command: object) -> dict:
        """Sends a command and waits for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"error": "the process died"}

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def main(default: Iterable[str] = tuple(CASES)) -> None:
    """Parses arguments, runs the cases named or ``default``, prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="ENV=INTERPRETER",
        help="interpreter of an environment (tf, torch)",
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="CPU time of all threads, for a machine that is not idle")
    parser.add_argument("--json", help="write all medians to this file, after each case")
    parser.add_argument("--markdown", help="write the table to this file, too")
    parser.add_argument("cases", nargs="*", default=list(default), help=f"among {', '.join(ALL)}")
    options = parser.parse_args()
    interpreters = {"anabranch": sys.executable, **dict(item.split("=", 1) for item in options.python)}
    peers = {name: (module, interpreters[env]) for name, (module, env) in PEERS.items() if env in interpreters}
    workers = {name: Worker(module, interpreter) for name, (module, interpreter) in peers.items()}
    lines: list[str] = []

    def tell(text: str) -> None:
        print(text, flush=True)
        lines.append(text)
        if options.markdown:
            Path(options.markdown).write_text("\n".join(lines) + "\n")

    found: dict[str, dict[str, float]] = {}
    load = os.getloadavg()[0]
    tell("| case | " + " | ".join(workers) + " | to the best peer |")
    tell("|---|" + "---|" * (len(workers) + 1))
    for case in options.cases:
        row, errors = measure(case, workers, options.rounds, options.cpu)
        found[case] = row
        others = [value for name, value in row.items() if name != "anabranch"]
        ratio = f"{row['anabranch'] / min(others):.2f}" if others and "anabranch" in row else "-"
        cells = [
            show(row[name]) if name in row else ("-" if "has no case" in errors.get(name, "") else "failed")
            for name in workers
        ]
        tell(f"| {ALL[case][1]} | " + " | ".join(cells) + f" | {ratio} |")
        for name, text in errors.items():
            if "has no case" not in text:
                print(f"<!-- {case} {name}: {text} -->", file=sys.stderr, flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1))
    told = ", ".join(f"{name} {worker.ask(version=True).get('version', '?')}" for name, worker in workers.items())
    unit = "medians of CPU time" if options.cpu else "medians"
    tell(f"\n{told}; {os.cpu_count()} cores; load before {load:.2f}; {options.rounds} rounds interleaved, {unit}.")
    for worker in workers.values():
        worker.close()


def measure(
    case: str, workers: dict[str, Worker], rounds: int, cpu: bool = False
) -> tuple[dict[str, float], dict[str, str]]:
    """Microseconds of a case per peer, and what went wrong: each round asks one peer after the other, in turning order.

    Before each a pause: OpenMP's threads spin for some 200 ms after a peer's last call, at the cost of the next one.
    """
    medians: dict[str, list[float]] = {name: [] for name in workers}
    errors: dict[str, str] = {}
    if case in TRAINING:
        errors.update(disagreeing(case, workers))
    names = list(workers)
    for round_ in range(rounds):
        first = round_ % len(names)
        for name in names[first:] + names[:first]:
            worker = workers[name]
            if name in errors:
                continue
            time.sleep(PAUSE)
            answer = worker.ask(case=case, calls=ALL[case][0], awake=AWAKE, cpu=cpu)
            if "error" in answer:
                errors[name] = answer["error"]
            else:
                medians[name].append(statistics.median(answer["times"]))
    return {name: statistics.median(values) for name, values in medians.items() if values}, errors


def disagreeing(case: str, workers: dict[str, Worker]) -> dict[str, str]:
    """Peers that fail a few steps from the same values, or whose losses are not those of the first peer."""
    errors: dict[str, str] = {}
    expected: list[float] = []
    for name, worker in workers.items():
        answer = worker.ask(losses=case, steps=AGREE_STEPS)
        found = answer.get("losses", [])
        if "error" in answer:
            errors[name] = answer["error"]
        elif not expected:
            expected = found
        elif any(abs(a - b) > AGREE * abs(b) for a, b in zip(found, expected, strict=True)):
            errors[name] = f"losses {found}, not {expected}: it computes something else"
    return errors


def show(microseconds: float) -> str:
    """A duration with its unit."""
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.2f} ms"


if __name__ == "__main__":
    main()
