"""Sources in files: forms that the public interface does not make, bad input, saved places, caches, remote paths."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import sqlite3
import subprocess
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.compat import internals
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import kernels
from anabranch.core.graph.build import build
from anabranch.ops.data.iterators import IteratorResource
from anabranch.ops.parsing.csv_records import Records, fields_of

D = tf.data.Dataset
X = tf.data.experimental
TEXT = {"output_types": [tf.string], "output_shapes": [()]}
NUMBER = {"output_types": [tf.int64], "output_shapes": [()]}


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def records(tmp_path):
    """A file of three records."""
    return write_records(tmp_path / "records", [b"first", b"second", b"third"])


def write_records(path, items):
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        for item in items:
            writer.write(item)
    return str(path)


def written(path, data):
    path.write_bytes(data)
    return str(path)


def plain(value):
    return [plain(part) for part in value] if isinstance(value, tuple) else np.asarray(value).tolist()


def outcomes(dataset):
    """The elements of a dataset, and the errors between them by their classes' names."""
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    found = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while len(found) < 100:
            try:
                found.append(plain(session.run(element)))
            except tf.errors.OutOfRangeError:
                break
            except tf.errors.OpError as problem:
                found.append(type(problem).__name__)
    return found


def of(variant, attrs=TEXT):
    """What a variant tensor's dataset gives."""
    spec = [tf.data.Iterator.from_structure(kind, shape) for kind, shape in zip(*attrs.values(), strict=True)]
    component = spec[0]._spec if len(spec) == 1 else tuple(item._spec for item in spec)
    return outcomes(tf.data.Dataset(variant, component))


# ------------------------------------------------------------------------------------------------------ other op types
def test_offsets_of_records(records):
    def dataset(offset):
        return build("TFRecordDatasetV2", [records], "", np.int64(0), np.array([offset]))

    assert of(dataset(0)) == [b"first", b"second", b"third"]
    assert of(dataset(16 + len(b"first"))) == [b"second", b"third"]


@pytest.mark.parametrize("kind", ["MatchingFilesDataset", "ExperimentalMatchingFilesDataset"])
def test_names_that_match(kind, tmp_path):
    names = [written(tmp_path / name, b"") for name in ("b", "a", "c")]
    pattern = [str(tmp_path / "[ab]"), str(tmp_path / "b")]
    assert of(build(kind, pattern)) == [name.encode() for name in (names[1], names[0])]


def table(kind, path, *more, defaults=(0, "none"), **operands):
    given = {"compression_type": "", "buffer_size": np.int64(0), "header": False, "field_delim": ",", **operands}
    given = {"use_quote_delim": True, "na_value": "", "select_cols": np.zeros(0, np.int64), **given}
    order = ("compression_type", "buffer_size", "header", "field_delim", "use_quote_delim", "na_value", "select_cols")
    defaults = [tf.constant(item) for item in defaults]
    attrs = {"output_types": [item.dtype for item in defaults], "output_shapes": [()] * len(defaults)}
    return build(kind, [path], *(given[name] for name in order), defaults, *more, **attrs), attrs


def test_tables_of_other_kinds(tmp_path):
    path = written(tmp_path / "table", b"1,x,7\n,y,8\n")
    assert of(*table("ExperimentalCSVDataset", path, defaults=(0, "", 0))) == [[1, b"x", 7], [0, b"y", 8]]
    assert of(*table("CSVDatasetV2", path, np.array([1]), defaults=(5, 0))) == [[1, 7], [5, 8]]


