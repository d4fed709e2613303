"""``anabranch run``: programs find themselves as under Python, but for TensorFlow and lost NumPy names."""

from __future__ import annotations

import collections
import errno
import inspect
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.cli import run as command
from anabranch.compat import python_names
from anabranch.compat.old_numpy import names as numpy_names


def run(folder: Path, *arguments: str, python: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs ``anabranch run`` (or Python itself) in a folder."""
    start = [sys.executable] if python else [sys.executable, "-m", "anabranch", "run"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(command.__file__).parents[2])])}
    return subprocess.run(
        [*start, *arguments], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )


ABOUT = """
import os, sys
print(sys.argv, __name__, __file__, sys.path[0], os.getcwd(), sys.modules["__main__"].__file__, __spec__ is None)
print(sorted(name for name in globals() if name.startswith("__")), __builtins__.__name__)
"""


def test_a_script_finds_itself_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/about.py").write_text(ABOUT + "import beside\n")
    (tmp_path / "below/beside.py").write_text("print('beside')\n")
    arguments = ["below/about.py", "--flag", "-m", "x", "--help"]
    ours, plain = run(tmp_path, *arguments), run(tmp_path, *arguments, python=True)
    assert ours.stdout == plain.stdout, ours.stderr
    assert "beside" in ours.stdout


def test_a_module_finds_itself_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("")
    (tmp_path / "package/about.py").write_text(
        "import sys\nfrom package import other\nprint(sys.argv, __name__, __package__, sys.path[0])\n"
    )
    (tmp_path / "package/other.py").write_text("")
    arguments = ["-m", "package.about", "--flag", "-m"]
    ours, plain = run(tmp_path, *arguments), run(tmp_path, *arguments, python=True)
    assert ours.stdout == plain.stdout, ours.stderr


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("import sys\nsys.exit(3)\n", 3, ""),
        ("raise SystemExit('stopped')\n", 1, "stopped"),
        ("def f():\n    raise ValueError('wrong')\nf()\n", 1, "ValueError: wrong"),
        ("x = (\n", 1, "SyntaxError"),
        ("import atexit, sys\nname = 'last'\natexit.register(lambda: print(name, file=sys.stderr))\n", 0, "last"),
    ],
)
def test_endings_are_pythons(tmp_path: Path, text: str, code: int, shown: str) -> None:
    (tmp_path / "program.py").write_text(text)
    ours, plain = run(tmp_path, "program.py"), run(tmp_path, "program.py", python=True)
    assert ours.returncode == plain.returncode == code
    assert shown in ours.stderr
    assert ours.stderr.replace("\n", "") == plain.stderr.replace("\n", "")


def test_a_first_program_of_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import tensorflow as tf\nimport numpy as np\n"
        "x = tf.constant(np.array([1, 2], dtype=np.float))\n"
        "with tf.Session() as sess:\n    print(sess.run(tf.reduce_sum(x)), np.int(3))\n"
    )
    shown = run(tmp_path, "program.py")
    assert shown.stdout == "3.0 3\n", shown.stderr
    assert shown.stderr.count("a name that NumPy") == 1
    assert "program.py:3: FutureWarning: Given: np.float" in shown.stderr
    bare = run(tmp_path, "--plain-numpy", "program.py")
    assert "has no attribute 'float'" in bare.stderr


CHILDREN = """
import multiprocessing
import sys
import numpy as np
import tensorflow as tf

def work(queue):
    with tf.Graph().as_default(), tf.Session() as session:
        queue.put([tf.__name__, int(session.run(tf.constant(21) * 2)), hasattr(np, "int"), sys.argv[1:]])

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=work, args=(queue,))
        process.start()
        process.join()
        print(method, *queue.get(timeout=60), process.exitcode)
