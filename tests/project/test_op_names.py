"""The system's layers do not ask which type an op is: what they may know of an op is a field of its contract.

A comparison of op types with strings, or a table of op types, knows the ops that its author thought of and misses the
others of the kind. `docs/notes/0002-op-contract.md` lists the questions that a definition answers. Building an op by
name is fine (`build("Mul", ...)`, `opdef.lookup("Const")`); so are graphs of version 1, whose control flow *is* a set
of op types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sources import ROOT, listing, parsed, place, python_files

import anabranch
from anabranch.core.contract import opdef

LAYERS = ("core", "xla", "runtime", "rewrite", "autodiff", "placement", "session.py")
# Conditionals and loops of version 1's ops, and the functional view of them.
OF_VERSION_1 = (
    "anabranch/core/graph/regions.py",
    "anabranch/rewrite/functional_view.py",
    "anabranch/rewrite/view_",
    "anabranch/runtime/v1/",
)
MEND = (
    "Mend: ask the op's definition (`role`, `passes`, `elementwise`, `moves`, `symbol`, `factors`, `cost`, `effect`, "
    "...; see docs/notes/0002-op-contract.md). Where none of its fields answers, give the contract one, derived or "
    "declared in the op's own block, and check the claim in anabranch/testing/op_claims.py."
)
# Methods of strings that take an op type apart.
_OF_STRINGS = frozenset(("startswith", "endswith", "removeprefix", "removesuffix", "find", "partition", "rpartition"))
_TYPES = frozenset(("type", "type_name"))
_SETS_OF_VERSION_1 = frozenset(("ENTERS", "EXITS", "NEXTS", "MERGES", "SWITCHES"))
"""Sets of op types that `anabranch/core/graph/regions.py` gives to others."""


def op_types() -> frozenset[str]:
    assert dir(anabranch)  # loads everything that defines ops
    return frozenset(opdef.all_definitions())


def system_files() -> Iterator[Path]:
    for path in python_files("anabranch"):
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[1] in LAYERS and not name.startswith(OF_VERSION_1):
            yield path


def _strings(node: ast.AST) -> Iterator[Any]:
    """The strings of a literal: itself, or what a list, tuple, set or dictionary (as keys) holds."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for item in node.elts:
            yield from _strings(item)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None:
                yield from _strings(key)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("frozenset", "set"):
        for item in node.args:
            yield from _strings(item)


def _asks_type(node: ast.AST) -> bool:
    """Whether an expression is the name of an op's type."""
    return isinstance(node, ast.Attribute) and node.attr in _TYPES


def _is_table(node: ast.AST) -> bool:
    """Whether an expression is a constant of a module, other than a set of version 1's types."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.isupper() and name not in _SETS_OF_VERSION_1


def _words(text: str, types: frozenset[str]) -> bool:
    """Whether a text is an op type, or a list of them to be split."""
    words = text.split()
    return bool(words) and all(word in types for word in words)


def questions(tree: ast.AST, types: frozenset[str]) -> Iterator[tuple[ast.AST, str]]:
    """Where a module asks for types of ops, and how."""
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            allowed.add(node.value)
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name == "gradient_override_map":  # what to do with ops that are built now
                allowed.update(node.args)
            if name in _OF_STRINGS and isinstance(function, ast.Attribute) and _asks_type(function.value):
                yield node, f"a part of a type's name: {ast.unparse(node)}"
            if name in ("match", "search", "fullmatch") and any(map(_asks_type, node.args)):
                yield node, f"a pattern of types' names: {ast.unparse(node)}"
            if name in ("split", "fromkeys") and isinstance(function, ast.Attribute):
                for item in [function.value] if name == "split" else node.args[:1]:
                    for text in _strings(item):
                        if _words(text.value, types):
                            yield text, f"a table of types: {ast.unparse(node)}"
        elif isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                for text in _strings(side):
                    if text.value in types:
                        yield text, f"a comparison: {ast.unparse(node)}"
                        break
            named = [side for side in (node.left, *node.comparators) if _is_table(side)]
            if named and any(map(_asks_type, (node.left, *node.comparators))):
                yield node, f"a table of types: {ast.unparse(node)}"
            if isinstance(node.ops[0], (ast.In, ast.NotIn)) and _asks_type(node.comparators[0]):
                yield node, f"a part of a type's name: {ast.unparse(node)}"
        elif isinstance(node, ast.MatchValue):
            for text in _strings(node.value):
                if text.value in types:
                    yield text, f"a case: {text.value!r}"
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)) and node not in allowed:
            for text in _strings(node):
                if text.value in types:
                    yield text, f"a table of types: {ast.unparse(node)[:80]}"
                    break


def test_no_layer_asks_which_type_an_op_is() -> None:
    types = op_types()
    found = dict.fromkeys(
        f"{place(path, node)}: {how}" for path in system_files() for node, how in questions(parsed(path), types)
    )
    assert not found, listing(list(found), MEND)


def test_questions_are_found() -> None:
    types = frozenset(("Const", "Identity", "ScatterNd"))
    asking = (
        'op.type == "Const"',
        'kind in ("Identity", "Other")',
        'TABLE = frozenset(("Const",))',
        'PRICES = {"Const": 1.0}',
        '"Nd" in op.type',
        "op.type in TABLE",
        "op.type in lists.TABLE",
        'op.definition.type_name.startswith("Scatter")',
        "PATTERN.match(op.type)",
        'TABLE = "Const Identity".split()',
        'match kind:\n    case "Const":\n        pass',
    )
    for text in asking:
        assert list(questions(ast.parse(text), types)), text
    fine = (
        'build("Const", value)',
        'opdef.lookup("Identity")',
        'node.op = "Identity"',
        '__all__ = ["Const"]',
        'graph.gradient_override_map({"Identity": name})',
        "op.role is Role.CONSTANT",
        "op.type in MERGES",
        "op.type in own",
        'name == "constant"',
        'f"{op.type} is not an operation"',
    )
    for text in fine:
        assert not list(questions(ast.parse(text), types)), text


def test_version_1_is_where_it_is_said_to_be() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in python_files("anabranch")}
    for prefix in OF_VERSION_1:
        assert any(name.startswith(prefix) for name in names), f"{prefix} names no file: take it out, or mend it"
