"""Checkpoint files: what TensorFlow wrote is read, what is written is read again, what is damaged is told."""

from __future__ import annotations

import importlib.util
import os
import shutil
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from anabranch.core import errors
from anabranch.core.protos import tensor_bundle_pb2
from anabranch.core.values import dtypes
from anabranch.formats import bundle, checkpoint_v1, checkpoints, slices, sstable
from anabranch.formats.bundle_reader import BundleReader

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "checkpoints"
_spec = importlib.util.spec_from_file_location(
    "golden_checkpoints", ROOT / "tools" / "golden" / "graphs" / "checkpoints.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)


def pieces(values):
    return [bundle.Piece(name, "", _dtype(value), value) for name, value in values.items()]


def _dtype(array):
    return dtypes.string if array.dtype == object else dtypes.as_dtype(array.dtype)


def assert_same(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)


# ---------------------------------------------------------------------------------------------- files of TensorFlow
@pytest.mark.parametrize(("name", "kinds"), [("v2", recorder.NUMBERS), ("v1", recorder.OLD)])
def test_tensors_of_every_dtype_that_tensorflow_wrote(name, kinds):
    wanted = recorder.tensors(kinds)
    with checkpoints.open_checkpoint(str(GOLDEN / name)) as reader:
        assert set(reader.tensors) == set(wanted)
        for key, value in wanted.items():
            assert_same(reader.read(key), value)


def test_slices_that_tensorflow_wrote():
    whole, _ = recorder.parts()
    with checkpoints.open_checkpoint(str(GOLDEN / "v2_grid")) as reader:
        assert_same(reader.read("whole"), whole)
        assert_same(reader.read("whole", ((140, 20), (60, 8))), whole[140:160, 60:68])
        assert_same(reader.read("whole", ((150, 50), (0, 64))), whole[150:, :64])


@pytest.mark.parametrize("name", ["v2_sharded", "v1_sharded-?????-of-00003"])
def test_shards_that_tensorflow_wrote(name):
    small = recorder.parts()[0][:20, :7]
    with checkpoints.open_checkpoint(str(GOLDEN / name)) as reader:
        assert sorted(reader.tensors) == ["cut", "on_0", "on_1"]
        assert_same(reader.read("cut"), small)
        assert_same(reader.read("cut", ((3, 10), (0, -1))), small[3:13])
        assert_same(reader.read("on_1"), small + 1)


# --------------------------------------------------------------------------------------------------------- both ways
@pytest.mark.parametrize("version", ["V2", "V1"])
def test_what_is_written_is_read_again(tmp_path, version):
    values = recorder.tensors(recorder.NUMBERS if version == "V2" else recorder.OLD)
    prefix = str(tmp_path / "folder" / "model")
    checkpoints.write_checkpoint(version, prefix, pieces(values))
    with checkpoints.open_checkpoint(prefix) as reader:
        for key, value in values.items():
            assert_same(reader.read(key), value)
            assert reader.facts(key).shape == value.shape


def test_the_data_file_is_the_one_that_tensorflow_writes(tmp_path):
    bundle.write_bundle(str(tmp_path / "v2"), pieces(recorder.tensors()))
    name = "v2.data-00000-of-00001"
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()
    ours, theirs = (bundle.read_index(str(folder / "v2"))[0] for folder in (tmp_path, GOLDEN))
    assert [(key, entry.SerializeToString()) for key, entry in ours] == [
        (key, entry.SerializeToString()) for key, entry in theirs
    ]


@pytest.mark.parametrize("version", ["V2", "V1"])
@pytest.mark.parametrize("layout", ["rows", "grid"])
def test_slices_are_put_together(tmp_path, version, layout):
    whole, layouts = recorder.parts()
    prefix = str(tmp_path / "model")
    given = (
        [("whole", spec, dtypes.uint8, np.array(recorder.cut(whole, spec))) for spec in layouts["grid"]]
        if layout == "grid"
        else [
            ("whole", f"200 70 {start},{count}:-", dtypes.uint8, whole[start : start + count])
            for start, count in ((0, 67), (67, 67), (134, 66))
        ]
    )
    checkpoints.write_checkpoint(version, prefix, given)
    with checkpoints.open_checkpoint(prefix) as reader:
        assert_same(reader.read("whole"), whole)
        assert_same(reader.read("whole", ((10, 180), (3, 64))), whole[10:190, 3:67])
    found = checkpoints.read_checkpoint(prefix, [("whole", "200 70 0,1:-", None), ("whole", "200 70 199,1:69,1", None)])
    assert_same(found[0], whole[:1])
    assert_same(found[1], whole[199:, 69:])


def test_one_slice_of_everything_is_a_whole_tensor(tmp_path):
    prefix = str(tmp_path / "model")
    bundle.write_bundle(prefix, [bundle.Piece("w", "3 0,3", dtypes.int32, np.arange(3, dtype=np.int32))])
    with BundleReader(prefix) as reader:
        assert reader.facts("w").parts == ()
        assert_same(reader.read("w", ((1, 2),)), np.array([1, 2], np.int32))


def test_a_large_tensor_is_read_in_pieces(tmp_path):
    prefix = str(tmp_path / "model")
    value = np.random.default_rng(0).integers(0, 255, 20_000_001, np.uint8)
    bundle.write_bundle(prefix, pieces({"w": value, "after": np.float32(3) * np.ones(())}))
    with BundleReader(prefix) as reader:
        found = reader.read("w")
        assert_same(found, value)
        assert found.ctypes.data % 64 == 0
        assert reader.read("after") == 3


def test_values_of_the_other_byte_order(tmp_path, monkeypatch):
    prefix = str(tmp_path / "model")
    values = {"f": np.array([1.5, -2.0], np.float32), "h": np.array([0.5], ml_dtypes.bfloat16), "b": np.array([True])}
    swapped = {
        "f": values["f"].byteswap(),
        "h": values["h"].view(np.uint16).byteswap().view(ml_dtypes.bfloat16),
        "b": values["b"],
    }
    header = tensor_bundle_pb2.BundleHeaderProto
    monkeypatch.setattr(
        tensor_bundle_pb2,
        "BundleHeaderProto",
        lambda **fields: header(endianness=header.BIG, **fields),
    )
    bundle.write_bundle(prefix, pieces(swapped))
    monkeypatch.undo()
    with BundleReader(prefix) as reader:
        for key, value in values.items():
            assert_same(reader.read(key), value)


def test_several_shards_and_merging(tmp_path):
    a, b = np.arange(4, dtype=np.int64), np.array([b"x", b"yy"], object)
    bundle.write_bundle(str(tmp_path / "two"), pieces({"a": a}), pieces({"b": b}))
    assert sorted(os.listdir(tmp_path)) == ["two.data-00000-of-00002", "two.data-00001-of-00002", "two.index"]
    bundle.write_bundle(str(tmp_path / "m_temp" / "part-1"), pieces({"c": a}))
    bundle.write_bundle(str(tmp_path / "m_temp" / "part-2"), [bundle.Piece("p", "8 0,4", dtypes.int64, a)])
    bundle.write_bundle(str(tmp_path / "m_temp" / "part-3"), [bundle.Piece("p", "8 4,4", dtypes.int64, a + 4)])
    parts = [str(tmp_path / "m_temp" / f"part-{i}") for i in (1, 2, 3)]
    bundle.merge_bundles(parts, str(tmp_path / "m"))
    assert not (tmp_path / "m_temp").exists()
    with BundleReader(str(tmp_path / "m")) as reader:
        assert_same(reader.read("p"), np.arange(8))
        assert_same(reader.read("c"), a)
    bundle.merge_bundles([str(tmp_path / "two"), str(tmp_path / "m")], str(tmp_path / "all"), delete_old_dirs=False)
    with BundleReader(str(tmp_path / "all")) as reader:
        assert_same(reader.read("b"), b)
        assert_same(reader.read("p"), np.arange(8))
    assert sorted(os.listdir(tmp_path)) == [f"all.data-0000{i}-of-00005" for i in range(5)] + ["all.index"]


def test_merging_refuses_what_is_in_two(tmp_path):
    for name in "ab":
        bundle.write_bundle(str(tmp_path / name), pieces({"w": np.zeros(1)}))
    with pytest.raises(errors.InvalidArgumentError, match="'w' in two of the checkpoints"):
        bundle.merge_bundles([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "c"))
    with pytest.raises(errors.NotFoundError, match="Failed to find any matching files"):
        bundle.merge_bundles([str(tmp_path / "a"), str(tmp_path / "z")], str(tmp_path / "c"))
    bundle.merge_bundles([str(tmp_path / "a"), str(tmp_path / "z")], str(tmp_path / "c"), allow_missing_files=True)
    assert checkpoints.checkpoint_facts(str(tmp_path / "c")) == {"w": (dtypes.float64, (1,))}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([("w", "", 1), ("w", "", 2)], "Adding duplicate key: w"),
        ([("", "", 1)], "a tensor without a name"),
        ([("w", "2 0,1", np.zeros(2))], r"a tensor of shape \[2\] as '2 0,1'"),
        ([("w", "2 0,3", np.zeros(3))], "reaches outside a dimension of size 2"),
        ([("w", "2 x,3", np.zeros(3))], "is not 'start,length'"),
        ([("w", "2 0,1", np.zeros(1)), ("w", "2 0,1", np.zeros(1))], "slice 0,1 of 'w' twice"),
        ([("w", "2 0,1", np.zeros(1)), ("w", "3 1,1", np.zeros(1))], "saved whole, or as another shape"),
        ([("w", "", np.zeros(1)), ("w", "2 0,1", np.zeros(1))], "saved whole, or as another shape"),
    ],
)
def test_what_cannot_be_saved(tmp_path, given, told):
    prefix = str(tmp_path / "model")
    items = [bundle.Piece(name, spec, dtypes.float64, np.asarray(value, np.float64)) for name, spec, value in given]
    with pytest.raises(errors.InvalidArgumentError, match=told):
        bundle.write_bundle(prefix, items)
    assert os.listdir(tmp_path) == []


