"""Functional control flow between TensorFlow and this package: graphs that each writes and the other runs.

`python tools/golden/graphs/control_flow.py record tests/golden/control_flow`, with an interpreter that has TensorFlow,
writes GraphDefs of functions with conditionals and loops, with their gradients, and what they compute.

`python tools/golden/graphs/control_flow.py write FOLDER`, with one that has this package, writes graphs of ours and
what they compute; `python tools/golden/graphs/control_flow.py check FOLDER`, with TensorFlow again, runs them and
compares.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _uniform(*shape):
    return np.random.RandomState(sum(shape)).uniform(-1, 1, shape).astype("float32").tolist()


# --------------------------------------------------------------------------------------------------------- TensorFlow's
def record(folder):
    """Writes `NAME.pb` for each function and `expected.json` with feeds, fetches and values."""
    import tensorflow as tf

    spec, found = tf.TensorSpec, {}

    def save(name, function, *specs, args):
        concrete = tf.function(function).get_concrete_function(*specs)
        results = tf.nest.flatten(concrete(*[tf.constant(arg) for arg in args]))
        (folder / f"{name}.pb").write_bytes(concrete.graph.as_graph_def().SerializeToString(deterministic=True))
        found[name] = {
            "feeds": dict(zip([tensor.name for tensor in concrete.inputs], args, strict=True)),
            "fetches": [tensor.name for tensor in concrete.outputs],
            "values": [result.numpy().tolist() for result in results],
        }

    def branch_in_loop(x, n):
        i, s = tf.constant(0), tf.zeros_like(x)
        while i < n:
            if tf.reduce_sum(s) > 3.0:
                s = s - x
            else:
                s = s + 2.0 * x
            i += 1
        return s

    def with_gradient(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = branch_in_loop(x * x, tf.constant(4))
            first = tape.gradient(y, x)
        return y, first, outer.gradient(first, x)

    def by_number(i, x):
        return tf.switch_case(i, [lambda: x, lambda: x * x, lambda: tf.exp(x)])

    def lstm(x, w, u, b):
        inputs = tf.TensorArray(tf.float32, size=3).unstack(tf.transpose(x, [1, 0, 2]))
        outputs = tf.TensorArray(tf.float32, size=3, element_shape=[2, 4])

        def step(t, h, c, outputs):
            i, f, g, o = tf.split(tf.matmul(inputs.read(t), w) + tf.matmul(h, u) + b, 4, axis=1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            return t + 1, h, c, outputs.write(t, h)

        zeros = tf.zeros([2, 4])
        _, h, _, outputs = tf.while_loop(lambda t, *_: t < 3, step, (0, zeros, zeros, outputs), maximum_iterations=3)
        return h, tf.transpose(outputs.stack(), [1, 0, 2])

    def lstm_with_gradient(x, w, u, b):
        with tf.GradientTape() as tape:
            tape.watch([x, w, u, b])
            h, outputs = lstm(x, w, u, b)
            loss = tf.reduce_sum(h * h) + tf.reduce_sum(outputs)
        return [h, outputs, *tape.gradient(loss, [x, w, u, b])]

    vector = spec([None], tf.float32)
    cell = [spec(shape, tf.float32) for shape in ([2, 3, 2], [2, 16], [4, 16], [16])]
    save("branch_in_loop", branch_in_loop, vector, spec([], tf.int32), args=[[1.0, 2.0], 7])
    save("with_gradient", with_gradient, spec([3], tf.float32), args=[[0.1, 0.2, 0.3]])
    save("by_number", by_number, spec([], tf.int32), spec([2], tf.float32), args=[1, [3.0, 4.0]])
    save("lstm", lstm_with_gradient, *cell, args=[_uniform(2, 3, 2), _uniform(2, 16), _uniform(4, 16), _uniform(16)])
    (folder / "expected.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------------- ours
def write(folder):
    """Writes graphs of this package."""
    import anabranch as tf

    found = {}

    def save(name, fetches, feeds, init=None):
        with tf.Session() as session:
            if init is not None:
                session.run(init)
            values = [np.asarray(value).tolist() for value in session.run(fetches, feeds)]
        (folder / f"{name}.pb").write_bytes(tf.get_default_graph().as_graph_def().SerializeToString())
        found[name] = {
            "init": None if init is None else init.name,
            "feeds": {key.name: value for key, value in feeds.items()},
            "fetches": [tensor.name for tensor in fetches],
            "values": values,
        }

    with tf.Graph().as_default():
        x, p = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.bool, [])
        y = tf.cond(p, lambda: tf.exp(x) * x, lambda: tf.sin(x) * 2.0)
        (first,) = tf.gradients(y, x)
        save("cond", [y, first, tf.gradients(first, x)[0]], {x: [0.5, 1.0], p: True})
    with tf.Graph().as_default():
        x, n = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, [])

        def body(i, y):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.sin(y) * x, lambda: tf.exp(-y))

        _, y = tf.while_loop(lambda i, y: i < n, body, (0, x))
        (first,) = tf.gradients(y, x)
        save("loop", [y, first, tf.gradients(first, x)[0]], {x: [0.5, 1.0], n: 5})
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])

        def outer(i, y):
            n = i + 1
            step = tf.while_loop(lambda j, y: j < n, lambda j, y: (j + 1, tf.sin(y) * x), (0, y), maximum_iterations=9)
            return n, step[1]

        _, y = tf.while_loop(lambda i, y: i < 3, outer, (0, x))
        chosen = tf.switch_case(tf.to_int32(x), [lambda: x, lambda: x * 2.0])
        save("nest", [y, tf.gradients(y, x)[0], chosen], {x: 1.3})
    for resource in (False, True):
        with tf.Graph().as_default():
            x = tf.constant(2.0)
            v = tf.Variable(3.0, use_resource=resource)
            y = tf.cond(x > 1.0, lambda v=v, x=x: v * x, lambda v=v: v + 1.0)
            _, z = tf.while_loop(lambda i, a: i < 3, lambda i, a, v=v: (i + 1, a * v), (0, 1.0))
            fetches = [y, z, *tf.gradients(y + z, v)]
            save("resource" if resource else "reference", fetches, {}, tf.global_variables_initializer())
    (folder / "written.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def check(folder):
    """Runs with TensorFlow what `write` wrote."""
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    failed = 0
    for name, given in json.loads((folder / "written.json").read_text(encoding="utf-8")).items():
        with tf.Graph().as_default(), tf.Session() as session:
            proto = tf.GraphDef.FromString((folder / f"{name}.pb").read_bytes())
            tf.import_graph_def(proto, name="")
            if given["init"]:
                session.run(given["init"])
            values = session.run(given["fetches"], given["feeds"])
        same = [bool(np.allclose(a, b, rtol=1e-5)) for a, b in zip(values, given["values"], strict=True)]
        failed += not all(same)
        print(name, same)
    sys.exit(failed)


if __name__ == "__main__":
    command, where = {"record": record, "write": write, "check": check}[sys.argv[1]], Path(sys.argv[2])
    where.mkdir(parents=True, exist_ok=True)
    command(where)
