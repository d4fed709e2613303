"""Single ops over the sizes that programs use, here and in TensorFlow: CPU time and elapsed, and where we are slower.

Usage: python benchmarks/ops.py --tf INTERPRETER [--only TEXT ...] [--rounds N] [--all] [--json FILE]

Each case is an op on variables whose result another variable takes, so that neither feeds nor fetches count and nothing
can be left out. Systems take turns; the least of the rounds counts, as other work on the machine only adds. Printed are
the cases in which we take more than 1.2 times TensorFlow's CPU time (with ``--all``, every case). The column `lax` is
Anabranch without oneDNN, `all` with oneDNN for every convolution however small: what the table in
``anabranch/xla/onednn/choice.py`` is made from.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SLOW = 1.2


# --------------------------------------------------------------------------------------------------------------- cases
def variable(tf: Any, *shape: int, dtype: Any = np.float32) -> Any:
    """A variable of draws."""
    return tf.Variable(np.random.RandomState(sum(shape)).standard_normal(shape).astype(dtype))


def kept(tf: Any, value: Any) -> Any:
    """The op that puts a result into a variable."""
    shape = [int(size) for size in value.shape]
    return tf.assign(tf.Variable(np.zeros(shape, value.dtype.as_numpy_dtype)), value).op


def convolution(kind: str, batch: int, size: Any, window: Any, stride: int, inputs: int, outputs: int, **more: Any):
    """A case of a 2-D convolution; sizes and windows are numbers or pairs."""
    padding, dilation = more.get("padding", "SAME"), more.get("dilation", 1)
    sizes, windows = (pair if isinstance(pair, tuple) else (pair, pair) for pair in (size, window))

    def build(tf: Any) -> Any:
        x, f = variable(tf, batch, *sizes, inputs), variable(tf, *windows, inputs, outputs)
        attrs = {"strides": [1, stride, stride, 1], "padding": padding, "dilations": [1, dilation, dilation, 1]}
        y = tf.nn.conv2d(x, f, **attrs)
        if kind == "forward":
            return kept(tf, y)
        g = variable(tf, *(int(n) for n in y.shape))
        return kept(tf, tf.gradients(y, x if kind == "input" else f, g)[0])

    return build


def depthwise(kind: str, batch: int, size: int, window: int, stride: int, channels: int):
    """A case of a depthwise convolution."""

    def build(tf: Any) -> Any:
        x, f = variable(tf, batch, size, size, channels), variable(tf, window, window, channels, 1)
        y = tf.nn.depthwise_conv2d(x, f, [1, stride, stride, 1], "SAME")
        if kind == "forward":
            return kept(tf, y)
        g = variable(tf, *(int(n) for n in y.shape))
        return kept(tf, tf.gradients(y, x if kind == "input" else f, g)[0])

    return build


def volume(kind: str, batch: int, size: int, window: int, inputs: int, outputs: int):
    """A case of a 3-D convolution."""

    def build(tf: Any) -> Any:
        x, f = variable(tf, batch, size, size, size, inputs), variable(tf, *(window,) * 3, inputs, outputs)
        y = tf.nn.conv3d(x, f, [1] * 5, "SAME")
        if kind == "forward":
            return kept(tf, y)
        g = variable(tf, *(int(n) for n in y.shape))
        return kept(tf, tf.gradients(y, x if kind == "input" else f, g)[0])

    return build


def pooling(name: str, gradient: bool, batch: int, size: int, channels: int, window: int, stride: int, padding: str):
    """A case of a pooling, of images or of volumes."""
    rank = 3 if name.endswith("3d") else 2

    def build(tf: Any) -> Any:
        x = variable(tf, batch, *[size] * rank, channels)
        y = getattr(tf.nn, name)(x, [1, *[window] * rank, 1], [1, *[stride] * rank, 1], padding)
        return kept(tf, tf.gradients(y, x, variable(tf, *map(int, y.shape)))[0] if gradient else y)

    return build


def batch_norm(kind: str, *shape: int):
    """A case of batch norm: ``forward``, ``gradient`` (of all operands), of given statistics, or by ``moments``."""

    def build(tf: Any) -> Any:
        x, scale, offset = variable(tf, *shape), variable(tf, shape[-1]), variable(tf, shape[-1])
        if kind.startswith("moments"):
            mean, variance = tf.nn.moments(x, list(range(len(shape) - 1)))
            y = tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)
        elif kind.startswith("inference"):
            mean, variance = variable(tf, shape[-1]), tf.Variable(np.ones(shape[-1], np.float32))
            y = tf.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)[0]
        else:
            y = tf.nn.fused_batch_norm(x, scale, offset)[0]
        if not kind.endswith("gradient"):
            return kept(tf, y)
        return tf.group(*[kept(tf, part) for part in tf.gradients(y, [x, scale, offset], variable(tf, *shape))])

    return build


def dense(activation: str, batch: int, inputs: int, outputs: int):
    """A case of a dense layer."""

    def build(tf: Any) -> Any:
        x, w, b = variable(tf, batch, inputs), variable(tf, inputs, outputs), variable(tf, outputs)
        return kept(tf, getattr(tf.nn, activation)(tf.nn.bias_add(tf.matmul(x, w), b)))

    return build


def pattern(rows: int, columns: int, count: int, seed: int) -> np.ndarray:
    """Places of a sparse matrix, in order."""
    flat = np.sort(np.random.RandomState(seed).choice(rows * columns, count, replace=False))
    return np.stack([flat // columns, flat % columns], axis=1).astype(np.int64)


def sparse(name: str, gradient: bool, rows: int, columns: int, count: int):
    """A case of an op on sparse matrices."""

    def build(tf: Any) -> Any:
        values = variable(tf, count)
        a = tf.SparseTensor(pattern(rows, columns, count, 1), values, [rows, columns])
        if name == "add":
            b = tf.SparseTensor(pattern(rows, columns, count, 2), variable(tf, count), [rows, columns])
            result = tf.sparse_add(a, b).values
        elif name == "softmax":
            result = tf.sparse_softmax(a).values
        elif name == "reorder":
            result = tf.sparse_reorder(a).values
        elif name == "transpose":
            result = tf.sparse_transpose(a).values
        elif name == "concat":
            result = tf.sparse_concat(0, [a, a]).values
        elif name == "dense":
            result = tf.sparse_tensor_to_dense(a)
        elif name == "reduce_sum":
            result = tf.sparse_reduce_sum(a, 1)
        elif name == "times_dense":
            result = (a * variable(tf, rows, columns)).values
        else:
            result = tf.sparse_tensor_dense_matmul(a, variable(tf, columns, 64))
        if gradient:
            return tf.reduce_sum(tf.gradients(tf.reduce_sum(result * result), values)[0])
        return tf.reduce_sum(result)

    return build


def segments(name: str, gradient: bool, rows: int, width: int, groups: int):
    """A case of a segment op."""

    def build(tf: Any) -> Any:
        ids = np.random.RandomState(0).randint(0, groups, rows)
        x = variable(tf, rows, width)
        if name.startswith("unsorted"):
            y = getattr(tf, name)(x, tf.constant(ids), groups)
        elif name.startswith("sparse"):
            y = getattr(tf, name)(x, tf.constant(ids), tf.constant(np.sort(ids)))
        else:
            y = getattr(tf, name)(x, tf.constant(np.sort(ids)))
        return tf.reduce_sum(tf.gradients(tf.reduce_sum(y * y), x)[0] if gradient else y)

    return build


def cases() -> dict[str, Any]:
    """All cases by name."""
    found: dict[str, Any] = {}
    dense_shapes = [
        # batch, size, window, stride, inputs, outputs
        (32, 84, 8, 4, 4, 32),
        (32, 20, 4, 2, 32, 64),
        (32, 9, 3, 1, 64, 64),
        (128, 28, 5, 1, 1, 32),
        (128, 14, 3, 1, 32, 64),
        (128, 7, 3, 1, 64, 128),
        (32, 32, 3, 1, 3, 32),
        (32, 32, 3, 1, 32, 32),
        (32, 16, 3, 1, 64, 64),
        (32, 8, 3, 1, 128, 128),
        (8, 14, 3, 1, 256, 256),
        (4, 7, 3, 1, 512, 512),
        (32, 32, 3, 2, 32, 64),
        (32, 16, 1, 1, 64, 128),
        (32, 16, 1, 2, 64, 128),
        (8, 64, 1, 1, 16, 16),
        (1, 224, 3, 1, 3, 64),
        (1, 56, 3, 1, 64, 64),
        (1, 14, 3, 1, 256, 256),
        (8, 224, 7, 2, 3, 64),
        (8, 64, 3, 1, 16, 16),
        (1, 28, 3, 1, 8, 8),
        (4, 12, 3, 1, 16, 16),
        (1, 8, 3, 1, 4, 8),
        (16, 6, 3, 1, 8, 8),
        (8, 55, 11, 4, 3, 64),
        (32, 14, 5, 2, 64, 128),
        (8, 224, 4, 4, 3, 64),
    ]
    for shape in dense_shapes:
        for kind in ("forward", "input", "filter"):
            batch, size, window, stride, inputs, outputs = shape
            name = f"conv {kind} {batch}x{size}x{size} {window}x{window}/{stride} {inputs}>{outputs}"
            found[name] = convolution(kind, *shape)
            if (window, stride, size) == (3, 1, 16):
                found[name + " dilated 2"] = convolution(kind, *shape, dilation=2)
    for shape in (
        # batch, sizes, window, stride, inputs, outputs: few channels, and windows with few places
        (8, (56, 128), (3, 100), 1, 1, 32),
        (8, (56, 128), (3, 100), 1, 8, 32),
        (8, (40, 40), (25, 25), 1, 4, 16),
        (128, (28, 28), (5, 5), 1, 1, 32),
        (64, (28, 28), (4, 4), 2, 1, 32),
        (64, (32, 32), (5, 5), 2, 3, 64),
        (16, (64, 64), (7, 7), 2, 3, 64),
    ):
        batch, sizes, windows, stride, inputs, outputs = shape
        padding = "VALID" if max(windows) > 7 else "SAME"
        name = (
            f"conv input {batch}x{sizes[0]}x{sizes[1]} {windows[0]}x{windows[1]}/{stride} {inputs}>{outputs} {padding}"
        )
        found[name] = convolution("input", *shape, padding=padding)
    for shape in ((16, 32, 3, 1, 64), (16, 32, 3, 2, 64), (16, 16, 5, 1, 128), (1, 16, 3, 1, 32)):
        for kind in ("forward", "input", "filter"):
            batch, size, window, stride, channels = shape
            name = f"depthwise {kind} {batch}x{size}x{size} {window}x{window}/{stride} {channels}"
            found[name] = depthwise(kind, *shape)
    for kind in ("forward", "input", "filter"):
        found[f"conv3d {kind} 4x16x16x16 3x3x3 16>32"] = volume(kind, 4, 16, 3, 16, 32)
    for name in ("max_pool", "avg_pool"):
        for shape in (
            (32, 32, 64, 2, 2, "SAME"),
            (32, 28, 64, 3, 2, "SAME"),
            (32, 28, 64, 3, 2, "VALID"),
            (32, 14, 64, 3, 1, "SAME"),
            (8, 28, 32, 5, 3, "VALID"),
        ):
            for gradient in (False, True):
                told = f"{name} {'gradient' if gradient else 'forward'} {shape}"
                found[told] = pooling(name, gradient, *shape)
        for shape in ((4, 16, 32, 2, 2, "SAME"), (4, 16, 32, 3, 2, "VALID")):
            for gradient in (False, True):
                told = f"{name}3d {'gradient' if gradient else 'forward'} {shape}"
                found[told] = pooling(f"{name}3d", gradient, *shape)
    for shape in ((32, 32, 32, 32), (32, 8, 8, 128), (128, 256)):
        kinds = (
            "forward",
            "gradient",
            "inference forward",
            "inference gradient",
            "moments forward",
            "moments gradient",
        )
        for kind in kinds if len(shape) == 4 else kinds[4:]:
            found[f"batch_norm {kind} {shape}"] = batch_norm(kind, *shape)
    for activation in ("relu", "tanh", "elu"):
        for shape in ((32, 512, 512), (128, 784, 1024)):
            found[f"dense {activation} {shape}"] = dense(activation, *shape)
    for name in ("add", "softmax", "reorder", "transpose", "concat", "dense", "reduce_sum", "times_dense", "matmul"):
        for gradient in (False, True):
            told = f"sparse {name}{' gradient' if gradient else ''} 2708x2708 13264"
            found[told] = sparse(name, gradient, 2708, 2708, 13264)
    for name in (
        "segment_sum",
        "segment_mean",
        "segment_max",
        "unsorted_segment_sum",
        "unsorted_segment_max",
        "sparse_segment_sum",
        "sparse_segment_mean",
    ):
        for gradient in (False, True):
            found[f"{name}{' gradient' if gradient else ''} 13264x64"] = segments(name, gradient, 13264, 64, 2708)
    return found


# -------------------------------------------------------------------------------------------------------------- worker
def work(system: str) -> None:
    """Serves ``{"case": name, "seconds": s}``: the least CPU time and elapsed time of a run, of some in a row."""
    answers, sys.stdout = sys.stdout, sys.stderr
    if system == "tf":
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        config = None
    else:
        import anabranch as tf

        if system == "all":
            from anabranch.xla.onednn import choice

            choice.pays = lambda work, native: True
        config = tf.SessionOptions(tier="compiled")
    known, ready = cases(), {}
    for line in sys.stdin:
        command = json.loads(line)
        name = command["case"]
        try:
            if name not in ready:
                with tf.Graph().as_default() as graph:
                    fetch = known[name](tf)
                    session = tf.Session(graph=graph, config=config)
                    session.run(tf.global_variables_initializer())
                ready[name] = session.make_callable(fetch)
                ready[name]()
            run = ready[name]
            run()
            started, cpu, count = time.perf_counter(), time.process_time(), 0
            best = math.inf
            while time.perf_counter() - started < command["seconds"] or not count:
                before = time.perf_counter()
                run()
                best = min(best, time.perf_counter() - before)
                count += 1
            answer = {"cpu": (time.process_time() - cpu) / count * 1e3, "elapsed": best * 1e3}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"[:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Worker:
    """A system's process."""

    def __init__(self, interpreter: str, system: str):
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        if system == "lax":
            environment["ANABRANCH_ONEDNN"] = "off"
        self._process = subprocess.Popen(
            [interpreter, __file__, "--worker", system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"error": "the process died"}

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait(30)


def main() -> None:
    """Parses arguments, measures, prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf", metavar="INTERPRETER", help="a Python with TensorFlow")
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose names begin with one of these")
    parser.add_argument("--systems", default="anabranch,lax", help="among anabranch, lax, all")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.05, help="how long a case runs in each round, at least once")
    parser.add_argument("--all", action="store_true", help="print every case")
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    interpreters = {system: sys.executable for system in options.systems.split(",")}
    if options.tf:
        interpreters["tf"] = options.tf
    workers = {system: Worker(interpreter, system) for system, interpreter in interpreters.items()}
    print("| case, ms of CPU time (elapsed) | " + " | ".join(workers) + " | to TensorFlow |")
    print("|---|" + "---|" * (len(workers) + 1), flush=True)
    found: dict[str, Any] = {}
    for name in cases():
        if not name.startswith(tuple(options.only)):
            continue
        row: dict[str, Any] = {}
        for _ in range(options.rounds):
            for system, worker in workers.items():
                answer = worker.ask(case=name, seconds=options.seconds)
                before = row.setdefault(system, answer)
                if "cpu" in answer and "cpu" in before:
                    row[system] = {what: min(answer[what], before[what]) for what in answer}
        found[name] = row
        cells = [f"{r['cpu']:.2f} ({r['elapsed']:.2f})" if "cpu" in r else r["error"][:60] for r in row.values()]
        first = next(iter(row.values()))
        known = "cpu" in first and "cpu" in row.get("tf", {})
        ratio = first["cpu"] / row["tf"]["cpu"] if known else 0.0
        if options.all or ratio > SLOW or not known:
            print(f"| {name} | " + " | ".join(cells) + f" | {ratio:.2f} |", flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(found, indent=1))
    for worker in workers.values():
        worker.close()
    print(f"\n{len(found)} cases, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
