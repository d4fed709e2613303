"""A language model over parameter servers: the full softmax beside the sampled one.

    python benchmarks/softmax.py [--tensorflow PYTHON]... [--servers 1,2,4] [--rounds 5]

The embedding and the softmax's weights (40,000 words of 512 numbers) are in as many parts as there are parameter
servers, a part on each. The full softmax multiplies, and has its gradient, where the parts are, as in the paper; the
sampled one fetches 512 words' rows, besides those that are right. One worker trains an LSTM of 512 units on 16
sequences of 8 words, by gradient descent. Systems and both forms take turns; printed are medians over rounds: words a
second, and the CPU time of a step in all processes together. The losses must agree, of the sampled one with the form
of the same system: it estimates the full one's.
PYTHON is an interpreter that has TensorFlow (1.x, or 2.x through `tf.compat.v1`).
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import time
from typing import Any

from tasks import Tasks, import_tensorflow

WORDS, SIZE, SAMPLES = 40_000, 512, 512
SEQUENCES, LENGTH = 16, 8
STEPS = {"full": 3, "sampled": 6}
WARM_UP = 20
"""Steps after which Anabranch has compiled its parts, which it does beside steps that are interpreted."""


def losses(tf: Any, ids: Any, targets: Any, servers: int) -> dict[str, Any]:
    """The loss of each form, over one set of variables."""
    parts = tf.fixed_size_partitioner(servers)
    table = tf.get_variable(
        "table", [WORDS, SIZE], initializer=tf.random_uniform_initializer(-0.1, 0.1, 1), partitioner=parts
    )
    weights = tf.get_variable(
        "weights", [WORDS, SIZE], initializer=tf.random_uniform_initializer(-0.1, 0.1, 2), partitioner=parts
    )
    biases = tf.get_variable("biases", [WORDS], initializer=tf.zeros_initializer(), partitioner=parts)
    inputs = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
    kernel = tf.get_variable("kernel", [2 * SIZE, 4 * SIZE], initializer=tf.random_uniform_initializer(-0.05, 0.05, 3))
    state = cell = tf.zeros([SEQUENCES, SIZE])
    states = []
    for x in tf.unstack(inputs, axis=1):
        i, j, f, o = tf.split(tf.matmul(tf.concat([x, state], 1), kernel), 4, axis=1)
        cell = cell * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        state = tf.tanh(cell) * tf.sigmoid(o)
        states.append(state)
    hidden = tf.reshape(tf.stack(states, 1), [SEQUENCES * LENGTH, SIZE])
    flat = tf.reshape(targets, [-1])
    products = []
    for part, bias in zip(list(weights), list(biases)):  # noqa: B905  Python 3.7 runs this, too
        with tf.colocate_with(part):
            products.append(tf.matmul(hidden, part, transpose_b=True) + bias)
    full = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=tf.concat(products, 1))
    sampled = tf.nn.sampled_softmax_loss(
        weights=list(weights),
        biases=list(biases),
        labels=flat[:, None],
        inputs=hidden,
        num_sampled=SAMPLES,
        num_classes=WORDS,
        partition_strategy="div",
    )
    return {"full": tf.reduce_mean(full), "sampled": tf.reduce_mean(sampled)}


def task(job: str, index: int, addresses: dict[str, list[str]], system: str) -> None:
    """One task: a server that waits, or the worker, which trains as many steps as a line asks for."""
    tf = import_tensorflow(system)
    import numpy as np

    cluster = tf.train.ClusterSpec(addresses)
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
        ids = tf.placeholder(tf.int32, [SEQUENCES, LENGTH])
        targets = tf.placeholder(tf.int32, [SEQUENCES, LENGTH])
        forms = losses(tf, ids, targets, len(addresses["ps"]))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        steps = {
            name: [loss, optimizer.minimize(loss, colocate_gradients_with_ops=True)] for name, loss in forms.items()
        }
        initialize = tf.global_variables_initializer()
    generator = np.random.RandomState(0)

    def feed() -> dict[Any, Any]:
        # words are about as frequent as in a text: the candidates' distribution expects it
        words = np.exp(generator.uniform(0.0, np.log(WORDS), [SEQUENCES, LENGTH + 1])).astype("i") - 1
        return {ids: words[:, :-1], targets: words[:, 1:]}

    with tf.Session(server.target) as session:
        session.run(initialize)
        for fetches in steps.values():
            for _ in range(WARM_UP):
                session.run(fetches, feed())
        print("ready", flush=True)
        for line in sys.stdin:
            name = line.strip()
            started = time.time()
            values = [session.run(steps[name], feed())[0] for _ in range(STEPS[name])]
            seconds = (time.time() - started) / STEPS[name]
            print(seconds, float(np.mean(values)), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow", action="append", default=[], metavar="PYTHON")
    parser.add_argument("--servers", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    parser.add_argument("--system", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        task(options.task[0], int(options.task[1]), json.loads(options.cluster), options.system)
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # its processes end with it
    systems = [("anabranch", sys.executable)] + [("tensorflow", python) for python in options.tensorflow]
    for servers in map(int, options.servers.split(",")):
        groups = [Tasks(__file__, python, system, servers=servers) for system, python in systems]
        try:
            for group in groups:
                group.wait()
            figures: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
            for _ in range(options.rounds):
                for name, count in STEPS.items():
                    for number, group in enumerate(groups):
                        before = group.cpu_seconds()
                        seconds, loss = map(float, group.ask(name)[0].split())
                        cpu = (group.cpu_seconds() - before) / count
                        figures.setdefault((number, name), []).append((seconds, cpu, loss))
            for (number, name), rounds in figures.items():
                seconds, cpu, _ = map(statistics.median, zip(*rounds, strict=True))
                print(
                    f"{servers} servers, {name} softmax, {systems[number][1]}: "
                    f"{SEQUENCES * LENGTH / seconds:.0f} words/s, CPU {cpu * 1e3:.0f} ms a step, "
                    f"losses {rounds[0][2]:.3f} to {rounds[-1][2]:.3f}",
                    flush=True,
                )
        finally:
            for group in groups:
                group.stop()


if __name__ == "__main__":
    main()
