"""Where public names and op types are defined: files and lines.

`anabranch where` prints what this module finds, and the generated pages of the documentation quote it. Nothing here is
a list that someone keeps: places come from the record that the op contract keeps of each definition
(`OpDefinition.module`, `OpDefinition.line`), from the record of published names (`api.published_at`), from code objects
and from the text of the files.

An op type in a table is often made in a loop over its rows. The statement that defines it is the loop's; the row is
looked up in the module's text by the type's name (:func:`_row_line`).
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import inspect
import os
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anabranch
from anabranch.compat import check
from anabranch.core import errors
from anabranch.core.contract import api, opdef

PACKAGE = Path(anabranch.__path__[0])
"""Folder of the package."""
PREFIXES = ("tf.", "tensorflow.", "anabranch.")
_FOLLOWED = 3  # calls from function to function on the way from a public name to the op types that it builds


class Place(NamedTuple):
    """A line (1-based) of a file, given by its absolute path."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.relative()}:{self.line}"

    def relative(self) -> str:
        """The path from the folder that holds the package (a checkout, or `site-packages`)."""
        path = Path(self.file)
        return path.relative_to(PACKAGE.parent).as_posix() if path.is_relative_to(PACKAGE.parent) else self.file


class OpType(NamedTuple):
    """An op type and the places of its parts; a part that the block does not have is None."""

    definition: opdef.OpDefinition
    place: Place | None
    kernel: Place | None
    host_kernel: Place | None
    gradient: Place | None
    """Place of the rule; None if the gradient is derived or there is none (see :func:`gradient_text`)."""
    test_row: Place | None
    """The row in `tests/`; None without a checkout."""
    public_names: tuple[str, ...]
    """Public functions that build it, with `tf.` in front."""


class PublicName(NamedTuple):
    """A public name: what it stands for and where that is defined."""

    name: str
    kind: str
    """`function`, `class`, `method`, `namespace` or `value`."""
    value: Any
    place: Place | None
    op_types: tuple[str, ...]
    """Op types that the function builds."""


# -------------------------------------------------------------------------------------------------------------- lookup
def find(text: str) -> list[OpType | PublicName]:
    """What ``text`` names: an op type (`Conv2D`) or a public name (`tf.nn.conv2d`), with the op types that it builds.

    The last part of public names is enough: `conv2d` is found in `tf.nn`, `tf.layers` and wherever else it is.

    Raises:
        ValueError: nothing has that name; the message lists near ones.
    """
    load_everything()
    dotted = _without_prefix(text)
    definition = opdef.find(dotted) if dotted == text else None
    if definition is not None:
        return [op_type(definition.type_name)]
    value, _ = check.lookup(dotted) if dotted else (check.MISSING, "")
    matches = [_public_name(dotted, value)] if value is not check.MISSING and _is_resolved(dotted, value) else []
    if not matches and "." not in dotted:
        by_object = {id(value): name for name, value in reversed(api.names().items()) if _last(name) == dotted}
        matches = [_public_name(name, api.names()[name]) for name in reversed(by_object.values())]
    if not matches:
        raise ValueError(_unknown(text, dotted))
    built = dict.fromkeys(op for match in matches for op in match.op_types)
    return [*matches, *(op_type(name, with_public_names=False) for name in built)]


def load_everything() -> None:
    """Load what publishes names or defines op types, so that the tables are complete."""
    for module in (anabranch, anabranch.contrib):
        for name in dir(module):
            getattr(module, name)


def _without_prefix(text: str) -> str:
    for prefix in PREFIXES:
        if text.startswith(prefix):
            return text[len(prefix) :]
    return text


def _is_resolved(dotted: str, value: Any) -> bool:
    """Whether the lookup went to the end of the name, not only to a value before it."""
    _, there = check.lookup(dotted)
    return there == dotted or there == dotted.removeprefix("compat.v1.")


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _unknown(text: str, dotted: str) -> str:
    candidates = {f"tf.{name}": name for name in api.names()} | {name: name for name in opdef.all_definitions()}
    lowered = {shown: name.lower() for shown, name in candidates.items()}
    wanted = dotted.lower()
    near = [shown for shown, name in lowered.items() if name == wanted or _last(name) == _last(wanted)]
    scored = difflib.get_close_matches(wanted, set(lowered.values()), 6, 0.75)
    near += [shown for shown, name in lowered.items() if name in scored and shown not in near]
    return errors.message(
        f"{text!r}",
        "the name of an op type (Conv2D) or a public name (tf.nn.conv2d)",
        f"one of {', '.join(near[:6])}" if near else "a name that `dir(anabranch)` or `dir(anabranch.nn)` lists",
    )


