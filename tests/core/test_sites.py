"""Sites: which frames are the user's, what they say, what they cost; and filtered tracebacks."""

import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from timeit import repeat

import pytest

import anabranch.core.sites as sites
from anabranch.core.sites import capture, filtered_traceback

PACKAGE = Path(sites.__file__).parents[1]


def internal(source, filename="ops/imagined.py", **names):
    """Return the names that `source` defines when it stands in a file of the package."""
    exec(compile(source, str(PACKAGE / filename), "exec"), names)
    return names


def test_line_and_source():
    site = capture()
    frame = site.user_line()
    assert (frame.filename, frame.function, frame.line) == (__file__, "test_line_and_source", "site = capture()")
    assert Path(__file__).read_text().splitlines()[frame.lineno - 1].strip() == "site = capture()"
    assert str(site) == f'File "{__file__}", line {frame.lineno}, in test_line_and_source: site = capture()'
    assert site.full().endswith(str(site))


def test_of_a_call_over_several_lines_it_is_the_line_of_the_call():
    site = (
        capture(
        )
    )  # fmt: skip
    assert site.user_line().line == "capture("


def test_internal_frames_are_left_out():
    build = internal(
        "def inner():\n    return capture()\ndef build(f=None):\n    return f() if f else inner()", capture=capture
    )["build"]
    site = build()
    assert site.user_line().line == "site = build()"
    assert not any("imagined" in frame.filename for frame in site.frames())

    def callback():
        return build()

    through = build(callback)
    assert [frame.line for frame in through.frames()[:2]] == ["return build()", "through = build(callback)"]


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        (PACKAGE / "core" / "graph.py", True),
        (PACKAGE / "ops" / "tests" / "test_math.py", False),
        (PACKAGE.parent / "tests" / "test_x.py", False),
        (f"{PACKAGE}_extras/x.py", False),
        ("<stdin>", False),
        ("<ipython-input-3-aa>", False),
        ("<frozen importlib._bootstrap>", True),
    ],
)
def test_what_is_internal(filename, expected):
    assert sites.is_internal(compile("x", str(filename), "eval")) is expected


def test_at_most_ten_frames():
    def deep(n):
        return capture() if n == 0 else deep(n - 1)

    assert len(deep(30).frames()) == sites.MAX_FRAMES


def test_skip_leaves_out_a_helper():
    def helper():
        return capture(2)

    site = helper()
    assert site.user_line().line == "site = helper()"


def test_a_stack_without_user_frames_still_says_where():
    program = (
        "import sys, threading; sys.path.insert(0, sys.argv[1])\n"
        "import anabranch.core.sites as s\n"
        "names = {'capture': s.capture}\n"
        "exec(compile('def build(out):\\n    out.append(capture())', s.__file__, 'exec'), names)\n"
        "known = s._is_internal_file\n"
        "s._is_internal_file = lambda name: name == threading.__file__ or known(name)\n"
        "out = []; t = threading.Thread(target=names['build'], args=(out,)); t.start(); t.join()\n"
        "print(out[0].user_line().function)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(PACKAGE.parent)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("build\n", "")


def test_site_survives_pickling_as_text():
    site = capture()
    copied = pickle.loads(pickle.dumps(site))
    assert str(copied) == str(site)
    assert copied.frames() == site.frames()
    assert (str(sites.Site(())), sites.Site(()).user_line()) == ("", None)


def test_source_that_cannot_be_read():
    names = {"capture": capture}
    exec(compile("def f():\n    return capture()", "<nowhere>", "exec"), names)
    assert str(names["f"]()) == 'File "<nowhere>", line 2, in f'


def test_capture_keeps_no_locals_alive():
    import weakref

    class Big:
        pass

    def make():
        big = Big()
        return weakref.ref(big), capture()

    ref, site = make()
    assert ref() is None
    assert site.user_line().function.endswith("make")


def test_capture_is_cheap():
    """Ten frames cost 3 µs, `traceback.extract_stack` takes 50. The bound leaves room for a busy machine."""
    assert min(repeat(capture, number=2000, repeat=5)) / 2000 < 10e-6


SOURCE = """
def fail():
    raise ValueError("inside")
def middle(f):
    return f()
def edge(f=fail):
    return middle(f)
def caught():
    try:
        edge()
    except ValueError as e:
        raise KeyError("outside") from e
"""


@pytest.fixture
def package():
    return internal(SOURCE)


def functions(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def raised(action, error=ValueError, text="inside"):
    with pytest.raises(error, match=text) as info:
        action()
    return info.value


def test_first_and_last_internal_frame_stay(package):
    error = raised(lambda: filtered_traceback(package["edge"])())
    assert functions(error)[-2:] == ["edge", "fail"]
    assert "middle" in functions(raised(package["edge"]))


def test_user_frames_within_stay(package):
    def mine():
        return package["edge"]()

    error = raised(lambda: filtered_traceback(package["edge"])(mine))
    assert functions(error)[-5:] == ["edge", "middle", "mine", "edge", "fail"]


def test_as_a_context(package):
    def user():
        with filtered_traceback:
            package["edge"]()

    assert functions(raised(user))[-3:] == ["user", "edge", "fail"]


def test_causes_are_filtered_too(package):
    error = raised(filtered_traceback(package["caught"]), KeyError, "outside")
    assert functions(error.__cause__) == ["caught", "fail"]


def test_only_the_outermost_edge_filters(package):
    inner = filtered_traceback(package["edge"])
    source = (
        "def outer(f):\n    try:\n        f()\n"
        "    except ValueError as e:\n        seen.append(e.__traceback__)\n        raise"
    )
    outer = filtered_traceback(internal(source, seen=(seen := []))["outer"])
    error = raised(lambda: outer(inner))
    assert functions(error)[-2:] == ["outer", "fail"]
    assert "middle" in [frame.name for frame in traceback.extract_tb(seen[0])]


def test_the_switch_keeps_all_frames(package, monkeypatch):
    monkeypatch.setattr(sites, "_full_traceback", False)
    sites.set_full_traceback(True)
    assert sites.full_traceback()
    assert functions(raised(filtered_traceback(package["edge"])))[-4:] == ["filtered", "edge", "middle", "fail"]


@pytest.mark.parametrize(("value", "expected"), [("1", "True"), ("0", "False"), ("", "False")])
def test_the_environment_variable(value, expected):
    program = "import sys; sys.path.insert(0, sys.argv[1]); import anabranch.core.sites as s; print(s.full_traceback())"
    done = subprocess.run(
        [sys.executable, "-c", program, str(PACKAGE.parent)],
        env={"ANABRANCH_FULL_TRACEBACK": value}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_the_wrapper_keeps_name_value_and_arguments():
    @filtered_traceback
    def add(a, *, b):
        """Add."""
        return a + b

    assert (add(1, b=2), add.__name__, add.__doc__) == (3, "add", "Add.")


def test_a_traceback_through_an_instruction_without_a_line(package):
    # As where an interrupt comes between two lines: Python then says None, and takes no None in a traceback.
    def unlined():
        raise KeyboardInterrupt("here")

    size = len(unlined.__code__.co_code) // 2
    table = b"".join(bytes([0x80 | 15 << 3 | min(8, size - at) - 1]) for at in range(0, size, 8))
    unlined.__code__ = unlined.__code__.replace(co_linetable=table)

    @sites.filtered_traceback
    def run():
        unlined()

    with pytest.raises(KeyboardInterrupt, match="here") as info:
        run()
    last = info.value.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    assert (last.tb_frame.f_code.co_name, last.tb_lineno) == ("unlined", unlined.__code__.co_firstlineno)
