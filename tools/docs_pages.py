"""Pages of the documentation that are generated from the code: op types by family, public names by namespace.

They are made when the site is built and are never committed: what they say (signatures, dtypes, files and lines)
stands in the op contract, in signatures and in docstrings, and would be wrong a day later anywhere else. Docstrings
are Markdown with the sections `Args:`, `Returns:`, `Raises:` and `Example:`; :func:`markdown` turns these into lists
and blocks.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

from anabranch.cli import definitions
from anabranch.core.contract import api, opdef

SECTIONS = ("Args", "Arguments", "Attributes", "Example", "Examples", "Raises", "Returns", "Yields")
_SECTION = re.compile(rf"(?P<title>{'|'.join(SECTIONS)}):(?P<rest>\s.*)?$")
_ROLE = re.compile(r":(?:\w+:)?\w+:`~?(?P<name>[^`]+)`")
_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_SPLIT = ("contrib", "compat")  # namespaces with a page for each of their own namespaces


# ----------------------------------------------------------------------------------------------------------- docstrings
def escaped(text: str) -> str:
    """Text whose characters mean themselves in Markdown; code between backticks stays code."""
    text = _ROLE.sub(lambda role: f"``{role['name']}``", text)
    parts, start = [], 0
    for code in _CODE.finditer(text):
        parts += [_plain(text[start : code.start()]), code[0]]
        start = code.end()
    return "".join([*parts, _plain(text[start:])])


def _plain(text: str) -> str:
    return re.sub(r"([*_<>\[\]$|~`{}])", r"\\\1", text)


def markdown(doc: str | None) -> str:
    """A docstring as Markdown."""
    lines = inspect.cleandoc(doc or "").splitlines()
    blocks: list[str] = []
    at = 0
    while at < len(lines):
        heading = _SECTION.match(lines[at])
        if heading:
            at += 1
            inside: list[str] = []
            while at < len(lines) and (not lines[at].strip() or lines[at].startswith(" ")):
                inside.append(lines[at])
                at += 1
            blocks += _section(heading["title"], (heading["rest"] or "").strip(), inspect.cleandoc("\n".join(inside)))
            continue
        if not lines[at].strip():
            at += 1
            continue
        start = at
        indented = lines[at].startswith("    ") or lines[at].startswith(">>> ")
        while at < len(lines) and lines[at].strip() and not (at > start and _SECTION.match(lines[at])):
            at += 1
        text = "\n".join(lines[start:at])
        blocks.append(_code(text) if indented or "\n    " in text else escaped(text))
    return "\n\n".join(blocks)


def _section(title: str, rest: str, text: str) -> Iterator[str]:
    if title.startswith("Example"):
        yield f"**{title}**"
        yield _code("\n".join(filter(None, [rest, text])))
        return
    if title not in ("Args", "Arguments", "Attributes", "Raises"):
        yield f"**{title}**: " + escaped(" ".join(filter(None, [rest, " ".join(text.split())])))
        return
    yield f"**{title}**"
    items: list[str] = [rest] if rest else []
    for line in text.splitlines():
        if items and (line.startswith(" ") or not re.match(r"[\w*., ]+:\s", line)):
            items[-1] += " " + line.strip()
        elif line.strip():
            items.append(line)
    shown = []
    for item in items:
        name, colon, meaning = item.partition(": ")
        shown.append(f"- `{name.strip()}`: {escaped(meaning)}" if colon else f"- {escaped(item)}")
    yield "\n".join(shown)


def _code(text: str) -> str:
    kind = "python" if ">>>" in text else "text"
    return f"```{kind}\n{inspect.cleandoc(text)}\n```"


# ------------------------------------------------------------------------------------------------------------- op types
def family(definition: opdef.OpDefinition) -> str:
    """The family of an op type: the folder of `anabranch/ops/` that defines it."""
    parts = definition.module.split(".")
    return parts[2] if parts[:2] == ["anabranch", "ops"] and len(parts) > 3 else parts[1]


def op_pages(linked: bool) -> dict[str, str]:
    """Pages by path below the site's root: an index, and one page for each family of op types.

    ``linked``: public names are links into the reference of public names.
    """
    definitions.load_everything()
    families: dict[str, list[opdef.OpDefinition]] = {}
    for _, definition in sorted(opdef.all_definitions().items()):
        if definition.module.startswith("anabranch."):
            families.setdefault(family(definition), []).append(definition)
    pages = {f"ops/{name}.md": _family_page(name, members, linked) for name, members in families.items()}
    lines = [
        "# Op types",
        "All op types by family. Each entry is made from the op's block "
        "([the contract](../notes/0002-op-contract.md)). `anabranch where NAME` finds one from the command line.",
        "| family | op types |",
        "|---|---|",
    ]
    table = [f"| [{name}]({name}.md) | {len(members)} |" for name, members in sorted(families.items())]
    pages["ops/index.md"] = "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:] + table) + toctree(sorted(families))
    return pages


def toctree(names: list[str], caption: str = "") -> str:
    """A table of contents that the sidebar shows."""
    head = "\n\n```{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return head + "\n" + "\n".join(names) + "\n```\n"


def _family_page(name: str, members: list[opdef.OpDefinition], linked: bool) -> str:
    head = f"# {name}\n\nOp types that `anabranch/ops/{name}/` defines.\n"
    return head + "\n" + "\n".join(_op_entry(definition, linked) for definition in members)


def _argument(spec: Any) -> str:
    kind = spec.type_attr or (spec.dtype.name if spec.dtype is not None else "")
    if spec.type_list_attr:
        kind = f"[{spec.type_list_attr}]"
    if spec.is_ref:
        kind = f"Ref({kind})"
    return f"{spec.name}: {spec.number_attr} * {kind}" if spec.number_attr else f"{spec.name}: {kind}"


def signature_text(definition: opdef.OpDefinition) -> str:
    """The op's signature as its block has it."""
    left = ", ".join(map(_argument, definition.inputs))
    right = ", ".join(map(_argument, definition.outputs))
    return f"{left} -> {right}".strip()