# ----------------------------------------------------------------------------------------------------------- damage
def damaged(tmp_path, change, name="v2.data-00000-of-00001"):
    for path in GOLDEN.glob("v2.*"):
        shutil.copy(path, tmp_path)
    target = tmp_path / name
    data = bytearray(target.read_bytes())
    target.write_bytes(bytes(change(data)))
    return str(tmp_path / "v2")


def test_a_flipped_bit_names_file_and_tensor(tmp_path):
    with BundleReader(str(GOLDEN / "v2")) as reader:
        entry = reader.facts("scope_0/float32").entry

    def flip(data):
        data[entry.offset + 5] ^= 1
        return data

    prefix = damaged(tmp_path, flip)
    with checkpoints.open_checkpoint(prefix) as reader:
        with pytest.raises(
            errors.DataLossError, match=r"v2\.data-00000-of-00001: checksum of tensor 'scope_0/float32'"
        ):
            reader.read("scope_0/float32")
        assert reader.read("scalar") == -2.5


def test_a_torn_data_file_names_file_and_tensor(tmp_path):
    prefix = damaged(tmp_path, lambda data: data[:-10])
    with checkpoints.open_checkpoint(prefix) as reader:
        told = r"v2\.data-00000-of-00001: tensor 'odd é name:0/.*it is cut off"
        for name in reader.tensors:
            with pytest.raises(errors.DataLossError, match=told) if name.startswith("odd") else nullcontext():
                reader.read(name)


