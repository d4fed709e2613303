"""Record what TensorFlow's kernels give for cases of ops: `tests/golden/raw/<family>.json` for `raw/<family>.py`.

Run with an interpreter that has TensorFlow: `python tools/golden/kernels/raw_ops.py FAMILY...`. A family's file holds
`CASES`, from a name to a :class:`Case`; the tests read the same file, so that only results are stored.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent / "raw"
RESULTS = Path(__file__).resolve().parents[3] / "tests" / "golden" / "raw"


@dataclasses.dataclass
class Case:
    """A call of an op: its inputs in the order of the signature, attributes, and how often it runs in one session."""

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    runs: int = 1
    tolerance: float = 1e-5


def case(op: str, *inputs: Any, runs: int = 1, tolerance: float = 1e-5, **attrs: Any) -> Case:
    """A case; plain floats and lists of floats are float32."""
    return Case(op, tuple(_array(item) for item in inputs), attrs, runs, tolerance)


@dataclasses.dataclass
class Quantized:
    """Whole numbers of a quantised type, which no array holds."""

    array: np.ndarray
    type: str


def quantized(values: Any, kind: str) -> Quantized:
    """An operand of a quantised type, such as ``"quint8"``."""
    return Quantized(np.asarray(values).astype(kind[1:]), kind)


def constant(tf: Any, value: Any) -> Any:
    """A tensor of an operand, a list of them for a list."""
    if isinstance(value, list):
        return [constant(tf, item) for item in value]
    if isinstance(value, Quantized):
        return tf.bitcast(tf.constant(value.array), value.type)
    return tf.constant(value)


def _array(value: Any) -> Any:
    if isinstance(value, Quantized):
        return value
    if isinstance(value, tuple):
        return [_array(item) for item in value]
    array = np.asarray(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return array
    return (
        array.astype(np.float32)
        if array.dtype == np.float64
        else array.astype(np.int32)
        if array.dtype == np.int64
        else array
    )


def families() -> list[str]:
    """Names of the families that have cases."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def load(family: str) -> dict[str, Case]:
    """The cases of a family."""
    spec = importlib.util.spec_from_file_location(f"golden_raw_{family}", FOLDER / f"{family}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("raw_ops", sys.modules[__name__])
    spec.loader.exec_module(module)
    return module.CASES


def stored(value: Any) -> dict[str, Any]:
    """An array in JSON."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        flat = [part for item in array.ravel() for part in (float(item.real), float(item.imag))]
    elif array.dtype.kind in "OS":
        flat = [item.decode("latin-1") for item in array.ravel()]
    elif array.dtype.kind in "biu":
        flat = array.ravel().tolist()
    else:
        flat = [float(item) for item in array.ravel()]
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": flat}


def restored(entry: dict[str, Any]) -> np.ndarray:
    """The array of :func:`stored`; floats of any width as float64."""
    name, shape = entry["dtype"], entry["shape"]
    if name.startswith("complex"):
        return np.array(entry["values"], np.float64).view(np.complex128).reshape(shape)
    if name == "object" or name.startswith("bytes"):
        return np.array([item.encode("latin-1") for item in entry["values"]], object).reshape(shape)
    wide = np.float64 if "float" in name else name
    return np.array(entry["values"], wide).reshape(shape)


def _op_def(name: str) -> Any:
    """The definition of an op, in TensorFlow 1 and 2."""
    from tensorflow.python.framework import op_def_registry

    find = getattr(op_def_registry, "get", None)
    return find(name) if find is not None else op_def_registry.get_registered_ops()[name]


def main(names: list[str]) -> None:
    """Records the families."""
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    for family in names or families():
        found = {}
        for name, one in load(family).items():
            with tf.Graph().as_default(), tf.Session() as session:
                definition = getattr(tf.raw_ops, one.op)
                keys = [argument.name for argument in _op_def(one.op).input_arg]
                inputs = [constant(tf, item) for item in one.inputs]
                named = dict(zip(keys, inputs))  # noqa: B905 - the Python of TensorFlow 1 has no `strict`
                outputs = tf.nest.flatten(definition(**named, **one.attrs))
                try:
                    found[name] = [[stored(value) for value in session.run(outputs)] for _ in range(one.runs)]
                except Exception as problem:
                    raise SystemExit(f"{family}/{name}: {str(problem)[:2000]}") from problem
        RESULTS.mkdir(parents=True, exist_ok=True)
        text = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
        (RESULTS / f"{family}.json").write_text("{\n" + text + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
