"""The page of what is not here names nothing that is."""

from __future__ import annotations

import absent_names
from sources import ROOT

from anabranch.compat import check
from anabranch.core.contract import absent

PAGE = (ROOT / "docs" / "absent.md").read_text(encoding="utf-8")


def test_no_name_of_the_page_is_here():
    assert PAGE.count("\n- `tf.") > 100
    here = [line for line in PAGE.splitlines() if absent_names.is_here(line)]
    assert here == [], "take them off: python tools/absent_names.py --shorten docs/absent.md"


def test_names_that_came_are_taken_off_the_page():
    text = "# Page\n\n## tf\n\n- `tf.lite`: files\n- `tf.matmul`\n\n## tf.nn\n\n- `tf.nn.relu`\n"
    assert absent_names.shortened(text) == "# Page\n\n## tf\n\n- `tf.lite`: files\n\n"


def test_advice_is_about_what_is_absent():
    here = {name for name in absent.INSTEAD if check.lookup(name)[0] is not check.MISSING}
    assert here == {"contrib.factorization", "contrib.learn"}  # of which a few names are here


def test_the_page_is_made_of_a_table_of_names():
    table = "tf.nn.relu\tfunction\t(x)\ntf.nn.nothing\tfunction\t(x)\ntf.train.AdamOptimizer\tclass\t()\n"
    table += "tf.train.AdamOptimizer.nothing\tmethod\t(self)\ntf.lite\tmodule\t\ntf.lite.Converter\tclass\t()\n"
    names = absent_names.absent_names(table.splitlines(keepends=True))
    assert names == {"": ["lite"], "nn": ["nothing"]}
    assert "## tf.nn\n\n- `tf.nn.nothing`\n" in absent_names.page(names)
