"""What a graph that grows costs its steps: a step after an unrelated op was added, against the same step without.

python benchmarks/graph_growth.py [--tier TIER] [--rounds N] [--steps N]

Both kinds of steps take turns. Adding the op is not timed, and before the other steps one is added to another graph, so
that the processor's caches are as cold. Prints medians of CPU time and of elapsed time. The budget is 1.2x.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import anabranch as tf


def network(tier: str) -> tuple[tf.Graph, Callable[[], object]]:
    """A training step of a network of 48 dense layers: some 1,500 operations."""
    with tf.Graph().as_default() as graph:
        images, labels = tf.placeholder(tf.float32, [128, 256]), tf.placeholder(tf.int64, [128])
        hidden = images
        for _ in range(48):
            hidden = tf.layers.dense(hidden, 256, tf.nn.relu)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.layers.dense(hidden, 10))
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        session = tf.Session(graph=graph, config=tf.SessionOptions(tier=tier))
        session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(0)
    feeds = {images: rng.normal(size=(128, 256)).astype(np.float32), labels: rng.integers(0, 10, 128)}
    return graph, lambda: session.run([loss, step], feeds)


def chain(tier: str) -> tuple[tf.Graph, Callable[[], object]]:
    """400 operations on four numbers, one after another."""
    with tf.Graph().as_default() as graph:
        x = value = tf.placeholder(tf.float32, [4])
        for i in range(400):
            value = tf.sin(value) if i % 2 else tf.negative(value)
        session = tf.Session(graph=graph, config=tf.SessionOptions(tier=tier))
    feeds = {x: np.ones(4, np.float32)}
    return graph, lambda: session.run(value, feeds)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU time and of elapsed time."""
    cpu, elapsed = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - elapsed


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", default="compiled", choices=["auto", "interpreted", "compiled"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    print("| step | operations | CPU, as it is | after an added op | ratio | elapsed | after an added op | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for make in (network, chain):
        graph, run = make(options.tier)
        other = tf.Graph()
        for _ in range(10):
            run()
        rows: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for _ in range(options.rounds):
            for grows, times in rows.items():
                for _ in range(options.steps):
                    with (graph if grows else other).as_default():
                        tf.no_op()
                    times.append(timed(run))
        cells = []
        for column in range(2):
            plain, grown = (statistics.median(row[column] for row in rows[grows]) * 1e3 for grows in (False, True))
            cells += [f"{plain:.3f} ms", f"{grown:.3f} ms", f"{grown / plain:.2f}x"]
        count = len(graph.get_operations()) - options.rounds * options.steps
        print(f"| {make.__name__} | {count} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
