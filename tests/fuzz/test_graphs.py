"""Graphs of random ops, attributes and values: run or refused, nothing else. See `tools/fuzz_graphs.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "fuzz_graphs.py"


def fuzz(findings: Path, *arguments: str) -> None:
    command = [sys.executable, str(TOOL), "--findings", str(findings), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " 0 findings " in done.stdout


@pytest.mark.multiprocess
def test_some_graphs(tmp_path: Path) -> None:
    fuzz(tmp_path / "findings", "--cases", "300", "--compiled", "0", "--seed", "1")


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(5))
def test_many_graphs(tmp_path: Path, seed: int) -> None:
    fuzz(tmp_path / "findings", "--cases", "20000", "--seed", str(seed))
