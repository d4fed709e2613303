"""Record the argument lists of TensorFlow 1's public functions and classes: `tests/golden/api_arguments.json`.

Run with an interpreter that has TensorFlow 1.15:
`python tools/golden/names/api_arguments.py tests/golden/api_arguments.json`. Left out are `tf.keras`, `tf.data`,
`tf.estimator`, `tf.distribute`, `tf.tpu` and `tf.lite`, whose names are not here, and `tf.compat`, which repeats names.
"""

import importlib
import inspect
import json
import sys
import types

LEFT_OUT = ("compat", "keras", "data", "estimator", "distribute", "tpu", "lite", "raw_ops", "feature_column", "app")
CONTRIB = (
    "crf",
    "cudnn_rnn",
    "distributions",
    "framework",
    "graph_editor",
    "image",
    "layers",
    "legacy_seq2seq",
    "lookup",
    "losses",
    "memory_stats",
    "metrics",
    "nn",
    "opt",
    "rnn",
    "seq2seq",
    "signal",
    "slim",
    "staging",
    "summary",
    "tensorboard",
    "training",
    "util",
)


def shown(value):
    """A default as text; '...' for an object."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, tuple, list, dict)):
        return repr(value)
    name = getattr(value, "name", None)
    return "tf." + name if type(value).__name__ == "DType" else "..."


def arguments(value):
    """Names and defaults of the arguments of a function or class, [name, default] or [name]; None if there are none."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None
    if [parameter.name for parameter in parameters] == ["args", "kwargs"]:
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        [stars.get(parameter.kind, "") + parameter.name]
        + ([] if parameter.default is inspect.Parameter.empty else [shown(parameter.default)])
        for parameter in parameters
    ]


def walk(module, prefix, seen, found):
    """Collect the names of a namespace and of those below it."""
    for name in sorted(dir(module)):
        if (
            name.startswith("_")
            or (prefix == "tf" and name in LEFT_OUT)
            or (prefix == "tf.contrib" and name not in CONTRIB)
        ):
            continue
        try:
            value = getattr(module, name)
        except (ImportError, AttributeError):
            continue
        full = prefix + "." + name
        if isinstance(value, types.ModuleType):
            inside = value.__name__.startswith(("tensorflow._api", "tensorflow_core", "tensorflow.contrib"))
            if inside and value not in seen and ".python." not in value.__name__.replace("_api", ""):
                walk(value, full, seen + [value], found)
            continue
        if callable(value):
            taken = arguments(value)
            if taken is not None:
                found[full] = taken


def main(path):
    """Write the golden file."""
    tf = importlib.import_module("tensorflow")
    importlib.import_module("tensorflow.contrib")
    found = {}
    walk(tf, "tf", [tf], found)
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
