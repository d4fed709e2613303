"""What steps in flight gain: the MLP's training step, with and without Python work between steps, by steps in flight.

python benchmarks/asynchronous.py [--work MILLISECONDS] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

from peers import shapes

import anabranch as tf

WAYS = (0, 1, 2, 4)
"""How many steps in flight; 0 is the plain callable."""


def mlp(in_flight: int) -> Callable[[int, float], float]:
    """A step of the MLP by a callable, compiled."""
    x, y, weights = shapes.mlp()
    with tf.Graph().as_default() as graph:
        images, labels = tf.placeholder(tf.float32, x.shape), tf.placeholder(tf.int64, y.shape)
        hidden = images
        for i, w in enumerate(weights):
            hidden = tf.matmul(hidden, tf.Variable(w)) + tf.Variable(tf.zeros([w.shape[1]]))
            if i < 2:
                hidden = tf.nn.relu(hidden)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden))
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        session = tf.Session(graph=graph, config=tf.SessionOptions(tier="compiled"))
        session.run(tf.global_variables_initializer())
        options = {"asynchronous": True, "in_flight": in_flight} if in_flight else {}
        call = session.make_callable([loss, step], [images, labels], **options)

    def many(steps: int, work: float) -> float:
        started = time.perf_counter()
        for _ in range(steps):
            call(x, y)
            end = time.perf_counter() + work
            while time.perf_counter() < end:
                pass
        if in_flight:
            call.wait()
        return (time.perf_counter() - started) / steps * 1e3

    many(3, 0.0)
    return many


def main() -> None:
    """Prints milliseconds a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=float, default=1.0, help="milliseconds of Python between steps")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    os.environ.setdefault("ANABRANCH_CPU_DISPATCH", "threads")  # the plain callable, which comes first, starts JAX
    tf.keep_memory()
    made = {ways: mlp(ways) for ways in WAYS}
    print(f"| in flight | a step | with {options.work:g} ms of Python beside |")
    print("|---|---|---|")
    found = {ways: ([], []) for ways in WAYS}
    for _ in range(options.rounds):
        for ways, many in made.items():
            for times, work in zip(found[ways], (0.0, options.work / 1000), strict=True):
                times.append(many(options.steps, work))
    for ways, (plain, beside) in found.items():
        name = "none (run and wait)" if not ways else str(ways)
        print(f"| {name} | {statistics.median(plain):.2f} ms | {statistics.median(beside):.2f} ms |")


if __name__ == "__main__":
    main()
