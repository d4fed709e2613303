"""The command ``anabranch``.

anabranch run SCRIPT [ARGS...]       run a program written for TensorFlow 1.x
anabranch run -m MODULE [ARGS...]    the same for a module
anabranch check PATH...              what programs use that is not there, without running them
anabranch saved-model show|run       what a SavedModel holds, and calls of its signatures
anabranch checkpoint ls|show|diff    what checkpoints hold, and where two differ
anabranch graph summary|to-text|freeze|ops
anabranch where NAME...              where a public name or an op type is defined: file and line
anabranch cache info|clear           the compiled programs that are kept on disk
anabranch cluster status ADDRESS     what the tasks of a cluster do
anabranch launch [options] SCRIPT    start all tasks of a program on this machine

Those from `saved-model` to `cluster` have ``--json``; exit status 1 says that an answer is 'no' (checkpoints differ, a
graph has op types that are not defined, a task does not answer), 2 that something is wrong, which is told on standard
error.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
from collections.abc import Sequence

import anabranch
from anabranch.cli import check, run, showing

# Commands whose modules load when they are named: module with `add_arguments(parser)` and `run(options)`, purpose.
_LOADED_WHEN_NAMED = {
    "saved-model": ("anabranch.cli.saved_model_command", "show a SavedModel and call its signatures"),
    "checkpoint": ("anabranch.cli.checkpoint_command", "list, show and compare checkpoints"),
    "graph": ("anabranch.cli.graph_command", "summarise, print, freeze and check graphs"),
    "where": ("anabranch.cli.where_command", "say in which file and line a public name or an op type is defined"),
    "cluster": ("anabranch.cli.cluster_command", "show what the tasks of a cluster do"),
    "launch": ("anabranch.cli.launch_command", "start all tasks of a program on this machine"),
    "cache": ("anabranch.cli.cache_command", "show and clear the compiled programs that are kept on disk"),
}


def parser(named: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; options of a command that loads when it is named are there if it is."""
    top_parser = argparse.ArgumentParser(prog="anabranch", description=anabranch.__doc__)
    top_parser.add_argument("--version", action="version", version=f"anabranch {anabranch.__version__}")
    commands = top_parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run.add_parser(commands)
    check.add_parser(commands)
    for name, (module, summary) in _LOADED_WHEN_NAMED.items():
        child = commands.add_parser(name, help=summary, description=f"{summary.capitalize()}.", allow_abbrev=False)
        if name == named:
            command = importlib.import_module(module)
            command.add_arguments(child)
            child.set_defaults(call=functools.partial(showing.told_in_one_line, command.run))
    return top_parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and end the process with its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["run"]:
        # Options of `run` end at the script: what follows is the script's own, whatever it looks like.
        sys.exit(run.run_command(arguments[1:]))
    options = parser(arguments[0] if arguments else None).parse_args(arguments)
    sys.exit(options.call(options))
