"""Parsing of strings against independent readers: the library's own messages, Python's csv module; and rubbish."""

from __future__ import annotations

import csv
import io
import re
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.core.values import dtypes
from anabranch.ops.parsing import example_columns, one_example
from anabranch.ops.parsing.csv_records import fields_of
from anabranch.testing.kernels import run_op


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def strings(*items):
    found = np.empty(len(items), object)
    found[:] = items
    return found


def parse_sparse(serialized, **types):
    """Indices, values and shape of each feature, by the op's kernel."""
    count = len(types)
    parts = run_op(
        "ParseExample",
        strings(*serialized),
        np.empty(0, object),
        *[np.array(key.encode(), object) for key in types],
        Nsparse=count,
        Ndense=0,
        sparse_types=list(types.values()),
        Tdense=[],
        dense_shapes=[],
    )
    return {key: (parts[i], parts[count + i], parts[2 * count + i]) for i, key in enumerate(types)}


FLOATS = st.lists(st.floats(width=32), max_size=40)
INTEGERS = st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 3)), max_size=40)
TEXTS = st.lists(st.binary(max_size=8), max_size=5)


@given(st.lists(st.tuples(st.none() | FLOATS, st.none() | INTEGERS, st.none() | TEXTS), min_size=1, max_size=6))
def test_what_messages_hold(rows):
    data = []
    for floats, integers, texts in rows:
        example = tf.train.Example()
        if floats is not None:
            example.features.feature["f"].float_list.value.extend(floats)
        if integers is not None:
            example.features.feature["i"].int64_list.value.extend(integers)
        if texts is not None:
            example.features.feature["b"].bytes_list.value.extend(texts)
        data.append(example.SerializeToString())
    found = parse_sparse(data, f=tf.float32, i=tf.int64, b=tf.string)
    for place, key in enumerate("fib"):
        indices, values, shape = found[key]
        lists = [row[place] or [] for row in rows]
        assert indices.tolist() == [[r, c] for r, items in enumerate(lists) for c in range(len(items))]
        wanted = [item for items in lists for item in items]
        if key == "f":
            np.testing.assert_array_equal(values, np.array(wanted, np.float32))
        else:
            assert values.tolist() == wanted
        assert shape.tolist() == [len(rows), max(map(len, lists))]


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 255))
def test_rubbish_is_an_error_or_a_value(data, place, value):
    example = tf.train.Example()
    example.features.feature["i"].int64_list.value.extend([1, 300, -1])
    example.features.feature["f"].float_list.value.extend([1.5])
    good = bytearray(example.SerializeToString())
    good[place % len(good)] = value
    for serialized in (data, bytes(good)):
        for op, attrs in (("ParseExample", {}), ("DecodeJSONExample", None), ("ParseTensor", None)):
            try:
                if attrs is None:
                    run_op(op, np.array(serialized, object), **({"out_type": tf.int64} if op == "ParseTensor" else {}))
                else:
                    parse_sparse([serialized], i=tf.int64, f=tf.float32, b=tf.string)
            except tf.errors.InvalidArgumentError:
                pass


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(max_examples=50_000)
@given(st.binary(max_size=200))
def test_rubbish_at_length(data):
    for message in ("Example", "SequenceExample"):
        try:
            (found,) = example_columns.parsed(message, [data])
        except example_columns.InvalidExample:
            continue
        features = found.features.feature if message == "Example" else found.context.feature
        for key in list(features):
            for dtype in (dtypes.float32, dtypes.int64, dtypes.string):
                try:
                    column = example_columns.column([features], key, dtype)
                except example_columns.InvalidExample:
                    continue
                assert len(column.values) == column.present.sum()
    for op, shape in (("DeserializeSparse", (3,)), ("DeserializeManySparse", (1, 3))):
        given_ = np.empty(shape, object)
        given_[...] = data
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"serialized_sparse|Requested"):
            run_op(op, given_, dtype=tf.float32)


def packed(field, payload):
    """An Example whose feature `x` has the bytes ``payload`` as its list number ``field``."""

    def message(number, data):
        return bytes([number << 3 | 2]) + bytes(varint(len(data))) + data

    return message(1, message(1, message(1, b"x") + message(2, message(field, payload))))


def varint(number):
    found = []
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return [*found, number]


