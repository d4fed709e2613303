"""Runs the examples of a Markdown page, as the tests do: `python tools/run_page.py docs/tour.md`.

Blocks marked `python` run from top to bottom in one namespace. A block with the line `# not run` is shown only. A
block marked `output` right after one that ran is what that one prints, to the letter. Tracebacks name the page and
its lines. Warnings are errors.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<kind>\w*)[^\n`]*$")
NOT_RUN = "# not run"


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, its text, and the number of its first line of text."""

    kind: str
    text: str
    line: int

    @property
    def runs(self) -> bool:
        """Whether this is an example that runs."""
        return self.kind == "python" and NOT_RUN not in (line.strip() for line in self.text.splitlines())


def fenced_blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    blocks = []
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        at += 1
        if opening is None:
            continue
        start, indent = at, len(opening["indent"])
        while at < len(lines) and lines[at].strip() != opening["ticks"]:
            at += 1
        if at == len(lines):
            raise ValueError(f"line {start}: the block that starts here is not closed; end it with {opening['ticks']}")
        text = "".join(line[indent:] + "\n" for line in lines[start:at])
        blocks.append(Block(opening["kind"], text, start + 1))
        at += 1
    return blocks


def run_page(path: Path) -> int:
    """Runs the examples of one page; returns how many ran."""
    blocks = fenced_blocks(path.read_text(encoding="utf-8"))
    namespace: dict[str, object] = {"__name__": "__main__", "__file__": str(path)}
    ran = 0
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if not block.runs:
            continue
        # Blank lines before the block make the lines of its code those of the page.
        code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        ran += 1
        if after is not None and after.kind == "output" and printed.getvalue() != after.text:
            raise AssertionError(
                f"{path}:{block.line}: the example prints\n{printed.getvalue()}\n"
                f"and the page says, line {after.line},\n{after.text}\nMend whichever is wrong."
            )
    return ran


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    if not arguments:
        print(__doc__)
        return 2
    warnings.simplefilter("error")
    for name in arguments:
        print(f"{name}: {run_page(Path(name).resolve())} examples ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
