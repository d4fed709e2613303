"""Processes that a program of ``anabranch run`` starts by :mod:`multiprocessing`: they find Anabranch as it does.

A forked process has what its parent has. A spawned one begins with a bare interpreter, which is told in its command
line to call :func:`begin` before it loads the program. The server that forks on behalf of the program begins so, too:
it imports :mod:`anabranch.cli.multiprocessing_child`, which calls it. Options travel in an environment variable.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import spawn
from typing import Any

from anabranch.compat import hook, old_numpy, python_names

_VARIABLE = "ANABRANCH_RUN_OPTIONS"
_REPLACE, _PLAIN_NUMPY = "replace-tensorflow", "plain-numpy"
_command_line = spawn.get_command_line


def prepare(replace_tensorflow: bool, plain_numpy: bool) -> None:
    """Have the children that the process will start begin like itself."""
    options = {_REPLACE: replace_tensorflow, _PLAIN_NUMPY: plain_numpy}
    os.environ[_VARIABLE] = ",".join(name for name, given in options.items() if given)
    spawn.get_command_line = _line_that_begins  # looked up there by each way to spawn
    multiprocessing.set_forkserver_preload(["anabranch.cli.multiprocessing_child"])


def begin() -> None:
    """Make ``import tensorflow`` find Anabranch in a child, and provide what NumPy lost, as its parent was told to."""
    options = os.environ.get(_VARIABLE, "").split(",")
    hook.install(replace=_REPLACE in options)
    if _PLAIN_NUMPY not in options:
        old_numpy.provide()
        python_names.provide()
    prepare(_REPLACE in options, _PLAIN_NUMPY in options)


def _line_that_begins(**values: Any) -> list[str]:
    """A command line of :mod:`multiprocessing` whose Python code calls :func:`begin` first."""
    line = _command_line(**values)
    if "-c" in line:  # else an executable of its own, which knows what it is
        position = line.index("-c") + 1
        line[position] = f"from anabranch.cli.multiprocessing_children import begin; begin(); {line[position]}"
    return line