# ------------------------------------------------------------------------------------------------------------- op types
def op_type(type_name: str, with_public_names: bool = True) -> OpType:
    """The op type and the places of its parts; finding public names takes a look at all public functions."""
    definition = opdef.lookup(type_name)
    file = getattr(sys.modules.get(definition.module), "__file__", None)
    rule = definition.gradient
    return OpType(
        definition,
        Place(file, _row_line(file, type_name, definition.line)) if file else None,
        place_of(definition.kernel),
        place_of(definition.host_kernel),
        place_of(rule) if inspect.isroutine(rule) else None,
        _test_rows().get(type_name),
        tuple(f"tf.{name}" for name in _builders().get(type_name, ())) if with_public_names else (),
    )


def gradient_text(definition: opdef.OpDefinition) -> str:
    """What the contract says of the op's gradient, in words."""
    if isinstance(definition.gradient, opdef.NotDifferentiable):
        return f"not differentiable: {definition.gradient.reason}"
    return "derived from the kernel" if definition.gradient is opdef.DERIVED else "rule"


def _row_line(file: str, type_name: str, line: int) -> int:
    """The line in ``file`` where the name of the type is written, if the statement at ``line`` does not hold it.

    A name put together by a loop (`"Segment" + _name`) is looked up by the longest text in the loop's table that the
    name begins or ends with.
    """
    statement = next((node for node in _tree(file).body if node.lineno <= line <= (node.end_lineno or line)), None)
    if not isinstance(statement, (ast.For, ast.Expr, ast.Assign)):
        return line
    tables = [node for node in _tree(file).body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    if isinstance(statement, ast.For):
        tables.insert(0, ast.Expr(statement.iter))  # type: ignore[arg-type]
    elif _line_of_text(statement, type_name) is not None:
        return line
    for node in tables:
        if row := _line_of_text(node, type_name):
            return row
    if isinstance(statement, ast.For):
        pieces = {
            text.value: text.lineno
            for text in ast.walk(statement.iter)
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and len(text.value) > 1
            if type_name.startswith(text.value) or type_name.endswith(text.value)
        }
        if pieces:
            return pieces[max(pieces, key=len)]
    return line


def _line_of_text(node: ast.AST, word: str) -> int | None:
    """The first line below ``node`` with a text that is ``word`` or lists it between blanks or commas."""
    lines = [
        text.lineno + text.value.partition(word)[0].count("\n")
        for text in ast.walk(node)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and word in re.split(r"[\s,:]+", text.value)
    ]
    return min(lines, default=None)


@functools.cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"), file)


@functools.cache
def _test_rows() -> dict[str, Place]:
    """The first row of each op type in the tests of a checkout: `row("Type", ...)`, else a line with the name."""
    rows: dict[str, Place] = {}
    mentions: dict[str, Place] = {}
    known = opdef.all_definitions()
    for path in sorted((PACKAGE.parent / "tests").glob("ops/*/rows_*.py")):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"""(?P<call>\w*row\(\s*)?["'](?P<name>[A-Z]\w+)["']""", text):
            if match["name"] in known:
                place = Place(str(path), text.count("\n", 0, match.start()) + 1)
                (rows if match["call"] else mentions).setdefault(match["name"], place)
    return mentions | rows


# --------------------------------------------------------------------------------------------------------- public names
def public_place(dotted: str, value: Any) -> Place | None:
    """Where the object published under a dotted name (without `tf.`) is defined."""
    if inspect.isclass(value):
        return _class_place(value) or _published(dotted)
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return place_of(value) or _published(dotted)
    return _value_place(dotted, value)


def _public_name(dotted: str, value: Any) -> PublicName:
    name = f"tf.{dotted}" if dotted.partition(".")[0] in dir(anabranch) else f"tensorflow.{dotted}"
    if isinstance(value, types.ModuleType):
        return PublicName(name, "namespace", value, _file_of(value) or _published(dotted), ())
    if inspect.isclass(value):
        return PublicName(name, "class", value, public_place(dotted, value), ())
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        owner, _ = check.lookup(dotted.rpartition(".")[0]) if "." in dotted else (None, "")
        kind = "method" if inspect.isclass(owner) else "function"
        return PublicName(name, kind, value, public_place(dotted, value), tuple(op_types_built(value)))
    if isinstance(value, property):
        return PublicName(name, "property", value, place_of(value.fget), ())
    return PublicName(name, "value", value, public_place(dotted, value), ())


def _value_place(dotted: str, value: Any) -> Place | None:
    """The line that publishes a value; if it does not hold the name, the line of the value's own module that does."""
    published = _published(dotted)
    home = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    for file in (published.file if published else None, home):
        if (
            file is not None
            and Path(file).is_relative_to(PACKAGE)
            and (line := _line_of_text(_tree(file), _last(dotted)))
        ):
            return Place(file, line)
    return published