def test_rows_of_a_database_of_the_first_kind(tmp_path):
    path = str(tmp_path / "db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("create table t (a)")
        connection.execute("insert into t values (7)")
        connection.commit()
    assert of(build("ExperimentalSqlDataset", "sqlite", path, "select a from t", **NUMBER), NUMBER) == [7]


def test_stages_of_the_first_kind():
    batches = build("ExperimentalUnbatchDataset", D.range(5).batch(2)._variant_tensor, **NUMBER)
    assert of(batches, NUMBER) == [0, 1, 2, 3, 4]
    failing = D.range(4).map(lambda x: tf.check_numerics(1.0 / (tf.cast(x, tf.float32) - 1.0), "bad"))
    numbers = {"output_types": [tf.float32], "output_shapes": [()]}
    left = build("ExperimentalIgnoreErrorsDataset", failing._variant_tensor, log_warning=True, **numbers)
    assert of(left, numbers) == [-1.0, 1.0, 0.5]
    drawn = build("ExperimentalRandomDataset", np.int64(3), np.int64(4), **NUMBER)
    others = build("RandomDataset", np.int64(3), np.int64(4), **NUMBER)
    assert of(drawn, NUMBER) == of(others, NUMBER)
    assert len(set(of(drawn, NUMBER))) == 100


@pytest.mark.parametrize("kind", ["ExperimentalParseExampleDataset", "ParseExampleDatasetV2"])
def test_parsed_examples_of_other_kinds(kind):
    examples = [tf.train.Example() for _ in range(2)]
    for i, example in enumerate(examples):
        example.features.feature["x"].int64_list.value.append(i)
    batch = D.from_tensors([example.SerializeToString() for example in examples])
    attrs = {"output_types": [tf.int64], "output_shapes": [(None,)]}
    stage = build(
        kind,
        batch._variant_tensor,
        np.int64(1),
        [tf.constant([], tf.int64)],
        sparse_keys=[],
        dense_keys=["x"],
        sparse_types=[],
        Tdense=[tf.int64],
        dense_shapes=[()],
        **attrs,
    )
    assert of(stage, attrs) == [[0, 1]]


def test_a_dataset_is_written(tmp_path):
    dataset = D.from_tensor_slices(["a", "b"])
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    with tf.Session() as session:
        session.run(X.TFRecordWriter(first, "GZIP").write(dataset))
        session.run(build("ExperimentalDatasetToTFRecord", dataset._variant_tensor, second, ""))
    assert outcomes(tf.data.TFRecordDataset(first, "GZIP")) == outcomes(tf.data.TFRecordDataset(second)) == [b"a", b"b"]
    with pytest.raises(TypeError, match="must produce scalar `DT_STRING` tensors"):
        X.TFRecordWriter(first).write(D.range(3))


# ----------------------------------------------------------------------------------------------------------- bad input
def damaged(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))
    return path


def test_only_the_damaged_record_is_lost(records):
    damaged(records, 16 + len(b"first") + 12)
    dataset = tf.data.TFRecordDataset([records, records])
    assert outcomes(dataset) == [b"first", "DataLossError", b"third"] * 2
    assert outcomes(dataset.apply(X.ignore_errors()).batch(3)) == [[b"first", b"third", b"first"], [b"third"]]


def test_the_rest_of_a_file_is_lost_with_a_length(records, tmp_path):
    other = write_records(tmp_path / "other", [b"fine"])
    damaged(records, 16 + len(b"first"))
    assert outcomes(tf.data.TFRecordDataset([records, other])) == [b"first", "DataLossError", b"fine"]


@pytest.mark.parametrize("size", [5, 15, 30])
def test_a_truncated_file_of_records(records, size):
    os.truncate(records, size)
    whole = size // 21
    assert outcomes(tf.data.TFRecordDataset(records)) == [b"first"] * whole + ["DataLossError"]


def test_files_that_are_missing_are_told_once(records, tmp_path):
    missing = str(tmp_path / "nothing")
    for kind in (tf.data.TFRecordDataset, tf.data.TextLineDataset):
        assert outcomes(kind([missing, records]))[0] == "NotFoundError"
        assert len(outcomes(kind([missing, records]).apply(X.ignore_errors()))) >= 1
    assert outcomes(tf.data.TFRecordDataset([missing, records])) == ["NotFoundError", b"first", b"second", b"third"]


def test_a_file_shorter_than_its_header(tmp_path):
    path = written(tmp_path / "short", b"H")
    dataset = tf.data.FixedLengthRecordDataset([path, path], 2, 2, 1)
    assert outcomes(dataset) == ["InvalidArgumentError"] * 2


