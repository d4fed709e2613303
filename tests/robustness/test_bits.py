"""A seeded program gives the same bits on any number of cores, if it says into how many threads kernels are split."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import hashlib, os, sys
os.sched_setaffinity(0, set(map(int, sys.argv[2:])))
import anabranch as tf

tf.set_random_seed(1)
x = tf.random_normal([16, 28, 28, 3], seed=1)
y = tf.layers.conv2d(x, 32, 5, activation=tf.nn.relu, padding="same")
y = tf.layers.dense(tf.layers.flatten(tf.layers.max_pooling2d(y, 2, 2)), 64, tf.nn.relu)
step = tf.train.AdamOptimizer(1e-3).minimize(tf.reduce_mean(tf.square(tf.layers.dense(y, 10) - 1.0)))
threads = int(sys.argv[1])
config = tf.ConfigProto(intra_op_parallelism_threads=threads)
with tf.Session(config=tf.SessionOptions(config=config, tier="compiled", deterministic=not threads)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(step)
    print(hashlib.sha256(b"".join(v.tobytes() for v in session.run(tf.trainable_variables()))).hexdigest())
"""


def bits(threads, cores):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(threads), *map(str, cores)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    ).stdout


@pytest.mark.multiprocess
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no way to choose cores")
def test_threads_decide_and_not_cores():
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("one core only")
    assert bits(2, cores[:1]) == bits(2, cores)
    assert bits(0, cores[:1]) == bits(0, cores)  # deterministic
