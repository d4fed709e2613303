"""Readers of files: their records, keys and counts are TensorFlow's; what they do when a file is bad or a step ends.

`tests/golden/readers.json` was made by TensorFlow 1.15.5 (`tools/golden/input/readers.py`).
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.input import reader_cases

import anabranch as tf
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.build import build
from anabranch.ops.io import lmdb_databases, reader_objects
from tests.running_steps import until, until_waiting

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/readers.json").read_text(encoding="utf-8"))
# What is otherwise than in TensorFlow on purpose: case -> what is given instead, why.
DIFFERENT = {
    "truncated header of a record": (
        [["0:0", "first"], [1, 0], "DataLossError", [1, 0], "DataLossError", [0, 0]],
        "TensorFlow takes a file that breaks off within a record's header for one that is over",
    )
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("case", reader_cases.CASES)
def test_records_keys_and_counts_are_tensorflows(case: str, tmp_path: Path) -> None:
    expected = DIFFERENT[case][0] if case in DIFFERENT else GOLDEN[case]
    assert reader_cases.run(tf, case, str(tmp_path)) == expected


def files(folder: Path, *contents: bytes) -> list[str]:
    """Names of files with these contents."""
    for number, data in enumerate(contents):
        (folder / str(number)).write_bytes(data)
    return [str(folder / str(number)) for number in range(len(contents))]


def filled(session: tf.Session, units: list[Any]) -> Any:
    """A queue that holds units of work and is closed."""
    queue = tf.FIFOQueue(100, tf.string, shapes=[()])
    session.run(queue.enqueue_many([units]))
    session.run(queue.close())
    return queue


# Kind of reader, its attributes in the old form, a file, and the first record of that file.
OLD_FORMS: list[tuple[str, dict[str, Any], bytes, tuple[bytes, bytes]]] = [
    ("FixedLengthRecordReader", {"record_bytes": 2}, b"aabb", (b":0", b"aa")),
    ("IdentityReader", {}, b"", (b"", b"")),
    ("TextLineReader", {"skip_header_lines": 1}, b"a\nb\n", (b":2", b"b")),
    ("TFRecordReader", {}, b"", (b"", b"")),
    ("WholeFileReader", {}, b"ab", (b"", b"ab")),
]


@pytest.mark.parametrize(("kind", "attrs", "contents", "record"), OLD_FORMS)
def test_ops_of_the_old_form(
    kind: str, attrs: dict[str, Any], contents: bytes, record: tuple[bytes, bytes], tmp_path: Path
) -> None:
    path = str(tmp_path / "file")
    if kind == "TFRecordReader":
        with tf.python_io.TFRecordWriter(path) as writer:
            writer.write(b"old")
        record = (b":0", b"old")
    else:
        Path(path).write_bytes(contents)
    if kind == "IdentityReader":
        record = (b"", path.encode())
    queue = build("FIFOQueue", component_types=["string"], shapes=[()])
    reader = build(kind, **attrs)
    with tf.Session() as session:
        session.run(build("QueueEnqueueMany", queue, [np.array([path, path], object)]))
        assert tuple(session.run(build("ReaderRead", reader, queue))) == (path.encode() + record[0], record[1])
        produced = build("ReaderNumRecordsProduced", reader)
        assert session.run(produced) == 1
        units = build("ReaderNumWorkUnitsCompleted", reader)
        assert session.run(units) == (kind in ("IdentityReader", "WholeFileReader"))
        if kind == "IdentityReader":
            state = session.run(build("ReaderSerializeState", reader))
            session.run(build("ReaderReset", reader))
            assert session.run(units) == 0
            session.run(build("ReaderRestoreState", reader, state))
            assert session.run(units) == 1
        else:
            session.run(build("ReaderReset", reader))
        keys, values = session.run(build("ReaderReadUpTo", reader, queue, np.int64(1)))
        assert [*keys, *values] == [path.encode() + record[0], record[1]]


def test_an_lmdb_database_is_read_in_the_order_of_its_keys_by_two_readers(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    environment = lmdb.open(str(tmp_path / "folder"))
    with environment.begin(write=True) as transaction:
        for key in (b"b", b"c", b"a"):
            transaction.put(key, key * 2)
    environment.close()
    with tf.Session() as session:
        queue = filled(session, [str(tmp_path / "folder"), str(tmp_path / "folder/data.mdb")])
        first, second = tf.LMDBReader(name="first"), tf.LMDBReader(name="second")
        assert session.run(first.read(queue)) == (b"a", b"aa")
        assert session.run(second.read(queue)) == (b"a", b"aa")
        keys, values = session.run(first.read_up_to(queue, 10))
        assert (list(keys), list(values)) == ([b"b", b"c"], [b"bb", b"cc"])
        assert session.run(second.read(queue)) == (b"b", b"bb")
        assert session.run([first.num_work_units_completed(), second.num_work_units_completed()]) == [1, 0]
    assert not lmdb_databases._environments._open, "a closed session lets go of the databases"


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    with tf.Session() as session:
        record = tf.LMDBReader().read(filled(session, files(tmp_path, b"no database")))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"0 cannot be opened as an LMDB database"):
            session.run(record)


def test_lmdb_is_asked_for_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lmdb", None)
    with tf.Session() as session:
        record = tf.LMDBReader().read(filled(session, files(tmp_path, b"")))
        with pytest.raises(tf.errors.UnimplementedError, match=r"pip install anabranch\[lmdb\]"):
            session.run(record)


# ---------------------------------------------------------------------------------------------------------- bad input
def test_errors_name_the_file_the_place_and_the_line_of_the_program(tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    with tf.python_io.TFRecordWriter(path) as writer:
        writer.write(b"good")
        writer.write(b"bad")
    data = bytearray(Path(path).read_bytes())
    data[-5] ^= 1
    Path(path).write_bytes(bytes(data))
    with tf.Session() as session:
        record = tf.TFRecordReader().read(filled(session, [path, str(tmp_path / "missing")]))
        assert session.run(record)[1] == b"good"
        for _ in range(2):
            with pytest.raises(tf.errors.DataLossError, match=r"record at 20 of .*records[\s\S]*test_readers.py"):
                session.run(record)
        lines = tf.TextLineReader().read(filled(session, [str(tmp_path / "missing")]))
        with pytest.raises(tf.errors.NotFoundError, match=r"missing; No such file[\s\S]*test_readers.py"):
            session.run(lines)


def test_records_before_a_damaged_one_are_given_first(tmp_path: Path) -> None:
    data = reader_cases._records(b"one", b"two", b"three")
    (path,) = files(tmp_path, data[:-2])
    with tf.Session() as session:
        keys, values = tf.TFRecordReader().read_up_to(filled(session, [path]), 10)
        assert list(session.run(values)) == [b"one", b"two"]
        with pytest.raises(tf.errors.DataLossError, match="truncated record at 38"):
            session.run(keys)


def test_compressed_data_that_breaks_off(tmp_path: Path) -> None:
    import gzip

    whole = gzip.compress(reader_cases._records(b"one" * 1000))
    (path,) = files(tmp_path, whole[:-20])
    with tf.Session() as session:
        record = tf.TFRecordReader(options="GZIP").read(filled(session, [path]))
        with pytest.raises(tf.errors.DataLossError, match=r"0: the compressed data ends in its middle"):
            session.run(record)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match='Not a valid compression_type: "LZ4"'):
        tf.TFRecordReader(options="LZ4")
    with pytest.raises(TypeError, match=r"'files' as the queue of a reader"):
        tf.TextLineReader().read("files")
    with tf.Session() as session:
        queue = filled(session, [b"x"])
        cases = [
            (tf.TextLineReader(skip_header_lines=-1), "skip_header_lines must be >= 0 not -1"),
            (tf.FixedLengthRecordReader(2, footer_bytes=-2), "footer_bytes must be >= 0 not -2"),
            (tf.FixedLengthRecordReader(0), "which would never end a file"),
            (tf.FixedLengthRecordReader(2, encoding="LZ4"), "compression 'LZ4' of FixedLengthRecordReader"),
        ]
        for reader, text in cases:
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(reader.read(queue))
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_records must be >= 0 not -1"):
            session.run(tf.IdentityReader().read_up_to(queue, -1))


@pytest.mark.parametrize(
    ("dtypes", "row", "text"),
    [
        ([tf.string, tf.int32], (b"x", 1), "Expected single component queue"),
        ([tf.int32], (1,), "Expected queue with single string component"),
        ([tf.string], ([b"x", b"y"],), "Expected to dequeue a one-element string tensor"),
    ],
)
def test_queues_that_hold_no_units_of_work(dtypes: list[Any], row: tuple[Any, ...], text: str) -> None:
    queue = tf.FIFOQueue(10, dtypes)
    with tf.Session() as session:
        session.run(queue.enqueue(row))
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            session.run(tf.IdentityReader().read(queue))


# ------------------------------------------------------------------------------------------------------------- state
@pytest.mark.parametrize("kind", [tf.IdentityReader, tf.WholeFileReader])
def test_state_of_readers_of_whole_units(kind: Any, tmp_path: Path) -> None:
    paths = files(tmp_path, b"a", b"b", b"c")
    with tf.Session() as session:
        queue = filled(session, paths)
        reader = kind()
        assert reader.supports_serialize
        produced, completed = reader.num_records_produced(), reader.num_work_units_completed()
        record = reader.read(queue)
        state = tf.placeholder(tf.string, [])
        restore = reader.restore_state(state)
        session.run(record)
        saved = session.run(reader.serialize_state())
        session.run(record)
        assert session.run([produced, completed]) == [2, 2]
        session.run(restore, {state: saved})
        assert session.run([produced, completed]) == [1, 1]
        for bad, text in (
            (b"BOGUS" + saved[5:], "Could not parse state"),
            (b"\x08\x01\x10\x02", "Inconsistent work started vs. finished"),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "Unexpected negative value"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(restore, {state: bad})
        assert session.run([produced, completed]) == [1, 1]


def test_a_unit_in_progress_is_part_of_the_state(tmp_path: Path) -> None:
    (path,) = files(tmp_path, b"again")
    started = b"\x08\x01\x22" + bytes([len(path)]) + path.encode()
    with tf.Session() as session:
        reader = tf.WholeFileReader()
        session.run(reader.restore_state(started))
        assert session.run(reader.read(filled(session, [b"other"]))) == (path.encode(), b"again")


def test_a_reader_begins_anew_after_a_reset(tmp_path: Path) -> None:
    (path,) = files(tmp_path, b"1\n2\n")
    with tf.Session() as session:
        reader = tf.TextLineReader()
        record, produced = reader.read(filled(session, [path, path])), reader.num_records_produced()
        assert [session.run(record)[1], session.run(produced)] == [b"1", 1]
        session.run(reader.reset())
        assert [session.run(produced), session.run(record)[1], session.run(produced)] == [0, b"1", 1]


def test_a_reader_of_many_records_says_why_it_saves_no_state() -> None:
    reader = tf.TextLineReader()
    assert not reader.supports_serialize
    with tf.Session() as session:
        with pytest.raises(tf.errors.UnimplementedError, match=r"Reader SerializeState[\s\S]*within a file"):
            session.run(reader.serialize_state())
        with pytest.raises(tf.errors.UnimplementedError, match="Reader RestoreState"):
            session.run(reader.restore_state(b""))


def test_sessions_have_readers_of_their_own(tmp_path: Path) -> None:
    paths = files(tmp_path, b"1\n2\n")
    reader = tf.TextLineReader()
    queue = tf.FIFOQueue(10, tf.string, shapes=[()])
    record, fill = reader.read(queue), queue.enqueue(paths[0])
    for _ in range(2):
        with tf.Session() as session:
            session.run(fill)
            assert [session.run(record)[1] for _ in range(2)] == [b"1", b"2"]


# ------------------------------------------------------------------------------------------------------------ waiting
def test_one_reader_serves_many_threads_and_every_record_comes_once(tmp_path: Path) -> None:
    paths = files(tmp_path, *[b"".join(b"%d\n" % (100 * f + i) for i in range(100)) for f in range(5)])
    with tf.Session() as session:
        _, value = tf.TextLineReader().read(filled(session, paths))
        lines: list[bytes] = []

        def work() -> None:
            run = session.make_callable(value)
            try:
                while True:
                    lines.append(run())
            except tf.errors.OutOfRangeError:
                pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(int(line) for line in lines) == list(range(500))


def test_who_waits_for_a_unit_or_for_a_turn_is_cancelled_with_its_step() -> None:
    queue = tf.FIFOQueue(10, tf.string, shapes=[()])
    reader = tf.TextLineReader()
    record, count = reader.read(queue), reader.num_records_produced()
    session = tf.Session()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            session.run(record)
        except tf.errors.CancelledError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        session.run(record, options=tf.RunOptions(timeout_in_ms=50))
    assert session.run(count) == 0, "who asks for a count does not wait for who reads"
    until_waiting(session)  # for a unit; the other one, for its turn
    until(lambda: len(session._worker.running) == 2)
    session.close()
    for thread in threads:
        thread.join(60)
    assert len(problems) == 2


def test_a_closed_session_lets_go_of_its_file(tmp_path: Path) -> None:
    paths = files(tmp_path, b"1\n2\n")
    session = tf.Session()
    record = tf.TextLineReader().read(filled(session, paths))
    session.run(record)
    (reader,) = [item for item in session._worker.manager._objects.values() if isinstance(item, reader_objects.Reader)]
    file = reader._file  # type: ignore[attr-defined]
    session.close()
    assert file.closed


def test_an_interrupt_as_a_turn_begins_leaves_the_reader_to_others(monkeypatch):
    reader = reader_objects.IdentityReader("r", {})
    begin = reader._turns.begin

    def interrupted(*arguments):
        begin(*arguments)
        raise KeyboardInterrupt("as it has begun")

    monkeypatch.setattr(reader._turns, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt, match="as it has begun"):
        reader.read(lambda: b"one", CancellationToken())
    monkeypatch.undo()
    assert reader.read(lambda: b"two", CancellationToken(0.5)) == (b"two", b"two")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no file whose size is told as 0")
def test_whole_files_of_any_kind(tmp_path: Path) -> None:
    names = files(tmp_path, b"", b"\0\n" * 5, bytes(range(256)) * 9000)
    name = tf.placeholder(tf.string, [])
    contents = tf.read_file(name)
    with tf.Session() as session:
        for path in names:
            assert session.run(contents, {name: path}) == Path(path).read_bytes()
        assert session.run(contents, {name: "/proc/self/stat"}).startswith(b"%d " % os.getpid())
        with pytest.raises(tf.errors.NotFoundError, match="No such file"):
            session.run(contents, {name: str(tmp_path / "other")})
        with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
            session.run(contents, {name: str(tmp_path)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="NUL byte"):
            session.run(contents, {name: b"a\0b"})