def tiers_text(definition: opdef.OpDefinition) -> str:
    """Where the op runs."""
    if definition.kernel is None and definition.host_kernel is None:
        return "runs the bodies that it holds, in the tier of the step" if definition.effect.kind == "body" else "both"
    if definition.host_only:
        text = "host only"
    elif definition.host_kernel is not None:
        text = "both, with a kernel of its own for the host"
    else:
        text = "both, one kernel"
    if definition.data_dependent_shape:
        text += "; the shape of its result depends on data, so it runs on the host"
    return text + ("; may block" if definition.may_block else "")


def effect_text(definition: opdef.OpDefinition) -> str:
    """The op's effect and the operands that it is on."""
    on = ", ".join(f"`{name}`" for name in definition.effect.resources)
    made = f"; makes a {definition.makes}" if definition.makes else ""
    return definition.effect.kind + (f" of {on}" if on else "") + made


def _attr_text(name: str, attr: Any) -> str:
    text = f"`{name}`: {escaped(attr.kind)}"
    if attr.allowed:
        names = " ".join(getattr(value, "name", None) or repr(value) for value in attr.allowed)
        text += f", one of `{names}`"
    return text if attr.default is opdef.REQUIRED else f"{text}, default `{attr.default!r}`"


def _op_entry(definition: opdef.OpDefinition, linked: bool) -> str:
    op = definitions.op_type(definition.type_name)
    gradient = escaped(definitions.gradient_text(definition))
    lines = [
        f"## {definition.type_name}\n",
        markdown(definition.doc) + "\n",
        f"- signature: `{signature_text(definition)}`",
        *(
            [f"- attributes: {'; '.join(_attr_text(*item) for item in definition.attrs.items())}"]
            if definition.attrs
            else []
        ),
        f"- effect: {effect_text(definition)}",
        f"- gradient: {gradient}" + (f", `{op.gradient}`" if op.gradient else ""),
        f"- tiers: {tiers_text(definition)}",
    ]
    if definition.compile_time:
        lines.append("- known when it is compiled: " + ", ".join(f"`{name}`" for name in definition.compile_time))
    if definition.checks is not None:
        lines.append(f"- checks: `{definitions.place_of(definition.checks)}`")
    if op.public_names:
        lines.append(
            "- public: " + ", ".join(_reference(name) if linked else f"`{name}`" for name in op.public_names[:6])
        )
    lines.append(f"- defined in `{op.place}`" + (f", tested in `{op.test_row}`" if op.test_row else ""))
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------------------------- public names
def _reference(name: str) -> str:
    described = f"tf.{_primary()[id(api.names()[name.removeprefix('tf.')])]}"
    return f"[`{name}`](#{label(described)})"


