"""The examples of the README and of every page in `docs/` run, each page in a process of its own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import run_page
import warm_python
from sources import ROOT, listing, parsed, project_files

PAGES = [
    path
    for path in project_files()
    if path.suffix == ".md" and (path == ROOT / "README.md" or path.is_relative_to(ROOT / "docs"))
]
WITH_EXAMPLES = [path for path in PAGES if any(block.runs for block in run_page.fenced_blocks(path.read_text()))]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    # In an empty folder, so that an example that writes a file leaves nothing in the project.
    shown = warm_python.run(ROOT / "tools" / "run_page.py", [str(page)], cwd=tmp_path, warnings_are="error")
    assert shown.returncode == 0, listing(
        [shown.stdout, shown.stderr],
        f"Mend the example, or the code if the example is right: python tools/run_page.py {name_of(page)}",
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.finditer(page.read_text(encoding="utf-8")):
        target = link["target"].partition("#")[0]
        if target and "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
            broken.append(f"{name_of(page)}: {link[0]}")
    assert not broken, listing(broken, "Mend: link the file by its path from the page.")


_SOURCE = re.compile(r"`(?P<file>(?:anabranch|tests|tools|benchmarks|examples)/[\w./]*)(?:: (?P<name>[\w.]+))?`")


def defined_names(path: Path) -> set[str]:
    """Functions, classes and their methods, as `name` or `Class.name`."""
    names: set[str] = set()
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def missing_sources(text: str) -> list[str]:
    """Files that a page names and that do not exist, and `file: name` whose file does not define the name."""
    missing = []
    for found in _SOURCE.finditer(text):
        path = ROOT / found["file"]
        if not path.exists() or (found["name"] and found["name"] not in defined_names(path)):
            missing.append(found[0])
    return missing


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "notes"], ids=name_of)
def test_named_sources_exist(page: Path) -> None:
    missing = missing_sources(page.read_text(encoding="utf-8"))
    assert not missing, listing(missing, f"Mend {name_of(page)}: name the file, and the function or class in it.")


def test_named_sources_that_do_not_exist_are_found() -> None:
    page = "`tools/sources.py: parsed`, `tools/sources.py: nothing`, `tools/nothing.py`, `tools/`, `python tools/no.py`"
    assert missing_sources(page) == ["`tools/sources.py: nothing`", "`tools/nothing.py`"]


@pytest.mark.parametrize("folder", ["docs", "docs/notes"])
def test_every_page_is_in_its_index(folder: str) -> None:
    index = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    missing = [
        name_of(page)
        for page in PAGES
        if page.parent == ROOT / folder and page.name != "README.md" and f"({page.name})" not in index
    ]
    assert not missing, listing(missing, f"Mend: add a line with a link to {folder}/README.md.")


def test_notes_are_numbered_without_gaps() -> None:
    numbers = sorted(page.name[:4] for page in PAGES if page.parent.name == "notes" and page.name != "README.md")
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)], (
        f"notes are numbered {numbers}; give each the next free number of four digits"
    )


PAGE = """# A page

```python
x = 2
```

Indented, as in a list:

  ```python
  print(x + 1)
  ```

```output
{output}
```

```python
# not run
raise SystemExit("it ran")
```

```sh
exit 1
```
"""


def test_runner_shares_names_and_compares_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(output="3"))
    assert run_page.run_page(page) == 2


def test_runner_finds_wrong_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(output="4"))
    with pytest.raises(AssertionError, match=r"page\.md:10: the example prints\n3\n\nand the page says, line 14,\n4"):
        run_page.run_page(page)


def test_runner_names_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nx = 1\nassert x == 2\n```\n")
    shown = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "run_page.py"), str(page)], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 1
    assert 'page.md", line 5' in shown.stderr


def test_runner_refuses_an_open_block() -> None:
    with pytest.raises(ValueError, match="line 3: the block that starts here is not closed"):
        run_page.fenced_blocks("# A page\n\n```python\nx = 1\n")