def test_lists_in_several_pieces():
    pieces = b"\x0a\x02\x03\x04" + b"\x08\x05" + b"\x0a\x01\x06"
    wanted = list(tf.train.Example.FromString(packed(3, pieces)).features.feature["x"].int64_list.value)
    assert wanted == [3, 4, 5, 6]
    assert parse_sparse([packed(3, pieces)], x=tf.int64)["x"][1].tolist() == wanted
    pieces = b"\x0d" + struct.pack("<f", 1.5) + b"\x0a\x04" + struct.pack("<f", 2.5)
    assert parse_sparse([packed(2, pieces)], x=tf.float32)["x"][1].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("field", "payload", "told"),
    [
        (3, b"\x0a\x01\xff", "cannot be read"),
        (3, b"\x0a\x0c" + b"\xff" * 11 + b"\x00", "cannot be read"),
        (2, b"\x0a\x03abc", "cannot be read"),
        (2, b"\xff", "cannot be read"),
        (1, b"\x0a\x00", "Data types don't match. Data type: string but expected type: int64"),
    ],
)
def test_lists_that_are_damaged(field, payload, told):
    dtype = tf.float32 if field == 2 else tf.int64
    good = tf.train.Example().SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"Key: x, Index: 1\.  .*{told}|Could not parse"):
        parse_sparse([good, packed(field, payload)], x=dtype)


def test_long_lists():
    sizes = [3, 600_000, 40, 0]  # heads of several sizes
    random = np.random.RandomState(0)
    lists = [random.randint(-(2**40), 2**40, size) for size in sizes]
    data = []
    for values in lists:
        example = tf.train.Example()
        example.features.feature["i"].int64_list.value.extend(values.tolist())
        example.features.feature["f"].float_list.value.extend((values / 7).tolist())
        data.append(example.SerializeToString())
    found = parse_sparse(data, i=tf.int64, f=tf.float32)
    np.testing.assert_array_equal(found["i"][1], np.concatenate(lists))
    np.testing.assert_array_equal(found["f"][1], (np.concatenate(lists) / 7).astype(np.float32))
    one = parse_sparse(data[1:2], f=tf.float32)["f"][1]
    np.testing.assert_array_equal(one, (lists[1] / 7).astype(np.float32))


@given(st.lists(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\r\n\0"), max_size=6), min_size=1)))
def test_csv_as_python_writes_it(rows):
    for row in rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="", quoting=csv.QUOTE_ALL).writerow(row)
        assert fields_of(text.getvalue().encode(), b",", True) == [field.encode() for field in row]


@given(st.text('a",\n\r', max_size=10))
def test_csv_in_two_ways(text):
    """The quick way for records without quotes, and the careful one, with a quoted field in front."""
    data = text.encode()
    try:
        plain = fields_of(data, b",", True)
    except ValueError:
        with pytest.raises(ValueError, match=r"quote|CRLF|Quote"):
            fields_of(b'"q",' + data, b",", True)
        return
    assert fields_of(b'"q",' + data, b",", True) == [b"q", *(plain if data else [b""])]


@pytest.mark.parametrize(
    ("text", "value"), [("1_0", None), ("0x10", 16.0), (" +7 ", 7.0), ("-.5e1", -5.0), ("1,5", None)]
)
def test_numbers_in_csv(text, value):
    column = tf.decode_csv([text], [[0.0]], field_delim=";")[0]
    with tf.Session() as session:
        if value is None:
            with pytest.raises(tf.errors.InvalidArgumentError, match="Field 0 in record 0 is not a valid float"):
                session.run(column)
        else:
            assert session.run(column).tolist() == [value]


def test_csv_arguments():
    with pytest.raises(ValueError, match="field_delim should be only 1 char"):
        tf.decode_csv("a", [[0]], field_delim=",,")
    with pytest.raises(ValueError, match="length-0 or length-1 vector"):
        tf.decode_csv("a", [[0, 1]])
    assert [t.dtype for t in tf.decode_csv("1,2", [tf.int64, tf.float64])] == [tf.int64, tf.float64]


def test_raw_bytes_of_other_types():
    assert run_op("DecodeRaw", np.array(b"\x00\x01\x05", object), out_type=tf.bool).tolist() == [False, True, True]
    values = np.array([1.5, -2], ml_dtypes.bfloat16)
    data = np.array(values.tobytes(), object)
    assert run_op("DecodeRaw", data, out_type=tf.bfloat16).tolist() == [1.5, -2]
    swapped = np.array(values.view(np.uint16).astype(">u2").tobytes(), object)
    assert run_op("DecodeRaw", swapped, out_type=tf.bfloat16, little_endian=False).tolist() == [1.5, -2]
    assert tf.decode_raw(bytes="ab", out_type=tf.uint8).shape.as_list() == [None]
    with pytest.raises(ValueError, match="without strings or out_type"):
        tf.decode_raw("ab")


def test_compression_is_refused_by_name_and_by_damage():
    with pytest.raises(ValueError, match="Only ZLIB, GZIP or NONE"):
        tf.io.decode_compressed("x", "LZ4")
    with pytest.raises(tf.errors.DataLossError, match="damaged compressed data"):
        run_op("DecodeCompressed", np.array(b"rubbish", object), compression_type="GZIP")


def test_names_appear_in_errors():
    parsed = tf.parse_example(
        [tf.train.Example().SerializeToString()], {"a": tf.FixedLenFeature([], tf.int64)}, example_names=["mine"]
    )
    with tf.Session() as session:
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"Name: mine, Feature: a \(data type: int64\) is required"
        ):
            session.run(parsed)


