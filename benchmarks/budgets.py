"""The budgets that have no peer: import, op rate, first run of initialisers, and the cost of checks."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def import_time() -> float:
    """Seconds that ``import anabranch`` takes in a fresh process, without starting Python."""
    code = "import time; t = time.perf_counter(); import anabranch; print(time.perf_counter() - t)"
    return statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(7))


def op_rate() -> dict[str, float]:
    """Microseconds for adding one op to a graph."""
    import anabranch as tf

    found = {}
    for name, make in (
        ("identity", lambda x, y: tf.identity(x)),
        ("add", lambda x, y: tf.add(x, y)),
        ("matmul", lambda x, y: tf.matmul(x, y)),
        ("x + 1.0 (two ops)", lambda x, y: x + 1.0),
        ("reduce_sum (two ops)", lambda x, y: tf.reduce_sum(x, 1)),
    ):
        with tf.Graph().as_default():
            x, y = tf.placeholder(tf.float32, [None, 16]), tf.placeholder(tf.float32, [16, 16])
            x, y = (x, y) if name == "matmul" else (x, x)
            for _ in range(200):
                make(x, y)
            times = []
            for _ in range(10):
                started = time.perf_counter()
                for _ in range(200):
                    make(x, y)
                times.append((time.perf_counter() - started) / 200 * 1e6)
            found[name] = min(times)
    return found


def initialisers() -> float:
    """Seconds for the first run of the initialisers of a model of 100 variables, in a fresh process."""
    code = """
import time
import anabranch as tf
for i in range(50):
    tf.Variable(tf.truncated_normal([256, 256], stddev=0.1))
    tf.Variable(tf.zeros([256]))
init = tf.global_variables_initializer()
session = tf.Session()
t = time.perf_counter()
session.run(init)
print(time.perf_counter() - t)
"""
    return statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))


def main() -> None:
    """Prints the figures."""
    print(f"import anabranch: {import_time():.3f} s (budget 0.4)")
    for name, value in op_rate().items():
        print(f"add an op, {name}: {value:.1f} µs (budget 40 an op)")
    print(f"first run of 100 initialisers: {initialisers():.3f} s (budget 0.5)")


if __name__ == "__main__":
    main()
