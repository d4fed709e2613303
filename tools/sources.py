"""The project's own files, as the tests in `tests/project/` see them."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NOT_OURS = {".venv", ".git", "build", "dist", "__pycache__", "out"}


@functools.cache
def project_files() -> tuple[Path, ...]:
    """All files that are, or with the next `git add` would be, part of the project."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        paths = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):  # An unpacked source archive, or no git.
        paths = [path for path in ROOT.rglob("*") if not _NOT_OURS & set(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in paths if path.is_file()))


def python_files(*folders: str) -> Iterator[Path]:
    """Hand-written Python files below the given folders of the project."""
    for path in project_files():
        relative = path.relative_to(ROOT)
        if path.suffix == ".py" and relative.parts[0] in folders and not path.name.endswith("_pb2.py"):
            yield path


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, node: ast.AST | None = None) -> str:
    """`path:line` below the project's root, for messages."""
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


def listing(problems: list[str], mend: str) -> str:
    """A failure message: what is wrong, one a line, and how to mend it."""
    return "\n".join(["", *problems, "", mend])
