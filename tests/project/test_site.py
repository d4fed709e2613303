"""The site of the documentation builds without warnings, asks no network for anything, and fits a telephone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import docs_pages
import pytest
from sources import ROOT, listing

TOOL = ROOT / "tools" / "build_docs.py"
_OUTSIDE = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=["'](?:https?:)?//[^"']+|url\(\s*["']?(?:https?:)?//"""
)
_NARROW = 360  # CSS pixels: a small telephone


def built(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the tool in a process of its own: Sphinx changes settings of the process."""
    return subprocess.run(
        [sys.executable, str(TOOL), "--output", str(folder), *options], capture_output=True, text=True, check=False
    )


def build_all(folder: Path) -> None:
    """Builds the site without the reference of public names, which takes three times as long."""
    run = built(folder, "--without-reference")
    assert run.returncode == 0, listing([run.stdout, run.stderr], f"Mend the page, then: python {TOOL.name}")


def html_pages(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.html") if not path.relative_to(folder).parts[0].startswith("."))


@pytest.mark.timeout(300)  # 12 s on two idle cores, and ten times as much on busy ones
def test_the_site_builds_searches_and_needs_no_network(tmp_path: Path) -> None:
    """One test, since parallel workers would each build the site for theirs."""
    build_all(tmp_path)
    pages = html_pages(tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in pages}
    assert {"index.html", "tour.html", "architecture.html", "ops/math.html", "notes/0001-dependencies.html"} <= names
    assert "Conv2D" in (tmp_path / "ops" / "nn.html").read_text(encoding="utf-8")
    outside = [
        f"{path.relative_to(tmp_path)}: {found[0]}"
        for path in [*pages, *tmp_path.rglob("*.css")]
        for found in [_OUTSIDE.search(path.read_text(encoding="utf-8"))]
        if found
    ]
    assert not outside, listing(outside, "Mend: keep fonts, scripts and pictures beside the pages.")
    index = (tmp_path / "searchindex.js").read_text(encoding="utf-8").lower()
    assert "dilation2d" in index
    assert "troubleshooting" in index


def test_what_comes_from_a_network_is_found() -> None:
    for text in ('<script async src="https://a.b/c.js">', "<link href='//a.b/c.css'>", "url(http://a.b/c.woff)"):
        assert _OUTSIDE.search(text)
    assert not _OUTSIDE.search('<a href="https://a.b"> <script src="_static/a.js">')


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[a](nowhere.md)", "nowhere.md"), ("[a](#nothing)", "nothing"), ("```{nothing}\n```", "nothing")],
)
def test_a_bad_page_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    program = (
        "import sys, build_docs\nfrom pathlib import Path\n"
        f"sys.exit(build_docs.build(Path({str(tmp_path)!r}), {{'index.md': '# A page' + chr(10) * 2 + {text!r}}}))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=TOOL.parent)
    assert run.returncode == 1
    assert problem in run.stderr


# ---------------------------------------------------------------------------------------------------- generated pages
def test_docstrings_become_markdown() -> None:
    text = docs_pages.markdown(
        """Doubles ``x``; see :class:`Op` and a*b[0].

        Args:
            x: ``[n]``, which
                goes on here.
            y: more.

        Returns:
            ``[n]``.

        Example:
            >>> f(1)
            2
        """
    )
    assert text == (
        "Doubles ``x``; see ``Op`` and a\\*b\\[0\\].\n\n"
        "**Args**\n\n- `x`: ``[n]``, which goes on here.\n- `y`: more.\n\n"
        "**Returns**: ``[n]``.\n\n"
        "**Example**\n\n```python\n>>> f(1)\n2\n```"
    )


def test_an_op_has_all_its_facts() -> None:
    page = docs_pages.op_pages(linked=False)["ops/linalg.md"]
    entry = page.partition("## MatMul\n")[2].partition("\n## ")[0]
    for fact in (
        "signature: `a: T, b: T -> product: T`", "`transpose_a`: bool, default `False`", "float32", "effect: pure",
        "gradient: rule, `anabranch/ops/linalg/matmul.py:", "tiers: both", "`tf.matmul`",
        "defined in `anabranch/ops/linalg/matmul.py:", "tested in `tests/ops/",
    ):  # fmt: skip
        assert fact in entry


def test_names_that_differ_in_case_have_labels_of_their_own() -> None:
    assert docs_pages.label("tf.layers.Dense") != docs_pages.label("tf.layers.dense")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_site_builds(tmp_path: Path) -> None:
    run = built(tmp_path)
    assert run.returncode == 0, listing([run.stdout, run.stderr], "Mend the docstring that the warning names.")
    assert "tf.nn.conv2d" in (tmp_path / "api" / "tf.nn.html").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------ a real browser
_BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_MEASURE = """<!doctype html><body><script>
const pages = %s, wide = [];
async function measure() {
  for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.style.cssText = "width:%dpx;height:640px;border:0";
    frame.src = page;
    document.body.append(frame);
    await new Promise(done => frame.onload = done);
    const root = frame.contentDocument.documentElement;
    if (root.scrollWidth > root.clientWidth) wide.push(page + " " + root.scrollWidth);
    frame.remove();
  }
  document.body.innerHTML = "<p id=result>" + pages.length + " pages; wide: " + wide.join(", ") + ";</p>";
}
measure();
</script></body>"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(_BROWSER is None, reason="no Chromium or Chrome is installed")
def test_no_page_scrolls_sideways_on_a_telephone(tmp_path: Path) -> None:
    assert _BROWSER is not None
    site = tmp_path / "site"
    build_all(site)
    # A page that is too wide, which must be told.
    (site / "control.html").write_text('<!doctype html><div style="width:900px">wide</div>', encoding="utf-8")
    names = [path.relative_to(site).as_posix() for path in html_pages(site)]
    (site / "measure.html").write_text(_MEASURE % (names, _NARROW), encoding="utf-8")
    shown = subprocess.run(
        [
            _BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=60000", "--dump-dom",
            (site / "measure.html").as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    result = re.search(r'<p id="result">(\d+) pages; wide: (.*?);', shown.stdout)
    assert result is not None, shown.stdout[-2000:] + shown.stderr[-2000:]
    assert int(result[1]) == len(names)
    wide = [page for page in result[2].split(", ") if not page.startswith("control.html")]
    assert "control.html" in result[2]
    assert not wide, listing(wide, f"Mend docs/_static/narrow.css or the page: it is wider than {_NARROW} pixels.")
