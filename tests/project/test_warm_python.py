"""`tools/warm_python.py`: programs in forked children end, print and fail like those of `python -c`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm_python

ENDINGS = {
    "arguments": "import sys; print(sys.argv[1:], __name__)",
    "a status": "import sys; sys.exit(3)",
    "words": "import atexit; atexit.register(print, 'at exit'); raise SystemExit('words')",
    "a thread": "import threading; threading.Timer(0.1, print, ['from a thread']).start()",
    "a signal": f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})",
    "settings": "import os; print(os.environ.get('OWN'), os.getcwd())",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_programs_end_as_pythons_do(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OWN": "1"}
    command = [sys.executable, "-c", ENDINGS[name], "a", "b c"]
    python = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    warm = warm_python.run(ENDINGS[name], ["a", "b c"], cwd=tmp_path, env=environment)
    assert (warm.returncode, warm.stdout, warm.stderr) == (python.returncode, python.stdout, python.stderr)


def test_an_uncaught_exception_is_shown_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("def f():\n    assert 1 == 2\n\n\nf()\n")
    shown = warm_python.run(path)
    assert shown.returncode == 1
    assert f'File "{path}", line 2, in f\n    assert 1 == 2' in shown.stderr
    assert shown.stderr.endswith("AssertionError\n")


def test_a_child_compiles() -> None:
    program = (
        "import sys\nassert 'jax' in sys.modules\nimport anabranch as tf\n"
        "with tf.Session(config=tf.SessionOptions(tier='compiled')) as session:\n"
        "    print(session.run(tf.constant(2.0) * 3.0))\n"
    )
    assert [warm_python.run(program).stdout for _ in range(2)] == ["6.0\n"] * 2


def test_warnings_are_what_is_asked_for() -> None:
    program = "import warnings; warnings.warn('careful')"
    assert "careful" in warm_python.run(program).stderr
    assert warm_python.run(program, warnings_are="ignore").stderr == ""
    assert warm_python.run(program, warnings_are="error").returncode == 1


def test_what_is_read_at_import_is_refused() -> None:
    with pytest.raises(ValueError, match="JAX_PLATFORMS is read while modules load"):
        warm_python.run("", env={**os.environ, "JAX_PLATFORMS": "none"})
