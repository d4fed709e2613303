"""Eager mode: one small op, a training step with a tape, and the same as a function; beside peers that are installed.

Run with `python benchmarks/eager.py [anabranch|tensorflow|torch]`; each peer in an environment of its own. Prints
microseconds of processor time: medians of rounds. With `--beside tensorflow=PYTHON torch=PYTHON` the peers, each run by
a Python of its own, take turns, and a table has the medians of three turns.
"""

from __future__ import annotations

import collections
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS = 7


def measured(work: Callable[[], Any], count: int) -> float:
    """Microseconds of processor time for one call: the median of rounds."""
    for _ in range(20):
        work()
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(count):
            work()
        times.append((time.process_time() - started) / count * 1e6)
    return statistics.median(times)


def _arrays() -> list[Any]:
    random = np.random.default_rng(0)
    shapes = [(32, 64), (64, 64), (64,), (64, 10), (10,)]
    return [random.standard_normal(shape).astype(np.float32) * 0.1 for shape in shapes]


def with_tapes(tf: Any) -> dict[str, float]:
    """The cases in anabranch or TensorFlow."""
    x, *start = _arrays()
    variables = [tf.Variable(array) for array in start]
    images, labels = tf.constant(x), tf.constant(np.arange(32, dtype=np.int32) % 10)
    scalar = tf.constant(1.0)

    def step() -> Any:
        with tf.GradientTape() as tape:
            w, b, u, c = variables
            logits = tf.matmul(tf.nn.relu(tf.matmul(images, w) + b), u) + c
            entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(entropy)
        for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.01 * slope)
        return loss

    return {
        "one small op": measured(lambda: scalar * scalar, 5000),
        "training step": measured(step, 50),
        "the same as a function": measured(tf.function(step), 200),
    }


def in_torch(torch: Any) -> dict[str, float]:
    """The cases in PyTorch."""
    x, *start = _arrays()
    weights = [torch.tensor(array, requires_grad=True) for array in start]
    images, labels = torch.tensor(x), torch.arange(32) % 10
    scalar = torch.tensor(1.0)

    def step() -> Any:
        w, b, u, c = weights
        loss = torch.nn.functional.cross_entropy(torch.relu(images @ w + b) @ u + c, labels)
        for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data.sub_(0.01 * slope)
        return loss

    return {"one small op": measured(lambda: scalar * scalar, 5000), "training step": measured(step, 50)}


TURNS = 3


def beside(peers: dict[str, str]) -> None:
    """Print a table: a row for each case, a column for each peer, which take turns.

    Args:
        peers: from peers to the Python that runs them.
    """
    times: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    for _ in range(TURNS):
        for peer, python in peers.items():
            command = [python, __file__, peer]
            output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            for line in output.splitlines():
                times[line[13:37].strip(), peer].append(float(line[37:]))
    cases = list(dict.fromkeys(case for case, _ in times))
    print(f"{'':24}" + "".join(f"{peer:>12}" for peer in peers))
    for case in cases:
        values = [statistics.median(times[case, peer]) if (case, peer) in times else None for peer in peers]
        print(f"{case:24}" + "".join(f"{'-' if value is None else format(value, '.1f'):>12}" for value in values))


def main(peer: str) -> None:
    """Print what a peer takes."""
    if peer == "torch":
        import torch

        found = in_torch(torch)
    else:
        if peer == "tensorflow":
            import tensorflow as tf
        else:
            import anabranch as tf
        if not tf.executing_eagerly():
            tf.enable_eager_execution()
        found = with_tapes(tf)
    for name, value in found.items():
        print(f"{peer:12} {name:24} {value:9.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--beside"]:
        others = dict(argument.split("=", 1) for argument in sys.argv[2:])
        beside({"anabranch": sys.executable, **others})
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "anabranch")