BAD = [
    (
        lambda path: tf.data.TFRecordDataset(damaged(path, 14)),
        tf.errors.DataLossError,
        "corrupted record at 0 of {path}",
    ),
    (lambda path: tf.data.TextLineDataset(path + "x"), tf.errors.NotFoundError, "{path}x; No such file"),
    (lambda path: tf.data.TextLineDataset(path, "ZLIB"), tf.errors.DataLossError, "{path}: damaged compressed data"),
    (lambda path: tf.data.TextLineDataset(path, "LZMA"), tf.errors.InvalidArgumentError, "compression_type='LZMA'"),
    (lambda path: tf.data.FixedLengthRecordDataset(path, 0), tf.errors.InvalidArgumentError, "record_bytes must be"),
    (lambda path: tf.data.FixedLengthRecordDataset(path, 1000), tf.errors.InvalidArgumentError, "{path}.*not an exact"),
    (lambda path: X.SqlDataset("sqlite", path, "select 1", (tf.float32,)), tf.errors.InvalidArgumentError, "DT_FLOAT"),
    (
        lambda path: X.SqlDataset("sqlite", path, "select a from t", (tf.int64,)),
        tf.errors.InvalidArgumentError,
        "database {path}",
    ),
    (
        lambda path: X.SqlDataset("oracle", path, "select 1", (tf.int64,)),
        tf.errors.InvalidArgumentError,
        "oracle, is not",
    ),
    (lambda path: X.CsvDataset(path, [tf.int64, tf.int64]), tf.errors.InvalidArgumentError, "record 1 of {path}"),
    (lambda path: X.CsvDataset(path, [[1, 2]]), tf.errors.InvalidArgumentError, "only be 1 default per field"),
    (lambda path: X.CsvDataset(path, [[[1]]]), tf.errors.InvalidArgumentError, "at most rank 1"),
    (lambda path: X.CsvDataset(path, [0], field_delim=";;"), tf.errors.InvalidArgumentError, "only 1 char"),
    (
        lambda path: X.CsvDataset(path, [0, 0], select_cols=[2, 1]),
        tf.errors.InvalidArgumentError,
        "strictly increasing",
    ),
    (lambda path: X.CsvDataset(path, [0], select_cols=[-1]), tf.errors.InvalidArgumentError, "non-negative"),
    (lambda path: X.CsvDataset(path, [0], select_cols=[1, 2]), tf.errors.InvalidArgumentError, "match output size"),
    (lambda path: D.list_files(path + "*x"), tf.errors.InvalidArgumentError, "No files matched pattern: {path}"),
    (lambda path: tf.data.TextLineDataset("gs://bucket/a"), tf.errors.UnimplementedError, "gs://bucket/a.*fsspec"),
    (lambda path: D.list_files("s3://bucket/*"), tf.errors.UnimplementedError, "file system 's3'"),
    (lambda path: X.SqlDataset("sqlite", "hdfs://a", "select 1", (tf.int64,)), tf.errors.UnimplementedError, "'hdfs'"),
    (lambda path: D.range(2).cache("gs://bucket/cache"), tf.errors.UnimplementedError, "file system 'gs'"),
]


@pytest.mark.parametrize(("make", "kind", "text"), BAD)
def test_what_is_wrong_is_told_with_its_place(make, kind, text, records):
    iterator = make(records).make_initializable_iterator()
    element = iterator.get_next()

    def run():
        with tf.Session() as session:
            session.run(iterator.initializer)
            session.run(element)

    with pytest.raises(kind, match="(?s)" + text.format(path=records)) as caught:
        run()
    assert __file__ in str(caught.value)  # the line that made the stage


def test_errors_of_files_have_three_parts(records):
    iterator = tf.data.TFRecordDataset(damaged(records, 14)).make_initializable_iterator()
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(
            tf.errors.DataLossError, match=r"Given: .*\nExpected: whole TFRecord.*\nInstead: "
        ) as caught:
            session.run(iterator.get_next())
    assert "ignore_errors" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"header": False}, "Cannot infer column names"),
        ({"column_names": ["a", "a"]}, "duplicate column names"),
        ({"label_name": "z"}, "`label_name` provided must be one of the columns"),
        ({"select_columns": ["z"]}, "not a valid column index or name"),
        ({"select_columns": [5]}, "out of valid range"),
        ({"select_columns": ["a", 0]}, "duplicate columns"),
        ({"select_columns": ["a"], "column_defaults": [0, 0]}, "must have same length"),
        ({"compression_type": "ZLIB"}, "not supported for probing columns"),
        ({"column_names": ["a", "b", "c"]}, "different number of fields"),
    ],
)
def test_arguments_of_make_csv_dataset(arguments, text, tmp_path):
    path = written(tmp_path / "table.csv", b"a,b\n1,2\n")
    with pytest.raises(ValueError, match=text):
        X.make_csv_dataset(path, 2, **arguments)


def test_files_of_make_csv_dataset(tmp_path):
    with pytest.raises(ValueError, match="No files match"):
        X.make_csv_dataset(str(tmp_path / "*.csv"), 2)
    with pytest.raises(ValueError, match="File pattern is empty"):
        X.make_csv_dataset([], 2)
    first = written(tmp_path / "1.csv", b"a,b\n1,2\n")
    with pytest.raises(ValueError, match="different column names"):
        X.make_csv_dataset([first, written(tmp_path / "2.csv", b"b,a\n1,2\n")], 2)
    with pytest.raises(ValueError, match="Empty file"):
        X.make_csv_dataset(written(tmp_path / "3.csv", b""), 2)


