"""Layers point down: each part of the package imports only parts of its own layer or of lower ones.

A lower part that needs something from above takes it as an argument, or has a slot in
`anabranch/core/contract/hooks.py` that the upper part fills when it loads. An import that only a type checker runs
counts too: it ties the parts just as well.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import ROOT, import_statements, listing, parsed, place, python_files

PACKAGE = "anabranch"
# From the lowest to the highest. The package's own `__init__` (the public names, resolved on first use) is above all.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"core"}),
    frozenset({"ops"}),
    frozenset({"xla", "autodiff", "formats", "variables"}),
    frozenset({"runtime", "placement", "rewrite"}),
    frozenset({"session"}),
    frozenset(
        {
            "cluster",
            "contrib",
            "platform",
            "data",
            "debug",
            "distribute",
            "distributions",
            "eager",
            "estimator",
            "feature_column",
            "layers",
            "losses",
            "metrics",
            "ragged",
            "rnn",
            "saved_model",
            "summary",
            "train",
        }
    ),
    frozenset({"cli", "compat", "keras", "lite", "serving"}),
    frozenset({"_public", "__main__"}),
)
# May import everything; only tests import it.
TESTING = "testing"
# Programs and libraries that use the package as its users do. They load when they are named, after all else.
PROGRAMS = frozenset({"cli", "compat", "contrib", "feature_column", "keras"})
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

# What `core` may import besides the standard library.
CORE_DEPENDENCIES = frozenset({"google", "ml_dtypes", "numpy"})
# Modules that import parts of the package inside a function, each with its reason.
LATE_IMPORTS: dict[str, str] = {
    "anabranch/core/values/shapes.py": "shapes are used, and load, without protobuf, which costs 30 ms",
}


def module_parts(path: Path) -> tuple[str, ...]:
    """`anabranch/core/graph/graph.py` as ('anabranch', 'core', 'graph'); an `__init__` stands for its package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def part_of(module: tuple[str, ...]) -> str:
    """The part that a module belongs to; '' for the package itself."""
    return module[1] if len(module) > 1 else ""


def parts_that_exist() -> frozenset[str]:
    """Names below the package: folders and modules."""
    return frozenset(part_of(module_parts(path)) for path in python_files(PACKAGE)) - {""}


def imported_modules(path: Path, node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Absolute dotted names that an import statement names; `from a import b` gives both a and a.b as a.b."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield tuple(alias.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        base: tuple[str, ...] = tuple(node.module.split(".")) if node.module else ()
        if node.level:
            package = module_parts(path) if path.name == "__init__.py" else module_parts(path)[:-1]
            base = package[: len(package) - node.level + 1] + base
        for alias in node.names:
            yield (*base, alias.name)


def own_imports(path: Path) -> Iterator[tuple[ast.AST, bool, str]]:
    """Imports of the package's parts: statement, whether it stands in a function, and part; '' for a name of the
    package's public interface.
    """
    for node, inside in import_statements(path):
        for module in imported_modules(path, node):
            if module[0] == PACKAGE:
                yield node, inside, module[1] if len(module) > 1 and module[1] in KNOWN else ""


KNOWN = parts_that_exist()


def load_time_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes that run when the module loads: no function bodies, no blocks for the type checker."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
            continue
        waiting.extend(ast.iter_child_nodes(node))


def test_every_part_has_a_layer() -> None:
    unknown = sorted(KNOWN - LEVEL.keys() - {TESTING})
    assert not unknown, listing(
        [f"{PACKAGE}/{name}" for name in unknown],
        "Mend: put the part into LAYERS in tests/project/test_layers.py, as low as what it imports allows, or move it "
        "into a part that is there.",
    )


def test_layers_point_down() -> None:
    problems = []
    for path in python_files(PACKAGE):
        part = part_of(module_parts(path))
        if part in ("", TESTING) or part not in LEVEL:
            continue
        for node, _, target in own_imports(path):
            if target == "" and part in PROGRAMS:
                continue
            if target == "":
                problems.append(f"{place(path, node)}: `{part}` imports a public name from `{PACKAGE}` itself")
            elif target == TESTING or LEVEL.get(target, -1) > LEVEL[part]:
                problems.append(f"{place(path, node)}: `{part}` imports `{target}`, which stands above it")
    order = " < ".join(",".join(sorted(parts)) for parts in LAYERS)
    assert not problems, listing(
        problems,
        "Mend: move the code to the higher part, pass what it needs as an argument, or add a slot to "
        "core/contract/hooks.py that the upper part fills. Import from the module that defines a name, not from "
        f"`{PACKAGE}`. Order: {order}; only tests import `{TESTING}`.",
    )


def test_no_import_of_the_package_inside_a_function() -> None:
    problems = set()
    late = set()
    for path in python_files(PACKAGE):
        for node, inside, _ in own_imports(path):
            if inside:
                late.add(place(path))
                if place(path) not in LATE_IMPORTS:
                    problems.add(f"{place(path, node)}: {ast.unparse(node)}")
    unused = sorted(LATE_IMPORTS.keys() - late)
    assert not problems, listing(
        sorted(problems),
        "Mend: import at the head of the module. If that makes a cycle, the two modules are one, or a third should "
        "hold what both need. A true exception goes into LATE_IMPORTS in tests/project/test_layers.py with its reason.",
    )
    assert not unused, listing(unused, "Mend: these no longer import late; take them out of LATE_IMPORTS.")


def test_core_imports_only_numpy_and_protobuf() -> None:
    allowed = sys.stdlib_module_names | CORE_DEPENDENCIES | {PACKAGE}
    problems = [
        f"{place(path, node)}: {ast.unparse(node)}"
        for path in python_files(PACKAGE)
        if part_of(module_parts(path)) == "core"
        for node, _ in import_statements(path)
        for module in imported_modules(path, node)
        if module[0] not in allowed
    ]
    assert not problems, listing(
        problems, f"Mend: core may import {sorted(CORE_DEPENDENCIES)} and the standard library."
    )


def test_core_and_ops_do_not_import_jax_when_they_load() -> None:
    problems = [
        f"{place(path, node)}: {ast.unparse(node)}"
        for path in python_files(PACKAGE)
        if part_of(module_parts(path)) in ("core", "ops")
        for node in load_time_nodes(parsed(path))
        for module in imported_modules(path, node)
        if module[0] in ("jax", "jaxlib")
    ]
    assert not problems, listing(problems, "Mend: a kernel takes `ctx.xp` and `ctx.lax` when it runs.")


@pytest.mark.parametrize("part", ["", "core", "ops"])
def test_loading_brings_no_jax(part: str) -> None:
    """The whole of a part, in a fresh process: what a module imports through others counts too."""
    modules = sorted(
        ".".join(module_parts(path)) for path in python_files(PACKAGE) if part_of(module_parts(path)) == part
    )
    program = (
        f"import importlib, sys\nfor name in {modules!r}:\n    importlib.import_module(name)\n"
        "    if 'jax' in sys.modules: sys.exit(f'{name} brings jax')"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert shown.returncode == 0, listing(
        [shown.stderr.strip()], "Mend: `python -X importtime -c 'import NAME'` shows by which way it comes."
    )


def test_only_tests_import_testing() -> None:
    problems = [
        f"{place(path, node)}: {ast.unparse(node)}"
        for path in python_files(PACKAGE, "tools")
        if part_of(module_parts(path)) != TESTING
        for node, _ in import_statements(path)
        for module in imported_modules(path, node)
        if module[:2] == (PACKAGE, TESTING)
    ]
    assert not problems, listing(problems, "Mend: move what is needed outside tests to the part that needs it.")
