"""Rules of the project that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sources import ROOT, listing, parsed, place, project_files, python_files

MOST_LINES = 800
MOST_MODULES = 25
CODE = ("anabranch", "benchmarks", "examples", "tests", "tools")

# Assembled here, so that this file does not hold what it looks for.
_FOLDERS = ("/work" + "/", "/root" + "/", "/opt" + "/", "/home" + "/", "/Users" + "/")
_HOSTS = (
    r"pypi\." + "org",
    r"pythonhosted\." + "org",
    r"registry\.npmjs\." + "org",
    r"deb\.debian\." + "org",
    r"--(?:extra-)?index-" + "url",
)
_FORBIDDEN = re.compile(rf"(?<![\w./:-])(?:{'|'.join(map(re.escape, _FOLDERS))})|{'|'.join(_HOSTS)}")


def test_no_file_is_long() -> None:
    long = [
        f"{place(path)}: {lines} lines"
        for path in python_files(*CODE)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    ]
    assert not long, listing(long, f"Mend: split it by subject into files of at most {MOST_LINES} lines.")


def test_no_folder_is_crowded() -> None:
    modules: dict[str, int] = {}
    for path in python_files("anabranch"):
        folder = place(path.parent)
        modules[folder] = modules.get(folder, 0) + (path.name != "__init__.py")
    crowded = [f"{folder}: {count} modules" for folder, count in modules.items() if count > MOST_MODULES]
    assert not crowded, listing(crowded, f"Mend: sort them by subject into folders of at most {MOST_MODULES} modules.")


def expectations(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of `pytest.raises` and `pytest.warns`, under any name that ends so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("raises", "warns", "assertRaises"):
                yield node


def vague(call: ast.Call) -> bool:
    """Whether any text would match."""
    match = next((keyword.value for keyword in call.keywords if keyword.arg == "match"), None)
    return match is None or (isinstance(match, ast.Constant) and match.value in ("", ".", ".*", ".+", None))


def test_every_expected_error_matches_its_text() -> None:
    problems = [
        f"{place(path, call)}: {ast.unparse(call)}"
        for path in python_files("tests")
        for call in expectations(parsed(path))
        if vague(call)
    ]
    assert not problems, listing(
        problems, "Mend: add match= with the words that tell this error from others, and the name of the op in it."
    )


def test_vague_expectations_are_found() -> None:
    source = "raises(E)\npytest.raises(E, match='')\npytest.warns(W, match='.*')\npytest.raises(E, match='no op a')"
    assert [vague(call) for call in expectations(ast.parse(source))] == [True, True, True, False]


def test_no_folder_of_one_machine_and_no_registry() -> None:
    problems = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # Data.
        for number, line in enumerate(text.splitlines(), 1):
            if found := _FORBIDDEN.search(line):
                problems.append(f"{path.relative_to(ROOT)}:{number}: {found[0]}")
    assert not problems, listing(
        problems, "Mend: paths start at the project's root or are arguments; the package client knows its registry."
    )


def test_forbidden_text_is_found() -> None:
    for folder in _FOLDERS:
        assert _FORBIDDEN.search(f"see {folder}x")
        assert not _FORBIDDEN.search(f"docs{folder}x")
    assert _FORBIDDEN.search("pip install --index-" + "url x")


def test_every_package_is_a_package() -> None:
    folders = {path.parent for path in python_files("anabranch")}
    folders |= {parent for folder in folders for parent in folder.parents if parent.is_relative_to(ROOT / "anabranch")}
    missing = sorted(place(folder) for folder in folders if not (folder / "__init__.py").exists())
    assert not missing, listing(missing, "Mend: add an __init__.py with a docstring that says what the package holds.")


def public_definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes of a module whose names are public."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def test_modules_and_public_definitions_have_docstrings() -> None:
    problems = []
    for path in python_files("anabranch", "tools"):
        tree = parsed(path)
        if not ast.get_docstring(tree):
            problems.append(f"{place(path)}: the module")
        problems.extend(
            f"{place(path, node)}: {node.name}" for node in public_definitions(tree) if not ast.get_docstring(node)
        )
    assert not problems, listing(
        problems, "Mend: one line that says what it computes, or a leading underscore if nobody else uses it."
    )
