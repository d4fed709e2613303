"""Programs that an earlier process compiled: found on disk, and the same in all that they do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph import build
from anabranch.runtime.plans import policy
from anabranch.xla import background, disk_cache, kernel_context, single_op, stored_programs
from anabranch.xla import program as programs

COMPILED = tf.SessionOptions(tier="compiled")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    for thread in list(background._threads):  # what tests before have begun to compile would be stored here
        thread.join(60)
    found = disk_cache.DiskCache(tmp_path / "cache")
    monkeypatch.setattr(disk_cache, "_the_one", found)
    return found


@pytest.fixture
def compilations(monkeypatch):
    """What is traced and compiled, in order."""
    found = []

    def watch(owner, name):
        original = getattr(owner, name)

        def spy(*args, **kwargs):
            found.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, spy)

    watch(programs.Program, "_lowered")
    return found


@pytest.fixture
def starts():
    """Forgets what this process has compiled, as if it had just started."""

    def start():
        programs._shared.clear()
        single_op._programs.clear()

    start()
    return start


def _twice(starts, compilations, run):
    """Results of two starts, of which the second must compile nothing."""
    starts()
    with tf.Graph().as_default():
        first = run()
    assert compilations.count("_lowered")
    compilations.clear()
    starts()
    with tf.Graph().as_default():
        second = run()
    assert compilations == []
    return first, second


def test_a_second_start_computes_the_same_without_a_trace(starts, compilations, cache):
    def run():
        tf.set_random_seed(3)
        v = tf.Variable(tf.random_normal([50, 20]))
        wide = tf.Variable(np.int64(2**40), dtype=tf.int64)
        double = tf.Variable(np.float64(1) / 3, dtype=tf.float64)
        x = tf.placeholder(tf.float32, [None, 50])
        y = tf.nn.dropout(tf.matmul(x, v), 0.5)
        step = [
            tf.reduce_sum(y),
            tf.shape(y),
            v.assign_add(y[:50] * 0.1),
            wide.assign_add(1),
            double.assign(double / 3),
        ]
        with tf.Session(config=COMPILED) as session:
            session.run(tf.global_variables_initializer())
            found = [session.run(step, {x: np.ones((60, 50), np.float32)}) for _ in range(3)]
            return [*found, session.run([v, wide, double])]

    first, second = _twice(starts, compilations, run)
    for one, other in zip(first, second, strict=True):
        for value, same in zip(one, other, strict=True):
            assert value.dtype == same.dtype
            np.testing.assert_array_equal(value, same)
    assert first[-1][1] == 2**40 + 3
    assert cache.hits > 0


def test_a_check_fails_with_op_line_and_values(starts, compilations):
    def run():
        table = tf.Variable(np.arange(8, dtype=np.float32))
        i = tf.placeholder(tf.int64, [2])
        step = tf.scatter_add(table, i, [1.0, 2.0], name="add_rows")
        with tf.Session(config=COMPILED) as session:
            session.run(table.initializer)
            session.run(step.op, {i: [1, 2]})
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 9 is not in \[0, 8\)") as caught:
                session.run(step.op, {i: [1, 9]})
            return str(caught.value), session.run(table)

    (said, value), (again, other) = _twice(starts, compilations, run)
    assert said == again
    assert "add_rows" in said
    assert "test_stored_programs.py" in said
    np.testing.assert_array_equal(value, other)


def test_loops_and_branches(starts, compilations):
    def run():
        n = tf.placeholder(tf.int32, [])
        x = tf.Variable(np.linspace(0, 1, 5).astype(np.float32))
        y = tf.while_loop(
            lambda i, _: i < n, lambda i, v: (i + 1, tf.cond(i > 2, lambda: v * 2, lambda: v + 1)), [0, x]
        )
        grad = tf.gradients(y[1], x)[0]
        with tf.Session(config=COMPILED) as session:
            session.run(x.initializer)
            return [session.run([y[1], grad], {n: k}) for k in (3, 7)]

    starts()
    with tf.Graph().as_default():
        first = run()
    compilations.clear()
    starts()
    with tf.Graph().as_default():
        second = run()
    np.testing.assert_array_equal(first, second)


def _tiers(runs, seed=None):
    """The tier of each of some runs of a step, and what they gave."""
    if seed is not None:
        tf.set_random_seed(seed)
    v = tf.Variable(np.linspace(-1, 1, 6).astype(np.float32))
    step = [tf.reduce_sum(tf.tanh(v)), v.assign_add(tf.sigmoid(v))]
    tiers, values = [], []
    with tf.Session() as session:
        session.run(v.initializer)
        for _ in range(runs):
            values.append(session.run(step)[0])
            tiers.append(session.explain(step).splitlines()[0])
            for thread in list(background._threads):
                thread.join(60)
    return tiers, values


def test_the_schedule_of_a_seeded_program_is_the_same_if_its_programs_are_there(starts, compilations):
    (tiers, values), (again, others) = _twice(starts, compilations, lambda: _tiers(80, seed=1))
    assert tiers == again
    assert "tier: interpreted" in tiers[0]
    assert "tier: compiled" in tiers[-1]
    np.testing.assert_array_equal(values, others)


def test_another_program_begins_with_what_is_there(starts, compilations, monkeypatch):
    monkeypatch.setattr(policy, "BEGINS_AFTER", 0.0)
    monkeypatch.setattr(policy, "WORTH_A_LOOK", 0.0)
    starts()
    with tf.Graph().as_default():
        first, values = _tiers(3)
    assert "tier: interpreted" in first[0]
    assert "compiled beside 1 interpreted runs" in first[1]
    compilations.clear()
    starts()
    monkeypatch.setattr(disk_cache, "_the_one", disk_cache.DiskCache(disk_cache.of_process().folder))
    with tf.Graph().as_default():
        second, others = _tiers(3)
    assert "tier: compiled (its programs were there already)" in second[0]
    assert compilations == []
    np.testing.assert_allclose(values, others, rtol=1e-6, atol=1e-6)


def test_a_program_that_is_not_there_is_interpreted_as_if_nobody_had_looked(starts, compilations, monkeypatch):
    monkeypatch.setattr(policy, "WORTH_A_LOOK", 0.0)
    assert _entries_after(_square, starts) == 1
    compilations.clear()
    starts()
    monkeypatch.setattr(disk_cache, "_the_one", disk_cache.DiskCache(disk_cache.of_process().folder))
    with tf.Graph().as_default():
        tiers, values = _tiers(1)
    assert "tier: interpreted (no compiled form is there)" in tiers[0]
    assert compilations == []
    np.testing.assert_allclose(values[0], 0.0, atol=1e-6)


def test_a_program_that_was_not_there_is_compiled_later_as_any_other(starts, monkeypatch):
    assert _entries_after(_square, starts) == 1
    monkeypatch.setattr(disk_cache, "_the_one", disk_cache.DiskCache(disk_cache.of_process().folder))
    monkeypatch.setattr(policy, "WORTH_A_LOOK", 0.0)
    monkeypatch.setattr(policy, "BEGINS_AFTER", 0.0)
    starts()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [3, 4])
        w = tf.get_variable("w", [4, 5], initializer=tf.ones_initializer())
        fetches = [tf.matmul(x, w), tf.reduce_sum(x, 0)]
        said = []
        session.run(w.initializer)
        for _ in range(4):  # the first looks for it on disk; a step that is as short as this one goes the fast path
            session.run(fetches, {x: np.ones([3, 4])})
            said.append(session.explain(fetches, {x: np.ones([3, 4])}).splitlines()[0])
            for thread in list(background._threads):
                thread.join(60)
    assert "interpreted (no compiled form is there)" in said[0]
    assert "tier: compiled (its programs were compiled beside" in said[-1]


def test_programs_for_sizes_that_change_are_looked_for_once_it_is_known_which_do(starts, compilations, monkeypatch):
    def tiers():
        ids = tf.placeholder(tf.int32, [8])
        table = tf.Variable(np.linspace(0, 1, 40).astype(np.float32).reshape(20, 2))
        rows, places = tf.unique(ids)
        step = [tf.reduce_sum(tf.gather(tf.gather(table, rows) * 2.0, places)), table.assign_add(table * 0.5).op]
        said = []
        with tf.Session() as session:
            session.run(table.initializer)
            for i in range(12):
                feed = {ids: np.arange(8) % (1 + i % 7)}
                session.run(step, feed)
                said.append(session.explain(step, feed).splitlines()[0])
                for thread in list(background._threads):
                    thread.join(60)
        return said

    monkeypatch.setattr(policy, "BEGINS_AFTER", 0.0)
    starts()
    with tf.Graph().as_default():
        assert "compiled beside" in tiers()[-1]
    compilations.clear()
    starts()
    monkeypatch.setattr(disk_cache, "_the_one", disk_cache.DiskCache(disk_cache.of_process().folder))
    monkeypatch.setattr(policy, "WORTH_A_LOOK", 0.0)
    monkeypatch.setattr(policy, "BEGINS_AFTER", 1e6)  # nothing is compiled, or read, beside the runs
    with tf.Graph().as_default():
        again = tiers()
    assert "interpreted (no compiled form is there)" in again[0]
    assert "compiled (its programs were there already)" in again[-1]
    assert compilations == []


def test_a_value_that_must_be_known_is_found_without_tracing(starts, compilations):
    def run():
        x, n = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [])
        rows = tf.reshape(tf.tanh(x), tf.stack([n * 2, -1])) + 1.0
        with tf.Session(config=COMPILED) as session:
            return [session.run([rows], {x: np.ones((6, 4), np.float32), n: 3})]

    _twice(starts, compilations, run)


def test_an_op_without_a_host_kernel_is_kept_too(starts, cache):
    def run():
        starts()
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            return session.run(tf.igamma(np.float32([1, 2, 3]), np.float32([0.5, 1, 4])))

    first = run()
    assert cache.info().entries == 1
    np.testing.assert_array_equal(run(), first)
    assert cache.hits == 1


def _entries_after(run, starts):
    starts()
    with tf.Graph().as_default():
        run()
    return disk_cache.of_process().info().entries


def _square(x=3.0):
    with tf.Session(config=COMPILED) as session:
        return session.run(tf.square(tf.placeholder_with_default(np.float32(x), [])))


@pytest.mark.parametrize("what", ["_sources", "_machine", "_settings"])
def test_other_sources_versions_or_settings_are_a_miss(what, starts, monkeypatch):
    assert _entries_after(_square, starts) == 1
    assert _entries_after(_square, starts) == 1
    monkeypatch.setattr(stored_programs, what, lambda: "another")
    if what == "_sources":
        stored_programs._machine.cache_clear()
    try:
        assert _entries_after(_square, starts) == 2
    finally:
        if what == "_sources":
            stored_programs._machine.cache_clear()


def test_a_file_that_jax_cannot_read_is_replaced(starts, cache, caplog):
    assert _entries_after(_square, starts) == 1
    (path,) = cache.folder.iterdir()
    cache.put(path.stem, b"\x02\0\0\0{}whole, but nonsense")
    assert _entries_after(_square, starts) == 1
    assert len(path.read_bytes()) > 1000


def test_ops_that_are_defined_elsewhere_are_not_kept(starts):
    class DiskCacheTwice(opdef.Op):
        """Twice its input."""

        signature = "x: float -> y: float"
        effect = opdef.PURE
        gradient = opdef.DERIVED

        def shape(c):
            return [c.shapes[0]]

        def kernel(ctx, inputs, attrs):
            return inputs[0] * 2

    def run():
        x = tf.placeholder_with_default(np.float32(3), [])
        with tf.Session(config=COMPILED) as session:
            assert session.run(build.build("DiskCacheTwice", x)) == 6.0

    assert _entries_after(run, starts) == 0


def test_no_cache_on_other_devices_or_when_off(starts, monkeypatch):
    assert stored_programs.key((), [], "gpu") is None
    monkeypatch.setattr(disk_cache, "_the_one", disk_cache.DiskCache(None, "off"))
    assert stored_programs.key((), [], "cpu") is None
    assert _square() == 9.0


@pytest.mark.multiprocess
def test_a_second_process_compiles_nothing(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np\n"
        "import anabranch as tf\n"
        "from anabranch.xla import disk_cache\n"
        "tf.set_random_seed(1)\n"
        "x = tf.placeholder(tf.float32, [None, 8])\n"
        "loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(x, 16, tf.nn.tanh), 8) - x))\n"
        "train = tf.train.AdamOptimizer().minimize(loss)\n"
        "with tf.Session() as session:\n"
        "    session.run(tf.global_variables_initializer())\n"
        "    for _ in range(600):\n"
        "        value, _ = session.run([loss, train], {x: np.eye(8)})\n"
        "cache = disk_cache.of_process()\n"
        "print(repr(value), cache.hits, cache.misses, cache.info().entries)\n"
    )
    environment = {**os.environ, "ANABRANCH_CACHE": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = str(Path(tf.__file__).parents[1])
    said = []
    for _ in range(2):
        run = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, timeout=100)
        assert (run.returncode, run.stderr) == (0, "")
        said.append(run.stdout.split(" "))
    assert said[0][0] == said[1][0]
    assert said[0][1] == "0"
    assert int(said[1][1]) >= 1
    assert said[1][2] == "0"
    assert said[0][3] == said[1][3]


# ------------------------------------------------------------------------------------------------------- what is plain
@pytest.mark.parametrize(
    "value",
    [
        None, True, 7, 1.5, "text", b"\xff\0", (1, (2, [3, None])), np.float32(2), np.arange(6).reshape(2, 3),
        np.zeros((0, 3), np.complex64), np.array([[b"a", b"\xff"]], object), np.ones(3, ml_dtypes.bfloat16),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_plain_is_read_as_it_was(value):
    found = stored_programs.read(stored_programs.plain(value))
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)
    if hasattr(value, "dtype"):
        assert found.dtype == value.dtype
        assert found.shape == value.shape


def test_a_check_is_read_as_it_was():
    packed = kernel_context.PackedValue(np.dtype(np.int64), 3, 2, 2, (2,))
    inner = kernel_context.CheckRecord(errors.DataLossError, "inner", (), 1, 4)
    record = kernel_context.CheckRecord(errors.InvalidArgumentError, "{0} of {1}", (packed, b"x"), -1, 2, (inner,))
    assert stored_programs.read_record(stored_programs.plain_record(record)) == record
    with pytest.raises(stored_programs.NotStorable, match="a check that raises"):
        stored_programs.plain_record(record._replace(error=lambda *_: None))
    with pytest.raises(stored_programs.NotStorable, match="object in what tracing found out"):
        stored_programs.plain(object())


def test_values_of_different_types_have_different_keys():
    values = [
        1,
        True,
        1.0,
        "1",
        b"1",
        None,
        (1,),
        ((1,),),
        (1, 1),
        np.float32(1),
        np.dtype(np.int8),
        tf.int8,
        {},
        {1: 1},
    ]
    assert len({stored_programs._digest(value) for value in values}) == len(values)
    with pytest.raises(stored_programs.NotStorable, match="object in a key"):
        stored_programs._digest(object())


def test_a_program_that_calls_lapack_is_used_in_a_fresh_process(tmp_path):
    code = """
