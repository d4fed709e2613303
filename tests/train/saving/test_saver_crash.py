"""A process that dies at any moment, or has no room on the disk, leaves the last good checkpoint."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import anabranch as tf

# Kills itself at the n-th call of what changes files, for every n, and looks at what is there each time.
EVERY_CALL = """
import itertools, os, signal, sys
import numpy as np
from anabranch.core.values import dtypes
from anabranch.formats import bundle, staging
from anabranch.formats.bundle_reader import BundleReader

folder, kind = sys.argv[1:]
prefix = os.path.join(folder, "model")

def pieces(step):
    return [bundle.Piece(f"v{i}", "", dtypes.int64, np.full(3000 * i, step)) for i in range(4)]

def save(step):
    if kind == "whole":
        bundle.write_bundle(prefix, pieces(step))
    else:
        parts = [f"{prefix}_temp/part-{i}" for i in range(2)]
        for i, part in enumerate(parts):
            bundle.write_bundle(part, pieces(step)[i::2])
        bundle.merge_bundles(parts, prefix)

def at_call(n):
    calls = itertools.count(1)
    def counted(function):
        def call(*args, **kwargs):
            if next(calls) == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return call
    for name in ("replace", "unlink", "remove", "rmdir", "fsync", "makedirs"):
        setattr(os, name, counted(getattr(os, name)))
    staging.Syncing.write = counted(staging.Syncing.write)

