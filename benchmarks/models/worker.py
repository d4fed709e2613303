"""One model in one system in its own process: commands as JSON lines on standard input, answers on standard output.

Usage: python worker.py (anabranch|tf) MODEL STARTED

STARTED is the time (of ``time.time``) at which whoever started the process did so. Every trainable variable of two or
more dimensions gets draws that are the same in each system, scaled by the root of the number of its inputs: so the
losses can be compared. The first answer tells what the start took; then commands are served:

    {"steps": n}             runs n steps: seconds elapsed and of CPU time (all threads) of each, both since the start
                             of the process (processes that it started and that have ended counted in), and the losses
    {"explain": true}        what Session.explain says, in Anabranch
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def system(name):
    """The module that serves as ``tf``."""
    if name == "tf":
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
    else:
        import anabranch as tf
    return tf


def main():
    """Builds the model, says so, and serves commands until standard input ends."""
    name, model, started = sys.argv[1], sys.argv[2], float(sys.argv[3])
    answers, sys.stdout = sys.stdout, sys.stderr  # what a system prints must not get between the answers

    def answer(**what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    sys.path.append(str(Path(__file__).parent.parent / "sparse"))
    tf = system(name)
    fetches, feed = importlib.import_module(model).build(tf)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    session.run(tf.tables_initializer())
    random = np.random.RandomState(1)
    for variable in tf.trainable_variables():
        shape = variable.shape.as_list()
        if len(shape) > 1:
            draws = random.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))
            variable.load(draws.astype(variable.dtype.base_dtype.as_numpy_dtype), session)
    answer(ready=time.time() - started, version=tf.__version__)
    done = 0
    for line in sys.stdin:
        command = json.loads(line)
        if "explain" in command:
            answer(explain=session.explain(fetches, feed(0)))
            continue
        elapsed, cpu, since, spent, losses = [], [], [], [], []
        for _ in range(command["steps"]):
            feeds = feed(done)
            done += 1
            wall, processor = time.perf_counter(), time.process_time()
            values = session.run(fetches, feeds)
            elapsed.append(time.perf_counter() - wall)
            cpu.append(time.process_time() - processor)
            since.append(time.time() - started)
            spent.append(time.process_time() + sum(os.times()[2:4]))
            losses.append(float(np.mean(values[0])))
        answer(elapsed=elapsed, cpu=cpu, since=since, spent=spent, losses=losses)


if __name__ == "__main__":
    main()
