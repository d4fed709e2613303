"""Sends Ctrl-C to programs at random moments, and asks what each ended with.

    python tools/interrupts.py --count 500 --seed 1

Each program starts Anabranch, builds a model, traces, compiles, trains, evaluates, saves and restores, again and again
in graphs of their own, so that each round compiles. An interrupt counts as served if it came out as
``KeyboardInterrupt`` within half a second, if the session that was there goes on (the two variables that each step
moves together still agree), and if a whole round in a new graph works afterwards. A program gets several interrupts,
the first one within its first seconds. The output is a table by what the program was at, and a line for each that
failed; for a program that hangs, or an interrupt that went unheard, with what its threads do.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LATEST = 0.5
"""Seconds within which an interrupt is to come out."""
PATIENCE = 60.0
"""Seconds after which a program is taken to hang."""
FIRST, LATER = 4.0, 2.5
"""Seconds within which the first interrupt of a program comes, and each other one."""

PROGRAM = """
import faulthandler, json, os, signal, sys, time
import numpy as np  # its own import is not ours to protect

faulthandler.register(signal.SIGUSR1, all_threads=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it

parent = os.getppid()

def tell(**what):
    print(json.dumps(what), flush=True)

at = "start"
session = check = None
rounds = 0

def round_of_a_program(folder, quick=False):
    global at, session, check, rounds
    if os.getppid() != parent:
        os._exit(0)
    rounds += 1
    at = "start"
    import anabranch as tf
    tf.Graph
    at = "build"
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 12 + rounds % 7, 12, 2])
        y = tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu)
        for _ in range(1 if quick else 3):
            y = tf.layers.dense(tf.tanh(y), 6 + rounds % 5, activation=tf.nn.relu)
        logits = tf.layers.dense(tf.layers.flatten(y), 3)
        loss = tf.reduce_mean(tf.square(logits)) + 1.0
        a = tf.get_variable("a", [], tf.float32, tf.zeros_initializer())
        b = tf.get_variable("b", [3000], tf.float32, tf.zeros_initializer())
        move = tf.group(a.assign_add(1.0), b.assign_add(tf.ones([3000])))
        step = tf.group(tf.train.AdamOptimizer().minimize(loss), move)
        saver = tf.train.Saver()
        init = tf.global_variables_initializer()
        total = tf.while_loop(lambda i, s: i < 30, lambda i, s: (i + 1, s + tf.reduce_sum(y)), (0, 0.0))
    data = np.ones([5, 12 + rounds % 7, 12, 2], np.float32)
    own = tf.Session(graph=graph, config=tf.SessionOptions(tier="compiled"))

    def agree(step_as_well):
        if step_as_well:
            own.run(step, {x: data})
        first, second = own.run([a, b])
        if not (second == first).all():
            raise AssertionError(f"torn: {first} and {second[:3]}")

    at = "initialise"
    own.run(init)
    session, check = own, agree
    at = "first step"
    own.run([step, loss], {x: data})
    at = "steps"
    for _ in range(20):
        own.run([step, loss], {x: data})
    at = "evaluate"
    own.run([loss, total[1]], {x: data})
    at = "save"
    path = saver.save(own, folder + "/model", global_step=rounds)
    at = "restore"
    saver.restore(own, tf.train.latest_checkpoint(folder))
    agree(False)
    at = "close"
    session = check = None
    own.close()

folder = sys.argv[1]
tell(ready=time.monotonic())
while True:
    try:
        try:
            while True:
                round_of_a_program(folder)
        finally:
            caught = time.monotonic()
    except KeyboardInterrupt:
        tell(interrupted=caught, at=at)
    except BaseException as problem:
        import traceback
        tell(interrupted=caught, at=at, problem=traceback.format_exc()[-3000:])
    try:
        if check is not None:
            check(True)
        if session is not None:
            session.close()
            session = check = None
        round_of_a_program(folder, quick=True)
        tell(works=True)
    except BaseException as problem:
        import traceback
        tell(works=False, problem=traceback.format_exc()[-1500:])
