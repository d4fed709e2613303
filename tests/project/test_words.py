"""Words: what users read is English as a technical editor would leave it.

Policy. What a program's user reads (error texts, docstrings, the output of commands, pages of documentation) is held to
a short list of forms that are not English, or say nothing, and that a pattern finds with few false alarms. Each comes
with what to write instead. A text that must keep such a form (it is TensorFlow's, or means something else) stands in
`ALLOWED` with its reason. Layers that have not been gone through yet
have limits in `LEFT`, `OPENINGS_LEFT` and `EMPTY_LEFT`, which may only shrink.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sources import ROOT, listing, parsed, place, project_files, python_files

PACKAGE = "anabranch"
PAGES = "docs"

BANNED: dict[str, tuple[str, str]] = {
    # What: pattern, mend.
    "is no": (
        r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!(?:longer|more|such|way|harm|other|better|less|one)\b)"
        r"[`'\"]*[a-z]",
        "'is not a tensor', 'are not tensors'",
    ),
    "is none": (r"\bwhat (?:is|are) none\b", "'what is not one'"),
    "no such": (r"\b(?:is|are) no such[.,;:`]", "'is not one', or name it: 'there is no such axis'"),
    "one of both": (r"\bone of both\b", "'one of the two arguments', or name both with 'or'"),
    "hand in": (r"(?<!by )(?<!other )\bhand(?:s|ed|ing)? in\b", "'pass', 'give' or 'submit'"),
    "found out about": (r"\bf(?:ind|ound)(?:s|ing)? out about\b", "'learned about'"),
    "in vain": (r"\bin vain\b", "'without effect', or say what failed"),
    "so many": (r"(?<!every )\bso many\b", "'this many', 'that many', or name the number: '``n`` steps'"),
    "inside of": (r"\binside of\b", "'inside' or 'in'"),
    "outside of": (r"\boutside of\b", "'outside'"),
    "tells of": (r"\btells? of\b", "'describes' or 'says about'"),
    "of another make": (r"\bof another make\b", "'of another kind'"),
    "doings": (r"\bdoings?\b", "'action', 'command'"),
    "right behind": (r"\bright behind\b", "'directly after'"),
    "of no effect": (r"\bof no effect\b", "'has no effect'"),
    "the one or the other": (r"\bthe one or the other\b", "'either'"),
}

# Opening of a docstring: an imperative or a noun phrase, never the third person, nor 'As `x`, but ...'.
_THIRD_PERSON = (
    "Accepts Adds Answers Appends Applies Asks Assigns Begins Brings Builds Calls Cancels Checks Chooses Clears "
    "Closes Collects Compares Computes Contracts Converts Copies Creates Cuts Deletes Divides Does Draws Drops "
    "Empties Enters Evaluates Fails Fills Finds Forgets Frees Gets Gives Goes Hands Has Holds Initialises Joins "
    "Keeps Learns Lets Loads Logs Looks Makes Merges Minimises Moves Multiplies Opens Overrides Parses Prepares "
    "Publishes Puts Raises Reads Reduces Refuses Registers Removes Renames Repeats Replaces Reports Resets "
    "Restores Returns Runs Saves Says Sees Sends Sets Shows Skips Stands Starts Stops Stores Subtracts Takes "
    "Tells Trains Undoes Updates Waits Wraps Writes "
)
THIRD_PERSON = frozenset(_THIRD_PERSON.split())

# Parts of an error that say nothing: *Expected* without a noun, *Instead* that cannot be written.
EMPTY_EXPECTED = re.compile(
    r"one|both|that|none|as many|the same|fewer|different|at least one|at least \d+|\d+ or more|\d+ to \d+|[<>]=? ?\d+"
    r"|one of (?:both|them|these|the two)|a known rank|known|above \d+"
)
EMPTY_INSTEAD = re.compile(
    r"(?:correct|fix|check|reshape|cast|convert|set|pass|sort|drop|name)(?: (?:it|them|this|the mode|the shape|axes))?"
    r"|set_shape|tf\.reshape|tf\.cast|see above|None"
)

# (file, form): why it stays.
ALLOWED: dict[tuple[str, str], str] = {
    ("anabranch/data/dataset.py", "inside of"): "the text of TensorFlow's error",
}

# Texts in layers that are being rebuilt and have not been gone through: at most so many, never more.
LEFT: dict[str, int] = {"autodiff": 14, "core": 4, "docs": 6, "rewrite": 20, "runtime": 20, "xla": 14}
OPENINGS_LEFT: dict[str, int] = {"xla": 1}
EMPTY_LEFT: dict[str, int] = {"core": 8}
# Limits need not follow each text that goes, but a limit that is this much too high is lowered.
SLACK = 40


@dataclass(frozen=True)
class Text:
    """A piece of text that a user may read, and where it stands."""

    path: Path
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{place(self.path)}:{self.line}"


def texts(path: Path) -> Iterator[Text]:
    """Literals of a module (docstrings and what messages are made of), or the lines of a page."""
    if path.suffix == ".md":
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield Text(path, number, line)
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(path, node.lineno, node.value)


ANY_FORM = re.compile("|".join(pattern for pattern, _ in BANNED.values()))


def banned_forms(text: str) -> list[str]:
    """Names of the banned forms that a text has."""
    if ANY_FORM.search(text) is None:
        return []
    return [name for name, (pattern, _) in BANNED.items() if re.search(pattern, text)]


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to: `runtime`, or `session`; the folder of a page."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else parts[0]


def pages() -> Iterator[Path]:
    for path in project_files():
        if path.suffix == ".md" and path.relative_to(ROOT).parts[0] == PAGES:
            yield path


def within(problems: list[tuple[Path, str]], left: dict[str, int], mend: str) -> None:
    """Fail for what is over the limit of its part, and for limits that could be lower."""
    counts = Counter(part_of(path) for path, _ in problems)
    over = [text for path, text in problems if counts[part_of(path)] > left.get(part_of(path), 0)]
    assert not over, listing(over, mend)
    loose = [f"{part}: {counts[part]}, not {limit}" for part, limit in left.items() if counts[part] < limit - SLACK]
    assert not loose, listing(loose, "Mend: lower the limit in tests/project/test_words.py, so that it stays so.")


def test_banned_forms() -> None:
    problems, used = [], set()
    for path in [*python_files(PACKAGE), *pages()]:
        for text in texts(path):
            for name in banned_forms(text.text):
                if (place(path), name) in ALLOWED:
                    used.add((place(path), name))
                    continue
                shown = " ".join(text.text.split())[:100]
                problems.append((path, f"{text.where}: {name}: {shown!r}; write {BANNED[name][1]}"))
    unused = [f"{path}: {form}" for path, form in ALLOWED.keys() - used]
    assert not unused, listing(unused, "Mend: these forms are gone; take them out of ALLOWED.")
    within(problems, LEFT, "Mend: say it in the other way; a text that must stay goes into ALLOWED with its reason.")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x is no tensor", ["is no"]),
        ("what are no tensors", ["is no"]),
        ("there is no such axis, and it is no longer there", []),
        ("the ``{`` is no such.", ["no such"]),
        ("one of both", ["one of both"]),
        ("a step hands in a gradient", ["hand in"]),
        ("every so many steps, written by hand in NumPy", []),
        ("rows of so many values, outside of a loop", ["so many", "outside of"]),
    ],
)
def test_forms_are_told_apart(text: str, names: list[str]) -> None:
    assert banned_forms(text) == names


def opening(docstring: str) -> str:
    """The first word of a docstring, if no docstring should begin with it."""
    word = docstring.split(maxsplit=1)[0].rstrip(",.:;") if docstring.strip() else ""
    if word == "As":
        return "" if re.match(r"As (?:many|few|much|long|a|an|the) ", docstring) else word
    noun = re.match(r"\w+ (?:of|and|that|for)\b", docstring) is not None  # 'Updates that depend on inputs.'
    return word if word in THIRD_PERSON and not noun else ""


def test_docstrings_begin_with_an_imperative_or_a_noun_phrase() -> None:
    problems = []
    for path in python_files(PACKAGE):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring and (word := opening(docstring)):
                    problems.append((path, f"{place(path, node)}: {node.name}: {word} ..."))
    within(
        problems,
        OPENINGS_LEFT,
        "Mend: 'Return the shape', 'The shape', not 'Returns the shape'; 'Like `x`, but', not 'As `x`, but'.",
    )


def test_openings_are_told_apart() -> None:
    assert [
        opening(text) for text in ("Adds x.", "Add x.", "As `x`, but.", "As many as there are.", "Updates that run.")
    ] == [
        "Adds",
        "",
        "As",
        "",
        "",
    ]


def literal(node: ast.expr) -> str | None:
    """The text of an argument if it is written out."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def empty_parts(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Calls of `errors.message` with a part that says nothing."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and len(node.args) >= 3
            and ast.unparse(node.func) in ("errors.message", "message")
        ):
            expected, instead = literal(node.args[1]), literal(node.args[2])
            if expected is not None and EMPTY_EXPECTED.fullmatch(expected):
                yield node, f"Expected: {expected}"
            if instead is not None and EMPTY_INSTEAD.fullmatch(instead):
                yield node, f"Instead: {instead}"


def test_no_part_of_an_error_is_empty() -> None:
    problems = [
        (path, f"{place(path, node)}: {what}")
        for path in python_files(PACKAGE)
        for node, what in empty_parts(parsed(path))
    ]
    within(
        problems,
        EMPTY_LEFT,
        "Mend: *Expected* is a noun phrase ('a tensor of known rank'), *Instead* what can be written "
        "('x.set_shape([None, 3])').",
    )


def test_empty_parts_are_found() -> None:
    source = (
        "errors.message('x', 'one of them', 'f(x)'); errors.message('x', 'a list', 'check it'); message(a, b, 'f(x)')"
    )
    assert [what for _, what in empty_parts(ast.parse(source))] == ["Expected: one of them", "Instead: check it"]