def publishers(namespace: str) -> dict[str, int]:
    """Files that publish names of a namespace, with how many names each."""
    counts: dict[str, int] = {}
    for name in api.names():
        if name.startswith(namespace + ".") and (place := _published(name)) is not None:
            counts[place.relative()] = counts.get(place.relative(), 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _published(dotted: str) -> Place | None:
    try:
        module, line = api.published_at(dotted)
    except KeyError:
        return None
    file = getattr(sys.modules.get(module), "__file__", None)
    return Place(file, line) if file else None


def _file_of(module: types.ModuleType) -> Place | None:
    file = getattr(module, "__file__", None)
    return Place(file, 1) if file else None


def place_of(function: Any) -> Place | None:
    """Where a function's text begins; None for what has no Python code of its own."""
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "op_type"):  # the function of an op stands in the row that publishes it
        function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    return Place(os.path.abspath(code.co_filename), code.co_firstlineno) if code is not None else None


def _class_place(cls: type) -> Place | None:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is None or not file.endswith(".py"):
        return None
    nodes: list[ast.stmt] = _tree(file).body
    line = 0
    for part in cls.__qualname__.split("."):
        node = next((item for item in nodes if isinstance(item, ast.ClassDef) and item.name == part), None)
        if node is None:
            break
        nodes, line = node.body, node.lineno
    return Place(file, line) if line else None


def op_types_built(function: Any) -> list[str]:
    """Op types that a public function builds, as far as its code and that of the functions it calls name them."""
    if hasattr(function, "op_type"):
        return [function.op_type]
    return list(dict.fromkeys(_types_named(inspect.unwrap(function), _FOLLOWED, set())))


def _types_named(function: Any, depth: int, seen: set[Any]) -> Iterator[str]:
    while isinstance(function, functools.partial):
        function = function.func
    if hasattr(function, "op_type"):
        yield function.op_type
        return
    if not isinstance(function, types.FunctionType) or function in seen or not _is_ours(function):
        return
    seen.add(function)
    known = opdef.all_definitions()
    texts = _texts(function.__code__.co_filename, function.__code__.co_firstlineno)
    yield from (text for text in texts if text in known)
    for held in _closure(function):
        if isinstance(held, str):  # a type, or the end of one: build("Segment" + suffix, ...)
            joined = [text + held for text in texts if text + held in known]
            yield from joined or ([held] if held in known else [])
        elif depth:
            yield from _types_named(held, depth - 1, seen)
    if depth:
        for code in _codes(function.__code__):
            for name in code.co_names:
                called = function.__globals__.get(name)
                # Only helpers of the same family: others have names, files and pages of their own.
                if isinstance(called, (types.FunctionType, type)) and _family(called) == _family(function):
                    methods = vars(called).values() if isinstance(called, type) else [called]
                    for method in methods:
                        yield from _types_named(method, depth - 1, seen)


def _family(function: types.FunctionType | type) -> str:
    return function.__module__.rpartition(".")[0]


def _closure(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not filled yet
            yield cell.cell_contents


@functools.cache
def _texts(file: str, line: int) -> list[str]:
    """Texts in the body of the function whose code begins at a line, annotations and docstrings apart."""
    body = getattr(_functions(file).get(line), "body", [])
    texts = []
    for statement in body if isinstance(body, list) else [body]:
        annotations = {
            id(part)
            for outer in ast.walk(statement)
            for annotation in (getattr(outer, "annotation", None), getattr(outer, "returns", None))
            if annotation is not None
            for part in ast.walk(annotation)
        }
        texts += [
            text.value
            for text in ast.walk(statement)
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and id(text) not in annotations
        ]
    return texts


@functools.cache
def _functions(file: str) -> dict[int, ast.AST]:
    """Functions of a file by the line at which their code begins, which is that of the first decorator."""
    return {
        min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))]): node
        for node in ast.walk(_tree(file))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    }


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _is_ours(function: types.FunctionType) -> bool:
    return function.__code__.co_filename.startswith(str(PACKAGE))


@functools.cache
def _builders() -> dict[str, list[str]]:
    """Public functions by the op types that they build; those that build it first or only come before others."""
    mainly: dict[str, list[str]] = {}
    partly: dict[str, list[str]] = {}
    for name, value in api.names().items():
        if isinstance(value, types.FunctionType):
            for position, op in enumerate(op_types_built(value)):
                (partly if position else mainly).setdefault(op, []).append(name)
    return {op: mainly.get(op, []) or partly.get(op, [])[:5] for op in {*mainly, *partly}}
