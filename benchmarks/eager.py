"""Eager mode: one small op, a training step with a tape, and the same as a function; beside peers that are installed.

Run with `python benchmarks/eager.py [anabranch|tensorflow|torch]`; each peer in an environment of its own. Prints
microseconds of processor time: medians of rounds.
"""

from __future__ import annotations

import statistics
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
    main(sys.argv[1] if len(sys.argv) > 1 else "anabranch")
