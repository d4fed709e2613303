"""Record what TensorFlow's random ops draw.

Run with an interpreter that has TensorFlow: `python tools/golden/kernels/random_draws.py tests/golden/random.json`.
A case is an expression of `tf` and the seed of its graph; the tests evaluate the same. Recorded are the values of three
runs of one session: all of them, or evenly spaced ones where there are more than 64, as integers (whole numbers, and
the bits of uniform floats) or as floats.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SEEDS = ((None, 1), (3, 4), (0, 0), (-5, 2**31 + 7), (2**40 + 1, 9))
INTEGERS = (
    ("int32", 0, 10),
    ("int32", -7, 5),
    ("int32", -(2**31), 2**31 - 1),
    ("int64", 0, 1000),
    ("int64", -(2**62), 2**62 + 12345),
)


def cases():
    """Pairs of graph seed and expression."""
    found = []
    for function in ("random_uniform", "random_normal", "truncated_normal"):
        for dtype in FLOATS:
            for shape in ((), (5,), (3, 7), (0, 3), (1000,)):
                found.append((11, f"tf.{function}({list(shape)}, dtype=tf.{dtype}, seed=5)"))
        for graph_seed, seed in SEEDS:
            found.append((graph_seed, f"tf.{function}([6], seed={seed})"))
        found.append((11, f"tf.{function}(tf.constant([2, 3], tf.int64), seed=5)"))
    found.append((11, "tf.random_uniform([6], -3.0, 5.0, seed=5)"))
    found.append((11, "tf.random_normal([6], 2.0, 0.5, seed=5)"))
    found.append((11, "tf.truncated_normal([6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.5, seed=5)"))
    for dtype, low, high in INTEGERS:
        for shape in ((), (5,), (3, 7), (1000,)):
            found.append((11, f"tf.random_uniform({list(shape)}, {low}, {high}, tf.{dtype}, seed=5)"))
    for size in (0, 1, 2, 5, 100):
        found.append((11, f"tf.random_shuffle(tf.range({size}), seed=5)"))
    found.append((11, "tf.random_shuffle(tf.reshape(tf.range(12), [4, 3]), seed=5)"))
    found.append((11, "tf.random_shuffle(3, seed=5)"))
    found.append((11, "tf.random_crop(tf.reshape(tf.range(60), [5, 4, 3]), [2, 3, 3], seed=5)"))
    for logits in ("[[0.0, 1.0, -1.0, 0.5]]", "[[0.0, 0.0], [-1e30, 2.0], [3.0, -3.0]]", "tf.log([[0.1, 0.0, 0.9]])"):
        for count in (1, 7, 200):
            found.append((11, f"tf.multinomial({logits}, {count}, seed=5)"))
    found.append((11, "tf.multinomial(tf.constant([[0.0, 1.0]], tf.float64), 9, seed=5, output_dtype=tf.int32)"))
    found.append((11, "tf.multinomial(tf.constant([[0.0, 1.0]], tf.float16), 9, seed=5)"))
    for dtype in ("float16", "float32", "float64"):
        found.append((11, f"tf.random_gamma([40], [0.3, 1.0, 4.5], dtype=tf.{dtype}, seed=5)"))
        found.append((11, f"tf.random_poisson([0.0, 0.3, 4.0, 9.9, 10.0, 55.5], [30], tf.{dtype}, seed=5)"))
    found.append((11, "tf.random_gamma([], 0.1, 3.0, seed=5)"))
    found.append((11, "tf.random_gamma([3], [[2.0], [3.0]], [1.0, 10.0], seed=5)"))
    found.append((11, "tf.random_poisson(2.5, [2, 3], tf.int32, seed=5)"))
    for dtype in ("float16", "float32", "float64", "int32"):
        rates = f"tf.constant([0, 1, 7, 30, 1000], tf.{dtype})"
        found.append((11, f"tf.random_poisson({rates}, [30], tf.int64, seed=5)"))
    for seed in ((0, 0), (1, 2), (-3, 2**31 - 1)):
        for function in ("uniform", "normal", "truncated_normal"):
            found.append((None, f"tf.random.stateless_{function}([6], {list(seed)})"))
        found.append((None, f"tf.random.stateless_uniform([6], {list(seed)}, -4, 100, tf.int32)"))
        found.append((None, f"tf.random.stateless_uniform([6], {list(seed)}, -4, 2**60, tf.int64)"))
        found.append((None, f"tf.random.stateless_uniform([6], {list(seed)}, None, None, tf.int32)"))
        found.append((None, f"tf.random.stateless_uniform([6], {list(seed)}, None, None, tf.int64)"))
        found.append((None, f"tf.random.stateless_categorical([[0.0, 1.0, 0.5]], 20, {list(seed)})"))
    for dtype in FLOATS:
        for function in ("uniform", "normal", "truncated_normal"):
            found.append((None, f"tf.random.stateless_{function}([3, 7], [7, 8], dtype=tf.{dtype})"))
    return found


def shown(values, np):
    """Values as JSON: integers as they are, floats as float64."""
    array = np.asarray(values)
    flat = array.ravel()[:: max(1, array.size // 64)]
    return flat.tolist() if array.dtype.kind in "iu" else flat.astype(np.float64).tolist()


def run(graph_seed, expression, tf, np, session_of=None):
    """Dtype, shape and values of three runs."""
    with tf.Graph().as_default(), (session_of or tf.Session)() as session:
        if graph_seed is not None:
            tf.set_random_seed(graph_seed)
        drawn = eval(expression, {"tf": tf})
        runs = [np.asarray(session.run(drawn)) for _ in range(3)]
        return [runs[0].dtype.name, list(runs[0].shape), [shown(values, np) for values in runs]]


if __name__ == "__main__":
    import numpy
    import tensorflow.compat.v1 as tensorflow

    tensorflow.disable_v2_behavior()
    with open(sys.argv[1], "w") as file:
        rows = [[seed, source, *run(seed, source, tensorflow, numpy)] for seed, source in cases()]
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
