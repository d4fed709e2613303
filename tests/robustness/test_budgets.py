"""Inputs that expand to far more than they are: refused beyond the budget, read when that is raised."""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.cli import idx, saved_model_command
from anabranch.core.graph.build import build
from anabranch.core.values import budgets
from anabranch.formats import sstable
from anabranch.formats.records import framed

ROOT = Path(__file__).resolve().parents[2]
SIZE = 1 << 20
REFUSED = rf"(?s)budget for what one input expands to.*{budgets.VARIABLE}=\d+ in the environment"


def run(fetch):
    with tf.Session() as session:
        return session.run(fetch)


def file_of(tmp_path, data, name="file.gz"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(data))
    return str(path)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits=1, colour=0):
    """An image of one colour."""
    channels = {0: 1, 2: 3}[colour]
    row = bytes(1 + (width * bits * channels + 7) // 8)
    packer = zlib.compressobj(9)
    body = b"".join([packer.compress(row) for _ in range(height)]) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def decode_compressed(tmp_path):
    value = run(tf.decode_compressed([gzip.compress(bytes(SIZE)), gzip.compress(bytes(SIZE))], "GZIP"))
    return sum(map(len, value))


def decode_zlib(tmp_path):
    return len(run(tf.decode_compressed(zlib.compress(bytes(2 * SIZE)), "ZLIB")))


def records(tmp_path):
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)
    path = file_of(tmp_path, framed(b"small") + framed(bytes(2 * SIZE)))
    return sum(map(len, tf.python_io.tf_record_iterator(path, options)))


def record_reader(tmp_path):
    path = file_of(tmp_path, framed(bytes(2 * SIZE)))
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)
    queue = tf.FIFOQueue(1, [tf.string], [[]])
    _, record = tf.TFRecordReader(options=options).read(queue)
    with tf.Session() as session:
        session.run(queue.enqueue(path))
        return len(session.run(record))


def record_input(tmp_path):
    path = file_of(tmp_path, framed(bytes(2 * SIZE)))
    attrs = {"file_pattern": path, "compression_type": "GZIP", "batch_size": 1}
    return len(run(build("RecordInput", **attrs))[0])


def of_dataset(dataset):
    return len(run(dataset.make_one_shot_iterator().get_next()))


def record_dataset(tmp_path):
    return of_dataset(tf.data.TFRecordDataset(file_of(tmp_path, framed(bytes(2 * SIZE))), "GZIP"))


def line_dataset(tmp_path):
    return of_dataset(tf.data.TextLineDataset(file_of(tmp_path, b"x" * 2 * SIZE), "GZIP"))


