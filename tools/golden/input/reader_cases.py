"""Programs with readers of files, and what they give, for TensorFlow and for Anabranch alike.

Each case is a reader, the files that it reads and how many records each call asks for. What it gives is a list: keys
and values, counts, and the class of each error, with the folder of the files cut off.
"""

import gzip
import os
import struct
import zlib


def _text(value):
    """Bytes as text that JSON can hold."""
    return value.decode("latin-1")


def _crc(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _records(*records):
    """The bytes of a TFRecord file."""
    parts = []
    for record in records:
        length = struct.pack("<Q", len(record))
        parts += [length, struct.pack("<I", _crc(length)), record, struct.pack("<I", _crc(record))]
    return b"".join(parts)


_THREE = _records(b"first", b"", b"the third")
_DAMAGED = bytearray(_THREE)
_DAMAGED[-6] ^= 1
_BAD_LENGTH = bytearray(_THREE)
_BAD_LENGTH[21] ^= 1

# name -> reader, its arguments, files (None: it is not there), records asked of a call (None: `read`)
CASES = {
    "lines": ("TextLineReader", {}, [b"one\ntwo\n\nfour\n", b"", b"no end"], None),
    "lines that end otherwise": ("TextLineReader", {}, [b"a\r\nb\rc\r\n\r\n", b"\n", b"\r"], None),
    "lines behind a header": ("TextLineReader", {"skip_header_lines": 2}, [b"h\nh\n1\n2", b"h\n", b"h\nh"], None),
    "lines by threes": ("TextLineReader", {}, [b"1\n2\n3\n4\n", b"", b"5\n6\n7\n", b"8"], 3),
    "lines of a missing file": ("TextLineReader", {}, [b"1\n", None, b"2\n"], None),
    "records": ("TFRecordReader", {}, [_THREE, b"", _records(b"x")], None),
    "records by twos": ("TFRecordReader", {}, [_THREE, b"", _records(b"x")], 2),
    "compressed records": ("TFRecordReader", {"options": "ZLIB"}, [zlib.compress(_THREE)], None),
    "gzipped records": ("TFRecordReader", {"options": "GZIP"}, [gzip.compress(_THREE)], None),
    "truncated record": ("TFRecordReader", {}, [_THREE[:-3], _records(b"x")], None),
    "truncated header of a record": ("TFRecordReader", {}, [_THREE[:25], _records(b"x")], None),
    "damaged record": ("TFRecordReader", {}, [bytes(_DAMAGED)], None),
    "damaged length": ("TFRecordReader", {}, [bytes(_BAD_LENGTH)], None),
    "records of a missing file": ("TFRecordReader", {}, [None, _records(b"x")], None),
    "whole files": ("WholeFileReader", {}, [b"contents", b"", b"\x00\xff"], None),
    "whole files by twos": ("WholeFileReader", {}, [b"contents", b"more", b"last"], 2),
    "identity": ("IdentityReader", {}, [b"not", b"looked", b"at"], None),
    "identity by twos": ("IdentityReader", {}, [b"not", b"looked", b"at"], 2),
    "fixed length": ("FixedLengthRecordReader", {"record_bytes": 3}, [b"aaabbbccc", b"", b"dddee"], None),
    "fixed length with all": (
        "FixedLengthRecordReader",
        {"record_bytes": 3, "header_bytes": 2, "footer_bytes": 1},
        [b"HHaaabbbF", b"HHcccF", b"HHdddeeeffF", b"HHggg"],
        None,
    ),
    "fixed length that overlaps": (
        "FixedLengthRecordReader",
        {"record_bytes": 4, "hop_bytes": 1, "header_bytes": 1, "footer_bytes": 1},
        [b"Habcdefg", b"Habcd"],
        None,
    ),
    "fixed length with gaps": (
        "FixedLengthRecordReader",
        {"record_bytes": 2, "hop_bytes": 5},
        [b"ab---cd---ef-", b"gh---i"],
        None,
    ),
    "fixed length by fours": ("FixedLengthRecordReader", {"record_bytes": 2}, [b"aabbccdd", b"eeffgg"], 4),
    "fixed length, header too long": (
        "FixedLengthRecordReader",
        {"record_bytes": 2, "header_bytes": 9},
        [b"short", b"123456789ab"],
        None,
    ),
    "fixed length gzipped": (
        "FixedLengthRecordReader",
        {"record_bytes": 2, "encoding": "GZIP", "header_bytes": 1, "footer_bytes": 1},
        [gzip.compress(b"HaabbccF")],
        None,
    ),
    "fixed length compressed": (
        "FixedLengthRecordReader",
        {"record_bytes": 2, "encoding": "ZLIB"},
        [zlib.compress(b"aabbcc")],
        None,
    ),
    "fixed length, negative header": ("FixedLengthRecordReader", {"record_bytes": 2, "header_bytes": -1}, [b"a"], None),
}
CALLS = 12
"""How often a reader is asked, at most."""
ERRORS = 2
"""After so many errors it is not asked again."""


def run(tf, case, folder):
    """What a case gives."""
    kind, arguments, files, count = CASES[case]
    arguments = dict(arguments)
    if "options" in arguments:
        compression = getattr(tf.python_io.TFRecordCompressionType, arguments["options"])
        arguments["options"] = tf.python_io.TFRecordOptions(compression)
    paths = []
    for number, contents in enumerate(files):
        paths.append(os.path.join(folder, str(number)))
        if contents is not None:
            with open(paths[-1], "wb") as file:
                file.write(contents)
    given = []
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(99, [tf.string], shapes=[()])
        reader = getattr(tf, kind)(**arguments)
        record = reader.read(queue) if count is None else reader.read_up_to(queue, count)
        counts = (reader.num_records_produced(), reader.num_work_units_completed())
        reset = reader.reset()
        session.run(queue.enqueue_many([paths]))
        session.run(queue.close())
        errors = 0
        for _ in range(CALLS):
            try:
                key, value = session.run(record)
                if count is None:
                    given.append([_text(key), _text(value)])
                else:
                    given.append([[_text(part) for part in key], [_text(part) for part in value]])
            except tf.errors.OpError as problem:
                given.append(type(problem).__name__)
                errors += 1
                if errors == ERRORS:
                    break
            try:
                given.append([int(number) for number in session.run(counts)])
            except tf.errors.OpError as problem:
                given.append(type(problem).__name__)
        try:
            session.run(reset)
            given.append([int(number) for number in session.run(counts)])
        except tf.errors.OpError as problem:
            given.append(type(problem).__name__)
    return [_without(folder, item) for item in given]


def _without(folder, item):
    if isinstance(item, list):
        return [_without(folder, part) for part in item]
    return item.replace(folder + os.sep, "") if isinstance(item, str) else item
