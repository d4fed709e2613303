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


def integers(tf: Any, limit: int, *shape: int, dtype: Any = np.int32) -> Any:
    """A variable of integers below ``limit``."""
    return tf.Variable(np.random.RandomState(sum(shape)).randint(0, limit, shape).astype(dtype))


def plain(function: Any, gradient: bool, *shape: int):
    """A case of a function of one array of floats, or of its gradient."""

    def build(tf: Any) -> Any:
        x = variable(tf, *shape)
        y = function(tf, x)
        if gradient:
            return kept(tf, tf.gradients(y, x, variable(tf, *map(int, y.shape)))[0])
        return kept(tf, y) if y.shape.is_fully_defined() else tf.reduce_sum(tf.cast(y, tf.float32))

    return build


def everyday() -> dict[str, Any]:
    """Cases of the families `math`, `array` and `image`: what losses and augmentations are made of."""
    flat, wide, images = (20000,), (256, 1000), (16, 64, 64, 3)
    both: dict[str, tuple[Any, tuple[int, ...]]] = {
        "math cumsum": (lambda tf, x: tf.cumsum(x, 1), wide),
        "math cumsum exclusive reverse": (lambda tf, x: tf.cumsum(x, 0, exclusive=True, reverse=True), wide),
        "math cumprod": (lambda tf, x: tf.cumprod(1 + 0.01 * x, 1), wide),
        "math logsumexp": (lambda tf, x: tf.reduce_logsumexp(x, 1), wide),
        "math top_k 10": (lambda tf, x: tf.nn.top_k(x, 10).values, wide),
        "math top_k all": (lambda tf, x: tf.nn.top_k(x, 1000).values, (32, 1000)),
        "math sort": (lambda tf, x: tf.sort(x), (64, 500)),
        "math norm": (lambda tf, x: tf.norm(x, axis=1), wide),
        "math erf": (lambda tf, x: tf.erf(x), wide),
        "math softplus": (lambda tf, x: tf.nn.softplus(x), wide),
        "math moments": (lambda tf, x: tf.nn.moments(x, [1])[1], wide),
        "math softmax": (lambda tf, x: tf.nn.softmax(x), wide),
        "math einsum bij,bjk->bik": (lambda tf, x: tf.einsum("bij,bkj->bik", x, x), (16, 64, 64)),
        "math rfft": (lambda tf, x: tf.abs(tf.signal.rfft(x)), (64, 1024)),
        "math stft": (lambda tf, x: tf.abs(tf.signal.stft(x, 256, 64, 256)), (8, 4096)),
        "math cholesky": (lambda tf, x: tf.cholesky(tf.matmul(x, x, transpose_b=True) + 99 * tf.eye(60)), (60, 60)),
        "math inverse of many": (lambda tf, x: tf.matrix_inverse(x + 9 * tf.eye(8)), (200, 8, 8)),
        "array gather": (lambda tf, x: tf.gather(x, integers(tf, 256, 1000)), wide),
        "array gather_nd": (lambda tf, x: tf.gather_nd(x, integers(tf, 256, 2000, 2)), wide),
        "array batch_gather": (lambda tf, x: tf.gather(x, integers(tf, 1000, 256, 20), batch_dims=1), wide),
        "array concat": (lambda tf, x: tf.concat([x, x, x], 1), wide),
        "array tile": (lambda tf, x: tf.tile(x, [4, 1, 2]), (64, 32, 32)),
        "array transpose": (lambda tf, x: tf.transpose(x, [0, 2, 1, 3]), (16, 40, 8, 32)),
        "array reverse": (lambda tf, x: tf.reverse(x, [1]), wide),
        "array roll": (lambda tf, x: tf.roll(x, 3, 1), wide),
        "array pad reflect": (lambda tf, x: tf.pad(x, [[0, 0], [2, 2], [2, 2], [0, 0]], "REFLECT"), images),
        "array pad": (lambda tf, x: tf.pad(x, [[0, 0], [2, 2], [2, 2], [0, 0]]), images),
        "array where": (lambda tf, x: tf.where(x > 0, x, -0.2 * x), wide),
        "array band": (lambda tf, x: tf.matrix_band_part(x, 3, 0), (16, 100, 100)),
        "array strided slice": (lambda tf, x: x[:, ::2, 1:], (64, 64, 64)),
        "array reverse_sequence": (
            lambda tf, x: tf.reverse_sequence(x, tf.constant(list(range(1, 33))), 1),
            (32, 40, 64),
        ),
        "array space_to_depth": (lambda tf, x: tf.space_to_depth(x, 2), (16, 64, 64, 16)),
        "array depth_to_space": (lambda tf, x: tf.depth_to_space(x, 2), (16, 32, 32, 64)),
        "image bilinear up": (lambda tf, x: tf.image.resize_bilinear(x, [128, 128]), images),
        "image bilinear down": (lambda tf, x: tf.image.resize_bilinear(x, [40, 40], align_corners=True), images),
        "image bilinear of features": (lambda tf, x: tf.image.resize_bilinear(x, [64, 64]), (8, 16, 16, 64)),
        "image nearest": (lambda tf, x: tf.image.resize_nearest_neighbor(x, [128, 128]), images),
        "image bicubic": (lambda tf, x: tf.image.resize_bicubic(x, [96, 96]), images),
        "image crop_and_resize": (
            lambda tf, x: tf.image.crop_and_resize(x, [[0.1, 0.1, 0.8, 0.9]] * 16, list(range(16)), [32, 32]),
            images,
        ),
        "image patches": (
            lambda tf, x: tf.extract_image_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1] * 4, "SAME"),
            images,
        ),
        "image adjust_contrast": (lambda tf, x: tf.image.adjust_contrast(x, 1.3), images),
        "image flip": (lambda tf, x: tf.image.flip_left_right(x), images),
        "nn lrn": (lambda tf, x: tf.nn.lrn(x, 4, 1.0, 0.001, 0.75), (8, 28, 28, 64)),
        "nn dropout": (lambda tf, x: tf.nn.dropout(x, rate=0.5, seed=1) * 0 + x, (256, 1000)),
    }
    forward: dict[str, tuple[Any, tuple[int, ...]]] = {
        "math argmax": (lambda tf, x: tf.argmax(x, 1), wide),
        "math in_top_k": (lambda tf, x: tf.nn.in_top_k(x, integers(tf, 1000, 256), 5), wide),
        "math floormod": (lambda tf, x: tf.floormod(integers(tf, 10**6, 20000, dtype=np.int64), 1003), flat),
        "math floordiv": (lambda tf, x: tf.floordiv(integers(tf, 10**6, 20000), integers(tf, 9, 20000) + 1), flat),
        "math cumsum of integers": (lambda tf, x: tf.cumsum(integers(tf, 99, 20000, dtype=np.int64)), flat),
        "math matmul of integers": (
            lambda tf, x: tf.matmul(integers(tf, 9, 200, 200), integers(tf, 9, 200, 200)),
            flat,
        ),
        "math bincount": (lambda tf, x: tf.bincount(integers(tf, 64, 20000), minlength=64, maxlength=64), flat),
        "math top_k of integers": (lambda tf, x: tf.nn.top_k(integers(tf, 10**6, 20000), 50)[0], flat),
        "array one_hot": (lambda tf, x: tf.one_hot(integers(tf, 100, 2000), 100), flat),
        "array sequence_mask": (lambda tf, x: tf.sequence_mask(integers(tf, 100, 256), 100, tf.float32), flat),
        "array boolean_mask": (lambda tf, x: tf.boolean_mask(x, x > 0), flat),
        "array unique": (lambda tf, x: tf.unique(integers(tf, 500, 20000))[0], flat),
        "array scatter_nd": (
            lambda tf, x: tf.scatter_nd(integers(tf, 300, 2000, 1), tf.ones([2000, 64]), [300, 64]),
            flat,
        ),
        "math argmin of columns": (lambda tf, x: tf.argmin(x, 0), wide),
        "image bilinear up summed": (lambda tf, x: tf.reduce_sum(tf.image.resize_bilinear(x, [128, 128])), images),
        "image bicubic summed": (lambda tf, x: tf.reduce_sum(tf.image.resize_bicubic(x, [96, 96])), images),
        "image means of channels": (lambda tf, x: tf.reduce_mean(x, [1, 2]), (8, 224, 224, 3)),
        "image adjust_hue": (lambda tf, x: tf.image.adjust_hue(tf.sigmoid(x), 0.1), images),
        "image adjust_saturation": (lambda tf, x: tf.image.adjust_saturation(tf.sigmoid(x), 1.2), images),
        "image standardize": (lambda tf, x: tf.map_fn(tf.image.per_image_standardization, x), images),
        "image non_max_suppression": (
            lambda tf, x: tf.image.non_max_suppression(tf.concat([x[:, :2], x[:, :2] + 1], 1), x[:, 2], 50, 0.5),
            (1000, 3),
        ),
    }
    found = {
        f"{name} {shape}": plain(function, False, *shape) for name, (function, shape) in {**both, **forward}.items()
    }
    gradients = {f"{name} gradient {shape}": plain(function, True, *shape) for name, (function, shape) in both.items()}
    return {**found, **gradients}


def cases() -> dict[str, Any]:
    """All cases by name."""
    found: dict[str, Any] = everyday()
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
