"""Times drawing four million uniform and normal numbers in each system; prints medians in milliseconds.

python benchmarks/random_draws.py [--python PEER=INTERPRETER ...] [--rounds N]

Peers take turns, a round each, in processes of their own. Peers: anabranch, jax (here), tf, torch (with --python).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

COUNT = 4_000_000
CALLS = 5


def anabranch_cases() -> dict[str, Callable[[], object]]:
    """Cases of a session, in its compiled tier."""
    import anabranch as tf

    session = tf.Session(config=tf.SessionOptions(tier="compiled"))
    total = {
        "uniform": tf.random_uniform([COUNT], seed=1),
        "normal": tf.random_normal([COUNT], seed=1),
        "truncated": tf.truncated_normal([COUNT], seed=1),
    }
    return {name: lambda drawn=drawn: session.run(drawn) for name, drawn in total.items()}


def jax_cases() -> dict[str, Callable[[], object]]:
    """Cases of jax.random, compiled, fetched as NumPy arrays."""
    import jax
    import numpy as np

    keys = iter(jax.random.split(jax.random.key(1), 100_000))
    functions = {
        "uniform": jax.jit(lambda key: jax.random.uniform(key, (COUNT,))),
        "normal": jax.jit(lambda key: jax.random.normal(key, (COUNT,))),
        "truncated": jax.jit(lambda key: jax.random.truncated_normal(key, -2.0, 2.0, (COUNT,))),
    }
    return {name: lambda draw=draw: np.asarray(draw(next(keys))) for name, draw in functions.items()}


def tf_cases() -> dict[str, Callable[[], object]]:
    """Cases of a TensorFlow session."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    session = tf.Session()
    total = {
        "uniform": tf.random_uniform([COUNT], seed=1),
        "normal": tf.random_normal([COUNT], seed=1),
        "truncated": tf.truncated_normal([COUNT], seed=1),
    }
    return {name: lambda drawn=drawn: session.run(drawn) for name, drawn in total.items()}


def torch_cases() -> dict[str, Callable[[], object]]:
    """Cases of PyTorch."""
    import torch

    return {
        "uniform": lambda: torch.rand(COUNT),
        "normal": lambda: torch.randn(COUNT),
        "truncated": lambda: torch.nn.init.trunc_normal_(torch.empty(COUNT)),
    }


def serve(peer: str) -> None:
    """Answers each line of standard input with the median times of all cases."""
    cases = globals()[f"{peer}_cases"]()
    for call in cases.values():
        call()
        call()
    for _ in sys.stdin:
        found = {}
        for name, call in cases.items():
            times = []
            for _ in range(CALLS):
                started = time.perf_counter()
                call()
                times.append((time.perf_counter() - started) * 1e3)
            found[name] = statistics.median(times)
        print(json.dumps(found), flush=True)


def main() -> None:
    """Runs the peers and prints their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="PEER=INTERPRETER")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    interpreters = {"anabranch": sys.executable, "jax": sys.executable}
    interpreters |= dict(pair.split("=", 1) for pair in given.python)
    workers = {
        peer: subprocess.Popen(
            [interpreter, __file__, "--serve", peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for peer, interpreter in interpreters.items()
    }
    found: dict[str, list[dict[str, float]]] = {peer: [] for peer in workers}
    for _ in range(given.rounds):
        for peer, worker in workers.items():
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            found[peer].append(json.loads(worker.stdout.readline()))
    for worker in workers.values():
        worker.communicate()
    print(f"{COUNT:,} numbers, milliseconds, medians of {given.rounds} rounds of {CALLS} calls")
    print(f"{'':12}" + "".join(f"{name:>12}" for name in ("uniform", "normal", "truncated")))
    for peer, rounds in found.items():
        medians = [statistics.median(one[name] for one in rounds) for name in rounds[0]]
        print(f"{peer:12}" + "".join(f"{value:12.1f}" for value in medians))


if __name__ == "__main__":
    main()