"""


class Outcome(NamedTuple):
    """What an interrupt ended with."""

    at: str
    seconds: float
    problem: str
    """'' if it was served."""

    @property
    def lasting(self) -> bool:
        """Whether it went wrong in another way than to come late."""
        return bool(self.problem) and not self.problem.startswith("late")


def interrupt(count: int, chance: random.Random) -> list[Outcome]:
    """Starts a program and interrupts it ``count`` times, or until something goes wrong."""
    folder = tempfile.mkdtemp()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ANABRANCH_CACHE": "off"}
    with open(f"{folder}/messages", "w+", encoding="utf-8") as messages:
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, folder],
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
            env=environment,
            start_new_session=True,
        )
        outcomes: list[Outcome] = []
        try:
            _read(program, 60.0)
            for number in range(count):
                time.sleep(chance.uniform(0.0, LATER if number else FIRST))
                sent = time.monotonic()
                program.send_signal(signal.SIGINT)
                outcomes.append(_outcome(program, sent))
                if outcomes[-1].lasting:
                    if program.poll() is None:
                        program.send_signal(signal.SIGUSR1)
                        time.sleep(0.5)
                    messages.seek(0)
                    said = messages.read()[-4000:]
                    outcomes[-1] = outcomes[-1]._replace(problem=f"{outcomes[-1].problem}\n{said}")
                    break
        finally:
            program.kill()
            program.wait()
            assert program.stdout is not None
            program.stdout.close()
            shutil.rmtree(folder, ignore_errors=True)
    return outcomes


def _outcome(program: subprocess.Popen[str], sent: float) -> Outcome:
    told = _read(program, PATIENCE)
    if told is None:
        status = program.poll()
        return Outcome("?", PATIENCE, "swallowed, or it hangs" if status is None else f"died with status {status}")
    at, seconds = told["at"], told["interrupted"] - sent
    if "problem" in told:
        return Outcome(at, seconds, f"came out as {told['problem']}")
    after = _read(program, PATIENCE)
    if after is None:
        status = program.poll()
        return Outcome(at, seconds, "hangs afterwards" if status is None else f"died afterwards with status {status}")
    if not after["works"]:
        return Outcome(at, seconds, f"does not work afterwards: {after['problem']}")
    return Outcome(at, seconds, "" if seconds <= LATEST else f"late: {seconds:.2f} s")


def _read(program: subprocess.Popen[str], patience: float) -> Any:
    """The next line that a program prints, read; None if there is none in time, or it has ended."""
    import threading

    lines: list[str] = []
    assert program.stdout is not None
    reader = threading.Thread(target=lambda out: lines.append(out.readline()), args=(program.stdout,), daemon=True)
    reader.start()
    reader.join(patience)
    return json.loads(lines[0]) if lines and lines[0] else None


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes by what the programs were at."""
    by_place = collections.defaultdict(list)
    for outcome in outcomes:
        by_place[outcome.at].append(outcome)
    rows = [f"{'at':12} {'sent':>5} {'served':>7} {'median s':>9} {'worst s':>8}"]
    for at, group in sorted(by_place.items()):
        times = [outcome.seconds for outcome in group]
        served = sum(not outcome.problem for outcome in group)
        rows.append(f"{at:12} {len(group):5} {served:7} {statistics.median(times):9.3f} {max(times):8.3f}")
    served = sum(not outcome.problem for outcome in outcomes)
    rows.append(f"{'all':12} {len(outcomes):5} {served:7}")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sends interrupts and prints what became of them; 0 if all were served."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=500, help="interrupts in all")
    parser.add_argument("--each", type=int, default=5, help="interrupts of one program")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further program after so many")
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    outcomes: list[Outcome] = []
    started = time.monotonic()
    while len(outcomes) < options.count and time.monotonic() - started < options.seconds:
        for outcome in interrupt(min(options.each, options.count - len(outcomes)), chance):
            outcomes.append(outcome)
            if outcome.problem:
                print(f"{len(outcomes)}: at {outcome.at}: {outcome.problem}", flush=True)
    print(table(outcomes))
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
