#!/usr/bin/env python3
"""Write `docs/absent.md`: the public names of TensorFlow 1.15 that are not here.

    python tools/absent_names.py api_115.tsv > docs/absent.md
    python tools/absent_names.py --shorten docs/absent.md     # take off the page what is here by now

The table holds a line for each public name of an installed TensorFlow 1.15.5: ``tf.`` and the dotted name, a tab, its
kind (``module``, ``class``, ``function`` ...). Names of modules and what lies directly in them are listed; members of
classes are not, since many are there only in instances. A namespace of which nothing is here is listed as one name.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from anabranch.compat import check, hook
from anabranch.core.contract import absent

HEAD = """# What is not here

Public names of TensorFlow 1.15.5, with its `tf.contrib`, that Anabranch does not have, made by `tools/absent_names.py`.
A namespace stands for all that is in it. Members of classes are not compared. Not here either: ops written in C++
(`tf.load_op_library`), serving and mobile export, and a server for TPUs. `anabranch check` finds in a program what
stands here, with lines and with what to write instead.
"""


def absent_names(lines: Iterable[str]) -> dict[str, list[str]]:
    """The names that are not here, by the namespace that is here and lacks them."""
    kinds = dict(line.rstrip("\n").split("\t")[:2] for line in lines if line.startswith("tf."))
    missing: dict[str, set[str]] = defaultdict(set)
    for name in kinds:
        if kinds.get(name.rpartition(".")[0]) == "class":
            continue
        dotted = name.removeprefix("tf.")
        value, there = check.lookup(dotted)
        if value is check.MISSING:
            missing[there].add(dotted[len(there) :].lstrip(".").split(".")[0])
    # slim has all names of contrib.layers, losses and metrics under its own.
    of_slim = {space for space in missing if space.startswith("contrib.slim")}
    elsewhere = set().union(*(missing[space] for space in ("contrib.layers", "contrib.losses", "contrib.metrics")))
    for space in of_slim:
        missing[space] -= elsewhere
    return {space: sorted(names) for space, names in sorted(missing.items()) if names}


def page(names: dict[str, list[str]]) -> str:
    """The page in Markdown."""
    lines = [HEAD]
    for space, inner in names.items():
        lines.append(f"## {f'tf.{space}' if space else 'tf'}\n")
        for name in inner:
            dotted = f"{space}.{name}".lstrip(".")
            advice = absent.instead(dotted)
            lines.append(f"- `tf.{dotted}`" + (f": {advice}" if advice else ""))
        lines.append("")
    return "\n".join(lines)


def is_here(line: str) -> bool:
    """Whether a line of the page lists a name that is here."""
    match = re.match(r"- `tf\.([\w.]+)`", line)
    return match is not None and check.lookup(match[1])[0] is not check.MISSING


def shortened(text: str) -> str:
    """The page without names that are here by now."""
    text = "".join(line for line in text.splitlines(keepends=True) if not is_here(line))
    return re.sub(r"## [^\n]*\n\s+(?=## |\Z)", "", text)


def main() -> int:
    """Print the page, or take names off it."""
    hook.install()
    if sys.argv[1] == "--shorten":
        path = Path(sys.argv[2])
        path.write_text(shortened(path.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    with open(sys.argv[1], encoding="utf-8") as table:
        print(page(absent_names(table)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
