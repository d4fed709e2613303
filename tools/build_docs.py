"""Builds the site: `python tools/build_docs.py` (`make docs`). The result is out/docs/index.html.

The pages of docs/ are copied beside those that tools/docs_pages.py generates, and Sphinx makes HTML of both. Warnings
are errors: a link to a page or heading that does not exist, a page that no table of contents holds, a bad block.
Nothing is fetched from a network, neither here nor when the site is read; its search runs in the browser.

    --without-reference   leave the generated reference of public names out: what `make test` builds
    --output FOLDER       where to build (default: out/docs)
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import docs_pages
from sources import ROOT
from sphinx.cmd.build import build_main

DOCS = ROOT / "docs"
CONTENTS = {
    "Use": [
        "tour", "eager", "control_flow", "sequences", "models", "keras", "checkpoints", "records", "slim", "migrating",
        "absent", "pytorch", "programs", "troubleshooting", "reliability", "debugging", "devices", "cluster",
        "platforms", "performance",
    ],
    "Change": ["architecture", "extending", "testing", "notes/README"],
}  # fmt: skip


def pages(with_reference: bool) -> dict[str, str]:
    """All pages by path below the site's root."""
    texts = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    texts["index.md"] = texts.pop("README.md")
    for caption, names in CONTENTS.items():
        texts["index.md"] += docs_pages.toctree([name for name in names if f"{name}.md" in texts], caption)
    texts["notes/README.md"] += docs_pages.toctree(sorted(n[6:-3] for n in texts if n.startswith("notes/0")))
    texts |= docs_pages.op_pages(with_reference)
    reference = ["ops/index"]
    if with_reference:
        texts |= docs_pages.api_pages()
        reference.append("api/index")
    texts["index.md"] += docs_pages.toctree(reference, "Reference")
    return texts


def write(texts: dict[str, str], folder: Path) -> None:
    """Writes the pages; what has not changed keeps its time, so that Sphinx reads it once."""
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "_static", folder / "_static", dirs_exist_ok=True)


def build(output: Path, texts: dict[str, str]) -> int:
    """Builds a site of the given pages into ``output``; returns Sphinx's exit status."""
    source, doctrees = output / ".pages", output / ".doctrees"
    write(texts, source)
    flags = ["-q", "-b", "html", "-W", "--keep-going", "-j", "2", "-c", str(DOCS), "-d", str(doctrees)]
    return build_main([*flags, str(source), str(output)])


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-reference", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "docs")
    options = parser.parse_args(arguments)
    status = build(options.output, pages(not options.without_reference))
    if status == 0:
        print(f"built {options.output / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