def label(name: str) -> str:
    """The target of a public name's section; names that differ in case only get different ones."""
    return "api-" + re.sub("[A-Z]", lambda capital: "-" + capital[0].lower(), name).replace("_", "-u-")


@functools.cache
def _primary() -> dict[int, str]:
    """The name under which an object is described, by its id: its shortest outside of `contrib` and `compat`."""
    chosen: dict[int, str] = {}
    for name, value in sorted(api.names().items(), key=lambda item: _rank(item[0])):
        chosen.setdefault(id(value), name)
    return chosen


def _rank(name: str) -> tuple[bool, int, str]:
    return name.startswith(_SPLIT), name.count("."), name


def _page_of(name: str) -> str:
    parts = name.split(".")
    if parts[0] in _SPLIT and len(parts) > 2:
        return ".".join(["tf", *parts[:2]])
    return ".".join(["tf", *parts[:1]]) if len(parts) > 1 else "tf"


def api_pages() -> dict[str, str]:
    """Pages by path below the site's root: an index, and one page for each namespace."""
    definitions.load_everything()
    pages: dict[str, list[str]] = {}
    for name in sorted(api.names(), key=str.lower):
        if not isinstance(api.names()[name], types.ModuleType):
            pages.setdefault(_page_of(name), []).append(name)
    texts = {f"api/{page}.md": _namespace_page(page, names) for page, names in pages.items()}
    table = "\n".join(f"| [{page}]({page}.md) | {len(pages[page])} |" for page in sorted(pages))
    texts["api/index.md"] = (
        "# Public names\n\nAll public names by namespace, with signatures and docstrings. "
        "`anabranch where NAME` prints the file and line of one.\n\n"
        f"| namespace | names |\n|---|---|\n{table}" + toctree(sorted(pages))
    )
    return texts


def _namespace_page(page: str, names: list[str]) -> str:
    described: list[str] = []
    aliases: list[str] = []
    values: list[str] = []
    for name in names:
        value = api.names()[name]
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            values.append(f"`tf.{name}`")
        elif _primary()[id(value)] == name:
            described.append(_entry(name, value))
        else:
            primary = f"tf.{_primary()[id(value)]}"
            aliases.append(f"- `tf.{name}`: see [{escaped(primary)}](#{label(primary)})")
    text = f"# {page}\n\n" + "\n".join(described)
    if aliases:
        text += "\n## Other names\n\n" + "\n".join(aliases) + "\n"
    return text + ("\n## Values\n\n" + ", ".join(values) + "\n" if values else "")


def _entry(name: str, value: Any) -> str:
    try:
        # Annotations are the source's business; a reader of the page wants names and defaults.
        given = inspect.signature(value)
        signature = str(
            given.replace(
                parameters=[item.replace(annotation=item.empty) for item in given.parameters.values()],
                return_annotation=given.empty,
            )
        )
        signature = re.sub(r"<(\w+)[^>]*>", r"<\1>", signature)
    except (TypeError, ValueError):
        signature = ""
    kind = "class " if inspect.isclass(value) else ""
    place = definitions.public_place(name, value)
    head = f"({label(f'tf.{name}')})=\n## tf.{escaped(name)}\n\n```text\n{kind}tf.{name}{signature}\n```\n\n"
    source = f"Source: `{place}`\n" if place is not None else ""
    methods = "\n".join(_methods(value)) if inspect.isclass(value) else ""
    return f"{head}{markdown(value.__doc__)}\n\n{methods}\n\n{source}"


def _methods(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        text = getattr(function, "__doc__", None)
        if name.startswith("_") or not text or not (isinstance(function, (property, types.FunctionType))):
            continue
        call = "" if isinstance(function, property) else "()"
        yield f"- `{name}{call}`: {escaped(' '.join(inspect.cleandoc(text).partition(chr(10) * 2)[0].split()))}"