def csv_dataset(tmp_path):
    path = file_of(tmp_path, b'"' + (b"x" * 99 + b"\n") * (SIZE // 50) + b'"\n')
    dataset = tf.data.experimental.CsvDataset(path, [tf.string], compression_type="GZIP")
    return len(run(dataset.make_one_shot_iterator().get_next())[0])


def csv_types(tmp_path):
    path = file_of(tmp_path, b",".join([b"%01000d" % i for i in range(SIZE // 500)]) + b"\n")
    return len(str(tf.data.experimental.make_csv_dataset(path, 1, compression_type="GZIP")))


def png_image(tmp_path):
    return run(tf.image.decode_png(png(1024, 1024))).size


def jpeg_image(tmp_path):
    image = io.BytesIO()
    pytest.importorskip("PIL.Image").new("L", (1024, 1536)).save(image, "JPEG")
    return run(tf.image.decode_jpeg(image.getvalue())).size


def progressive_image(tmp_path):
    image = io.BytesIO()
    pytest.importorskip("PIL.Image").new("L", (512, 512)).save(image, "JPEG", progressive=True)
    return run(tf.image.decode_jpeg(image.getvalue())).size


def gif_image(tmp_path):
    image, new = io.BytesIO(), pytest.importorskip("PIL.Image").new
    frames = [new("L", (128, 128), colour) for colour in range(64)]
    frames[0].save(image, "GIF", save_all=True, append_images=frames[1:])
    return run(tf.image.decode_gif(image.getvalue())).size


def constant(tmp_path):
    graph_def = tf.GraphDef()
    node = graph_def.node.add(name="c", op="Const")
    node.attr["dtype"].type = tf.float32.as_datatype_enum
    tensor = node.attr["value"].tensor
    tensor.dtype = tf.float32.as_datatype_enum
    tensor.tensor_shape.dim.add(size=SIZE)
    tensor.float_val.append(7.0)
    return run(tf.import_graph_def(graph_def, return_elements=["c:0"])[0]).size


def parsed_tensor(tmp_path):
    proto = tf.make_tensor_proto(7.0, shape=[SIZE])
    return run(tf.parse_tensor(proto.SerializeToString(), tf.float32)).size


def idx_file(tmp_path):
    name = "train-labels-idx1-ubyte.gz"
    return idx.read_idx(file_of(tmp_path, b"\0\0\x08\x01" + struct.pack(">I", 2 * SIZE) + bytes(2 * SIZE), name)).size


def npz_file(tmp_path):
    np.savez_compressed(tmp_path / "values.npz", x=np.zeros(2 * SIZE, np.uint8))
    return saved_model_command._from_file(f"{tmp_path}/values.npz:x").size


def table_keys(tmp_path):
    written = io.BytesIO()
    keys = [b"k" * 30_000 + b"%05d" % number for number in range(64)]
    sstable.RESTART_INTERVAL = 1 << 20
    try:
        sstable.write_table(((key, b"") for key in keys), written.write)
    finally:
        sstable.RESTART_INTERVAL = 16
    data = written.getvalue()
    assert len(data) < 200_000
    return len(list(sstable.Table(lambda offset, size: data[offset : offset + size], len(data), "table").items()))


@pytest.mark.parametrize(
    "read",
    [
        decode_compressed,
        decode_zlib,
        records,
        record_reader,
        record_input,
        record_dataset,
        line_dataset,
        csv_dataset,
        csv_types,
        png_image,
        jpeg_image,
        progressive_image,
        gif_image,
        constant,
        parsed_tensor,
        idx_file,
        npz_file,
        table_keys,
    ],
)
def test_what_expands_is_read_within_the_budget(read, tmp_path, monkeypatch):
    monkeypatch.setenv(budgets.VARIABLE, str(SIZE))
    with tf.Graph().as_default(), pytest.raises(tf.errors.ResourceExhaustedError, match=REFUSED):
        read(tmp_path)
    monkeypatch.delenv(budgets.VARIABLE)
    with tf.Graph().as_default():
        assert read(tmp_path) > 0


def test_files_that_are_not_compressed_have_no_budget(tmp_path, monkeypatch):
    monkeypatch.setenv(budgets.VARIABLE, "100")
    (tmp_path / "records").write_bytes(framed(bytes(1000)))
    (tmp_path / "lines").write_bytes(b"x" * 1000)
    with tf.Graph().as_default():
        assert [len(record) for record in tf.python_io.tf_record_iterator(str(tmp_path / "records"))] == [1000]
        assert of_dataset(tf.data.TextLineDataset(str(tmp_path / "lines"))) == 1000


def test_a_budget_is_a_number(monkeypatch):
    monkeypatch.setenv(budgets.VARIABLE, "1 GB")
    with pytest.raises(ValueError, match=r"(?s)ANABRANCH_MOST_EXPANDED='1 GB'.*a number of bytes"):
        budgets.most()


def test_a_block_compressed_with_snappy(monkeypatch):
    monkeypatch.setenv(budgets.VARIABLE, "100")
    with pytest.raises(tf.errors.ResourceExhaustedError, match=REFUSED):
        sstable.unsnapped(b"\xe8\x07\0a" + b"\xfe\x01\0" * 16, "table")  # 1000 bytes


IMAGE = """
import resource, sys
import anabranch as tf
data = sys.stdin.buffer.read()
with tf.Graph().as_default(), tf.Session() as session:
    small = tf.placeholder(tf.string, [])
    image = tf.image.decode_png(small)
    session.run(image, {small: open(sys.argv[1], "rb").read()})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shape = session.run(image, {small: data}).shape
    print(len(data), shape, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.multiprocess
def test_a_large_image_of_few_bytes_takes_what_its_pixels_take(tmp_path):
    pytest.importorskip("PIL")
    (tmp_path / "small.png").write_bytes(png(8, 8))
    program = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMAGE, str(tmp_path / "small.png")],
        input=png(8000, 8000),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=100,
        check=False,
    )
    assert program.returncode == 0, program.stderr.decode()
    size, rest = program.stdout.decode().split(" ", 1)
    assert int(size) < 10_000
    shape, grown = rest.rsplit(" ", 1)
    assert shape == "(8000, 8000, 1)"
    assert int(grown) < 240, "MiB; the pixels as Pillow keeps them, those returned, and a copy for the caller"
