"""``anabranch check``: what programs use that is not there, line by line, without running them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from anabranch.compat import check


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to those of ``anabranch``."""
    subparser = commands.add_parser(
        "check", help="list what programs use that is not there, without running them", description=__doc__
    )
    subparser.add_argument("paths", nargs="+", metavar="PATH", help="a program, or a folder of programs")
    subparser.add_argument("--json", action="store_true", help="one JSON array of findings")
    subparser.set_defaults(call=run)
    return subparser


def programs(paths: list[str]) -> list[str]:
    """The Python files among paths and in folders, sorted; FileNotFoundError for a path that is not there."""
    files = []
    for path in paths:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                files += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")]
        elif os.path.exists(path):
            files.append(path)
        else:
            raise FileNotFoundError(f"no file or folder {path!r}")
    return files


def run(options: argparse.Namespace) -> int:
    """Print the findings; 0 if there are none, 1 if there are, 2 if a file cannot be read."""
    try:
        files = programs(options.paths)
    except FileNotFoundError as problem:
        print(f"anabranch check: {problem}", file=sys.stderr)
        return 2
    findings, unreadable = check.check_files(files)
    for path, reason in unreadable:
        print(f"anabranch check: {path}: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            print(f"{finding.path}:{finding.line}:{finding.column}: {finding.problem}")
            print(f"    instead: {finding.instead}")
        print(f"{len(findings)} findings in {len(files)} files" if findings or files else "no Python files")
    return 2 if unreadable else 1 if findings else 0
