"""Modules: what they are called, and that they do not depend on each other in circles.

Policy. A module is named after its subject; a name such as `more` or `misc` hides that a concept has no name yet.
Modules import each other in one direction. An import that only a type checker runs counts, since it ties two modules
just as well. The circles that are left stand in `CIRCLES`; they may shrink, and none is added. The formatter decides
how code looks; its exceptions are for tables, and their number may only fall.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from sources import ROOT, import_statements, listing, place, python_files

PACKAGE = "anabranch"

VAGUE = re.compile(r"(?:^|_)(?:more|misc|functions|parts|common|utils?|helpers?|others?|rest|stuff)$")
# Names that say nothing by themselves, each with its reason.
NAMED: dict[str, str] = {
    "anabranch/contrib/seq2seq/helper.py": "a `Helper` steers a decoder",
    "anabranch/contrib/slim/nets/resnet_utils.py": "TensorFlow's name, which programs import",
    "anabranch/contrib/util.py": "`tf.contrib.util`",
    "anabranch/core/graphdef/frozen_functions.py": "functions of a GraphDef are its subject",
    "anabranch/core/graphdef/graph_util.py": "`tf.graph_util`",
    "anabranch/ops/control/python_functions.py": "Python functions are its subject",
    "anabranch/saved_model/signature_def_utils.py": "`tf.saved_model.signature_def_utils`",
}

CIRCLES: tuple[frozenset[str], ...] = (
    # A graph, its operations and its bodies hold each other.
    frozenset(
        f"anabranch.core.graph.{name}"
        for name in (
            "body",
            "body_ops",
            "default_graph",
            "elements",
            "graph",
            "operation",
            "passing",
            "regions",
            "scopes",
        )
    ),
    # The builder of the view hands itself to what builds its lists.
    frozenset({"anabranch.rewrite.functional_view", "anabranch.rewrite.view_lists"}),
)

MOST_SKIPS = {PACKAGE: 40, "benchmarks": 2, "tests": 78, "tools": 12}


def test_modules_are_named_after_their_subject() -> None:
    vague = {place(path) for path in python_files(PACKAGE) if VAGUE.search(path.stem)}
    problems = sorted(vague - NAMED.keys())
    assert not problems, listing(problems, "Mend: name it after what it is about; if that is two things, split it.")
    unused = sorted(NAMED.keys() - vague)
    assert not unused, listing(unused, "Mend: these names are gone; take them out of NAMED.")


def dotted(path: Path) -> str:
    """`anabranch.core.graph.graph`; an `__init__` stands for its package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def named_in_imports(path: Path) -> Iterator[str]:
    """What a module imports, by dotted names of modules or of what they define."""
    for node, _ in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert not node.level, f"{place(path, node)}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports() -> dict[str, set[str]]:
    """The modules of the package that each module imports, at any place of its text."""
    paths = {dotted(path): path for path in python_files(PACKAGE)}
    graph: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        for target in named_in_imports(path):
            while target and target not in paths:
                target = target.rpartition(".")[0]
            if target not in ("", PACKAGE, name):
                graph[name].add(target)
    return graph


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """Strongly connected components of two nodes or more (Tarjan, 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    components: list[frozenset[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        path.append(node)
        for target in sorted(graph[node]):
            if target not in number:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in path:
                lowest[node] = min(lowest[node], number[target])
        if lowest[node] == number[node]:
            component = path[path.index(node) :]
            del path[path.index(node) :]
            if len(component) > 1:
                components.append(frozenset(component))

    for node in graph:
        if node not in number:
            visit(node)
    return components


def shown(component: Iterable[str], graph: dict[str, set[str]]) -> str:
    names = sorted(component)
    return "\n".join(f"  {name} imports {', '.join(sorted(graph[name] & set(names)))}" for name in names)


def test_no_circles_between_modules() -> None:
    graph = imports()
    found = circles(graph)
    problems = [
        f"{len(component)} modules:\n{shown(component, graph)}"
        for component in found
        if not any(component <= known for known in CIRCLES)
    ]
    assert not problems, listing(
        problems,
        "Mend: move what both need into a third module, pass it as an argument, or let the upper one fill a slot.",
    )
    gone = [", ".join(sorted(known)) for known in CIRCLES if not any(component <= known for component in found)]
    assert not gone, listing(gone, "Mend: these circles are gone; take them out of CIRCLES.")


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert set(circles(graph)) == {frozenset("abc"), frozenset("de")}


def test_the_formatter_is_seldom_overruled() -> None:
    skips = {
        folder: sum(path.read_text(encoding="utf-8").count("# fmt: " + "skip") for path in python_files(folder))
        for folder in MOST_SKIPS
    }
    problems = [
        f"{folder}: {count}, at most {MOST_SKIPS[folder]}"
        for folder, count in skips.items()
        if count > MOST_SKIPS[folder]
    ]
    assert not problems, listing(problems, "Mend: let the formatter lay it out, or give the table a shorter row.")
