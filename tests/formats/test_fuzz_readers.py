"""The tool that damages the files of all readers: that it finds what it should, and some minutes of it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import fuzz_readers
import fuzz_targets
import pytest

import anabranch as tf

TOOL = Path(fuzz_readers.__file__)


def run(folder, *arguments):
    command = [sys.executable, str(TOOL), "--findings", str(folder / "findings"), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=dict(os.environ, JAX_PLATFORMS="cpu")
    )
    return done.returncode, done.stdout + done.stderr


def test_what_counts_as_a_finding(tmp_path) -> None:
    def read(data: bytes) -> None:
        if data == b"refused":
            raise tf.errors.DataLossError(None, None, "damaged")
        if data == b"careless":
            int("x")
        if data == b"wrong":
            raise KeyError("x")

    judge = fuzz_readers.Judge("name", fuzz_readers.Target(read, []), str(tmp_path))
    for data in (b"fine", b"refused", b"careless", b"careless", b"wrong"):
        judge(data)
    assert judge.counts == {"runs": 5, "refused": 1, "findings": 2}
    kept = sorted(path.read_bytes() for path in tmp_path.iterdir() if not path.suffix)
    assert kept == [b"careless", b"wrong"]


def test_a_seed_gives_the_same_inputs_again() -> None:
    example = tf.train.Example()
    example.features.feature["a"].int64_list.value.extend([1, 2, 3])
    target = fuzz_readers.Target(bytes, [example.SerializeToString(deterministic=True)], tf.train.Example)

    def inputs(seed):
        source = random.Random(seed)
        return [fuzz_readers.mutated(target, target.samples[0], source) for _ in range(200)]

    assert inputs(1) == inputs(1) != inputs(2)
    assert len(set(inputs(1))) > 100


@pytest.mark.multiprocess
def test_one_reader_for_some_seconds(tmp_path) -> None:
    status, told = run(tmp_path, "--only", "state_file", "--minutes", "0.05", "--seed", "3")
    assert status == 0, told
    assert "0 findings, 0 died" in told


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(900)
def test_all_readers_for_some_minutes(tmp_path) -> None:
    status, told = run(tmp_path, "--minutes", "5", "--seed", "4")
    assert status == 0, told
    assert told.count("0 findings, 0 died") == len(fuzz_targets.targets(str(tmp_path)))
