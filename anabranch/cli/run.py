"""``anabranch run``: a program written for TensorFlow 1.x, run as Python runs it.

The program sees ``sys.argv``, ``__main__``, the working folder and ``sys.path[0]`` as under ``python SCRIPT ARGS`` (or
``python -m MODULE ARGS``). What differs: ``import tensorflow`` finds Anabranch, also in processes that the program
starts by :mod:`multiprocessing`, NumPy has names that it lost, and freed memory stays with the process while it runs
(``tf.keep_memory``; ANABRANCH_KEEP_MEMORY=0 turns that off).
"""

from __future__ import annotations

import argparse
import builtins
import inspect
import io
import os
import runpy
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from typing import Any

from anabranch.cli import multiprocessing_children
from anabranch.compat import hook, old_numpy, python_names
from anabranch.xla import memory


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to those of ``anabranch``."""
    subparser = commands.add_parser("run", help="run a program written for TensorFlow 1.x", description=__doc__)
    _arguments(subparser)
    return subparser


def _arguments(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument(
        "--replace-tensorflow", action="store_true", help="run on Anabranch although a TensorFlow is installed"
    )
    subparser.add_argument(
        "--plain-numpy",
        action="store_true",
        help="do not provide what NumPy no longer has (np.int, x.tostring(), arrays of rows of different lengths)",
    )
    subparser.add_argument("-m", dest="module", metavar="MODULE", help="run a module instead of a script")
    subparser.add_argument("script", nargs="?", metavar="SCRIPT", help="the program; what follows belongs to it")
    subparser.add_argument("arguments", nargs="*", metavar="ARGS", help="arguments of the program")


def split(argv: Sequence[str]) -> tuple[list[str], str | None, str | None, list[str]]:
    """Own options, script, module and the program's arguments of a command line."""
    own: list[str] = []
    for position, item in enumerate(argv):
        if item == "-m":
            return own, None, (argv[position + 1] if position + 1 < len(argv) else ""), list(argv[position + 2 :])
        if not item.startswith("-") or item == "-":
            return own, item, None, list(argv[position + 1 :])
        own.append(item)
    return own, None, None, []


def run_command(argv: Sequence[str]) -> int:
    """Run a program; return its exit status."""
    own, script, module, arguments = split(argv)
    parser = argparse.ArgumentParser(
        prog="anabranch run",
        description="Runs a program written for TensorFlow 1.x.",
        usage="anabranch run [options] SCRIPT [ARGS...]\n       anabranch run [options] -m MODULE [ARGS...]",
    )
    _arguments(parser)
    options = parser.parse_args([*own, *([script] if script is not None else [])])
    if script is None and not module:
        parser.error("no program: write `anabranch run SCRIPT` or `anabranch run -m MODULE`")
    try:
        hook.install(replace=options.replace_tensorflow)
    except ImportError as problem:
        print(problem, file=sys.stderr)
        return 2
    if not options.plain_numpy:
        old_numpy.provide()
        python_names.provide()
    multiprocessing_children.prepare(options.replace_tensorflow, options.plain_numpy)
    _name_frozen_frames()
    memory.keep_if_asked(default="1")
    if script is None:
        assert module is not None
        return run_module(module, arguments)
    return run_script(script, arguments)


def _name_frozen_frames() -> None:
    """Tell `inspect` the module of the frames that lie below every program.

    They are of `runpy`, which has no file since Python 3.11. `inspect.stack()` looks for the module of such a frame in
    the files of all modules, several times for each frame and anew in each call: 25 ms where 3,000 modules are loaded,
    in libraries that look at their caller whenever a layer is made. Its own table of files is asked first.
    """
    file = runpy.run_module.__code__.co_filename
    if file.startswith("<"):
        inspect.modulesbyfile[file] = runpy.__name__


def run_module(module: str, arguments: Sequence[str]) -> int:
    """Run a module as ``python -m`` does."""
    sys.argv = [module, *arguments]
    sys.path[0] = os.getcwd()
    return _status(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True), 3)


def run_script(script: str, arguments: Sequence[str]) -> int:
    """Run a script as ``python SCRIPT`` does."""
    sys.argv = [script, *arguments]
    if os.path.isdir(script) or script.endswith((".zip", ".pyz")):  # a folder or archive with a __main__.py
        sys.path[0] = script
        return _status(lambda: runpy.run_path(script, run_name="__main__"), 3)
    try:
        with io.open_code(os.path.abspath(script)) as file:
            source = file.read()
    except OSError as problem:
        print(f"anabranch run: can't open file {script!r}: [Errno {problem.errno}] {problem.strerror}", file=sys.stderr)
        return 2
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    path = os.path.abspath(script)
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=path,
        __builtins__=builtins,
        __loader__=SourceFileLoader("__main__", path),
        __cached__=None,
        __annotations__={},
    )
    # The module stays: functions of the program that run at exit, or in threads, use its names.
    sys.modules["__main__"] = main

    def execute() -> None:
        code = compile(source, path, "exec", dont_inherit=True)
        exec(code, main.__dict__)

    return _status(execute, 2)


def _status(program: Any, own_frames: int) -> int:
    """Call the program; an error's traceback starts in the program, as under Python."""
    try:
        program()
    except SystemExit:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        trace = problem.__traceback__
        for _ in range(own_frames):
            if trace is not None and (trace.tb_next is not None or isinstance(problem, SyntaxError)):
                trace = trace.tb_next
        sys.excepthook(type(problem), problem.with_traceback(trace), trace)
        return 1
    return 0
