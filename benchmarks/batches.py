"""Training on batches of 1 to 299 rows in random order, against the same number of batches of 299.

python benchmarks/batches.py [CASE ...]

Each row is of processes of their own: programs compiled for the step, megabytes at the peak and what the process had
before the first step, seconds of processor time for all steps, compiling included, and milliseconds of it a step once
every size has come (for varying sizes: the mean of a second round through all of them).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

LARGEST = 299
CASES = {
    "mlp": "perceptron 784-512-10, momentum",
    "conv": "conv net on 16x16x3, Adam",
    "embedding": "embedding + dense",
}


def network(tf: Any, case: str) -> tuple[Any, Any]:
    """Fetches of a training step, and a function of a batch size that makes its feeds."""
    draw = np.random.RandomState(0)
    labels = tf.placeholder(tf.int64, [None])
    if case == "mlp":
        x = tf.placeholder(tf.float32, [None, 784])
        hidden = tf.layers.dense(x, 512, tf.nn.relu)
        optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
    elif case == "conv":
        x = tf.placeholder(tf.float32, [None, 16, 16, 3])
        hidden = tf.layers.max_pooling2d(tf.layers.conv2d(x, 16, 3, padding="same", activation=tf.nn.relu), 2, 2)
        hidden = tf.layers.flatten(tf.layers.conv2d(hidden, 16, 3, padding="same", activation=tf.nn.relu))
        optimizer = tf.train.AdamOptimizer(1e-3)
    else:
        x = tf.placeholder(tf.int32, [None, 20])
        table = tf.get_variable("table", [5000, 32])
        hidden = tf.layers.dense(tf.reduce_mean(tf.nn.embedding_lookup(table, x), 1), 64, tf.nn.tanh)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
    logits = tf.layers.dense(hidden, 10)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = optimizer.minimize(loss)
    shape = x.shape.as_list()[1:]

    def feed(n: int) -> dict[Any, Any]:
        rows = draw.randint(0, 5000, (n, *shape)) if case == "embedding" else draw.randn(n, *shape).astype(np.float32)
        return {x: rows, labels: draw.randint(0, 10, n)}

    return [loss, step], feed


def megabytes() -> float:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(case: str, varying: bool) -> dict[str, float]:
    """Figures of this process."""
    import anabranch as tf
    from anabranch.xla import program

    compiled = []
    plain = program.Program._compile

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        made = plain(self, *args, **options)
        compiled.append(self)
        return made

    program.Program._compile = counted  # type: ignore[method-assign]
    fetches, feed = network(tf, case)
    order = np.random.RandomState(1).permutation(np.arange(1, LARGEST + 1)) if varying else [LARGEST] * LARGEST
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        compiled.clear()
        before, start = megabytes(), time.process_time()
        for n in order:
            session.run(fetches, feed(int(n)))
        first, peak, programs = time.process_time() - start, megabytes(), len(compiled)
        start = time.process_time()
        for n in order:
            session.run(fetches, feed(int(n)))
        second = time.process_time() - start
        return {
            "programs": programs,
            "again": len(compiled) - programs,
            "before": before,
            "peak": peak,
            "later": megabytes(),
            "cpu": first,
            "step": second / LARGEST * 1e3,
        }


def main() -> None:
    """Measures all cases, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--one", choices=("fixed", "varying"), help="measure in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.cases[0], options.one == "varying")))
        return
    print("| case | batches | programs | MB before | MB peak | MB later | CPU s | CPU ms a step, later |")
    print("|---|---|---|---|---|---|---|---|")
    for case in options.cases:
        for one in ("fixed", "varying"):
            command = [sys.executable, __file__, case, "--one", one]
            environment = {**os.environ, "ANABRANCH_CACHE": "off"}
            done = subprocess.run(command, capture_output=True, check=True, env=environment)
            found = json.loads(done.stdout.splitlines()[-1])
            print(
                f"| {CASES[case]} | {one} | {found['programs']}+{found['again']} | {found['before']:.0f} "
                f"| {found['peak']:.0f} | {found['later']:.0f} | {found['cpu']:.1f} | {found['step']:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
