"""Run the commands of ``docs/cluster.md``, as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "cluster.md").read_text(), re.DOTALL)


def command(line):
    words = shlex.split(line.removesuffix(" &"))
    start = {"anabranch": [sys.executable, "-m", "anabranch"], "python": [sys.executable]}[words[0]]
    return [*start, *words[1:]]


def run(line, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command(line), cwd=ROOT, env=environment, capture_output=True, text=True, **options)


def tasks_running():
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "parameter_servers.py" in line]


def test_launch_starts_all_tasks_and_leaves_none():
    (launch,) = BLOCKS[0].splitlines()
    done = run(launch, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\[worker 0\] step \d+, \d+ of them here, loss", done.stdout)
    assert re.search(r"\[worker 1\] step \d+, \d+ of them here, loss", done.stdout)
    assert not tasks_running()


def test_a_task_that_dies_is_started_again_or_ends_the_others(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("import os, sys, time\nprint(os.environ['TF_CONFIG'][:12])\nsys.exit(3)\n")
    done = run(f"anabranch launch --ps 0 --workers 1 --restarts 1 {script}", timeout=100)
    assert done.returncode == 1
    assert done.stdout.count('[worker 0] {"cluster": ') == 2
    assert "ended with status 3 after 1 restarts" in done.stdout


def test_tasks_by_hand_and_their_status():
    server_line, worker_line, _ = BLOCKS[1].splitlines()
    (status,) = BLOCKS[2].splitlines()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command(server_line), cwd=ROOT, env=environment)
    try:
        end = time.monotonic() + 60
        while (asked := run(status)).returncode == 2 and time.monotonic() < end:
            time.sleep(0.5)
        assert asked.returncode == 1  # the worker does not answer
        assert "/job:ps/replica:0/task:0" in asked.stdout
        done = run(worker_line, timeout=100)
        assert done.returncode == 0, done.stderr
        assert re.search(r"step \d+", done.stdout)
        assert '"variables": 3' in run(f"{status} --json").stdout
    finally:
        server.kill()
        server.wait(20)
