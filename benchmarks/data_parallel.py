"""Data-parallel training by several processes of this machine: a copy of the model in each, gradients summed over all.

    python benchmarks/data_parallel.py [--torch PYTHON] [--processes 1,2,4] [--rounds 5] [MODEL ...]

Anabranch trains by `tf.distribute.experimental.MultiWorkerMirroredStrategy`, a task per process; PyTorch, whose
interpreter PYTHON is, by `DistributedDataParallel` over gloo. The processes of both share out the cores; gradients are
summed, each process has its own loss. The models:
two hidden layers of 1,024 units on 784 numbers (``mlp``, gradients of 7.5 MB), and two convolutions with a dense layer
of 256 units on 32 x 32 x 3 (``conv``, 4.5 MB). Each process steps on 64 rows. Systems take turns; printed are medians
over rounds: rows a second of all processes together, and the CPU time of all for 64 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from typing import Any

from tasks import Tasks, import_tensorflow

ROWS, STEPS = 64, 60
WARM_UP = 200
"""Steps before the first that counts: by then the programs of all processes are compiled."""
SHAPES = {"mlp": [784], "conv": [32, 32, 3]}


def answer(steps: Any) -> None:
    """Say that this process is ready; for each line that comes, run the steps and print the seconds of one."""
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.time()
        steps(STEPS)
        print((time.time() - started) / STEPS, flush=True)


def threads_of(workers: int) -> int:
    """Threads of a process, if all share the cores."""
    return max(1, (os.cpu_count() or 1) // workers)


def anabranch_task(index: int, addresses: dict[str, list[str]], model: str) -> None:
    """A worker of Anabranch."""
    tf = import_tensorflow("anabranch")
    import numpy as np

    workers = len(addresses["worker"])
    cluster = tf.train.ClusterSpec(addresses)
    server = tf.train.Server(cluster, job_name="worker", task_index=index)
    if workers > 1:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=index)
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    else:
        strategy = tf.distribute.OneDeviceStrategy("/device:CPU:0")
    generator = np.random.default_rng(0)
    x = generator.normal(size=[ROWS * workers, *SHAPES[model]]).astype("f")
    y = generator.integers(0, 10, ROWS * workers)

    def work(batch: Any) -> Any:
        rows, labels = batch
        if model == "conv":
            for filters in (32, 64):
                rows = tf.layers.conv2d(rows, filters, 3, padding="same", activation=tf.nn.relu)
                rows = tf.layers.max_pooling2d(rows, 2, 2)
            rows = tf.layers.dense(tf.layers.flatten(rows), 256, activation=tf.nn.relu)
        else:
            for _ in range(2):
                rows = tf.layers.dense(rows, 1024, activation=tf.nn.relu)
        logits = tf.layers.dense(rows, 10)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)) / workers
        with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.01).minimize(loss)]):
            return tf.identity(loss)

    with strategy.scope():
        data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(ROWS * workers)
        iterator = strategy.make_dataset_iterator(data)
        losses = strategy.experimental_local_results(strategy.experimental_run(work, iterator))
        threads = tf.ConfigProto(intra_op_parallelism_threads=threads_of(workers))
        with tf.Session(server.target, config=threads) as session:
            session.run(iterator.initialize())
            session.run(tf.global_variables_initializer())

            def steps(count: int) -> None:
                for _ in range(count):
                    session.run(losses)

            steps(WARM_UP)
            answer(steps)


def torch_task(index: int, addresses: dict[str, list[str]], model: str) -> None:
    """A process of PyTorch."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    workers = len(addresses["worker"])
    torch.set_num_threads(threads_of(workers))
    where = addresses["worker"][0]
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{where}", rank=index, world_size=workers)
    nn = torch.nn
    if model == "conv":
        layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        layers += [nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10)]
    else:
        layers = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
    network = nn.Sequential(*layers)
    if workers > 1:
        network = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    shape = SHAPES[model]
    x = torch.randn(ROWS, *([shape[-1], *shape[:-1]]))  # its layout: channels first
    y = torch.randint(0, 10, (ROWS,))

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()

    steps(WARM_UP)
    answer(steps)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="mlp, conv; both by default")
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run = anabranch_task if options.system == "anabranch" else torch_task
        run(int(options.task[1]), json.loads(options.cluster), options.model)
        return
    if unknown := set(options.models) - set(SHAPES):
        parser.error(f"unknown models {sorted(unknown)}: there are {sorted(SHAPES)}")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # its processes end with it
    systems = [("anabranch", sys.executable)] + ([("torch", options.torch)] if options.torch else [])
    for model in options.models or SHAPES:
        for workers in map(int, options.processes.split(",")):
            groups = [
                Tasks(__file__, python, system, servers=0, workers=workers, more=["--model", model])
                for system, python in systems
            ]
            try:
                for group in groups:
                    group.wait()
                figures: list[list[tuple[float, float]]] = [[] for _ in groups]
                for _ in range(options.rounds):
                    for group, rounds in zip(groups, figures, strict=True):
                        before = group.cpu_seconds()
                        seconds = statistics.median(map(float, group.ask("steps")))
                        cpu = (group.cpu_seconds() - before) / STEPS / workers
                        rounds.append((seconds, cpu))
                for (name, _), rounds in zip(systems, figures, strict=True):
                    seconds, cpu = map(statistics.median, zip(*rounds, strict=True))
                    print(
                        f"{model}, {workers} processes, {name}: {ROWS * workers / seconds:.0f} rows/s, "
                        f"CPU {cpu * 1e3:.1f} ms for {ROWS} rows",
                        flush=True,
                    )
            finally:
                for group in groups:
                    group.stop()


if __name__ == "__main__":
    main()