def test_a_missing_data_file(tmp_path):
    prefix = damaged(tmp_path, lambda data: data)
    os.remove(prefix + ".data-00000-of-00001")
    with checkpoints.open_checkpoint(prefix) as reader, pytest.raises(errors.NotFoundError, match="'scalar' is in it"):
        reader.read("scalar")


def test_every_cut_of_an_index_is_told(tmp_path):
    size = (GOLDEN / "v2.index").stat().st_size
    for end in range(0, size, 7):
        prefix = damaged(tmp_path, lambda data, end=end: data[:end], "v2.index")
        with pytest.raises(errors.DataLossError, match=r"v2\.index: .*(bad magic number|table)"):
            checkpoints.open_checkpoint(prefix)


@pytest.mark.parametrize(("name", "every"), [("v2.index", 5), ("v2.data-00000-of-00001", 5), ("v1", 17)])
def test_no_flipped_byte_gets_through(tmp_path, name, every):
    kinds = recorder.OLD if name == "v1" else recorder.NUMBERS
    wanted = recorder.tensors(kinds)
    if name == "v1":
        shutil.copy(GOLDEN / "v1", tmp_path)
    data = (GOLDEN / name).read_bytes()
    lost = 0
    for at in range(0, len(data), every):

        def change(found, at=at):
            found[:] = data
            found[at] ^= 0x55
            return found

        if name == "v1":
            prefix = str(tmp_path / "v1")
            Path(prefix).write_bytes(bytes(change(bytearray(data))))
        else:
            prefix = damaged(tmp_path, change, name)
        try:
            with checkpoints.open_checkpoint(prefix) as reader:
                for key, value in wanted.items():
                    assert_same(reader.read(key), value)
        except errors.DataLossError as problem:
            lost += name.partition(".")[0] in problem.message
    # Only the bytes that nobody reads (the empty meta block, what pads the footer) may change unnoticed.
    assert lost > len(data) / every * 0.7


