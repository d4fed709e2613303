"""Writes `tests/golden/library.json`: what TensorFlow's libraries make of the cases of `library_cases.py`.

    python tools/golden/names/library.py [PATTERN]

makes the cases whose names match a regular expression (all by default) and keeps the others. It needs TensorFlow with
`tf_keras` (the layers and cells of version 1) and `tf_slim` (what became of `tf.contrib.layers`, `slim`, `metrics` and
`losses`). A record has the variables in order of making with their shapes, members of
collections, tags of summaries, and the values of the tensors that a case returns, and of the variables that have
changed after it ran twice.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from library_cases import CASES, value_of

GOLDEN = Path(__file__).parents[3] / "tests/golden/library.json"
COLLECTIONS = ("model_variables", "trainable_variables", "local_variables", "metric_variables", "weights", "biases")
SIZES = ("update_ops", "regularization_losses", "losses", "activations", "ends")


def written(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, bytes):
        return "bytes"
    array = np.asarray(value)
    if array.dtype == object:
        return [written(item) for item in array.ravel()]
    flat = array.astype(np.float64).ravel()
    flat[np.isnan(flat)] = -12345.0  # JSON has no number for it
    if flat.size > 400:  # a sample says as much
        flat = np.concatenate([flat[:: flat.size // 200], [flat.mean(), np.abs(flat).mean()]])
    return [[float(f"{item:.6g}") for item in flat], list(array.shape)]


def start(variable: Any) -> np.ndarray:
    """The value that a variable begins with."""
    dtype, shape = variable.dtype.base_dtype.as_numpy_dtype, variable.shape.as_list()
    return (
        value_of(variable.op.name, shape).astype(dtype) if np.issubdtype(dtype, np.floating) else np.zeros(shape, dtype)
    )


def record(name: str, tf: Any, libraries: dict[str, Any]) -> dict[str, Any]:
    """Makes a case, runs it twice, and says what there is."""
    make = CASES[name]
    library = libraries[name.partition(":")[0] if ":" in name else "layers"]
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        made = make(tf, library)
        tensors = [tensor for tensor in (made if isinstance(made, list | tuple) else [made])]
        known = tf.global_variables() + tf.local_variables()
        if name.startswith("names:"):
            shapes = [[tensor.op.name, tensor.shape.as_list()] for tensor in tensors]
            return {"variables": [[v.op.name, v.shape.as_list()] for v in tf.global_variables()], "tensors": shapes}
        found: dict[str, Any] = {
            "variables": [[v.op.name, v.shape.as_list()] for v in tf.global_variables()],
            "collections": {
                key: names for key in COLLECTIONS if (names := [v.op.name for v in tf.get_collection(key)])
            },
            "sizes": {key: number for key in SIZES if (number := len(tf.get_collection(key)))},
            "ops": [getattr(tensor, "op", tensor).name for tensor in tensors],
        }
        with tf.Session(graph=graph) as session:
            session.run(tf.local_variables_initializer())
            for variable in tf.global_variables():
                variable.load(start(variable), session)
            if name.startswith("metrics:") and len(tensors) == 2 and tf.local_variables():
                runs = [session.run(tensors[1:]), session.run(tensors[1:]), session.run(tensors[:1])]
            else:
                runs = [session.run(tensors) for _ in range(2)]
            found["values"] = [[written(value) for value in run] for run in runs]
            after = {v: session.run(v) for v in known}
            local = set(tf.local_variables())
            found["after"] = {
                v.op.name: written(value)
                for v, value in after.items()
                if v in local or not np.array_equal(value, start(v))
            }
            tags = []
            for value in runs[-1]:
                if isinstance(value, bytes):
                    tags += [item.tag for item in tf.Summary.FromString(value).value]
            merged = tf.summary.merge_all()
            if merged is not None and not tags:
                tags = [item.tag for item in tf.Summary.FromString(session.run(merged)).value]
            if tags:
                found["tags"] = tags
    return found


def main() -> None:
    """Writes the file."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow.compat.v1 as tf
    import tf_keras.src.legacy_tf_layers as version_one_layers
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops, control_flow_ops

    for module in (
        "",
        ".base",
        ".convolutional",
        ".core",
        ".normalization",
        ".pooling",
    ):  # where tf_slim looks for them
        sys.modules[f"tf_keras.legacy_tf_layers{module}"] = importlib.import_module(
            version_one_layers.__name__ + module
        )
    import tf_slim

    # where tf_slim looks for them
    ops.Tensor, ops.IndexedSlices = tf.Tensor, tf.IndexedSlices
    array_ops.stack, control_flow_ops.cond = tf.stack, tf.cond
    tf.disable_v2_behavior()
    nets = types.SimpleNamespace(arg_scope=tf_slim.arg_scope)
    for module in ("alexnet", "inception", "overfeat", "resnet_utils", "resnet_v1", "resnet_v2", "vgg"):
        setattr(nets, module, importlib.import_module(f"tf_slim.nets.{module}"))
    import tf_slim.losses
    import tf_slim.losses.metric_learning
    import tf_slim.metrics

    libraries = {"layers": tf_slim, "nets": nets, "names": nets, "metrics": tf_slim.metrics, "losses": tf_slim.losses}
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    known = json.loads(GOLDEN.read_text(encoding="utf-8")) if pattern else {}
    lines = []
    for name in CASES:
        if not re.search(pattern, name):
            lines += [f"{json.dumps(name)}: {json.dumps(known[name])}"] if name in known else []
            continue
        try:
            lines.append(f"{json.dumps(name)}: {json.dumps(record(name, tf, libraries))}")
        except Exception as problem:  # a case that TensorFlow does not run has no record
            print(f"{name}: {type(problem).__name__}: {str(problem)[:300]}", file=sys.stderr)
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