def test_names_of_files_are_strings():
    with pytest.raises(TypeError, match=r"of scalar `tf.string`"):
        tf.data.TextLineDataset(D.from_tensors(["a", "b"]))
    with pytest.raises(TypeError, match=r"`tf\.data.Dataset` of `tf.string`"):
        tf.data.TFRecordDataset(D.range(3))


def test_features_that_cannot_be_parsed():
    with pytest.raises(ValueError, match="features was None"):
        X.parse_example_dataset(None)
    with pytest.raises(TypeError, match="should be a dataset of vectors of strings"):
        D.range(3).apply(X.parse_example_dataset({"x": tf.FixedLenFeature([], tf.int64)}))


# ------------------------------------------------------------------------------------------------ other file systems
def test_remote_files_are_read_by_fsspec(monkeypatch):
    contents = {"fake://a/1.txt": b"x\ny\n", "fake://a/2.txt": b"z"}

    def opened(path, mode):
        return types.SimpleNamespace(open=lambda: io.BytesIO(contents[path]))

    system = types.SimpleNamespace(
        glob=lambda pattern: [name.removeprefix("fake://") for name in contents],
        unstrip_protocol=lambda name: "fake://" + name,
    )
    library = types.ModuleType("fsspec")
    library.open = opened
    library.core = types.SimpleNamespace(url_to_fs=lambda pattern: (system, pattern.removeprefix("fake://")))
    monkeypatch.setitem(sys.modules, "fsspec", library)
    library.__spec__ = types.SimpleNamespace(name="fsspec")
    assert outcomes(tf.data.TextLineDataset(list(contents))) == [b"x", b"y", b"z"]
    assert outcomes(D.list_files("fake://a/*", shuffle=False)) == [name.encode() for name in contents]


