"""``anabranch cache``: the compiled programs that are kept on disk (docs/notes/0014-disk-cache.md)."""

from __future__ import annotations

import argparse

from anabranch.cli import showing
from anabranch.xla import disk_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, purpose in (("info", "folder, entries and bytes"), ("clear", "remove all entries")):
        child = actions.add_parser(name, help=purpose, description=f"{purpose.capitalize()}.", allow_abbrev=False)
        showing.add_json(child)


def run(options: argparse.Namespace) -> int:
    """Run a subcommand; return its exit status."""
    cache = disk_cache.chosen()
    info = cache.clear() if options.action == "clear" else cache.info()
    if options.json:
        removed = {"removed": not info.why_off} if options.action == "clear" else {}
        showing.print_json({**info._asdict(), **removed})
    elif info.why_off:
        print(f"off: {info.why_off}")
    elif options.action == "clear":
        print(f"removed {info.entries} entries, {showing.size_text(info.size)}, from {info.folder}")
    else:
        print(
            f"{info.folder}: {info.entries} entries, {showing.size_text(info.size)} of at most "
            f"{showing.size_text(info.limit)}"
        )
    return 0
