"""Gradient rules and libraries ask for nothing that only a graph has.

They run where ops are executed at once, too: a tensor there has no op, no graph and no name, and there is no default
graph to ask (`anabranch/core/graph/builder.py` says what there is). `tests/ops/test_at_once.py` runs them so; here
their source is read, so that what no test runs is found as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from sources import ROOT, listing, parsed, place, python_files

ONLY_IN_A_GRAPH = frozenset({
    "op", "graph", "value_index", "consumers", "_consumers", "body", "control_inputs", "_control_inputs", "node_def",
    "traceback", "colocation_groups", "get_operations", "current_body",
})  # fmt: skip
"""Attributes of tensors, operations and graphs that only a graph's have."""
GRAPH_FUNCTIONS = frozenset({"get_default_graph", "graph_of"})

LIBRARIES = (
    "layers", "losses", "metrics", "rnn", "variables", "train/clipping.py", "train/moving_averages.py",
    "train/optimizer.py", "train/optimizers.py", "train/slots.py", "ops/nn/public_losses.py",
    "ops/nn/public_embedding.py", "ops/nn/bias_and_response.py", "ops/shared",
)  # fmt: skip
LIBRARY_CODE = {
    "layers/base.py": "names are counted in the default graph in every mode; updates are followed in a graph alone",
    "variables/initialized_value.py": "follows an initial value back through the graph that computes it",
    "variables/listing.py": "lists what is in the graph",
    "variables/partitioned.py": "the property `graph`",
    "variables/ref_variable.py": "a reference is an edge of a graph",
    "variables/resource_variable.py": "a variable restored from a VariableDef, and what a session fetches of it",
    "variables/variable.py": "the properties `graph` and `op`, and `VariableDef`s",
    "variables/store.py": "variables of an EagerVariableStore are in the default graph's collections",
    "train/slots.py": "a slot of a graph's tensor is named after its op",
}
"""Files of libraries that may ask a graph, each with its reason."""


def files_of(part: str) -> list[Path]:
    """The files of a part of the package, a folder or a file."""
    return [path for path in python_files("anabranch") if place(path).startswith(f"anabranch/{part}")]


def uses(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Where a piece of source asks for what only a graph has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ONLY_IN_A_GRAPH:
            base = ast.unparse(node.value)
            if base not in ("ctx", "self") and not base.startswith(("anabranch", "ctx.")):
                yield node, ast.unparse(node)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in GRAPH_FUNCTIONS:
            yield node, ast.unparse(node)


Function = tuple[Path, ast.AST]


class Sources:
    """The functions of the op families, and which of them differentiate."""

    def __init__(self) -> None:
        self.functions: dict[Path, dict[str, list[ast.AST]]] = {}
        self.imports: dict[Path, dict[str, tuple[Path, str]]] = {}
        self.rules: list[Function] = []
        for path in files_of("ops"):
            tree = parsed(path)
            named = self.functions.setdefault(path, {})
            imported = self.imports.setdefault(path, {})
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    named.setdefault(node.name, []).append(node)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    module = ROOT / (node.module.replace(".", "/") + ".py")
                    for alias in node.names:
                        imported[alias.asname or alias.name] = (module, alias.name)
            self.rules += [(path, rule) for rule in rules_of(tree)]

    def reached(self) -> dict[int, Function]:
        """The rules and all functions of op families that they name, by identity of the node."""
        found: dict[int, Function] = {}
        waiting = list(self.rules)
        while waiting:
            path, node = waiting.pop()
            if id(node) in found:
                continue
            found[id(node)] = path, node
            for name in {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}:
                module, there = self.imports[path].get(name, (path, name))
                waiting += [(module, item) for item in self.functions.get(module, {}).get(there, ())]
        return found


def rules_of(tree: ast.AST) -> Iterator[ast.AST]:
    """What stands for a rule in a module: `def gradient`, `gradient = f`, `gradient=f` and `{"gradient": f}`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "gradient":
            yield node
        elif (isinstance(node, ast.keyword) and node.arg == "gradient") or (
            isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "gradient" for target in node.targets)
        ):
            yield node.value
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "gradient":
                    yield value


def test_gradient_rules_ask_what_every_mode_gives() -> None:
    reached = Sources().reached()
    assert len(reached) > 500, "the rules are not found any more"
    problems = {f"{place(path, node)}: {told}" for path, function in reached.values() for node, told in uses(function)}
    assert not problems, listing(
        sorted(problems),
        "Mend: a rule asks op.type, op.inputs, op.outputs, op.get_attr; a tensor its dtype and shape; for messages "
        "tensor._label. `build_operation` gives an op to hand to another rule. There is no exception to this.",
    )


def test_libraries_ask_what_every_mode_gives() -> None:
    problems, met = [], set()
    for part in LIBRARIES:
        for path in files_of(part):
            name = place(path).removeprefix("anabranch/")
            for node, told in uses(parsed(path)):
                met.add(name)
                if name not in LIBRARY_CODE:
                    problems.append(f"{place(path, node)}: {told}")
    assert not problems, listing(
        problems,
        "Mend: ask `current_builder()`, or `builder_of` the tensors, for scopes, collections and what a library keeps; "
        "a variable has `_shared_name` and `_builder`, a tensor `_label` for messages. Where a graph is needed, ask "
        "`builder.defers` first. A true exception goes into LIBRARY_CODE in this file, with a reason.",
    )
    unused = sorted(LIBRARY_CODE.keys() - met)
    assert not unused, listing(unused, "Mend: these ask nothing of a graph any more; take them out of LIBRARY_CODE.")


def test_what_asks_a_graph_is_found() -> None:
    source = "def gradient(op, grad):\n    return helper(op, grad.op)\nx = define(gradient=lambda op, g: g.graph)\n"
    found = [told for rule in rules_of(ast.parse(source)) for _, told in uses(rule)]
    assert found == ["grad.op", "g.graph"]
    assert [told for _, told in uses(ast.parse("ctx.op; get_default_graph(); self.op"))] == ["get_default_graph()"]
