"""Whether programs on several CPU devices overlap: one tower of single-threaded work, and two on two devices.

python benchmarks/devices.py [--towers N] [--iterations N] [--rounds N]

A tower is a loop of small products, which XLA runs in one thread. Where two cores are free, two towers take about as
long as one; the least of many rounds, and the least tenth, say it best where they are not free all the time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import anabranch as tf


def tower(x: tf.Tensor, iterations: int) -> tf.Tensor:
    """A loop that takes one thread."""
    w = tf.constant(np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) / 8)
    body = lambda i, x: (i + 1, tf.tanh(tf.matmul(x, w)))  # noqa: E731
    return tf.while_loop(lambda i, x: i < iterations, body, (0, x))[1]


def step(session: tf.Session, towers: int, iterations: int) -> Callable[[], float]:
    """A step of towers, each on a device of its own; it gives the milliseconds that it took."""
    with session.graph.as_default():
        x = tf.placeholder(tf.float32, [8, 64])
        sums = []
        for i in range(towers):
            with tf.device(f"/cpu:{i}"):
                sums.append(tf.reduce_sum(tower(x, iterations)))
    call = session.make_callable(sums, [x])
    value = np.random.default_rng(1).normal(size=(8, 64)).astype(np.float32)

    def run() -> float:
        started = time.perf_counter()
        call(value)
        return (time.perf_counter() - started) * 1e3

    for _ in range(3):
        run()
    return run


def main() -> None:
    """Prints milliseconds of a step with one tower and with several."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--towers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    config = tf.ConfigProto(device_count={"CPU": 8})
    with tf.Session(graph=tf.Graph(), config=tf.SessionOptions(tier="compiled", config=config)) as session:
        steps = {count: step(session, count, options.iterations) for count in (1, options.towers)}
        times: dict[int, list[float]] = {count: [] for count in steps}
        for _ in range(options.rounds):
            for count, run in steps.items():
                times[count].append(run())
    print("| towers | least | tenth | median |\n|---|---|---|---|")
    rows = {
        count: [sorted(taken)[int(len(taken) * part)] for part in (0.0, 0.1, 0.5)] for count, taken in times.items()
    }
    for count, row in rows.items():
        print(f"| {count} | {' | '.join(f'{each:.2f} ms' for each in row)} |")
    one, several = rows.values()
    print(f"| ratio | {' | '.join(f'{b / a:.2f}' for a, b in zip(one, several, strict=True))} |")


if __name__ == "__main__":
    main()
