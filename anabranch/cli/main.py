"""The command ``anabranch``.

anabranch run SCRIPT [ARGS...]       run a program written for TensorFlow 1.x
anabranch run -m MODULE [ARGS...]    the same for a module
anabranch check PATH...              what programs use that is not there, without running them
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import anabranch
from anabranch.cli import check, run


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser(prog="anabranch", description=anabranch.__doc__)
    made.add_argument("--version", action="version", version=f"anabranch {anabranch.__version__}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run.add_parser(commands)
    check.add_parser(commands)
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and ends the process with its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["run"]:
        # Options of `run` end at the script: what follows is the script's own, whatever it looks like.
        sys.exit(run.run_command(arguments[1:]))
    options = parser().parse_args(arguments)
    sys.exit(options.call(options))
