"""What a queue costs: a training step fed by a queue against the same step fed by hand, for several sizes of step.

A step of an MLP with SGD takes its batch from a `FIFOQueue` (`dequeue_many`), which is filled beforehand, or from
arrays in `feed_dict`. Rounds alternate; medians of elapsed time and of CPU time per step.

python benchmarks/queue_step.py [--rounds N] [--steps N] [--producer]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import anabranch as tf

BATCH = 32
SIZES = ((8, 1), (64, 2), (256, 2), (512, 3))
"""Width and number of hidden layers."""


class Trainer:
    """The two steps of one model, in one session."""

    def __init__(self, width: int, layers: int, steps: int, summaries: bool):
        self._steps = steps
        random = np.random.RandomState(0)
        self._x = random.rand(BATCH, width).astype(np.float32)
        self._y = random.randint(0, 10, BATCH).astype(np.int64)
        with tf.Graph().as_default() as graph:
            self._queue = tf.FIFOQueue(BATCH * (steps + 1), [tf.float32, tf.int64], [[width], []])
            self._rows = tf.placeholder(tf.float32, [None, width]), tf.placeholder(tf.int64, [None])
            self._fill = self._queue.enqueue_many(self._rows)
            self._feeds = tf.placeholder(tf.float32, [BATCH, width]), tf.placeholder(tf.int64, [BATCH])
            weights = [tf.Variable(0.1 * random.randn(width, width).astype(np.float32)) for _ in range(layers)]
            weights.append(tf.Variable(0.1 * random.randn(width, 10).astype(np.float32)))
            self._fed = self._step(weights, *self._feeds, summaries)
            self._queued = self._step(weights, *self._queue.dequeue_many(BATCH), summaries)
            self._session = tf.Session(graph=graph, config=tf.SessionOptions(tier="compiled"))
            self._session.run(tf.global_variables_initializer())

    @staticmethod
    def _step(weights: list[tf.Variable], x: tf.Tensor, y: tf.Tensor, summaries: bool) -> list[object]:
        hidden = x
        for w in weights[:-1]:
            hidden = tf.nn.relu(tf.matmul(hidden, w))
        logits = tf.matmul(hidden, weights[-1])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        fetches = [loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss)]
        return [*fetches, tf.summary.scalar("loss", loss)] if summaries else fetches

    def fed(self) -> tuple[float, float]:
        """Microseconds of a step fed by hand: elapsed, CPU."""
        feeds = dict(zip(self._feeds, (self._x, self._y), strict=True))
        return self._timed(lambda: self._session.run(self._fed, feeds))

    def queued(self) -> tuple[float, float]:
        """Microseconds of a step fed by the queue, which is full when it begins: elapsed, CPU."""
        many = [np.concatenate([part] * self._steps) for part in (self._x, self._y)]
        self._session.run(self._fill, dict(zip(self._rows, many, strict=True)))
        return self._timed(lambda: self._session.run(self._queued))

    def _timed(self, step: Callable[[], object]) -> tuple[float, float]:
        started, cpu = time.perf_counter(), time.process_time()
        for _ in range(self._steps):
            step()
        elapsed, spent = time.perf_counter() - started, time.process_time() - cpu
        return elapsed / self._steps * 1e6, spent / self._steps * 1e6


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--summaries", action="store_true", help="fetch a scalar summary with each step")
    options = parser.parse_args()
    print("| hidden layers | fed by hand, µs | by a queue, µs | ratio | more | CPU by hand | CPU by queue |")
    print("|---|---|---|---|---|---|---|")
    for width, layers in SIZES:
        trainer = Trainer(width, layers, options.steps, options.summaries)
        rounds = [(trainer.fed(), trainer.queued()) for _ in range(options.rounds + 1)][1:]
        fed, fed_cpu, queued, queued_cpu = (
            statistics.median(pair[way][clock] for pair in rounds) for way in (0, 1) for clock in (0, 1)
        )
        print(
            f"| {layers} x {width} | {fed:.0f} | {queued:.0f} | {queued / fed:.2f} | {queued - fed:+.0f} µs "
            f"| {fed_cpu:.0f} | {queued_cpu:.0f} |"
        )


if __name__ == "__main__":
    main()
