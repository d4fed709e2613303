"""What a program uses that is not there, from its text alone.

The program is read, not run. Names that stand for TensorFlow or parts of it are followed through imports, ``as``,
from-imports and assignments (``slim = tf.contrib.slim``) in the file; what hangs on them by dots is looked up in the
public interface, and arguments of calls are compared with the signatures. Methods of objects that a call returns are
not followed.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import inspect
import tokenize
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import anabranch
from anabranch.compat import absent_libraries, hook, internals, versions

ROOTS = ("tensorflow", "anabranch")


class Finding(NamedTuple):
    """Something that is not there: where, what, and what to write instead."""

    path: str
    line: int
    column: int
    symbol: str
    problem: str
    instead: str


def check_files(paths: list[str]) -> tuple[list[Finding], list[tuple[str, str]]]:
    """The findings in the files of one program, and the files that cannot be read, with the reasons.

    A name that one file assigns (``tf.GraphKeys.TARGETS = ...``) is there for the others, too.
    """
    readers: list[_Reader] = []
    unreadable: list[tuple[str, str]] = []
    with _without_collector():
        for path in paths:
            try:
                with tokenize.open(path) as file:
                    readers.append(_read(file.read(), path))
            except (SyntaxError, ValueError, OSError) as problem:
                unreadable.append((path, str(problem)))
    assigned = set().union(*(reader.assigned for reader in readers))
    return [finding for reader in readers for finding in reader.ordered(assigned)], unreadable


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Leave the collector of cycles off: syntax trees have none, and it would look at all of them again and again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def check_source(source: str, path: str = "<text>") -> list[Finding]:
    """The findings in a program's text, in the order of its lines; SyntaxError if it is not Python of this version."""
    reader = _read(source, path)
    return reader.ordered(reader.assigned)


def _read(source: str, path: str) -> _Reader:
    """A reader that has read a program's text."""
    reader = _Reader(path)
    tree = ast.parse(source, path)  # of every file, since one that Python cannot read is worth knowing of
    if not any(root in source for root in ROOTS):
        return reader
    nodes = [node for node in _breadth_first(tree) if isinstance(node, _READ)]
    # First all bindings, since a function may use a name that the module binds further down.
    for node in nodes:
        reader.bind(node)
    for node in nodes:
        reader.read(node)
    reader.inner.clear()  # which would keep the tree
    return reader


def _breadth_first(tree: ast.AST) -> list[ast.AST]:
    """The nodes of a tree in the order of `ast.walk`, which takes longer than the parser."""
    nodes = [tree]
    for node in nodes:  # the list grows while it is read
        for child in vars(node).values():
            if isinstance(child, ast.AST):
                nodes.append(child)
            elif isinstance(child, list):
                nodes.extend(item for item in child if isinstance(item, ast.AST))
    return nodes


_READ = (ast.Import, ast.ImportFrom, ast.Assign, ast.Attribute, ast.Call)
_SPECIAL = {"__version__", "__git_version__", "__compiler_version__"}  # attributes of the module itself
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


@functools.lru_cache(maxsize=1 << 14)
def lookup(dotted: str) -> tuple[Any, str]:
    """The object of a dotted name below ``tensorflow``, and the longest part of the name that is there.

    The object is ``MISSING`` if the next part is not there.
    """
    parts = [part for part in dotted.split(".") if part]
    if parts[:2] == ["compat", "v1"]:
        parts = parts[2:]
    value: Any = anabranch
    module = ""
    for position, part in enumerate(parts):
        there = ".".join(parts[:position])
        if not module and part in _SPECIAL:
            return part, ".".join(parts)
        inside = isinstance(value, types.ModuleType) or value is hook.INTERNAL
        try:
            if inside:
                value = _member(module, part)
                if absent_libraries.is_stand_in(value) or (
                    value is hook.INTERNAL and absent_libraries.library_of(".".join(parts[: position + 1]))
                ):
                    return MISSING, there
                module = f"{module}.{part}" if module else part
            elif inspect.isclass(value) or hasattr(value, "DESCRIPTOR"):
                value = getattr(value, part)
            else:
                return value, there  # a method of a value: not followed
        except (AttributeError, ImportError):
            return MISSING, there
    return value, ".".join(parts)


def _member(module: str, name: str) -> Any:
    """A name of a module below ``tensorflow``; ``hook.INTERNAL`` for an internal module."""
    full = f"{module}.{name}" if module else name
    if internals.places(full) is not None:
        try:
            return hook.resolve_value(module, name)
        except (AttributeError, ImportError):
            return hook.INTERNAL
    return hook.resolve_value(module, name)