@pytest.mark.parametrize(
    ("feature", "told"),
    [
        (tf.FixedLenFeature([], tf.int32), "tf.float32, tf.int64 or tf.string"),
        (tf.FixedLenFeature([2, None], tf.int64), "All dimensions of shape for feature x need to be known"),
        (tf.FixedLenFeature([None], tf.int64), "Consider using FixedLenSequenceFeature"),
        (tf.FixedLenSequenceFeature([], tf.int64), "requires allow_missing to be True"),
        (tf.VarLenFeature(None), "Missing type for feature x"),
        ("x", "Invalid feature x:x."),
    ],
)
def test_features_that_are_wrong(feature, told):
    with pytest.raises((ValueError, TypeError), match=told):
        tf.parse_example(["x"], {"x": feature})


def test_static_shapes():
    batch = tf.placeholder(tf.string, [5])
    found = tf.parse_example(
        batch,
        {
            "a": tf.FixedLenFeature([2, 3], tf.float32),
            "b": tf.VarLenFeature(tf.int64),
            "c": tf.FixedLenSequenceFeature([4], tf.float32, allow_missing=True),
        },
    )
    assert found["a"].shape.as_list() == [5, 2, 3]
    assert found["c"].shape.as_list() == [5, None, 4]
    assert found["b"].indices.shape.as_list() == [None, 2]
    assert tf.parse_single_example("x", {"a": tf.FixedLenFeature([2], tf.float32)})["a"].shape.as_list() == [2]


def test_a_graph_that_parses_is_saved_and_loaded():
    found = tf.parse_single_example(
        tf.placeholder(tf.string, [], name="in"),
        {"a": tf.FixedLenFeature([1], tf.int64, [7]), "s": tf.VarLenFeature(tf.string)},
    )
    tf.identity(found["a"], name="a")
    given_ = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(given_, name="")
        assert session.run("a:0", {"in:0": b""}).tolist() == [7]


@pytest.mark.parametrize(
    ("feature", "steps", "text"),
    [
        (
            tf.FixedLenSequenceFeature([2], tf.int64),
            [[1, 2], [1, 2, 3]],
            "Key: x, Index: 1.  Number of int64 values != expected.  values size: 3 but output shape: [2]",
        ),
        (
            tf.FixedLenSequenceFeature([1], tf.int64),
            [[1], [2], [0.5]],
            "Feature list: x, Index: 2.  Data types don't match. Expected type: int64  Feature is: float_list",
        ),
        (
            tf.VarLenFeature(tf.int64),
            [[1], [b"a"]],
            "Feature list: x, Index: 1.  Data types don't match. Expected type: int64  Feature is: bytes_list",
        ),
        (
            tf.FixedLenSequenceFeature([1], tf.string),
            [[b"a"], []],
            "Feature list: x, Index: 1.  Data types don't match. Expected type: string  Feature is: empty",
        ),
    ],
)
def test_a_wrong_step_of_a_sequence_is_named(feature, steps, text):
    sequence = tf.train.SequenceExample()
    for values in steps:
        step = sequence.feature_lists.feature_list["x"].feature.add()
        for value in values:
            kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(value)]
            getattr(step, kind).value.append(value)
    with tf.Graph().as_default(), tf.Session() as session:
        _, lists = tf.io.parse_single_sequence_example(sequence.SerializeToString(), sequence_features={"x": feature})
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(text)):
            session.run(lists["x"])