def test_an_index_that_lies_about_sizes_allocates_nothing(tmp_path):
    prefix = str(tmp_path / "model")
    bundle.write_bundle(prefix, pieces({"w": np.zeros(4, np.float32)}))

    def lie(**fields):
        items, count = bundle.read_index(prefix)
        changed = []
        for key, entry in items:
            for field, value in fields.items():
                if field == "shape":
                    del entry.shape.dim[:]
                    for length in value:
                        entry.shape.dim.add(size=length)
                else:
                    setattr(entry, field, value)
            changed.append((key, entry.SerializeToString()))
        header = tensor_bundle_pb2.BundleHeaderProto(num_shards=count)
        target = str(tmp_path / "lie")
        with open(bundle.index_name(target), "wb") as stream:
            sstable.write_table([(b"", header.SerializeToString()), *changed], stream.write)
        shutil.copy(bundle.data_name(prefix, 0, 1), bundle.data_name(target, 0, 1))
        with BundleReader(target) as reader:
            return reader.read("w")

    for fields, told in (
        ({"size": 1 << 50}, "should take"),
        ({"offset": 1}, "should take 16 bytes at 1"),
        ({"offset": -16}, "should take"),
        ({"shape": [1 << 40]}, "cannot take 16 bytes"),
        ({"shape": [0, 1 << 61]}, "cannot take 16 bytes"),
        ({"shape": [1 << 61, 0], "size": 0, "crc32c": bundle.mask(0)}, "of shape"),
        ({"shape": [-4]}, r"has the shape \[-4\]"),
        ({"shape": [1] * 65}, "has the shape"),
        ({"dtype": 77}, "unknown dtype, number 77"),
        ({"dtype": 7, "shape": [1 << 40]}, "strings of tensor 'w' cannot take 16 bytes"),
        ({"shard_id": 3}, "in shard 3 of 1"),
    ):
        with pytest.raises(errors.DataLossError, match=told):
            lie(**fields)


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (b"\xff" * 9 + b"\x7f", "the lengths of the strings of tensor 's' are damaged"),
        (b"\xff" * 9 + b"\x01", "checksum of the lengths of the strings"),
        (b"\xff" * 12, "the lengths of the strings of tensor 's' are damaged"),
    ],
)
def test_lengths_of_strings_that_no_integer_holds(tmp_path, length, told):
    prefix = str(tmp_path / "model")
    bundle.write_bundle(prefix, pieces({"s": np.array([b"a string that is long"], object)}))
    path = bundle.data_name(prefix, 0, 1)
    with open(path, "r+b") as stream:
        stream.write(length)
    with BundleReader(prefix) as reader, pytest.raises(errors.DataLossError, match=told):
        reader.read("s")