"""


@pytest.mark.parametrize(("options", "has_int"), [([], True), (["--plain-numpy"], False)])
def test_processes_of_multiprocessing_begin_like_their_parent(
    tmp_path: Path, options: list[str], has_int: bool
) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    done = run(tmp_path, *options, "children.py", "given")
    expected = [f"{method} tensorflow 42 {has_int} ['given'] 0" for method in ("spawn", "forkserver")]
    assert done.stdout.splitlines() == expected, done.stderr


def test_what_is_missing_stops_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import tensorflow as tf\nx = 1\ny = tf.contrib.timeseries.ARRegressor\n")
    shown = run(tmp_path, "program.py")
    assert shown.returncode == 1
    assert 'program.py", line 3' in shown.stderr
    assert "cli/run.py" not in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "no program: write `anabranch run SCRIPT`"),
        (["-m"], "no program"),
        (["none.py"], "can't open file 'none.py'"),
    ],
)
def test_mistakes(tmp_path: Path, arguments: list[str], text: str) -> None:
    shown = run(tmp_path, *arguments)
    assert shown.returncode == 2
    assert text in shown.stderr


def test_a_real_tensorflow_is_not_hidden(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "tensorflow").mkdir(parents=True)
    (site / "tensorflow/__init__.py").write_text("")
    (tmp_path / "program.py").write_text("import tensorflow as tf\nprint(tf.VERSION)\n")
    start = f"import sys; sys.path.insert(1, {str(site)!r}); from anabranch.cli.main import main; main()"
    results = []
    for options in ([], ["--replace-tensorflow"]):
        shown = subprocess.run(
            [sys.executable, "-c", start, "run", *options, str(tmp_path / "program.py")],
            capture_output=True,
            text=True,
            check=False,
        )
        results.append((shown.returncode, shown.stdout, "--replace-tensorflow" in shown.stderr))
    assert results == [(2, "", True), (0, "1.15.0\n", False)]


def test_own_options_end_at_the_program() -> None:
    assert command.split(["--a", "s.py", "--b"]) == (["--a"], "s.py", None, ["--b"])
    assert command.split(["--a", "-m", "mod", "-m"]) == (["--a"], None, "mod", ["-m"])


def _check_lost_tables_and_types() -> None:
    old: Any = np
    assert old.cast["float32"]([1, 2]).dtype == np.float32
    assert old.cast[int]([1.5]).tolist() == [1]
    assert (old.nbytes[np.float64], old.nbytes["i2"]) == (8, 2)
    assert old.sctypes["uint"][0] is np.uint8
    assert [old.issctype(kind) for kind in (np.float32, "f4", np.object_, 3)] == [True, False, False, False]
    assert [old.issubsctype("f4", kind) for kind in (np.floating, np.integer)] == [True, False]
    assert [old.obj2sctype(kind) for kind in ("f4", 3.5j, np.zeros(2, np.int8))] == [np.float32, None, np.int8]
    assert old.maximum_sctype(np.uint8) is np.uint64
    assert old.sctype2char("f4") == "f"
    assert old.fastCopyAndTranspose([[1, 2]]).tolist() == [[1], [2]]
    assert old.math.factorial(old.alen([1, 2, 3])) == 6
    assert old.mat is np.asmatrix


def test_lost_names_of_numpy_come_and_go() -> None:
    numpy_names.provide()
    try:
        with pytest.warns(FutureWarning, match=r"Given: np\.asscalar"):
            assert np.asscalar(np.array([3])) == 3  # type: ignore[attr-defined]
        assert np.asfarray([1]).dtype == np.float64  # type: ignore[attr-defined]
        assert np.msort([2, 1]).tolist() == [1, 2]  # type: ignore[attr-defined]
        assert np.find_common_type([np.float32], [np.int64]) == np.float64  # type: ignore[attr-defined]
        assert np.trapz([0, 1]) == 0.5  # type: ignore[attr-defined]
        assert np.rank([[1]]) == 2  # type: ignore[attr-defined]
        assert np.product([2, 3]) == 6  # type: ignore[attr-defined]
        _check_lost_tables_and_types()
        assert np.lib.pad([1], 1, "constant").tolist() == [0, 1, 0]
        with pytest.raises(AttributeError, match="nothing"):
            np.lib.nothing
        for name in numpy_names._VALUES:
            assert hasattr(np, name)
        with pytest.raises(AttributeError, match="nothing"):
            np.nothing  # type: ignore[attr-defined]
    finally:
        numpy_names.withdraw()
    with pytest.raises(AttributeError, match="asscalar"):
        np.asscalar  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="pad"):
        np.lib.pad


def test_names_that_python_lost() -> None:
    assert not hasattr(collections, "Mapping")
    python_names.provide()
    python_names.provide()
    try:
        with pytest.warns(DeprecationWarning, match=r"collections\.abc\.Mapping"):
            assert isinstance({}, collections.Mapping)
        assert issubclass(list, collections.Iterable)
        with pytest.raises(AttributeError, match="module 'collections' has no attribute 'Nothing'"):
            _ = collections.Nothing
        with pytest.warns(DeprecationWarning, match=r"inspect\.getargspec"):
            assert inspect.getargspec(lambda a, b=1, *c, **d: 0) == (["a", "b"], "c", "d", (1,))
        assert inspect.getargspec(tf.nn.relu).args == ["features", "name"]
        assert inspect.getargspec(tf.sigmoid).args == inspect.getargspec(tf.acos).args == ["x", "name"]
        with pytest.raises(ValueError, match="keyword-only"):
            inspect.getargspec(lambda *, a: 0)
        with pytest.warns(DeprecationWarning, match=r"time\.process_time"):
            assert time.clock() <= time.clock()
        with pytest.warns(DeprecationWarning, match=r"os\.errno"):
            assert os.errno.EEXIST == errno.EEXIST
        assert not threading.Thread().isAlive()
        assert json.loads("[1]", encoding="utf-8") == [1]
        assert sorted(random.sample({1, 2}, 2)) == sorted(random.sample({1: 0, 2: 0}.keys(), 2)) == [1, 2]
        items = list(range(5))
        random.shuffle(items, lambda: 0.0)
        assert items == [1, 2, 3, 4, 0]
    finally:
        python_names.withdraw()
    for module, name in (
        (collections, "Mapping"),
        (inspect, "getargspec"),
        (time, "clock"),
        (threading.Thread, "isAlive"),
    ):
        assert not hasattr(module, name)
    with pytest.raises(TypeError, match="encoding"):
        json.loads("[1]", encoding="utf-8")


def test_modules_that_python_lost_or_that_are_loaded_later(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    (tmp_path / "part.py").write_text("x = 3")
    program.write_text(
        """
