"""A process that is killed while it saves leaves all that it said to have saved, in each way of saving."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def kill(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "tools/kills.py"), *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        check=False,
    )


@pytest.mark.multiprocess
def test_each_way_of_saving_outlives_a_kill():
    run = kill("--count", "8", "--seed", "3")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "killed     8 times, 0 with something lost or torn" in run.stdout


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(1200)
def test_hundreds_of_kills_lose_nothing():
    assert kill("--count", "300", "--seed", "4").returncode == 0
