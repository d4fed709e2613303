"""Tables through sessions: contents, transactions, files, vocabularies, both forms of handles; hashes of strings."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.core.values import dtypes
from anabranch.ops.lookup.table_files import read_pairs
from anabranch.ops.lookup.table_objects import Table

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


# --------------------------------------------------------------------------------------------------------- static ones
def test_a_static_table(session) -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2], value_dtype=tf.int64), -1)
    found = table.lookup(tf.constant([["b", "z"], ["a", "a"]]))
    assert (found.shape.as_list(), found.dtype, table.name) == ([2, 2], tf.int64, "hash_table")
    assert table.initializer is table.init
    with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
        session.run(found)
    assert session.run(table.size()) == 0
    session.run(tf.tables_initializer())
    assert session.run(found).tolist() == [[2, -1], [1, 1]]
    session.run(tf.initialize_all_tables())  # once more with the same contents
    assert session.run(table.size()) == 2
    assert [item.tolist() for item in session.run(table.export())] == [[b"a", b"b"], [1, 2]]


def test_no_tables(session) -> None:
    assert session.run(tf.tables_initializer()) is None


def test_sparse_keys(session) -> None:
    table = tf.contrib.lookup.index_table_from_tensor(tf.constant(["x", "y"]))
    keys = tf.SparseTensor([[0, 1], [2, 0]], tf.constant(["y", "q"]), [3, 2])
    found = table.lookup(keys)
    session.run(tf.tables_initializer())
    value = session.run(found)
    assert value.values.tolist() == [1, -1]
    assert value.indices.tolist() == [[0, 1], [2, 0]]
    assert value.dense_shape.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("keys", "values", "default"),
    [
        (np.int64([3, -4]), np.float32([1.5, 2.5]), np.float32(0.25)),
        (np.int32([3, -4]), np.array([b"x", b"\x00\xff"], object), np.array(b"?", object)),
        (np.array(["a", "b"]), np.array([True, False]), np.bool_(True)),
        (np.array(["a", "b"]), np.float64([1e300, 2]), np.float64(3)),
        (np.int64([1, 2]), np.int32([7, 8]), np.int32(9)),
    ],
)
def test_dtypes(session, keys, values, default) -> None:
    table = tf.contrib.lookup.HashTable(tf.contrib.lookup.KeyValueTensorInitializer(keys, values), default)
    session.run(table.initializer)
    found = session.run(table.lookup(keys[::-1]))
    assert found.dtype == values.dtype
    assert found.tolist() == values[::-1].tolist()
    other = np.array(["none"]) if keys.dtype.kind == "U" else np.array([99], keys.dtype)
    assert session.run(table.lookup(other)).tolist() == [default.item()]


def test_contradictions(session) -> None:
    init = tf.lookup.KeyValueTensorInitializer(["a", "a"], [1, 2])
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"has different value for same key\. Key a has 1"):
        session.run(tf.lookup.StaticHashTable(init, 0).initializer)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
    session.run(table.initializer)
    more = build("InitializeTableV2", table.resource_handle, tf.constant(["b"]), tf.constant([2]))
    with pytest.raises(tf.errors.FailedPreconditionError, match="Table already initialized"):
        session.run(more)
    with pytest.raises(TypeError, match="Keys must be dtype <dtype: 'string'>, got <dtype: 'int32'>"):
        table.lookup(tf.constant([1]))
    with pytest.raises(tf.errors.UnimplementedError, match="Insert not supported by HashTable"):
        session.run(build("LookupTableInsertV2", table.resource_handle, tf.constant(["b"]), tf.constant([2])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Conflicting key/value dtypes int64->int32 with string-"):
        session.run(build("LookupTableFindV2", table.resource_handle, np.int64([1]), np.int32(0)))
    with pytest.raises(ValueError, match="keys of shape"):
        build("InitializeTableV2", table.resource_handle, tf.constant(["b"]), tf.constant([2, 3]))


# ------------------------------------------------------------------------------------------------------------- changes
@pytest.mark.parametrize("kind", ["MutableHashTable", "MutableDenseHashTable"])
def test_a_table_that_changes(session, kind) -> None:
    extra = {"empty_key": "", "deleted_key": "-"} if kind == "MutableDenseHashTable" else {}
    table = getattr(tf.contrib.lookup, kind)(tf.string, tf.int64, -1, **extra)
    assert session.run(table.lookup(tf.constant(["a"]))).tolist() == [-1]
    session.run(table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)))
    session.run(table.insert("b", 5))
    assert session.run([table.lookup(tf.constant("b")), table.size()]) == [5, 2]
    session.run(table.remove(["a", "none"]))
    keys, values = session.run(table.export())
    assert (keys.tolist(), values.tolist()) == ([b"b"], [5])
    load = build("LookupTableImportV2", table.resource_handle, tf.constant(["x", "y"]), np.int64([8, 9]))
    session.run(load)
    assert session.run(table.lookup(["x", "b", "y"])).tolist() == [8, -1, 9]


def test_the_two_keys_of_a_dense_table_are_refused(session) -> None:
    table = tf.contrib.lookup.MutableDenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=7)
    session.run(table.insert(np.int64([1]), np.int64([5])))
    uses = {"empty_key": np.int64([1, 0]), "deleted_key": np.int64([7])}
    for name, keys in uses.items():
        for use in (table.lookup(keys), table.insert(keys, keys), table.remove(keys)):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"Using the {name} as a table key is not allowed"):
                session.run(use)
    assert session.run([table.lookup(np.int64([1])), table.size()]) == [[5], 1]


def test_keys_and_values_of_an_initializer_must_be_as_many(session) -> None:
    fill = tf.contrib.lookup.KeyValueTensorInitializer(["a", "b"], np.int64([1]))
    with pytest.raises(ValueError, match=r"Dimension 0 in both shapes must be equal, but are 2 and 1\. Shapes are"):
        tf.contrib.lookup.HashTable(fill, -1)


def test_tensors_as_values(session) -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.int64, tf.float32, [0.0, -1.0])
    assert table.resource_handle.op.type == "MutableHashTableOfTensorsV2"
    session.run(table.insert([[1, 2]], [[[1.0, 2.0], [3.0, 4.0]]]))
    found = table.lookup(tf.constant([2, 9], tf.int64))
    assert found.shape.as_list() == [2, 2]
    assert session.run(found).tolist() == [[3, 4], [0, -1]]
    keys, values = session.run(table.export())
    assert (keys.tolist(), values.tolist()) == ([1, 2], [[1, 2], [3, 4]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected shape \[1,2\] for value, got \[1,3\]"):
        session.run(table.insert([1], [[1.0, 2.0, 3.0]]))
    words = tf.contrib.lookup.MutableHashTable(tf.string, tf.string, ["", ""])
    session.run(words.insert(["k"], [["p", "q"]]))
    assert session.run(words.lookup(["k", "n"])).tolist() == [[b"p", b"q"], [b"", b""]]


def test_old_handles(session) -> None:
    keys = tf.constant(["a", "b"])
    static = build("HashTable", key_dtype=tf.string, value_dtype=tf.int64)
    assert static.dtype.name == "string_ref"
    session.run(build("InitializeTable", static, keys, np.int64([1, 2])))
    assert session.run(build("LookupTableFind", static, keys, np.int64(0))).tolist() == [1, 2]
    assert session.run(build("LookupTableSize", static)) == 2
    for kind in ("MutableHashTable", "MutableHashTableOfTensors"):
        table = build(kind, key_dtype=tf.string, value_dtype=tf.int64)
        session.run(build("LookupTableInsert", table, keys, np.int64([1, 2])))
        session.run(build("LookupTableImport", table, keys[:1], np.int64([7])))
        found = session.run(build("LookupTableExport", table, Tkeys=tf.string, Tvalues=tf.int64))
        assert (found[0].tolist(), found[1].tolist()) == ([b"a"], [7])
    dense = build("MutableDenseHashTable", np.int64(-1), value_dtype=tf.float32)
    session.run(build("LookupTableInsert", dense, np.int64([4]), np.float32([0.5])))
    assert session.run(build("LookupTableFind", dense, np.int64([4, 5]), np.float32(1))).tolist() == [0.5, 1]


def test_vector_keys_are_refused(session) -> None:
    with pytest.raises(NotImplementedError, match="scalar keys"):
        tf.contrib.lookup.MutableDenseHashTable(tf.int64, tf.int64, -1, empty_key=[0, 0], deleted_key=[1, 1])


def test_a_shared_name_is_one_table(session) -> None:
    tables = [tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, shared_name="t") for _ in range(2)]
    session.run(tables[0].insert(["a"], [1]))
    assert session.run(tables[1].lookup(["a"])).tolist() == [1]
    with tf.Session() as other:
        assert other.run(tables[1].lookup(["a"])).tolist() == [-1]


def test_order_within_a_step(session) -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, 0)
    before = table.lookup("k")
    with tf.control_dependencies([table.insert("k", before + 1)]):
        after = table.lookup("k")
    assert session.run([before, after]) == [0, 1]
    assert session.run([before, after]) == [1, 2]


def test_a_failed_step_changes_no_table(session) -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, 0)
    limit = tf.placeholder(tf.int64)
    session.run(table.insert(["a"], [1]))
    changes = [table.insert(["a", "b"], [5, 6])]
    with tf.control_dependencies(changes):
        changes.append(table.remove(["a"]))
    with tf.control_dependencies(changes):
        check = tf.Assert(table.size() < limit, ["too many"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        session.run([*changes, check], {limit: 0})
    assert [item.tolist() for item in session.run(table.export())] == [[b"a"], [1]]
    session.run([*changes, check], {limit: 5})
    assert [item.tolist() for item in session.run(table.export())] == [[b"b"], [6]]


def test_threads_lose_no_insert(session) -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.int64, tf.int64, -1)
    key = tf.placeholder(tf.int64, [])
    insert, size = table.insert(key, key), table.size()
    sizes = []

    def fill(start: int) -> None:
        for i in range(50):
            session.run(insert, {key: start + i})
            sizes.append(session.run(size))

    threads = [threading.Thread(target=fill, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.run(size) == 200
    assert session.run(table.lookup(np.int64([0, 149, 99, 349]))).tolist() == [0, 149, -1, 349]


# --------------------------------------------------------------------------------------------------------------- files
@pytest.fixture
def vocabulary(tmp_path) -> str:
    path = tmp_path / "words.txt"
    path.write_bytes(b"the\t10\r\nquick\t-3\nfox\t7\n")
    return str(path)


def test_tables_from_files(session, vocabulary) -> None:
    lookup = tf.contrib.lookup
    ids = lookup.HashTable(lookup.TextFileIdTableInitializer(vocabulary, key_column_index=0), -1)
    words = lookup.HashTable(lookup.TextFileStringTableInitializer(vocabulary, vocab_size=2), "UNK")
    columns = lookup.HashTable(
        lookup.TextFileInitializer(vocabulary, tf.string, 0, tf.int64, 1, delimiter="\t", vocab_size=3), 0
    )
    late = lookup.TextFileInitializer(vocabulary, tf.string, -2, tf.int64, -1, value_index_offset=5)
    session.run(tf.tables_initializer())
    later = lookup.HashTable(late, -1)
    session.run(later.init)
    assert session.run(later.lookup(["quick\t-3", "?"])).tolist() == [6, -1]
    assert session.run(ids.lookup(["fox", "dog"])).tolist() == [2, -1]
    assert session.run(words.lookup(np.int64([1, 2]))).tolist() == [b"quick\t-3", b"UNK"]
    assert session.run(columns.lookup(["the", "quick"])).tolist() == [10, -3]
    paths = tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
    assert [session.run(path) for path in paths] == [vocabulary.encode()] * 4
    old = build("HashTable", key_dtype=tf.string, value_dtype=tf.int64)
    session.run(build("InitializeTableFromTextFile", old, vocabulary, key_index=0, value_index=-1, offset=100))
    assert session.run(build("LookupTableFind", old, tf.constant(["quick"]), np.int64(0))).tolist() == [101]


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"a\nb\n", {"vocab_size": 3}, "expected 3 but got 2"),
        (b"a\n\nb\n", {}, "empty line found at line 2"),
        (b"a\tb\nc\n", {"key_index": 1}, r"line 1 \(c\) : expected at least 2 got 1"),
        (b"a\n", {"value_index": 0}, "Field a in line 0 of .* is not a valid int64"),
        (b"9999999999999999999\n", {"value_index": 0}, "is not a valid int64"),
        (b"a\n", {"delimiter": "ab"}, "Only single char delimiters are supported"),
        (b"a\n", {"key_dtype": dtypes.float32}, "Key index for whole line requires string or integer"),
        (b"a\n", {"value_dtype": dtypes.string}, "Value index for line number requires table value dtype of int64"),
    ],
)
def test_bad_files(tmp_path, content, arguments, message) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    full = {"key_dtype": dtypes.string, "value_dtype": dtypes.int64, "key_index": -2, "value_index": -1, **arguments}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        read_pairs(str(path).encode(), **full)


def test_missing_files(session, tmp_path) -> None:
    table = tf.contrib.lookup.index_table_from_file(str(tmp_path / "none"))
    with pytest.raises(tf.errors.NotFoundError, match="none; No such file or directory"):
        session.run(table.initializer)
    folder = tf.contrib.lookup.index_table_from_file(str(tmp_path))
    with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
        session.run(folder.initializer)


def test_numbers_in_files(tmp_path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"1 0.5 true\n-2 1e3 0")
    name = str(path).encode()
    read = lambda kd, vd, k, v: read_pairs(name, kd, vd, k, v, delimiter=" ")  # noqa: E731
    assert read(dtypes.int32, dtypes.float32, 0, 1) == [(1, 0.5), (-2, 1000.0)]
    assert read(dtypes.int64, dtypes.bool, 0, 2) == [(1, True), (-2, False)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not a valid bool"):
        read(dtypes.int64, dtypes.bool, 0, 1)


# -------------------------------------------------------------------------------------------------------- vocabularies
def test_index_tables(session, vocabulary) -> None:
    lookup = tf.contrib.lookup
    plain = lookup.index_table_from_file(vocabulary, key_column_index=0)
    buckets = lookup.index_table_from_file(vocabulary, num_oov_buckets=5, key_column_index=0)
    back = lookup.index_to_string_table_from_file(vocabulary, value_column_index=0)
    tensor = lookup.index_table_from_tensor(["x", "y"], num_oov_buckets=1, hasher_spec=lookup.StrongHashSpec([1, 2]))
    session.run(tf.tables_initializer())
    assert session.run(plain.lookup(["fox", "zebra"])).tolist() == [2, -1]
    known, other = session.run(buckets.lookup(["fox", "zebra"])).tolist()
    assert known == 2
    assert 3 <= other < 8
    assert session.run(buckets.size()) == 8
    assert session.run(back.lookup(np.int64([0, 5]))).tolist() == [b"the", b"UNK"]
    assert session.run(tensor.lookup(["y", "z", "x"])).tolist() == [1, 2, 0]
    numbers = lookup.index_table_from_tensor([30, 10], dtype=tf.int32, num_oov_buckets=2)
    session.run(numbers.initializer)
    found = session.run(numbers.lookup(tf.constant([10, 30, 5])))
    assert found.tolist()[:2] == [1, 0]
    assert found[2] in (2, 3)
    text = lookup.index_to_string(tf.constant([1, 9], tf.int64), ["p", "q"], "?")
    index = lookup.string_to_index(tf.constant(["q", "r"]), ["p", "q"])
    session.run(tf.tables_initializer())
    assert session.run(text).tolist() == [b"q", b"?"]
    assert session.run(index).tolist() == [1, -1]


def test_vocabulary_table(session) -> None:
    init = tf.lookup.KeyValueTensorInitializer(["a", "b"], np.int64([0, 1]))
    table = tf.lookup.StaticVocabularyTable(init, 3)
    only_hashes = tf.lookup.StaticVocabularyTable(None, 4, lookup_key_dtype=tf.int64)
    session.run([table.initializer, only_hashes.initializer])
    found = session.run(table.lookup(["b", "zz"]))
    assert found[0] == 1
    assert 2 <= found[1] < 5
    assert session.run(only_hashes.size()) == 4
    assert set(session.run(only_hashes.lookup(tf.range(50, dtype=tf.int64)))) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.index_table_from_file(""), ValueError, "vocabulary_file must be specified"),
        (lambda c: c.index_table_from_file("f", vocab_size=0), ValueError, "vocab_size must be greater than 0, got 0"),
        (lambda c: c.index_table_from_file("f", num_oov_buckets=-1), ValueError, "greater or equal than 0, got -1"),
        (lambda c: c.index_table_from_tensor(None), ValueError, "vocabulary_list must be specified"),
        (lambda c: c.index_table_from_tensor([1, 2]), ValueError, "Expected non-integer, got <dtype: 'int32'>"),
        (lambda c: c.index_table_from_tensor([1.0], dtype=tf.float32), TypeError, "Only integer and string keys"),
        (lambda c: c.IdTableWithHashBuckets(None, 0), ValueError, "oov_buckets must be > 0 if no table is supplied"),
        (lambda c: c.IdTableWithHashBuckets(None, 1, "md5"), TypeError, "must be of type HasherSpec"),
        (
            lambda c: c.IdTableWithHashBuckets(None, 1, c.HasherSpec("md5", None)).lookup(tf.constant(["a"])),
            ValueError,
            "Unknown hasher md5",
        ),
        (lambda c: c.StrongHashSpec([1]), ValueError, "key must have size 2"),
        (lambda c: c.StrongHashSpec([1, "a"]), TypeError, "Must be unsigned integer values"),
        (lambda c: c.TextFileInitializer("", tf.string, 0, tf.int64, 1), ValueError, "Filename required"),
        (lambda c: c.TextFileInitializer("f", tf.string, -1, tf.int64, 1), ValueError, "Keys must be dtype"),
        (lambda c: c.TextFileInitializer("f", tf.string, -3, tf.int64, 1), ValueError, "Invalid key index -3"),
        (lambda c: c.TextFileInitializer("f", tf.string, 0, tf.float32, -2), ValueError, "Values must be integer or"),
        (lambda c: c.TextFileInitializer("f", tf.string, 0, tf.int64, 1, 0), ValueError, "Invalid vocab_size 0"),
    ],
)
def test_arguments_that_are_refused(call, error, message) -> None:
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        call(tf.contrib.lookup)


# -------------------------------------------------------------------------------------------------------------- saving
def test_what_savers_ask_for(session) -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, name="t")
    tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, checkpoint=False)
    (saveable,) = tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)
    assert [spec.name for spec in saveable.specs] == ["t-keys", "t-values"]
    session.run(table.insert(["a", "b"], [1, 2]))
    kept = session.run([spec.tensor for spec in saveable.specs])
    session.run(table.insert(["a", "c"], [5, 6]))
    session.run(saveable.restore([tf.constant(kept[0]), tf.constant(kept[1])], None))
    assert session.run(table.lookup(["a", "b", "c"])).tolist() == [1, 2, -1]


# ------------------------------------------------------------------------------------------------------------ versions
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from(["set", "drop", "all", "look"]),
            st.lists(st.tuples(st.integers(0, 5), st.integers())),
        ),
        max_size=25,
    )
)
def test_versions_are_immutable(steps) -> None:
    """Any version may be read or followed at any time; a list of dictionaries is the model."""
    versions = [Table("MutableHashTable", "t", dtypes.int64, dtypes.int64, mutable=True)]
    models: list[dict[int, int]] = [{}]
    for start, doing, pairs in steps:
        at = start % len(versions)
        table, model = versions[at], dict(models[at])
        keys = [key for key, _ in pairs]
        if doing == "look":
            assert table.find(keys, None) == [model.get(key) for key in keys]
            assert table.size() == len(model)
            continue
        if doing == "set":
            new = table.with_entries(pairs)
            model.update(pairs)
        elif doing == "drop":
            new = table.without_keys(keys)
            for key in keys:
                model.pop(key, None)
        else:
            new = table.replaced(pairs)
            model = dict(pairs)
        versions.append(new)
        models.append(model)
    for table, model in zip(versions, models, strict=True):
        assert dict(zip(*table.entries(), strict=True)) == model


# -------------------------------------------------------------------------------------------------------------- hashes
def test_hashes_agree_with_tensorflow(session) -> None:
    golden = json.loads((GOLDEN / "string_hashes.json").read_text())
    words = tf.constant(golden["words"])
    for count, wanted in golden["buckets"].items():
        size = int(count)
        found = [
            tf.string_to_hash_bucket_fast(words, size),
            tf.string_to_hash_bucket_strong(words, size, [123, 2**63 - 5]),
            tf.string_to_hash_bucket(words, size),
        ]
        fast, strong, old = session.run(found)
        assert fast.tolist() == wanted["fast"]
        assert strong.tolist() == wanted["strong"]
        assert old.tolist() == wanted["old"]


def test_numbers_as_strings(session) -> None:
    def shown(value, **arguments):
        return [text.decode() for text in session.run(tf.as_string(value, **arguments)).ravel()]

    assert shown(np.int64([-3, 2**62])) == ["-3", str(2**62)]
    assert shown(np.float32([0.1, 1e10])) == ["0.100000", "10000000000.000000"]
    assert shown(np.float64([0.1, 1e10]), shortest=True) == ["0.1", "1e+10"]
    assert shown(np.float64([0.1]), scientific=True, precision=2) == ["1.00e-01"]
    assert shown(np.int32([7, -7]), width=4, fill="0") == ["0007", "-007"]
    assert shown(np.int32([7]), width=3) == ["  7"]
    assert shown([True, False]) == ["true", "false"]
    assert shown(np.complex64([1 + 2j])) == ["(1.000000,2.000000)"]
    assert shown(tf.constant(["x"])) == ["x"]
    for value, arguments, message in (
        (np.float32(1), {"scientific": True, "shortest": True}, "Cannot select both"),
        (np.float32(1), {"fill": "x"}, "Fill argument not supported"),
        (np.float32(1), {"fill": "xy"}, "Fill string must be one or fewer characters"),
        (1, {"precision": 3}, "precision not supported for datatype int32"),
        (1, {"shortest": True}, "scientific and shortest format not supported for datatype int32"),
        (True, {"width": 3}, "width not supported for datatype bool"),
    ):
        text = tf.as_string(value, **arguments)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(text)