class _Reader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.findings: list[tuple[Finding, str]] = []  # each with the name that is missing, or ""
        self.inner: set[ast.AST] = set()  # names that are only the beginning of a longer one
        self.assigned: set[str] = set()  # names that the program itself makes: ``tf.mul = tf.multiply``
        self.names: dict[str, str] = {}  # a name of the program -> dotted name below tensorflow ("" is tensorflow)

    # ------------------------------------------------------------------------------------------------------- bindings
    def bind(self, node: ast.AST) -> None:
        """Note names that stand for parts of TensorFlow."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                root, _, below_root = alias.name.partition(".")
                if root in ROOTS:
                    self.names[alias.asname or root] = below_root if alias.asname else ""
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            root, _, below_root = node.module.partition(".")
            if root in ROOTS:
                for alias in node.names:
                    if alias.name != "*":
                        self.names[alias.asname or alias.name] = (
                            f"{below_root}.{alias.name}" if below_root else alias.name
                        )
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            dotted = self.dotted(node.value)
            if dotted and not isinstance(node.value, ast.Name):
                self.names.setdefault(node.targets[0].id, dotted)
        elif isinstance(node, ast.Attribute):
            self.inner.add(node.value)
            if isinstance(node.ctx, ast.Store) and (dotted := self.dotted(node)):
                self.assigned.add(dotted.removeprefix("compat.v1."))

    def dotted(self, node: ast.AST) -> str | None:
        """The name below ``tensorflow`` that an expression stands for, or None."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return None
        return ".".join([*filter(None, [self.names[node.id]]), *reversed(parts)])

    # -------------------------------------------------------------------------------------------------------- findings
    def add(self, node: Any, symbol: str, problem: str, instead: str, missing: str = "") -> None:
        """Note a finding at a node, with the name that is missing if that is the problem."""
        finding = Finding(self.path, node.lineno, node.col_offset + 1, f"tf.{symbol}", problem, instead)
        self.findings.append((finding, missing))

    def ordered(self, assigned: set[str]) -> list[Finding]:
        """The findings by line, without names that the program assigns."""
        findings = {finding for finding, missing in self.findings if missing not in assigned}
        return sorted(findings, key=lambda finding: (finding.line, finding.column, finding.symbol))

    def missing(self, node: Any, dotted: str, there: str) -> None:
        """Note a name that is not there."""
        name = dotted.removeprefix("compat.v1.")
        missing_part = name[len(there) :].lstrip(".")
        name = ".".join(filter(None, [there, missing_part.split(".")[0]]))
        self.add(node, name, *_absence(name), missing=name)

    def read(self, node: ast.AST) -> None:
        """Note what a statement or expression uses that is not there."""
        if isinstance(node, ast.ImportFrom):
            self.read_from(node)
        elif isinstance(node, ast.Import):
            self.read_import(node)
        elif isinstance(node, ast.Call):
            self.read_call(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node not in self.inner:
            dotted = self.dotted(node)
            if dotted is not None:
                self.check_name(node, dotted)

    def read_from(self, node: ast.ImportFrom) -> None:
        """Imported names."""
        root, _, below_root = (node.module or "").partition(".")
        if root not in ROOTS or node.level:
            return
        for alias in node.names:
            dotted = below_root if alias.name == "*" else f"{below_root}.{alias.name}" if below_root else alias.name
            self.check_name(node, dotted)

    def read_import(self, node: ast.Import) -> None:
        """Imported modules."""
        for alias in node.names:
            root, _, below_root = alias.name.partition(".")
            if root in ROOTS and below_root:
                self.check_name(node, below_root)

    def check_name(self, node: Any, dotted: str) -> Any:
        """Look a name up and note it if it is not there."""
        value, there = lookup(dotted)
        if value is MISSING:
            self.missing(node, dotted, there)
        return value

    def read_call(self, node: ast.Call) -> None:
        """The arguments of a call."""
        dotted = self.dotted(node.func)
        if dotted is None:
            return
        value, there = lookup(dotted)
        if (
            value is MISSING
            or not callable(value)
            or there != dotted.removeprefix("compat.v1.").removeprefix("compat.v1")
        ):
            return
        for problem, instead in _wrong_arguments(dotted, node):
            self.add(node, dotted, problem, instead)


@functools.lru_cache(maxsize=1 << 12)
def _absence(name: str) -> tuple[str, str]:
    """What is said of a name that is not there, and what to write instead."""
    return f"tf.{name} is not there ({versions.belongs_to(name)})", versions.instead(name)


@functools.lru_cache(maxsize=1 << 12)
def _parameters(dotted: str) -> list[inspect.Parameter] | None:
    """The parameters of a function; None of what has none to be looked at: a message of a proto, for example."""
    try:
        return list(inspect.signature(lookup(dotted)[0]).parameters.values())
    except (TypeError, ValueError):
        return None


def _wrong_arguments(dotted: str, node: ast.Call) -> Iterator[tuple[str, str]]:
    """Arguments of a call that the signature does not have."""
    parameters = _parameters(dotted)
    if parameters is None:
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        named = None
    else:
        named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    shown = ", ".join(parameter.name for parameter in parameters)
    for keyword in node.keywords:
        if named is not None and keyword.arg is not None and keyword.arg not in named:
            yield f"tf.{dotted} has no argument {keyword.arg!r}", f"one of its arguments: {shown}"
    if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if not starred and len(node.args) > len(places):
            yield f"tf.{dotted} takes {len(places)} arguments, not {len(node.args)}", f"its arguments: {shown}"
