"""Training on sequences whose length changes with each step, from a cold start, here and in TensorFlow's graph mode.

python benchmarks/lengths.py [--python tf=INTERPRETER] [--rounds N] [--steps N] [CASE ...]

Each figure is of a process of its own: seconds from the making of the session to the end of the last step, so what is
compiled on the way counts (importing the package and building the graph do not), and seconds of processor time in the
same span. `last` trains an LSTM on its last state, `tokens` a language model whose loss is over all steps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
BATCH, WIDTH, HIDDEN, WORDS = 16, 32, 64, 200
SHORTEST, LONGEST = 5, 60
CASES = {"last": "LSTM trained on its last state", "tokens": "LSTM language model, masked loss over all steps"}


def network(tf: Any, cells: Any, case: str) -> tuple[Any, Any]:
    """Fetches of a training step, and a function of a length that makes its feeds."""
    random = np.random.RandomState(0)
    cell = cells.BasicLSTMCell(HIDDEN)
    if case == "last":
        x = tf.placeholder(tf.float32, [BATCH, None, WIDTH])
        y = tf.placeholder(tf.float32, [BATCH, HIDDEN])
        _, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(state[1] - y))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        wanted = random.randn(BATCH, HIDDEN).astype(np.float32)
        return [loss, step], lambda n: {x: random.randn(BATCH, n, WIDTH).astype(np.float32), y: wanted}
    words = tf.placeholder(tf.int32, [BATCH, None])
    following = tf.placeholder(tf.int32, [BATCH, None])
    lengths = tf.placeholder(tf.int32, [BATCH])
    embedded = tf.nn.embedding_lookup(tf.get_variable("embedding", [WORDS, WIDTH]), words)
    outputs, _ = tf.nn.dynamic_rnn(cell, embedded, sequence_length=lengths, dtype=tf.float32)
    weights = tf.get_variable("weights", [HIDDEN, WORDS])
    flat = tf.matmul(tf.reshape(outputs, [-1, HIDDEN]), weights)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(following, [-1]), logits=flat)
    mask = tf.reshape(tf.sequence_mask(lengths, tf.shape(words)[1], dtype=tf.float32), [-1])
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    def feed(n: int) -> dict[Any, Any]:
        made = random.randint(0, WORDS, (2, BATCH, n))
        return {words: made[0], following: made[1], lengths: random.randint(1, n + 1, BATCH)}

    return [loss, step], feed


def measure(peer: str, case: str, steps: int) -> dict[str, float]:
    """One cold start in this process."""
    if peer == "tf":
        import tensorflow.compat.v1 as tf
        from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells

        tf.disable_v2_behavior()
    else:
        import anabranch as tf

        cells = tf.nn.rnn_cell
    fetches, feed = network(tf, cells, case)
    sizes = np.random.RandomState(1).randint(SHORTEST, LONGEST + 1, steps)
    wall, processor = time.perf_counter(), time.process_time()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for size in sizes:
            loss, _ = session.run(fetches, feed(size))
    return {
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "loss": float(loss),
    }


def main() -> None:
    """Parses arguments, starts the processes in turns, prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="tf=INTERPRETER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(measure(options.peer, options.cases[0], options.steps)))
        return
    interpreters = {"anabranch": sys.executable, **dict(item.split("=", 1) for item in options.python)}
    print(f"| {options.steps} steps of {SHORTEST} to {LONGEST} words | " + " | ".join(interpreters) + " | ratio |")
    print("|---|" + "---|" * (len(interpreters) + 1))
    for case in options.cases:
        found: dict[str, list[dict[str, float]]] = {peer: [] for peer in interpreters}
        for _ in range(options.rounds):
            for peer, interpreter in interpreters.items():
                command = [interpreter, str(Path(__file__).name), "--peer", peer, "--steps", str(options.steps), case]
                environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
                done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, env=environment, check=True)
                found[peer].append(json.loads(done.stdout.splitlines()[-1]))
        walls = {peer: statistics.median(row["wall"] for row in rows) for peer, rows in found.items()}
        processor = {peer: statistics.median(row["processor"] for row in rows) for peer, rows in found.items()}
        cells = [f"{walls[peer]:.2f} s ({processor[peer]:.2f} s)" for peer in interpreters]
        ratio = f"{walls['anabranch'] / walls['tf']:.2f}" if "tf" in walls else "-"
        print(f"| {CASES[case]} | " + " | ".join(cells) + f" | {ratio} |", flush=True)
    print(f"\nIn parentheses processor time; {os.cpu_count()} cores; load {os.getloadavg()[0]:.2f}.")


if __name__ == "__main__":
    main()