import base64, fractions, sys, unittest
from unittest import TestCase
assert "fractions" in sys.modules and fractions.gcd(12, 18) == 6
assert base64.decodestring(base64.encodestring(b"text")) == b"text"
TestCase().assertEquals(1, 1)
import imp
from distutils.spawn import find_executable
from distutils.util import strtobool
from distutils.version import LooseVersion
assert imp.load_source("part", "part.py").x == 3
assert LooseVersion("1.10.0") > LooseVersion("1.9") and LooseVersion("1.4.0-rc1") != "1.4.0"
assert strtobool("yes") and find_executable("sh")
assert imp.new_module("a").__name__ == "a"
"""
    )
    done = run(tmp_path, "program.py")
    assert done.returncode == 0, done.stderr


def test_parts_of_packages_that_tensorflow_loaded(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import concurrent, distutils, email, http, multiprocessing, unittest, urllib, xml
import tensorflow
assert multiprocessing.pool.ThreadPool(1).map(abs, [-1]) == [1]
assert concurrent.futures.ThreadPoolExecutor and unittest.mock.Mock and http.client.OK and email.utils.quote
assert urllib.parse.quote and xml.dom.minidom.parseString and distutils.version.LooseVersion
try:
    xml.nothing
except AttributeError as problem:
    assert "module 'xml' has no attribute 'nothing'" in str(problem)
else:
    raise AssertionError("xml.nothing")
"""
    )
    done = run(tmp_path, "program.py")
    assert done.returncode == 0, done.stderr


def test_versions_are_compared_as_distutils_did() -> None:
    versions = ["0.9", "1.0", "1.4.0", "1.4.0-rc1", "1.10", "1.13.1", "2.0"]
    loose = [python_names.LooseVersion(text) for text in versions]
    assert sorted(loose) == loose
    assert loose[1] == "1.0"
    assert str(loose[3]) == "1.4.0-rc1"


def test_a_program_finds_the_frames_below_it_without_a_search(tmp_path: Path) -> None:
    """`inspect` looks for a frame's module in the files of all modules unless it knows the frame's file."""
    (tmp_path / "stack.py").write_text(
        "import inspect, sys\n"
        "class Counted(type(sys)):\n"
        "    asked = 0\n"
        "    def __getattr__(self, name):\n"
        "        Counted.asked += name == '__file__'\n"
        "        raise AttributeError(name)\n"
        "sys.modules['counted'] = Counted('counted')\n"
        "inspect.stack()  # the files of all modules are looked at once\n"
        "Counted.asked = 0\n"
        "files = {frame.filename for frame in inspect.stack()}\n"
        "print('<frozen runpy>' in files, Counted.asked)\n"
    )
    assert run(tmp_path, "stack.py").stdout == "True 0\n"
    assert run(tmp_path, "-m", "stack").stdout == "True 0\n"
