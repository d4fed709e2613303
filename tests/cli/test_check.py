"""``anabranch check``: findings with lines, through aliases, and nothing found where nothing is missing."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import pytest

from anabranch.cli import main
from anabranch.compat import check


def found(text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.symbol) for finding in check.check_source(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import tensorflow as tf\nx = tf.reduce_sum(1)\ny = tf.nothing(x)\n", [(3, "tf.nothing")]),
        ("import tensorflow\ntensorflow.nn.nothing\n", [(2, "tf.nn.nothing")]),
        ("import tensorflow.compat.v1 as tf\ntf.nothing\ntf.matmul\n", [(2, "tf.nothing")]),
        ("from tensorflow import nothing, matmul\n", [(1, "tf.nothing")]),
        ("from tensorflow.contrib import framework as f\nf.arg_scope\nf.no\n", [(3, "tf.contrib.framework.no")]),
        ("import tensorflow as tf\nnn = tf.nn\ndef f():\n    return nn.nothing\n", [(4, "tf.nn.nothing")]),
        ("import tensorflow as tf\ntf.contrib.tpu.run_config\n", [(2, "tf.contrib.tpu")]),
        ("from tensorflow.python.ops import math_ops as m\nm.matmul\nm.no\n", [(3, "tf.python.ops.math_ops.no")]),
        ("from tensorflow.python import nothing\n", [(1, "tf.python.nothing")]),
        (
            "import tensorflow as tf\ntf.train.AdamOptimizer.nothing\ntf.train.AdamOptimizer.minimize\n",
            [(2, "tf.train.AdamOptimizer.nothing")],
        ),
        ("import tensorflow as tf\ntf.errors.OutOfRangeError\ntf.float32.as_numpy_dtype\ntf.Graph().nothing\n", []),
        ("import numpy as tf\ntf.nothing\n", []),
        ("import tensorflow as tf\ntf.own = 3\n", []),
    ],
)
def test_names(text: str, wanted: list[tuple[int, str]]) -> None:
    assert found(text) == wanted


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("tf.reduce_sum(x, axis=0)", None),
        ("tf.reduce_sum(x, axes=0)", "tf.reduce_sum has no argument 'axes'"),
        ("tf.square(x, None, 3)", "tf.square takes 2 arguments, not 3"),
        ("tf.square(*x)", None),
        ("tf.square(**x)", None),
        ("tf.train.AdamOptimizer(rate=1)", "tf.train.AdamOptimizer has no argument 'rate'"),
        ("tf.ConfigProto(allow_soft_placement=True)", None),
    ],
)
def test_arguments(call: str, problem: str | None) -> None:
    findings = check.check_source(f"import tensorflow as tf\n{call}\n")
    assert [finding.problem for finding in findings] == ([] if problem is None else [problem])


def test_advice() -> None:
    (finding,) = check.check_source("import tensorflow as tf\ntf.reduce_summ(1)\n")
    assert finding.column == 1
    assert "TensorFlow 1.x that is known here" in finding.problem
    assert finding.instead.startswith("one of tf.reduce_sum")


def status(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit, match=r"\d") as ended:
        main.main(["check", *arguments])
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good.py"
    good.write_text("import tensorflow as tf\ntf.matmul\n")
    assert status(capsys, str(good)) == (0, "0 findings in 1 files\n", "")
    bad = tmp_path / "below/bad.py"
    bad.parent.mkdir()
    bad.write_text("import tensorflow as tf\n\ntf.nothing\n")
    code, out, _ = status(capsys, str(tmp_path))
    assert code == 1
    assert f"{bad}:3:1: tf.nothing is not there" in out
    assert out.endswith("1 findings in 2 files\n")
    code, out, _ = status(capsys, "--json", str(tmp_path))
    assert code == 1
    assert json.loads(out)[0]["line"] == 3


def test_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("print 'python 2'\n")
    code, _, error = status(capsys, str(broken))
    assert code == 2
    assert "broken.py" in error
    code, _, error = status(capsys, str(tmp_path / "none"))
    assert code == 2
    assert "no file or folder" in error


def test_names_that_the_program_makes_and_attributes_of_the_module():
    source = "import tensorflow as tf\ntf.mul = tf.multiply\ntf.mul(1, 2)\nprint(tf.__git_version__, tf.__version__)\n"
    assert check.check_source(source) == []
    assert [f.symbol for f in check.check_source("import tensorflow as tf\ntf.mul_(1)\n")] == ["tf.mul_"]


def test_what_is_inside_of_calls_and_subscripts_is_read():
    source = "import tensorflow as tf\nx = tf.nosuch_a(tf.nosuch_b)[tf.nosuch_c].tf.nosuch_d\n"
    assert [f.symbol for f in check.check_source(source)] == ["tf.nosuch_a", "tf.nosuch_b", "tf.nosuch_c"]


def test_names_that_another_file_of_the_program_assigns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys.py").write_text("import tensorflow as tf\ntf.GraphKeys.TARGETS = 'targets'\n")
    user = tmp_path / "user.py"
    user.write_text("import tensorflow as tf\ntf.GraphKeys.TARGETS\ntf.GraphKeys.INPUTS\n")
    code, out, _ = status(capsys, str(tmp_path))
    assert code == 1
    assert f"{user}:3:1: tf.GraphKeys.INPUTS is not there" in out
    assert out.endswith("1 findings in 2 files\n")


def test_calls_of_what_cannot_be_hashed():
    assert check.check_source("import tensorflow as tf\ntf.test.mock.call(1)\n") == []


def test_only_files_that_name_tensorflow_are_walked_and_a_name_is_explained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[object] = []
    walk = check._breadth_first
    monkeypatch.setattr(check, "_breadth_first", lambda tree: walked.append(tree) or walk(tree))
    explained: list[str] = []
    instead = check.versions.instead
    monkeypatch.setattr(check.versions, "instead", lambda name: explained.append(name) or instead(name))
    for number in range(20):
        (tmp_path / f"other{number}.py").write_text("import numpy as np\nnp.nothing\n")
        (tmp_path / f"user{number}.py").write_text("import tensorflow as tf\n" + "tf.nothing_of_the_kind(1)\n" * 10)
    collecting = gc.isenabled()
    findings, unreadable = check.check_files([str(path) for path in sorted(tmp_path.iterdir())])
    assert len(findings) == 200
    assert unreadable == []
    assert len(walked) == 20
    assert explained == ["nothing_of_the_kind"]
    assert gc.isenabled() == collecting
    trees = [weakref.ref(tree) for tree in walked]
    walked.clear()
    assert [tree for tree in trees if tree() is not None] == []  # though the findings are kept