@settings(max_examples=40)
@given(st.lists(st.one_of(st.binary(max_size=12), FLOATS, INTEGERS), min_size=1, max_size=9), st.booleans())
def test_few_lists_are_read_like_many(lists, floats):
    field = "float_list" if floats else "int64_list"
    items = []
    for values in lists:
        item = tf.train.Feature()
        if not isinstance(values, bytes):
            numbers = [float(np.float32(value)) if abs(value) < 1e9 else 0.5 for value in values]
            getattr(item, field).value.extend(numbers if floats else [int(value) for value in numbers])
            values = getattr(item, field).SerializeToString()
        made = example_columns._CLASSES["Example"]().features.feature["x"]
        setattr(made, field, values)
        items.append(made)

    def read(few):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(example_columns, "FEW", few)
            try:
                return example_columns.column_of(items, "x", tf.float32 if floats else tf.int64)
            except example_columns.InvalidExample as problem:
                return problem.args

    together, alone = read(0), read(16)
    if isinstance(together, example_columns.Column):
        for one, other in zip(together[:2], alone[:2], strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
    else:
        assert together == alone


def test_examples_of_certain_sizes_are_parsed_together():
    examples = []
    for i in range(40):
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.extend([i, i + 0.5])
        if i % 3:
            example.features.feature["y"].int64_list.value.append(-i)
        examples.append(example.SerializeToString())
    features = {"x": tf.FixedLenFeature([2], tf.float32), "y": tf.FixedLenFeature([], tf.int64, 7)}
    dataset = tf.data.Dataset.from_tensor_slices(examples).map(lambda data: tf.parse_single_example(data, features))
    element = dataset.batch(16).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        parts = [session.run(element) for _ in range(3)]
    np.testing.assert_array_equal(
        np.concatenate([part["x"] for part in parts]), [[i, i + 0.5] for i in np.arange(40, dtype=np.float32)]
    )
    expected = [-i if i % 3 else 7 for i in range(40)]
    np.testing.assert_array_equal(np.concatenate([part["y"] for part in parts]), expected)


def _random_example(random):
    """An example that has what it likes of five features, some of them in unusual forms."""
    feature = {}

    def some():
        return int(random.choice([0, 1, 2, 3, 7, 40, 200]))

    if random.rand() < 0.9:
        numbers = random.randint(-(2**62), 2**62, some()) if random.rand() < 0.5 else random.randint(0, 120, some())
        feature["numbers"] = tf.train.Feature(int64_list=tf.train.Int64List(value=numbers.tolist()))
    if random.rand() < 0.9:
        feature["floats"] = tf.train.Feature(float_list=tf.train.FloatList(value=random.randn(some()).tolist()))
    if random.rand() < 0.9:
        feature["texts"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a\xff", b""][: random.randint(3)]))
    if random.rand() < 0.95:
        feature["pair"] = tf.train.Feature(
            float_list=tf.train.FloatList(value=random.randn(2 + (random.rand() < 0.05)))
        )
    if random.rand() < 0.5:
        feature["kind"] = tf.train.Feature()
    if random.rand() < 0.2:
        feature["floats"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    data = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    return data[:-1] if random.rand() < 0.05 else data


@pytest.mark.parametrize("default", [None, [1.5, 2.5]])
def test_one_example_by_itself_is_what_the_columns_of_a_batch_are(default, monkeypatch):
    random = np.random.RandomState(5)
    data = tf.placeholder(tf.string, [])
    sparse = {"numbers": tf.int64, "floats": tf.float32, "texts": tf.string, "kind": tf.string}
    features = {name: tf.VarLenFeature(dtype) for name, dtype in sparse.items()}
    features["pair"] = tf.FixedLenFeature([1, 2], tf.float32, default)
    parsed = tf.parse_single_example(data, features)
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:

        def parts_of(example):
            try:
                found = session.run(parsed, {data: example})
            except tf.errors.InvalidArgumentError as problem:
                return [problem.message.splitlines()[0]]
            return [found["pair"], *(part for name in sparse for part in found[name])]

        examples = [_random_example(random) for _ in range(150)]
        found = [parts_of(example) for example in examples]
        monkeypatch.setattr(one_example, "parse", lambda *_: None)
        for one, example in zip(found, examples, strict=True):
            for value, wanted in zip(one, parts_of(example), strict=True):
                assert getattr(value, "dtype", None) == getattr(wanted, "dtype", None)
                np.testing.assert_array_equal(value, wanted)
        assert sum(len(one) > 1 for one in found) > 60
