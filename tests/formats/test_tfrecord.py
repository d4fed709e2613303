"""Files of records: round trips, compression, damage, what TensorFlow wrote."""

from __future__ import annotations

import gzip
import os
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.formats import records

KINDS = ["", "ZLIB", "GZIP"]
RECORDS = [b"", b"a", b"\x00" * 300, bytes(range(256)) * 1000, b"end"]


def written(path, items, options=None):
    with tf.python_io.TFRecordWriter(path, options) as writer:
        for item in items:
            writer.write(item)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(tmp_path, kind):
    options = tf.python_io.TFRecordOptions(kind)
    path = written(tmp_path / "data", RECORDS, options)
    assert list(tf.python_io.tf_record_iterator(path, options)) == RECORDS
    assert list(tf.io.tf_record_iterator(os.fsencode(path), kind)) == RECORDS


def test_bytes_of_a_file(tmp_path):
    # The layout, written out by hand with a checksum of its own: Castagnoli's polynomial, bit by bit.
    def mask(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        crc ^= 0xFFFFFFFF
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", 3)
    assert written(tmp_path / "d", [b"abc"]).read_bytes() == length + mask(length) + b"abc" + mask(b"abc")


def test_what_tensorflow_wrote(tmp_path):
    # tf.io.TFRecordWriter of TensorFlow 2.21, records b"" and b"anabranch".
    path = tmp_path / "tf"
    path.write_bytes(
        bytes.fromhex("000000000000000029039807d8ea82a2090000000000000037f97139616e616272616e63688a09d927")
    )
    assert list(tf.python_io.tf_record_iterator(path)) == [b"", b"anabranch"]


def test_compressions_are_what_they_say(tmp_path):
    plain = written(tmp_path / "plain", RECORDS).read_bytes()
    for kind, undo in (("GZIP", gzip.decompress), ("ZLIB", zlib.decompress)):
        found = written(tmp_path / kind, RECORDS, tf.io.TFRecordOptions(kind, compression_level=9)).read_bytes()
        assert undo(found) == plain
        assert len(found) < len(plain)
    two = tmp_path / "two"
    two.write_bytes(gzip.compress(plain) + gzip.compress(plain))
    assert list(tf.python_io.tf_record_iterator(two, "GZIP")) == RECORDS * 2


def test_options():
    options = tf.python_io.TFRecordOptions
    numbers = tf.python_io.TFRecordCompressionType
    text = options.get_compression_type_string
    assert [text(None), text(""), text("GZIP"), text(options("ZLIB"))] == ["", "", "GZIP", "ZLIB"]
    assert [text(options(item)) for item in (numbers.NONE, numbers.ZLIB, numbers.GZIP, 2)] == [
        "",
        "ZLIB",
        "GZIP",
        "GZIP",
    ]
    with pytest.raises(ValueError, match='Not a valid compression_type: "LZ4"'):
        options("LZ4")
    with pytest.raises(ValueError, match="flush_mode=77"):
        options("GZIP", flush_mode=77)
    with pytest.raises(ValueError, match="window_bits=99"):
        tf.python_io.TFRecordWriter("unused", options("GZIP", window_bits=99))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_flushed_can_be_read(tmp_path, kind):
    path = tmp_path / "data"
    with tf.python_io.TFRecordWriter(path, kind) as writer:
        writer.write(b"first")
        writer.flush()
        assert next(tf.python_io.tf_record_iterator(path, kind)) == b"first"
        writer.write(b"second")
    assert list(tf.python_io.tf_record_iterator(path, kind)) == [b"first", b"second"]


@pytest.mark.parametrize("cut", [1, 11, 12, 13, 15, 16, 17])
def test_a_truncated_tail(tmp_path, cut):
    path = written(tmp_path / "data", [b"whole", b"x"])
    data = path.read_bytes()
    start = 16 + 5
    assert len(data) == start + 17
    path.write_bytes(data[: start + cut])
    found = tf.python_io.tf_record_iterator(path)
    assert next(found) == b"whole"
    if cut == 17:
        assert next(found) == b"x"
        assert list(found) == []
    else:
        with pytest.raises(tf.errors.DataLossError, match=rf"truncated record at 21 of .*data: {cut} of 1[27]? bytes"):
            next(found)


@pytest.mark.parametrize("kind", ["ZLIB", "GZIP"])
def test_a_truncated_compressed_file(tmp_path, kind):
    path = written(tmp_path / "data", [os.urandom(5000)] * 3, kind)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(tf.errors.DataLossError, match=r"data: the compressed data ends in its middle"):
        list(tf.python_io.tf_record_iterator(path, kind))


def test_damage_is_found_wherever_it_is(tmp_path):
    path = written(tmp_path / "data", [b"ab", b"cde"])
    good = path.read_bytes()
    for position in range(len(good)):
        data = bytearray(good)
        data[position] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(
            tf.errors.DataLossError, match=rf"corrupted record at {0 if position < 18 else 18} of .*data"
        ):
            list(tf.python_io.tf_record_iterator(path))


def test_a_length_is_not_believed(tmp_path):
    path = tmp_path / "data"
    length = struct.pack("<Q", 1 << 60)
    path.write_bytes(length + struct.pack("<I", records.masked_crc(length)) + b"little")
    with pytest.raises(tf.errors.DataLossError, match="truncated record at 0 of"):
        list(tf.python_io.tf_record_iterator(path))


def test_refusals(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="absent; No such file"):
        tf.python_io.tf_record_iterator(tmp_path / "absent")
    with pytest.raises(tf.errors.NotFoundError, match="No such file"):
        tf.python_io.TFRecordWriter(tmp_path / "no" / "folder")
    writer = tf.python_io.TFRecordWriter(tmp_path / "data")
    with pytest.raises(TypeError, match=r"SerializeToString"):
        writer.write(3)
    writer.close()
    writer.close()
    with pytest.raises(tf.errors.FailedPreconditionError, match="previously closed"):
        writer.write(b"late")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told():
    writer = tf.python_io.TFRecordWriter("/dev/full")
    writer.write(b"x" * 10)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
        writer.flush()
    with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
        writer.close()


@given(data=st.binary(max_size=200), cut=st.integers(0, 200), place=st.integers(0, 400), value=st.integers(0, 255))
def test_whatever_a_file_holds(tmp_path_factory, data, cut, place, value):
    """Bytes of any kind, or a good file with one byte changed and an end cut off: records of it, or a DataLossError."""
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    whole = records.framed(data) + records.framed(data[::-1])
    changed = bytearray(whole)
    changed[place % len(whole)] = value
    for content in (data, bytes(changed)[: len(whole) - cut % len(whole)]):
        path.write_bytes(content)
        for kind in KINDS:
            found = []
            try:
                for record in tf.python_io.tf_record_iterator(path, kind):
                    found.append(record)
            except tf.errors.DataLossError:
                pass
            assert found == [data, data[::-1]][: len(found)]


@pytest.mark.slow
@settings(max_examples=4000)
@given(st.binary(max_size=2000))
def test_whatever_compressed_data_holds(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzzed_long"
    for content in (data, zlib.compress(data), gzip.compress(data), gzip.compress(data)[:-3]):
        path.write_bytes(content)
        for kind in KINDS:
            try:
                assert list(tf.python_io.tf_record_iterator(path, kind)) == []
            except tf.errors.DataLossError:
                continue
            assert not content or (kind and not data)
