"""Compare a SavedModel with its TensorFlow Lite twin on random inputs.

    python tools/tflite_twin.py PYTHON_WITH_LITERT MODEL_FOLDER MODEL.tflite [SIGNATURE]

The other interpreter needs the package `ai-edge-litert`. Unknown dimensions become 1. The wheel of `basic-pitch` holds
such a pair. The exit status is 1 if an output differs by more than 1e-4 of its largest value.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

LIMIT = 1e-4
_TWIN = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter

given, target, path, name = sys.argv[1:]
interpreter = Interpreter(model_path=path)
runner = interpreter.get_signature_runner(name)
inputs = np.load(given)
np.savez(target, **runner(**{key: inputs[key] for key in inputs}))
"""


def main(arguments: list[str]) -> int:
    """Runs both and prints how far each output is from its twin."""
    if not 3 <= len(arguments) <= 4:
        print(__doc__)
        return 2
    python, folder, twin, *rest = arguments
    name = rest[0] if rest else "serving_default"
    import anabranch as tf

    started = time.perf_counter()
    with tf.saved_model.load(folder) as model, tempfile.TemporaryDirectory() as scratch:
        signature = model.signatures[name]
        random = np.random.RandomState(0)
        inputs = {}
        for key, tensor in signature.inputs.items():
            shape = [size or 1 for size in tensor.shape.as_list()]
            inputs[key] = (0.1 * random.randn(*shape)).astype(tensor.dtype.as_numpy_dtype)
        loaded = time.perf_counter()
        found = signature(**inputs)
        first = time.perf_counter()
        for _ in range(10):
            signature(**inputs)
        each = (time.perf_counter() - first) / 10
        print(f"loaded in {loaded - started:.2f} s, first call {first - loaded:.2f} s, then {each:.3f} s each")
        given, target = os.path.join(scratch, "in.npz"), os.path.join(scratch, "out.npz")
        np.savez(given, **inputs)
        subprocess.run([python, "-c", _TWIN, given, target, twin, name], check=True, stderr=subprocess.DEVNULL)
        wanted = np.load(target)
        wrong = 0
        for key in sorted(wanted):
            gap = float(np.max(np.abs(found[key] - wanted[key]))) / max(float(np.max(np.abs(wanted[key]))), 1e-30)
            print(f"{key}: {gap:.2g} of the largest value")
            wrong += not gap <= LIMIT
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
