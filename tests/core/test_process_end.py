"""The end of a process leaves out the collector's last search, unless something has to be freed."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from anabranch.core import process_end

HEAD = """
import atexit, gc
atexit.register(lambda: print("frozen" if gc.get_freeze_count() else "searched"))  # called last
import anabranch as tf
with tf.Session() as session:
    session.run(tf.constant(1.0) + 1.0)
"""


def output(program):
    result = subprocess.run([sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_a_process_ends_without_a_last_search():
    assert output("") == ["frozen"]


@pytest.mark.parametrize(
    "thing",
    [
        "class Thing:\n    def __del__(self): print('freed')\n",
        "def Thing():\n    try: yield\n    finally: print('freed')\n",
    ],
)
def test_what_does_something_when_it_is_freed_is_freed(thing):
    cycle = "items = [Thing()]\nnext(iter(items[0]), 0) if hasattr(items[0], '__next__') else 0\nitems.append(items)\n"
    assert output(thing + cycle + "del items\n") == ["searched", "freed"]


def test_an_open_file_in_a_cycle_is_written(tmp_path):
    path = tmp_path / "file"
    assert output(f"items = [open({str(path)!r}, 'w')]\nitems[0].write('all')\nitems.append(items)\n") == ["searched"]
    assert path.read_text() == "all"


def test_streams_of_the_process_and_closed_files_need_not_be_freed(tmp_path):
    closed = (tmp_path / "file").open("w")
    closed.close()
    assert process_end.must_be_freed([sys.__stdin__, sys.__stdout__, closed, 1, {}, object]) is None
    opened = io.StringIO()
    assert process_end.must_be_freed([{}, opened]) is opened
