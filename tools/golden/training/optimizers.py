"""Record one step of each of TensorFlow's `Resource*Apply*` kernels.

Run with an interpreter that has TensorFlow:
`python tools/golden/training/optimizers.py op_defs.json tests/golden/optimizers.json`, where the first file maps op
types to their inputs and attributes. Operands are deterministic functions of a case's number (`operands` here and in
the tests), so that only results are stored.
"""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

SCALARS = {
    "lr": 0.3, "alpha": 0.2, "l1": 0.05, "l2": 0.1, "l2_shrinkage": 0.07, "lr_power": -0.5, "momentum": 0.9,
    "rho": 0.8, "epsilon": 0.01, "beta1": 0.9, "beta2": 0.99, "beta1_power": 0.81, "beta2_power": 0.98,
    "logbase": 0.7, "sign_decay": 0.6, "beta": 0.85,
}  # fmt: skip
SIGNED = ("var", "linear", "m", "mom", "gradient_accumulator", "mg", "grad", "delta")


def operands(names, number, overrides, repeated):
    """Values of the operands called `names` in case `number`: matrices `[3, 2]`, indices and scalars."""
    rng = np.random.RandomState(number)
    values = {}
    for name in names:
        if name == "indices":
            values[name] = np.array([2, 0, 2] if repeated else [2, 0, 1], np.int32)
        elif name == "global_step":
            values[name] = np.int64(3)
        elif name in SCALARS:
            values[name] = np.float32(overrides.get(name, SCALARS[name]))
        else:
            values[name] = rng.uniform(-1 if name in SIGNED else 1, 2, (3, 2)).astype(np.float32)
            if name == "mg":
                values[name] *= np.float32(0.1)
    return values


def main(definitions_path, output_path):
    """Write the golden file."""
    tf.disable_eager_execution()
    with open(definitions_path) as file:
        definitions = json.load(file)
    cases = []
    for op_type, definition in sorted(definitions.items()):
        if not op_type.startswith("Resource") or "Apply" not in op_type or "Accumulator" in op_type:
            continue
        flags = [a["name"] for a in definition["attrs"] if a["type"] == "bool" and a["name"] != "use_locking"]
        for attrs in [{flag: value} for flag in flags for value in (False, True)] or [{}]:
            for overrides in ({}, {"lr_power": -0.7}) if "Ftrl" in op_type else ({},):
                for repeated in (False, True) if "Sparse" in op_type else (False,):
                    cases.append(run(op_type, definition, attrs, overrides, repeated, len(cases)))
    with open(output_path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def run(op_type, definition, attrs, overrides, repeated, number):
    """Run one case and return its record."""
    names = [item["name"] for item in definition["inputs"]]
    state = [item["name"] for item in definition["inputs"] if item.get("type") == "resource"]
    values = operands(names, number, overrides, repeated)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        variables = {name: tf.get_variable(name, initializer=values[name], use_resource=True) for name in state}
        inputs = [variables[name].handle if name in state else tf.constant(values[name]) for name in names]
        given = {key: tf.AttrValue(b=value) for key, value in attrs.items()}
        given["T"] = tf.AttrValue(type=tf.float32.as_datatype_enum)
        if "Sparse" in op_type:
            given["Tindices"] = tf.AttrValue(type=tf.int32.as_datatype_enum)
        step = graph.create_op(op_type, inputs, [], attrs=given)
        session.run(tf.global_variables_initializer())
        session.run(step)
        results = session.run([variables[name].read_value() for name in state])
    return {
        "op": op_type,
        "attrs": attrs,
        "overrides": overrides,
        "repeated": repeated,
        "state": [[float(f"{x:.7g}") for x in array.ravel()] for array in results],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
