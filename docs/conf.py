"""Settings of the site. `make docs` builds it into out/docs; docs/notes/0001-dependencies.md says why these tools."""

from __future__ import annotations

from typing import Any

from pygments.lexers.special import TextLexer

project = "Anabranch"
author = "the authors of Anabranch"
extensions = ["myst_parser"]
root_doc = "index"
language = "en"
# Every heading can be linked to; a link to a heading or page that does not exist is a warning, and warnings are errors.
myst_heading_anchors = 4
nitpicky = True
show_warning_types = True

html_theme = "furo"
html_title = "Anabranch"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["narrow.css"]


def setup(app: Any) -> None:
    """Shows blocks marked `output`, what an example prints, as plain text."""
    app.add_lexer("output", TextLexer)