import anabranch as tf, numpy as np
tf.enable_eager_execution()
print(tf.linalg.lu(tf.constant(np.diag([1.0, 2.0, 3.0])[::-1].copy()))[1].numpy().tolist())
"""
    for _ in range(2):  # the second one reads what the first has compiled
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ANABRANCH_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert (done.returncode, done.stdout.strip()) == (0, "[2, 1, 0]"), done.stderr


CACHED_BY_JAX = """
import numpy as np
import anabranch as tf
v = tf.Variable(np.linspace(-1.0, 1.0, 6).astype(np.float32))
step = [tf.reduce_sum(tf.tanh(v)), v.assign_add(tf.sigmoid(v)), tf.cholesky(tf.eye(3) * 4.0)[0, 0]]
with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
    session.run(v.initializer)
    print([session.run(step)[i].tolist() for i in range(3)])
"""


@pytest.mark.multiprocess
def test_programs_that_jax_has_cached_are_kept_as_they_were_loaded(tmp_path):
    """An executable that was loaded may not be serialised again: its functions would not be found."""
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    shown = []
    for ours in ("first", "second", "second"):  # compiled; loaded by JAX and kept; loaded by us
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CACHED_BY_JAX],
            env={**environment, disk_cache.SWITCH: str(tmp_path / ours)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert len(list((tmp_path / "jax").iterdir())) > 0
    assert len(set(shown)) == 1
