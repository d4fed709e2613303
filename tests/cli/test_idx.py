"""Readers of MNIST's files: what they take, and what they say of files that are torn, foreign or missing."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from anabranch.cli import idx
from anabranch.core import errors


def encoded(array) -> bytes:
    """The IDX file of an array of bytes."""
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IMAGES = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "array", [IMAGES, np.arange(5), np.uint8(7), np.zeros((0, 28, 28))], ids=["3", "1", "0", "empty"]
)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_reads_what_was_written(tmp_path, array, compressed):
    path = tmp_path / ("file.gz" if compressed else "file")
    path.write_bytes(gzip.compress(encoded(array)) if compressed else encoded(array))
    found = idx.read_idx(path)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "starts with nothing"),
        (b"\x89PNG\r\n", "starts with 89504e47"),
        (b"\0\0\x0d\x01" + bytes(8), "starts with 00000d01"),  # floats
        (encoded(IMAGES)[:9], "9 bytes, less than its header"),
        (encoded(IMAGES)[:-1], r"23 bytes of data for shape \(2, 3, 4\)"),
        (encoded(IMAGES) + b"\0", r"25 bytes of data for shape \(2, 3, 4\)"),
    ],
    ids=["empty", "foreign", "floats", "header", "short", "long"],
)
def test_torn_files(tmp_path, content, said):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(errors.DataLossError, match=rf"file: .*{said}(.|\n)*an IDX file of unsigned bytes"):
        idx.read_idx(path)


def torn_gzip(where: int | None) -> bytes:
    """A gzip file cut in its middle, or with a byte of it turned over."""
    content = bytearray(gzip.compress(encoded(np.random.RandomState(0).randint(0, 9, (40, 40)))))
    if where is None:
        return bytes(content[: len(content) // 2])
    content[where] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [torn_gzip(None), torn_gzip(-6), torn_gzip(11), encoded(IMAGES)],
    ids=["cut", "checksum", "stream", "not compressed"],
)
def test_torn_gzip_files(tmp_path, content):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(errors.DataLossError, match=r"a gzip stream that does not decompress"):
        idx.read_idx(path)


def write_folder(folder, **changed):
    """A data set of 3 training and 2 test images, some of its files replaced; the test files are gzipped."""
    arrays = {
        "train_images": np.zeros((3, 4, 5)),
        "train_labels": np.arange(3),
        "test_images": np.ones((2, 4, 5)),
        "test_labels": np.arange(2),
    } | changed
    for name, array in arrays.items():
        if array is None:
            continue
        content = encoded(array)
        if name.startswith("test"):
            (folder / f"{idx.FILES[name]}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / idx.FILES[name]).write_bytes(content)


def test_reads_a_folder(tmp_path):
    write_folder(tmp_path)
    shapes = {name: array.shape for name, array in idx.read_folder(tmp_path).items()}
    assert shapes == {"train_images": (3, 4, 5), "train_labels": (3,), "test_images": (2, 4, 5), "test_labels": (2,)}


@pytest.mark.parametrize("name", list(idx.FILES))
def test_a_missing_file_is_named(tmp_path, name):
    write_folder(tmp_path, **{name: None})
    with pytest.raises(FileNotFoundError, match=rf"no {idx.FILES[name]}\(\.gz\) in (.|\n)*train-images-idx3-ubyte"):
        idx.read_folder(tmp_path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"train_labels": np.arange(4)}, r"train images of shape \(3, 4, 5\) with labels of shape \(4,\)"),
        ({"test_images": np.arange(2)}, r"test images of shape \(2,\) with labels of shape \(2,\)"),
        ({"test_labels": np.zeros((2, 1))}, r"test images of shape \(2, 4, 5\) with labels of shape \(2, 1\)"),
    ],
    ids=["numbers differ", "no images", "no labels"],
)
def test_files_that_do_not_belong_together(tmp_path, changed, said):
    write_folder(tmp_path, **changed)
    with pytest.raises(errors.DataLossError, match=rf"{said}(.|\n)*check that the files belong together"):
        idx.read_folder(tmp_path)
