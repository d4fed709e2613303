"""The page of what is not here names nothing that is."""

from __future__ import annotations

import re

import absent_names
from sources import ROOT

from anabranch.compat import check
from anabranch.core.contract import absent

NAMES = re.findall(r"^- `tf\.([\w.]+)`", (ROOT / "docs" / "absent.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_no_name_of_the_page_is_here():
    assert len(NAMES) > 100
    assert [name for name in NAMES if check.lookup(name)[0] is not check.MISSING] == []


def test_advice_is_about_what_is_absent():
    here = {name for name in absent.INSTEAD if check.lookup(name)[0] is not check.MISSING}
    assert here == {"contrib.learn"}  # of which a few names are here


def test_the_page_is_made_of_a_table_of_names():
    table = "tf.nn.relu\tfunction\t(x)\ntf.nn.nothing\tfunction\t(x)\ntf.train.AdamOptimizer\tclass\t()\n"
    table += "tf.train.AdamOptimizer.nothing\tmethod\t(self)\ntf.lite\tmodule\t\ntf.lite.Converter\tclass\t()\n"
    names = absent_names.absent_names(table.splitlines(keepends=True))
    assert names == {"": ["lite"], "nn": ["nothing"]}
    assert "## tf.nn\n\n- `tf.nn.nothing`\n" in absent_names.page(names)
