"""PNG files of 16 bits a channel and several channels; weights of grey as TensorFlow 1.15 has them."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.image import wide_png


def run(x):
    with tf.Session() as session:
        return session.run(x)


def pixels(channels):
    values = np.random.RandomState(channels).randint(0, 65536, (7, 9, channels)).astype(np.uint16)
    values[3] = values[2] + 1  # low bytes matter
    return values


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("compression", [-1, 0, 9])
def test_round_trips(channels, compression):
    image = pixels(channels)
    file = run(tf.image.encode_png(image, compression=compression))
    assert run(tf.image.decode_png(file, dtype=tf.uint16)).tolist() == image.tolist()
    assert run(tf.image.decode_png(file)).tolist() == (image >> 8).tolist()


def test_other_numbers_of_channels():
    image = pixels(4)
    file = run(tf.image.encode_png(image))
    assert run(tf.image.decode_png(file, 3, tf.uint16)).tolist() == image[..., :3].tolist()
    file = run(tf.image.encode_png(image[..., :3]))
    opaque = run(tf.image.decode_png(file, 4, tf.uint16))
    assert opaque[..., :3].tolist() == image[..., :3].tolist()
    assert (opaque[..., 3] == 65535).all()
    file = run(tf.image.encode_png(image[..., :2]))
    assert run(tf.image.decode_png(file, 1, tf.uint16)).tolist() == image[..., :1].tolist()
    assert run(tf.image.decode_png(file, 4, tf.uint16)).tolist() == image[..., [0, 0, 0, 1]].tolist()


def test_grey_of_colours():
    primary = np.array([[[65535, 0, 0], [0, 65535, 0], [0, 0, 65535]]], np.uint16)
    grey = run(tf.image.decode_png(tf.image.encode_png(primary), 1, tf.uint16))
    assert grey.ravel().tolist() == [19594, 38467, 7474]
    few = np.array([[[71, 48, 128], [138, 20, 0]]], np.uint8)
    assert run(tf.image.decode_png(tf.image.encode_png(few), 1)).ravel().tolist() == [64, 52]


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def file_of(image, rows, extra=b""):
    height, width, channels = image.shape
    begin = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    end = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", begin) + extra + end


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_rows_with_filters(channels):
    """Each row is the difference to the pixel on its left, or to the row above."""
    image = pixels(channels)
    data = image.astype(">u2").view(np.uint8).reshape(7, -1)
    rows = io.BytesIO()
    for i, row in enumerate(data):
        beside = np.concatenate([np.zeros(2 * channels, np.uint8), row[: -2 * channels]])
        before = beside if i % 2 == 0 else data[i - 1]
        rows.write(bytes([1 if i % 2 == 0 else 2]) + (row - before).tobytes())
    assert run(tf.image.decode_png(file_of(image, rows.getvalue()), dtype=tf.uint16)).tolist() == image.tolist()


def test_a_transparent_colour():
    image = pixels(3)
    image[1, 2] = [1, 2, 3]
    file = run(tf.image.encode_png(image))
    mark = chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3))
    marked = file[:33] + mark + file[33:]
    seen = run(tf.image.decode_png(marked, 4, tf.uint16))
    assert seen[..., :3].tolist() == image.tolist()
    assert np.argwhere(seen[..., 3] == 0).tolist() == [[1, 2]]


def test_what_is_no_such_file():
    assert not wide_png.is_wide(b"\x89PNG\r\n\x1a\n")
    assert not wide_png.is_wide(run(tf.image.encode_png(np.zeros((1, 1, 3), np.uint8))))
    file = run(tf.image.encode_png(pixels(3)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="ends early or is damaged"):
        run(tf.image.decode_png(file[:60], dtype=tf.uint16))


def test_files_are_as_small_as_those_of_libpng():
    """TensorFlow 1.15 writes 4372 and 82202 bytes for these images of 294912 and 115200."""
    ramp = np.repeat((np.indices((256, 192)).sum(0) * 100).astype(np.uint16)[:, :, None], 3, 2)
    y, x = np.indices((120, 160))
    waves = 20000 + 15000 * np.sin(y / 17.0) + 9000 * np.cos(x / 23.0 + y / 40.0)
    for image, size in ((ramp, 4372), ((waves[:, :, None] * [1, 0.8, 0.5]).astype(np.uint16), 82202)):
        file = wide_png.encoded(image)
        assert len(file) < 1.02 * size
        assert np.array_equal(run(tf.image.decode_png(file, dtype=tf.uint16)), image)