def test_integers_of_more_than_64_bits_are_refused():
    most = b"\xff" * 9 + b"\x01"
    assert sstable.take_varint(most, 0, len(most)) == ((1 << 64) - 1, 10)
    for damaged in (b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x7f"):
        with pytest.raises(ValueError, match="more than 64 bits"):
            sstable.take_varint(damaged, 0, len(damaged))


def test_keys_of_slices_sort_as_slices_do():
    starts = [0, 1, 63, 64, 65, 8191, 8192, 1 << 20, (1 << 20) + 1, 1 << 40]
    keys = [slices.key_of(b"w", ((start, 5),)) for start in starts]
    assert keys == sorted(keys)
    assert slices.key_of(b"w", ((0, -1),)).hex() == "00770001010180" + "7f"
    assert slices.key_of(b"a\0b\xff", ()).hex() == "006100ff62ff00000100"


def test_a_table_of_many_blocks():
    items = [(b"key%06d" % i, os.urandom(50)) for i in range(20_000)]
    data = bytearray()
    sstable.write_table(items, data.extend)
    table = sstable.Table(lambda offset, size: bytes(data[offset : offset + size]), len(data), "t")
    assert list(table.items()) == items
    assert table.find(b"key012345") == items[12345][1]
    assert table.find(b"key0123456") is None
    assert table.find(b"zzz") is None
    with pytest.raises(errors.DataLossError, match="t: not an sstable"):
        sstable.Table(lambda offset, size: b"", 0, "t")


def test_compressed_blocks():
    # "abcabcabcabc...": a literal of 3 bytes, then copies (kinds 1 and 2), then a long literal.
    data = bytes([112]) + bytes([2 << 2]) + b"abc" + bytes([(5 << 2) | 1, 3]) + bytes([(39 << 2) | 2, 3, 0])
    data += bytes([60 << 2, 59]) + b"x" * 60
    assert sstable.unsnapped(data, "t") == (b"abc" * 18)[:52] + b"x" * 60
    for bad in (data[:-1], bytes([5, 1, 9]), bytes([200]) + data[1:]):
        with pytest.raises(errors.DataLossError, match="t: damaged compressed block"):
            sstable.unsnapped(bad, "t")
    with pytest.raises(errors.ResourceExhaustedError, match="a compressed block of 5 bytes of the table t"):
        sstable.unsnapped(b"\xff\xff\xff\xff\x0f", "t")


def test_missing_tensors_are_told_together(tmp_path):
    with pytest.raises(errors.NotFoundError, match=r"Key a not found in checkpoint \(and 1 more: b"):
        checkpoints.read_checkpoint(str(GOLDEN / "v2"), [("a", "", None), ("scalar", "", None), ("b", "", None)])
    with pytest.raises(errors.InvalidArgumentError, match="expected dtype double does not equal original dtype float"):
        checkpoints.read_checkpoint(str(GOLDEN / "v2"), [("scalar", "", dtypes.float64)])
    with pytest.raises(errors.InvalidArgumentError, match=r"does not match the shape stored in checkpoint: \[200,70\]"):
        checkpoints.read_checkpoint(str(GOLDEN / "v2_grid"), [("whole", "200 71 -:-", None)])


def test_the_old_format_says_what_it_cannot_hold(tmp_path):
    with pytest.raises(errors.InvalidArgumentError, match="a tensor of float8_e5m2"):
        checkpoint_v1.write_v1(str(tmp_path / "m"), pieces({"w": np.zeros(1, ml_dtypes.float8_e5m2)}))
    assert os.listdir(tmp_path) == []


def test_a_reader_keeps_what_it_opened(tmp_path):
    prefix = str(tmp_path / "m")
    bundle.write_bundle(prefix, pieces({"w": np.zeros(3)}))
    with checkpoints.open_checkpoint(prefix) as reader:
        bundle.write_bundle(prefix, pieces({"w": np.ones(3)}))
        assert_same(reader.read("w"), np.zeros(3))
        with checkpoints.open_checkpoint(prefix) as newer:
            assert_same(newer.read("w"), np.ones(3))


def test_reading_while_checkpoints_replace_each_other(tmp_path):
    prefix = str(tmp_path / "m")
    bundle.write_bundle(prefix, pieces({"w": np.zeros(1000)}))
    done = threading.Event()

    def write():
        step = 0
        while not done.is_set():
            step += 1
            bundle.write_bundle(prefix, pieces({"w": np.full(1000, float(step))}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        last = 0.0
        until = time.monotonic() + 60
        while last < 20 and time.monotonic() < until:
            (found,) = checkpoints.read_checkpoint(prefix, [("w", "", None)])
            assert np.all(found == found[0])
            assert found[0] >= last
            last = found[0]
    finally:
        done.set()
        writer.join()
    assert last >= 20
