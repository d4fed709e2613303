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


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@functools.cache
def import_statements(path: Path) -> tuple[tuple[ast.Import | ast.ImportFrom, bool], ...]:
    """The imports of a file at any place of its text, each with whether it stands in a function's body.

    Only statements are looked at, which are a twelfth of the nodes: no expression holds an import.
    """
    statements: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    waiting: list[tuple[ast.AST, bool]] = [(parsed(path), False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            statements.append((node, inside))
            continue
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        waiting += [(inner, inside) for name in _BLOCKS for inner in getattr(node, name, ()) if name in node._fields]
    return tuple(sorted(statements, key=lambda statement: statement[0].lineno))


def place(path: Path, node: ast.AST | None = None) -> str:
    """`path:line` below the project's root, for messages."""
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


def listing(problems: list[str], mend: str) -> str:
    """A failure message: what is wrong, one a line, and how to mend it."""
    return "\n".join(["", *problems, "", mend])
