"""Saving and restoring variables, against what NumPy and TensorFlow reach on the same disk in the same run.

    python benchmarks/checkpoints.py [--megabytes 1000] [--repeat 3] [--folder FOLDER] [--tensorflow PYTHON]

`numpy.save` and `numpy.load` write and read one array of that size. Anabranch and TensorFlow (in the environment whose
Python is given) save and restore 8 variables that make up the same size through `tf.train.Saver`. Anabranch forces
files to the disk before they count, as a checkpoint must be; NumPy's time is given without and with that. They take
turns, `--repeat` times; the best counts.

With `--asynchronous`, it measures what training notices of an asynchronous save: a step of a model of that size, alone,
the call of `save`, and the steps while the checkpoint is being written, in turn, `--repeat` times; medians count.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

VARIABLES = 8


def timed(function: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


@contextlib.contextmanager
def saver_round(tf: Any, folder: str, megabytes: float) -> Iterator[Callable[[], dict[str, float]]]:
    """A function that measures `Saver.save` and `Saver.restore` once."""
    count = int(megabytes * 1e6 / 4 / VARIABLES)
    numbers = itertools.count()
    with tf.Graph().as_default(), tf.Session() as session:
        values = tf.placeholder(tf.float32, [count])
        variables = [tf.Variable(tf.zeros([count]), name=f"v{i}") for i in range(VARIABLES)]
        given = [variable.assign(values).op for variable in variables]
        saver = tf.train.Saver(max_to_keep=None)
        session.run(given, {values: np.random.default_rng(0).random(count, np.float32)})

        def once() -> dict[str, float]:
            path = os.path.join(folder, f"model-{next(numbers)}")
            found = {"save": timed(functools.partial(saver.save, session, path, write_meta_graph=False))}
            with tf.Session() as other:  # as a program that starts again does it
                found["restore"] = timed(functools.partial(saver.restore, other, path))
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))
            return found

        yield once


def numpy_round(folder: str, array: np.ndarray) -> dict[str, float]:
    """Times of `numpy.save`, of it with fsync, and of `numpy.load`."""
    path = os.path.join(folder, "array.npy")

    def save(sync: bool) -> None:
        with open(path, "wb") as stream:
            np.save(stream, array)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())

    found = {}
    loaded = []  # a restore, too, has nothing to let go
    for key, sync in (("save", False), ("save and fsync", True)):
        found[key] = timed(lambda sync=sync: save(sync))
        found["load"] = timed(lambda: loaded.append(np.load(path)))
        loaded.clear()
        os.remove(path)
    return found


@contextlib.contextmanager
def tensorflow_round(given: argparse.Namespace, folder: str) -> Iterator[Callable[[], dict[str, float]]]:
    """A function that measures TensorFlow's saver once, in a process of its own."""
    command = [given.tensorflow, __file__, "--as-tensorflow", "--megabytes", str(given.megabytes), "--folder", folder]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def once() -> dict[str, float]:
        process.stdin.write("once\n")
        process.stdin.flush()
        while not (line := process.stdout.readline()).startswith("{"):
            if not line:
                raise RuntimeError("TensorFlow's process has ended")
        return json.loads(line)

    try:
        yield once
    finally:
        process.stdin.close()
        process.wait()


def step_times(tf: Any, folder: str, megabytes: float, rounds: int) -> dict[str, list[float]]:
    """Seconds of training steps of a model of ``megabytes``: alone, the call of `save`, and steps during the write.

    Each round has four steps alone, of which the last three count, a save, and steps until it is on the disk.
    """
    width = int((megabytes * 1e6 / 4 / 4) ** 0.5)
    found: dict[str, list[float]] = {"alone": [], "call": [], "first": [], "second": [], "later": [], "write": []}
    with tf.Graph().as_default(), tf.Session() as session:
        h = tf.random_normal([128, width], seed=1)
        for i in range(4):
            h = tf.tanh(tf.matmul(h, tf.get_variable(f"w{i}", [width, width])))
        train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(tf.square(h)))
        saver = tf.train.Saver(asynchronous=True)
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        while any(thread.name == "anabranch-spares" for thread in threading.enumerate()):
            session.run(train)
        for _ in range(rounds):
            found["alone"] += [timed(lambda: session.run(train)) for _ in range(4)][1:]
            start = time.perf_counter()
            found["call"].append(timed(lambda: saver.save(session, os.path.join(folder, "model"))))
            during = []
            while saver._background._thread.is_alive():
                during.append(timed(lambda: session.run(train)))
            found["write"].append(time.perf_counter() - start)
            saver.wait()
            for key, times in (("first", during[:1]), ("second", during[1:2]), ("later", during[2:])):
                found[key] += times
    return found


def main() -> None:
    """Runs the benchmark and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--tensorflow", default=None, help="Python of an environment with TensorFlow")
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--as-tensorflow", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="checkpoints-", dir=given.folder)
    try:
        if given.as_tensorflow:
            import tensorflow.compat.v1 as tf

            tf.disable_eager_execution()
            tf.disable_resource_variables()
            with saver_round(tf, folder, given.megabytes) as once:
                for _ in sys.stdin:
                    print(json.dumps(once()), flush=True)
            return
        import anabranch as tf

        if given.asynchronous:
            found = step_times(tf, folder, given.megabytes, given.repeat)
            alone = statistics.median(found["alone"])
            for name, told in (
                ("alone", "a step alone"),
                ("call", "the call of save"),
                ("first", "the first step during the write"),
                ("second", "the second one"),
                ("later", "the others"),
                ("write", "until it is on the disk"),
            ):
                times = found[name]
                if times:
                    median = statistics.median(times)
                    print(f"{told:36} {median:8.3f} s {median / alone:7.3f} of a step   ({len(times)} times)")
            return
        tables: dict[str, dict[str, float]] = {}

        def note(library: str, times: dict[str, float]) -> None:
            best = tables.setdefault(library, times)
            for key, seconds in times.items():
                best[key] = min(best[key], seconds)

        array = np.random.default_rng(0).random(int(given.megabytes * 1e6 / 4), np.float32)
        with contextlib.ExitStack() as stack:
            ours = stack.enter_context(saver_round(tf, folder, given.megabytes))
            theirs = stack.enter_context(tensorflow_round(given, folder)) if given.tensorflow else None
            for _ in range(given.repeat):
                note("numpy", numpy_round(folder, array))
                note("anabranch", ours())
                if theirs is not None:
                    note("tensorflow", theirs())
        for library, times in tables.items():
            for what, seconds in times.items():
                peer = tables["numpy"]["load" if what in ("load", "restore") else "save and fsync"]
                print(
                    f"{library:12} {what:16} {seconds:7.3f} s  {given.megabytes / 1000 / seconds:6.2f} GB/s  "
                    f"{peer / seconds:5.0%} of NumPy's"
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