@pytest.fixture
def remote():
    """A folder of a file system in memory, through fsspec itself."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")

    def put(name, data):
        with system.open(f"/folder/{name}", "wb") as file:
            file.write(data)
        return f"memory://folder/{name}"

    yield put
    system.rm("/folder", recursive=True)


def test_files_of_another_file_system(remote, tmp_path):
    lines = [remote("1.txt", b"one\ntwo\n"), remote("2.txt", b"three\n")]
    assert outcomes(tf.data.TextLineDataset(lines)) == [b"one", b"two", b"three"]
    listed = D.list_files("memory://folder/*.txt", shuffle=False)
    assert outcomes(listed.flat_map(tf.data.TextLineDataset)) == [b"one", b"two", b"three"]
    packed = remote("3.gz", gzip.compress(b"zip\n"))
    assert outcomes(tf.data.TextLineDataset(packed, compression_type="GZIP")) == [b"zip"]
    assert outcomes(tf.data.FixedLengthRecordDataset(remote("4", b"aabb"), 2)) == [b"aa", b"bb"]
    table = remote("5.csv", b"a,b\n1,2.5\n3,4.5\n")
    assert outcomes(X.CsvDataset(table, [tf.int32, tf.float32], header=True)) == [[1, 2.5], [3, 4.5]]
    local = str(tmp_path / "records")
    with tf.io.TFRecordWriter(local) as writer:
        writer.write(b"x")
        writer.write(b"y" * 3000)
    whole = (tmp_path / "records").read_bytes()
    assert outcomes(tf.data.TFRecordDataset(remote("6", whole)).map(tf.strings.length)) == [1, 3000]
    cut = tf.data.TFRecordDataset(remote("7", whole[:-5])).map(tf.strings.length)
    assert outcomes(cut) == [1, "DataLossError"]


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("memory://folder/none.txt", tf.errors.NotFoundError, "memory://folder/none.txt; No such file"),
        ("nosuch://folder/none.txt", tf.errors.UnimplementedError, "'nosuch' and its library"),
    ],
)
def test_remote_files_that_cannot_be_opened(remote, path, kind, text):
    remote("1.txt", b"one\n")
    with tf.Session() as session, pytest.raises(kind, match=text):
        session.run(tf.data.TextLineDataset(path).make_one_shot_iterator().get_next())


def test_local_files_by_their_address(tmp_path):
    assert outcomes(tf.data.TextLineDataset("file://" + written(tmp_path / "a", b"x"))) == [b"x"]


# ---------------------------------------------------------------------------------------------------- caches in files
def counted(calls):
    def add(x):
        calls.append(int(x))
        return np.int64(x * 3)

    return D.range(5).map(lambda x: tf.py_func(add, [x], tf.int64, stateful=False))


def test_a_cache_is_there_when_a_pass_has_ended(tmp_path):
    name = str(tmp_path / "deep" / "cache")
    calls = []
    dataset = counted(calls).cache(name)
    assert outcomes(dataset.take(3)) == [0, 3, 6]
    assert os.listdir(tmp_path / "deep") == []  # what is incomplete leaves nothing behind
    calls.clear()
    assert outcomes(dataset.repeat(3)) == [0, 3, 6, 9, 12] * 3
    assert calls == [0, 1, 2, 3, 4]
    assert sorted(os.listdir(tmp_path / "deep")) == ["cache.data-00000-of-00001", "cache.index"]
    assert outcomes(D.range(1).cache(name)) == [0, 3, 6, 9, 12]


def test_two_iterators_do_not_write_one_cache(tmp_path):
    dataset = D.range(3).cache(str(tmp_path / "cache"))
    first, second = (dataset.make_initializable_iterator() for _ in range(2))
    elements = first.get_next(), second.get_next()
    with tf.Session() as session:
        session.run([first.initializer, second.initializer])
        session.run(elements[0])
        with pytest.raises(tf.errors.AlreadyExistsError, match="cache lockfile already exists"):
            session.run(elements[1])


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    name = tmp_path / "cache"
    script = "import os, socket; print(socket.gethostname(), os.getpid())"
    owner = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    (tmp_path / "cache.lockfile").write_text("Created at: 1\n" + owner)
    assert outcomes(D.range(3).cache(str(name))) == [0, 1, 2]
    (tmp_path / "other.lockfile").write_text("Created at: 1\n")  # as TensorFlow writes it
    assert outcomes(D.range(3).cache(str(tmp_path / "other")))[0] == "AlreadyExistsError"


def test_a_torn_cache_is_refused(tmp_path):
    name = tmp_path / "cache"
    dataset = D.range(400).map(lambda x: tf.fill([8], x)).cache(str(name))
    assert len(outcomes(dataset.batch(50))) == 8
    os.truncate(f"{name}.data-00000-of-00001", 200)
    iterator = dataset.batch(50).make_initializable_iterator()
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.DataLossError, match=r"(?s)cache.*Expected: a whole cache"):
            session.run(iterator.get_next())


def test_sparse_tensors_do_not_go_into_a_file(tmp_path):
    sparse = D.from_tensors(tf.SparseTensor([[0]], [1], [2])).cache(str(tmp_path / "cache"))
    assert outcomes(sparse.map(tf.sparse.to_dense)) == ["UnimplementedError"]


# -------------------------------------------------------------------------------------------------------- saved places
def _lines(folder):
    paths = [written(folder / f"{i}.txt", b"".join(b"%d\n" % (10 * i + j) for j in range(i))) for i in range(5)]
    return tf.data.TextLineDataset(paths).batch(2).unbatch()


def _records(folder):
    path = write_records(folder / "records", [b"%d" % i for i in range(6)])
    return tf.data.TFRecordDataset([path, path], num_parallel_reads=2).shuffle(3, seed=1)


def _csv(folder):
    path = written(folder / "table.csv", b"a,b\n" + b"".join(b'%d,"x\n%d"\n' % (i, i) for i in range(9)))
    return X.CsvDataset([path, path], [tf.int64, ""], header=True).map(lambda a, b: a)


def _rows(folder):
    path = str(folder / "db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("create table if not exists t (a)")
        connection.execute("delete from t")
        connection.executemany("insert into t values (?)", [(i,) for i in range(7)])
        connection.commit()
    return X.SqlDataset("sqlite", path, "select a from t order by a", (tf.int64,)).map(lambda a: a).repeat(2)


def _with_errors(folder):
    path = damaged(write_records(folder / "records", [b"%d" % i for i in range(6)]), 17 + 12)
    return tf.data.TFRecordDataset([path, path]).apply(X.ignore_errors())


PIPELINES = {
    "lines": _lines,
    "records": _records,
    "csv": _csv,
    "rows": _rows,
    "with_errors": _with_errors,
    "cache": lambda folder: D.range(5).map(lambda x: x * x).cache(str(folder / "cache")).repeat(3),
    "random": lambda folder: X.RandomDataset(seed=3).take(9).batch(2).unbatch(),
    "fixed": lambda folder: tf.data.FixedLengthRecordDataset(written(folder / "f", b"abcdefgh"), 2).repeat(2),
}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_an_iterator_goes_on_from_a_saved_place(name, tmp_path):
    iterator = PIPELINES[name](tmp_path).make_initializable_iterator()
    element = iterator.get_next()

    def rest(session):
        found = []
        while True:
            try:
                found.append(plain(session.run(element)))
            except tf.errors.OutOfRangeError:
                return found

    with tf.Session() as session:
        session.run(iterator.initializer)
        whole = rest(session)
        assert len(whole) > 5
        (resource,) = [item for item in session._worker.manager._objects.values() if isinstance(item, IteratorResource)]
        for place in random.Random(0).sample(range(len(whole)), 5):
            session.run(iterator.initializer)
            for _ in range(place):
                session.run(element)
            context = kernels.HostContext(element.op)
            context.cancellation = token = CancellationToken()
            token.ended = True
            state = resource.save(context)
            assert rest(session) == whole[place:]
            session.run(iterator.initializer)
            session.run(element)
            resource.restore(context, state)
            assert rest(session) == whole[place:]


# ---------------------------------------------------------------------------------------- against the plain-Python way
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.text('ab", \n\r', max_size=5), min_size=1, max_size=3), max_size=5),
    st.integers(1, 9),
    st.booleans(),
)
def test_records_of_quoted_fields_are_found_again(rows, piece, end):
    quoted = [",".join('"' + field.replace('"', '""') + '"' for field in row) for row in rows]
    data = "".join(row + "\n" for row in quoted).encode()
    if not end:
        data = data.removesuffix(b"\n")
    cutter, records, rest = Records(b",", True), [], b""
    for start in range(0, len(data), piece):  # whole lines, as the reader gives them
        rest += data[start : start + piece]
        if b"\n" in rest:
            lines, _, rest = rest.rpartition(b"\n")
            records += cutter.of(lines)
    if rest:
        records += cutter.of(rest)
    assert cutter.rest() == []
    assert [fields_of(record, b",", True) for record in records] == [[f.encode() for f in row] for row in rows]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=12), st.integers(1, 7), st.integers(1, 40))
def test_lines_are_those_of_python(lines, batch, buffer):
    lines = [line.replace(b"\n", b" ").replace(b"\r", b"") for line in lines]
    with tf.Graph().as_default():
        name = os.path.join(os.environ.get("PYTEST_TMP", "/tmp"), f"anabranch-lines-{os.getpid()}")
        try:
            with open(name, "wb") as file:
                file.write(b"".join(line + b"\n" for line in lines))
            found = outcomes(tf.data.TextLineDataset([name, name], buffer_size=buffer).batch(batch))
        finally:
            os.unlink(name)
    both = lines * 2
    assert found == [both[i : i + batch] for i in range(0, len(both), batch)]


def test_names_of_contrib(tmp_path):
    assert internals.places("contrib.data.python.ops.readers") == ["contrib.data", "data"]
    path = written(tmp_path / "table.csv", b"1\n2\n")
    assert outcomes(tf.contrib.data.CsvDataset(path, [tf.int64])) == [[1], [2]]
    assert tf.contrib.data.SqlDataset is X.SqlDataset
    assert tf.contrib.data.ignore_errors is X.ignore_errors
    features = {"n": tf.FixedLenFeature([], tf.int64, 4)}
    examples = write_records(tmp_path / "examples", [b"", b""])
    batch = tf.contrib.data.read_batch_features(examples, 2, features, num_epochs=1)
    with tf.Session() as session:
        assert session.run(batch)["n"].tolist() == [4, 4]


def test_lines_of_comments_in_a_csv_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,c\n#1,x,2\n1,1.5,u\n# nothing\n2,2.5,v\n")
    older = {"comment": "#", "default_float_type": tf.float64, "num_parallel_parser_calls": 2}
    dataset = tf.contrib.data.make_csv_dataset(str(path), 2, label_name="c", shuffle=False, num_epochs=1, **older)
    features, label = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        features, label = session.run((features, label))
    assert features["a"].tolist() == [1, 2]
    assert features["b"].tolist() == [1.5, 2.5]
    assert features["b"].dtype == np.float64
    assert label.tolist() == [b"u", b"v"]
    with pytest.raises(ValueError, match="single-character"):
        tf.contrib.data.make_csv_dataset(str(path), 2, comment="//")