step, n, killed = 0, 1, 0
save(step)
while True:
    child = os.fork()
    if not child:
        at_call(n)
        save(step + 1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    with BundleReader(prefix) as reader:
        found = np.concatenate([reader.read(f"v{i}") for i in range(4)])
    assert found.size == 18000 and np.all(found == found[0]), (n, found)
    assert found[0] in (step, step + 1), (n, found[0], step)
    if status == 0:
        assert found[0] == step + 1
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    killed += 1
    n += 1
    step = int(found[0])
save(step + 2)
left = sorted(os.listdir(folder))
assert len([name for name in left if "tempstate" in name]) == 0, left
print(killed, len(left))
"""

# Trains and saves without end; prints each step whose checkpoint is complete.
TRAINING = """
import sys
import anabranch as tf

folder, asynchronous = sys.argv[1], sys.argv[2] == "asynchronous"
step = tf.train.get_or_create_global_step()
values = [tf.Variable(tf.zeros([n]), name=f"v{n}") for n in (10, 1000, 300_000)]
add = tf.group(step.assign_add(1), *[v.assign_add(tf.ones_like(v)) for v in values])
saver = tf.train.Saver(max_to_keep=2, asynchronous=asynchronous)
with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
    session.run(tf.global_variables_initializer())
    last = tf.train.latest_checkpoint(folder)
    if last:
        saver.restore(session, last)
    while True:
        session.run(add)
        # Each step is saved under a name of its own and under one that is always the same.
        saver.save(session, folder + "/model", global_step=step, write_meta_graph=False)
        saver.wait()
        saver.save(session, folder + "/same", write_meta_graph=False, write_state=False)
        saver.wait()
        print(session.run(step), flush=True)
"""


def run(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.multiprocess
@pytest.mark.parametrize("kind", ["whole", "merged"])
def test_killed_at_every_call(tmp_path, kind):
    process = run(EVERY_CALL, str(tmp_path), kind)
    out, told = process.communicate(timeout=110)
    assert process.returncode == 0, told.decode()
    killed, _ = map(int, out.split())
    assert killed > 15


def kill_often(folder, times, mode, seed):
    rng = random.Random(seed)
    reached = 0
    for _ in range(times):
        with run(TRAINING, str(folder), mode) as process:
            first = process.stdout.readline()
            if first:
                time.sleep(rng.random() * 0.3)
                process.kill()
            out, told = process.communicate(timeout=60)
        assert first, told.decode()
        complete = [int(line) for line in out.split(b"\n")[:-1] if line]
        reached = max([reached + 1, *complete])
        for path in (tf.train.latest_checkpoint(str(folder)), str(folder / "same")):
            reader = tf.train.load_checkpoint(path)
            step = int(reader.get_tensor("global_step"))
            assert step >= reached
            for size in (10, 1000, 300_000):
                assert np.all(reader.get_tensor(f"v{size}") == step)
        reached = step
    return reached


@pytest.mark.multiprocess
@pytest.mark.parametrize("mode", ["synchronous", "asynchronous"])
def test_killed_while_it_trains(tmp_path, mode):
    assert kill_often(tmp_path, 2, mode, 1) >= 2  # one checkpoint a process at least, however slow the machine is


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["synchronous", "asynchronous"])
def test_killed_many_times(tmp_path, mode):
    assert kill_often(tmp_path, 60, mode, 2) >= 60


@pytest.fixture
def no_room():
    """Lets no file grow over 400 kB, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("options", [{}, {"sharded": True}, {"write_version": 1}, {"asynchronous": True}], ids=str)
def test_a_full_disk(tmp_path, no_room, options):
    with tf.Graph().as_default(), tf.Session() as session:
        small = tf.Variable(tf.ones([10]), name="small")
        size = tf.placeholder(tf.int32, [])
        grown = tf.Variable(tf.ones([0]), name="grown", validate_shape=False)
        grow = tf.assign(grown, tf.ones([size]), validate_shape=False)
        saver = tf.train.Saver(**options)
        session.run([small.initializer, grown.initializer])
        path = saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
        saver.wait()
        before = {item.name: item.read_bytes() for item in tmp_path.rglob("*") if item.is_file()}
        session.run(grow.op, {size: 200_000})

        def save():
            saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
            saver.wait()

        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"model.*; File too large"):
            save()
        assert {item.name: item.read_bytes() for item in tmp_path.rglob("*") if item.is_file()} == before
        saver.restore(session, path)
        assert session.run(tf.size(grown)) == 0
        session.run(grow.op, {size: 20})
        path = saver.save(session, str(tmp_path / "model"), write_meta_graph=False)
        saver.wait()
        assert tf.train.list_variables(path) == [("grown", [20]), ("small", [10])]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_device_without_space(tmp_path, monkeypatch):
    from anabranch.core.values import dtypes
    from anabranch.formats import bundle

    real = open

    def opened(path, mode="r", **options):
        return real("/dev/full", "wb", **options) if "tempstate" in str(path) else real(path, mode, **options)

    monkeypatch.setattr("builtins.open", opened)
    piece = bundle.Piece("w", "", dtypes.int64, np.zeros(9_000_000, np.int64))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left on device"):
        bundle.write_bundle(str(tmp_path / "m"), [piece])
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_what_a_dead_writer_left_is_removed(tmp_path):
    from anabranch.core.values import dtypes
    from anabranch.formats import bundle, staging

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = staging._host()
    gone = [f"m.index.tempstate-{host}-{dead.pid}-0", f"m.data-00000-of-00001.tempstate-{host}-{dead.pid}-3"]
    kept = [f"m.index.tempstate-{host}-{os.getppid()}-0", f"m.index.tempstate-elsewhere-{dead.pid}-0", "m.txt"]
    for name in gone + kept:
        (tmp_path / name).write_bytes(b"x")
    bundle.write_bundle(str(tmp_path / "m"), [bundle.Piece("w", "", dtypes.int64, np.zeros(3, np.int64))])
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "m.index", "m.data-00000-of-00001"])


@pytest.mark.multiprocess
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_waits_does_not_lose_what_is_being_written(tmp_path, number):
    """The program ends by an exception, and the process when the checkpoint is on the disk."""
    program = """
import signal, sys
import anabranch as tf
from anabranch.formats import bundle

write = bundle.write_bundle
bundle.write_bundle = lambda *args: (print("writing", flush=True), sys.stdin.readline(), write(*args))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: (print("told", flush=True), sys.exit(43)))
step = tf.Variable(7, name="step")
saver = tf.train.Saver(asynchronous=True)
with tf.Session() as session:
    session.run(step.initializer)
    saver.save(session, sys.argv[1], global_step=step)
    saver.wait()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "model")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "writing\n"
        time.sleep(0.5)  # it comes to the wait, or will find the signal there
        process.send_signal(number)
        assert process.stdout.readline() == "told\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(60) == 43
    assert tf.train.load_variable(str(tmp_path / "model-7"), "step") == 7
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model-7")
